"""`groundling doctor`: command line in, verdict out."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from groundling.cli import main
from groundling.commands import doctor
from groundling.regions.store import Writer
from groundling.tensors import Regions
from groundling.types import Example, Fingerprint, Phrase

XML = """<annotation><size><width>100</width><height>80</height></size>
<object><name>1</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>50</xmax><ymax>80</ymax></bndbox></object>
<object><name>2</name><bndbox><xmin>81</xmin><ymin>1</ymin><xmax>100</xmax><ymax>10</ymax></bndbox></object></annotation>"""
TEXT = "[/EN#1/people A man] sees [/EN#2/animals a bird]\n[/EN#1/people Somebody] waits\n"
WHOLE_LEFT = [0.0, 0.0, 50.0, 60.0]  # IoU 60 / 80 with the man, 0 with the bird


@pytest.fixture
def data(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    for folder in ("Sentences", "Annotations", "images"):
        (root / folder).mkdir(parents=True)
    for id in ("1", "2"):
        (root / "Sentences" / f"{id}.txt").write_text(TEXT)
        (root / "Annotations" / f"{id}.xml").write_text(XML)
        Image.new("RGB", (100, 80), (int(id), 0, 0)).save(root / "images" / f"{id}.png")
    (root / "train.txt").write_text("1\n")
    (root / "val.txt").write_text("2\n")
    return root


def store(
    path: Path, boxes: dict[str, list[list[float]]], size: tuple[int, int] = (100, 80), feat: float = 1.0
) -> Path:
    with Writer(path, Fingerprint("toy", "1", 4)) as writer:
        for id, rows in boxes.items():
            writer.add(id, Regions.of(torch.ones(len(rows), 4), torch.tensor(rows), size))
    return path


def answer(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, Any]:
    code = main(["doctor", *map(str, argv), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_sound_data_set_with_regions_is_well(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of three phrases with boxes the man is found twice and the bird never: 2 / 3."""
    regions = store(tmp_path / "regions", {"1": [WHOLE_LEFT], "2": [WHOLE_LEFT, [0.0, 0.0, 9.0, 9.0]]})
    code, printed = answer(capsys, data, "--regions", regions)
    assert code == 0 and printed["ok"]
    assert printed["data"]["facts"]["format"] == "Flickr30k Entities"
    counts = {
        "images": 1,
        "files": 1,
        "captions": 2,
        "words": 7,
        "phrases": 3,
        "with boxes": 3,
        "boxes": 2,
        "things": 0,
    }
    assert printed["data"]["rows"] == [{"split": "train"} | counts, {"split": "val"} | counts]
    assert printed["regions"]["rows"][0] == {"split": "train", "phrases with boxes": 3, "upper bound %": 66.67}
    assert printed["regions"]["facts"]["regions per image"] == 1.5


def test_bad_items_are_all_listed_and_may_be_accepted(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (data / "Annotations" / "1.xml").write_text(XML.replace("<xmax>50<", "<xmax>0<").replace("<ymin>1<", "<ymin>70<"))
    code, printed = answer(capsys, data)
    assert code == 1 and not printed["ok"] and len(printed["data"]["problems"]) == 2
    assert "1.xml, entity 1: the box" in printed["data"]["problems"][0]
    code, printed = answer(capsys, data, "--skip-bad")
    assert code == 0 and printed["data"]["facts"]["left out"] == 2


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        ({"boxes": {"1": [WHOLE_LEFT]}}, r"1 images have no regions \(2\)"),
        ({"boxes": {"1": [[5.0, 5.0, 5.0, 9.0]], "2": [WHOLE_LEFT]}}, "image 1 has inverted or empty boxes"),
        ({"boxes": {"1": [[5.0, 5.0, 150.0, 9.0]], "2": [WHOLE_LEFT]}}, "image 1 has boxes beyond its 100 x 80 pixels"),
        ({"size": (200, 160)}, "image 1 is 100 x 80 pixels, its regions were made at 200 x 160"),
    ],
)
def test_bad_regions_are_named(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], made: dict[str, Any], problem: str
) -> None:
    path = store(tmp_path / "regions", **({"boxes": {"1": [WHOLE_LEFT], "2": [WHOLE_LEFT]}} | made))
    code, printed = answer(capsys, data, "--regions", path)
    assert code == 1
    assert re.search(problem, printed["regions"]["problems"][0])


def test_features_that_are_not_finite_are_named() -> None:
    """Our own writer refuses them; another's store may hold them."""
    regions = Regions.of(torch.full((1, 4), torch.inf), torch.tensor([WHOLE_LEFT]), (100, 80))
    assert [*doctor._wrong(Example("7", "", (100, 80)), regions)] == [
        "image 7 has features that are not finite; make its regions again"
    ]


