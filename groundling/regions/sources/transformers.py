"""Any object detector of the transformers library, from a folder or from the hub; safetensors only, no remote code."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from groundling.errors import DataError, GroundlingError, MissingExtra
from groundling.regions.sources._detected import Detected, Floats, file_sha256, spread
from groundling.regions.sources._pooling import LEAST_SCORE

FILES = ("*.json", "*.safetensors")  # all that is fetched, read and hashed


def make(model: str, revision: str | None = None, regions: int = 50) -> Detected:
    """`model`: a folder written by `save_pretrained`, or a name on the hub (then `revision` pins it)."""
    library = _library()
    folder = Path(model) if Path(model).is_dir() else _downloaded(model, revision)
    if not list(folder.glob("*.safetensors")):
        raise DataError(f"{model}: no *.safetensors in it; save it again with safe_serialization=True")
    try:
        safe = {"local_files_only": True, "trust_remote_code": False}
        processor = library.AutoImageProcessor.from_pretrained(folder, **safe)
        network = library.AutoModelForObjectDetection.from_pretrained(folder, use_safetensors=True, **safe)
    except ImportError as error:
        raise MissingExtra(f"{model}: {error}") from error
    except Exception as error:  # a folder can be wrong in as many ways as the library has models
        raise DataError(f"{model}: not an object detector of transformers ({error})") from error
    network.requires_grad_(False).eval()
    labels = tuple(str(network.config.id2label[i]) for i in range(network.config.num_labels))

    def detect(image: Any) -> tuple[Floats, Floats]:
        with torch.inference_mode():
            outputs = network(**processor(images=image, return_tensors="pt"))
            unit = [(1, 1)]  # "pixels" of an image of one pixel: from 0 to 1
            detections = processor.post_process_object_detection(outputs, threshold=LEAST_SCORE, target_sizes=unit)
        return converted(detections[0], len(labels))

    files = sorted(file for pattern in FILES for file in folder.glob(pattern))
    parameters = {"model": folder.name if Path(model).is_dir() else model} | (
        {"revision": revision} if revision else {}
    )
    return Detected(
        detect, "transformers", regions, labels, parameters, {file.name: file_sha256(file) for file in files}
    )


def converted(output: Mapping[str, Tensor], classes: int) -> tuple[Floats, Floats]:
    """What a processor returns, boxes from 0 to 1 -> boxes (N, 4), scores (N, C)."""
    boxes: Floats = output["boxes"].float().numpy().reshape(-1, 4)
    return boxes, spread(output["labels"].numpy(), output["scores"].float().numpy(), classes)


def _library() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise MissingExtra("these detectors need transformers: pip install 'groundling[transformers]'") from error
    return transformers


def _downloaded(model: str, revision: str | None) -> Path:
    hub = importlib.import_module("huggingface_hub")  # comes with transformers
    try:
        return Path(hub.snapshot_download(model, revision=revision, allow_patterns=list(FILES)))
    except Exception as error:  # no network, no such name, no permission: the library has an error for each
        raise GroundlingError(f"{model}: neither a folder nor to be had from the hub ({error})") from error
