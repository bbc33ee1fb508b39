"""Labels against what people drew; calibration of their confidence."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from groundling.errors import DataError
from groundling.labels import Label, LabelledImage, Mention, PlacedBox
from groundling.labels.calibration import (
    FILE,
    FORMAT,
    Calibration,
    CheckedBox,
    Logistic,
    as_features,
    beside,
    fit,
    read,
    regression,
)
from groundling.labels.features import NAMES
from groundling.labels.truth import Tally
from groundling.metrics.calibration import Isotonic, expected_calibration_error, reliability
from groundling.text.words import caption
from groundling.types import Box, Example, Phrase

TEXT = "a man and two dogs on grass"


def box(*corners: float, confidence: float = 0.9) -> PlacedBox:
    left, top, right, bottom = corners
    return PlacedBox((left, top, right, bottom), confidence, confidence)


def example() -> Example:
    """A man (one box), two dogs (two boxes), and grass, which nobody drew."""
    dogs: tuple[Box, ...] = ((50, 0, 60, 10), (70, 0, 80, 10))
    gold = (
        Phrase(0, (0, 2), ((0, 0, 10, 20),), entity="1"),
        Phrase(0, (3, 5), dogs, entity="2"),
        Phrase(0, (6, 7), (), entity="3"),
    )
    return Example("x", "", (100, 50), (caption(TEXT),), gold)


def label(start: int, end: int, *boxes: PlacedBox) -> Label:
    return Label(TEXT[start:end], "thing", (Mention(0, (start, end)),), boxes)


def tally(*labels: Label) -> Tally:
    found = Tally()
    found.add(LabelledImage("x", "", (100, 50), (TEXT,), labels), example())
    return found


MAN, DOGS, GRASS = (0, 5), (10, 18), (22, 27)


def test_precision_and_recall_by_hand() -> None:
    """The man is right, one dog of two is right, the grass cannot be checked: 2 of 3 boxes, both entities found."""
    found = tally(
        label(*MAN, box(0, 0, 10, 19)),
        label(*DOGS, box(50, 0, 60, 10), box(0, 0, 5, 5, confidence=0.3)),
        label(*GRASS, box(0, 30, 90, 50)),
    )
    point = found.curve()[0]
    assert point.boxes == 4
    assert point.precision == pytest.approx(2 / 3)
    assert point.strict_precision == pytest.approx(2 / 4)
    assert point.recall == 1.0
    assert point.box_recall == pytest.approx(2 / 3)
    sure = next(one for one in found.curve() if one.threshold == 0.5)
    assert (sure.boxes, sure.precision) == (3, 1.0)


def test_a_true_box_is_found_once() -> None:
    found = tally(label(*DOGS, box(50, 0, 60, 10), box(50, 0, 61, 10)))
    assert [one.right for one in found.boxes] == [True, False]


def test_one_box_around_all_of_them_is_right() -> None:
    assert tally(label(*DOGS, box(50, 0, 80, 10))).boxes[0].right is True


def test_labels_that_name_no_thing_are_not_checked() -> None:
    found = tally(replace(label(*MAN, box(0, 0, 10, 20)), left_out="'air' names no thing that has a box"))
    assert found.boxes == []
    unsure = tally(replace(label(*MAN, box(0, 0, 10, 20)), left_out="confidence 0.20 is below 0.6"))
    assert len(unsure.boxes) == 1


def test_merged_phrases_are_compared_with_the_annotators_chains() -> None:
    """Two captions; we join man with man (right) and dogs with man (wrong)."""
    text = "a man and dogs"
    gold = tuple(
        Phrase(c, span, ((0, 0, 9, 9),), entity=e) for c in (0, 1) for span, e in (((0, 2), "1"), ((3, 4), "2"))
    )
    whole = Example("y", "", (10, 10), (caption(text), caption(text)), gold)
    man, dogs = (0, 5), (10, 14)
    labels = (
        Label("a man", "man", (Mention(0, man), Mention(1, man), Mention(1, dogs))),
        Label("dogs", "dog", (Mention(0, dogs),)),
    )
    found = Tally()
    found.add(LabelledImage("y", "", (10, 10), (text, text), labels), whole)
    told = found.chains()
    assert told.mentions == 4
    assert (told.precision, told.recall) == (pytest.approx(1 / 3), pytest.approx(1 / 2))


def checked(n: int = 40) -> list[CheckedBox]:
    return [CheckedBox(box(0, 0, 1, 1, confidence=i / n), i % 2 == 0 or i > n / 2, str(i)) for i in range(n)]


def with_features(n: int) -> list[CheckedBox]:
    """Boxes that are right as often as a logistic function of two features tells; the score tells nothing."""
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(n, len(NAMES)))
    odds = 2 * rows[:, NAMES.index("word")] - rows[:, NAMES.index("rivals")] + 0.5
    right = draw.random(n) < 1 / (1 + np.exp(-odds))
    return [
        CheckedBox(PlacedBox((0, 0, 1, 1), 0.5, 0.5, tuple(row.tolist())), bool(ok), str(i))
        for i, (row, ok) in enumerate(zip(rows, right, strict=True))
    ]


def test_a_calibration_never_falls_and_survives_json() -> None:
    fitted = fit(checked(), "abc")
    p = fitted.confidence([box(0, 0, 1, 1, confidence=score) for score in (0.0, 0.3, 0.6, 1.0)])
    assert p == sorted(p) and p[0] < 0.7 < p[-1]
    assert Calibration.from_json(json.loads(json.dumps(fitted.to_json()))) == fitted


def test_the_regression_is_at_the_minimum_of_its_loss() -> None:
    """The gradient of Σ log(1 + exp(−y z)) + ridge / 2 |w|² vanishes, by central differences."""
    some = with_features(200)
    features, right = as_features([one.placed for one in some]), np.array([float(one.right) for one in some])
    found = regression(features, right, ("word", "rivals"), ridge=2.0)

    def loss(shift: float, name: str) -> float:
        rows = {key: (m, d, w + shift * (key == name)) for key, (m, d, w) in found.rows.items()}
        z = Logistic(rows, found.bias + shift * (name == "bias"))(features)
        return float(np.log1p(np.exp(-(2 * right - 1) * z)).sum() + sum(w**2 for _, _, w in rows.values()))

    for name in ("word", "rivals", "bias"):
        assert (loss(1e-4, name) - loss(-1e-4, name)) / 2e-4 == pytest.approx(0, abs=1e-3)


def test_what_is_known_of_a_box_makes_its_confidence_right() -> None:
    """Fitted on 2,000 boxes: on 2,000 others the error of calibration is small and the threshold keeps its promise."""
    some = with_features(4000)
    fitted = fit(some[:2000], "abc")
    p = np.array(fitted.confidence([one.placed for one in some[2000:]]))
    true = np.array([float(one.right) for one in some[2000:]])
    assert expected_calibration_error(reliability(p, true)) < 0.04
    assert 0.74 < true[p >= fitted.threshold].mean() < 0.85
    assert fitted.threshold < 0.7 and (p >= fitted.threshold).mean() > 0.3


def test_a_box_without_features_is_rated_by_its_score_alone() -> None:
    found = Calibration(Logistic({"log_odds": (0, 1, 1), "word": (0.5, 1, 9)}, 0.0), Isotonic((-9, 9), (0, 1)), 0.5)
    assert found.confidence([box(0, 0, 1, 1, confidence=0.5)]) == [0.5]


def test_too_few_boxes_are_refused() -> None:
    with pytest.raises(DataError, match="too few"):
        fit(checked(5))


def test_a_calibration_of_other_weights_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / FILE).write_text(json.dumps(fit(checked(), "abc").to_json()))
    assert beside(tmp_path, "abc") is not None
    with caplog.at_level(logging.WARNING):
        assert beside(tmp_path, "other") is None
    assert "other weights" in caplog.text
    assert beside(tmp_path / "nowhere", "abc") is None


def damaged(**changes: object) -> str:
    return json.dumps(fit(checked()).to_json() | changes)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "[" * 100_000,
        json.dumps({"format": FORMAT}),
        damaged(threshold=2),
        damaged(features={"nonsense": [0, 1, 1]}),
        damaged(features={"word": [0, 0, 1]}),
        damaged(features={"word": ["x", 1, 1]}),
        damaged(bias=float("nan")),
        damaged(level={"x": [1, 0], "p": [0, 1]}),
    ],
)
def test_a_damaged_calibration_is_named_with_its_cure(content: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(DataError, match="labels.json is damaged.*score labels"):
        read(tmp_path / FILE)
