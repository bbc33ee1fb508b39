"""Files of captions: which image, and which text."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Literal

import pytest
from PIL import Image

from groundling.errors import DataError
from groundling.formats import rows
from groundling.formats.folder import ImageFolder
from groundling.formats.rows import BadRow, Row, read_rows


def written(path: Path, text: str) -> list[Row | BadRow]:
    path.write_text(text, "utf-8")
    return list(read_rows(path))


EXPECTED = [("1.jpg", "a dog"), ("2.jpg", "a cat, red")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", "1.jpg\ta dog\n\n2.jpg\ta cat, red\n"),
        ("a.csv", '1.jpg,a dog\n2.jpg,"a cat, red"\n'),
        ("c.csv", 'image;caption\r\n1.jpg;a dog\r\n2.jpg;"a cat, red"\r\n'),
        ("a.txt", 'image,caption\n1.jpg,a dog\n2.jpg,"a cat, red"\n'),
        ("b.tsv", "\nimage\tsplit\tcaption\n1.jpg\ttrain\ta dog\n2.jpg\tval\ta cat, red\n"),
        ("b.csv", 'n,caption,image\n7,a dog,1.jpg\n8,"a cat, red",2.jpg\n'),
        ("a.jsonl", '{"image": "1.jpg", "caption": "a dog"}\n{"file_name": "2.jpg", "output": "a cat, red"}\n'),
        ("a.json", '[{"image_id": "1.jpg", "caption": "a dog"}, {"image_id": "2.jpg", "caption": "a cat, red"}]'),
        ("d.json", '{"1.jpg": "a dog", "2.jpg": "a cat, red"}'),
        (
            "e.json",
            '{"info": {}, "annotations": [{"image_id": "1.jpg", "caption": "a dog"}, '
            '{"image_id": "2.jpg", "caption": "a cat, red"}]}',
        ),
        ("b.json", '{\n"1.jpg": "a dog",\n"2.jpg": "a cat, red"\n}'),
        (
            "c.json",
            '{"annotations":\n[{"image_id": "1.jpg", "caption": "a dog"}, {"image": "2.jpg", "text": "a cat, red"}]}',
        ),
    ],
)
def test_each_kind_of_file_gives_images_and_captions(name: str, text: str, tmp_path: Path) -> None:
    found = written(tmp_path / name, text)
    assert [(row.image, row.text) for row in found if isinstance(row, Row)] == EXPECTED


def test_numbers_of_images_are_names_and_parsed_output_is_text_again(tmp_path: Path) -> None:
    [row] = written(tmp_path / "a.jsonl", '{"image_id": 42, "output": {"objects": []}, "width": 640, "height": 480}\n')
    assert row == Row(1, "42", '{"objects": []}', (640, 480))


def test_an_image_with_an_id_of_its_own_has_the_name_of_its_file(tmp_path: Path) -> None:
    images = [{"id": 7, "file_name": "a.jpg"}, {"id": 8, "file_name": "b.jpg"}, {"id": 9}]
    captions = [{"id": i, "image_id": id, "caption": "a dog"} for i, id in enumerate((8, 7, 9, 10))]
    found = written(tmp_path / "a.json", json.dumps({"images": images, "annotations": captions}))
    files = [(row.image, row.file) for row in found if isinstance(row, Row)]
    assert files == [("8", "b.jpg"), ("7", "a.jpg"), ("9", ""), ("10", "")]
    line = {"image_id": 7, "file_name": "a.jpg", "caption": "a dog"}
    assert written(tmp_path / "a.jsonl", json.dumps(line)) == [Row(1, "7", "a dog", file="a.jpg")]


def test_our_own_captions_bring_their_places(tmp_path: Path) -> None:
    link = {"token": 1, "span": [2, 5], "box": [1, 2, 3, 4], "score": 0.5}
    line = {"id": "1", "caption": "a dog", "tokens": ["a", "dog"], "spans": [[0, 1], [2, 5]], "links": [link]}
    place = {"phrase": "a dog", "span": [0, 5], "boxes": [[1, 2, 3, 4]], "points": []}
    other = {"image": "2", "text": "a dog", "places": [place]}
    first, second = written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, (line, other))))
    assert isinstance(first, Row) and first.places and first.places[0].span == (2, 5)
    assert isinstance(second, Row) and second.places and second.places[0].boxes == ((1, 2, 3, 4),)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.tsv", "1.jpg a dog", "no tab"),
        ("a.csv", "image,caption\n1.jpg\n", "1 columns"),
        ("a.jsonl", '{"image": "1", "caption": "a"}\n{"image": \n', "not a JSON object"),
        ("a.jsonl", '{"caption": "a"}\n', "names no image"),
        ("a.jsonl", '{"image": "1"}\n', "has no caption"),
        ("a.jsonl", '{"image": "1", "text": "a", "places": [{"span": [0, 9]}]}\n', "the span 0 to 9"),
        ("a.jsonl", '{"image": "1", "text": "a", "places": [{"span": [0, 1], "boxes": [[1, 2, NaN, 3]]}]}\n', "finite"),
        ("a.json", "[3]", "not a JSON object"),
        (
            "a.jsonl",
            '{"image": "1", "caption": NaN}\n{"image": "2", "caption": "a"}\n',
            "its caption is nan; expected a text",
        ),
        ("a.jsonl", '{"note": "mine"}\n{"image": "2", "caption": "a"}\n', "names no image"),
        ("a.csv", 'image,caption\n1,"a dog\n2,a cat\n', "a quote that is not closed runs over 2 lines; close it"),
        ("a.csv", 'image,caption\n1,"a dog\n2,"a cat, red"\n3,a hat\n', "a quote that is not closed runs over 2 lines"),
    ],
)
def test_a_bad_row_is_told_with_its_number_and_does_not_stop_the_others(
    name: str, text: str, reason: str, tmp_path: Path
) -> None:
    bad = [row for row in written(tmp_path / name, text) if isinstance(row, BadRow)]
    assert len(bad) == 1 and reason in bad[0].reason


def test_a_line_without_end_is_one_bad_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "LINE", 100)
    found = written(tmp_path / "a.tsv", "1.jpg\t" + "a" * 1000 + "\n2.jpg\ta cat, red\n")
    assert isinstance(found[0], BadRow) and isinstance(found[1], Row) and found[1].number == 2


def test_a_caption_of_several_lines_between_quotes_is_one(tmp_path: Path) -> None:
    assert written(tmp_path / "a.csv", '1,"a dog\nand a cat"\n2,a "hat"\n') == [
        Row(2, "1", "a dog\nand a cat"),
        Row(3, "2", 'a "hat"'),
    ]


QUOTES = [  # as a table with tabs has it, and what it is
    ('"Stop" says a sign', '"Stop" says a sign'),
    ('"Stop" and "go"', '"Stop" and "go"'),
    ('"a dog', '"a dog'),
    ('a cat"', 'a cat"'),
    ('"a dog\tand a cat"', "a dog\tand a cat"),
    ('"""Stop"" says a sign"', '"Stop" says a sign'),  # as Excel writes it
    ('"a dog\n\nand ""a"" cat"', 'a dog\n\nand "a" cat'),
]


