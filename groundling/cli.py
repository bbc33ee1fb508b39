"""The `groundling` command: runs a subcommand and prints an error as one line."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from groundling import commands
from groundling.errors import GroundlingError, printable
from groundling.progress import wait_passively, wait_shortly

EXTRA_OF = {"torch": "train", "spacy": "train", "cv2": "photos", "efficientnet_lite_pytorch": "photos"}


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else list(argv)
    _prepare_output()
    _share_cores(argv[:1])
    try:
        return _called(argv)
    finally:
        _end_output()


def _called(argv: Sequence[str]) -> int:
    try:
        code = commands.call(argv)
        sys.stdout.flush()
        return code
    except GroundlingError as error:
        return _failed(str(error), 2)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRA_OF:
            raise
        return _failed(_missing(argv[0], str(error.name)), 2)
    except KeyboardInterrupt:
        return _failed("stopped", 130)
    except BrokenPipeError:
        return 141
    except OSError as error:  # a full disk, a folder that may not be written
        return _failed(f"{error.filename or argv[0]}: {error.strerror or error}", 2)


def _failed(message: str, code: int) -> int:
    with suppress(OSError):  # the disk of the standard error may be the full one
        print(f"groundling: {printable(message)}", file=sys.stderr)
    return code


def _end_output() -> None:
    """Drop what a full disk or a closed pipe did not take: Python would try again in the end, and complain."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with suppress(OSError), open(os.devnull, "w") as nothing:
                os.dup2(nothing.fileno(), stream.fileno())


def _missing(command: str, module: str) -> str:
    """Scoring needs none of the extras, so they may not be there."""
    extra = "photos" if command in ("caption", "ground", "demo") else EXTRA_OF[module.partition(".")[0]]
    return f"{command} needs {module}, which is not installed; run: pip install 'groundling[{extra}]'"


def _share_cores(command: Sequence[str]) -> None:
    """Threads that wait must not take the cores of those that work, ours or others': read when libraries are loaded.

    Threads of a training soon have work again, and wait for it a moment.
    """
    if {"train", "adapt", "seeds", "reproduce"} & set(command):
        wait_shortly()
    else:
        wait_passively()
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's, whose products are small


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def _prepare_output() -> None:
    """Log to the standard error; print whatever names files have, even those that are not UTF-8."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter("%(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


if __name__ == "__main__":
    sys.exit(main())
