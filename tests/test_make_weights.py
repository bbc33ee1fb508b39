"""The tool that packs weights into the package: fewer bytes, the same model, no trace of the machine that made it."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from labelled_scenes import scenes as scenes  # a fixture
from PIL import Image
from torch import Tensor

from groundling import inference, recipes
from groundling.errors import DataError, GroundlingError
from groundling.files import MANIFEST
from groundling.inference import evidence
from groundling.recipes.groundling import Groundling
from groundling.recipes.two_branch import TwoBranch
from groundling.regions.records import Layout
from groundling.regions.sources import source
from groundling.text.classes import Classes
from groundling.text.vocab import Vocabulary
from groundling.training.checkpoint import read, write

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
def data(tmp_path: Path) -> Path:
    """1,998 words of captions."""
    folder = tmp_path / "captioned"
    folder.mkdir()
    Image.new("RGB", (32, 32)).save(folder / "one.png")
    captions = ["dog ball", "dog ball", *["a of"] * 997]
    rows = [{"image": "one.png", "caption": caption, "split": "train"} for caption in captions]
    (folder / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


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


@pytest.fixture
def captioner(tmp_path: Path) -> Path:
    """Layers of 64 units, large enough for 8 bits; of words there are too few."""
    torch.manual_seed(0)
    made = source("scenes")
    layout = Layout.of(made(Image.new("RGB", (32, 32), "white")))
    recipe = Groundling.of(hidden=64, embed=64, attention=64, location=64, guide="/secret/guide")
    vocab, classes = Vocabulary.build([WORDS], min_count=1), Classes(("dog",), {"dog": "dog"})
    model = recipes.Model(recipe, recipe.parts(vocab, layout, classes), vocab, made.fingerprint, layout, classes)
    recipes.save(tmp_path / "captions", model)
    return tmp_path / "captions"


def repack(tool: ModuleType, run: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the command line does it."""
    words = ["make_weights.py", "everyday", "--captioner", str(run), "--out", str(out)]
    monkeypatch.setattr(sys, "argv", words)
    tool.main()


