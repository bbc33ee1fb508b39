"""Attack groundling with damaged inputs of our own making, and count what happens.

    python tools/attack.py                     # all of it: 10,000 inputs and 300 kills
    python tools/attack.py --seconds 60        # a slice of every kind of attack
    python tools/attack.py --only scores stores --first 500 --cases 100 --seed 7

Every case runs in a process of its own, with 20 seconds of processor time and 2 GB of memory. Printed are, for each
kind of attack: tried; refused (code 1 or 2, one line); survived (code 0); failed (a traceback, a hang, too much memory,
a silent change, a lost line, control characters on the terminal). Code 1 if anything failed. The same seed makes the
same cases.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
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
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from attack_cases import ATTACKS, Attack

import groundling as package
from groundling.cli import main as groundling

HANG, MEMORY = 20, 2 << 30  # seconds of a processor (six times as many by the clock), bytes
EVERY = 500  # cases are told
CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")  # but tab and newline


def tried(attack: Attack, seed: str) -> tuple[str, str]:
    """What became of one case: refused, survived, or failed and why."""
    place = Path(tempfile.mkdtemp(prefix="attack-"))
    try:
        if (child := os.fork()) == 0:
            os._exit(_run(attack, seed, place))
        code, wrong = _watched(child, place)
        if wrong:
            return "failed", wrong
        return "survived" if code == 0 else "refused", ""
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _run(attack: Attack, seed: str, place: Path) -> int:
    """In the child: make the case, run it with limits, write down a traceback."""
    from groundling.errors import GroundlingError

    try:
        (place / "case").mkdir()
        os.chdir(place / "case")  # what a library leaves behind when it is short of memory stays there
        told = os.open(place / "told", os.O_CREAT | os.O_WRONLY)
        for number in (1, 2):
            os.dup2(told, number)
        task = attack(random.Random(seed), place / "case")
        _limit()
        if callable(task):
            task()
            return 0
        return groundling(task)
    except GroundlingError:
        return 2
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    except BaseException:
        (place / "traceback").write_text(traceback.format_exc(), errors="replace")
        return 3
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _limit() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (HANG, HANG + 1))


def _watched(child: int, place: Path) -> tuple[int, str]:
    """The code of a child, and what is wrong with how it ended, or nothing."""
    end = time.monotonic() + 6 * HANG
    while not (ended := os.wait4(child, os.WNOHANG))[0]:
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return -1, f"no end after {6 * HANG} seconds"
        time.sleep(0.002)
    code, used = os.waitstatus_to_exitcode(ended[1]), ended[2].ru_maxrss * 1024
    told = (place / "told").read_bytes() if (place / "told").exists() else b""
    if (place / "traceback").exists():
        return code, (place / "traceback").read_text()
    if code < 0:
        return code, f"killed by signal {-code}: {HANG} seconds of processor time, or a crash"
    if used > MEMORY or b"does not fit into memory" in told:
        return code, f"{used:,} bytes of memory"
    if found := CONTROL.search(told):
        return code, f"{found[0]!r} was printed"
    return code, "" if b"Traceback (most recent" not in told else told.decode(errors="replace")


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
        for name, case in _cases(args):
            what, wrong = tried(ATTACKS[name][0], seed := f"{name} {args.seed} {case}")
            found[name][what] += 1
            if not sum(map(Counter.total, found.values())) % EVERY:
                print(f"  {sum(found.values(), Counter())}", file=sys.stderr, flush=True)
            if wrong:
                print(f"  {seed}: {wrong.strip().splitlines()[-1][:150]!r}", file=sys.stderr, flush=True)
                if args.keep:
                    (args.keep / f"{seed.replace(' ', '-')}.txt").write_text(wrong)
    print(f"{'attack':<12} {'tried':>6} {'refused':>8} {'survived':>9} {'failed':>7}")
    for name, counts in (*found.items(), ("all", sum(found.values(), Counter()))):
        columns = f"{counts.total():>6} {counts['refused']:>8} {counts['survived']:>9} {counts['failed']:>7}"
        print(f"{name:<12} {columns}")
    return 1 if any(counts["failed"] for counts in found.values()) else 0


def _cases(args: argparse.Namespace) -> Iterator[tuple[str, int]]:
    """A case of every kind in turn, until all are tried or the time is over."""
    end = time.monotonic() + args.seconds if args.seconds else float("inf")
    last = {name: args.first + args.cases if args.cases else ATTACKS[name][1] for name in args.only}
    for case in range(args.first, max(last.values())):
        for name in args.only:
            if time.monotonic() > end:
                return
            if case < last[name]:
                yield name, case


if __name__ == "__main__":
    sys.exit(main())