@pytest.mark.parametrize(("cell", "caption"), QUOTES)
def test_quotes_in_a_table_with_tabs_are_characters_unless_they_are_around_a_value(
    cell: str, caption: str, tmp_path: Path
) -> None:
    found = written(tmp_path / "a.tsv", f"image\tcaption\n1.jpg\t{cell}\n2.jpg\ta cat, red\n")
    assert [(row.image, row.text) for row in found if isinstance(row, Row)] == [("1.jpg", caption), EXPECTED[1]]
    assert [row.number for row in found] == [2 + cell.count("\n"), 3 + cell.count("\n")]


def test_a_json_file_in_one_line_may_be_longer_than_a_line_of_json_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "LINE", 100)
    objects = [{"image_id": i, "caption": "a dog"} for i in range(10)]
    for whole in (objects, {"annotations": objects}):
        assert len(written(tmp_path / "a.json", json.dumps(whole))) == 10


@pytest.mark.parametrize(("name", "start"), [("a.tsv", ""), ("a.csv", "image,caption\n")])
def test_only_utf8_is_read(name: str, start: str, tmp_path: Path) -> None:
    """A line in another encoding is no row; U+FFFD, which some models write, is a character like others."""
    line = "{}{}a caf\xe9\n".format
    sign = "\t" if name == "a.tsv" else ","
    content = f"{start}{line(1, sign)}".encode("latin-1") + f"{line(2, sign)}{line(3, sign)}\ufffd\n".encode()
    (tmp_path / name).write_bytes(content)
    bad, *good = read_rows(tmp_path / name)
    assert isinstance(bad, BadRow) and bad.reason == "not UTF-8; save the file as UTF-8"
    assert [row.text for row in good if isinstance(row, Row)][0] == "a café"
    (tmp_path / name).write_bytes(content.decode("latin-1").encode("utf-16"))
    with pytest.raises(DataError, match="UTF-16, expected UTF-8: save the file as UTF-8"):
        list(read_rows(tmp_path / name))


