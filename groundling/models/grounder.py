"""The two-branch grounder: how well a region fits a phrase (Wang et al. 2021, eq. 1 and 2).

    s(x_l, y_k) = f(x_l)ᵀ g(y_k)                          (1)
    S(X, Y) = Σ_k max_l s(x_l, y_k)                       (2), the maximum being soft unless `hard`

f: features brought to mean 0 and deviation 1, two layers.  g: word vectors, an LSTM, the maximum over the words, two
layers.  Both end on the unit sphere, so that s is a cosine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from groundling.models.layers import Standard, is_word
from groundling.tensors import Batch, Matcher, Regions
from groundling.types import PAD, PHRASE_BEFORE, PHRASE_LONGEST

IMAGES = 64  # whose scores with all phrases are in memory at once


@dataclass(frozen=True)
class Phrases:
    """P phrases of N captions."""

    words: Tensor  # (P, t) int64, PAD after the last
    caption: Tensor  # (P,) int64
    start: Tensor  # (P,) int64, position of the first word in the caption
    end: Tensor  # (P,) int64, position after the last word


class Grounder(nn.Module):
    """Guide and reward model; satisfies what matchers promise.

    `vectors` (V, E) are word vectors that stay as they are; `embed` numbers of each word are learned beside them.
    """

    nouns: Tensor
    vectors: Tensor

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        *,
        joint: int = 512,
        embed: int = 100,
        hidden: int = 300,
        layers: int = 2,
        dropout: float = 0.3,
        temperature: float = 0.05,
        hard: bool = False,
        joiner: int = PAD,
        nouns: Sequence[bool] = (),
        vectors: Tensor | None = None,
    ) -> None:
        """`temperature`: of the soft maximum over regions, and of `attention`; `hard`: the maximum is not soft.

        `joiner`: the word ("of") that makes one phrase of two; PAD: none. `nouns`: which words of the vocabulary are
        nouns, for captions without tags.
        """
        super().__init__()
        self.temperature, self.hard, self.joiner = temperature, hard, joiner
        self.norm = Standard(dim)
        self.columns = nn.Dropout(dropout / 3)
        self.of_region = _branch(dim, joint, dropout)
        self.embed = nn.Embedding(vocab_size, embed, padding_idx=PAD)
        self.register_buffer("vectors", torch.zeros(vocab_size, 0) if vectors is None else vectors)
        self.dropout = nn.Dropout(dropout)
        self.lstm = nn.LSTM(embed + self.vectors.shape[1], hidden, layers, batch_first=True)
        self.of_phrase = nn.Sequential(nn.Dropout(dropout), *_branch(hidden, joint, dropout))
        self.register_buffer("nouns", torch.tensor(list(nouns) or [False] * vocab_size), persistent=False)

    # ---------------------------------------------------------------- the two branches

    def encode_regions(self, regions: Regions) -> Tensor:
        """f(x) (B, R, H), of unit length; 0 where not valid. Dropout takes columns, of all regions alike."""
        real, out = regions.feats[regions.valid], regions.feats.new_zeros(*regions.valid.shape, self.size)
        if not len(real):
            return out
        columns = self.columns(real.new_ones(real.shape[1]))
        seen = F.normalize(self.of_region(self.norm(real) * columns), dim=-1)
        return out.masked_scatter(regions.valid[..., None], seen)

    def encode_phrases(self, words: Tensor) -> Tensor:
        """g(y) (P, H), of unit length, of phrases (P, t) that end at PAD. Equal phrases are encoded once."""
        if not len(words):
            return self.embed.weight.new_zeros(0, self.size)
        different, row = torch.unique(words, dim=0, return_inverse=True)
        lengths = (different != PAD).sum(1).clamp(min=1)
        inputs = self.dropout(torch.cat([self.embed(different), self.vectors[different]], -1))
        packed = pack_padded_sequence(inputs, lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        padding = torch.arange(states.shape[1], device=words.device) >= lengths[:, None]
        pooled = states.masked_fill(padding[..., None], -torch.inf).amax(1)
        return F.normalize(self.of_phrase(pooled), dim=-1)[row]

    @property
    def size(self) -> int:
        """H."""
        return int(self.of_phrase[-1].out_features)  # type: ignore[arg-type]

    def best(self, scores: Tensor, valid: Tensor) -> Tensor:
        """The soft maximum over the last axis:  τ log ((1/R) Σ_l exp(s_l / τ)),  of the R valid regions; 0 of none.

        scores: (..., R); valid: of the same shape, or of the last axes of it.
        """
        count = valid.sum(-1)
        if not bool(valid.all()):
            scores = scores.masked_fill(~(valid | (count == 0)[..., None]), -torch.inf)
        if self.hard:
            return (scores.amax(-1) if scores.shape[-1] else scores.sum(-1)) * (count > 0)
        soft = self.temperature * ((scores / self.temperature).logsumexp(-1) - count.clamp(min=1).log())
        return soft * (count > 0)

    # ---------------------------------------------------------------- phrases

    def phrases_of(self, batch: Batch) -> Phrases:
        """The noun phrases that the tagger found in the captions, "one" and "the other" among them."""
        start, end, caption = batch.chunks[:, 0], batch.chunks[:, 1], batch.chunk_of
        if self.joiner != PAD and len(caption) > 1:
            between = batch.tokens[caption[1:], (start[1:] - 1).clamp(min=0)]
            joined = (caption[1:] == caption[:-1]) & (start[1:] == end[:-1] + 1) & (between == self.joiner)
            first = torch.cat([joined.new_ones(1), ~joined])
            last = torch.cat([~joined, joined.new_ones(1)])
            start, end, caption = start[first], end[last], caption[first]
        return _phrases(batch.tokens, caption, start, end)

    def phrases_in(self, words: Tensor, nouns: Tensor | None = None) -> Phrases:
        """Those of captions (N, T) that nobody has parsed: nouns in a row and at most PHRASE_BEFORE words before them.

        `nouns` (N, T) are the tags, where they are known; else the vocabulary tells.
        """
        noun = (self.nouns[words] if nouns is None else nouns) & is_word(words)
        follows, precedes = F.pad(noun[:, :-1], (1, 0)), F.pad(noun[:, 1:], (0, 1))
        caption, start = (noun & ~follows).nonzero(as_tuple=True)
        end = (noun & ~precedes).nonzero(as_tuple=True)[1] + 1
        previous = torch.where(F.pad(caption[:-1], (1, 0), value=-1) == caption, F.pad(end[:-1], (1, 0)), 0)
        return _phrases(words, caption, torch.maximum(start - PHRASE_BEFORE, previous), end)

    # ---------------------------------------------------------------- guide and reward model

    @torch.no_grad()
    def attention(self, batch: Batch) -> Tensor:
        """(N, T, R): for each noun of `batch.targets` that is in a phrase, the softmax of s / τ; 0 for other words."""
        return self._at_nouns(batch.regions, self.phrases_of(batch), batch.image_of, batch.nouns)[:, 1:]

    @torch.no_grad()
    def point(self, regions: Regions, words: Tensor, image_of: Tensor, features: Tensor | None = None) -> Tensor:
        """(N, T, R): as `attention`, of captions (N, T) that nobody has parsed. `features`: f(x), where known."""
        nouns = self.nouns[words] & is_word(words)
        return self._at_nouns(regions, self.phrases_in(words), image_of, nouns, features)

    def _at_nouns(
        self, regions: Regions, phrases: Phrases, image_of: Tensor, nouns: Tensor, features: Tensor | None = None
    ) -> Tensor:
        """(N, T, R): at the `nouns` (N, T) of each phrase the softmax over the regions of s / τ, else 0."""
        image = image_of[phrases.caption]
        features = self.encode_regions(regions) if features is None else features
        scores = torch.einsum("prh,ph->pr", features[image], self.encode_phrases(phrases.words))
        weights = (scores / self.temperature).masked_fill(~regions.valid[image], -torch.inf).softmax(-1).nan_to_num(0.0)
        at = torch.arange(nouns.shape[1], device=weights.device)
        inside = (at >= phrases.start[:, None]) & (at < phrases.end[:, None]) & nouns[phrases.caption]  # (P, T)
        phrase, token = inside.nonzero(as_tuple=True)
        out = weights.new_zeros(*nouns.shape, weights.shape[1])
        out[phrases.caption[phrase], token] = weights[phrase]
        return out

    @torch.no_grad()
    def rate(self, regions: Regions, words: Tensor, image_of: Tensor) -> Tensor:
        """(N,): the mean of the best scores of a caption's phrases in its image; 0 where there is no phrase."""
        phrases = self.phrases_in(words)
        image = image_of[phrases.caption]
        scores = torch.einsum("prh,ph->pr", self.encode_regions(regions)[image], self.encode_phrases(phrases.words))
        return _mean_of(self.best(scores, regions.valid[image]), phrases.caption, len(words))

    @torch.no_grad()
    def pairs(self, regions: Regions, words: Tensor, nouns: Tensor | None = None) -> Tensor:
        """(B, N): what `rate` says of every image and caption, IMAGES images at a time."""
        phrases = self.phrases_in(words, nouns)
        encoded = self.encode_phrases(phrases.words)
        rows = []
        for start in range(0, len(regions), IMAGES):
            some = regions[slice(start, start + IMAGES)]
            scores = torch.einsum("brh,ph->bpr", self.encode_regions(some), encoded)
            best = self.best(scores, some.valid[:, None])  # (b, P)
            rows.append(_mean_of(best.T, phrases.caption, len(words)).T)
        return torch.cat(rows)


