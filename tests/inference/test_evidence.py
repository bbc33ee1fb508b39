"""The evidence model: words of image vectors and similarity in, probability out."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from groundling.commands.ground_data import _captions_of
from groundling.errors import DataError
from groundling.evaluation.evidence import parse
from groundling.inference.calibration import HEDGE, Answers, fitted
from groundling.inference.evidence import CALIBRATION, read_calibration
from groundling.inference.image_nouns import Against, learn, learn_contrast, learned
from groundling.metrics import calibration
from groundling.metrics.calibration import (
    BROADER,
    LEARNED,
    SAME,
    CaptionForm,
    Concept,
    EvidenceModel,
    ImageNouns,
    Isotonic,
    Linear,
    WordEvidence,
    image_word_probabilities,
    logistic,
)
from groundling.regions.fingerprints import words_of
from groundling.text.absent_nouns import related
from groundling.text.noun_kinds import kind_of
from groundling.types import WORD_DEVIATION, WORD_MEAN, Example, Fingerprint

PRIOR = {"dog": 0.2, "sheep": 0.1, "couch": 0.5, "pant": 0.3}
WORDS = WordEvidence(PRIOR, {SAME: (1.0, 2.0, -1.0, 3.0), BROADER: (0.0, 1.0, 0.0, 0.0)})
LINE = Isotonic((0.0, 1.0), (0.0, 1.0))


def likely(*p: float) -> np.ndarray[Any, Any]:
    """Probabilities of words in one image, as `WordEvidence.seen` gives them."""
    return np.array([[p]])


def test_an_image_vector_ends_with_the_probabilities_of_words() -> None:
    p = np.array([0.9, 0.01, 0.5])
    words = (np.log(-np.log1p(-p)) - WORD_MEAN) / WORD_DEVIATION
    np.testing.assert_allclose(image_word_probabilities(np.array([[7.0, 7.0, *words]]), 3), p[None])
    labels = ("person", "word:dog", "word:sheep")
    assert words_of(Fingerprint("photos", "2", 5, labels=labels)) == ("dog", "sheep")
    assert words_of(Fingerprint("other", "1", 5, labels=("person",))) == ()


def test_the_evidence_of_a_known_word_is_the_equation() -> None:
    """p = 1/2: logit 0; π = 1/5; s = 0.4: σ(1 + 2·0 − log 0.2 + 3·0.4) = σ(2.2 + log 5)."""
    model = EvidenceModel(LINE, WORDS)
    [found] = model(["dogs"], np.array([0.4]), likely(0.5, 0.1, 0.1, 0.1))
    assert found == pytest.approx(1 / (1 + math.exp(-2.2) / 5))


def test_without_words_of_the_image_or_of_the_noun_similarity_alone_decides() -> None:
    model, seen = EvidenceModel(LINE, WORDS), likely(0.5, 0.1, 0.1, 0.1)
    assert model(["dog"], np.array([0.4]), None) == [0.4]
    assert model(["theorem"], np.array([0.4]), seen) == [0.4]
    assert model(["blorp"], np.array([0.4]), seen) == [0.4]
    assert EvidenceModel(LINE)(["dog"], np.array([0.4]), seen) == [0.4]


def test_a_noun_of_a_caption_has_coefficients_of_its_own_where_they_were_fitted() -> None:
    """p = 1/2, so logit p is 0: σ(2) of a caption's noun, though σ(1 − log 0.2) of any phrase."""
    words = replace(WORDS, caption_weights={SAME: (2.0, 1.0, 0.0, 0.0), BROADER: (0.0, 0.0, 0.0, 0.0)})
    asked = ["dog"], np.zeros(1), likely(0.5, 0.1, 0.1, 0.1)
    assert EvidenceModel(LINE, words)(*asked, in_caption=True) == pytest.approx([1 / (1 + math.exp(-2))])
    assert EvidenceModel(LINE, words)(*asked) == pytest.approx([1 / (1 + math.exp(-1) / 5)])
    assert EvidenceModel(LINE, WORDS)(*asked, in_caption=True) == EvidenceModel(LINE, WORDS)(*asked)


