"""SCAN and POS-SCAN: a caption fits an image when each of its words finds its region (Zhou et al. 2020, eq. 1 to 8).

    v_i = W_v f_i + b_v                                    (1)
    e_t = (→h_t + ←h_t) / 2,   h = GRU(W_e y)              (2), (3)

then stacked cross attention (models/cross_attention.py). What a caption is worth is the mean over all words in SCAN,
over the nouns in POS-SCAN. Regions of a video are those of all its frames.

f is brought to mean 0 and deviation 1 first. W_v and b_v could undo it, so no model is gained or lost, but features of
photos have so much in common that without it the hardest rivals teach next to nothing for many epochs. Of several
processes each takes the mean of its own regions while training.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from groundling.errors import GroundlingError
from groundling.models.cross_attention import STEEPEST, attention, score_all, score_pairs
from groundling.models.layers import Standard, is_word
from groundling.tensors import Batch, Regions
from groundling.types import PAD


class Scan(nn.Module):
    """Guide and reward model. With `nouns`, which tells the nouns of the vocabulary, it is POS-SCAN; `nouns_only`:
    other words take no attention from them.

    Tags know better than the vocabulary, and are taken where they are known: while training, in `attention`, and in
    `pairs` where they are given.
    """

    nouns: Tensor | None

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        hidden: int = 1024,
        embed: int = 300,
        temperature: float = 9.0,
        nouns: Sequence[bool] | None = None,
        nouns_only: bool = False,
    ) -> None:
        super().__init__()
        if not 0 <= temperature <= STEEPEST:
            raise GroundlingError(f"temperature must be from 0 to {STEEPEST:g}, got {temperature}")
        self.temperature, self.nouns_only = temperature, nouns_only
        self.norm = Standard(dim)
        self.of_regions = nn.Linear(dim, hidden)
        self.embed = nn.Embedding(vocab_size, embed, padding_idx=PAD)
        self.gru = nn.GRU(embed, hidden, batch_first=True, bidirectional=True)
        self.register_buffer("nouns", None if nouns is None else torch.tensor(nouns), persistent=False)
        nn.init.xavier_uniform_(self.of_regions.weight)
        nn.init.zeros_(self.of_regions.bias)
        nn.init.uniform_(self.embed.weight, -0.1, 0.1)

    # ---------------------------------------------------------------- embedding

    def encode_regions(self, regions: Regions) -> Tensor:
        """v (B, R, H), eq. 1, of unit length; 0 where not valid."""
        v = _unit(self.of_regions(self.norm(regions.feats[regions.valid])))
        return v.new_zeros(*regions.valid.shape, v.shape[-1]).masked_scatter(regions.valid[..., None], v)

    def encode_words(self, words: Tensor, counts: Tensor) -> Tensor:
        """e (N, T, H), eq. 3, of unit length; 0 for what is no word, with `nouns_only` for words that do not count."""
        lengths = is_word(words).sum(1)
        packed = pack_padded_sequence(
            self.embed(words), lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False
        )
        both, _ = pad_packed_sequence(self.gru(packed)[0], batch_first=True, total_length=words.shape[1])
        forward, backward = both.chunk(2, -1)
        return _unit((forward + backward) / 2) * (counts if self.nouns_only else is_word(words))[..., None]

    def counted(self, words: Tensor, nouns: Tensor | None = None) -> Tensor:
        """(N, T) bool: the words that look for a region. `nouns` (N, T): the tags, where they are known."""
        real = is_word(words)
        if self.nouns is None:
            return real
        return real & (self.nouns[words] if nouns is None else nouns)

    # ---------------------------------------------------------------- guide and reward model

    @torch.no_grad()
    def attention(self, batch: Batch) -> Tensor:
        """α (N, T, R) of the words of `batch.targets` that count; 0 for others."""
        return self._attend(batch.regions, batch.targets, batch.image_of, batch.nouns[:, 1:])

    @torch.no_grad()
    def point(self, regions: Regions, words: Tensor, image_of: Tensor) -> Tensor:
        """α (N, T, R), as `attention`, of captions (N, T) that nobody has tagged."""
        return self._attend(regions, words, image_of, None)

    def _attend(self, regions: Regions, words: Tensor, image_of: Tensor, nouns: Tensor | None) -> Tensor:
        counts = self.counted(words, nouns)
        v, e = self.encode_regions(regions), self.encode_words(words, counts)
        return attention(v[image_of], e, regions.valid[image_of], self.temperature) * counts[..., None]

    @torch.no_grad()
    def rate(self, regions: Regions, words: Tensor, image_of: Tensor) -> Tensor:
        """S (N,) of captions, which end at EOS or PAD, and their images; 0 where no word counts."""
        counts, caption = self.counted(words), torch.arange(len(words), device=words.device)
        return score_pairs(
            self.encode_regions(regions), self.encode_words(words, counts), counts, self.temperature, image_of, caption
        )

    @torch.no_grad()
    def pairs(self, regions: Regions, words: Tensor, nouns: Tensor | None = None) -> Tensor:
        """S (B, N) of all images and captions; 0 where no word counts."""
        counts = self.counted(words, nouns)
        return score_all(self.encode_regions(regions), self.encode_words(words, counts), counts, self.temperature)


def _unit(x: Tensor) -> Tensor:
    """Of length 1, in float32 at least."""
    return F.normalize(x.to(torch.promote_types(x.dtype, torch.float32)), dim=-1)