def test_image_files_of_a_wrong_size_or_damaged_are_named(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"id": n, "file_name": f"{n}.png", "width": 50, "height": 80} for n in (1, 2)]
    printed = [{"id": n, "image_id": n, "caption": "A man."} for n in (1, 2)]
    (data / "captions.json").write_text(json.dumps({"images": rows, "annotations": printed}))
    (data / "images" / "2.png").write_bytes(b"no image")
    code, printed = answer(capsys, data / "captions.json")
    assert code == 1 and len(printed["data"]["problems"]) == 2
    assert "1.png: 100 x 80 pixels, the data set says 50 x 80" in printed["data"]["problems"][0]
    assert "2.png" in printed["data"]["problems"][1]


def test_what_is_not_there_is_a_problem_and_the_rest_is_still_told(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed = answer(capsys, tmp_path / "nowhere")
    assert code == 1 and "no such file" in printed["data"]["problems"][0] and printed["environment"]["facts"]["torch"]
    code, printed = answer(capsys, data, "--regions", tmp_path / "nowhere")
    assert code == 1 and "no region store" in printed["regions"]["problems"][0]


def test_a_region_of_another_frame_is_not_right() -> None:
    box = (0.0, 0.0, 10.0, 10.0)
    gold = (Phrase(0, (0, 1), (box,), frames=(3,)), Phrase(0, (0, 1), (box,), frames=(4,)), Phrase(0, (0, 1)))
    frame = torch.tensor([3])
    regions = Regions.of(torch.ones(1, 4), torch.tensor([box]), (10, 10), frame=frame)
    assert list(doctor._reachable(Example("v", "", (0, 0), gold=gold), regions)) == [True, False]


def test_the_tables_are_readable(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(data)]) == 0
    printed = capsys.readouterr().out
    assert "Flickr30k Entities" in printed and "all is well" in printed
    assert "train" in printed and "torch" in printed


def test_the_machine_alone_can_be_checked_and_absent_extras_come_with_their_cure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "EXTRAS", (("no_such_module", "no-such-package", "video", "frames"),))
    monkeypatch.setattr(shutil, "which", lambda _: None)
    code, printed = answer(capsys)
    assert code == 0 and set(printed) == {"ok", "environment"}
    assert "pip install 'groundling[video]'" in printed["environment"]["facts"]["no-such-package"]
    assert printed["environment"]["facts"]["java"].startswith("not found")


def test_regions_without_data_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--regions", "x"]) == 2
    assert "needs DATA" in capsys.readouterr().err


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["doctor", "--help"])
    printed = capsys.readouterr().out
    assert "examples:" in printed and "--skip-bad" in printed and "upper bound" in printed


def test_the_upper_bound_is_that_of_boxes_at_the_size_of_the_regions(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Regions made at twice the size: the same share of phrases is within reach as at the size itself."""
    twice = [2 * x for x in WHOLE_LEFT]
    regions = store(tmp_path / "regions", {"1": [twice], "2": [twice]}, size=(200, 160))
    _, printed = answer(capsys, data, "--regions", regions)
    assert [row["upper bound %"] for row in printed["regions"]["rows"]] == [66.67, 66.67]


def test_a_photo_saved_again_in_another_split_is_told_and_other_photos_are_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same noise, smaller and as JPEG, looks the same; other noise does not, nor do two empty pictures."""
    draw = np.random.default_rng(0)
    one, other = (Image.fromarray(draw.integers(0, 255, (24, 32, 3), np.uint8)) for _ in range(2))
    one.resize((320, 240), Image.Resampling.BICUBIC).save(tmp_path / "one.png")
    one.resize((200, 150), Image.Resampling.BICUBIC).save(tmp_path / "again.jpg", quality=60)
    other.resize((320, 240), Image.Resampling.BICUBIC).save(tmp_path / "other.png")
    Image.new("RGB", (32, 24)).save(tmp_path / "empty.png")
    Image.new("RGB", (64, 48)).save(tmp_path / "void.png")
    splits = {"one.png": "train", "again.jpg": "val", "other.png": "val", "empty.png": "train", "void.png": "val"}
    rows = [f"{name},A dog runs.,{split}" for name, split in splits.items()]
    (tmp_path / "captions.csv").write_text("\n".join(["image,caption,split", *rows]))
    code, printed = answer(capsys, tmp_path)
    assert code == 0
    told = printed["data"]["facts"]["look alike in two splits"]
    assert told == "a pair of pictures (one in train, again in val): keep one, or scores are too good"