def nouns_of(u: float, v: float) -> ImageNouns:
    """Of one number x of an image vector, with mean 1 and deviation 2: dog u · (x − 1) / 2, the other words 0."""
    words = np.array([[u], [0.0], [0.0], [0.0]])
    return ImageNouns.packed(np.ones(1), np.full(1, 2.0), np.ones((1, 1)), words, np.zeros(4), np.full(4, v))


def test_nouns_predicted_from_image_vectors_count_where_there_are_any() -> None:
    """x = 5: z = 2, so u = 3 of the dog, with v = −4; p = 1/2, s = 0: σ(2 · 0 + 0.5 · 3 + 0.25 · (−4)) = σ(0.5)."""
    weights = {SAME: (0.0, 2.0, 0.0, 0.0, 0.5, 0.25), BROADER: (0.0,) * 6}
    words = replace(WORDS, weights=weights, image_nouns=nouns_of(1.5, -4.0))
    assert WordEvidence.from_json(words.to_json()) == words != replace(words, image_nouns=nouns_of(1.0, -4.0))
    p = np.full(4, 0.5)
    whole = np.array([5.0, *(np.log(-np.log1p(-p)) - WORD_MEAN) / WORD_DEVIATION])
    assert words.seen(whole) == pytest.approx(np.array([p, [3.0, 0, 0, 0]]))
    found = EvidenceModel(LINE, words).of_image(["dog", "couch"], np.zeros(2), whole)
    assert found == pytest.approx([1 / (1 + math.exp(-0.5)), 1 / (1 + math.exp(1))])
    far = EvidenceModel(LINE, words).of_image(["dog"], np.zeros(1), np.array([1e6, *whole[1:]]))
    assert far == pytest.approx([1 / (1 + math.exp(-(0.5 * 1.5 * 6 - 1)))])  # x counts six deviations away at most


def test_nouns_of_images_are_kept_in_8_bits() -> None:
    """Each row by its largest number: 127 / 127 and 64 / 127 of 2, the nearest to 2 and 1."""
    kept = ImageNouns.packed(
        np.zeros(2), np.ones(2), np.array([[2.0, 1.0]]), np.array([[3.0], [0.0]]), np.zeros(2), np.zeros(2)
    )
    read = ImageNouns.from_json(json.loads(json.dumps(kept.to_json())), 2)
    assert read == kept
    assert read(np.array([0.0, 1.0])) == pytest.approx([3 * 64 / 127 * 2, 0])
    for wrong in (
        kept.to_json() | {"offset": "AAAA"},
        kept.to_json() | {"words": "!"},
        kept.to_json() | {"words_scale": b64encode(np.full(2, 3e38, "<f4").tobytes()).decode()},
        kept.to_json() | {"usual": b64encode(np.full(2, np.nan, "<f4").tobytes()).decode()},
        kept.to_json() | {"deviation": "AAAAAAAAAAA="},
        {"mean": "AAAA"},
    ):
        with pytest.raises(DataError, match="not nouns of images"):
            ImageNouns.from_json(wrong, 2)
    with pytest.raises(DataError, match="not nouns of images"):
        ImageNouns.from_json(kept.to_json(), 3)
    row = WORDS.to_json() | {"image_nouns": ["mean"]}
    with pytest.raises(DataError):
        WordEvidence.from_json(row)
    with pytest.raises(DataError, match="learned from 2 numbers, these have 1"):
        read(np.zeros(1))
    words = replace(WORDS, image_nouns=nouns_of(1.0, 0.0))  # its weights are those without
    with pytest.raises(DataError, match="weights are 6 finite numbers"):
        WordEvidence.from_json(words.to_json())


