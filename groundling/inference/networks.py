"""A captioner and a grounder as ONNX graphs, made of the weights of a model's folder. No torch.

The captioner is Up-Down with one attention on the grounding-aware encoding (`models/updown.py`, `models/layers.py`),
the grounder that of two branches (`models/grounder.py`): what the package ships, and what `groundling adapt` makes of
it. `read_model` is None of any other, and torch runs it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from groundling.errors import DataError
from groundling.files import check_manifest, read_bytes
from groundling.inference.loading import SHIPPED
from groundling.recipes import ABOUT, FORMAT, WEIGHTS
from groundling.regions.eight_bits import SCALE, unpacked
from groundling.regions.graphs import KINDS, Graph
from groundling.text.classes import Classes
from groundling.text.vocab import Vocabulary

Array = NDArray[Any]

ODD = (LookupError, TypeError, ValueError, AttributeError, SafetensorError, RecursionError, DataError, OSError)
LARGEST = 1 << 31  # bytes of a file of weights
NORM_EPSILON, BATCH_EPSILON, UNIT_EPSILON = 1e-5, 1e-5, 1e-12  # of PyTorch's layer norm, batch norm and normalize
NEVER = np.float32(np.finfo(np.float32).min)
LIKELY = 64  # words of a step whose logits are exact: beams are of 10 at most but for those who ask for more

CAPTIONER = frozenset(
    f"captioner.{name}"
    for name in (
        *("attend.of_memory.bias", "attend.of_memory.weight", "attend.of_query.weight", "attend.weigh.weight"),
        *("attention_gates.weight", "embed.weight", "language_gates.bias", "language_gates.weight"),
        *("encoder.classify.bias", "encoder.classify.weight", "encoder.embed.0.bias", "encoder.embed.0.weight"),
        *("encoder.locate.0.bias", "encoder.locate.0.weight", "encoder.whole.0.bias", "encoder.whole.0.weight"),
        *("logits.bias", "logits.weight", "used", "whole_gates.bias", "whole_gates.weight", "word_gates.weight"),
    )
)
MATRICES = frozenset(  # that are in 8 bits in graphs where they are so in the file
    f"captioner.{name}.weight"
    for name in (
        *("attend.of_memory", "attend.of_query", "attention_gates", "embed", "encoder.classify", "encoder.embed.0"),
        *("encoder.whole.0", "language_gates", "logits", "whole_gates", "word_gates"),
    )
)
WORD_LINK = frozenset(f"captioner.word_link.{name}" for name in ("column", "gain", "gate.bias", "gate.weight"))
GROUNDER = frozenset(
    f"matcher.{name}"
    for name in (
        *("embed.weight", "vectors", "norm.num_batches_tracked", "norm.running_mean", "norm.running_var"),
        *("lstm.bias_hh_l0", "lstm.bias_ih_l0", "lstm.weight_hh_l0", "lstm.weight_ih_l0"),
        *("of_phrase.1.bias", "of_phrase.1.weight", "of_phrase.4.bias", "of_phrase.4.weight"),
        *("of_region.0.bias", "of_region.0.weight", "of_region.3.bias", "of_region.3.weight"),
    )
)


@dataclass(frozen=True)
class Folder:
    """A model as its folder has it: what `model.json` says, and the weights.

    Those of MATRICES may be in 8 bits, each NAME with NAME.scale.
    """

    about: Mapping[str, Any]
    weights: Mapping[str, Array]
    vocab: Vocabulary
    groundable: Classes

    @property
    def digest(self) -> str:
        """As `tensors.digest`: which weights these are."""
        hashed = sha256()
        for name, weight in sorted(unpacked(self.weights).items()):
            hashed.update(
                name.encode() + (weight.astype(np.float32) if weight.dtype == np.float16 else weight).tobytes()
            )
        return hashed.hexdigest()[:12]


def read_about(folder: Path, recipe: str, fields: tuple[str, ...]) -> dict[str, Any] | None:
    """What `model.json` says of a model of this recipe; None of any other, and where no manifest vouches for it."""
    if not (folder / ABOUT).is_file():
        return None
    if not check_manifest(folder, SHIPPED in folder.resolve().parents, (ABOUT, WEIGHTS)):
        return None
    try:
        about: dict[str, Any] = json.loads(read_bytes(folder / ABOUT))
        known = about["format"] == FORMAT and about["recipe"] == recipe and set(fields) <= about["fields"].keys()
        return about if known else None
    except ODD:
        return None  # torch's way tells what is wrong


def captioner_weights(about: Mapping[str, Any]) -> frozenset[str]:
    """The names of the weights of a captioner with these fields."""
    return CAPTIONER | WORD_LINK if about["fields"].get("word_link") else CAPTIONER


def read_model(folder: Path, about: Mapping[str, Any], names: frozenset[str]) -> Folder | None:
    """The model with these weights; None where it has others, or where they do not fit or are not finite."""
    try:
        weights = unpacked(safetensors.numpy.load(read_bytes(folder / WEIGHTS, LARGEST)), but=MATRICES)
        model = Folder(about, weights, Vocabulary.from_json(about["vocab"]), Classes.from_json(about["groundable"]))
        words = next((len(x) for name, x in weights.items() if name.endswith(".embed.weight")), 0)
    except ODD:
        return None
    scales = {name + SCALE for name in MATRICES if name in weights and weights[name].dtype == np.int8}
    sound = weights.keys() - scales == names and words == len(model.vocab)
    return model if sound and all(bool(np.isfinite(x).all()) for x in weights.values()) else None


def graphs(captioner: Folder, grounder: Folder | None) -> dict[str, bytes]:
    """All of them by name."""
    of_captioner = {
        "encoder": encoder_graph(captioner.weights),
        "step": step_graph(captioner.weights, captioner.about["fields"]["coupled"]),
    }
    if grounder is None:
        return of_captioner
    return of_captioner | {"regions": region_graph(grounder.weights), "phrases": phrase_graph(grounder.weights)}


# ---------------------------------------------------------------- the captioner


def encoder_graph(weights: Mapping[str, Array]) -> bytes:
    """Regions of B images, one below the other, to what the attention sees of them; image vectors (B, G) to the part of
    the gates that never changes."""
    graph, w = Graph("encoder"), {name.removeprefix("captioner."): x for name, x in weights.items()}
    dim, (hidden, size) = w["encoder.classify.weight"].shape[1], w["attend.of_memory.weight"].shape[::-1]
    feats, place = graph.input("feats", "regions", dim), graph.input("place", "regions", 5)
    valid = graph.input("valid", "regions", 1)
    whole = graph.input("whole", "images", w["encoder.whole.0.weight"].shape[1])

    def dense(x: str, name: str) -> str:
        return _linear(graph, x, w, name)

    def norm(x: str, length: int) -> str:
        ones, zeros = graph.constant(np.ones(length, np.float32)), graph.constant(np.zeros(length, np.float32))
        return graph.add("LayerNormalization", x, ones, zeros, axis=-1, epsilon=NORM_EPSILON)

    classes = graph.add("Softmax", dense(feats, "encoder.classify"), axis=-1)
    located = graph.add("Relu", dense(place, "encoder.locate.0"))
    lengths = (dim, len(w["encoder.classify.bias"]), len(w["encoder.locate.0.bias"]))
    joined = [norm(x, length) for x, length in zip((feats, classes, located), lengths, strict=True)]
    embedded = graph.add("Relu", dense(graph.add("Concat", *joined, axis=-1), "encoder.embed.0"))
    memory = graph.add("Mul", embedded, valid)
    graph.output(memory, "memory", "regions", hidden)
    graph.output(dense(memory, "attend.of_memory"), "keys", "regions", size)
    seen = graph.add("Relu", dense(whole, "encoder.whole.0"))
    graph.output(dense(seen, "whole_gates"), "still", "images", 4 * hidden)
    if "word_link.gain" in w:  # a ⊙ z of `models.layers.WordLink`
        column = w["word_link.column"]
        scores = graph.add("Gather", whole, graph.constant(column.clip(0)), axis=1)
        gain = graph.constant((w["word_link.gain"] * (column >= 0)).astype(np.float32))
        graph.output(graph.add("Mul", scores, gain), "words", "images", len(column))
    return graph.to_bytes()


def word_graph(weights: Mapping[str, Array]) -> bytes:
    """Words (N,) to their part of the attention LSTM's gates."""
    graph, w = Graph("words"), {name.removeprefix("captioner."): x for name, x in weights.items()}
    token = graph.input("token", "rows", kind="int64")
    graph.output(_word_gates(graph, token, w), "gates", "rows", len(w["word_gates.weight"]))
    return graph.to_bytes()


