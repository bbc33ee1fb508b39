"""The source for photographs: its arithmetic by hand, its refusals, and the real weights where they are installed."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw
from torch import Tensor
from torch.nn import functional as F

from groundling.boxes import iou
from groundling.errors import GroundlingError, MissingExtra
from groundling.regions.fingerprints import require
from groundling.regions.sources import photos, photos_detected, photos_searched, source
from groundling.regions.sources._features import Backbone, box_means, fold, load_backbone, pixels
from groundling.regions.sources._files import Pinned
from groundling.regions.sources._pooling import LABELS, WORDS, detector_scores, likeliest, positions
from groundling.regions.sources._proposals import NAMES, Detections, Detector, decode

INSTALLED = all(importlib.util.find_spec(file.package) for file in photos.FILES) and importlib.util.find_spec("cv2")
real = pytest.mark.skipif(not INSTALLED, reason="the weights of the photos extra are not installed")
opencv = pytest.mark.skipif(not importlib.util.find_spec("cv2"), reason="OpenCV is not installed")


def boxes(*rows: tuple[float, float, float, float]) -> np.ndarray:
    return np.array(rows, np.float32)


# ---------------------------------------------------------------- features of boxes


def test_the_mean_over_a_box_counts_cells_by_the_share_inside() -> None:
    """A map of 1 x 2 cells, 0 and 8; a box from the middle of the first to the end: 1/3 of 0 and 2/3 of 8."""
    grid = np.array([[[0.0, 8.0]]], np.float32)
    np.testing.assert_allclose(box_means(grid, boxes((0.25, 0, 1, 1))), [[16 / 3]], rtol=1e-6)


def test_the_mean_over_the_whole_image_is_the_mean_of_the_map() -> None:
    grid = np.random.default_rng(0).normal(size=(5, 7, 3)).astype(np.float32)
    np.testing.assert_allclose(box_means(grid, boxes((0, 0, 1, 1)))[0], grid.mean((1, 2)), rtol=1e-5, atol=1e-6)


def test_the_mean_over_a_box_is_that_of_its_halves() -> None:
    grid = np.random.default_rng(1).normal(size=(4, 6, 9)).astype(np.float32)
    whole, left, right = box_means(grid, boxes((0.1, 0.2, 0.9, 0.7), (0.1, 0.2, 0.3, 0.7), (0.3, 0.2, 0.9, 0.7)))
    np.testing.assert_allclose(whole, 0.25 * left + 0.75 * right, rtol=1e-4, atol=1e-6)


def test_a_box_without_area_takes_the_cell_that_it_is_in() -> None:
    grid = np.arange(4, dtype=np.float32).reshape(1, 2, 2)
    np.testing.assert_allclose(box_means(grid, boxes((0.8, 0.9, 0.8, 0.9), (1, 0, 1, 0))), [[3], [1]], rtol=1e-5)


def test_place_ends_with_the_area() -> None:
    np.testing.assert_allclose(positions(boxes((0, 0.5, 0.5, 1))), [[0, 0.5, 0.5, 1, 0.25]])


def test_the_likeliest_classes_come_first_and_impossible_ones_are_unknown() -> None:
    labels, scores = likeliest(np.array([[0.1, 0.0, 0.7], [0, 0, 0]], np.float32), 2)
    assert labels.tolist() == [[2, 0], [-1, -1]]
    np.testing.assert_allclose(scores, [[0.7, 0.1], [0, 0]])


# ---------------------------------------------------------------- the backbone


def tiny_state(seed: int = 0) -> dict[str, Tensor]:
    """Weights of an EfficientNet-Lite with seven stages of one block each, few channels, and odd statistics."""
    draw = torch.Generator().manual_seed(seed)
    state: dict[str, Tensor] = {}

    def add(conv: str, norm: str, out: int, per_group: int, kernel: int) -> None:
        state[conv + ".weight"] = torch.randn(out, per_group, kernel, kernel, generator=draw) * 0.5
        for name in ("weight", "bias", "running_mean"):
            state[f"{norm}.{name}"] = torch.randn(out, generator=draw) * 0.3 + 0.5
        state[norm + ".running_var"] = torch.rand(out, generator=draw) + 0.5

    add("_conv_stem", "_bn0", 4, 3, 3)
    width = 4
    for i, (out, kernel) in enumerate([(3, 3), (5, 3), (6, 5), (7, 3), (8, 5), (9, 5), (10, 3)]):
        at, inner = f"_blocks.{i}.", width if i == 0 else 2 * width
        if i:
            add(at + "_expand_conv", at + "_bn0", inner, width, 1)
        add(at + "_depthwise_conv", at + "_bn1", inner, 1, kernel)
        add(at + "_project_conv", at + "_bn2", out, inner, 1)
        width = out
    add("_blocks.7._expand_conv", "_blocks.7._bn0", 20, 10, 1)  # a second block of the last stage, with a shortcut
    add("_blocks.7._depthwise_conv", "_blocks.7._bn1", 20, 1, 3)
    add("_blocks.7._project_conv", "_blocks.7._bn2", 10, 20, 1)
    add("_conv_head", "_bn1", 12, 10, 1)
    return state


def plain(state: dict[str, Tensor], x: Tensor) -> Tensor:
    """The same network written out: padding by hand, normalisation as its own step."""

    def layer(x: Tensor, conv: str, norm: str, stride: int = 1, active: bool = True) -> Tensor:
        weight = state[conv + ".weight"]
        kernel = weight.shape[-1]
        pads = []
        for size in (x.shape[3], x.shape[2]):
            total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
            pads += [total // 2, total - total // 2]
        x = F.conv2d(F.pad(x, pads), weight, stride=stride, groups=x.shape[1] if weight.shape[1] == 1 else 1)
        mean, var, gain, bias = (state[f"{norm}.{n}"] for n in ("running_mean", "running_var", "weight", "bias"))
        x = F.batch_norm(x, mean, var, gain, bias, eps=1e-3)
        return F.relu6(x) if active else x

    x = layer(x, "_conv_stem", "_bn0", 2)
    for i, stride in enumerate((1, 2, 2, 2, 1, 2, 1, 1)):
        at, y = f"_blocks.{i}.", x
        if i:
            y = layer(y, at + "_expand_conv", at + "_bn0")
        y = layer(y, at + "_depthwise_conv", at + "_bn1", stride)
        y = layer(y, at + "_project_conv", at + "_bn2", active=False)
        x = x + y if i == 7 else y
    return layer(x, "_conv_head", "_bn1")


@pytest.mark.parametrize(("height", "width"), [(64, 96), (75, 52)])
def test_the_folded_network_is_the_plain_one(height: int, width: int) -> None:
    state = tiny_state()
    x = torch.randn(2, 3, height, width, generator=torch.Generator().manual_seed(3))
    expected = plain(state, x)
    assert expected.std() > 0.1
    torch.testing.assert_close(Backbone(fold(state))(x), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("size", "shape"), [((400, 300), (384, 512)), ((1, 900), (512, 32)), ((8, 8), (512, 512))])
def test_pixels_have_sides_of_whole_cells(size: tuple[int, int], shape: tuple[int, int]) -> None:
    made = pixels(Image.new("RGB", size, (255, 127, 0)), 512)
    assert made.shape == (1, 3, *shape)
    torch.testing.assert_close(made[0, :, 0, 0], torch.tensor([1.0, 0.0, -127 / 128]))


# ---------------------------------------------------------------- the detector and the proposals


def test_without_offsets_boxes_are_the_anchors() -> None:
    anchors = boxes((0.1, 0.2, 0.5, 0.4))
    np.testing.assert_allclose(decode(np.zeros((1, 4), np.float32), anchors, np.full((1, 4), 0.1)), anchors)


def test_offsets_move_by_the_size_of_the_anchor_and_stretch_exponentially() -> None:
    """An anchor of 0.4 x 0.2 about (0.3, 0.3), moved 0.5 to the right by its width, and e times as high."""
    found = decode(boxes((5, 0, 0, 5)), boxes((0.1, 0.2, 0.5, 0.4)), boxes((0.1, 0.1, 0.2, 0.2)))
    np.testing.assert_allclose(found, [[0.3, 0.3 - 0.1 * np.e, 0.7, 0.3 + 0.1 * np.e]], rtol=1e-5)


def detections(anchors: np.ndarray, scores: np.ndarray) -> Detections:
    return Detections(anchors, scores, (np.zeros((1, 2, 2), np.float32), np.zeros((1, 1, 1), np.float32)))


def test_a_region_gets_the_scores_of_the_boxes_near_it() -> None:
    """The left half gets those of a box at IoU 1 and of one at IoU 1/2; the far corner gets none."""
    detected = boxes((0, 0, 0.5, 1), (0, 0, 0.5, 0.5), (0.5, 0, 1, 1))
    confidence = np.array([[0.4, 0.0], [0.6, 0.8], [0.9, 0.9]], np.float32)
    scores = detector_scores(boxes((0, 0, 0.5, 1), (0.9, 0.9, 1, 1)), detected, confidence)
    np.testing.assert_allclose(scores, [[0.4, 0.4], [0, 0]], rtol=1e-6)


def crowd(seed: int = 0, anchors: int = 800) -> Detections:
    """Boxes and scores at random, two of them persons for sure."""
    random = np.random.default_rng(seed)
    corners = np.sort(random.uniform(size=(anchors, 2, 2)), axis=1).reshape(-1, 4).astype(np.float32)
    scores = random.uniform(0, 0.2, size=(anchors, 90)).astype(np.float32)
    corners[:2] = boxes((0.1, 0.1, 0.3, 0.9), (0.6, 0.2, 0.8, 0.8))
    scores[:2, 0] = 0.95
    return detections(corners, scores)


@opencv
def test_fewer_proposals_are_the_first_of_more() -> None:
    from groundling.regions.sources._proposals import propose

    searched = crowd(1, 90).boxes
    many = propose(crowd(), searched, 100)
    assert len(many) == 100
    np.testing.assert_array_equal(propose(crowd(), searched, 36), many[:36])


@opencv
def test_proposals_are_distinct_and_begin_with_the_whole_image() -> None:
    from groundling.regions.sources._proposals import OVERLAP, propose

    found = torch.from_numpy(propose(crowd(), crowd(1, 90).boxes, 100))
    assert found[0].tolist() == [0, 0, 1, 1]
    assert (iou(found, found) - torch.eye(100)).max() <= OVERLAP + 1e-4


@opencv
def test_two_persons_are_also_a_group_and_have_heads() -> None:
    from groundling.regions.sources._proposals import propose

    found = torch.from_numpy(propose(crowd(), np.zeros((0, 4), np.float32), 60))
    wanted = torch.tensor([[0.1, 0.1, 0.8, 0.9], [0.15, 0.1, 0.25, 0.3]])  # around both; head of the first
    assert (iou(wanted, found).amax(1) > 0.65).all()


@opencv
def test_nothing_found_leaves_the_whole_image() -> None:
    from groundling.regions.sources._proposals import propose

    none = np.zeros((0, 4), np.float32)
    assert propose(detections(none, np.zeros((0, 90), np.float32)), none, 50).tolist() == [[0, 0, 1, 1]]


@opencv
@pytest.mark.parametrize("size", [(320, 240), (31, 47), (900, 700)])
def test_selective_search_finds_a_flat_rectangle_at_any_size(size: tuple[int, int]) -> None:
    from groundling.regions.sources._proposals import search

    image = np.full((size[1], size[0], 3), 230, np.uint8)
    left, top, right, bottom = (round(f * side) for f, side in zip((0.2, 0.3, 0.6, 0.8), size * 2, strict=True))
    image[top:bottom, left:right] = (200, 20, 20)
    found = search(image)
    assert iou(torch.tensor([[0.2, 0.3, 0.6, 0.8]]), torch.from_numpy(found)).max() > 0.8
    np.testing.assert_array_equal(found, search(image))


@opencv
@pytest.mark.parametrize("size", [(1, 1), (1, 500), (700, 3)])
def test_selective_search_survives_slivers(size: tuple[int, int]) -> None:
    from groundling.regions.sources._proposals import search

    found = search(np.zeros((size[1], size[0], 3), np.uint8))
    assert np.isfinite(found).all() and (found >= 0).all() and (found <= 1).all()


# ---------------------------------------------------------------- what is not there, or not as it should be


def installed_at(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = ModuleSpec("weights", None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)


def test_a_missing_package_is_named_with_the_commands_that_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for file in photos.FILES:
        with pytest.raises(MissingExtra, match=f"{file.package}.*pip install .*groundling\\[photos\\]"):
            file.read()


def test_a_package_without_its_file_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed_at(tmp_path, monkeypatch)
    with pytest.raises(MissingExtra, match=r"labels\.txt"):
        NAMES.read()


def test_a_file_with_other_bytes_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed_at(tmp_path, monkeypatch)
    (tmp_path / "a.bin").write_bytes(b"hello")
    good = Pinned("weights", "a.bin", "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824")
    assert good.read() == b"hello"
    with pytest.raises(GroundlingError, match=r"a\.bin.*SHA-256 is 2cf24d.*not loaded"):
        Pinned("weights", "a.bin", "0" * 64).read()


def test_a_pickle_that_calls_something_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if its hash were pinned: the reader makes tensors and containers, nothing else."""
    import hashlib
    import pickle

    class Call:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return exec, ("raise SystemExit",)

    torch.save({"_blocks.0._project_conv.weight": Call()}, tmp_path / "evil.pth")
    installed_at(tmp_path, monkeypatch)
    digest = hashlib.sha256((tmp_path / "evil.pth").read_bytes()).hexdigest()
    with pytest.raises(pickle.UnpicklingError):
        load_backbone(Pinned("weights", "evil.pth", digest))


