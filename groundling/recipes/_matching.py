"""What the matchers share: the loss with the hardest rivals in the batch of all processes, and retrieval."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from groundling.metrics.retrieval import rsum, score_retrieval
from groundling.metrics.statistics import Statistics
from groundling.models.cross_attention import compact, score_all, score_pairs
from groundling.models.scan import Scan
from groundling.objectives.triplet import hardest, triplet
from groundling.progress import track
from groundling.tensors import Batch, ImageTextMatcher, Regions
from groundling.training.parallel import gather, rank, world
from groundling.types import PAD, Score

CAPTIONS = 1000  # scored at once, with all images


def hardest_triplet(matcher: Scan, batch: Batch, margin: float) -> Tensor:
    """Eq. 7 of the captions of this process, the rivals being images and captions of all processes.

    Captions of which no word counts, those without a noun for POS-SCAN, have no score: they are nobody's rivals, and
    have no loss.
    """
    words = batch.targets
    counts = matcher.counted(words, batch.nouns[:, 1:])
    v = matcher.encode_regions(batch.regions)
    e, counts = compact(matcher.encode_words(words, counts), counts)
    image_of, own = batch.image_of, torch.arange(len(words), device=words.device)
    if world() > 1:
        images, captions = _rows_before(len(v), v.device), _rows_before(len(words), v.device)
        nonzero = e.any(-1)
        v, e, counts = (
            _gather_padded(v, batch.regions.valid),
            _gather_padded(e, nonzero),
            _gather_padded(counts, nonzero),
        )
        image_of = gather(image_of + images)
        own = own + captions
    tau, scored = matcher.temperature, counts.any(1)
    scores = score_all(v.detach(), e.detach(), counts, tau).masked_fill(~scored, -torch.inf)
    caption, image = hardest(scores, image_of)
    own_image = image_of[own]
    pairs = torch.cat([own_image, own_image, image[own]]), torch.cat([own, caption[own], own])
    fits = score_pairs(v, e, counts, tau, *pairs).chunk(3)
    where = scored[own] & (image_of[scored].bincount().count_nonzero() > 1)  # else there is no rival
    return triplet(fits[0], fits[1], fits[2], where, margin)


def retrieval_scores(
    matcher: ImageTextMatcher, batches: Iterable[Batch], device: torch.device, split: str
) -> list[Score]:
    """R@1, 5 and 10 of the images and captions of these batches, both ways, and their sum."""
    ranks = retrieve(matcher, batches, device, split)
    return [*(one.score() for one in ranks), rsum(ranks)]


def retrieve(
    matcher: ImageTextMatcher, batches: Iterable[Batch], device: torch.device, split: str = "", *, quiet: bool = True
) -> list[Statistics]:
    """R@1, 5 and 10 both ways. Memory holds the regions of all images, and CAPTIONS captions at a time."""
    every = list(batches)
    longest = max(batch.targets.shape[1] for batch in every)
    words = torch.cat([_longer(batch.targets, longest) for batch in every])
    nouns = torch.cat([_longer(batch.nouns[:, 1:], longest) for batch in every])
    before = np.cumsum([0, *(len(batch.ids) for batch in every)])
    image_of = np.concatenate([batch.image_of.numpy() + n for batch, n in zip(every, before, strict=False)])
    ids = [name for batch in every for name in batch.ids]
    regions = Regions.stack([batch.regions for batch in every]).to(device)
    del every

    def blocks() -> Iterator[NDArray[np.floating]]:
        some = list(zip(torch.split(words, CAPTIONS), torch.split(nouns, CAPTIONS), strict=True))
        for captions, tags in track(some, "captions, in thousands", len(some), quiet=quiet):
            yield matcher.pairs(regions, captions.to(device), tags.to(device)).cpu().numpy()

    return score_retrieval(blocks(), image_of, ids, split=split)


def _gather_padded(rows: Tensor, real: Tensor) -> Tensor:
    """(X, Y, ...) of all processes, in order of rank, of which `real` (X, Y) counts: padded anew to the longest."""
    counts = gather(real.sum(1)).tolist()
    return pad_sequence(list(torch.split(gather(rows[real]), counts)), batch_first=True)


def _rows_before(n: int, device: torch.device) -> int:
    """How many rows the processes before this one have, where it has n."""
    counts = gather(torch.tensor([n], device=device))
    return int(counts[: rank()].sum())


def _longer(tokens: Tensor, length: int) -> Tensor:
    return F.pad(tokens, (0, length - tokens.shape[1]), value=PAD)
