"""Up-Down written the way published captioning code writes it: plain, and without the savings of `groundling.models`.

The region projection W_va v' sits inside the time loop, every caption owns a copy of its image's regions, logits and
their softmax are computed at padded positions too, decoding runs until the last caption of the batch has ended, and
beam search takes one image at a time. It borrows the weights of an `UpDown`, so both must give the same numbers.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from groundling.models.layers import Additive, Plain
from groundling.models.updown import UpDown
from groundling.tensors import Regions
from groundling.types import BOS, EOS, PAD, UNK

State = tuple[Tensor, Tensor, Tensor, Tensor]


class Reference(nn.Module):
    """The same captioner as `ours` (a `Plain` encoder, an `Additive` attention), with weights of its own."""

    def __init__(self, ours: UpDown) -> None:
        super().__init__()
        assert isinstance(ours.encoder, Plain) and isinstance(ours.attend, Additive)
        hidden, vocab = ours.logits.in_features, ours.logits.out_features
        embed, size = ours.embed.embedding_dim, ours.attend.of_memory.out_features
        feature = ours.encoder.embed[0]
        assert isinstance(feature, nn.Linear)
        self.drop = nn.Dropout(ours.dropout.p)
        self.feature = nn.Linear(feature.in_features, hidden)
        self.embed = nn.Embedding(vocab, embed, padding_idx=PAD)
        self.project_region = nn.Linear(hidden, size)
        self.project_hidden = nn.Linear(hidden, size, bias=False)
        self.weigh = nn.Linear(size, 1, bias=False)
        self.attention_lstm = nn.LSTMCell(2 * hidden + embed, hidden)  # [h2; mean; word]
        self.language_lstm = nn.LSTMCell(2 * hidden, hidden)  # [context; h1]
        self.logits = nn.Linear(hidden, vocab)
        self.borrow(ours, feature)

    @torch.no_grad()
    def borrow(self, ours: UpDown, feature: nn.Linear) -> None:
        attend = ours.attend
        assert isinstance(attend, Additive)
        h = ours.logits.in_features
        attention, language = ours.attention_gates.weight, ours.language_gates.weight
        for mine, theirs in (
            (self.feature.weight, feature.weight),
            (self.feature.bias, feature.bias),
            (self.embed.weight, ours.embed.weight),
            (self.project_region.weight, attend.of_memory.weight),
            (self.project_region.bias, attend.of_memory.bias),
            (self.project_hidden.weight, attend.of_query.weight),
            (self.weigh.weight, attend.weigh.weight),
            (
                self.attention_lstm.weight_ih,
                torch.cat([attention[:, :h], ours.whole_gates.weight, ours.word_gates.weight], 1),
            ),
            (self.attention_lstm.weight_hh, attention[:, h:]),
            (self.attention_lstm.bias_ih, ours.whole_gates.bias),
            (self.attention_lstm.bias_hh, torch.zeros_like(ours.whole_gates.bias)),
            (self.language_lstm.weight_ih, language[:, : 2 * h]),
            (self.language_lstm.weight_hh, language[:, 2 * h :]),
            (self.language_lstm.bias_ih, ours.language_gates.bias),
            (self.language_lstm.bias_hh, torch.zeros_like(ours.language_gates.bias)),
            (self.logits.weight, ours.logits.weight),
            (self.logits.bias, ours.logits.bias),
        ):
            mine.copy_(theirs)

    def encode(self, regions: Regions) -> tuple[Tensor, Tensor, Tensor]:
        mask = regions.valid.to(regions.feats.dtype)
        memory = self.drop(F.relu(self.feature(regions.feats))) * mask.unsqueeze(-1)
        return memory, memory.sum(1) / mask.sum(1, keepdim=True), mask

    def start(self, memory: Tensor) -> State:
        zero = memory.new_zeros(memory.shape[0], memory.shape[2])
        return zero, zero, zero, zero

    def step(
        self, word: Tensor, memory: Tensor, mean: Tensor, mask: Tensor, state: State, keys: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """`keys`: the region projection, if it was made before the loop."""
        h1, c1, h2, c2 = state
        x = self.drop(F.relu(self.embed(word)))
        h1, c1 = self.attention_lstm(torch.cat([h2, mean, x], 1), (h1, c1))
        keys = self.project_region(memory) if keys is None else keys
        mixed = torch.tanh(keys + self.project_hidden(h1).unsqueeze(1))
        weights = F.softmax(self.weigh(mixed).squeeze(-1), dim=1) * mask
        weights = weights / weights.sum(1, keepdim=True)
        context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
        h2, c2 = self.language_lstm(torch.cat([context, h1], 1), (h2, c2))
        return F.log_softmax(self.logits(self.drop(h2)), dim=1), (h1, c1, h2, c2)

    def forward(self, regions: Regions, image_of: Tensor, inputs: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy of the real words."""
        memory, mean, mask = (x[image_of] for x in self.encode(regions))
        state, steps = self.start(memory), []
        for t in range(inputs.shape[1]):
            logp, state = self.step(inputs[:, t], memory, mean, mask, state)
            steps.append(logp)
        logp = torch.stack(steps, 1).gather(2, targets.unsqueeze(2)).squeeze(2)
        real = (targets != PAD).float()
        return -(logp * real).sum() / real.sum()

    @torch.no_grad()
    def greedy(self, regions: Regions, length: int) -> tuple[Tensor, Tensor]:
        memory, mean, mask = self.encode(regions)
        state, word = self.start(memory), torch.full((len(memory),), BOS)
        going = torch.ones_like(word, dtype=torch.bool)
        words, logps = [], []
        for _ in range(length):
            logp, state = self.step(word, memory, mean, mask, state)
            logp[:, [PAD, BOS, UNK]] = -torch.inf
            best, word = logp.max(1)
            words.append(word * going)
            logps.append(torch.where(going, best, 0.0))
            going = going & (word != EOS)
            if not going.any():
                break
        return torch.stack(words, 1), torch.stack(logps, 1)

    @torch.no_grad()
    def beam(self, regions: Regions, length: int, width: int) -> tuple[list[list[int]], list[float]]:
        memory, mean, mask = self.encode(regions)
        found = [self.beam_one(memory[i], mean[i], mask[i], length, width) for i in range(len(memory))]
        return [words for words, _ in found], [logp for _, logp in found]

    def beam_one(self, memory: Tensor, mean: Tensor, mask: Tensor, length: int, width: int) -> tuple[list[int], float]:
        memory = memory.expand(width, *memory.shape).contiguous()  # a copy of the image's regions per beam
        mean, mask = mean.expand(width, -1).contiguous(), mask.expand(width, -1).contiguous()
        state, word = self.start(memory), torch.full((width,), BOS)
        total = torch.tensor([0.0] + [-torch.inf] * (width - 1))
        words: list[list[int]] = [[] for _ in range(width)]
        done: list[tuple[float, list[int]]] = []
        for t in range(length):
            logp, state = self.step(word, memory, mean, mask, state)
            logp[:, [PAD, BOS, UNK]] = -torch.inf
            total, index = (total.unsqueeze(1) + logp).flatten().topk(width)
            parent, word = index // logp.shape[1], index % logp.shape[1]
            words = [[*words[p], w] for p, w in zip(parent.tolist(), word.tolist(), strict=True)]
            state = tuple(x[parent] for x in state)
            for i in range(width):
                if total[i] > -torch.inf and (words[i][-1] == EOS or t == length - 1):
                    done.append((float(total[i]), words[i]))
                    total[i] = -torch.inf
            if torch.isinf(total).all():
                break
        logp_best, words = max(done, key=lambda item: item[0])
        return words, logp_best
