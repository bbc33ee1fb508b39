"""`groundling seeds`: several runs in, one number with its deviation out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from groundling.cli import main

SMALL = ["--hidden", "8", "--embed", "8", "--attention", "8", "--epochs", "2", "--batch", "4", "--min-count", "1"]


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A training command on twenty scenes."""
    folder = tmp_path_factory.mktemp("data")
    data, store = str(folder / "scenes"), str(folder / "regions")
    splits = ["--splits", "0.6", "0.2", "0.2"]
    assert main(["scenes", data, "--images", "20", "--size", "96", "--workers", "1", *splits]) == 0
    assert main(["regions", "extract", data, "--source", "scenes", "--out", store, "--workers", "1"]) == 0
    return ["train", "updown", "--data", data, "--regions", store, "--threads", "1", *SMALL]


def test_each_seed_is_a_run_and_every_score_has_a_mean_and_a_deviation(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["seeds", "--out", str(tmp_path), "--seeds", "0,3", "--json", "--", *words]
    capsys.readouterr()
    assert main(command) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["seeds"] == [0, 3]
    scores = {score["name"]: score for score in told["scores"]}
    assert {"CIDEr-D", "f1_loc", "f1_per_sent_all"} <= scores.keys()
    cider = scores["CIDEr-D"]
    assert len(cider["values"]) == 2
    assert cider["mean"] == pytest.approx(sum(cider["values"]) / 2)
    assert cider["deviation"] == pytest.approx(abs(cider["values"][0] - cider["values"][1]) / 2**0.5)
    assert "split:test" in cider["signature"]

    alone = tmp_path / "seed-3" / "test.jsonl"
    data = words[words.index("--data") + 1]
    assert main(["score", str(alone), "--data", data, "--split", "test", "--json"]) == 0
    scored = {score["name"]: score["value"] for score in json.loads(capsys.readouterr().out)["scores"]}
    assert {name: scores[name]["values"][1] for name in scored} == scored  # the links too, where it has a noun

    written = alone.stat().st_mtime_ns
    assert main([*command[:5], *command[6:]]) == 0  # again, without --json: nothing is made anew
    assert alone.stat().st_mtime_ns == written
    table = capsys.readouterr().out
    assert f"{cider['mean']:.4f} ± {cider['deviation']:.4f}" in table
    assert "seed 3" in table


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--", "score", "x"], "after -- comes a `train` command"),
        (["--", "train", "updown", "--seed", "3"], "--seed is what it gives each run itself"),
        (["--", "train", "updown", "--out=x"], "--out=x is what it gives each run itself"),
    ],
)
def test_what_cannot_be_repeated_is_told_at_once(
    more: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["seeds", "--out", str(tmp_path), *more]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seeds", "told"),
    [("1,1", "a number comes twice"), ("1;2", "whole numbers, 0 or more, with commas"), ("", "whole")],
)
def test_seeds_are_different_whole_numbers(
    seeds: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["seeds", "--out", str(tmp_path), "--seeds", seeds, "--", "train"])
    assert told in capsys.readouterr().err


def test_a_run_that_cannot_be_made_ends_the_command_with_its_code(words: list[str], tmp_path: Path) -> None:
    assert main(["seeds", "--out", str(tmp_path), "--", *words, "--hidden", "0"]) == 2
    with pytest.raises(SystemExit):
        main(["seeds", "--out", str(tmp_path), "--", "train", "updown", "--wings", "2"])