def test_a_captioner_is_packed_by_one_command_each_number_within_half_a_unit(
    tool: ModuleType, captioner: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """8 bits: at most half of max |x| / 127 of its row or column. Half precision: 1 in 2,048. Vectors stay."""
    repack(tool, captioner, tmp_path / "out", monkeypatch)
    small = tmp_path / "out" / "captioner"
    stored, _ = read(small / recipes.WEIGHTS)
    before, after = (recipes.load(path).parts.state_dict() for path in (captioner, small))
    eight = {name for name, value in stored.items() if value.dtype == torch.int8}
    assert {"captioner.attention_gates.weight", "captioner.encoder.embed.0.weight"} <= eight
    assert stored["captioner.logits.weight"].dtype == stored["captioner.language_gates.weight"].dtype == torch.float16
    assert stored["captioner.embed.weight"].dtype == torch.float16  # few words
    for name, value in before.items():
        if name in eight:
            unit = stored[f"{name}.scale"] if stored[f"{name}.scale"].ndim == 2 else stored[f"{name}.scale"][:, None]
            assert bool(((after[name] - value).abs() <= unit * 0.5001).all())
        else:
            torch.testing.assert_close(after[name], value, rtol=1 / 2048 if value.ndim > 1 else 0, atol=1e-7)
    assert {value.dtype for value in after.values()} == {value.dtype for value in before.values()}
    assert "secret" not in (small / recipes.ABOUT).read_text()


def test_a_packed_captioner_packed_again_is_the_same_file(
    tool: ModuleType, captioner: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its own folder, and after it was loaded and saved in single precision, as training does."""
    repack(tool, captioner, tmp_path / "out", monkeypatch)
    small = tmp_path / "out" / "captioner"
    first = {path.name: path.read_bytes() for path in small.iterdir()}
    repack(tool, small, tmp_path / "out", monkeypatch)
    assert {path.name: path.read_bytes() for path in small.iterdir()} == first
    recipes.save(tmp_path / "whole", recipes.load(small))
    repack(tool, tmp_path / "whole", tmp_path / "again", monkeypatch)
    assert (tmp_path / "again" / "captioner" / recipes.WEIGHTS).read_bytes() == first[recipes.WEIGHTS]


def test_a_captioner_that_is_not_finite_is_not_packed(tool: ModuleType, captioner: Path, tmp_path: Path) -> None:
    weights, about = read(captioner / recipes.WEIGHTS)
    weights["captioner.attention_gates.weight"][3, 4] = float("nan")
    write(captioner / recipes.WEIGHTS, weights, about)
    with pytest.raises(SystemExit, match="attention_gates.weight is not finite in 8 bits"):
        tool.shrink(captioner, tmp_path / "small")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda scale: None, "attention_gates.weight.scale is missing"),
        (lambda scale: scale[:-1], r"attention_gates.weight.scale is float32 \(255,\); expected float32 \(256,\) or"),
        (lambda scale: scale.double(), "scale is float64"),
        (lambda scale: scale * float("nan"), "scale is not finite"),
        (lambda scale: scale + 1e38, "scale is not finite, or too large"),
    ],
)
def test_damaged_scales_are_refused_and_the_file_is_named(
    change: Callable[[Tensor], Tensor | None], told: str, tool: ModuleType, captioner: Path, tmp_path: Path
) -> None:
    tool.shrink(captioner, tmp_path / "small")
    weights, about = read(tmp_path / "small" / recipes.WEIGHTS)
    name = "captioner.attention_gates.weight.scale"
    weights[name] = torch.full((256,), 0.01)
    changed = change(weights.pop(name))
    write(tmp_path / "small" / recipes.WEIGHTS, weights | ({} if changed is None else {name: changed}), about)
    (tmp_path / "small" / MANIFEST).unlink()
    with pytest.raises(DataError, match=f"small/{recipes.WEIGHTS} is damaged: .*{told}"):
        recipes.load(tmp_path / "small")


def test_scales_without_whole_numbers_are_refused(tool: ModuleType, captioner: Path) -> None:
    weights, about = read(captioner / recipes.WEIGHTS)
    scales = {"captioner.attention_gates.weight.scale": torch.ones(256)}
    write(captioner / recipes.WEIGHTS, weights | scales, about)
    (captioner / MANIFEST).unlink()
    with pytest.raises(DataError, match=f"{recipes.WEIGHTS} is not of the run .*attention_gates.weight.scale"):
        recipes.load(captioner)


def test_data_or_a_captioner_must_be_named(tool: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["make_weights.py", "everyday"])
    with pytest.raises(SystemExit):
        tool.main()


def test_only_a_calibrated_grounder_is_packed(
    tool: ModuleType, run: Path, captioner: Path, data: Path, tmp_path: Path
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "taught").symlink_to(captioner)
    (tmp_path / "work" / "grounder").symlink_to(run)
    with pytest.raises(SystemExit, match="not calibrated"):
        tool.pack(tmp_path / "work", tmp_path / "out", data, tool.RARE["everyday"])
    presence = {"format": evidence.FORMAT, "calibration": {"x": [0, 1], "p": [0, 1]}}
    (run / evidence.CALIBRATION).write_text(json.dumps(presence))
    tool.pack(tmp_path / "work", tmp_path / "out", data, tool.RARE["everyday"])
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
    tool: ModuleType, run: Path, captioner: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "taught").symlink_to(captioner)
    (tmp_path / "work" / "grounder").symlink_to(run)
    presence = {"format": evidence.FORMAT, "calibration": {"x": [0, 1], "p": [0, 1]}}
    (run / evidence.CALIBRATION).write_text(json.dumps(presence))
    old = [tmp_path / "out" / "grounder" / name for name in ("labels.json", "audit.json")]
    old[0].parent.mkdir(parents=True)
    for path in old:
        path.write_text("{}")
    tool.pack(tmp_path / "work", tmp_path / "out", data, tool.RARE["everyday"])
    tool.fit_labels(tmp_path / "work", tmp_path / "out" / "grounder", None, None)
    assert not any(path.exists() for path in old)
    assert "its confidence is the score: name a data set with --boxes" in capsys.readouterr().out


def test_a_packed_model_can_be_the_start_of_one_between(tool: ModuleType, captioner: Path, tmp_path: Path) -> None:
    """Half of the way from x, packed, to x + 2: x + 1, where whole numbers must not be taken for weights."""
    name = "captioner.attention_gates.weight"
    tool.shrink(captioner, tmp_path / "small")
    start = recipes.load(tmp_path / "small").parts.state_dict()[name]
    weights, about = read(captioner / recipes.WEIGHTS)
    write(captioner / recipes.WEIGHTS, weights | {name: start + 2}, about)
    tool.interpolate(tmp_path / "small", captioner, 0.5, tmp_path / "between")
    torch.testing.assert_close(recipes.load(tmp_path / "between").parts.state_dict()[name], start + 1)


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


@pytest.mark.parametrize("scored", [True, False])
def test_rare_nouns_become_likelier_of_those_with_a_score_where_there_are_scores(
    scored: bool, tool: ModuleType, data: Path, tmp_path: Path
) -> None:
    """Of 1,998 words, "a" is half, "dog" and "ball" twice, "cat" never; "ball" has no score, "a" is no noun.

    Rare is below 0.01: 19.98 words. With 2 + 1 of "dog" and 0 + 1 of "cat", biases gain 0.25 log 6.66 and 0.25 log
    19.98. Without scores "ball", as frequent as "dog", gains as much, and there is no gain to change. Then rare is
    below 0.001, 1.998 words: "cat" alone.
    """
    fingerprint = replace(source("scenes").fingerprint, labels=("word:dog", "word:cat"))
    layout = Layout(8, whole=2).of_source(fingerprint)
    recipe = Groundling.of(hidden=8, embed=8, attention=8, location=8, word_link=scored, image_map=False)
    vocab = Vocabulary.build([["a", "dog", "ball", "cat"]], min_count=1)
    vocab = replace(vocab, nouns=tuple(word in ("dog", "ball", "cat") for word in vocab.words))
    classes = Classes(("dog",), {"dog": "dog"})
    parts = recipe.parts(vocab, layout, classes)
    recipes.save(tmp_path / "run", recipes.Model(recipe, parts, vocab, fingerprint, layout, classes))
    rares = tool.Rare(0.01, 2.2, 0.25), tool.Rare(0.001, 1.5, 0.5)
    tool.shrink_captioner(tmp_path / "run", tmp_path / "out", data, rares)
    old, new = (recipes.load(tmp_path / name).parts.requires_grad_(False).captioner for name in ("run", "out"))
    bias = {word: float(new.logits.bias[i] - old.logits.bias[i]) for i, word in enumerate(vocab.words)}
    expected = {"dog": 0.25 * math.log(19.98 / 3), "cat": 0.25 * math.log(19.98) + 0.5 * math.log(1.998)}
    if scored:
        gain = {word: float(new.word_link.gain[i] / old.word_link.gain[i]) for i, word in enumerate(vocab.words)}
        assert {word: factor for word, factor in gain.items() if factor != 1} == pytest.approx({"dog": 2.2, "cat": 3.3})
    else:
        expected["ball"] = expected["dog"]
    assert {word: change for word, change in bias.items() if change} == pytest.approx(expected, rel=1e-4)
    with pytest.raises(SystemExit, match="raised before"):
        tool.shrink_captioner(tmp_path / "out", tmp_path / "again", data, rares)
    tool.shrink(tmp_path / "out", tmp_path / "out")  # packed again, what was done is still told
    assert json.loads((tmp_path / "out" / recipes.ABOUT).read_text())["rare_nouns"][1]["gain"] == 1.5


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
    monkeypatch.setattr(tool, "pack", lambda work, out, data, rare: done.append(f"pack {out.name}"))
    monkeypatch.setattr(tool, "fit_labels", lambda work, grounder, boxes, regions: done.append(f"labels by {boxes}"))
    tool.main()
    steps = [step.format(data="photos", work="w") for step in tool.STEPS[words[0]].values()]
    assert done[: len(steps) + 2] == [*steps, f"pack {words[0]}", f"labels by {boxes}"]
    assert done[len(steps) + 2].startswith("caption photos --split val") and done[-1].startswith(last)


def test_the_grounder_learns_beside_the_decoder_and_both_before_what_needs_them(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decoder's training ends only when the grounder's has begun: in turns, it would wait for ever."""
    began, done = threading.Event(), []

    def run(called: list[str], **how: Any) -> subprocess.CompletedProcess[bytes]:
        if called[4] == "two_branch":
            began.set()
        assert called[4] != "updown_aware" or began.wait(60)
        done.append(called)
        return subprocess.CompletedProcess(called, 0)

    steps = ["regions", "grounder", "calibrate", "decoder", "taught"]
    words = ["make_weights.py", "everyday", "photos", "--work", str(tmp_path), "--at-once", "--bfloat16"]
    monkeypatch.setattr(sys, "argv", [*words, "--only", *steps])
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    tool.main()
    names = [words[3] if words[3] != "train" else words[4] for words in done]
    assert names[0] == "regions" and names[-1] == "groundling"
    assert sorted(names[1:-1]) == ["ground", "two_branch", "updown_aware"]
    ends = {words[4]: words[-3:] for words in done if words[3] == "train"}
    assert ends["two_branch"] == ends["updown_aware"] == ["--threads", "2", "--bfloat16"]
    assert ends["groundling"][-1] == "--bfloat16" and "--threads" not in ends["groundling"]
    assert (tmp_path / "grounder.log").read_text().count("$ groundling") == 2


def test_a_failure_beside_the_decoder_is_told_with_the_log_that_tells_why(tool: ModuleType, tmp_path: Path) -> None:
    log = tmp_path / "new" / "grounder.log"
    told = rf"failed with code 1; the end of {log} tells why: doctor /nowhere"
    with pytest.raises(SystemExit, match=told), tool.meanwhile([["doctor", "/nowhere"], ["--version"]], log):
        pass
    assert "/nowhere" in log.read_text() and "--version" not in log.read_text()