def test_nouns_are_learned_from_image_vectors() -> None:
    """Of 120 images half have x = 1 and a dog, the others x = −1 and none; the cat is as often with one as with the
    other; the sheep is in too few to be learned. So x raises the dog's log-odds and leaves those of the cat."""
    x = np.tile(np.array([[1.0], [-1.0]], np.float32), (60, 1))
    has = np.zeros((120, 3), bool)
    has[:, 0], has[::3, 1], has[0, 2] = x[:, 0] > 0, True, True
    found = learned(x, has, rank=2, epochs=200)
    dog, cat, sheep = found(np.array([[1.0], [-1.0]])).T
    assert dog[0] > 0.5 and dog[1] < -0.5 and np.abs(cat).max() < 0.1 and not sheep.any()
    assert found.usual[1] == pytest.approx(math.log(40.5 / 80.5), abs=1e-5)
    assert found.usual[2] == pytest.approx((found.usual[0] * 60 + found.usual[1] * 40) / 100)
    with pytest.raises(DataError, match="no noun is in the captions of 15"):
        learned(x[:10], has[:10])


def test_nouns_are_learned_and_other_words_are_not() -> None:
    """Twenty captions have the noun "dog", all have "run": only as a verb. So only the dog is learned."""
    both = parse(["a dog is running", "the cat is running"])
    examples = [Example(f"{i}", "", (1, 1), captions=(both[i % 2],)) for i in range(40)]
    vectors = {one.id: torch.tensor([[float(i % 2), 0.0, 0.0]]) for i, one in enumerate(examples)}
    store: Any = SimpleNamespace(
        fingerprint=Fingerprint("photos", "2", 5, labels=("word:dog", "word:run")),
        layout=SimpleNamespace(whole=3),
        path="regions",
        require=lambda ids: None,
        batch=lambda ids, limit: SimpleNamespace(whole=vectors[ids[0]]),
    )
    with_cats = learn(examples, store, lambda nouns: torch.ones(len(nouns), 2), {"cat"})
    assert with_cats.others == ("cat",) and len(with_cats.words) == 3  # "dog", "run" and "cat"
    found = learn(examples, store)
    assert found.others == () and found.words.any(1).tolist() == [True, False] and len(found.mean) == 1
    assert found.usual == pytest.approx([math.log(20.5 / 20.5)] * 2, abs=1e-6)
    store.fingerprint = Fingerprint("scenes", "1", 5, labels=("dog",))
    with pytest.raises(DataError, match="has no words of images"):
        learn(examples, store)


def test_a_contrast_counts_for_any_phrase() -> None:
    """x = 5: z = 2, u = 3 and c = −4 of the dog, p = 1/2, s = 0: σ(0.5 · 3 + 0.25 · (−4)) = σ(0.5); of the couch, whose
    u and c are 0, σ(0). As a noun of a caption, where c has the coefficient 0, the dog has σ(1.5)."""
    weights = {SAME: (0.0, 0.0, 0.0, 0.0, 0.5, 0.0, 0.25), BROADER: (0.0,) * 7}
    of_captions = {SAME: (0.0, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0), BROADER: (0.0,) * 7}
    words = replace(
        WORDS,
        weights=weights,
        caption_weights=of_captions,
        image_nouns=nouns_of(1.5, 0.0),
        contrast=nouns_of(-2.0, 0.0),
        _concepts={},
    )
    kept = WordEvidence.from_json(json.loads(json.dumps(words.to_json())))
    assert kept == words != replace(words, contrast=nouns_of(2.0, 0.0))
    whole = np.array([5.0, *np.full(4, (math.log(math.log(2)) - WORD_MEAN) / WORD_DEVIATION)])
    model = EvidenceModel(LINE, kept)
    assert model.of_image(["dog", "couch"], np.zeros(2), whole) == pytest.approx([1 / (1 + math.exp(-0.5)), 0.5])
    assert model.of_image(["dog"], np.zeros(1), whole, in_caption=True) == pytest.approx([1 / (1 + math.exp(-1.5))])
    with pytest.raises(DataError, match="weights are 7 finite numbers"):
        WordEvidence.from_json(words.to_json() | {"weights": {SAME: [0.0] * 6, BROADER: [0.0] * 6}})
    with pytest.raises(DataError, match="the contrast is of other nouns"):
        WordEvidence.from_json({name: one for name, one in words.to_json().items() if name != "image_nouns"})


