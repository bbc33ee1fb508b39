"""`groundling train`: words in, a run folder out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image

from groundling.cli import main
from groundling.files import locked
from groundling.recipes import load
from groundling.regions.store import Writer
from groundling.tensors import Regions
from groundling.types import Fingerprint

SMALL = ["--hidden", "8", "--embed", "8", "--attention", "8", "--epochs", "2", "--batch", "4", "--min-count", "1"]
COLOURS = ("red", "blue", "green")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve coloured dogs in a table, and their regions beside it."""
    folder = tmp_path_factory.mktemp("data")
    rows = []
    with Writer(folder / "regions", Fingerprint("dogs", "1", 3)) as writer:
        for i in range(12):
            colour = COLOURS[i % 3]
            Image.new("RGB", (16, 16), colour).save(folder / f"{i}.png")
            captions = [f"A {colour} dog runs.", f"There is a {colour} dog."]
            rows.append({"image": f"{i}.png", "captions": captions, "split": "val" if i > 8 else "train"})
            boxes = torch.tensor([[0.0, 0.0, 16.0, 16.0], [0.0, 0.0, 8.0, 8.0]])
            writer.add(str(i), Regions.of(torch.eye(3)[i % 3].repeat(2, 1), boxes, (16, 16)))
    (folder / "captions.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


amx = pytest.mark.skipif(not torch.cpu._is_amx_tile_supported(), reason="this CPU has no AMX")


def words(data: Path, out: Path, *more: str) -> list[str]:
    return [
        "train",
        "updown",
        "--data",
        str(data),
        "--regions",
        str(data / "regions"),
        "--out",
        str(out),
        *SMALL,
        *more,
    ]


def test_a_run_leaves_a_model_a_log_and_its_score(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(data, tmp_path)) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("cider-d = ")
    assert "split:val" in printed[0]
    assert printed[-1] == f"model: {tmp_path}"
    model = load(tmp_path)
    assert model.recipe.settings()["hidden"] == 8
    assert "dog" in model.groundable
    assert "runs" not in model.groundable
    rows = (tmp_path / "log.csv").read_text().splitlines()
    assert len(rows) == 1 + 2 * (3 * 3 + 1)  # two epochs of three steps of lr, xe, norm; a score each


def test_the_same_command_again_goes_on_and_another_is_refused(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(data, tmp_path)) == 0
    first, weights = capsys.readouterr().out, (tmp_path / "last.safetensors").read_bytes()
    assert main(words(data, tmp_path)) == 0
    assert capsys.readouterr().out == first
    assert (tmp_path / "last.safetensors").read_bytes() == weights
    assert main(words(data, tmp_path, "--lr", "0.1")) == 2
    assert "lr was 0.0005, now 0.1" in capsys.readouterr().err
    assert main(words(data, tmp_path, "--limit", "8")) == 2
    assert "training data was 9 images" in capsys.readouterr().err
    assert main(words(data, tmp_path, "--lr", "0.1", "--restart")) == 0
    assert load(tmp_path).recipe.training.lr == 0.1


def test_a_model_without_its_training_state_is_not_written_over(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(data, tmp_path)) == 0
    (tmp_path / "last.safetensors").unlink()
    before = (tmp_path / "model.safetensors").read_bytes()
    assert main(words(data, tmp_path)) == 2
    assert "holds a model but not its training state" in capsys.readouterr().err
    assert (tmp_path / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize("more", [(), ("--restart",)])
def test_a_folder_of_other_files_is_not_trained_into(
    more: tuple[str, ...], data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("thesis.txt", "log.csv"):
        (tmp_path / name).write_text("all of it")
    assert main(words(data, tmp_path, *more)) == 2
    assert "holds log.csv and 1 more, and no run of groundling: name a new folder" in capsys.readouterr().err
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys(
        ("thesis.txt", "log.csv"), "all of it"
    )


def test_what_is_left_of_a_run_that_was_stopped_at_its_beginning_is_gone_on_with(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its first step, then after --restart in a folder where other commands have put files of theirs."""
    monkeypatch.setattr("groundling.training.fit.seed_everything", lambda *_: pytest.fail("stopped"))
    with pytest.raises(pytest.fail.Exception):
        main(words(data, tmp_path))
    assert not (tmp_path / "last.safetensors").exists()
    monkeypatch.undo()
    assert main(words(data, tmp_path)) == 0
    (tmp_path / "labels.json").write_text("{}")
    monkeypatch.setattr("groundling.data.dataset.load", lambda *_, **__: pytest.fail("stopped"))
    with pytest.raises(pytest.fail.Exception):
        main(words(data, tmp_path, "--restart"))
    monkeypatch.undo()
    assert not (tmp_path / "last.safetensors").exists()
    assert main(words(data, tmp_path)) == 0


def test_ctrl_c_returns_130_and_says_how_to_go_on(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from groundling.training import fit

    original = fit.seed_everything

    def interrupted(*place: int) -> None:
        signal.raise_signal(signal.SIGINT)
        original(*place)

    with monkeypatch.context() as patch:
        patch.setattr(fit, "seed_everything", interrupted)
        assert main(words(data, tmp_path)) == 130
    assert "the same command goes on" in capsys.readouterr().err
    assert main(words(data, tmp_path)) == 0


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--val-split", "dev"], "unknown split 'dev'"),
        (["--device", "abacus"], "cannot use --device abacus"),
        (["--out", "captions.jsonl"], "is a file"),
    ],
)
def test_what_cannot_work_is_told_in_one_line(
    more: list[str], told: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = [str(data / word) if word.endswith("jsonl") else word for word in more]
    assert main(words(data, tmp_path, *more)) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert told in error


@pytest.mark.parametrize(
    ("flag", "value"), [("--batch", "x"), ("--seed", "-1"), ("--limit", "-5"), ("--save-seconds", "nan")]
)
def test_flags_that_are_no_number_or_negative_are_refused(
    flag: str, value: str, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(words(data, data / "run", flag, value))
    assert f"argument {flag}: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flag", "value", "told"),
    [
        ("--hidden", "0", "hidden must be a whole number, 1 or more; got 0"),
        ("--lr", "-1", "lr must be a number, 0 or more; got -1"),
        ("--lr", "nan", "lr must be a number, 0 or more; got nan"),
        ("--dropout", "1.5", "dropout must be from 0 to 1; got 1.5"),
        ("--patience", "-1", "patience must be a whole number, 0 or more; got -1"),
    ],
)
def test_impossible_knobs_are_refused(
    flag: str, value: str, told: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(data, tmp_path / "run", flag, value)) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_help_lists_the_recipes_and_shows_equations_and_config_of(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    assert "updown_aware" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["train", "updown", "--help"])
    printed = capsys.readouterr().out
    assert "(14)  p(y_t | y_1" in printed
    assert "--decay-every INT" in printed


def test_help_needs_no_torch() -> None:
    code = (
        "import sys; from groundling.cli import main\ntry: main(['train', 'updown', '--help'])\nexcept SystemExit: pass"
    )
    code += "\nassert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_threads_are_those_asked_for(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    assert main(words(data, tmp_path, "--threads", "1", "--limit", "4")) == 0
    assert asked == [1]


@amx
def test_a_run_in_bfloat16_goes_on_in_bfloat16_alone(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(data, tmp_path / "run", "--bfloat16")) == 0
    assert main(words(data, tmp_path / "run", "--bfloat16")) == 0
    capsys.readouterr()
    assert main(words(data, tmp_path / "run")) == 2
    assert "products" in capsys.readouterr().err


def test_a_cpu_without_bfloat16_is_told_so_before_data_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    assert main(words(tmp_path / "missing", tmp_path / "run", "--bfloat16")) == 2
    assert "--bfloat16 needs a CPU with AMX" in capsys.readouterr().err


@pytest.mark.slow
def test_torchrun_with_two_processes(data: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "groundling"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, *words(data, tmp_path)], capture_output=True, text=True, env=environment, timeout=200, check=True
    )
    assert done.stdout.count("model: ") == 1
    assert load(tmp_path).scores


def test_two_do_not_train_into_one_folder(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with locked(tmp_path, "the run"):
        assert main(words(data, tmp_path)) == 2
    assert f"another process ({os.getpid()}" in capsys.readouterr().err
    assert not (tmp_path / "model.safetensors").exists()


def test_a_model_goes_on_with_the_words_that_it_lacked_and_keeps_its_weights(data: Path, tmp_path: Path) -> None:
    """At a learning rate near 0 known words keep their rows; without --new-words there are no others."""
    few = ("--min-count", "8")  # the colours are rarer
    assert main(words(data, tmp_path / "few", *few)) == 0
    start = ("--start", str(tmp_path / "few"), "--lr", "1e-12")
    assert main(words(data, tmp_path / "same", *start)) == 0
    assert main(words(data, tmp_path / "more", *start, "--new-words")) == 0
    before, same, more = (load(tmp_path / name) for name in ("few", "same", "more"))
    known = len(before.vocab)
    assert same.vocab == before.vocab
    assert more.vocab.words[:known] == before.vocab.words and len(more.vocab) > known
    rows = [model.parts.get_submodule("captioner.embed").state_dict() for model in (before, more)]
    torch.testing.assert_close(rows[1]["weight"][:known], rows[0]["weight"], atol=1e-6, rtol=0)


def test_new_words_without_a_trained_model_are_refused(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(data, tmp_path, "--new-words")) == 2
    assert "--new-words goes with --start" in capsys.readouterr().err
