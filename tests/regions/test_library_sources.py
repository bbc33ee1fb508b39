"""Detectors of torchvision and transformers: conversions by hand, loading with the smallest models there can be."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor, nn

from groundling.errors import DataError, GroundlingError, MissingExtra
from groundling.regions.sources import _detected, source, torchvision, transformers


@pytest.fixture(autouse=True)
def no_backbone(monkeypatch: pytest.MonkeyPatch) -> None:
    """One channel, brightness, instead of the installed weights."""

    class Bright:
        dim = 1

        def __call__(self, pixels: Tensor) -> Tensor:
            return nn.functional.avg_pool2d(pixels, 32).mean(1, keepdim=True)

    monkeypatch.setattr(_detected, "load_backbone", Bright)


# ---------------------------------------------------------------- torchvision


class FasterRcnn(nn.Module):
    """The calling convention and the class layer of torchvision's, and one box: the left half, of the last class."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.roi_heads = nn.Module()
        self.roi_heads.box_predictor = nn.Module()
        self.roi_heads.box_predictor.cls_score = nn.Linear(4, num_classes)

    def forward(self, images: list[Tensor]) -> list[dict[str, Tensor]]:
        _, height, width = images[0].shape
        last = self.roi_heads.box_predictor.cls_score.out_features - 1  # type: ignore[union-attr]
        boxes = torch.tensor([[0, 0, width / 2, height]])
        return [{"boxes": boxes, "labels": torch.tensor([last]), "scores": images[0].mean()[None]}]


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A stand-in for torchvision.models.detection."""
    detection = SimpleNamespace(
        fasterrcnn_resnet50_fpn_v2=lambda weights, weights_backbone, num_classes, **_: FasterRcnn(num_classes)
    )
    monkeypatch.setattr(torchvision, "_library", lambda: detection)
    return detection


def own(folder: Path, classes: int = 2, names: str = "cat\ndog\n") -> dict[str, Any]:
    save_file(FasterRcnn(1 + classes).state_dict(), folder / "mine.safetensors")
    (folder / "names.txt").write_text(names)
    return {"weights": str(folder / "mine.safetensors"), "names": str(folder / "names.txt")}


def test_labels_of_torchvision_count_from_one() -> None:
    found = {
        "boxes": torch.tensor([[10.0, 0, 20, 50]]),
        "labels": torch.tensor([2]),
        "scores": torch.tensor([0.75]),
    }
    boxes, scores = torchvision.converted(found, (100, 50), 3)
    np.testing.assert_allclose(boxes, [[0.1, 0, 0.2, 1]])
    np.testing.assert_allclose(scores, [[0, 0.75, 0]])


def test_weights_of_your_own_are_loaded_and_named(tmp_path: Path, library: SimpleNamespace) -> None:
    made = source("torchvision", **own(tmp_path), regions=9)
    assert made.fingerprint.labels == ("cat", "dog") and "mine.safetensors" in made.fingerprint.weights
    regions = made(Image.new("RGB", (40, 20), "white"))
    assert regions.boxes.tolist() == [[[0, 0, 40, 20], [0, 0, 20, 20]]]
    assert regions.labels[0, 1].tolist() == [1, -1] and regions.scores[0, 1].tolist() == [1, 0]


def test_published_weights_are_read_by_the_restricted_reader(
    tmp_path: Path, library: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def get_state_dict(**how: Any) -> dict[str, Tensor]:
        asked.update(how)
        return FasterRcnn(3).state_dict()

    chosen = SimpleNamespace(
        url="https://example.org/a.pth", meta={"categories": ["nothing", "cat", "dog"]}, get_state_dict=get_state_dict
    )
    library.FasterRCNN_ResNet50_FPN_V2_Weights = SimpleNamespace(DEFAULT=chosen)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "a.pth").write_bytes(b"x")
    made = source("torchvision")
    assert asked["weights_only"] and asked["check_hash"]
    assert made.fingerprint.labels == ("cat", "dog")


def test_wrong_weights_and_names_are_named(tmp_path: Path, library: SimpleNamespace) -> None:
    with pytest.raises(GroundlingError, match="2 classes.*3 names"):
        source("torchvision", **own(tmp_path, names="a\nb\nc\n"))
    with pytest.raises(GroundlingError, match="names=FILE"):
        source("torchvision", weights=own(tmp_path)["weights"])
    (tmp_path / "mine.safetensors").write_bytes(b"not this")
    with pytest.raises(DataError, match=r"mine\.safetensors"):
        source("torchvision", weights=str(tmp_path / "mine.safetensors"), names=str(tmp_path / "names.txt"))


@pytest.mark.parametrize("name", ["torchvision", "transformers"])
def test_a_missing_library_is_a_missing_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, f"{name}.models", None)
    with pytest.raises(MissingExtra, match=rf"pip install 'groundling\[{name}\]'"):
        source(name, **({"model": "somewhere"} if name == "transformers" else {}))


def test_a_torchvision_for_another_torch_is_a_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(ModuleType):
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.setitem(sys.modules, "torchvision", ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.models", Broken("torchvision.models"))
    with pytest.raises(MissingExtra, match="fits the installed torch"):
        source("torchvision")


# ---------------------------------------------------------------- transformers


def test_results_of_a_processor_become_class_scores() -> None:
    found = {
        "boxes": torch.tensor([[0, 0, 0.5, 1], [0.1, 0.1, 0.2, 0.2]]),
        "labels": torch.tensor([1, 0]),
        "scores": torch.tensor([0.5, 0.25]),
    }
    boxes, scores = transformers.converted(found, 2)
    assert boxes.shape == (2, 4)
    np.testing.assert_allclose(scores, [[0, 0.5], [0.25, 0]])


def saved(folder: Path) -> Path:
    """The smallest YOLOS, random, as `save_pretrained` leaves it."""
    library = pytest.importorskip("transformers")
    config = library.YolosConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        image_size=[32, 48],
        patch_size=16,
        num_detection_tokens=7,
        id2label={0: "cat", 1: "dog"},
        label2id={"cat": 0, "dog": 1},
    )
    torch.manual_seed(0)
    library.YolosForObjectDetection(config).save_pretrained(folder, safe_serialization=True)
    (folder / "preprocessor_config.json").write_text(
        '{"image_processor_type": "YolosImageProcessor", "size": {"shortest_edge": 32, "longest_edge": 48}}'
    )
    return folder


@pytest.mark.filterwarnings("ignore")  # those of the library's own dependencies
@pytest.mark.skipif(not importlib.util.find_spec("transformers"), reason="transformers is not installed")
def test_a_saved_detector_makes_regions(tmp_path: Path) -> None:
    made = source("transformers", model=str(saved(tmp_path / "tiny")), regions=5)
    assert made.fingerprint.labels == ("cat", "dog") and made.fingerprint.parameters["model"] == "tiny"
    assert {"config.json", "model.safetensors", "preprocessor_config.json"} <= made.fingerprint.weights.keys()
    regions = made(Image.linear_gradient("L").resize((90, 60)))
    assert regions.boxes[0, 0].tolist() == [0, 0, 90, 60] and 2 <= regions.boxes.shape[1] <= 5
    assert regions.labels.max() <= 1 and regions.feats.isfinite().all()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(not importlib.util.find_spec("transformers"), reason="transformers is not installed")
def test_pickled_weights_are_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path / "tiny")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(DataError, match=r"safetensors"):
        source("transformers", model=str(folder))
