"""The subcommands of `groundling`, one module each, imported only when it is called.

A command module has `add_arguments(parser)` and `run(args) -> int | None`, before them `prepare(argv)` where the flags
depend on the words that are given, and keeps its heavy imports inside `run`,
so that `groundling --help` answers at once.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from groundling import __version__
from groundling.errors import did_you_mean, unknown

if TYPE_CHECKING:
    from groundling.parallel import Engine

COMMANDS = {  # name -> one line of help, in the order in which a newcomer needs them
    "demo": "try all steps: captions of real photos, then training and scores on drawn scenes",
    "scenes": "draw a small data set of pictures or clips with captions and boxes",
    "doctor": "check a data set, its regions and this machine before training",
    "regions": "find or import the regions (boxes with features) that models use",
    "train": "train a captioner or grounder by the recipe of a paper",
    "adapt": "adapt the trained weights to your own captioned photos",
    "seeds": "train and score with several seeds; print mean and standard deviation",
    "caption": "caption images and videos, each noun with its box",
    "ground": "find the phrases of a sentence in an image, each with its box",
    "serve": "start a web page for your photos, and a JSON API",
    "label": "add boxes to captioned images, and export them in the formats of other tools",
    "index": "make labelled images searchable by phrases",
    "search": "find images and boxes by a phrase",
    "audit": "check captions of any model: is each noun in its image, and is its box right?",
    "convert": "convert captions with boxes between the formats of models",
    "export": "write the networks as ONNX files, for other programs and devices",
    "report": "write an HTML page that shows captions and their boxes",
    "score": "score captions and their boxes by the metrics of the field",
    "retrieve": "measure retrieval: do captions find their own images?",
    "study": "make a page on which people choose the better boxes of two systems",
    "official": "write the reference and split files of the official grounding evaluators",
    "reproduce": "train and score a table of a paper on your data",
    "tokenize": "print tokens as the caption metrics count them",
    "df": "count document frequencies of a caption corpus, for CIDEr on few images",
}
OLD_COMMANDS = {"labels": ("regions", "classes")}  # read for one more version, with a note
CHOICE = re.compile(r"argument (\S+): invalid choice: '?(.*?)'? \(choose from (.*)\)", re.DOTALL)
UNKNOWN = "unrecognized arguments: "


def call(argv: Sequence[str]) -> int:
    """Run one command, given as its words. Errors are the caller's: `groundling.cli.main` tells them in one line."""
    if argv and argv[0] in OLD_COMMANDS:
        new = OLD_COMMANDS[argv[0]]
        print(f"groundling: the command {argv[0]} is now `groundling {' '.join(new)}`", file=sys.stderr)
        argv = [*new, *argv[1:]]
    parser = _parser(argv)
    teach(parser, argv)
    args = parser.parse_args(argv)
    return args.run(args) or 0


