"""What users call: the captioner, the phrase grounder, and the functions that load them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from groundling.inference.captioner import GROUNDER_WEIGHT, GroundedCaptioner, load
from groundling.inference.settings import GREEDY, BeamSearch, DecodingSettings, Sampling

if TYPE_CHECKING:
    from groundling.inference.grounder import PhraseGrounder, load_grounder
    from groundling.inference.phrases import GroundedPhrase

__all__ = [
    "GREEDY",
    "GROUNDER_WEIGHT",
    "BeamSearch",
    "DecodingSettings",
    "GroundedCaptioner",
    "GroundedPhrase",
    "PhraseGrounder",
    "Sampling",
    "load",
    "load_grounder",
]


def __getattr__(name: str) -> Any:
    """A grounder alone needs torch, and is found on first use."""
    module = {"GroundedPhrase": "phrases", "PhraseGrounder": "grounder", "load_grounder": "grounder"}.get(name)
    if module:
        return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module 'groundling.inference' has no attribute {name!r}")