def test_no_opencv_is_a_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(MissingExtra, match=r"groundling\[photos\]"):
        source("photos")


@opencv
def test_opencv_without_contributed_modules_is_a_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import cv2

    monkeypatch.delattr(cv2, "ximgproc")
    with pytest.raises(MissingExtra, match="contributed"):
        source("photos")


@pytest.mark.parametrize("count", [0, 35, 101, "many"])
def test_the_number_of_regions_has_bounds(count: object) -> None:
    with pytest.raises(GroundlingError, match=f"36 to 100, got {count!r}"):
        source("photos", regions=count)


# ---------------------------------------------------------------- the real thing


@pytest.fixture(scope="module")
def camera() -> photos.Photos:
    return photos.make(regions=40)


def street() -> Image.Image:
    """A red octagon on a pole before a sky and a lawn."""
    image = Image.new("RGB", (480, 360), (150, 190, 235))
    pen = ImageDraw.Draw(image)
    pen.rectangle((0, 280, 480, 360), fill=(70, 130, 50))
    pen.rectangle((236, 150, 246, 320), fill=(120, 120, 120))
    pen.regular_polygon((240, 120, 62), 8, rotation=22, fill=(250, 250, 250))
    pen.regular_polygon((240, 120, 58), 8, rotation=22, fill=(190, 20, 30))
    pen.text((240, 120), "STOP", fill="white", font_size=36, anchor="mm")
    return image


