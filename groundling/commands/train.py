"""`groundling train`: a recipe, a data set and its regions in, a model out."""

from __future__ import annotations

import argparse
import math
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groundling.commands.flag_types import Renamed
from groundling.errors import GroundlingError

if TYPE_CHECKING:
    import torch

    from groundling.recipes import Recipe
    from groundling.recipes._config import ConfigField
    from groundling.training.checkpoint import State

DESCRIPTION = """\
Train a recipe on a data set and its regions.

Every recipe is a paper; `groundling train RECIPE --help` shows its equations and its config. A run that was stopped, by
Ctrl-C or by a power cut, goes on when the same command is given again, and ends with the same weights as if nothing
had happened."""

EPILOG = """\
examples:
  groundling train updown --data scenes --regions scenes.regions --out runs/updown
  groundling train updown --data scenes --regions scenes.regions --out runs/small --hidden 128 --epochs 5
  torchrun --nproc-per-node 2 -m groundling train updown --data coco --regions coco.regions --out runs/coco

what is written:
  RUN/model.safetensors, model.json   the weights with the best score, and all that is needed to use them
  RUN/last.safetensors                where training stands; may be deleted when it is done
  RUN/log.csv, tensorboard/           every loss at every step, every score after every epoch"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from groundling.recipes import OLD_RECIPES, RECIPES, _config

    parser.description, parser.epilog = DESCRIPTION, EPILOG
    recipes = parser.add_subparsers(dest="recipe", metavar="RECIPE", required=True)
    for name in RECIPES:
        description, fields = _config.read(name)
        first = description.splitlines()[0]
        _add_recipe(recipes.add_parser(name, help=first, **_how(description)), name, fields)
    for old, name in OLD_RECIPES.items():  # not in the list of --help
        description, fields = _config.read(name)
        _add_recipe(recipes.add_parser(old, **_how(description)), name, fields)


def _how(description: str) -> dict[str, Any]:
    return {
        "description": description,
        "allow_abbrev": False,
        "formatter_class": argparse.RawDescriptionHelpFormatter,
    }


def _add_recipe(parser: argparse.ArgumentParser, name: str, fields: Sequence[ConfigField]) -> None:
    """The flags of a recipe: those of the run, and one for each field. Names of version 0.1 work and are not shown."""
    from groundling.recipes import OLD_FIELDS

    _run_arguments(parser)
    group = parser.add_argument_group("config of the recipe")
    types = {field.name: field.type for field in fields}
    for field in fields:
        group.add_argument(
            _flag(field.name),
            dest=f"config_{field.name}",
            type=field.type,
            default=field.default,
            metavar=field.type.__name__.upper(),
            help=f"{field.help} (default {field.default})".replace("%", "%%"),
        )
    for old, new in OLD_FIELDS.get(name, {}).items():
        group.add_argument(_flag(old), dest=f"config_{new}", type=types[new], action=Renamed, now=_flag(new))


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _from_0(kind: type[int] | type[float]) -> Callable[[str], int | float]:
    """The type of a flag that takes no negative number."""

    def parse(text: str) -> int | float:
        value = kind(text)
        if not 0 <= value < math.inf:
            raise argparse.ArgumentTypeError(f"must be 0 or more, got {text}")
        return value

    parse.__name__ = kind.__name__  # argparse names it when the text is no number
    return parse


def _run_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the run")
    group.add_argument(
        "--data", required=True, type=Path, metavar="DATA", help="a data set; `groundling doctor` checks it"
    )
    group.add_argument("--regions", dest="store", required=True, type=Path, metavar="STORE", help="its region store")
    group.add_argument("--out", required=True, type=Path, metavar="RUN", help="folder of the model; a run is resumed")
    group.add_argument(
        "--start",
        type=Path,
        default=None,
        metavar="RUN",
        help="a trained model to begin with: its words, and all weights that fit; a finish, as scst is, needs one",
    )
    group.add_argument("--restart", action="store_true", help="forget the run that is there and begin anew")
    group.add_argument("--train-split", default="train", metavar="NAME", help="split to learn from (default train)")
    group.add_argument(
        "--val-split", default="val", metavar="NAME", help="split to score after each epoch (default val)"
    )
    group.add_argument(
        "--limit", type=_from_0(int), default=0, metavar="N", help="only the first N training images, to try out"
    )
    group.add_argument("--seed", type=_from_0(int), default=0, metavar="S", help="same seed, same weights (default 0)")
    group.add_argument("--device", default="", metavar="NAME", help="cpu, cuda, mps (default: cuda where there is one)")
    group.add_argument(
        "--threads", type=_from_0(int), default=0, metavar="N", help="of the CPU (default: all; small models like 1)"
    )
    group.add_argument(
        "--save-seconds", type=_from_0(float), default=300.0, metavar="S", help="save the state so often (default 300)"
    )
    group.add_argument("--skip-bad", action="store_true", help="leave out items of the data set that cannot be read")


def run(args: argparse.Namespace) -> int:
    import torch

    from groundling.recipes import OLD_RECIPES, recipe_class
    from groundling.training.interrupt import Stopped
    from groundling.training.parallel import processes, rank

    if args.recipe in OLD_RECIPES:
        print(f"groundling: the recipe {args.recipe} is now {OLD_RECIPES[args.recipe]}", file=sys.stderr)
    config = {name.removeprefix("config_"): value for name, value in vars(args).items() if name.startswith("config_")}
    recipe = recipe_class(args.recipe)(**config)
    if args.threads:
        torch.set_num_threads(args.threads)
    with processes(_device(args.device)) as device:
        try:
            state = _train(args, recipe, device)
        except Stopped as stopped:
            if rank() == 0:
                print(f"groundling: {stopped}", file=sys.stderr)
            return 128 + stopped.signum
        if rank() == 0:
            print("\n".join([*map(str, state.best), f"model: {args.out}"]))
    return 0


def _train(args: argparse.Namespace, recipe: Recipe, device: torch.device) -> State:
    from groundling.data.dataset import load
    from groundling.regions.store import Store
    from groundling.training.parallel import one_by_one
    from groundling.training.run import train

    store = Store.open(args.store)
    with one_by_one():  # the first process tags the captions and keeps that on disk for the others
        _make_way(args.out, args.restart)
        dataset = load(args.data, skip_bad=args.skip_bad)
    examples, held_out = dataset.split(args.train_split), dataset.split(args.val_split)
    if args.limit:
        examples = replace(examples, examples=examples.examples[: args.limit])
    return train(
        recipe,
        examples,
        held_out,
        store,
        args.out,
        start=args.start,
        seed=args.seed,
        device=device,
        save_seconds=args.save_seconds,
    )


def _make_way(out: Path, restart: bool) -> None:
    """Delete an earlier run if that was asked for; refuse to write over a model that was trained elsewhere."""
    from groundling.recipes import ABOUT, WEIGHTS
    from groundling.training.checkpoint import LAST

    if out.exists() and not out.is_dir():
        raise GroundlingError(f"--out must be a folder, and {out} is a file")
    if restart:
        for name in (LAST, WEIGHTS, ABOUT, "log.csv"):
            (out / name).unlink(missing_ok=True)
        shutil.rmtree(out / "tensorboard", ignore_errors=True)
    elif (out / ABOUT).exists() and not (out / LAST).exists():
        raise GroundlingError(f"{out} holds a model but not its training state; choose another --out, or --restart")


def _device(name: str) -> torch.device:
    import torch

    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise GroundlingError(f"cannot use --device {name}: {str(error).splitlines()[0]}") from error
    return device
