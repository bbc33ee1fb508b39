"""Which captions of an image are like the others: those that a captioner can learn to say.

Of five people who describe a photo, one names what nobody else does. A caption is ranked by its CIDEr-D with the other
captions of its image as references, as Phan et al. (Consensus-based Sequence Training for Video Captioning, 2017) weigh
captions; here those that agree most are learned from, and the others are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from groundling.metrics.cider import DocumentFrequency, cider_d
from groundling.types import Example


def by_agreement(examples: Iterable[Example]) -> Callable[[Example], list[int]]:
    """Ranks the captions of an example that have words, the one that agrees most with the others first."""
    usable = {e.id: {i: c.tokens for i, c in enumerate(e.captions) if c.tokens} for e in examples}
    pairs = [(id, i) for id, captions in usable.items() for i in captions if len(captions) > 1]
    texts = [usable[id][i] for id, i in pairs]
    others = [[tokens for j, tokens in usable[id].items() if j != i] for id, i in pairs]
    df = DocumentFrequency.of([list(captions.values()) for captions in usable.values()])
    agreement = dict(zip(pairs, cider_d(texts, others, df).tolist(), strict=True)) if pairs else {}
    return lambda example: sorted(usable[example.id], key=lambda i: -agreement.get((example.id, i), 0.0))