def test_nouns_that_are_not_there_count_as_often_as_they_would_be_drawn() -> None:
    """Captions have the dog once, the cat twice, the sheep, animal and car once each. In the first image, with a
    dog, a cat would be drawn in 2 of 3 cases and a sheep in 1 of 3; not the animal, as a dog is one, nor the car, of
    another class. In the last, with a car alone, there is no other of its class."""
    nouns = ["dog", "cat", "sheep", "animal", "car"]
    has = np.array([[1, 0, 0, 0, 0], [0, 1, 1, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]], bool)
    found = Against(has, [kind_of(noun) for noun in nouns], related(nouns)).counts()
    assert found[0] == pytest.approx([1, 2 / 3, 1 / 3, 0, 0])
    assert found[1] == pytest.approx([2, 1, 1, 0, 0])  # two are there, so two dogs are drawn
    assert found[3] == pytest.approx([0, 0, 0, 1, 0]) and found[4] == pytest.approx([0, 0, 0, 0, 1])


def test_a_contrast_tells_nouns_of_one_class_apart() -> None:
    """x = 1 with a dog, −1 with a cat; y = 1 with an animal, −1 with a car alone. The contrast of the dog is of x: what
    tells animals from cars does not tell the dog from the cat, so y counts less than a third as much."""
    texts = parse(["a dog", "a cat", "a car"])
    kinds = [(0, 1.0, 1.0), (1, -1.0, 1.0), (2, 0.0, -1.0)]
    examples = [Example(f"{i}", "", (1, 1), captions=(texts[kinds[i % 3][0]],)) for i in range(90)]
    vectors = {one.id: torch.tensor([[*kinds[i % 3][1:], 0.0, 0.0]]) for i, one in enumerate(examples)}
    store: Any = SimpleNamespace(
        fingerprint=Fingerprint("photos", "2", 5, labels=("word:dog", "word:cat")),
        layout=SimpleNamespace(whole=4),
        path="regions",
        require=lambda ids: None,
        batch=lambda ids, limit: SimpleNamespace(whole=vectors[ids[0]]),
    )
    found = learn_contrast([(examples[:45], store), (examples[45:], store)], ("car",))
    assert found.others == ("car",) and len(found.mean) == 2 and not found.usual.any()
    middle, right, up = found(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))[:, 0]
    assert right - middle > 0.3 and abs(up - middle) < (right - middle) / 3
    store.fingerprint = Fingerprint("scenes", "1", 5, labels=("dog",))
    with pytest.raises(DataError, match="has no words of images"):
        learn_contrast([(examples, store)])


def test_a_contrast_is_fitted_for_any_phrase_and_not_for_nouns_of_captions() -> None:
    """c is 1 where a phrase is there and −1 where it is not, in phrases and in captioners' nouns alike; u tells
    nothing. So c has a coefficient above 1 of any phrase, and 0 of nouns of captions."""
    n = 400
    truth = np.arange(n) % 2.0
    seen = np.zeros((2, 3, 4))
    seen[:, 0], seen[0, 2], seen[1, 2] = 0.5, -1.0, 1.0
    answers = Answers(("dog",) * n, np.zeros(n), truth, truth.astype(np.int64), seen, np.ones(2, bool))
    model = fitted(answers, tuple(PRIOR), answers, nouns_of(0.0, 0.0), nouns_of(1.0, 0.0))
    assert model.words and model.words.weights[SAME][-1] > 1
    assert model.words.caption_weights[SAME][-1] == model.words.caption_weights[BROADER][-1] == 0
    assert {row[-1] for row in model.words.caption_kinds.values()} == {0.0}
    assert EvidenceModel.from_json(json.loads(json.dumps(model.to_json()))) == model


