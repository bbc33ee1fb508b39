from __future__ import annotations

from dataclasses import replace

import pytest
import tiny
import torch
from torch import Tensor

from groundling.models.grounder import Grounder
from groundling.tensors import Batch
from groundling.text.vocab import SPECIAL, Vocabulary
from groundling.types import BOS, EOS, PAD

WORDS = ("a", "group", "of", "men", "on", "red", "grass")
A, GROUP, OF, MEN, ON, RED, GRASS = range(4, 11)
VOCAB = Vocabulary(SPECIAL + WORDS, tuple(word in ("group", "men", "grass") for word in SPECIAL + WORDS))


def grounder(seed: int = 0) -> Grounder:
    torch.manual_seed(seed)
    model = Grounder(
        len(VOCAB), tiny.DIM, joint=6, embed=4, hidden=5, layers=2, joiner=OF, nouns=VOCAB.nouns, temperature=0.2
    )
    return model.double().eval()


def batch() -> Batch:
    """Two images, the second with fewer regions: "a group of men on red grass", "a men"."""
    tokens = torch.tensor([[BOS, A, GROUP, OF, MEN, ON, RED, GRASS, EOS], [BOS, A, MEN, EOS, *[PAD] * 5]])
    nouns = torch.isin(tokens, torch.tensor([GROUP, MEN, GRASS]))
    return Batch(
        ids=("x", "y"),
        regions=tiny.regions(4, 3),
        image_of=torch.tensor([0, 1]),
        tokens=tokens,
        nouns=nouns,
        visual=nouns,
        chunk_of=torch.tensor([0, 0, 0, 1]),
        chunks=torch.tensor([[1, 3], [4, 5], [6, 8], [1, 3]]),
        refs=((("a",),), (("a",),)),
        vocab=VOCAB,
    )


def test_phrases_with_of_between_them_are_one() -> None:
    found = grounder().phrases_of(batch())
    assert found.words.tolist() == [[A, GROUP, OF, MEN], [RED, GRASS, PAD, PAD], [A, MEN, PAD, PAD]]
    assert found.caption.tolist() == [0, 0, 1]
    assert found.start.tolist() == [1, 6, 1]
    assert found.end.tolist() == [5, 8, 3]


def test_without_a_parser_a_phrase_is_nouns_in_a_row_and_two_words_before_them() -> None:
    """From "a group of men on red grass": "a group", "of men", "on red grass"."""
    found = grounder().phrases_in(batch().targets)
    assert found.words.tolist() == [[A, GROUP, PAD], [OF, MEN, PAD], [ON, RED, GRASS], [A, MEN, PAD]]
    assert found.caption.tolist() == [0, 0, 0, 1]


def test_both_branches_end_on_the_unit_sphere_and_padding_is_zero() -> None:
    model, captions = grounder(), batch()
    v, y = model.encode_regions(captions.regions), model.encode_phrases(model.phrases_of(captions).words)
    torch.testing.assert_close(v.norm(dim=-1), captions.regions.valid.double())
    torch.testing.assert_close(y.norm(dim=-1), torch.ones(3, dtype=torch.float64))


def test_a_phrase_is_read_alike_alone_and_beside_longer_ones() -> None:
    model = grounder()
    together = model.encode_phrases(torch.tensor([[A, GROUP, OF, MEN], [RED, GRASS, PAD, PAD], [RED, GRASS, PAD, PAD]]))
    alone = model.encode_phrases(torch.tensor([[RED, GRASS]]))
    torch.testing.assert_close(together[1:], alone.expand(2, -1))


def test_the_soft_maximum_lies_between_mean_and_maximum_and_ignores_padding() -> None:
    """Of equal scores it is that score; of (1, 0) at τ = 1 it is log((e + 1) / 2)."""
    model = grounder()
    model.temperature = 1.0
    scores = torch.tensor([[1.0, 0, 9], [0.3, 0.3, 0.3], [1, 2, 3]])
    valid = torch.tensor([[True, True, False], [True, True, True], [False, False, False]])
    expected = torch.tensor([((torch.tensor(1.0).exp() + 1) / 2).log(), 0.3, 0.0])
    torch.testing.assert_close(model.best(scores, valid), expected)


def test_a_guide_looks_where_nouns_of_phrases_are_and_nowhere_else() -> None:
    model, captions = grounder(), batch()
    look = model.attention(captions)
    nouns = captions.nouns[:, 1:]
    torch.testing.assert_close(look.sum(-1), nouns.double())
    torch.testing.assert_close(look[0, 1], look[0, 3])  # "group" and "men" are one phrase
    assert (look[1, :, 3] == 0).all()  # the second image has three regions


def test_permuting_regions_permutes_the_look_and_padding_changes_nothing() -> None:
    model, captions = grounder(), batch()
    order = torch.tensor([2, 0, 3, 1])
    first = captions.regions[slice(0, 1)]
    names = ("feats", "boxes", "valid", "frame", "labels", "scores")
    mixed = replace(first, **{name: getattr(first, name)[:, order] for name in names})
    one = replace(
        captions,
        ids=("x",),
        regions=first,
        image_of=captions.image_of[:1],
        tokens=captions.tokens[:1],
        nouns=captions.nouns[:1],
        chunk_of=captions.chunk_of[:3],
        chunks=captions.chunks[:3],
    )
    torch.testing.assert_close(model.attention(replace(one, regions=mixed)), model.attention(one)[..., order])
    torch.testing.assert_close(model.attention(one), model.attention(captions)[:1])


def test_a_pair_is_rated_as_in_the_matrix_of_all_pairs() -> None:
    model, captions = grounder(), batch()
    rated = model.rate(captions.regions, captions.targets, captions.image_of)
    pairs = model.pairs(captions.regions, captions.targets)
    torch.testing.assert_close(rated, pairs.diagonal())
    alone = model.rate(captions.regions[slice(1, 2)], captions.targets[1:], torch.tensor([0]))
    torch.testing.assert_close(rated[1:], alone)


@pytest.mark.parametrize("words", [torch.tensor([[EOS, PAD]]), torch.tensor([[A, EOS]])])
def test_a_caption_without_a_phrase_is_rated_zero(words: Tensor) -> None:
    model = grounder()
    assert model.rate(tiny.regions(3), words, torch.tensor([0])).tolist() == [0]
    assert model.pairs(tiny.regions(3), words).tolist() == [[0]]