def _word_gates(graph: Graph, token: str, w: Mapping[str, Array]) -> str:
    embedded = graph.add("Relu", graph.add("Gather", _matrix(graph, w, "embed"), token, axis=0))
    return _linear(graph, embedded, w, "word_gates")


def _linear(graph: Graph, x: str, w: Mapping[str, Array], name: str) -> str:
    """The layer of this name, with its bias if it has one."""
    weight = f"{name}.weight"
    return graph.linear(x, w[weight], w.get(f"{name}.bias"), w.get(weight + SCALE))


def _matrix(graph: Graph, w: Mapping[str, Array], name: str) -> str:
    weight = f"{name}.weight"
    return graph.constant(w[weight], w.get(weight + SCALE))


def _numbers(w: Mapping[str, Array], name: str) -> Array:
    """The same matrix in float32."""
    weight = f"{name}.weight"
    numbers: Array = w[weight].astype(np.float32) * w.get(weight + SCALE, np.float32(1))
    return numbers


def step_graph(weights: Mapping[str, Array], coupled: bool, fast: bool = False) -> bytes:
    """The words before and the states of N rows, `row` being the image of each, to the next: eq. 10 to 14.

    `fast`: instead of words, it is given what `word_graph` makes of them, and logits are those of `_likely_logits`.
    """
    graph, w = Graph("step"), {name.removeprefix("captioner."): x for name, x in weights.items()}
    hidden, size = w["attend.of_memory.weight"].shape[::-1]
    memory = graph.input("memory", "images", "regions", hidden)
    keys, valid = graph.input("keys", "images", "regions", size), graph.input("valid", "images", "regions", 1)
    still = graph.input("still", "images", 4 * hidden)
    row = graph.input("row", "rows", kind="int64")
    if fast:
        word = graph.input("word", "rows", 4 * hidden)
    else:
        word = _word_gates(graph, graph.input("token", "rows", kind="int64"), w)
    h1, c1, h2, c2 = (graph.input(name, "rows", hidden) for name in ("h1", "c1", "h2", "c2"))

    def here(x: str) -> str:
        return graph.add("Gather", x, row, axis=0)

    def cell(gates: str, c: str) -> tuple[str, str]:
        i, f, g, o = graph.several("Split", 4, gates, axis=1)
        kept = graph.add("Mul", graph.add("Sigmoid", f), c)
        new = graph.add("Add", kept, graph.add("Mul", graph.add("Sigmoid", i), graph.add("Tanh", g)))
        return graph.add("Mul", graph.add("Sigmoid", o), graph.add("Tanh", new)), new

    if coupled:
        recurrent = _linear(graph, graph.add("Concat", h2, h1, axis=1), w, "attention_gates")
    else:
        recurrent = graph.linear(h1, _numbers(w, "attention_gates")[:, hidden:])
    gates = graph.add("Add", graph.add("Add", word, here(still)), recurrent)
    h1, c1 = cell(gates, c1)
    query = graph.add("Unsqueeze", _linear(graph, h1, w, "attend.of_query"), graph.constant(np.array([1])))
    weigh = graph.constant(np.ascontiguousarray(w["attend.weigh.weight"].T))
    z = graph.add("MatMul", graph.add("Tanh", graph.add("Add", here(keys), query)), weigh)  # (N, R, 1)
    real = here(valid)
    absent = graph.add("Mul", graph.add("Sub", graph.constant(np.float32(1)), real), graph.constant(NEVER))
    weights_of = graph.add(
        "Mul", graph.add("Softmax", graph.add("Add", graph.add("Mul", z, real), absent), axis=1), real
    )
    across = graph.add("Transpose", weights_of, perm=[0, 2, 1])  # (N, 1, R)
    context = graph.add("Squeeze", graph.add("MatMul", across, here(memory)), graph.constant(np.array([1])))
    seen = graph.add("Concat", context, h1, h2, axis=1)
    h2, c2 = cell(_linear(graph, seen, w, "language_gates"), c2)
    linked = ""
    if "word_link.gain" in w:
        words = here(graph.input("words", "images", len(w["logits.bias"])))
        gate = graph.add("Sigmoid", _linear(graph, h2, w, "word_link.gate"))
        linked = graph.add("Mul", gate, words)
    if fast:
        logits = _likely_logits(graph, h2, w, linked)
    else:
        logits = _linear(graph, h2, w, "logits")
        logits = graph.add("Add", logits, linked) if linked else logits
    graph.output(graph.add("LogSoftmax", logits, axis=-1), "logp", "rows", len(w["logits.bias"]))
    graph.output(graph.add("Squeeze", across, graph.constant(np.array([1]))), "attn", "rows", "regions")
    for value, name in ((h1, "next_h1"), (c1, "next_c1"), (h2, "next_h2"), (c2, "next_c2")):
        graph.output(value, name, "rows", hidden)
    return graph.to_bytes()


