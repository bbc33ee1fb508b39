"""The `groundling` command: runs a subcommand and tells errors in one line."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

from groundling import commands
from groundling.errors import GroundlingError


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else list(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        return commands.call(argv)
    except GroundlingError as error:
        print(f"groundling: {error}", file=sys.stderr)
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


if __name__ == "__main__":
    sys.exit(main())
