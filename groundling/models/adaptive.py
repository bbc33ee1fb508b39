"""AdaptiveAttention: attend to the image or to a visual sentinel (Lu et al., Knowing When to Look, CVPR 2017).

    v_i = ReLU(W_a f_i),   v^g = ReLU(W_b f̄)                                  f̄: the whole image
    x_t = [ReLU(W_e y_t); v^g],   h_t, m_t = LSTM(x_t, h_{t-1}, m_{t-1})
    z_{i,t} = w_hᵀ tanh(W_v v_i + W_g h_t),   α_t = softmax(z_t),   c_t = Σ_i α_{i,t} v_i          (6, 7, 8)
    g_t = σ(W_x x_t + W_h h_{t-1}),   s_t = g_t ⊙ tanh(m_t)                   the visual sentinel  (9, 10)
    α̂_t = softmax([z_t; w_hᵀ tanh(W_s s_t + W_g h_t)]),   β_t = its last entry                    (12)
    ĉ_t = β_t s_t + (1 − β_t) c_t                                                                  (11)
    p(y_{t+1} | y_{<=t}) = softmax(W_p (ĉ_t + h_t))                                                (13)

α̂_{i,t} = (1 − β_t) α_{i,t}: where it attends and whether it attends are separate. The attention that is kept is α_t,
which sums to 1 over the regions; the sentinel's share β_t is in none of them. W_a, W_b, words and ĉ + h are followed by
dropout."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from groundling.models.layers import embedding, log_softmax, masked_softmax, scores
from groundling.models.neuraltalk import whole_image
from groundling.models.packed import Packing, Unrolled, log_likelihood
from groundling.models.updown import cell
from groundling.tensors import Decoding, EncodedImage, Glimpse, Regions
from groundling.types import PAD

Memory = tuple[Tensor, Tensor]  # h and m, each (N, H)
State = tuple[Memory, Tensor]  # and (N, 5H) the part of the gates that never changes: W v^g + b


class SentinelAttention(nn.Module):
    """Eq. 6 to 8, 11 and 12: called with h (N, H), s (N, H) and encoded images; gives ĉ (N, H), α (N, R), β (N, 1)."""

    def __init__(self, hidden: int, size: int) -> None:
        super().__init__()
        self.of_memory = nn.Linear(hidden, size)
        self.of_query = nn.Linear(hidden, size, bias=False)
        self.of_sentinel = nn.Linear(hidden, size)
        self.weigh = nn.Linear(size, 1, bias=False)

    def keys(self, memory: Tensor) -> Tensor:
        keys: Tensor = self.of_memory(memory)
        return keys

    def forward(self, h: Tensor, s: Tensor, encoded: EncodedImage) -> tuple[Tensor, Tensor, Tensor]:
        query = self.of_query(h)
        q = encoded.fold(query)  # (b, g, A), the rows of b images side by side
        b = len(q)
        memory, valid = encoded.memory[:b], encoded.valid[:b, None]
        z = self.weigh((encoded.keys[:b, None] + q[:, :, None]).tanh_()).squeeze(-1)  # (b, g, R)
        z = z.to(torch.promote_types(z.dtype, torch.float32))
        alpha = masked_softmax(z, valid)
        seen = z.masked_fill(~valid, torch.finfo(z.dtype).min).logsumexp(-1, keepdim=True)  # (b, g, 1)
        beta = (self.weigh((self.of_sentinel(s) + query).tanh()) - encoded.unfold(seen)).sigmoid()  # (N, 1)
        context = encoded.unfold(alpha.to(memory.dtype) @ memory)
        return beta * s + (1 - beta) * context, encoded.unfold(alpha), beta


class AdaptiveAttention(nn.Module):
    """A captioner of regions of size `dim`, and of an image vector of size `whole` (0: the mean of the regions)."""

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        attend: SentinelAttention,
        whole: int = 0,
        hidden: int = 512,
        embed: int = 512,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.sees_whole, self.attend = whole > 0, attend
        self.region = embedding(dim, hidden, dropout)
        self.image = embedding(whole or dim, hidden, dropout)
        self.embed = nn.Embedding(vocab_size, embed, padding_idx=PAD)
        # Four gates of the LSTM and the sentinel's, which sees the same; apart by input, see UpDown.
        self.word_gates = nn.Linear(embed, 5 * hidden, bias=False)
        self.whole_gates = nn.Linear(hidden, 5 * hidden)
        self.hidden_gates = nn.Linear(hidden, 5 * hidden, bias=False)
        self.logits = nn.Linear(hidden, vocab_size)
        self.dropout = nn.Dropout(dropout)
        for layer in (self.word_gates, self.whole_gates, self.hidden_gates):
            for weight in layer.parameters():
                nn.init.uniform_(weight, -(hidden**-0.5), hidden**-0.5)

    def encode(self, regions: Regions) -> EncodedImage:
        memory = self.region(regions.feats) * regions.valid[..., None]
        return EncodedImage(
            memory=memory,
            keys=self.attend.keys(memory),
            valid=regions.valid,
            frame=regions.frame,
            whole=self.image(whole_image(regions, self.sees_whole)),
            row=torch.arange(len(regions), device=memory.device),
        )

    def start(self, encoded: EncodedImage) -> State:
        still = self.whole_gates(encoded.whole)[encoded.row]
        return initial_state(still), still

    def step(
        self, token: Tensor, encoded: EncodedImage, state: State, mask_special: bool = False
    ) -> tuple[Tensor, Glimpse, State]:
        (h, m), still = state
        (h, m), adapted, alpha, _ = self.adapt(self.embed_word(token) + still + self.hidden_gates(h), m, encoded)
        logits = scores(self.logits, self.dropout(adapted + h), mask_special)
        return log_softmax(logits), Glimpse(alpha), ((h, m), still)

    def embed_word(self, token: Tensor) -> Tensor:
        """Words (...) -> their part of the gates (..., 5H)."""
        gates: Tensor = self.word_gates(self.dropout(self.embed(token).relu()))
        return gates

    def adapt(self, gates: Tensor, m: Tensor, encoded: EncodedImage) -> tuple[Memory, Tensor, Tensor, Tensor]:
        """From the gates (N, 5H): h and m, ĉ (N, H), α (N, R), β (N, 1)."""
        lstm = 4 * m.shape[1]
        h, m = cell(gates[:, :lstm], m)
        return (h, m), *self.attend(h, gates[:, lstm:].sigmoid() * m.tanh(), encoded)

    def forward(self, encoded: EncodedImage, inputs: Tensor, targets: Tensor, mask_special: bool = False) -> Decoding:
        """Score `targets` (N, T) after `inputs` (N, T); `mask_special`: without PAD, BOS and UNK."""
        packing = Packing.of(targets != PAD, encoded.row, len(encoded.memory))
        encoded = encoded.only(packing.images)
        base = self.whole_gates(encoded.whole)[encoded.row[torch.cat(packing.rows)]] + self.embed_word(
            packing.pack(inputs)
        )
        gates = Unrolled(self.hidden_gates.weight, base, packing.counts)
        h, m = initial_state(base[: len(packing.rows[0])])
        hidden, attns = [], []
        for rows, stays in zip(packing.rows, packing.stays, strict=True):
            if len(stays) < len(h):
                h, m = h[stays], m[stays]
            (h, m), adapted, alpha, _ = self.adapt(gates(h), m, encoded[rows])
            hidden.append(adapted + h)
            attns.append(alpha)
        logits = scores(self.logits, self.dropout(torch.cat(hidden)), mask_special)
        logp, guess = log_likelihood(logits, packing.pack(targets))
        return Decoding(targets, packing.unpack(logp), packing.unpack(torch.cat(attns)), packing.unpack(guess))


def initial_state(gates: Tensor) -> Memory:
    """h and m before any word, for as many rows as `gates` (N, 5H) has."""
    zero = gates.new_zeros(len(gates), gates.shape[1] // 5)
    return zero, zero