class Adapted(nn.Module):
    """A matcher of another run, in its own words and with no more regions than it was trained with.

    `ids[i]` is its own id of the pupil's word i. It sees the first `limit` regions of a frame, and so has no opinion
    of the others: it teaches nobody to look there (`attention` is 0), but does not rule them out (`point`).
    """

    ids: Tensor  # (V,) int64

    def __init__(self, matcher: Matcher, ids: Tensor, limit: int) -> None:
        super().__init__()
        self.matcher, self.limit = matcher, limit
        self.register_buffer("ids", ids)

    def attention(self, batch: Batch) -> Tensor:
        seen = replace(batch, tokens=self.ids[batch.tokens], regions=batch.regions.of_each_frame(self.limit))
        return _widened(self.matcher.attention(seen), batch.regions)

    def point(self, regions: Regions, words: Tensor, image_of: Tensor, features: Tensor | None = None) -> Tensor:
        """Of R regions, each that is not seen has 1 / R, as by chance; those that are seen share the rest.

        `features`: what a grounder computes of the regions, where that was done before; see `Grounder.point`.
        """
        few, ids = regions.of_each_frame(self.limit), self.ids[words]
        if features is not None and isinstance(self.matcher, Grounder):
            placed = self.matcher.point(few, ids, image_of, features[:, : few.valid.shape[1]])
        else:
            placed = self.matcher.point(few, ids, image_of)
        seen = _widened(placed, regions)
        chance = regions.valid / regions.valid.sum(1, keepdim=True).clamp(min=1)  # (B, R)
        chance[:, : few.valid.shape[1]].masked_fill_(few.valid, 0)
        others = chance.to(seen.dtype)[image_of][:, None]  # (N, 1, R)
        return seen * (1 - others.sum(-1, keepdim=True)) + others * (seen.sum(-1, keepdim=True) > 0)

    def rate(self, regions: Regions, words: Tensor, image_of: Tensor) -> Tensor:
        return self.matcher.rate(regions.of_each_frame(self.limit), self.ids[words], image_of)


