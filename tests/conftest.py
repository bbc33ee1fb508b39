"""Unit tests run on one thread: on loaded cores, tiny tensors are ten times slower with more.

Matrix products take instructions that virtual machines have too: some say that they have AMX and then refuse it.

Ctrl-C is handled: a shell that starts the tests in the background would have it ignored, here and in what they start.
"""

import os
import signal
from contextlib import suppress
from typing import Any

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")  # before torch is imported

from browsers import browser_tests  # noqa: E402
from hypothesis import settings  # noqa: E402

with suppress(ModuleNotFoundError):  # tests of scoring run without it
    import torch

    torch.set_num_threads(1)
settings.register_profile("patient", deadline=None)  # how long an example takes depends on what else the machine does
settings.load_profile("patient")
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    of_browser = {
        outcome: sum("browser" in report.keywords for report in terminalreporter.stats.get(outcome, ()))
        for outcome in ("passed", "failed", "skipped")
    }
    if line := browser_tests(of_browser["passed"] + of_browser["failed"], of_browser["skipped"]):
        terminalreporter.write_line(line)
