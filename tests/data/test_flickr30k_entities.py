"""Flickr30k Entities: mark-up, boxes, folders and zips."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

import little
import pytest

from groundling.data import flickr30k_entities as reader
from groundling.data.checks import parse_xml
from groundling.data.dataset import load
from groundling.errors import DataError
from groundling.types import Example


def read(root: Path, **how: bool) -> list[Example]:
    return list(load(root, annotated=False, **how))


def phrases(example: Example) -> dict[str, tuple[tuple[float, ...], ...]]:
    sentences = {}
    for phrase in example.gold:
        words = example.captions[phrase.caption].tokens[slice(*phrase.span)]
        sentences[" ".join(words)] = phrase.boxes
    return sentences


def test_markup_is_taken_off_and_its_places_are_kept() -> None:
    text, marks = reader.unmark("[/EN#1/people A man] 's [/EN#20/vehicles/scene big boat] .")
    assert text == "A man 's big boat ."
    assert [(text[slice(*span)], entity, kinds) for span, entity, kinds in marks] == [
        ("A man", "1", ("people",)),
        ("big boat", "20", ("vehicles", "scene")),
    ]


def test_pixels_counted_from_one_with_both_ends_become_continuous(tmp_path: Path) -> None:
    """xmin 1 to xmax 50 are the pixels 0 to 49, which cover 0.0 to 50.0."""
    example = read(little.flickr(tmp_path))[0]
    assert phrases(example)["a man"] == ((0, 0, 50, 80),)
    assert phrases(example)["a red hat"] == ((10, 0, 30, 10),)


def test_an_entity_may_have_several_boxes_or_none(tmp_path: Path) -> None:
    example = read(little.flickr(tmp_path))[0]
    assert phrases(example)["two dogs"] == ((50, 40, 70, 80), (80, 40, 100, 80))
    assert phrases(example)["the park"] == () and phrases(example)["it"] == ()


def test_phrases_know_their_caption_entity_and_kinds(tmp_path: Path) -> None:
    example = read(little.flickr(tmp_path))[0]
    assert [(p.caption, p.entity, p.kinds) for p in example.gold] == [
        (0, "1", ("people",)),
        (0, "2", ("clothing",)),
        (0, "0", ("notvisual",)),
        (1, "1", ("people",)),
        (1, "3", ("animals", "other")),
        (1, "4", ("scene",)),
    ]
    assert example.captions[0].text == "A man in a red hat sees it ."
    assert example.media == str(tmp_path / "images" / "11.png") and example.size == little.SIZE


def test_boxes_are_scaled_to_a_smaller_image(tmp_path: Path) -> None:
    """Drawn on 200 x 80 pixels, shown at 100 x 80: x is halved, y stays."""
    example = read(little.flickr(tmp_path, drawn=(200, 80)))[0]
    assert phrases(example)["a man"] == ((0, 0, 25, 80),)
    assert example.size == little.SIZE


def test_a_box_of_two_entities_belongs_to_both(tmp_path: Path) -> None:
    little.flickr(tmp_path)
    (tmp_path / "Sentences" / "11.txt").write_text("[/EN#5/people Somebody] walks")
    assert phrases(read(tmp_path)[0])["somebody"] == ((0, 0, 50, 80),)


def test_a_zip_reads_like_the_folders(tmp_path: Path) -> None:
    expected = read(little.flickr(tmp_path))
    with zipfile.ZipFile(tmp_path / "annotations.zip", "w") as archive:
        for folder in ("Sentences", "Annotations"):
            for file in sorted((tmp_path / folder).iterdir()):
                archive.write(file, f"published/{folder}/{file.name}")
            shutil.rmtree(tmp_path / folder)
    assert read(tmp_path) == expected
    assert read(tmp_path / "annotations.zip") == expected


def test_without_lists_every_sentence_file_is_read_and_without_images_the_drawn_size_counts(tmp_path: Path) -> None:
    little.flickr(tmp_path, drawn=(200, 160))
    for file in tmp_path.glob("*.txt"):
        file.unlink()
    shutil.rmtree(tmp_path / "images")
    examples = read(tmp_path)
    assert len(examples) == 3 and examples[0].media == "" and examples[0].size == (200, 160)


BOX = "<xmin>51</xmin><ymin>41</ymin><xmax>70</xmax><ymax>80</ymax>"


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("Annotations/11.xml", BOX, BOX.replace("70", "10"), "entity 3: the box .* is inverted"),
        (
            "Annotations/11.xml",
            BOX,
            BOX.replace("70", "150"),
            "entity 3: the box .* reaches beyond the image of 100 x 80",
        ),
        ("Annotations/11.xml", BOX, BOX.replace("70", "nan"), "entity 3: the box .* is not finite"),
        ("Annotations/11.xml", BOX, BOX.replace("70", "wide"), "entity 3: a <bndbox> needs"),
        ("Annotations/11.xml", "<width>100</width>", "", "no <size>"),
        ("Annotations/11.xml", "</annotation>", "", "11.xml, line 6: not XML"),
        ("Annotations/11.xml", "<annotation>", "<!DOCTYPE x [<!ENTITY a 'b'>]><annotation>", "remove the DOCTYPE"),
        ("Sentences/11.txt", "[/EN#1/people A man] and", "\n[/EN#1/people A man] and", "11.txt, line 2: empty caption"),
        ("Sentences/11.txt", "two dogs]", "two dogs", "11.txt, line 2: mark-up that is not"),
        ("train.txt", "22", "11", "train.txt, line 2: the id '11' is listed twice"),
        ("train.txt", "22", "77", "no Annotations/77.xml"),
    ],
)
def test_what_is_wrong_is_named_and_may_be_left_out(
    tmp_path: Path, file: str, old: str, new: str, message: str
) -> None:
    path = little.flickr(tmp_path) / file
    changed = path.read_text().replace(old, new)
    assert changed != path.read_text()
    path.write_text(changed)
    with pytest.raises(DataError, match=message):
        read(tmp_path)
    dataset = load(tmp_path, annotated=False, skip_bad=True)
    assert len(dataset.problems) == 1 and len(dataset) >= 2


def test_a_bad_box_costs_the_box_and_not_the_image(tmp_path: Path) -> None:
    path = little.flickr(tmp_path) / "Annotations" / "11.xml"
    path.write_text(path.read_text().replace(BOX, BOX.replace("70", "10")))
    assert phrases(read(tmp_path, skip_bad=True)[0])["two dogs"] == ((80, 40, 100, 80),)


def test_a_box_that_rounding_pushed_over_the_edge_is_cut(tmp_path: Path) -> None:
    path = little.flickr(tmp_path) / "Annotations" / "11.xml"
    path.write_text(path.read_text().replace("<xmax>100</xmax>", "<xmax>101</xmax>"))
    assert phrases(read(tmp_path)[0])["two dogs"][1] == (80, 40, 100, 80)


def test_text_that_is_not_utf_8_is_named_with_its_line(tmp_path: Path) -> None:
    path = little.flickr(tmp_path) / "Sentences" / "11.txt"
    path.write_bytes(b"A dog\nA caf\xe9\n")
    with pytest.raises(DataError, match=r"11.txt, line 2: not UTF-8 \(byte 0xe9\)"):
        read(tmp_path)


def test_a_missing_image_is_named(tmp_path: Path) -> None:
    (little.flickr(tmp_path) / "images" / "22.png").unlink()
    with pytest.raises(DataError, match="image 22: no such file"):
        read(tmp_path)


def test_a_damaged_zip_names_the_file_inside(tmp_path: Path) -> None:
    little.flickr(tmp_path)
    archive = tmp_path / "all.zip"
    with zipfile.ZipFile(archive, "w") as out:
        for folder in ("Sentences", "Annotations"):
            for file in sorted((tmp_path / folder).iterdir()):
                out.write(file, f"{folder}/{file.name}")
            shutil.rmtree(tmp_path / folder)
    content = archive.read_bytes()
    archive.write_bytes(content.replace(b"two dogs", b"two cats", 1))
    with pytest.raises(DataError, match="all.zip/Sentences/11.txt: the zip is damaged"):
        read(tmp_path)


@pytest.mark.slow
@pytest.mark.skipif("GROUNDLING_FLICKR8K" not in os.environ, reason="set GROUNDLING_FLICKR8K to the data set's folder")
def test_the_real_data_has_the_published_counts(tmp_path: Path) -> None:
    """Boxes are counted as the files have them; two images have two entities with the very same box."""
    root = Path(os.environ["GROUNDLING_FLICKR8K"])
    dataset = load(root, cache=tmp_path)
    files = reader._find(root)
    assert files is not None
    found = {}
    with files:
        for name in ("train", "val"):
            split = dataset.split(name)
            drawn = (parse_xml(files.text("Annotations", e.id), e.id) for e in split)
            found[name] = (
                len(split),
                sum(len(e.captions) for e in split),
                sum(len(e.gold) for e in split),
                sum(len(tree.findall("object/bndbox")) for tree in drawn),
                sum(len({box for phrase in e.gold for box in phrase.boxes}) for e in split),
            )
    assert found == {"train": (6000, 30000, 93227, 38558, 38556), "val": (1000, 5000, 15801, 6656, 6656)}
    assert dataset.problems == ()
