"""Detectors in ONNX files: small graphs that the tests write themselves, byte by byte."""

from __future__ import annotations

import hashlib
import importlib.util
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from groundling.errors import DataError, GroundlingError, MissingExtra
from groundling.regions.sources import _detected, source
from groundling.regions.sources.onnx import Fit, Network, detr, yolo

needs_runtime = pytest.mark.skipif(not importlib.util.find_spec("onnxruntime"), reason="onnxruntime is not installed")

# ---------------------------------------------------------------- a writer of ONNX: protocol buffers by hand


def number(field: int, value: int) -> bytes:
    def varint(n: int) -> bytes:
        return bytes([n]) if n < 128 else bytes([n % 128 + 128]) + varint(n // 128)

    return varint(field << 3) + varint(value % (1 << 64))


def text(field: int, body: str | bytes) -> bytes:
    body = body.encode() if isinstance(body, str) else body
    length, n = b"", len(body)
    while n >= 128:
        length, n = length + bytes([n % 128 + 128]), n // 128
    return bytes([field << 3 | 2]) + length + bytes([n]) + body


def tensor(name: str, array: np.ndarray) -> bytes:
    kind = {np.dtype("float32"): 1, np.dtype("int64"): 7}[array.dtype]
    dims = b"".join(number(1, d) for d in array.shape)
    return dims + number(2, kind) + text(8, name) + text(9, array.tobytes())


def value(name: str, shape: Sequence[int | str]) -> bytes:
    dims = b"".join(text(1, number(1, d) if isinstance(d, int) else text(2, d)) for d in shape)
    return text(1, name) + text(2, text(1, number(1, 1) + text(2, dims)))


def node(kind: str, inputs: Sequence[str], output: str, **attributes: int) -> bytes:
    body = b"".join(text(1, i) for i in inputs) + text(2, output) + text(4, kind)
    for name, n in attributes.items():
        body += text(5, text(1, name) + number(3, n) + number(20, 2))
    return body


def model(
    nodes: Sequence[bytes],
    constants: dict[str, np.ndarray],
    outputs: dict[str, Sequence[int]],
    side: int | str = 64,
    names: str | None = None,
) -> bytes:
    graph = b"".join(text(1, n) for n in nodes) + text(2, "tiny")
    graph += b"".join(text(5, tensor(name, array)) for name, array in constants.items())
    graph += text(11, value("image", (1, 3, side, side)))
    graph += b"".join(text(12, value(name, shape)) for name, shape in outputs.items())
    whole = number(1, 8) + text(7, graph) + text(8, number(2, 13))
    return whole + (text(14, text(1, "names") + text(2, names)) if names else b"")


def boxes(n: int) -> np.ndarray:
    """(4, n) centre and size in pixels of 64: 8 wide, 16 high, along the diagonal; far from each other."""
    centres = 4 + 56 * np.arange(n, dtype=np.float32) / (n - 1)
    return np.stack([centres, centres, np.full(n, 4.0, np.float32), np.full(n, 8.0, np.float32)])


def means(n: int) -> tuple[list[bytes], dict[str, np.ndarray]]:
    """Nodes that make "means" (1, 3, n): the mean of each colour, the same for every box."""
    nodes = [
        node("GlobalAveragePool", ["image"], "pooled"),
        node("Reshape", ["pooled", "column"], "colours"),
        node("Mul", ["colours", "ones"], "means"),
    ]
    return nodes, {"column": np.array([1, 3, 1]), "ones": np.ones((1, 1, n), np.float32)}


def yolo8(side: int | str = 64, names: str | None = None) -> bytes:
    nodes, constants = means(9)
    nodes.append(node("Concat", ["boxes", "means"], "output0", axis=1))
    return model(nodes, constants | {"boxes": boxes(9)[None]}, {"output0": (1, 7, 9)}, side, names)


def yolo5() -> bytes:
    nodes, constants = means(9)
    placed = np.concatenate([boxes(9), np.full((1, 9), 0.5, np.float32)])[None]
    nodes.append(node("Concat", ["boxes", "means"], "rows", axis=1))
    nodes.append(node("Transpose", ["rows"], "columns"))  # (9, 8, 1): all axes reversed
    nodes.append(node("Reshape", ["columns", "shape"], "output0"))
    constants |= {"boxes": placed, "shape": np.array([1, 9, 8])}
    return model(nodes, constants, {"output0": (1, 9, 8)})


def detr_model() -> bytes:
    """Nine boxes; logits (red, green, blue) as means, so a grey image gives every class a third."""
    nodes, constants = means(9)
    nodes.append(node("Transpose", ["means"], "columns"))  # (9, 3, 1)
    nodes.append(node("Reshape", ["columns", "shape"], "logits"))
    nodes.append(node("Identity", ["placed"], "pred_boxes"))
    constants |= {"shape": np.array([1, 9, 3]), "placed": np.ascontiguousarray(boxes(9).T[None] / 64)}
    return model(nodes, constants, {"logits": (1, 9, 3), "pred_boxes": (1, 9, 4)})


@pytest.fixture
def no_backbone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backbone of two channels, brightness and its square, instead of the installed weights."""

    class Bright:
        dim = 2

        def __call__(self, pixels: torch.Tensor) -> torch.Tensor:
            grey = torch.nn.functional.avg_pool2d(pixels, 32).mean(1, keepdim=True)
            return torch.cat([grey, grey**2], 1)

    monkeypatch.setattr(_detected, "load_backbone", Bright)


def write(folder: Path, content: bytes, name: str = "mine.onnx") -> str:
    (folder / name).write_bytes(content)
    return str(folder / name)


# ---------------------------------------------------------------- by hand


def test_a_yolo_of_version_5_multiplies_objectness_and_class() -> None:
    rows = np.tile(np.array([10, 20, 4, 6, 0.5, 0.2, 0.8], np.float32), (9, 1))[None]  # (1, 9, 7)
    found, scores = yolo(rows)
    np.testing.assert_allclose(found[3], [8, 17, 12, 23])
    np.testing.assert_allclose(scores[3], [0.1, 0.4], rtol=1e-6)


def test_a_yolo_of_version_8_has_boxes_along_the_last_axis() -> None:
    columns = np.tile(np.array([10, 20, 4, 6, 0.2, 0.8], np.float32)[:, None], (1, 9))[None]  # (1, 6, 9)
    found, scores = yolo(columns)
    np.testing.assert_allclose(found[8], [8, 17, 12, 23])
    np.testing.assert_allclose(scores[8], [0.2, 0.8])


def test_logits_with_one_more_column_than_names_are_a_softmax_with_no_object() -> None:
    """Logits (0, log 2, log 5): probabilities 1/8, 2/8, and 5/8 for nothing."""
    logits = np.log(np.array([[[1, 2, 5]]], np.float32))
    found, scores = detr(np.array([[[0.5, 0.5, 0.2, 0.4]]], np.float32), logits, 2)
    np.testing.assert_allclose(found, [[0.4, 0.3, 0.6, 0.7]], rtol=1e-6)
    np.testing.assert_allclose(scores, [[0.125, 0.25]], rtol=1e-5)


def test_logits_for_every_name_are_sigmoids() -> None:
    _, scores = detr(np.zeros((1, 1, 4), np.float32), np.log(np.array([[[1, 3]]], np.float32)), 2)
    np.testing.assert_allclose(scores, [[0.5, 0.75]], rtol=1e-5)


def test_padding_is_undone() -> None:
    """200 x 100 on a canvas of 64 x 64: 64 x 32, 16 from the top; the middle of the canvas is that of the image."""
    fit = Fit.pad((200, 100), (64, 64))
    assert fit == Fit((64, 32), (0, 16))
    np.testing.assert_allclose(fit.undo(np.array([[16, 24, 48, 40]], np.float32)), [[0.25, 0.25, 0.75, 0.75]])


# ---------------------------------------------------------------- whole


@needs_runtime
@pytest.mark.parametrize(("content", "red"), [(yolo8(), 1.0), (yolo8("side"), 0.0), (yolo5(), 0.5)])
def test_a_red_image_is_seen_as_red(tmp_path: Path, content: bytes, red: float) -> None:
    """The tiny models report the mean of each colour as the probability of a class: 1, 0, 0 for red.

    Of any size, the model is given 640 x 640, where its constant boxes are a tenth as large; that changes nothing here.
    """
    network = Network(tmp_path / "x.onnx", content, None, None, None)
    found, scores = network(Image.new("RGB", (30, 30), (255, 0, 0)))
    np.testing.assert_allclose(scores[4], [red or 1.0, 0, 0], atol=1e-3)
    scale = 64 if red else 640
    np.testing.assert_allclose(found[4], np.array([30, 28, 34, 36]) / scale, atol=1e-4)


@needs_runtime
def test_a_detr_is_given_normalised_colours(tmp_path: Path) -> None:
    """ImageNet's mean colour is 0 after normalisation: three equal logits, the last of them "no object"."""
    network = Network(tmp_path / "x.onnx", detr_model(), None, None, None)
    assert network.names == ("class 0", "class 1")
    found, scores = network(Image.new("RGB", (50, 20), (124, 116, 104)))
    np.testing.assert_allclose(scores, np.full((9, 2), 1 / 3), atol=5e-3)
    np.testing.assert_allclose(found[4], np.array([30, 28, 34, 36]) / 64, atol=1e-6)


@needs_runtime
def test_regions_of_a_detector(tmp_path: Path, no_backbone: None) -> None:
    path = write(tmp_path, yolo8(names="{0: 'red', 1: 'green', 2: 'blue'}"))
    detector = source("onnx", model=path, regions=6)
    regions = detector(Image.new("RGB", (128, 128), (255, 127, 0)))
    assert detector.fingerprint.labels == ("red", "green", "blue")
    assert detector.fingerprint.weights["mine.onnx"] == hashlib.sha256(Path(path).read_bytes()).hexdigest()
    assert detector.fingerprint.dim == regions.feats.shape[2] == 2 + 3 + 5
    assert regions.boxes.shape == (1, 6, 4) and regions.boxes[0, 0].tolist() == [0, 0, 128, 128]
    assert regions.boxes[0, 1].tolist() == [4, 0, 12, 16]  # 8 wide, 16 high, about (8, 8), as twice the canvas
    assert regions.labels[0, 1].tolist() == [0, 1, -1] and regions.labels[0, 0].tolist() == [-1, -1, -1]
    torch.testing.assert_close(regions.scores[0, 1], torch.tensor([1.0, 127 / 255, 0.0]), atol=1e-3, rtol=0)
    torch.testing.assert_close(regions.feats[0, 1, 2:5], torch.tensor([1.0, 127 / 255, 0.0]), atol=1e-3, rtol=0)


@needs_runtime
def test_names_come_from_a_file(tmp_path: Path, no_backbone: None) -> None:
    (tmp_path / "names.txt").write_text("cat\ndog\nfish\n")
    made = source("onnx", model=write(tmp_path, yolo8()), names=str(tmp_path / "names.txt"))
    assert made.fingerprint.labels == ("cat", "dog", "fish")


@needs_runtime
def test_boxes_that_are_not_numbers_are_left_out(tmp_path: Path) -> None:
    found = np.array([[0, 0, 0.5, 0.5], [np.nan, 0, 1, 1], [0.5, 0, 0.5, 1], [0.2, 0.2, 3, 4]], np.float32)
    scores = np.array([[0.9], [0.9], [0.9], [0.5]], np.float32)
    kept, kept_scores = _detected.sound(found, scores)
    np.testing.assert_allclose(kept, [[0, 0, 0.5, 0.5], [0.2, 0.2, 1, 1]])
    assert _detected.distinct(kept, kept_scores, 10).shape == (3, 4)
    assert _detected.sound(np.zeros((0, 4), np.float32), np.zeros((0, 7), np.float32))[0].shape == (0, 4)


# ---------------------------------------------------------------- refusals


@needs_runtime
def test_the_number_of_names_must_be_that_of_the_scores(tmp_path: Path) -> None:
    with pytest.raises(GroundlingError, match=r"mine\.onnx.*3 classes, but 2 names"):
        source("onnx", model=write(tmp_path, yolo8(names="{0: 'a', 1: 'b'}")))


@needs_runtime
@pytest.mark.parametrize("names", ["{0: __import__('os')}", "[" * 5000, "{1: 'a'}"])
def test_names_are_read_never_executed(tmp_path: Path, names: str) -> None:
    with pytest.raises(DataError, match="class names"):
        source("onnx", model=write(tmp_path, yolo8(names=names)))


@needs_runtime
@pytest.mark.parametrize("content", [b"", b"hello", yolo8()[:200], struct.pack("<q", -1) * 9])
def test_what_is_not_a_model_is_named(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DataError, match=r"mine\.onnx.*ONNX"):
        source("onnx", model=write(tmp_path, content))


@needs_runtime
def test_a_model_that_is_not_a_detector_is_named(tmp_path: Path) -> None:
    content = model([node("GlobalAveragePool", ["image"], "pooled")], {}, {"pooled": (1, 3, 1, 1)})
    with pytest.raises(GroundlingError, match=r"expected \(1, n, 5 \+ C\)"):
        source("onnx", model=write(tmp_path, content))


def test_a_missing_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.onnx"):
        source("onnx", model=str(tmp_path / "nowhere.onnx"))


def test_a_missing_runtime_is_a_missing_extra(tmp_path: Path, monkeypatch: Any) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtra, match=r"groundling\[onnx\]"):
        source("onnx", model=write(tmp_path, yolo8()))
