"""Faster R-CNN (ResNet-50, FPN, version 2) of torchvision: its published COCO weights, or your own as safetensors.

The published weights are downloaded once by torchvision itself, which checks their hash; they are read by torch's
restricted reader, which makes tensors and calls nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from groundling.errors import DataError, GroundlingError, MissingExtra
from groundling.regions.sources._detected import Detected, Floats, file_sha256, read_names, spread
from groundling.regions.sources._pooling import LEAST_SCORE

BOXES = 300  # that the detector may return
CLASSES = "roi_heads.box_predictor.cls_score.weight"  # (1 + C, ...): one row is the background


def make(weights: str | None = None, names: str | None = None, regions: int = 50) -> Detected:
    """`weights`: a safetensors file of the same network; then `names` is a text file, one class per line."""
    library = _library()
    path, state, known = _published(library) if weights is None else _own(Path(weights), names)
    if CLASSES not in state or len(state[CLASSES]) != 1 + len(known):
        rows = "no" if CLASSES not in state else len(state[CLASSES]) - 1
        raise GroundlingError(f"{path}: {rows} classes of a Faster R-CNN, and {len(known)} names; they must agree")
    network = library.fasterrcnn_resnet50_fpn_v2(
        weights=None,
        weights_backbone=None,
        num_classes=1 + len(known),
        box_score_thresh=LEAST_SCORE,
        box_detections_per_img=BOXES,
    )
    try:
        network.load_state_dict(state)
    except RuntimeError as error:
        raise DataError(f"{path}: not the weights of fasterrcnn_resnet50_fpn_v2 ({error})") from error
    network.requires_grad_(False).eval()

    def detect(image: Any) -> tuple[Floats, Floats]:
        pixels = torch.from_numpy(np.array(image, np.float32)).permute(2, 0, 1) / 255
        with torch.inference_mode():
            return converted(network([pixels])[0], image.size, len(known))

    return Detected(detect, "torchvision", regions, known, {}, {path.name: file_sha256(path)})


def converted(output: Mapping[str, Tensor], size: tuple[int, int], classes: int) -> tuple[Floats, Floats]:
    """What torchvision returns, boxes in pixels and labels from 1 -> boxes (N, 4) from 0 to 1, scores (N, C)."""
    boxes = output["boxes"].float() / torch.tensor([*size, *size])
    return boxes.numpy(), spread(output["labels"].numpy() - 1, output["scores"].numpy(), classes)


def _library() -> Any:
    try:
        from torchvision.models import detection
    except (ImportError, RuntimeError) as error:  # RuntimeError: built for another torch
        raise MissingExtra(
            f"Faster R-CNN needs a torchvision that fits the installed torch ({error}): "
            "pip install 'groundling[torchvision]'"
        ) from error
    return detection


def _published(library: Any) -> tuple[Path, Mapping[str, Tensor], tuple[str, ...]]:
    chosen = library.FasterRCNN_ResNet50_FPN_V2_Weights.DEFAULT
    try:
        state = chosen.get_state_dict(progress=False, check_hash=True, weights_only=True)
    except (OSError, RuntimeError) as error:
        raise GroundlingError(f"{chosen.url}: cannot be downloaded ({error}); or give your own weights=FILE") from error
    return (
        Path(torch.hub.get_dir()) / "checkpoints" / Path(chosen.url).name,
        state,
        tuple(chosen.meta["categories"][1:]),
    )


def _own(path: Path, names: str | None) -> tuple[Path, Mapping[str, Tensor], tuple[str, ...]]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if names is None:
        raise GroundlingError(f"{path}: weights of your own need the names of their classes: names=FILE")
    try:
        return path, load_file(path), read_names(Path(names))
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path}: not a safetensors file ({error}); save the state with safetensors") from error
