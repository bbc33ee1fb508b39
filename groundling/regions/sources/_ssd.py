"""SSD-MobileNetV3-Large, trained on COCO, run by OpenCV: every anchor's box and class probabilities, not only the best.

The usual output of an SSD, after suppression within each class, has lost what makes good proposals: unsure boxes around
things that COCO has no name for. So the layers before it are read. A anchors · C classes.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groundling.errors import MissingExtra
from groundling.regions.sources._files import Pinned

Floats = NDArray[np.float32]

SIDE = 320  # pixels of the square input; larger ones were worse: the anchors were trained at this size
CLASSES = 90  # COCO's ids 1 to 90, ten of them never used

_FOLDER = "regions/sources/ssd_mobilenet_v3/"  # its NOTICE says where the files come from
GRAPH = Pinned(
    "groundling",
    _FOLDER + "frozen_inference_graph.pb",
    "3c95e720eed1bbaf264048ab8fbe6765e5b3a64fafe64020cd53ecd14ccf2c58",
)
CONFIG = Pinned(
    "groundling",
    _FOLDER + "ssd_mobilenet_v3_large_coco_2020_01_14.pbtxt",
    "675787408f7fb7223ee20eaf89393d6e22d8c2d05ab59aafedce95b3c7e4a21d",
)
NAMES = Pinned(
    "groundling",
    _FOLDER + "labels.txt",
    "823dd3938e7076884ec087abe8f0aabe7e1361d01c5b4d8f6b6281abf6f395c1",
)

_NET = "FeatureExtractor/MobilenetV3/"
_SCORES, _OFFSETS, _ANCHORS = "ClassPredictor/concat/sigmoid", "BoxEncodingPredictor/concat", "PriorBox/concat"
_MAPS = (_NET + "expanded_conv_12/expand/hard_swish/mul_1", _NET + "Conv_1/hard_swish/mul_1")  # stride 16 and 32
MAP_DIMS = (672, 480)


@dataclass(frozen=True)
class Detections:
    """What the detector sees in one image, before any suppression."""

    boxes: Floats  # (A, 4) in units of the image: 0 to 1
    scores: Floats  # (A, C) probabilities
    maps: tuple[Floats, Floats]  # (672, 20, 20), (480, 10, 10): what its first two prediction layers look at


class Detector:
    """RGB array in, Detections out."""

    def __init__(self) -> None:
        cv2 = opencv()
        graph, config = (np.frombuffer(file.read(), np.uint8) for file in (GRAPH, CONFIG))
        # OpenCV 5 has two engines; only the classic one, the only one of OpenCV 4, shows inner layers
        engine = {"engine": cv2.dnn.ENGINE_CLASSIC} if hasattr(cv2.dnn, "ENGINE_CLASSIC") else {}
        self._net = cv2.dnn.readNetFromTensorflow(graph, config, **engine)
        self._blob = cv2.dnn.blobFromImage
        self._lock = threading.Lock()  # a network keeps its input and its layers' outputs between two calls
        self.labels = tuple(NAMES.read().decode().splitlines()[:CLASSES])

    def __call__(self, rgb: NDArray[np.uint8]) -> Detections:
        blob = self._blob(rgb, 1 / 127.5, (SIDE, SIDE), (127.5, 127.5, 127.5))
        with self._lock:
            self._net.setInput(blob)
            scores, offsets, anchors, *maps = self._net.forward([_SCORES, _OFFSETS, _ANCHORS, *_MAPS])
        return Detections(
            boxes=decode(offsets.reshape(-1, 4), *anchors.reshape(2, -1, 4)).clip(0, 1),
            scores=scores.reshape(-1, 1 + CLASSES)[:, 1:],  # the first column is the background
            maps=(maps[0][0], maps[1][0]),
        )


def decode(offsets: Floats, anchors: Floats, variances: Floats) -> Floats:
    """Boxes xyxy: centre = anchor's centre + v t ⊙ anchor's size, size = anchor's size ⊙ exp(v t); all (A, 4)."""
    size = anchors[:, 2:] - anchors[:, :2]
    step = offsets * variances
    centre = (anchors[:, :2] + anchors[:, 2:]) / 2 + step[:, :2] * size
    half = size * np.exp(step[:, 2:]) / 2
    return np.concatenate([centre - half, centre + half], axis=1)


def opencv() -> Any:
    """The module cv2, with its contributed part; MissingExtra otherwise."""
    try:
        import cv2
    except ImportError as error:
        raise MissingExtra("photos need OpenCV; run: pip install 'groundling[photos]'") from error
    if not hasattr(cv2, "ximgproc"):
        raise MissingExtra(
            "photos need OpenCV with its contributed modules, and another OpenCV is installed: "
            "pip uninstall opencv-python opencv-python-headless; pip install 'groundling[photos]' --force-reinstall"
        )
    return cv2
