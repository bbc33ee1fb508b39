"""Where a photo has regions: a detector, selective search, and the boxes that are proposed from both, best first.

The detector is SSD-MobileNetV3-Large, trained on COCO, run by OpenCV. The usual output of an SSD, after suppression
within each class, has lost what makes good proposals: unsure boxes around things that COCO has no name for. So every
anchor's box and class probabilities are read. A detector finds what it has names for; selective search (segments of
similar colour and texture, merged step by step) finds sky, grass, walls and shirts. Captions also name groups ("two
men") and of parts ("a red hat"). No box here was learned from phrases. Boxes are xyxy in units of the image, 0 to 1.
A anchors · C classes · S searched.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from itertools import combinations, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groundling.errors import MissingExtra
from groundling.regions.sources._files import Pinned

Floats = NDArray[np.float32]
Indices = NDArray[np.int64]

SIDE = 320  # pixels of the square input; larger ones were worse: the anchors were trained at this size
CLASSES = 90  # COCO's ids 1 to 90, ten of them never used
SEARCH_SIDE = 320  # pixels; at 400 the search took twice as long and found less
SMALLEST = 0.01  # of the image's width and height; smaller boxes are noise
OVERLAP = 0.65  # two boxes with more IoU are one
PERSON = 0  # class of the detector
SURE = 0.3  # probability from which a person's group and parts are worth a box
CANDIDATES = 700  # anchors that enter suppression
RANKED = 110  # and that leave it: more than can be asked for

PARTS = ((0.25, 0.0, 0.75, 0.25), (0.1, 0.15, 0.9, 0.55), (0.1, 0.5, 0.9, 1.0), (0.0, 0.0, 1.0, 0.5))
# of a person's box: head; torso; legs; upper half

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
SCORES, OFFSETS, ANCHORS = "ClassPredictor/concat/sigmoid", "BoxEncodingPredictor/concat", "PriorBox/concat"
MAPS = (_NET + "expanded_conv_12/expand/hard_swish/mul_1", _NET + "Conv_1/hard_swish/mul_1")  # stride 16 and 32
MAP_DIMS = (672, 480)


# ---------------------------------------------------------------- proposals


def propose(detections: Detections, searched: Floats, count: int) -> Floats:
    """At most `count` distinct boxes (R, 4), the whole image first. Fewer are always the first of more."""
    boxes, scores = _large(detections)
    ranked = _ranked(boxes, scores)
    of_person = np.flatnonzero(scores[:, PERSON] > SURE)
    persons = boxes[of_person[_best(boxes[of_person], scores[of_person, PERSON])]]
    image = np.array([[0, 0, 1, 1]], np.float32)
    order = np.concatenate(
        [
            *(image, ranked[:20], searched[:16], groups(persons), parts(persons)),
            *(ranked[20:46], searched[16:41], ranked[46:], searched[41:]),
        ]
    )
    return order[_suppress(order, np.arange(len(order), 0, -1), OVERLAP)][:count]


def surest(detections: Detections, count: int) -> Floats:
    """The whole image and boxes of the detector, surest first, at most half overlapping: (R, 4), R ≤ count."""
    boxes, scores = _large(detections)
    return np.concatenate([np.array([[0, 0, 1, 1]], np.float32), boxes[_best(boxes, scores.max(1))]])[:count]


def distinct(searched: Floats, count: int) -> Floats:
    """At most `count` distinct boxes (R, 4) of selective search alone, the whole image first."""
    order = np.concatenate([np.array([[0, 0, 1, 1]], np.float32), searched])
    return order[_suppress(order, np.arange(len(order), 0, -1), OVERLAP)][:count]


def search(rgb: NDArray[np.uint8], side: int = SEARCH_SIDE) -> Floats:
    """Boxes of selective search (S, 4), largest first; the image's long side is brought to `side` pixels."""
    cv2 = opencv()
    height, width = rgb.shape[:2]
    scale = side / max(width, height)
    small = [max(16, round(length * scale)) for length in (width, height)]
    machine = cv2.ximgproc.segmentation.createSelectiveSearchSegmentation()
    machine.setBaseImage(cv2.resize(rgb[:, :, ::-1], small, interpolation=cv2.INTER_AREA))
    machine.switchToSingleStrategy()
    rectangles = np.unique(np.asarray(machine.process()).reshape(-1, 4), axis=0)  # sorted: they come in random order
    boxes = np.concatenate([rectangles[:, :2], rectangles[:, :2] + rectangles[:, 2:]], 1) / np.array([small * 2])
    large: Floats = boxes[(boxes[:, 2:] - boxes[:, :2]).min(1) > SMALLEST].astype(np.float32)
    return large[_suppress(large, (large[:, 2:] - large[:, :2]).prod(1), 0.7)]


