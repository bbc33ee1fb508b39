"""The part of COCO that tables are measured on: what is learned from, chosen by and scored is kept apart."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
from PIL import Image

from groundling.data.dataset import load
from groundling.errors import GroundlingError

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("papers_coco", ROOT / "tools" / "papers_coco.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def coco(tmp_path: Path) -> Path:
    """Four images of train, five of val, in an order that is not that of their ids."""
    (tmp_path / "coco" / "images").mkdir(parents=True)
    for split, ids in (("train", (4, 3, 2, 1)), ("val", (9, 8, 7, 6, 5))):
        for id in ids:
            Image.new("RGB", (8, 6)).save(tmp_path / "coco" / "images" / f"{id}.jpg")
        images = [{"id": id, "file_name": f"images/{id}.jpg"} for id in ids]
        said = [{"id": id, "image_id": id, "caption": f"Thing number {id}."} for id in ids]
        content = {"images": images, "annotations": said}
        (tmp_path / "coco" / f"captions_{split}.json").write_text(json.dumps(content))
    return tmp_path / "coco"


def test_the_first_images_of_each_split_in_order_and_val_in_two_parts(
    tool: ModuleType, coco: Path, tmp_path: Path
) -> None:
    (tmp_path / "part").mkdir()
    parts = tool.part(load(coco, annotated=False), train=3, val=1, rest=2)
    (tmp_path / "part" / "captions.jsonl").write_text("".join(tool.line(split, one) for split, one in parts))
    found = load(tmp_path / "part", annotated=False)
    assert [(e.id, e.split) for e in found] == [
        ("4", "train"),
        ("3", "train"),
        ("2", "train"),
        ("9", "val"),
        ("8", "val-rest"),
        ("7", "val-rest"),
    ]
    assert found.examples[-1].captions[0].text == "Thing number 7." and found.examples[-1].size == (8, 6)
    assert Path(found.examples[0].media) == coco / "images" / "4.jpg"


def test_a_data_set_that_is_too_small_is_named(tool: ModuleType, coco: Path) -> None:
    with pytest.raises(GroundlingError, match="val has 5 images; 6 are needed"):
        list(tool.part(load(coco, annotated=False), train=3, val=2, rest=4))
