"""Captions by onnxruntime: graphs by hand, the search and the pointing as torch's, and the package's weights."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import groundling
from groundling.cli import main
from groundling.decoding import Constraints
from groundling.errors import GroundlingError
from groundling.inference import BeamSearch, DecodingSettings, Sampling
from groundling.inference.choosing import _drawn, choose_words
from groundling.inference.engine import _phrases
from groundling.inference.loading import SHIPPED
from groundling.inference.networks import LIKELY, _likely_logits
from groundling.models.grounder import Grounder
from groundling.regions.graphs import Graph, _varint
from groundling.types import EOS, PAD, Example

pytest.importorskip("onnxruntime")
from groundling.regions.graphs import Session  # noqa: E402

Array = NDArray[Any]
PHOTOS = Path(groundling.__file__).parent / "serve" / "photos"
CAPTIONER, GROUNDER = (SHIPPED / "everyday" / name for name in ("captioner", "grounder"))


@pytest.fixture(scope="module")
def both() -> tuple[groundling.GroundedCaptioner, groundling.GroundedCaptioner]:
    """The package's captioner on onnxruntime, and on torch."""
    pytest.importorskip("cv2")
    return groundling.load(runtime="onnx"), groundling.load(runtime="torch")


# ---------------------------------------------------------------- graphs


def test_numbers_are_written_seven_bits_at_a_time() -> None:
    assert (_varint(1), _varint(127), _varint(300)) == (b"\x01", b"\x7f", b"\xac\x02")


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_a_graph_computes_what_was_written(kind: type) -> None:
    """(1, 2) [[3, 4], [5, 6]]ᵀ + (10, 20) = (3 + 8 + 10, 5 + 12 + 20), halved and bounded at 15."""
    graph = Graph("by hand")
    y = graph.linear(graph.input("x", "rows", 2), np.array([[3, 4], [5, 6]], kind), np.array([10, 20], np.float32))
    halved = graph.add("Mul", y, graph.constant(np.float32(0.5)))
    graph.output(graph.add("Min", halved, graph.constant(np.float32(15))), "y", "rows", 2)
    session = Session(graph.to_bytes())
    assert session({"x": np.array([[1, 2]], np.float32)})[0].tolist() == [[10.5, 15.0]]
    assert session.signature == {"inputs": {"x": ["rows", 2]}, "outputs": {"y": ["rows", 2]}}


