"""Does a caption find its own image again? Self-retrieval (Dai and Lin, NeurIPS 2017, section 4.1).

Caption i is the generated caption of image i; all N images are ranked by  s_ij = log p(caption_i | image_j).
Scores come as blocks of rows (b, N) for `metrics.diversity.self_retrieval`, so memory stays flat in N.

Captions of one captioner begin alike, and a state depends on the image and the words so far: each image walks the tree
of the captions' beginnings once, instead of every caption from its first word.

For a large N, `shortlist` leaves each caption the images that are likeliest by their own words: with p̄_j the mean of
the distributions from which the captioner chose the words of image j,  Σ_t log p̄_j(w_t)  is a sum of embeddings and
needs no captioner per pair. Images that are not on the list score -inf: a caption whose own image is not is lost.
`recall` tells how many of the images that are truly likeliest the list has.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from groundling.decoding import greedy, pick_rows
from groundling.errors import GroundlingError
from groundling.metrics.statistics import signature
from groundling.progress import track
from groundling.recipes import Model, recipe_name
from groundling.regions import fingerprints
from groundling.regions.store import Store
from groundling.tensors import Captioner, EncodedImage, Regions
from groundling.types import BOS, PAD, Score

CAPTIONS = 1000  # in a block of rows
IMAGES = 32  # encoded at once
NUMBERS = 1 << 23  # log-probabilities made at once: 32 MB


@dataclass(frozen=True)
class Gallery:
    """N images and the caption of each."""

    model: Model
    store: Store
    ids: Sequence[str]
    tokens: Tensor  # (N, T) tokens, PAD after EOS
    device: torch.device

    @staticmethod
    def of(model: Model, store: Store, ids: Sequence[str], device: torch.device, *, quiet: bool = False) -> Gallery:
        """Caption the images, greedily."""
        fingerprints.require(store.fingerprint, model.fingerprint)
        captioner, rows = model.captioner, []
        with torch.inference_mode():
            for regions in track(_regions(model, store, ids, device), "captions", _blocks(ids), quiet=quiet):
                tokens = greedy(captioner, captioner.encode(regions), model.length).tokens
                rows.append(F.pad(tokens, (0, model.length - tokens.shape[1]), value=PAD))
        return Gallery(model, store, ids, torch.cat(rows), device)

    def words(self) -> list[list[str]]:
        return [self.model.vocab.decode(row) for row in self.tokens.tolist()]

    def scores(self, shortlist: Tensor | None = None, *, quiet: bool = False) -> Iterator[NDArray[np.float32]]:
        """s in blocks of rows (b, N), exact for the images of `shortlist` (N, K), -inf for others; None: all exact."""
        for start in range(0, len(self.ids), CAPTIONS):
            rows = torch.arange(start, min(start + CAPTIONS, len(self.ids)), device=self.device)
            yield self.rows(rows, None if shortlist is None else shortlist[rows], quiet=quiet)

    @torch.inference_mode()
    def rows(self, captions: Tensor, shortlist: Tensor | None = None, *, quiet: bool = False) -> NDArray[np.float32]:
        """The scores (b, N) of these captions, numbers of images (b,), with the images of `shortlist` (b, K) or all."""
        tokens, captioner = self.tokens[captions], self.model.captioner
        n, most = len(self.ids), max(1, NUMBERS // len(self.model.vocab))
        wanted = torch.ones(n, len(tokens), dtype=torch.bool, device=self.device)
        if shortlist is not None:
            wanted = torch.zeros_like(wanted).scatter_(0, shortlist.t(), True)
        scores = torch.full((n, len(tokens)), -math.inf)
        blocks = track(
            _regions(self.model, self.store, self.ids, self.device), "images", _blocks(self.ids), quiet=quiet
        )
        for block, regions in enumerate(blocks):
            encoded = captioner.encode(regions)
            image, caption = wanted[block * IMAGES : (block + 1) * IMAGES].nonzero().unbind(1)
            for i, c in zip(torch.split(image, most), torch.split(caption, most), strict=True):
                scores[i.cpu() + block * IMAGES, c.cpu()] = (
                    logp_of_pairs(captioner, encoded, tokens, c, i).float().cpu()
                )
        return scores.t().contiguous().numpy()

    @torch.inference_mode()
    def matched(self, matcher_model: Model, *, quiet: bool = False) -> Iterator[NDArray[np.float32]]:
        """The scores that a matcher gives instead, in blocks of rows (b, N)."""
        if "matcher" not in matcher_model.recipe.saved_modules:
            raise GroundlingError(
                f"{recipe_name(matcher_model.recipe)} trains no matcher of captions and images; matcher_scan does"
            )
        fingerprints.require(self.store.fingerprint, matcher_model.fingerprint)
        matcher = matcher_model.parts.matcher.to(self.device)
        words = torch.tensor(matcher_model.vocab.encode(self.model.vocab.words), device=self.device)[self.tokens]
        for block in torch.split(words, CAPTIONS):
            regions = track(
                _regions(matcher_model, self.store, self.ids, self.device), "images", _blocks(self.ids), quiet=quiet
            )
            yield torch.cat([matcher.pairs(seen, block).float().cpu() for seen in regions]).t().numpy()

    @torch.inference_mode()
    def shortlist(self, size: int, *, quiet: bool = False) -> Tensor:
        """(N, K) the images whose own words make each caption likeliest."""
        best: Tensor | None = None
        numbers = torch.zeros(len(self.ids), 0, dtype=torch.int64, device=self.device)
        blocks = track(
            _regions(self.model, self.store, self.ids, self.device), "shortlist", _blocks(self.ids), quiet=quiet
        )
        for block, regions in enumerate(blocks):
            here = torch.arange(block * IMAGES, block * IMAGES + len(regions), device=self.device)
            own = own_words(self.model.captioner, self.model.captioner.encode(regions), self.tokens[here])  # (b, V)
            score = F.embedding_bag(self.tokens, own.t().contiguous(), mode="sum", padding_idx=PAD)  # (N, b)
            score = score if best is None else torch.cat([best, score], 1)
            numbers = torch.cat([numbers, here.expand(len(self.ids), -1)], 1)
            best, order = score.topk(min(size, score.shape[1]), 1)
            numbers = numbers.gather(1, order)
        return numbers

    def recall(
        self, shortlist: Tensor, *, top: int = 10, sample: int = 50, seed: int = 0, quiet: bool = False
    ) -> Score:
        """The share of the `top` truly likeliest images of a caption that its shortlist has; for some captions."""
        n, top = len(self.ids), min(top, len(self.ids), shortlist.shape[1])
        some = torch.randperm(n, generator=torch.Generator().manual_seed(seed))[:sample].to(self.device)
        likeliest = torch.from_numpy(self.rows(some, quiet=quiet)).topk(top, 1).indices.to(self.device)  # (s, top)
        hits = (likeliest[:, :, None] == shortlist[some][:, None]).any(-1).float()
        about = signature("shortlist-recall", top=top, shortlist=shortlist.shape[1], images=n, n=len(some))
        return Score("shortlist recall", float(hits.mean()), len(some), about)


def logp_of_pairs(
    captioner: Captioner, encoded: EncodedImage, tokens: Tensor, caption: Tensor, image: Tensor
) -> Tensor:
    """log p(captions[caption_p] | image_p) of P pairs: (C, T) tokens, (P,) and (P,) numbers -> (P,).

    Pairs of one image share the steps of a common beginning.
    """
    begins, c = _beginnings(tokens), len(tokens)
    rows = torch.arange(len(caption), device=caption.device)  # the pairs that have a t-th word
    total = torch.zeros(len(rows), dtype=torch.float64, device=rows.device)
    state: Any = None  # of distinct pairs of an image and a beginning
    node = torch.zeros_like(rows)  # where in it each pair is
    for t in range(tokens.shape[1]):
        goes = (tokens[caption[rows], t] != PAD).nonzero().squeeze(1)
        if not len(goes):
            break
        rows, before = rows[goes], node[goes]
        key = image[rows] * c + begins[caption[rows], t]
        keys, node = torch.unique(key, return_inverse=True)  # in the order of the images
        one = torch.empty_like(keys).scatter_(0, node, torch.arange(len(rows), device=rows.device))  # a pair of each
        seen = encoded[keys // c]
        state = pick_rows(state, before[one]) if t else captioner.start(seen)
        word = tokens[caption[rows[one]], t - 1] if t else torch.full_like(keys, BOS)
        logp, _, state = captioner.step(word, seen, state)
        total[rows] += logp[node, tokens[caption[rows], t]]
    return total


def own_words(captioner: Captioner, encoded: EncodedImage, tokens: Tensor) -> Tensor:
    """(B, V): log of the mean distribution from which the words of `tokens` (B, T), one caption each, were chosen."""
    state, word = captioner.start(encoded), torch.full_like(tokens[:, 0], BOS)
    total, count = encoded.whole.new_zeros(()), (tokens != PAD).sum(1, keepdim=True).clamp(min=1)
    for t in range(int(count.max())):
        logp, _, state = captioner.step(word, encoded, state)
        word = tokens[:, t]
        total = total + logp.exp() * (word != PAD)[:, None]
    return (total / count).clamp(min=1e-9).log()


def _beginnings(tokens: Tensor) -> Tensor:
    """(C, T): the number of the first t words of each caption, equal where they are the same words."""
    columns = [torch.zeros_like(tokens[:, 0])]
    for t in range(tokens.shape[1] - 1):
        longer = columns[-1] * (tokens.max() + 1) + tokens[:, t]
        columns.append(torch.unique(longer, return_inverse=True)[1])
    return torch.stack(columns, 1)


def _regions(model: Model, store: Store, ids: Sequence[str], device: torch.device) -> Iterator[Regions]:
    for start in range(0, len(ids), IMAGES):
        yield store.batch(ids[start : start + IMAGES], model.recipe.data.regions_per_image).to(device)


def _blocks(ids: Sequence[str]) -> int:
    return -(-len(ids) // IMAGES)