def test_captioners_that_err_with_rare_nouns_teach_that_of_captions_alone() -> None:
    """Any phrase: dogs and sheep are there as often as not, whatever p. Of captioners every dog is right, and no sheep:
    so a dog of a caption is likelier than any dog, a sheep less likely; broader kinds stay as they are."""
    draw = np.random.default_rng(0)
    n, seen = 400, np.tile([[[0.5, 0.1, 0.5, 0.5]]], (2, 1, 1))
    names = tuple(draw.choice(["dog", "sheep"], n).tolist())
    image, first = np.zeros(n, np.int64), np.ones(2, bool)
    any_phrase = Answers(names, np.zeros(n), draw.integers(0, 2, n).astype(float), image, seen, first)
    of_captions = replace(any_phrase, truth=np.array([float(name == "dog") for name in names]))
    model = fitted(any_phrase, tuple(PRIOR), of_captions)
    asked = ["dog", "sheep"], np.zeros(2), seen
    (dog, sheep), (said_dog, said_sheep) = model(*asked), model(*asked, in_caption=True)
    assert said_dog > dog + 0.1 and said_sheep < sheep - 0.1
    assert model.words and model.words.caption_weights[BROADER] == model.words.weights[BROADER]
    assert model.caption_not_there == pytest.approx(said_sheep) and model.not_there is not None
    assert fitted(any_phrase, tuple(PRIOR)).caption_not_there is None


def test_an_answer_may_count_several_times() -> None:
    """Twice the same answer, or once with a count of two."""
    x, truth = np.array([[1.0], [1.0]]), np.array([1.0, 0.0])
    again = logistic(np.array([[1.0], [1.0], [1.0]]), np.array([1.0, 1.0, 0.0]))
    assert logistic(x, truth, counts=np.array([2.0, 1.0])) == pytest.approx(again)


@pytest.mark.parametrize(
    ("noun", "concept"),
    [
        ("dog", Concept((0,), SAME)),
        ("Dogs", Concept((0,), SAME)),
        ("pants", Concept((3,), SAME)),  # as a tagger cuts it
        ("sofa", Concept((2,), SAME)),  # another word for a couch
        ("animal", Concept((0, 1), SAME)),  # its kinds
        ("spaniel", Concept((0,), BROADER)),
        ("theorem", None),
        ("oxen", None),
    ],
)
def test_a_noun_is_seen_as_itself_its_kinds_or_what_it_is_a_kind_of(noun: str, concept: Concept | None) -> None:
    assert WORDS.concept(noun) == concept


@pytest.mark.parametrize(("plural", "one"), [("men", "man"), ("teeth", "tooth"), ("leaves", "leaf")])
def test_an_irregular_plural_is_its_singular_first_of_all(plural: str, one: str) -> None:
    """WordNet also has "men", a workforce, and "teeth", all of them together; "leave" is a word of captions, too."""
    words = WordEvidence(dict.fromkeys(["group", "collection", "leave", one], 0.5), WORDS.weights)
    assert words.concept(plural) == Concept((3,), SAME)
    kind = {"man": "person", "tooth": "bone", "leaf": "plant_organ"}[one]
    assert WordEvidence(dict.fromkeys(["group", "collection", kind], 0.5), {}).concept(plural) == Concept((2,), BROADER)


@pytest.mark.parametrize(
    ("plural", "word", "kind"),
    [("cookies", "cookie", "food"), ("hands", "hand", "body parts"), ("pants", "pant", "clothing")],
)
def test_a_plural_is_of_the_class_of_its_word(plural: str, word: str, kind: str) -> None:
    """WordNet has an entry for each of these plurals: a cook, workers, clothes."""
    for classes in ((), (kind_of(word),)):
        found = WordEvidence({word: 0.5}, {}, classes=classes).concept(plural)
        assert found is not None and found.kind == kind


