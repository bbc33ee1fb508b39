"""Labels are reviewed on the server, and what was accepted is kept, whatever happens to it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import threading
from pathlib import Path

import pytest
from http_calls import call
from server_process import Running, labelled, running

from groundling.errors import DataError, GroundlingError
from groundling.labels import review
from groundling.labels.review import Decision, Key
from groundling.labels.review_store import ReviewStore
from groundling.serve.problems import Problem
from groundling.serve.review import Review

DOG: Key = ("i", 0)
CAT: Key = ("i", 1)


def accepted(key: Key) -> Decision:
    return Decision(*key, "accept")


def test_decisions_are_there_again_and_the_last_one_counts(tmp_path: Path) -> None:
    store = ReviewStore.open(tmp_path / "r.jsonl")
    redrawn = Decision(*DOG, "redraw", ((1.0, 2.0, 3.0, 4.0),))
    for key, decision in ((DOG, accepted(DOG)), (DOG, redrawn), (CAT, accepted(CAT)), (CAT, None)):
        store.add(key, decision)
    store.close()
    again = ReviewStore.open(tmp_path / "r.jsonl")
    assert again.decisions() == [redrawn] == list(review.read(tmp_path / "r.jsonl").values())
    again.close()


@pytest.mark.parametrize("cut", [1, 10, 60])
def test_half_a_line_at_the_end_is_cut_off_and_the_rest_is_kept(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "r.jsonl"
    store = ReviewStore.open(path)
    for key in (DOG, CAT):
        store.add(key, accepted(key))
    store.close()
    path.write_bytes(path.read_bytes()[:-cut])
    again = ReviewStore.open(path)
    again.add(("j", 0), Decision("j", 0, "reject"))
    again.close()
    assert [json.loads(line)["image"] for line in path.read_text().splitlines()] == ["i", "j"]


def test_a_file_that_is_something_else_is_named_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"image": "i"}\nmore\n')
    with pytest.raises(DataError, match=r"r\.jsonl, line 1: not a decision"):
        ReviewStore.open(path)
    assert path.read_text() == '{"image": "i"}\nmore\n'


def test_two_servers_cannot_write_one_file(tmp_path: Path) -> None:
    store = ReviewStore.open(tmp_path / "r.jsonl")
    with pytest.raises(GroundlingError, match="in use by another server"):
        ReviewStore.open(tmp_path / "r.jsonl")
    store.close()


def test_labels_are_shown_and_what_is_no_decision_about_them_is_refused(server: Running) -> None:
    found = server.call("GET", "/v1/review").json()
    assert [(row["image"], row["label"], row["phrase"]) for row in found["rows"][:2]] == [
        ("cat", 0, "a brown cat"),
        ("astronaut", 0, "a woman"),
    ]
    response = server.call("GET", "/v1/review/picture?image=cat")
    assert response.headers["content-type"] == "image/webp" and response.body[8:12] == b"WEBP"
    right = {"image": "cat", "label": 0, "action": "accept"}
    for wrong, kind in (
        ({"image": "/etc/passwd"}, "unknown-label"),
        ({"label": 7}, "unknown-label"),
        ({"label": "0"}, "bad-request"),
        ({"action": "burn"}, "bad-request"),
        ({"action": "redraw"}, "bad-request"),
        ({"action": "redraw", "boxes": [[0, 0, 9000, 9]]}, "bad-request"),
        ({"action": "redraw", "boxes": [[0, 0, 9, 9]] * 65}, "bad-request"),
        ({"action": "redraw", "boxes": 7}, "bad-request"),
        ({"more": 1}, "bad-request"),
    ):
        assert server.post("/v1/review", right | wrong).problem == kind
    assert server.call("GET", "/v1/review").json()["decisions"] == []


def test_a_photo_that_was_moved_is_a_problem_and_no_crash(tmp_path: Path) -> None:
    folder = labelled(tmp_path / "labels")
    shard = folder / "shards" / "000000.jsonl"
    shard.write_text(shard.read_text().replace("cat.jpg", "gone.jpg"))
    found = Review.open(str(folder), tmp_path / "r.jsonl", 1)
    with pytest.raises(Problem, match="gone.jpg") as caught:
        found.picture("cat")
    assert caught.value.status == 404
    found.store.close()


def test_a_server_that_is_killed_loses_nothing_that_it_accepted(tmp_path: Path) -> None:
    """Four clients decide at once; the server is killed in the middle, started again and asked."""
    folder = labelled(tmp_path / "labels", copies=400)
    words = ("--review", str(folder), "--quiet")
    kept: list[int] = []

    def decide(port: int, client: int) -> None:
        for number in range(client, 400, 4):
            row = {"image": "cat", "label": number, "action": "redraw", "boxes": [[0, 0, 9, number + 1]]}
            try:
                response = call(
                    port, "POST", "/v1/review", json.dumps(row).encode(), {"content_type": "application/json"}
                )
            except (OSError, http.client.HTTPException):  # the server was killed before it had responded
                return
            if response.status == 201:
                kept.append(number)
                if len(kept) >= 60:
                    os.kill(server.process.pid, signal.SIGKILL)

    with running(tmp_path / "log", *words) as server:
        clients = [threading.Thread(target=decide, args=(server.port, i)) for i in range(4)]
        for client in clients:
            client.start()
        for client in clients:
            client.join(60)
    assert 60 <= len(kept) < 400
    with running(tmp_path / "log", *words) as server:
        found = server.call("GET", "/v1/review").json()["decisions"]
    boxes = {row["label"]: row["boxes"] for row in found}
    assert all(boxes[number] == [[0, 0, 9, number + 1]] for number in kept)
    assert set(kept) <= {label for _, label in review.read(folder / "review.jsonl")}
