"""Recipes from files and from other packages: the tutorial's is one."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import planted
import pytest
import torch

from groundling.cli import main
from groundling.commands import _parser
from groundling.data.loader import Loader
from groundling.errors import DataError, GroundlingError
from groundling.recipes import _config, _registry, builds_model, load, recipe_class, recipe_name
from groundling.recipes._registry import from_file
from groundling.text.classes import groundable_words
from groundling.text.vocab import Vocabulary
from groundling.training.run import train
from groundling.training.stages import Clock

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial-recipe.md"
SMALL = {"hidden": 16, "embed": 8, "attention": 8, "dropout": 0.0, "lr": 1e-2, "epochs": 2, "batch": 8, "min_count": 1}


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    """What one test registers, no other finds."""
    yield
    _registry.files.clear()
    _registry._outside.clear()
    _registry.installed.cache_clear()


@pytest.fixture
def sharp(tmp_path: Path) -> Path:
    """The recipe of the tutorial as a file."""
    code = re.findall(r"```python\n(.*?)```", TUTORIAL.read_text(), re.DOTALL)[0]
    assert len(code.splitlines()) < 40
    path = tmp_path / "sharp.py"
    path.write_text(code)
    return path


def test_the_recipe_of_the_tutorial_trains_and_its_model_is_loaded(sharp: Path, tmp_path: Path) -> None:
    made = recipe_class(from_file(sharp, str(sharp)))
    dataset, store = planted.make(tmp_path / "store", images=10)
    train(made.of(**SMALL), dataset.split("train"), dataset.split("val"), store, tmp_path / "run")
    model = load(tmp_path / "run")
    assert recipe_name(model.recipe) == "sharp" and model.recipe == made.of(**SMALL)
    assert model.scores[0].name == "cider-d"
    assert ",entropy," in (tmp_path / "run" / "log.csv").read_text()


def test_the_penalty_of_the_tutorial_is_the_entropy_at_nouns(sharp: Path, tmp_path: Path) -> None:
    """Attention that is the same everywhere has the entropy log 5 of five regions."""
    made: Any = recipe_class(from_file(sharp, str(sharp))).of(**SMALL, entropy=0.3)
    dataset, store = planted.make(tmp_path / "store", images=4)
    vocab = Vocabulary.of((caption for example in dataset for caption in example.captions), 1)
    batch = next(iter(Loader(dataset, store, vocab, batch_size=4, length=8)(0)))
    parts = made.parts(vocab, store.layout, groundable_words(dataset))
    torch.nn.init.zeros_(parts.captioner.attend.weigh.weight)
    terms = made.xe(parts, batch, Clock(0, 0))
    assert terms["entropy"].item() == pytest.approx(0.3 * math.log(planted.REGIONS), rel=1e-5)


def test_flags_and_help_of_a_file_come_from_its_fields(sharp: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["train", str(sharp), "--help"])
    assert stopped.value.code == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "--entropy FLOAT λ, weight of the entropy of the attention at nouns (default 0.1)" in printed
    assert "H(β) = −Σ_i β_i log β_i" in printed
    assert (
        "--regions-per-image INT most regions of an image, or of each frame of a clip: the first of the store "
        "(default 36)" in printed
    )


def test_the_command_line_hands_the_flags_of_a_file_to_its_recipe(sharp: Path) -> None:
    words = ["train", str(sharp), "--data", "d", "--regions", "r", "--out", "o", "--entropy", "0.5", "--no-nouns-only"]
    args = _parser(words).parse_args(words)
    assert (args.config_entropy, args.config_nouns_only, args.config_hidden) == (0.5, False, 512)
    assert _parser(words).parse_args([*words, "--nouns-only"]).config_nouns_only is True
    assert _parser(words).parse_args([*words, "--nouns-only", "0"]).config_nouns_only is False


def test_a_model_does_not_bring_its_code_but_the_user_may_name_it(
    sharp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = recipe_class(from_file(sharp, str(sharp)))
    dataset, store = planted.make(tmp_path / "store", images=10)
    small = made.of(**SMALL | {"epochs": 1})
    train(small, dataset.split("train"), dataset.split("val"), store, tmp_path / "run")
    _registry._outside.clear()
    with pytest.raises(DataError, match=r"unknown recipe 'sharp'.*GROUNDLING_RECIPES=path/to/sharp.py"):
        load(tmp_path / "run")
    monkeypatch.setenv("GROUNDLING_RECIPES", str(sharp))
    assert builds_model(load(tmp_path / "run").recipe)


def test_a_recipe_of_an_installed_package_has_a_name_flags_and_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sharp: Path
) -> None:
    """A package as pip leaves it: a module, and its entry points in a folder beside it."""
    site = tmp_path / "site"
    (site / "theirs-1.0.dist-info").mkdir(parents=True)
    (site / "theirs.py").write_text(sharp.read_text())
    (site / "theirs-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    points = "[groundling.recipes]\npointed = theirs:Sharp\nupdown = theirs:Sharp\nbroken = theirs:Nothing\n"
    (site / "theirs-1.0.dist-info" / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(str(site))
    importlib.invalidate_caches()
    _registry.installed.cache_clear()
    made = recipe_class("pointed")
    assert made.__module__ == "theirs" and recipe_name(made.of(**SMALL)) == "pointed"
    assert recipe_class("updown").__module__ == "groundling.recipes.updown"  # ours cannot be replaced
    assert "entropy" in [field.name for field in _config.read("pointed")[1]]
    with pytest.raises(GroundlingError, match="the recipe broken of theirs cannot be used.*reinstall"):
        recipe_class("broken")
    assert main(["train", "broken"]) == 2  # which is no reason not to train others
    words = ["train", "pointed", "--data", "d", "--regions", "r", "--out", "o", "--entropy", "2"]
    assert _parser(words).parse_args(words).config_entropy == 2


@pytest.mark.parametrize(
    ("name", "code", "told"),
    [
        ("updown.py", "", "rename it to a word that is no recipe yet, as my_updown.py"),
        ("a-b.py", "", "rename it"),
        ("empty.py", "x = 1", "holds no recipe: a frozen dataclass with `stages`; see docs/tutorial-recipe.md"),
        ("wrong.py", "import nothing_like_this", "cannot be imported: ModuleNotFoundError"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_in_one_line(
    tmp_path: Path, name: str, code: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(code)
    assert main(["train", str(tmp_path / name), "--help"]) == 2
    printed = capsys.readouterr().err
    assert told in printed and len(printed.splitlines()) == 1


def test_a_file_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "elsewhere/mine.py"]) == 2
    assert "there is no file elsewhere/mine.py" in capsys.readouterr().err
