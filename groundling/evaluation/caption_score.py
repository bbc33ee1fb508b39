"""How much of a caption is in its image: a score without references, and one with them.

    grounding       logit g = a + Σ_i w_i x_i
    grounding-ref   logit h = b + u logit g + v METEOR + t shared

x: the mean log evidence of the heads of the noun phrases (`phrases`), and of the nouns, verbs and adjectives that the
region source knows as words of images (`words`); and, with p_w the probability of the word w in the image and π_w its
mean over photos, how much of the important content is named:

    mentioned   Σ_{w in the caption} q_w / Σ_w q_w,    q_w = −max(0, p_w − π_w) log π_w

shared is the cosine of two vectors of these words, one of the caption, one of all references: −√n_w log π_w, where n_w
captions have w. So an unusual word that both have counts most; no other captions are needed to know what is unusual.

The coefficients are fitted by logistic regression (`fitted`). For g the truth is 1 for a caption of the photo, and for
one of another photo that is like it a fifth of its METEOR against the photo's captions, over what these have against
each other: more for a caption that is partly right. For h it is 1 and 0.

Where nobody fitted them, or the source knows no words, g is the geometric mean of two geometric means of evidence, of
phrases and of words, and h = (g + 2 METEOR) / 3; where the grounder is not calibrated, g is the mean of max(0, s), s
being the similarity of the best region. A caption without any noun, verb or adjective has g = 0.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np

from groundling.errors import DataError
from groundling.evaluation.evidence import PhraseEvidence, evidence_with_words, parse, regions_of
from groundling.formats.folder import ImageFolder
from groundling.inference.calibration import in_first_half
from groundling.inference.grounder import PhraseGrounder
from groundling.metrics.agreement import area_under_curve
from groundling.metrics.calibration import (
    CAPTION_INPUTS,
    REFERENCE_INPUTS,
    CaptionForm,
    Linear,
    WordEvidence,
    image_word_probabilities,
    logit,
    sigmoid,
)
from groundling.metrics.captions import score_captions
from groundling.metrics.statistics import Array, Statistics, mean_statistics, signature
from groundling.progress import track
from groundling.regions.store import Store
from groundling.tensors import Regions
from groundling.types import Caption, Example

GROUNDING, WITH_REFERENCES = "grounding", "grounding-ref"
FORM, FITTED = "evidence-of-phrases-and-words", "fitted"  # in the signature
LEAST = 1e-3  # evidence that counts at least: one noun that is surely not there does not make a caption worthless
METEOR_WEIGHT = 2.0  # of METEOR beside grounding, where nobody fitted it
SEEN = ("NN", "VB", "JJ")  # tags of words that may be seen


def score(evidence: Sequence[PhraseEvidence], words: Sequence[float] = ()) -> float:
    """g of one caption, 0 to 1; `words` are the evidence of its words that may be seen."""
    phrases = [one.evidence for one in evidence if one.evidence is not None]
    means = [_geometric_mean(some) for some in (phrases, words) if some]
    if means:
        return _geometric_mean(means)
    return sum(max(0.0, one.similarity) for one in evidence) / max(1, len(evidence))


def _geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(math.log(max(value, LEAST)) for value in values) / len(values))


def _evidence(
    grounder: PhraseGrounder, regions: Regions, caption: Caption
) -> tuple[tuple[PhraseEvidence, ...], list[float]]:
    """Of the phrases of a parsed caption, and of each noun, verb and adjective that the region source knows as a word
    of images."""
    model = grounder.calibration.words if grounder.calibration else None
    seen = [] if model is None or regions.whole is None else _seen_words(caption, model)
    phrases, words = evidence_with_words(grounder, regions, caption, seen)
    return phrases, [p for p in words if p is not None]


def _seen_words(caption: Caption, words: WordEvidence) -> list[str]:
    tagged = zip(caption.lemmas, caption.tags, strict=True)
    return [lemma for lemma, tag in tagged if tag.startswith(SEEN) and lemma in words.prior]


def inputs(
    evidence: Sequence[PhraseEvidence], words: Sequence[float], bag: Sequence[bool] | Array, p: Array, prior: Array
) -> dict[str, float]:
    """The x of one caption. words: evidence of its words; bag, p, prior: (W,) of each word of the source, whether the
    caption has it, and how likely it is in the image and in any photo."""
    more = np.maximum(0, p - prior) * -np.log(prior)
    phrases = [math.log(max(one.evidence or 0.0, LEAST)) for one in evidence]
    seen = [math.log(max(value, LEAST)) for value in words]
    phrases, seen = phrases or seen, seen or phrases
    return {
        "phrases": sum(phrases) / len(phrases),
        "words": sum(seen) / len(seen),
        "mentioned": float(more @ np.asarray(bag, float) / max(1e-12, more.sum())),
    }


def _inputs_of(grounder: PhraseGrounder, regions: Regions, caption: Caption) -> dict[str, float] | None:
    """The x of a parsed caption; None where it has nothing that could be seen."""
    model = grounder.calibration.words if grounder.calibration else None
    assert model is not None and regions.whole is not None
    evidence, words = _evidence(grounder, regions, caption)
    if not (evidence or words):
        return None
    named = set(_seen_words(caption, model))
    p = image_word_probabilities(regions.whole[0].cpu().numpy(), len(model.prior))
    return inputs(evidence, words, [word in named for word in model.prior], p, np.array([*model.prior.values()]))


def _value(grounder: PhraseGrounder, regions: Regions, caption: Caption) -> float:
    """g of one caption."""
    fitted = _form(grounder)
    if fitted is None or regions.whole is None:
        return score(*_evidence(grounder, regions, caption))
    found = _inputs_of(grounder, regions, caption)
    return 0.0 if found is None else float(sigmoid(np.array(fitted.alone(found))))


def _form(grounder: PhraseGrounder) -> CaptionForm | None:
    """The fitted form; None where there is none, or the source knows no words."""
    model = grounder.calibration
    return model.captions if model is not None and model.words is not None else None


def grounding_scores(
    grounder: PhraseGrounder,
    captions: Mapping[str, str],
    image_of: Mapping[str, str],
    find: Callable[[str], Path] | None = None,
    store: Store | None = None,
    *,
    quiet: bool = True,
) -> Statistics:
    """g of captions by id; `image_of` names the image of each. Images that captions share are looked at once."""
    find_regions = regions_of(grounder, find, store)
    parsed = dict(zip(captions, parse(list(captions.values())), strict=True))
    values: dict[str, float] = {}
    by_image = sorted(captions, key=lambda id: image_of[id])
    for id in track(by_image, "captions", total=len(captions), quiet=quiet):
        regions = find_regions(image_of[id])
        values[id] = _value(grounder, regions, parsed[id])
    form = FITTED if _form(grounder) else FORM
    about = signature(GROUNDING, form=form, grounder=grounder.model.digest, n=len(captions))
    return mean_statistics(GROUNDING, about, tuple(captions), np.array([values[id] for id in captions]))


def with_references(
    grounding: Statistics,
    captions: Mapping[str, str],
    references: Mapping[str, Sequence[str]],
    form: CaptionForm | None = None,
    words: WordEvidence | None = None,
) -> Statistics:
    """The same captions, compared with their references as well; a fitted form needs the words of the region source."""
    [meteor] = score_captions(captions, references, ["meteor"])
    by_id = dict(zip(meteor.ids, meteor.per_item().tolist(), strict=True))
    g, m = grounding.per_item(), np.array([by_id[id] for id in grounding.ids])
    if form is None:
        values = (g + METEOR_WEIGHT * m) / (1 + METEOR_WEIGHT)
        about = grounding.signature.replace(FORM, "(g+2meteor)/3")
    else:
        common = _shared(captions, references, words) if words else {}
        rows = [
            {"grounding": x, "meteor": y, "shared": common.get(id, 0.0)}
            for id, x, y in zip(grounding.ids, logit(g), m, strict=True)
        ]
        values, about = sigmoid(np.array([form.with_references(row) for row in rows])), grounding.signature
    return mean_statistics(WITH_REFERENCES, about.replace(GROUNDING, WITH_REFERENCES, 1), grounding.ids, values)


def _shared(
    captions: Mapping[str, str], references: Mapping[str, Sequence[str]], words: WordEvidence
) -> dict[str, float]:
    """What each caption shares with its references. Equal sentences are parsed once."""
    texts = list(dict.fromkeys([*captions.values(), *(text for id in captions for text in references[id])]))
    named = {text: set(_seen_words(one, words)) for text, one in zip(texts, parse(texts), strict=True)}
    return {
        id: shared([named[text]], [named[one] for one in references[id]], words.prior) for id, text in captions.items()
    }


def shared(some: Sequence[set[str]], others: Sequence[set[str]], prior: Mapping[str, float]) -> float:
    """The cosine of the words of captions with those of other captions; 0 where either have none."""
    one, two = (_weighted(captions, prior) for captions in (some, others))
    length = math.sqrt(sum(x * x for x in one.values()) * sum(x * x for x in two.values()))
    return sum(x * two.get(word, 0.0) for word, x in one.items()) / length if length else 0.0


def _weighted(captions: Sequence[set[str]], prior: Mapping[str, float]) -> dict[str, float]:
    count = Counter(word for caption in captions for word in caption)
    return {word: -math.sqrt(n) * math.log(prior[word]) for word, n in count.items()}


def scored(
    names: Sequence[str],
    captions: Mapping[str, str],
    references: Mapping[str, Sequence[str]],
    image_of: Mapping[str, str],
    *,
    model: str | Path = "",
    images: str | Path | None = None,
    regions: str | Path | None = None,
    quiet: bool = True,
) -> dict[str, Statistics]:
    """Those of GROUNDING and WITH_REFERENCES that are among the names."""
    from groundling.inference import load_grounder

    if not {GROUNDING, WITH_REFERENCES} & set(names):
        return {}
    find = ImageFolder(images).find if images else None
    store = Store.open(regions) if regions else None
    grounder = load_grounder(model)
    statistics = grounding_scores(grounder, captions, image_of, find, store, quiet=quiet)
    out = {GROUNDING: statistics}
    if WITH_REFERENCES in names:
        words = grounder.calibration.words if grounder.calibration else None
        out[WITH_REFERENCES] = with_references(statistics, captions, references, _form(grounder), words)
    return {name: out[name] for name in names if name in out}


# ---------------------------------------------------------------- fitting


@dataclass(frozen=True)
class CaptionFit:
    """A form, and how often it puts a caption of a photo above one of another photo, on photos that it was not fitted
    on: without and with references."""

    form: CaptionForm
    auc: float
    auc_with_references: float
    fitted_on: int  # captions
    tested_on: int


@dataclass(frozen=True)
class Pair:
    """A photo and a caption, by their numbers; own: the caption is one of the photo's."""

    photo: int
    of: int  # the photo that the caption is of
    caption: int  # its number there
    own: bool


