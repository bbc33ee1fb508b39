"""What an audit found, in numbers; and what a stopped audit left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from groundling.audit import page, stream
from groundling.audit.summary import compared, summarise, wilson
from groundling.commands.outputs import mend
from groundling.errors import DataError


def line(row: int, image: str, *verdicts: str, lemma: str = "dog", p: float = 0.5) -> dict[str, Any]:
    phrases = [
        {
            "phrase": lemma,
            "span": [0, 3],
            "lemma": lemma,
            "verdict": verdict,
            "evidence": p,
            "likely": [],
            "box": None,
        }
        for verdict in verdicts
    ]
    return {"row": row, "image": image, "caption": "dog", "width": 4, "height": 4, "phrases": phrases}


LINES = [
    line(1, "a", "grounded", "grounded", "not there"),
    line(2, "a", "grounded", lemma="hat"),
    line(3, "b", "cannot tell"),
    {"row": 4, "image": "c", "caption": "x", "error": "photos: no image called 'c'"},
]


def test_shares_are_of_all_nouns() -> None:
    """Five nouns: three grounded, one not there, one that nobody can tell."""
    found = summarise(LINES)
    assert found.ids == ["a#0", "a#1", "b#0"] and found.nouns == 5
    assert [found.share(name) for name in ("grounded", "wrong place", "not there", "cannot tell")] == [0.6, 0, 0.2, 0.2]
    row = found.to_dict()
    low, high = row["intervals"]["not there"]
    assert 0 <= low <= 0.2 <= high <= 1
    assert {one["class"]: one["nouns"] for one in row["classes"]} == {"animals": 4, "clothing": 1}
    assert row["not_there"] == [("dog", 1)] and sum(row["not_checked"].values()) == 1
    json.dumps(row, allow_nan=False)


def test_rows_that_were_not_checked_are_counted_by_kind_the_first_as_an_example() -> None:
    """Three images that are missing are one kind, whatever their names; a file that is damaged is another."""
    reasons = [
        "photos: no image called 'a.jpg'",
        'photos: no image called "it\'s.jpg"',
        "photos: no image called 'b.jpg'",
    ]
    rows = [{"row": i, "error": reason} for i, reason in enumerate([*reasons, "a.jpg: the file is empty"])]
    assert summarise(rows).errors == {"no image called 'a.jpg'": 3, "the file is empty": 1}


def test_nothing_judged_is_no_number() -> None:
    assert summarise([]).to_dict()["shares"]["grounded"] is None


def test_wilson_by_hand() -> None:
    """Of 10, none: from 0 to z² / (n + z²) = 3.8416 / 13.8416."""
    assert wilson(0, 10) == pytest.approx((0, 3.8416 / 13.8416), abs=1e-9)


def test_two_systems_are_compared_on_the_captions_that_both_have() -> None:
    good = summarise([line(i, f"{i}", "grounded", "grounded") for i in range(30)])
    bad = summarise([line(i, f"{i}", "grounded", "not there") for i in range(5, 40)])
    tests, shared = compared(good, bad)
    by_name = {test.name: test for test in tests}
    assert shared == 25
    assert by_name["not there"].baseline == 0.5 and by_name["not there"].system == 0
    assert by_name["not there"].p_randomisation < 0.01
    assert by_name["wrong place"].p_randomisation == 1
    with pytest.raises(DataError, match="no image in common"):
        compared(good, summarise([line(1, "elsewhere", "grounded")]))


def test_an_unknown_verdict_is_refused() -> None:
    with pytest.raises(DataError, match="unknown verdict 'perhaps'"):
        summarise([line(1, "a", "perhaps")])


def test_the_worst_captions_come_first() -> None:
    rows = [
        line(1, "a", "grounded", p=0.9),
        line(2, "a", "not there", p=0.2),
        line(3, "a", "not there", p=0.1),
        LINES[3],
    ]
    rows.append(line(4, "a", "not there", "not there"))
    assert [row["row"] for row in page.worst(rows, 3)] == [4, 3, 2]


def test_half_a_line_is_cut_off_and_the_rest_counts_as_done(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps(one | {"by": "x", "input": "h"}) for one in LINES[:2]) + '\n{"row": 3, "im')
    mend(path)
    assert stream.written(path, "x") == {1: "h", 2: "h"}
    with pytest.raises(DataError, match="verdicts of another grounder or of other options: use --overwrite"):
        stream.written(path, "y")
    path.write_text("no newline")
    mend(path)
    assert path.read_text() == ""


@pytest.mark.parametrize("text", ["[]\n", "x\n", '{"row": "1"}\n', '{"row": 1, "phrases": 3}\n', "[" * 50_000 + "\n"])
def test_what_is_no_audit_is_told(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(text)
    with pytest.raises(DataError, match=r"a.jsonl: line 1 is no line of an audit"):
        list(stream.read_lines(tmp_path / "a.jsonl"))


def test_evidence_that_an_earlier_version_called_probability_is_read(tmp_path: Path) -> None:
    now = line(1, "a", "grounded", "cannot tell", p=0.25)
    before = json.dumps(now).replace('"evidence"', '"probability"')
    (tmp_path / "a.jsonl").write_text(before + "\n" + json.dumps({"row": 2, "error": "no image"}) + "\n")
    first, second = stream.read_lines(tmp_path / "a.jsonl")
    assert '"evidence"' not in before and first == now
    assert second == {"row": 2, "error": "no image"}
