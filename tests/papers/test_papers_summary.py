"""What runs say of a claim, and the page that is made of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from groundling.errors import DataError
from groundling.papers import page as pages
from groundling.papers.claims import CLAIMS
from groundling.papers.reproduce import Bench, Scored, scored
from groundling.papers.summary import (
    CONFIRMED,
    DIRECTION,
    NOT_SEEN,
    OPPOSITE,
    Difference,
    difference,
    merged,
    of_seeds,
    summary,
    t_interval,
    t_test,
)
from groundling.papers.summary import read as read_summaries
from groundling.papers.tables import TABLES, table
from groundling.types import Score

IMAGES = {"train": 2400, "held out": 100, "scored": 1200, "regions": "scenes 3, count=36"}


def run(value: float, noise: float, seed: int = 0) -> Scored:
    """A run whose score on resampled images lies about its value."""
    samples = value + noise * np.random.default_rng(seed).standard_normal(999)
    return Scored([Score("f1_loc", value, 100, "f1_loc|v:0")], {"f1_loc": samples})


def test_a_difference_is_the_mean_over_the_seeds_that_both_have() -> None:
    ours, theirs = {0: run(0.5, 0), 1: run(0.7, 0), 2: run(0.9, 0)}, {0: run(0.4, 0), 1: run(0.5, 0)}
    found = difference(ours, theirs, "f1_loc")
    assert found is not None and found.seeds == (0, 1) and found.value == pytest.approx(0.15)
    assert difference(ours, {}, "f1_loc") is None and difference(ours, theirs, "CIDEr-D") is None


def test_without_any_chance_a_difference_is_certain_and_no_difference_is_none() -> None:
    """999 samples equal to the runs: none is as far from d as 0 is, p = 1 / 1000; of equal runs all are, p = 1."""
    sure = difference({0: run(0.5, 0)}, {0: run(0.4, 0)}, "f1_loc")
    same = difference({0: run(0.5, 0)}, {0: run(0.5, 0)}, "f1_loc")
    assert sure is not None and sure.p == pytest.approx(0.001)
    assert same is not None and same.p == 1


def test_p_is_that_of_a_normal_law_where_the_samples_follow_one() -> None:
    """d = 0.02 and samples of deviation 0.01 about it: two-sided p of 2 sigmas, 0.0455; 999 samples tell it to 0.02."""
    found = difference({0: run(0.42, 0.01)}, {0: run(0.40, 0.0)}, "f1_loc")
    assert found is not None and found.p == pytest.approx(0.0455, abs=0.02)


def test_runs_with_more_samples_are_compared_by_the_first_ones_that_all_have() -> None:
    """Pairs of 99 and of 999 samples: 99 are compared, and without any chance p = 1 / 100."""
    few = Scored([Score("f1_loc", 0.4, 100, "f1_loc|v:0")], {"f1_loc": np.full(99, 0.4)})
    found = difference({0: run(0.5, 0), 1: run(0.5, 0)}, {0: few, 1: run(0.4, 0)}, "f1_loc")
    assert found is not None and found.samples == 99 and found.p == pytest.approx(0.01)


def test_seeds_that_disagree_make_p_large_however_sure_the_images_are() -> None:
    """+0.3 and −0.1: a draw of two seeds is +0.3, +0.1 or −0.1; half the draws are 0.2 from d = 0.1: p about 0.5."""
    ours, theirs = {0: run(0.7, 0), 1: run(0.3, 0)}, {0: run(0.4, 0), 1: run(0.4, 0)}
    found = difference(ours, theirs, "f1_loc")
    assert found is not None and found.value == pytest.approx(0.1) and found.p == pytest.approx(0.5, abs=0.06)


def test_the_deviation_of_seeds_is_that_of_all_runs_and_not_of_these_few() -> None:
    """+0.35 and +0.05: half the draws of two seeds are 0.15 from d = 0.2, of all √2 · 0.15 = 0.212: p about 0.5."""
    ours, theirs = {0: run(0.75, 0), 1: run(0.45, 0)}, {0: run(0.4, 0), 1: run(0.4, 0)}
    found = difference(ours, theirs, "f1_loc")
    assert found is not None and found.value == pytest.approx(0.2) and found.p == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([1.0, 2.0, 3.0], 1 - (6 / 7) ** 0.5),  # t = 2 / (1 / √3) = √12, sin θ = √(12 / 14); of 2: p = 1 − sin θ
        ([-1.0, -2.0, -3.0], 1 - (6 / 7) ** 0.5),
        ([1.0, -1.0, 2.0, -2.0], 1.0),  # t = 0
        (
            [-2.0, 0.0, 0.0, 2.0, 3.0, 3.0],
            0.275220,
        ),  # mean 1, Σ (d − 1)² = 20, t = 1 / √(4 / 6); of 5, by Simpson's rule
        ([1.0, 2.0], None),  # two seeds
        ([0.5, 0.5, 0.5], None),  # no deviation: of chance nothing is known
        ([], None),
    ],
)
def test_the_t_test_of_seeds_by_hand(differences: list[float], p: float | None) -> None:
    """t = mean / (deviation / √n); of n − 1 = 2 degrees of freedom p = 1 − sin θ with tan θ = |t| / √2."""
    assert t_test(differences) == (p if p is None else pytest.approx(p, abs=1e-6))


def test_the_t_test_is_that_of_printed_tables() -> None:
    """Differences of mean t and deviation √n: 2.571 of 6 seeds and 4.303 of 3 have p = 0.05."""
    for n, t in ((3, 4.302653), (4, 3.182446), (5, 2.776445), (6, 2.570582), (7, 2.446912)):
        spread = np.arange(n) - (n - 1) / 2
        assert t_test([*(t + spread / spread.std(ddof=1) * n**0.5)]) == pytest.approx(0.05, abs=1e-6)


def test_the_interval_of_seeds_is_that_of_printed_tables() -> None:
    """1, 2, 3: mean 2, deviation 1, t = 4.302653 of 2: 2 ± 4.302653 / √3. Of two seeds there is none."""
    half = 4.302653 / 3**0.5
    assert t_interval([1.0, 2.0, 3.0]) == pytest.approx((2 - half, 2 + half), abs=1e-5)
    assert t_interval([0.5, 0.5, 0.5]) == pytest.approx((0.5, 0.5))
    assert t_interval([1.0, 2.0]) is None


@pytest.mark.parametrize(
    ("value", "p", "lower", "verdict"),
    [
        (0.1, 0.01, False, CONFIRMED),
        (0.1, 0.2, False, DIRECTION),
        (-0.1, 0.2, False, NOT_SEEN),
        (-0.1, 0.01, False, OPPOSITE),
        (-0.1, 0.01, True, CONFIRMED),
        (0.0, 1.0, False, NOT_SEEN),
        (0.1, float("nan"), False, DIRECTION),
    ],
)
def test_verdicts(value: float, p: float, lower: bool, verdict: str) -> None:
    assert Difference(value, p, (0,)).verdict(lower) == verdict


def test_every_claim_compares_rows_of_its_table_as_the_paper_prints_them() -> None:
    for claim in CLAIMS:
        jobs = {row.job for row in table(claim.table).rows}
        assert {claim.job, claim.than} <= jobs, claim
        ours, theirs = claim.printed
        assert ours < theirs if claim.lower else ours > theirs, claim


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Runs of two rows of a table, three seeds each, scored but never trained."""
    for job, start in (("k1", 0.2), ("k4", 0.3)):
        for seed in range(3):
            folder = tmp_path / "tables" / f"{job}-{seed}"
            folder.mkdir(parents=True)
            scores = [
                {"name": n, "value": start + 0.01 * seed, "n": 9, "signature": f"{n}|v:0"} for n in ("f1_all", "f1_loc")
            ]
            (folder / "scores-test.json").write_text(json.dumps(scores))
            np.savez(folder / "resampled-test.npz", f1_all=np.full(99, start), f1_loc=np.full(99, start))
    return Bench(tmp_path / "data", tmp_path / "store", tmp_path / "tables", {}, "test")


