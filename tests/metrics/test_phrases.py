from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundling.errors import DataError
from groundling.metrics.phrases import Query, localise, overlap, read_queries

VECTORS = Path(__file__).parent.parent / "vectors"


def vectors() -> Any:
    with gzip.open(VECTORS / "phrase_localisation.json.gz") as file:
        return json.load(file)


def query(boxes: list[list[float]], truth: list[list[float]], **more: Any) -> Query:
    return Query("q", np.array(boxes, float).reshape(-1, 4), np.array(truth, float).reshape(-1, 4), **more)


def test_every_phrase_of_the_vectors_is_scored_as_by_the_official_evaluator() -> None:
    data = vectors()
    expected = [phrase["expected"] for phrase in data["phrases"] if phrase["gt_boxes"] is not None]
    found = localise(read_queries(data))
    for i, name in enumerate(("recall@1", "recall@5", "recall@10")):
        assert found.recall[:, i].tolist() == [bool(e[name]) for e in expected]
    assert found.pointing.tolist() == [bool(e["pointing"]) for e in expected]
    assert found.to_dict()["recall@1"] == pytest.approx(sum(e["recall@1"] for e in expected) / len(expected))
    assert found.to_dict()["upper_bound"] >= found.to_dict()["recall@10"]


def test_an_exact_half_is_a_miss_and_boxes_that_share_an_edge_do_not_overlap() -> None:
    """50 of 100 pixels, inclusive: 5000 / (10000 + 1e-6) < 0.5."""
    assert overlap(np.array([[0.0, 0, 99, 49]]), np.array([[0.0, 0, 99, 99]]))[0, 0] < 0.5
    assert overlap(np.array([[0.0, 0, 9, 9]]), np.array([[9.0, 0, 20, 9]]))[0, 0] == 0
    assert overlap(np.array([[math.nan, 0, 9, 9]]), np.array([[0.0, 0, 9, 9]]))[0, 0] == 0


def test_sides_of_continuous_boxes_have_no_pixel_more() -> None:
    """Sides 10 and 10, shared 6 by 10: 60 / 140 = 0.43; in whole pixels 11 and 11, shared 7 by 11: 77 / 165 = 0.47."""
    a, b = np.array([[0.0, 0, 10, 10]]), np.array([[4.0, 0, 14, 10]])
    assert overlap(a, b, continuous=True)[0, 0] == pytest.approx(60 / 140)
    assert overlap(a, b)[0, 0] == pytest.approx(77 / 165)
    found = localise([query([[0, 0, 10, 10]], [[4, 0, 14, 10]])], iou=0.45, continuous=True)
    assert found.to_dict()["recall@1"] == 0
    assert "boxes:continuous" in found.statistics()["recall@1"].signature
    assert localise([query([[0, 0, 10, 10]], [[4, 0, 14, 10]])], iou=0.45).to_dict()["recall@1"] == 1


def test_the_union_of_two_true_boxes_is_another_target_than_any_of_them() -> None:
    left, right, both = [0, 0, 50, 100], [60, 0, 110, 100], [0, 0, 110, 100]
    for boxes, by_any, by_union in (([left], 1, 0), ([both], 0, 1)):
        question = [query(boxes, [left, right])]
        assert localise(question, "any").to_dict()["recall@1"] == by_any
        assert localise(question, "union").to_dict()["recall@1"] == by_union


def test_scores_by_kind_and_class_count_a_phrase_in_each_of_its_kinds() -> None:
    right, wrong = [0, 0, 99, 99], [200, 200, 250, 250]
    found = localise(
        [
            query([right], [right], kinds=("people",), label="man"),
            query([wrong, right], [right], kinds=("people", "clothing"), label="hat"),
            query([right], [], kinds=("scene",)),  # nothing drawn: not scored
        ]
    )
    assert {kind: scores["recall@1"] for kind, scores in found.by_kind().items()} == {"clothing": 0.0, "people": 0.5}
    assert {label: scores["recall@5"] for label, scores in found.by_label().items()} == {"hat": 1.0, "man": 1.0}
    assert "upper_bound" not in found.to_dict()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({}, "the key 'boxes' is missing"),
        ({"boxes": [[1, 2]]}, "expected boxes of 4 numbers"),
        ({"boxes": [[1, 2, 3, 4], [1]]}, "rows must all have the same length"),
        ({"boxes": [[1, 2, 3, 4]] * 3, "token_attention": [[0.5]]}, "3 boxes but attention over 1 slots"),
        ({"boxes": [], "kinds": [1]}, "kinds / 0: expected a string"),
    ],
)
def test_a_broken_row_is_refused_with_its_line(tmp_path: Path, row: Any, message: str) -> None:
    path = tmp_path / "phrases.jsonl"
    path.write_text('{"boxes": [], "gt_boxes": null}\n' + json.dumps(row) + "\n")
    with pytest.raises(DataError, match="phrases.jsonl: line 2") as error:
        read_queries(path)
    assert message in str(error.value)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=12,
)
rows = st.dictionaries(
    st.sampled_from(["boxes", "gt_boxes", "token_attention", "proposals", "kinds", "label", "id"]), values, max_size=5
)


@given(st.lists(rows | values, max_size=3))
def test_any_rows_give_scores_or_a_data_error(rows: Any) -> None:
    try:
        localise(read_queries({"phrases": rows}), "union").to_dict()
    except DataError as error:
        assert str(error)
