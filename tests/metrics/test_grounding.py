"""Flickr30k-Entities and ActivityNet-Entities: the official numbers, the rules one by one, and bad files."""

from __future__ import annotations

import copy
import gzip
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from groundling.errors import DataError
from groundling.metrics.grounding_image import flickr30k_entities, ground_given_image, ground_image
from groundling.metrics.grounding_video import activitynet_entities, ground_given_video, ground_video

VECTORS = Path(__file__).parent.parent / "vectors"
NAMES = [f"grounding_{kind}_{size}" for kind in ("image", "video") for size in ("zero", "adv", "s")]


def load(name: str) -> Any:
    with gzip.open(VECTORS / f"{name}.json.gz") as file:
        return json.load(file)


def same(value: float, expected: float | str) -> bool:
    return math.isnan(value) if expected == "nan" else abs(value - float(expected)) < 1e-9


# ---------------------------------------------------------------- the official numbers


@pytest.mark.parametrize("iou", ["0.5", "0.3", "0.7"])
@pytest.mark.parametrize("name", NAMES)
def test_generated_sentences_score_as_the_official_evaluator_says(name: str, iou: str) -> None:
    data = load(name)
    evaluate = ground_image if data["kind"] == "image" else ground_video
    grounding = evaluate(
        data["submission_generated"], data["reference"], data["splits"], data["eval_split"], float(iou), data["lemma"]
    )
    for mode, scores in grounding.to_dict().items():
        expected = data["expected"][iou][mode]
        expected = {**expected, **expected.get("per_sentence_derived", {})}
        wrong = {key: (value, expected[key]) for key, value in scores.items() if not same(value, expected[key])}
        assert wrong == {}
        for side, entries in (("precision", grounding.precision), ("recall", grounding.recall)):
            tally = entries.tally(float(iou), grounding.labels, loc=mode == "loc")
            assert {label: list(pair) for label, pair in tally.items()} == expected[f"class_{side}_hits_total"]


@pytest.mark.parametrize("iou", ["0.5", "0.3", "0.7"])
@pytest.mark.parametrize("name", NAMES)
def test_given_sentences_score_as_the_official_evaluator_says(name: str, iou: str) -> None:
    data = load(name)
    evaluate = ground_given_image if data["kind"] == "image" else ground_given_video
    given = evaluate(data["submission_gt_sentences"], data["reference"], data["splits"], data["eval_split"], float(iou))
    expected = data["expected"][iou]["gt_sentences"]
    assert same(given.to_dict()["accuracy"], expected["accuracy"])
    tally = given.words.tally(float(iou), given.labels, loc=False)
    assert {label: list(pair) for label, pair in tally.items()} == expected["class_hits_total"]


@pytest.mark.parametrize("name", NAMES[:3])
def test_image_captions_recast_as_segments_of_one_frame_score_as_the_official_video_evaluator_says(name: str) -> None:
    data = load(name)
    segments = {
        str(image["image_id"]): {
            "segments": {
                str(i): {
                    **caption,
                    "frame_ind": [0] * len(caption["process_idx"]),
                    "process_idx": [[index] for index in caption["process_idx"]],
                    "process_clss": [[label] for label in caption["process_clss"]],
                }
                for i, caption in enumerate(image["captions"])
            }
        }
        for image in data["reference"]["annotations"]
    }
    results = {
        image: {
            str(i): {
                "clss": row["clss"],
                "idx_in_sent": row["idx_in_sent"],
                "bbox_for_all_frames": [[box[:4]] * 10 for box in row["bbox"]],
            }
            for i in range(5)
        }
        for image, [row] in data["submission_generated"]["results"].items()
    }
    scores = activitynet_entities(
        {"results": results}, {"annotations": segments}, data["splits"], data["eval_split"], lemmas=data["lemma"]
    )
    for mode in ("all", "loc"):
        expected = data["expected"]["0.5"][mode]
        for group in ("per_sentence_derived", "derived_video_style_class_scores"):
            wrong = {key: value for key, value in expected[group].items() if not same(scores[mode][key], value)}
            assert wrong == {}


