"""Where the joints of a person are: MoveNet Lightning, a published network, on the person's box.

It gives 17 points of the body (KEYPOINTS), each with a score from 0 to 1. MobileNetV2 with a feature pyramid predicts,
on a grid of 48 × 48 cells, how likely each point is in a cell, where the middle of the person is, where the points are
as seen from there, and where in its cell a point is. The person is the one nearest to the middle of the crop, and each
point is searched near the place that the person's middle predicts.

The file is made by tools/build_keypoints.py; movenet-NOTICE.txt says where its weights come from. They learned from
labels of joints: nothing else in this package does. P persons.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load

from groundling.regions.graphs import Graph, Session
from groundling.regions.sources._files import Pinned
from groundling.regions.sources._proposals import opencv

Floats = NDArray[np.float32]

KEYPOINTS = (
    *("nose", "left eye", "right eye", "left ear", "right ear", "left shoulder", "right shoulder", "left elbow"),
    *("right elbow", "left wrist", "right wrist", "left hip", "right hip", "left knee", "right knee", "left ankle"),
    "right ankle",
)
SIDE = 192  # pixels of the square input
CELLS = 48  # a side of the grid of predictions
NEAR = 1.8  # cells; a score is divided by the distance and this
MARGIN = 1.25  # side of the crop, in longest sides of the person's box
STRIDES = {0: 1, 1: 2, 2: 1, 3: 2, 6: 2, 13: 2}  # of the blocks; of the others 1
TAPS = (9, 5, 2)  # blocks whose maps the pyramid takes, the coarsest first
HEADS = ("points", "middle", "towards", "within")
MOVENET = Pinned(
    "groundling",
    "regions/sources/movenet_lightning.safetensors",
    "1583c7d4e1391a47836a91dbd0660429c2612f8f674d72ddbe7a2c6b9e7ea00c",
)


class Keypoints:
    """RGB pixels and boxes (P, 4) of persons, in pixels, in; (P, 17, 3) out: x, y in pixels, and a score."""

    def __init__(self) -> None:
        self._session = Session(keypoint_graph(load(MOVENET.read())).to_bytes())

    def __call__(self, rgb: NDArray[np.uint8], persons: Floats) -> Floats:
        if not len(persons):
            return np.zeros((0, len(KEYPOINTS), 3), np.float32)
        corner, side = crops(persons)
        scale = side / SIDE
        warp, square = opencv().warpAffine, (SIDE, SIDE)
        crop = np.stack(
            [
                warp(rgb, np.array([[1 / s, 0, -x / s], [0, 1 / s, -y / s]]), square)
                for (x, y), s in zip(corner, scale, strict=True)
            ]
        )
        pixels = crop.astype(np.float32).transpose(0, 3, 1, 2) / np.float32(127.5) - 1
        found = decode(*self._session({"pixels": pixels}))
        found[..., :2] = corner[:, None] + found[..., :2] * side[:, None, None]
        return found


@cache
def keypoints() -> Keypoints:
    """The network, loaded once."""
    return Keypoints()


def crops(persons: Floats) -> tuple[Floats, Floats]:
    """Squares around boxes (P, 4): their upper left corners (P, 2) and sides (P,)."""
    side = MARGIN * (persons[:, 2:] - persons[:, :2]).max(1).clip(2)
    return (persons[:, :2] + persons[:, 2:]) / 2 - side[:, None] / 2, side


def decode(points: Floats, middle: Floats, towards: Floats, within: Floats) -> Floats:
    """(P, 17, 3): x, y in units of the crop, score; of scores (P, 17, y, x), (P, 1, y, x) and offsets in cells
    (P, 34, y, x), y before x."""
    count, joints = len(points), len(KEYPOINTS)
    each, joint = np.arange(count), np.arange(joints)
    rows, columns = np.mgrid[:CELLS, :CELLS].astype(np.float32)
    central = middle[:, 0] / (np.hypot(rows - CELLS / 2, columns - CELLS / 2) + NEAR)
    row, column = divmod(central.reshape(count, -1).argmax(1), CELLS)
    expected = towards[each, :, row, column].reshape(count, joints, 2) + np.stack([row, column], 1)[:, None]
    distance = np.hypot(rows - expected[..., :1, None], columns - expected[..., 1:, None])  # (P, 17, y, x)
    row, column = divmod((points / (distance + NEAR)).reshape(count, joints, -1).argmax(2), CELLS)
    offset = within.reshape(count, joints, 2, CELLS, CELLS)[each[:, None], joint, :, row, column]
    y, x = (row + offset[..., 0]) / CELLS, (column + offset[..., 1]) / CELLS
    return np.stack([x, y, points[each[:, None], joint, row, column]], -1).astype(np.float32)


def keypoint_graph(state: Mapping[str, NDArray[Any]]) -> Graph:
    """Pixels (P, 3, SIDE, SIDE), −1 to 1, to the arguments of `decode`."""
    graph = Graph("keypoints")
    low, high = graph.constant(np.float32(0)), graph.constant(np.float32(6))

    def convolution(x: str, name: str, stride: int = 1) -> str:
        weight = state[f"{name}.weight"]
        bias = state.get(f"{name}.bias", np.zeros(len(weight), np.float16))
        return graph.convolution(x, weight, bias, stride)

    def bounded(x: str, name: str, stride: int = 1) -> str:
        return graph.add("Clip", convolution(x, name, stride), low, high)

    def separable(x: str, name: str) -> str:
        return graph.add("Relu", convolution(convolution(x, f"{name}.depthwise"), f"{name}.pointwise"))

    x, maps = bounded(graph.input("pixels", "persons", 3, SIDE, SIDE), "stem", 2), {}
    for i in range(17):
        y = bounded(x, f"block{i}.expand") if f"block{i}.expand.weight" in state else x
        y = convolution(bounded(y, f"block{i}.depthwise", STRIDES.get(i, 1)), f"block{i}.project")
        same = STRIDES.get(i, 1) == 1 and state[f"block{i}.project.weight"].shape[0] == _width(state, i)
        x = maps[i] = graph.add("Add", x, y) if same else y
    x = convolution(bounded(x, "last"), "lateral0")
    double = graph.constant(np.array([1, 1, 2, 2], np.float32))
    for level, tap in enumerate(TAPS):
        up = graph.add("Resize", x, "", double, mode="linear", coordinate_transformation_mode="half_pixel")
        x = separable(graph.add("Add", up, convolution(maps[tap], f"lateral{level + 1}")), f"pyramid{level}")
    for name in HEADS:
        y = convolution(separable(x, name), f"{name}.out")
        if name in ("points", "middle"):
            y = graph.add("Sigmoid", y)
        graph.output(y, name, "persons", state[f"{name}.out.weight"].shape[0], CELLS, CELLS)
    return graph


def _width(state: Mapping[str, NDArray[Any]], block: int) -> int:
    """Channels that enter a block."""
    return int(state["stem.weight" if block == 0 else f"block{block - 1}.project.weight"].shape[0])
