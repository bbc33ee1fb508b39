"""What captioners share: how they are built, and teacher forcing."""

from __future__ import annotations

from groundling.errors import GroundlingError
from groundling.models.layers import Additive, GroundingAware, Plain
from groundling.models.updown import UpDown
from groundling.recipes._parts import CaptionerParts, UpDownParts
from groundling.recipes._settings import AwareSize, UpDownSize
from groundling.regions.records import Layout
from groundling.tensors import Attention, Batch, Decoding
from groundling.text.classes import Classes
from groundling.text.morphology import lemma, lemma_of
from groundling.training.stages import Clock
from groundling.types import Vocab


def forced(m: CaptionerParts, batch: Batch) -> Decoding:
    """The captions of a batch as `m.captioner` finds them, each word after the true words before it."""
    encoded = m.captioner.encode(batch.regions)[batch.image_of]
    return m.captioner(encoded, batch.inputs, batch.targets)


def sampled(m: UpDownParts, batch: Batch, share: float, clock: Clock) -> Decoding:
    """The same with scheduled sampling: some words before are the captioner's own, more of them every five epochs."""
    encoded = m.captioner.encode(batch.regions)[batch.image_of]
    decoding: Decoding = m.captioner(encoded, batch.inputs, batch.targets, min(share, 0.05 * (clock.epoch // 5)))
    return decoding


def build_updown(size: UpDownSize, vocab: Vocab, layout: Layout) -> UpDown:
    """Up-Down on plain regions."""
    encoder = Plain(layout.dim, size.hidden, size.dropout)
    attend = Additive(size.hidden, size.attention)
    return UpDown(len(vocab), encoder, attend, size.hidden, size.embed, size.dropout)


def build_aware_updown(
    size: AwareSize,
    vocab: Vocab,
    layout: Layout,
    classes: Classes,
    attend: Attention | None = None,
    *,
    coupled: bool = True,
) -> UpDown:
    """Up-Down on the grounding-aware encoding, with another attention where one is given."""
    encoder, attend_grid = aware(size, layout, classes)
    attend = attend or Additive(size.hidden, size.attention)
    sizes = (size.hidden, size.embed, size.dropout)
    columns = word_columns(vocab, layout) if size.word_link else None
    return UpDown(len(vocab), encoder, attend, *sizes, attend_grid, coupled=coupled, word_columns=columns)


def word_columns(vocab: Vocab, layout: Layout) -> list[int]:
    """Which number of the image vector is the log-odds of each word of the vocabulary, by its lemma; -1: none."""
    if not layout.words:
        raise GroundlingError(
            "word_link needs image vectors with words, as the source photos makes them; the source of these regions "
            "has none: train with --word-link 0"
        )
    first = layout.whole - len(layout.words)
    column = {word: first + i for i, word in enumerate(layout.words)}
    return [next((column[form] for form in _forms(word) if form in column), -1) for word in vocab.words]


def _forms(word: str) -> tuple[str, ...]:
    """The word and what may be its lemma."""
    return word, lemma_of(word), *(lemma(word, tag) for tag in ("NNS", "VBG", "VBZ", "VBD"))


def aware(size: AwareSize, layout: Layout, classes: Classes) -> tuple[GroundingAware, Additive | None]:
    """The grounding-aware encoder and, where regions have a feature map and it is used, the attention over that."""
    grid = layout.grid[1] if size.image_map else 0
    encoder = GroundingAware(
        layout.dim,
        max(1, len(classes.names)),
        size.hidden,
        location=size.location,
        whole=layout.whole if size.image_vector else 0,
        grid=grid,
        dropout=size.dropout,
    )
    return encoder, Additive(size.hidden, size.attention) if grid else None