def test_seeds_alone_are_tested_by_the_values_of_the_seeds_that_a_claim_has(bench: Bench) -> None:
    """k4 less k1: 0.1, 0.11 and 0.12 once the values are moved: mean 0.11, deviation 0.01, t = 11 √3, of 2."""
    found = json.loads(json.dumps(summary(table("distributed-table-1"), bench, "", IMAGES)))
    claim = next(one for one in CLAIMS if one.table == "distributed-table-1" and one.score == "f1_loc")
    assert of_seeds(found, claim) is None  # the same difference in all seeds
    found["rows"]["k1"]["f1_loc"]["values"] = {"0": 0.2, "1": 0.2, "2": 0.2, "3": 0.9}
    assert of_seeds(found, claim) == pytest.approx(1 - (363 / 365) ** 0.5)
    line = next(x for x in pages.page({"distributed-table-1": [found]}).split("\n") if "one, in right words" in x)
    assert "| 0.010 | 0.003 | 3 | **confirmed** |" in line
    del found["rows"]["k1"]["f1_loc"]
    assert of_seeds(found, claim) is None


def test_a_page_tells_what_was_run_and_what_was_not(bench: Bench) -> None:
    found = summary(table("distributed-table-1"), bench, "groundling reproduce distributed-table-1", IMAGES)
    assert found["rows"]["k4"]["f1_loc"]["values"] == {0: 0.3, 1: 0.31, 2: 0.32}
    assert found["rows"]["k4"]["f1_loc"]["p"] == pytest.approx(0.01) and found["rows"]["k4"]["f1_loc"]["samples"] == 99
    assert "samples" not in found["rows"]["k1"]["f1_loc"]  # the baseline
    once = json.loads(json.dumps(found))
    text = pages.page({"distributed-table-1": [once]})
    assert "| Baseline | – | 69.2 |" in text
    assert found["rows"]["k4"]["BLEU-1"] is None
    assert "31.0 ± 1.0*" in text and "0: 30.00, 1: 31.00, 2: 32.00" in text
    assert (
        "| 11.7 → 21.54 | data | 21.0 → 31.0 | 0.010 |  | 3 | **confirmed** | `distributed-table-1 --rows 1,2` |"
        in text
    )
    assert f"{len({claim.text for claim in CLAIMS})} claims: 2 were tested, 2 of these are confirmed" in text
    assert "Of the 2 tests, 2 have p < 0.05 after Holm's" in text and "(2 draw 99 samples; of n" in text
    assert "| | | | | | not run | `pos-scan-table-1 --rows 1,3` |" in text
    assert "on 1,200 images of data, test;\n2,400 were trained on, 100 held out" in text
    assert all(f"groundling reproduce {name}" in text for name in TABLES)


