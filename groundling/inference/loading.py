"""What captioners and grounders need to be used: the weights in the package, a device, a source of regions."""

from __future__ import annotations

from pathlib import Path

import torch

from groundling.errors import DataError, GroundlingError
from groundling.recipes import ABOUT
from groundling.regions.fingerprints import IMPORTED, require
from groundling.regions.sources import source
from groundling.tensors import RegionSource
from groundling.types import Fingerprint

SHIPPED = Path(__file__).parent.parent / "weights"  # its README is the model card
CAPTIONER, GROUNDER = "captioner", "grounder"  # folders in it


def shipped(name: str) -> Path:
    """The folder of the package's own captioner or grounder."""
    folder = SHIPPED / name
    if not (folder / ABOUT).exists():
        raise GroundlingError(
            f"this installation has no weights in {folder}: name a model that you trained (--model RUN), "
            "install groundling from its wheel, or make them with `make weights DATA=FOLDER`"
        )
    return folder


def device_of(name: str) -> torch.device:
    """cpu, cuda, mps; GroundlingError where it cannot be used."""
    if name.lower() in ("gpu", "nvidia", "metal"):
        raise GroundlingError(f"cannot use the device {name}: say cuda (NVIDIA), mps (Apple) or cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise GroundlingError(f"cannot use the device {name}: {str(error).splitlines()[0]}") from error
    return device


def source_of(wanted: Fingerprint) -> RegionSource:
    """What makes the regions that a model was trained on."""
    if wanted.version == IMPORTED:
        raise GroundlingError(
            f"this model was trained on imported regions ({wanted.name}): give --regions STORE "
            "(in Python: caption(ids, regions=Store.open(path)))"
        )
    try:
        made = source(wanted.name, **wanted.parameters)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"no regions of {wanted.name} can be made with the parameters of this model: {error}"
        ) from error
    require(made.fingerprint, wanted)
    return made
