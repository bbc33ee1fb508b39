"""Names of files that a terminal or a disk trips over, and a disk that is full: one line, no traceback."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from full_disk import largest_file

from groundling.cli import main

COCO = '{"images": [{"id": 1}], "annotations": [{"id": 1, "image_id": 1, "caption": "A dog."}]}'


def test_control_characters_of_a_name_do_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "\x1b[2J.json").write_text(COCO.replace("[", "{"))
    assert main(["df", str(tmp_path / "\x1b[2J.json"), "-o", str(tmp_path / "a.df")]) == 2
    told = capsys.readouterr()
    assert "\x1b" not in told.err + told.out and "[2J.json: not JSON" in told.err


def test_a_name_that_is_not_utf8_can_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "captions.json").write_text(COCO)
    for name in (b"\xff.df", b"\x1b.df"):
        out = tmp_path / os.fsdecode(name)
        assert main(["df", str(tmp_path / "captions.json"), "-o", str(out)]) == 0
        assert out.exists() and "\x1b" not in capsys.readouterr().out


def test_a_full_disk_is_told_by_scenes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with largest_file(100):
        assert main(["scenes", str(tmp_path / "scenes"), "--images", "2", "--workers", "1"]) == 2
    told = capsys.readouterr().err
    assert f"cannot write to {tmp_path / 'scenes'}: File too large" in told and "No such file" not in told
