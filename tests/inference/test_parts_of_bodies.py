"""Where parts of bodies are: boxes around joints, by hand, and that the network's joints put them where they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from PIL import Image

import groundling
from groundling.boxes import iou_of_arrays
from groundling.images import open_image
from groundling.inference import load_grounder
from groundling.inference.bodies import (
    NEAR,
    PARTS,
    PERSONS,
    SOFTER,
    WEIGHT,
    Bodies,
    bodies_in,
    heads,
    placed,
    with_parts,
)
from groundling.inference.inputs import with_pixels
from groundling.inference.loading import can_find_joints
from groundling.inference.phrases import Cues, places
from groundling.inference.pointing import spans_of
from groundling.types import GroundedCaption, Link, WordAttention

ASTRONAUT = Path(groundling.__file__).parent / "serve" / "photos" / "astronaut.jpg"
FACE, HAIR, SUIT = (165, 45, 285, 190), (155, 15, 302, 180), (22, 190, 370, 512)  # as people would draw them


def standing(x: float = 100) -> np.ndarray:
    """(19, 2): a person whose trunk is 46 high, so that the head is 20, and whose arms hang down."""
    rows = {
        "nose eyes ears": [(0, 20), (3, 17), (-3, 17), (6, 20), (-6, 20)],
        "shoulders, elbows, wrists": [(16, 40), (-16, 40), (20, 64), (-20, 64), (20, 86), (-20, 86)],
        "hips, knees, ankles": [(10, 86), (-10, 86), (10, 120), (-10, 120), (10, 156), (-10, 156)],
        "hands": [(20, 94), (-20, 94)],
    }
    return np.array([(x + dx, y) for row in rows.values() for dx, y in row], np.float32)


def persons(*joints: np.ndarray, likely: tuple[float, ...] = (1.0,)) -> Bodies:
    seen = np.full((len(joints), 19), 0.5, np.float32)
    return Bodies(np.stack(joints), seen, np.array(likely, np.float32), (400, 200))


def test_a_head_is_as_high_as_the_longest_of_its_measures_says() -> None:
    """The trunk is 46 = 2.3 · 20 long; a person who is bent has a short one, and the shoulders (32 / 1.7) count."""
    bent = standing()
    bent[[11, 12], 1] = 50
    assert heads(np.stack([standing(), bent])).tolist() == pytest.approx([20, 32 / 1.7])


@pytest.mark.parametrize(
    ("noun", "box"),
    [
        ("face", (91, 18.8 - 10, 109, 18.8 + 12)),  # the middle of nose, eyes and ears is at 18.8
        ("shirt", (80 - 5, 40 - 7, 120 + 5, 86 + 2)),
        ("shirts", (75, 33, 125, 88)),
        ("jeans", (90 - 6, 86 - 6, 110 + 6, 156 + 2)),
        ("hand", (120 - 7, 94 - 7, 120 + 7, 94 + 7)),
        ("arm", (116 - 5, 40 - 4, 120 + 5, 86 + 5)),
    ],
)
def test_parts_by_hand(noun: str, box: tuple[float, ...]) -> None:
    [found] = persons(standing()).boxes(PARTS[noun])
    np.testing.assert_allclose(found, box, atol=1e-3)


def test_the_side_that_is_seen_better_counts() -> None:
    bodies = persons(standing())
    bodies.seen[0, [6, 8, 10, 18]] = 0.9
    for noun, right in (("arm", 89), ("hand", 87)):
        [box] = bodies.boxes(PARTS[noun])
        assert box[2] == pytest.approx(right)


def test_parts_end_where_the_picture_does() -> None:
    bodies = persons(standing(10))
    assert bodies.boxes(PARTS["shirt"])[0, 0] == 0
    assert bodies._replace(size=(400, 60)).boxes(PARTS["jeans"])[0].tolist() == [0, 60, 26, 60]


def test_a_part_is_offered_beside_the_regions_and_fits_as_the_equation_says() -> None:
    """Two persons, the second half as likely. A region covers the first one's shirt, none the second's: its fit is the
    median of the regions."""
    bodies = persons(standing(100), standing(300), likely=(1, 0.5))
    first, second = bodies.boxes(PARTS["shirt"])
    boxes = np.array([[0, 0, 400, 200], first + [2, 2, 2, 2], [0, 150, 20, 200]], np.float32)
    fit = np.array([[0.1, 0.3, 0.0], [0.4, 0.2, 0.1]], np.float32)
    every, wide = with_parts(fit, boxes, ["shirt", "dog"], bodies)
    np.testing.assert_allclose(every, [*boxes, first, second])
    near = iou_of_arrays(boxes[[1]], first[None])[0, 0]
    assert near > NEAR
    assert wide[0, 1] == pytest.approx(SOFTER * (0.3 + WEIGHT * near), rel=1e-5)
    assert wide[0, 3:].tolist() == pytest.approx([SOFTER * (0.3 + WEIGHT), SOFTER * (0.1 + WEIGHT / 2)])
    assert wide[0, 2] == pytest.approx(0.0)  # far from both
    np.testing.assert_allclose(wide[1], [0.4, 0.2, 0.1, -np.inf, -np.inf])  # a dog is no part of a person
    assert fit[0, 1] == pytest.approx(0.3)  # the argument is as it was


def test_a_part_beyond_the_edge_of_the_picture_is_not_offered() -> None:
    bodies = persons(standing())._replace(size=(400, 70))
    boxes, fit = np.array([[0, 0, 400, 70]], np.float32), np.array([[0.1]], np.float32)
    shirt, jeans = (with_parts(fit, boxes, [noun], bodies)[1][0, 1] for noun in ("shirt", "jeans"))
    assert np.isfinite(shirt) and np.isneginf(jeans)


def test_nothing_is_offered_where_there_is_no_person() -> None:
    boxes, fit = np.array([[0, 0, 10, 10]], np.float32), np.array([[0.2]], np.float32)
    nobody = Bodies(*(np.zeros(shape, np.float32) for shape in ((0, 19, 2), (0, 19), (0,))), (10, 10))
    every, wide = with_parts(fit, boxes, ["shirt"], nobody)
    assert every.tolist() == boxes.tolist() and wide.tolist() == fit.tolist()
    assert placed(caption(), nobody, 0.08) == caption()


def test_the_joints_of_a_photo_put_parts_where_they_are() -> None:
    """Also in a smaller copy of it, and whatever regions there are beside the person; no more than PERSONS are looked
    at, and what is far less likely a person is none."""
    picture = open_image(ASTRONAUT)
    boxes = np.concatenate([[[0, 0, *picture.size]], np.tile([[400, 0, 500, 300]], (9, 1))]).astype(np.float32)
    person = np.array([0.9] + [0.1] * 9, np.float32)
    for image in (picture, picture.resize((320, 320))):
        bodies = bodies_in(image, picture.size, boxes, person, 0.08)
        assert len(bodies.likely) == 1
        for noun, drawn, least in (("face", FACE, 0.75), ("hair", HAIR, 0.6), ("suit", SUIT, 0.7)):
            [box] = bodies.boxes(PARTS[noun])
            assert iou_of_arrays(box[None], np.array([drawn], np.float32)) > least, noun
    apart = np.array([[50 * i, 0, 50 * i + 40, 100] for i in range(9)], np.float32)
    assert len(bodies_in(picture, picture.size, apart, np.full(9, 0.5, np.float32), 0.08).likely) == PERSONS


def test_phrases_are_found_where_people_would_draw_them() -> None:
    grounder = load_grounder()
    regions = grounder.regions(ASTRONAUT)
    for phrase, drawn in (("her face", FACE), ("brown hair", HAIR), ("an orange suit", SUIT)):
        [found] = grounder.ground_regions(regions, phrases=[phrase])
        assert iou_of_arrays(np.array([found.box]), np.array([drawn])) > 0.6, phrase
    [blind] = grounder.ground_regions(replace(regions, pictures=None), phrases=["her face"])
    assert list(blind.box) in regions.boxes[0].tolist()  # without pixels it is one of the regions
    [face] = grounder.ground_regions(regions, phrases=["her face"])
    assert face.evidence == blind.evidence


def test_padding_changes_nothing() -> None:
    """Regions that are none have a similarity of −∞, with a phrase as with "person"."""
    picture, rng = open_image(ASTRONAUT), np.random.default_rng(0)
    boxes = np.array([[0, 0, 512, 512], [30, 190, 360, 500], [400, 0, 500, 300]], np.float32)
    similarity, person = rng.random((1, 3)).astype(np.float32), np.array([0.9, 0.3, -0.1], np.float32)
    found = []
    for padded in (0, 4):
        wide = np.pad(similarity, ((0, 0), (0, padded)), constant_values=-np.inf)
        cues = Cues(
            np.pad(boxes, ((0, padded), (0, 0))),
            np.zeros(3 + padded, np.int64),
            picture.size,
            picture,
            True,
            lambda padded=padded: np.pad(person, (0, padded), constant_values=-np.inf),
        )
        found.append(places(wide, cues, ["shirt"], [()]))
    (short, alone), (long, beside) = found
    np.testing.assert_allclose(beside[:, [0, 1, 2, -1]], alone, rtol=1e-5)
    np.testing.assert_allclose(long[[0, 1, 2, -1]], short)
    assert (beside[:, 3:-1] == -1).all() and alone.min() >= 0
    nothing = Cues(boxes, np.zeros(3, np.int64), picture.size, picture, True, lambda: np.full(3, -np.inf, np.float32))
    _, none = places(np.full((1, 3), -np.inf, np.float32), nothing, ["shirt"], [()])
    assert (none == -1).all()


def test_where_nothing_is_like_a_person_nobody_is() -> None:
    """There, the network does not run; of a compound the last word counts."""
    grounder = load_grounder()
    cat = grounder.regions(ASTRONAUT.with_name("cat.jpg"))
    with patch("groundling.regions.sources._keypoints.Keypoints.__call__", side_effect=AssertionError):
        [cap] = grounder.ground_regions(cat, phrases=["a cap"])
    assert list(cap.box) in cat.boxes[0].tolist()
    regions = grounder.regions(ASTRONAUT)
    for noun in ("shirt", "football shirt"):
        assert len(grounder.locate(regions, [["shirt"]], [noun]).boxes) > regions.boxes.shape[1]


def test_joints_need_what_finds_them(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Without it, regions alone serve; that is told once, with the cure."""
    can_find_joints.cache_clear()
    monkeypatch.setattr("groundling.inference.loading.find_spec", lambda name: None if name == "cv2" else name)
    assert [load_grounder().joints, load_grounder().joints] == [False, False]
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "joints need pip install 'groundling[captions]'"
    ]
    can_find_joints.cache_clear()