def test_nouns_that_are_no_words_of_the_source_are_learned_too() -> None:
    """x = 5: z = 2. A spaniel is seen as a dog, p = 1/2, with its own u = −2 and v = −1: σ(3 · (−2) + (−1)) = σ(−7).
    A theorem has no broader kind among the words: u = 4, v = −6: σ(1 + s + 4 − 6) = σ(−0.5). What neither knows is
    asked by similarity."""
    project, rows = np.ones((1, 1)), np.array([[0.5], [0], [0], [0], [-1.0], [2.0]])
    usual = [-2.0, 0, 0, 0, -1.0, -6.0]
    learned = ImageNouns.packed(
        np.ones(1), np.full(1, 2.0), project, rows, np.zeros(6), np.array(usual), ["spaniel", "theorem"]
    )
    weights = {SAME: (0.0,) * 6, BROADER: (0.0, 2.0, 0.0, 0.0, 3.0, 1.0), LEARNED: (1.0, 9.0, 9.0, 1.0, 1.0, 1.0)}
    words = replace(WORDS, weights=weights, image_nouns=learned, _concepts={})
    assert words.concept("spaniels") == Concept((0,), BROADER, 4)
    assert words.concept("theorems") == Concept((), LEARNED, 5)
    assert words.concept("dog") == Concept((0,), SAME)
    p = np.full(4, 0.5)
    whole = np.array([5.0, *(np.log(-np.log1p(-p)) - WORD_MEAN) / WORD_DEVIATION])
    model = EvidenceModel(LINE, words)
    found = model.of_image(["spaniel", "theorem", "blorp"], np.array([0.3, 0.5, 0.4]), whole)
    assert found == pytest.approx([1 / (1 + math.exp(7)), 1 / (1 + math.exp(0.5)), 0.4])
    read = EvidenceModel.from_json(json.loads(json.dumps(model.to_json())))
    assert read.of_image(["spaniel", "theorem", "blorp"], np.array([0.3, 0.5, 0.4]), whole) == found
    few = replace(words, weights={how: row for how, row in weights.items() if how != LEARNED})  # too few to fit on
    assert EvidenceModel(LINE, few).of_image(["theorem"], np.array([0.5]), whole) == [0.5]
    for others in (["spaniel", "spaniel"], ["spaniel"], 5):
        row = model.to_json()
        row["words"]["image_nouns"]["others"] = others
        with pytest.raises(DataError, match="not nouns of images"):
            EvidenceModel.from_json(row)
    alone = replace(words, caption_weights=few.weights)
    with pytest.raises(DataError, match="alone"):
        WordEvidence.from_json(alone.to_json())


def test_classes_of_nouns_have_coefficients_of_their_own() -> None:
    """Of dogs, p tells; of couches it does not, s does. So the same p = 0.9 and s = 0 raise the dog above the couch."""
    draw = np.random.default_rng(0)
    n = 2000
    names = tuple(draw.choice(["dog", "couch"], n).tolist())
    p, s = draw.choice([0.1, 0.9], n), draw.choice([0.0, 1.0], n)
    truth = np.where(np.array(names) == "dog", p > 0.5, s > 0.5) * 1.0
    seen = np.array([[[0.1] * 4], [[0.9] * 4]])
    answers = Answers(names, s, truth, (p > 0.5).astype(np.int64), seen, np.ones(2, bool))
    words = fitted(answers, tuple(PRIOR)).words
    assert words and words.kinds.keys() == {"animals", "furniture"}
    dog, couch = (words.concept(noun) for noun in ("dog", "couch"))
    assert dog and couch and (dog.kind, couch.kind) == ("animals", "furniture")
    assert words(dog, 0.0, seen[1]) > 0.9 and words(couch, 0.0, seen[1]) < 0.4
    assert words(dog, 1.0, seen[0]) < 0.4 and words(couch, 1.0, seen[0]) > 0.6
    assert words.to_json()["kinds"].keys() == words.kinds.keys() and WordEvidence.from_json(words.to_json()) == words
    without = WordEvidence.from_json({k: v for k, v in words.to_json().items() if k != "kinds"})
    equation = np.dot((1.0, math.log(9), math.log(words.prior["dog"]), 0.0), words.weights[SAME])
    assert without(dog, 0.0, seen[1]) == pytest.approx(1 / (1 + math.exp(-equation)))
    assert words.classes == ("animals", "animals", "furniture", "other")  # of PRIOR: WordNet need not be asked
    with pytest.raises(DataError, match="1 classes of 4 words"):
        WordEvidence.from_json(words.to_json() | {"classes": ["animals"]})
    with pytest.raises(DataError, match="4 finite numbers"):
        WordEvidence.from_json(words.to_json() | {"kinds": {"animals": [1.0]}})


