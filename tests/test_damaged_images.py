"""Damaged files end in a caption or in an error that names them. `tools/fuzz_images.py` does the same with 500."""

from __future__ import annotations

import importlib.util
import resource
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from PIL import Image

import groundling
from groundling import inference, recipes
from groundling.errors import DataError
from groundling.recipes.updown import Updown
from groundling.regions.records import Layout
from groundling.regions.sources import source
from groundling.text.classes import Classes
from groundling.text.vocab import Vocabulary

TOOL = Path(__file__).parent.parent / "tools" / "fuzz_images.py"
COUNT = 63  # every kind of file, every damage


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fuzz_images", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def captioner() -> groundling.GroundedCaptioner:
    """A captioner that never learned, on the regions of scenes."""
    torch.manual_seed(0)
    made = source("scenes")
    layout = Layout.of(made(Image.new("RGB", (32, 32), "white")))
    vocab, classes = Vocabulary.build([["dog", "a"]], min_count=1), Classes(("dog",), {"dog": "dog"})
    recipe = Updown.of(hidden=8, embed=8, attention=8, length=4)
    model = recipes.Model(recipe, recipe.parts(vocab, layout, classes), vocab, made.fingerprint, layout, classes)
    return inference.GroundedCaptioner(model, torch.device("cpu"))


def test_whole_files_are_all_captioned(
    tool: ModuleType, captioner: groundling.GroundedCaptioner, tmp_path: Path
) -> None:
    for name, content in tool.whole().items():
        (tmp_path / name).write_bytes(content)
        assert captioner.caption(tmp_path / name).size in ((96, 64), (64, 96)), name


@pytest.mark.parametrize("count", ["0", "-1", "many"])
def test_there_must_be_files_to_damage(
    tool: ModuleType, count: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["fuzz_images.py", "--count", count])
    with pytest.raises(SystemExit) as stopped:
        tool.main()
    assert stopped.value.code == 2
    assert "argument --count: " in (told := capsys.readouterr().err) and count in told


def test_damaged_files_are_captioned_or_named(
    tool: ModuleType, captioner: groundling.GroundedCaptioner, tmp_path: Path
) -> None:
    before, became = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, {"caption": 0, "error": 0}
    for name, content in tool.damaged(COUNT, seed=1):
        (tmp_path / name).write_bytes(content)
        try:
            captioner.caption(tmp_path / name)
            became["caption"] += 1
        except DataError as error:
            assert name in str(error)
            became["error"] += 1
    used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / (
        1024 if sys.platform == "linux" else 1024**2
    )
    assert min(became.values()) > COUNT / 10 and used < 1500  # MB; a file may have 89 million pixels


def test_the_same_seed_makes_the_same_files(tool: ModuleType) -> None:
    assert list(tool.damaged(40, seed=3)) == list(tool.damaged(40, seed=3)) != list(tool.damaged(40, seed=4))
