"""The reward of self-critical training: equal to CIDEr-D on the same words, end included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundling.metrics.captions import document_frequency
from groundling.metrics.cider import DocumentFrequency, cider_d
from groundling.metrics.reward import CiderReward
from groundling.types import EOS

WORDS = ["<pad>", "<bos>", "<eos>", "<unk>", "a", "dog", "cat", "runs", "sleeps"]
REFERENCES = [[[4, 5, 7], [5, 7]], [[4, 6, 8], [6, 8, EOS]], [[4, 5, 8]]]


def words(ids: list[int]) -> list[str]:
    return [WORDS[i] for i in (ids if EOS in ids else [*ids, EOS])]


def test_the_reward_is_cider_d_with_the_end_as_a_word() -> None:
    samples = np.array([[4, 5, 7, EOS, 6], [4, 6, 8, 4, 5], [5, EOS, EOS, 0, 0], [EOS, 4, 4, 4, 4]])
    image = np.array([0, 1, 0, 2])
    captions = [["a", "dog", "runs", "<eos>"], ["a", "cat", "sleeps", "a", "dog"], ["dog", "<eos>"], ["<eos>"]]
    references = [[words(r) for r in refs] for refs in REFERENCES]
    expected = cider_d(captions, [references[i] for i in image], DocumentFrequency.of(references))
    np.testing.assert_allclose(CiderReward(REFERENCES)(samples, image), expected, rtol=0, atol=1e-12)
    assert expected[0] == max(expected) and expected[3] == 0


def test_document_frequencies_of_words_are_found_through_the_vocabulary() -> None:
    df = DocumentFrequency.of([[["a", "dog", "<eos>"]], [["a", "bird", "runs"]], [["the", "cat"]]])
    samples, image = np.array([[4, 5, 7, EOS], [4, 6, 3, EOS]]), np.array([0, 1])
    expected = cider_d([words(s.tolist()) for s in samples], [[words(r) for r in refs] for refs in REFERENCES[:2]], df)
    np.testing.assert_allclose(CiderReward(REFERENCES, df, WORDS)(samples, image), expected, rtol=0, atol=1e-12)


def test_a_table_made_with_the_end_gives_the_reward_of_the_references_own_frequencies() -> None:
    texts = {str(i): [" ".join(WORDS[k] for k in ref if k != EOS) for ref in refs] for i, refs in enumerate(REFERENCES)}
    df = document_frequency(texts, end="<eos>")
    assert df.count(["<eos>"]) == df.images == 3
    samples, image = np.array([[4, 5, 7, EOS], [4, 6, 3, EOS]]), np.array([0, 1])
    expected = CiderReward(REFERENCES)(samples, image)
    np.testing.assert_allclose(CiderReward(REFERENCES, df, WORDS)(samples, image), expected, rtol=0, atol=1e-12)


sentence = st.lists(st.integers(3, 8), max_size=6)


@given(
    st.lists(st.lists(sentence, min_size=1, max_size=3), min_size=1, max_size=4),
    st.lists(st.tuples(sentence, st.integers(0, 3)), min_size=1, max_size=5),
)
def test_many_samples_of_an_image_score_as_each_would_alone(
    references: list[list[list[int]]], drawn: list[tuple[list[int], int]]
) -> None:
    reward = CiderReward(references)
    samples = np.full((len(drawn), 7), EOS)
    for row, (ids, _) in zip(samples, drawn, strict=True):
        row[: len(ids)] = ids
    image = np.array([i % len(references) for _, i in drawn])
    together = reward(samples, image)
    alone = [reward(samples[k : k + 1], image[k : k + 1])[0] for k in range(len(drawn))]
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-12)


def test_wrong_arguments_are_told() -> None:
    with pytest.raises(ValueError, match="image 1 has no reference"):
        CiderReward([[[4]], []])
    with pytest.raises(ValueError, match="together"):
        CiderReward(REFERENCES, DocumentFrequency.of([[["a"]]]))
    with pytest.raises(ValueError, match="do not count the end, '<eos>'"):
        CiderReward(REFERENCES, DocumentFrequency.of([[["a"]]]), WORDS)
    for df in ((), (DocumentFrequency.of([[["a"]]], end="<eos>"), WORDS)):
        reward = CiderReward(REFERENCES, *df)
        with pytest.raises(ValueError, match="ids of words are 0 to .* got -1 to 4"):
            reward(np.array([[4, -1]]), np.array([0]))
        for image in (-1, 3):
            with pytest.raises(ValueError, match="images are numbered 0 to 2"):
                reward(np.array([[4, 5]]), np.array([image]))
    with pytest.raises(ValueError, match="ids of words are 0 to 8, got 9 to 9"):
        reward(np.array([[9]]), np.array([0]))
    with pytest.raises(ValueError, match=r"\(S, T\)"):
        CiderReward(REFERENCES)(np.array([4, 5]), np.array([0]))


def test_words_that_no_reference_has_count_as_words_of_the_sample() -> None:
    """As numbers of their own, however great: the cosine falls, and the known words keep their numbers."""
    image = np.array([0, 0])
    samples = np.array([[4, 5, 2_000_000_000, EOS], [4, 5, 9, EOS]])
    far, near = CiderReward(REFERENCES)(samples, image)
    captions = [["a", "dog", "bird", "<eos>"]]
    references = [[words(r) for r in refs] for refs in REFERENCES]
    [expected] = cider_d(captions, references[:1], DocumentFrequency.of(references))
    assert far == pytest.approx(expected, abs=1e-12) and near == pytest.approx(expected, abs=1e-12)
