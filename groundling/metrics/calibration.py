"""Calibrated probabilities: isotonic and logistic regression fit them, reliability and ECE measure how well.

Evidence is the probability that a noun phrase is in an image at all. A region source that was taught by captions gives
p_w, how likely each of its words w is a word of the image. With s, the similarity of the grounder's best region to the
phrase, and π_w, the mean of p_w over the photos of the fit,

    logit P = a + b logit p_w + c log π_w + d s [+ e u_w + f v_w [+ g k_w]]

w is the noun, a synonym, or its likeliest narrower kind ("same"), else its nearest broader kind ("broader"), with
coefficients of both. The last two are there where nouns of images were learned (`ImageNouns`): v_w are the
log-odds of the noun w in captions of photos, u_w is how much the image vector raises them. They may be learned of more
nouns than the source has words: then u and v are of the noun itself, and where the source knows no broader kind either,
it has coefficients of its own ("learned"), with b = c = 0. k_w, where it was learned, too (`WordEvidence.contrast`), is
how much the image vector speaks for the noun w against other nouns of its class.

Where nobody knows the noun, or the source has no words at all, P is a rising function of s alone. So P is asked of any
phrase, which is as likely there as not whatever its noun. What a captioner says is not: its frequent nouns are right
more often than its rare ones. For the nouns of captions there is a second set of coefficients (`caption_weights`).
Both are of a class of nouns (people, clothing, ...) where it is the "same" and they were fitted so (`kinds`).
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groundling.errors import DataError
from groundling.metrics.statistics import Array
from groundling.text.noun_kinds import OTHER, kind_of
from groundling.text.wordnet import wordnet
from groundling.types import WORD_DEVIATION, WORD_MEAN

BINS = 10
SAME, BROADER, LEARNED = "same", "broader", "learned"
KINDS = 4  # broader kinds that are tried, nearest first
INPUTS = 4  # 1, logit p, log π, s; two more where there are ImageNouns: u, v; one more with a contrast
MOST_CONCEPTS = 50_000  # nouns that are remembered, so that texts of any length take a bounded memory
FARTHEST = 6.0  # deviations from its mean that a number of an image vector is taken to be away at most
LARGE = 1e4  # no number of `ImageNouns` is as large, so that none of its sums is infinite
CAPTION_INPUTS = ("phrases", "words", "mentioned")  # of a caption in an image
REFERENCE_INPUTS = ("grounding", "meteor", "shared")
LOWEST = 1e-6  # probability that a word has at least, and lacks to 1


@dataclass(frozen=True)
class Bin:
    """Answers of probability `low` to `high`: how many, their mean probability, and the share that is right."""

    low: float
    high: float
    n: int
    predicted: float
    true: float


@dataclass(frozen=True)
class Isotonic:
    """A function that never falls, from any score to a probability; linear between its knots, constant beyond them."""

    x: tuple[float, ...]
    p: tuple[float, ...]

    def __call__(self, scores: Array) -> Array:
        return np.asarray(np.interp(scores, self.x, self.p))

    def to_json(self) -> dict[str, list[float]]:
        return {"x": list(self.x), "p": list(self.p)}

    @staticmethod
    def from_json(row: Mapping[str, Any]) -> Isotonic:
        """The inverse of `to_json`; DataError for anything that is no such function."""
        try:
            x, p = np.array(row["x"], float), np.array(row["p"], float)
            sound = x.shape == p.shape == (len(x),) and len(x) > 0 and (np.diff(x) >= 0).all() and np.isfinite(x).all()
            sound = sound and (np.diff(p) >= 0).all() and p[0] >= 0 and p[-1] <= 1
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            raise DataError(f"not a calibration: {type(error).__name__}: {error}") from error
        if not sound:
            raise DataError("not a calibration: x and p must be lists of one length that never fall, p from 0 to 1")
        return Isotonic(tuple(x.tolist()), tuple(p.tolist()))


def isotonic(scores: Array, truth: Array) -> Isotonic:
    """The rising step function with the least squared error to `truth` (0 or 1): pool adjacent violators.

    Each level becomes a knot at the mean score of its members. The lowest level, if nothing in it is true, is
    1 / (n + 2) with n members, and the highest likewise below 1, as few members make nothing certain; but neither
    passes the level beside it.
    """
    if len(scores) == 0:
        raise ValueError("there is nothing to calibrate with")
    order = np.argsort(scores, kind="stable")
    levels: list[list[float]] = []  # members, sum of truth, sum of scores
    for score, true in zip(scores[order].tolist(), truth[order].tolist(), strict=True):
        levels.append([1.0, true, score])
        while len(levels) > 1 and levels[-2][1] * levels[-1][0] >= levels[-1][1] * levels[-2][0]:
            last = levels.pop()
            levels[-1] = [a + b for a, b in zip(levels[-1], last, strict=True)]
    n, true, total = np.array(levels).T
    p = true / n
    least, most = 1 / (n[0] + 2), (n[-1] + 1) / (n[-1] + 2)
    p[0] = max(p[0], min([least, *p[1:2]]))
    p[-1] = min(p[-1], max([most, *p[-2:-1]]))
    return Isotonic(tuple((total / n).tolist()), tuple(p.tolist()))


def sigmoid(x: Array) -> Array:
    """1 / (1 + e^−x), without overflow."""
    e = np.exp(-np.abs(x))
    return np.asarray(np.where(np.asarray(x) >= 0, 1, e) / (1 + e))


def logit(p: Array) -> Array:
    """log p / (1 − p), of probabilities that are brought to LOWEST and 1 − LOWEST at most."""
    kept = np.clip(p, LOWEST, 1 - LOWEST)
    return np.asarray(np.log(kept / (1 - kept)))


def logistic(inputs: Array, truth: Array, ridge: float = 1.0, steps: int = 50, counts: Array | float = 1.0) -> Array:
    """The w that minimises  −Σ_i n_i log P(truth_i) + ridge/2 |w|²,  P(1) = σ(x_i · w): Newton's method.

    inputs: (n, k), a column of ones among them; truth: (n,), 0, 1 or between: then the cross-entropy of both; counts:
    n_i, how often each counts.
    """
    if len(inputs) == 0:
        raise ValueError("there is nothing to calibrate with")
    weights = np.zeros(inputs.shape[1])
    for _ in range(steps):
        p = sigmoid(inputs @ weights)
        gradient = inputs.T @ (counts * (p - truth)) + ridge * weights
        curvature = (inputs * (counts * p * (1 - p))[:, None]).T @ inputs + ridge * np.eye(inputs.shape[1])
        step = np.linalg.solve(curvature, gradient)
        weights = weights - step
        if np.abs(step).max() < 1e-10:
            break
    return weights


def reliability(probability: Array, truth: Array, bins: int = BINS) -> list[Bin]:
    """Bins of equal width that hold any answer."""
    bin_of = np.minimum((probability * bins).astype(int), bins - 1)
    held = [(b, bin_of == b) for b in range(bins) if (bin_of == b).any()]
    return [
        Bin(b / bins, (b + 1) / bins, int(m.sum()), float(probability[m].mean()), float(truth[m].mean()))
        for b, m in held
    ]


def expected_calibration_error(curve: list[Bin]) -> float:
    """Σ_b (n_b / n) |predicted_b − true_b|"""
    total = sum(b.n for b in curve)
    return sum(b.n * abs(b.predicted - b.true) for b in curve) / max(1, total)


# ---------------------------------------------------------------- evidence


@dataclass(frozen=True)
class Concept:
    """The words that stand for a noun, as places among the words of a source, and how."""

    words: tuple[int, ...]  # none where it is LEARNED
    how: str  # SAME, BROADER or LEARNED
    own: int | None = None  # the place of the noun itself among those of `ImageNouns`, where it is not the SAME
    kind: str = field(default="", compare=False)  # the class of the noun


@dataclass(frozen=True, eq=False)
class ImageNouns:
    """How much an image raises the log-odds of each of W words, as nouns, and of X other nouns, by D numbers of its
    vector, K = W + X:

        u = offset + words · project · z        z = (x − mean) / deviation, from −FARTHEST to FARTHEST

    The two matrices are kept in 8 bits, each row with a scale. `inference.image_nouns` learns it from captions.
    """

    mean: NDArray[np.float32]  # (D,)
    deviation: NDArray[np.float32]  # (D,)
    project: NDArray[np.int8]  # (r, D)
    project_scale: NDArray[np.float32]  # (r,)
    words: NDArray[np.int8]  # (K, r)
    words_scale: NDArray[np.float32]  # (K,)
    offset: NDArray[np.float32]  # (K,)
    usual: NDArray[np.float32]  # (K,) v, the log-odds of the noun in captions of any photo
    others: tuple[str, ...] = ()  # the X nouns that are no words of the source

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ImageNouns) and self.to_json() == other.to_json()

    def __call__(self, whole: NDArray[Any]) -> Array:
        """(…, G) -> (…, K): u, of image vectors whose first numbers are x."""
        if whole.shape[-1] < len(self.mean):
            raise DataError(f"nouns of images were learned from {len(self.mean)} numbers, these have {whole.shape[-1]}")
        z = np.clip((whole[..., : len(self.mean)] - self.mean) / self.deviation, -FARTHEST, FARTHEST)
        project, words = self._matrices
        return np.asarray(z @ project @ words + self.offset, np.float64)

    @cached_property
    def _matrices(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return (self.project * self.project_scale[:, None]).T, (self.words * self.words_scale[:, None]).T

    @staticmethod
    def packed(
        mean: NDArray[Any],
        deviation: NDArray[Any],
        project: NDArray[Any],
        words: NDArray[Any],
        offset: NDArray[Any],
        usual: NDArray[Any],
        others: Sequence[str] = (),
    ) -> ImageNouns:
        """Of matrices of any numbers: each row is scaled so that its largest number is 127."""
        scales = [np.maximum(np.abs(one).max(1), 1e-12).astype(np.float32) / 127 for one in (project, words)]
        project, words = (
            np.rint(one / scale[:, None]).astype(np.int8) for one, scale in zip((project, words), scales, strict=True)
        )
        mean, deviation, offset, usual = (np.asarray(one, np.float32) for one in (mean, deviation, offset, usual))
        return ImageNouns(mean, deviation, project, scales[0], words, scales[1], offset, usual, tuple(others))

    @cached_property
    def place(self) -> dict[str, int]:
        """Of the X nouns among all."""
        return {noun: i for i, noun in enumerate(self.others, len(self.words) - len(self.others))}

    def to_json(self) -> dict[str, Any]:
        arrays = {name: b64encode(getattr(self, name).tobytes()).decode() for name in ARRAYS}
        return arrays | ({"others": list(self.others)} if self.others else {})

    @staticmethod
    def from_json(row: Mapping[str, Any], count: int) -> ImageNouns:
        """The inverse of `to_json`, of `count` words; DataError for anything else."""
        try:
            others = tuple(str(noun) for noun in row.get("others", ()))
            count += len(others)
            kept = {
                name: np.frombuffer(b64decode(row[name], validate=True), np.int8 if name in MATRICES else "<f4")
                for name in ARRAYS
            }
            kept["project"] = kept["project"].reshape(len(kept["project_scale"]), len(kept["mean"]))
            kept["words"] = kept["words"].reshape(count, len(kept["project_scale"]))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError(f"not nouns of images: {type(error).__name__}: {error}") from error
        of_words = len(kept["words_scale"]) == len(kept["offset"]) == len(kept["usual"]) == count
        sound = all((np.abs(one.astype(np.float32)) < LARGE).all() for one in kept.values())
        sound = sound and bool((kept["deviation"] > 1 / LARGE).all())
        sound = sound and len(set(others)) == len(others)
        if not (of_words and sound and kept["deviation"].shape == kept["mean"].shape):
            raise DataError(
                f"not nouns of images: numbers below {LARGE:g} of equal shapes are expected, each deviation above 0"
            )
        return ImageNouns(**kept, others=others)


MATRICES = ("project", "words")  # of `ImageNouns`
ARRAYS = tuple(one.name for one in fields(ImageNouns) if one.name != "others")


@dataclass(frozen=True)
class WordEvidence:
    """Coefficients of the equation above, and π of every word of the source."""

    prior: Mapping[str, float]  # word -> π
    weights: Mapping[str, tuple[float, ...]]  # SAME, BROADER -> a, b, c, d, and e, f with `image_nouns`, and g with
    # `contrast`; LEARNED, if so
    caption_weights: Mapping[str, tuple[float, ...]] = field(
        default_factory=dict
    )  # the same for nouns of captions, if fitted
    image_nouns: ImageNouns | None = None  # of the same words; None: nobody learned them
    kinds: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # class of nouns -> its weights of SAME
    caption_kinds: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # the same for nouns of captions
    classes: tuple[str, ...] = ()  # of nouns, of each word; none: WordNet is asked
    contrast: ImageNouns | None = (
        None  # of the nouns of `image_nouns`, each against those of its class; None: not learned
    )
    _concepts: dict[str, Concept | None] = field(default_factory=dict, compare=False, repr=False)

    def to_json(self) -> dict[str, Any]:
        row: dict[str, Any] = {"prior": dict(self.prior)}
        for name in ("weights", "caption_weights", "kinds", "caption_kinds"):
            if some := getattr(self, name):
                row[name] = {key: list(one) for key, one in some.items()}
        row |= {"classes": list(self.classes)} if self.classes else {}
        learned = {"image_nouns": self.image_nouns, "contrast": self.contrast}
        return row | {name: one.to_json() for name, one in learned.items() if one}

    @staticmethod
    def from_json(row: Mapping[str, Any]) -> WordEvidence:
        """The inverse of `to_json`; DataError for anything else."""
        try:
            prior = {str(word): float(p) for word, p in row["prior"].items()}
            weights, caption_weights = (
                {how: tuple(float(x) for x in some[how]) for how in (SAME, BROADER, *({LEARNED} & some.keys()))}
                if some is not None
                else {}
                for some in (row["weights"], row.get("caption_weights"))
            )
            kinds, caption_kinds = (
                {str(kind): tuple(float(x) for x in one) for kind, one in row.get(name, {}).items()}
                for name in ("kinds", "caption_kinds")
            )
            classes = tuple(str(kind) for kind in row.get("classes", ()))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise DataError(f"not word evidence: {type(error).__name__}: {error}") from error
        if len(classes) not in (0, len(prior)):
            raise DataError(f"not word evidence: {len(classes)} classes of {len(prior)} words")
        if not (prior and all(0 < p < 1 for p in prior.values())):
            raise DataError("not word evidence: each prior is between 0 and 1, and there is at least one")
        image_nouns, contrast = (
            None if (learned := row.get(name)) is None else ImageNouns.from_json(learned, len(prior))
            for name in ("image_nouns", "contrast")
        )
        if contrast and (image_nouns is None or contrast.others != image_nouns.others):
            raise DataError("not word evidence: the contrast is of other nouns than those of images")
        count = INPUTS + 2 * (image_nouns is not None) + (contrast is not None)
        every = (one for some in (weights, caption_weights, kinds, caption_kinds) for one in some.values())
        if any(len(one) != count or not np.isfinite(one).all() for one in every):
            raise DataError(f"not word evidence: weights are {count} finite numbers for each of {SAME}, {BROADER}")
        if caption_weights and caption_weights.keys() != weights.keys():
            raise DataError(f"not word evidence: {LEARNED} is among the weights of captions, or of phrases, alone")
        return WordEvidence(prior, weights, caption_weights, image_nouns, kinds, caption_kinds, classes, contrast)

    @cached_property
    def _index(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.prior)}

    @cached_property
    def _log_prior(self) -> Array:
        return np.asarray(np.log(list(self.prior.values())))

    @cached_property
    def _below(self) -> dict[int, list[int]]:
        """Synset -> the words that are kinds of it, themselves included."""
        net, below = wordnet(), dict[int, list[int]]()
        for word, i in self._index.items():
            for kind in net.kinds(synset) if (synset := net.synset(word)) is not None else ():
                below.setdefault(kind, []).append(i)
        return below

    def concept(self, noun: str) -> Concept | None:
        """What stands for a noun; None where the source knows neither it nor a kind near it, and nobody learned it."""
        if noun not in self._concepts:
            if len(self._concepts) >= MOST_CONCEPTS:
                self._concepts.clear()
            self._concepts[noun] = self._find(noun.lower())
        return self._concepts[noun]

    def _kind(self, word: str, noun: str) -> str:
        """The class of a word of the source that stands for a noun, or of the noun where the word has none.

        WordNet knows cookies as cooks, too, and no clothes that are called a pant.
        """
        kind = self.classes[self._index[word]] if self.classes else kind_of(word)
        return kind_of(noun) if kind == OTHER else kind

    def _find(self, noun: str) -> Concept | None:
        if noun in self._index and self.classes:
            return Concept((self._index[noun],), SAME, kind=self.classes[self._index[noun]])
        one = wordnet().singular(noun)  # "men" are each a man: WordNet knows them as a workforce, too
        forms = (noun, one, noun.removesuffix("s"), noun.removesuffix("es"))  # as taggers cut them
        if own := next((form for form in forms if form in self._index), None) or self._base(noun):
            return Concept((self._index[own],), SAME, kind=self._kind(own, one))
        learned = self.image_nouns.place if self.image_nouns else {}
        place = next((learned[form] for form in (*forms, wordnet().base(one)) if form in learned), None)
        alone = None if place is None else Concept((), LEARNED, place)
        synset = wordnet().synset(one)
        if synset is None:
            return alone
        if below := self._below.get(synset):
            return Concept(tuple(below), SAME, kind=kind_of(one))
        kinds = [kind for kind, _ in zip(wordnet().kinds(synset), range(KINDS + 1), strict=False)]
        above = (self._meaning(kind) for kind in kinds[1:])
        return next((Concept(words, BROADER, place) for words in above if words), alone)

    def _base(self, noun: str) -> str | None:
        base = wordnet().base(noun)
        return base if base in self._index else None

    def _meaning(self, synset: int) -> tuple[int, ...]:
        """The words that mean this first of all."""
        net = wordnet()
        return tuple(self._index[w] for w in net.lemmas(synset) if w in self._index and net.synset(w) == synset)

    def seen(self, whole: NDArray[Any]) -> Array:
        """What image vectors tell of words: (…, G) -> (…, 1, W), p; where `image_nouns` was learned (…, 2, K), p and u,
        p being 0 of the nouns that are no words of the source; where `contrast` was, too, (…, 3, K), with k."""
        p = image_word_probabilities(whole, len(self.prior))
        if self.image_nouns is None:
            return p[..., None, :]
        told = [one(whole) for one in (self.image_nouns, self.contrast) if one is not None]
        return np.stack([np.concatenate([p, np.zeros_like(told[0][..., p.shape[-1] :])], -1), *told], -2)

    def inputs(self, concept: Concept, similarity: float, seen: Array) -> tuple[float, ...]:
        """1, logit p, log π, s, and where they are known u and v, c, of a noun in an image of which `seen` tells."""
        best = max(concept.words, key=lambda word: seen[0, word], default=None)
        known = (0.0, 0.0) if best is None else (float(logit(seen[0, best])), float(self._log_prior[best]))
        own = best if concept.own is None else concept.own
        if self.image_nouns is None or own is None:
            return 1.0, *known, similarity
        of_image = 1.0, *known, similarity, float(seen[1, own]), float(self.image_nouns.usual[own])
        return of_image if self.contrast is None else (*of_image, float(seen[2, own]))

    def __call__(self, concept: Concept, similarity: float, seen: Array, in_caption: bool = False) -> float:
        """`in_caption`: of a noun of a caption, if that was fitted."""
        of_captions = in_caption and bool(self.caption_weights)
        weights = (self.caption_weights if of_captions else self.weights)[concept.how]
        if concept.how == SAME:
            weights = (self.caption_kinds if of_captions else self.kinds).get(concept.kind, weights)
        return float(sigmoid(np.dot(self.inputs(concept, similarity, seen), weights)))


@dataclass(frozen=True)
class Linear:
    """x -> bias + Σ_i w_i x_i, the inputs known by their names."""

    bias: float
    weights: Mapping[str, float]

    def __call__(self, inputs: Mapping[str, float]) -> float:
        return self.bias + sum(weight * inputs[name] for name, weight in self.weights.items())

    def to_json(self) -> dict[str, float]:
        return {"bias": self.bias, **self.weights}

    @staticmethod
    def from_json(row: Mapping[str, Any], names: Collection[str]) -> Linear:
        """The inverse of `to_json`; DataError for anything else, also for an input that is not among `names`."""
        try:
            values = {str(name): float(value) for name, value in row.items()}
            found = Linear(values.pop("bias"), values)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise DataError(f"not a score of captions: {type(error).__name__}: {error}") from error
        if not (values.keys() <= set(names) and np.isfinite([found.bias, *values.values()]).all()):
            raise DataError(f"not a score of captions: finite numbers of {', '.join(sorted(names))} are expected")
        return found

    @staticmethod
    def fitted(inputs: Sequence[Mapping[str, float]], truth: Array, names: Sequence[str]) -> Linear:
        """By logistic regression, logit P = bias + Σ_i w_i x_i, of inputs brought to mean 0 and deviation 1; truth is
        from 0 to 1."""
        rows = np.array([[row[name] for name in names] for row in inputs])
        mean, deviation = rows.mean(0), rows.std(0) + 1e-9
        bias, *weights = logistic(np.column_stack([np.ones(len(rows)), (rows - mean) / deviation]), truth)
        scaled = np.array(weights) / deviation
        return Linear(float(bias - scaled @ mean), dict(zip(names, scaled.tolist(), strict=True)))


@dataclass(frozen=True)
class CaptionForm:
    """How a number is made for a whole caption: see `evaluation.caption_score`."""

    alone: Linear
    with_references: Linear

    def to_json(self) -> dict[str, Any]:
        return {"alone": self.alone.to_json(), "with_references": self.with_references.to_json()}

    @staticmethod
    def from_json(row: Mapping[str, Any]) -> CaptionForm:
        """The inverse of `to_json`."""
        return CaptionForm(
            Linear.from_json(row["alone"], CAPTION_INPUTS), Linear.from_json(row["with_references"], REFERENCE_INPUTS)
        )


def image_word_probabilities(whole: NDArray[Any], count: int) -> Array:
    """(…, G) -> (…, count): how likely each word of the region source is in an image, by the last numbers of the image
    vector, which are log(−log(1 − p)), scaled."""
    scaled = whole[..., whole.shape[-1] - count :].astype(np.float64)
    return np.asarray(-np.expm1(-np.exp(scaled * WORD_DEVIATION + WORD_MEAN)))


@dataclass(frozen=True)
class EvidenceModel:
    """From nouns, similarities and image vectors to probabilities; kept beside a grounder."""

    similarity: Isotonic  # where no word is known
    words: WordEvidence | None = None
    not_there: float | None = None  # evidence below which a phrase is "not there"; None: nobody fitted it
    caption_not_there: float | None = None  # the same of a noun of a caption
    captions: CaptionForm | None = None  # None: nobody fitted it

    def __call__(
        self, nouns: Sequence[str], similarity: Array, seen: Array | None = None, *, in_caption: bool = False
    ) -> list[float]:
        """The evidence of P phrases, whose heads are `nouns`; `seen` (P, 1 to 3, W) is what `WordEvidence.seen` tells
        of their images, None where the region source knows no words. `in_caption`: of phrases of captions, not of
        any."""
        found = [float(p) for p in self.similarity(similarity)]
        if self.words is None or seen is None:
            return found
        for i, noun in enumerate(nouns):
            if (concept := self.words.concept(noun)) and concept.how in self.words.weights:
                found[i] = self.words(concept, float(similarity[i]), seen[i], in_caption)
        return found

    def of_image(
        self, nouns: Sequence[str], best: Array, whole: NDArray[Any] | None, *, in_caption: bool = False
    ) -> list[float]:
        """How likely each of P nouns is in its image. Of several words ("fire hydrant") the last one counts.

        best: (P,), the similarity of the region that fits best. whole: the image vector (G,), or one for each noun
        (P, G), see `image_word_probabilities`; None: by similarity alone. in_caption: nouns of captions, not of any
        phrases.
        """
        seen = None
        if self.words is not None and whole is not None and self.word_count <= whole.shape[-1]:
            told = self.words.seen(whole)
            seen = np.broadcast_to(told, (len(nouns), *told.shape[-2:]))
        return self([noun.split()[-1] for noun in nouns], best, seen, in_caption=in_caption)

    @property
    def word_count(self) -> int:
        """W, the number of words whose probabilities it takes."""
        return 0 if self.words is None else len(self.words.prior)

    def to_json(self) -> dict[str, Any]:
        row: dict[str, Any] = {"calibration": self.similarity.to_json()}
        row |= {"words": self.words.to_json()} if self.words else {}
        row |= {"captions": self.captions.to_json()} if self.captions else {}
        below = {"not_there": self.not_there, "caption_not_there": self.caption_not_there}
        return row | {name: value for name, value in below.items() if value is not None}

    @staticmethod
    def from_json(row: Mapping[str, Any]) -> EvidenceModel:
        """The inverse of `to_json`; other fields are passed over."""
        words = WordEvidence.from_json(row["words"]) if "words" in row else None
        names = ("not_there", "caption_not_there")
        not_there, in_caption = (float(row[name]) if name in row else None for name in names)
        if any(one is not None and not 0 <= one <= 1 for one in (not_there, in_caption)):
            raise DataError(f"not_there and caption_not_there are probabilities, not {not_there} and {in_caption}")
        captions = CaptionForm.from_json(row["captions"]) if "captions" in row else None
        return EvidenceModel(Isotonic.from_json(row["calibration"]), words, not_there, in_caption, captions)
