"""The whole path on drawn scenes: data, regions, training, captions, scores, a page."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "The whole path on drawn scenes: data, regions, training, captions, scores, a page.\n\n"
        "Every step is a command of its own, printed before it runs, so that this is also a tutorial. What is done\n"
        "already is not done again: a demo that was stopped goes on."
    )
    parser.add_argument("folder", type=Path, nargs="?", default=Path("demo"), help="where all goes (default demo)")
    parser.add_argument("--images", type=int, default=1500, help="how many scenes (default 1500)")
    parser.add_argument("--epochs", type=int, default=12, help="how long to train (default 12)")


def run(args: argparse.Namespace) -> int:
    from groundling.cli import main

    folder: Path = args.folder
    scenes, regions, model = folder / "scenes", folder / "regions", folder / "model"
    captions, page = folder / "test.jsonl", folder / "page.html"
    steps = [
        f"scenes {scenes} --images {args.images}",
        f"regions extract {scenes} --source scenes --out {regions}",
        f"doctor {scenes} --regions {regions}",
        f"train updown --data {scenes} --regions {regions} --out {model} --epochs {args.epochs} {SMALL}",
        f"caption {scenes} --split test --regions {regions} --model {model} --out {captions}",
        f"score {captions} --data {scenes} --split test",
        f"report {captions} --data {scenes} --split test -o {page} --title 'Scenes: what the captions point at'",
    ]
    for number, step in enumerate(steps, start=1):
        words = shlex.split(step)
        if words[0] == "scenes" and (scenes / "test.txt").exists():
            continue
        print(f"\n[{number}/{len(steps)}] groundling {step}", flush=True)
        if code := main(words):
            return code
    print(f"\nOpen {page.resolve()} in a browser.")
    return 0


SMALL = "--hidden 192 --embed 192 --attention 192 --lr 2e-3 --min-count 2"
