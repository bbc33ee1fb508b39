"""What a run leaves behind: `log.csv` always, TensorBoard files where it is installed, a progress bar while it lasts.

`log.csv` is long (`stage,epoch,step,name,value`), so that a term may come and go. After a kill it is cut to the rows
that belong to the weights that are resumed: no row twice, and the same bytes as without the kill.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from groundling.errors import GroundlingError
from groundling.files import saving
from groundling.training.pace import Pace
from groundling.training.parallel import rank

logger = logging.getLogger(__name__)

HEADER = b"stage,epoch,step,name,value\n"


class Log:
    """Only the first process writes; in the others every call does nothing."""

    def __init__(self, folder: Path, kept: int, done: int, total: int, epochs: int = 0) -> None:
        """`kept`: bytes of an earlier log to go on from. `done` of `total`: steps of the whole run; `epochs` left."""
        self._file: BinaryIO | None = None
        self._board: Any = None
        self._bar: Any = None
        self._path = folder / "log.csv"
        if rank() == 0:
            with saving(self._path):
                self._file = _open(self._path, kept)
            with saving(folder / "tensorboard"):
                self._board = _tensorboard(folder / "tensorboard", done)
            self._bar = _Bar(done, total)
        self._done = done
        self._pace = Pace(total - done, epochs)

    def __enter__(self) -> Log:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._file is None:
            return
        try:
            with saving(self._path), ExitStack() as all_of_them:
                all_of_them.callback(self._file.close)
                if self._board is not None:
                    all_of_them.callback(self._board.close)
                all_of_them.callback(self._bar.close)
        except GroundlingError:
            if error is None:  # else that one came first, and is the cause
                raise

    def step(self, stage: str, epoch: int, step: int, values: Mapping[str, float]) -> None:
        """One step is done; every value, by name, none forgotten."""
        if self._file is None:
            return
        self._done += 1
        self._write(stage, epoch, step, values)
        terms = "  ".join(f"{name} {value:.4g}" for name, value in values.items() if name not in ("lr", "norm"))
        self._bar.step(f"{stage}, epoch {epoch + 1}", terms)
        if line := self._pace.step():
            self._bar.say(line)

    def epoch(self, stage: str, epoch: int, step: int, scores: Mapping[str, float], note: str) -> None:
        """An epoch is done and was scored."""
        if self._file is None:
            return
        self._write(stage, epoch, step, scores)
        listed = ", ".join(f"{name} {value:.4f}" for name, value in scores.items()) or "done"
        self._bar.say(f"{stage}, epoch {epoch + 1}: {listed}{note}")
        if line := self._pace.epoch():
            self._bar.say(line)

    def bytes(self) -> int:
        """How much is safely on the disk."""
        if self._file is None:
            return 0
        with saving(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())
            return self._file.tell()

    def _write(self, stage: str, epoch: int, step: int, values: Mapping[str, float]) -> None:
        assert self._file is not None
        with saving(self._path):
            for name, value in values.items():
                self._file.write(f"{stage},{epoch},{step},{name},{value:.7g}\n".encode())
                if self._board is not None:
                    self._board.add_scalar(f"{stage}/{name}", value, self._done)


def _open(path: Path, kept: int) -> BinaryIO:
    """A new log, or an old one cut to the bytes that count (one that is shorter was tampered with, and begun anew)."""
    going_on = kept > 0 and path.exists() and path.stat().st_size >= kept
    file: BinaryIO = open(path, "r+b" if going_on else "wb")  # noqa: SIM115 (closed by Log)
    if going_on:
        file.truncate(kept)
        file.seek(kept)
    else:
        file.write(HEADER)
    return file


def _tensorboard(folder: Path, done: int) -> Any:
    """A writer that hides what an earlier process wrote of steps after `done`; None without TensorBoard."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(folder, purge_step=done + 1 if done else None)


class _Bar:
    """Steps of the whole run, the loss terms by name, the time left; on standard error."""

    def __init__(self, done: int, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        names = TextColumn("{task.description}"), BarColumn(bar_width=20), MofNCompleteColumn()
        times = TextColumn("left"), TimeRemainingColumn(), TextColumn("{task.fields[terms]}")
        self._bar = Progress(*names, *times, console=Console(stderr=True), refresh_per_second=2)
        self._task = self._bar.add_task("training", total=total, completed=done, terms="")
        if self._bar.console.is_terminal:
            self._bar.start()

    def step(self, description: str, terms: str) -> None:
        self._bar.update(self._task, advance=1, description=description, terms=terms)

    def say(self, line: str) -> None:
        """A line that stays: above the bar, or in the log where there is no terminal."""
        if self._bar.console.is_terminal:
            self._bar.console.print(line, highlight=False)
        else:
            logger.info(line)

    def close(self) -> None:
        if self._bar.live.is_started:
            self._bar.stop()
