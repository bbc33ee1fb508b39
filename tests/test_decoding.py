"""Decoding: greedy, sampled, beam; and from words to places."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import Chain, regions, updown
from torch import Tensor

from groundling import decoding
from groundling.inference import links
from groundling.inference.settings import said_once
from groundling.tensors import Decoding, EncodedImage, Glimpse, Regions
from groundling.text.vocab import Vocabulary
from groundling.types import BOS, EOS, PAD, UNK

A, B, C = 4, 5, 6  # words


def random_chain(images: int = 1, vocab: int = 7, seed: int = 0, ends: float = 0.0) -> Chain:
    logits = torch.randn(images, vocab, vocab, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2
    logits[:, :, EOS] += ends
    return Chain(logits, hurry=0.1)


def written(decoded: Decoding) -> list[list[int]]:
    return [[w for w in row if w != PAD] for row in decoded.tokens.tolist()]


def assert_same_caption(batch: Decoding, n: int, alone: Decoding) -> None:
    """Row n of a batch is the caption decoded alone, and nothing but padding follows."""
    t, r = alone.tokens.shape[1], alone.attn.shape[2]
    assert batch.picks is not None and alone.picks is not None
    assert torch.equal(batch.tokens[n, :t], alone.tokens[0]) and torch.equal(batch.guess[n, :t], alone.guess[0])
    assert torch.equal(batch.picks[n, :t, :r], alone.picks[0])
    torch.testing.assert_close((batch.logp[n, :t], batch.attn[n, :t, :r]), (alone.logp[0], alone.attn[0]))
    for rest in (batch.tokens, batch.logp, batch.attn, batch.guess, batch.picks):
        assert rest[n, t:].sum() == 0


# ---------------------------------------------------------------- greedy


def test_greedy_takes_the_likeliest_word_and_keeps_where_it_looked() -> None:
    """BOS → A → B → EOS; the region of a word is that of the word before: 1, 4 % 3 = 1, 5 % 3 = 2."""
    logits = torch.zeros(1, 7, 7)
    logits[0, BOS, A] = logits[0, A, B] = logits[0, B, EOS] = 5
    chain = Chain(logits)
    decoded = decoding.greedy(chain, chain.encoded(), 10)
    assert decoded.tokens.tolist() == [[A, B, EOS]]
    torch.testing.assert_close(decoded.logp, torch.full((1, 3), 5 - math.log(math.exp(5) + 6)))
    assert decoded.attn.argmax(2).tolist() == [[1, 1, 2]]
    assert decoded.picks is not None and decoded.picks.int().argmax(2).tolist() == [[1, 1, 2]]
    assert torch.equal(decoded.guess, decoded.tokens)


def test_padding_bos_and_unknown_are_never_chosen() -> None:
    logits = torch.zeros(1, 7, 7)
    logits[..., [PAD, BOS, UNK]] = 50
    chain = Chain(logits.expand(400, 7, 7))
    for decoded in (
        decoding.greedy(chain, chain.encoded(), 6),
        decoding.sample(chain, chain.encoded(), 6),
        decoding.beam(chain, chain.encoded(), 6, no_repeat=1, min_length=2),
    ):
        assert not {BOS, UNK} & set(decoded.tokens.flatten().tolist())
        assert all(PAD not in row[: len([w for w in row if w != PAD])] for row in decoded.tokens.tolist())


def test_a_caption_that_reaches_the_limit_stops_without_eos() -> None:
    logits = torch.zeros(1, 7, 7)
    logits[..., A] = 5
    chain = Chain(logits)
    for decoded in (decoding.greedy(chain, chain.encoded(), 3), decoding.beam(chain, chain.encoded(), 3)):
        assert decoded.tokens.tolist() == [[A, A, A]]


def test_greedy_and_beam_of_a_batch_equal_those_of_each_image_alone() -> None:
    seen = regions(4, 2, 5, 1, 3, 0)
    ends = []
    for seed in range(4):
        model = updown(seed, gain=4)
        with torch.no_grad():
            model.logits.bias[EOS] += 3
        for decode in (
            lambda m, s: decoding.greedy(m, s, 8),
            lambda m, s: decoding.beam(m, s, 8, width=4, length_penalty=0.7, no_repeat=2, min_length=2),
        ):
            batch = decode(model, model.encode(seen))
            ends += [len(row) for row in written(batch)]
            for n in range(6):
                assert_same_caption(batch, n, decode(model, model.encode(seen[n : n + 1])))
    assert len(set(ends)) > 2  # captions of many lengths, so that finished ones were dropped


def test_rows_may_look_at_the_same_image() -> None:
    model, seen = updown(gain=4), regions(3, 4)
    rows = torch.tensor([1, 0, 1])
    for decode in (decoding.greedy, decoding.beam):
        decoded = decode(model, model.encode(seen)[rows], 6)
        for n, image in enumerate(rows.tolist()):
            assert_same_caption(decoded, n, decode(model, model.encode(seen[image : image + 1]), 6))


@pytest.mark.parametrize("width", [1, 3])
def test_teacher_forcing_of_a_decoded_caption_gives_the_same_numbers(width: int) -> None:
    model, seen = updown(gain=4), regions(3, 4, 2)
    encoded = model.encode(seen)
    decoded = decoding.beam(model, encoded, 6, width=width) if width > 1 else decoding.greedy(model, encoded, 6)
    inputs = torch.cat([torch.full((3, 1), BOS), decoded.tokens[:, :-1]], 1)
    again = model(encoded, inputs, decoded.tokens)
    torch.testing.assert_close((again.logp, again.attn), (decoded.logp, decoded.attn))


def test_decoding_switches_dropout_off_and_puts_every_part_back() -> None:
    model, seen = updown(), regions(3, 4)
    encoded = model.encode(seen)
    calm = decoding.greedy(model, encoded, 6)
    model.train()
    model.encoder.eval()
    assert torch.equal(decoding.greedy(model, encoded, 6).logp, calm.logp)
    assert torch.equal(decoding.beam(model, encoded, 6, width=1).logp, calm.logp)
    assert model.training and model.dropout.training and not model.encoder.training
    assert not calm.logp.requires_grad


# ---------------------------------------------------------------- beam


def every_caption(chain: Chain, image: int, length: int) -> list[tuple[float, list[int]]]:
    words = [w for w in range(chain.logits.shape[-1]) if w not in (PAD, BOS, UNK, EOS)]
    captions = [[*c, EOS] for n in range(length) for c in itertools.product(words, repeat=n)]
    captions += [list(c) for c in itertools.product(words, repeat=length)]
    return [(sum(chain.logp(image, c)), c) for c in captions]


@pytest.mark.parametrize("penalty", [0.0, 0.5, 1.0])
def test_a_wide_beam_finds_the_best_of_all_captions(penalty: float) -> None:
    chain = random_chain(images=5, seed=2)
    decoded = decoding.beam(chain, chain.encoded(), 4, width=200, length_penalty=penalty)
    for n in range(5):
        total, best = max((p / len(c) ** penalty, c) for p, c in every_caption(chain, n, 4))
        assert written(decoded)[n] == best
        assert float(decoded.logp[n].sum()) / len(best) ** penalty == pytest.approx(total)


def plain_beam(chain: Chain, image: int, length: int, width: int, penalty: float) -> list[int]:
    """Beam search as a textbook writes it, run to the end."""
    live: list[tuple[float, list[int]]] = [(0.0, [])]
    done = []
    for t in range(length):
        grown = [
            (sum(chain.logp(image, [*words, w])), [*words, w])
            for _, words in live
            for w in range(chain.logits.shape[-1])
            if w not in (PAD, BOS, UNK)
        ]
        grown = sorted(grown, key=lambda item: -item[0])[:width]
        over = [item for item in grown if item[1][-1] == EOS or t == length - 1]
        done += [(p / (t + 1) ** penalty, words) for p, words in over]
        live = [item for item in grown if item not in over]
    return max(done)[1]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    width=st.integers(1, 6),
    length=st.integers(1, 6),
    penalty=st.sampled_from([0.0, 0.6, 1.0, 2.0]),
    ends=st.sampled_from([-2.0, 0.0, 3.0]),
)
def test_beam_equals_a_plain_one(seed: int, width: int, length: int, penalty: float, ends: float) -> None:
    """Dropping rows that are decided must not change what is found, nor where each word looked."""
    chain = random_chain(images=3, vocab=8, seed=seed, ends=ends)
    decoded = decoding.beam(chain, chain.encoded(), length, width=width, length_penalty=penalty)
    for n, caption in enumerate(written(decoded)):
        assert caption == plain_beam(chain, n, length, width, penalty)
        assert decoded.logp[n, : len(caption)].tolist() == pytest.approx(chain.logp(n, caption))
        before = [BOS, *caption][: len(caption)]
        assert decoded.attn[n, : len(caption)].argmax(1).tolist() == [w % 3 for w in before]


def test_a_beam_of_one_is_greedy() -> None:
    for seed in range(5):
        chain = random_chain(images=4, seed=seed)
        one, other = decoding.greedy(chain, chain.encoded(), 6), decoding.beam(chain, chain.encoded(), 6, width=1)
        for a, b in zip(vars(one).values(), vars(other).values(), strict=True):
            assert torch.equal(a, b) if isinstance(a, Tensor) else a == b


def test_wider_beams_find_likelier_captions() -> None:
    chain = random_chain(images=200, vocab=12, seed=1)
    total = [float(decoding.greedy(chain, chain.encoded(), 6).logp.sum())]
    total += [float(decoding.beam(chain, chain.encoded(), 6, width=w).logp.sum()) for w in (2, 4, 8)]
    assert total == sorted(total) and total[0] < total[1] - 1


def test_a_length_penalty_prefers_longer_captions() -> None:
    """p(EOS) = 0.4 at once, or A then EOS with 0.6 * 0.5 = 0.3. log 0.4 > log 0.3, but log 0.4 / 1 < log 0.3 / 2."""
    p = torch.full((1, 7, 7), 1e-9)
    p[0, BOS, EOS], p[0, BOS, A], p[0, A, EOS], p[0, A, B] = 0.4, 0.6, 0.5, 0.25
    p[0, A, C] = 0.25
    chain = Chain(p.log())
    assert written(decoding.beam(chain, chain.encoded(), 5)) == [[EOS]]
    assert written(decoding.beam(chain, chain.encoded(), 5, length_penalty=1.0)) == [[A, EOS]]


def test_no_ngram_comes_twice() -> None:
    chain = random_chain(images=30, vocab=9, ends=-3)
    for n in (1, 2, 3):
        for caption in written(decoding.beam(chain, chain.encoded(), 12, width=4, no_repeat=n)):
            grams = [tuple(caption[i : i + n]) for i in range(len(caption) - n + 1)]
            assert len(grams) == len(set(grams))
    free = written(decoding.beam(chain, chain.encoded(), 12, width=4))
    assert any(len(set(zip(c, c[1:], strict=False))) < len(c) - 1 for c in free)  # without it, they do come twice


@pytest.mark.parametrize("width", [1, 4])
def test_no_word_comes_twice_in_a_row_where_repeats_are_forbidden(width: int) -> None:
    chain = random_chain(images=30, vocab=9, ends=-3)

    def stutters(no_repeat: int) -> int:
        decoded = written(decoding.beam(chain, chain.encoded(), 12, width=width, no_repeat=no_repeat))
        return sum(one == other for caption in decoded for one, other in zip(caption, caption[1:], strict=False))

    assert stutters(0) > 0
    assert stutters(2) == stutters(3) == 0


def test_captions_have_at_least_the_minimum_length() -> None:
    chain = random_chain(images=30, ends=6)
    assert min(len(c) for c in written(decoding.beam(chain, chain.encoded(), 9))) == 1
    assert min(len(c) for c in written(decoding.beam(chain, chain.encoded(), 9, min_length=4))) == 5  # and EOS


def test_a_word_of_once_is_chosen_once_and_others_as_often_as_before() -> None:
    """Word 4 is likeliest after word 5 and the other way round: "4 5 4 5 …" becomes "4 5 6 5 6 …" if 4 is a noun."""
    logits = torch.full((1, 7, 7), -5.0, dtype=torch.float64)
    logits[0, BOS, 4], logits[0, 4, 5], logits[0, 5, 4], logits[0, 5, 6], logits[0, 6, 5] = 5.0, 5.0, 5.0, 3.0, 5.0
    chain = Chain(logits)
    nouns = torch.tensor([word == 4 for word in range(7)])
    [free], [bound] = (written(decoding.beam(chain, chain.encoded(), 5, width=1, once=x)) for x in (None, nouns))
    assert free == [4, 5, 4, 5, 4]
    assert bound == [4, 5, 6, 5, 6]


def test_no_word_stands_on_both_sides_of_a_conjunction() -> None:
    """ "4 and 4" is likeliest, "4 and 6" next; the word before the conjunction may come again later."""
    logits = torch.full((1, 7, 7), -5.0, dtype=torch.float64)
    logits[0, BOS, 4], logits[0, 4, 5], logits[0, 5, 4], logits[0, 5, 6], logits[0, 6, 4] = 5.0, 5.0, 5.0, 3.0, 5.0
    chain = Chain(logits)
    several = (PAD, 5)
    [free], [bound] = (
        written(decoding.beam(chain, chain.encoded(), 4, width=1, no_repeat=3, conjunction=x)) for x in several
    )
    assert free == [4, 5, 4, 5]
    assert bound == [4, 5, 6, 4]


def test_nouns_are_said_once_but_first_parts_of_compounds() -> None:
    vocab = Vocabulary(
        ("<pad>", "<bos>", "<eos>", "<unk>", "tennis", "court", "on"), (False,) * 4 + (True, True, False)
    )
    assert said_once(vocab) == (False,) * 5 + (True, False)


def test_a_beam_with_nothing_left_to_say_ends() -> None:
    """Three words, none twice, at least five: impossible, so the caption ends after three."""
    chain = random_chain(images=4)
    for caption in written(decoding.beam(chain, chain.encoded(), 9, no_repeat=1, min_length=5)):
        assert sorted(caption) == [EOS, A, B, C]


@pytest.mark.parametrize("wrong", [{"width": 0}, {"length_penalty": -1.0}])
def test_beam_refuses_senseless_settings(wrong: dict[str, float]) -> None:
    chain = random_chain()
    with pytest.raises(ValueError, match="at least"):
        decoding.beam(chain, chain.encoded(), 3, **wrong)


# ---------------------------------------------------------------- sampling


def frequencies(decoded: Decoding, vocab: int) -> Tensor:
    return torch.bincount(decoded.tokens[:, 0], minlength=vocab) / len(decoded.tokens)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_sampled_words_follow_the_distribution(temperature: float) -> None:
    """First words of 40,000 captions: each frequency within 5 standard errors of p^(1/temperature), renormalised."""
    chain = random_chain(vocab=9)
    chain.logits[:, :, [PAD, BOS, UNK]] = -math.inf
    encoded = chain.encoded()[torch.zeros(40_000, dtype=torch.int64)]
    decoded = decoding.sample(chain, encoded, 1, temperature=temperature, generator=torch.Generator().manual_seed(0))
    logp = chain.logits[0, BOS].log_softmax(0)
    p = (logp / temperature).softmax(0)
    error = (p * (1 - p) / 40_000).sqrt()
    assert ((frequencies(decoded, 9) - p).abs() <= 5 * error).all()
    torch.testing.assert_close(decoded.logp[:, 0], logp[decoded.tokens[:, 0]])  # of the captioner itself


def test_top_k_and_top_p_never_pick_what_they_exclude() -> None:
    """p = 0.5, 0.3, 0.15, 0.05: the two likeliest; the smallest sets that reach 0.5, 0.79, 0.8, 0.81."""
    p = torch.full((1, 8, 8), 1e-30, dtype=torch.float64)
    p[..., 4:] = torch.tensor([0.5, 0.3, 0.15, 0.05])
    chain = Chain(p.log())
    encoded = chain.encoded()[torch.zeros(3000, dtype=torch.int64)]

    def decoded(**how: float) -> set[int]:
        return set(decoding.sample(chain, encoded, 1, **how).tokens.flatten().tolist())

    assert decoded() == {4, 5, 6, 7}
    assert decoded(top_k=2) == {4, 5}
    assert decoded(top_k=100) == {4, 5, 6, 7}
    assert decoded(top_p=0.49) == {4} and decoded(top_p=0.0) == {4}
    assert decoded(top_p=0.79) == {4, 5}
    assert decoded(top_p=0.81) == {4, 5, 6}
    assert decoded(top_k=3, top_p=0.9) == {4, 5, 6}


def test_the_same_generator_draws_the_same_captions() -> None:
    model, seen = updown(), regions(3, 4)
    encoded = model.encode(seen)[torch.arange(2).repeat_interleave(5)]
    one, two = (decoding.sample(model, encoded, 6, generator=torch.Generator().manual_seed(7)) for _ in range(2))
    assert torch.equal(one.tokens, two.tokens)
    assert len({tuple(row) for row in one.tokens.tolist()}) > 2


def test_gradients_flow_through_the_log_probabilities_of_a_sample() -> None:
    """They equal those of teacher forcing the same caption."""
    model, seen = updown(), regions(3, 4)
    decoded = decoding.sample(model, model.encode(seen), 6, generator=torch.Generator().manual_seed(1))
    decoded.logp.sum().backward()
    sampled = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    inputs = torch.cat([torch.full((2, 1), BOS), decoded.tokens[:, :-1]], 1)
    model(model.encode(seen), inputs, decoded.tokens).logp.sum().backward()
    forced = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    torch.testing.assert_close(sampled, forced)


def test_temperature_zero_points_to_greedy() -> None:
    chain = random_chain()
    with pytest.raises(ValueError, match="greedy"):
        decoding.sample(chain, chain.encoded(), 3, temperature=0)


# ---------------------------------------------------------------- greedy and samples at once


def test_greedy_and_samples_at_once_are_those_of_each_alone() -> None:
    """Captions of several lengths; PAD, BOS and UNK, likelier than all words, are never chosen."""
    chain = random_chain(images=3, seed=2)
    chain.logits[:, :, [PAD, BOS, UNK]] += 3
    torch.manual_seed(0)
    several = decoding.sample_several(chain, chain.encoded()[torch.tensor([0, 2, 1, 0])], 6, 200, greedy=True)
    drawn, usual = several.tensor_split([800])
    greedy = decoding.greedy(chain, chain.encoded()[torch.tensor([0, 2, 1, 0])], 6).tokens
    assert torch.equal(usual[:, : greedy.shape[1]], greedy) and not usual[:, greedy.shape[1] :].any()
    assert drawn.shape == (800, 6)
    for row in drawn.tolist():
        words = row[: row.index(EOS)] if EOS in row else row
        assert not {PAD, BOS, UNK} & {*words} and not any(row[len(words) + 1 :])
    assert len({sum(w != PAD for w in row) for row in drawn.tolist()}) == 6


def test_samples_have_words_as_often_as_they_are_likely_without_special_tokens() -> None:
    logits = torch.zeros(2, 7, 7)
    logits[0, BOS, [UNK, A, B, EOS]] = torch.tensor([9.0, 1.0, 0.5, 0.0])
    chain = Chain(logits)
    torch.manual_seed(0)
    drawn = decoding.sample_several(chain, chain.encoded(), 1, 20_000)
    counts = torch.stack([drawn.view(2, -1).eq(word).float().mean(1) for word in (EOS, A, B, C)], 1)
    expected = torch.tensor([[0.0, 1.0, 0.5, 0.0], [0.0, 0.0, 0.0, 0.0]]).softmax(1)
    torch.testing.assert_close(counts, expected, atol=0.02, rtol=0)


# ---------------------------------------------------------------- branches


class Chorus(Chain):
    """Two branches: one attends to region 0 and always prefers A, the other to region 1 and agrees with the caption."""

    def step(
        self, token: Tensor, encoded: EncodedImage, state: object, mask_special: bool = False
    ) -> tuple[Tensor, Glimpse, object]:
        logp, _, state = super().step(token, encoded, state, mask_special)
        branches = torch.eye(2, 3, dtype=logp.dtype).expand(len(token), 2, 3)
        words = torch.stack([torch.full_like(token, A), logp.argmax(1)], 1)
        return logp, Glimpse(branches.mean(1), branches, words), state


def test_the_branches_that_say_a_word_give_it_its_regions() -> None:
    logits = torch.zeros(1, 7, 7)
    logits[0, BOS, A] = logits[0, A, B] = logits[0, B, EOS] = 9
    chain = Chorus(logits)
    for decoded in (decoding.greedy(chain, chain.encoded(), 5), decoding.beam(chain, chain.encoded(), 5)):
        assert decoded.tokens.tolist() == [[A, B, EOS]] and decoded.picks is not None
        assert decoded.picks[0].tolist() == [[True, True, False], [False, True, False], [False, True, False]]


# ---------------------------------------------------------------- words to places


class Words:
    words = ("<pad>", "<bos>", "<eos>", "<unk>", "a", "dog", "cat")

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, tokens: list[str]) -> list[int]:
        return [self.words.index(t) for t in tokens]

    def decode(self, ids: list[int]) -> list[str]:
        kept = itertools.takewhile(lambda i: i != EOS, ids)
        return [self.words[i] for i in kept if i not in (PAD, BOS)]


def a_dog() -> tuple[Decoding, Regions]:
    """`a dog`, the caption of an image of 100 x 80 with three regions; `dog` attends mostly to the second."""
    places = torch.tensor([[0.0, 0, 10, 10], [20, 20, 40, 30], [30, 10, 60, 25]])
    seen = Regions.of(torch.zeros(3, 1), places, (100, 80))
    attn = torch.tensor([[[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [1.0, 0, 0]]])
    logp = torch.tensor([[-0.5, -1.0, -0.25]])
    tokens = torch.tensor([[4, 5, EOS]])
    return Decoding(tokens, logp, attn, tokens), seen


def test_a_grounded_caption_has_spans_links_and_looks() -> None:
    decoded, seen = a_dog()
    (caption,) = links.link(decoded, seen, Words(), ["7"], {"dog", "cat"}, attended=2, media=["7.jpg"])
    assert (caption.id, caption.text, caption.tokens, caption.spans) == ("7", "a dog", ("a", "dog"), ((0, 1), (2, 5)))
    (link,) = caption.links
    assert caption.word(link) == "dog" and link.token == 1 and link.box == (20, 20, 40, 30)
    assert link.score == pytest.approx(0.6)
    assert [word.token for word in caption.attention] == [0, 1]
    assert caption.attention[1].boxes == ((20, 20, 40, 30), (30, 10, 60, 25))
    assert caption.attention[1].weights == pytest.approx((0.6, 0.3))
    assert (caption.logp, caption.size, caption.media) == (-1.75, (100, 80), "7.jpg")


def test_groundable_may_be_a_function() -> None:
    decoded, seen = a_dog()
    (caption,) = links.link(decoded, seen, Words(), ["7"], lambda word: len(word) == 1)
    assert [caption.word(link) for link in caption.links] == ["a"]


def test_the_place_of_a_word_is_the_union_of_its_regions_and_their_attention_its_score() -> None:
    decoded, seen = a_dog()
    picks = torch.tensor([[[True, False, False], [False, True, True], [True, False, False]]])
    (caption,) = links.link(replace(decoded, picks=picks), seen, Words(), ["7"], {"dog"})
    assert caption.links[0].box == (20, 10, 60, 30)
    assert caption.links[0].score == pytest.approx(0.9)


def test_a_video_has_a_link_in_every_frame_that_was_attended() -> None:
    decoded, seen = a_dog()
    video = replace(seen, frame=torch.tensor([[0, 2, 2]]))
    (caption,) = links.link(decoded, video, Words(), ["v"], {"dog"})
    assert [(link.frame, link.box, pytest.approx(link.score)) for link in caption.links] == [
        (0, (0, 0, 10, 10), 0.1),
        (2, (20, 20, 40, 30), 0.6),
    ]
    assert caption.attention[1].frames == (2, 2, 0)


def test_places_of_a_given_sentence_come_from_its_attention() -> None:
    decoded, seen = a_dog()
    where, score = links.boxes_of(decoded, seen)
    assert where[0, :, 0].tolist() == [[0, 0, 10, 10], [20, 20, 40, 30], [0, 0, 10, 10]]
    torch.testing.assert_close(score[0, :, 0], torch.tensor([0.5, 0.6, 1.0]))


def test_what_was_not_attended_has_no_place() -> None:
    decoded, seen = a_dog()
    blind = replace(decoded, attn=torch.zeros_like(decoded.attn))
    where, score = links.boxes_of(blind, seen)
    assert where.isnan().all() and score.sum() == 0
    (caption,) = links.link(blind, seen, Words(), ["7"], {"dog"})
    assert caption.links == () and caption.attention[1].boxes == ()


def test_an_image_in_which_nothing_was_found_is_described_without_places() -> None:
    model, nothing = updown(vocab=7), regions(0)
    for decoded in (decoding.greedy(model, model.encode(nothing), 4), decoding.beam(model, model.encode(nothing), 4)):
        (caption,) = links.link(decoded, nothing, Words(), ["7"], {"a", "dog", "cat"})
        assert caption.tokens and caption.links == () and caption.attention[0].boxes == ()


def test_no_image_gives_no_caption() -> None:
    model = updown()
    none = model.encode(regions(2))[torch.zeros(0, dtype=torch.int64)]
    assert len(decoding.greedy(model, none, 4).tokens) == len(decoding.beam(model, none, 4).tokens) == 0


def test_the_whole_way_from_regions_to_grounded_captions() -> None:
    model, seen = updown(gain=4, vocab=7), regions(3, 4, 0)
    for decoded in (decoding.greedy(model, model.encode(seen), 6), decoding.beam(model, model.encode(seen), 6)):
        captions = links.link(decoded, seen, Words(), ["x", "y", "z"], {"a", "dog", "cat"})
        assert [c.id for c in captions] == ["x", "y", "z"]
        for n, caption in enumerate(captions):
            assert [caption.text[slice(*span)] for span in caption.spans] == list(caption.tokens)
            assert len(caption.links) == (len(caption.tokens) if n < 2 else 0)
            for link in caption:
                best = decoded.attn[n, link.token].argmax()
                assert link.box == tuple(seen.boxes[n, best].tolist())


def test_words_are_drawn_as_often_as_they_are_likely_and_the_impossible_never() -> None:
    p = torch.tensor([0.0, 0.5, 0.0, 0.125, 0.375, 0.0])
    drawn = decoding._draw(p.expand(40_000, 6), torch.Generator().manual_seed(0))
    share = torch.bincount(drawn, minlength=6) / 40_000
    torch.testing.assert_close(share, p, atol=0.01, rtol=0)
    assert share[p == 0].sum() == 0
    tiny = torch.full((1000, 7000), 1 / 7000, dtype=torch.float32)
    assert decoding._draw(tiny, None).min() >= 0 and decoding._draw(tiny, None).max() < 7000


# ---------------------------------------------------------------- a second look


class Witness:
    """Sees word A where it is told, and no other word."""

    def __init__(self, alpha: list[float]) -> None:
        self.alpha = torch.tensor(alpha)

    def point(self, regions: Regions, words: Tensor, image_of: Tensor) -> Tensor:
        return (words == A)[..., None] * self.alpha


def told(trust: float, alpha: list[float], places: list[list[float]]) -> Decoding:
    """The words A and B, both attending to the first of three regions."""
    seen = Regions.of(torch.zeros(3, 2), torch.tensor(places), (100, 100))
    attn = torch.tensor([[[0.6, 0.2, 0.2], [0.6, 0.2, 0.2]]])
    picks = torch.tensor([[[True, False, False]] * 2])
    tokens = torch.tensor([[A, B]])
    decoded = Decoding(tokens, torch.zeros(1, 2), attn, tokens, picks)
    return links.rerank(decoded, seen, Witness(alpha).point, trust)


APART = [[0.0, 0, 10, 10], [20, 0, 30, 10], [40, 0, 50, 10]]


def test_a_second_look_weighs_both_and_leaves_other_words_alone() -> None:
    """√(0.6 · 0.1) : √(0.2 · 0.8) : √(0.2 · 0.1) at an equal trust."""
    for trust, weights in ((0.0, [0.6, 0.2, 0.2]), (0.5, [0.06**0.5, 0.16**0.5, 0.02**0.5]), (1.0, [0.1, 0.8, 0.1])):
        decoded = told(trust, [0.1, 0.8, 0.1], APART)
        torch.testing.assert_close(decoded.attn[0, 0], torch.tensor(weights) / sum(weights))
        torch.testing.assert_close(decoded.attn[0, 1], torch.tensor([0.6, 0.2, 0.2]))
        assert decoded.picks is not None
        assert decoded.picks[0].tolist() == [[not trust, bool(trust), False], [True, False, False]]


def test_a_second_look_takes_the_box_on_which_many_agree() -> None:
    """The first region is the likeliest, but the others are almost one: together they are likelier."""
    decoded = told(1.0, [0.4, 0.3, 0.3], [[0.0, 0, 10, 10], [20, 0, 30, 10], [20, 0, 30, 9]])
    assert decoded.picks is not None and decoded.picks[0, 0].tolist()[0] is False