def fitted(grounder: PhraseGrounder, examples: Sequence[Example], store: Store, seed: int = 0) -> CaptionFit | None:
    """The form, fitted on the captions of one half of the photos and tested on the other (`in_first_half`).

    Against a caption of each photo stand two captions of photos whose captions are alike, two of photos that look
    alike, and one of any. None where the region source knows no words of images.
    """
    model = grounder.calibration.words if grounder.calibration else None
    if model is None:
        return None
    several = [one for one in examples if len(one.captions) > 1]  # one caption is compared with the others
    halves = [[one for one in several if in_first_half(one.id) == first][:MOST] for first in (True, False)]
    if min(map(len, halves)) < NEAR + 2:
        raise DataError(
            f"{len(several)} photos with two captions or more are too few to fit a score of captions on one half"
        )
    (fit, fit_own), (test, test_own) = (_asked(grounder, half, store, Random(seed)) for half in halves)
    alone = Linear.fitted(fit, _marks(fit_own, np.array([row["meteor"] for row in fit])), CAPTION_INPUTS)
    joined = Linear.fitted([row | {"grounding": alone(row)} for row in fit], fit_own, REFERENCE_INPUTS)
    values = np.array([alone(row) for row in test])
    both = np.array([joined(row | {"grounding": alone(row)}) for row in test])
    own = test_own > 0
    areas = [area_under_curve(some[own], some[~own]) for some in (values, both)]
    return CaptionFit(CaptionForm(alone, joined), areas[0], areas[1], len(fit), len(test))


