"""Phrase localisation: does a phrase of a given caption get the right box? (Wang et al., CVPR 2021.)

Recall@k is the share of phrases with a hit among their k best boxes; accuracy is Recall@1. The pointing game asks only
that the centre of the best box lie strictly inside a true box. The upper bound is the share of phrases that some
proposal hits. A phrase without true boxes is not scored. A phrase may have several true boxes; the field counts a hit
on any of them (`any`) or on the box around them all (`union`).

Overlap is in whole pixels, both ends included: IoU = i / (a + b - i + 1e-6), and a hit is IoU >= 0.5, so that an exact
half, for the 1e-6, is a miss. Boxes that share no more than an edge do not overlap. Of boxes that are `continuous`, as
those of our data sets are, sides are x2 - x1 instead of x2 - x1 + 1; the rest is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from groundling.files import Location, Source, parse_json, read_json, read_lines
from groundling.metrics.statistics import Array, Statistics, mean_statistics, signature

KEPT = 10  # boxes of a ranking that are compared, padding included
RANKS = (1, 5, 10)


@dataclass(frozen=True)
class Query:
    """One phrase: the boxes of the system, best first, and the true ones."""

    id: str
    boxes: Array  # (k, 4), at most KEPT of them count
    truth: Array  # (g, 4)
    proposals: Array | None = None  # (r, 4), all that the system could have chosen
    kinds: tuple[str, ...] = ()  # people, clothing, ...
    label: str = ""  # class


@dataclass(frozen=True)
class Localisation:
    """One row per scored phrase. `statistics`, `by_kind` and `by_label` read it."""

    ids: tuple[str, ...]
    kinds: tuple[tuple[str, ...], ...]
    labels: tuple[str, ...]
    recall: NDArray[np.bool_]  # (n, 3), at 1, 5, 10
    pointing: NDArray[np.bool_]  # (n,)
    reachable: NDArray[np.bool_]  # (n,), all False unless the proposals are known
    proposals: bool  # are they?
    fields: Mapping[str, Any] = field(default_factory=dict)

    def statistics(self) -> dict[str, Statistics]:
        columns = {f"recall@{k}": self.recall[:, i] for i, k in enumerate(RANKS)} | {"pointing": self.pointing}
        if self.proposals:
            columns["upper_bound"] = self.reachable
        return {
            name: mean_statistics(name, signature(name, **self.fields), self.ids, values.astype(float))
            for name, values in columns.items()
        }

    def to_dict(self) -> dict[str, float]:
        return {name: s.score().value for name, s in self.statistics().items()} | {"phrases": len(self.ids)}

    def by_kind(self) -> dict[str, dict[str, float]]:
        """The scores of each phrase type; a phrase of two types counts in both."""
        return self._grouped(lambda i: self.kinds[i])

    def by_label(self) -> dict[str, dict[str, float]]:
        """The scores of each class, for the phrases that have one."""
        return self._grouped(lambda i: (self.labels[i],) if self.labels[i] else ())

    def _grouped(self, groups_of: Callable[[int], Iterable[str]]) -> dict[str, dict[str, float]]:
        members: dict[str, list[int]] = {}
        for i in range(len(self.ids)):
            for group in groups_of(i):
                members.setdefault(group, []).append(i)
        return {group: self._part(rows).to_dict() for group, rows in sorted(members.items())}

    def _part(self, rows: list[int]) -> Localisation:
        pick = np.array(rows, np.intp)
        return Localisation(
            tuple(self.ids[i] for i in rows),
            tuple(self.kinds[i] for i in rows),
            tuple(self.labels[i] for i in rows),
            self.recall[pick],
            self.pointing[pick],
            self.reachable[pick],
            self.proposals,
            self.fields,
        )


def localise(
    queries: Iterable[Query],
    convention: Literal["any", "union"] = "any",
    iou: float = 0.5,
    *,
    continuous: bool = False,
) -> Localisation:
    """Score every phrase that has a true box."""
    scored = [query for query in queries if len(query.truth)]
    recall = np.zeros((len(scored), len(RANKS)), bool)
    pointing, reachable = np.zeros(len(scored), bool), np.zeros(len(scored), bool)
    for i, query in enumerate(scored):
        truth = query.truth if convention == "any" else _around(query.truth)
        boxes = query.boxes[:KEPT]
        hits = np.asarray((overlap(boxes, truth, continuous) >= iou).any(1))
        recall[i] = [hits[:k].any() for k in RANKS]
        if len(boxes):
            pointing[i] = _points_into(boxes[0], truth)
        if query.proposals is not None:
            reachable[i] = (overlap(query.proposals, truth, continuous) >= iou).any()
    return Localisation(
        ids=tuple(query.id for query in scored),
        kinds=tuple(query.kinds for query in scored),
        labels=tuple(query.label for query in scored),
        recall=recall,
        pointing=pointing,
        reachable=reachable,
        proposals=bool(scored) and all(query.proposals is not None for query in scored),
        fields={"iou": f"{iou:g}", "truth": convention} | ({"boxes": "continuous"} if continuous else {}),
    )


def overlap(a: Array, b: Array, continuous: bool = False) -> Array:
    """(A, 4), (B, 4) -> (A, B); 0 for boxes that share an edge or nothing, and where a coordinate is NaN."""
    more = 0 if continuous else 1
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:4], b[None, :, 2:4])
    with np.errstate(invalid="ignore", over="ignore"):
        shared = np.where((high > low).all(-1), (high - low + more).prod(-1), 0.0)
        either = _area(a, more)[:, None] + _area(b, more)[None] - shared + 1e-6
        return np.divide(shared, either, out=np.zeros_like(shared), where=shared > 0)


def rank(boxes: Array, attention: Array) -> Array:
    """The boxes that a phrase attends to, best first, from the attention of its tokens: (R, 4), (T, slots) -> (k, 4).

    Attention of the phrase = element-wise maximum over its tokens. The best 10 slots are taken of all, and those that
    are padding (slots beyond the boxes) are then dropped, so fewer than 10 boxes may be left.
    """
    best = np.argsort(-attention.max(0), kind="stable")[:KEPT]
    return np.asarray(boxes[best[best < len(boxes)]])


# ---------------------------------------------------------------- files


def read_queries(source: Source) -> list[Query]:
    """Phrases from JSON lines, or from {"phrases": [...]}; one object each:

    "boxes" [[x1, y1, x2, y2], ...], best first; or the proposals, together with "token_attention" (tokens x slots);
    "gt_boxes" the true boxes, null where nothing was drawn; and, if known, "id", "proposals", "kinds", "label".
    """
    if isinstance(source, str | Path) and str(source).endswith(".jsonl"):
        lines = read_lines(source)
        locations = [Location(f"{source}: line {number}") for number, _ in lines]
        rows = [parse_json(line, f"{source}: line {number}") for number, line in lines]
    else:
        value, name = read_json(source, "phrases")
        rows = Location(name).get(value, "phrases", list)
        locations = [Location(name, "phrase", i) for i in range(len(rows))]
    return [_query(row, i, location) for i, (row, location) in enumerate(zip(rows, locations, strict=True))]


def _query(row: Any, number: int, location: Location) -> Query:
    boxes = _boxes(location.at("boxes"), location.get(row, "boxes", list))
    truth = _boxes(location.at("gt_boxes"), row.get("gt_boxes") or [])
    proposals = _boxes(location.at("proposals"), row["proposals"]) if row.get("proposals") is not None else None
    if row.get("token_attention") is not None:
        attention = location.at("token_attention").call(_matrix, row["token_attention"])
        if attention.shape[1] < len(boxes):
            raise location.error(f"{len(boxes)} boxes but attention over {attention.shape[1]} slots")
        proposals, boxes = boxes, rank(boxes, attention)
    kinds = location.at("kinds").items(row.get("kinds", []), str)
    label = location.at("label").expect(row.get("label", ""), str)
    return Query(str(row.get("id", number)), boxes, truth, proposals, tuple(kinds), label)


def _boxes(location: Location, value: Any) -> Array:
    boxes = location.call(_matrix, value) if value else np.zeros((0, 4))
    if boxes.shape[1] < 4:
        raise location.error(f"expected boxes of 4 numbers, x1, y1, x2, y2, got {boxes.shape[1]}")
    return boxes[:, :4]


def _matrix(value: Any) -> Array:
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError("rows must all have the same length") from None
    if array.ndim != 2 or array.dtype.kind not in "iuf" or not array.size:
        raise ValueError("expected a list of lists of numbers")
    return array.astype(float)


def _area(boxes: Array, more: int) -> Array:
    return np.asarray((boxes[:, 2:4] - boxes[:, :2] + more).prod(-1))


def _around(boxes: Array) -> Array:
    return np.concatenate([boxes[:, :2].min(0), boxes[:, 2:4].max(0)])[None]


def _points_into(box: Array, truth: Array) -> bool:
    x, y = (box[:2] + box[2:4]) / 2
    left, top, right, bottom = truth.T[:4]
    return bool(((left < x) & (x < right) & (top < y) & (y < bottom)).any())
