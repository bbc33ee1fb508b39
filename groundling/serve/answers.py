"""From what models find to the JSON of an answer. Runs in the inference thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from groundling import formats
from groundling.formats import Grounded, Place
from groundling.serve.asks import Ask, Audit, Caption, Ground, Look
from groundling.serve.models import Models
from groundling.types import Box, GroundedCaption

if TYPE_CHECKING:
    from groundling.tensors import Regions


@dataclass(frozen=True)
class Seen:
    """An image that was looked at."""

    id: str
    regions: Regions
    frames: int  # of a clip; 0: an image

    @property
    def size(self) -> tuple[int, int]:
        width, height = (round(side) for side in self.regions.size[0].tolist())
        return width, height

    def to_dict(self) -> dict[str, Any]:
        about = {"id": self.id, "width": self.size[0], "height": self.size[1]}
        return about | ({"frames": self.frames} if self.frames else {})


def answer(models: Models, seen: Seen, ask: Ask) -> dict[str, Any]:
    """The answer to one ask."""
    match ask:
        case Caption():
            return captions(models, [seen], ask)[0]
        case Ground():
            found = [one.to_dict() for one in models.ground(seen.regions, ask.sentence, ask.phrases)]
            rows = [row | _frame(seen, row["box"]) for row in found]
            return {"image": seen.to_dict(), "sentence": ask.sentence, "phrases": rows}
        case Audit():
            return {"image": seen.to_dict(), **audit(models, seen, ask)}
        case Look():
            return {"image": seen.to_dict(), **look(models, seen.regions, ask)}


def captions(models: Models, seen: Sequence[Seen], ask: Caption) -> list[dict[str, Any]]:
    """The answers to the same ask about several images, made together."""
    said = models.captions([one.regions for one in seen], ask.choice)
    return [_caption(caption, one) for caption, one in zip(said, seen, strict=True)]


def _caption(said: GroundedCaption, seen: Seen) -> dict[str, Any]:
    row = replace(said, frames=seen.frames).to_dict()
    for name in ("id", "media", "segment"):
        row.pop(name, None)
    for link in row["links"]:
        link["box"] = [round(x, 1) for x in link["box"]]
    for attended in row["looks"]:
        attended["boxes"] = [[round(x, 1) for x in box] for box in attended["boxes"]]
    return {"image": seen.to_dict(), **row}


def _frame(seen: Seen, box: Sequence[float] | None) -> dict[str, int]:
    """The frame of a clip that has a region at this box (rounded as in answers); nothing for an image."""
    if not seen.frames or box is None:
        return {}
    regions = seen.regions
    away = (regions.boxes[0] - regions.boxes.new_tensor(box)).abs().amax(-1)
    return {"frame": int(regions.frame[0, away.argmin()])}


# ---------------------------------------------------------------- audit


def audit(models: Models, seen: Seen, ask: Audit) -> dict[str, Any]:
    """A verdict for every noun phrase of a text: the same as that of `groundling audit`."""
    grounded = read(ask, seen.size)
    rows = [one.to_dict() for one in models.audit(seen.regions, grounded)]
    verdicts = [row["verdict"] for row in rows]
    answer: dict[str, Any] = {
        "text": grounded.text,
        "phrases": [row | _frame(seen, row["box"]) for row in rows],
        "counts": {name: verdicts.count(name) for name in models.verdicts},
    }
    problems = [{"reason": one.reason, "piece": one.piece} for one in grounded.problems]
    return answer | ({"problems": problems} if problems else {})


def read(ask: Audit, size: tuple[int, int]) -> Grounded:
    """The text without marks of its format, and the places that came with it, in pixels."""
    found = formats.read(ask.format, ask.text, size, ask.resized)
    starts = [found.text.find(claim.phrase) for claim in ask.claims]
    given = [
        Place((start, start + len(claim.phrase)), (claim.box,))
        for claim, start in zip(ask.claims, starts, strict=True)
        if start >= 0
    ]
    return Grounded(found.text, (*found.places, *given), found.problems)


# ---------------------------------------------------------------- regions


def look(models: Models, regions: Regions, ask: Look) -> dict[str, Any]:
    """The regions with the words that fit them; of a box that was asked for, that one alone."""
    words, labels = models.words(regions, ask.words), models.labels(regions)
    boxes: list[Box] = [(b[0], b[1], b[2], b[3]) for b in regions.boxes[0].tolist()]
    frames = regions.frame[0].tolist() if ask.box is None else [ask.frame] * len(boxes)
    rows = [
        {
            "box": [round(x, 1) for x in box],
            "frame": frame,
            "words": [vars(word) for word in fitting],
            "labels": [{"label": label, "score": score} for label, score in detected],
        }
        for box, frame, fitting, detected in zip(boxes, frames, words, labels, strict=True)
    ]
    return {"regions": rows if ask.box is None else rows[1:]}  # the first is the whole image
