"""A slice of `make attack`: damaged inputs and kills without a traceback, a hang or a silent change."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parent.parent / "tools" / "attack.py"


def test_a_slice_of_every_kind_of_attack_finds_nothing() -> None:
    done = subprocess.run([sys.executable, str(TOOL), "--cases", "8"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].split()[:2] == ["all", str(8 * 13)]


def test_what_fails_is_counted(tmp_path: Path) -> None:
    """A generator that raises, one that prints control characters, one that takes memory without end."""
    code = "import attack, sys\nattack._import_all = lambda: None\nattack.ATTACKS.clear()\n"
    code += "attack.ATTACKS['a'] = (lambda draw, place: 1 / 0, 1)\n"
    code += "attack.ATTACKS['b'] = (lambda draw, place: lambda: print('\\x1b'), 1)\n"
    code += "attack.ATTACKS['c'] = (lambda draw, place: lambda: bytes(3 << 30), 1)\n"
    code += "attack.ATTACKS['d'] = (lambda draw, place: ['convert', str(place / 'none')], 1)\n"
    code += "sys.exit(attack.main())"
    done = subprocess.run([sys.executable, "-c", code], cwd=TOOL.parent, capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout.splitlines()[-1].split() == ["all", "4", "1", "0", "3"], done
