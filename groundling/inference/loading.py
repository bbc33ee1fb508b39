"""What captioners and grounders need to be used: the weights in the package, a device, a source of regions."""

from __future__ import annotations

import logging
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from groundling.errors import DataError, GroundlingError, did_you_mean
from groundling.recipes import ABOUT, Model, load
from groundling.regions.fingerprints import DETECTOR, IMPORTED, NONE, require
from groundling.regions.sources import names, source
from groundling.types import Fingerprint

if TYPE_CHECKING:
    import torch

    from groundling.tensors import RegionSource

log = logging.getLogger(__name__)

SHIPPED = Path(__file__).parent.parent / "weights"  # its README is the model card
WEIGHTS = ("everyday", "flickr8k")  # folders in it; the first is the default
CAPTIONER, GROUNDER = "captioner", "grounder"  # folders in each of these


def model_folder(path: str | Path, part: str) -> Path:
    """The folder of a captioner or grounder: that of a model, or one that holds both as `groundling adapt` leaves them;
    the name of weights in the package, or "" for the default."""
    folder = Path(path)
    if not str(path) or (str(path) in WEIGHTS and not folder.exists()):
        return shipped(str(path) or WEIGHTS[0], part)
    if not folder.exists():
        near = did_you_mean(str(path), WEIGHTS) or "; `groundling adapt` and `groundling train` make one"
        raise DataError(f"no model in {path}: no such folder, and the package has {' and '.join(WEIGHTS)} alone{near}")
    both = not (folder / ABOUT).exists() and (folder / part / ABOUT).exists()
    return folder / part if both else folder


def shipped(weights: str, part: str) -> Path:
    """The folder of a captioner or grounder in the package."""
    folder = SHIPPED / weights / part
    if not (folder / ABOUT).exists():
        raise GroundlingError(
            f"this installation has no weights in {folder}: name a model that you trained (--model RUN), "
            "install groundling from its wheel, or make them with `make weights`"
        )
    return folder


def load_model(path: str | Path, device: torch.device) -> Model:
    """A model of any recipe, on a device: a captioner, a matcher or a grounder."""
    model = load(model_folder(path, CAPTIONER))
    model.parts.to(device)
    return model


def device_of(name: str) -> torch.device:
    """cpu, cuda, mps; GroundlingError where it cannot be used."""
    import torch

    if name.lower() in ("gpu", "nvidia", "metal"):
        raise GroundlingError(f"cannot use the device {name}: use cuda (NVIDIA), mps (Apple) or cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise GroundlingError(f"cannot use the device {name}: {str(error).splitlines()[0]}") from error
    return device


def source_of(wanted: Fingerprint, image_classes: bool = False) -> RegionSource:
    """What makes the regions that a model was trained on; a detector that was only its teacher is not run again.

    image_classes: they also have probabilities of nouns, where the source can tell them.
    """
    if wanted.version == IMPORTED:
        raise GroundlingError(
            f"this model was trained on imported regions ({wanted.name}): give --regions STORE "
            "(in Python: caption(ids, regions=Store.open(path)))"
        )
    try:
        alone = {DETECTOR: NONE} if DETECTOR in wanted.parameters else {}
        made = source(_module_of(wanted), **{**wanted.parameters, **alone})
    except (TypeError, ValueError) as error:
        raise DataError(
            f"no regions of {wanted.name} can be made with the parameters of this model: {error}"
        ) from error
    require(made.fingerprint, wanted)
    if image_classes and hasattr(made, "add_classes"):
        made.add_classes()
    return made


def _module_of(wanted: Fingerprint) -> str:
    """The module of a source: models that were trained with an earlier version of it find that one."""
    earlier = f"{wanted.name}_v{wanted.version}"
    return earlier if earlier in names() else wanted.name


def installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:
        return False


@cache
def can_find_joints() -> bool:
    """Whether what joints need is installed; where it is not, that is told once."""
    if installed("onnxruntime") and installed("cv2"):
        return True
    log.warning("clothes and parts of bodies are found badly: joints need pip install 'groundling[captions]'")
    return False
