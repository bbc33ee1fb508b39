"""`groundling reproduce`: a table of a paper, row by row."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from groundling.cli import main
from groundling.errors import GroundlingError, MissingExtra
from groundling.papers import tables
from groundling.papers.reproduce import COMMAND, Bench
from groundling.papers.tables import SPICE, Job, Row, Table, Value
from groundling.papers.tables.small import SMALL
from groundling.recipes import RECIPES, _config, load, recipe_class
from groundling.training.interrupt import Stopped

TINY = Table(
    "tiny",
    "Two captioners, what self-critical training makes of one, a matcher and a grounder.",
    "nothing at all",
    {"CIDEr-D": "CIDEr-D", "F1_all": "f1_all", "R@1": "R@1", "t2i": "t2i R@1", "phrases": "recall@1 union"},
    (
        Job("plain", "updown"),
        Job("wide", "updown", {"hidden": 12}),
        Job("end", "scst", {"epochs": 1, "samples": 1}, start="plain"),
        Job("scan", "matcher_scan"),
        Job("grounder", "two_branch", {"distill": 0.0}),
    ),
    (
        Row("Up-Down", "plain", {"CIDEr-D": 61.2}),
        Row("wide", "wide", {}),
        Row("SCST", "end", {"F1_all": 4.5}),
        Row("SCAN", "scan", {}),
        Row("NCE", "grounder", {"phrases": 48.35}),
    ),
    SPICE,
)
TINY_KNOBS = ["hidden=8", "embed=8", "attention=8", "joint=8", "updown.epochs=1", "matcher_scan.epochs=1"]
TINY_KNOBS += ["two_branch.epochs=1", "batch=8", "min_count=1", "captions_per_image=1"]


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scenes")
    drawn = ["--images", "30", "--size", "96", "--splits", "0.6", "0.2", "0.2", "--workers", "1"]
    assert main(["scenes", str(folder / "data"), *drawn]) == 0
    extract = ["regions", "extract", str(folder / "data"), "--source", "scenes", "--out", str(folder / "regions")]
    assert main([*extract, "--workers", "1"]) == 0
    return folder


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("groundling.papers.tables", "groundling.papers.page"):
        monkeypatch.setattr(f"{module}.TABLES", {"tiny": "tiny"})
        monkeypatch.setattr(f"{module}.table", lambda name: TINY)


@pytest.fixture
def reproduce(scenes: Path, tmp_path: Path, tiny: None) -> Callable[..., int]:
    def run(*more: str) -> int:
        places = ["--data", str(scenes / "data"), "--regions", str(scenes / "regions"), "--out", str(tmp_path)]
        sets = [word for pair in TINY_KNOBS for word in ("--set", pair)]
        return main(["reproduce", "tiny", *places, *sets, "--threads", "1", *more])

    return run


def stamps(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("model.safetensors")}


def scores(row: dict[str, Any]) -> dict[str, float]:
    """Of the first seed."""
    return {score["name"]: score["value"] for score in row["seeds"][0]}


def test_a_table_is_trained_scored_and_printed_beside_the_paper_and_not_again(
    reproduce: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce("--rows", "1,3", "--json") == 0
    first = json.loads(capsys.readouterr().out)
    assert [row["label"] for row in first["rows"]] == ["Up-Down", "SCST"]
    assert {"CIDEr-D", "METEOR", "f1_all", "attention"} <= scores(first["rows"][1]).keys()
    assert load(tmp_path / "end-0").fine_tuning
    assert not (tmp_path / "wide-0").exists()
    before = stamps(tmp_path)
    for path in tmp_path.rglob("last.safetensors"):
        path.unlink()  # as one may
    assert reproduce("--rows", "1,3", "--markdown") == 0
    out = capsys.readouterr().out
    table = [line for line in out.splitlines() if line.startswith("|")]
    assert table[0] == "|  | CIDEr-D | CIDEr-D (paper) | F1_all | F1_all (paper) | R@1 | t2i | phrases |"
    assert table[2].split(" | ")[2] == "61.2"
    assert SPICE in out and "nothing at all" in out
    assert stamps(tmp_path) == before


def test_what_was_run_becomes_a_page_with_tests_and_what_was_not_is_listed(
    reproduce: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groundling.papers.page.CLAIMS", ())  # they are of tables that are not there
    assert reproduce("--rows", "1,3") == 0
    (written,) = (tmp_path / "summaries").iterdir()
    told = json.loads(written.read_text())
    assert written.name == f"tiny-{told['data']}-val.json"
    assert told["images"] == {"train": 18, "held out": 6, "scored": 6, "regions": "scenes 3, count=36"}
    assert list(told["rows"]) == ["plain", "end"] and told["baseline"] == "Up-Down"
    cell = told["rows"]["end"]["CIDEr-D"]
    assert 0 < cell["p"] <= 1 and cell["values"].keys() == {"0"} and "split:val" in cell["signature"]
    assert told["rows"]["plain"]["CIDEr-D"]["p"] is None
    assert "--seeds 0 --split val" in told["command"] and "--rows" not in told["command"]
    assert main(["reproduce", "--page", str(tmp_path / "page.md"), "--out", str(tmp_path)]) == 0
    text = (tmp_path / "page.md").read_text()
    assert f"$ {told['command']}" in text and "| wide | not run |" in text
    assert f"{100 * cell['values']['0']:.1f}" in text


def test_the_same_runs_are_scored_on_another_split_which_training_never_held_out(
    reproduce: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce("--rows", "1", "--split", "test", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["split"] == "test"
    assert all("split:test" in s["signature"] for s in told["rows"][0]["seeds"][0] if s["name"] == "CIDEr-D")
    assert all("split:val" in score.signature for score in load(tmp_path / "plain-0").scores)
    before = stamps(tmp_path)
    assert reproduce("--rows", "1") == 0
    assert stamps(tmp_path) == before
    assert {path.name for path in (tmp_path / "plain-0").glob("scores-*")} == {"scores-val.json", "scores-test.json"}


def test_scores_of_another_version_are_made_again_and_others_are_not(
    reproduce: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def told() -> dict[str, float]:
        assert reproduce("--rows", "1", "--json") == 0
        return scores(json.loads(capsys.readouterr().out)["rows"][0])

    fresh, file, trained = told(), tmp_path / "plain-0" / "scores-val.json", stamps(tmp_path)
    rows = json.loads(file.read_text())
    rows[0]["value"] = 99.0
    file.write_text(json.dumps(rows))
    assert told() == fresh | {rows[0]["name"]: 99.0}
    rows[-1]["signature"] = rows[-1]["signature"].rpartition("|v:")[0] + "|v:0.0.9"
    file.write_text(json.dumps(rows))
    assert told() == fresh
    assert "0.0.9" not in file.read_text()
    assert stamps(tmp_path) == trained


def test_captions_look_for_their_own_image_among_so_many_and_no_more(
    reproduce: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("groundling.papers.reproduce.GALLERY", 4)  # of 6
    assert reproduce("--rows", "1", "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    n = {score["name"]: score["n"] for score in row["seeds"][0]}
    assert (n["R@1"], n["CIDEr-D"]) == (4, 6) and "R@5" not in n


def test_self_retrieval_retrieval_and_phrases_are_what_their_own_commands_tell(
    reproduce: Callable[..., int], scenes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce("--rows", "1,4,5", "--json") == 0
    captioner, matcher, grounder = map(scores, json.loads(capsys.readouterr().out)["rows"])
    where = ["--data", str(scenes / "data"), "--regions", str(scenes / "regions"), "--split", "val", "--json"]

    def told(*words: str) -> dict[str, Any]:
        assert main([*words, *where]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    alone = {s["name"]: s["value"] for s in told("retrieve", str(tmp_path / "plain-0"), "--ks", "1,5")["scores"]}
    assert alone == {name: captioner[name] for name in ("R@1", "R@5")}
    assert "R@10" not in captioner  # there are 6 images
    found = {s["name"]: s["value"] for s in told("retrieve", str(tmp_path / "scan-0"))["scores"]}
    assert {
        f"{way} R@{k}": matcher[f"{way} R@{k}"] for way in ("i2t", "t2i") for k in (1, 5, 10)
    }.items() <= found.items()
    scored = told("ground", "--model", str(tmp_path / "grounder-0"))
    for truth in ("any", "union"):
        for name in ("recall@1", "recall@5", "recall@10", "pointing", "upper_bound"):
            assert scored[truth]["scores"][name] == grounder[f"{name} {truth}"]
    chosen = told("ground", "--argmax", "--model", str(tmp_path / "grounder-0"))
    assert chosen["any"]["scores"]["recall@1"] == grounder["recall@1 any argmax"]
    assert "attention" in matcher and "attention" in grounder


def test_a_table_that_was_stopped_says_so_and_goes_on(
    reproduce: Callable[..., int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from groundling.papers import reproduce as module

    whole = module.train

    def stopped(recipe: Any, *args: Any, **more: Any) -> Any:
        if recipe.settings()["hidden"] == 12:
            raise Stopped("stopped; all is saved", 2)
        return whole(recipe, *args, **more)

    monkeypatch.setattr(module, "train", stopped)
    assert reproduce("--rows", "1,2") == 130
    assert "all is saved" in capsys.readouterr().err
    before = stamps(tmp_path)
    monkeypatch.setattr(module, "train", whole)
    assert reproduce("--rows", "1,2") == 0
    assert before.items() < stamps(tmp_path).items()


def test_what_scoring_needs_is_told_before_a_training_of_hours(
    reproduce: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from groundling.papers import reproduce as module

    def lacking(metric: str) -> Path:
        raise MissingExtra(f"{metric} needs a package")

    monkeypatch.setattr(module, "jar_folder", lacking)
    monkeypatch.setattr(module, "train", lambda *_, **__: pytest.fail("it was trained before"))
    assert reproduce("--rows", "1") == 2
    assert "meteor needs a package" in capsys.readouterr().err


def test_a_run_of_other_knobs_is_not_taken_for_the_row(
    reproduce: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plain-0").mkdir()
    (tmp_path / "plain-0" / COMMAND).write_text("groundling train other")
    assert reproduce("--rows", "1") == 2
    assert "made by another command: groundling train other" in capsys.readouterr().err


def test_the_commands_of_a_table_are_those_that_train_it(
    reproduce: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce("--commands", "--seeds", "0,4") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10
    assert f"--start {tmp_path / 'plain-4'}" in lines[7]
    assert "--hidden 12" in lines[1]
    assert not list(tmp_path.iterdir())


def test_the_rows_of_a_table_are_listed_with_what_trains_them(tiny: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "tiny", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:7]] == ["1", "2", "3", "4", "5"]
    assert "scst --epochs 1 --samples 1 --start @plain" in lines[4]
    assert main(["reproduce"]) == 0
    listed, _, elsewhere = capsys.readouterr().out.partition("\n\n")
    assert listed.split() == ["tiny", *TINY.title.split()]
    assert elsewhere.startswith("tables of the papers that have no run of their own:\n  cyclical-table-3 ")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--rows", "9"], "rows 1 to 5, not 9"),
        (["--set", "hidden"], "FIELD=VALUE"),
        (["--set", "scst.wings=2"], "scst has no config field wings"),
        (["--set", "wings=2"], "no recipe of tiny has a config field wings"),
        (["--set", "cyclical.epochs=2"], "tiny trains no cyclical"),
        (["--set", "epochs=2.5"], "epochs is of type int"),
        (["--device", "teapot"], "cannot use the device teapot"),
    ],
)
def test_what_is_wrong_is_named(
    reproduce: Callable[..., int], more: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce(*more) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("more", [["--seeds", "a"], ["--seeds", "1,1"], ["--rows", "0"], ["--limit", "-1"]])
def test_numbers_that_make_no_sense_are_refused(reproduce: Callable[..., int], more: list[str]) -> None:
    with pytest.raises(SystemExit):
        reproduce(*more)


def test_patterns_name_tables_in_their_order_and_rows_go_with_one_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert tables.matching(["nce-*-table-4", "pos-scan-table-[12]"]) == [
        "pos-scan-table-1",
        "pos-scan-table-2",
        "nce-distill-table-4",
    ]
    with pytest.raises(GroundlingError, match="unknown table 'pos-scan'"):
        tables.matching(["pos-scan", "combine"])
    assert main(["reproduce", "pos-scan-*", "--rows", "1", "--data", "d", "--regions", "r"]) == 2
    assert "name one" in capsys.readouterr().err


def test_an_unknown_table_is_named_with_those_there_are() -> None:
    with pytest.raises(GroundlingError, match="unknown table 'x'; there are "):
        tables.table("x")


def test_every_table_of_the_papers_that_measures_a_system_is_there_or_told_where_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printed = {"pos-scan": (1, 2, 3, 4), "cyclical": range(1, 15), "distributed": (1, 2, 3, 4)}
    printed |= {"nce-distill": (1, 2, 3, 4, 5), "contrastive": range(1, 7)}
    names = {f"{paper}-table-{n}" for paper, numbers in printed.items() for n in numbers}
    assert names - tables.TABLES.keys() == tables.ELSEWHERE.keys()
    named = {word.strip(":,") for where in tables.ELSEWHERE.values() for word in where.split() if "-table-" in word}
    assert named <= tables.TABLES.keys()
    assert main(["reproduce", "cyclical-table-9", "--data", "d", "--regions", "r"]) == 2
    assert "its rows are in cyclical-table-6" in capsys.readouterr().err
    assert main(["reproduce"]) == 0
    assert "nce-distill-table-3        no training is needed" in capsys.readouterr().out


def test_all_pairs_of_backbone_and_detector_are_there() -> None:
    """Table 5 of the paper: NCE and NCE + Distill."""
    printed = {
        "nce-distill-table-5-vgg": (35.96, 40.38),
        "nce-distill-table-5": (51.31, 53.10),
        "nce-distill-referit-vgg": (23.56, 24.52),
        "nce-distill-referit-vg": (36.65, 38.39),
    }
    for name, numbers in printed.items():
        found = tables.table(name)
        jobs = {job.name: job for job in found.jobs}
        assert tuple(row.paper["any"] for row in found.rows) == numbers
        assert {jobs[row.job].config["distill"] for row in found.rows} <= {0.0, 3.0 if "vgg" in name else 1.0}


@pytest.mark.parametrize("name", tables.TABLES)
def test_every_table_names_recipes_and_settings_that_there_are(name: str, tmp_path: Path) -> None:
    found = tables.table(name)
    assert found.name == name
    bench = Bench(tmp_path, tmp_path, tmp_path, SMALL)
    for job in found.order(found.rows):
        known = {field.name for field in _config.read(job.recipe)[1]}
        assert set(job.config) <= known, job
        assert recipe_class(job.recipe).of(**bench.settings(job, 0))
    assert all(set(row.paper) <= set(found.columns) for row in found.rows)


def test_the_rows_of_a_table_are_command_lines_and_those_of_the_paper_are_all_there(tmp_path: Path) -> None:
    """Four ways to teach the attention, by four ways to go on; the numbers of the first and last row as printed."""
    found, bench = tables.table("pos-scan-table-2"), Bench(tmp_path, tmp_path, tmp_path, {})
    jobs = {job.name: job for job in found.jobs}
    assert len({bench.command(jobs[row.job], 0) for row in found.rows}) == 16
    assert list(found.rows[0].paper.values()) == [70.1, 27.4, 21.8, 58.9, 8.33, 23.09]
    assert list(found.rows[-1].paper.values()) == [72.6, 28.0, 22.6, 64.3, 7.63, 18.33]
    last = bench.command(jobs[found.rows[-1].job], 0)
    assert f"train scst --data {tmp_path}" in last and f"--start {tmp_path / 'kl-pos-scan-0'} " in last
    assert last.endswith(f"--reward-model {tmp_path / 'pos-scan-0'}")


def test_a_job_of_one_name_is_the_same_in_all_tables() -> None:
    """For tables in one folder share their runs."""
    jobs: dict[str, Job] = {}
    for name in tables.TABLES:
        for job in tables.table(name).jobs:
            assert jobs.setdefault(job.name, job) == job


def test_small_sizes_are_knobs_of_recipes() -> None:
    every = {name: {field.name for field in _config.read(name)[1]} for name in RECIPES}
    for key in SMALL:
        recipe, _, name = key.rpartition(".")
        assert name in (every[recipe] if recipe else set.union(*every.values())), key


def test_a_config_of_a_recipe_counts_more_and_that_of_a_row_most(tmp_path: Path) -> None:
    bench = Bench(tmp_path, tmp_path, tmp_path, {"hidden": 1, "updown.hidden": 2, "samples": 9, "scst.lr": 0.5})
    jobs = {job.name: bench.settings(job, 3) for job in TINY.jobs}
    assert jobs["plain"] == {"hidden": 2}
    assert jobs["wide"] == {"hidden": 12}
    assert jobs["scan"] == {"hidden": 1}
    assert jobs["end"] == {"epochs": 1, "samples": 1, "lr": 0.5}
    assert bench.settings(Job("x", "pos_scan", {"guide": "@scan"}), 3)["guide"] == str(tmp_path / "scan-3")


def test_defaults_of_a_row_count_less_than_what_is_set(tmp_path: Path) -> None:
    bench = Bench(tmp_path, tmp_path, tmp_path, {"hidden": 2})
    assert bench.settings(Job("x", "updown", {"embed": 3}, defaults={"hidden": 9, "epochs": 5}), 0) == {
        "hidden": 2,
        "epochs": 5,
        "embed": 3,
    }


def test_tables_of_videos_look_at_a_hundred_regions_of_each_of_ten_frames(tmp_path: Path) -> None:
    """As released; the baseline learns for as many epochs as the cycle, and from a decoder of videos too.

    `regions_per_image` are of each frame (tests/regions/test_store.py).
    """
    found, bench = tables.table("cyclical-table-2"), Bench(tmp_path, tmp_path, tmp_path, {})
    jobs = {job.name: bench.settings(job, 0) for job in found.order(found.rows)}
    each = tables.table("distributed-videos")
    made = [*found.order(found.rows), *each.order(each.rows)]
    assert {recipe_class(job.recipe).of(**bench.settings(job, 0)).data.regions_per_image for job in made} == {100}
    assert {job["length"] for job in jobs.values()} == {20}
    cycle = recipe_class("cyclical").of(**jobs["video-cyclical"])
    assert jobs["video-baseline"]["epochs"] == cycle.training.epochs
    assert (cycle.training.clip, cycle.training.clip_each) == (0.1, 0)  # the norm, as in the released code
    assert {job.start for job in found.order(found.rows)} == {"", "video-decoder"}


def test_a_config_that_is_called_as_a_recipe_is_not_of_that_recipe(tmp_path: Path) -> None:
    """`distill` is both: a weight of the grounder's losses, and a recipe."""
    bench = Bench(tmp_path, tmp_path, tmp_path, {"distill": 0.5, "distill.epochs": 2})
    assert bench.settings(Job("x", "distill"), 0) == {"epochs": 2}
    assert bench.settings(Job("x", "two_branch"), 0) == {"distill": 0.5}