MOST = 300  # photos of each half
NEAR = 12  # of the nearest photos, from which others are drawn
PARTLY = 0.2  # what a caption of another photo may be worth


def _asked(
    grounder: PhraseGrounder, examples: Sequence[Example], store: Store, draw: Random
) -> tuple[list[dict[str, float]], Array]:
    """x, METEOR and what is shared, and the truth, of pairs of photos and captions."""
    assert grounder.calibration is not None and grounder.calibration.words is not None
    words = grounder.calibration.words
    rows: list[dict[str, float]] = []
    kept: list[Pair] = []
    for at, pairs in enumerate(_pairs(examples, _likely(examples, store, len(words.prior)), words, draw)):
        regions = store[examples[at].id]
        for pair in pairs:
            row = _inputs_of(grounder, regions, examples[pair.of].captions[pair.caption])
            if row is not None:
                caption, others = examples[pair.of].captions[pair.caption], _references(examples[pair.photo], pair)
                one, two = ([set(_seen_words(each, words)) for each in some] for some in ([caption], others))
                rows.append(row | {"shared": shared(one, two, words.prior)})
                kept.append(pair)
    captions = {str(i): examples[one.of].captions[one.caption].text for i, one in enumerate(kept)}
    references = {str(i): [x.text for x in _references(examples[one.photo], one)] for i, one in enumerate(kept)}
    [meteor] = score_captions(captions, references, ["meteor"])
    rows = [row | {"meteor": float(m)} for row, m in zip(rows, meteor.per_item(), strict=True)]
    return rows, np.array([float(one.own) for one in kept])


