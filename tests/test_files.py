"""Files from outside and files that we write: what is refused, what survives, who waits for whom."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from groundling import files
from groundling.errors import DataError, GroundlingError


def test_a_pipe_without_a_writer_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "captions.csv")
    with pytest.raises(DataError, match="captions.csv: cannot be read: not a regular file"):
        files.read_text(tmp_path / "captions.csv")


def test_a_device_without_an_end_is_refused() -> None:
    with pytest.raises(DataError, match="/dev/zero: cannot be read: not a regular file"):
        files.read_text("/dev/zero")


def test_a_pipe_that_the_shell_opened_is_read() -> None:
    code = "from groundling.files import read_text; print(read_text('/dev/stdin'))"
    done = subprocess.run([sys.executable, "-c", code], input="[1]", capture_output=True, text=True)
    assert done.stdout == "[1]\n", done.stderr


def test_no_more_than_the_limit_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 11)
    assert files.read_bytes(tmp_path / "a", 11) == b"x" * 11
    with pytest.raises(DataError, match="a: more than 10 bytes"):
        files.read_bytes(tmp_path / "a", 10)


def test_reading_a_little_file_asks_for_little_memory(tmp_path: Path) -> None:
    """The limit is 2 GB, of which nothing may be asked for in advance."""
    (tmp_path / "a").write_bytes(b"x" * 11)
    tracemalloc.start()
    try:
        assert len(files.read_bytes(tmp_path / "a")) == 11
        assert tracemalloc.get_traced_memory()[1] < 1 << 22
    finally:
        tracemalloc.stop()


def test_a_value_of_any_depth_can_be_shown() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert len(files.shown(deep)) <= 80
    assert len(files.shown("x" * 10**6)) <= 80


# ---------------------------------------------------------------- writing


def test_a_link_stays_a_link_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("old")
    (tmp_path / "link.html").symlink_to("page.html")
    with files.atomic(tmp_path / "link.html") as file:
        file.write(b"new")
    assert (tmp_path / "link.html").is_symlink() and (tmp_path / "page.html").read_text() == "new"


def test_a_device_is_written_to_and_not_replaced() -> None:
    before = os.stat("/dev/null")
    with files.atomic(Path("/dev/null")) as file:
        file.write(b"new")
    after = os.stat("/dev/null")
    assert (before.st_mode, before.st_rdev, before.st_ino) == (after.st_mode, after.st_rdev, after.st_ino)


def test_the_longest_name_can_be_written_and_permissions_stay(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    path.write_text("old")
    path.chmod(0o640)
    with files.atomic(path) as file:
        file.write(b"new")
    assert path.read_text() == "new" and path.stat().st_mode & 0o777 == 0o640


def test_an_earlier_file_survives_a_full_disk_and_the_message_names_it(tmp_path: Path) -> None:
    (tmp_path / "out.html").write_text("old")
    with (
        pytest.raises(GroundlingError, match="cannot save .*out.html: No space left"),
        files.saved(tmp_path / "out.html"),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert [path.name for path in tmp_path.iterdir()] == ["out.html"] and (tmp_path / "out.html").read_text() == "old"


# ---------------------------------------------------------------- locks


def test_who_holds_a_folder_is_named_and_its_death_frees_it(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from groundling.files import locked\n"
    code += "with locked(Path(sys.argv[1]), 'the run'): print('in', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "in\n"
        told = rf"another process \({other.pid}.*is writing to the run"
        with pytest.raises(GroundlingError, match=told), files.locked(tmp_path, "the run"):
            pass
        other.kill()
    with files.locked(tmp_path, "the run"):
        pass


# ---------------------------------------------------------------- manifests


def a_model(folder: Path) -> Path:
    files.replace_files(folder, {"model.json": b"{}", "model.safetensors": bytes(range(256))})
    return folder


def test_every_flipped_bit_of_a_sealed_file_is_refused(tmp_path: Path) -> None:
    path = a_model(tmp_path) / "model.safetensors"
    assert files.check_manifest(tmp_path)
    whole = path.read_bytes()
    for at in range(0, 2048, 31):
        flipped = bytearray(whole)
        flipped[at // 8] ^= 1 << at % 8
        path.write_bytes(flipped)
        with pytest.raises(DataError, match="model.safetensors is not the file that was written"):
            files.check_manifest(tmp_path)


def test_a_kill_between_two_files_leaves_a_model_that_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_model(tmp_path)
    replace, calls = os.replace, []

    def dies(count: int) -> None:
        def now_and_then(*names: object) -> None:
            calls.append(names)
            if len(calls) > count:
                raise KeyboardInterrupt
            replace(*names)  # type: ignore[arg-type]

        monkeypatch.setattr(os, "replace", now_and_then)

    for count in range(4):  # the manifest, two files, the manifest again
        calls.clear()
        dies(count)
        with pytest.raises(KeyboardInterrupt):
            files.replace_files(tmp_path, {"model.json": b"%d" % count, "model.safetensors": b"new %d" % count})
        assert files.check_manifest(tmp_path)


def test_a_missing_file_and_a_name_outside_are_refused(tmp_path: Path) -> None:
    (a_model(tmp_path) / "model.json").unlink()
    with pytest.raises(DataError, match="model.json is missing"):
        files.check_manifest(tmp_path)
    (tmp_path / files.MANIFEST).write_text('{"format": 1, "sha256": {"../x": ["0"]}}')
    with pytest.raises(DataError, match="not the name of a file of this folder"):
        files.check_manifest(tmp_path)


def test_a_folder_without_a_manifest_is_told_and_ours_must_have_one(tmp_path: Path) -> None:
    assert not files.check_manifest(tmp_path)
    with pytest.raises(DataError, match="manifest.json is missing"):
        files.check_manifest(tmp_path, required=True)


def test_a_manifest_that_does_not_name_the_model_does_not_vouch_for_it(tmp_path: Path) -> None:
    files.replace_files(tmp_path, {"calibration.json": b"{}"})
    assert files.check_manifest(tmp_path) and not files.check_manifest(tmp_path, names=["model.safetensors"])


def test_a_folder_is_filled_when_all_is_there_and_the_last_file_vouches_for_the_rest(tmp_path: Path) -> None:
    for name in ("about", "rows", "other"):
        (tmp_path / name).write_text("old")
    with pytest.raises(GroundlingError, match="cannot save"), files.filling(tmp_path, last="about") as part:
        (part / "rows").write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys(
        ("about", "rows", "other"), "old"
    )
    with files.filling(tmp_path, last="about") as part:
        for name in ("about", "rows", "below/it"):
            (part / name).parent.mkdir(exist_ok=True)
            (part / name).write_text("new")
    assert (tmp_path / "below" / "it").read_text() == (tmp_path / "rows").read_text() == "new"
    assert (tmp_path / "other").read_text() == "old" and len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize("name", ["captioner", "grounder"])
@pytest.mark.parametrize("weights", ["everyday", "flickr8k"])
def test_the_weights_of_the_package_are_sealed(weights: str, name: str) -> None:
    folder = Path(files.__file__).parent / "weights" / weights / name
    assert files.check_manifest(folder, required=True)
    sealed = files._manifest(folder) or {}
    assert {path.name for path in folder.iterdir()} - {files.MANIFEST} == set(sealed)