@pytest.mark.parametrize("config", [{}, SMALL], ids=["the paper's sizes", "small"])
def test_rows_of_several_heads_learn_as_many_epochs_as_those_of_several_branches(
    config: dict[str, Value], tmp_path: Path
) -> None:
    heads = tables.table("distributed-heads")
    bench = Bench(tmp_path, tmp_path, tmp_path, config)
    epochs = {
        job.name: recipe_class(job.recipe).of(**bench.settings(job, 0)).training.epochs
        for job in heads.order(heads.rows)
        if job.name != "alone"
    }
    assert len(epochs) == len(heads.rows) and len(set(epochs.values())) == 1


def test_a_table_of_videos_runs_on_clips_that_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawn = ["--video", "--frames", "2", "--images", "10", "--size", "96", "--splits", "0.6", "0.2", "0.2"]
    assert main(["scenes", str(tmp_path / "moving"), *drawn, "--workers", "1"]) == 0
    extract = ["regions", "extract", str(tmp_path / "moving"), "--source", "scenes", "--set", "map=2", "--workers", "1"]
    assert main([*extract, "--out", str(tmp_path / "regions")]) == 0
    sizes = [f"--set={name}=8" for name in ("hidden", "embed", "attention", "location")]
    sets = [*sizes, "--set=epochs=1", "--set=min_count=1"]
    places = ["--data", str(tmp_path / "moving"), "--regions", str(tmp_path / "regions"), "--out", str(tmp_path)]
    assert main(["reproduce", "cyclical-table-2", "--rows", "2,3", *places, *sets, "--threads", "1"]) == 0
    told = json.loads((tmp_path / "summaries" / "cyclical-table-2-moving-val.json").read_text())
    assert list(told["rows"]) == ["video-baseline", "video-cyclical"]
    cycle = told["rows"]["video-cyclical"]
    assert cycle["f1_all"]["values"].keys() == {"0"} and cycle["attention localizer"] is not None
    assert len(told["claims"]) == 2  # after one epoch of six clips there may be no right word to find
    capsys.readouterr()
    where = [*places[:4], "--split", "val"]
    assert main(["score", "attention", str(tmp_path / "video-cyclical-0"), "--localizer", *where]) == 0
    assert "|of:localizer|" in capsys.readouterr().out