@real
def test_a_drawn_stop_sign_is_found_and_named(camera: photos.Photos) -> None:
    regions = camera(street())
    best = int(regions.scores[0, 1:, 0].argmax()) + 1
    assert camera.fingerprint.labels[int(regions.labels[0, best, 0])] == "stop sign"
    assert iou(torch.tensor([[180.0, 60.0, 300.0, 180.0]]), regions.boxes[0, best : best + 1]).item() > 0.6


@real
def test_the_lawn_that_the_detector_has_no_name_for_is_a_region(camera: photos.Photos) -> None:
    regions = camera(street())
    assert iou(torch.tensor([[0.0, 280.0, 480.0, 360.0]]), regions.boxes[0]).max() > 0.7


@real
def test_regions_are_what_the_fingerprint_promises(camera: photos.Photos) -> None:
    regions = camera(street())
    assert regions.feats.shape == (1, 40, camera.fingerprint.dim) and regions.feats.dtype == torch.float32
    assert regions.boxes[0, 0].tolist() == [0, 0, 480, 360] and regions.size.tolist() == [[480, 360]]
    words = [label for label in camera.fingerprint.labels if label.startswith("word:")]
    assert regions.whole is not None and regions.whole.shape == (1, 384 + 90 + len(words))
    assert regions.grid is not None and regions.grid.shape == (1, 49, 384)
    assert regions.labels.shape == regions.scores.shape == (1, 40, LABELS + WORDS)
    assert camera.fingerprint.parameters == {"regions": 40} and len(camera.fingerprint.labels) == 90 + len(words)
    assert all(len(digest) == 64 for digest in camera.fingerprint.weights.values())