def test_a_rare_noun_is_predicted_as_those_that_mean_the_like() -> None:
    """Dogs are in every second photo, where x = 1. Eight captions, four where x = 1 and four where it is not, have
    "spaniel", as many have "theorem": so what they have of their own is nothing, and only what is shared with the dog,
    whose meaning the spaniel has, tells them apart."""
    x = np.tile(np.array([[1.0], [-1.0]], np.float32), (60, 1))
    has = np.zeros((120, 3), bool)
    has[:, 0], has[:8, 1], has[8:16, 2] = x[:, 0] > 0, True, True
    meanings = np.array([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]], np.float32)
    found = learned(x, has, meanings, ["spaniel", "theorem"], rank=2, epochs=100)
    dog, spaniel, theorem = found(np.array([1.0])) - found(np.array([-1.0]))
    assert dog > 1 and spaniel > theorem + 0.2
    assert found.place == {"spaniel": 1, "theorem": 2}


def test_nouns_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "MOST_CONCEPTS", 3)
    words = replace(WORDS, _concepts={})
    assert [words.concept(noun) is None for noun in ("blorp", "snurf", "dog", "plim", "dog")] == [1, 1, 0, 1, 0]
    assert len(words._concepts) == 2


def test_the_likeliest_of_several_kinds_counts() -> None:
    model = EvidenceModel(LINE, WORDS)
    animal, sheep = model(["animal", "sheep"], np.zeros(2), np.repeat(likely(0.01, 0.8, 0.1, 0.1), 2, 0))
    assert animal == sheep


def test_it_is_kept_as_json_and_the_older_form_is_read(tmp_path: Path) -> None:
    model = EvidenceModel(LINE, WORDS, 0.2)
    form = CaptionForm(Linear(0.5, {"phrases": 1.0}), Linear(-1.0, {"grounding": 1.0, "meteor": 7.0}))
    weights = {SAME: (1.0, 0.0, 0.0, 0.0), BROADER: (0.0, 0.0, 0.0, 2.0)}
    model = replace(model, captions=form, words=replace(WORDS, caption_weights=weights), caption_not_there=0.1)
    (tmp_path / CALIBRATION).write_text(json.dumps({"format": 2} | model.to_json()))
    assert read_calibration(tmp_path) == model
    (tmp_path / CALIBRATION).write_text(json.dumps({"format": 1, "calibration": LINE.to_json()}))
    assert read_calibration(tmp_path) == EvidenceModel(LINE)


@pytest.mark.parametrize(
    "words",
    [
        {"prior": {}, "weights": {SAME: [0, 0, 0, 0], BROADER: [0, 0, 0, 0]}},
        {"prior": {"dog": 1.5}, "weights": {SAME: [0, 0, 0, 0], BROADER: [0, 0, 0, 0]}},
        {"prior": {"dog": 0.5}, "weights": {SAME: [0, 0, 0]}},
        {"prior": {"dog": 0.5}, "weights": {SAME: [0, 0, 0], BROADER: [0, 0, 0, 0]}},
        {"prior": {"dog": 0.5}, "weights": {SAME: [0, 0, 0, math.inf], BROADER: [0, 0, 0, 0]}},
        {"prior": {"dog": 0.5}, "weights": {SAME: [0] * 4, BROADER: [0] * 4}, "caption_weights": {SAME: [0] * 4}},
        {
            "prior": {"dog": 0.5},
            "weights": {SAME: [0] * 4, BROADER: [0] * 4},
            "caption_weights": {SAME: [0] * 4, BROADER: [0]},
        },
        {"prior": ["dog"], "weights": {}},
        None,
    ],
)
def test_other_words_are_refused(words: Any, tmp_path: Path) -> None:
    row = {"format": 2, "calibration": LINE.to_json(), "words": words}
    (tmp_path / CALIBRATION).write_text(json.dumps(row))
    with pytest.raises(DataError, match=r"is damaged; fit it again with `groundling ground --calibrate`"):
        read_calibration(tmp_path)


@pytest.mark.parametrize(
    "captions",
    [
        None,
        {"alone": {"bias": 0}},
        {"alone": {"bias": 0, "magic": 1}, "with_references": {"bias": 0}},
        {"alone": {"bias": math.inf}, "with_references": {"bias": 0}},
        {"alone": {"phrases": 1}, "with_references": {"bias": 0}},
        {"alone": [1], "with_references": {"bias": 0}},
    ],
)
def test_another_score_of_captions_is_refused(captions: Any, tmp_path: Path) -> None:
    row = {"format": 2, "calibration": LINE.to_json(), "captions": captions}
    (tmp_path / CALIBRATION).write_text(json.dumps(row))
    with pytest.raises(DataError, match="is damaged; fit it again"):
        read_calibration(tmp_path)


