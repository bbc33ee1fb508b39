"""What `make test` says of the tests that need a browser."""

from __future__ import annotations


def browser_tests(ran: int, skipped: int) -> str:
    """What the last lines say of the tests that need a browser; nothing where none was chosen."""
    if not skipped:
        return f"{ran} browser tests ran" if ran else ""
    cure = "Debian, Ubuntu: apt-get install chromium chromium-driver; macOS: brew install --cask chromium chromedriver"
    return f"{ran} browser tests ran, {skipped} were skipped for want of Chromium and chromedriver ({cure})"