def groups(persons: Floats) -> Floats:
    """The box around all persons (P, 4), then around every two of the first four."""
    if len(persons) < 2:
        return np.zeros((0, 4), np.float32)
    return np.stack([_around(persons), *(_around(np.stack(pair)) for pair in combinations(persons[:4], 2))])


def parts(persons: Floats) -> Floats:
    """The PARTS of the first two persons."""
    first = persons[:2, None]
    parts_of_person = np.array(PARTS, np.float32)[None]  # (1, 4, 4)
    size = np.tile(first[..., 2:] - first[..., :2], 2)
    corner = np.tile(first[..., :2], 2)
    return (corner + parts_of_person * size).reshape(-1, 4)


def _large(detections: Detections) -> tuple[Floats, Floats]:
    """Boxes and scores of all anchors that are no noise."""
    large = (detections.boxes[:, 2:] - detections.boxes[:, :2]).min(1) > SMALLEST
    return detections.boxes[large], detections.scores[large]


def _ranked(boxes: Floats, scores: Floats) -> Floats:
    """Anchors by their likeliest class, and by surprise, in turn.

    The first order is full of the classes that the detector is good at. Surprise is Σ_c p_c / mean(p_c), the mean taken
    over all anchors of this image: a little evidence for a class that is nowhere else counts more.
    """
    if not len(boxes):
        return boxes
    sure = _best(boxes, scores.max(1)).tolist()
    odd = _best(boxes, (scores / (scores.mean(0) + 1e-3)).sum(1)).tolist()
    return boxes[[i for pair in zip_longest(sure, odd) for i in pair if i is not None]]


def _best(boxes: Floats, scores: Floats) -> Indices:
    """Indices of the RANKED best, at most half overlapping."""
    first = np.argsort(-scores, kind="stable")[:CANDIDATES]
    return np.asarray(first[_suppress(boxes[first], scores[first], 0.5)[:RANKED]])


def _suppress(boxes: Floats, scores: NDArray[Any], threshold: float) -> Indices:
    """As `boxes.nms`, in a tenth of the time."""
    corner_and_size = np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], axis=1)
    kept = opencv().dnn.NMSBoxes(corner_and_size.tolist(), scores.tolist(), 0.0, threshold)
    return np.asarray(kept, np.int64).reshape(-1)  # OpenCV's answer is an empty tuple where nothing is kept


def _around(boxes: Floats) -> Floats:
    return np.concatenate([boxes[:, :2].min(0), boxes[:, 2:].max(0)])


# ---------------------------------------------------------------- the detector


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
        self.labels = class_names()

    def __call__(self, rgb: NDArray[np.uint8]) -> Detections:
        blob = self._blob(rgb, 1 / 127.5, (SIDE, SIDE), (127.5, 127.5, 127.5))
        with self._lock:
            self._net.setInput(blob)
            scores, offsets, anchors, *maps = self._net.forward([SCORES, OFFSETS, ANCHORS, *MAPS])
        return Detections(
            boxes=decode(offsets.reshape(-1, 4), *anchors.reshape(2, -1, 4)).clip(0, 1),
            scores=scores.reshape(-1, 1 + CLASSES)[:, 1:],  # the first column is the background
            maps=(maps[0][0], maps[1][0]),
        )


def class_names() -> tuple[str, ...]:
    return tuple(NAMES.read().decode().splitlines()[:CLASSES])


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