def test_columns_that_a_table_got_after_its_summary_are_left_out_of_the_page(bench: Bench) -> None:
    found = summary(table("distributed-table-1"), bench, "groundling reproduce distributed-table-1", IMAGES)
    assert "| Other Err |" in pages.page({"distributed-table-1": [found]})
    for row in found["rows"].values():
        del row["other_err"]
    text = pages.page({"distributed-table-1": [found]})
    assert "| Other Err |" not in text and "| Part Grd |" in text


def test_the_page_says_how_many_samples_the_tests_draw_and_whether_any_could_pass(bench: Bench) -> None:
    """Two tests of 30 samples: no p is below 1 / 31 = 0.032, Holm asks for 0.025. Older summaries have no number."""
    found = json.loads(json.dumps(summary(table("distributed-table-1"), bench, "", IMAGES)))
    tested = [claim for claim in found["claims"].values() if claim]
    for claim in tested:
        claim.update(p=0.04, samples=30)
    assert "(2 draw 30 samples; of n samples no p is below 1 / (n + 1), so that at most 0 can.)" in pages.page(
        {"distributed-table-1": [found]}
    )
    del tested[0]["samples"]
    tested[1]["samples"] = 20_000
    text = pages.page({"distributed-table-1": [found]})
    assert (
        "(1 draw 1,000 samples, 1 draw 20,000 samples; of n samples no p is below 1 / (n + 1), so that at most 2 can.)"
        in text
    )


