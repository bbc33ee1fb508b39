"""What the README shows, on a model that was never trained: its words are nonsense, its shapes are not."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

import groundling
from groundling import inference
from groundling.errors import GroundlingError
from groundling.inference import evidence, loading
from groundling.regions.fingerprints import IMPORTED
from groundling.regions.store import Store, Writer
from groundling.tensors import Regions

NOUNS = ("dog", "ball")
WORDS = [*NOUNS, "a", "with", "red"]


@pytest.fixture(scope="module")
def model(folder: Path) -> groundling.GroundedCaptioner:
    return groundling.load(folder)


def talkative(model: groundling.GroundedCaptioner, picture: Path) -> groundling.GroundedCaption:
    """A caption with a link, drawn: greedily an untrained model may say no noun at all."""
    drawn = (model.caption(picture, inference.Sampling(seed=seed)) for seed in range(50))
    return next(caption for caption in drawn if caption.links)


def test_every_link_is_a_noun_with_a_box_inside_the_picture(model: groundling.GroundedCaptioner, picture: Path) -> None:
    caption = talkative(model, picture)
    assert caption.id == "a photo" and caption.media == str(picture) and caption.size == (120, 90)
    for link in caption:
        left, top, right, bottom = link.box
        assert caption.word(link) in NOUNS and 0 <= left < right <= 120 and 0 <= top < bottom <= 90


def test_the_drawing_is_the_picture_with_coloured_boxes_and_a_strip_below(
    model: groundling.GroundedCaptioner, picture: Path
) -> None:
    caption = talkative(model, picture)
    drawn, bare = groundling.draw(picture, caption), groundling.draw(picture, replace(caption, links=()))
    assert drawn.width == 640 and drawn.height > 480
    assert drawn.tobytes() != bare.tobytes()


def test_a_path_and_its_image_get_the_same_caption(model: groundling.GroundedCaptioner, picture: Path) -> None:
    with Image.open(picture) as image:
        assert model.caption(image).text == model.caption(picture).text


def test_a_beam_is_never_less_likely_than_greedy(model: groundling.GroundedCaptioner, picture: Path) -> None:
    wide = inference.BeamSearch(beam=len(WORDS) ** 3)
    assert model.caption(picture, wide).logp >= model.caption(picture).logp - 1e-4


def test_restrictions_hold_without_a_beam_too(model: groundling.GroundedCaptioner, picture: Path) -> None:
    tokens = model.caption(picture, inference.BeamSearch(no_repeat=1, min_length=5)).tokens
    assert len(tokens) == len(set(tokens)) == 5


def test_by_default_no_word_comes_twice_in_a_row_and_no_two_words_come_twice(
    model: groundling.GroundedCaptioner, picture: Path
) -> None:
    assert inference.BeamSearch().no_repeat == 2
    tokens = model.caption(picture, inference.BeamSearch(min_length=6)).tokens
    pairs = list(zip(tokens, tokens[1:], strict=False))
    assert len(pairs) > 2 and len(set(pairs)) == len(pairs) and all(one != other for one, other in pairs)


def test_a_seed_decides_what_is_drawn(model: groundling.GroundedCaptioner, picture: Path) -> None:
    texts = [model.caption(picture, inference.Sampling(seed=seed)).text for seed in (1, 1, 2, 3, 4)]
    assert texts[0] == texts[1] and len(set(texts)) > 1


def test_a_batch_says_what_each_of_its_images_says_alone(model: groundling.GroundedCaptioner, picture: Path) -> None:
    images = [Image.open(picture), Image.new("RGB", (50, 50), "green")]
    together = model.generate(Regions.stack([model.regions(image) for image in images]), ["0", "1"], ["", ""])
    assert [caption.text for caption in together] == [model.caption(image).text for image in images]


def test_evidence_is_how_likely_the_noun_alone_is_there(folder: Path, looking: Path, picture: Path) -> None:
    caption = talkative(groundling.load(folder, grounder=looking), picture)
    grounder = inference.load_grounder(looking)
    for link in caption:
        cosine = grounder.rank(grounder.regions(picture), [[caption.word(link)]]).similarity.max()
        assert link.evidence == pytest.approx((float(cosine) + 1) / 2, abs=1e-5)


def test_evidence_comes_from_all_regions_of_the_grounder_however_few_the_captioner_sees(
    folder: Path, looking: Path, picture: Path
) -> None:
    """As it was calibrated: the best of fewer regions would fit less well, and true words would look made up."""
    captioner, grounder = groundling.load(folder, grounder=looking), inference.load_grounder(looking)
    few = captioner.model.recipe.changed(regions_per_image=2)
    caption = talkative(
        inference.GroundedCaptioner(replace(captioner.model, recipe=few), captioner.device, captioner.reranker), picture
    )
    regions = grounder.regions(picture)
    for link in caption:
        likely = [
            grounder.evidence([caption.word(link)], grounder.rank(some, [[caption.word(link)]]).similarity, None)[0]
            for some in (regions, regions.first(2))
        ]
        assert link.evidence == pytest.approx(likely[0], abs=1e-5) != pytest.approx(likely[1], abs=1e-5)


def test_evidence_is_the_same_in_a_batch_and_unknown_without_calibration(
    folder: Path, looking: Path, picture: Path, tmp_path: Path
) -> None:
    captioner = groundling.load(folder, grounder=looking)
    images = [Image.new("RGB", (50, 50), "green"), Image.open(picture)]
    batch = Regions.stack([captioner.regions(image) for image in images])
    decoding = inference.BeamSearch(no_repeat=1, min_length=5)  # all five words, so both nouns
    alone = [captioner.caption(image, decoding) for image in images]
    for one, other in zip(captioner.generate(batch, ["", ""], ["", ""], decoding), alone, strict=True):
        assert [link.evidence for link in one] == pytest.approx([link.evidence for link in other], abs=1e-5)
    shutil.copytree(looking, tmp_path / "new", ignore=shutil.ignore_patterns(evidence.CALIBRATION))
    caption = groundling.load(folder, grounder=tmp_path / "new").caption(picture, decoding)
    assert caption.links and all(link.evidence is None for link in caption)


def test_without_a_path_the_weights_of_the_package_are_loaded(
    folder: Path, looking: Path, picture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "SHIPPED", tmp_path)
    for load in (groundling.load, inference.load_grounder):
        with pytest.raises(GroundlingError, match="no weights in .* install groundling from its wheel"):
            load()
    for name in ("everyday", "flickr8k"):
        shutil.copytree(folder, tmp_path / name / "captioner")
        shutil.copytree(looking, tmp_path / name / "grounder")
    shipped, named = groundling.load(), groundling.load(folder, grounder=looking)
    assert groundling.load("flickr8k").caption(picture) == named.caption(picture)
    assert shipped.caption(picture) == named.caption(picture)
    assert inference.load_grounder().ground(picture, phrases=["dog"]) == inference.load_grounder(looking).ground(
        picture, phrases=["dog"]
    )


@pytest.mark.parametrize("parameters", [{"count": None}, {"count": "many"}, {"wings": 2}])
def test_parameters_that_a_source_cannot_take_are_told(
    model: groundling.GroundedCaptioner, parameters: dict[str, object]
) -> None:
    with pytest.raises(GroundlingError, match="scenes"):
        loading.source_of(replace(model.model.fingerprint, parameters=parameters))


def test_regions_of_a_store_are_captioned_as_those_made_on_the_fly(
    model: groundling.GroundedCaptioner, picture: Path, tmp_path: Path
) -> None:
    with Writer(tmp_path / "store", model.model.fingerprint) as writer:
        writer.add("x", model.regions(picture))
    [caption] = model.caption(["x"], regions=Store.open(tmp_path / "store"))
    assert caption.id == "x" and caption.text == model.caption(picture).text


def test_a_model_of_imported_regions_asks_for_a_store(model: groundling.GroundedCaptioner, picture: Path) -> None:
    imported = replace(model.model.fingerprint, name="butd36", version=IMPORTED)
    captioner = inference.GroundedCaptioner(replace(model.model, fingerprint=imported), torch.device("cpu"))
    with pytest.raises(GroundlingError, match=r"imported regions \(butd36\): give --regions STORE"):
        captioner.caption(picture)


def test_a_device_that_is_not_there_is_told(folder: Path) -> None:
    with pytest.raises(GroundlingError, match="cannot use the device nowhere"):
        groundling.load(folder, device="nowhere")


@pytest.mark.parametrize("wrong", [{"beam": 0}, {"no_repeat": -1}, {"length_penalty": -0.5}])
def test_a_search_that_makes_no_sense_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(GroundlingError):
        inference.BeamSearch(**wrong)


@pytest.mark.parametrize("wrong", [{"temperature": 0}, {"top_k": -1}, {"top_p": 0}, {"top_p": 1.5}])
def test_a_draw_that_makes_no_sense_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(GroundlingError):
        inference.Sampling(**wrong)


def test_evidence_of_all_nouns_is_known_before_a_word_is_chosen(folder: Path, looking: Path, picture: Path) -> None:
    """As that of links: (cosine + 1) / 2 of the best region; words that are no nouns have log 1."""
    captioner, grounder = groundling.load(folder, grounder=looking), inference.load_grounder(looking)
    regions, vocab = captioner.regions(picture), captioner.model.vocab
    assert captioner.reranker is not None and captioner.grounder is not None and captioner.grounder.calibration
    known = captioner.reranker.log_evidence(captioner.reranker.features(regions))
    assert known is not None and known.shape == (1, len(vocab))
    for word, value in zip(vocab.words, known[0].tolist(), strict=True):
        cosine = float(grounder.rank(regions, [[word]]).similarity.max()) if word in NOUNS else 1.0
        assert math.exp(value) == pytest.approx((cosine + 1) / 2, abs=1e-5)


def test_captions_without_weight_of_evidence_are_those_of_the_captioner_alone(
    model: groundling.GroundedCaptioner, folder: Path, looking: Path, picture: Path
) -> None:
    beside = groundling.load(folder, grounder=looking)
    for seed in range(5):
        for off in (
            inference.BeamSearch(seed + 1, evidence_weight=0),
            inference.Sampling(seed=seed, evidence_weight=0),
        ):
            alone, caption = model.caption(picture, off), beside.caption(picture, off)
            assert (caption.tokens, caption.logp) == (alone.tokens, alone.logp)


def test_the_noun_that_the_image_supports_is_chosen(folder: Path, looking: Path, picture: Path, tmp_path: Path) -> None:
    """The calibration is planted: the noun of which the grounder finds more has evidence 1, the other the least."""
    regions = groundling.load(folder).regions(picture)
    cosine = inference.load_grounder(looking).rank(regions, [[noun] for noun in NOUNS]).similarity.amax(1).tolist()
    there, absent = (NOUNS[i] for i in sorted((0, 1), key=lambda i: -cosine[i]))
    planted = shutil.copytree(looking, tmp_path / "planted")
    about = {"format": evidence.FORMAT, "calibration": {"x": sorted(cosine), "p": [0, 1]}}
    (planted / evidence.CALIBRATION).write_text(json.dumps(about))
    captioner = groundling.load(folder, grounder=planted)
    chosen, before = (
        [captioner.caption(picture, inference.Sampling(seed=seed, evidence_weight=w)).tokens for seed in range(40)]
        for w in (5, 0)
    )
    assert any(absent in tokens for tokens in before)
    assert not any(absent in tokens for tokens in chosen) and any(there in tokens for tokens in chosen)


def test_evidence_counts_only_where_the_grounder_is_calibrated(
    folder: Path, looking: Path, picture: Path, tmp_path: Path
) -> None:
    bare = shutil.copytree(looking, tmp_path / "bare")
    (bare / evidence.CALIBRATION).unlink()
    captioner = groundling.load(folder, grounder=bare)
    assert captioner.reranker is not None and captioner.grounder is not None
    assert captioner.grounder.calibration is None
    assert captioner.reranker.log_evidence(captioner.reranker.features(captioner.regions(picture))) is None
    assert captioner.caption(picture).tokens == groundling.load(folder).caption(picture).tokens
    for lacking in (captioner, groundling.load(folder)):
        with pytest.raises(GroundlingError, match="needs a calibrated grounder"):
            lacking.caption(picture, inference.BeamSearch(evidence_weight=1))
