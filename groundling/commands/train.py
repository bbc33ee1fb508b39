"""`groundling train`: a recipe, a data set and its regions in, a model out."""

from __future__ import annotations

import argparse
import math
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groundling.commands import Renamed
from groundling.errors import GroundlingError

if TYPE_CHECKING:
    import torch

    from groundling.data.dataset import Dataset
    from groundling.recipes import Recipe
    from groundling.recipes._config import ConfigField
    from groundling.regions.store import Store
    from groundling.training.checkpoint import State

DESCRIPTION = """\
Train a recipe on a data set and its regions.

A recipe is one paper; `groundling train RECIPE --help` shows its equations and its settings. A recipe of your own is a
Python file (`groundling train path/to/my_recipe.py --help`), or comes with a package that you installed. If a run is
stopped, by Ctrl-C or by a power cut, the same command continues it, and ends with the same weights as without the
stop."""

EPILOG = """\
examples:
  groundling train updown --data scenes --regions scenes.regions --out runs/updown
  groundling train updown --data scenes --regions scenes.regions --out runs/small --hidden 128 --epochs 5
  groundling train my_recipe.py --data scenes --regions scenes.regions --out runs/mine
  torchrun --nproc-per-node 2 -m groundling train updown --data coco --regions coco.regions --out runs/coco

what is written:
  RUN/model.safetensors, model.json   the weights with the best score, and all that is needed to use them
  RUN/last.safetensors                the state of training; may be deleted when it is done
  RUN/calibration.json                of a grounder: the calibration of its evidence, fitted on the validation split
  RUN/log.csv, tensorboard/           every loss at every step, every score after every epoch"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from groundling.recipes import OLD_RECIPES, RECIPES, _config
    from groundling.recipes._registry import files, installed

    parser.description, parser.epilog = DESCRIPTION, EPILOG
    recipes = parser.add_subparsers(dest="recipe", metavar="RECIPE", required=True)
    for name in (*RECIPES, *installed(), *files):
        try:
            description, fields = _config.read(files.get(name, name))
        except GroundlingError as error:  # of another package: no reason not to train others
            if name not in installed():
                raise
            recipes.add_parser(name, help=str(error).replace("%", "%%"), **_how(str(error)))
            continue
        first = description.partition("\n")[0]
        _add_recipe(recipes.add_parser(name, help=first, **_how(description)), name, fields)
    for old, name in OLD_RECIPES.items():  # not in the list of --help
        description, fields = _config.read(name)
        _add_recipe(recipes.add_parser(old, **_how(description)), name, fields)


def prepare(argv: Sequence[str]) -> None:
    """Import the recipe of a file that is named in place of a recipe, before the flags are read."""
    from groundling.recipes._registry import from_file

    for word in argv[list(argv).index("train") + 1 :][:1]:
        if word.endswith(".py"):
            from_file(Path(word), word)


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
    group = parser.add_argument_group("settings of the recipe")
    for field in fields:
        default = int(field.default) if isinstance(field.default, bool) else field.default
        line = (field.help if default == "" else f"{field.help} (default {default})").replace("%", "%%")
        _config_argument(group, _flag(field.name), field, default=field.default, help=line)
    new = {field.name: field for field in fields}
    for old, now in OLD_FIELDS.get(name, {}).items():
        kind = _switch if new[now].type is bool else new[now].type
        group.add_argument(_flag(old), dest=f"config_{now}", type=kind, action=Renamed, now=_flag(now))


def _config_argument(group: argparse._ArgumentGroup, flag: str, field: ConfigField, **more: Any) -> None:
    """A flag for a field; for one that is true or false `--flag`, `--no-flag`, and `--flag 0` too."""
    more |= {"dest": f"config_{field.name}"}
    if field.type is bool:
        group.add_argument(flag, nargs="?", const=True, type=_switch, metavar="0|1", **more)
        group.add_argument(f"--no-{flag[2:]}", action="store_false", **more | {"help": argparse.SUPPRESS})
    else:
        group.add_argument(flag, type=field.type, metavar=field.type.__name__.upper(), **more)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _switch(text: str) -> bool:
    from groundling.recipes._config import switch

    try:
        return switch(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


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
    group.add_argument(
        "--out", required=True, type=Path, metavar="RUN", help="folder of the model; a run that is there continues"
    )
    group.add_argument(
        "--start",
        type=Path,
        default=None,
        metavar="RUN",
        help="a trained model to begin with: its words, classes, and weights that fit; recipes such as scst need one",
    )
    group.add_argument(
        "--new-words", action="store_true", help="with --start: also learn the words of DATA that the model lacks"
    )
    group.add_argument("--restart", action="store_true", help="delete the run that is there and begin anew")
    group.add_argument("--train-split", default="train", metavar="NAME", help="split to learn from (default train)")
    group.add_argument(
        "--val-split", default="val", metavar="NAME", help="split to score after each epoch (default val)"
    )
    group.add_argument(
        "--limit", type=_from_0(int), default=0, metavar="N", help="only the first N training images, to try out"
    )
    group.add_argument(
        "--seed",
        type=_from_0(int),
        default=0,
        metavar="S",
        help="seed; the same seed gives the same weights (default 0)",
    )
    group.add_argument("--device", default="", metavar="NAME", help="cpu, cuda, mps (default: cuda where there is one)")
    group.add_argument(
        "--threads",
        type=_from_0(int),
        default=0,
        metavar="N",
        help="threads of the CPU (default: all; small models are faster with 1)",
    )
    group.add_argument(
        "--bfloat16",
        action="store_true",
        help="multiply matrices by oneDNN: in bfloat16 on a CPU with AMX, which is faster, in float32 on one "
        "with AVX512-BF16; not the same bits",
    )
    group.add_argument(
        "--save-seconds",
        type=_from_0(float),
        default=300.0,
        metavar="S",
        help="seconds between two saved states (default 300)",
    )
    group.add_argument("--skip-bad", action="store_true", help="leave out items of the data set that cannot be read")


def run(args: argparse.Namespace) -> int:
    import torch

    from groundling.recipes import OLD_RECIPES, recipe_class
    from groundling.recipes._registry import files
    from groundling.training.interrupt import Stopped
    from groundling.training.parallel import processes, rank
    from groundling.training.precision import require_bfloat16

    if args.recipe in OLD_RECIPES:
        print(f"groundling: the recipe {args.recipe} is now {OLD_RECIPES[args.recipe]}", file=sys.stderr)
    config = {name.removeprefix("config_"): value for name, value in vars(args).items() if name.startswith("config_")}
    recipe = recipe_class(files.get(args.recipe, args.recipe)).of(**config)
    if args.threads:
        torch.set_num_threads(args.threads)
    with processes(_device(args.device)) as device:
        if args.bfloat16 and device.type != "cpu":
            raise GroundlingError(f"--bfloat16 is for the CPU: leave it out, or add --device cpu (here {device.type})")
        if args.bfloat16:
            require_bfloat16()  # before captions are read, which takes a minute
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
    from groundling.regions.store import Store

    store = Store.open(args.store)
    with _alone(args.out):
        return _train_alone(args, recipe, device, store)


def few_photos(n: int, source: str, data: str, started: bool) -> str:
    """What to say before a training from nothing on so few photos; "" where it may work, or goes on with a model."""
    from groundling.commands.doctor_photos import FEW_PHOTOS

    if started or n >= FEW_PHOTOS or not source.startswith("photos"):
        return ""
    measured = "CIDEr-D after 300 photos was 0.11, and 0.35 with adapted weights"
    return f"{n} photos are few to train from nothing ({measured}): try `groundling adapt --data {data}` first"


def _train_alone(args: argparse.Namespace, recipe: Recipe, device: torch.device, store: Store) -> State:
    from groundling.data.dataset import load
    from groundling.training.parallel import one_by_one
    from groundling.training.run import train

    with one_by_one():  # the first process tags the captions and keeps that on disk for the others
        _make_way(args.out, args.restart)
        dataset = load(args.data, skip_bad=args.skip_bad)
    examples, held_out = dataset.split(args.train_split), dataset.split(args.val_split)
    if args.limit:
        examples = replace(examples, examples=examples.examples[: args.limit])
    if warning := few_photos(len(examples), store.fingerprint.name, str(args.data), bool(args.start)):
        print(f"groundling: {warning}", file=sys.stderr)
    state = train(
        recipe,
        examples,
        held_out,
        store,
        args.out,
        start=args.start,
        new_words=args.new_words,
        seed=args.seed,
        device=device,
        save_seconds=args.save_seconds,
        bfloat16=args.bfloat16,
    )
    if args.recipe == "two_branch":
        _calibrate(args.out, held_out, store)
    return state


def _calibrate(out: Path, held_out: Dataset, store: Store) -> None:
    """A grounder's evidence, from the captions of the validation images alone."""
    from groundling.inference.calibration import calibrate_run
    from groundling.training.parallel import one_by_one, rank

    with one_by_one():
        if rank() == 0 and (fitted := calibrate_run(out, held_out, store)):
            print(f"evidence: right for {fitted.accuracy:.2f} of {fitted.tested_on} phrases of validation images")


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """No other run writes to this folder meanwhile; of the processes of one run the first holds the lock."""
    from groundling.files import locked, saving
    from groundling.training.parallel import rank

    if rank() > 0:
        yield
        return
    if out.exists() and not out.is_dir():
        raise GroundlingError(f"--out must be a folder, and {out} is a file")
    with saving(out):
        out.mkdir(parents=True, exist_ok=True)
        if not _of_a_run(out) and (names := sorted(p.name for p in out.iterdir() if not p.name.startswith("."))):
            more = f" and {len(names) - 1} more" if names[1:] else ""
            cure = "name a new folder, or an empty one"
            raise GroundlingError(f"--out {out} holds {names[0]}{more}, and no run of groundling: {cure}")
    with locked(out, "the run"):
        yield


