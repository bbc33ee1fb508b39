"""What captions alone tell of a grounder: how well it parts true phrases from those of other images, and its evidence.

No boxes are needed. `calibration` says which phrases are asked for.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

from groundling.data.dataset import Dataset
from groundling.errors import DataError
from groundling.files import MANIFEST, replace_files, saved
from groundling.inference.calibration import CALIBRATION, Calibration, calibrate, similarities
from groundling.inference.grounder import PhraseGrounder, load_grounder
from groundling.metrics.agreement import area_under_curve
from groundling.metrics.statistics import signature
from groundling.regions.store import Store
from groundling.types import Score

log = logging.getLogger(__name__)
SEPARATION = "separation"  # the name of the score


def calibrate_run(folder: Path, held_out: Dataset, store: Store, device: str = "cpu") -> Calibration | None:
    """Fit the evidence of the grounder in a run folder on images that it was not trained on, and keep it there.

    None, and the reason is logged, where they are too few; its evidence is then unknown.
    """
    try:
        fitted = calibrate(load_grounder(folder, device), held_out, store)
    except DataError as error:
        log.warning("evidence is not calibrated: %s; `groundling ground --calibrate` fits it on more", error)
        return None
    keep_calibration(folder / CALIBRATION, json.dumps(fitted.to_json(), indent=1).encode())
    return fitted


def keep_calibration(path: Path, content: bytes) -> None:
    """Leave it beside a model. The manifest vouches for it too, if there is one that vouches for the model."""
    if (path.parent / MANIFEST).exists():
        replace_files(path.parent, {path.name: content})
    else:
        with saved(path) as file:
            file.write(content)


def separation(grounder: PhraseGrounder, examples: Dataset, store: Store, seed: int = 0) -> Score:
    """How often a phrase of an image's captions fits the image better than a phrase of other images does.

    Of all pairs of one present and one absent phrase (area under the ROC curve); 0.5 is chance.
    """
    scores, truth, _ = similarities(grounder, examples, store, seed)
    if not 0 < truth.sum() < len(truth):
        raise DataError(f"{len(examples)} images are too few to compare their phrases with those of others")
    about = signature(SEPARATION, phrases="captions", split=examples[0].split)
    return Score(SEPARATION, area_under_curve(scores[truth > 0], scores[truth <= 0]), len(truth), about)
