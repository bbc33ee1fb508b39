"""Captions that point: every noun of a caption tied to the place in the image or video that it speaks of.

import groundling

model = groundling.load("runs/scenes")
said = model.caption("photo.png")
for link in said:
    print(said.word(link), link.box, link.score)
groundling.draw("photo.png", said).save("pointed.png")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from groundling.api import Pointer, draw, load
    from groundling.types import Example, GroundedCaption, Link, Score

__all__ = ["Example", "GroundedCaption", "Link", "Pointer", "Score", "__version__", "draw", "load"]


def __getattr__(name: str) -> Any:
    """Public names are found on first use, so that `import groundling` costs nothing."""
    from importlib import import_module

    if name in ("Pointer", "draw", "load"):
        return getattr(import_module("groundling.api"), name)
    if name in ("Example", "GroundedCaption", "Link", "Score"):
        return getattr(import_module("groundling.types"), name)
    raise AttributeError(f"module 'groundling' has no attribute {name!r}")
