"""The API of a real server with the weights of the package, as programs use it."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from clips import write_clip
from http_calls import Response, call, raw
from server_process import PHOTOS, Running, running

import groundling
from groundling.cli import main
from groundling.errors import GroundlingError
from groundling.serve import openapi
from groundling.serve.client import Client, ServerError

CAT, ASTRONAUT = PHOTOS / "cat.jpg", PHOTOS / "astronaut.jpg"
LINES = "application/x-ndjson"


def plain(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def image(server: Running, path: str, photo: Path = CAT, kind: str = "image/jpeg") -> Response:
    return server.call("POST", path, photo.read_bytes(), content_type=kind)


# ---------------------------------------------------------------- answers


def test_client_and_library_say_the_same(server: Running) -> None:
    """The same words at the same places, up to the tenth of a pixel that JSON keeps."""
    model = groundling.load()
    here, there = model.caption(CAT), Client(server.url).caption(CAT)
    assert (there.text, there.tokens, there.size, there.id) == (here.text, here.tokens, here.size, "cat")
    assert [link.token for link in there] == [link.token for link in here] and here.links
    for ours, theirs in zip(here, there, strict=True):
        assert theirs.box == pytest.approx(ours.box, abs=0.06)
        assert (theirs.score, theirs.evidence) == pytest.approx((ours.score, ours.evidence), abs=2e-4)
    assert model.reranker and model.reranker.grounder
    sentence = "a cat and a dog on a sofa"
    for ours_found, place in zip(
        model.reranker.grounder.ground(CAT, sentence), Client(server.url).ground(CAT, sentence), strict=True
    ):
        assert (place.phrase, place.span, place.found) == (ours_found.phrase, ours_found.span, ours_found.found)
        assert place.box == pytest.approx(ours_found.box, abs=0.06)


def test_raw_bytes_base64_and_the_id_of_an_image_get_the_same_answer(server: Running) -> None:
    first = image(server, "/v1/caption?beam=2").json()
    assert server.post("/v1/caption", {"image": plain(CAT), "beam": 2}).json() == first
    again = server.post("/v1/caption", {"image_id": first["image"]["id"], "beam": 2, "id": "mine"}).json()
    assert again == {"id": "mine", **first}
    assert server.post("/v1/caption", {"image_id": "0" * 64}).problem == "unknown-image"


def test_drawn_words_depend_on_the_seed_alone_whatever_else_is_asked(server: Running) -> None:
    options = {"image": plain(CAT), "sample": True, "temperature": 1.5}

    def sampled(seed: int) -> str:
        return str(server.post("/v1/caption", options | {"seed": seed}).json()["caption"])

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(sampled, [1, 2, 3, 1]))
    assert together[0] == together[3] == sampled(1) and len(set(together)) > 1


def test_an_audit_has_a_verdict_for_every_phrase_and_compares_boxes(server: Running) -> None:
    row = {"image": plain(CAT), "text": "a cat with a zyxwv and a train"}
    found = server.post("/v1/audit", row).json()
    assert [p["verdict"] for p in found["phrases"]] == ["grounded", "cannot tell", "not there"]
    assert found["counts"] == {"grounded": 1, "wrong place": 0, "not there": 1, "cannot tell": 1}
    right = server.post("/v1/audit", row | {"boxes": [{"phrase": "a cat", "box": found["phrases"][0]["box"]}]}).json()
    assert right["phrases"][0]["given"]["overlap"] == 1.0 and right["counts"] == found["counts"]
    wrong = Client(server.url).audit(CAT, row["text"], [("a cat", (0, 0, 5, 5))])
    assert [one.verdict for one in wrong] == ["wrong place", "cannot tell", "not there"]


def test_a_caption_gets_the_same_verdicts_from_the_command_and_from_the_server(server: Running, tmp_path: Path) -> None:
    """A box in a corner, a kind of a known thing, a word that nobody learned, a thing that is not there."""
    text = "<phrase>a cat</phrase><object><patch_index_0000><patch_index_0033></object> with a sedan, a zyxwv,  a train"
    (tmp_path / "captions.tsv").write_text(f"cat.jpg\t{text}\n")
    out = tmp_path / "audit.jsonl"
    words = ["--images", str(PHOTOS), "--format", "kosmos-2", "-o", str(out), "--json"]
    assert main(["audit", str(tmp_path / "captions.tsv"), *words]) == 0
    line = json.loads(out.read_text())
    found = server.post("/v1/audit", {"image": plain(CAT), "text": text, "format": "kosmos-2"}).json()
    assert found["text"] == line["caption"]
    message = {p["phrase"]: p["verdict"] for p in found["phrases"]}
    assert message | {"a sedan": ""} == {
        "a cat": "wrong place",
        "a sedan": "",
        "a zyxwv": "cannot tell",
        "a train": "not there",
    }
    for ours, theirs in zip(line["phrases"], found["phrases"], strict=True):
        for name in ("phrase", "span", "verdict", "asked", "how", "reason", "given"):
            assert ours.get(name) == theirs.get(name)
        assert theirs["evidence"] == pytest.approx(ours["evidence"], abs=0.002)


def test_an_audit_recognises_the_format_of_a_text(server: Running) -> None:
    """Ferret's boxes are parts of 1000 of each side: the corner is 60 / 1000 of 451 x 300 pixels."""
    row = {"image": plain(CAT), "format": "auto"}
    found = server.post("/v1/audit", row | {"text": "A cat [0, 0, 60, 60] is here"}).json()
    assert (found["format"], found["text"]) == ("ferret", "A cat is here")
    assert found["phrases"][0]["given"]["boxes"] == [[0, 0, 27.1, 18.0]]
    assert server.post("/v1/audit", row | {"text": "A cat is here"}).json()["format"] == "plain"
    qwen = row | {"text": '[{"bbox_2d": [10, 10, 1200, 600], "label": "cat"}]'}
    assert server.post("/v1/audit", qwen).problem == "needs-size"
    assert server.post("/v1/audit", qwen | {"resized": [1260, 840]}).json()["format"] == "qwen2.5-vl"


