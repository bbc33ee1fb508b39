"""Neuraltalk2 and AdaptiveAttention: their equations, step by step equals all at once, alone equals in a batch."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tiny import DIM, regions
from torch import Tensor, nn

from groundling import decoding
from groundling.inference import links
from groundling.models.adaptive import AdaptiveAttention, SentinelAttention
from groundling.models.neuraltalk import Neuraltalk2
from groundling.tensors import Decoding, EncodedImage, Regions
from groundling.types import BOS, EOS, PAD

HIDDEN, VOCAB = 7, 11
Model = Neuraltalk2 | AdaptiveAttention
TOKENS = torch.tensor(
    [
        [BOS, 4, 5, EOS, PAD, PAD],
        [BOS, 6, 7, 8, 9, EOS],
        [BOS, 9, EOS, PAD, PAD, PAD],
        [BOS, 4, 9, 10, EOS, PAD],
    ]
)
IMAGE_OF = torch.tensor([0, 0, 1, 2])


def neuraltalk() -> Neuraltalk2:
    return Neuraltalk2(VOCAB, DIM, hidden=HIDDEN, embed=4)


def adaptive() -> AdaptiveAttention:
    return AdaptiveAttention(VOCAB, DIM, SentinelAttention(HIDDEN, 6), hidden=HIDDEN, embed=4)


@pytest.fixture(params=[neuraltalk, adaptive], ids=["neuraltalk2", "adaptive"])
def model(request: pytest.FixtureRequest) -> Model:
    return large(request.param)


def large(make: object) -> Model:
    """Float64, in eval mode, with weights large enough that words and attention vary."""
    torch.manual_seed(0)
    made: Model = make().double().eval()  # type: ignore[operator]
    with torch.no_grad():
        for weight in made.parameters():
            weight.mul_(3)
    return made


def step_by_step(model: Model, encoded: EncodedImage, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    state, logps, attns = model.start(encoded), [], []
    for t in range(inputs.shape[1]):
        logp, glimpse, state = model.step(inputs[:, t], encoded, state)  # type: ignore[arg-type]
        logps.append(logp)
        attns.append(glimpse.attn)
    real = targets != PAD
    decoded = torch.stack(logps, 1).gather(2, targets[..., None]).squeeze(2)
    return decoded * real, torch.stack(attns, 1) * real[..., None]


def forced(model: Model, seen: Regions, tokens: Tensor = TOKENS, image_of: Tensor = IMAGE_OF) -> Decoding:
    decoded: Decoding = model(model.encode(seen)[image_of], tokens[:, :-1], tokens[:, 1:])
    return decoded


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 1, 0, 2]], ids=["grouped", "mixed"])
def test_forward_equals_step_by_step_in_values_and_gradients(model: Model, order: list[int]) -> None:
    seen, tokens, image_of = regions(4, 2, 3), TOKENS[order], IMAGE_OF[order]

    def grads(logp: Tensor, attn: Tensor) -> dict[str, Tensor]:
        model.zero_grad()
        (logp.sum() + (attn**2).sum()).backward()
        return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}

    decoded = forced(model, seen, tokens, image_of)
    plain = step_by_step(model, model.encode(seen)[image_of], tokens[:, :-1], tokens[:, 1:])
    torch.testing.assert_close((decoded.logp, decoded.attn), plain)
    torch.testing.assert_close(grads(decoded.logp, decoded.attn), grads(*plain))


def test_one_image_equals_its_row_in_a_batch_and_padding_changes_nothing(model: Model) -> None:
    seen = regions(4, 2, 3)
    alone = forced(model, seen[torch.tensor([1])].first(2), TOKENS[[2]], torch.tensor([0]))
    batch = forced(model, seen)
    torch.testing.assert_close(alone.logp[0], batch.logp[2])
    torch.testing.assert_close(alone.attn[0], batch.attn[2, :, :2])
    assert not batch.attn[2, :, 2:].any()


def test_permuting_regions_permutes_what_is_looked_at(model: Model) -> None:
    seen, order = regions(4), torch.tensor([2, 0, 3, 1])
    turned = replace(seen, feats=seen.feats[:, order], boxes=seen.boxes[:, order])
    decoded, other = (forced(model, s, TOKENS[:2], IMAGE_OF[:2]) for s in (seen, turned))
    torch.testing.assert_close(decoded.logp, other.logp)
    torch.testing.assert_close(decoded.attn[..., order], other.attn)


def test_an_image_without_regions_can_be_described(model: Model) -> None:
    seen = regions(3, 3)
    empty = replace(seen, feats=torch.zeros_like(seen.feats), valid=torch.zeros_like(seen.valid))
    assert forced(model, empty, TOKENS[:2], torch.tensor([0, 1])).logp.isfinite().all()


def test_a_captioner_without_attention_places_no_word() -> None:
    """What it looked at sums to 0, not to 1: no word gets a box, in generated captions as in given ones."""
    model, seen = large(neuraltalk), regions(3, 2)
    decoded = decoding.greedy(model, model.encode(seen), 6)
    assert not decoded.attn.any() and decoded.picks is not None and not decoded.picks.any()
    assert links.boxes_of(decoded, seen)[0].isnan().all()
    assert (
        links.boxes_of(forced(model, seen[torch.tensor([0])], TOKENS[:1], IMAGE_OF[:1]), seen[torch.tensor([0])])[0]
        .isnan()
        .all()
    )


def test_neuraltalk2_takes_the_image_then_the_words() -> None:
    """With torch's LSTM cell: x_{-1} = W_I v, then the words."""
    model, seen = large(neuraltalk), regions(4)
    lstm = nn.LSTMCell(4, HIDDEN).double()
    with torch.no_grad():
        lstm.weight_ih.copy_(model.word_gates.weight)
        lstm.weight_hh.copy_(model.hidden_gates.weight)
        lstm.bias_ih.copy_(model.word_gates.bias)
        lstm.bias_hh.zero_()
    h, c = lstm(model.image(seen.feats[0].mean(0, keepdim=True)))
    wanted = []
    for word, following in ((BOS, 4), (4, 5), (5, EOS)):
        h, c = lstm(model.embed.weight[[word]], (h, c))
        wanted.append(model.logits(h).log_softmax(1)[0, following])
    decoded = forced(model, seen, TOKENS[:1], IMAGE_OF[:1])
    torch.testing.assert_close(decoded.logp[0, :3], torch.stack(wanted))


