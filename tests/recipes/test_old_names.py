"""Models, calibrations, settings and flags as version 0.1 named them are read, and the new names are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from groundling import recipes
from groundling.commands import _parser
from groundling.inference.evidence import OLD_NAME, read_calibration
from groundling.recipes.multi_branch import MultiBranch
from groundling.recipes.scst import Scst
from groundling.regions.records import Layout
from groundling.text.classes import Classes
from groundling.text.vocab import Vocabulary
from groundling.training.run import _renamed
from groundling.types import Fingerprint

SMALL = {"hidden": 8, "embed": 8, "attention": 8, "location": 8}


def test_a_model_folder_of_the_earlier_version_loads(tmp_path: Path) -> None:
    recipe = MultiBranch.of(**SMALL, branches=2, warmup_epochs=3)
    vocab, classes = Vocabulary.build([["a", "dog"]], min_count=1), Classes(("dog",), {"dog": "dog"})
    parts = recipe.parts(vocab, Layout(4), classes)
    made = recipes.Model(
        recipe, parts, vocab, Fingerprint("x", "1", 4), Layout(4), classes, fine_tuning=(Scst.of(reward_model="m"),)
    )
    recipes.save(tmp_path, made)
    about = json.loads((tmp_path / "model.json").read_text())
    about["recipe"] = "distributed"
    about["fields"]["alone"] = about["fields"].pop("warmup_epochs")
    [row] = about["finishes"] = about.pop("fine_tuning")
    row["fields"]["judge"] = row["fields"].pop("reward_model")
    (tmp_path / "model.json").write_text(json.dumps(about))
    (tmp_path / "manifest.json").unlink()
    model = recipes.load(tmp_path)
    assert (model.recipe, model.fine_tuning) == (recipe, made.fine_tuning)


def test_a_calibration_is_found_by_its_earlier_name(tmp_path: Path) -> None:
    assert read_calibration(tmp_path) is None
    (tmp_path / OLD_NAME).write_text(json.dumps({"format": 1, "calibration": {"x": [0, 1], "p": [0, 1]}}))
    assert read_calibration(tmp_path) is not None


def test_settings_of_an_earlier_run_are_those_of_this_version() -> None:
    old = {"recipe": "distributed", "alone": 2, "epochs": 5}
    now = _renamed(old)
    assert now.items() >= {"recipe": "multi_branch", "warmup_epochs": 2, "epochs": 5}.items() and "alone" not in now


@pytest.mark.parametrize(
    ("words", "field", "value", "told"),
    [
        ("train distributed --alone 2", "config_warmup_epochs", 2, "--alone is now --warmup-epochs"),
        ("train matcher_pos_scan --alone 1", "config_nouns_only", 1, "--alone is now --nouns-only"),
        ("train scst --judge run", "config_reward_model", "run", "--judge is now --reward-model"),
        ("train groundling --finish 3", "config_scst_epochs", 3, "--finish is now --scst-epochs"),
        ("caption photo.jpg --trust 0.3", "grounder_weight", 0.3, "--trust is now --grounder-weight"),
    ],
)
def test_flags_of_the_earlier_version_work_and_tell_the_new_name(
    words: str, field: str, value: object, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = words.split()
    argv += ["--data", "d", "--regions", "r", "--out", "o"] if argv[0] == "train" else []
    args = _parser(argv).parse_args(argv)
    assert getattr(args, field) == value
    assert told in capsys.readouterr().err
