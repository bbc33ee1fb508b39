"""How much of a caption is in its image: a score without references, and one with them.

    grounding       g = √(G_phrases · G_words), geometric means of evidence: of the heads of the noun phrases, and of
                    the nouns, verbs and adjectives that the region source knows as words of images
    grounding-ref   (g + 2 METEOR) / 3

Where the source knows no words, g is the geometric mean over phrases alone; where the grounder is not calibrated, the
mean of max(0, s), s being the similarity of the best region. A caption without any of them has g = 0. The form of g was
chosen on the validation split of Flickr8k, by how well it tells the captions of a photo from captions of other photos
that share most nouns with them, and from the same captions with one noun replaced by another of its kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from groundling.evaluation.evidence import PhraseEvidence, caption_evidence, parse, regions_of
from groundling.formats.folder import ImageFolder
from groundling.inference.grounder import PhraseGrounder
from groundling.metrics.captions import score_captions
from groundling.metrics.statistics import Statistics, mean_statistics, signature
from groundling.progress import track
from groundling.regions.store import Store
from groundling.tensors import Regions
from groundling.types import Caption

GROUNDING, WITH_REFERENCES = "grounding", "grounding-ref"
FORM = "evidence-of-phrases-and-words"  # in the signature
LEAST = 1e-3  # evidence that counts at least: one noun that is surely not there does not make a caption worthless
METEOR_WEIGHT = 2.0  # of METEOR beside grounding


def score(evidence: Sequence[PhraseEvidence], words: Sequence[float] = ()) -> float:
    """g of one caption, 0 to 1; `words` are the evidence of its words that may be seen."""
    phrases = [one.probability for one in evidence if one.probability is not None]
    means = [_geometric_mean(some) for some in (phrases, words) if some]
    if means:
        return _geometric_mean(means)
    return sum(max(0.0, one.similarity) for one in evidence) / max(1, len(evidence))


def _geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(math.log(max(value, LEAST)) for value in values) / len(values))


def word_evidence(grounder: PhraseGrounder, regions: Regions, caption: Caption) -> list[float]:
    """Of each noun, verb and adjective of a parsed caption that the region source knows as a word of images."""
    words = grounder.calibration.words if grounder.calibration else None
    if words is None or regions.whole is None:
        return []
    tagged = zip(caption.lemmas, caption.tags, strict=True)
    seen = [lemma for lemma, tag in tagged if tag.startswith(("NN", "VB", "JJ")) and lemma in words.prior]
    if not seen:
        return []
    similarity = grounder.rank(regions, [[word] for word in seen]).similarity
    return [p for p in grounder.evidence(seen, similarity, regions.whole) if p is not None]


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
        phrases = caption_evidence(grounder, regions, parsed[id])
        values[id] = score(phrases, word_evidence(grounder, regions, parsed[id]))
    about = signature(GROUNDING, form=FORM, grounder=grounder.model.digest, n=len(captions))
    return mean_statistics(GROUNDING, about, tuple(captions), np.array([values[id] for id in captions]))


def with_references(
    grounding: Statistics, captions: Mapping[str, str], references: Mapping[str, Sequence[str]]
) -> Statistics:
    """The same captions, judged by their references as well."""
    [meteor] = score_captions(captions, references, ["meteor"])
    by_id = dict(zip(meteor.ids, meteor.per_item().tolist(), strict=True))
    meteor_values = np.array([by_id[id] for id in grounding.ids])
    values = (grounding.per_item() + METEOR_WEIGHT * meteor_values) / (1 + METEOR_WEIGHT)
    about = grounding.signature.replace(GROUNDING, WITH_REFERENCES, 1).replace(FORM, "(g+2meteor)/3")
    return mean_statistics(WITH_REFERENCES, about, grounding.ids, values)


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
    statistics = grounding_scores(load_grounder(model), captions, image_of, find, store, quiet=quiet)
    out = {GROUNDING: statistics}
    if WITH_REFERENCES in names:
        out[WITH_REFERENCES] = with_references(statistics, captions, references)
    return {name: out[name] for name in names if name in out}