@pytest.mark.parametrize("linked", [False, True])
def test_logits_of_likely_words_are_exact_and_those_of_others_nearly(linked: bool) -> None:
    """Of 1,000 words: the largest differ from each other as W h + b + link says, the others by less than 0.3."""
    draw = np.random.default_rng(0)
    w = {"logits.weight": draw.normal(0, 0.5, (1000, 64)).astype(np.float16)}
    w["logits.bias"] = draw.normal(0, 1, 1000).astype(np.float32)
    h, link = np.tanh(draw.normal(0, 2, (3, 64))).astype(np.float32), draw.normal(0, 2, (3, 1000)).astype(np.float32)
    graph = Graph("logits")
    added = graph.input("link", "rows", 1000) if linked else ""
    graph.output(_likely_logits(graph, graph.input("h", "rows", 64), w, added), "logits", "rows", 1000)
    [found] = Session(graph.to_bytes())({"h": h} | ({"link": link} if linked else {}))
    expected = h @ w["logits.weight"].astype(np.float32).T + w["logits.bias"] + (link if linked else 0)
    order = np.argsort(-expected, 1)[:, : LIKELY // 2]  # nearly equal ones may be in the other half, or out of it
    likely, theirs = (np.take_along_axis(x, order, 1) for x in (found, expected))
    np.testing.assert_allclose(likely - likely[:, :1], theirs - theirs[:, :1], atol=1e-4)
    apart = (found - expected) - (found - expected).mean(1, keepdims=True)
    assert 0.001 < np.abs(apart).max() < 0.3
    ours, logp = (x - np.log(np.exp(x).sum(1, keepdims=True)) for x in (found, expected))
    ours, logp = (np.take_along_axis(x, order, 1) for x in (ours, logp))
    np.testing.assert_allclose(ours, logp, atol=2e-3)


def test_onnxruntime_reports_to_nobody_and_writes_nothing(tmp_path: Path) -> None:
    """It would, by default: then it leaves a file of its session where temporary files are."""
    code = "from groundling.regions.graphs import Graph, Session; g = Graph('g'); x = g.input('x', 1)\n"
    code += "g.output(g.add('Relu', x), 'y', 1); Session(g.to_bytes())\n"
    code += "import os; assert os.environ['ORT_DISABLE_TELEMETRY'] == '1'"
    quiet = ("CI", "ORT_", "GITHUB_", "PYTEST_")  # by which it would tell a test from people
    here = {name: value for name, value in os.environ.items() if not name.startswith(quiet)}
    here |= {"TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=here, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- words and phrases


@pytest.mark.parametrize(
    "settings",
    [
        BeamSearch(),
        BeamSearch(no_repeat=0),
        BeamSearch(3, no_repeat=0),
        BeamSearch(4, length_penalty=0.7, no_repeat=2, min_length=3),
        BeamSearch(2, no_repeat=1, min_length=20),
        BeamSearch(3, no_repeat=0, repeat_nouns=True),
        BeamSearch(3, evidence_weight=0.8),
        Sampling(seed=1),
        Sampling(0.5, seed=2**40 + 7, evidence_weight=2.0),
        Sampling(2.0, top_k=3, seed=3),
        Sampling(1.5, top_p=0.6, seed=4),
        Sampling(1.2, top_k=5, top_p=0.9, seed=5),
    ],
)
def test_words_are_those_that_torch_chooses(settings: DecodingSettings) -> None:
    """Captions of a chain, in which the word before decides what is likely: eight images at once. What is drawn is the
    same, too: both draw the same numbers."""
    from test_decoding import random_chain

    from groundling.tensors import EncodedImage

    chain = random_chain(images=8, vocab=9, seed=3, ends=-1.0)
    chain.logits = chain.logits.float()  # torch draws other numbers in double precision
    encoded = chain.encoded()
    nouns = tuple(word in (4, 6) for word in range(9))
    evidence = torch.rand(8, 9, generator=torch.Generator().manual_seed(0)).log()
    expected = settings.decode(chain, encoded, 7, Constraints(torch.tensor(nouns), evidence, 5))

    def step(tokens: Array, images: Array, state: tuple[Array, ...]) -> tuple[Array, Array, tuple[Array, ...]]:
        rows: EncodedImage = encoded[torch.from_numpy(images)]
        logp, glimpse, after = chain.step(torch.from_numpy(tokens), rows, tuple(map(torch.from_numpy, state)))
        return logp.float().numpy().copy(), glimpse.attn.numpy(), tuple(x.numpy() for x in after)

    state = tuple(x.numpy() for x in chain.start(encoded))
    chosen = choose_words(step, state, 7, settings, nouns, 5, evidence.numpy())
    for n, one in enumerate(chosen):
        words = [word for word in expected.tokens[n].tolist() if word != PAD]
        assert list(one.words) == words
        np.testing.assert_allclose(one.logps, expected.logp[n, : len(words)], atol=1e-5)
        np.testing.assert_allclose(np.stack(one.attn), expected.attn[n, : len(words)], atol=1e-6)


def test_a_word_is_drawn_where_the_sums_exceed_the_share() -> None:
    """The first numbers of the Mersenne Twister with seed 5489 are 3499211612 and 581869302, whose lowest 24 bits are
    0.5693 and 0.6821 of all: of 0.5, 0.1, 0.4 that is the second word (sums 0.5, 0.6, 1), then the third."""
    p = np.array([[0.5, 0.1, 0.4], [0.5, 0.1, 0.4]], np.float32)
    assert _drawn(p, np.random.RandomState(5489)).tolist() == [1, 2]


def test_phrases_are_those_of_the_grounder() -> None:
    """Nouns are 5, 7 and 9: "4 5 5" is a phrase, of "6 4 6 7" the last three words are, and nothing is read twice."""
    nouns = tuple(i in (5, 7, 9) for i in range(10))
    assert _phrases([4, 5, 5, 9], nouns) == [((4, 5, 5, 9), [1, 2, 3])]
    assert _phrases([6, 4, 6, 7, 8, 5], nouns) == [((4, 6, 7), [3]), ((8, 5), [5])]
    grounder = Grounder(10, 4, joint=4, embed=4, hidden=4, layers=1, nouns=nouns)
    draw = np.random.default_rng(0)
    for _ in range(50):
        ids = draw.integers(3, 10, int(draw.integers(1, 30))).tolist()
        theirs = grounder.phrases_in(torch.tensor([[*ids, EOS, 5]]))
        found = [tuple(w for w in row if w != PAD) for row in theirs.words.tolist()]
        assert [phrase for phrase, _ in _phrases(ids, nouns)] == found


# ---------------------------------------------------------------- the package's weights


def assert_close(one: Any, other: Any) -> None:
    """Equal, numbers to rounding: those of JSON have four digits, and log-probabilities are to 1 in 2,000."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            if key == "logp":
                assert one[key] == pytest.approx(other[key], rel=5e-4)
            else:
                assert_close(one[key], other[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_close(a, b)
    else:
        assert one == (pytest.approx(other, abs=2e-3) if isinstance(one, float) else other)


@pytest.mark.parametrize(
    "settings",
    [
        BeamSearch(),
        BeamSearch(3, length_penalty=0.5, min_length=6),
        BeamSearch(evidence_weight=0.4),
        Sampling(seed=3),  # of 24 seeds some draw a number that rounding puts on the other side of a word: not these
        Sampling(0.5, seed=5),
        Sampling(top_k=20, evidence_weight=0.3),
    ],
)
def test_captions_boxes_evidence_and_attention_are_those_of_torch(
    both: tuple[groundling.GroundedCaptioner, groundling.GroundedCaptioner], settings: DecodingSettings
) -> None:
    ours, theirs = both
    files = sorted(PHOTOS.glob("*.jpg"))
    captions = list(ours.caption(files, settings))
    for one, other in zip(captions, theirs.caption(files, settings), strict=True):
        assert_close(one.to_dict(), other.to_dict())
        assert all(link.evidence is not None for link in one.links)
    assert any(one.links for one in captions)


def test_a_clip_and_a_captioner_alone_are_as_with_torch(tmp_path: Path) -> None:
    pytest.importorskip("cv2")
    for number, name in enumerate(("cat", "coffee")):
        shutil.copy(PHOTOS / f"{name}.jpg", tmp_path / f"{number}.jpg")
    ours, theirs = (groundling.load(CAPTIONER, runtime=runtime) for runtime in ("onnx", "torch"))
    clip = Example("clip", str(tmp_path), (0, 0))
    caption = ours.caption(clip)
    assert caption.frames == 2 and caption.links
    assert_close(caption.to_dict(), theirs.caption(clip).to_dict())


def test_regions_that_are_known_get_the_same_captions(
    both: tuple[groundling.GroundedCaptioner, groundling.GroundedCaptioner],
) -> None:
    """As a server and a store give them: of several images at once, padded."""
    from groundling.tensors import Regions

    ours, theirs = both
    few = theirs.regions(PHOTOS / "coffee.jpg").first(20)
    seen = Regions.stack([theirs.regions(PHOTOS / "cat.jpg"), few])
    expected = theirs.generate(seen, ["a", "b"], ["", ""])
    for one, other in zip(ours.generate(seen, ["a", "b"], ["", ""]), expected, strict=True):
        assert_close(one.to_dict(), other.to_dict())
    seen.valid[1] = False
    first, second = ours.generate(seen, ["a", "b"], ["", ""])
    assert first.links and second.links == ()


def test_signature_and_words_are_those_of_torch(
    both: tuple[groundling.GroundedCaptioner, groundling.GroundedCaptioner],
) -> None:
    ours, theirs = both
    assert ours.signature == theirs.signature
    assert ours.model.length == ours.length and ours.groundable.class_of == theirs.groundable.class_of


def test_evidence_while_words_are_chosen_needs_a_grounder() -> None:
    with pytest.raises(GroundlingError, match="needs a calibrated grounder"):
        groundling.load(CAPTIONER, runtime="onnx").caption(PHOTOS / "cat.jpg", BeamSearch(evidence_weight=1))


def test_phrases_are_found_where_torch_finds_them(
    both: tuple[groundling.GroundedCaptioner, groundling.GroundedCaptioner],
) -> None:
    """Boxes, scores and evidence, with colours, of photos and of a clip; and which words fit each region."""
    from dataclasses import replace

    from groundling.images import open_image, small_copy
    from groundling.inference.engine import arrays
    from groundling.inference.inputs import with_pixels
    from groundling.regions.media import of_frames

    ours, theirs = (one.grounder for one in both)
    assert ours is not None and theirs is not None
    source = both[1].source
    pictures = [open_image(PHOTOS / f"{name}.jpg") for name in ("cat", "astronaut")]
    seen = [with_pixels(source(picture), picture) for picture in pictures]
    pairs = [(replace(arrays(x)[0], picture=small_copy(y)), x) for x, y in zip(seen, pictures, strict=True)]
    clip = of_frames(seen)
    for one, other in [*pairs, (arrays(clip)[0], clip)]:
        asked = "a brown cat and a woman in an orange suit, a blue shirt and trousers before a gadgetry and two flags"
        for a, b in zip(ours.ground_regions(one, asked), theirs.ground_regions(other, asked), strict=True):
            assert_close(a.to_dict(), b.to_dict())
        for grounder, regions in ((ours, one), (theirs, other)):
            shirt, thing = (grounder.locate(regions, [["shirt"]], [noun]) for noun in ("shirt", "flag"))
            count = shirt.similarity.shape[1]
            same = np.allclose(shirt.overlap[:, :count], thing.overlap)
            assert same == (regions is pairs[0][0] or regions is pairs[0][1])  # a garment, where there is a person
            assert grounder.colour(regions, ("orange",), "orange") is None  # of which thing?
        words = ("cat", "woman", "flag")
        np.testing.assert_allclose(ours.word_fit(one, words), theirs.word_fit(other, words), atol=1e-5)


def test_features_words_and_the_map_are_those_of_the_network_in_torch(
    both: tuple[groundling.GroundedCaptioner, groundling.GroundedCaptioner],
) -> None:
    """The source as it was before onnxruntime: means over boxes of the torch network's map, to 1e-4 of the greatest."""
    from groundling.images import open_image
    from groundling.inference.captioner import OnnxCaptioner
    from groundling.regions.sources._features import absence, box_means, load_word_backbone, pixels
    from groundling.regions.sources._photos_files import MAP_SIDE, WORKING_SIDE
    from groundling.regions.sources._pooling import fit
    from groundling.types import WORD_DEVIATION, WORD_MEAN

    assert isinstance(both[0], OnnxCaptioner)
    words = load_word_backbone()
    for path in sorted(PHOTOS.glob("*.jpg")):
        picture = open_image(path)
        found = both[0].engine.source.complete(picture)
        with torch.inference_mode():
            grid = words.network.late(words.network.early(pixels(fit(picture), WORKING_SIDE)))[0]
            unseen = absence(words.cells(grid)).clamp(min=1e-6).log()
            coarse = torch.nn.functional.adaptive_avg_pool2d(grid[None], MAP_SIDE)[0].flatten(1).T
        seen = words.seen(box_means(grid.numpy(), found.boxes / np.array([*picture.size] * 2, np.float32)))
        close = partial(np.testing.assert_allclose, atol=1e-4 * np.abs(seen).max())
        close(found.feats[:, : seen.shape[1]], seen)
        close(found.grid, words.seen(coarse.numpy()))
        close(found.whole[-len(unseen) :], (unseen.numpy() - WORD_MEAN) / WORD_DEVIATION)


def test_the_source_of_photos_has_what_captions_see_with_labels_and_the_map(
    both: tuple[groundling.GroundedCaptioner, groundling.GroundedCaptioner],
) -> None:
    """Of boxes that the source chooses, of a box that is given, and of a clip."""
    from groundling.images import open_image
    from groundling.inference.captioner import OnnxCaptioner
    from groundling.regions import media
    from groundling.regions.sources._photos_onnx import of_frames

    assert isinstance(both[0], OnnxCaptioner)
    ours, theirs = both[0].engine.source, both[1].source
    pictures = [open_image(path) for path in sorted(PHOTOS.glob("*.jpg"))]
    box = np.array([[20, 30, 150, 120]], np.float32)
    pairs = [(ours.complete(picture), theirs(picture)) for picture in pictures]
    pairs += [(of_frames([one for one, _ in pairs]), media.of_frames([other for _, other in pairs]))]
    pairs += [(ours.at(picture, box), theirs.at(picture, box)) for picture in pictures]  # type: ignore[attr-defined]
    for one, other in pairs:
        np.testing.assert_allclose(one.boxes, other.boxes[0], atol=1e-3)
        np.testing.assert_array_equal(one.frame, other.frame[0])
        np.testing.assert_array_equal(one.labels, other.labels[0])
        np.testing.assert_allclose(one.scores, other.scores[0], atol=1e-4)
        np.testing.assert_allclose(one.feats, other.feats[0], atol=1e-4)
        assert other.whole is not None
        np.testing.assert_allclose(one.whole, other.whole[0], atol=1e-4)
    plain = ours(pictures[0])
    assert plain.labels.size == 0 and plain.grid is None  # captions need neither


def test_images_that_are_looked_at_together_have_the_numbers_of_each_alone(
    both: tuple[groundling.GroundedCaptioner, groundling.GroundedCaptioner], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone, an image has the help of other threads; beside another it has none, and waits for nobody."""
    from groundling.images import open_image
    from groundling.inference.captioner import OnnxCaptioner

    assert isinstance(both[0], OnnxCaptioner)
    source, picture = both[0].engine.source, open_image(PHOTOS / "cat.jpg")
    with ThreadPoolExecutor(2) as others:
        monkeypatch.setattr(source, "_others", others)
        alone = source.complete(picture)
    with source._helpers() as helpers:
        assert helpers is others  # which has ended: whoever asked it for anything would fail
        beside = source.complete(picture)
    for name in ("feats", "boxes", "whole", "labels", "scores", "classes"):
        np.testing.assert_array_equal(getattr(alone, name), getattr(beside, name))
    with pytest.raises(RuntimeError):
        source.complete(picture)


def test_photos_are_captioned_where_there_is_no_torch(tmp_path: Path) -> None:
    """The command, in a process in which torch and spaCy cannot be imported."""
    pytest.importorskip("cv2")
    code = "import sys; sys.modules['torch'] = sys.modules['spacy'] = None\nfrom groundling.cli import main\n"
    code += "sys.exit(main(sys.argv[1:]))"
    out = tmp_path / "captions.jsonl"
    words = [sys.executable, "-c", code, "caption", str(PHOTOS), "--out", str(out), "--coco-boxes", str(tmp_path / "b")]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(out.read_text().splitlines()) == 4


def test_a_file_that_cannot_be_read_is_told_in_its_turn(
    both: tuple[groundling.GroundedCaptioner, groundling.GroundedCaptioner], tmp_path: Path
) -> None:
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"no picture")
    files, told = [PHOTOS / "cat.jpg", bad, PHOTOS / "coffee.jpg"], []
    captions = both[0].caption(files, on_error=lambda id, error: told.append((id, str(error))))
    assert [caption.id for caption in captions] == ["cat", "coffee"]
    assert [id for id, _ in told] == ["bad"] and str(bad) in told[0][1]


# ---------------------------------------------------------------- which models


def test_other_models_need_torch_and_say_so(folder: Path) -> None:
    with pytest.raises(GroundlingError, match="onnxruntime"):
        groundling.load(folder, runtime="onnx")
    with pytest.raises(GroundlingError, match="runtime is one of"):
        groundling.load(folder, runtime="tpu")
    assert type(groundling.load(folder)) is groundling.GroundedCaptioner


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    shutil.copytree(CAPTIONER, tmp_path / "model")
    path = tmp_path / "model" / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 64
    path.write_bytes(content)
    with pytest.raises(GroundlingError, match="model.safetensors"):
        groundling.load(tmp_path / "model")


def test_export_writes_graphs_that_run_and_what_they_need(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "onnx", "--out", str(tmp_path / "graphs")]) == 0
    about = json.loads((tmp_path / "graphs" / "about.json").read_text())
    names = {"network", "projection", "encoder", "step", "regions", "phrases"}
    assert {path.stem for path in (tmp_path / "graphs").glob("*.onnx")} == names == about["graphs"].keys()
    words = about["grounder"]["words"]
    ids = np.array([[words.index("dog"), words.index("cat")]])
    read = Session((tmp_path / "graphs" / "phrases.onnx").read_bytes())
    [vectors] = read({"words": ids, "absent": np.zeros((1, 2, 1), np.float32)})
    theirs = groundling.load_grounder().embed([["dog"], ["cat"]])
    np.testing.assert_allclose(vectors, theirs.numpy(), atol=1e-5)


def test_export_refuses_other_models(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "onnx", "--model", str(folder), "--out", str(tmp_path / "graphs")]) == 2
    assert "holds no captioner that becomes ONNX graphs" in capsys.readouterr().err


def test_arrays_of_a_clip_are_limited_as_tensors_are() -> None:
    """At most 2 regions of each frame, of which the first has one and the second five."""
    from groundling.inference.engine import _first, arrays
    from groundling.tensors import Regions

    frame = torch.tensor([[0, 1, 2, 1, 2, 1, 2, 1, 1]])
    boxes = torch.tensor([[0.0, 0, 4, 4]]).expand(9, 4)
    clip = Regions.of(torch.arange(18.0).view(9, 2), boxes, (8, 8), whole=torch.zeros(2), frame=frame[0])
    few, cut = clip.of_each_frame(2), _first(arrays(clip)[0], 2)
    assert cut.frame.tolist() == few.frame[few.valid].tolist() == [0, 1, 2, 1, 2]
    assert cut.feats.tolist() == few.feats[few.valid].tolist() and len(cut.boxes) == 5
