"""What the published classifier of EfficientNet-Lite2 says of regions: nouns for what captions seldom name.

The network of the source `photos` is EfficientNet-Lite2 whose first FROZEN blocks are as published. So the published
late blocks run beside its own on the same early map, and the classifier gives logits of ImageNet's 1,000 classes of the
mean of their map over the box of a region. A region has the softmax of these; a noun has the sum over its classes:

    p_rk = Σ_{c of noun k} softmax(A Σ_g w_rg x_g + b)_c        w: `box_weights`; x_g: cell g of the map

"squirrel" is "fox squirrel", "butterfly" is "admiral", "ringlet", "monarch", … (tools/build_image_classes.py).
No torch: `ClassNetwork` of `_features` is the same with it.

R regions · G cells · C classes · K nouns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from groundling.regions.eight_bits import unpacked
from groundling.regions.graphs import Graph, Session
from groundling.regions.sources._files import Pinned

Floats = NDArray[np.float32]

FROZEN = 15  # blocks that both networks share: up to stride 16
IMAGE_CLASSES = Pinned(
    "groundling",
    "regions/sources/image_classes.safetensors",
    "c547754e983b58fa6bf67915e7c881c91ac45e3952180ad2f19344c90237b6b3",
)


@dataclass(frozen=True)
class ClassFile:
    """The late blocks ("blocks.0.up.weight", …), "head" and "classes", and which classes each noun has."""

    state: dict[str, Floats]
    members: Floats  # (C, K) 0 or 1


def read_class_file() -> ClassFile:
    """The pinned file, checked against its SHA-256 before anything of it is used; 8 bits a weight become numbers."""
    content = IMAGE_CLASSES.read()
    state = unpacked(safetensors.numpy.load(content))
    return ClassFile(state, memberships(_about(content)["nouns"], len(state["classes.bias"])))


@cache
def class_nouns() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The nouns, and of each its kind, a lemma of WordNet: animal, food, building, …"""
    about = _about(IMAGE_CLASSES.read())
    return tuple(about["nouns"]), tuple(about["kinds"][noun] for noun in about["nouns"])


def _about(content: bytes) -> dict[str, Any]:
    length = int.from_bytes(content[:8], "little")
    return {name: json.loads(text) for name, text in json.loads(content[8 : 8 + length])["__metadata__"].items()}


def memberships(groups: Mapping[str, list[int]], classes: int) -> Floats:
    """(C, K): 1 where the class belongs to the noun."""
    members = np.zeros((classes, len(groups)), np.float32)
    for k, of_noun in enumerate(groups.values()):
        members[of_noun, k] = 1
    return members


class ClassesOnnx:
    """The early map of a photo in, what the classifier says of its regions out."""

    def __init__(self) -> None:
        file = read_class_file()
        self._late, self._regions = (Session(graph) for graph in class_graphs(file).values())

    def cells(self, early: Floats) -> Floats:
        """(1, 120, 2 H, 2 W) -> (H · W, 1280)."""
        cells: Floats = self._late({"early": early})[0]
        return cells

    def regions(self, cells: Floats, weights: Floats) -> Floats:
        """The map (G, 1280) and the weights (R, G) of its cells in each box -> (R, K)."""
        p: Floats = self._regions({"cells": cells, "weights": weights})[0]
        return p


def class_graphs(file: ClassFile) -> dict[str, bytes]:
    """`late`: the early map to cells of the late one. `regions`: those, and the weights of cells, to nouns."""
    late, regions, state = Graph("late"), Graph("regions"), file.state
    early, wide = state["blocks.0.up.weight"].shape[1], len(state["head.weight"])
    late.output(_late(late, late.input("early", 1, early, "rows", "columns"), state), "cells", "cells", wide)
    mean = regions.add("MatMul", regions.input("weights", "regions", "cells"), regions.input("cells", "cells", wide))
    logits = regions.linear(mean, state["classes.weight"], state["classes.bias"])
    p = regions.add("MatMul", regions.add("Softmax", logits, axis=-1), regions.constant(file.members))
    regions.output(p, "nouns", "regions", file.members.shape[1])
    return {"late": late.to_bytes(), "regions": regions.to_bytes()}


def _late(graph: Graph, x: str, state: Mapping[str, Floats]) -> str:
    """The first block halves the map."""
    low, high = graph.constant(np.float32(0)), graph.constant(np.float32(6))

    def convolution(x: str, name: str, stride: int = 1, bounded: bool = True) -> str:
        y = graph.convolution(x, state[f"{name}.weight"], state[f"{name}.bias"], stride)
        return graph.add("Clip", y, low, high) if bounded else y

    for i in range(1 + max(int(name.split(".")[1]) for name in state if name.startswith("blocks."))):
        at, stride = f"blocks.{i}.", 2 if i == 0 else 1
        y = convolution(convolution(x, at + "up"), at + "depthwise", stride)
        y = convolution(y, at + "down", bounded=False)
        same = state[at + "up.weight"].shape[1] == state[at + "down.weight"].shape[0]
        x = graph.add("Add", y, x) if same and stride == 1 else y
    x = convolution(x, "head")
    flat = graph.constant(np.array([len(state["head.weight"]), -1]))
    return graph.add("Transpose", graph.add("Reshape", x, flat), perm=[1, 0])
