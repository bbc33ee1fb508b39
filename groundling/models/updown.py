"""Up-Down: an attention LSTM chooses regions, a language LSTM chooses words (Anderson et al. 2018).

In the letters of Zhou et al. 2020:

    h1_t = LSTM_1([h2_{t-1}; v̄; e_{t-1}], h1_{t-1})          (10)
    v̂_t  = Σ β_{i,t} v'_i                                      (11, 12: models/layers.py)
    h2_t = LSTM_2([v̂_t; h1_t], h2_{t-1})                      (13)
    p(y_t | y_{<t}) = softmax(W_o h2_t + b_o)                  (14)

e = Dropout(ReLU(W_e y)), and h2 is dropped out before W_o, as in the code that the papers build on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from groundling.models.layers import Additive, WordLink, log_softmax, score_bias, scores
from groundling.models.packed import Packing, Unrolled, log_likelihood, log_likelihood_of_drawn
from groundling.models.products import Product
from groundling.models.recurrence import Cells, Recurrence, Weights
from groundling.tensors import Attention, Captioner, Decoding, EncodedImage, Glimpse, Regions
from groundling.types import PAD

Gates = Callable[[Tensor], Tensor]  # inputs (N, ·) -> gates (N, 4H)
AttendStep = Callable[[int, Tensor, Tensor, EncodedImage], tuple[Tensor, Tensor]]
# (t, the captions that have a t-th word (n,), their h1 (n, H), their encoded) -> context (n, H), weights (n, R)


State = tuple[Cells, Tensor]  # and (N, 4H) the part of the attention LSTM's gates that never changes: W v̄ + b


class TwoLayerLSTM(nn.Module):
    """The weights of Up-Down: an encoder, an attention, two LSTMs, and what is done with them before the first word."""

    def __init__(
        self,
        vocab_size: int,
        encoder: nn.Module,
        attend: Attention,
        hidden: int = 512,
        embed: int = 512,
        dropout: float = 0.5,
        attend_grid: Attention | None = None,
        *,
        coupled: bool = True,
        word_columns: Sequence[int] | None = None,
    ) -> None:
        """`coupled = False`: LSTM_1 gets the image and the word, not h2, as in the code of GVD (Zhou et al. 2019).

        `word_columns`: the scores of words in the image vector are added to logits, see `WordLink`; None: they are not.
        """
        super().__init__()
        self.coupled = coupled
        self.encoder, self.attend, self.attend_grid = encoder, attend, attend_grid
        self.embed = nn.Embedding(vocab_size, embed, padding_idx=PAD)
        # The weights of LSTM_1 are kept apart by input, so that what does not change is multiplied once.
        self.word_gates = nn.Linear(embed, 4 * hidden, bias=False)
        self.whole_gates = nn.Linear(hidden, 4 * hidden)
        self.attention_gates = nn.Linear(2 * hidden, 4 * hidden, bias=False)  # [h2; h1]
        self.language_gates = nn.Linear(3 * hidden, 4 * hidden)  # [v̂; h1; h2]
        self.logits = nn.Linear(hidden, vocab_size)
        self.word_link = None if word_columns is None else WordLink(word_columns, hidden)
        self.dropout = nn.Dropout(dropout)
        for layer in (self.word_gates, self.whole_gates, self.attention_gates, self.language_gates):
            for weight in layer.parameters():
                nn.init.uniform_(weight, -(hidden**-0.5), hidden**-0.5)

    def encode(self, regions: Regions) -> EncodedImage:
        memory, whole, grid = self.encoder(regions)
        return EncodedImage(
            memory=memory,
            keys=self.keys(memory),
            valid=regions.valid,
            frame=regions.frame,
            whole=whole,
            row=torch.arange(len(regions), device=memory.device),
            grid=grid,
            grid_keys=None if self.attend_grid is None or grid is None else self.attend_grid.keys(grid),
            word_scores=None if self.word_link is None else self.word_link(regions.whole),
        )

    def keys(self, memory: Tensor) -> Tensor:
        """(B, R, H) -> (B, R, A): what the attention makes of the regions once."""
        return self.attend.keys(memory)

    def word_logits(self, h2: Tensor, encoded: EncodedImage, rows: Tensor, mask_special: bool = False) -> Tensor:
        """Eq. 14 before the softmax: states h2 (M, ..., H) of the images `rows` (M,) -> logits (M, ..., V)."""
        logits = scores(self.logits, h2, mask_special)
        if self.word_link is None or encoded.word_scores is None:
            return logits
        linked = encoded.word_scores[rows]
        return self.word_link.add(logits, h2, linked.view(len(linked), *(1,) * (h2.ndim - 2), linked.shape[-1]))

    def embed_word(self, token: Tensor) -> Tensor:
        """Words (...) -> their part of the attention LSTM's gates (..., 4H)."""
        gates: Tensor = self.word_gates(self.words(token))
        return gates

    def words(self, token: Tensor) -> Tensor:
        """Words (...) -> e (..., E)."""
        e: Tensor = self.dropout(self.embed(token).relu())
        return e


