"""Up-Down: an attention LSTM decides where to look, a language LSTM what to say (Anderson et al. 2018).

In the letters of Zhou et al. 2020:

    h1_t = LSTM_1([h2_{t-1}; v̄; e_{t-1}], h1_{t-1})          (10)
    v̂_t  = Σ β_{i,t} v'_i                                      (11, 12: models/attention.py)
    h2_t = LSTM_2([v̂_t; h1_t], h2_{t-1})                      (13)
    p(y_t | y_{<t}) = softmax(W_o h2_t + b_o)                  (14)

e = Dropout(ReLU(W_e y)), and h2 is dropped out before W_o, as in the code that the papers build on.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from groundling.tensors import Attention, Decoding, Glimpse, Regions, Scene
from groundling.types import PAD


class State(NamedTuple):
    """Both LSTMs, and the part of the attention LSTM's gates that is the same at every step."""

    h1: Tensor  # (N, H)
    c1: Tensor
    h2: Tensor
    c2: Tensor
    still: Tensor  # (N, 4H), W v̄ + b


class UpDown(nn.Module):
    """A captioner made of an encoder, an attention, and optionally an attention over the feature map (`attend_grid`).

    With the latter, v̂_t + att(grid) is what the language LSTM sees (Chen et al. 2021, eq. 4).
    """

    def __init__(
        self,
        vocab_size: int,
        encoder: nn.Module,
        attend: Attention,
        hidden: int = 512,
        embed: int = 512,
        dropout: float = 0.5,
        attend_grid: Attention | None = None,
    ) -> None:
        super().__init__()
        self.encoder, self.attend, self.attend_grid = encoder, attend, attend_grid
        self.embed = nn.Embedding(vocab_size, embed, padding_idx=PAD)
        # The weights of LSTM_1 are kept apart by input, so that what does not change is multiplied once.
        self.word_gates = nn.Linear(embed, 4 * hidden, bias=False)
        self.whole_gates = nn.Linear(hidden, 4 * hidden)
        self.attention_gates = nn.Linear(2 * hidden, 4 * hidden, bias=False)  # [h2; h1]
        self.language_gates = nn.Linear(3 * hidden, 4 * hidden)  # [v̂; h1; h2]
        self.logits = nn.Linear(hidden, vocab_size)
        self.dropout = nn.Dropout(dropout)
        for layer in (self.word_gates, self.whole_gates, self.attention_gates, self.language_gates):
            for weight in layer.parameters():
                nn.init.uniform_(weight, -(hidden**-0.5), hidden**-0.5)

    # ---------------------------------------------------------------- one word at a time

    def encode(self, regions: Regions) -> Scene:
        memory, whole, grid = self.encoder(regions)
        return Scene(
            memory=memory,
            keys=self.attend.keys(memory),
            valid=regions.valid,
            frame=regions.frame,
            whole=whole,
            row=torch.arange(len(regions), device=memory.device),
            grid=grid,
            grid_keys=None if self.attend_grid is None or grid is None else self.attend_grid.keys(grid),
        )

    def start(self, scene: Scene) -> State:
        still = self.whole_gates(scene.whole)[scene.row]
        zero = still.new_zeros(len(scene), still.shape[1] // 4)
        return State(zero, zero, zero, zero, still)

    def step(self, token: Tensor, scene: Scene, state: State) -> tuple[Tensor, Glimpse, State]:
        state = self.listen(self.hear(token) + state.still, state)
        context, weights = self.look(state.h1, scene)
        state = self.speak(context, state)
        return self.logits(self.dropout(state.h2)).log_softmax(-1), Glimpse(weights), state

    def hear(self, token: Tensor) -> Tensor:
        """Words (...) -> their part of the attention LSTM's gates (..., 4H)."""
        gates: Tensor = self.word_gates(self.dropout(self.embed(token).relu()))
        return gates

    def listen(self, heard: Tensor, state: State) -> State:
        """Eq. 10, given the gates of word and image."""
        gates = heard + self.attention_gates(torch.cat([state.h2, state.h1], 1))
        h1, c1 = cell(gates, state.c1)
        return state._replace(h1=h1, c1=c1)

    def look(self, query: Tensor, scene: Scene) -> tuple[Tensor, Tensor]:
        """Eq. 11, and the feature map where there is one."""
        context, weights = self.attend(query, scene)
        if self.attend_grid is not None:
            context = context + self.attend_grid(query, scene.of_grid())[0]
        return context, weights

    def speak(self, context: Tensor, state: State) -> State:
        """Eq. 13. `context` may come from elsewhere: another attention, regions that a localizer found."""
        gates = self.language_gates(torch.cat([context, state.h1, state.h2], 1))
        h2, c2 = cell(gates, state.c2)
        return state._replace(h2=h2, c2=c2)

    # ---------------------------------------------------------------- teacher forcing

    def forward(
        self,
        scene: Scene,
        inputs: Tensor,
        targets: Tensor,
        sampling: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> Decoding:
        """Score `targets` (N, T), saying `inputs` (N, T) before them.

        Scheduled sampling: with probability `sampling`, a word after the first is drawn from the captioner itself
        instead of `inputs`.
        """
        state = self.start(scene)
        logps: list[Tensor] = []
        attns: list[Tensor] = []
        token = inputs[:, 0]
        for t in range(inputs.shape[1]):
            if t:
                token = inputs[:, t]
                if sampling:
                    chance = torch.rand(len(token), generator=generator, device=token.device) < sampling
                    drawn = logps[-1].detach().exp().multinomial(1, generator=generator).squeeze(1)
                    token = torch.where(chance, drawn, token)
            logp, glimpse, state = self.step(token, scene, state)
            logps.append(logp)
            attns.append(glimpse.attn)
        logp, attn, real = torch.stack(logps, 1), torch.stack(attns, 1), targets != PAD
        return Decoding(
            tokens=targets,
            logp=logp.gather(2, targets[..., None]).squeeze(2).masked_fill(~real, 0),
            attn=attn * real[..., None],
            guess=logp.argmax(2).masked_fill(~real, PAD),
        )


def cell(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """The LSTM after its gates: (N, 4H), (N, H) -> h, c."""
    i, f, g, o = gates.chunk(4, 1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c