def _likely_logits(graph: Graph, h: str, w: Mapping[str, Array], linked: str) -> str:
    """W h + b + `linked` (N, V), up to a constant in each row; `linked` is "" where there is no word link.

    The LIKELY largest of each row are exact. The others are products of whole numbers, h in 8 bits and W in 7 (with 8,
    sums of two products would overflow where a processor adds them in 16): W is more than caches hold, and reading it
    is what takes the time. |h| < 1, as σ · tanh is: its unit is fixed, and no row depends on the others. Rounding h
    moves the logits of a row mostly alike, and the exact ones are moved with them.
    """
    weight, bias = _numbers(w, "logits"), w["logits.bias"]
    unit = np.maximum(np.abs(weight).max(1), NORM_EPSILON) / np.float32(63)
    whole = np.ascontiguousarray(np.round(weight / unit[:, None]).astype(np.int8).T)
    x_unit, zero = np.float32(1 / 127), graph.constant(np.uint8(128))
    x = graph.add("QuantizeLinear", h, graph.constant(x_unit), zero)
    product = graph.add("Cast", graph.add("MatMulInteger", x, graph.constant(whole), zero), to=KINDS["float32"])
    logits = graph.add("Mul", product, graph.constant(unit * x_unit))
    logits = graph.add("Add", logits, graph.constant(bias))
    logits = graph.add("Add", logits, linked) if linked else logits
    rough, likely = graph.several("TopK", 2, logits, graph.constant(np.array([min(LIKELY, len(bias))])), axis=1)
    rows = graph.add("Gather", _matrix(graph, w, "logits"), likely, axis=0)  # (N, LIKELY, hidden)
    last = graph.constant(np.array([2]))
    exact = graph.add("Squeeze", graph.add("MatMul", rows, graph.add("Unsqueeze", h, last)), last)
    exact = graph.add("Add", exact, graph.add("Gather", graph.constant(bias), likely, axis=0))
    exact = graph.add("Add", exact, graph.add("GatherElements", linked, likely, axis=1)) if linked else exact
    moved = graph.add("ReduceMean", graph.add("Sub", rough, exact), axes=[1], keepdims=1)
    return graph.add("ScatterElements", logits, likely, graph.add("Add", exact, moved), axis=1)


