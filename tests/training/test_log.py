from __future__ import annotations

import errno
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from groundling.errors import GroundlingError
from groundling.training.log import HEADER, Log


class Board:
    """A TensorBoard whose disk is full when it is closed."""

    closed = False

    def add_scalar(self, name: str, value: float, step: int) -> None:
        pass

    def close(self) -> None:
        self.closed = True
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> Board:
    board = Board()
    monkeypatch.setattr("groundling.training.log._tensorboard", lambda folder, done: board)
    return board


@contextmanager
def full_disk() -> Iterator[None]:
    """The kernel stops every file at 1 kB."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_full_disk_while_logging_is_told_in_one_line(tmp_path: Path, board: Board) -> None:
    with (
        full_disk(),
        pytest.raises(GroundlingError, match="cannot save .*log.csv: .*large"),
        Log(tmp_path, 0, 0, 2000) as log,
    ):
        for step in range(2000):
            log.step("xe", 0, step, {"xe": 1.0})
    assert board.closed


def test_a_full_disk_when_rows_are_flushed_is_told_too(tmp_path: Path, board: Board) -> None:
    with full_disk(), pytest.raises(GroundlingError, match="cannot save .*log.csv"), Log(tmp_path, 0, 0, 100) as log:
        for step in range(100):
            log.step("xe", 0, step, {"xe": 1.0})
        log.bytes()


def test_an_error_of_closing_does_not_hide_the_first(tmp_path: Path, board: Board) -> None:
    with pytest.raises(ValueError, match="first"), Log(tmp_path, 0, 0, 1):
        raise ValueError("first")
    assert board.closed
    assert (tmp_path / "log.csv").read_bytes() == HEADER  # closed, though the other failed


def test_an_error_of_closing_alone_is_told(tmp_path: Path, board: Board) -> None:
    with pytest.raises(GroundlingError, match="No space left"), Log(tmp_path, 0, 0, 1):
        pass


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "log.csv").mkdir()
    with pytest.raises(GroundlingError, match="cannot save .*log.csv"):
        Log(tmp_path, 0, 0, 1)


def test_an_epoch_that_nothing_scores_is_done(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"), Log(tmp_path, 0, 0, 2) as log:
        log.epoch("ground", 0, 2, {}, "")
        log.epoch("xe", 1, 2, {"cider-d": 0.5}, " (best so far)")
    assert caplog.messages == ["ground, epoch 1: done", "xe, epoch 2: cider-d 0.5000 (best so far)"]
