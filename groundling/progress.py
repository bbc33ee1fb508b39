"""The one progress bar: on standard error, with time left, silent where nobody watches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

Thing = TypeVar("Thing")


def track(things: Iterable[Thing], what: str, total: int | None = None, *, quiet: bool = False) -> Iterator[Thing]:
    """Yield `things`, showing how many are done and how long the rest will take."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    times = TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()
    with Progress(*columns, *times, console=Console(stderr=True), disable=quiet) as progress:
        yield from progress.track(things, total=total, description=what)
