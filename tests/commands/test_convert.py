"""`groundling convert`: outputs in, boxes or other outputs out, everything counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from groundling.cli import main
from groundling.metrics.predictions import read_captions

RAW = "<grounding><phrase>A dog</phrase><object><patch_index_0000><patch_index_1023></object> on grass."


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    Image.new("RGB", (320, 160)).save(folder / "one.png")
    return folder


def run(*words: object) -> int:
    return main([str(word) for word in words])


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_kosmos_becomes_json_then_florence_then_json_again(tmp_path: Path, photos: Path) -> None:
    (tmp_path / "in.tsv").write_text(f"one.png\t{RAW}\n")
    assert (
        run("convert", tmp_path / "in.tsv", "--from", "kosmos-2", "--images", photos, "-o", tmp_path / "a.jsonl") == 0
    )
    [row] = lines(tmp_path / "a.jsonl")
    [place] = row["places"]  # type: ignore[misc]
    assert (row["text"], place["phrase"], place["boxes"]) == ("A dog on grass.", "A dog", [[5, 2.5, 315, 157.5]])
    assert run("convert", tmp_path / "a.jsonl", "--to", "florence-2", "-o", tmp_path / "b.jsonl") == 0
    assert lines(tmp_path / "b.jsonl")[0]["text"] == "A dog<loc_15><loc_15><loc_984><loc_984>"
    assert run("convert", tmp_path / "b.jsonl", "--from", "florence-2", "-o", tmp_path / "c.jsonl") == 0
    assert lines(tmp_path / "c.jsonl")[0]["places"][0]["boxes"][0] == pytest.approx([5, 2.5, 315, 157.5], abs=0.4)  # type: ignore[index]


def test_our_own_captions_are_written_for_the_report(tmp_path: Path, photos: Path) -> None:
    (tmp_path / "in.tsv").write_text(f"one.png\t{RAW}\n")
    out = tmp_path / "captions.jsonl"
    assert (
        run("convert", tmp_path / "in.tsv", "--from", "kosmos-2", "--images", photos, "--to", "groundling", "-o", out)
        == 0
    )
    [caption] = read_captions(out)
    assert [caption.word(link) for link in caption] == ["dog"] and caption.size == (320, 160)


def test_everything_that_could_not_be_read_is_counted_and_listed(
    tmp_path: Path, photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"one.png\t{RAW}", "one.png\t<phrase>A dog</phr", "no tab here", "two.png\ta dog", f"one.png\t{RAW[:50]}"]
    (tmp_path / "in.tsv").write_text("\n".join(rows))
    told = tmp_path / "problems.jsonl"
    words = ["convert", tmp_path / "in.tsv", "--from", "kosmos-2", "--images", photos, "--problems", told]
    assert run(*words) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 3
    assert "5 rows: 1 places, 2 rows without a place, 2 rows with problems, 2 rows that could not be read" in err
    assert {row["row"] for row in lines(told)} == {2, 3, 4, 5}
    assert any("no image called 'two.png'" in str(row["reason"]) for row in lines(told))
    assert run(*words, "--strict") == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no row could be read: the file holds none; `groundling convert --help`"),
        ("no tab here\n", "no row could be read: no tab: expected image<TAB>caption; `groundling convert --help`"),
        ("one.png\ta dog\n", "nothing tells the size of the image: give --images FOLDER or --size WxH"),
    ],
)
def test_nothing_that_could_be_read_is_an_error_and_an_earlier_file_stays(
    text: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.tsv").write_text(text)
    out, told = tmp_path / "out.jsonl", tmp_path / "problems.jsonl"
    out.write_text("earlier")
    assert run("convert", tmp_path / "in.tsv", "-o", out, "--problems", told) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert str(tmp_path / "in.tsv") in last and reason in last
    assert out.read_text() == "earlier" and len(lines(told)) == len(text.splitlines())


def test_qwen2_5_is_asked_for_the_size_that_it_saw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"image": "x", "output": [{"bbox_2d": [0, 0, 14, 14], "label": "cat"}]}
    (tmp_path / "in.jsonl").write_text(json.dumps(row))
    words = ["convert", tmp_path / "in.jsonl", "--from", "qwen2.5-vl", "--size", "100x50"]
    assert run(*words) == 2
    assert "--resized WxH" in capsys.readouterr().err
    for more in (["--resized", "112x56"], ["--max-pixels", 12_845_056]):
        assert run(*words, *more) == 0
        assert json.loads(capsys.readouterr().out)["places"][0]["boxes"] == [[0, 0, 12.5, 12.5]]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "name a FILE"),
        (["FILE", "--from", "qwen"], "unknown format 'qwen'; there are plain, kosmos-2"),
        (["nowhere.tsv", "--size", "4x4"], "nowhere.tsv: cannot be read"),
        (["FILE", "--images", "nowhere"], "nowhere: not a folder"),
    ],
)
def test_mistakes_are_told_in_a_line(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.tsv").write_text("a\tb\n")
    assert run("convert", *(str(tmp_path / "in.tsv") if word == "FILE" else word for word in words)) == 2
    assert told in capsys.readouterr().err


def test_the_formats_are_listed_each_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("convert", "--list") == 0
    assert "<patch_index_0044>" in capsys.readouterr().out
