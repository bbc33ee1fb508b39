"""CIDEr and CIDEr-D: by hand, against the published numbers, and the document frequency file."""

from __future__ import annotations

import contextlib
import gzip
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundling.errors import DataError, GroundlingError
from groundling.metrics.cider import DocumentFrequency, cider, cider_d

VECTORS = Path(__file__).parent.parent / "vectors"


def vectors(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(gzip.decompress((VECTORS / f"{name}.json.gz").read_bytes()))
    return loaded


def split(references: list[list[str]]) -> list[list[list[str]]]:
    return [[r.split() for r in refs] for refs in references]


@pytest.fixture(scope="module")
def corpus_df() -> DocumentFrequency:
    return DocumentFrequency.of(split(vectors("captions_df_corpus")["tokenised_references"]))


def test_cider_by_hand() -> None:
    """Two images; "a b" has idf ln 2 for a, b and the bigram. h = "a b", r = "a b c": idf c, "b c", "a b c" = ln 2.

    n = 1: 2 / (sqrt 2 sqrt 3), n = 2: 1 / sqrt 2, n = 3 and 4: 0. One reference; CIDEr-D: L = 1 and 2.
    """
    expected = 10 * (2 / math.sqrt(6) + 1 / math.sqrt(2)) / 4
    hypotheses, references = [["a", "b"], ["x"]], [[["a", "b", "c"]], [["d"]]]
    np.testing.assert_allclose(cider(hypotheses, references), [expected, 0], rtol=1e-14)
    np.testing.assert_allclose(cider_d(hypotheses, references), [expected * math.exp(-1 / 72), 0], rtol=1e-14)


def test_repeating_a_word_pays_in_cider_and_not_in_cider_d() -> None:
    """n = 1 alone is not zero: h = (2 ln 2, 0), r = (ln 2, ln 2): cosine 2/(2 sqrt 2); clipped 1/(2 sqrt 2)."""
    hypotheses, references = [["a", "a"], ["x"]], [[["a", "b"]], [["d"]]]
    np.testing.assert_allclose(cider(hypotheses, references)[0], 10 / 4 / math.sqrt(2), rtol=1e-14)
    np.testing.assert_allclose(cider_d(hypotheses, references)[0], 10 / 4 / math.sqrt(8), rtol=1e-14)


@pytest.mark.parametrize(
    ("name", "metric", "precomputed"),
    [
        ("CIDEr_plain_corpus", cider, False),
        ("CIDErD_corpus", cider_d, False),
        ("CIDEr_plain_precomputed", cider, True),
        ("CIDErD_precomputed", cider_d, True),
    ],
)
def test_numbers_are_the_published_ones(
    name: str, metric: Any, precomputed: bool, corpus_df: DocumentFrequency
) -> None:
    case = vectors("captions_s")
    hypotheses = [h.split() for h in case["tokenised_hypotheses"]]
    df = corpus_df if precomputed else None
    values = metric(hypotheses, split(case["tokenised_references"]), df)
    np.testing.assert_allclose(values, case["expected"]["per_image"][name], rtol=0, atol=1e-9)
    assert values.mean() == pytest.approx(case["expected"]["overall"][name], abs=1e-9)


def test_document_frequencies_are_those_of_the_corpus(corpus_df: DocumentFrequency) -> None:
    stats = vectors("captions_df_corpus")["stats"]
    assert corpus_df.images == stats["num_images"]
    assert sum(map(len, corpus_df.tables)) == stats["num_ngrams"]
    assert sum(int(c.sum()) for c in corpus_df.counts) == stats["sum_df"]
    assert {gram: corpus_df.count(gram.split()) for gram in stats["examples"]} == stats["examples"]
    assert corpus_df.count(["a", "never-seen"]) == 0


def test_one_image_alone_scores_zero_and_with_document_frequencies_its_usual_score(
    corpus_df: DocumentFrequency,
) -> None:
    case = vectors("captions_s")
    hypothesis, references = [case["tokenised_hypotheses"][0].split()], split(case["tokenised_references"][:1])
    assert cider_d(hypothesis, references)[0] == 0
    alone = cider_d(hypothesis, references, corpus_df)[0]
    assert alone == pytest.approx(case["expected"]["per_image"]["CIDErD_precomputed"][0], abs=1e-9)


def test_an_empty_hypothesis_and_an_empty_reference_score_zero(corpus_df: DocumentFrequency) -> None:
    assert cider_d([[], ["a"]], [[["a"]], [[]]], corpus_df).tolist() == [0, 0]
    assert cider_d([], []).tolist() == []


def test_an_image_without_references_is_an_error() -> None:
    with pytest.raises(ValueError, match="image 1 has no reference"):
        cider_d([["a"], ["b"], ["c"]], [[["a"]], [], [["c"]]])


words = st.lists(st.sampled_from("abcde"), max_size=8)
items = st.lists(st.tuples(words, st.lists(words, min_size=1, max_size=3)), min_size=1, max_size=5)


def plain_cider_d(hypotheses: list[list[str]], references: list[list[list[str]]], df: Any, images: int) -> list[float]:
    """The formula word for word, with dictionaries."""

    def vector(sentence: list[str], n: int) -> dict[tuple[str, ...], float]:
        found = [tuple(sentence[i : i + n]) for i in range(len(sentence) - n + 1)]
        return {g: found.count(g) * (math.log(images) - math.log(max(1, df(g)))) for g in found}

    scores = []
    for hypothesis, refs in zip(hypotheses, references, strict=True):
        total = 0.0
        for ref in refs:
            gap = max(len(hypothesis) - 1, 0) - max(len(ref) - 1, 0)
            for n in range(1, 5):
                h, r = vector(hypothesis, n), vector(ref, n)
                scale = math.sqrt(sum(v * v for v in h.values())) * math.sqrt(sum(v * v for v in r.values()))
                dot = sum(min(v, r.get(g, 0)) * r.get(g, 0) for g, v in h.items())
                total += (dot / scale if scale else dot) * math.exp(-(gap**2) / 72) / 4
        scores.append(10 * total / len(refs))
    return scores


@given(items, items)
def test_equals_the_formula_written_with_dictionaries(corpus: Any, other: Any) -> None:
    hypotheses, references = [h for h, _ in corpus], [r for _, r in corpus]
    df = DocumentFrequency.of([r for _, r in other])
    expected = plain_cider_d(hypotheses, references, df.count, df.images)
    np.testing.assert_allclose(cider_d(hypotheses, references, df), expected, atol=1e-12)
    df = DocumentFrequency.of(references)
    expected = plain_cider_d(hypotheses, references, df.count, df.images)
    np.testing.assert_allclose(cider_d(hypotheses, references), expected, atol=1e-12)


def test_document_frequencies_come_back_from_disk(tmp_path: Path, corpus_df: DocumentFrequency) -> None:
    corpus_df.save(tmp_path / "df")
    loaded = DocumentFrequency.load(tmp_path / "df")
    assert loaded.words == corpus_df.words and loaded.images == corpus_df.images
    assert loaded.digest == corpus_df.digest
    assert loaded.count(["there", "is"]) == corpus_df.count(["there", "is"])


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(GroundlingError, match="nowhere"):
        DocumentFrequency.of([[["a"]]]).save(tmp_path / "nowhere" / "df")


def test_words_of_any_kind_come_back_from_disk(tmp_path: Path) -> None:
    odd = ["", "\0", "\ud800", "naïve", "\N{NO-BREAK SPACE}"]
    DocumentFrequency.of([[odd]]).save(tmp_path / "df")
    assert DocumentFrequency.load(tmp_path / "df").words == tuple(sorted(odd))


def test_the_digest_is_that_of_the_counts_and_not_of_their_order() -> None:
    corpus = [[["a", "dog"], ["the", "dog"]], [["a", "cat"]]]
    turned = [refs[::-1] for refs in corpus[::-1]]
    assert DocumentFrequency.of(corpus).digest == DocumentFrequency.of(turned).digest
    assert DocumentFrequency.of(corpus).digest != DocumentFrequency.of(corpus[:1]).digest


@pytest.mark.parametrize("content", [b"", b"{}", b"PK\x03\x04", b"\x08\0\0\0\0\0\0\0{}      ", b"\xff" * 64])
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "df").write_bytes(content)
    with pytest.raises(DataError, match="groundling df"):
        DocumentFrequency.load(tmp_path / "df")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere"):
        DocumentFrequency.load(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("count2", lambda a: a * 0, "count of order 2"),
        ("count2", lambda a: a + 99, "count of order 2"),
        ("count2", lambda a: a[1:], "order 2 has"),
        ("count2", lambda a: a.astype(np.float64), "64-bit integers"),
        ("table2", lambda a: a[::-1].copy(), "order 2 is not sorted"),
        ("table2", lambda a: a + (1 << 40), "prefix"),
        ("table2", lambda a: a + (1 << 31), "unknown word"),
        ("table1", lambda a: a - 5, "prefix"),
        ("words", lambda a: a[:-1], "list of strings"),
        ("words", lambda a: np.frombuffer(b'["a","a"]', np.uint8), "twice"),
        ("words", lambda a: np.frombuffer(b"[1]", np.uint8), "list of strings"),
        ("more", lambda a: np.zeros(1), "it holds"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, name: str, change: Any, message: str) -> None:
    from safetensors.numpy import load_file, save_file

    DocumentFrequency.of([[["a", "b", "c"], ["b", "c", "a"]], [["a", "b"]]]).save(tmp_path / "df")
    arrays = load_file(tmp_path / "df")
    arrays[name] = change(arrays.get(name))
    save_file(arrays, tmp_path / "df", {"format": "groundling-df-1", "images": "2"})
    with pytest.raises(DataError, match=message):
        DocumentFrequency.load(tmp_path / "df")


@given(st.data())
def test_any_flipped_byte_gives_a_table_or_the_typed_error(tmp_path_factory: Any, data: st.DataObject) -> None:
    path = tmp_path_factory.getbasetemp() / "flipped"
    DocumentFrequency.of([[["a", "b", "c"], ["b", "c", "a"]], [["a", "b"]]]).save(path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    with contextlib.suppress(DataError):
        DocumentFrequency.load(path)