@opencv
def test_the_detector_on_onnxruntime_is_that_of_opencv() -> None:
    pytest.importorskip("onnxruntime")
    from groundling.regions.sources._photos_onnx import DetectorOnnx

    one, other = DetectorOnnx(), Detector()
    for size in ((480, 360), (90, 240)):
        rgb = np.asarray(street().resize(size))
        ours, theirs = one(rgb), other(rgb)
        assert ours.scores.max() > 0.3
        np.testing.assert_allclose(ours.boxes, theirs.boxes, atol=1e-5)
        np.testing.assert_allclose(ours.scores, theirs.scores, atol=1e-5)
        for mine, opencvs in zip(ours.maps, theirs.maps, strict=True):
            np.testing.assert_allclose(mine, opencvs, atol=2e-4)


@real
def test_the_same_photo_gives_the_same_regions_after_another_one(camera: photos.Photos) -> None:
    first = camera(street())
    camera(street().rotate(90, expand=True))
    again = camera(street())
    assert torch.equal(first.feats, again.feats) and torch.equal(first.boxes, again.boxes)


@real
def test_features_follow_the_box_not_the_place_in_the_list(camera: photos.Photos) -> None:
    """The feature of the sign is nearer to that of its mirror image than to that of the lawn."""
    plain, mirrored = camera(street()), camera(street().transpose(Image.Transpose.FLIP_LEFT_RIGHT))

    def feature(regions: object, box: list[float]) -> Tensor:
        at = iou(torch.tensor([box]), regions.boxes[0])[0].argmax()  # type: ignore[attr-defined]
        return F.normalize(regions.feats[0, at, :1280], dim=0)  # type: ignore[attr-defined]

    sign, lawn = [180.0, 60.0, 300.0, 180.0], [0.0, 280.0, 480.0, 360.0]
    same = feature(plain, sign) @ feature(mirrored, sign)
    other = feature(plain, sign) @ feature(mirrored, lawn)
    assert same > other + 0.1


