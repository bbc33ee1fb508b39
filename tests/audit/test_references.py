"""An audit beside references."""

from __future__ import annotations

from typing import Any

import pytest

from groundling.audit.references import hold
from groundling.errors import DataError
from groundling.text.annotate import annotate
from groundling.text.words import caption
from groundling.types import Example

EXAMPLE = Example("7", "photos/7.jpg", (0, 0), captions=tuple(annotate([caption("a dog sits on a couch")])))


def line(image: str, *nouns: tuple[str, float | None]) -> dict[str, Any]:
    return {"row": 1, "image": image, "phrases": [{"noun": n, "lemma": n, "evidence": p} for n, p in nouns]}


def test_a_kind_of_what_a_reference_has_is_true_and_another_thing_is_invented() -> None:
    """Of the pairs (true, invented) = (0.9, 0.8), (0.5, 0.8) one is in order. The caption with a cat has a
    lowest noun of 0.8, the other of 0.5: so the one that is wrong comes second, and the precision there is a half."""
    held = hold(
        [line("elsewhere/7.jpg", ("spaniel", 0.9), ("cat", 0.8), ("theorem", None)), line("7", ("animal", 0.5))],
        [EXAMPLE],
    )
    assert held.true.tolist() == [0.9, 0.5] and held.invented.tolist() == [0.8]
    numbers = held.numbers()
    assert numbers["auc"] == 0.5 and numbers["average_precision"] == 0.5 and numbers["base_rate"] == 0.5
    assert numbers["cannot_tell"] == 1 and numbers["invented"] == pytest.approx(1 / 3)


def test_captions_of_other_images_and_rows_with_errors_are_passed_over() -> None:
    assert hold([line("8", ("dog", 0.9)), {"row": 2, "image": "7", "error": "none"}], [EXAMPLE]).numbers()["nouns"] == 0


def test_of_two_images_with_one_file_name_each_has_its_own_references_or_neither() -> None:
    """7.jpg of another folder shows a cat: by id and by path each is found, by the file's name nobody can say."""
    other = Example("b7", "more/7.jpg", (0, 0), captions=tuple(annotate([caption("a cat on a mat")])))
    both = [EXAMPLE, other]
    for image, true in (("7", 1), ("b7", 0), ("photos/7.jpg", 1), ("more/7.jpg", 0)):
        assert len(hold([line(image, ("dog", 0.9))], both).true) == true, image
    with pytest.raises(DataError, match=r"several images are called '7.jpg': name each by its id"):
        hold([line("elsewhere/7.jpg", ("dog", 0.9))], both)
