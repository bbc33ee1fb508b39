"""Several workers: the same output as one, whichever command shares its work out."""

from __future__ import annotations

from pathlib import Path

import pytest

from groundling.cli import main
from groundling.data.dataset import load

TINY = ["--hidden", 8, "--embed", 8, "--attention", 8, "--epochs", 1, "--batch", 8, "--min-count", 1]


def run(*words: object) -> int:
    return main([str(word) for word in words])


@pytest.fixture(scope="module")
def captioner(grounded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = tmp_path_factory.mktemp("captioner")
    data = ["--data", grounded / "scenes", "--regions", grounded / "regions"]
    assert run("train", "updown", *data, "--out", model, *TINY) == 0
    return model


def works(grounded: Path, captioner: Path, out: Path) -> dict[str, list[object]]:
    """A call of each command; what it writes or prints is compared."""
    captions_file = out.parent / "captions.tsv"
    examples = load(grounded / "scenes", annotated=False).examples
    rows = [f"{Path(e.media).name}\t{e.captions[0].text}" for e in examples]
    captions_file.write_text("\n".join([*rows, "missing.png\ta dog", "no tab"]) + "\n")
    scenes, model = grounded / "scenes", ["--model", grounded / "model"]
    return {
        "caption": ["caption", scenes, "--model", captioner, "--out", out],
        "ground": ["ground", "--data", scenes, "--regions", grounded / "regions", *model, "--split", "train", "--json"],
        "audit": ["audit", captions_file, "--images", scenes, *model, "-o", out, "--json"],
        "regions": ["regions", "extract", scenes, "--source", "scenes", "--out", out],
        "label": ["label", scenes, *model, "--regions", grounded / "regions", "--out", out],
    }


def outcome(words: list[object], out: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, bytes]:
    """What a call wrote, and what it printed."""
    capsys.readouterr()
    assert run(*words) == 0
    files = [out] if out.is_file() else [file for file in out.rglob("*") if file.is_file() and file.name != ".lock"]
    written = {file.name: file.read_bytes() for file in files}
    return written | {"printed": capsys.readouterr().out.replace(str(out.parent), "").encode()}


@pytest.mark.parametrize("command", ["caption", "ground", "audit", "regions", "label"])
def test_a_worker_does_what_the_command_does_alone(
    command: str, grounded: Path, captioner: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The worker of each command, started in this process: other processes and Ray start the same one."""
    monkeypatch.setattr("torch.set_num_threads", lambda n: None)
    made = []
    for shared in (False, True):
        out = tmp_path / str(shared) / "out"
        out.parent.mkdir()
        words = [*works(grounded, captioner, out)[command]]
        words += ["--workers", 1] if command in ("regions", "label") else []
        if shared:
            monkeypatch.setattr("groundling.parallel.ALONE", None)
            monkeypatch.setattr("groundling.regions.extract.ALONE", None)
        made.append(outcome(words, out, capsys))
    assert made[0] == made[1]
    assert len(made[0]) > 1 or command == "ground"


def test_processes_of_a_command_write_the_same(
    grounded: Path, captioner: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = []
    for workers in (1, 2):
        out = tmp_path / str(workers) / "out"
        out.parent.mkdir()
        made.append(outcome([*works(grounded, captioner, out)["audit"], "--workers", workers], out, capsys))
    assert made[0] == made[1]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("caption x.png --workers 2 --device cuda", "run on CPUs: leave out --device"),
        ("label x --out y --address auto", "--address is that of a Ray cluster: add --engine ray"),
        ("ground x.png dog --engine ray", "--workers and --engine ray go with --data"),
    ],
)
def test_what_contradicts_itself_is_refused(words: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words.split()) == 2
    assert told in capsys.readouterr().err
