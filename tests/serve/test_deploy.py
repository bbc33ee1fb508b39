"""The container recipe, the systemd unit and the docs, checked where they cannot be run."""

from __future__ import annotations

import argparse
import base64
import configparser
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from clips import write_clip
from server_process import PHOTOS, Running

from groundling.commands import serve
from groundling.serve import openapi
from groundling.serve.run import grace
from groundling.serve.settings import Limits

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs/serve.md"
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
    assert all(";" not in value and "sudo" not in value for name, value in lines if name == "RUN")
    assert not steps["FROM"].endswith(":latest") and ":" in steps["FROM"]
    assert re.fullmatch(r"\d+", steps["EXPOSE"]) and int(steps["EXPOSE"]) == understood([]).port
    check = steps["HEALTHCHECK"].partition("CMD ")[2]
    compile(json.loads(check)[2], "HEALTHCHECK", "exec")
    extras = re.search(r"/source\[([a-z,]+)\]", steps["RUN"])
    known = (ROOT / "pyproject.toml").read_text()
    assert extras and all(f"\n{extra} = [" in known for extra in extras[1].split(","))


def test_the_unit_starts_a_command_that_exists_and_keeps_it_from_the_system() -> None:
    text = (ROOT / "deploy/groundling.service").read_text()
    rows = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    program, command, *words = shlex.split(rows["ExecStart"])
    assert program.endswith("/groundling") and command == "serve" and understood(words).token_file
    parser = configparser.ConfigParser(strict=True, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(text)  # no key twice, no line outside of a section
    assert parser.sections() == ["Unit", "Service", "Install"] and "/token" in rows["LoadCredential"]
    assert int(rows["TimeoutStopSec"]) >= grace(Limits())  # what was accepted is finished
    assert rows["DynamicUser"] == rows["NoNewPrivileges"] == "yes" and rows["ProtectSystem"] == "strict"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd here")
def test_systemd_knows_every_line_of_the_unit() -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", str(ROOT / "deploy/groundling.service")],
        capture_output=True,
        text=True,
    )
    message = [line for line in done.stderr.splitlines() if "groundling.service" in line]
    assert [line for line in message if "is not executable" not in line] == []  # the program is not installed here


def test_every_endpoint_and_option_of_the_docs_exists() -> None:
    text = re.sub(r"\\\n", " ", DOCS.read_text())
    paths = re.findall(r"http://(?:127\.0\.0\.1|HOST):8000(/v1/[a-z/]+)", text)
    assert len(paths) >= 8 and set(paths) <= set(openapi.document()["paths"])
    for line in re.findall(r"^\$ groundling serve(.*)$", text, re.MULTILINE):
        understood(shlex.split(line))


def files_of_the_docs(folder: Path) -> None:
    """The files that the docs name: photo.jpg, clip.mp4, lines.jsonl."""
    content = (PHOTOS / "cat.jpg").read_bytes()
    (folder / "photo.jpg").write_bytes(content)
    write_clip(folder / "clip.mp4")
    (folder / "lines.jsonl").write_text(json.dumps({"id": "a", "image": base64.b64encode(content).decode()}) + "\n")


@pytest.mark.skipif(not shutil.which("curl"), reason="no curl here")
def test_the_curl_lines_of_the_docs_get_responses(server: Running, tmp_path: Path) -> None:
    text = re.sub(r"\\\n *", "", DOCS.read_text())
    lines = [line for line in re.findall(r"^\$ (curl .*)$", text, re.MULTILINE) if "HOST" not in line]
    files_of_the_docs(tmp_path)
    assert len(lines) >= 8
    for line in lines:
        command = line.replace("127.0.0.1:8000", f"127.0.0.1:{server.port}")
        done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=280)
        row = json.loads(done.stdout)
        assert "image" in row and "problem" not in row, f"{line}: {done.stdout} {done.stderr}"


def test_the_python_of_the_docs_runs(server: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [code] = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    files_of_the_docs(tmp_path)
    monkeypatch.chdir(tmp_path)
    exec(code.replace("127.0.0.1:8000", f"127.0.0.1:{server.port}"), {})