# ---------------------------------------------------------------- the rules, by hand

BOX, ELSEWHERE = [0, 0, 99, 99], [200, 200, 299, 299]


def caption(tokens: str, **words: tuple[int, list[float]]) -> dict[str, Any]:
    return {
        "tokens": tokens.split(),
        "process_clss": list(words),
        "process_idx": [index for index, _ in words.values()],
        "process_bnd_box": [box for _, box in words.values()],
    }


def images(*captions: dict[str, Any]) -> dict[str, Any]:
    return {"annotations": [{"image_id": i, "captions": [one]} for i, one in enumerate(captions)]}


def predicted(**things: tuple[str, list[float]]) -> dict[str, Any]:
    """`predicted(_0=("dog", box))`: a dog in image 0, at that box."""
    return {
        "results": {
            image[1:]: [{"clss": [label], "idx_in_sent": [0], "bbox": [box]}] for image, (label, box) in things.items()
        }
    }


def score(submission: Any, reference: Any, **options: Any) -> Any:
    return flickr30k_entities(submission, reference, {"val": ["0", "1"]}, "val", **options)


def test_a_right_box_on_one_of_two_classes_scores_one_half() -> None:
    """dog: 1 of 1 in precision and recall; cat, in an image with a prediction too: 0. Averages 1/2, harmonic mean 1/2.

    The second image says "dog" where there is only a cat: in "all" the dog's precision falls to 1 of 2.
    """
    reference = images(caption("a dog", dog=(1, BOX)), caption("a cat", cat=(1, BOX)))
    scores = score(predicted(_0=("dog", BOX), _1=("dog", BOX)), reference)
    assert scores["loc"]["precision"] == scores["loc"]["recall"] == scores["loc"]["f1"] == 0.5
    assert scores["all"]["precision"] == 0.25
    assert scores["all"]["num_classes"] == 2


def test_a_word_that_nobody_annotated_is_excused_by_its_lemma() -> None:
    reference = images(caption("a dog and geese", dog=(1, BOX)))
    assert score(predicted(_0=("goose", BOX)), reference)["all"]["precision"] == 0.0
    assert math.isnan(score(predicted(_0=("dog", BOX)), images(caption("a field")))["all"]["f1"])
    tally = ground_image(predicted(_0=("goose", BOX)), reference, {"val": [0]}, "val").precision
    assert len(tally.label) == 0


def test_predictions_for_unknown_images_lower_the_per_sentence_scores_only() -> None:
    reference = images(caption("a dog", dog=(1, BOX)))
    alone, crowded = (
        score(predicted(**things), reference)["all"]
        for things in ({"_0": ("dog", BOX)}, {"_0": ("dog", BOX), "_7": ("dog", BOX)})
    )
    assert alone["f1"] == crowded["f1"] == 1.0
    assert alone["f1_per_sent"] == 1.0
    assert crowded["f1_per_sent"] == pytest.approx(1 / 6)  # one caption of five is assumed for each unknown image


def test_predictions_of_another_split_count_with_the_captions_that_their_images_have() -> None:
    reference = images(*[caption("a dog", dog=(1, BOX))] * 2)
    scores = flickr30k_entities(predicted(_0=("dog", BOX), _1=("dog", BOX)), reference, {"val": ["0"]}, "val")
    assert scores["all"]["f1_per_sent"] == pytest.approx(1 / 2)  # the other image has one caption, not five
    with pytest.raises(DataError, match=r"submission: results / 1 / 0: expected an object, got 7"):
        flickr30k_entities({"results": {"1": [7]}}, reference, {"val": ["0"]}, "val")


def test_swapping_the_order_of_images_changes_nothing() -> None:
    data = load("grounding_image_s")
    files = [data["submission_generated"], data["reference"], data["splits"], data["eval_split"]]
    before = flickr30k_entities(*files, lemmas=data["lemma"])
    files[1] = {"annotations": data["reference"]["annotations"][::-1]}
    after = flickr30k_entities(*files, lemmas=data["lemma"])
    for mode in ("all", "loc"):
        np.testing.assert_allclose(list(after[mode].values()), list(before[mode].values()), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["grounding_image_s", "grounding_video_s"])
