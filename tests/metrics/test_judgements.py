"""People's judgement from the files in which it is published, flattened as the papers do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from groundling.errors import DataError
from groundling.metrics.judgements import read_judgements

TOKENS = "1.jpg#0\tA dog runs .\n1.jpg#1\tThe dog is fast .\n2.jpg#0\tA cat sleeps .\n2.jpg#1\tA cat lies down .\n"


@pytest.fixture
def flickr8k(tmp_path: Path) -> Path:
    (tmp_path / "Flickr8k.token.txt").write_text(TOKENS)
    (tmp_path / "ExpertAnnotations.txt").write_text("1.jpg\t2.jpg#0\t1\t1\t2\n1.jpg\t1.jpg#1\t4\t4\t4\n")
    (tmp_path / "CrowdFlowerAnnotations.txt").write_text("1.jpg\t2.jpg#0\t0.25\t1\t3\n2.jpg\t1.jpg#0\t0\t0\t3\n")
    return tmp_path


def test_each_rating_of_an_expert_is_on_its_own_and_references_are_left_out(flickr8k: Path) -> None:
    found = read_judgements(flickr8k / "ExpertAnnotations.txt")
    assert found.kind == "flickr8k-expert" and found.left_out == 1
    assert found.ratings == [(0, 1.0), (0, 1.0), (0, 2.0)]
    [one] = found.candidates
    assert one.caption == "A cat sleeps ." and one.references == ("A dog runs .", "The dog is fast .")


def test_the_crowd_has_one_rating_for_a_caption_the_share_of_yes(flickr8k: Path) -> None:
    found = read_judgements(flickr8k / "CrowdFlowerAnnotations.txt")
    assert found.kind == "flickr8k-cf"
    assert found.ratings == [(0, 0.25), (1, 0.0)]


def test_json_joins_the_ratings_of_a_caption(tmp_path: Path) -> None:
    ratings = [{"caption": "a cat", "rating": 1}, {"caption": "a cat", "rating": 3}, {"caption": "a dog", "rating": 2}]
    row = {"image_path": "x/1.jpg", "ground_truth": ["a dog"], "human_judgement": ratings}
    (tmp_path / "a.json").write_text(json.dumps({"1": row}))
    found = read_judgements(tmp_path / "a.json")
    assert [(one.image, one.caption, one.ratings) for one in found.candidates] == [("x/1.jpg", "a cat", (1.0, 3.0))]


def test_csv_takes_columns_of_ratings_and_references(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("image,caption,rating_1,rating_2,reference\n1,a cat,1,,a dog\n1,a dog,2,3,a dog\n")
    found = read_judgements(tmp_path / "a.csv")
    assert found.ratings == [(0, 1.0)] and found.left_out == 1
    (tmp_path / "b.csv").write_text("image,caption,rating\n1,a cat,1\n")
    assert read_judgements(tmp_path / "b.csv", references={"1": ["a bird"]}).candidates[0].references == ("a bird",)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.txt", "hello\n", "name what it is with --kind"),
        ("a.txt", "1.jpg\t9.jpg#0\t1\t1\t2\n", "has no caption '9.jpg#0'"),
        ("a.txt", "1.jpg\t2.jpg#0\t1\tx\t2\n", "line 1: expected a rating, got 'x'"),
        ("a.csv", "image,caption\n", "expected a header with image, caption and rating"),
        ("a.json", '{"1": {}}', "ground_truth"),
        ("a.txt", "1.jpg\t1.jpg#0\t1\t1\t2\n", "no judgement is left"),
    ],
)
def test_what_is_wrong_is_told_with_its_file(flickr8k: Path, name: str, text: str, told: str) -> None:
    (flickr8k / name).write_text(text)
    with pytest.raises(DataError, match=told):
        read_judgements(flickr8k / name)


def test_the_texts_are_asked_for_where_they_are_not(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1.jpg\t2.jpg#0\t1\t1\t2\n")
    with pytest.raises(DataError, match="--captions"):
        read_judgements(tmp_path / "a.txt")