def _of_a_run(out: Path) -> bool:
    """Does a folder hold a run, be it one that was stopped before it had saved anything?"""
    from groundling.data.checks import head
    from groundling.recipes import ABOUT, WEIGHTS
    from groundling.training.checkpoint import LAST
    from groundling.training.log import HEADER

    if (out / LAST).exists() or ((out / ABOUT).exists() and (out / WEIGHTS).exists()):
        return True
    log = out / "log.csv"
    return log.is_file() and HEADER.startswith(head(log, len(HEADER)).encode())


def _make_way(out: Path, restart: bool) -> None:
    """Delete an earlier run if that was asked for; refuse to write over a model that was trained elsewhere."""
    from groundling.files import MANIFEST
    from groundling.recipes import ABOUT, WEIGHTS
    from groundling.training.checkpoint import LAST

    if restart:
        (out / "log.csv").write_bytes(b"")  # the folder stays that of a run
        for name in (LAST, WEIGHTS, ABOUT, MANIFEST):
            (out / name).unlink(missing_ok=True)
        shutil.rmtree(out / "tensorboard", ignore_errors=True)
    elif (out / ABOUT).exists() and not (out / LAST).exists():
        raise GroundlingError(f"{out} holds a model but not its training state; choose another --out, or --restart")


def _device(name: str) -> torch.device:
    import torch

    if name.lower() in ("gpu", "nvidia", "metal"):
        raise GroundlingError(f"cannot use --device {name}: use cuda (NVIDIA), mps (Apple) or cpu")
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise GroundlingError(f"cannot use --device {name}: {str(error).splitlines()[0]}") from error
    return device