def test_a_table_whose_rows_have_other_seeds_says_so(bench: Bench) -> None:
    """Its means are of other runs, and differ from the means of the test."""
    found = json.loads(json.dumps(summary(table("distributed-table-1"), bench, "", IMAGES)))
    warning = "Not all rows have the same seeds: compare two rows over the seeds that both have, as the tests do."
    assert warning not in pages.page({"distributed-table-1": [found]})
    for cell in found["rows"]["k1"].values():
        if cell:
            del cell["values"]["2"]
    assert warning in pages.page({"distributed-table-1": [found]})


def test_a_claim_has_a_line_of_each_data_set_and_is_confirmed_by_any(bench: Bench) -> None:
    found = summary(table("distributed-table-1"), bench, "groundling reproduce distributed-table-1", IMAGES)
    photos = json.loads(json.dumps(found)) | {"data": "photos"}
    for claim in photos["claims"].values():
        if claim:
            claim.update(p=0.5, verdict=DIRECTION)
    text = pages.page({"distributed-table-1": [found, photos]})
    assert "claims: 2 were tested, 2 of these are confirmed.\nOf the 4 tests, 2 have" in text
    assert text.count("| 11.7 → 21.54 | data |") == text.count("| 11.7 → 21.54 | photos |") == 1
    assert "images of data, test" in text and "images of photos, test" in text


def test_a_claim_that_two_tables_support_is_told_of_both_and_counts_once() -> None:
    """Self-critical training: on scenes (Table 2) and on COCO (Table 4)."""
    text = "self-critical training raises CIDEr-D"
    result = {"ours": [1.1, 1.0], "p": 0.01, "seeds": [0], "verdict": CONFIRMED}
    named = [claim.table for claim in CLAIMS if claim.text == text]
    assert named == ["pos-scan-table-2", "pos-scan-table-4"]
    about = {"command": "", "split": "val", "images": IMAGES, "baseline": "", "rows": {"plain": {}}}
    found = {name: [about | {"data": name[-1], "claims": {text: result}}] for name in named}
    made = pages.page(found)
    assert "claims: 1 were tested, 1 of these are confirmed.\nOf the 2 tests, 2 have" in made
    assert made.count(f"| {text} |") == 2


@pytest.mark.parametrize(
    ("values", "passed"), [([], 0), ([0.04], 1), ([0.04, 0.03], 0), ([0.04, 0.02], 2), ([0.001, 0.03, 0.04], 1)]
)
def test_holms_correction_by_hand(values: list[float], passed: int) -> None:
    """The least of n must be below 0.05 / n, the next below 0.05 / (n − 1), and so on until one is not."""
    assert pages.holm(values) == passed


@pytest.mark.parametrize(
    ("values", "found"), [([], 0), ([0.05], 1), ([0.04, 0.06], 0), ([0.01, 0.04, 0.05], 3), ([0.01, 0.04, 0.2], 1)]
)
def test_discoveries_by_hand(values: list[float], found: int) -> None:
    """The greatest i for which the i-th least of n is at most 0.05 i / n: all up to it, even if one before is not."""
    assert pages.discoveries(values) == found


def test_a_run_that_was_not_scored_on_this_split_is_not_there_and_a_damaged_one_is_named(bench: Bench) -> None:
    folder = bench.out / "k1-0"
    assert scored(folder, "val") is None and scored(folder, "test") is not None
    for name, content in (
        ("resampled-test.npz", b"PK\x03\x04"),
        ("resampled-test.npz", b""),
        ("scores-test.json", b"[{]"),
    ):
        (folder / name).write_bytes(content)
        with pytest.raises(DataError, match="does not hold scores"):
            scored(folder, "test")


@pytest.mark.parametrize("content", ["{", "[]", '{"table": 1}'])
def test_what_is_no_summary_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(DataError, match=r"x.json is not a summary"):
        read_summaries(tmp_path)


