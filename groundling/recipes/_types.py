"""The types that stand in the signatures of recipes, from their homes."""

from __future__ import annotations

from torch import Tensor, nn

from groundling.recipes._parts import CaptionerParts, GuidedParts, MatcherParts, UpDownParts
from groundling.regions.records import Layout
from groundling.tensors import Batch
from groundling.text.classes import Classes
from groundling.training.stages import Clock, Losses, Parts, Stage
from groundling.types import Score, Vocab

__all__ = [
    "Batch",
    "CaptionerParts",
    "Classes",
    "Clock",
    "GuidedParts",
    "Layout",
    "Losses",
    "MatcherParts",
    "Parts",
    "Score",
    "Stage",
    "Tensor",
    "UpDownParts",
    "Vocab",
    "nn",
]
