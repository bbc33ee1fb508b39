"""From a decoded caption to boxes: which regions a word is about, re-ranked by a grounder, as links of the caption."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from groundling.boxes import soft_iou_match, union
from groundling.inference.evidence import LEAST_EVIDENCE, read_calibration
from groundling.inference.grounder import PhraseGrounder, RegionFeatures, best_similarity
from groundling.inference.pointing import ATTENDED, Pointed, captioned, means_several, with_groups
from groundling.models.grounder import Adapted, Grounder
from groundling.recipes import Model, load
from groundling.recipes._teachers import matcher_of
from groundling.tensors import Decoding, Glimpse, Regions
from groundling.types import GroundedCaption, Vocab

Point = Callable[[Regions, Tensor, Tensor], Tensor]  # as `tensors.Matcher.point`


def boxes_of(decoded: Decoding, regions: Regions) -> tuple[Tensor, Tensor]:
    """Where each word is: boxes (N, T, F, 4), one per frame, and scores (N, T, F); NaN and 0 where there is none.

    The box is the union of the word's regions in that frame, the score their share of the attention. For captions that
    were not generated here (teacher forcing of a given sentence), the region is the most attended one of each frame.
    Row i of `decoded` belongs to row i of `regions`.
    """
    n, t, r = decoded.attn.shape
    if not regions.boxes.numel():
        return decoded.attn.new_full((n, t, 1, 4), math.nan), decoded.attn.new_zeros(n, t, 1)
    picks = decoded.picks
    if picks is None:
        frame = regions.frame[:, None].expand(n, t, r).reshape(n * t, r)
        picks = Glimpse(decoded.attn.reshape(n * t, r)).picks(decoded.tokens.flatten(), frame).view(n, t, r)
    here = [picks & (regions.frame == f)[:, None] for f in range(int(regions.frame.max()) + 1)]
    return (
        torch.stack([union(regions.boxes[:, None].expand(n, t, r, 4), p) for p in here], 2),
        torch.stack([(decoded.attn * p).sum(-1) for p in here], 2),
    )


def rerank(decoded: Decoding, regions: Regions, point: Point, weight: float, several: Tensor | None = None) -> Decoding:
    """The same words; which regions they are about is decided together with a matcher, which has read the caption:

        a_t ∝ β_t^(1 − weight) α_t^weight

    β: the captioner's attention while it chose the word.  α: the matcher's, by its method `point`.  A word that the
    matcher does not place keeps its regions. One that it places gets, in each frame, the region that most likely covers
    the thing (`boxes.soft_iou_match`), or the things, where it means more than one (`inference.pointing`). `several`:
    (V,), whether each word does. Row i of `decoded` belongs to row i of `regions`.
    """
    n, t, r = decoded.attn.shape
    alpha = point(regions, decoded.tokens, torch.arange(n, device=decoded.tokens.device))
    known = alpha.sum(-1) > 0  # (N, T)
    tiny = torch.finfo(decoded.attn.dtype).tiny
    mixed = (1 - weight) * decoded.attn.clamp(min=tiny).log() + weight * alpha.clamp(min=tiny).log()
    mixed = mixed.masked_fill(~regions.valid[:, None], -math.inf)
    attn = torch.where(known[..., None], mixed.softmax(-1), decoded.attn)
    frame = regions.frame[:, None].expand(n, t, r).reshape(n * t, r)
    alike = regions.frame[:, :, None] == regions.frame[:, None]
    sure = attn @ (soft_iou_match(regions.boxes) * alike)
    if several is not None:
        sure = _with_groups(sure, attn, regions, several[decoded.tokens])
    sure = sure.masked_fill(~regions.valid[:, None], -1.0)
    heaviest = Glimpse(sure.reshape(n * t, r)).picks(decoded.tokens.flatten(), frame).view(n, t, r)
    picks = heaviest if decoded.picks is None else torch.where(known[..., None], heaviest, decoded.picks)
    return replace(decoded, attn=attn, picks=picks)


def _with_groups(sure: Tensor, attn: Tensor, regions: Regions, several: Tensor) -> Tensor:
    """`pointing.with_groups` for each image: sure and attn are (N, T, R), several (N, T)."""
    rows = (x.cpu().numpy() for x in (sure, attn, regions.boxes, regions.frame, several))
    return torch.from_numpy(np.stack([with_groups(*one) for one in zip(*rows, strict=True)])).to(sure)


def link(
    decoded: Decoding,
    regions: Regions,
    vocab: Vocab,
    ids: Sequence[str],
    groundable: Callable[[str], bool] | Collection[str],
    *,
    attended: int = ATTENDED,
    media: Sequence[str] = (),
) -> list[GroundedCaption]:
    """Captions as people read them: words joined by spaces, Links of groundable words, WordAttention of all words.

    A groundable word has a Link in each frame. Its score is the attention on the regions whose union is its box.
    `attended` is the number of regions of a WordAttention.
    Row i of `decoded` belongs to row i of `regions`, which is `ids[i]`.
    """
    is_groundable = groundable if callable(groundable) else groundable.__contains__
    where, sure = (x.tolist() for x in boxes_of(decoded, regions))  # [row][token][frame]
    weights, top = (x.tolist() for x in decoded.attn.topk(min(attended, decoded.attn.shape[2]), 2))
    region_boxes, frames, sizes = regions.boxes.tolist(), regions.frame.tolist(), regions.size.tolist()
    captions = []
    for i, (name, token_ids, logp) in enumerate(
        zip(ids, decoded.tokens.tolist(), decoded.logp.sum(1).tolist(), strict=True)
    ):
        places = Pointed(where[i], sure[i], top[i], weights[i], region_boxes[i], frames[i])
        size = (round(sizes[i][0]), round(sizes[i][1]))
        about = {"id": name, "size": size, "media": media[i] if media else ""}
        captions.append(captioned(vocab.decode(token_ids), places, is_groundable, logp, **about))
    return captions


# ---------------------------------------------------------------- a grounder beside a captioner


@dataclass(frozen=True)
class Reranker:
    """Made by `load_reranker`. The regions go through the grounder once (`features`), for words, boxes and evidence."""

    matcher: Adapted  # takes the captioner's word ids
    weight: float  # 0: only the captioner's attention counts; 1: only the matcher's
    captioner: Model
    grounder: PhraseGrounder | None = None  # the same matcher, where it is a grounder of phrases

    def features(self, regions: Regions) -> RegionFeatures | None:
        """What the grounder computes of all regions that it uses; None for another matcher."""
        return None if self.grounder is None else self.grounder.features(regions)

    def log_evidence(self, features: RegionFeatures | None) -> Tensor | None:
        """(B, V): log of the evidence of each noun of the captioner's vocabulary; 0 for words that are no nouns, and
        for nouns that the grounder does not know. None where the grounder is not calibrated.

        Evidence here is by similarity alone, hundreds of nouns in one product; that of links may also ask the image
        vector, noun by noun.
        """
        if features is None or self.grounder is None or self.grounder.calibration is None:
            return None
        ids, vectors = self._nouns
        scores = torch.einsum("brh,ph->bpr", features.vectors, vectors).masked_fill(~features.valid[:, None], -1.0)
        evidence = self.grounder.calibration.similarity(best_similarity(scores.flatten(0, 1)).cpu().double().numpy())
        known = torch.from_numpy(evidence).to(vectors).clamp(min=LEAST_EVIDENCE).log().view(len(scores), len(ids))
        return vectors.new_zeros(len(scores), len(self.captioner.vocab)).index_copy(1, ids, known)

    @cached_property
    def _nouns(self) -> tuple[Tensor, Tensor]:
        """Ids (P,) in the captioner's vocabulary of the nouns that get a box, and g(y) (P, H) of each alone."""
        assert self.grounder is not None
        words, groundable = self.captioner.vocab.words, self.captioner.groundable.class_of
        known = self.grounder.model.vocab
        nouns = [i for i, word in enumerate(words) if word in groundable and word in known]
        ids = torch.tensor(nouns, dtype=torch.int64, device=self.grounder.device)
        return ids, self.grounder.embed([[words[i]] for i in nouns])

    def rerank(self, decoded: Decoding, regions: Regions, features: RegionFeatures | None) -> Decoding:
        """See `rerank`; `regions` are those that the captioner saw."""
        vectors = None if features is None else features.vectors
        point = partial(self.matcher.point, features=vectors)
        return rerank(decoded, regions, point, self.weight, self._several.to(decoded.tokens.device))

    @cached_property
    def _several(self) -> Tensor:
        """(V,): whether a word of the captioner is a noun that means more than one thing."""
        nouns = self.captioner.groundable.class_of
        return torch.tensor([word in nouns and means_several(word) for word in self.captioner.vocab.words])

    def on_bodies(self, caption: GroundedCaption, regions: Regions) -> GroundedCaption:
        """See `BaseGrounder.on_bodies`."""
        return caption if self.grounder is None else self.grounder.on_bodies(caption, regions)

    def add_evidence(
        self, captions: Sequence[GroundedCaption], features: RegionFeatures | None
    ) -> list[GroundedCaption]:
        """The same captions, each link with its evidence where the grounder is calibrated."""
        if self.grounder is None or features is None:
            return list(captions)
        return self.grounder.add_evidence(captions, features)


def load_reranker(folder: Path, weight: float, model: Model, device: torch.device) -> Reranker:
    """The grounder or matcher in a folder, for the captions of `model`."""
    trained = load(folder)
    matcher: Any = matcher_of(trained, str(folder), model.vocab, model.fingerprint).to(device)
    is_grounder = isinstance(matcher.matcher, Grounder)
    grounder = PhraseGrounder(trained, read_calibration(folder), device) if is_grounder else None
    return Reranker(matcher, weight, model, grounder)