class UpDown(TwoLayerLSTM):
    """A captioner made of an encoder, an attention, and optionally an attention over the feature map (`attend_grid`).

    With the latter, v̂_t + att(grid) is what the language LSTM sees (Chen et al. 2021, eq. 4).
    """

    # ---------------------------------------------------------------- one word at a time

    def start(self, encoded: EncodedImage) -> State:
        still = self.whole_gates(encoded.whole)[encoded.row]
        return initial_state(still), still

    def step(
        self, token: Tensor, encoded: EncodedImage, state: State, mask_special: bool = False
    ) -> tuple[Tensor, Glimpse, State]:
        cells, still = state
        word = self.embed_word(token) + still
        cells = attention_lstm(cells, lambda x: word + self.attention_gates(x), self.coupled)
        context, weights = self.attend_regions(cells.h1, encoded)
        cells = language_lstm(cells, context, self.language_gates)
        logits = self.word_logits(self.dropout(cells.h2), encoded, encoded.row, mask_special)
        return log_softmax(logits), Glimpse(weights), (cells, still)

    def stepper(self, encoded: EncodedImage, record: bool = False) -> tuple[Captioner, EncodedImage]:
        """What makes steps of these rows without gradients, faster, and what it wants to be given as `encoded`."""
        weights = self.recurrent(encoded)
        if weights is None or self.training:
            return self, encoded
        stepper = Stepper(self, weights, encoded, record)
        return stepper, stepper.rows

    def attend_regions(self, query: Tensor, encoded: EncodedImage) -> tuple[Tensor, Tensor]:
        """Eq. 11, and the feature map where there is one: context (N, H), weights (N, R)."""
        context, weights = self.attend(query, encoded)
        if self.attend_grid is not None:
            context = context + self.attend_grid(query, encoded.of_grid())[0]
        return context, weights

    # ---------------------------------------------------------------- teacher forcing

    def forward(
        self,
        encoded: EncodedImage,
        inputs: Tensor,
        targets: Tensor,
        sampling: float = 0.0,
        generator: torch.Generator | None = None,
        attend_step: AttendStep | None = None,
        mask_special: bool = False,
    ) -> Decoding:
        """Score `targets` (N, T), saying `inputs` (N, T) before them.

        Scheduled sampling: with probability `sampling`, a word after the first is drawn from the captioner itself
        instead of `inputs`. `attend_step` decides what is seen at each step instead of the captioner's own attention.
        `mask_special`: log p without PAD, BOS and UNK.
        """
        packing = Packing.of(targets != PAD, encoded.row, len(encoded.memory))
        if attend_step is None and not sampling and (weights := self.recurrent(encoded)):
            images, hidden, attn = self._forced(weights, encoded, packing, inputs)
        else:
            encoded = encoded.only(packing.images)
            images, hidden, attn = self._by_autograd(encoded, packing, inputs, sampling, generator, attend_step)
        logits = self.word_logits(self.dropout(hidden), encoded, images, mask_special)
        logp, guess = log_likelihood(logits, packing.pack(targets))
        return Decoding(
            tokens=targets, logp=packing.unpack(logp), attn=packing.unpack(attn), guess=packing.unpack(guess)
        )

    def recurrent(self, encoded: EncodedImage) -> Weights | None:
        """The weights of `Recurrence`, where this captioner is one and runs on a CPU in full precision."""
        attend, language = self.attend, self.language_gates
        if not isinstance(attend, Additive) or self.attend_grid is not None:
            return None
        if encoded.memory.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
            return None
        weights = (self.attention_gates.weight, language.weight, language.bias)
        return Weights(*weights, attend.of_query.weight, attend.weigh.weight)

    def _forced(
        self, weights: Weights, encoded: EncodedImage, packing: Packing, inputs: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The images (M,), h2 (M, H) and β (M, R) of all packed positions."""
        images = encoded.row[torch.cat(packing.rows)]
        base = self.whole_gates(encoded.whole).index_select(0, images) + self.embed_word(packing.pack(inputs))
        recurrence = Recurrence(weights, encoded, self.coupled, record=True)
        with torch.no_grad():
            cells = initial_state(base[: len(packing.rows[0])])
            for rows, stays, gates in zip(packing.rows, packing.stays, base.split(packing.counts), strict=True):
                fewer = len(stays) < len(cells.h1)
                if fewer:
                    cells = Cells(*(x[stays] for x in cells))
                cells, _ = recurrence(gates, encoded.row[rows], cells, stays if fewer else None)
        return images, *recurrence.recorded(weights, base, encoded)

    def _by_autograd(
        self,
        encoded: EncodedImage,
        packing: Packing,
        inputs: Tensor,
        sampling: float,
        generator: torch.Generator | None,
        attend_step: AttendStep | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The same for any attention, words and device."""
        images = encoded.row[torch.cat(packing.rows)]  # (M,)
        base = self.whole_gates(encoded.whole)[images]  # (M, 4H)
        if not sampling:
            base = base + self.embed_word(packing.pack(inputs))
        attention = Unrolled(self.attention_gates.weight, base, packing.counts)
        language = Unrolled(self.language_gates.weight, self.language_gates.bias.expand_as(base), packing.counts)
        cells = initial_state(base[: len(packing.rows[0])])
        embedded: Tensor | None = None  # when the words are not known beforehand

        def gates(x: Tensor) -> Tensor:
            return attention(x) if embedded is None else attention(x) + embedded

        hidden, attns = [], []
        for t, (rows, stays) in enumerate(zip(packing.rows, packing.stays, strict=True)):
            if len(stays) < len(cells.h1):
                cells = Cells(*(x[stays] for x in cells))
            if sampling:
                word = inputs[rows, t]
                if t:
                    word = self.scheduled_sampling(word, cells.h2, encoded[rows], sampling, generator)
                embedded = self.embed_word(word)
            cells = attention_lstm(cells, gates, self.coupled)
            here = encoded[rows]
            context, weights = (
                self.attend_regions(cells.h1, here) if attend_step is None else attend_step(t, rows, cells.h1, here)
            )
            cells = language_lstm(cells, context, language)
            hidden.append(cells.h2)
            attns.append(weights)
        return images, torch.cat(hidden), torch.cat(attns)

    @torch.no_grad()
    def scheduled_sampling(
        self,
        word: Tensor,
        h2: Tensor,
        encoded: EncodedImage,
        probability: float,
        generator: torch.Generator | None,
    ) -> Tensor:
        """Words (N,), some of them replaced by the captioner's own words after h2 (N, H)."""
        slips = torch.rand(len(word), generator=generator, device=word.device) < probability
        logits = self.word_logits(self.dropout(h2[slips]), encoded, encoded.row[slips])
        own = logits.float().softmax(-1).multinomial(1, generator=generator)
        return word.index_put((slips,), own.squeeze(1))


class Stepper:
    """Up-Down without gradients and dropout, one word at a time, on the weights as they are now. A `Captioner`.

    Its state are the cells, W v̄ + b, the image of each row, and which row of the last step it is: decoding drops and
    repeats rows of a state, so the next step finds where its rows come from. With `record` the words that are drawn
    can be learned from afterwards (`log_likelihood`).
    """

    def __init__(self, model: UpDown, weights: Weights, encoded: EncodedImage, record: bool) -> None:
        self.model, self.weights, self.encoded, self.record = model, weights, encoded, record
        self.rows = replace(encoded, memory=encoded.memory[:, :0], keys=encoded.keys[:, :0], word_scores=None)
        self.tokens: list[Tensor] = []  # recorded: what each step was given, and the log-probabilities that it gave
        self.logps: list[Tensor] = []
        with torch.no_grad():
            self._recurrence = Recurrence(weights, encoded, model.coupled, record)
            self._words, self._logits = Product(model.word_gates.weight), Product(model.logits.weight)

    def encode(self, regions: Regions) -> EncodedImage:
        return self.model.encode(regions)

    def start(self, encoded: EncodedImage) -> tuple[Cells, Tensor, Tensor, Tensor]:
        still = self.model.whole_gates(self.encoded.whole)[self.encoded.row]
        return initial_state(still), still, self.encoded.row, torch.arange(len(still))

    def step(
        self,
        token: Tensor,
        encoded: EncodedImage,
        state: tuple[Cells, Tensor, Tensor, Tensor],
        mask_special: bool = False,
    ) -> tuple[Tensor, Glimpse, tuple[Cells, Tensor, Tensor, Tensor]]:
        cells, still, image, parent = state
        cells, attn = self._recurrence(self._words(self.model.words(token)).add_(still), image, cells, parent)
        logits = self._logits(cells.h2, score_bias(self.model.logits, mask_special))
        if self.model.word_link is not None and self.encoded.word_scores is not None:
            logits = self.model.word_link.add(logits, cells.h2, self.encoded.word_scores[image])
        logp = log_softmax(logits)
        if self.record:
            self.tokens.append(token)
            self.logps.append(logp)
        return logp, Glimpse(attn), (cells, still, image, torch.arange(len(token)))

    def log_likelihood(self, words: Tensor) -> Tensor:
        """(N, T): log p of the captions (N, T) whose words it was given, with gradients; 0 after their end.

        All were drawn with `mask_special`. At the first step there was one row for each image, at later ones the first
        rows were the captions that had not ended.
        """
        real, model, run = words != PAD, self.model, self._recurrence
        counts = [len(self.logps[0]), *(n for n in real[:, 1:].sum(0).tolist() if n)]
        run.keep(counts)
        images = torch.cat([step.here.row for step in run.steps])
        tokens, logp = (
            torch.cat([x[:n] for x, n in zip(every, counts, strict=False)]) for every in (self.tokens, self.logps)
        )
        different, which = tokens.unique(return_inverse=True)  # type: ignore[no-untyped-call]
        base = model.whole_gates(self.encoded.whole).index_select(0, images)
        base = base + model.embed_word(different).index_select(0, which)
        hidden, _ = run.recorded(self.weights, base, self.encoded)
        begin = torch.arange(len(words)) // (len(words) // counts[0])  # all captions of an image begin with one row
        position = torch.cat([begin[real[:, 0]], torch.arange(counts[0], len(hidden))])
        where = real.t().flatten().nonzero().squeeze(1)  # one step after the other, as the rows are
        target = words.t().flatten()[where]
        if model.word_link is None:
            bias = score_bias(model.logits, mask_special=True)
            found = log_likelihood_of_drawn(hidden, model.logits.weight, bias, logp, position, target)
        else:
            rows = images[position]
            logits = model.word_logits(hidden.index_select(0, position), self.encoded, rows, mask_special=True)
            found, _ = log_likelihood(logits, target)
        return found.new_zeros(real.numel()).index_copy(0, where, found).view(real.t().shape).t()


def initial_state(gates: Tensor) -> Cells:
    """The state before any word, for as many rows as `gates` (N, 4H) has."""
    zero = gates.new_zeros(len(gates), gates.shape[1] // 4)
    return Cells(zero, zero, zero, zero)


def attention_lstm(cells: Cells, gates: Gates, coupled: bool = True) -> Cells:
    """Eq. 10. `gates` is a function of [h2; h1]; unless `coupled` h2 is 0 there (eq. 1 of Chen et al. 2021)."""
    h2 = cells.h2 if coupled else torch.zeros_like(cells.h2)
    h1, c1 = cell(gates(torch.cat([h2, cells.h1], 1)), cells.c1)
    return cells._replace(h1=h1, c1=c1)


def language_lstm(cells: Cells, context: Tensor, gates: Gates) -> Cells:
    """Eq. 13, whatever the context (N, H) was made of. `gates` is a function of [v̂; h1; h2]."""
    h2, c2 = cell(gates(torch.cat([context, cells.h1, cells.h2], 1)), cells.c2)
    return cells._replace(h2=h2, c2=c2)


def cell(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """The LSTM after its gates: (N, 4H), (N, H) -> h, c."""
    i, f, g, o = gates.chunk(4, 1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c
