"""The index of a folder of labelled images: one vector for each box, and what it is the box of.

The vector of a box holds, side by side, what the grounder sees there (where regions are stored) and what the phrase of
its label has, in the space that both share; so its product with a query is the mean of two cosines. A query of several
phrases is the mean over its phrases of the best box of the image.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from groundling.errors import DataError
from groundling.files import filling
from groundling.labels import grounder
from groundling.labels.label import Label, LabelledImage, as_box
from groundling.search.vectors import EXACT_BELOW, GRAPH, Approximate, Exact, Neighbours, Vectors, recall
from groundling.text import words
from groundling.text.noun_phrases import noun_phrases
from groundling.types import Box

ABOUT, ENTRIES, VECTORS = "index.json", "entries.jsonl", "vectors.npy"
FORMAT = 1
DEEP = 50  # boxes that are looked at for each image that is asked for
PROBES = 200  # queries by which recall is measured


@dataclass(frozen=True)
class Entry:
    """A box of the index."""

    id: str
    media: str
    size: tuple[int, int]
    phrase: str
    box: Box
    confidence: float


@dataclass(frozen=True)
class Hit:
    """An image that was found: the box for each phrase of the query that has one among the best."""

    id: str
    media: str
    size: tuple[int, int]
    score: float
    boxes: tuple[tuple[str, Entry, float], ...]  # phrase of the query, box, its score


class Index:
    """Made by `open_index`."""

    def __init__(
        self, model: grounder.Grounder, near: Neighbours, entries: Sequence[Entry], vectors: Vectors, halves: int
    ) -> None:
        self.model, self.near, self.entries, self.vectors, self.halves = model, near, entries, vectors, halves
        self._of_image: dict[str, list[int]] = {}
        for place, entry in enumerate(entries):
            self._of_image.setdefault(entry.id, []).append(place)

    def search(self, query: str, images: int = 10) -> list[Hit]:
        """The images that show most of what the query names, the best first."""
        asked = [one.tokens for one in noun_phrases([query])[0]] or [words.caption(query).tokens]
        if not asked[0]:
            raise DataError(f"no word in the query {query!r}: name what to find")
        vectors = _side_by_side([self.model.embed_phrases(asked)] * self.halves)
        places, scores = self.near.nearest(vectors, min(len(self.entries), DEEP * images))
        best: dict[str, dict[int, tuple[Entry, float]]] = {}
        for phrase, (row, found) in enumerate(zip(places.tolist(), scores.tolist(), strict=True)):
            for place, score in zip(row, found, strict=True):
                entry = self.entries[place]
                best.setdefault(entry.id, {}).setdefault(phrase, (entry, score))
        hits = [self._hit(found, [" ".join(one) for one in asked], vectors) for found in best.values()]
        return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:images]

    def _hit(self, found: dict[int, tuple[Entry, float]], phrases: Sequence[str], asked: Vectors) -> Hit:
        """An image by its best box for each phrase, among the nearest or not; shown are those among the nearest."""
        first = next(iter(found.values()))[0]
        scores = (asked @ self.vectors[self._of_image[first.id]].T).max(1)
        boxes = tuple((phrases[i], entry, score) for i, (entry, score) in sorted(found.items()))
        return Hit(first.id, first.media, first.size, float(scores.mean()), boxes)


# ---------------------------------------------------------------- making and opening


def build(
    images: Iterable[LabelledImage], folder: Path, model: grounder.Grounder, regions: str = "", exact: int = EXACT_BELOW
) -> dict[str, Any]:
    """Write the index of these images; returns what is reported of it, recall against exact search too."""
    with filling(folder, last=ABOUT) as part:
        about = _write(images, part, model, regions, exact)
    if about["exact"]:
        (folder / GRAPH).unlink(missing_ok=True)
    return about


def _write(
    images: Iterable[LabelledImage], folder: Path, model: grounder.Grounder, regions: str, exact: int
) -> dict[str, Any]:
    store = model.store(regions) if regions else None
    blocks, count = [], 0
    with (folder / ENTRIES).open("w", encoding="utf-8") as file:
        for image in images:
            rows = [(label, placed) for label in image.kept for placed in label.boxes]
            if not rows:
                continue
            blocks.append(_vectors(image, [label for label, _ in rows], [p.box for _, p in rows], model, store))
            for label, placed in rows:
                file.write(json.dumps(_row(image, label, placed.box, placed.confidence), ensure_ascii=False) + "\n")
            count += 1
    if not blocks:
        raise DataError("there is no label to index: lower --min-confidence, or label images first")
    vectors = np.concatenate(blocks)
    np.save(folder / VECTORS, vectors)
    about = {"format": FORMAT, "grounder": model.digest, "model": str(model.folder), "halves": 2 if store else 1}
    about |= {"images": count, "boxes": len(vectors), "exact": len(vectors) < exact, "recall": 1.0}
    if not about["exact"]:
        graph = Approximate.build(vectors)
        graph.save(folder)
        about["recall"] = recall(graph, Exact(vectors), _probes(vectors, 2 if store else 1))
    (folder / ABOUT).write_text(json.dumps(about, indent=1), encoding="utf-8")
    return about


def open_index(path: str | Path, model: str = "", device: str = "cpu") -> Index:
    """The index of a folder; DataError where it is none, or was made with another grounder."""
    folder = Path(path)
    try:
        about = json.loads((folder / ABOUT).read_bytes())
        if about["format"] != FORMAT:
            raise DataError(f"it has format {about['format']!r}, this version reads {FORMAT}")
        halves, count, exact = int(about["halves"]), int(about["boxes"]), bool(about["exact"])
        vectors = np.load(folder / VECTORS, mmap_mode="r", allow_pickle=False)
        entries = [_entry(line) for line in (folder / ENTRIES).read_text(encoding="utf-8").splitlines()]
        if vectors.ndim != 2 or not len(vectors) == len(entries) == count:
            raise DataError(f"{len(entries)} entries and vectors of shape {vectors.shape} for {count} boxes")
    except FileNotFoundError as error:
        raise DataError(f"{folder}: no index here; make one with `groundling index LABELS --out {folder}`") from error
    except (OSError, KeyError, TypeError, ValueError, RecursionError, DataError) as error:
        raise DataError(f"{folder}: a damaged index ({error}); make it again") from error
    found = grounder.load(model, device)
    if found.digest != about["grounder"]:
        raise DataError(f"{folder} was made with another grounder; name it with --model, or make the index again")
    near: Neighbours = Exact(vectors) if exact else Approximate.open(folder)
    return Index(found, near, entries, vectors, halves)


def _vectors(
    image: LabelledImage, labels: Sequence[Label], boxes: Sequence[Box], model: grounder.Grounder, store: Any
) -> Vectors:
    """(boxes, D): vectors of regions, if these are stored, beside vectors of phrases."""
    phrase_vectors = model.embed_phrases([words.caption(label.phrase).tokens for label in labels])
    if store is None:
        return _side_by_side([phrase_vectors])
    from groundling.boxes import iou_of_arrays

    places, seen = model.embed_regions(store[image.id])
    nearest = iou_of_arrays(np.array(boxes, float), places).argmax(1)
    return _side_by_side([seen[nearest], phrase_vectors])


def _side_by_side(halves: Sequence[Any]) -> Vectors:
    """Of unit length, if each of the halves is."""
    return np.ascontiguousarray(np.concatenate(halves, 1) / np.sqrt(len(halves)), np.float32)


def _probes(vectors: Vectors, halves: int) -> Vectors:
    """Queries: the phrases of some of the boxes, as a person would search for them."""
    some = vectors[:: max(1, len(vectors) // PROBES)][:PROBES]
    phrase_vectors = some[:, some.shape[1] // halves * (halves - 1) :] * np.sqrt(halves)
    return _side_by_side([phrase_vectors] * halves)


def _row(image: LabelledImage, label: Label, box: Box, confidence: float) -> dict[str, Any]:
    row: dict[str, Any] = {"id": image.id, "image": image.media, "size": list(image.size), "phrase": label.phrase}
    return row | {"box": [round(x, 1) for x in box], "confidence": round(confidence, 4)}


def _entry(line: str) -> Entry:
    row = json.loads(line)
    width, height = row["size"]
    size = int(width), int(height)
    return Entry(
        str(row["id"]), str(row["image"]), size, str(row["phrase"]), as_box(row["box"]), float(row["confidence"])
    )


def highlighted(hit: Hit) -> Iterator[tuple[str, Box]]:
    """Caption and box of each thing of a hit, for a page."""
    for phrase, entry, score in hit.boxes:
        same = phrase.lower() == entry.phrase.lower()
        yield (phrase if same else f"{phrase}: {entry.phrase}") + f" {score:.2f}", entry.box
