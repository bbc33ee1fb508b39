"""Search in an index of labelled photos."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from server_process import PHOTOS, Running

from groundling.serve.app import Site
from groundling.serve.problems import Problem
from groundling.serve.settings import Settings


def test_without_an_index_there_is_nothing_to_search_in() -> None:
    with pytest.raises(Problem, match="--index INDEX"):
        Site.of(Settings())._index()


def test_photos_are_found_by_what_they_show_and_no_other_file_can_be_had(server: Running) -> None:
    assert server.call("GET", "/v1/about").json()["search"] is True
    hits = server.call("GET", "/v1/search?query=a+cat&images=2").json()["hits"]
    assert hits[0]["image"] == "cat" and len(hits) == 2
    assert hits[0]["boxes"][0] == hits[0]["boxes"][0] | {"phrase": "a brown cat", "box": [20.0, 30.0, 240.0, 140.0]}
    assert server.call("GET", "/v1/search?query=a+lady").json()["hits"][0]["image"] == "astronaut"
    assert server.call("GET", "/v1/search/file?image=cat").body == (PHOTOS / "cat.jpg").read_bytes()
    for other in ("../cat", str(PHOTOS / "cat.jpg"), "index.json", "dog"):
        assert server.call("GET", f"/v1/search/file?image={quote(other)}").problem == "unknown-photo"
    assert server.call("GET", "/v1/search?query=+").problem == "bad-request"
    assert server.call("GET", "/v1/search?query=...").problem == "no-phrase"
