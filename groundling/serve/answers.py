"""From what models find to the JSON of an answer. Runs in the inference thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from groundling.serve.asks import Ask, Audit, Caption, Claim, Ground, Look
from groundling.serve.models import Models, Place
from groundling.types import LIKELY, Box, GroundedCaption, Span

if TYPE_CHECKING:
    from groundling.tensors import Regions

GROUNDED, ABSENT, UNSURE = "grounded", "not there", "cannot tell"
SAME = 0.5  # IoU from which two boxes are at one place


@dataclass(frozen=True)
class Thresholds:
    """Evidence from which a phrase is grounded, and below which it is not there."""

    grounded: float = LIKELY
    absent: float = 0.35


THRESHOLDS = Thresholds()


@dataclass(frozen=True)
class Seen:
    """An image that was looked at."""

    id: str
    regions: Regions
    frames: int  # of a clip; 0: an image

    def to_dict(self) -> dict[str, Any]:
        width, height = (round(side) for side in self.regions.size[0].tolist())
        about = {"id": self.id, "width": width, "height": height}
        return about | ({"frames": self.frames} if self.frames else {})


def answer(models: Models, seen: Seen, ask: Ask) -> dict[str, Any]:
    """The answer to one ask."""
    match ask:
        case Caption():
            return captions(models, [seen], ask)[0]
        case Ground():
            places = models.ground(seen.regions, ask.sentence, ask.phrases)
            found = [place.to_dict() for place in places]
            return {"image": seen.to_dict(), "sentence": ask.sentence, "phrases": found}
        case Audit():
            return {"image": seen.to_dict(), "text": ask.text, **audit(models, seen.regions, ask)}
        case Look():
            return {"image": seen.to_dict(), **look(models, seen.regions, ask)}


def captions(models: Models, seen: Sequence[Seen], ask: Caption) -> list[dict[str, Any]]:
    """The answers to the same ask about several images, made together."""
    said = models.captions([one.regions for one in seen], ask.choice)
    return [_caption(caption, one) for caption, one in zip(said, seen, strict=True)]


def _caption(said: GroundedCaption, seen: Seen) -> dict[str, Any]:
    from dataclasses import replace

    row = replace(said, frames=seen.frames).to_dict()
    for name in ("id", "media", "segment"):
        row.pop(name, None)
    for link in row["links"]:
        link["box"] = [round(x, 1) for x in link["box"]]
    for attended in row["looks"]:
        attended["boxes"] = [[round(x, 1) for x in box] for box in attended["boxes"]]
    return {"image": seen.to_dict(), **row}


# ---------------------------------------------------------------- audit


def audit(models: Models, regions: Regions, ask: Audit, limits: Thresholds = THRESHOLDS) -> dict[str, Any]:
    """A verdict for every noun phrase of a text, and for every phrase that somebody gave a box for."""
    places = _all_places(models, regions, ask)
    rows = []
    for place in places:
        claim = next((c for c in ask.claims if _same_phrase(c, place, ask.text)), None)
        row = place.to_dict() | {"verdict": verdict(place, limits)}
        if claim:
            overlap = iou(claim.box, place.box)
            row |= {"claimed_box": list(claim.box), "iou": round(overlap, 4), "box_agrees": overlap >= SAME}
        rows.append(row)
    counts = {name: sum(row["verdict"] == name for row in rows) for name in (GROUNDED, ABSENT, UNSURE)}
    return {"phrases": rows, "counts": counts}


def verdict(place: Place, limits: Thresholds) -> str:
    """`cannot tell` where the last word, which names the thing, was never seen, or the evidence is neither."""
    last = place.phrase.split()[-1].lower()
    if place.evidence is None or any(word in last for word in place.unknown):
        return UNSURE
    if place.evidence >= limits.grounded:
        return GROUNDED
    return ABSENT if place.evidence < limits.absent else UNSURE


def _all_places(models: Models, regions: Regions, ask: Audit) -> list[Place]:
    spoken = models.phrases(ask.text)
    places = models.ground(regions, ask.text, ()) if spoken else []
    rest = [c.phrase for c in ask.claims if not any(_same_phrase(c, place, ask.text) for place in places)]
    return places + (models.ground(regions, ask.text, rest) if rest or not places else [])


def _same_phrase(claim: Claim, place: Place, text: str) -> bool:
    """Do they speak of the same characters of the text, or in the same words?"""
    if claim.phrase.casefold().strip() == place.phrase.casefold():
        return True
    start = text.find(claim.phrase)
    return start >= 0 and _overlap((start, start + len(claim.phrase)), place.span) > 0


def _overlap(one: Span, other: Span) -> int:
    return min(one[1], other[1]) - max(one[0], other[0])


# ---------------------------------------------------------------- regions


def look(models: Models, regions: Regions, ask: Look) -> dict[str, Any]:
    """The regions with the words that fit them; which of them is most like the box that was asked for."""
    words, labels = models.words(regions, ask.words), models.labels(regions)
    boxes: list[Box] = [(b[0], b[1], b[2], b[3]) for b in regions.boxes[0].tolist()]
    rows = [
        {
            "box": [round(x, 1) for x in box],
            "frame": frame,
            "words": [vars(word) for word in fitting],
            "labels": [{"label": label, "score": score} for label, score in detected],
        }
        for box, frame, fitting, detected in zip(boxes, regions.frame[0].tolist(), words, labels, strict=True)
    ]
    if ask.box is None:
        return {"regions": rows}
    overlaps = [iou(ask.box, box) for box in boxes]
    best = max(range(len(boxes)), key=overlaps.__getitem__, default=-1)
    nearest = None if best < 0 else {"index": best, "iou": round(overlaps[best], 4), **rows[best]}
    return {"regions": rows, "box": list(ask.box), "nearest": nearest}


def iou(one: Box, other: Box) -> float:
    """Area in both over area in either."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    both = max(0.0, width) * max(0.0, height)
    either = sum((b[2] - b[0]) * (b[3] - b[1]) for b in (one, other)) - both
    return both / either if either > 0 else 0.0
