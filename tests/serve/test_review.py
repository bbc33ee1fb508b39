"""What was accepted is kept, whatever happens to the server."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

import pytest
from asking import ask
from starting import copied, running

from groundling.errors import DataError, GroundlingError
from groundling.serve.review import Decision, Reviews, list_photos

BOX = (1.0, 2.0, 3.0, 4.0)


def test_decisions_are_there_again_and_the_last_one_counts(tmp_path: Path) -> None:
    reviews = Reviews.open(tmp_path / "r.jsonl")
    for verdict, phrase in (("right", "a dog"), ("wrong", "a dog"), ("right", "a cat"), ("undone", "a cat")):
        reviews.add(Decision("i", phrase, verdict, BOX))
    reviews.close()
    again = Reviews.open(tmp_path / "r.jsonl")
    assert again.count == 4 and [d.verdict for d in again.of("i")] == ["wrong"] and again.reviewed() == {"i": 1}
    again.close()


@pytest.mark.parametrize("cut", [1, 10, 60])
def test_half_a_line_at_the_end_is_cut_off_and_the_rest_is_kept(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "r.jsonl"
    reviews = Reviews.open(path)
    for phrase in ("a dog", "a cat"):
        reviews.add(Decision("i", phrase, "right", BOX))
    reviews.close()
    path.write_bytes(path.read_bytes()[:-cut])
    again = Reviews.open(path)
    again.add(Decision("i", "a bird", "right", BOX))
    again.close()
    assert [json.loads(line)["phrase"] for line in path.read_text().splitlines()] == ["a dog", "a bird"]


def test_a_file_that_is_something_else_is_named_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"image": "i"}\nmore\n')
    with pytest.raises(DataError, match=r"r\.jsonl, line 1: not a decision"):
        Reviews.open(path)
    assert path.read_text() == '{"image": "i"}\nmore\n'


def test_two_servers_cannot_write_one_file(tmp_path: Path) -> None:
    reviews = Reviews.open(tmp_path / "r.jsonl")
    with pytest.raises(GroundlingError, match="in use by another server"):
        Reviews.open(tmp_path / "r.jsonl")
    reviews.close()


def test_no_link_leads_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(b"x")
    folder = copied(tmp_path / "photos", ["cat.jpg"])
    os.symlink(tmp_path / "secret.png", folder / "link.png")
    assert list(list_photos(folder)) == ["cat.jpg"]


def test_a_server_that_is_killed_loses_nothing_that_it_accepted(tmp_path: Path) -> None:
    """Four clients decide at once; the server is killed in the middle, started again and asked."""
    words = ("--photos", str(copied(tmp_path / "photos")), "--reviews", str(tmp_path / "r.jsonl"), "--quiet")
    accepted: list[str] = []

    def decide(port: int, client: int) -> None:
        for number in range(10_000):
            phrase = f"phrase {client} {number}"
            row = {"image": "cat.jpg", "phrase": phrase, "verdict": "right", "box": BOX}
            try:
                answer = ask(
                    port, "POST", "/v1/reviews", json.dumps(row).encode(), {"content_type": "application/json"}
                )
            except OSError:
                return
            if answer.status == 201:
                accepted.append(phrase)
                if len(accepted) == 60:
                    os.kill(server.process.pid, signal.SIGKILL)

    with running(tmp_path / "log", *words) as server:
        clients = [threading.Thread(target=decide, args=(server.port, i)) for i in range(4)]
        for client in clients:
            client.start()
        for client in clients:
            client.join(60)
    assert len(accepted) >= 60
    with running(tmp_path / "log", *words) as server:
        kept = server.ask("GET", "/v1/reviews?image=cat.jpg").json()["decisions"]
    assert set(accepted) <= {row["phrase"] for row in kept}
