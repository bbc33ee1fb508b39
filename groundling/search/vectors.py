"""Nearest neighbours of vectors of unit length, behind one small interface: exact for few, approximate for many.

`Exact` compares a query with every vector: one matrix product, nothing to tune. `Approximate` is a graph (HNSW) made by
usearch, which answers in logarithmic time and misses some neighbours; `recall` tells how many.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from groundling.errors import DataError, MissingExtra

EXACT_BELOW = 50_000  # vectors; one product of so many takes some 20 ms
BLOCK = 65_536  # vectors that are compared at once
GRAPH = "graph.usearch"

Vectors = NDArray[np.float32]
Places = NDArray[np.int64]


class Neighbours(Protocol):
    """The k nearest of N vectors (N, D) to each query (Q, D): their places and their cosines, the nearest first."""

    def nearest(self, queries: Vectors, k: int) -> tuple[Places, Vectors]: ...


@dataclass(frozen=True)
class Exact:
    """Compares with all of them. `vectors` may be mapped from a file."""

    vectors: Vectors

    def nearest(self, queries: Vectors, k: int) -> tuple[Places, Vectors]:
        k = min(k, len(self.vectors))
        places = np.zeros((len(queries), 0), np.int64)
        scores = np.zeros((len(queries), 0), np.float32)
        for start in range(0, len(self.vectors), BLOCK):
            some = np.asarray(self.vectors[start : start + BLOCK], np.float32)
            scores = np.concatenate([scores, queries @ some.T], 1)
            here = np.broadcast_to(np.arange(start, start + len(some)), (len(queries), len(some)))
            places = np.concatenate([places, here], 1)
            order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
            scores, places = np.take_along_axis(scores, order, 1), np.take_along_axis(places, order, 1)
        return places, scores


@dataclass(frozen=True)
class Approximate:
    """A graph of usearch."""

    graph: Any

    @staticmethod
    def build(vectors: Vectors) -> Approximate:
        graph = _usearch().Index(ndim=vectors.shape[1], metric="ip", dtype="f32", connectivity=32, expansion_search=128)
        for start in range(0, len(vectors), BLOCK):
            some = np.ascontiguousarray(vectors[start : start + BLOCK], np.float32)
            graph.add(np.arange(start, start + len(some)), some)
        return Approximate(graph)

    @staticmethod
    def open(folder: Path) -> Approximate:
        found = _usearch().Index.restore(str(folder / GRAPH), view=True)
        if found is None:
            raise DataError(f"{folder / GRAPH} is damaged; make the index again")
        return Approximate(found)

    def save(self, folder: Path) -> None:
        self.graph.save(str(folder / GRAPH))

    def nearest(self, queries: Vectors, k: int) -> tuple[Places, Vectors]:
        k = min(k, len(self.graph))
        found = self.graph.search(np.ascontiguousarray(queries, np.float32), k)
        keys, distances = np.atleast_2d(found.keys), np.atleast_2d(found.distances)
        counts = np.asarray(getattr(found, "counts", len(found)))
        there = np.arange(keys.shape[1]) < counts.reshape(-1, 1)  # the rest was never filled
        keys, distances = np.where(there, keys, keys[:, :1]), np.where(there, distances, distances[:, :1])
        return keys.astype(np.int64), (1 - distances).astype(np.float32)


def recall(index: Neighbours, exact: Neighbours, queries: Vectors, k: int = 10) -> float:
    """The share of the true k nearest that an index finds."""
    found, true = index.nearest(queries, k)[0], exact.nearest(queries, k)[0]
    hits = [len(set(a) & set(b)) / max(1, len(b)) for a, b in zip(found.tolist(), true.tolist(), strict=True)]
    return sum(hits) / max(1, len(hits))


def _usearch() -> Any:
    try:
        import usearch.index
    except ImportError as error:
        raise MissingExtra("an index of so many vectors needs usearch: pip install 'groundling[label]'") from error
    return usearch.index
