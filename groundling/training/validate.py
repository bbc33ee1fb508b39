"""How good the captions are, after an epoch."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from groundling.decoding import greedy
from groundling.metrics.cider import cider_d
from groundling.metrics.statistics import signature
from groundling.tensors import Batch, Captioner
from groundling.types import Score


def caption_scores(
    captioner: Captioner, batches: Iterable[Batch], length: int, device: torch.device, split: str
) -> list[Score]:
    """CIDEr-D (0 to 10) of greedy captions of at most `length` words, with the document frequencies of the references.

    Words are the model's own (lower-cased, without punctuation) on both sides.
    """
    captions: list[list[str]] = []
    references: list[tuple[tuple[str, ...], ...]] = []
    with torch.inference_mode():
        for batch in batches:
            tokens = greedy(captioner, captioner.encode(batch.regions.to(device)), length + 1).tokens
            captions += [batch.vocab.decode(row) for row in tokens.tolist()]
            references += batch.refs
    about = signature("cider-d", df="references", tok="words", text="greedy", split=split)
    return [Score("cider-d", float(cider_d(captions, references).mean()), len(captions), about)]