@real
def test_boxes_that_somebody_gives_are_seen_as_those_that_the_source_chooses(camera: photos.Photos) -> None:
    """Its own boxes, given back in another order, have the same features and labels; another box has others."""
    found = camera(street())
    order = [7, 3, 12]
    again = camera.at(street(), found.boxes[0, order].numpy())
    assert again.feats.shape[1] == 4 and again.boxes[0, 0].tolist() == [0, 0, 480, 360]
    torch.testing.assert_close(again.feats[0], found.feats[0, [0, *order]], rtol=1e-4, atol=1e-5)
    assert torch.equal(again.labels[0], found.labels[0, [0, *order]])
    other = camera.at(street(), boxes((181, 61, 299, 900)))  # what is outside of the photo is cut off
    assert other.boxes[0, 1].tolist() == pytest.approx([181, 61, 299, 360], abs=1e-3)
    assert not torch.allclose(other.feats[0, 1], again.feats[0, 1], atol=0.1)


@real
@pytest.mark.parametrize("size", [(1, 1), (2, 700), (3000, 2000)])
def test_any_size_of_photo_has_finite_regions_inside_it(camera: photos.Photos, size: tuple[int, int]) -> None:
    regions = camera(Image.linear_gradient("L").resize(size))
    assert regions.feats.isfinite().all() and (regions.boxes >= 0).all()
    assert (regions.boxes <= torch.tensor([*size, *size]) + 1e-3).all()


