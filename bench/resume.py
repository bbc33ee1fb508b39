"""Is resuming exact? Train once in peace and once with kills (-9) at random moments; compare every file, byte by byte.

    python bench/resume.py [--kills 20] [--seed 0]

The kills hit the real command: while it starts, in the middle of a step, while it saves (which it does all the time
here), while it captions the validation images. Exits with 1 at the first difference.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GROUNDLING = [sys.executable, "-m", "groundling"]
SMALL = {"hidden": 64, "embed": 64, "attention": 64, "batch": 8, "min-count": 1, "save-seconds": 0.05}
FILES = ("last.safetensors", "model.safetensors", "model.json", "log.csv")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    args = parser.parse_args()
    draw = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run("scenes", folder / "scenes", "--images", "80")
        run("regions", "extract", folder / "scenes", "--source", "scenes", "--out", folder / "regions")
        started = time.monotonic()
        run(*train(folder, "whole", args.epochs))
        print(f"uninterrupted: {time.monotonic() - started:.1f} s", flush=True)
        kills = 0
        while kill_at_random(train(folder, "killed", args.epochs), folder / "killed", draw):
            kills += 1
            print(f"kill {kills} of {args.kills}: {progress(folder / 'killed')} rows of the log were saved", flush=True)
            if kills == args.kills:
                run(*train(folder, "killed", args.epochs))
                break
        else:
            print(f"the run was over after {kills} kills: give it more --epochs")
            return 1
        different = [f for f in FILES if (folder / "whole" / f).read_bytes() != (folder / "killed" / f).read_bytes()]
    print(f"{kills} kills: {'different ' + ', '.join(different) if different else 'no difference in a single bit'}")
    return 1 if different else 0


def train(folder: Path, out: str, epochs: int) -> list[str]:
    given = ["--data", str(folder / "scenes"), "--regions", str(folder / "regions"), "--out", str(folder / out)]
    config = [f"--{name}={value}" for name, value in {**SMALL, "epochs": epochs}.items()]
    return ["train", "updown", *given, *config]


def run(*words: object) -> None:
    subprocess.run([*GROUNDLING, *map(str, words)], check=True, capture_output=True)


def kill_at_random(words: list[str], out: Path, draw: random.Random) -> bool:
    """Start the command and kill it: one time in five while it starts, else after it saved once. False: it ended."""
    process = subprocess.Popen([*GROUNDLING, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    before = saved(out)
    early = draw.random() < 0.2
    while process.poll() is None and not early and saved(out) == before:
        time.sleep(0.001)
    time.sleep(draw.random())
    process.kill()
    return process.wait() < 0


def saved(out: Path) -> int:
    state = out / "last.safetensors"
    return state.stat().st_mtime_ns if state.exists() else 0


def progress(out: Path) -> int:
    return (out / "log.csv").read_bytes().count(b"\n") if (out / "log.csv").exists() else 0


if __name__ == "__main__":
    sys.exit(main())
