"""Networks as ONNX graphs: written here, node by node, and run by onnxruntime. No torch.

A graph is made of weights when it is needed, in memory, so that no file of it can be out of date; `groundling export
onnx` writes the same bytes for others. The format is protocol buffers: a message is a row of fields, each its number,
its kind (0: a whole number, 2: bytes of a given length, 5: four bytes) and its value. Numbers are
as in onnx.proto.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from groundling.errors import DataError, MissingExtra
from groundling.parallel import AVAILABLE_CORES, OPENMP

Array = NDArray[Any]
Result = TypeVar("Result")

OPSET, IR = 17, 8  # versions of the operators and of the format: any onnxruntime from 1.12 on reads them
KINDS = {"float32": 1, "uint8": 2, "int8": 3, "int64": 7, "float16": 10}
FLOAT, INT, STRING, INTS = 1, 2, 3, 7  # kinds of attributes


class Graph:
    """A graph that grows: `input` and `constant` and `add` name values, `output` says which are the results."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._nodes: list[bytes] = []
        self._constants: list[tuple[bytes, Array]] = []
        self._inputs: list[bytes] = []
        self._outputs: list[bytes] = []
        self._count = 0

    def input(self, name: str, *sizes: int | str, kind: str = "float32") -> str:
        """A size is a number, or a name where it may vary."""
        self._inputs.append(_value(name, kind, sizes))
        return name

    def output(self, value: str, name: str, *sizes: int | str, kind: str = "float32") -> None:
        self._nodes.append(_node("Identity", (value,), (name,), {}))
        self._outputs.append(_value(name, kind, sizes))

    def constant(self, array: Array, scale: Array | None = None) -> str:
        """A value that is known; half precision is stored as such, and widened when the graph is loaded.

        `scale`: whole numbers are stored as such, and multiplied by it then.
        """
        name = self._new()
        plain = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
        sizes = b"".join(_whole(1, size) for size in array.shape)
        head = sizes + _whole(2, KINDS[array.dtype.name]) + _bytes(8, name.encode()) + _head(9, plain.nbytes)
        self._constants.append((head, plain))
        if array.dtype == np.float16 or scale is not None:
            name = self.add("Cast", name, to=KINDS["float32"])
        return name if scale is None else self.add("Mul", name, self.constant(scale))

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """One node with one result."""
        name = self._new()
        self._nodes.append(_node(op, inputs, (name,), attributes))
        return name

    def several(self, op: str, count: int, *inputs: str, **attributes: Any) -> tuple[str, ...]:
        """One node with several results."""
        names = tuple(self._new() for _ in range(count))
        self._nodes.append(_node(op, inputs, names, attributes))
        return names

    def linear(self, x: str, weight: Array, bias: Array | None = None, scale: Array | None = None) -> str:
        """x (N, in) -> x Wᵀ + b, as PyTorch keeps W (out, in); `scale` as in `constant`."""
        more = () if bias is None else (self.constant(bias),)
        return self.add("Gemm", x, self.constant(weight, scale), *more, transB=1)

    def convolution(self, x: str, weight: Array, bias: Array, stride: int = 1) -> str:
        """x (1, C, H, W), padded so that H / stride by W / stride cells are left; one channel a filter is depthwise."""
        out, per_group, *kernel = weight.shape
        return self.add(
            "Conv",
            *(x, self.constant(weight), self.constant(bias)),
            kernel_shape=kernel,
            strides=[stride, stride],
            group=out if per_group == 1 else 1,
            auto_pad="SAME_UPPER",
        )

    def to_bytes(self) -> bytes:
        """The model as a file holds it."""
        parts: list[bytes | memoryview] = [_bytes(2, self.name.encode())]
        parts += [_bytes(1, node) for node in self._nodes]
        for head, array in self._constants:
            parts += [_head(5, len(head) + array.nbytes) + head, array.reshape(-1).view(np.uint8).data]
        parts += [_bytes(11, value) for value in self._inputs] + [_bytes(12, value) for value in self._outputs]
        length = sum(len(part) for part in parts)
        opset = _bytes(1, b"") + _whole(2, OPSET)
        return b"".join([_whole(1, IR), _bytes(2, b"groundling"), _bytes(8, opset), _head(7, length), *parts])

    def _new(self) -> str:
        self._count += 1
        return f"v{self._count}"


