"""Captions in tables, Karpathy's splits, COCO, RefCOCO and InstaPIC."""

from __future__ import annotations

import json
import os
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import little
import pytest

from groundling.data import instapic
from groundling.data.dataset import Dataset, load
from groundling.data.plain_pickle import read_plain_pickle
from groundling.errors import DataError
from groundling.text.vocab import Vocabulary
from groundling.types import Thing


def read(path: Path, **how: bool) -> Dataset:
    return load(path, annotated=False, **how)


def texts(dataset: Dataset, id: str) -> list[str]:
    return [caption.text for caption in dataset.by_id[id].captions]


# ---------------------------------------------------------------- tables


def test_rows_of_one_image_are_its_captions(tmp_path: Path) -> None:
    dataset = read(little.table(tmp_path))
    assert texts(dataset, "a") == ["A dog, running.", "Dogs"] and texts(dataset, "b") == ["Cats"]
    assert [e.split for e in dataset] == ["train", "val"]
    assert dataset[0].media == str(tmp_path / "images" / "a.png") and dataset[0].size == little.SIZE


def test_json_lines_may_hold_lists_of_captions_and_ids(tmp_path: Path) -> None:
    dataset = read(little.lines(tmp_path))
    assert texts(dataset, "7") == ["A dog.", "Two dogs."] and texts(dataset, "b") == ["A cat."]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("captions.tsv", "Filename\tText\na.png\tA dog, running\n"),
        ("captions.csv", "image_name;comment\r\na.png;A dog, running\r\n"),
        ("captions.csv", "image_name| comment_number| comment\na.png| 0| A dog, running\n"),
        ("captions.csv", '\ufeffimage,caption\na.png,"A dog, running"\n\n'),
        ("captions.csv", 'a.png,"A dog, running"\n'),  # no header
        ("captions.csv", 'image_id,caption\na,"A dog, running"\n'),
        ("captions.csv", 'image,caption\nimages/a.png,"A dog, running"\n'),
        ("captions.jsonl", '{"file_name": "a.png", "caption": "A dog, running"}\n'),
    ],
)
def test_tables_are_read_as_people_write_them(tmp_path: Path, name: str, content: str) -> None:
    little.image(tmp_path / "images" / "a.png")
    (tmp_path / name).write_text(content, encoding="utf-8", newline="")
    dataset = read(tmp_path)
    assert texts(dataset, "a") == ["A dog, running"]
    assert dataset[0].media.endswith("a.png")


def test_quotes_in_a_table_with_tabs_are_characters_unless_they_are_around_a_value(tmp_path: Path) -> None:
    little.image(tmp_path / "a.png")
    rows = ['a.png\t"Stop" says a sign', 'a.png\t"a dog', 'a.png\t"""Stop"" says a sign"']
    (tmp_path / "captions.tsv").write_text("image\tcaption\n" + "\n".join(rows))
    assert texts(read(tmp_path), "a") == ['"Stop" says a sign', '"a dog', '"Stop" says a sign']


def test_the_lines_that_groundling_caption_wrote_name_their_images_by_path(tmp_path: Path) -> None:
    """In a folder whose name says nothing of images."""
    little.image(tmp_path / "holiday" / "a.png")
    line = {"id": "a", "caption": "A dog.", "tokens": ["a", "dog"], "media": "holiday/a.png"}
    (tmp_path / "captions.jsonl").write_text(json.dumps(line) + "\n")
    [example] = read(tmp_path / "captions.jsonl").examples
    assert Path(example.media) == tmp_path / "holiday" / "a.png"


def test_the_name_of_a_table_may_be_its_split(tmp_path: Path) -> None:
    for name in ("a", "b"):
        little.image(tmp_path / f"{name}.png")
    (tmp_path / "train.csv").write_text("image,caption\na.png,dog\n")
    (tmp_path / "captions_val2020.csv").write_text("image,caption\nb.png,cat\n")
    assert {e.id: e.split for e in read(tmp_path)} == {"a": "train", "b": "val"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("image,label\na.png,dog\n", "line 1: expected columns image and caption, got image, label"),
        ("image,caption\na.png,\n", "line 2: empty caption"),
        ("image,caption\na.png,!!\n", "line 2: no word in the caption '!!'"),
        ("image,caption\na.png,A dog, running\n", "line 2: 3 values for 2 columns"),
        ("image,caption\nc.png,dog\n", "image c.png: no such file"),
        ("image,caption\n,dog\n", "line 2: no image is named"),
        ('image,caption\na.png,"dog\n', "not a table"),
        ("image,caption,split\na.png,dog,train\na.png,dog,val\n", "line 3: image a is in the split 'val' here"),
        ("image,caption\na.png,dog\nsub/a.png,dog\n", "line 3: the images a.png and sub/a.png share the id 'a'"),
    ],
)
def test_what_is_wrong_in_a_table_is_named_with_its_line(tmp_path: Path, content: str, message: str) -> None:
    little.image(tmp_path / "a.png")
    (tmp_path / "captions.csv").write_text(content)
    with pytest.raises(DataError, match=message):
        read(tmp_path)


