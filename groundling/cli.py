"""The `groundling` command: runs a subcommand and tells errors in one line."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

from groundling import commands
from groundling.errors import GroundlingError

EXTRA_OF = {"torch": "train", "spacy": "train", "cv2": "photos", "efficientnet_lite_pytorch": "photos"}


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else list(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        return commands.call(argv)
    except GroundlingError as error:
        print(f"groundling: {error}", file=sys.stderr)
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
        print(f"groundling: {error.filename or argv[0]}: {error.strerror or error}", file=sys.stderr)
        return 2


def _missing(command: str, module: str) -> str:
    """Scoring needs none of the extras, so they may not be there."""
    extra = "photos" if command in ("caption", "ground", "demo") else EXTRA_OF[module.partition(".")[0]]
    return f"{command} needs {module}, which is not installed; run: pip install 'groundling[{extra}]'"


if __name__ == "__main__":
    sys.exit(main())
