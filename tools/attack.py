"""Attack groundling with damaged inputs of our own making, and count what happens.

    python tools/attack.py                     # all of it: 10,000 inputs and 300 kills
    python tools/attack.py --seconds 60        # a slice of every kind of attack
    python tools/attack.py --only scores stores --first 500 --cases 100 --seed 7

Cases run in children of this process, a hundred in each, with 20 seconds of processor time and 2 GB of memory for each
case; a new child goes on where a case has ended one. Printed are, for each kind of attack: tried; refused (code 1 or 2,
one line); survived (code 0); failed (a traceback, a hang, too much memory, a silent change, a lost line, control
characters on the terminal). Code 1 if anything failed. The same seed makes the same cases.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import math
import os
import pkgutil
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from attack_cases import ATTACKS

import groundling as package
from groundling.cli import main as groundling

HANG, MEMORY = 20, 2 << 30  # seconds of a processor (six times as many by the clock), bytes
EVERY = 500  # cases are told
BATCH = 100  # cases tried by one child: to make it takes longer than most cases
DONE = 77  # the code of a child that ends by itself
CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")  # but tab and newline


class Case(NamedTuple):
    kind: str
    seed: str


Outcome = tuple[str, str]  # refused, survived or failed; why it failed


def tried(cases: Iterable[Case]) -> Iterator[tuple[Case, Outcome]]:
    """What became of each case, in their order."""
    left = deque(cases)
    while left:
        for outcome in _batch(list(islice(left, BATCH))):
            yield left.popleft(), outcome


def _batch(cases: Sequence[Case]) -> Iterator[Outcome]:
    """What became of the first of these cases, of one at least: a child tries them until one of them ends it."""
    heard, says = Pipe(duplex=False)
    with tempfile.TemporaryDirectory(prefix="attack-", ignore_cleanup_errors=True) as folder:
        if (child := os.fork()) == 0:
            os._exit(_try_all(cases, says, Path(folder)))
        says.close()
        code = None
        try:
            for _ in cases:
                if not heard.poll(6 * HANG):
                    yield "failed", f"no end after {6 * HANG} seconds"
                    return
                try:
                    outcome = heard.recv()
                except EOFError:
                    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                    if code != DONE:
                        yield "failed", f"ended with code {code}: {HANG} seconds of processor time, or a crash"
                    return
                yield outcome
        finally:
            if code is None:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)


def _try_all(cases: Sequence[Case], says: Connection, folder: Path) -> int:
    """In the child: one case after the other. A case that took much memory is its last, so that it alone is blamed."""
    for number, case in enumerate(cases):
        place = folder / str(number)
        (place / "case").mkdir(parents=True)
        outcome = _try(case, place)
        used = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if outcome[0] != "failed" and used > MEMORY:
            outcome = "failed", f"{used:,} bytes of memory"
        says.send(outcome)
        if used > MEMORY // 2:
            break
        shutil.rmtree(place, ignore_errors=True)
    return DONE


def _try(case: Case, place: Path) -> Outcome:
    """Make a case, run it with limits, and classify what it did and printed."""
    told = place / "told"
    os.chdir(place / "case")  # what a library leaves behind when it is short of memory stays there
    file = os.open(told, os.O_CREAT | os.O_WRONLY)
    for number in (1, 2):
        os.dup2(file, number)
    os.close(file)
    try:
        code = _run(case, place / "case")
    except BaseException:
        return "failed", traceback.format_exc()
    finally:
        _limit(resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        sys.stdout.flush()
        sys.stderr.flush()
    printed = told.read_bytes()
    if b"does not fit into memory" in printed:
        return "failed", "more memory than there is"
    if found := CONTROL.search(printed):
        return "failed", f"{found[0]!r} was printed"
    if b"Traceback (most recent" in printed:
        return "failed", printed.decode(errors="replace")
    return "survived" if code == 0 else "refused", ""


def _run(case: Case, place: Path) -> int:
    from groundling.errors import GroundlingError

    task = ATTACKS[case.kind][0](random.Random(case.seed), place)
    has = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _limit(has + MEMORY, math.ceil(time.process_time()) + HANG)
    try:
        if not callable(task):
            return groundling(task)
        task()
        return 0
    except GroundlingError:
        return 2
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2


def _limit(memory: int, seconds: int) -> None:
    limits = {resource.RLIMIT_AS: memory, resource.RLIMIT_CPU: seconds, resource.RLIMIT_FSIZE: resource.RLIM_INFINITY}
    for which, limit in limits.items():
        resource.setrlimit(which, (limit, resource.RLIM_INFINITY))


def _import_all() -> None:
    """Everything that a case may import, so that processes which are forked from here begin with it."""
    import PIL.Image
    import torch

    PIL.Image.init()
    torch.set_num_threads(1)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)
    for name in ("h5py", "rich.console", "rich.progress", "rich.table", "numpy.ma", "filelock", "gzip", "tarfile"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="same seed, same cases (%(default)s)")
    parser.add_argument("--seconds", type=float, default=0, help="stop after so long")
    parser.add_argument("--first", type=int, default=0, help="number of the first case of each kind (%(default)s)")
    parser.add_argument("--cases", type=int, default=0, help="of each kind (default: 10,000 in all, and 300 kills)")
    parser.add_argument("--only", nargs="+", choices=ATTACKS, default=list(ATTACKS), metavar="KIND")
    parser.add_argument("--keep", type=Path, help="folder where failures are described (default: nowhere)")
    return parser.parse_args()


def main() -> int:
    args = _arguments()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that starts it in the background has it ignored
    _import_all()
    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
    found: dict[str, Counter[str]] = {name: Counter() for name in args.only}
    with contextlib.suppress(KeyboardInterrupt):  # what was tried until then is told
        end = time.monotonic() + (args.seconds or math.inf)
        for (name, seed), (what, wrong) in tried(_cases(args)):
            found[name][what] += 1
            if not sum(map(Counter.total, found.values())) % EVERY:
                print(f"  {sum(found.values(), Counter())}", file=sys.stderr, flush=True)
            if wrong:
                print(f"  {seed}: {wrong.strip().splitlines()[-1][:150]!r}", file=sys.stderr, flush=True)
                if args.keep:
                    (args.keep / f"{seed.replace(' ', '-')}.txt").write_text(wrong, errors="replace")
            if time.monotonic() > end:
                break
    print(f"{'attack':<12} {'tried':>6} {'refused':>8} {'survived':>9} {'failed':>7}")
    for name, counts in (*found.items(), ("all", sum(found.values(), Counter()))):
        columns = f"{counts.total():>6} {counts['refused']:>8} {counts['survived']:>9} {counts['failed']:>7}"
        print(f"{name:<12} {columns}")
    return 1 if any(counts["failed"] for counts in found.values()) else 0


def _cases(args: argparse.Namespace) -> Iterator[Case]:
    """A case of every kind in turn."""
    last = {name: args.first + args.cases if args.cases else ATTACKS[name][1] for name in args.only}
    for number in range(args.first, max(last.values())):
        for name in args.only:
            if number < last[name]:
                yield Case(name, f"{name} {args.seed} {number}")


if __name__ == "__main__":
    sys.exit(main())
