"""Review: a page that shows the least certain labels first, and what becomes of the answers.

The page is one file and needs no server: it keeps the answers in the browser, and its export, `review.json`, is a list
of decisions. Where `groundling serve --review` shows it, the server keeps them (`review_store`). A label is named by
the id of its image and its place among the image's labels, both of which stay as they are.
"""

from __future__ import annotations

import heapq
import io
import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

import numpy as np

from groundling.boxes import iou_of_arrays
from groundling.data.checks import parse_json
from groundling.errors import DataError
from groundling.files import read_text, save_text
from groundling.labels.calibration import Calibration, CheckedBox, fit
from groundling.labels.inputs import Pair
from groundling.labels.label import Label, LabelledImage, PlacedBox, as_box
from groundling.report import template
from groundling.types import Box

ACTIONS = ("accept", "reject", "redraw", "relabel")
FORMAT = 1
SIDE = 640  # pixels of the longest side of an embedded image
SHOWN = 200  # labels on a page by default
REJECTED = "rejected in review"
NOTE = (
    "Answers are kept in this browser until you save them. Then: "
    "<code>groundling label --apply review.json --out FOLDER</code>"
)
RIGHT = 0.5  # IoU with a box that a person drew, from which the model's was right

Key = tuple[str, int]  # id of an image, place among its labels


@dataclass(frozen=True)
class Decision:
    """The decision of a person about one label."""

    image: str
    label: int
    action: str  # one of ACTIONS
    boxes: tuple[Box, ...] = ()  # of redraw
    phrase: str = ""  # of relabel


# ---------------------------------------------------------------- the page


def write_page(path: Path, images: Iterable[LabelledImage], limit: int = SHOWN) -> int:
    """Write the page of the `limit` least certain labels; returns how many it shows."""
    chosen = least_certain(images, limit)
    pictures: dict[str, str] = {}
    for image, _ in chosen:
        if image.id not in pictures:
            pictures[image.id] = "data:image/webp;base64," + b64encode(picture(image)).decode("ascii")
    rows = [row_of(image, at) for image, at in chosen]
    name = blake2b(json.dumps(rows).encode(), digest_size=8).hexdigest()
    data = {"name": name, "rows": rows, "pictures": pictures}
    style, script = (part(name).decode() for name in ("review.css", "review.js"))
    save_text(path, page(len(rows), template.inline("style", style), template.inline("script", script), NOTE, data))
    return len(rows)


def page(count: int, style: str, script: str, note: str, data: Any = None) -> str:
    """The page of so many labels: how it is styled and run, what it says of where answers go, its content if any."""
    title, body = f"{count} labels to review", part("review.html").decode()
    return template.framed(title, body, style, script, data, note=note, kind="review")


def part(name: str) -> bytes:
    """One of the files that the page is made of."""
    return (resources(__package__) / name).read_bytes()


def least_certain(images: Iterable[LabelledImage], limit: int) -> list[tuple[LabelledImage, int]]:
    """Labels with boxes whose confidence is nearest to a half; no more than `limit` images are in memory."""
    found = (
        (abs(label.confidence - 0.5), image.id, at, image)
        for image in images
        for at, label in enumerate(image.labels)
        if label.boxes and (label.kept or label.doubtful)
    )
    best = heapq.nsmallest(limit, found, key=lambda one: one[:3])
    return [(image, at) for _, _, at, image in best]


def row_of(image: LabelledImage, at: int) -> dict[str, Any]:
    """What the page shows of a label."""
    label = image.labels[at]
    return {
        "image": image.id,
        "label": at,
        "size": list(image.size),
        "phrase": label.phrase,
        "boxes": [[round(x, 1) for x in placed.box] for placed in label.boxes],
        "confidence": round(label.confidence, 3),
        "captions": list(image.captions),
        "mentions": [[one.caption, *one.span] for one in label.mentions],
    }


def picture(image: LabelledImage) -> bytes:
    """The image made smaller, as a WebP file."""
    opened = Pair(image.id, image.media, ()).opened()
    opened.thumbnail((SIDE, SIDE))
    buffer = io.BytesIO()
    opened.save(buffer, "WEBP", quality=72, method=2)
    return buffer.getvalue()


# ---------------------------------------------------------------- the answers


def read(path: Path) -> dict[Key, Decision]:
    """The decisions of `review.json`, or of the server's `review.jsonl`, the last one of each label; DataError names
    what is wrong."""
    if path.suffix == ".jsonl":
        from groundling.labels.review_store import read_store

        return read_store(path)
    content = parse_json(read_text(path), str(path))
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise DataError(f"{path}: not a review of format {FORMAT}; export it from the page again")
    found: dict[Key, Decision] = {}
    for number, row in enumerate(content.get("decisions") or ()):
        try:
            one = decision_of(row)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"{path}, decision {number}: {error}") from error
        found[one.image, one.label] = one
    if not found:
        raise DataError(f"{path}: no decisions in it; export it after you have reviewed some labels")
    return found


