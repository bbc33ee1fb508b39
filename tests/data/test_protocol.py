"""A data set under a paper's protocol: letters alone, so many words, so many images for validation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import little
import pytest

from groundling.data.dataset import Dataset, load
from groundling.data.protocol import only_letters
from groundling.errors import DataError
from groundling.text.words import caption


def under(root: Path, **rules: Any) -> Dataset:
    little.dump(root / "protocol.json", {"data": "own", **rules})
    return load(root / "protocol.json", annotated=False)


def own(root: Path, images: int = 30) -> None:
    """Every third image is val."""
    rows = [
        ("val" if i % 3 == 0 else "train", f"im{i:02}.png", f"2 dogs' t-shirts, number {i}, run") for i in range(images)
    ]
    lines = [json.dumps({"image": name, "caption": text, "split": split}) for split, name, text in rows]
    (root / "own").mkdir(parents=True)
    (root / "own" / "captions.jsonl").write_text("\n".join(lines))


def test_letters_and_emoji_are_kept_and_everything_else_is_removed() -> None:
    assert only_letters(caption("Two 4x4 t-shirts! 3 dogs' 🐶")).tokens == ("two", "x", "tshirts", "dogs", "🐶")


def test_captions_are_cleaned_then_cut_and_keep_their_places_in_the_text(tmp_path: Path) -> None:
    own(tmp_path)
    first = under(tmp_path, letters_only=True, most_words=3)[1].captions[0]
    assert first.tokens == ("dogs", "tshirts", "number")
    assert [first.text[slice(*span)] for span in first.spans][1:] == ["t-shirts", "number"]


def test_so_many_images_stay_for_validation_and_the_others_are_trained_on(tmp_path: Path) -> None:
    """10 of 30 are val; 4 of them stay, the same ones whenever they are asked for."""
    own(tmp_path)
    found, again = under(tmp_path, validation_images=4), under(tmp_path, validation_images=4, most_words=5)
    assert len(found.split("val")) == 4 and len(found.split("train")) == 26
    assert [e.id for e in found.split("val")] == [e.id for e in again.split("val")]
    before = load(tmp_path / "own", annotated=False)
    assert {e.id for e in found.split("val")} < {e.id for e in before.split("val")}


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ({"validation_images": 11}, "11 images for validation, but val has 10"),
        ({"letters_only": "yes"}, "letters_only is 'yes'; expected true"),
        ({"most_words": -1}, "most_words is -1"),
        ({"most_words": 5, "words": 3}, "'words' is no part of a protocol"),
        ({"data": "protocol.json", "most_words": 5}, "is a protocol itself"),
        ({"data": "absent", "most_words": 5}, "no such file or folder"),
    ],
)
def test_what_is_wrong_is_named(rules: dict[str, Any], told: str, tmp_path: Path) -> None:
    own(tmp_path)
    with pytest.raises(DataError, match=told):
        under(tmp_path, **rules)


def test_words_with_boxes_are_not_taken_away(tmp_path: Path) -> None:
    little.flickr(tmp_path / "own")
    with pytest.raises(DataError, match="have boxes, which would lose their words"):
        under(tmp_path, letters_only=True)
