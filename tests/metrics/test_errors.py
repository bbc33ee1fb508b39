from __future__ import annotations

import gzip
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from groundling.metrics.errors import KINDS, analyse, by_frequency, per_class
from groundling.metrics.grounding import Grounding
from groundling.metrics.grounding_image import ground_image

VECTORS = Path(__file__).parent.parent / "vectors"
TRUE, INSIDE, AROUND, ASIDE = [10, 10, 109, 109], [10, 10, 49, 49], [0, 0, 299, 299], [150, 150, 249, 249]


def one_image(truth: dict[str, list[int]], predicted: dict[str, list[int]], tokens: str = "") -> Grounding:
    words = list(truth)
    caption = {
        "tokens": [*words, *tokens.split()],
        "process_clss": words,
        "process_idx": list(range(len(words))),
        "process_bnd_box": list(truth.values()),
    }
    row = {"clss": list(predicted), "idx_in_sent": list(range(len(predicted))), "bbox": list(predicted.values())}
    return ground_image(
        {"results": {"1": [row]}}, {"annotations": [{"image_id": 1, "captions": [caption]}]}, {"val": ["1"]}, "val"
    )


def test_five_words_of_five_kinds_are_a_fifth_each() -> None:
    grounding = one_image(
        truth={"dog": TRUE, "cat": TRUE, "man": TRUE, "hat": TRUE},
        predicted={"dog": TRUE, "cat": INSIDE, "man": ASIDE, "car": TRUE},
    )
    analysis = analyse(grounding)
    assert analysis.to_dict()["kinds"] == dict.fromkeys(KINDS, 0.2)
    kinds = {record.label: record.kind for record in analysis.records()}
    assert kinds == {"dog": "corr_grd", "cat": "part_grd", "man": "other_err", "car": "hallu_cls", "hat": "mis_cls"}


def test_a_wrong_grounding_is_partial_enlarged_or_deviated() -> None:
    truth = {"dog": TRUE, "cat": TRUE, "man": TRUE, "hat": TRUE}
    predicted = {"dog": INSIDE, "cat": AROUND, "man": ASIDE, "hat": TRUE}
    analysis = analyse(one_image(truth, predicted))
    assert analysis.to_dict()["shapes"] == dict.fromkeys(("partial", "enlarged", "deviated"), pytest.approx(1 / 3))
    shapes = {record.label: record.shape for record in analysis.records()}
    assert shapes == {"dog": "partial", "cat": "enlarged", "man": "deviated", "hat": ""}


def test_the_upper_bound_forgives_partial_groundings_and_nothing_else() -> None:
    grounding = one_image({"dog": TRUE, "man": TRUE}, {"dog": INSIDE, "man": ASIDE})
    assert grounding.to_dict()["loc"]["recall"] == 0.0  # and so F1 is 0 / 0
    assert analyse(grounding).to_dict()["upper_bound"]["loc"]["f1"] == 0.5


def test_a_record_leads_from_the_error_to_its_image_and_boxes() -> None:
    grounding = one_image({"dog": TRUE, "hat": TRUE}, {"dog": ASIDE})
    wrong, missing = analyse(grounding).records()
    assert asdict(wrong) == {
        "id": "1", "caption": 0, "label": "dog", "kind": "other_err", "shape": "deviated", "token": 0,
        "reference_token": 0, "overlap": 0.0, "predicted": (tuple(map(float, ASIDE)),),
        "truth": (tuple(map(float, TRUE)),), "frames": (0,),
    }  # fmt: skip
    assert (missing.kind, missing.token, missing.predicted, missing.truth) == ("mis_cls", -1, (), wrong.truth)
    json.dumps([asdict(wrong), asdict(missing)])


def vectors(name: str) -> Any:
    with gzip.open(VECTORS / name) as file:
        return json.load(file)


def test_kinds_agree_with_the_entries_that_f1_counts() -> None:
    data = vectors("grounding_image_s.json.gz")
    grounding = ground_image(
        data["submission_generated"], data["reference"], data["splits"], data["eval_split"], 0.5, data["lemma"]
    )
    analysis = analyse(grounding)
    kinds = analysis.counts.sum(0)
    expected = data["expected"]["0.5"]
    hits, shared = (sum(pair[i] for pair in expected["loc"]["class_precision_hits_total"].values()) for i in (0, 1))
    everything = sum(pair[1] for pair in expected["all"]["class_precision_hits_total"].values())
    assert kinds[2] == hits
    assert kinds[2:].sum() == shared
    assert kinds[1] == everything - shared
    assert sum(analysis.to_dict()["kinds"].values()) == pytest.approx(1)
    assert len(list(analysis.records())) == kinds.sum()


def test_classes_fall_into_groups_by_their_frequency_in_training() -> None:
    grounding = one_image({"dog": TRUE, "cat": TRUE, "man": TRUE}, {"dog": TRUE, "cat": ASIDE, "man": TRUE})
    groups = by_frequency(grounding, {"man": 90, "dog": 50, "cat": 3}, groups=3)
    assert [group["classes"] for group in groups] == [["man"], ["dog"], ["cat"]]
    assert [group["f1_all"] for group in groups] == [1.0, 1.0, 0.0]
    assert per_class(grounding)["cat"]["all"] == {"precision": [0, 1], "recall": [0, 1], "f1": 0.0}


def test_a_class_that_no_image_shows_has_both_modes_and_comes_last() -> None:
    """The page of a report shows both; "loc" has no word of it."""
    table = per_class(one_image({"dog": TRUE}, {"dog": TRUE, "car": TRUE}))
    assert [*table] == ["dog", "car"]
    assert table["car"]["all"] == {"precision": [0, 1], "recall": [0, 0], "f1": 0.0}
    assert table["car"]["loc"] == {"precision": [0, 0], "recall": [0, 0], "f1": 0.0}


def test_no_caption_and_no_annotation_is_nan_not_a_crash() -> None:
    analysis = analyse(one_image({}, {}))
    assert by_frequency(analysis.grounding, {}) == [
        {
            "classes": [],
            "frequency": 0.0,
            "f1_all": pytest.approx(float("nan"), nan_ok=True),
            "f1_loc": pytest.approx(float("nan"), nan_ok=True),
        }
    ]
    assert list(analysis.records()) == []