def _parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """Of all commands; only the one that is called knows its arguments."""
    parser = argparse.ArgumentParser(
        prog="groundling",
        description="Caption images so that every noun points to its box; train, check and score such models.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"groundling {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    chosen = next((word for word in argv if word in COMMANDS), None)
    for name, line in COMMANDS.items():
        sub = commands.add_parser(
            name, help=line, description=line, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if name == chosen:
            module = importlib.import_module(f"{__name__}.{name}")
            if hasattr(module, "prepare"):
                module.prepare(argv)
            module.add_arguments(sub)
            sub.set_defaults(run=module.run)
    return parser


# ---------------------------------------------------------------- flags that several commands have


def add_engine(parser: argparse.ArgumentParser, workers: int | None = 1, what: str = "processes") -> None:
    """The flags of commands that share their work out; `workers`: how many, unless told; None: one for each core."""
    usual = "one for each core" if workers is None else workers
    group = parser.add_argument_group("scale")
    group.add_argument(
        "--workers", type=whole_number(1), default=workers, metavar="N", help=f"{what} (default {usual})"
    )
    group.add_argument(
        "--engine", choices=("local", "ray"), default="local", help="who works: this machine (default), or Ray"
    )
    group.add_argument(
        "--address", default="", metavar="ADDRESS", help="address of a Ray cluster (default: one is started here)"
    )


def add_joints(parser: argparse.ArgumentParser) -> None:
    """The flag of commands whose grounder looks at pictures."""
    parser.add_argument(
        "--no-joints",
        dest="joints",
        action="store_false",
        help="find clothes and parts of bodies among the regions alone (default: joints of persons help, which a "
        "published network finds; it learned from labels of joints)",
    )


def engine_of(args: argparse.Namespace) -> Engine:
    """Who does the work of this call; GroundlingError where its flags contradict each other."""
    from groundling.errors import GroundlingError
    from groundling.parallel import ALONE, AVAILABLE_CORES, RAY, Engine

    on_cpu = getattr(args, "device", "cpu") == "cpu"
    workers = args.workers or (AVAILABLE_CORES if on_cpu else 1)
    engine = Engine(workers, args.engine, args.address)
    if engine != ALONE and not on_cpu:
        raise GroundlingError("several workers and --engine ray run on CPUs: leave out --device, or use --workers 1")
    if args.address and args.engine != RAY:
        raise GroundlingError("--address is that of a Ray cluster: add --engine ray")
    return engine


def whole_number(least: int) -> Callable[[str], int]:
    """The type of a flag that takes a whole number, `least` or more."""

    def number(text: str) -> int:  # argparse calls it by this name where the text is none
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"takes a number, {least} or more, got {text}")
        return value

    return number


def whole_numbers(least: int) -> Callable[[str], list[int]]:
    """The type of a flag that takes different whole numbers, `least` or more, with commas between them."""

    def parse(text: str) -> list[int]:
        parts = text.split(",")
        if not all(part.isdecimal() and int(part) >= least for part in parts):
            raise argparse.ArgumentTypeError(
                f"takes whole numbers, {least} or more, with commas between them, got {text!r}"
            )
        values = [int(part) for part in parts]
        if len(set(values)) < len(values):
            raise argparse.ArgumentTypeError(f"a number comes twice in {text}")
        return values

    return parse


def probability(text: str) -> float:
    """The type of a flag that takes a probability."""
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"takes a probability, from 0 to 1, got {text}")
    return value


class Renamed(argparse.Action):
    """A flag by its name of an earlier version: not in --help, works for one more version, and tells the new name."""

    def __init__(self, option_strings: list[str], dest: str, now: str = "", **kwargs: Any) -> None:
        kwargs |= {"default": argparse.SUPPRESS, "help": argparse.SUPPRESS}
        super().__init__(option_strings, dest, **kwargs)
        self.now = now

    def __call__(
        self, parser: argparse.ArgumentParser, args: argparse.Namespace, value: Any, option: str | None = None
    ) -> None:
        print(f"groundling: {option} is now {self.now}", file=sys.stderr)
        setattr(args, self.dest, value)


# ---------------------------------------------------------------- mistyped command lines: one line that names the cure


def teach(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """Let a parser and all below it answer mistakes of a command line in one line."""
    chosen = _chosen(parser, argv)
    for one in _family(parser):
        setattr(one, "error", partial(_refuse, chosen, one))  # noqa: B010


def _chosen(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of the command that these words name, to which argparse ascribes no unknown flag."""
    for word in argv:
        parser = next((below[word] for below in _choices(parser) if word in below), parser)
    return parser


def _refuse(chosen: argparse.ArgumentParser, parser: argparse.ArgumentParser, message: str) -> NoReturn:
    answer = _with_cure(chosen, message)
    parser = chosen if message.startswith(UNKNOWN) else parser
    stop = "" if answer.endswith("?") else "."
    shows = "shows examples" if " " in parser.prog else "lists all commands"
    print(f"groundling: {answer}{stop} `{parser.prog} --help` {shows}", file=sys.stderr)
    raise SystemExit(2)


def _with_cure(chosen: argparse.ArgumentParser, message: str) -> str:
    if match := CHOICE.fullmatch(message):
        what, word, choices = match.groups()
        return unknown(what.lower(), word, re.findall(r"[\w-]+", choices))
    if message.startswith(UNKNOWN):
        rest = message.removeprefix(UNKNOWN).strip()
        flag = next((word.partition("=")[0] for word in rest.split() if word.startswith("-")), None)
        if flag is None:
            cure = "; a sentence is one argument, between quotes; more phrases go with --phrase" if " " in rest else ""
            return f"too many arguments: {rest}{cure}"
        return f"unknown argument {flag}{did_you_mean(flag, _flags(chosen))}"
    return message


def _flags(parser: argparse.ArgumentParser) -> list[str]:
    """All flags but those that are old names of others."""
    actions = [action for one in _family(parser) for action in one._actions if not isinstance(action, Renamed)]
    return [flag for action in actions for flag in action.option_strings]


def _family(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parser and all below it."""
    yield parser
    for choices in _choices(parser):
        for below in choices.values():
            yield from _family(below)


def _choices(parser: argparse.ArgumentParser) -> Iterator[dict[str, argparse.ArgumentParser]]:
    """The parsers below it, by their names."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield action.choices
