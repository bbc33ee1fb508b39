"""What `photos` sees in an image, on onnxruntime and OpenCV alone: arrays, no torch.

Where there are two cores or more, the network runs in a thread of its own beside the detector and selective search;
with a third core, these two run at the same time, too. While several images are looked at, each by a thread of its own,
these threads do all of it themselves: they keep the cores busy. Large products of matrices are in graphs, since numpy's
bring threads of their own. Captions need neither labels nor the feature map: they are made where asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from groundling.images import small_copy
from groundling.regions.graphs import AtOnce, Graph, Session, cores
from groundling.regions.sources._detector_onnx import load_detector
from groundling.regions.sources._image_classes import FROZEN, ClassesOnnx
from groundling.regions.sources._photos_files import (
    CELLS,
    MAP_SIDE,
    SEARCH_SIDE,
    STAGE_STRIDES,
    WORKING_SIDE,
    read_word_file,
)
from groundling.regions.sources._pooling import (
    LABELS,
    LIKELY,
    WORDS,
    box_weights,
    cell_shares,
    detector_scores,
    fit,
    likeliest,
    pixel_array,
    positions,
    window_weights,
)
from groundling.regions.sources._proposals import (
    CLASSES,
    MAP_DIMS,
    SIDE,
    Detections,
    decode,
    opencv,
    propose,
    search,
    surest,
)
from groundling.types import WORD_DEVIATION, WORD_MEAN

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Seen:
    """The regions of one image or clip, as `tensors.Regions` of one (B = 1)."""

    feats: Floats  # (R, D)
    boxes: Floats  # (R, 4) pixels
    frame: NDArray[np.int64]  # (R,)
    size: tuple[int, int]
    whole: Floats  # (G,)
    labels: NDArray[np.int64]  # (R, L), L being 0 where they were not asked for
    scores: Floats  # (R, L)
    picture: Image.Image | None = None  # a small copy, of one image
    classes: Floats | None = None  # (R, K) probabilities of the nouns of `_image_classes`, where they were asked for
    grid: Floats | None = None  # (MAP_SIDE², C) the feature map, where it was asked for


class DetectorOnnx:
    """RGB array in, Detections out. It may be called by several threads at once."""

    def __init__(self) -> None:
        self._session, self._anchors = load_detector()
        self._blob = opencv().dnn.blobFromImage

    def __call__(self, rgb: NDArray[np.uint8]) -> Detections:
        blob = self._blob(rgb, 1 / 127.5, (SIDE, SIDE), (127.5, 127.5, 127.5))
        scores, offsets, fine, coarse, *_ = self._session({"pixels": blob})
        return Detections(
            boxes=decode(offsets, *self._anchors).clip(0, 1),
            scores=scores[:, 1:],  # the first column is the background
            maps=(fine[0], coarse[0]),
        )


class PhotosOnnx:
    """An RGB image in, what is seen out; region 0 is the whole image. Unless `searched`, the others are the detector's
    alone."""

    def __init__(self, regions: int, image_classes: bool = False, searched: bool = True) -> None:
        self._regions, self._searched = regions, searched
        self._looking, self._lock = 0, threading.Lock()  # images at the same time
        self._others: Executor = ThreadPoolExecutor(2, "groundling-look") if cores() > 1 else AtOnce()
        network = self._others.submit(_sessions)
        self._detector = DetectorOnnx()
        self._network, self._project = network.result()
        self._classes = ClassesOnnx() if image_classes else None

    def add_classes(self) -> None:
        """Regions have probabilities of nouns by image classes from now on."""
        self._classes = self._classes or ClassesOnnx()

    def __call__(self, image: Any) -> Seen:
        """Without labels and feature map."""
        return self._look(image, None).seen(complete=False)

    def complete(self, image: Any) -> Seen:
        """With labels and the feature map."""
        return self._look(image, None).seen(complete=True)

    def at(self, image: Any, boxes: Floats) -> Seen:
        """The whole image, then these boxes (xyxy in pixels of it), with labels and the feature map."""
        relative = (np.asarray(boxes, np.float32) / np.array([*image.size, *image.size], np.float32)).clip(0, 1)
        return self._look(image, np.concatenate([np.array([[0, 0, 1, 1]], np.float32), relative])).seen(complete=True)

    def _look(self, image: Any, boxes: Floats | None) -> _Look:
        """At these boxes (0 to 1), or at those that are proposed."""
        picture = fit(image.convert("RGB"))
        rgb = np.asarray(picture)
        with self._helpers() as others:
            mapped = others.submit(self._mapped, picture)
            searcher = others if cores() > 2 else AtOnce()  # three threads on two cores would hold up the network
            searched = searcher.submit(search, rgb, SEARCH_SIDE) if boxes is None and self._searched else None
            detections = self._detector(rgb)
            if searched is not None:
                boxes = propose(detections, searched.result(), self._regions)
            elif boxes is None:
                boxes = surest(detections, self._regions)
            scores = detector_scores(boxes, detections.boxes, detections.scores)  # while the network is at work
            grid, words, cells, late = mapped.result()
            weights = box_weights(boxes, *grid.shape[2:])
            classes = None
            if self._classes is not None and late is not None:
                classes = others.submit(self._classes.regions, late, weights)  # while `seen` projects
        look = self._project, detections, boxes, scores, grid, weights, words, cells
        return _Look(*look, image.size, small_copy(image), classes)

    @contextmanager
    def _helpers(self) -> Iterator[Executor]:
        """The other threads, for an image that is looked at alone."""
        with self._lock:
            self._looking += 1
            alone = self._looking == 1
        try:
            yield self._others if alone else AtOnce()
        finally:
            with self._lock:
                self._looking -= 1

    def _mapped(self, picture: Any) -> tuple[Floats, Floats, Floats, Floats | None]:
        """The map, the numbers of words, of image and cells; where image classes are asked for, their cells."""
        grid, words, cells, early = self._network({"pixels": pixel_array(picture, WORKING_SIDE)})
        return grid, words, cells, self._classes.cells(early) if self._classes else None


@dataclass(frozen=True)
class _Look:
    """What the networks say of one image, and where its regions are."""

    project: Session
    detections: Detections
    boxes: Floats  # (R, 4), 0 to 1
    scores: Floats  # (R, C), see `detector_scores`
    grid: Floats  # (1, C, rows, columns)
    weights: Floats  # (R, rows · columns), see `box_weights`
    words: Floats  # (W,), log(−log(1 − p)), scaled
    cells: Floats  # (rows · columns, W), logits
    size: tuple[int, int]
    picture: Image.Image  # a small copy
    classes: Future[Floats] | None  # (R, K)

    def seen(self, complete: bool) -> Seen:
        """Labels and the feature map where `complete`."""
        boxes, detections, scores, size = self.boxes, self.detections, self.scores, self.size
        maps = {"map16": detections.maps[0], "map32": detections.maps[1]}
        weights = {f"{name}_weights": box_weights(boxes, *x.shape[1:]) for name, x in maps.items()}
        cells = window_weights(MAP_SIDE, *self.grid.shape[2:])[: None if complete else 0]
        weights["map_weights"] = np.concatenate([self.weights, cells])
        seen, detected = self.project(maps | weights | {"map": self.grid[0]})
        seen, coarse = seen[: len(boxes)], seen[len(boxes) :]
        return Seen(
            np.concatenate([seen, detected, scores, positions(boxes)], axis=1),
            boxes * np.array([*size, *size], np.float32),
            np.zeros(len(boxes), np.int64),
            size,
            np.concatenate([seen[0], detections.scores.max(0), self.words]).astype(np.float32),
            *(self._labels(scores) if complete else (np.zeros((len(boxes), 0), np.int64), scores[:, :0])),
            picture=self.picture,
            classes=None if self.classes is None else self.classes.result(),
            grid=coarse if complete else None,
        )

    def _labels(self, scores: Floats) -> tuple[NDArray[np.int64], Floats]:
        """(R, LABELS + WORDS): classes of the detector, then words by p · soft IoU of box and heat map."""
        p = -np.expm1(-np.exp(self.words * np.float32(WORD_DEVIATION) + np.float32(WORD_MEAN)))
        chosen = np.flatnonzero(p >= LIKELY)
        chosen = chosen[np.argsort(-p[chosen], kind="stable")][:64]
        heat = 1 / (1 + np.exp(-self.cells[:, chosen]))
        heat = heat / np.maximum(heat.max(0), 1e-6)
        shares = cell_shares(self.boxes, *self.grid.shape[2:])
        inside = np.einsum("rg,gw->rw", shares, heat)
        covered = inside / np.maximum(heat.sum(0) + shares.sum(1, keepdims=True) - inside, 1e-6)
        fitting = np.zeros((len(self.boxes), max(WORDS, len(chosen))), np.float32)
        fitting[:, : len(chosen)] = p[chosen] * covered
        words, best = likeliest(fitting, WORDS)
        ids = np.where(words >= 0, np.pad(chosen, (0, WORDS))[words] + CLASSES, -1)
        classes, likely = likeliest(scores, LABELS)
        return np.concatenate([classes, ids], 1), np.concatenate([likely, best], 1)


def of_frames(frames: Sequence[Seen]) -> Seen:
    """A clip from its frames, as `regions.media.of_frames`: the first region of every frame, then the second, …"""
    rank = np.concatenate([np.arange(len(one.boxes)) for one in frames])
    order = np.argsort(rank, kind="stable")
    number = np.concatenate([np.full(len(one.boxes), i) for i, one in enumerate(frames)])
    return Seen(
        np.concatenate([one.feats for one in frames])[order],
        np.concatenate([one.boxes for one in frames])[order],
        number[order],
        frames[0].size,
        np.stack([one.whole for one in frames]).mean(0),
        np.concatenate([one.labels for one in frames])[order],
        np.concatenate([one.scores for one in frames])[order],
        classes=None if frames[0].classes is None else np.concatenate([one.classes for one in frames])[order],
    )


# ---------------------------------------------------------------- graphs


def _sessions() -> tuple[Session, Session]:
    network, projection = photos_graphs().values()
    return Session(network), Session(projection)


def photos_graphs() -> dict[str, bytes]:
    """`network`: pixels (1, 3, H, W) to its map, the numbers of words, scaled, and the logits of words in each cell.
    `projection`: from maps and the weights of their cells in each box, to what regions look like."""
    state = read_word_file().state
    return {"network": _network(state).to_bytes(), "projection": _projection(state).to_bytes()}


def _network(state: Mapping[str, NDArray[Any]]) -> Graph:
    graph = Graph("network")
    low, high = graph.constant(np.float32(0)), graph.constant(np.float32(6))

    def convolution(x: str, name: str, stride: int = 1, bounded: bool = True) -> str:
        y = graph.convolution(x, state[f"network.{name}.weight"], state[f"network.{name}.bias"], stride)
        return graph.add("Clip", y, low, high) if bounded else y

    x = convolution(graph.input("pixels", 1, 3, "height", "width"), "stem", stride=2)
    before, stage, last = state["network.stem.weight"].shape[0], -1, 0
    for i in range(1 + max(int(name.split(".")[2]) for name in state if name.startswith("network.blocks."))):
        at, out = f"blocks.{i}.", state[f"network.blocks.{i}.down.weight"].shape[0]
        stage, first = stage + (out != last), out != last
        stride = STAGE_STRIDES[stage] if first else 1
        y = convolution(x, at + "up") if f"network.{at}up.weight" in state else x
        y = convolution(convolution(y, at + "depthwise", stride), at + "down", bounded=False)
        x = graph.add("Add", y, x) if stride == 1 and before == out else y
        before = last = out
        if i == FROZEN - 1:
            early = x
    x = convolution(x, "head")
    channels = state["network.head.weight"].shape[0]
    graph.output(x, "map", 1, channels, "rows", "columns")
    cells = graph.add("Transpose", graph.add("Reshape", x, graph.constant(np.array([channels, -1]))), perm=[1, 0])
    logits = graph.linear(cells, state["words.weight"], state["words.bias"])
    absence = graph.add("ReduceMean", _softplus(graph, logits), axes=[0], keepdims=0)
    absence = graph.add("Max", graph.add("Mul", absence, graph.constant(np.float32(CELLS))), graph.constant(TINY))
    scaled = graph.add("Sub", graph.add("Log", absence), graph.constant(np.float32(WORD_MEAN)))
    scaled = graph.add("Div", scaled, graph.constant(np.float32(WORD_DEVIATION)))
    graph.output(scaled, "words", len(state["words.bias"]))
    graph.output(logits, "cells", "cells", len(state["words.bias"]))
    graph.output(early, "early", 1, state[f"network.blocks.{FROZEN}.up.weight"].shape[1], "early_rows", "early_columns")
    return graph


TINY = np.float32(1e-6)


def _softplus(graph: Graph, x: str) -> str:
    """log(1 + eˣ) = max(x, 0) + log(u) − ((u − 1) − e)/u, with e = exp(−|x|) and u = 1 + e, in which the last term
    undoes the rounding of u. onnxruntime's own operator goes number by number, and takes four times as long."""
    one = graph.constant(np.float32(1))
    e = graph.add("Exp", graph.add("Neg", graph.add("Abs", x)))
    u = graph.add("Add", e, one)
    lost = graph.add("Div", graph.add("Sub", graph.add("Sub", u, one), e), u)
    return graph.add("Add", graph.add("Relu", x), graph.add("Sub", graph.add("Log", u), lost))


def _projection(state: Mapping[str, NDArray[Any]]) -> Graph:
    graph = Graph("projection")

    def means(name: str, channels: int) -> str:
        """(R, C): the mean of a map over each box."""
        weights = graph.input(f"{name}_weights", "regions", f"{name}_cells")
        flat = graph.constant(np.array([channels, -1]))
        grid = graph.add("Reshape", graph.input(name, channels, f"{name}_rows", f"{name}_columns"), flat)
        return graph.add("MatMul", weights, graph.add("Transpose", grid, perm=[1, 0]))

    def projected(x: str, name: str) -> str:
        centred = graph.add("Sub", x, graph.constant(state[f"{name}.mean"]))
        return graph.add("MatMul", centred, graph.constant(state[f"{name}.matrix"]))

    seen = projected(means("map", len(state["seen.mean"])), "seen")
    both = [means(name, channels) for name, channels in zip(("map16", "map32"), MAP_DIMS, strict=True)]
    detected = projected(graph.add("Concat", *both, axis=1), "detected")
    graph.output(seen, "seen", "regions", state["seen.matrix"].shape[1])
    graph.output(detected, "detected", "regions", state["detected.matrix"].shape[1])
    return graph
