"""The parts that losses see, by name and type: what `m.captioner` is, for the reader and for the type checker.

Training hands every loss the same `Parts`; a recipe says in its annotation which of them it has put there.
"""

from __future__ import annotations

from groundling.models.scan import Scan
from groundling.models.updown import UpDown
from groundling.tensors import Matcher, TrainableCaptioner
from groundling.training.stages import Parts


class CaptionerParts(Parts):
    """Any captioner, as fine-tune recipes find it."""

    captioner: TrainableCaptioner


class GuidedParts(CaptionerParts):
    """And a frozen matcher or grounder whose attention is followed."""

    guide: Matcher


class UpDownParts(CaptionerParts):
    """An Up-Down captioner, whose teacher forcing can do more than that of others."""

    captioner: UpDown


class MatcherParts(Parts):
    """An image-text matcher."""

    matcher: Scan
