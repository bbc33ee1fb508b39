"""Fitting evidence on captions alone, and what captions alone tell of a grounder. No boxes are needed.

Present are the noun phrases of an image's captions. Absent is each of them with its noun replaced by another of the
same class of nouns (`noun_kinds`) and number, as often as captions of the images have it, that none of the image's
captions has, nor a kind of it, nor what it is a kind of. So one phrase in two is present, and the absent ones are those
that are hard to tell: mistakes of captioners name a plausible thing. The model is fitted on one half of the images and
tested on the other; the hash of an image's id decides which it is in.

Captions that captioners wrote of the images, where they are given, fit a second set of coefficients, for the nouns of
captions: a noun counts as present where a caption of the data set has it, a kind of it, or what it is a kind of. These
nouns and the phrases above count half each: of captioners alone one would learn that a rare word is never right.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groundling.data.dataset import Dataset
from groundling.errors import DataError
from groundling.files import MANIFEST, replace_files, saved
from groundling.inference.evidence import CALIBRATION, FORMAT, THRESHOLD
from groundling.inference.grounder import PhraseGrounder, best_similarity, load_grounder
from groundling.metrics.agreement import area_under_curve
from groundling.metrics.calibration import (
    BROADER,
    LEARNED,
    LOWEST,
    SAME,
    Bin,
    EvidenceModel,
    ImageNouns,
    WordEvidence,
    expected_calibration_error,
    isotonic,
    logistic,
    reliability,
)
from groundling.metrics.statistics import Array, signature
from groundling.regions.fingerprints import require, words_of
from groundling.regions.store import Store
from groundling.text import words as text_words
from groundling.text.absent_nouns import Noun, NounsOf
from groundling.text.annotate import annotate
from groundling.text.classes import NO_THING, head_noun
from groundling.text.noun_kinds import kind_of
from groundling.text.noun_phrases import joined
from groundling.text.wordnet import wordnet
from groundling.types import Example, Score

log = logging.getLogger(__name__)
SEPARATION = "separation"  # the name of the score
MISSED = 0.05  # share of the phrases that are there that an audit may call "not there": so `not_there` is chosen
FEWEST_UNKNOWN = 100  # phrases whose noun the source does not know, from which on they are fitted on their own
KIND_SCALE = (
    0.2  # what a class of nouns adds to the coefficients counts 1 / 0.2² times in the ridge: rare classes differ little
)
HEDGE = 0.9  # that logit P of the fit is multiplied by: other photos are less like those of the fit than its other half

Words = tuple[str, ...]


@dataclass(frozen=True)
class CaptionPhrase:
    """A noun phrase of a caption: its words, which of them is the head, the head, and its Penn tag."""

    words: Words
    head: int
    noun: Noun
    tag: str

    def with_noun(self, noun: Noun) -> CaptionPhrase:
        words = (*self.words[: self.head], noun.word, *self.words[self.head + 1 :])
        return CaptionPhrase(words, self.head, noun, self.tag)


@dataclass(frozen=True)
class Answers:
    """What a grounder answers for present and absent phrases of many images."""

    nouns: tuple[str, ...]  # P heads
    similarity: Array  # (P,) of the best region
    truth: Array  # (P,) 1 or 0
    image: NDArray[np.int64]  # (P,)
    seen: Array | None  # (B, 1 to 3, W), what the image vectors tell of words: `WordEvidence.seen`
    first: NDArray[np.bool_]  # (B,) is the image in the first half?

    def half(self, first: bool) -> Answers:
        kept = self.first[self.image] == first
        nouns = tuple(noun for noun, keep in zip(self.nouns, kept, strict=True) if keep)
        return replace(
            self, nouns=nouns, similarity=self.similarity[kept], truth=self.truth[kept], image=self.image[kept]
        )

    def evidence(self, model: EvidenceModel, *, in_caption: bool = False) -> Array:
        """(P,)"""
        seen = None if self.seen is None else self.seen[self.image]
        return np.array(model(self.nouns, self.similarity, seen, in_caption=in_caption))

    def separated(self, model: EvidenceModel, *, in_caption: bool = False) -> float:
        """How often a present phrase has more evidence than an absent one."""
        evidence = self.evidence(model, in_caption=in_caption)
        return area_under_curve(evidence[self.truth > 0], evidence[self.truth <= 0])


@dataclass(frozen=True)
class Calibration:
    """An evidence model, and how good it is on images that it was not fitted on."""

    model: EvidenceModel
    ece: float
    auc: float  # a present phrase has more evidence than an absent one
    curve: list[Bin]
    accuracy: float  # of "found", at the threshold
    fitted_on: int  # phrases, half of them absent
    tested_on: int
    caption_auc: float | None = None  # a noun of captioners that references bear out has more than another
    caption_nouns: int = 0  # nouns

    def to_json(self) -> dict[str, Any]:
        row = {name: value for name, value in asdict(self).items() if name != "model"}
        return {"format": FORMAT, "threshold": THRESHOLD, "share_present": 0.5, **self.model.to_json(), **row}

    def to_bytes(self) -> bytes:
        """The content of CALIBRATION."""
        return json.dumps(self.to_json(), indent=1).encode()


def calibrate(
    grounder: PhraseGrounder,
    examples: Dataset,
    store: Store,
    seed: int = 0,
    captions: Sequence[tuple[str, str]] = (),
    image_nouns: ImageNouns | None = None,
    contrast: ImageNouns | None = None,
) -> Calibration:
    """Fit on one half of the images, test on the other.

    captions: of captioners, with the ids of images. image_nouns: learned from other images; None: those that the
    grounder's calibration has, if it does. contrast: the same, of the same nouns.
    """
    require(store.fingerprint, grounder.model.fingerprint)
    store.require(example.id for example in examples)
    if image_nouns is None and grounder.calibration and grounder.calibration.words:
        image_nouns = grounder.calibration.words.image_nouns
        contrast = contrast or grounder.calibration.words.contrast
    answers = ask(grounder, examples, store, seed, image_nouns, contrast)
    fit, test = answers.half(True), answers.half(False)
    if not (len(fit.nouns) and len(test.nouns)):
        raise DataError(f"{len(examples)} images are too few to fit on one half and test on the other")
    if captions and answers.seen is None:
        log.warning("the captions were not used: these regions know no words")
    of_captions = (
        ask_captions(grounder, examples, store, captions, answers) if captions and answers.seen is not None else None
    )
    nouns = of_captions.half(True) if of_captions else None
    model = fitted(fit, words_of(store.fingerprint), nouns, image_nouns, contrast)
    evidence, truth = test.evidence(model), test.truth
    curve = reliability(evidence, truth)
    right = float(((evidence >= THRESHOLD) == (truth > 0)).mean())
    found = Calibration(
        model, expected_calibration_error(curve), test.separated(model), curve, right, len(fit.nouns), len(test.nouns)
    )
    if of_captions is None:
        return found
    others = of_captions.half(False)
    if not 0 < others.truth.sum() < len(others.truth):  # nothing to tell apart
        return found
    return replace(found, caption_auc=others.separated(model, in_caption=True), caption_nouns=len(others.nouns))


def fitted(
    answers: Answers,
    words: tuple[str, ...],
    of_captions: Answers | None = None,
    image_nouns: ImageNouns | None = None,
    contrast: ImageNouns | None = None,
) -> EvidenceModel:
    """The evidence model of these answers; `words` are those of the region source, if it has some; `of_captions`:
    answers for nouns of captioners; `image_nouns`, `contrast`: what made the second and third part of their `seen`."""
    model = EvidenceModel(isotonic(answers.similarity, answers.truth))
    if answers.seen is not None:
        known = _fitted_words(answers, words, image_nouns, contrast)
        concepts = [known.concept(noun) for noun in answers.nouns]
        unknown = np.array([one is None or one.how not in known.weights for one in concepts])
        if unknown.sum() >= FEWEST_UNKNOWN:  # similarity alone is asked of these, and they are not as others are
            model = EvidenceModel(isotonic(answers.similarity[unknown], answers.truth[unknown]))
        model = replace(model, words=known)
    there = answers.truth > 0
    model = replace(model, not_there=float(np.quantile(answers.evidence(model)[there], MISSED)))
    if model.words is None or of_captions is None or not len(of_captions.nouns):
        return model
    plain = model.words if contrast is None else _fitted_words(answers, words, image_nouns)
    of_nouns = _fitted_on_captions(answers, of_captions, plain)
    model = replace(model, words=_without_contrast(model.words, of_nouns) if contrast else of_nouns)
    return replace(model, caption_not_there=float(np.quantile(answers.evidence(model, in_caption=True)[there], MISSED)))


def _fitted_words(
    answers: Answers, words: tuple[str, ...], image_nouns: ImageNouns | None, contrast: ImageNouns | None = None
) -> WordEvidence:
    assert answers.seen is not None
    prior = answers.seen[answers.first, 0, : len(words)].mean(0).round(6).clip(LOWEST, 1 - LOWEST)
    classes = tuple(kind_of(word) for word in words)
    start = WordEvidence(
        dict(zip(words, prior.tolist(), strict=True)), {}, image_nouns=image_nouns, classes=classes, contrast=contrast
    )
    rows = _rows(answers, start)
    if not len(rows[SAME].truth):
        raise DataError("the captions have none of the words that the region source knows")
    if len(rows[LEARNED].truth) < FEWEST_UNKNOWN:
        del rows[LEARNED]  # they are asked by similarity alone
    same, kinds = _by_kind(rows[SAME])
    others = {how: logistic(some.inputs, some.truth) for how, some in rows.items() if how != SAME and len(some.truth)}
    weights = {how: _hedged(others.get(how, same)) for how in rows}
    return replace(start, weights=weights, kinds={kind: _hedged(row) for kind, row in kinds.items()})


def _fitted_on_captions(answers: Answers, of_captions: Answers, words: WordEvidence) -> WordEvidence:
    """With coefficients for nouns of captions: of phrases and of captioners' nouns, which count as much together. Where
    the source does not know the noun, those of any phrase: captioners say too few such nouns."""
    phrases, nouns = _rows(answers, words)[SAME], _rows(of_captions, words)[SAME]
    if not len(nouns.truth):
        return words
    n, m = len(phrases.truth), len(nouns.truth)
    both = Rows(
        np.concatenate([phrases.inputs, nouns.inputs]),
        np.concatenate([phrases.truth, nouns.truth]),
        phrases.kinds + nouns.kinds,
    )
    same, kinds = _by_kind(both, np.concatenate([np.ones(n), np.full(m, n / m)]))
    return replace(
        words,
        caption_weights={**words.weights, SAME: _hedged(same)},
        caption_kinds={kind: _hedged(row) for kind, row in kinds.items()},
    )


def _without_contrast(words: WordEvidence, of_nouns: WordEvidence) -> WordEvidence:
    """With the coefficients for nouns of captions that were fitted without a contrast: that of k is 0. It tells nouns
    that were replaced by chance, not those that captioners say by mistake."""
    weights, kinds = (
        {name: (*row, 0.0) for name, row in some.items()} for some in (of_nouns.caption_weights, of_nouns.caption_kinds)
    )
    return replace(words, caption_weights=weights, caption_kinds=kinds)


def _hedged(weights: Array) -> tuple[float, ...]:
    return tuple((HEDGE * weights).tolist())


@dataclass(frozen=True)
class Rows:
    """Nouns in images: inputs of the equation (n, k), truth (n,), and the class of each noun."""

    inputs: Array
    truth: Array
    kinds: list[str]


def _by_kind(rows: Rows, counts: Array | float = 1.0) -> tuple[Array, dict[str, Array]]:
    """Coefficients that all classes of nouns share, and those of each: these and what the class adds, by one logistic
    regression of inputs x and KIND_SCALE x of the class."""
    names = sorted(set(rows.kinds))
    own = [rows.inputs * (KIND_SCALE * (np.array(rows.kinds) == name))[:, None] for name in names]
    shared, *added = logistic(np.hstack([rows.inputs, *own]), rows.truth, counts=counts).reshape(1 + len(names), -1)
    return shared, {name: shared + KIND_SCALE * one for name, one in zip(names, added, strict=True)}


def _rows(answers: Answers, words: WordEvidence) -> dict[str, Rows]:
    """Inputs, truth and classes of the nouns that somebody knows, by how."""
    assert answers.seen is not None
    rows: dict[str, list[tuple[tuple[float, ...], float, str]]] = {SAME: [], BROADER: [], LEARNED: []}
    for noun, s, true, image in zip(answers.nouns, answers.similarity, answers.truth, answers.image, strict=True):
        if concept := words.concept(noun):
            inputs = words.inputs(concept, float(s), answers.seen[image])
            rows[concept.how].append((inputs, float(true), concept.kind))
    return {
        how: Rows(
            np.array([x for x, _, _ in some]), np.array([true for _, true, _ in some]), [kind for *_, kind in some]
        )
        for how, some in rows.items()
    }


# ---------------------------------------------------------------- what is asked


def ask(
    grounder: PhraseGrounder,
    examples: Dataset,
    store: Store,
    seed: int,
    image_nouns: ImageNouns | None = None,
    contrast: ImageNouns | None = None,
) -> Answers:
    """Present and absent phrases of every image, and what the grounder makes of them."""
    draw = Random(seed)
    phrases = [list(_phrases(example)) for example in examples]
    pool: dict[tuple[str, str], list[Noun]] = {}
    for one in (one for of_image in phrases for one in of_image):
        pool.setdefault((kind_of(one.noun.lemma), one.tag), []).append(one.noun)
    every = [noun for nouns in pool.values() for noun in nouns]
    nouns: list[str] = []
    similarity: list[float] = []
    truth: list[float] = []
    image: list[int] = []
    seen: list[Array] = []
    prior = dict.fromkeys(words_of(store.fingerprint), 0.5)
    words = WordEvidence(prior, {}, image_nouns=image_nouns, contrast=contrast)
    for at, (example, present) in enumerate(zip(examples, phrases, strict=True)):
        regions, pairs = store[example.id], list(_pairs(example, present, pool, every, draw))
        if words.prior and regions.whole is not None:
            seen.append(words.seen(regions.whole[0].cpu().numpy()))
        if pairs:
            asked = [one for pair in pairs for one in pair]
            similarity += best_similarity(grounder.rank(regions, [one.words for one in asked]).similarity).tolist()
            nouns += [one.noun.word for one in asked]
            truth += [1.0, 0.0] * len(pairs)
            image += [at] * len(asked)
    return Answers(
        tuple(nouns),
        np.array(similarity, float),
        np.array(truth),
        np.array(image, np.int64),
        np.stack(seen) if seen else None,
        np.array([in_first_half(example.id) for example in examples], bool),
    )


def ask_captions(
    grounder: PhraseGrounder, examples: Dataset, store: Store, captions: Sequence[tuple[str, str]], answers: Answers
) -> Answers:
    """The nouns of captions that captioners wrote of the images. `answers` are those for their phrases."""
    at = {example.id: i for i, example in enumerate(examples)}
    kept = [(at[id], text) for id, text in captions if id in at]
    parsed = annotate([text_words.caption(text) for _, text in kept])
    nouns: list[str] = []
    similarity: list[float] = []
    truth: list[float] = []
    image: list[int] = []
    for (i, _), caption in zip(kept, parsed, strict=True):
        references = NounsOf(examples[i].captions)
        asked = [one for one in _phrases(replace(examples[i], captions=(caption,))) if one.noun.lemma not in NO_THING]
        if asked:
            ranking = grounder.rank(store[examples[i].id], [one.words for one in asked])
            similarity += best_similarity(ranking.similarity).tolist()
            nouns += [one.noun.word for one in asked]
            truth += [float(not references.lack(one.noun)) for one in asked]
            image += [i] * len(asked)
    return replace(
        answers,
        nouns=tuple(nouns),
        similarity=np.array(similarity, float),
        truth=np.array(truth),
        image=np.array(image, np.int64),
    )


def _phrases(example: Example) -> Iterator[CaptionPhrase]:
    """The different noun phrases of an image whose head WordNet knows."""
    seen: set[Words] = set()
    for caption in example.captions:
        for start, end in joined(caption):
            head, words = head_noun(caption, (start, end)), caption.tokens[start:end]
            synset = wordnet().synset(caption.lemmas[head]) if head >= 0 and words not in seen else None
            if synset is not None:
                seen.add(words)
                noun = Noun(caption.tokens[head], caption.lemmas[head], synset)
                yield CaptionPhrase(words, head - start, noun, caption.tags[head])


def _pairs(
    example: Example,
    present: list[CaptionPhrase],
    pool: dict[tuple[str, str], list[Noun]],
    every: list[Noun],
    draw: Random,
) -> Iterator[tuple[CaptionPhrase, CaptionPhrase]]:
    """Each phrase, and the same with a noun that is not there: of its kind, else, where there is none, any."""
    nouns = NounsOf(example.captions)
    for one in present:
        same_kind = pool[kind_of(one.noun.lemma), one.tag]
        if other := nouns.other(same_kind, draw) or nouns.other(every, draw):
            yield one, one.with_noun(other)


def in_first_half(id: str) -> bool:
    """Is an image among those that calibrations are fitted on? A hash of its id decides; the others test them."""
    return blake2b(id.encode(), digest_size=1).digest()[0] % 2 == 0


# ---------------------------------------------------------------- beside a grounder


def calibrate_run(folder: Path, held_out: Dataset, store: Store, device: str = "cpu") -> Calibration | None:
    """Fit the evidence of the grounder in a run folder on images that it was not trained on, and keep it there.

    None, and the reason is logged, where they are too few; its evidence is then unknown.
    """
    try:
        found = calibrate(load_grounder(folder, device), held_out, store)
    except DataError as error:
        log.warning("evidence is not calibrated: %s; `groundling ground --calibrate` fits it on more", error)
        return None
    keep_calibration(folder / CALIBRATION, found.to_bytes())
    return found


def keep_calibration(path: Path, content: bytes) -> None:
    """Leave it beside a model. The manifest vouches for it too, if there is one that vouches for the model."""
    if (path.parent / MANIFEST).exists():
        replace_files(path.parent, {path.name: content})
    else:
        with saved(path) as file:
            file.write(content)


def separation(grounder: PhraseGrounder, examples: Dataset, store: Store, seed: int = 0) -> Score:
    """How often a phrase of an image's captions fits the image better than one whose noun is not there.

    Of all pairs of one present and one absent phrase, by similarity (area under the ROC curve); 0.5 is chance.
    """
    answers = ask(grounder, examples, store, seed)
    scores, truth = answers.similarity, answers.truth
    if not 0 < truth.sum() < len(truth):
        raise DataError(f"{len(examples)} images are too few to compare their phrases with those of others")
    about = signature(SEPARATION, phrases="captions", split=examples[0].split)
    return Score(SEPARATION, area_under_curve(scores[truth > 0], scores[truth <= 0]), len(truth), about)
