"""What Windows lacks or forbids, taken away here: the commands of a first hour run all the same.

There are no fcntl, fork, signal masks and users; no folder can be opened as a file; and a file that is open can be
neither replaced nor removed. A text file that is opened without an encoding is an error, for it would be another one
there. All of this holds in worker processes too, which import the same `sitecustomize`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PLATFORM = '''
import errno, os, shutil, signal, sys, warnings

for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
for module, names in {
    os: ("fork", "getuid", "geteuid", "getgid", "O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY", "getloadavg", "mkfifo"),
    signal: ("pthread_sigmask", "SIGKILL", "SIGHUP", "SIGALRM", "alarm", "setitimer"),
}.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
shutil._use_fd_functions = False
warnings.filterwarnings("error", category=EncodingWarning, module="groundling")

def _open_files():
    for number in os.listdir("/proc/self/fd"):
        try:
            yield os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            pass

def _refusing(call, first):
    """`call`, refused for files that are open; `first` is how many of its arguments are names of files."""
    def checked(*names, **others):
        held = set(_open_files())
        for name in names[:first]:
            if not isinstance(name, int) and os.path.realpath(os.fsdecode(name)) in held:
                raise PermissionError(errno.EACCES, "used by another process", os.fsdecode(name))
        return call(*names, **others)
    return checked

for name, first in {"replace": 2, "rename": 2, "unlink": 1, "remove": 1}.items():
    setattr(os, name, _refusing(getattr(os, name), first))

def _opening(path, *others, open=os.open, **named):
    if not isinstance(path, int) and os.path.isdir(path):
        raise PermissionError(errno.EACCES, "a folder", os.fsdecode(path))
    return open(path, *others, **named)

os.open = _opening
'''
CHECK = """
import os, signal, sys
assert not hasattr(os, "fork") and not hasattr(signal, "pthread_sigmask")
from groundling.cli import main
for words in COMMANDS:
    assert main(words) == 0, words
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="open files are looked up in /proc")
def test_drawing_extracting_training_and_captioning_need_nothing_that_windows_lacks(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(PLATFORM)
    data, regions, model, out = (str(tmp_path / name) for name in ("data", "regions", "model", "out.jsonl"))
    tiny = ["--hidden", "16", "--embed", "16", "--attention", "16", "--epochs", "1", "--batch", "8", "--min-count", "1"]
    commands = [
        ["scenes", data, "--images", "20", "--size", "96", "--workers", "2", "--splits", "0.6", "0.2", "0.2"],
        ["regions", "extract", data, "--source", "scenes", "--out", regions, "--workers", "2"],
        ["doctor", data, "--regions", regions],
        ["train", "updown", "--data", data, "--regions", regions, "--out", model, *tiny],
        ["caption", data, "--split", "test", "--regions", regions, "--model", model, "--out", out],
        ["caption", data, "--split", "test", "--model", model, "--png", str(tmp_path / "png")],
        ["score", out, "--data", data, "--split", "test"],
    ]
    paths = [str(tmp_path / "site"), str(ROOT)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONWARNDEFAULTENCODING": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CHECK.replace("COMMANDS", json.dumps(commands))],
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(Path(out).read_text(encoding="utf-8").splitlines()) == 4
    assert not Path(f"{out}.part").exists()


def test_the_simulation_notices_what_windows_would_refuse(tmp_path: Path) -> None:
    """Replacing a file that is open, and opening a folder, fail in it."""
    (tmp_path / "sitecustomize.py").write_text(PLATFORM)
    code = "import os\nopen('a', 'w').close()\nheld = open('a')\ntry:\n    os.replace('a', 'b')\n"
    code += "except PermissionError:\n    print('refused')\ntry:\n    os.open('.', 0)\n"
    code += "except PermissionError:\n    print('refused')"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.split() == ["refused", "refused"], done.stderr