def test_a_bad_line_of_json_is_named_and_may_be_left_out(tmp_path: Path) -> None:
    path = little.lines(tmp_path) / "mine.jsonl"
    path.write_text(path.read_text() + '\n{"image": "a.p')
    with pytest.raises(DataError, match=r"mine.jsonl, line 3: not JSON: .* at line 1, column"):
        read(tmp_path)
    assert len(read(tmp_path, skip_bad=True)) == 2


def test_two_images_of_one_name_are_not_guessed_between(tmp_path: Path) -> None:
    for folder in ("images/one", "images/two"):
        little.image(tmp_path / folder / "a.png")
    (tmp_path / "captions.csv").write_text("image,caption\na.png,dog\n")
    with pytest.raises(DataError, match="2 files have this name"):
        read(tmp_path)


def test_a_table_without_any_image_stands_for_itself(tmp_path: Path) -> None:
    (tmp_path / "captions.csv").write_text("image,caption\na.png,dog\n")
    assert read(tmp_path)[0].media == "" and read(tmp_path)[0].size == (0, 0)


# ---------------------------------------------------------------- Karpathy, COCO


def test_karpathys_restval_is_trained_on(tmp_path: Path) -> None:
    dataset = read(little.karpathy(tmp_path))
    assert {e.id: e.split for e in dataset} == {"1": "train", "2": "train", "3": "test"}
    assert texts(dataset, "1") == ["A dog runs."] * 2
    assert dataset[0].media == str(tmp_path / "val2014" / "COCO_val2014_000000000001.jpg")
    assert dataset[0].captions[0].tokens == ("a", "dog", "runs")


def test_karpathys_flickr_images_are_named_by_their_file(tmp_path: Path) -> None:
    row = {"filename": "77.jpg", "split": "val", "sentences": [{"raw": "A dog."}]}
    little.dump(tmp_path / "dataset_flickr30k.json", {"images": [row]})
    assert read(tmp_path / "dataset_flickr30k.json").by_id["77"].media == ""


def test_coco_captions_come_with_the_things_of_the_instances(tmp_path: Path) -> None:
    dataset = read(little.coco(tmp_path))
    assert {e.id: e.split for e in dataset} == {"1": "train", "2": "val"}
    assert dataset[0].things == (Thing("dog", (10, 20, 40, 60)),)
    assert texts(dataset, "1") == ["A dog.", "One dog."] and dataset[0].media.endswith("train2017/000000000001.jpg")


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("captions", lambda c: c["annotations"][1].update(image_id=5), "annotation 11: its image 5 is not among"),
        ("captions", lambda c: c["annotations"][1].update(caption=" "), "annotation 11: empty caption"),
        ("captions", lambda c: c["annotations"][1].pop("caption"), "annotation 11: the key 'caption' is missing"),
        ("captions", lambda c: c["annotations"].clear(), r"image 1 \(000000000001.jpg\) has no caption"),
        ("instances", lambda c: c["annotations"][0].update(bbox=[10, 20, -5, 40]), "annotation 1: .* is inverted"),
        ("instances", lambda c: c["annotations"][0].update(bbox=[90, 20, 50, 40]), "annotation 1: .* beyond the image"),
        ("instances", lambda c: c["annotations"][0].update(category_id=3), "annotation 1: its category 3"),
    ],
)
def test_what_is_wrong_in_a_coco_file_is_named_by_its_id(tmp_path: Path, file: str, change: Any, message: str) -> None:
    path = little.coco(tmp_path) / "annotations" / f"{file}_train2017.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match=f"{file}_train2017.json: {message}"):
        read(tmp_path)
    assert len(read(tmp_path, skip_bad=True).problems) == 1