def decision_of(row: Any) -> Decision:
    """A decision of plain JSON; ValueError, KeyError or TypeError where it is none."""
    action, boxes, phrase = row["action"], row.get("boxes") or [], row.get("phrase") or ""
    if action not in ACTIONS:
        raise ValueError(f"unknown action {action!r}; there are {', '.join(ACTIONS)}")
    if type(row["label"]) is not int or not isinstance(row["image"], str) or not isinstance(phrase, str):
        raise TypeError("expected an image id, the number of a label and a phrase")
    if (action == "redraw" and not boxes) or (action == "relabel" and not phrase.strip()):
        raise ValueError(f"{action} needs {'boxes' if action == 'redraw' else 'a phrase'}")
    return Decision(row["image"], row["label"], action, tuple(as_box(box) for box in boxes), phrase.strip())


def apply(images: Iterable[LabelledImage], decisions: Mapping[Key, Decision]) -> Iterator[LabelledImage]:
    """The images with what people decided; DataError where a decision is of a label that is not there."""
    left = set(decisions)
    for image in images:
        left -= {(image.id, at) for at in range(len(image.labels))}
        yield reviewed(image, decisions)
    if left:
        id, at = min(left)
        raise DataError(f"the review names label {at} of image {id!r}, which is not among these labels")


def reviewed(
    image: LabelledImage, decisions: Mapping[Key, Decision], calibration: Calibration | None = None
) -> LabelledImage:
    """One image with what people decided; the confidence of its other boxes by a calibration, where one is given."""
    if calibration is not None:
        image = confident(image, calibration, decisions)
    labels = (_applied(label, decisions.get((image.id, at)), image) for at, label in enumerate(image.labels))
    return replace(image, labels=tuple(labels))


def _applied(label: Label, decision: Decision | None, image: LabelledImage) -> Label:
    if decision is None:
        return label
    if decision.action == "reject":
        return replace(label, left_out=REJECTED)
    sure = tuple(replace(placed, confidence=1.0) for placed in label.boxes)
    if decision.action == "redraw":
        try:
            sure = tuple(PlacedBox(as_box(box, image.size), 1.0, 1.0) for box in decision.boxes)
        except ValueError as error:
            raise DataError(f"the review of image {image.id!r}: {error}") from error
    if decision.action == "relabel":
        label = replace(label, phrase=decision.phrase, head=_head(decision.phrase))
    return replace(label, boxes=sure, left_out="")


def _head(phrase: str) -> str:
    """The lemma of the last noun of a phrase; its last word where the tagger sees no noun."""
    from groundling.labels.phrases import caption_phrases

    found = [one.head for one in caption_phrases([[phrase]])[0] if one.head]
    return found[-1] if found else phrase.split()[-1].lower()


def checked_boxes(images: Iterable[LabelledImage], decisions: Mapping[Key, Decision]) -> list[CheckedBox]:
    """Boxes that people checked: accepted ones are right, rejected ones wrong, of re-drawn ones the new box decides."""
    out = []
    for image in images:
        for at, label in enumerate(image.labels):
            one = decisions.get((image.id, at))
            if one is None or one.action == "relabel":
                continue
            out += [CheckedBox(p, ok, image.id) for p, ok in zip(label.boxes, _right(label, one), strict=True)]
    return out


def _right(label: Label, decision: Decision) -> Sequence[bool]:
    if decision.action != "redraw":
        return [decision.action == "accept"] * len(label.boxes)
    if not label.boxes:
        return []
    overlap = iou_of_arrays(np.array([placed.box for placed in label.boxes]), np.array(decision.boxes))
    return [bool(row.max() >= RIGHT) for row in overlap]


def recalibrated(images: Iterable[LabelledImage], decisions: Mapping[Key, Decision], grounder: str) -> Calibration:
    """A calibration by what people decided; DataError where that is too little."""
    return fit(checked_boxes(images, decisions), grounder)


def confident(image: LabelledImage, calibration: Calibration, reviewed: Mapping[Key, Decision]) -> LabelledImage:
    """The image with the confidence that a calibration gives to the boxes that nobody reviewed."""
    labels = [
        label if (image.id, at) in reviewed else _confident(label, calibration) for at, label in enumerate(image.labels)
    ]
    return replace(image, labels=tuple(labels))


def _confident(label: Label, calibration: Calibration) -> Label:
    sure = calibration.confidence(label.boxes)
    boxes = [replace(placed, confidence=p) for placed, p in zip(label.boxes, sure, strict=True)]
    return replace(label, boxes=tuple(boxes))
