"""The official JSON files, in and out."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import little
import pytest

from groundling.data import evaluator_files
from groundling.data.checks import Problems
from groundling.data.dataset import load
from groundling.errors import DataError
from groundling.types import Example, GroundedCaption, Link, Phrase

VECTORS = Path(__file__).parent.parent / "vectors"


def vector(name: str) -> Any:
    return json.loads(gzip.decompress((VECTORS / f"{name}.json.gz").read_bytes()))


def rounded(value: Any) -> Any:
    """Adding and taking away 1 may cost a fraction its last bit."""
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    return round(value, 9) if isinstance(value, float) else value


def only(row: Any, *keys: str) -> dict[str, Any]:
    return {key: row[key] for key in keys if key in row}


def test_boxes_counted_inclusively_gain_a_pixel_on_the_way_in_and_lose_it_on_the_way_out() -> None:
    """0 to 99 are 100 pixels."""
    box = evaluator_files.from_inclusive((0, 0, 99, 49))
    assert box == (0, 0, 100, 50)
    assert evaluator_files.to_inclusive(box) == [0, 0, 99, 49]


def test_an_image_reference_comes_back_as_it_was() -> None:
    content = vector("grounding_image_s")
    split_of = evaluator_files.read_splits(content["splits"], "splits")
    examples = evaluator_files.image_examples(content["reference"], split_of, "reference", Problems())
    columns = "tokens", "process_idx", "process_clss", "process_bnd_box"
    for ours, theirs in zip(
        evaluator_files.image_reference(examples)["annotations"], content["reference"]["annotations"], strict=True
    ):
        assert ours["image_id"] == theirs["image_id"]
        assert [only(c, *columns) for c in ours["captions"]] == [only(c, *columns) for c in theirs["captions"]]
    assert evaluator_files.image_splits(examples) == content["splits"]


def test_a_video_reference_comes_back_with_the_same_words_boxes_and_frames() -> None:
    content = vector("grounding_video_s")
    split_of = evaluator_files.read_splits(content["splits"], "splits")
    examples = evaluator_files.video_examples(content["reference"], split_of, "reference", Problems())
    again = evaluator_files.video_reference(examples)
    for video, row in content["reference"]["annotations"].items():
        for number, theirs in row["segments"].items():
            ours = again["annotations"][video]["segments"][number]
            assert ours["tokens"] == theirs["tokens"] and _rows(ours) == _rows(theirs)
    assert evaluator_files.video_splits(examples) == content["splits"]


def _rows(segment: Any) -> set[Any]:
    """(word, class, box, frame), whatever the order of the boxes."""
    return {
        (word, name, tuple(box), frame)
        for words, names, box, frame in zip(
            segment["process_idx"],
            segment["process_clss"],
            segment["process_bnd_box"],
            segment["frame_ind"],
            strict=True,
        )
        for word, name in zip(words, names, strict=True)
    }


@pytest.mark.parametrize("which", ["submission_generated", "submission_gt_sentences"])
def test_submissions_come_back_as_they_were(which: str) -> None:
    images, videos = vector("grounding_image_s")[which], vector("grounding_video_s")[which]
    captions = evaluator_files.image_captions(images, "submission")
    assert rounded(evaluator_files.image_submission(captions, _itself(captions))["results"]) == rounded(
        images["results"]
    )
    captions = evaluator_files.video_captions(videos, "submission")
    assert rounded(evaluator_files.video_submission(captions, _itself(captions))["results"]) == rounded(
        videos["results"]
    )


def _itself(captions: list[GroundedCaption]) -> dict[str, str]:
    return {token: token for caption in captions for token in caption.tokens}


def test_words_without_a_class_are_not_submitted_and_others_by_their_class() -> None:
    links = (Link(0, (0, 4), (0, 0, 10, 10), 0.9), Link(1, (5, 9), (5, 5, 20, 20), 0.9))
    caption = GroundedCaption("7", "dogs bark", ("dogs", "bark"), ((0, 4), (5, 9)), links)
    assert evaluator_files.image_submission([caption], {"dogs": "dog"}) == {
        "results": {"7": [{"clss": ["dog"], "idx_in_sent": [0], "bbox": [[0, 0, 9, 9]]}]}
    }


def test_a_word_that_is_seen_in_some_frames_gets_one_pixel_in_the_others() -> None:
    links = (Link(0, (0, 4), (0, 0, 10, 10), 0.9, frame=2), Link(0, (0, 4), (5, 5, 20, 20), 0.9, frame=9))
    caption = GroundedCaption("v_x_segment_03", "dogs", ("dogs",), ((0, 4),), links)
    row = evaluator_files.video_submission([caption], {"dogs": "dog"})["results"]["v_x"]["3"]
    assert [frame for frame, box in enumerate(row["bbox_for_all_frames"][0]) if box != [0, 0, 0, 0]] == [2, 9]
    assert len(row["bbox_for_all_frames"][0]) == 10


def test_several_boxes_of_a_word_become_the_box_around_them() -> None:
    caption = evaluator_files.of_tokens(["Two", "dogs"], "here")
    phrase = Phrase(0, (0, 2), ((0, 0, 10, 10), (50, 5, 60, 20)), label="dog", head=1)
    row = evaluator_files.image_reference([Example("1", "", (0, 0), (caption,), (phrase,))])["annotations"][0][
        "captions"
    ][0]
    assert row["process_bnd_box"] == [[0, 0, 59, 19]] and row["process_idx"] == [1] and row["tokens"] == ["Two", "dogs"]


def test_the_reference_is_a_data_set(tmp_path: Path) -> None:
    dataset = load(little.reference(tmp_path), annotated=False)
    example = dataset.split("val")[0]
    assert example.id == "2" and example.size == (100, 80)
    assert [(p.caption, p.label, p.head, p.boxes) for p in example.gold[:2]] == [
        (0, "man", 1, ((0, 0, 10, 10),)),
        (0, "dog", 3, ((5, 5, 25, 35),)),
    ]


def test_activitynet_entities_has_segments_frames_and_sizes(tmp_path: Path) -> None:
    dataset = load(little.anet(tmp_path), annotated=False)
    assert [e.id for e in dataset] == ["v_a_segment_00", "v_a_segment_11", "v_b_segment_00"]
    assert [e.split for e in dataset] == ["train", "train", "val"]
    first = dataset[0]
    assert first.segment == (0.0, 12.5) and first.size == (720, 405) and dataset[2].size == (0, 0)
    assert [(p.label, p.head, p.frames) for p in first.gold] == [("man", 1, (0,)), ("he", 3, (0,)), ("dog", 4, (0, 7))]
    assert first.gold[2].boxes == ((10, 10, 60, 60), (20, 20, 60, 60))
    assert first.captions[0].tokens == ("a", "man", "pets", "his", "dog", ".")
    assert dataset[1].gold == ()


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("process_idx", [1, 9], "process_idx 9 is no word of a caption of 4 tokens"),
        ("process_idx", [1], "differ in length"),
        ("process_idx", [1, "3"], "expected a whole number, got '3'"),
        ("process_bnd_box", [[0, 0, 9, 9], [5, 5, 2, 34]], "word 3: the box .* is inverted"),
        ("process_bnd_box", [[0, 0, 9, 9], [5, 5]], "expected 4 numbers, got 2"),
        ("tokens", [], "without tokens"),
    ],
)
def test_a_bad_reference_names_the_image_and_the_caption(tmp_path: Path, key: str, value: Any, message: str) -> None:
    path = little.reference(tmp_path) / "flickr30k_cleaned_class.json"
    content = json.loads(path.read_text())
    content["annotations"][1]["captions"][0][key] = value
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match=f"cleaned_class.json: image 2, caption 0.*{message}"):
        load(tmp_path, annotated=False)
    assert len(load(tmp_path, annotated=False, skip_bad=True).problems) == 1


def test_a_submission_of_uneven_columns_is_refused() -> None:
    with pytest.raises(DataError, match="my.json: 5: clss, idx_in_sent and the boxes differ in length"):
        evaluator_files.image_captions(
            {"results": {"5": [{"clss": ["dog"], "idx_in_sent": [], "bbox": []}]}}, "my.json"
        )
    with pytest.raises(DataError, match="idx_in_sent 1000000"):
        row = {"clss": ["dog"], "idx_in_sent": [10**6], "bbox": [[0, 0, 5, 5]]}
        evaluator_files.image_captions({"results": {"5": [row]}}, "my.json")
    with pytest.raises(DataError, match="5: word 0 is 'dog' and 'cat'"):
        row = {"clss": ["dog", "cat"], "idx_in_sent": [0, 0], "bbox": [[0, 0, 5, 5]] * 2}
        evaluator_files.image_captions({"results": {"5": [row]}}, "my.json")
