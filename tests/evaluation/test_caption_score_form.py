"""The form of `grounding`."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest

from groundling.evaluation.caption_score import NEAR, _marks, _pairs, inputs, score, shared, with_references
from groundling.evaluation.evidence import PhraseEvidence, parse
from groundling.metrics.calibration import CAPTION_INPUTS, CaptionForm, Linear, WordEvidence
from groundling.metrics.statistics import mean_statistics
from groundling.types import Example


def phrase(similarity: float, probability: float | None) -> PhraseEvidence:
    return PhraseEvidence("a dog", (0, 5), "dog", "dog", "NN", ("a", "dog"), similarity, probability, ())


def test_it_is_the_geometric_mean_of_phrases_and_words() -> None:
    """Phrases 0.9 and 0.4: √0.36 = 0.6. Words 0.15: √(0.6 · 0.15) = 0.3."""
    two = [phrase(0.1, 0.9), phrase(0.1, 0.4)]
    assert score(two) == pytest.approx(0.6)
    assert score(two, [0.15]) == pytest.approx(0.3)
    assert score([], [0.15]) == pytest.approx(0.15)
    assert score([phrase(0.1, 0.0)]) == pytest.approx(1e-3)


def test_without_a_calibration_similarity_counts_and_without_words_nothing() -> None:
    assert score([phrase(0.5, None), phrase(-0.5, None)]) == 0.25
    assert score([]) == 0


def test_the_inputs_of_a_fitted_form_are_those_of_its_equations() -> None:
    """Words dog, cat, tree of π = 1/e, 1/e, 1/e²: −log π = 1, 1, 2. The image has dog and cat, the caption dog and
    tree: so it says 0.8 − 1/e of (0.8 − 1/e) + (0.6 − 1/e); the tree is less likely than in any photo and counts 0."""
    prior = np.exp([-1.0, -1.0, -2.0])
    found = inputs([phrase(0.2, 0.9), phrase(0.4, 0.4)], [0.5], [True, False, True], np.array([0.8, 0.6, 0.0]), prior)
    assert list(found) == list(CAPTION_INPUTS)
    assert found["phrases"] == pytest.approx(math.log(0.6)) and found["words"] == pytest.approx(math.log(0.5))
    dog, cat = 0.8 - 1 / math.e, 0.6 - 1 / math.e
    assert found["mentioned"] == pytest.approx(dog / (dog + cat))


def test_without_phrases_words_stand_for_them_and_the_other_way_round() -> None:
    nothing, prior = np.zeros(1), np.array([0.5])
    alone = inputs([], [0.3, 0.6], [False], nothing, prior)
    assert alone["phrases"] == alone["words"]
    assert inputs([phrase(0.1, 0.2)], [], [False], nothing, prior)["words"] == pytest.approx(math.log(0.2))


def test_references_join_by_the_fitted_form_or_as_a_mean() -> None:
    """The caption equals its reference: METEOR 1. logit g = 0, so logit h = −1 + 2 · 0 + 3 · 1."""
    grounding = mean_statistics("grounding", "grounding|form:fitted|n:1", ("1",), np.array([0.5]))
    captions, references = {"1": "a brown dog sits on a couch"}, {"1": ["a brown dog sits on a couch"]}
    form = CaptionForm(Linear(0.0, {}), Linear(-1.0, {"grounding": 2.0, "meteor": 3.0}))
    [meteor] = 3 * with_references(grounding, captions, references).per_item() - 0.5
    assert meteor / 2 == pytest.approx(1.0, abs=0.01)
    [joined] = with_references(grounding, captions, references, form).per_item()
    assert joined == pytest.approx(1 / (1 + math.exp(1 - 3 * meteor / 2)))


def test_a_form_is_fitted_against_captions_of_photos_that_are_alike() -> None:
    """Photos of dogs and photos of cats: of five captions of others, at least the four that are chosen for likeness are
    of the photo's own kind; no pair takes a photo's own caption for another's."""
    texts = {kind: [f"a {kind} on a {place}" for place in ("couch", "bed")] for kind in ("dog", "cat")}
    parsed = {kind: tuple(parse(some)) for kind, some in texts.items()}
    kinds = ["dog", "cat"] * (NEAR + 1)
    photos = [Example(str(i), "", (1, 1), captions=parsed[kind]) for i, kind in enumerate(kinds)]
    words = WordEvidence({"dog": 0.1, "cat": 0.1}, {})
    seen = np.array([[0.9, 0.1] if kind == "dog" else [0.1, 0.9] for kind in kinds])
    for i, pairs in enumerate(_pairs(photos, seen, words, Random(0))):
        own, *others = pairs
        assert own.own and own.of == i and not any(one.own or one.of == i for one in others)
        assert sum(kinds[one.of] == kinds[i] for one in others) >= 4


def test_a_caption_of_another_photo_is_worth_a_fifth_of_what_it_has_in_common() -> None:
    """Own captions have METEOR 0.3 and 0.5, 0.4 on average: 0.1 is a quarter of that, and 0.6 counts as the whole."""
    marks = _marks(np.array([1.0, 0, 1, 0, 0]), np.array([0.3, 0.1, 0.5, 0.6, 0.0]))
    assert marks.tolist() == pytest.approx([1, 0.05, 1, 0.2, 0])


def test_what_captions_share_is_the_cosine_of_their_words() -> None:
    """π = 1/e, 1/e, 1/e²: dog and cat weigh 1, tree 2. Dog and tree, (1, 0, 2); two references with dog, one with cat:
    (√2, 1, 0): √2 / (√5 √3)."""
    prior = {"dog": math.exp(-1), "cat": math.exp(-1), "tree": math.exp(-2)}
    assert shared([{"dog", "tree"}], [{"dog"}, {"dog", "cat"}], prior) == pytest.approx(math.sqrt(2 / 15))
    assert shared([{"dog"}], [{"dog"}], prior) == pytest.approx(1.0)
    assert shared([set()], [{"dog"}], prior) == shared([{"dog"}], [], prior) == 0


def test_a_fitted_form_with_references_takes_what_is_shared() -> None:
    """Dog is in both, of (dog, sit) and (dog, run) of equal weight: 1/2. logit g = 0, so logit h = 4 · 1/2 − 1."""
    grounding = mean_statistics("grounding", "grounding|form:fitted|n:1", ("1",), np.array([0.5]))
    form = CaptionForm(Linear(0.0, {}), Linear(-1.0, {"shared": 4.0}))
    words = WordEvidence({"dog": 0.1, "sit": 0.1, "run": 0.1}, {})
    both = {"1": "a dog sits"}, {"1": ["a dog runs"]}
    [joined] = with_references(grounding, *both, form, words).per_item()
    assert joined == pytest.approx(1 / (1 + math.exp(-1)))
