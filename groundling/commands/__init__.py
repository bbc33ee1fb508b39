"""The subcommands of `groundling`, one module each, imported only when it is called.

A command module has `add_arguments(parser)` and `run(args) -> int | None`, before them `prepare(argv)` where the flags
depend on the words that are given, and keeps its heavy imports inside `run`,
so that `groundling --help` answers at once.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence

from groundling import __version__
from groundling.commands.mistakes import teach

COMMANDS = {  # name -> one line of help, in the order in which a newcomer needs them
    "demo": "the whole path on drawn scenes: data, regions, training, captions, scores, a page",
    "scenes": "draw little worlds, still or moving, with captions and boxes: a data set made here",
    "doctor": "check a data set, its regions and this machine before training",
    "regions": "make or import the regions that models look at",
    "train": "train a recipe",
    "adapt": "adapt the trained weights to your own captioned photos",
    "seeds": "train, caption and score with several seeds: mean and deviation of every score",
    "caption": "caption images and videos, each noun with its box",
    "ground": "find the phrases of a sentence in an image, each with its box",
    "serve": "a web page to try it on your photos, and an API in JSON",
    "label": "captioned images in, phrases with boxes out, in the formats of other tools",
    "index": "make labelled images searchable by phrases",
    "search": "find images and boxes by what they show",
    "audit": "is each noun of anybody's captions really in its image, and is its box right?",
    "convert": "grounded output of other models: from one convention of boxes to another",
    "labels": "which phrases of a data set have a class of a detector",
    "report": "one HTML page to look at captions and boxes",
    "score": "score captions and their grounding",
    "retrieve": "find images by captions: how distinctive captions are",
    "study": "ask people which of two systems points better",
    "official": "reference and split files for the official grounding evaluators",
    "reproduce": "a whole table of a paper on your data, beside the paper's numbers",
    "tokenize": "tokens as the caption metrics see them",
    "df": "document frequencies of a caption corpus, for CIDEr on few images",
}


def call(argv: Sequence[str]) -> int:
    """Run one command, given as its words. Errors are the caller's: `groundling.cli.main` tells them in one line."""
    parser = _parser(argv)
    teach(parser)
    args = parser.parse_args(argv)
    return args.run(args) or 0


def _parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """Of all commands; only the one that is called knows its arguments."""
    parser = argparse.ArgumentParser(prog="groundling", description="Captions that point.", allow_abbrev=False)
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
