"""The region source of drawn scenes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

from groundling.boxes import iou
from groundling.errors import GroundlingError, RegionMismatch
from groundling.inference.loading import source_of
from groundling.regions.fingerprints import require
from groundling.regions.sources import source
from groundling.regions.sources._segments import boxes_of, components, mergers, segment, standing_out
from groundling.scenes.animals import BEASTS
from groundling.scenes.detector import LABELS, NAMES, WEIGHTS, classify, likeliest_labels
from groundling.scenes.grammar import TYPES
from groundling.scenes.regions import DESCRIBED, DIM, make
from groundling.scenes.things import THINGS
from groundling.scenes.vehicles import VEHICLES
from groundling.scenes.world import PEOPLE
from groundling.scenes.write import scene


def picture(*boxes: tuple[tuple[int, int, int, int], str]) -> Image.Image:
    image = Image.new("RGB", (256, 192), "#c0d8c0")
    for box, colour in boxes:
        ImageDraw.Draw(image).rectangle((box[0], box[1], box[2] - 1, box[3] - 1), fill=colour)
    return image


# ---------------------------------------------------------------- segments


def test_components_of_a_graph_with_two_pieces_and_a_loner() -> None:
    """0 - 3 - 5 - 1 and 2 - 6; 4 alone."""
    result = components(np.array([3, 5, 1, 2]), np.array([0, 3, 5, 6]), 7)
    assert result.tolist() == [0, 0, 1, 0, 2, 0, 1]


def test_components_of_a_long_path_are_one() -> None:
    order = np.random.default_rng(0).permutation(500)
    assert components(order[:-1], order[1:], 500).max() == 0


def test_two_squares_on_a_ground_are_three_segments() -> None:
    pixels = np.zeros((20, 40, 3))
    pixels[5:15, 5:15], pixels[5:15, 15:25] = 100, 200
    segments = segment(pixels, 9)
    order = np.argsort(segments.colour[:, 0])
    assert segments.boxes[order].tolist() == [[0, 0, 40, 20], [5, 5, 15, 15], [15, 5, 25, 15]]
    assert segments.area[order].tolist() == [600, 100, 100]
    assert segments.ground[order].tolist() == [True, False, False]
    assert segments.border[order[1], order[2]] == segments.border[order[2], order[1]] == 10


def test_a_gradient_is_one_segment_and_specks_join_it() -> None:
    pixels = np.repeat(np.repeat(np.linspace(0, 200, 40)[None, :, None], 30, 0), 3, 2)
    pixels[10:12, 10:13] = 255
    assert len(segment(pixels, 9).area) == 1


def test_touching_parts_merge_into_the_whole_and_never_with_the_ground() -> None:
    pixels = np.zeros((20, 40, 3))
    pixels[5:15, 5:15], pixels[5:15, 15:25] = 100, 200
    segments = segment(pixels, 9)
    merged = mergers(segments, 1, 1, 0, 0)
    assert boxes_of(segments, merged).tolist() == [[5, 5, 25, 15]]
    assert not (merged & segments.ground).any()
    parts = np.eye(3, dtype=bool)[~segments.ground]
    assert standing_out(segments, merged).min() > standing_out(segments, parts).max()


def test_what_is_above_joins_before_what_is_beside_where_that_is_asked_for() -> None:
    pixels = np.zeros((40, 60, 3))
    pixels[10:20, 20:30], pixels[20:30, 20:30], pixels[20:30, 30:40] = 80, 160, 240
    segments = segment(pixels, 9)
    above = boxes_of(segments, mergers(segments, 0, 0, 0, 1))[0].tolist()
    assert above == [20, 10, 30, 30]


# ---------------------------------------------------------------- the source


def test_a_planted_object_of_two_colours_is_found_with_its_parts() -> None:
    head, body = (94, 40, 136, 90), (90, 90, 140, 150)
    result = make()(picture((head, "#e0b090"), (body, "#c02020"))).boxes[0]
    whole = (90, 40, 140, 150)
    overlap = iou(torch.tensor([head, body, whole], dtype=torch.float), result).amax(1)
    assert (overlap > 0.9).all()


def test_between_twenty_and_forty_regions_inside_the_picture() -> None:
    regions = make(40)
    for number in range(12):
        result = regions(scene(9, number).picture.image)
        assert result.feats.shape == (1, result.boxes.shape[1], DIM) and result.feats.dtype == torch.float32
        assert 20 <= result.boxes.shape[1] <= 40 and result.valid.all() and result.labels.shape[2] == 5
        assert result.feats.isfinite().all() and result.feats.std() < 2
        low, high = result.boxes[0, :, :2], result.boxes[0, :, 2:]
        assert (low >= 0).all() and (high > low).all() and (high <= result.size[0]).all()


def test_the_first_region_is_the_whole_image_and_count_takes_the_best() -> None:
    image = scene(9, 1).picture.image
    few, many = make(20)(image), make(40)(image)
    assert few.boxes[0, 0].tolist() == [0, 0, 256, 192]
    n = few.boxes.shape[1]
    torch.testing.assert_close(few.boxes[0], many.boxes[0, :n])
    torch.testing.assert_close(few.feats[0], many.feats[0, :n])


def test_an_empty_picture_still_has_twenty_regions() -> None:
    for size in ((256, 192), (31, 47), (700, 500), (1, 1)):
        result = make()(Image.new("RGB", size, "white"))
        assert result.boxes.shape[1] == 20 and result.feats.isfinite().all()
        assert result.size.tolist() == [list(map(float, size))]
        assert (result.boxes[0, :, 2:] > result.boxes[0, :, :2]).all()


def test_only_pixels_matter() -> None:
    """The same pixels as another kind of image, and twice the same call, give the same regions."""
    image = scene(9, 2).picture.image
    first, again, other = make()(image), make()(image), make()(image.convert("RGBA"))
    assert torch.equal(first.feats, again.feats) and torch.equal(first.boxes, other.boxes)


def test_regions_are_redundant_and_few_are_the_same() -> None:
    result = make()(scene(9, 3).picture.image).boxes[0]
    overlap = iou(result, result).fill_diagonal_(0)
    assert (overlap > 0.1).any(1).float().mean() > 0.8
    assert overlap.max() <= 0.6 + 1e-6 or len(result) == 20


def test_most_of_what_phrases_name_is_found() -> None:
    covered = boxes = 0
    regions = make()
    for number in range(30):
        made = scene(8, number)
        mentioned = sorted({i for caption in made.captions for piece in caption for i in piece.items})
        gold = torch.tensor([made.picture.boxes[i] for i in mentioned], dtype=torch.float)
        covered += int((iou(gold, regions(made.picture.image).boxes[0]).amax(1) > 0.5).sum())
        boxes += len(gold)
    assert covered / boxes > 0.85


def test_a_red_and_a_blue_thing_are_told_apart_by_colour_and_a_tall_and_a_wide_one_by_shape() -> None:
    def feature(box: tuple[int, int, int, int], colour: str) -> torch.Tensor:
        result = make()(picture((box, colour)))
        best = iou(torch.tensor([box], dtype=torch.float), result.boxes[0])[0].argmax()
        return result.feats[0, best]

    tall, wide = (100, 40, 130, 140), (60, 80, 160, 110)
    red, same, blue, flat = (feature(*x) for x in ((tall, "red"), (tall, "#fa0808"), (tall, "blue"), (wide, "red")))
    assert (red - same).norm() < 0.5 * min((red - blue).norm(), (red - flat).norm())


# ---------------------------------------------------------------- what the network says


def test_the_network_knows_all_that_scenes_name() -> None:
    assert set(NAMES) == {*PEOPLE, *BEASTS, *VEHICLES, *THINGS, *TYPES} - {"leash"}


def test_a_man_is_a_person_too_but_first_of_all_a_man() -> None:
    p = np.zeros((1, len(NAMES)), np.float32)
    p[0, [0, 4]] = 0.6, 0.3
    labels, likely = likeliest_labels(p)
    assert [LABELS[i] for i in labels[0, :3]] == ["man", "person", "dog"]
    np.testing.assert_allclose(likely[0, :3], [0.6, 0.6, 0.3])


def test_a_region_is_seen_alone_as_among_others() -> None:
    x = np.random.default_rng(0).standard_normal((7, 255))
    z, p = classify(x)
    one_z, one_p = classify(x[3:4])
    np.testing.assert_allclose(z[3:4], one_z, atol=1e-4)
    np.testing.assert_allclose(p[3:4], one_p, atol=1e-5)
    assert (p.sum(1) <= 1 + 1e-5).all()


def test_the_detector_names_most_things_of_scenes_that_it_has_never_seen() -> None:
    right = things = 0
    regions = make()
    for number in range(30):
        made = scene(8, number)
        result = regions(made.picture.image)
        for item, box in zip(made.world.items, made.picture.boxes, strict=True):
            if box is None or item.name == "leash":
                continue
            overlap, best = iou(torch.tensor([box], dtype=torch.float), result.boxes[0])[0].max(0)
            if overlap > 0.7 and best > 0:
                right += LABELS[result.labels[0, best, 0]] == item.name
                things += 1
    assert things > 80 and right / things > 0.8


def test_labels_come_with_probabilities_best_first_and_people_are_persons() -> None:
    people = 0
    for number in range(8):
        result = make()(scene(8, number).picture.image)
        assert result.labels.shape == result.scores.shape == (1, result.boxes.shape[1], 5)
        assert (result.scores.diff(dim=-1) <= 0).all() and 0 <= result.scores.min() <= result.scores.max() <= 1
        first, person = result.labels[..., 0], LABELS.index("person")
        human = first < len(PEOPLE)
        assert torch.equal(result.scores[..., 1][human], result.scores[..., 0][human])
        assert (result.labels[..., 1][human] == person).all() and not (first == person).any()
        people += int(human.sum())
    assert people > 8


def test_the_whole_image_does_not_tell_what_is_in_it() -> None:
    scores = [make()(scene(8, number).picture.image).scores[0, 0, 0] for number in range(20)]
    assert torch.stack(scores).mean() < 0.2


def test_the_colour_of_a_thing_can_be_read_by_a_linear_layer_from_few_of_them() -> None:
    """Shirts, red or blue: the class that is nearer to the mean of ten others by the colours in the feature."""
    rows: dict[str, list[torch.Tensor]] = {"red": [], "blue": []}
    for number in range(80):
        made = scene(8, number)
        result = make()(made.picture.image)
        for item, box in zip(made.world.items, made.picture.boxes, strict=True):
            if box and item.name == "shirt" and item.colour in rows:
                best = iou(torch.tensor([box], dtype=torch.float), result.boxes[0])[0].argmax()
                rows[item.colour].append(result.feats[0, best])
    red, blue = torch.stack(rows["red"]), torch.stack(rows["blue"])
    normal = red[:10].mean(0) - blue[:10].mean(0)
    middle = (red[:10].mean(0) + blue[:10].mean(0)) / 2
    right = torch.cat([(red[10:] - middle) @ normal > 0, (blue[10:] - middle) @ normal < 0])
    assert len(right) > 5 and right.float().mean() > 0.75


def test_the_fingerprint_names_what_the_numbers_depend_on() -> None:
    made = source("scenes", count=30)
    assert made.fingerprint == make(30).fingerprint != make(36).fingerprint
    assert made.fingerprint.dim == DIM and made.fingerprint.parameters == {"count": 30}
    assert made.fingerprint.weights == {"scene_head.safetensors": WEIGHTS.sha256}
    assert made.fingerprint.labels == LABELS


@pytest.mark.parametrize("count", [0, 19, 101])
def test_counts_that_it_cannot_give_are_refused(count: int) -> None:
    with pytest.raises(GroundlingError, match="20 to 100"):
        make(count)


def test_proposals_may_be_as_redundant_as_those_of_a_detector() -> None:
    image = scene(9, 3).picture.image
    few, many = make()(image).boxes[0], make(100, 0.9)(image).boxes[0]
    overlap = iou(many, many).fill_diagonal_(0)
    assert len(many) > 1.3 * len(few) and 0.6 < overlap.max() <= 0.9 + 1e-6
    assert make(36, 0.6).fingerprint == make().fingerprint != make(36, 0.9).fingerprint
    with pytest.raises(GroundlingError, match="between 0 and 1, not 1"):
        make(36, 1.0)


def test_a_sure_source_keeps_the_picture_and_what_it_takes_for_a_thing() -> None:
    image = scene(9, 3).picture.image
    every, things = make(100, 0.9)(image), make(100, 0.9, 0.5)(image)
    kept = every.scores[0, :, 0] >= 0.5
    assert 1 < kept.sum() < len(kept) - 1 and not kept[0]
    kept[0] = True
    for part in ("boxes", "feats", "labels", "scores"):
        torch.testing.assert_close(getattr(things, part)[0], getattr(every, part)[0, kept])
    assert make(100, 0.9, 0.5).fingerprint != make(100, 0.9).fingerprint == make(100, 0.9, 0.0).fingerprint
    with pytest.raises(GroundlingError, match="below 1, not 1"):
        make(36, 0.6, 1.0)


def test_a_feature_map_and_the_vector_of_the_picture_come_when_asked_for() -> None:
    """Four cells: a red square fills the upper left one. Without `map` source and regions are what they were."""
    image = picture(((0, 0, 128, 96), "red"))
    plain, mapped = make(20), make(20, map=2)
    assert plain(image).grid is None and plain(image).whole is None and "map" not in plain.fingerprint.parameters
    result = mapped(image)
    assert result.grid is not None and result.grid.shape == (1, 4, DIM) and mapped.fingerprint != plain.fingerprint
    torch.testing.assert_close(result.whole, result.feats[:, 0])
    torch.testing.assert_close(result.feats, plain(image).feats)
    first, *others = result.grid[0, :, -27:-8]  # colours
    assert all((first - other).abs().max() > 1 for other in others)
    with pytest.raises(GroundlingError, match="map is the side of a feature map, from 0 to 14, not 15"):
        make(map=15)


def test_without_a_detector_regions_have_the_same_boxes_and_none_of_its_labels() -> None:
    """A teacher labels regions that it has not made; without it there are no labels, and the rest is the same."""
    image = scene(9, 3).picture.image
    full, taught, free = (make(detector=detector)(image) for detector in ("features", "teacher", "none"))
    torch.testing.assert_close(free.boxes, full.boxes)
    torch.testing.assert_close(free.feats, taught.feats)
    assert free.feats.shape[-1] == DESCRIBED == make(detector="none").fingerprint.dim
    assert free.labels.shape[-1] == 0 and not make(detector="none").fingerprint.weights
    torch.testing.assert_close(taught.labels, full.labels)
    with pytest.raises(GroundlingError, match="features, teacher or none, not 'some'"):
        make(detector="some")
    with pytest.raises(GroundlingError, match="sure asks the detector"):
        make(sure=0.5, detector="none")


def test_without_a_detector_no_weights_of_one_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("the detector was asked")

    monkeypatch.setattr("groundling.scenes.detector.classify", never)
    assert make(detector="none", map=2)(scene(9, 3).picture.image).grid is not None


def test_a_model_taught_by_a_detector_takes_regions_without_one_and_makes_such_itself() -> None:
    taught, free = make(detector="teacher").fingerprint, make(detector="none").fingerprint
    require(free, taught)
    with pytest.raises(RegionMismatch):
        require(make(30, detector="none").fingerprint, taught)
    with pytest.raises(RegionMismatch):
        require(make().fingerprint, taught)
    assert source_of(taught).fingerprint == free
