"""`groundling seeds`: train, caption and score with several seeds; mean and deviation of every score."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from groundling.commands import whole_numbers
from groundling.errors import GroundlingError

if TYPE_CHECKING:
    from groundling.metrics.spread import Spread
    from groundling.types import Score

DESCRIPTION = """\
Train, caption and score with several seeds, and print the mean and the standard deviation of every score.

After `--` comes a `groundling train` command without --seed and --out. Each seed has its folder, OUT/seed-S, with the
model and its captions of the scored split. Finished runs are kept: if the command is stopped, the same command
continues, and a command with more seeds adds theirs. The deviation is that of a sample (n - 1). A difference of two
systems that is smaller than it may be chance. For the tables of the papers see `groundling reproduce`, which also takes
--seeds."""

EPILOG = """\
examples:
  groundling seeds --out runs/cyclical -- train cyclical --data scenes --regions scenes.regions --hidden 128
  groundling seeds --out runs/updown --seeds 0,1,2,3,4 --split val --json -- train updown --data scenes \\
      --regions scenes.regions"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("words", nargs="+", metavar="TRAIN", help="the command to repeat, after --")
    parser.add_argument("--out", required=True, type=Path, metavar="OUT", help="folder that the runs go to")
    parser.add_argument(
        "--seeds", type=whole_numbers(0), default=[0, 1, 2], metavar="0,1,…", help="seeds (default 0,1,2)"
    )
    parser.add_argument("--split", default="test", metavar="NAME", help="split to caption and score (default test)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    from groundling.metrics.evaluation import finite
    from groundling.metrics.spread import spread

    seeds: list[int] = args.seeds
    train = _train(args.words)
    with redirect_stdout(sys.stderr):  # standard output has the scores
        runs = []
        for number, seed in enumerate(seeds, start=1):
            print(f"seed {seed}, {number} of {len(seeds)}", flush=True)
            folder = args.out / f"seed-{seed}"
            if code := _repeat(args.words, train, folder, seed, args.split):
                return code
            runs.append(_score(train, folder, args.split))
    spreads = spread(runs)
    if args.json:
        rows = [asdict(one) | {"mean": one.mean, "deviation": one.deviation} for one in spreads]
        print(json.dumps({"seeds": seeds, "scores": finite(rows)}, allow_nan=False))
    else:
        _print(spreads, seeds)
    return 0


def _train(words: Sequence[str]) -> argparse.Namespace:
    """The command that is repeated, parsed, so that what is wrong with it is told before the first run."""
    from groundling.commands import train

    own = next((word for word in words if word.partition("=")[0] in ("--seed", "--out")), None)
    if words[0] != "train" or own:
        why = f"{own} is what it gives each run itself" if own else f"got {words[0]!r}"
        raise GroundlingError(f"after -- comes a `train` command without --seed and --out; {why}")
    parser = argparse.ArgumentParser(prog="groundling train", allow_abbrev=False)
    train.prepare(words)
    train.add_arguments(parser)
    return parser.parse_args([*words[1:], "--out", "-"])


def _repeat(words: Sequence[str], train: argparse.Namespace, folder: Path, seed: int, split: str) -> int:
    """Train, and caption if the captions are not those of the model that is there."""
    from groundling.commands import call
    from groundling.recipes import WEIGHTS

    if code := call([*words, "--seed", str(seed), "--out", str(folder)]):
        return code
    captions = folder / f"{split}.jsonl"
    if captions.exists() and captions.stat().st_mtime_ns > (folder / WEIGHTS).stat().st_mtime_ns:
        return 0
    half = captions.with_suffix(".part")
    data, store = str(train.data), str(train.store)
    caption = ["caption", data, "--regions", store, "--split", split, "--model", str(folder), "--out", str(half)]
    caption += ["--device", train.device] if train.device else []
    if code := call(caption + (["--skip-bad"] if train.skip_bad else [])):
        return code
    half.replace(captions)
    return 0


def _score(train: argparse.Namespace, folder: Path, split: str) -> list[Score]:
    from groundling.evaluation.evaluator import CaptionEvaluator
    from groundling.metrics.predictions import read_captions

    evaluator = CaptionEvaluator.of(train.data, split, skip_bad=train.skip_bad)
    return evaluator(read_captions(folder / f"{split}.jsonl")).scores


def _print(spreads: Sequence[Spread], seeds: Sequence[int]) -> None:
    from rich.table import Table

    from groundling.commands.score_table import show

    table = Table("score", box=None, pad_edge=False)
    table.add_column(f"{len(seeds)} seeds", justify="right")
    for seed in seeds:
        table.add_column(f"seed {seed}", justify="right", style="dim")
    table.add_column("signature", style="dim", overflow="fold")
    for one in spreads:
        table.add_row(one.name, str(one), *(f"{value:.4f}" for value in one.values), one.signature)
    show(table)