def _branch(dim: int, joint: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(nn.Linear(dim, joint), nn.ReLU(), nn.Dropout(dropout), nn.Linear(joint, joint))


def _phrases(tokens: Tensor, caption: Tensor, start: Tensor, end: Tensor) -> Phrases:
    length = (end - start).clamp(max=PHRASE_LONGEST)
    at = torch.arange(int(length.max()) if len(length) else 1, device=tokens.device)
    position = (end - length)[:, None] + at
    words = tokens[caption[:, None], position.clamp(max=tokens.shape[1] - 1)]
    return Phrases(words.masked_fill(at >= length[:, None], PAD), caption, start, end)


def _mean_of(values: Tensor, caption: Tensor, n: int) -> Tensor:
    """(P, ...) -> (N, ...): the mean over the phrases of each caption; 0 where it has none."""
    total = values.new_zeros(n, *values.shape[1:]).index_add(0, caption, values)
    count = torch.bincount(caption, minlength=n).clamp(min=1)
    return total / count.reshape(-1, *[1] * (values.ndim - 1))


def _widened(attn: Tensor, regions: Regions) -> Tensor:
    """(N, T, r) -> (N, T, R), 0 for the regions that were not seen."""
    return F.pad(attn, (0, regions.valid.shape[1] - attn.shape[2]))
