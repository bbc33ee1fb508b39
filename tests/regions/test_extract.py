"""Extraction: many images, several processes, any interruption; the same bytes in the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image, ImageDraw

from groundling.cli import main
from groundling.errors import GroundlingError, RegionMismatch
from groundling.parallel import Engine
from groundling.regions import extract as module
from groundling.regions.extract import extract
from groundling.regions.jobs import Job, images_below
from groundling.regions.sources import names, source
from groundling.regions.store import Store
from groundling.tensors import Regions
from groundling.types import Fingerprint


class Corners:
    """A source that looks at two corners; it fails where the image is 13 pixels wide."""

    def __init__(self, count: int = 2) -> None:
        self.fingerprint = Fingerprint("corners", "1", 3, {"count": count})

    def __call__(self, image: Image.Image) -> Regions:
        if image.width == 13:
            raise RuntimeError("thirteen")
        w, h = image.size
        pixels = [image.getpixel((0, 0)), image.getpixel((w - 1, h - 1))]
        boxes = torch.tensor([[0, 0, 1, 1], [w - 1, h - 1, w, h]]).float()
        return Regions.of(torch.tensor(pixels).float(), boxes, (w, h))


@pytest.fixture
def corners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "source", lambda name, **parameters: Corners(**parameters))


def draw(folder: Path, count: int, size: tuple[int, int] = (40, 30)) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(count):
        image = Image.new("RGB", size, (i % 256, 90, 10))
        pen = ImageDraw.Draw(image)
        pen.ellipse((i % 7, 3, size[0] // 2 + i % 11, size[1] - 4), fill=(200, i * 3 % 256, 40))
        pen.rectangle((size[0] // 2, 5 + i % 5, size[0] - 3, size[1] // 2), fill=(20, 40, i * 7 % 256))
        image.save(folder / f"{i:03d}.png")
    return folder


def content(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


def run(jobs: list[Job], out: Path, workers: int = 1, name: str = "corners", **parameters: object) -> list[module.Done]:
    return list(extract(jobs, name, parameters, out, Engine(workers)))


# ---------------------------------------------------------------- which images


def test_ids_are_names_and_paths_where_names_repeat(tmp_path: Path) -> None:
    draw(tmp_path / "a", 2)
    draw(tmp_path / "b", 1)
    Image.new("RGB", (4, 4)).save(tmp_path / "ÜBER.JPG", "JPEG")
    (tmp_path / ".trash").mkdir()
    Image.new("RGB", (4, 4)).save(tmp_path / ".trash" / "old.png")
    (tmp_path / "README.md").write_text("hello")
    assert [job.id for job in images_below(tmp_path)] == ["a/000.png", "001", "b/000.png", "ÜBER"]


def test_a_folder_without_images_says_so(tmp_path: Path) -> None:
    with pytest.raises(GroundlingError, match="no image files"):
        images_below(tmp_path)


# ---------------------------------------------------------------- one process


@pytest.mark.usefixtures("corners")
def test_regions_of_every_image_are_stored_in_order(tmp_path: Path) -> None:
    jobs = images_below(draw(tmp_path / "in", 5))
    assert all(done.added for done in run(jobs, tmp_path / "s"))
    store = Store.open(tmp_path / "s")
    assert list(store.ids) == [job.id for job in jobs]
    assert store["003"].feats[0, 0].tolist() == [3, 90, 10] and store["003"].size.tolist() == [[40, 30]]


@pytest.mark.usefixtures("corners")
def test_bad_images_are_named_and_the_others_done(tmp_path: Path) -> None:
    folder = draw(tmp_path / "in", 4)
    (folder / "001.png").write_bytes((folder / "001.png").read_bytes()[:40])
    Image.new("RGB", (13, 5)).save(folder / "002.png")
    done = run(images_below(folder), tmp_path / "s")
    assert [step.added for step in done] == [True, False, False, True]
    assert "001.png" in str(done[1].problem)
    assert "002.png: the region source failed: RuntimeError: thirteen" in str(done[2].problem)
    assert list(Store.open(tmp_path / "s").ids) == ["000", "003"]


@pytest.mark.usefixtures("corners")
def test_stopped_after_any_number_of_images_it_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    jobs = images_below(draw(tmp_path / "in", 6))
    run(jobs, tmp_path / "whole")
    for stop in range(7):
        out = tmp_path / f"s{stop}"
        steps = extract(jobs, "corners", {}, out)
        for _ in range(stop):
            next(steps)
        steps.close()
        assert [step.added for step in run(jobs, out)].count(True) == 6 - stop
        assert content(out) == content(tmp_path / "whole")


@pytest.mark.usefixtures("corners")
def test_a_store_of_other_parameters_is_not_gone_on_with(tmp_path: Path) -> None:
    jobs = images_below(draw(tmp_path / "in", 1))
    run(jobs, tmp_path / "s")
    with pytest.raises(RegionMismatch, match="parameters count: 2 instead of 9"):
        run(jobs, tmp_path / "s", count=9)


@pytest.mark.usefixtures("corners")
def test_the_number_of_threads_is_left_as_it_was(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        run(images_below(draw(tmp_path / "in", 1)), tmp_path / "s")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


# ---------------------------------------------------------------- several processes


def test_workers_change_nothing_but_the_time(tmp_path: Path) -> None:
    folder = draw(tmp_path / "in", 12)
    (folder / "007.png").write_bytes(b"not an image")
    jobs = images_below(folder)
    alone = run(jobs, tmp_path / "one", 1, "scenes")
    assert run(jobs, tmp_path / "two", 2, "scenes") == alone
    assert [step.id for step in alone if step.problem] == ["007"]
    assert content(tmp_path / "one") == content(tmp_path / "two")


def alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(true: Callable[[], bool], seconds: float = 150.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """Images that take a second or two, and the store of them."""
    path = tmp_path_factory.mktemp("scenes")
    run(images_below(draw(path / "in", 60, (200, 150))), path / "s", 1, "scenes")
    return path / "in", content(path / "s")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_it_leaves_no_process_and_a_store_to_go_on_with(
    scenes: tuple[Path, dict[str, bytes]], tmp_path: Path, how: signal.Signals
) -> None:
    folder, whole = scenes
    command = ["regions", "extract", str(folder), "--source", "scenes", "--out", str(tmp_path / "s"), "--workers", "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "groundling", *command], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    data = tmp_path / "s" / "regions.bin"
    wait_until(lambda: data.exists() and data.stat().st_size > len(whole["regions.bin"]) / 10)
    if how == signal.SIGINT:
        os.killpg(process.pid, how)  # as a terminal does
    else:
        os.kill(process.pid, how)
    _, printed = process.communicate()
    assert process.returncode == (130 if how == signal.SIGINT else -how)
    if how == signal.SIGINT:
        assert "the same command continues from there" in printed and "Traceback" not in printed
    wait_until(lambda: not alive(process.pid))
    assert not (tmp_path / "s" / "index.bin").exists()
    added = [step.added for step in run(images_below(folder), tmp_path / "s", 1, "scenes")]
    assert 0 < added.count(False) < 60
    assert content(tmp_path / "s") == whole


def test_a_worker_that_dies_is_reported_with_the_image_it_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_worker", _worker_that_dies)
    jobs = images_below(draw(tmp_path / "in", 8))
    with pytest.raises(GroundlingError, match="a worker process died at image '000' or one of the 7 after it"):
        run(jobs, tmp_path / "s", 2, "scenes")


def _worker_that_dies(name: str, parameters: object) -> Callable[[Job], None]:
    return _die


def _die(job: Job) -> None:
    os._exit(9)


# ---------------------------------------------------------------- sources and the command


def test_sources_are_the_modules_that_are_there() -> None:
    assert "scenes" in names() and not any(name.startswith("_") for name in names())
    with pytest.raises(GroundlingError, match="unknown region source 'x-ray'; there are .*scenes"):
        source("x-ray")
    with pytest.raises(GroundlingError, match="region source 'scenes': .*'colour'; it takes count"):
        source("scenes", colour=3)


def test_the_command_extracts_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = draw(tmp_path / "in", 3)
    given = ["regions", "extract", str(folder), "--source", "scenes", "--out", str(tmp_path / "s"), "--set", "count=25"]
    assert main(given) == 0
    assert "3 images, 3 of them new" in capsys.readouterr().out
    assert Store.open(tmp_path / "s").fingerprint.parameters == {"count": 25}
    (folder / "003.png").write_bytes(b"rubbish")
    assert main(given) == 1
    printed = capsys.readouterr()
    assert (
        "3 images, 0 of them new" in printed.out
        and "left out: 003: " in printed.err
        and "1 images left out" in printed.err
    )
    assert main([*given, "--skip-bad"]) == 0


def test_the_command_refuses_what_it_cannot_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = draw(tmp_path / "in", 1)
    given = ["regions", "extract", str(folder), "--source", "scenes", "--out", str(tmp_path / "s")]
    assert main([*given, "--split", "train"]) == 2
    assert "has no split 'train'" in capsys.readouterr().err
    assert main([*given, "--set", "count"]) == 2
    assert "expected KEY=VALUE" in capsys.readouterr().err
    assert main(["regions", "extract", str(tmp_path / "nothing"), *given[3:]]) == 2
    assert "no such file or folder" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*given, "--workers", "0"])


def test_the_command_extracts_a_split_of_a_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = draw(tmp_path / "in", 4)
    rows = [
        {"filename": f"{i:03d}.png", "split": "train" if i % 2 else "val", "imgid": i, "sentids": [i]} for i in range(4)
    ]
    for i, row in enumerate(rows):
        row["sentences"] = [{"tokens": ["a", "shape"], "raw": "A shape.", "imgid": i, "sentid": i}]
    (folder / "dataset_flickr8k.json").write_text(json.dumps({"images": rows, "dataset": "flickr8k"}))
    given = ["regions", "extract", str(folder), "--source", "scenes", "--out", str(tmp_path / "s"), "--split", "train"]
    assert main(given) == 0, capsys.readouterr().err
    assert len(Store.open(tmp_path / "s")) == 2


def test_the_help_of_every_verb_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("extract", "import", "info", "check"):
        with pytest.raises(SystemExit) as end:
            main(["regions", verb, "--help"])
        assert end.value.code == 0 and len(capsys.readouterr().out) > 200
    with pytest.raises(SystemExit):
        main(["regions", "--help"])
    assert "groundling regions extract photos/" in capsys.readouterr().out
