"""The container recipe, the systemd unit and the docs, checked where they cannot be run."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from groundling.commands import serve
from groundling.serve import openapi

ROOT = Path(__file__).parent.parent.parent
INSTRUCTIONS = {
    "FROM",
    "ARG",
    "ENV",
    "COPY",
    "RUN",
    "USER",
    "WORKDIR",
    "EXPOSE",
    "STOPSIGNAL",
    "HEALTHCHECK",
    "ENTRYPOINT",
}


def understood(words: list[str]) -> argparse.Namespace:
    """Words after `groundling serve`; SystemExit where the command would refuse them."""
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    return parser.parse_args(words)


def test_the_container_runs_without_root_and_starts_a_command_that_exists() -> None:
    text = re.sub(r"\\\n", " ", (ROOT / "deploy/Containerfile").read_text())
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    steps = dict(lines)
    assert {name for name, _ in lines} <= INSTRUCTIONS
    assert steps["USER"].split(":")[0] not in ("0", "root")
    order = [name for name, _ in lines]
    assert order.index("RUN") < order.index("USER") < order.index("ENTRYPOINT")
    program, command, *words = json.loads(steps["ENTRYPOINT"])
    assert (program, command) == ("groundling", "serve") and understood(words).host == "0.0.0.0"
    extras = re.search(r"/source\[([a-z,]+)\]", steps["RUN"])
    known = (ROOT / "pyproject.toml").read_text()
    assert extras and all(f"\n{extra} = [" in known for extra in extras[1].split(","))


def test_the_unit_starts_a_command_that_exists_and_keeps_it_from_the_system() -> None:
    text = (ROOT / "deploy/groundling.service").read_text()
    rows = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    program, command, *words = shlex.split(rows["ExecStart"])
    assert program.endswith("/groundling") and command == "serve" and understood(words).token_file
    assert rows["DynamicUser"] == rows["NoNewPrivileges"] == "yes" and rows["ProtectSystem"] == "strict"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd here")
def test_systemd_knows_every_line_of_the_unit() -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", str(ROOT / "deploy/groundling.service")],
        capture_output=True,
        text=True,
    )
    told = [line for line in done.stderr.splitlines() if "groundling.service" in line]
    assert [line for line in told if "is not executable" not in line] == []  # the program is not installed here


def test_every_curl_line_of_the_docs_asks_for_an_address_that_exists() -> None:
    text = re.sub(r"\\\n", " ", (ROOT / "docs/serve.md").read_text())
    paths = re.findall(r"http://(?:127\.0\.0\.1|HOST):8000(/v1/[a-z/]+)", text)
    assert len(paths) >= 8 and set(paths) <= set(openapi.document()["paths"])
    for line in re.findall(r"^\$ groundling serve(.*)$", text, re.MULTILINE):
        understood(shlex.split(line))
