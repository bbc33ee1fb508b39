"""Neuraltalk2: the image is the first input of an LSTM, then words (Karpathy and Fei-Fei 2015; Vinyals et al. 2015).

    x_{-1} = W_I v + b_I            v: the vector of the whole image
    x_t    = W_e y_t                y_0 = BOS
    h_t    = LSTM(x_t, h_{t-1})
    p(y_{t+1} | y_{<=t}) = softmax(W_o h_t + b_o)

Words and h are dropped out. There is no attention: its weights are 0 everywhere, so none of its words has a box.
(Equal weights would be a lie: the first region would win.)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from groundling.models.layers import log_softmax, scores
from groundling.models.packed import Packing, Unrolled, log_likelihood
from groundling.models.updown import cell
from groundling.tensors import Decoding, EncodedImage, Glimpse, Regions
from groundling.types import PAD

State = tuple[Tensor, Tensor]  # h and c, each (N, H)


class Neuraltalk2(nn.Module):
    """A captioner that sees `regions.whole`, of size `whole`; where that is 0, the mean of its regions (`dim`)."""

    def __init__(
        self, vocab_size: int, dim: int, whole: int = 0, hidden: int = 512, embed: int = 512, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.sees_whole = whole > 0
        self.image = nn.Linear(whole or dim, embed)
        self.embed = nn.Embedding(vocab_size, embed, padding_idx=PAD)
        self.word_gates = nn.Linear(embed, 4 * hidden)
        self.hidden_gates = nn.Linear(hidden, 4 * hidden, bias=False)
        self.logits = nn.Linear(hidden, vocab_size)
        self.dropout = nn.Dropout(dropout)
        for layer in (self.word_gates, self.hidden_gates):
            for weight in layer.parameters():
                nn.init.uniform_(weight, -(hidden**-0.5), hidden**-0.5)

    def encode(self, regions: Regions) -> EncodedImage:
        whole = whole_image(regions, self.sees_whole)
        nothing = whole.new_zeros(*regions.valid.shape, 0)  # no word attends to a region
        return EncodedImage(
            memory=nothing,
            keys=nothing,
            valid=regions.valid,
            frame=regions.frame,
            whole=self.image(whole),
            row=torch.arange(len(regions), device=whole.device),
        )

    def start(self, encoded: EncodedImage) -> State:
        gates = self.word_gates(encoded.whole)
        h, c = cell(gates, gates.new_zeros(len(gates), gates.shape[1] // 4))
        return h[encoded.row], c[encoded.row]

    def step(
        self, token: Tensor, encoded: EncodedImage, state: State, mask_special: bool = False
    ) -> tuple[Tensor, Glimpse, State]:
        h, c = cell(self.embed_word(token) + self.hidden_gates(state[0]), state[1])
        logits = scores(self.logits, self.dropout(h), mask_special)
        nowhere = logits.new_zeros(len(token), encoded.valid.shape[1])
        return log_softmax(logits), Glimpse(nowhere), (h, c)

    def embed_word(self, token: Tensor) -> Tensor:
        """Words (...) -> their part of the gates (..., 4H)."""
        gates: Tensor = self.word_gates(self.dropout(self.embed(token)))
        return gates

    def forward(self, encoded: EncodedImage, inputs: Tensor, targets: Tensor, mask_special: bool = False) -> Decoding:
        """Score `targets` (N, T) after `inputs` (N, T); `mask_special`: without PAD, BOS and UNK."""
        packing = Packing.of(targets != PAD, encoded.row, len(encoded.whole))
        gates = Unrolled(self.hidden_gates.weight, self.embed_word(packing.pack(inputs)), packing.counts)
        h, c = (x[packing.rows[0]] for x in self.start(encoded))
        hidden = []
        for stays in packing.stays:
            if len(stays) < len(h):
                h, c = h[stays], c[stays]
            h, c = cell(gates(h), c)
            hidden.append(h)
        logits = scores(self.logits, self.dropout(torch.cat(hidden)), mask_special)
        logp, guess = log_likelihood(logits, packing.pack(targets))
        nowhere = logp.new_zeros(*targets.shape, encoded.valid.shape[1])
        return Decoding(targets, packing.unpack(logp), nowhere, packing.unpack(guess))


def whole_image(regions: Regions, sees_whole: bool) -> Tensor:
    """(B, ·): the source's vector of the image, or the mean of the regions' features."""
    if not sees_whole:
        return regions.feats.sum(1) / regions.valid.sum(1, keepdim=True).clamp(min=1)
    if regions.whole is None:
        raise ValueError("this captioner expects an image vector, but the regions have none (regions.whole)")
    return regions.whole