def test_images_of_the_same_id_in_one_coco_file_are_an_error(tmp_path: Path) -> None:
    path = little.coco(tmp_path) / "annotations" / "captions_train2017.json"
    content = json.loads(path.read_text())
    content["images"] *= 2
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match="two images have the id 1"):
        read(tmp_path)


def test_the_same_id_in_two_files_is_an_error_or_left_out(tmp_path: Path) -> None:
    annotations = little.coco(tmp_path) / "annotations"
    (annotations / "captions_val2017.json").write_bytes((annotations / "captions_train2017.json").read_bytes())
    with pytest.raises(DataError, match="the id '1' appears more than once"):
        read(tmp_path)
    assert len(read(tmp_path, skip_bad=True)) == 1


# ---------------------------------------------------------------- RefCOCO


def test_an_expression_is_a_caption_and_a_phrase_with_the_box_of_its_object(tmp_path: Path) -> None:
    dataset = read(little.refcoco(tmp_path))
    assert {e.id: e.split for e in dataset} == {"1": "train", "2": "testA"}
    example = dataset[0]
    assert texts(dataset, "1") == ["man on left", "the tall one"]
    assert [(p.caption, p.span, p.boxes, p.kinds, p.entity) for p in example.gold] == [
        (0, (0, 3), ((5, 5, 25, 35),), ("person",), "1"),
        (1, (0, 3), ((5, 5, 25, 35),), ("person",), "1"),
    ]


def test_an_image_whose_objects_are_in_two_splits_is_an_example_in_each(tmp_path: Path) -> None:
    path = little.refcoco(tmp_path) / "refs(unc).p"
    refs = pickle.loads(path.read_bytes())
    refs[1].update(image_id=1, ann_id=10, split="val")
    path.write_bytes(pickle.dumps(refs, protocol=2))
    assert {e.id: e.split for e in read(tmp_path)} == {"1-train": "train", "1-val": "val"}


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("touch escaped",)


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("value", [Evil(), OrderedDict(), frozenset([len]), 1j, Path("x"), len, bytearray(b"x")])
def test_a_pickle_that_names_any_class_or_function_is_refused(
    tmp_path: Path, value: Any, protocol: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = little.refcoco(tmp_path) / "refs(unc).p"
    path.write_bytes(pickle.dumps([value], protocol=protocol))
    with pytest.raises(DataError, match="not a pickle of plain data .* it asks for"):
        read_plain_pickle(path)
    assert not (tmp_path / "escaped").exists()


def test_plain_pickles_of_every_protocol_are_read(tmp_path: Path) -> None:
    plain = [{"a": 1, "b": [2.5, None, True, "é", (1, 2)]}]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        (tmp_path / "x.p").write_bytes(pickle.dumps(plain, protocol=protocol))
        assert read_plain_pickle(tmp_path / "x.p") == plain


def test_a_reference_to_an_unknown_object_is_named(tmp_path: Path) -> None:
    path = little.refcoco(tmp_path) / "refs(unc).p"
    refs = pickle.loads(path.read_bytes())
    refs[1]["ann_id"] = 404
    path.write_bytes(pickle.dumps(refs))
    with pytest.raises(DataError, match="reference 2: its object 404 is not among the annotations"):
        read(tmp_path)
    assert len(read(tmp_path, skip_bad=True)) == 1


# ---------------------------------------------------------------- InstaPIC


def test_posts_keep_letters_and_emoji_and_end_after_18_words(tmp_path: Path) -> None:
    dataset = read(little.instapic(tmp_path))
    assert dataset.by_id["anna_@_p0"].captions[0].tokens == ("love", "❤️", "my", "dogs", "dogs")
    assert len(dataset.by_id["ben.q_@_q"].captions[0].tokens) == 18
    assert {e.split for e in dataset} == {"train", "val", "test1"} and len(dataset.split("val")) == 2
    assert dataset.by_id["ben.q_@_q"].media == str(tmp_path / "images" / "ben.q_@_q")


def test_the_spans_of_a_post_point_into_it() -> None:
    found = instapic.post("My T-shirt, 100% ☀️!")
    assert found.tokens == ("my", "tshirt", "☀️")
    assert [found.text[slice(*span)] for span in found.spans] == ["My", "T-shirt", "☀️"]


def test_words_and_emoji_of_fewer_than_five_occurrences_are_unknown(tmp_path: Path) -> None:
    dataset = read(little.instapic(tmp_path))
    vocab = Vocabulary.build(c.tokens for e in dataset.split("train") for c in e.captions)
    assert "❤️" in vocab and "one" not in vocab
