"""From the output of the models to the JSON of a response. Runs in the inference thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from groundling import formats
from groundling.formats import Grounded, Place
from groundling.serve.models import Extracted, Models
from groundling.serve.problems import unfit
from groundling.serve.requests import (
    FORMAT_AUTO,
    AuditRequest,
    CaptionRequest,
    GroundRequest,
    InferenceRequest,
    RegionsRequest,
)
from groundling.types import Box, GroundedCaption

IN_PIXELS = "qwen2.5-vl"  # the format whose boxes need the size at which the model saw the image


@dataclass(frozen=True)
class ImageRegions:
    """The regions of an image or a clip, and the id by which clients may name it."""

    id: str
    extracted: Extracted
    frames: int  # of a clip; 0: an image

    def to_dict(self) -> dict[str, Any]:
        width, height = self.extracted.size
        about = {"id": self.id, "width": width, "height": height}
        return about | ({"frames": self.frames} if self.frames else {})


def respond(models: Models, image: ImageRegions, request: InferenceRequest) -> dict[str, Any]:
    """The response to one request about one image."""
    match request:
        case CaptionRequest():
            return captions(models, [image], request)[0]
        case GroundRequest():
            grounded = [one.to_dict() for one in models.ground(image.extracted, request.sentence, request.phrases)]
            rows = [row | _frame(image, row["box"]) for row in grounded]
            fitted = models.grounder.calibration
            below = None if fitted is None else fitted.not_there or models.auditor.thresholds.present
            return {
                "image": image.to_dict(),
                "sentence": request.sentence,
                "phrases": rows,
                "not_there_below": below,
            }
        case AuditRequest():
            return {"image": image.to_dict(), **audit(models, image, request)}
        case RegionsRequest():
            return {"image": image.to_dict(), **regions(models, image.extracted, request)}


def captions(models: Models, images: Sequence[ImageRegions], request: CaptionRequest) -> list[dict[str, Any]]:
    """The responses to the same request about several images, made together."""
    made = models.captions([one.extracted for one in images], request.decoding)
    return [_caption(caption, one) for caption, one in zip(made, images, strict=True)]


def _caption(caption: GroundedCaption, image: ImageRegions) -> dict[str, Any]:
    row = replace(caption, frames=image.frames).to_dict()
    for name in ("id", "media", "segment"):
        row.pop(name, None)
    for link in row["links"]:
        link["box"] = [round(x, 1) for x in link["box"]]
    for attended in row["attention"]:
        attended["boxes"] = [[round(x, 1) for x in box] for box in attended["boxes"]]
    return {"image": image.to_dict(), **row}


def _frame(image: ImageRegions, box: Sequence[float] | None) -> dict[str, int]:
    """The frame of a clip that has a region at this box (rounded as in responses); nothing for an image."""
    if not image.frames or box is None:
        return {}
    distance = np.abs(image.extracted.boxes - np.array(box)).max(1)
    return {"frame": int(image.extracted.frame[distance.argmin()])}


# ---------------------------------------------------------------- audit


def audit(models: Models, image: ImageRegions, request: AuditRequest) -> dict[str, Any]:
    """A verdict for every noun phrase of a text: the same as that of `groundling audit`."""
    format = formats.guess(request.text) if request.format == FORMAT_AUTO else request.format
    if format == IN_PIXELS and request.resized is None:
        detail = (
            f"boxes of {format} are in pixels of the image as the model saw it: send that width and height as resized"
        )
        raise unfit(detail, "needs-size")
    grounded = read(request, format, image.extracted.size)
    rows = [one.to_dict() for one in models.audit(image.extracted, grounded)]
    verdicts = [row["verdict"] for row in rows]
    response: dict[str, Any] = {
        "text": grounded.text,
        "format": format,
        "phrases": [row | _frame(image, row["box"]) for row in rows],
        "counts": {name: verdicts.count(name) for name in models.verdicts},
    }
    problems = [{"reason": one.reason, "piece": one.piece} for one in grounded.problems]
    return response | ({"problems": problems} if problems else {})


def read(request: AuditRequest, format: str, size: tuple[int, int]) -> Grounded:
    """The text without the marks of its format, and the boxes that came with it, in pixels."""
    grounded = formats.read(format, request.text, size, request.resized)
    starts = [grounded.text.find(given.phrase) for given in request.boxes]
    given = [
        Place((start, start + len(given.phrase)), (given.box,))
        for given, start in zip(request.boxes, starts, strict=True)
        if start >= 0
    ]
    return Grounded(grounded.text, (*grounded.places, *given), grounded.problems)


# ---------------------------------------------------------------- regions


def regions(models: Models, image: Extracted, request: RegionsRequest) -> dict[str, Any]:
    """The regions with the words that fit them; with a box, that one alone."""
    words, labels = models.words(image, request.words), models.labels(image)
    boxes: list[Box] = [(b[0], b[1], b[2], b[3]) for b in image.boxes.tolist()]
    frames = image.frame.tolist() if request.box is None else [request.frame] * len(boxes)
    rows = [
        {
            "box": [round(x, 1) for x in box],
            "frame": frame,
            "words": [vars(word) for word in fitting],
            "labels": [{"label": label, "score": score} for label, score in detected],
        }
        for box, frame, fitting, detected in zip(boxes, frames, words, labels, strict=True)
    ]
    return {"regions": rows if request.box is None else rows[1:]}  # the first is the whole image
