"""Images found by captions, and captions by images.

t2i R@k   the share of captions whose image is among the k that score highest
i2t R@k   the share of images of which a caption is among the k that score highest
rsum      the sum of all of these, in per cent

Ties count against the model: what scores as high as the right one ranks before it, so that a model to which all images
are alike retrieves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from groundling.metrics.statistics import Statistics, mean_statistics, signature
from groundling.types import Score

Ints = NDArray[np.int64]
Block = NDArray[np.floating]


def score_retrieval(
    scores: Block | Iterable[Block],
    image_of: NDArray[np.integer],
    ids: Sequence[str],
    ks: Sequence[int] = (1, 5, 10),
    by: str = "matcher",
    split: str = "",
) -> list[Statistics]:
    """R@k both ways of S (B, N), the score of each image and each caption, `image_of` (N,) being the image of each.

    S may come as blocks of columns (B, n), one after another, so that memory stays flat in N. `ids` are those of the
    images; `by` names the score in the signature.
    """
    columns = [scores] if isinstance(scores, np.ndarray) else scores
    rivals = _Rivals(len(ids), max(ks))
    of_caption = own_ranks(rivals.watch(columns, image_of), image_of)
    of_image = rivals.ranks()
    captions = tuple(f"{ids[image]}#{n}" for n, image in enumerate(image_of))
    about = {"by": by, "images": len(ids), "captions": len(captions)} | ({"split": split} if split else {})
    return [
        mean_statistics(f"{way} R@{k}", signature(f"{way}-r@{k}", **about), names, (ranks <= k).astype(np.float64))
        for way, names, ranks in (("i2t", tuple(ids), of_image), ("t2i", captions, of_caption))
        for k in ks
    ]


def rsum(recalls: Sequence[Statistics]) -> Score:
    """The sum of what `score_retrieval` found, in per cent."""
    scores = [one.score() for one in recalls]
    about = scores[0].signature.replace(scores[0].signature.partition("|")[0], "rsum", 1)
    return Score("rsum", 100 * sum(score.value for score in scores), scores[0].n, about)


def own_ranks(blocks: Iterable[Block], image_of: NDArray[np.integer] | None = None) -> Ints:
    """The rank of its own image for each caption, 1 being best; ties rank before it.

    Blocks (n, B) are captions, one after another, against all images; None: caption i is of image i.
    """
    ranks: list[Ints] = []
    done, images, total = 0, None, 0
    for block in blocks:
        images = block.shape[-1] if images is None else images
        total = images if image_of is None else len(image_of)
        if block.ndim != 2 or block.shape[1] != images or done + len(block) > total:
            raise ValueError(f"expected (b, {images}) scores, {total} rows in all; got {block.shape} after {done} rows")
        if np.isnan(block).any():
            raise ValueError(f"a score of caption {done + int(np.isnan(block).any(1).argmax())} is NaN")
        here = slice(done, done + len(block))
        own_image = np.arange(here.start, here.stop) if image_of is None else image_of[here]
        own = block[np.arange(len(block)), own_image]
        ranks.append(np.count_nonzero(block >= own[:, None], axis=1))
        done += len(block)
    if done != total:
        raise ValueError(f"{done} rows of scores; there must be {total}, one for each caption")
    return np.concatenate([np.zeros(0, np.int64), *ranks])


class _Rivals:
    """For each image its best own caption, and the scores of the k best captions of others, of the blocks seen."""

    def __init__(self, images: int, k: int) -> None:
        self.own = np.full(images, -np.inf)
        self.others = np.full((images, k), -np.inf)
        self.seen = np.zeros(images, bool)

    def watch(self, columns: Iterable[Block], image_of: NDArray[np.integer]) -> Iterator[Block]:
        """Blocks (B, n) in, the same as (n, B) out."""
        images, k = self.others.shape
        done = 0
        for block in columns:
            here = np.asarray(image_of[done : done + block.shape[-1]])
            if block.shape != (images, len(here)):
                raise ValueError(f"expected ({images}, n) scores of {len(image_of) - done} captions, got {block.shape}")
            yield block.T
            mine = np.arange(images)[:, None] == here
            self.own = np.maximum(self.own, np.where(mine, block, -np.inf).max(1, initial=-np.inf))
            self.seen |= mine.any(1)
            best = np.concatenate([self.others, np.where(mine, -np.inf, block)], 1)
            self.others = -np.partition(-best, k - 1, axis=1)[:, :k]
            done += len(here)

    def ranks(self) -> Ints:
        """Of the best own caption, 1 being best; k + 1 stands for all that are worse than k."""
        if not self.seen.all():
            raise ValueError(f"image {int(self.seen.argmin())} has no caption")
        better: Ints = np.count_nonzero(self.others >= self.own[:, None], axis=1)
        return better + 1
