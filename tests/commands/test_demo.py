"""What `groundling demo` does: real photos first, on a page that is there at once, then drawn scenes."""

from __future__ import annotations

import json
import re
import shlex
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from PIL import Image

from groundling import commands, inference
from groundling.cli import main
from groundling.commands import demo
from groundling.errors import GroundlingError
from groundling.types import GroundedCaption, Link

README = Path(__file__).parent.parent.parent / "README.md"


class GroundedCaptioner:
    source = None


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """scikit-image with two of the photos; scikit-learn is not installed."""
    spec = ModuleSpec("skimage", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path / "skimage")]
    (tmp_path / "skimage/data").mkdir(parents=True)
    for name in ("astronaut.png", "coffee.png"):
        Image.new("RGB", (32, 24), "brown").save(tmp_path / "skimage/data" / name)
    monkeypatch.setattr(demo, "find_spec", {"skimage": spec}.get)
    monkeypatch.setattr(inference, "load", GroundedCaptioner)
    return tmp_path


def test_photos_of_installed_packages_are_laid_out_with_credits_and_sentences(package: Path) -> None:
    assert demo.lay_out(package / "demo") == ""
    photos = package / "demo/photos"
    assert sorted(file.name for file in photos.iterdir()) == ["CREDITS.txt", "astronaut.png", "coffee.png"]
    assert "coffee: Rachel Michetti, CC0" in (photos / "CREDITS.txt").read_text()
    rows = (package / "demo/captions.tsv").read_text().splitlines()
    assert rows[1] == "coffee.png\ta cup of coffee with a spoon on a table"


def test_what_is_missing_is_told(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> None:
        raise GroundlingError("no weights")

    monkeypatch.setattr(inference, "load", load)
    assert demo.lay_out(package) == "no weights"
    monkeypatch.setattr(demo, "find_spec", lambda _: None)
    assert "pip install 'groundling[demo]'" in demo.lay_out(package)


def test_the_page_of_the_photos_is_there_before_the_first_scene_is_drawn(
    package: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(commands, "call", lambda words: calls.append(words[0]) or 0)
    assert demo_run(package / "demo") == 0
    assert calls[:4] == ["caption", "report", "ground", "audit"]
    assert calls[4:] == ["scenes", "regions", "doctor", "train", "caption", "score", "report"]
    told = capsys.readouterr().out
    assert told.index("page.html in a browser: it has the photos") < told.index("groundling scenes")


def test_a_step_that_fails_ends_the_demo(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "call", lambda words: 3 if words[0] == "ground" else 0)
    assert demo_run(package / "demo") == 3


def demo_run(folder: Path) -> int:
    import argparse

    parser = argparse.ArgumentParser()
    demo.add_arguments(parser)
    return demo.run(parser.parse_args([str(folder)]))


def test_photos_come_first_on_the_last_page_with_their_licence(package: Path) -> None:
    assert demo.lay_out(package) == ""
    Image.new("RGB", (32, 24), "teal").save(package / "scene.png")
    link = Link(1, (2, 5), (1.0, 2.0, 20.0, 20.0), 0.9, evidence=0.2)
    for name, media in (("photos", package / "photos/coffee.png"), ("test", package / "scene.png")):
        caption = GroundedCaption(
            media.stem, "a cup", ("a", "cup"), ((0, 1), (2, 5)), (link,), size=(32, 24), media=str(media)
        )
        (package / f"{name}.jsonl").write_text(json.dumps(caption.to_dict()))
    report = demo.scene_steps(package, 10, 1, with_photos=True)[-1]
    at = report.index("--data")  # of the scenes, which are not drawn here
    assert main([*report[:at], *report[at + 4 :]]) == 0
    page = (package / "page.html").read_text()
    assert "coffee: Rachel Michetti, CC0" in page
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])  # type: ignore[index]
    assert [item["id"] for item in data["items"]] == ["coffee", "scene"]


def test_without_photos_there_is_no_step_for_them(tmp_path: Path) -> None:
    assert "--also" not in demo.scene_steps(tmp_path, 10, 1, with_photos=False)[-1]


def test_the_readme_lists_the_commands_that_the_demo_runs() -> None:
    part = README.read_text(encoding="utf-8").partition("What `make demo` does")[2]
    block = part.split("```console\n")[1].split("```")[0]
    lines = block.replace("\\\n", "").replace("$ groundling ", "").splitlines()
    listed = [shlex.split(line, comments=True) for line in lines]
    folder = Path("demo")
    assert listed == demo.photo_steps(folder) + demo.scene_steps(folder, 1500, 14, with_photos=True)