def test_regions_have_words_and_a_drawn_box_has_its_own(server: Running) -> None:
    regions = image(server, "/v1/regions?words=3").json()["regions"]
    assert len(regions) > 30 and all(len(region["words"]) == 3 for region in regions)
    assert Client(server.url).regions(CAT, words=3)[0].words == tuple(
        (w["word"], w["similarity"]) for w in regions[0]["words"]
    )
    fits = [[word["similarity"] for word in region["words"]] for region in regions]
    assert all(1 >= first >= second >= third >= -1 for first, second, third in fits)
    [same] = Client(server.url).regions(CAT, 3, tuple(regions[7]["box"]))
    assert [word for word, _ in same.words] == [word["word"] for word in regions[7]["words"]]
    [mine] = image(server, "/v1/regions?words=3&box=31,17,222,143").json()["regions"]
    assert mine["box"] == [31, 17, 222, 143] and mine["box"] not in [region["box"] for region in regions]
    assert image(server, "/v1/regions?box=9000,10,9100,20").problem == "unfit"
    known = image(server, "/v1/regions").json()["image"]["id"]
    assert server.post("/v1/regions", {"image_id": known, "box": [1, 1, 9, 9]}).problem == "bad-request"


def test_a_clip_has_boxes_in_its_frames(server: Running, tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4")
    row = image(server, "/v1/caption?frames=2", clip, "video/mp4").json()
    assert row["image"]["frames"] == row["frames"] == 2 and row["size"] == [96, 64]
    assert {link["frame"] for link in row["links"]} <= {0, 1}
    assert image(server, "/v1/caption", clip).problem == "unreadable-image"  # a clip is no image
    assert image(server, "/v1/caption?frames=2", CAT).problem == "bad-request"  # an image has no frames


def test_a_batch_answers_every_line_in_order_though_some_are_bad(server: Running) -> None:
    rows = [{"id": "a", "image": plain(CAT)}, {"id": "b", "image": "AAAA"}, {"id": "c", "image": plain(ASTRONAUT)}]
    body = b"\n".join([*(json.dumps(row).encode() for row in rows), b"[", b'{"image_id": "x"}'])
    response = server.call("POST", "/v1/batch/caption", body, content_type=LINES)
    found = [json.loads(line) for line in response.body.splitlines()]
    assert [(row["line"], row["id"]) for row in found] == [(1, "a"), (2, "b"), (3, "c"), (4, ""), (5, "")]
    assert ["problem" in row for row in found] == [False, True, False, True, True]
    captions = list(Client(server.url).captions([CAT, b"no image"]))
    assert not isinstance(captions[0], ServerError) and captions[0].text == found[0]["caption"]
    assert isinstance(captions[1], ServerError) and captions[1].status == 422


def test_the_first_line_of_a_batch_is_answered_before_the_last_is_sent(server: Running) -> None:
    line = json.dumps({"image": plain(CAT)}).encode() + b"\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        head = f"POST /v1/batch/caption HTTP/1.1\r\nHost: localhost\r\nContent-Type: {LINES}\r\n"
        connection.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")
        connection.sendall(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        got = b""
        while b'"caption"' not in got:
            got += connection.recv(65536)
        connection.sendall(b"0\r\n\r\n")
        while not got.endswith(b"0\r\n\r\n"):
            got += connection.recv(65536)


def test_a_request_whose_client_disconnects_is_dropped(server: Running) -> None:
    """The bytes of an image that is new to the server are sent, then the connection is closed."""
    dropped = 'groundling_dropped_total{why="client disconnected"}'
    content = CAT.read_bytes() + b"new"
    head = f"POST /v1/caption HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/jpeg\r\nContent-Length: {len(content)}"
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(head.encode() + b"\r\n\r\n" + content)
    end = time.monotonic() + 60
    while f"{dropped} 1.0" not in server.call("GET", "/metrics").body.decode():
        assert time.monotonic() < end
        time.sleep(0.05)
    assert '"status": 499' in server.log.read_text()


# ---------------------------------------------------------------- about the server


def test_the_document_names_every_address_of_the_api_and_no_other(server: Running) -> None:
    document = server.call("GET", "/openapi.json").json()
    assert document == openapi.document()
    for path, item in document["paths"].items():
        for method in ("get", "post"):
            if method not in item:
                assert server.call(method.upper(), path).status == 405
            else:
                response = server.call(method.upper(), path)
                assert response.status < 400 or response.problem != "address"
        assert f"{path}</a>" in server.call("GET", "/docs").body.decode()
    text = json.dumps(document)
    for name in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in document["components"]["schemas"]


def test_responses_are_as_the_document_says(server: Running) -> None:
    """Every JSON response of a success, and a problem, against its schema of the document."""
    cat = {"image": plain(CAT)}
    known = image(server, "/v1/caption").json()["image"]["id"]
    sent = {
        "/v1/caption": {"image_id": known},
        "/v1/ground": {"image_id": known, "sentence": "a cat and a zyxwv"},
        "/v1/audit": {"image_id": known, "text": "A cat [0, 0, 60, 60] and a zyxwv", "format": "auto"},
        "/v1/regions": {"image_id": known},
        "/v1/review": {"image": "cat", "label": 0, "action": "undo"},
    }
    document = server.call("GET", "/openapi.json").json()
    for path, row in sent.items():
        assert valid(document, path, "post", server.post(path, row))
        assert valid(document, path, "post", server.post(path, cat | {"more": 1}))
    for path in ("/v1/about", "/v1/search", "/v1/review", "/healthz", "/readyz"):
        assert valid(document, path, "get", server.call("GET", f"{path}?query=a+cat"))
    assert valid(document, "/v1/search", "get", server.call("GET", "/v1/search"))


def valid(document: Any, path: str, method: str, response: Response) -> bool:
    """Raises where the response is not as its operation says."""
    import jsonschema

    status = "4XX" if response.status // 100 == 4 else str(response.status)
    content = document["paths"][path][method]["responses"][status]["content"]
    schema = content[response.headers["content-type"]]["schema"]
    jsonschema.Draft202012Validator(schema | {"components": document["components"]}).validate(response.json())
    return True


def test_metrics_count_by_route_and_logs_have_no_word_of_a_request(server: Running) -> None:
    image(server, "/v1/ground?sentence=a+secretword+dog")
    server.call("GET", "/made/up/secretpath")
    text = server.call("GET", "/metrics").body.decode()
    assert 'groundling_requests_total{method="POST",route="/v1/ground",status="200"}' in text
    assert 'route="unknown",status="404"' in text and "secret" not in text
    while '"route": "/metrics"' not in (logged := server.log.read_text()):
        time.sleep(0.01)
    assert "secret" not in logged and plain(CAT)[:40] not in logged
    rows = [json.loads(line) for line in logged.splitlines()]
    assert any(row["route"] == "/metrics" and row["status"] == 200 and row["ms"] >= 0 for row in rows)


def test_a_request_id_comes_back_and_an_odd_one_does_not(server: Running) -> None:
    assert server.call("GET", "/healthz", x_request_id="mine-1").headers["x-request-id"] == "mine-1"
    assert server.call("GET", "/healthz", x_request_id="<script>").headers["x-request-id"] != "<script>"


def test_the_client_names_the_server_that_does_not_answer() -> None:
    with pytest.raises(
        GroundlingError, match=r"http://127\.0\.0\.1:9 does not respond .*is `groundling serve` running"
    ):
        Client("http://127.0.0.1:9").caption(CAT)
    assert not Client("http://127.0.0.1:9").ready()
    with pytest.raises(GroundlingError, match="no address of a server"):
        Client("127.0.0.1")


# ---------------------------------------------------------------- hostile requests

HEAD = b"Host: localhost\r\nContent-Type: image/png\r\n"
CASES: dict[str, tuple[bytes, int]] = {
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
    "header flood": (b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(9000)) + b"\r\n", 400),
    "long header": (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 70_000 + b"\r\n\r\n", 431),
    "bad chunk": (b"POST /v1/caption HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n", 400),
    "bad chunk, no type": (
        b"POST /v1/caption HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        400,
    ),
    "huge length": (b"POST /v1/caption HTTP/1.1\r\n" + HEAD + b"Content-Length: 99999999999\r\n\r\nx", 413),
    "two lengths": (b"POST /v1/caption HTTP/1.1\r\n" + HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nx", 400),
    "path": (b"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
    "coded path": (b"GET /examples/%2e%2e%2f%2e%2e%2fapp.py HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
    "photo path": (b"GET /v1/review/picture?image=../review.jsonl HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
    "other host": (b"GET /v1/about HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
    "other page": (
        b"POST /v1/review HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\nContent-Length: 0\r\n\r\n",
        403,
    ),
    "simple post": (
        b"POST /v1/review HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}",
        415,
    ),
    "bad UTF-8": (
        b"POST /v1/caption HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 4\r\n\r\n\xff\xfe{}",
        400,
    ),
    "method": (b"BREW /v1/caption HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 405),
}


@pytest.mark.parametrize("name", CASES)
def test_a_hostile_request_is_a_problem_with_a_cure(server: Running, name: str) -> None:
    content, status = CASES[name]
    response = raw(server.port, content)
    assert response.status == status and response.problem


def test_a_body_without_end_is_refused_and_its_sender_can_read_why(server: Running) -> None:
    parts = (b"x" * 65536 for _ in range(1600))  # 100 MB, chunked
    began = time.monotonic()
    response = call(server.port, "POST", "/v1/caption", parts, {"content_type": "image/png"})
    assert response.status == 413 and response.problem == "too-large" and time.monotonic() - began < 30


def test_no_traceback_was_logged_by_any_of_this(server: Running) -> None:
    assert "Traceback" not in server.log.read_text()


# ---------------------------------------------------------------- start and end


def test_what_was_taken_is_finished_after_a_signal_and_a_token_is_asked_for(tmp_path: Path) -> None:
    """The request is sent before the models are loaded, the signal right after it."""
    got: list[Any] = []
    with running(tmp_path / "log", "--token", "a-long-secret", "--deadline", "250") as server:
        client = Client(server.url, "a-long-secret", timeout=280)
        for wrong in ("", "Bearer a-long-secreT", "Basic a-long-secret", "Bearer \xff"):
            response = server.call("GET", "/v1/about", authorization=wrong)
            assert response.status == 401 and response.problem == "token"
        assert server.call("GET", "/").status == 200 and server.call("GET", "/readyz").status in (200, 503)
        thread = threading.Thread(target=lambda: got.append(client.caption(CAT)))
        thread.start()
        while "groundling_waiting 1.0" not in metrics(server):
            time.sleep(0.05)
        os.kill(server.process.pid, signal.SIGTERM)
        thread.join(280)
        assert got and got[0].text
        assert server.process.wait(60) in (-signal.SIGTERM, 0)
    assert "Traceback" not in server.log.read_text()


def metrics(server: Running) -> str:
    return server.call("GET", "/metrics", authorization="Bearer a-long-secret").body.decode()
