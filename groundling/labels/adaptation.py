"""A grounder that learns from the very photos that it is to label: from pairs of image and caption alone.

A tenth of the images, which a hash of their ids chooses, is held out. They measure whether training helped, by
what captions tell (`calibration.separation`) and never by boxes, even where the data set has some; where training
did not help, the grounder is left as it was.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from groundling.data.dataset import Dataset
from groundling.data.splits import held_out
from groundling.errors import DataError
from groundling.parallel import torch_threads
from groundling.recipes import WEIGHTS
from groundling.regions.store import Store
from groundling.training.adapt import THREADS, Photos, adapt_grounder

HELD_OUT = 10  # one image in so many
FEWEST = 50  # images


def adapt(start: Path, examples: Dataset, store: Store, out: Path, device: torch.device) -> str:
    """Adapt the grounder in `start` to these images, leave it in `out`; returns a line of report. Done before: kept."""
    if (out / WEIGHTS).exists():
        return f"{out}: adapted before, and kept"
    if len(examples) < FEWEST:
        raise DataError(f"{len(examples)} images are too few to learn from: {FEWEST} are needed; label without --adapt")
    learned, kept = _parted(examples)
    with torch_threads(THREADS):
        change = adapt_grounder(start, Photos(learned, kept, store, device=device), out)
    name, before, after = change.before.name, change.before.value, change.after.value
    message = f"{out}: {name} {before:.4f} -> {after:.4f} on {len(kept)} held-out images"
    return message if change.helped else f"{message}; training gave {change.tried:.4f}, so it was left as it was"


def _parted(examples: Dataset) -> tuple[Dataset, Dataset]:
    """Without boxes: what is learned from, and a tenth that is held out."""
    held = held_out((example.id for example in examples), -(-len(examples) // HELD_OUT))
    plain = [replace(example, gold=()) for example in examples]
    learned, kept = (tuple(one for one in plain if (one.id in held) is wanted) for wanted in (False, True))
    return replace(examples, examples=learned), replace(examples, examples=kept)
