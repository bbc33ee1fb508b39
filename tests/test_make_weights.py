"""The tool that packs weights into the package: fewer bytes, the same model, no trace of the machine that made it."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from labelled_scenes import scenes as scenes  # a fixture
from PIL import Image

from groundling import inference, recipes
from groundling.errors import GroundlingError
from groundling.files import MANIFEST
from groundling.inference import evidence
from groundling.recipes.two_branch import TwoBranch
from groundling.regions.records import Layout
from groundling.regions.sources import source
from groundling.text.classes import Classes
from groundling.text.vocab import Vocabulary

TOOL = Path(__file__).parent.parent / "tools" / "make_weights.py"
WORDS = ["dog", "ball", "a"]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_weights", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A grounder whose features vary by less than half precision can tell from 0."""
    torch.manual_seed(0)
    made = source("scenes")
    layout = Layout.of(made(Image.new("RGB", (32, 32), "white")))
    vectors = tmp_path / "secret" / "glove.txt"
    vectors.parent.mkdir()
    vectors.write_text("".join(f"{word} {i}.5 {i}\n" for i, word in enumerate(WORDS)))
    recipe = TwoBranch.of(joint=8, embed=4, hidden=8, vectors=str(vectors), vector_size=2)
    vocab, classes = Vocabulary.build([WORDS], min_count=1), Classes(("dog",), {"dog": "dog"})
    parts = recipe.parts(vocab, layout, classes)
    parts.matcher.norm.running_var.fill_(1e-9)
    recipes.save(tmp_path / "run", recipes.Model(recipe, parts, vocab, made.fingerprint, layout, classes))
    vectors.unlink()
    return tmp_path / "run"


def test_a_packed_model_is_the_same_within_half_precision(tool: ModuleType, run: Path, tmp_path: Path) -> None:
    tool.shrink(run, tmp_path / "small")
    before, after = (recipes.load(path).parts.state_dict() for path in (run, tmp_path / "small"))
    assert {value.dtype for value in after.values()} == {value.dtype for value in before.values()}
    for name, value in before.items():
        torch.testing.assert_close(after[name], value, rtol=1e-3, atol=1e-6)
    assert after["matcher.norm.running_var"].tolist() == before["matcher.norm.running_var"].tolist()
    assert (tmp_path / "small" / recipes.WEIGHTS).stat().st_size < 0.8 * (run / recipes.WEIGHTS).stat().st_size
    assert "secret" not in (tmp_path / "small" / recipes.ABOUT).read_text()


def test_numbers_that_half_precision_does_not_hold_are_refused(tool: ModuleType, run: Path, tmp_path: Path) -> None:
    model = recipes.load(run)
    with torch.no_grad():
        model.parts.matcher.embed.weight[1, 0] = 1e6
    recipes.save(run, model)
    with pytest.raises(SystemExit, match="not finite in half precision"):
        tool.shrink(run, tmp_path / "small")


def test_only_a_calibrated_grounder_is_packed(tool: ModuleType, run: Path, tmp_path: Path) -> None:
    for name in ("captioner", "grounder"):
        (tmp_path / "work").mkdir(exist_ok=True)
        (tmp_path / "work" / name).symlink_to(run)
    with pytest.raises(SystemExit, match="not calibrated"):
        tool.pack(tmp_path / "work", tmp_path / "out")
    presence = {"format": evidence.FORMAT, "calibration": {"x": [0, 1], "p": [0, 1]}}
    (run / evidence.CALIBRATION).write_text(json.dumps(presence))
    tool.pack(tmp_path / "work", tmp_path / "out")
    assert inference.load_grounder(tmp_path / "out" / "grounder").calibration is not None


