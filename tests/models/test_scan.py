"""SCAN and POS-SCAN as guides and as scorers of captions."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tiny
import torch
from torch import Tensor

from groundling.errors import GroundlingError
from groundling.models.layers import is_word
from groundling.models.scan import Scan
from groundling.tensors import Batch, Regions
from groundling.text.vocab import SPECIAL, Vocabulary
from groundling.types import BOS, EOS, PAD, UNK

NOUNS = (False,) * 5 + (True,) * 4 + (False,) * 2  # of a vocabulary of 11 words: 5, 6, 7 and 8
TOKENS = torch.tensor(
    [[BOS, 4, 5, 9, 6, EOS], [BOS, 7, UNK, EOS, PAD, PAD], [BOS, 4, 10, 4, EOS, PAD], [BOS, EOS, PAD, PAD, PAD, PAD]]
)
TAGS = torch.tensor([[0, 0, 1, 0, 1, 0], [0, 1, 1, 0, 0, 0], [0, 0, 0, 1, 0, 0], [0] * 6]).bool()  # UNK, and 4 once


def scan(nouns: tuple[bool, ...] | None = None) -> Scan:
    torch.manual_seed(0)
    model = Scan(tiny.VOCAB, tiny.DIM, hidden=6, embed=4, nouns=nouns).double().eval()
    torch.nn.init.normal_(model.embed.weight)  # words that differ
    return model


def batch(regions: Regions | None = None) -> Batch:
    none = torch.zeros(0, dtype=torch.int64)
    return Batch(
        ids=("a", "b"),
        regions=tiny.regions(3, 5) if regions is None else regions,
        image_of=torch.tensor([0, 0, 1, 1]),
        tokens=TOKENS,
        nouns=TAGS,
        visual=TAGS,
        chunk_of=none,
        chunks=none.view(0, 2),
        refs=((), ()),
        vocab=Vocabulary((*SPECIAL, *"abcdefg")),
    )


def test_words_end_at_the_first_end_or_padding() -> None:
    assert is_word(TOKENS[:, 1:]).sum(1).tolist() == [4, 2, 3, 0]
    assert is_word(torch.tensor([[4, EOS, 5], [5, PAD, 6]])).tolist() == [[True, False, False]] * 2


def test_a_word_is_the_mean_of_what_is_read_from_both_sides() -> None:
    model, words = scan(), torch.tensor([[4, 5, EOS, PAD]])
    states, _ = model.gru(model.embed(words[:, :2]))
    mean = (states[..., :6] + states[..., 6:]) / 2
    read = model.encode_words(words, is_word(words))
    torch.testing.assert_close(read[:, :2], mean / mean.norm(dim=-1, keepdim=True))
    assert not read[:, 2:].any()


def test_scan_looks_for_every_word_and_pos_scan_for_tagged_nouns() -> None:
    for model, placed in ((scan(), is_word(TOKENS[:, 1:])), (scan(NOUNS), TAGS[:, 1:])):
        look = model.attention(batch())
        torch.testing.assert_close(look.sum(-1), placed.double())
        assert not look[:2, :, 3:].any()  # the first image has three regions


def test_words_that_do_not_count_are_read_and_take_attention_from_nouns_unless_these_are_alone() -> None:
    model, words = scan(NOUNS), TOKENS[:1, 1:]
    torch.testing.assert_close(
        model.encode_words(words, model.counted(words)), scan().encode_words(words, is_word(words))
    )
    model.nouns_only = True
    counts = model.counted(words)
    e = model.encode_words(words, counts)
    torch.testing.assert_close(e, scan().encode_words(words, is_word(words)) * counts[..., None])
    other = words.masked_fill(words == 9, 10)  # what stands between the nouns
    assert not torch.allclose(model.encode_words(other, counts), e)


def test_the_score_of_pos_scan_is_that_of_its_nouns() -> None:
    """By tags where they are given, else by the vocabulary, for which 5, 6 and 7 are nouns here, and 4 and UNK not."""
    model, seen, words = scan(NOUNS), batch().regions, TOKENS[:, 1:]
    counts = model.counted(words)
    assert [words[n][counts[n]].tolist() for n in range(4)] == [[5, 6], [7], [], []]
    tagged = model.counted(words, TAGS[:, 1:])
    assert [words[n][tagged[n]].tolist() for n in range(4)] == [[5, 6], [7, UNK], [4], []]
    by_tags, by_words = model.pairs(seen, words, TAGS[:, 1:]), model.pairs(seen, words)
    torch.testing.assert_close(by_tags[:, 0], by_words[:, 0])
    assert (by_tags[:, 2] != 0).all() and not by_words[:, 2].any()
    assert not torch.isclose(by_tags[:, 1], by_words[:, 1]).any()
    torch.testing.assert_close(scan().pairs(seen, words, TAGS[:, 1:]), scan().pairs(seen, words))


@pytest.mark.parametrize("nouns", [None, NOUNS])
def test_captions_are_rated_with_their_own_images(nouns: tuple[bool, ...] | None) -> None:
    model, seen, image_of = scan(nouns), batch().regions, torch.tensor([1, 0, 1, 0])
    rated = model.rate(seen, TOKENS[:, 1:], image_of)
    torch.testing.assert_close(rated, model.pairs(seen, TOKENS[:, 1:])[image_of, torch.arange(4)])
    assert rated[3] == 0


def test_one_caption_alone_is_rated_as_in_a_batch_and_what_follows_its_end_is_not_read() -> None:
    model, seen = scan(), batch().regions
    together = model.rate(seen, TOKENS[:, 1:], torch.tensor([0, 0, 1, 1]))
    alone = model.rate(seen[:1], torch.tensor([[7, UNK, EOS, 9, 8]]), torch.tensor([0]))
    torch.testing.assert_close(alone, together[1:2])


def test_padding_regions_changes_nothing_whatever_it_holds() -> None:
    model, seen = scan(), batch().regions
    noise = Regions.stack([seen, tiny.regions(9)])[:2]
    dirty = torch.where(noise.valid[..., None], noise.feats, 7.0)
    noise = replace(noise, feats=dirty)
    torch.testing.assert_close(model.pairs(noise, TOKENS[:, 1:]), model.pairs(seen, TOKENS[:, 1:]))
    look = model.attention(batch(noise))
    torch.testing.assert_close(look[..., :5], model.attention(batch()))
    assert not look[..., 5:].any()


def test_permuting_regions_permutes_where_words_look_and_leaves_what_captions_are_worth() -> None:
    model, seen, order = scan(NOUNS), tiny.regions(5, 5), torch.tensor([3, 0, 4, 2, 1])
    mixed = replace(seen, feats=seen.feats[:, order])
    torch.testing.assert_close(model.attention(batch(mixed)), model.attention(batch(seen))[..., order])
    torch.testing.assert_close(model.pairs(mixed, TOKENS[:, 1:]), model.pairs(seen, TOKENS[:, 1:]))


def test_the_regions_of_all_frames_of_a_video_are_looked_at_together() -> None:
    model, still, moving = scan(), tiny.regions(4, 4), tiny.regions(4, 4, frames=2)
    assert moving.frame.any()
    torch.testing.assert_close(model.attention(batch(moving)), model.attention(batch(still)))


def test_scan_and_pos_scan_have_the_same_weights_to_begin_with_each_other() -> None:
    fresh: dict[str, Tensor] = scan().state_dict()
    assert fresh.keys() == scan(NOUNS).state_dict().keys()


def test_a_temperature_beyond_what_numbers_hold_is_refused() -> None:
    with pytest.raises(GroundlingError, match="temperature must be from 0 to 30, got 31"):
        Scan(5, 3, temperature=31)
