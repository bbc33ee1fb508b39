"""Evidence while words are chosen: a noun that is not there loses to one that is, and weight 0 changes nothing."""

from __future__ import annotations

import importlib.util
import math
import sys
from itertools import accumulate
from pathlib import Path
from types import ModuleType

import pytest
import torch
from test_decoding import A, B, C, assert_same_caption, every_caption, random_chain, written
from tiny import Chain

from groundling import decoding
from groundling.errors import GroundlingError
from groundling.inference import BeamSearch, Sampling
from groundling.tensors import Decoding
from groundling.text.wordnet import wordnet
from groundling.types import BOS, EOS, Caption, Example, GroundedCaption, Link

WAYS = (
    BeamSearch(no_repeat=0, evidence_weight=1),
    BeamSearch(evidence_weight=1),
    BeamSearch(beam=3, evidence_weight=1),
    Sampling(temperature=0.001, evidence_weight=1),  # as good as always the likeliest
)


def either() -> Chain:
    """BOS → A with probability 0.6 or B with 0.4 → C → EOS."""
    logits = torch.full((1, 7, 7), -50.0, dtype=torch.float64)
    logits[0, BOS, A], logits[0, BOS, B] = math.log(0.6), math.log(0.4)
    logits[0, [A, B], C] = logits[0, C, EOS] = 0
    return Chain(logits)


def known(log_evidence: torch.Tensor | None) -> decoding.Constraints:
    return decoding.Constraints(log_evidence=log_evidence)


def evidence(**p: float) -> torch.Tensor:
    row = torch.zeros(1, 7, dtype=torch.float64)
    for word, value in p.items():
        row[0, {"a": A, "b": B, "c": C}[word]] = math.log(value)
    return row


@pytest.mark.parametrize("way", WAYS)
def test_the_second_candidate_wins_where_the_image_supports_it(way: BeamSearch | Sampling) -> None:
    """0.6 · 0.5 = 0.30 < 0.4 · 0.9 = 0.36; and the log-probability of the caption stays the captioner's: log 0.4."""
    chain = either()
    decoded = way.decode(chain, chain.encoded(), 5, known(evidence(a=0.5, b=0.9)))
    assert written(decoded) == [[B, C, EOS]]
    assert float(decoded.logp.sum()) == pytest.approx(math.log(0.4), abs=1e-6)


@pytest.mark.parametrize("way", WAYS)
def test_the_first_candidate_wins_where_support_is_not_enough(way: BeamSearch | Sampling) -> None:
    """0.6 · 0.62 = 0.372 > 0.4 · 0.9 = 0.36."""
    chain = either()
    assert written(way.decode(chain, chain.encoded(), 5, known(evidence(a=0.62, b=0.9)))) == [[A, C, EOS]]


def test_the_weight_is_the_exponent_of_the_evidence() -> None:
    """0.6 · 0.9^w < 0.4 from w = log(1.5) / log(1 / 0.9) = 3.85 on."""
    chain = either()
    for weight, word in ((3.8, A), (3.9, B)):
        decoded = BeamSearch(evidence_weight=weight).decode(chain, chain.encoded(), 5, known(evidence(a=0.9)))
        assert written(decoded)[0][0] == word


