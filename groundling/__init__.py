"""Captions that point: every noun of a caption has its box in the image or video.

import groundling

captioner = groundling.load()  # or the folder of a model that you trained
caption = captioner.caption("photo.jpg")
for link in caption:
    print(caption.word(link), link.box, link.score, link.evidence)
groundling.draw("photo.jpg", caption).save("pointed.png")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from groundling.inference import (
        BeamSearch,
        GroundedCaptioner,
        GroundedPhrase,
        PhraseGrounder,
        Sampling,
        load,
        load_grounder,
    )
    from groundling.report.coco import coco_boxes, coco_results
    from groundling.report.picture import draw
    from groundling.serve.client import Client
    from groundling.types import Example, GroundedCaption, Link, Score

__all__ = [
    "BeamSearch",
    "Client",
    "Example",
    "GroundedCaption",
    "GroundedCaptioner",
    "GroundedPhrase",
    "Link",
    "PhraseGrounder",
    "Sampling",
    "Score",
    "__version__",
    "coco_boxes",
    "coco_results",
    "draw",
    "load",
    "load_grounder",
]
_HOME = {
    "serve.client": ("Client",),
    "inference": (
        "BeamSearch",
        "GroundedCaptioner",
        "GroundedPhrase",
        "PhraseGrounder",
        "Sampling",
        "load",
        "load_grounder",
    ),
    "report.coco": ("coco_boxes", "coco_results"),
    "report.picture": ("draw",),
    "types": ("Example", "GroundedCaption", "Link", "Score"),
}


def __dir__() -> list[str]:
    """The public names, for completion in notebooks, though none is loaded yet."""
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    """Public names are found on first use, so that `import groundling` costs nothing."""
    from importlib import import_module

    for module, names in _HOME.items():
        if name in names:
            if module == "inference":
                import_module("groundling.progress").wait_passively()  # before it imports torch
            return getattr(import_module(f"groundling.{module}"), name)
    raise AttributeError(f"module 'groundling' has no attribute {name!r}")
