"""`groundling serve`: a page for people, JSON for programs."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from groundling.commands import whole_number

if TYPE_CHECKING:
    from groundling.serve.settings import Settings

DESCRIPTION = """\
Start a web server: a page to drop photos on, and an API in JSON. Without --model it uses the captioner and the
grounder of the package. Nothing leaves this machine.

Open http://127.0.0.1:8000/ for the page, /docs for the API, /metrics for Prometheus. Ctrl-C or SIGTERM ends the server
after the requests that it has accepted.

Only this machine can reach the server, unless --host says otherwise. Then the server demands a token, or --open lets
everybody in. Give it the token by --token-file or by the environment variable GROUNDLING_TOKEN; by --token other
users of the machine can see it. The page asks its user for the token once.

With --review, people review the labels that `groundling label` made, the least certain first, each in a browser of
their own; every decision is on the disk before the next label is shown. With --index, people search in labelled
photos."""

EPILOG = """\
examples:
  groundling serve
  groundling serve --port 9000 --model runs/captioner --grounder runs/grounder
  groundling serve --review labels/        # then: groundling label --out labels --apply labels/review.jsonl
  openssl rand -hex 32 > token; groundling serve --host 0.0.0.0 --token-file token
  curl -H 'Content-Type: image/jpeg' --data-binary @photo.jpg http://127.0.0.1:8000/v1/caption
  curl -H 'Content-Type: image/jpeg' --data-binary @photo.jpg 'http://127.0.0.1:8000/v1/ground?sentence=a+dog'"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen on (default 127.0.0.1)"
    )
    parser.add_argument(
        "--port", type=int, default=8000, metavar="N", help="port to listen on; 0: any free one (default 8000)"
    )
    parser.add_argument(
        "--model",
        default="",
        metavar="RUN",
        help="folder of a captioner, or that `adapt` wrote (default: the package's)",
    )
    parser.add_argument("--grounder", default="", metavar="RUN", help="folder of a calibrated grounder")
    group = parser.add_argument_group("access")
    group.add_argument("--token", metavar="TEXT", help="demand this token; other users of the machine can see it")
    group.add_argument("--token-file", metavar="FILE", help="demand the token that is in this file")
    group.add_argument("--open", action="store_true", help="let other machines in without a token")
    group.add_argument(
        "--cors", action="append", default=[], metavar="ORIGIN", help="allow requests of pages of this origin (CORS)"
    )
    group = parser.add_argument_group("review and search")
    group.add_argument("--review", default="", metavar="LABELS", help="folder that `groundling label` wrote, to review")
    group.add_argument(
        "--reviews", type=Path, metavar="FILE", help="file that keeps every decision (default LABELS/review.jsonl)"
    )
    group.add_argument(
        "--review-limit", type=whole_number(1), default=1000, metavar="N", help="labels to review (default 1000)"
    )
    group.add_argument("--index", type=Path, metavar="INDEX", help="folder that `groundling index` wrote, to search in")
    group = parser.add_argument_group("limits")
    group.add_argument("--max-mb", type=int, default=20, metavar="N", help="largest request in MB (default 20)")
    group.add_argument(
        "--max-pixels", type=int, default=40_000_000, metavar="N", help="most pixels of an image (default 40,000,000)"
    )
    group.add_argument(
        "--waiting", type=int, default=64, metavar="N", help="requests that may wait for their turn (default 64)"
    )
    group.add_argument("--deadline", type=float, default=30.0, metavar="S", help="seconds for a response (default 30)")
    group.add_argument(
        "--window-ms",
        type=float,
        default=20.0,
        metavar="MS",
        help="milliseconds that an image waits for others, if there are any, to be captioned together (default 20)",
    )
    group.add_argument(
        "--remember", type=int, default=64, metavar="N", help="number of images whose regions are kept (default 64)"
    )
    parser.add_argument("--quiet", action="store_true", help="do not write a line for each request")


def run(args: argparse.Namespace) -> None:
    settings = _settings(args)
    try:
        from groundling.serve import run as server
    except ImportError as error:
        from groundling.errors import MissingExtra

        raise MissingExtra(f"the server needs {error.name}; run: pip install 'groundling[serve,photos]'") from error
    if args.model or args.grounder:
        _check_models(args.model, args.grounder)
    server.log_to_stderr(args.quiet)
    listener = server.listen(settings)
    print(f"groundling: open {server.address(settings, listener)}  (Ctrl-C ends)", flush=True)
    server.serve(settings, listener)


def _check_models(model: str, grounder: str) -> None:
    """Before the server listens: a name that is mistyped is told at once."""
    from groundling.inference.captioner import folders
    from groundling.recipes import require_model

    for folder in folders(model, grounder):
        if folder is not None:
            require_model(folder)


def _settings(args: argparse.Namespace) -> Settings:
    from groundling.serve.settings import MB, Limits, Settings

    limits = Limits(
        body=args.max_mb * MB,
        pixels=args.max_pixels,
        waiting=args.waiting,
        deadline=args.deadline,
        window=args.window_ms / 1000,
        remembered=args.remember,
    )
    return Settings(
        host=args.host,
        port=args.port,
        token=_token(args.token, args.token_file),
        open=args.open,
        origins=tuple(args.cors),
        model=args.model,
        grounder=args.grounder,
        review=args.review,
        reviews=args.reviews,
        review_limit=args.review_limit,
        index=args.index,
        limits=limits,
    )


def _token(text: str | None, name: str | None) -> str:
    from groundling.errors import GroundlingError

    if text is not None and not text:
        raise GroundlingError("--token is empty: make one with `openssl rand -hex 32`")
    if text is not None and name:
        raise GroundlingError("give the token with --token or with --token-file, not both")
    if text is not None:
        return text
    if not name:
        return os.environ.get("GROUNDLING_TOKEN", "")
    try:
        token = Path(name).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise GroundlingError(f"{name}: the token cannot be read: {error}") from error
    if not token:
        raise GroundlingError(f"{name} is empty: write a token into it with `openssl rand -hex 32 > {name}`")
    return token