def test_evidence_of_a_later_noun_decides_about_the_whole_caption_in_a_beam() -> None:
    """A → C alone, B → EOS alone. C is unlikely to be there: 0.6 · 0.5 < 0.4. Greedy cannot know, a beam can."""
    chain = either()
    chain.logits[0, B, C], chain.logits[0, B, EOS] = -50, 0
    beam, greedy = (
        BeamSearch(n, length_penalty=0, evidence_weight=1).decode(chain, chain.encoded(), 5, known(evidence(c=0.5)))
        for n in (2, 1)
    )
    assert written(beam) == [[B, EOS]] and written(greedy) == [[A, C, EOS]]


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_a_wide_beam_finds_the_best_of_all_captions_by_probability_and_evidence(penalty: float) -> None:
    chain = random_chain(images=5, seed=2)
    bias = -2 * torch.rand(5, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    decoded = decoding.beam(chain, chain.encoded(), 4, width=200, length_penalty=penalty, bias=bias)
    plain = decoding.beam(chain, chain.encoded(), 4, width=200, length_penalty=penalty)
    for n in range(5):
        worth = {tuple(c): (p + float(bias[n, c].sum())) / len(c) ** penalty for p, c in every_caption(chain, n, 4)}
        assert tuple(written(decoded)[n]) == max(worth, key=lambda c: worth[c])
        assert decoded.logp[n].tolist()[: len(written(decoded)[n])] == pytest.approx(chain.logp(n, written(decoded)[n]))
    assert written(decoded) != written(plain)


@pytest.mark.parametrize("way", WAYS[:3])
def test_each_row_of_a_batch_has_the_evidence_of_its_own_image(way: BeamSearch) -> None:
    """Rows end at different steps, and the rest moves up: the evidence must move with it."""
    chain = random_chain(images=6, seed=1)
    bias = -3 * torch.rand(6, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    together = way.decode(chain, chain.encoded(), 8, known(bias))
    assert len({len(row) for row in written(together)}) > 1
    for n in range(6):
        alone = Chain(chain.logits[n : n + 1], hurry=0.1)
        assert_same_caption(together, n, way.decode(alone, alone.encoded(), 8, known(bias[n : n + 1])))


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_weight_zero_and_no_evidence_decode_as_before_bit_by_bit(beam: int, seed: int) -> None:
    chain = random_chain(images=4, seed=seed)
    bias = -3 * torch.rand(4, 7, dtype=torch.float64)
    before = decoding.beam(chain, chain.encoded(), 8, width=beam, length_penalty=0.9, no_repeat=2)
    for now in (
        BeamSearch(beam=beam, evidence_weight=0).decode(chain, chain.encoded(), 8, known(bias)),
        BeamSearch(beam=beam).decode(chain, chain.encoded(), 8),
        BeamSearch(beam=beam).decode(chain, chain.encoded(), 8, known(torch.zeros_like(bias))),
    ):
        assert_equal(now, before)
    drawn = [
        Sampling(seed=seed, evidence_weight=w).decode(chain, chain.encoded(), 8, known(e))
        for w, e in ((0, bias), (1, None))
    ]
    assert_equal(*drawn)


def assert_equal(one: Decoding, other: Decoding) -> None:
    assert one.picks is not None and other.picks is not None
    for name in ("tokens", "logp", "attn", "guess", "picks"):
        assert torch.equal(getattr(one, name), getattr(other, name)), name


def test_words_are_drawn_as_often_as_probability_times_evidence_says() -> None:
    """0.6 · 0.25 : 0.4 · 1 = 0.15 : 0.4, so that A is drawn in 27 of 100; of 4,000, four deviations are 0.028."""
    chain = Chain(either().logits.expand(4000, 7, 7))
    decoded = Sampling(evidence_weight=1).decode(chain, chain.encoded(), 1, known(evidence(a=0.25).expand(4000, 7)))
    assert float((decoded.tokens[:, 0] == A).double().mean()) == pytest.approx(0.15 / 0.55, abs=0.028)


@pytest.mark.parametrize("weight", [-0.1, math.nan, math.inf])
@pytest.mark.parametrize("way", [BeamSearch, Sampling])
def test_a_weight_is_a_number_of_0_or_more(way: type[BeamSearch] | type[Sampling], weight: float) -> None:
    with pytest.raises(GroundlingError, match="evidence_weight must be 0 or more"):
        way(evidence_weight=weight)


# ---------------------------------------------------------------- the bench


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    path = Path(__file__).parent.parent / "bench" / "evidence_weight.py"
    spec = importlib.util.spec_from_file_location("evidence_weight", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["evidence_weight"] = module
    sys.path.insert(0, str(path.parent))  # as when it is run: it imports what stands beside it
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


def captioned(*nouns: tuple[str, float | None]) -> GroundedCaption:
    tokens = tuple(word for word, _ in nouns)
    starts = accumulate((len(word) + 1 for word in tokens), initial=0)
    spans = tuple((start, start + len(word)) for start, word in zip(starts, tokens, strict=False))
    links = tuple(Link(i, spans[i], (0, 0, 1, 1), 1.0, evidence=p) for i, (_, p) in enumerate(nouns))
    return GroundedCaption("0", " ".join(tokens), tokens, spans, links)


def test_nouns_are_counted_by_references_evidence_and_detector(bench: ModuleType) -> None:
    """References: "a poodle on grass". The detector finds a person alone, and knows dogs, cats and persons.

    dogs: a poodle is one. grass: the same. cat, 0.3: nobody wrote, found or supports it. cup, 0.9: supported, and no
    class of the detector. woman: a person, found. tabby, unknown to the grounder: a cat, which the detector misses.
    """
    words = ("a", "poodle", "on", "grass")
    reference = Caption("a poodle on grass", words, ((0, 0),) * 4, ("DT", "NN", "IN", "NN"), words)
    classes = {name: wordnet().synset(name) for name in ("dog", "cat", "person")}
    truth = bench.truth_of(Example("0", "", (1, 1), (reference,)), {"person"}, classes)
    decoded = captioned(("dogs", 0.2), ("grass", 0.9), ("cat", 0.3), ("cup", 0.9), ("woman", 0.4), ("tabby", None))
    of_each = [
        bench.noun_counts(captioned((w, p)), truth, set(classes.values()))
        for w, p in ((decoded.word(link), link.evidence) for link in decoded)
    ]
    expected = {
        "dogs": (1, 0, 0, 1, 0),
        "grass": (1, 0, 0, 0, 0),
        "cat": (1, 1, 1, 1, 1),
        "cup": (1, 1, 0, 0, 0),
        "woman": (1, 1, 1, 1, 0),
        "tabby": (1, 1, 0, 1, 1),
    }
    assert dict(zip(decoded.tokens, of_each, strict=True)) == expected
    whole = bench.noun_counts(decoded, truth, set(classes.values()))
    assert whole == tuple(map(sum, zip(*expected.values(), strict=True))) == (6, 4, 2, 4, 2)
