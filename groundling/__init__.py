"""Captions that point: every noun of a caption tied to the place in the image or video that it speaks of.

import groundling

model = groundling.load()  # or the folder of a model that you trained
said = model.caption("photo.jpg")
for link in said:
    print(said.word(link), link.box, link.score, link.evidence)
groundling.draw("photo.jpg", said).save("pointed.png")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from groundling.api import Pointer, draw, load
    from groundling.client import Client
    from groundling.report.coco import coco_boxes, coco_results
    from groundling.types import Example, GroundedCaption, Link, Score

__all__ = [
    "Client",
    "Example",
    "GroundedCaption",
    "Link",
    "Pointer",
    "Score",
    "__version__",
    "coco_boxes",
    "coco_results",
    "draw",
    "load",
]
_HOME = {
    "api": ("Pointer", "draw", "load"),
    "client": ("Client",),
    "report.coco": ("coco_boxes", "coco_results"),
    "types": ("Example", "GroundedCaption", "Link", "Score"),
}


def __getattr__(name: str) -> Any:
    """Public names are found on first use, so that `import groundling` costs nothing."""
    from importlib import import_module

    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"groundling.{module}"), name)
    raise AttributeError(f"module 'groundling' has no attribute {name!r}")
