"""Loading: the right reader, splits, tags, caches."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import little
import pytest

from groundling.data.dataset import READERS, Dataset, annotation_files, cache_folder, find_reader, load
from groundling.errors import DataError


@pytest.mark.parametrize("name", little.ALL)
def test_each_format_is_found_out(name: str, tmp_path: Path) -> None:
    dataset = load(little.ALL[name](tmp_path / "set"), annotated=False)
    assert dataset.format == name and dataset.name == "set" and len(dataset) > 0
    assert all(example.captions and example.split for example in dataset)
    assert dataset.problems == ()


@pytest.mark.parametrize("name", little.ALL)
def test_the_files_of_annotations_are_all_that_is_no_image(name: str, tmp_path: Path) -> None:
    path = little.ALL[name](tmp_path / "set")
    files = {file for file in path.rglob("*.*") if file.suffix in {".csv", ".json", ".p", ".txt", ".xml"}}
    assert files and files <= set(annotation_files(path))


def test_a_protocol_has_the_files_of_its_data(tmp_path: Path) -> None:
    little.table(tmp_path / "set")
    rules = tmp_path / "set" / "rules.json"
    rules.write_text('{"data": ".", "most_words": 3}')
    assert annotation_files(rules) == [rules, tmp_path / "set" / "captions.csv"]
    rules.write_text('{"data": "rules.json", "most_words": 3}')  # which `load` refuses
    assert annotation_files(rules) == [rules]
    assert annotation_files(tmp_path / "nowhere") == annotation_files(tmp_path) == []


def test_a_folder_without_data_says_what_was_looked_for(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(DataError) as caught:
        load(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert str(caught.value).count("\n") == len(READERS)
    assert "Sentences/*.txt" in str(caught.value) and "image and caption" in str(caught.value)


def test_a_path_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere: no such file or folder"):
        load(tmp_path / "nowhere")


def test_an_unknown_split_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="unknown split 'dev'; data has train, val"):
        load(little.flickr(tmp_path / "data"), "dev", annotated=False)


def test_a_split_holds_its_examples_only(tmp_path: Path) -> None:
    dataset = load(little.flickr(tmp_path), annotated=False)
    assert [e.id for e in dataset.split("val")] == ["33"]
    assert load(tmp_path, "train", annotated=False).examples == dataset.split("train").examples
    assert dataset.by_id["22"] is dataset[1] and len(dataset) == 3


def test_captions_come_with_tags_and_the_cache_is_beside_the_data(tmp_path: Path) -> None:
    dataset = load(little.flickr(tmp_path), "val")
    assert dataset[0].captions[0].lemmas[:2] == ("a", "man")
    assert (tmp_path / ".groundling" / "annotations.json.gz").is_file()
    assert dataset[0].captions[0].nouns[1]


def test_the_cache_goes_where_it_is_told(tmp_path: Path) -> None:
    load(little.table(tmp_path / "data"), cache=tmp_path / "cache")
    assert (tmp_path / "cache" / "annotations.json.gz").is_file() and not (tmp_path / "data" / ".groundling").exists()


def test_read_only_data_has_its_cache_in_the_users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    for name in ("a", "b"):
        (tmp_path / name / "data").mkdir(parents=True)
        os.chmod(tmp_path / name / "data", 0o555)
    one, two = (cache_folder(tmp_path / name / "data") for name in ("a", "b"))
    assert one.parent == two.parent == tmp_path / "home" / "groundling"
    assert one != two and one.name.startswith("data-")


def test_data_without_splits_is_divided_the_same_way_each_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for i in range(25):
        little.image(tmp_path / f"{i}.png", (4, 4))
    (tmp_path / "captions.csv").write_text("image,caption\n" + "".join(f"{i}.png,dog\n" for i in range(25)))
    with caplog.at_level(logging.INFO):
        dataset = load(tmp_path, annotated=False)
    assert len(dataset.split("val")) == 3 and len(dataset.split("train")) == 22
    assert "names no splits" in caplog.text
    reordered = (tmp_path / "captions.csv").read_text().splitlines()
    (tmp_path / "captions.csv").write_text("\n".join([reordered[0], *reordered[:0:-1]]))
    again = load(tmp_path, annotated=False)
    assert {e.id for e in again.split("val")} == {e.id for e in dataset.split("val")}


def test_bad_items_are_counted_and_listed_when_they_may_be_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    little.flickr(tmp_path)
    (tmp_path / "Annotations" / "22.xml").unlink()
    with pytest.raises(DataError, match=r"no Annotations/22.xml.*--skip-bad"):
        load(tmp_path, annotated=False)
    with caplog.at_level(logging.WARNING):
        dataset = load(tmp_path, annotated=False, skip_bad=True)
    assert [e.id for e in dataset] == ["11", "33"]
    assert len(dataset.problems) == 1 and "Annotations/22.xml" in dataset.problems[0]
    assert "left out 1 bad items" in caplog.text


def test_nothing_but_bad_items_is_an_error_even_when_they_may_be_skipped(tmp_path: Path) -> None:
    little.flickr(tmp_path)
    for file in (tmp_path / "Annotations").iterdir():
        file.write_text("<annotation>")
    with pytest.raises(DataError, match="all 3 items are bad"):
        load(tmp_path, annotated=False, skip_bad=True)


def test_a_data_set_may_come_as_one_file(tmp_path: Path) -> None:
    little.table(tmp_path)
    dataset = load(tmp_path / "captions.csv", annotated=False)
    assert isinstance(dataset, Dataset) and dataset.name == "captions" and dataset.root == tmp_path
    assert find_reader(tmp_path / "captions.csv").FORMAT == "captions in a table"


def test_control_characters_of_a_file_do_not_reach_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    annotations = [{"id": i, "image_id": image, "caption": "A dog."} for i, image in enumerate((1, "\x1b[31m"))]
    content = {"images": [{"id": 1, "file_name": "a.jpg", "width": 9, "height": 9}], "annotations": annotations}
    (tmp_path / "captions_val.json").write_text(json.dumps(content))
    load(tmp_path, annotated=False, skip_bad=True)
    assert "its image \\x1b[31m is not among" in caplog.text and "\x1b" not in caplog.text
