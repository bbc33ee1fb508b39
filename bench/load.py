"""What a photo costs while other work is on the cores: processor seconds a photo, calm and beside busy processes.

    python bench/load.py [--photos 24] [--busy 4] [--repeats 3] [--json load.json]

Captions the same photos with the command line, a few and many of them; the difference of the two divided by the
difference in photos is free of what starting costs. Processor seconds are those of the command and its threads (user
and system), so threads that wait by spinning are counted, and waiting for a turn is not. Calm and loaded runs
alternate. The load of the machine is printed: "calm" is as calm as the machine is.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import groundling

FEW = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=int, default=24, help="(default 24; more than 4)")
    parser.add_argument("--busy", type=int, default=4, help="busy processes of the loaded runs (default 4)")
    parser.add_argument("--repeats", type=int, default=3, help="of each (default 3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers here")
    args = parser.parse_args()
    found: dict[str, list[float]] = {"calm": [], "loaded": []}
    with tempfile.TemporaryDirectory() as name:
        few, many = (photos(Path(name) / str(count), count) for count in (FEW, args.photos))
        for _ in range(args.repeats):
            for kind, busy in (("calm", 0), ("loaded", args.busy)):
                with beside(busy):
                    cost = (spent(many) - spent(few)) / (args.photos - FEW)
                found[kind].append(cost)
                print(f"{kind:7} {cost:.3f} processor seconds a photo (load {os.getloadavg()[0]:.1f})", flush=True)
    calm, loaded = (statistics.median(found[kind]) for kind in ("calm", "loaded"))
    print(f"calm {calm:.3f}, beside {args.busy} busy processes {loaded:.3f}: {loaded / calm:.2f} times (goal: 1.5)")
    if args.json:
        about = {"busy": args.busy, "photos": args.photos, "cores": os.cpu_count(), "load": os.getloadavg()}
        args.json.write_text(json.dumps(about | found | {"ratio": loaded / calm}, indent=1) + "\n")


def photos(folder: Path, count: int) -> Path:
    """So many photos: those of the package, under several names."""
    folder.mkdir()
    ours = sorted((Path(groundling.__file__).parent / "serve" / "photos").glob("*.jpg"))
    for i in range(count):
        shutil.copy(ours[i % len(ours)], folder / f"{i}.jpg")
    return folder


def spent(folder: Path) -> float:
    """Processor seconds of one `groundling caption`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "groundling", "caption", str(folder), "--json"], check=True, capture_output=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@contextmanager
def beside(count: int) -> Iterator[None]:
    """Busy processes for as long as it takes."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    time.sleep(0.2 if others else 0)
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


if __name__ == "__main__":
    main()
