"""Lines of long work: whole, kept after a stop, gone on with by the same call alone, and never two writers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from full_disk import largest_file
from PIL import Image

from groundling.cli import main
from groundling.commands.outputs import appending, line, unfinished
from groundling.errors import DataError, GroundlingError
from groundling.files import locked


def write(path: Path, numbers: range, call: str = "a") -> None:
    with unfinished(path, {"call": call}) as lines:
        done = len(lines.rows())
        with appending(lines.kept) as add:
            for number in numbers[done:]:
                if number < 0:
                    raise KeyboardInterrupt
                add({"n": number, "text": "x" * 100})
        lines.finish(lambda row: {"n": row["n"]})


def numbers(path: Path) -> list[int]:
    return [json.loads(text)["n"] for text in path.read_text().splitlines()]


def test_a_stopped_call_goes_on_and_the_earlier_file_stays_until_then(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text('{"n": 7}\n')
    with pytest.raises(KeyboardInterrupt):
        write(out, range(3, -2, -1))  # 3, 2, 1, 0, then the stop
    assert numbers(out) == [7]
    with open(next((tmp_path / "out.jsonl.part").glob("*.jsonl")), "ab") as file:
        file.write(b'{"n": 99, "te')  # what a kill leaves of a line
    write(out, range(10))
    assert numbers(out) == [3, 2, 1, 0, 4, 5, 6, 7, 8, 9]
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]


def test_another_call_does_not_go_on_with_these_lines(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "out.jsonl", range(3, -2, -1))
    write(tmp_path / "out.jsonl", range(2), call="b")
    assert numbers(tmp_path / "out.jsonl") == [0, 1]


def test_on_a_full_disk_lines_are_kept_and_the_message_names_the_file(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text('{"n": 7}\n')
    with pytest.raises(GroundlingError, match="out.jsonl.*File too large; the lines written"), largest_file(1000):
        write(out, range(50))
    assert numbers(out) == [7]
    write(out, range(50))
    assert numbers(out) == list(range(50))


def test_nothing_is_left_of_a_call_that_made_no_line(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "out.jsonl", range(-1, -2, -1))
    assert list(tmp_path.iterdir()) == []


def test_a_second_writer_is_refused_and_told_who_writes(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from groundling.commands.outputs import unfinished\n"
    code += "with unfinished(Path(sys.argv[1]), {}): print('in', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "o")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "in\n"
        with pytest.raises(GroundlingError, match=rf"another process \({other.pid}"):
            write(tmp_path / "o", range(2))
        other.kill()
    write(tmp_path / "o", range(2))
    assert numbers(tmp_path / "o") == [0, 1]


def test_two_do_not_label_into_one_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Image.new("RGB", (9, 9)).save(tmp_path / "a.png")
    (tmp_path / "captions.csv").write_text("image,caption\na.png,A dog.\n")
    (tmp_path / "out").mkdir()
    with locked(tmp_path / "out", "the labels in"):
        assert main(["label", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert "is writing to the labels in" in capsys.readouterr().err


def test_half_of_a_surrogate_pair_is_written_and_read() -> None:
    assert json.loads(line({"caption": "é \ud800"})) == {"caption": "é \ud800"}


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "out.jsonl", range(3, -2, -1))
    [kept] = (tmp_path / "out.jsonl.part").glob("*.jsonl")
    kept.write_bytes(b"\x00" + kept.read_bytes())
    with pytest.raises(DataError, match="jsonl: line 1: not JSON"):
        write(tmp_path / "out.jsonl", range(3))


@pytest.mark.parametrize(
    ("full", "told"), [("stdout", b"groundling: tokenize: No space left on device\n"), ("stderr", b"")]
)
def test_a_full_disk_behind_an_output_is_told_in_one_line_where_there_is_one(full: str, told: bytes) -> None:
    """Python would add two lines of its own in the end and make the code 120."""
    words = {"stdout": ["tokenize"], "stderr": ["tokenize", "/nonexistent/file"]}[full]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with open("/dev/full", "wb") as nothing:
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, full: nothing}
        command = [sys.executable, "-m", "groundling", *words]
        done = subprocess.run(command, input=b"A dog.\n", env=environment, **streams)
    assert (done.returncode, done.stderr or b"") == (2, told)