# ---------------------------------------------------------------- the grounder


def region_graph(weights: Mapping[str, Array]) -> bytes:
    """f(x) of eq. 1: features of M regions to unit vectors."""
    graph, w = Graph("regions"), {name.removeprefix("matcher."): x for name, x in weights.items()}
    deviation = np.sqrt(w["norm.running_var"] + np.float32(BATCH_EPSILON))
    x = graph.input("feats", "regions", len(deviation))
    x = graph.add("Div", graph.add("Sub", x, graph.constant(w["norm.running_mean"])), graph.constant(deviation))
    graph.output(_branch(graph, x, w, "of_region", 0, 3), "vectors", "regions", len(w["of_region.3.bias"]))
    return graph.to_bytes()


def phrase_graph(weights: Mapping[str, Array]) -> bytes:
    """g(y) of eq. 1: P phrases of at most t words to unit vectors. `absent` (t, P, 1) is −∞ after the last word."""
    graph, w = Graph("phrases"), {name.removeprefix("matcher."): x for name, x in weights.items()}
    words = graph.input("words", "words", "phrases", kind="int64")
    absent = graph.input("absent", "words", "phrases", 1)
    known = graph.add("Gather", graph.constant(np.concatenate([w["embed.weight"], w["vectors"]], 1)), words, axis=0)
    hidden = w["lstm.weight_hh_l0"].shape[1]

    def ordered(*arrays: Array) -> str:
        """PyTorch's gates are i, f, g, o; ONNX's are i, o, f, g."""
        parts = (np.split(x, 4) for x in arrays)
        return graph.constant(np.concatenate([x for i, f, g, o in parts for x in (i, o, f, g)])[None])

    states, *_ = graph.several(
        "LSTM",
        1,
        *(known, ordered(w["lstm.weight_ih_l0"]), ordered(w["lstm.weight_hh_l0"])),
        ordered(w["lstm.bias_ih_l0"], w["lstm.bias_hh_l0"]),
        hidden_size=hidden,
    )  # (t, 1, P, H)
    there = graph.add("Add", graph.add("Squeeze", states, graph.constant(np.array([1]))), absent)
    pooled = graph.add("ReduceMax", there, axes=[0], keepdims=0)
    graph.output(_branch(graph, pooled, w, "of_phrase", 1, 4), "vectors", "phrases", len(w["of_phrase.4.bias"]))
    return graph.to_bytes()


def _branch(graph: Graph, x: str, w: Mapping[str, Array], name: str, first: int, second: int) -> str:
    """Two layers, then unit length."""
    inside = graph.add("Relu", graph.linear(x, w[f"{name}.{first}.weight"], w[f"{name}.{first}.bias"]))
    y = graph.linear(inside, w[f"{name}.{second}.weight"], w[f"{name}.{second}.bias"])
    length = graph.add("ReduceL2", y, axes=[-1], keepdims=1)
    return graph.add("Div", y, graph.add("Max", length, graph.constant(np.float32(UNIT_EPSILON))))
