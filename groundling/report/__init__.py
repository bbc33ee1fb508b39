"""One self-contained HTML page: images, captions, and the boxes and attention of each word. It needs no server."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from groundling.files import save_text
from groundling.report import template
from groundling.types import Box, GroundedCaption


@dataclass(frozen=True)
class AnnotatedPhrase:
    """A phrase of a reference and its boxes, in pixels of the captions' `size`."""

    text: str
    boxes: tuple[Box, ...]
    frames: tuple[int, ...] = ()  # of each box, in a clip


@dataclass(frozen=True)
class Truth:
    """The references of an image and their boxes, shown beside the captions."""

    references: tuple[str, ...] = ()
    phrases: tuple[AnnotatedPhrase, ...] = ()


@dataclass(frozen=True)
class Item:
    """One image of the page, or the frames of one clip, and the caption of each system, None where it has none."""

    id: str
    pictures: Callable[[], Sequence[Image.Image]]
    captions: tuple[GroundedCaption | None, ...]
    truth: Truth = Truth()
    numbers: Mapping[str, float] = field(default_factory=dict)  # what the page can sort by


def write(
    path: Path,
    items: Iterable[Item],
    systems: Sequence[str],
    *,
    title: str = "groundling",
    note: str = "",
    side: int = 400,
    evaluation: Mapping[str, Any] | None = None,
) -> None:
    """Write the page. `side` is the longest side of the embedded pictures (of the frames of a clip: half of it); boxes
    keep their own pixels.

    `evaluation` is `metrics.Evaluation.to_dict()`: scores, classes and errors get a view of their own.
    """
    rows = [_row(item, side) for item in items]
    page = {"title": title, "systems": list(systems), "items": rows, "evaluation": evaluation}
    save_text(path, template.page(__package__, title, page, note=note))


def _row(item: Item, side: int) -> dict[str, Any]:
    pictures = item.pictures()
    known = next((one.size for one in item.captions if one is not None and all(one.size)), pictures[0].size)
    return {
        "id": item.id,
        "size": list(known),
        "pictures": [embed(picture, side if len(pictures) == 1 else side // 2) for picture in pictures],
        "said": [_caption(one) for one in item.captions],
        "references": list(item.truth.references),
        "phrases": [{"text": p.text, "boxes": _round(p.boxes), "frames": p.frames} for p in item.truth.phrases],
        "numbers": {name: round(float(value), 4) for name, value in item.numbers.items()},
    }


def _caption(caption: GroundedCaption | None) -> dict[str, Any] | None:
    if caption is None:
        return None
    return {
        "text": caption.text,
        "spans": [list(s) for s in caption.spans],
        "logp": round(caption.logp, 3),
        "links": [
            {
                "token": x.token,
                "frame": x.frame,
                "score": round(x.score, 3),
                "evidence": None if x.evidence is None else round(x.evidence, 3),
                "weak": caption.weak(x),
                "box": _round([x.box])[0],
            }
            for x in caption.links
        ],
        "looks": [
            {
                "token": x.token,
                "boxes": _round(x.boxes),
                "weights": [round(w, 3) for w in x.weights],
                "frames": x.frames,
            }
            for x in caption.attention
        ],
    }


def _round(boxes: Iterable[Box]) -> list[list[float]]:
    return [[round(v, 1) for v in box] for box in boxes]


def embed(picture: Image.Image, side: int) -> str:
    """The picture as a data: address, its longer side at most `side` pixels."""
    picture = picture.convert("RGB")
    picture.thumbnail((side, side))
    buffer = io.BytesIO()
    picture.save(buffer, "WEBP", quality=72, method=2)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