def test_statistics_of_a_part_of_the_items_equal_the_scores_of_a_smaller_corpus(name: str) -> None:
    """Bootstrap without rescoring: weights 1 and 0 must give what scoring the kept items alone gives."""
    data = load(name)
    evaluate = ground_image if data["kind"] == "image" else ground_video
    files = [data["submission_generated"], data["reference"], data["splits"]]
    whole = evaluate(*files, data["eval_split"], 0.5, data["lemma"])
    kept = sorted({item.split("/")[0] for item in whole.items})[::2]
    part = evaluate(*files[:2], {"half": kept}, "half", 0.5, data["lemma"])
    weights = np.array([[float(item.split("/")[0] in kept) for item in whole.items]])
    for mode, group in whole.statistics().items():
        for key in ("precision", "recall", "f1"):
            assert group[key].resample(weights)[0] == pytest.approx(part.to_dict()[mode][key], abs=1e-12)


# ---------------------------------------------------------------- boxes that are not boxes


@pytest.mark.parametrize("box", [[math.nan] * 4, [0, 0, math.inf, 99], [99, 99, 0, 0], [5, 5, 5, 5], [0, 0, 99, 1e39]])
def test_a_box_that_is_nan_infinite_inverted_or_one_pixel_is_a_miss_and_no_error(box: list[float]) -> None:
    scores = score(predicted(_0=("dog", box)), images(caption("a dog", dog=(1, BOX))))
    assert scores["all"]["precision"] == scores["all"]["recall"] == 0.0


def test_overlap_of_exactly_one_half_is_a_miss() -> None:
    reference = images(caption("a dog", dog=(1, BOX)))
    assert score(predicted(_0=("dog", [0, 0, 99, 49])), reference)["all"]["recall"] == 0.0
    assert score(predicted(_0=("dog", [0, 0, 99, 50])), reference)["all"]["recall"] == 1.0


# ---------------------------------------------------------------- files that are not right


def broken(change: Any) -> tuple[Any, Any, Any]:
    data = load("grounding_image_adv")
    files = copy.deepcopy((data["submission_generated"], data["reference"], data["splits"]))
    change(*files)
    return files


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s, r, p: s.pop("results"), "submission: the key 'results' is missing"),
        (lambda s, r, p: s["results"]["5000"].append({}), "results / 5000: expected 1 row"),
        (lambda s, r, p: s["results"]["5000"][0].pop("bbox"), "results / 5000 / 0: the key 'bbox' is missing"),
        (lambda s, r, p: s["results"]["5000"][0]["clss"].append("dog"), "5000 / 0: clss, idx_in_sent and bbox must go"),
        (lambda s, r, p: s["results"]["5000"][0].update(bbox=[[1, 2, 3]]), "bbox: expected boxes of 4 numbers"),
        (lambda s, r, p: s["results"]["5000"][0].update(bbox=[["1", "2", "3", "4"]]), "coordinates must be numbers"),
        (lambda s, r, p: s["results"]["5000"][0].update(bbox=[[10**400, 1, 2, 3]]), "coordinates must be numbers"),
        (lambda s, r, p: s["results"]["5000"][0].update(clss=[3]), "clss / 0: expected a string, got 3"),
        (lambda s, r, p: r["annotations"].append(r["annotations"][0]), "image 5000: annotated twice"),
        (lambda s, r, p: r["annotations"][0].pop("image_id"), "annotations / 0 / image_id: expected an integer"),
        (
            lambda s, r, p: r["annotations"][0]["captions"][0].update(
                process_idx=[1, 1], process_clss=["man", "dog"], process_bnd_box=[BOX, BOX]
            ),
            "image 5000 / caption / 0: a word is annotated twice",
        ),
        (lambda s, r, p: p.pop("val"), "no split 'val'; there are test, train"),
        (lambda s, r, p: p.update(val=["5000", 5000]), "val: the id '5000' occurs twice"),
    ],
)
def test_a_broken_image_file_is_refused_with_its_place(change: Any, message: str) -> None:
    with pytest.raises(DataError) as error:
        flickr30k_entities(*broken(change), "val")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s["v_adv00"]["0"]["bbox_for_all_frames"][0].pop(), "one box in each of 10 frames, got 9"),
        (
            lambda s: s["v_adv00"]["0"].update(bbox_for_all_frames=[3]),
            "v_adv00 / 0 / bbox_for_all_frames / 0: expected",
        ),
        (lambda s: s.update(v_adv00=[]), "results / v_adv00: expected an object"),
        (lambda s: s["v_adv00"]["0"].update(idx_in_sent=[]), "must go together, got 1, 0 and 1"),
    ],
)
def test_a_broken_video_submission_is_refused_with_its_place(change: Any, message: str) -> None:
    data = load("grounding_video_adv")
    change(data["submission_generated"]["results"])
    with pytest.raises(DataError) as error:
        activitynet_entities(
            data["submission_generated"], data["reference"], data["splits"], "validation", lemmas=data["lemma"]
        )
    assert message in str(error.value)


