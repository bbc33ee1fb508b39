"""Evidence, the calibrated probability that a noun phrase is in an image at all, as it is kept beside a grounder.

`metrics.calibration.EvidenceModel` is what is kept; `inference.calibration` fits it.
"""

from __future__ import annotations

import json
from pathlib import Path

from groundling.errors import DataError
from groundling.files import read_bytes
from groundling.metrics.calibration import EvidenceModel

CALIBRATION = "calibration.json"  # beside the model
OLD_NAME = "presence.json"  # as versions before 0.2 wrote it
FORMAT, READABLE = 5, (1, 2, 3, 4, 5)  # format 1 has no words, 2 no nouns of image vectors, 3 none but the source's
# words, 4 no contrast
LARGEST = 1 << 24  # bytes of its file
LEAST_EVIDENCE = 0.01  # of a noun while words are chosen: one that is very likely by the sentence may still be chosen
THRESHOLD = 0.5  # a phrase with less evidence is not found


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
