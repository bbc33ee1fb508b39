"""Evidence: the calibrated probability that a phrase is in an image at all.

A calibration is fitted on a data set. Present are the noun phrases of an image's captions. Absent are phrases of other
images' captions, as many, whose head noun no caption of the image has, nor a kind of it, nor what it is a kind of. So
one phrase in two is present: the probability is that of such a mixture. It is kept beside the model as CALIBRATION.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from groundling.data.dataset import Dataset
from groundling.errors import DataError
from groundling.files import read_bytes
from groundling.metrics.calibration import Bin, Isotonic, expected_calibration_error, isotonic, reliability
from groundling.metrics.statistics import Array
from groundling.regions.fingerprints import require
from groundling.regions.store import Store
from groundling.text.classes import head_noun
from groundling.text.noun_phrases import joined
from groundling.text.wordnet import wordnet
from groundling.types import LIKELY, Example

if TYPE_CHECKING:
    from groundling.inference.grounder import PhraseGrounder

Words = tuple[str, ...]

CALIBRATION = "calibration.json"  # beside the model
OLD_NAME = "presence.json"  # as versions before 0.2 wrote it
FORMAT = 1
LARGEST = 1 << 24  # bytes of its file
THRESHOLD = LIKELY  # a phrase with less evidence is not found


def read_calibration(folder: Path) -> Isotonic | None:
    """The calibration beside a model; None where there is none, DataError where it is damaged."""
    path = next((folder / name for name in (CALIBRATION, OLD_NAME) if (folder / name).exists()), None)
    if path is None:
        return None
    try:
        about = json.loads(read_bytes(path, LARGEST))
        if about["format"] != FORMAT:
            raise DataError(f"it has format {about['format']!r}, this version reads {FORMAT}")
        return Isotonic.from_json(about["calibration"])
    except (OSError, KeyError, TypeError, ValueError, RecursionError, DataError) as error:
        raise DataError(f"{path} is damaged; fit it again with `groundling ground --calibrate`: {error}") from error


@dataclass(frozen=True)
class Calibration:
    """A calibration, and how good it is on images that it was not fitted on."""

    calibration: Isotonic
    ece: float
    curve: list[Bin]
    accuracy: float  # of "found", at the threshold
    fitted_on: int  # phrases, half of them absent
    judged_on: int

    def to_json(self) -> dict[str, Any]:
        row = asdict(self) | {"calibration": self.calibration.to_json()}
        return {"format": FORMAT, "threshold": THRESHOLD, "share_present": 0.5, **row}


def calibrate(model: PhraseGrounder, examples: Dataset, store: Store, seed: int = 0) -> Calibration:
    """Fit on one half of the images, judge on the other; the hash of an image's id decides which it is in."""
    require(store.fingerprint, model.model.fingerprint)
    store.require(example.id for example in examples)
    scores, truth, first = similarities(model, examples, store, seed)
    if not (first.any() and (~first).any()):
        raise DataError(f"{len(examples)} images are too few to fit on one half and judge on the other")
    fitted = isotonic(scores[first], truth[first])
    evidence = fitted(scores[~first])
    curve = reliability(evidence, truth[~first])
    right = float(((evidence >= THRESHOLD) == (truth[~first] > 0)).mean())
    return Calibration(fitted, expected_calibration_error(curve), curve, right, int(first.sum()), int((~first).sum()))


def similarities(
    model: PhraseGrounder, examples: Dataset, store: Store, seed: int
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Of present and absent phrases: how well the best region fits; 1 or 0; is the image in the first half?"""
    from groundling.inference.grounder import best_similarity

    draw = np.random.default_rng(seed)
    phrases = [_phrases(example) for example in examples]
    pool = [one for of_image in phrases for one in of_image.items()]
    scores, truth, first = [], [], []
    for example, present in zip(examples, phrases, strict=True):
        absent = _absent(present, pool, draw)
        asked = [*list(present)[: len(absent)], *absent]
        if not asked:
            continue
        ranking = model.rank(store[example.id], asked)
        scores += best_similarity(ranking.similarity).tolist()
        truth += [1.0] * (len(asked) - len(absent)) + [0.0] * len(absent)
        first += [in_first_half(example.id)] * len(asked)
    return np.array(scores, float), np.array(truth), np.array(first, bool)


def _phrases(example: Example) -> dict[Words, int]:
    """The different noun phrases of an image whose head WordNet knows, each with the synset of its head."""
    phrases: dict[Words, int] = {}
    for caption in example.captions:
        for span in joined(caption):
            head = head_noun(caption, span)
            synset = wordnet().synset(caption.lemmas[head]) if head >= 0 else None
            if synset is not None:
                phrases[caption.tokens[slice(*span)]] = synset
    return phrases


def _absent(
    present: dict[Words, int], pool: Sequence[tuple[Words, int]], draw: np.random.Generator, tries: int = 20
) -> list[Words]:
    """As many phrases that are not in the image; fewer where chance does not find them."""
    net = wordnet()
    here = set(present.values())
    above = {kind for synset in here for kind in net.kinds(synset)}
    absent: dict[Words, None] = {}
    for at in draw.integers(len(pool), size=tries * len(present)):
        if len(absent) == len(present):
            break
        words, synset = pool[at]
        if synset not in above and not here & set(net.kinds(synset)):
            absent[words] = None
    return list(absent)


def in_first_half(id: str) -> bool:
    """Is an image among those that calibrations are fitted on? A hash of its id decides; the others judge."""
    return blake2b(id.encode(), digest_size=1).digest()[0] % 2 == 0
