"""SPICE: what is asked of the jar, what is made of its answer, what is kept, the error where parts are missing."""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from groundling.errors import DataError, GroundlingError, MissingExtra
from groundling.metrics.captions import score_captions
from groundling.metrics.jars import jar_folder
from groundling.metrics.spice import NEEDED, SETTING, ask_the_jar, parse, spice

pytest.importorskip("pycocoevalcap")

# as the jar writes it, with two of its categories
ANSWER = """[
  {"image_id": 1, "scores": {"All": {"pr": 0.25, "re": 0.5, "f": 0.3333333333333333, "fn": 1, "numImages": 1,
   "fp": 3, "tp": 1}, "Color": {"pr": null, "re": null, "f": null, "fn": 0, "numImages": 1, "fp": 0, "tp": 0}}},
  {"image_id": 0, "scores": {"All": {"pr": 0.0, "re": 0.0, "f": 0.0, "fn": 2, "numImages": 1, "fp": 1, "tp": 0}}}
]"""


@pytest.fixture(autouse=True)
def a_cache_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def corenlp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two jars that hold what is looked for."""
    folder = tmp_path / "core nlp"
    folder.mkdir()
    for name, resource in NEEDED.items():
        with zipfile.ZipFile(folder / name, "w") as jar:
            jar.writestr(resource, b"")
    monkeypatch.setenv(SETTING, str(folder / "stanford-corenlp-3.6.0-models.jar"))
    return folder


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `java` that gives each caption the share of its words that the first reference has, and counts its captions."""
    script = tmp_path / "bin" / "java"
    script.parent.mkdir()
    count = tmp_path / "asked"
    count.write_text("")
    script.write_text(
        f"""#!{sys.executable}
import json, sys
rows = json.load(open(sys.argv[-2], encoding="ascii"))
open({str(count)!r}, "a").write("x" * len(rows))
def f(row):
    words, refs = set(row["test"].split()), set(row["refs"][0].split())
    return len(words & refs) / len(words)
answer = [{{"image_id": row["image_id"], "scores": {{"All": {{"f": f(row)}}}}}} for row in rows]
json.dump(answer, open(sys.argv[-1], "w"))
"""
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(script.parent))
    return count


def test_the_answer_is_read_by_id() -> None:
    assert parse(ANSWER, 2) == [0.0, 1 / 3]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"image_id": 0, "scores": {"All": {"f": null}}}]', "[]"])
def test_another_answer_is_an_error(text: str) -> None:
    with pytest.raises(GroundlingError, match="SPICE's jar answered"):
        parse(text, 1)


def test_the_score_is_the_mean_of_the_images(corenlp: Path, java: Path) -> None:
    found = spice(["a dog", "a cat"], [["a dog runs"], ["a dog"]], ["1", "2"])
    assert found.per_item().tolist() == [1.0, 0.5]
    assert (found.score().value, found.score().n) == (0.75, 2)


def test_what_is_known_is_not_asked_again(corenlp: Path, java: Path) -> None:
    first = spice(["a dog", "a cat"], [["a dog"], ["a dog"]])
    again = spice(["a cat", "a cat", "two dogs"], [["a dog"], ["a dog"], ["two cats"]])
    assert java.read_text() == "xxx"  # two, then the new one
    assert again.per_item().tolist() == [first.per_item()[1]] * 2 + [0.5]


def test_the_references_are_part_of_what_is_known(corenlp: Path, java: Path) -> None:
    values = [spice(["a dog"], [[text]]).score().value for text in ("a dog", "a cat", "two cats")]
    assert values == [1.0, 0.5, 0.0]


def test_known_scores_need_neither_java_nor_models(corenlp: Path, java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spice(["a dog"], [["a dog"]])
    monkeypatch.delenv(SETTING)
    monkeypatch.setenv("PATH", "")
    assert spice(["a dog"], [["a dog"]]).score().value == 1.0


def test_a_line_cut_off_by_a_crash_is_asked_again(corenlp: Path, java: Path, tmp_path: Path) -> None:
    spice(["a dog", "a cat"], [["a dog"], ["a dog"]])
    (kept,) = (tmp_path / "cache" / "groundling").glob("spice-*.jsonl")
    kept.write_text(kept.read_text()[:-5])
    assert spice(["a dog", "a cat"], [["a dog"], ["a dog"]]).per_item().tolist() == [1.0, 0.5]
    assert java.read_text() == "xxx"
    spice(["a dog", "a cat"], [["a dog"], ["a dog"]])
    assert java.read_text() == "xxx"


def test_without_models_the_cure_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(SETTING, str(tmp_path))
    with pytest.raises(MissingExtra, match=r"models\.jar.*docs/spice\.md"):
        score_captions({"1": "a dog"}, {"1": ["a dog"]}, ["spice"])


def test_a_jar_of_something_else_is_refused(corenlp: Path, java: Path) -> None:
    shutil.copy(corenlp / "stanford-corenlp-3.6.0.jar", corenlp / "stanford-corenlp-3.6.0-models.jar")
    with pytest.raises(DataError, match="not the jar of CoreNLP"):
        spice(["a dog"], [["a dog"]])


def test_without_java_the_cure_is_named(corenlp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingExtra, match="no `java` on the PATH"):
        spice(["a dog"], [["a dog"]])


@pytest.mark.java
@pytest.mark.skipif(shutil.which("javac") is None, reason="no Java development kit here")
def test_the_jar_runs_until_it_misses_the_parsers_model() -> None:
    """The CoreNLP that pycocoevalcap has for its tokenizer is another version, and comes without models."""
    other = jar_folder("tokenizer") / "stanford-corenlp-3.4.1.jar"
    with pytest.raises(GroundlingError, match=r"englishPCFG\.ser\.gz"):
        ask_the_jar([("a dog", ["a dog runs"])], jar_folder("spice") / "spice-1.0.jar", [other])


def test_the_jar_is_asked_in_ascii(corenlp: Path, java: Path) -> None:
    """Java reads files in the machine's own encoding, whatever that is."""
    assert spice(["naïve café"], [["naïve dog"]]).score().value == 0.5