def test_two_summaries_of_one_table_are_one_too_many(tmp_path: Path) -> None:
    content: dict[str, Any] = {"table": "t", "data": "d", "rows": {}, "claims": {}, "images": IMAGES}
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps(content))
    with pytest.raises(DataError, match="two summaries of t on d"):
        read_summaries(tmp_path)


def part(**rows: dict[int, float]) -> dict[str, Any]:
    """A summary of these rows, by name and seed; a claim on "b" is tested where it has any runs."""
    cells = {name: {"f1_loc": {"values": values, "p": 0.5, "signature": "f"}} for name, values in rows.items()}
    about = {
        "table": "t",
        "data": "d",
        "split": "test",
        "images": IMAGES,
        "command": f"t --seeds {len(rows['a'])} --small",
    }
    tested = {"ours": [1, 2], "p": 0.1, "seeds": list(rows["b"]), "verdict": CONFIRMED} if "b" in rows else None
    return json.loads(json.dumps({**about, "baseline": "a", "rows": cells, "claims": {"b > a": tested}}))


def test_rows_of_another_machine_stay_where_the_runs_that_both_have_agree() -> None:
    before, after = part(a={0: 0.1, 1: 0.2}, b={0: 0.3, 1: 0.4}), part(a={0: 0.1, 1: 0.2 + 1e-9}, c={0: 0.5})
    found = merged(before, after)
    assert set(found["rows"]) == {"a", "b", "c"}
    assert found["rows"]["b"] == before["rows"]["b"] and found["claims"] == before["claims"]
    assert found["rows"]["a"] == after["rows"]["a"]


def test_a_row_without_its_baseline_does_not_replace_one_that_was_tested_against_it() -> None:
    before, after = part(a={0: 0.1}, b={0: 0.3}, c={0: 0.5}), part(a={}, b={0: 0.3}, d={0: 0.7})
    del after["rows"]["a"]
    for row in after["rows"].values():
        row["f1_loc"]["p"] = None
    found = merged(before, after)
    assert found["rows"] == before["rows"] | {"d": after["rows"]["d"]}
    after["rows"]["b"]["f1_loc"]["values"]["1"] = 0.4
    with pytest.raises(DataError, match="summaries of t: b has more seeds than before, but no test against 'a'; run"):
        merged(before, after)


def test_rows_that_were_scored_otherwise_are_not_mixed() -> None:
    before, after = part(a={0: 0.1}, b={0: 0.3}), part(c={0: 0.5}, a={})
    del after["rows"]["a"]
    after["rows"]["c"]["f1_loc"]["signature"] = "g"
    with pytest.raises(DataError, match="summaries of t: f1_loc was 'f' and is 'g'; run all rows"):
        merged(before, after)


def test_of_a_row_that_both_have_the_one_with_more_seeds_stays() -> None:
    before, after = part(a={0: 0.1, 1: 0.2}, b={0: 0.3, 1: 0.4}), part(a={0: 0.1}, b={0: 0.3}, c={0: 0.5})
    found = merged(before, after)
    assert found["rows"] == before["rows"] | {"c": after["rows"]["c"]}
    assert found["claims"]["b > a"]["seeds"] == [0, 1] and found["command"] == before["command"]
    assert merged(before, after | {"rows": {}, "claims": {"b > a": None}})["rows"] == before["rows"]


def test_rows_whose_baseline_differs_are_not_mixed_and_a_table_that_was_run_again_replaces_the_other() -> None:
    before, other = part(a={0: 0.1}, b={0: 0.3}), part(a={0: 0.11}, c={0: 0.5})
    with pytest.raises(DataError, match=r"summaries of t: f1_loc of a, seed 0, was 0.1 and is 0.11; run all rows"):
        merged(before, other)
    whole = part(a={0: 0.11}, b={0: 0.35}, c={0: 0.5})
    assert merged(before, whole) == whole
    with pytest.raises(DataError, match="split was 'test' and is 'val'"):
        merged(before, other | {"split": "val"})
    with pytest.raises(DataError, match="'t --small' and 't --small --set epochs=2'; keep one"):
        merged(before, other | {"command": "t --seeds 1 --small --set epochs=2"})