def test_the_confidence_of_labels_is_that_of_the_packed_grounder(
    tool: ModuleType, scenes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The packed bytes are others than the trained ones, so a file that was fitted before packing would not be used."""
    from groundling.cli import main
    from groundling.labels import calibration
    from groundling.labels.grounder import digest_of

    packed = tmp_path / "grounder"
    tool.shrink(scenes / "model", packed)
    monkeypatch.setattr(tool, "groundling", lambda words: main(words) and pytest.fail(f"{words}"))
    monkeypatch.setattr(tool, "LABELS", [command.replace(" --split val", "") for command in tool.LABELS])
    tool.fit_labels(tmp_path, packed, scenes / "scenes", scenes / "regions")
    fitted = calibration.read(packed / calibration.FILE)
    assert fitted.grounder == digest_of(packed) != digest_of(scenes / "model") and fitted.boxes >= calibration.FEW
    assert recipes.load(packed)  # the manifest vouches for the file too
    assert calibration.FILE in (packed / MANIFEST).read_text()


def test_packing_removes_what_was_fitted_to_the_weights_before(
    tool: ModuleType, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("captioner", "grounder"):
        (tmp_path / "work").mkdir(exist_ok=True)
        (tmp_path / "work" / name).symlink_to(run)
    presence = {"format": evidence.FORMAT, "calibration": {"x": [0, 1], "p": [0, 1]}}
    (run / evidence.CALIBRATION).write_text(json.dumps(presence))
    old = [tmp_path / "out" / "grounder" / name for name in ("labels.json", "audit.json")]
    old[0].parent.mkdir(parents=True)
    for path in old:
        path.write_text("{}")
    tool.pack(tmp_path / "work", tmp_path / "out")
    tool.fit_labels(tmp_path / "work", tmp_path / "out" / "grounder", None, None)
    assert not any(path.exists() for path in old)
    assert "its confidence is the score: name a data set with --boxes" in capsys.readouterr().out


def test_a_model_between_two_is_as_far_as_asked(tool: ModuleType, run: Path, tmp_path: Path) -> None:
    """From 1 to 3, a quarter of the way: 1.5."""
    for name, value in (("start", 1.0), ("end", 3.0)):
        model = recipes.load(run)
        with torch.no_grad():
            model.parts.matcher.embed.weight.fill_(value)
        recipes.save(tmp_path / name, model)
    tool.interpolate(tmp_path / "start", tmp_path / "end", 0.25, tmp_path / "between")
    between = recipes.load(tmp_path / "between")
    assert between.parts.matcher.embed.weight.unique().tolist() == [1.5]
    assert not between.scores


def test_weights_of_other_shapes_are_refused(run: Path) -> None:
    about = json.loads((run / recipes.ABOUT).read_text())
    about["fields"]["joint"] = 9
    (run / recipes.ABOUT).write_text(json.dumps(about))
    (run / MANIFEST).unlink()
    with pytest.raises(GroundlingError, match=f"{recipes.WEIGHTS} is not of the run of its"):
        recipes.load(run)


def test_every_step_is_a_command_that_is_understood(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to the data, which is not there: flags and config are all known."""
    from groundling.cli import main

    steps = [command for of_set in tool.STEPS.values() for command in of_set.values()]
    named = {"data": "/nowhere/data", "work": "/nowhere", "name": "flickr8k"}
    named |= {"boxes": "/nowhere/data", "grounder": "/nowhere/model", "labels": str(tmp_path / "labels")}
    for command in (*steps, *tool.SCORES, tool.PHRASES, *tool.LABELS):
        words = [word.format(**named) for word in command.split()]
        monkeypatch.setattr(sys, "argv", ["groundling", *words])
        assert main() == 2


@pytest.mark.parametrize(
    ("words", "boxes", "last"),
    [
        (["everyday", "photos", "--work", "w"], None, "score w/val.jsonl"),
        (["everyday", "photos", "--work", "w", "--boxes", "b"], "b", "score w/val.jsonl"),
        (["flickr8k", "photos", "--work", "w"], "photos", "ground --data photos"),
    ],
)
def test_one_call_runs_all_steps_in_their_order(
    tool: ModuleType, words: list[str], boxes: str | None, last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is named twice or left out, and what is packed is what is labelled and scored."""
    done: list[str] = []
    monkeypatch.setattr(sys, "argv", ["make_weights.py", *words])
    monkeypatch.setattr(tool, "groundling", lambda words: done.append(" ".join(words)))
    monkeypatch.setattr(tool, "pack", lambda work, out: done.append(f"pack {out.name}"))
    monkeypatch.setattr(tool, "fit_labels", lambda work, grounder, boxes, regions: done.append(f"labels by {boxes}"))
    tool.main()
    steps = [step.format(data="photos", work="w") for step in tool.STEPS[words[0]].values()]
    assert done[: len(steps) + 2] == [*steps, f"pack {words[0]}", f"labels by {boxes}"]
    assert done[len(steps) + 2].startswith("caption photos --split val") and done[-1].startswith(last)