def test_given_sentences_need_one_row_for_each_reference_caption() -> None:
    data = load("grounding_image_adv")
    data["submission_gt_sentences"]["results"]["5000"].pop()
    with pytest.raises(DataError, match="5000: expected 5 row"):
        flickr30k_entities(data["submission_gt_sentences"], data["reference"], data["splits"], "val", mode="gt")


def test_a_table_of_lemmas_must_know_every_word_that_it_is_asked_for() -> None:
    reference = images(caption("a dog and geese", dog=(1, BOX)))
    with pytest.raises(DataError, match="no lemma for 'and'|no lemma for 'a'|no lemma for 'geese'"):
        score(predicted(_0=("goose", BOX)), reference, lemmas={"goose": "goose"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"results": {', "not JSON: .* at line 1"),
        (b'{"results": {"5000": [], "5000": []}}', "the key '5000' occurs twice"),
        (b'{"results": "\xff"}', "not UTF-8"),
        (b"[" * 100_000, "not JSON"),
        (b'{"results": ' + b"9" * 5000 + b"}", "not JSON"),
    ],
)
def test_a_file_that_is_not_json_is_named(tmp_path: Path, text: bytes, message: str) -> None:
    data, path = load("grounding_image_adv"), tmp_path / "submission.json"
    path.write_bytes(text)
    with pytest.raises(DataError, match=message) as error:
        flickr30k_entities(path, data["reference"], data["splits"], "val")
    assert str(path) in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nothing.json: cannot be read: No such file"):
        flickr30k_entities(tmp_path / "nothing.json", {"annotations": []}, {"val": []}, "val")


def test_a_reference_without_the_split_gives_nan_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    scores = flickr30k_entities({"results": {}}, {"annotations": []}, {"test": ["1"]}, "test", mode="gt")
    assert math.isnan(scores["accuracy"])
    assert "no annotation in split test" in caplog.text


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["dog", "5000", "0"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.data())
def test_whatever_is_put_anywhere_in_a_file_gives_scores_or_a_data_error(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["image", "video"]))
    files = load(f"grounding_{kind}_adv")
    mode = data.draw(st.sampled_from(["generated", "gt"]))
    submission = files["submission_generated" if mode == "generated" else "submission_gt_sentences"]
    spot: Any = {"submission": submission, "reference": files["reference"], "splits": files["splits"]}
    whole = spot
    while True:  # walk down to some place and replace what is there
        key = data.draw(st.sampled_from(list(spot) if isinstance(spot, dict) else range(len(spot))))
        if not isinstance(spot[key], dict | list) or not spot[key] or data.draw(st.integers(0, 3)) == 0:
            spot[key] = data.draw(anything)
            break
        spot = spot[key]
    score = flickr30k_entities if kind == "image" else activitynet_entities
    try:
        score(whole["submission"], whole["reference"], whole["splits"], files["eval_split"][0], mode, lemmas=str.lower)
    except DataError as error:
        assert str(error)
