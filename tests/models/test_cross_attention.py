"""Stacked cross attention: the equations by hand, and two formulations that are one."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from groundling.models import cross_attention
from groundling.models.cross_attention import attention, score, score_all, score_pairs

TAU = 9.0


def made(
    images: int = 4, captions: int = 5, r: int = 6, t: int = 7, h: int = 8, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """v, e of unit length in float64, captions of 1 to t words, some of which count."""
    g = torch.Generator().manual_seed(seed)
    v = F.normalize(torch.randn(images, r, h, generator=g, dtype=torch.float64), dim=-1)
    e = F.normalize(torch.randn(captions, t, h, generator=g, dtype=torch.float64), dim=-1)
    real = torch.arange(t) < 1 + torch.arange(captions)[:, None] % t
    counts = real & (torch.rand(captions, t, generator=g) < 0.7)
    counts[:, 0] = True
    return v, e * counts[..., None], counts


def plainly(v: Tensor, e: Tensor) -> Tensor:
    """S of one image (R, H) and one caption (T, H), as the equations have it."""
    s = [[float(region @ word) for word in e] for region in v]
    norms = [math.sqrt(sum(max(x, 0) ** 2 for x in row)) for row in s]
    found = []
    for t, word in enumerate(e):
        z = [TAU * max(row[t], 0) / norm if norm else 0.0 for row, norm in zip(s, norms, strict=True)]
        total = sum(map(math.exp, z))
        a = sum((math.exp(x) / total) * region for x, region in zip(z, v, strict=True))
        assert isinstance(a, Tensor)
        found.append(float(word @ a / a.norm()))
    return torch.tensor(found, dtype=torch.float64).mean()


def test_two_regions_and_one_word_by_hand() -> None:
    """e = v_1, v_2 orthogonal: s = (1, 0), s̄ = (1, 0), α ∝ (exp 9, 1), and R = exp 9 / sqrt(exp 18 + 1)."""
    v, e = torch.eye(2, dtype=torch.float64)[None], torch.tensor([[[1.0, 0.0]]], dtype=torch.float64)
    all_ = torch.ones(1, 2, dtype=torch.bool)
    alpha = attention(v, e, all_, TAU)
    assert alpha.tolist() == [[pytest.approx([math.exp(9) / (math.exp(9) + 1), 1 / (math.exp(9) + 1)])]]
    hand = math.exp(9) / math.sqrt(math.exp(18) + 1)
    assert float(score(v, e, all_[:, :1], TAU)) == pytest.approx(hand)
    assert float(score_all(v, e, all_[:, :1], TAU)) == pytest.approx(hand)


def test_similarities_are_shared_out_over_the_words_of_a_caption() -> None:
    """Two equal words: s̄ = 1/√2 each, so that both look less sharply than one would alone."""
    v, e = torch.eye(2)[None], torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])
    alpha = attention(v, e, torch.ones(1, 2, dtype=torch.bool), TAU)
    sure = math.exp(TAU / math.sqrt(2))
    assert alpha[0, 0].tolist() == pytest.approx([sure / (sure + 1), 1 / (sure + 1)])


def test_all_pairs_and_given_pairs_are_the_equations() -> None:
    v, e, counts = made()
    every = score_all(v, e, counts, TAU)
    for b in range(len(v)):
        for n in range(len(e)):
            torch.testing.assert_close(every[b, n], plainly(v[b], e[n, counts[n]]))
    image, caption = torch.tensor([3, 0, 0, 3]), torch.tensor([0, 4, 1, 0])
    torch.testing.assert_close(score_pairs(v, e, counts, TAU, image, caption), every[image, caption])


@pytest.mark.parametrize(("words", "numbers", "pairs"), [(1, 1, 1), (9, 60, 3), (768, 1 << 18, 32)])
def test_the_size_of_blocks_changes_nothing(
    words: int, numbers: int, pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    v, e, counts = made(images=5, captions=11)
    whole, some = score_all(v, e, counts, TAU), torch.arange(5)
    monkeypatch.setattr(cross_attention, "WORDS", words)
    monkeypatch.setattr(cross_attention, "NUMBERS", numbers)
    monkeypatch.setattr(cross_attention, "PAIRS", pairs)
    torch.testing.assert_close(score_all(v, e, counts, TAU), whole)
    torch.testing.assert_close(score_pairs(v, e, counts, TAU, some, some), whole[some, some])


def test_gradients_of_given_pairs_are_those_of_differences() -> None:
    v, e, counts = made(images=2, captions=3, r=3, t=3, h=4)
    image, caption = torch.tensor([0, 1, 1, 0, 1]), torch.tensor([0, 2, 1, 2, 2])
    real = e != 0

    def found(v: Tensor, e: Tensor) -> Tensor:
        return score_pairs(v, e * real, counts, TAU, image, caption)

    assert torch.autograd.gradcheck(found, (v.requires_grad_(), e.requires_grad_()))


def test_pairs_without_a_gradient_are_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    v, e, counts = made()
    image = caption = torch.arange(4)
    scores = score_pairs(v.requires_grad_(), e, counts, TAU, image, caption)
    made_again: list[int] = []

    def spy(v: Tensor, e: Tensor, counts: Tensor, tau: float) -> Tensor:
        made_again.append(len(v))
        return score(v, e, counts, tau)

    monkeypatch.setattr(cross_attention, "score", spy)
    scores[2].backward()  # type: ignore[no-untyped-call]
    assert made_again == [1]
    assert v.grad is not None
    assert v.grad.flatten(1).any(1).tolist() == [False, False, True, False]


def test_rows_that_are_no_regions_and_no_words_change_nothing() -> None:
    v, e, counts = made()
    wider = F.pad(v, (0, 0, 0, 3)), F.pad(e, (0, 0, 0, 2)), F.pad(counts, (0, 2))
    torch.testing.assert_close(score_all(*wider, TAU), score_all(v, e, counts, TAU))
    valid = torch.ones(4, 6, dtype=torch.bool)
    padded = attention(wider[0], e[:4], F.pad(valid, (0, 3)), TAU)
    torch.testing.assert_close(padded[..., :6], attention(v, e[:4], valid, TAU))
    assert not padded[..., 6:].any()


def test_permuting_regions_permutes_the_attention_and_leaves_the_score() -> None:
    v, e, counts = made()
    order, valid = torch.tensor([3, 0, 5, 1, 4, 2]), torch.ones(4, 6, dtype=torch.bool)
    torch.testing.assert_close(attention(v[:, order], e[:4], valid, TAU), attention(v, e[:4], valid, TAU)[..., order])
    torch.testing.assert_close(score_all(v[:, order], e, counts, TAU), score_all(v, e, counts, TAU))


def test_an_image_without_regions_and_a_caption_without_words_score_0() -> None:
    v, e, counts = made()
    v, e, counts = v.index_fill(0, torch.tensor([1]), 0), e.index_fill(0, torch.tensor([2]), 0), counts.clone()
    counts[2] = False
    every = score_all(v, e, counts, TAU)
    pairs = torch.cartesian_prod(torch.arange(4), torch.arange(5)).unbind(1)
    torch.testing.assert_close(score_pairs(v, e, counts, TAU, *pairs).view(4, 5), every)
    assert not every[1].any() and not every[:, 2].any()
    assert every[0, 0] and torch.isfinite(every).all()


@pytest.mark.parametrize("tau", [0.0, 30.0])
def test_at_both_ends_of_the_temperature_float32_is_enough(tau: float) -> None:
    v, e, counts = made(r=100)
    close = score_all(v.float(), e.float(), counts, tau)
    torch.testing.assert_close(close.double(), score_all(v, e, counts, tau), atol=1e-5, rtol=0)
