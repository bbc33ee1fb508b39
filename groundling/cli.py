"""The `groundling` command: runs a subcommand and prints an error as one line."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Sequence

from groundling import commands
from groundling.errors import GroundlingError, printable

PATIENT = {  # OpenMP is torch's pool; OpenBLAS is numpy's, whose products are small
    "OMP_WAIT_POLICY": "PASSIVE",
    "KMP_BLOCKTIME": "0",
    "OPENBLAS_NUM_THREADS": "1",
    "OPENCV_THREAD_POOL_ACTIVE_WAIT_MAIN": "0",
    "OPENCV_THREAD_POOL_ACTIVE_WAIT_WORKER": "0",
}
EXTRA_OF = {"torch": "train", "spacy": "train", "cv2": "photos", "efficientnet_lite_pytorch": "photos"}


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else list(argv)
    _prepare_output()
    _share_cores(argv[:1])
    try:
        return commands.call(argv)
    except GroundlingError as error:
        print(f"groundling: {printable(str(error))}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRA_OF:
            raise
        print(f"groundling: {_missing(argv[0], str(error.name))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("groundling: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 141
    except OSError as error:  # a full disk, a folder that may not be written
        print(f"groundling: {printable(f'{error.filename or argv[0]}: {error.strerror or error}')}", file=sys.stderr)
        return 2


def _missing(command: str, module: str) -> str:
    """Scoring needs none of the extras, so they may not be there."""
    extra = "photos" if command in ("caption", "ground", "demo") else EXTRA_OF[module.partition(".")[0]]
    return f"{command} needs {module}, which is not installed; run: pip install 'groundling[{extra}]'"


def _share_cores(command: Sequence[str]) -> None:
    """Threads that wait must not take the cores of those that work, ours or others': read when libraries are loaded.

    Training keeps the ways of the libraries: its threads have work at once, and it has the machine for itself.
    """
    if not {"train", "adapt", "seeds", "reproduce"} & set(command):
        for name, value in PATIENT.items():
            os.environ.setdefault(name, value)


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
