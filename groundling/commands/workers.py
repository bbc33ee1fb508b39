"""The flags of commands that share their work out: --workers, --engine, --address."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from groundling.commands import whole_number

if TYPE_CHECKING:
    from groundling.parallel import Engine


def add_engine(parser: argparse.ArgumentParser, workers: int = 1, what: str = "processes") -> None:
    """`workers`: how many, unless told."""
    group = parser.add_argument_group("scale")
    group.add_argument(
        "--workers", type=whole_number(1), default=workers, metavar="N", help=f"{what} (default {workers})"
    )
    group.add_argument("--engine", choices=("local", "ray"), default="local", help="this machine (default), or Ray")
    group.add_argument("--address", default="", metavar="ADDRESS", help="of a Ray cluster (default: one started here)")


def engine_of(args: argparse.Namespace) -> Engine:
    """Who does the work of this call; GroundlingError where its flags contradict each other."""
    from groundling.errors import GroundlingError
    from groundling.parallel import RAY, Engine

    engine = Engine(args.workers, args.engine, args.address)
    if not engine.alone and getattr(args, "device", "cpu") != "cpu":
        raise GroundlingError("several workers and --engine ray run on CPUs: leave out --device")
    if args.address and args.engine != RAY:
        raise GroundlingError("--address is that of a Ray cluster: say --engine ray too")
    return engine
