"""Nouns by image classes: sums by hand, which nouns give way, and the package's networks on a photo."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import groundling
from groundling.cli import main
from groundling.inference.naming import SOURCE, _with_noun, renamed
from groundling.inference.pointing import spans_of
from groundling.regions.eight_bits import unpacked
from groundling.regions.sources._image_classes import class_nouns, memberships
from groundling.tensors import Regions
from groundling.types import GroundedCaption, Link

PHOTOS = Path(groundling.__file__).parent / "serve" / "photos"
WHOLE, PART = (0.0, 0.0, 100.0, 80.0), (10.0, 10.0, 60.0, 70.0)


def said(text: str, *nouns: str, evidence: float | None = 0.5) -> GroundedCaption:
    """A caption whose first noun is at PART; all others are everywhere."""
    tokens = tuple(text.split())
    spans = spans_of(tokens)
    at = [tokens.index(noun) for noun in nouns]
    links = [Link(t, spans[t], WHOLE if i else PART, 0.9, evidence=evidence) for i, t in enumerate(at)]
    return GroundedCaption("1", text, tokens, spans, tuple(links), size=(100, 80))


def by_classes(caption: GroundedCaption, noun: str, part: float, whole: float) -> GroundedCaption:
    """Renamed, where the classifier finds a noun in PART and in the whole image so likely."""
    classes = np.zeros((2, len(class_nouns()[0])), np.float32)
    classes[:, class_nouns()[0].index(noun)] = whole, part
    return renamed(caption, np.array([WHOLE, PART]), np.zeros(2, np.int64), classes)


# ---------------------------------------------------------------- numbers


def test_a_noun_has_the_sum_of_its_classes() -> None:
    """Classes 0 and 3 are butterflies: 0.1 + 0.4; class 2 is a squirrel: 0.3."""
    members = memberships({"butterfly": [0, 3], "squirrel": [2]}, 4)
    assert np.array([0.1, 0.2, 0.3, 0.4]) @ members == pytest.approx([0.5, 0.3])


def test_whole_numbers_are_multiplied_by_the_scale_of_their_channel() -> None:
    """(127, -1) · 0.5 and (2, 0) · 0.25; a bias stays."""
    packed = {"a.weight": np.array([[127, -1], [2, 0]], np.int8), "a.weight.scale": np.array([0.5, 0.25], np.float32)}
    state = unpacked(packed | {"a.bias": np.array([3.0], np.float32)})
    assert state["a.weight"].tolist() == [[63.5, -0.5], [0.5, 0.0]]
    assert state["a.bias"].tolist() == [3.0]
    assert set(state) == {"a.weight", "a.bias"}


def test_both_runtimes_say_the_same_of_regions() -> None:
    pytest.importorskip("onnxruntime")
    from groundling.regions.sources._features import ClassNetwork
    from groundling.regions.sources._image_classes import ClassesOnnx
    from groundling.regions.sources._pooling import box_weights

    early = np.random.default_rng(1).normal(0, 2, (1, 120, 6, 8)).astype(np.float32)
    boxes = np.array([[0, 0, 1, 1], [0.1, 0.2, 0.6, 0.9]], np.float32)
    with torch.inference_mode():
        theirs = ClassNetwork()(torch.from_numpy(early), boxes).numpy()
    onnx = ClassesOnnx()
    ours = onnx.regions(onnx.cells(early), box_weights(boxes, 3, 4))
    assert ours == pytest.approx(theirs, abs=1e-4)
    assert ours.max() > 0.01
    assert (ours.sum(1) <= 1.0001).all()


def test_the_nouns_of_the_package() -> None:
    names, kinds = class_nouns()
    assert {"squirrel": "animal", "espresso": "food", "palace": "building"}.items() <= dict(
        zip(names, kinds, strict=True)
    ).items()
    assert not {"dog", "cat", "bird", "pizza"} & set(names)  # left to captioners


# ---------------------------------------------------------------- words


def test_a_bird_becomes_a_squirrel() -> None:
    caption = by_classes(said("a bird on a tree branch", "bird", "tree"), "squirrel", part=0.9, whole=0.7)
    assert caption.text == "a squirrel on a tree branch"
    assert [caption.word(link) for link in caption] == ["squirrel", "tree"]
    squirrel, tree = caption.links
    assert (squirrel.source, squirrel.evidence, squirrel.box) == (SOURCE, pytest.approx(0.9), PART)
    assert (tree.source, tree.evidence) == ("", 0.5)


@pytest.mark.parametrize(
    ("text", "old", "noun", "new"),
    [
        ("two birds in the water", "birds", "goose", "two geese in the water"),
        ("a bird in a tree", "bird", "owl", "an owl in a tree"),
        ("an elephant in a field", "elephant", "hippo", "a hippo in a field"),
        ("a brown and white cat", "cat", "monkey", "a brown and white monkey"),
        ("a black bear on a rock", "bear", "ape", "a black ape on a rock"),
    ],
)
def test_number_article_and_colours_are_right(text: str, old: str, noun: str, new: str) -> None:
    assert by_classes(said(text, old), noun, part=0.9, whole=0.9).text == new


@pytest.mark.parametrize(
    ("text", "old", "noun"),
    [
        ("a man in a field", "man", "monkey"),  # people stay
        ("a teddy bear on a bed", "bear", "monkey"),  # one noun
        ("a hot dog on a plate", "dog", "pig"),
        ("a plate of food", "food", "pretzel"),
        ("a truck on a road", "truck", "squirrel"),  # another kind
        ("a rooster in a yard", "rooster", "chicken"),  # says more already
    ],
)
def test_other_nouns_stay(text: str, old: str, noun: str) -> None:
    caption = said(text, old, evidence=0.9)
    assert by_classes(caption, noun, part=0.9, whole=0.9) is caption


def test_evidence_of_the_captioners_noun_counts_only_where_it_is_contradicted() -> None:
    assert by_classes(said("a dog", "dog", evidence=0.99), "lion", part=1, whole=1).text == "a dog"
    assert by_classes(said("a dog", "dog", evidence=None), "lion", part=1, whole=1).text == "a dog"
    assert by_classes(said("a dog", "dog", evidence=0.85), "lion", part=1, whole=1).text == "a lion"
    assert by_classes(said("a bird", "bird", evidence=0.99), "eagle", part=1, whole=1).text == "an eagle"
    assert by_classes(said("a giraffe", "giraffe", evidence=0.9), "leopard", part=1, whole=1).text == "a giraffe"


def test_what_is_unlikely_in_the_region_or_in_the_image_is_not_said() -> None:
    for part, whole in ((0.6, 0.9), (0.9, 0.2)):
        assert by_classes(said("a dog", "dog"), "lion", part, whole).text == "a dog"


def test_a_caption_of_other_things_becomes_a_close_up() -> None:
    vase = said("a vase of flowers on a table", "vase", "flowers", evidence=0.3)
    caption = by_classes(vase, "butterfly", part=1.0, whole=0.8)
    assert caption.text == "a close up of a butterfly"
    [link] = caption
    assert (caption.word(link), link.box, link.evidence, link.source) == ("butterfly", PART, pytest.approx(0.8), SOURCE)
    sure = said("a vase of flowers on a table", "vase", "flowers", evidence=0.8)
    assert by_classes(sure, "butterfly", part=1.0, whole=0.8) is sure


def test_without_classes_nothing_changes() -> None:
    caption = said("a bird", "bird")
    assert renamed(caption, np.array([WHOLE]), np.zeros(1, np.int64), None) is caption


def test_a_region_of_each_frame_is_asked() -> None:
    """0.9 in one frame and 0.3 in the other are 0.6 in the clip."""
    names = class_nouns()[0]
    caption = said("a bird", "bird")
    caption = GroundedCaption(
        **{**vars(caption), "links": (*caption.links, Link(1, (2, 6), PART, 0.9, frame=1, evidence=0.5)), "frames": 2}
    )
    classes = np.zeros((4, len(names)), np.float32)
    boxes, frame = np.array([WHOLE, WHOLE, PART, PART]), np.array([0, 1, 0, 1])
    classes[:, names.index("owl")] = 0.9, 0.9, 0.9, 0.3
    assert renamed(caption, boxes, frame, classes).text == "a bird"
    classes[3, names.index("owl")] = 0.9
    assert renamed(caption, boxes, frame, classes).text == "an owl"


def test_where_a_word_comes_from_is_written_and_read() -> None:
    caption = by_classes(said("a bird on a tree", "bird", "tree"), "squirrel", part=0.9, whole=0.7)
    row = json.loads(json.dumps(caption.to_dict()))
    assert [link.get("source") for link in row["links"]] == [SOURCE, None]
    assert [link.source for link in GroundedCaption.from_dict(row)] == [SOURCE, ""]


def test_regions_keep_their_classes_when_joined() -> None:
    few, more = (
        Regions.of(torch.ones(n, 2), torch.ones(n, 4), (9, 9), classes=torch.full((n, 3), 0.5)) for n in (1, 2)
    )
    assert Regions.stack([few, more]).classes is not None
    assert torch.equal(Regions.stack([few, more]).first(1).classes, torch.full((2, 1, 3), 0.5))  # type: ignore[arg-type]
    assert Regions.stack([few, Regions.of(torch.ones(1, 2), torch.ones(1, 4), (9, 9))]).classes is None


# ---------------------------------------------------------------- the package


@pytest.mark.parametrize("runtime", ["onnx", "torch"])
def test_the_package_tells_an_espresso(runtime: str) -> None:
    pytest.importorskip("cv2")
    pytest.importorskip("onnxruntime")
    caption = groundling.load(runtime=runtime).caption(PHOTOS / "coffee.jpg")
    [link] = [link for link in caption if link.source]
    assert (caption.word(link), link.source) == ("espresso", SOURCE)
    assert "coffee" not in caption.text
    assert link.evidence is not None
    assert link.evidence > 0.9


def test_the_command_may_leave_it_out(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("cv2")
    assert main(["caption", str(PHOTOS / "coffee.jpg"), "--json", "--no-image-classes"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert "coffee" in row["caption"]
    assert not any("source" in link for link in row["links"])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("two sheep in a field", "two goats in a field"),
        ("a herd of sheep", "a herd of goats"),
        ("a sheep in a field", "a goat in a field"),
        ("a white sheep in a field", "a white goat in a field"),
        ("sheep in a field", "goats in a field"),
    ],
)
def test_a_noun_that_has_one_form_for_one_and_many_is_read_by_what_is_before_it(before: str, after: str) -> None:
    words = before.split()
    assert " ".join(_with_noun(words, words.index("sheep"), "goat")) == after
