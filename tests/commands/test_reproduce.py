"""`groundling reproduce`: a table of a paper, row by row."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from groundling import tables
from groundling.cli import main
from groundling.errors import GroundlingError
from groundling.recipes import knobs, load
from groundling.reproduce import SCORES, Bench
from groundling.tables import Job, Row, Table

TINY = Table(
    "tiny",
    "Two captioners and what self-critical training makes of one.",
    "nothing at all",
    {"CIDEr-D": "CIDEr-D", "F1_all": "f1_all"},
    (
        Job("plain", "updown"),
        Job("wide", "updown", {"hidden": 12}),
        Job("end", "scst", {"epochs": 1, "samples": 1}, start="plain"),
    ),
    (Row("Up-Down", "plain", {"CIDEr-D": 61.2}), Row("wide", "wide", {}), Row("SCST", "end", {"F1_all": 4.5})),
)
SMALL = ["hidden=8", "embed=8", "attention=8", "updown.epochs=1", "batch=8", "min_count=1", "captions_per_image=1"]


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scenes")
    assert main(["scenes", str(folder / "data"), "--images", "30"]) == 0
    extract = ["regions", "extract", str(folder / "data"), "--source", "scenes", "--out", str(folder / "regions")]
    assert main(extract) == 0
    return folder


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "TABLES", {"tiny": "tiny"})
    monkeypatch.setattr(tables, "table", lambda name: TINY)


@pytest.fixture
def reproduce(scenes: Path, tmp_path: Path, tiny: None) -> Callable[..., int]:
    def run(*more: str) -> int:
        places = ["--data", str(scenes / "data"), "--regions", str(scenes / "regions"), "--out", str(tmp_path)]
        return main(["reproduce", "tiny", *places, *(word for pair in SMALL for word in ("--set", pair)), *more])

    return run


def test_a_table_is_trained_scored_and_printed_beside_the_paper_and_not_again(
    reproduce: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce("--rows", "1,3", "--json") == 0
    first = json.loads(capsys.readouterr().out)
    assert [row["label"] for row in first["rows"]] == ["Up-Down", "SCST"]
    assert {"CIDEr-D", "METEOR", "f1_all", "attention"} <= {score["name"] for score in first["rows"][1]["seeds"][0]}
    assert load(tmp_path / "end-0").finishes
    assert not (tmp_path / "wide-0").exists()
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("model.safetensors")}
    assert reproduce("--rows", "1,3", "--markdown") == 0
    table = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert table[0] == "|  | CIDEr-D | CIDEr-D (paper) | F1_all | F1_all (paper) |"
    assert table[2].split(" | ")[2] == "61.2"
    assert stamps == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("model.safetensors")}


def test_a_run_of_other_knobs_is_not_taken_for_the_row(reproduce: Callable[..., int], tmp_path: Path) -> None:
    (tmp_path / "plain-0").mkdir()
    (tmp_path / "plain-0" / SCORES).write_text(json.dumps({"command": "groundling train other", "scores": []}))
    assert reproduce("--rows", "1") == 2


def test_the_commands_of_a_table_are_those_that_train_it(
    reproduce: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce("--commands", "--seeds", "0,4") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    assert f"--start {tmp_path / 'plain-4'}" in lines[-1]
    assert "--hidden 12" in lines[1]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--rows", "9"], "rows 1 to 3, not 9"),
        (["--seeds", "a"], "--seeds takes whole numbers"),
        (["--set", "hidden"], "KNOB=VALUE"),
        (["--commands", "--set", "scst.wings=2"], "scst has no knob wings"),
    ],
)
def test_what_is_wrong_is_named(
    reproduce: Callable[..., int], more: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce(*more) == 2
    assert told in capsys.readouterr().err


def test_an_unknown_table_is_named_with_those_there_are() -> None:
    with pytest.raises(GroundlingError, match="unknown table 'x'; there are "):
        tables.table("x")


@pytest.mark.parametrize("name", tables.TABLES)
def test_every_table_speaks_of_recipes_and_knobs_that_there_are(name: str, tmp_path: Path) -> None:
    found = tables.table(name)
    assert found.name == name
    bench = Bench(tmp_path, tmp_path, tmp_path, {})
    for job in found.order(found.rows):
        known = {knob.name for knob in knobs.read(job.recipe)[1]}
        assert set(job.knobs) <= known, job
        assert bench.command(job, 0)
    assert all(set(row.paper) <= set(found.columns) for row in found.rows)