def test_a_linear_form_is_fitted_in_the_units_of_its_inputs() -> None:
    """logit P = 1 + 2 x / 100: the fit finds 0.02, though x is of the size of hundreds."""
    draw = np.random.default_rng(0)
    x = draw.normal(300, 100, 20000)
    truth = (draw.uniform(size=20000) < 1 / (1 + np.exp(5 - 0.02 * x))).astype(float)
    form = Linear.fitted([{"x": one} for one in x], truth, ["x"])
    assert form.weights["x"] == pytest.approx(0.02, rel=0.05) and form.bias == pytest.approx(-5, rel=0.05)
    assert form({"x": 250.0}) == pytest.approx(form.bias + 250 * form.weights["x"])


def test_the_fit_finds_that_the_word_tells_and_the_similarity_does_not() -> None:
    """Dogs are there as often as their probability says; similarity is noise. So b > 0, and a probability that is
    right but for the hedge: logit P = 0.9 logit p, π being constant."""
    draw = np.random.default_rng(0)
    p = draw.uniform(0.02, 0.98, 4000)
    words = np.concatenate([likely(x, 0.1) for x in p])
    truth = (draw.uniform(size=4000) < p).astype(float)
    answers = Answers(("dog",) * 4000, draw.normal(size=4000), truth, np.arange(4000), words, np.ones(4000, bool))
    model = fitted(answers, ("dog", "sheep"))
    assert model.words is not None
    assert model.words.weights[SAME][1] == pytest.approx(HEDGE, abs=0.1)
    assert model.words.weights[SAME][3] == pytest.approx(0, abs=0.1)
    assert answers.evidence(model) == pytest.approx(1 / (1 + (1 / p - 1) ** HEDGE), abs=0.05)
    below = answers.evidence(model)[truth > 0] < (model.not_there or 0)
    assert below.mean() == pytest.approx(0.05, abs=0.002)  # one in twenty of what is there


def test_nouns_that_the_source_does_not_know_are_fitted_on_their_own() -> None:
    """Dogs are there where their probability is high, and their similarity is then low; theorems where it is high."""
    draw = np.random.default_rng(0)
    truth = np.tile([1.0, 0.0], 400)
    nouns = ("dog",) * 400 + ("theorem",) * 400
    similarity = np.where(np.arange(800) < 400, -truth, truth) + draw.normal(0, 0.1, 800)
    words = np.concatenate([likely(0.9 if true else 0.1, 0.1) for true in truth])
    model = fitted(Answers(nouns, similarity, truth, np.arange(800), words, np.ones(800, bool)), ("dog", "sheep"))
    there, absent = model(["theorem"] * 2, np.array([1.0, 0.0]), words[:2])
    assert there > 0.9 and absent < 0.1


def test_captions_to_fit_on_are_those_of_the_images(tmp_path: Path) -> None:
    """By name, from several files; rows of other images and bad rows are passed over, a file without any is refused."""
    images: Any = [
        Example("1", "photos/one.jpg", (1, 1), captions=()),
        Example("2", "photos/two.jpg", (1, 1), captions=()),
    ]
    (tmp_path / "a.tsv").write_text("one.jpg\ta dog\nother.jpg\ta cat\nno tab\n")
    (tmp_path / "b.jsonl").write_text('{"id": "2", "caption": "a man"}\n')
    assert _captions_of([str(tmp_path / name) for name in ("a.tsv", "b.jsonl")], images) == [
        ("1", "a dog"),
        ("2", "a man"),
    ]
    assert _captions_of([], images) == []
    (tmp_path / "a.tsv").write_text("other.jpg\ta cat\n")
    with pytest.raises(DataError, match=r"a\.tsv: no caption of an image of the data set"):
        _captions_of([str(tmp_path / "a.tsv")], images)