@real
def test_packages_of_weights_are_not_imported(camera: photos.Photos) -> None:
    """Nobody else's code is needed to read a file."""
    assert not ({file.package for file in photos.FILES} - {"groundling"}) & set(sys.modules)


@real
def test_without_a_detector_boxes_and_features_are_the_same_and_labels_are_the_teachers() -> None:
    taught, free = (photos_searched.make(40, detector) for detector in ("teacher", "none"))
    seen, blind = taught(street()), free(street())
    torch.testing.assert_close(seen.feats, blind.feats)
    torch.testing.assert_close(seen.boxes, blind.boxes)
    assert blind.feats.shape[1:] == (seen.boxes.shape[1], free.fingerprint.dim) and blind.labels.shape[-1] == 0
    assert blind.boxes[0, 0].tolist() == [0, 0, 480, 360]
    assert 5 < blind.boxes.shape[1] <= 40 and iou(blind.boxes[0], blind.boxes[0]).fill_diagonal_(0).max() <= 0.65 + 1e-3
    assert seen.labels.shape[-1] == LABELS and taught.fingerprint.labels[:1] == ("person",)
    require(free.fingerprint, taught.fingerprint)
    with pytest.raises(GroundlingError, match="teacher or none, not 'features'"):
        photos_searched.make(40, "features")


@real
def test_the_detectors_boxes_alone_are_seen_as_in_photos_and_none_is_the_whole_image(camera: photos.Photos) -> None:
    """The surest is the sign; its feature is that which `photos` computes for that box; the image stays a vector."""
    found = photos_detected.make(36)(street())
    assert found.boxes.shape[1] == 36 and found.frame.shape == (1, 36)
    assert iou(torch.tensor([[180.0, 60.0, 300.0, 180.0]]), found.boxes[0, :1]).item() > 0.6
    assert iou(torch.tensor([[0.0, 0.0, 480.0, 360.0]]), found.boxes[0]).max() < 0.99
    same = camera.at(street(), found.boxes[0, :3].numpy())
    torch.testing.assert_close(found.feats[0, :3], same.feats[0, 1:], rtol=1e-4, atol=1e-5)
    assert found.whole is not None and same.whole is not None
    torch.testing.assert_close(found.whole, same.whole, rtol=1e-4, atol=1e-5)


@real
def test_a_photo_in_which_the_detector_finds_no_box_keeps_the_whole_image(monkeypatch: pytest.MonkeyPatch) -> None:
    from groundling.regions.sources import _photos_onnx

    monkeypatch.setattr(_photos_onnx, "surest", lambda detections, count: boxes((0, 0, 1, 1)))
    assert photos_detected.make()(street()).boxes[0].tolist() == [[0, 0, 480, 360]]