def test_adaptive_attention_computes_its_equations() -> None:
    """One image, one word: the sentinel by eq. 9 and 10, α̂ of eq. 12 as one softmax over regions and sentinel."""
    model, seen = large(adaptive), regions(4)
    attend, h5 = model.attend, 5 * HIDDEN
    v = model.region[0](seen.feats[0]).relu()
    vg = model.image[0](seen.feats[0].mean(0, keepdim=True)).relu()
    gates = model.word_gates(model.embed.weight[[BOS]].relu()) + model.whole_gates(vg)
    assert gates.shape == (1, h5)
    i, f, g, o, sentinel = gates.chunk(5, 1)
    m = i.sigmoid() * g.tanh()
    h = o.sigmoid() * m.tanh()
    s = sentinel.sigmoid() * m.tanh()
    z = (attend.of_memory(v) + attend.of_query(h)).tanh() @ attend.weigh.weight[0]
    zs = (attend.of_sentinel(s) + attend.of_query(h)).tanh() @ attend.weigh.weight[0]
    hat = torch.cat([z, zs]).softmax(0)
    adapted = hat[-1] * s + (hat[:-1] @ v)[None]  # (1 − β) c = Σ α̂_i v_i
    encoded = model.encode(seen)
    logp, glimpse, _ = model.step(torch.tensor([BOS]), encoded, model.start(encoded))
    torch.testing.assert_close(logp, model.logits(adapted + h).log_softmax(1))
    torch.testing.assert_close(glimpse.attn[0], hat[:-1] / (1 - hat[-1]))
    assert 0 < hat[-1] < 1


def test_where_adaptive_attention_looks_sums_to_one_whatever_the_sentinel_says() -> None:
    decoded = forced(large(adaptive), regions(4, 2, 3))
    torch.testing.assert_close(decoded.attn.sum(-1), (TOKENS[:, 1:] != PAD).double())


def test_an_image_vector_is_used_where_there_is_one_and_missed_where_not() -> None:
    torch.manual_seed(0)
    model = Neuraltalk2(VOCAB, DIM, whole=3, hidden=HIDDEN, embed=4).double().eval()
    seen = replace(regions(2, 2), whole=torch.randn(2, 3, dtype=torch.float64))
    other = replace(seen, feats=torch.randn_like(seen.feats))
    torch.testing.assert_close(model.encode(seen).whole, model.encode(other).whole)
    with pytest.raises(ValueError, match="expects an image vector"):
        model.encode(regions(2))
