"""The detector of `_proposals` on onnxruntime: the same network and numbers, to rounding, in a third of the time.

Its two pinned files are those that OpenCV reads: the graph, as text, and its constants, as protocol buffers. What
of TensorFlow's graph is between the photo and the predictions becomes a graph of ours; channels come first there, as
onnxruntime wants them, batch normalisation is folded into convolutions, and anchors are made once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groundling.regions.graphs import Graph, Session
from groundling.regions.sources._proposals import (
    CLASSES,
    CONFIG,
    GRAPH,
    MAPS,
    OFFSETS,
    SCORES,
    SIDE,
)

Array = NDArray[Any]
Floats = NDArray[np.float32]
Tree = dict[str, list[Any]]  # a message: the values of each of its fields

INPUT = "normalized_input_image_tensor"
SIXTH = np.float32(1 / 6)


def load_detector() -> tuple[Session, tuple[Floats, Floats]]:
    """The network, (1, 3, SIDE, SIDE) pixels -> scores, offsets, two maps, sizes of maps; its anchors, variances."""
    nodes = [_Node.of(tree) for tree in _parsed(CONFIG.read().decode())["node"]]
    session = Session(_Network(_constants(GRAPH.read())).graph(nodes).to_bytes())
    _, _, _, _, *sizes = session({"pixels": np.zeros((1, 3, SIDE, SIDE), np.float32)})
    return session, _anchors([node for node in nodes if node.op == "PriorBox"], [tuple(size) for size in sizes])


# ---------------------------------------------------------------- TensorFlow's graph to ours


@dataclass(frozen=True)
class _Node:
    name: str
    op: str
    inputs: tuple[str, ...]
    attributes: Mapping[str, Tree]

    @staticmethod
    def of(tree: Tree) -> _Node:
        attributes = {one["key"][0]: one["value"][0] for one in tree.get("attr", ())}
        return _Node(tree["name"][0], tree["op"][0], tuple(tree.get("input", ())), attributes)

    @property
    def stride(self) -> int:
        return int(self.attributes["strides"]["list"][0]["i"][1])

    def floats(self, name: str) -> Floats:
        return np.array(self.attributes[name]["tensor"][0]["float_val"], np.float32)


class _Network:
    """Nodes by name become values of a graph. A convolution waits for the normalisation or the bias after it."""

    def __init__(self, constants: Mapping[str, Array]) -> None:
        self._constants, self._graph = constants, Graph("detector")
        self._values = {INPUT: self._graph.input("pixels", 1, 3, SIDE, SIDE)}
        self._waiting: dict[str, tuple[str, Floats, int]] = {}  # a convolution's input, weights, stride
        self._raised: dict[str, str] = {}  # x, of nodes that are x + 3

    def graph(self, nodes: list[_Node]) -> Graph:
        graph = self._graph
        heads: dict[str, list[str]] = {SCORES: [], OFFSETS: []}
        sizes: list[str] = []
        for node in nodes:
            if node.op == "Flatten":
                kind = OFFSETS if "BoxEncoding" in node.name else SCORES
                if "BoxPredictor_" in node.name:
                    heads[kind].append(self._flat(node.inputs[0], 4 if kind == OFFSETS else 1 + CLASSES))
                    sizes += [self._values[node.inputs[0]]] if kind == OFFSETS else []
            elif (value := self._value(node)) is not None:
                self._values[node.name] = value
        scores, offsets = (graph.add("Concat", *heads[kind], axis=0) for kind in (SCORES, OFFSETS))
        graph.output(graph.add("Sigmoid", scores), "scores", "anchors", 1 + CLASSES)
        graph.output(offsets, "offsets", "anchors", 4)
        for name, place in zip(MAPS, ("fine", "coarse"), strict=True):
            graph.output(self._values[name], place, 1, "channels_" + place, "rows_" + place, "columns_" + place)
        for i, value in enumerate(sizes):
            graph.output(graph.add("Shape", value), f"size{i}", 4, kind="int64")
        return graph

    def _flat(self, name: str, columns: int) -> str:
        """(1, a · columns, H, W) -> (H · W · a, columns)."""
        last = self._graph.add("Transpose", self._values[name], perm=[0, 2, 3, 1])
        return self._graph.add("Reshape", last, self._graph.constant(np.array([-1, columns])))

    def _value(self, node: _Node) -> str | None:
        """The value of a node; None where it has none by itself."""
        graph, known = self._graph, [self._values.get(name, "") for name in node.inputs]
        constant = self._constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
        if node.op in ("Conv2D", "DepthwiseConv2dNative"):
            assert constant is not None
            weight = constant.transpose(3, 2, 0, 1) if node.op == "Conv2D" else constant.transpose(2, 3, 0, 1)
            if "loc_pred_transposed" in node.attributes:  # y, x, h, w become x, y, w, h
                weight = _swapped(weight)
            self._waiting[node.name] = known[0], weight, node.stride
            return None
        if node.op == "FusedBatchNormV3":
            gamma, beta, mean, variance = (self._constants[name] for name in node.inputs[1:])
            scale = gamma / np.sqrt(variance + np.float32(node.attributes["epsilon"]["f"][0]))
            return self._convolution(node.inputs[0], scale, beta - mean * scale)
        if node.op == "BiasAdd":
            assert constant is not None
            return self._convolution(node.inputs[0], np.ones_like(constant), constant)
        if node.op == "AddV2" and constant is not None:
            assert constant == 3
            self._raised[node.name] = known[0]
            return None
        if node.op == "Mul" and constant is not None:  # by 1/6, which `HardSigmoid` has done, or by 0.16667
            rest = constant / SIXTH
            return known[0] if abs(rest - 1) < 1e-6 else graph.add("Mul", known[0], graph.constant(rest))
        if node.op == "Relu6":
            raised = self._raised.get(node.inputs[0])
            if raised is not None:
                return graph.add("HardSigmoid", raised, alpha=float(SIXTH), beta=0.5)
            return graph.add("Clip", known[0], graph.constant(np.float32(0)), graph.constant(np.float32(6)))
        if node.op == "Mean":
            return graph.add("GlobalAveragePool", known[0])
        simple = {"AddV2": "Add", "Mul": "Mul", "Relu": "Relu", "Identity": "Identity"}.get(node.op)
        return graph.add(simple, *known) if simple else None

    def _convolution(self, name: str, scale: Floats, bias: Floats) -> str:
        x, weight, stride = self._waiting[name]
        if "BoxEncodingPredictor" in name and len(bias) == len(weight) and (scale == 1).all():
            bias = _swapped(bias)
        return self._graph.convolution(x, weight * scale[:, None, None, None], bias.astype(np.float32), stride)


def _swapped(x: Array) -> Array:
    """The first axis in fours: 1, 0, 3, 2."""
    return x.reshape(-1, 2, 2, *x.shape[1:])[:, :, ::-1].reshape(x.shape)


def _anchors(priors: list[_Node], sizes: list[tuple[int, ...]]) -> tuple[Floats, Floats]:
    """Boxes (A, 4) in units of the image around the centre of each cell, and what scales their offsets, (A, 4)."""
    boxes, variances = [], []
    for node, (*_, rows, columns) in zip(priors, sizes, strict=True):
        half = np.stack([node.floats("width"), node.floats("height")], 1) / (2 * SIDE)  # (a, 2)
        y, x = np.mgrid[:rows, :columns]
        centre = np.stack([(x + 0.5) / columns, (y + 0.5) / rows], -1).reshape(-1, 1, 2)
        boxes.append(np.concatenate([centre - half, centre + half], -1).reshape(-1, 4))
        variances.append(np.tile(node.floats("variance"), (len(boxes[-1]), 1)))
    return np.concatenate(boxes).astype(np.float32), np.concatenate(variances)


# ---------------------------------------------------------------- its two files

TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"|([{}:])|([^\s{}:"]+)')


def _parsed(text: str) -> Tree:
    """A message as text: `name: value` or `name { … }`, each as often as it likes."""
    return _message(match for match in TOKEN.finditer(text))


def _message(tokens: Iterator[re.Match[str]]) -> Tree:
    tree: Tree = {}
    for token in tokens:
        if token[0] == "}":
            break
        begin = next(tokens)
        if begin[0] == "{":
            value: Any = _message(tokens)
        else:
            last = next(tokens)
            value = last[1] if last[1] is not None else last[0]
        tree.setdefault(token[0], []).append(value)
    return tree


NODE, NAME, OP, ATTRIBUTE, KEY, VALUE, TENSOR = 1, 1, 2, 5, 1, 2, 8  # numbers of fields: GraphDef, NodeDef, AttrValue
DTYPE, SHAPE, CONTENT, FLOATS, DIM, SIZE = 1, 2, 4, 5, 2, 1  # and TensorProto
FLOAT32 = 1


def _constants(content: bytes) -> dict[str, Array]:
    """The float32 constants of a graph, by name."""
    found = {}
    for number, node in _fields(memoryview(content)):
        if number != NODE:
            continue
        fields = [*_fields(node)]
        if bytes(next(value for key, value in fields if key == OP)) != b"Const":
            continue
        attributes = [dict(_fields(value)) for key, value in fields if key == ATTRIBUTE]
        [value] = [one[VALUE] for one in attributes if bytes(one[KEY]) == b"value"]
        tensor = [*_fields(dict(_fields(value))[TENSOR])]
        parts = dict(tensor)
        if parts.get(DTYPE) == FLOAT32:
            shape = [dict(_fields(dim)).get(SIZE, 0) for key, dim in _fields(parts.get(SHAPE, b"")) if key == DIM]
            raw = parts[CONTENT] if CONTENT in parts else parts[FLOATS]
            name = bytes(next(value for key, value in fields if key == NAME)).decode()
            found[name] = np.frombuffer(raw, "<f4").reshape(shape)
    return found


def _fields(content: Any) -> Iterator[tuple[int, Any]]:
    """The number and value of each field of a message: whole numbers, or bytes."""
    at = 0

    def varint() -> int:
        nonlocal at
        value, shift = 0, 0
        while True:
            byte: int = content[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(content):
        number, kind = divmod(varint(), 8)
        if kind == 0:
            yield number, varint()
        else:
            length = {1: 8, 5: 4}.get(kind) or varint()
            yield number, content[at : at + length]
            at += length