@pytest.mark.parametrize("text", ["[" * 100_000, "[1, 2", '{"a":\n 3}'])
def test_what_is_no_file_of_captions_at_all_is_an_error(text: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a.json"):
        written(tmp_path / "a.json", text)


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ('{"red": 3}', "'red' is 3, which is no caption"),
        ('{"red": "a dog", "info": {"year": 1}}', "'info' is {'year': 1}, which is no caption"),
        ('{"red": "a dog"', "not JSON"),
    ],
)
def test_an_object_of_unknown_keys_is_told_what_was_expected(text: str, got: str, tmp_path: Path) -> None:
    expected = r"expected objects with an image \(image, .*\) and a caption \(.*, or one object {image: caption}"
    with pytest.raises(DataError, match=f"a.json: {got}; {expected}"):
        written(tmp_path / "a.json", text)


def test_one_row_over_several_lines_is_one_row(tmp_path: Path) -> None:
    assert written(tmp_path / "a.json", '{\n"image": "1.jpg",\n"caption": "a dog"\n}') == [Row(1, "1.jpg", "a dog")]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_accents_of_names_of_images_are_composed_or_not(form: Literal["NFC", "NFD"], tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    Image.new("RGB", (4, 4)).save(tmp_path / "deep" / unicodedata.normalize(form, "größe.png"))
    folder = ImageFolder(tmp_path)
    for name in ("größe.png", "größe", "deep/größe.png", "größe.jpg"):
        for other in ("NFC", "NFD"):
            assert folder.find(unicodedata.normalize(other, name)).exists()


def test_images_are_found_by_path_name_stem_and_number_and_never_outside(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "deep").mkdir()
    for name in ("out.png", "in/COCO_val2014_000000000042.png", "in/deep/a.b.png", "in/deep/x.png", "in/x.png"):
        Image.new("RGB", (4, 4)).save(tmp_path / name)
    folder = ImageFolder(tmp_path / "in")
    assert folder.find("42").name == folder.find("COCO_val2014_000000000042").name
    assert folder.find("/elsewhere/a.b.png") == folder.find("deep/a.b.png") == folder.find("a.b")
    assert folder.find("x.png").parent.name == "in"
    assert folder.find("42", "a.b.png").name == "a.b.png"  # the name of the file counts more than a number
    assert folder.find("42", "of another release.png") == folder.find("42")
    with pytest.raises(DataError, match="several images are called 'x'"):
        folder.find("x")
    with pytest.raises(DataError, match="no image called '../out.png'"):
        folder.find("../out.png")


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_rows_below_a_header_have_the_numbers_of_their_lines(mark: str, tmp_path: Path) -> None:
    """Blank lines count, and stay inside quotes; a row that runs over lines has the number of its last one."""
    found = written(tmp_path / "a.txt", mark + 'image;caption\n\n1.jpg;a dog\n\n\n2.jpg;"a\n\ncat"\n3.jpg\n')
    assert [(row.number, row.text) for row in found[:2] if isinstance(row, Row)] == [(3, "a dog"), (8, "a\n\ncat")]
    assert isinstance(found[2], BadRow) and found[2].number == 9
