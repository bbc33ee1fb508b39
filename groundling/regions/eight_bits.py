"""Weights in 8 bits: whole numbers, and a scale that the numbers of a row or of a column share.

    x_ij ≈ s_i q_ij,  s_i = max_j |x_ij| / 127        or by columns:  x_ij ≈ s_j q_ij,  s_j = max_i |x_ij| / 127

In a file, NAME holds q and NAME.scale holds s, float32 of the shape (rows,) or (1, columns). No number is further than
s / 2 from what it was, and packing what was unpacked gives the same file. Packing takes arrays; unpacking takes arrays
and tensors, and gives the same numbers of both. No torch.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from groundling.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor

Floats = NDArray[np.float32]
AnyArray = TypeVar("AnyArray", NDArray[Any], "Tensor")

MOST = 127  # the greatest whole number
FEWEST = 64  # numbers that share a scale: below that, scales take more room than 8 bits save
SMALLEST = 1e-12  # of the greatest number of a row: rows of zeros have a scale too
LARGEST = float(np.finfo(np.float32).max) / 128  # of a scale: a product with it is finite
SCALE = ".scale"


def is_matrix(x: NDArray[Any]) -> bool:
    """Whether 8 bits are for it."""
    return x.dtype in (np.float16, np.float32) and x.ndim == 2 and min(x.shape) >= FEWEST


def packed(name: str, x: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """A matrix (rows, columns) as a file has it, by rows or by columns, whichever has the smaller squared error."""
    x = x.astype(np.float32)
    by_row, by_column = packed_rows(x), packed_rows(x.T)
    if _error(x, *by_row) <= _error(x.T, *by_column):
        return {name: by_row[0], name + SCALE: by_row[1]}
    return {name: np.ascontiguousarray(by_column[0].T), name + SCALE: by_column[1][None]}


def packed_rows(x: Floats, most: int = MOST) -> tuple[NDArray[np.int8], Floats]:
    """Whole numbers from −most to most, and the scale of each row, or of all that has the same first index."""
    scale = np.abs(x).reshape(len(x), -1).max(1).clip(SMALLEST) / most
    whole = np.rint(x / scale.reshape(-1, *[1] * (x.ndim - 1)))
    return np.ascontiguousarray(whole, np.int8), scale.astype(np.float32)  # safetensors takes bytes as they lie


def unpacked(stored: Mapping[str, AnyArray], but: Container[str] = ()) -> dict[str, AnyArray]:
    """What is in 8 bits becomes float32, all else stays; DataError where scales are missing or do not fit.

    `but` are names that stay in 8 bits, with scales as `scale_of` gives them.
    """
    whole = [name for name, x in stored.items() if _kind(x) == "int8"]
    scales = {name + SCALE: scale_of(name, stored) for name in whole}
    rest = {name: x for name, x in stored.items() if name not in scales}
    for name in whole:
        if name in but:
            rest[name + SCALE] = scales[name + SCALE]
        else:
            rest[name] = rest[name] * scales[name + SCALE]  # float32, of numpy and of torch
    return rest


def scale_of(name: str, stored: Mapping[str, Any]) -> Any:
    """The scales of NAME, (rows, 1) or (1, columns): what its whole numbers are multiplied by."""
    whole, scale = stored[name], stored.get(name + SCALE)
    if scale is None:
        raise DataError(f"{name} is in 8 bits, and {name}{SCALE} is missing")
    shape, of_rows, of_columns = tuple(scale.shape), tuple(whole.shape[:1]), (1, *whole.shape[1:])
    across = (*of_rows, *[1] * (len(whole.shape) - 1))
    if not whole.shape or shape not in (of_rows, across, of_columns) or _kind(scale) != "float32":
        raise DataError(
            f"{name} {tuple(whole.shape)} is in 8 bits, and {name}{SCALE} is {_kind(scale)} {shape}; "
            f"expected float32 {of_rows} or {of_columns}"
        )
    if not bool((abs(scale) <= LARGEST).all()):
        raise DataError(f"{name}{SCALE} is not finite, or too large")
    return scale.reshape(across) if shape == of_rows else scale


def _kind(x: Any) -> str:
    return str(x.dtype).removeprefix("torch.")


def _error(x: Floats, whole: NDArray[np.int8], scale: Floats) -> float:
    return float(np.square(x - whole * scale[:, None]).sum(dtype=np.float64))