def _marks(own: Array, meteor: Array) -> Array:
    """1 for a photo's own captions; for others PARTLY of their METEOR over the mean of that of own ones."""
    typical = float(meteor[own > 0].mean())
    return np.where(own > 0, 1.0, PARTLY * np.minimum(1.0, meteor / max(typical, 1e-12)))


def _references(example: Example, pair: Pair) -> list[Caption]:
    """The captions of a photo but the one that is scored."""
    return [one for i, one in enumerate(example.captions) if not (pair.own and i == pair.caption)]


def _likely(examples: Sequence[Example], store: Store, count: int) -> Array:
    """(B, W): how likely each word is in each photo."""
    vectors = (store[one.id].whole for one in examples)
    return np.concatenate([image_word_probabilities(vector.numpy(), count) for vector in vectors if vector is not None])


def _pairs(examples: Sequence[Example], p: Array, words: WordEvidence, draw: Random) -> list[list[Pair]]:
    """Of each photo one of its captions, and five of others."""
    surprise = -np.log(np.array([*words.prior.values()]))
    at = {word: i for i, word in enumerate(words.prior)}
    named = np.zeros_like(p)
    for i, one in enumerate(examples):
        for caption in one.captions:
            named[i, [at[word] for word in _seen_words(caption, words)]] = 1
    similar_images, similar_captions = _nearest(p * surprise), _nearest(named * surprise)
    pairs: list[list[Pair]] = [[] for _ in examples]
    for i in range(len(examples)):
        others = [
            *draw.sample(similar_captions[i], 2),
            *draw.sample(similar_images[i], 2),
            draw.randrange(len(examples)),
        ]
        for j in (i, *(j for j in others if j != i)):
            pairs[i].append(Pair(i, j, draw.randrange(len(examples[j].captions)), j == i))
    return pairs


def _nearest(vectors: Array) -> list[list[int]]:
    """Of each row the NEAR others with the greatest cosine."""
    unit = vectors / np.maximum(1e-12, np.linalg.norm(vectors, axis=1, keepdims=True))
    likeness = unit @ unit.T
    np.fill_diagonal(likeness, -np.inf)
    return [row.tolist() for row in np.argsort(-likeness, axis=1)[:, :NEAR]]
