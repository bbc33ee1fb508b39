"""Vectors find their neighbours; images are found by what they show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from labelled_scenes import scenes as scenes  # a fixture

from groundling.cli import main
from groundling.errors import DataError
from groundling.labels import Label, LabelledImage, Mention, PlacedBox, grounder
from groundling.search.index import DEEP, Entry, Hit, Index, _probes, build, open_index
from groundling.search.page import write
from groundling.search.vectors import Approximate, Exact, Vectors, recall


def unit(n: int, dim: int, seed: int = 0) -> Vectors:
    found = np.random.default_rng(seed).standard_normal((n, dim)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def test_exact_search_equals_sorting_all_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the vectors are compared in blocks."""
    monkeypatch.setattr("groundling.search.vectors.BLOCK", 7)
    vectors, queries = unit(50, 8), unit(3, 8, 1)
    places, scores = Exact(vectors).nearest(queries, 5)
    assert places.tolist() == np.argsort(-(queries @ vectors.T), 1)[:, :5].tolist()
    assert scores == pytest.approx(np.take_along_axis(queries @ vectors.T, places, 1))
    assert Exact(vectors).nearest(queries, 99)[0].shape == (3, 50)


def test_the_graph_finds_nearly_all_neighbours_and_survives_the_disk(tmp_path: Path) -> None:
    pytest.importorskip("usearch")
    vectors, queries = unit(3000, 32), unit(40, 32, 1)
    graph = Approximate.build(vectors)
    assert recall(graph, Exact(vectors), queries) > 0.9
    graph.save(tmp_path)
    places, scores = Approximate.open(tmp_path).nearest(queries, 5)
    assert places.tolist() == graph.nearest(queries, 5)[0].tolist()
    assert scores[0, 0] == pytest.approx(float(queries[0] @ vectors[places[0, 0]]), abs=1e-5)


def test_recall_counts_what_is_missed() -> None:
    """An index of every second vector finds half of the neighbours, about: exactly those that are even."""
    vectors, queries = unit(20, 4), unit(5, 4, 1)
    true = Exact(vectors).nearest(queries, 4)[0]

    class Half:
        def nearest(self, queries: Vectors, k: int) -> tuple[np.ndarray, Vectors]:
            places, scores = Exact(vectors[::2]).nearest(queries, k)
            return places * 2, scores

    assert recall(Half(), Exact(vectors), queries, 4) == pytest.approx((true % 2 == 0).mean())


def test_recall_is_measured_by_phrases() -> None:
    """Image (0.6, 0.8) and text (0, 1) side by side; the query has the phrase for both."""
    vectors = np.array([[0.6, 0.8, 0.0, 1.0]], np.float32) / np.sqrt(2)
    assert _probes(vectors, 2)[0] == pytest.approx(np.array([0, 1, 0, 1]) / np.sqrt(2))
    assert _probes(vectors[:, 2:] * np.sqrt(2), 1)[0] == pytest.approx([0, 1])


def test_an_image_counts_by_what_it_lacks_too() -> None:
    """Image x has a ball of 1.0 and no dog (0), image y a dog and a ball of 0.6: y is better, 0.6 against 0.5.

    That x's dog is not among the nearest boxes does not make it as good as the last of these (0.9).
    """
    axes = np.eye(3, dtype=np.float32)
    vectors = np.stack([axes[1], 0.6 * (axes[0] + axes[1]), *[0.9 * axes[0]] * DEEP])
    ids = ["x", "y", *(f"z{i}" for i in range(DEEP))]
    entries = [Entry(id, "", (9, 9), "thing", (0, 0, 1, 1), 1.0) for id in ids]

    class Axes:
        def embed_phrases(self, phrases: Sequence[Sequence[str]]) -> Vectors:
            return axes[[["dog", "ball"].index(phrase[-1]) for phrase in phrases]]

    index = Index(cast(grounder.Grounder, Axes()), Exact(vectors), entries, vectors, 1)
    hits = index.search("a dog and a ball", 1)
    assert [hit.id for hit in hits] == ["y"] and hits[0].score == pytest.approx(0.6)


def labelled(id: str, *phrases: str) -> LabelledImage:
    labels = [
        Label(text, text.split()[-1], (Mention(0, (0, 1)),), (PlacedBox((i, 0, i + 5.0, 9.0), 0.9, 0.9),))
        for i, text in enumerate(phrases)
    ]
    return LabelledImage(id, f"{id}.png", (64, 48), ("x",), tuple(labels))


@pytest.mark.parametrize("exact", [50_000, 1])
def test_an_image_that_shows_everything_comes_first(exact: int, scenes: Path, tmp_path: Path) -> None:
    """By phrases alone, whatever the small grounder thinks of them: equal phrases have equal vectors."""
    if exact == 1:
        pytest.importorskip("usearch")
    model = grounder.load(str(scenes / "model"))
    images = [labelled("both", "a dog", "a ball"), labelled("dog", "a dog", "a tree"), labelled("none", "a car")]
    about = build(images, tmp_path, model, exact=exact)
    assert (about["images"], about["boxes"], about["exact"]) == (3, 5, exact > 1)
    hits = open_index(tmp_path, str(scenes / "model")).search("a dog and a ball", 3)
    assert hits[0].id == "both" and hits[0].score == pytest.approx(1, abs=1e-4)
    assert [(phrase, entry.box[0]) for phrase, entry, _ in hits[0].boxes] == [("a dog", 0), ("a ball", 1)]


def test_the_whole_path_with_regions(scenes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, regions = ["--model", str(scenes / "model")], ["--regions", str(scenes / "regions")]
    labels, index, page = str(tmp_path / "labels"), str(tmp_path / "index"), tmp_path / "hits.html"
    assert main(["label", str(scenes / "scenes"), "--out", labels, "--workers", "1", *model, *regions]) == 0
    assert main(["index", labels, "--out", index, "--min-confidence", "0", *model, *regions]) == 0
    assert "exact" in capsys.readouterr().out
    graph = ["--exact-below", "0", "--min-confidence", "0", *model, *regions]
    assert main(["index", labels, "--out", str(tmp_path / "graph"), "--json", *graph]) == 0
    assert not (told := json.loads(capsys.readouterr().out))["exact"] and told["recall"] > 0.9
    assert main(["search", index, "a dog", "--top", "2", "--json", "--html", str(page), *model]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == 2 and rows[0]["score"] >= rows[1]["score"]
    assert Path(rows[0]["image"]).exists()
    assert page.read_text().count("<rect ") >= 2 and "data:image/webp" in page.read_text()


def test_an_index_of_another_grounder_or_a_damaged_one_is_refused(scenes: Path, tmp_path: Path) -> None:
    model = str(scenes / "model")
    with pytest.raises(DataError, match="no index here; make one"):
        open_index(tmp_path, model)
    build([labelled("a", "a dog")], tmp_path, grounder.load(model))
    about = json.loads((tmp_path / "index.json").read_text())
    (tmp_path / "index.json").write_text(json.dumps(about | {"grounder": "other"}))
    with pytest.raises(DataError, match="another grounder"):
        open_index(tmp_path, model)
    (tmp_path / "index.json").write_text(json.dumps(about | {"boxes": 7}))
    with pytest.raises(DataError, match="damaged index.*make it again"):
        open_index(tmp_path, model)


def test_a_page_escapes_what_it_shows(tmp_path: Path) -> None:
    write(tmp_path / "p.html", "<script>", [Hit("<b>", "nowhere.png", (5, 5), 0.5, ())])
    text = (tmp_path / "p.html").read_text()
    assert "<script>" not in text and "<b><b>" not in text and "does not exist" in text
