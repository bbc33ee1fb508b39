"""A detector of your own, as an ONNX file: YOLO (v5, v8, 11) or DETR style outputs, told apart by their shapes.

- One output (1, n, 5 + C), YOLOv5: centre, size, objectness, classes; pixels of the input.
- One output (1, 4 + C, n), YOLOv8 and 11: centre, size, classes; pixels of the input. The longer axis is that of boxes.
- Two outputs, (1, n, 4) and (1, n, K), DETR: centre and size from 0 to 1, and logits. K = C + 1 is read as softmax with
  "no object" last (DETR), K = C as sigmoid (Deformable DETR, RT-DETR), C being the number of names; K = C + 1 when the
  names are not known.

A YOLO gets the image as [0, 1], padded with grey to the shape of its input; a DETR gets it stretched, and normalised as
ImageNet's images are; `mean` and `std` say otherwise. Weights are yours: mind their licence.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from groundling.errors import DataError, GroundlingError
from groundling.regions.graphs import onnxruntime
from groundling.regions.sources._detected import Detected, Floats, read_names

GREY = (114, 114, 114)  # what YOLO's training pads with
SIDES = (640, 640)  # height and width for a model that takes any
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def make(
    model: str,
    regions: int = 50,
    names: str | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> Detected:
    """`model`: the ONNX file. `names`: a text file, one class per line, where the model does not carry its own."""
    path = Path(model)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot read the model ({error.strerror}); give the path of an ONNX file") from error
    network = Network(path, content, read_names(Path(names)) if names else None, mean, std)
    return Detected(
        network,
        name="onnx",
        regions=regions,
        labels=network.names,
        parameters={"model": path.name, "mean": list(network.mean), "std": list(network.std)},
        weights={path.name: hashlib.sha256(content).hexdigest()},
    )


class Network:
    """An ONNX model as a function from an RGB image to boxes (N, 4), from 0 to 1, and probabilities (N, C)."""

    def __init__(
        self,
        path: Path,
        content: bytes,
        names: tuple[str, ...] | None,
        mean: Sequence[float] | None,
        std: Sequence[float] | None,
    ) -> None:
        self.path = path
        self._session = _session(path, content)
        inputs = self._session.get_inputs()
        if len(inputs) != 1 or len(inputs[0].shape) != 4:
            raise GroundlingError(f"{path}: a detector has one input (1, 3, H, W); this one has {_shapes(inputs)}")
        self._input = inputs[0]
        height, width = self._input.shape[2:]
        self._sides = (height if isinstance(height, int) else SIDES[0], width if isinstance(width, int) else SIDES[1])
        self._detr = len(self._session.get_outputs()) > 1
        usual = IMAGENET if self._detr else ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
        self.mean, self.std = _three("mean", mean or usual[0]), _three("std", std or usual[1])
        self._known = names or _names_of(path, self._session.get_modelmeta().custom_metadata_map)
        _, scores = self(Image.new("RGB", (64, 64), GREY))  # one look says how many classes there are
        self.names = self._known or tuple(f"class {i}" for i in range(scores.shape[1]))
        if len(self.names) != scores.shape[1]:
            raise GroundlingError(
                f"{path}: scores for {scores.shape[1]} classes, but {len(self.names)} names; give the right names with "
                "names=FILE, and export the model without suppression inside (nms=False)"
            )

    def __call__(self, image: Image.Image) -> tuple[Floats, Floats]:
        fit = Fit.stretch(self._sides) if self._detr else Fit.pad(image.size, self._sides)
        try:
            arrays = self._session.run(None, {self._input.name: self._pixels(image, fit)})
        except Exception as error:  # the runtime has no base class of its own
            raise GroundlingError(f"{self.path}: the model does not run on an image: {error}") from error
        outputs = [np.asarray(x, np.float32) for x in arrays if getattr(x, "ndim", 0) == 3]
        if self._detr:
            boxes, scores = detr(*_detr_outputs(self.path, outputs), len(self._known) if self._known else None)
            boxes = boxes * np.array(self._sides[::-1] * 2, np.float32)
        else:
            boxes, scores = yolo(_yolo_output(self.path, outputs))
        return fit.undo(boxes), scores

    def _pixels(self, image: Image.Image, fit: Fit) -> NDArray[Any]:
        """(1, 3, H, W)"""
        canvas = Image.new("RGB", self._sides[::-1], GREY)
        canvas.paste(image.resize(fit.size, Image.Resampling.BILINEAR, reducing_gap=3.0), fit.corner)
        scaled = np.asarray(canvas, np.float32) / 255
        scaled = (scaled - np.array(self.mean, np.float32)) / np.array(self.std, np.float32)
        dtype = np.float16 if "float16" in self._input.type else np.float32
        return np.ascontiguousarray(scaled.transpose(2, 0, 1)[None].astype(dtype))


@dataclass(frozen=True)
class Fit:
    """Where an image lies on a canvas of (height, width) `sides`: its size there, and its upper left corner; pixels."""

    size: tuple[int, int]
    corner: tuple[int, int]

    @staticmethod
    def stretch(sides: tuple[int, int]) -> Fit:
        return Fit((sides[1], sides[0]), (0, 0))

    @staticmethod
    def pad(size: tuple[int, int], sides: tuple[int, int]) -> Fit:
        """As large as it can be without changing its shape, in the middle."""
        scale = min(sides[1] / size[0], sides[0] / size[1])
        width, height = (max(1, round(side * scale)) for side in size)
        return Fit((width, height), ((sides[1] - width) // 2, (sides[0] - height) // 2))

    def undo(self, boxes: Floats) -> Floats:
        """Boxes in pixels of the canvas -> in units of the image."""
        corner, size = (np.array(pair * 2, np.float32) for pair in (self.corner, self.size))
        return (boxes - corner) / size


def yolo(output: Floats) -> tuple[Floats, Floats]:
    """(1, n, 5 + C) or (1, 4 + C, n) -> boxes xyxy (n, 4) in pixels of the input, probabilities (n, C)."""
    rows = output[0]
    if rows.shape[0] >= rows.shape[1]:
        return _corners(rows[:, :4]), rows[:, 4:5] * rows[:, 5:]
    return _corners(rows[:4].T), np.ascontiguousarray(rows[4:].T)


def detr(boxes: Floats, logits: Floats, classes: int | None) -> tuple[Floats, Floats]:
    """(1, n, 4) centre and size, (1, n, K) -> boxes xyxy (n, 4), probabilities (n, C); units of the image."""
    if classes == logits.shape[-1]:
        scores = 1 / (1 + np.exp(-logits[0].clip(-80, 80)))
    else:
        raised = np.exp(logits[0] - logits[0].max(1, keepdims=True))
        scores = (raised / raised.sum(1, keepdims=True))[:, :-1]
    return _corners(boxes[0]), scores


# ----------------------------------------------------------------


def _session(path: Path, content: bytes) -> Any:
    import torch

    runtime = onnxruntime("onnx")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    try:  # from bytes: what was hashed is what runs, and no other file can be pulled in
        return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise DataError(f"{path}: not a self-contained ONNX model ({error}); export it anew as one file") from error


def _yolo_output(path: Path, outputs: Sequence[Floats]) -> Floats:
    """The only output, if it can be one of a YOLO: the shorter of its axes holds a box and at least one class."""
    if len(outputs) != 1 or outputs[0].shape[0] != 1 or min(outputs[0].shape[1:]) < 5:
        shapes = ", ".join(str(x.shape) for x in outputs)
        raise GroundlingError(f"{path}: expected (1, n, 5 + C) or (1, 4 + C, n), found {shapes or 'no such output'}")
    return outputs[0]


def _detr_outputs(path: Path, outputs: Sequence[Floats]) -> tuple[Floats, Floats]:
    boxes = [x for x in outputs if x.shape[-1] == 4]
    logits = [x for x in outputs if x.shape[-1] != 4]
    if len(boxes) != 1 or len(logits) != 1 or boxes[0].shape[1] != logits[0].shape[1]:
        shapes = ", ".join(str(x.shape) for x in outputs)
        raise GroundlingError(f"{path}: expected boxes (1, n, 4) and logits (1, n, K), found {shapes or 'none'}")
    return boxes[0], logits[0]


def _corners(boxes: Floats) -> Floats:
    centre, half = boxes[:, :2], boxes[:, 2:] / 2
    return np.concatenate([centre - half, centre + half], axis=1)


def _names_of(path: Path, metadata: Mapping[str, str]) -> tuple[str, ...] | None:
    """The names that YOLO exports carry, as the text of a dictionary {0: 'person', ...}."""
    if "names" not in metadata:
        return None
    try:
        names = ast.literal_eval(metadata["names"])
        return tuple(str(names[i]) for i in range(len(names)))
    except (ValueError, SyntaxError, KeyError, TypeError, MemoryError, RecursionError) as error:
        raise DataError(f"{path}: its class names cannot be read ({error}); give them with names=FILE") from error


def _three(name: str, values: Sequence[float]) -> tuple[float, float, float]:
    if len(values) != 3 or (name == "std" and min(values) <= 0):
        raise GroundlingError(f"{name} must be three numbers, one per colour (std: positive), got {values!r}")
    red, green, blue = (float(x) for x in values)
    return red, green, blue


def _shapes(inputs: Sequence[Any]) -> str:
    return ", ".join(f"{x.name} {x.shape}" for x in inputs) or "none"
