"""What captioners share: teacher forcing, and the grounding-aware encoding of regions."""

from __future__ import annotations

from groundling.models.attention import Additive
from groundling.models.encoders import GroundingAware
from groundling.regions.records import Layout
from groundling.tensors import Batch, Decoding
from groundling.text.classes import Classes
from groundling.training.stages import Parts


def forced(m: Parts, batch: Batch) -> Decoding:
    """The captions of a batch as `m.captioner` finds them, each word after the true words before it."""
    encoded = m.captioner.encode(batch.regions)[batch.image_of]
    said: Decoding = m.captioner(encoded, batch.inputs, batch.targets)
    return said


def aware(
    layout: Layout, classes: Classes, hidden: int, attention: int, location: int, dropout: float
) -> tuple[GroundingAware, Additive | None]:
    """The encoder of `updown_aware` and, where regions come with a feature map, the attention over that."""
    encoder = GroundingAware(
        layout.dim,
        max(1, len(classes.names)),
        hidden,
        location=location,
        whole=layout.whole,
        grid=layout.grid[1],
        dropout=dropout,
    )
    return encoder, Additive(hidden, attention) if layout.grid[1] else None
