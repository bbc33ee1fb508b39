from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from groundling.errors import DataError, MissingExtra
from groundling.text.vectors import PACKAGE, read_vectors, vectors_of_new_words

GLOVE = "dog 1 2\ncat 3 6\nunused 9 9\n"


@pytest.mark.parametrize("text", [GLOVE, "3 2\n" + GLOVE])
def test_vectors_of_glove_and_word2vec_have_mean_0_and_deviation_1(tmp_path: Path, text: str) -> None:
    """Of dog (1, 2) and cat (3, 6) the means are (2, 4), the deviations (1, 2): -1 and 1 are left."""
    (tmp_path / "v.txt").write_text(text)
    found = read_vectors(str(tmp_path / "v.txt"), ["<pad>", "cat", "dog"], 2)
    np.testing.assert_allclose(found, [[0, 0], [1, 1], [-1, -1]])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("dog 1 2 3\n", "3 numbers, 2 are expected"),
        ("dog 1 x\n", "line 1"),
        ("dog 1 nan\n", "not finite"),
        ("horse 1 2\n", "knows none"),
        ("", "knows none"),
    ],
)
def test_a_file_that_is_none_is_named(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "v.txt").write_text(text)
    with pytest.raises(DataError, match=told):
        read_vectors(str(tmp_path / "v.txt"), ["dog"], 2)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere"):
        read_vectors(str(tmp_path / "nowhere"), ["dog"], 2)


def test_the_package_is_read_or_asked_for() -> None:
    try:
        found = read_vectors(PACKAGE, ["dog", "cat", "sky"], 50)
    except MissingExtra as error:
        assert "pip install" in str(error)
    else:
        assert np.linalg.norm(found[0] - found[1]) < np.linalg.norm(found[0] - found[2])


def test_a_new_word_has_its_own_vector_on_the_scale_of_the_model(tmp_path: Path) -> None:
    """dog (1, 2) and cat (3, 6) are (-1, -1) and (1, 1) in the model, so cow (4, 2) is ((4 - 2) / 1, (2 - 4) / 2)."""
    (tmp_path / "v.txt").write_text(GLOVE + "cow 4 2\n")
    words = ["<pad>", "cat", "dog"]
    model = read_vectors(str(tmp_path / "v.txt"), words, 2)
    new = vectors_of_new_words(str(tmp_path / "v.txt"), words, model, ["zyzzyva", "cow"])
    np.testing.assert_allclose(new, [[0, 0], [2, -1]], atol=1e-6)
    more = np.concatenate([model, new])  # a model that learned words before keeps the scale of its first words
    again = vectors_of_new_words(str(tmp_path / "v.txt"), [*words, "zyzzyva", "cow"], more, ["unused"])
    np.testing.assert_allclose(again, [[7, 2.5]], atol=1e-5)


def test_vectors_that_do_not_know_the_words_of_a_model_are_refused(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text(GLOVE)
    with pytest.raises(DataError, match="trained with"):
        vectors_of_new_words(str(tmp_path / "v.txt"), ["horse", "cow"], np.ones((2, 2), np.float32), ["dog"])