class Session:
    """A graph, ready to run on so many threads: a mapping of arrays in, the results in their order out."""

    def __init__(self, content: bytes, threads: int = 1) -> None:
        runtime = onnxruntime()
        options = runtime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # others need the cores, too
        try:
            self._session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its own classes are not all public
            raise DataError(f"onnxruntime {runtime.__version__} cannot run a network: {error}") from error

    def __call__(self, inputs: Mapping[str, Array]) -> list[Array]:
        results: list[Array] = self._session.run(None, dict(inputs))
        return results

    @property
    def signature(self) -> dict[str, dict[str, list[int | str]]]:
        """The names and sizes of what goes in and comes out."""
        session = self._session
        both = {"inputs": session.get_inputs(), "outputs": session.get_outputs()}
        return {name: {one.name: one.shape for one in values} for name, values in both.items()}


def onnxruntime(extra: str = "captions") -> Any:
    """The module; MissingExtra otherwise. From version 1.29 on it would send reports about models to its makers."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # it asks once, when it is imported
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtra(f"this needs onnxruntime; run: pip install 'groundling[{extra}]'") from error
    onnxruntime.disable_telemetry_events()  # where the variable is not asked for: on Windows, and if others imported it
    return onnxruntime


# ---------------------------------------------------------------- messages


def _node(op: str, inputs: Sequence[str], outputs: Sequence[str], attributes: Mapping[str, Any]) -> bytes:
    names = [_bytes(1, name.encode()) for name in inputs] + [_bytes(2, name.encode()) for name in outputs]
    given = [_bytes(5, _attribute(name, value)) for name, value in attributes.items()]
    return b"".join([*names, _bytes(4, op.encode()), *given])


def _attribute(name: str, value: Any) -> bytes:
    head = _bytes(1, name.encode())
    if isinstance(value, float):
        return head + _key(2, 5) + struct.pack("<f", value) + _whole(20, FLOAT)
    if isinstance(value, int):
        return head + _whole(3, value) + _whole(20, INT)
    if isinstance(value, str):
        return head + _bytes(4, value.encode()) + _whole(20, STRING)
    return head + b"".join(_whole(8, one) for one in value) + _whole(20, INTS)


def _value(name: str, kind: str, sizes: Sequence[int | str]) -> bytes:
    dims = [_whole(1, size) if isinstance(size, int) else _bytes(2, size.encode()) for size in sizes]
    shape = b"".join(_bytes(1, dim) for dim in dims)
    return _bytes(1, name.encode()) + _bytes(2, _bytes(1, _whole(1, KINDS[kind]) + _bytes(2, shape)))


def _key(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _whole(number: int, value: int) -> bytes:
    return _key(number, 0) + _varint(value & (1 << 64) - 1)


def _head(number: int, length: int) -> bytes:
    """What comes before so many bytes."""
    return _key(number, 2) + _varint(length)


def _bytes(number: int, value: bytes) -> bytes:
    return _head(number, len(value)) + value


def _varint(value: int) -> bytes:
    """Seven bits at a time, the lowest first; the eighth says that more follow."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


# ---------------------------------------------------------------- threads


def cores() -> int:
    """That this process may use: those that the system gives it, and no more than OMP_NUM_THREADS."""
    wanted = os.environ.get(OPENMP, "")
    return min(AVAILABLE_CORES, int(wanted)) if wanted.isdecimal() and int(wanted) else AVAILABLE_CORES


class AtOnce(Executor):
    """In place of a thread where there is one core: what is submitted is done before `submit` returns."""

    def submit(self, work: Callable[..., Result], /, *args: Any, **more: Any) -> Future[Result]:
        future: Future[Result] = Future()
        try:
            future.set_result(work(*args, **more))
        except Exception as error:
            future.set_exception(error)
        return future
