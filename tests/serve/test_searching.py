"""Search in an index of labelled photos."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from starting import PHOTOS, Running, running

from groundling.cli import main


def test_without_an_index_there_is_nothing_to_search_in(server: Running) -> None:
    assert server.ask("GET", "/v1/search?query=a+dog").problem == "no-index"
    assert server.ask("GET", "/v1/search/file?image=cat").problem == "no-index"
    assert server.ask("GET", "/v1/about").json()["search"] is False


def test_a_folder_that_is_no_index_is_told_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--port", "0", "--index", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_photos_are_found_by_what_they_show_and_no_other_file_can_be_had(tmp_path: Path) -> None:
    search = pytest.importorskip("groundling.search", reason="this version has no index")
    from groundling.labels import grounder  # type: ignore[import-not-found,unused-ignore]
    from groundling.labels.label import (  # type: ignore[import-not-found,unused-ignore]
        Label,
        LabelledImage,
        PlacedBox,
    )

    def labelled(name: str, phrase: str) -> LabelledImage:
        label = Label(phrase, phrase.split()[-1], (), (PlacedBox((5.0, 5.0, 90.0, 80.0), 0.9, 0.8),))
        return LabelledImage(name, str(PHOTOS / f"{name}.jpg"), (200, 100), (phrase,), (label,))

    photos = [labelled("cat", "a brown cat"), labelled("coffee", "a red cup"), labelled("rocket", "a tall tower")]
    search.build(photos, tmp_path / "index", grounder.load())
    with running(tmp_path / "log", "--index", str(tmp_path / "index"), "--deadline", "250") as server:
        hits = server.ask("GET", "/v1/search?query=a+cat&images=2").json()["hits"]
        assert [hit["image"] for hit in hits][0] == "cat" and len(hits) == 2
        assert hits[0]["boxes"][0] == hits[0]["boxes"][0] | {"phrase": "a brown cat", "box": [5.0, 5.0, 90.0, 80.0]}
        assert server.ask("GET", "/v1/search/file?image=cat").body == (PHOTOS / "cat.jpg").read_bytes()
        for other in ("../cat", str(PHOTOS / "cat.jpg"), "index.json", "dog"):
            assert server.ask("GET", f"/v1/search/file?image={quote(other)}").problem == "unknown-photo"
        assert server.ask("GET", "/v1/search?query=+").problem == "bad-request"
        assert server.ask("GET", "/v1/search?query=...").problem == "no-phrase"
