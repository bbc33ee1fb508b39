"""How much of a caption is in its image: a score without references, and one with them.

    grounding       g = mean over the noun phrases of max(0, s), s being the similarity of the best region
    grounding-ref   (g + 2 METEOR) / 3

A caption without a noun phrase has g = 0. The forms were chosen on the validation split of Flickr8k, by how well they
tell the captions of a photo from captions of other photos that share most nouns with them.
"""

from __future__ import annotations

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

GROUNDING, WITH_REFERENCES = "grounding", "grounding-ref"
METEOR_WEIGHT = 2.0  # of METEOR beside grounding


def score(evidence: Sequence[PhraseEvidence]) -> float:
    """g of one caption, 0 to 1."""
    return sum(max(0.0, one.similarity) for one in evidence) / max(1, len(evidence))


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
        values[id] = score(caption_evidence(grounder, find_regions(image_of[id]), parsed[id]))
    about = signature(GROUNDING, form="mean-similarity", grounder=grounder.model.digest, n=len(captions))
    return mean_statistics(GROUNDING, about, tuple(captions), np.array([values[id] for id in captions]))


def with_references(
    grounding: Statistics, captions: Mapping[str, str], references: Mapping[str, Sequence[str]]
) -> Statistics:
    """The same captions, judged by their references as well."""
    [meteor] = score_captions(captions, references, ["meteor"])
    by_id = dict(zip(meteor.ids, meteor.per_item().tolist(), strict=True))
    meteor_values = np.array([by_id[id] for id in grounding.ids])
    values = (grounding.per_item() + METEOR_WEIGHT * meteor_values) / (1 + METEOR_WEIGHT)
    about = grounding.signature.replace(GROUNDING, WITH_REFERENCES, 1).replace("mean-similarity", "(g+2meteor)/3")
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
