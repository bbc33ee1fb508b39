"""The nouns of labelling, and how they are written as JSON. Boxes are xyxy in pixels of the image."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from groundling.errors import DataError
from groundling.types import Box, Span

UNSURE, ABSENT = "confidence ", "probably not in the image"  # how reasons begin for which a label is left out
MANY = 10_000  # captions, labels or boxes of one image beyond which a file is not believed


@dataclass(frozen=True)
class Mention:
    """Where a caption names a thing."""

    caption: int  # index into LabelledImage.captions
    span: Span  # characters of that caption, half open


@dataclass(frozen=True)
class PlacedBox:
    """A box, what the model gave it, and how likely it is right: IoU of at least a half with a true box."""

    box: Box
    score: float  # 0 to 1, as the model gives it
    confidence: float  # 0 to 1, calibrated where a calibration is known
    features: tuple[float, ...] = ()  # what else is known of it, as `features.NAMES` has it; what a calibration reads


@dataclass(frozen=True)
class Label:
    """One thing that captions of an image name, and where it is."""

    phrase: str  # the mention that says most
    head: str  # lemma of its head noun
    mentions: tuple[Mention, ...]
    boxes: tuple[PlacedBox, ...] = ()  # the surest first
    evidence: float | None = None  # probability that the thing is in the image; None: not calibrated
    left_out: str = ""  # why it is not among the labels that are exported; empty if it is

    @property
    def confidence(self) -> float:
        """Of its surest box; 0 where it has none."""
        return max((placed.confidence for placed in self.boxes), default=0.0)

    @property
    def kept(self) -> bool:
        return not self.left_out

    @property
    def doubtful(self) -> bool:
        """Was it left out for doubt, and not because it names no thing?"""
        return self.left_out.startswith((UNSURE, ABSENT))


@dataclass(frozen=True)
class LabelledImage:
    """An image, its captions, and the things that they name."""

    id: str
    media: str  # path or address of the image file
    size: tuple[int, int]  # width, height; (0, 0) when unknown
    captions: tuple[str, ...] = ()
    labels: tuple[Label, ...] = ()
    split: str = ""
    problem: str = ""  # why the image could not be labelled; empty if it was

    @property
    def kept(self) -> tuple[Label, ...]:
        """The labels that are exported."""
        return tuple(label for label in self.labels if label.kept)

    def phrase(self, mention: Mention) -> str:
        return self.captions[mention.caption][slice(*mention.span)]

    def above(self, least: float) -> LabelledImage:
        """The same, labels whose every box is less sure than `least` marked as left out."""
        return replace(self, labels=tuple(_above(label, least) for label in self.labels))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, one line of a file of labels."""
        row: dict[str, Any] = {"id": self.id, "image": self.media, "size": list(self.size)}
        row["captions"] = list(self.captions)
        row["labels"] = [_label_row(self, label) for label in self.labels]
        return row | ({"split": self.split} if self.split else {}) | ({"problem": self.problem} if self.problem else {})

    @staticmethod
    def from_dict(row: Any) -> LabelledImage:
        """The inverse of `to_dict`; DataError says what is wrong."""
        try:
            captions = tuple(_text(text) for text in _some(row.get("captions", [])))
            size = _size(row.get("size", (0, 0)))
            labels = tuple(_label(one, captions, size) for one in _some(row.get("labels", [])))
            texts = (_text(row.get(name, "")) for name in ("image", "split", "problem"))
            media, split, problem = texts
            return LabelledImage(_text(row["id"]), media, size, captions, labels, split, problem)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise DataError(f"not a labelled image: {type(error).__name__}: {error}") from error


def _above(label: Label, least: float) -> Label:
    if label.left_out:
        return label
    sure = tuple(placed for placed in label.boxes if placed.confidence >= least)
    if sure:
        return replace(label, boxes=sure)
    return replace(label, left_out=f"{UNSURE}{label.confidence:.2f} is below {least:g}")


# ---------------------------------------------------------------- JSON


def _label_row(image: LabelledImage, label: Label) -> dict[str, Any]:
    row: dict[str, Any] = {"phrase": label.phrase, "head": label.head}
    row["mentions"] = [
        {"caption": one.caption, "span": list(one.span), "text": image.phrase(one)} for one in label.mentions
    ]
    row["boxes"] = [
        {
            "box": [round(x, 2) for x in placed.box],
            "score": round(placed.score, 4),
            "confidence": round(placed.confidence, 4),
        }
        | ({"features": [round(x, 3) for x in placed.features]} if placed.features else {})
        for placed in label.boxes
    ]
    row["evidence"] = None if label.evidence is None else round(label.evidence, 4)
    return row | ({"left_out": label.left_out} if label.left_out else {})


def _label(row: Mapping[str, Any], captions: Sequence[str], size: tuple[int, int]) -> Label:
    mentions = tuple(_mention(one, captions) for one in _some(row.get("mentions", [])))
    boxes = tuple(
        PlacedBox(
            as_box(one["box"], size),
            _share(one.get("score", 1.0)),
            _share(one.get("confidence", 1.0)),
            tuple(_number(x) for x in _some(one.get("features", []))),
        )
        for one in _some(row.get("boxes", []))
    )
    evidence = row.get("evidence")
    return Label(
        _text(row["phrase"]),
        _text(row.get("head", "")),
        mentions,
        boxes,
        None if evidence is None else _share(evidence),
        _text(row.get("left_out", "")),
    )


def _mention(row: Mapping[str, Any], captions: Sequence[str]) -> Mention:
    caption, (start, end) = _whole(row["caption"]), row["span"]
    start, end = _whole(start), _whole(end)
    if caption >= len(captions) or not start < end <= len(captions[caption]):
        raise ValueError(f"no characters {start} to {end} in caption {caption} of {len(captions)}")
    return Mention(caption, (start, end))


def as_box(value: Any, size: tuple[int, int] = (0, 0)) -> Box:
    """Four finite numbers, right of and below each other, inside the image where its size is known (rounding aside)."""
    left, top, right, bottom = (_number(x) for x in value)
    if right <= left or bottom <= top:
        raise ValueError(f"the box {left:g} {top:g} {right:g} {bottom:g} is empty or inverted")
    width, height = size
    if all(size) and (left < -1 or top < -1 or right > width + 1 or bottom > height + 1):
        raise ValueError(f"the box {left:g} {top:g} {right:g} {bottom:g} is beyond the image of {width} x {height}")
    return left, top, right, bottom


def _some(value: Any) -> Sequence[Any]:
    if not isinstance(value, list) or len(value) > MANY:
        raise TypeError(f"expected a list of at most {MANY:,} items")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a string, got {type(value).__name__}")
    value.encode()  # half of a surrogate pair, which JSON can spell, is a UnicodeEncodeError: no format can hold it
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is not a finite number")
    return float(value)


def _share(value: Any) -> float:
    number = _number(value)
    if not 0 <= number <= 1:
        raise ValueError(f"{number:g} is not from 0 to 1")
    return number


def _whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a whole number, 0 or more")
    return value


def _size(value: Any) -> tuple[int, int]:
    width, height = value
    return _whole(width), _whole(height)
