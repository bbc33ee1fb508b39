"""Which servers may be started at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from groundling.cli import main
from groundling.errors import GroundlingError
from groundling.serve.settings import Limits, Settings

TOKEN = "0123456789abcdef"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_a_server_that_others_can_reach_asks_for_a_token_or_is_declared_open(host: str) -> None:
    with pytest.raises(GroundlingError, match="--token-file FILE, or let everybody in with --open"):
        Settings(host=host)
    assert Settings(host=host, token=TOKEN).token == TOKEN
    assert Settings(host=host, open=True).open


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost", "::1"])
def test_a_server_on_this_machine_alone_needs_none(host: str) -> None:
    assert Settings(host=host).loopback


@pytest.mark.parametrize("token", ["short", "x" * 513, "with a space inside", "ümläut-ümläut", "new\nline-new"])
def test_a_token_that_a_header_cannot_carry_or_that_is_guessed_is_refused(token: str) -> None:
    with pytest.raises(GroundlingError, match="token"):
        Settings(token=token)


@pytest.mark.parametrize("origin", ["*", "example.org", "https://example.org/page", "null"])
def test_other_pages_are_named_by_their_origin(origin: str) -> None:
    with pytest.raises(GroundlingError, match="no origin"):
        Settings(origins=(origin,))


def test_a_file_of_decisions_needs_labels(tmp_path: Path) -> None:
    with pytest.raises(GroundlingError, match="--review LABELS"):
        Settings(reviews=tmp_path / "r.jsonl")


def test_limits_are_above_0() -> None:
    with pytest.raises(GroundlingError, match="body must be above 0, got 0"):
        Limits(body=0)
    assert Limits(remembered=0).remembered == 0


def test_the_command_tells_what_is_wrong_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "token").write_text("\n")
    for words, message in (
        (["--host", "0.0.0.0"], "can be reached from other machines"),
        (["--token", ""], "--token is empty"),
        (["--token-file", str(tmp_path / "token")], "is empty: write a token into it"),
        (["--token-file", str(tmp_path / "none")], "the token cannot be read"),
        (["--review", str(tmp_path), "--port", "0"], "no labels here"),
        (["--index", str(tmp_path), "--port", "0"], "no index"),
    ):
        assert main(["serve", *words]) == 2
        out = capsys.readouterr().err
        assert message in out and out.count("\n") == 1