@pytest.mark.parametrize("runtime", ["onnx", "torch"])
def test_without_joints_boxes_are_regions(runtime: str) -> None:
    """Also as users say it, of captions and of phrases."""
    captioner = groundling.load(runtime=runtime, joints=False)
    assert captioner.grounder is not None and not captioner.grounder.joints and not captioner.signature["joints"]
    assert groundling.load(runtime=runtime).signature["joints"]
    grounder = load_grounder(joints=False)
    regions = grounder.regions(ASTRONAUT)
    [face] = grounder.ground_regions(regions, phrases=["her face"])
    assert list(face.box) in regions.boxes[0].tolist()


def caption(media: str = "", *words: str) -> GroundedCaption:
    """Each word is linked to the whole picture, which it attended to most."""
    tokens, whole = words or ("woman", "hair"), (0.0, 0.0, 512.0, 512.0)
    spans = spans_of(tokens)
    seen = ((whole, (0.0, 300.0, 512.0, 512.0)), (0.8, 0.2))
    return GroundedCaption(
        "a",
        " ".join(tokens),
        tuple(tokens),
        spans,
        tuple(Link(i, span, whole, 0.8) for i, span in enumerate(spans)),
        tuple(WordAttention(i, *seen) for i in range(len(tokens))),
        media=media,
        size=(512, 512),
    )


def test_a_caption_points_at_the_part_that_it_names() -> None:
    """Of a picture that is known by its file alone, too; other words, and words without attention, stay."""
    grounder = load_grounder()
    regions = replace(grounder.regions(ASTRONAUT), pictures=None)
    one = caption(str(ASTRONAUT))
    woman, hair = grounder.on_bodies(one, regions).links
    assert woman == one.links[0] and iou_of_arrays(np.array([hair.box]), np.array([HAIR])) > 0.6
    assert replace(hair, box=one.links[1].box, score=0.8) == one.links[1] and 0.3 < hair.score < 1
    assert grounder.on_bodies(caption(), regions) == caption()
    assert grounder.on_bodies(caption("no such file.jpg"), regions) == caption("no such file.jpg")
    pixels = with_pixels(regions, Image.open(ASTRONAUT))
    assert grounder.on_bodies(caption(), pixels).links[1].box == pytest.approx(hair.box, abs=1)
    grounder.joints = False
    assert grounder.on_bodies(one, regions) == one
    silent = replace(one, attention=())
    assert placed(silent, persons(standing()), 0.08) == silent
