"""The Up-Down captioner: step by step equals all at once, alone equals in a batch, and it learns where to look."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tiny import DIM, HIDDEN, VOCAB, regions, updown
from torch import Tensor

from groundling import decoding
from groundling.models.layers import Additive, GroundingAware, Plain
from groundling.models.packed import Packing, Unrolled, log_likelihood
from groundling.models.updown import UpDown, cell
from groundling.tensors import Decoding, EncodedImage, Regions
from groundling.types import BOS, EOS, PAD

TOKENS = torch.tensor(  # captions of different lengths; three of the first image, one of the second, one of the third
    [
        [BOS, 4, 5, EOS, PAD, PAD],
        [BOS, 6, 7, 8, 9, EOS],
        [BOS, 9, EOS, PAD, PAD, PAD],
        [BOS, 4, 9, 10, EOS, PAD],
        [BOS, 5, 5, 5, EOS, PAD],
    ]
)
IMAGE_OF = torch.tensor([0, 0, 0, 1, 2])


def step_by_step(model: UpDown, encoded: EncodedImage, inputs: Tensor, targets: Tensor) -> Decoding:
    """What `forward` must equal: a plain loop over `step`."""
    state, logps, attns = model.start(encoded), [], []
    for t in range(inputs.shape[1]):
        logp, glimpse, state = model.step(inputs[:, t], encoded, state)
        logps.append(logp)
        attns.append(glimpse.attn)
    logp, attn, real = torch.stack(logps, 1), torch.stack(attns, 1), targets != PAD
    return Decoding(
        targets,
        logp.gather(2, targets[..., None]).squeeze(2) * real,
        attn * real[..., None],
        logp.argmax(2) * real,
    )


def assert_same(a: Decoding, b: Decoding) -> None:
    assert torch.equal(a.tokens, b.tokens) and torch.equal(a.guess, b.guess)
    torch.testing.assert_close((a.logp, a.attn), (b.logp, b.attn))


def grad(model: UpDown, loss: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    loss.backward()
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def test_the_cell_is_an_lstm() -> None:
    lstm = torch.nn.LSTMCell(3, 4)
    x, h, c = torch.randn(2, 3), torch.randn(2, 4), torch.randn(2, 4)
    gates = x @ lstm.weight_ih.T + lstm.bias_ih + h @ lstm.weight_hh.T + lstm.bias_hh
    torch.testing.assert_close(cell(gates, c), lstm(x, (h, c)))


def test_it_computes_equations_9_to_14() -> None:
    """Written out with two LSTM cells for one image; W_1 = [h2; v̄; e | h1], W_2 = [v̂; h1 | h2]."""
    model, seen, words = updown(), regions(4), [BOS, 4, 5]
    attention, language = (torch.nn.LSTMCell(i, HIDDEN).double() for i in (2 * HIDDEN + 4, 2 * HIDDEN))
    first, second, h = model.attention_gates.weight, model.language_gates.weight, HIDDEN
    weights = {
        attention.weight_ih: torch.cat([first[:, :h], model.whole_gates.weight, model.word_gates.weight], 1),
        attention.weight_hh: first[:, h:],
        attention.bias_ih: model.whole_gates.bias,
        language.weight_ih: second[:, : 2 * h],
        language.weight_hh: second[:, 2 * h :],
        language.bias_ih: model.language_gates.bias,
    }
    with torch.no_grad():
        attention.bias_hh.zero_()
        language.bias_hh.zero_()
        for mine, theirs in weights.items():
            mine.copy_(theirs)

    v = model.encoder.embed[0](seen.feats[0]).relu()  # (9), (R, H)
    h1 = c1 = h2 = c2 = torch.zeros(1, HIDDEN, dtype=torch.float64)
    attend, logps, attns = model.attend, [], []
    for word in words:
        e = model.embed.weight[word].relu()[None]
        h1, c1 = attention(torch.cat([h2, v.mean(0)[None], e], 1), (h1, c1))  # (10)
        z = (attend.of_memory(v) + attend.of_query(h1)).tanh() @ attend.weigh.weight[0]  # (12)
        beta = z.softmax(0)
        h2, c2 = language(torch.cat([(beta @ v)[None], h1], 1), (h2, c2))  # (11), (13)
        logps.append(model.logits(h2).log_softmax(1))  # (14)
        attns.append(beta)

    encoded = model.encode(seen)
    state = model.start(encoded)
    for word, logp, attn in zip(words, logps, attns, strict=True):
        decoded, glimpse, state = model.step(torch.tensor([word]), encoded, state)
        torch.testing.assert_close((decoded, glimpse.attn[0]), (logp, attn))


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 1, 0, 3, 2]], ids=["grouped", "mixed"])
def test_forward_equals_step_by_step_in_values_and_gradients(order: list[int]) -> None:
    model, seen = updown(), regions(4, 2, 3)
    tokens, image_of = TOKENS[order], IMAGE_OF[order]

    def loss(decoded: Decoding) -> Tensor:
        return decoded.logp.sum() + (decoded.attn**2).sum()

    packed = model(model.encode(seen)[image_of], tokens[:, :-1], tokens[:, 1:])
    plain = step_by_step(model, model.encode(seen)[image_of], tokens[:, :-1], tokens[:, 1:])
    assert_same(packed, plain)
    torch.testing.assert_close(grad(model, loss(packed)), grad(model, loss(plain)))


def test_gradients_against_finite_differences() -> None:
    model, seen = updown(gain=1.0), regions(2, 3)
    tokens = TOKENS[[0, 1]]

    def loss(*weights: Tensor) -> tuple[Tensor, Tensor]:
        named = dict(zip(dict(model.named_parameters()), weights, strict=True))
        encoded = torch.func.functional_call(_Encode(model), {f"model.{k}": v for k, v in named.items()}, (seen,))
        decoded = torch.func.functional_call(model, named, (encoded, tokens[:, :-1], tokens[:, 1:]))
        return decoded.logp.sum(), decoded.attn

    weights = tuple(p.detach().clone().requires_grad_() for p in model.parameters())
    assert torch.autograd.gradcheck(loss, weights, fast_mode=True)


class _Encode(torch.nn.Module):
    def __init__(self, model: UpDown) -> None:
        super().__init__()
        self.model = model

    def forward(self, seen: Regions) -> EncodedImage:
        return self.model.encode(seen)


def test_padding_regions_and_captions_changes_nothing() -> None:
    model = updown()
    alone = model(model.encode(regions(3)), TOKENS[:1, :3], TOKENS[:1, 1:4])
    longer = model(model.encode(regions(3, 6))[:1], TOKENS[:1, :-1], TOKENS[:1, 1:])
    torch.testing.assert_close(longer.logp[:, :3], alone.logp)
    torch.testing.assert_close(longer.attn[:, :3, :3], alone.attn)
    assert longer.logp[:, 3:].abs().sum() == 0 and longer.attn[:, :, 3:].abs().sum() == 0


def test_permuting_regions_permutes_the_attention() -> None:
    model, seen, order = updown(), regions(4), torch.tensor([2, 0, 3, 1])
    shuffled = replace(seen, feats=seen.feats[:, order], boxes=seen.boxes[:, order])
    one = model(model.encode(seen), TOKENS[:1, :-1], TOKENS[:1, 1:])
    other = model(model.encode(shuffled), TOKENS[:1, :-1], TOKENS[:1, 1:])
    torch.testing.assert_close(other.attn, one.attn[..., order])
    torch.testing.assert_close(other.logp, one.logp)


def test_one_item_equals_its_row_in_a_batch() -> None:
    model, seen = updown(), regions(4, 2, 3)
    batch = model(model.encode(seen)[IMAGE_OF], TOKENS[:, :-1], TOKENS[:, 1:])
    for n, image in enumerate(IMAGE_OF.tolist()):
        alone = model(model.encode(seen[image : image + 1]), TOKENS[n : n + 1, :-1], TOKENS[n : n + 1, 1:])
        torch.testing.assert_close((alone.logp[0], alone.attn[0]), (batch.logp[n], batch.attn[n]))


def test_an_image_without_regions_can_be_described() -> None:
    model, seen = updown(), regions(0, 3)
    decoded = model(model.encode(seen), TOKENS[:2, :-1], TOKENS[:2, 1:])
    decoded.logp.sum().backward()
    assert decoded.logp.isfinite().all() and decoded.attn[0].abs().sum() == 0
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    assert decoding.greedy(model, model.encode(seen), 5).picks[0].sum() == 0


def test_the_feature_map_is_attended_beside_the_regions() -> None:
    torch.manual_seed(0)
    encoder = GroundingAware(DIM, classes=3, hidden=HIDDEN, location=2, grid=4)
    model = UpDown(VOCAB, encoder, Additive(HIDDEN, 6), HIDDEN, 4, attend_grid=Additive(HIDDEN, 6)).double().eval()
    grid = torch.randn(2, 9, 4, dtype=torch.float64)
    seen = replace(regions(3, 2), grid=grid)
    inputs, targets = TOKENS[:2, :-1], TOKENS[:2, 1:]
    decoded = model(model.encode(seen), inputs, targets)
    assert_same(decoded, step_by_step(model, model.encode(seen), inputs, targets))
    assert decoded.attn.shape == (2, 5, 3)
    other = model(model.encode(replace(seen, grid=-grid)), inputs, targets)
    assert not torch.allclose(other.logp, decoded.logp)


def test_a_captioner_that_wants_a_feature_map_says_so() -> None:
    model = UpDown(VOCAB, Plain(DIM, HIDDEN), Additive(HIDDEN, 6), HIDDEN, 4, attend_grid=Additive(HIDDEN, 6)).double()
    with pytest.raises(ValueError, match=r"regions\.grid"):
        decoding.greedy(model, model.encode(regions(2)), 3)


def test_captions_of_padding_only_are_refused() -> None:
    model = updown()
    nothing = torch.zeros(1, 3, dtype=torch.int64)
    with pytest.raises(ValueError, match="no word to score"):
        model(model.encode(regions(2)), nothing, nothing)


def test_half_precision_keeps_probabilities_in_full() -> None:
    model, seen = updown(gain=2).float(), regions(4, 2, 3)
    seen = replace(seen, feats=seen.feats.float())
    inputs, targets = TOKENS[[0, 1, 3], :-1], TOKENS[[0, 1, 3], 1:]
    full = model(model.encode(seen), inputs, targets)
    with torch.autocast("cpu", torch.bfloat16):
        half = model(model.encode(seen), inputs, targets)
        decoded = [decoding.greedy(model, model.encode(seen), 5), decoding.beam(model, model.encode(seen), 5)]
    half.logp.sum().backward()
    assert all(x.dtype == torch.float32 for d in (half, *decoded) for x in (d.logp, d.attn))
    torch.testing.assert_close(half.logp, full.logp, atol=0.02, rtol=0.02)
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in model.parameters())


# ---------------------------------------------------------------- scheduled sampling


def test_scheduled_sampling_with_probability_zero_is_teacher_forcing_and_with_one_ignores_the_inputs() -> None:
    model, seen = updown(), regions(4, 2, 3)
    encoded, inputs, targets = model.encode(seen)[IMAGE_OF], TOKENS[:, :-1], TOKENS[:, 1:]
    nonsense = inputs.clone()
    nonsense[:, 1:] = 10

    def run(words: Tensor, probability: float) -> Decoding:
        return model(encoded, words, targets, sampling=probability, generator=torch.Generator().manual_seed(3))

    assert_same(run(inputs, 1e-12), model(encoded, inputs, targets))
    assert_same(run(inputs, 1.0), run(nonsense, 1.0))
    assert not torch.allclose(run(inputs, 1.0).logp, run(inputs, 1e-12).logp)


def test_scheduled_sampling_replaces_the_given_share_of_words() -> None:
    torch.manual_seed(0)
    model = updown(gain=0.01)  # near uniform over 11 words: a replaced word differs with probability 10/11
    word = torch.full((20000,), 4)
    encoded, h2 = model.encode(regions(4))[torch.zeros_like(word)], torch.zeros(20000, HIDDEN).double()
    replaced = model.scheduled_sampling(word, h2, encoded, 0.3, torch.Generator().manual_seed(0))
    assert float((replaced != word).double().mean()) == pytest.approx(0.3 * 10 / 11, abs=0.01)


# ---------------------------------------------------------------- packing


def test_packing_keeps_every_real_position_once() -> None:
    real = TOKENS[:, 1:] != PAD
    packing = Packing.of(real, IMAGE_OF, 3)
    assert sorted(packing.where.tolist()) == real.flatten().nonzero().squeeze(1).tolist()
    assert torch.equal(packing.unpack(packing.pack(TOKENS[:, 1:])), TOKENS[:, 1:])
    assert packing.images.tolist() == [0, 1, 2]
    assert packing.rows[0].tolist() == [1, 0, 2, 3, 4] and packing.rows[4].tolist() == [1]


def test_an_unrolled_layer_has_the_gradients_of_a_layer_called_at_every_step() -> None:
    weight = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    base = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    x = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)

    def unrolled(weight: Tensor, base: Tensor, x: Tensor) -> Tensor:
        layer = Unrolled(weight, base, [3, 2])
        first = layer(x).tanh()
        return layer(torch.cat([first, first[:, :1]], 1)[:2])

    assert torch.autograd.gradcheck(unrolled, (weight, base, x))


def test_log_likelihood_is_log_softmax_at_the_target() -> None:
    logits = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    target = torch.tensor([0, 5, 2, 2])
    logp, guess = log_likelihood(logits, target)
    torch.testing.assert_close(logp, logits.log_softmax(1)[torch.arange(4), target])
    assert torch.equal(guess, logits.argmax(1))
    assert torch.autograd.gradcheck(lambda z: log_likelihood(z, target)[0], (logits,))


# ---------------------------------------------------------------- learning


def test_it_overfits_four_images_and_looks_at_the_planted_regions() -> None:
    """Image k: region k shows thing k, the others noise. The caption is `a thing-k`; its noun must look at region k."""
    torch.manual_seed(0)
    things = torch.eye(4) * 4
    feats = torch.cat([torch.randn(4, 4, 4) * 0.3, torch.zeros(4, 4, 1)], 2)
    for k in range(4):
        feats[k, k, :4] = things[k]
        feats[k, k, 4] = 2
    seen = Regions.stack([Regions.of(f, torch.rand(4, 4), (1, 1)) for f in feats])
    tokens = torch.tensor([[BOS, 4, 5 + k, EOS] for k in range(4)])
    model = UpDown(9, Plain(5, 24, dropout=0), Additive(24, 24), hidden=24, embed=8, dropout=0)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(150):
        decoded = model(model.encode(seen), tokens[:, :-1], tokens[:, 1:])
        optimizer.zero_grad()
        (-decoded.logp.mean()).backward()
        optimizer.step()
    decoded = decoding.greedy(model, model.encode(seen), 5)
    assert decoded.tokens.tolist() == tokens[:, 1:].tolist()
    assert decoded.logp.exp().min() > 0.9
    assert decoded.attn[:, 1].argmax(1).tolist() == [0, 1, 2, 3]
