"""Evidence, the calibrated probability that a noun phrase is in an image at all, as it is kept beside a grounder.

`metrics.calibration.EvidenceModel` is what is kept; `inference.calibration` fits it; `evidence_of` asks it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groundling.errors import DataError
from groundling.files import read_bytes
from groundling.metrics.calibration import EvidenceModel
from groundling.types import LIKELY, WORD_DEVIATION, WORD_MEAN

CALIBRATION = "calibration.json"  # beside the model
OLD_NAME = "presence.json"  # as versions before 0.2 wrote it
FORMAT, READABLE = 2, (1, 2)  # format 1 has no words
LARGEST = 1 << 24  # bytes of its file
LEAST_EVIDENCE = 0.01  # of a noun while words are chosen: one that is very likely by the sentence may still be chosen
THRESHOLD = LIKELY  # a phrase with less evidence is not found


def read_calibration(folder: Path) -> EvidenceModel | None:
    """The calibration beside a model; None where there is none, DataError where it is damaged."""
    path = next((folder / name for name in (CALIBRATION, OLD_NAME) if (folder / name).exists()), None)
    if path is None:
        return None
    try:
        about = json.loads(read_bytes(path, LARGEST))
        if about["format"] not in READABLE:
            raise DataError(f"it has format {about['format']!r}, this version reads {READABLE}")
        return EvidenceModel.from_json(about)
    except (OSError, KeyError, TypeError, ValueError, RecursionError, OverflowError, DataError) as error:
        raise DataError(f"{path} is damaged; fit it again with `groundling ground --calibrate`: {error}") from error


def evidence_of(
    calibration: EvidenceModel,
    nouns: Sequence[str],
    best: NDArray[Any],
    whole: NDArray[Any] | None,
    *,
    in_caption: bool = False,
) -> list[float]:
    """How likely each of P nouns is in its image. Of several words ("fire hydrant") the last one counts.

    best: (P,), the similarity of the region that fits best. whole: the image vector (G,), or one for each noun (P, G),
    whose last numbers are log(−log(1 − p)), scaled, of the words of the source; None: by similarity alone.
    in_caption: nouns of captions, not of any phrases.
    """
    count, likely = calibration.word_count, None
    if whole is not None and 0 < count <= whole.shape[-1]:
        likely = np.broadcast_to(word_probabilities(whole, count), (len(nouns), count))
    return [*calibration([noun.split()[-1] for noun in nouns], best, likely, in_caption=in_caption)]


def word_probabilities(whole: NDArray[Any], count: int) -> NDArray[np.float64]:
    """(…, G) image vectors -> (…, count): how likely each word of the source is in the image."""
    scaled = whole[..., whole.shape[-1] - count :].astype(np.float64)
    return np.asarray(-np.expm1(-np.exp(scaled * WORD_DEVIATION + WORD_MEAN)))
