"""What `groundling demo` does about real photos: shown first on its page where they can be had, else told."""

from __future__ import annotations

import json
import re
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from PIL import Image

from groundling import inference
from groundling.cli import main
from groundling.commands import demo
from groundling.errors import GroundlingError
from groundling.types import GroundedCaption, Link


class GroundedCaptioner:
    source = None


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """scikit-image, with one of the photos."""
    spec = ModuleSpec("skimage", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    (tmp_path / "data").mkdir()
    Image.new("RGB", (32, 24), "brown").save(tmp_path / "data" / "coffee.png")
    monkeypatch.setattr(demo, "find_spec", {"skimage": spec}.get)
    monkeypatch.setattr(inference, "load", GroundedCaptioner)
    return tmp_path


def test_photos_are_those_that_the_package_has(package: Path) -> None:
    assert demo.photos() == ([package / "data" / "coffee.png"], "")


def test_what_is_missing_is_told(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> None:
        raise GroundlingError("no weights")

    monkeypatch.setattr(inference, "load", load)
    assert demo.photos() == ([], "no weights")
    monkeypatch.setattr(demo, "find_spec", lambda _: None)
    assert demo.photos() == ([], "scikit-image is not installed; run: pip install 'groundling[demo]'")


def test_photos_come_first_on_the_page_with_their_licence(package: Path) -> None:
    Image.new("RGB", (32, 24), "teal").save(package / "scene.png")
    link = Link(1, (2, 5), (1.0, 2.0, 20.0, 20.0), 0.9, evidence=0.2)
    for name, media in (("photos", package / "data" / "coffee.png"), ("test", package / "scene.png")):
        said = GroundedCaption(
            media.stem, "a cup", ("a", "cup"), ((0, 1), (2, 5)), (link,), size=(32, 24), media=str(media)
        )
        (package / f"{name}.jsonl").write_text(json.dumps(said.to_dict()))
    *_, caption, report = demo.steps(package, 10, 1, demo.photos()[0])
    assert caption[:2] == ["caption", str(package / "data" / "coffee.png")]
    at = report.index("--data")  # of the scenes, which are not drawn here
    assert main([*report[:at], *report[at + 4 :]]) == 0
    page = (package / "page.html").read_text()
    assert "coffee: Rachel Michetti, CC0" in page
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])  # type: ignore[index]
    assert [item["id"] for item in data["items"]] == ["coffee", "scene"]
    assert [item["said"][0]["links"][0]["weak"] for item in data["items"]] == [True, True]


def test_without_photos_there_is_no_step_for_them(tmp_path: Path) -> None:
    assert [step[0] for step in demo.steps(tmp_path, 10, 1)].count("caption") == 1
    assert "--also" not in demo.steps(tmp_path, 10, 1)[-1]
