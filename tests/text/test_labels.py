from __future__ import annotations

from pathlib import Path

import pytest

from groundling.errors import DataError
from groundling.text.labels import Labels, coverage, read_labels
from groundling.types import Caption

OPEN = Labels(["Person", "Clothing", "Dog", "Vehicle", "background"])
COCO = Labels(["person", "cat", "dog", "sports ball", "hot dog", "motorcycle", "plate"])


@pytest.mark.parametrize(
    ("labels", "noun", "name", "way"),
    [
        (OPEN, "person", "Person", "name"),
        (OPEN, "dogs", "Dog", "name"),
        (OPEN, "spectators", "Person", "hypernym"),
        (OPEN, "sweater", "Clothing", "hypernym"),
        (OPEN, "car", "Vehicle", "hypernym"),
        (COCO, "bike", "motorcycle", "lemma"),  # what WordNet thinks a bike is most often
        (COCO, "people", "person", "singular"),
        (COCO, "men", "person", "singular"),
        (COCO, "ball", "sports ball", "name"),
        (COCO, "dog", "dog", "name"),  # a whole name comes before the last word of "hot dog"
        (COCO, "guy", "person", "hypernym"),  # not "cat", a lemma of "guy" that means something else most often
    ],
)
def test_a_noun_leads_to_a_class(labels: Labels, noun: str, name: str, way: str) -> None:
    found = labels.find(noun)
    assert found is not None
    assert (labels.names[found.label], found.way) == (name, way)


@pytest.mark.parametrize("noun", ["snow", "helmet", "background", "xyzzy"])
def test_a_noun_may_lead_nowhere(noun: str) -> None:
    assert COCO.find(noun) is None
    assert OPEN.find("background") is None


def test_the_table_has_a_class_for_every_word() -> None:
    assert COCO.table(["the", "men", "ball"]) == [-1, 0, 3]


def caption(text: str, tags: str) -> Caption:
    words = tuple(text.split())
    return Caption(text, words, (), tuple(tags.split()), words)


def test_coverage_counts_different_phrases_and_mentions() -> None:
    tagged = caption("a man with the dog in the snow", "DT NN IN DT NN IN DT NN")
    found = coverage([(tagged, (0, 2)), (tagged, (0, 2)), (tagged, (3, 5)), (tagged, (6, 8))], COCO)
    assert (found.phrases, found.covered) == (3, 2)
    assert (found.mentions, found.covered_mentions) == (4, 3)
    assert found.by_way == {"name": 1, "lemma": 0, "hypernym": 1, "singular": 0}
    assert found.by_label == {"dog": 1, "person": 1}


def test_labels_of_a_file_are_its_lines(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("person\n\n traffic light \n")
    assert read_labels(tmp_path / "labels.txt") == ("person", "traffic light")


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xff\xfe\x00"])
def test_a_file_without_labels_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "labels.txt").write_bytes(content)
    with pytest.raises(DataError, match=r"labels\.txt"):
        read_labels(tmp_path / "labels.txt")
    with pytest.raises(DataError, match="nowhere"):
        read_labels(tmp_path / "nowhere")
