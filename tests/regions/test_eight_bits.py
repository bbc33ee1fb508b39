"""Weights in 8 bits: numbers by hand, the same of arrays and tensors, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from groundling.errors import DataError
from groundling.regions.eight_bits import is_matrix, packed, packed_rows, scale_of, unpacked
from groundling.regions.graphs import Graph, Session


def test_a_row_is_whole_numbers_of_its_largest_over_127() -> None:
    """Row (1.27, −0.636, 0): unit 0.01, −63.6 is rounded to −64. Row of zeros: zeros."""
    whole, scale = packed_rows(np.array([[1.27, -0.636, 0], [0, 0, 0]], np.float32))
    assert whole.tolist() == [[127, -64, 0], [0, 0, 0]]
    assert scale[0] == pytest.approx(0.01) and scale[1] > 0


@pytest.mark.parametrize(("flip", "shape"), [(False, (3,)), (True, (1, 3))])
def test_scales_are_of_what_loses_less(flip: bool, shape: tuple[int, ...]) -> None:
    """By rows 71 is off by 0.13, by columns (units 0.79 and 0.56) 0.4 is off by 0.39; turned over, likewise."""
    x = np.array([[100, 71], [0.9, 1.0], [0.4, 0.63]], np.float32)
    x = x.T if flip else x
    stored = packed("w", x)
    assert stored["w"].dtype == np.int8 and stored["w.scale"].shape == shape
    unit = scale_of("w", stored)
    assert bool((np.abs(unpacked(stored)["w"] - x) <= unit * 0.50001).all())


@pytest.mark.parametrize("seed", range(5))
def test_what_was_unpacked_is_packed_to_the_same(seed: int) -> None:
    x = np.random.default_rng(seed).standard_t(3, (80, 70)).astype(np.float32)
    first = packed("w", x)
    again = packed("w", unpacked(first)["w"])
    assert all(np.array_equal(again[name], value) for name, value in first.items())


def test_arrays_and_tensors_become_the_same_numbers() -> None:
    stored = packed("w", np.random.default_rng(0).normal(0, 1, (80, 70)).astype(np.float16)) | {"b": np.ones(3)}
    arrays = unpacked(stored)
    tensors = unpacked({name: torch.from_numpy(value) for name, value in stored.items()})
    assert arrays.keys() == tensors.keys() == {"w", "b"}
    assert all(tensors[name].numpy().tobytes() == value.tobytes() for name, value in arrays.items())
    assert arrays["w"].dtype == np.float32 and arrays["b"] is stored["b"]


@pytest.mark.parametrize("by_columns", [False, True])
def test_a_graph_multiplies_what_stays_in_8_bits(by_columns: bool) -> None:
    """What `but` leaves packed can be unpacked later, and a graph of it computes the same bits."""
    x = np.random.default_rng(0).normal(0, 1, (80, 70)) * np.exp(np.random.default_rng(1).normal(0, 1, (80, 1)))
    stored = packed("w", np.ascontiguousarray(x.T if by_columns else x, np.float32))
    kept = unpacked(stored, but={"w"})
    assert kept["w"].dtype == np.int8 and np.array_equal(unpacked(kept)["w"], unpacked(stored)["w"])
    h = np.random.default_rng(2).normal(0, 1, (3, kept["w"].shape[1])).astype(np.float32)
    found = []
    for weight, scale in ((kept["w"], kept["w.scale"]), (unpacked(stored)["w"], None)):
        graph = Graph("layer")
        layer = graph.linear(graph.input("h", "rows", h.shape[1]), weight, scale=scale)
        graph.output(layer, "y", "rows", len(weight))
        found.append(Session(graph.to_bytes())({"h": h})[0])
    assert np.array_equal(*found)


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (np.ones((64, 64), np.float32), True),
        (np.ones((64, 64), np.float16), True),
        (np.ones((63, 900), np.float32), False),
        (np.ones(900, np.float32), False),
        (np.ones((64, 64), np.int64), False),
    ],
)
def test_matrices_of_some_size_are_packed(x: NDArray[Any], expected: bool) -> None:
    assert is_matrix(x) is expected


@pytest.mark.parametrize(
    ("scale", "told"),
    [
        (None, "w.scale is missing"),
        (np.ones(3, np.float32), r"float32 \(3,\); expected float32 \(2,\) or \(1, 3\)"),
        (np.ones((2, 3), np.float32), r"\(2, 3\); expected"),
        (np.ones((), np.float32), r"float32 \(\); expected"),
        (np.ones(2, np.float64), "is float64"),
        (np.ones(2, np.int8), "is int8"),
        (np.array([1, np.nan], np.float32), "not finite"),
        (np.array([1, -np.inf], np.float32), "not finite"),
        (np.array([1, 3e38], np.float32), "too large"),
    ],
)
def test_scales_that_do_not_fit_are_refused(scale: NDArray[Any] | None, told: str) -> None:
    stored = {"w": np.ones((2, 3), np.int8)} | ({} if scale is None else {"w.scale": scale})
    with pytest.raises(DataError, match=told):
        unpacked(stored)
