from __future__ import annotations

import torch

from groundling.data.collate import collate, encode, overlap
from groundling.tensors import Regions
from groundling.text.vocab import Vocabulary
from groundling.types import Caption, Example, Phrase

VOCAB = Vocabulary(("<pad>", "<bos>", "<eos>", "<unk>", "a", "dog", "runs", "red", "ball"))


def caption(text: str, tags: str = "", chunks: tuple[tuple[int, int], ...] = ()) -> Caption:
    words = tuple(text.split())
    return Caption(text, words, tuple((0, 0) for _ in words), tuple(tags.split()), words, chunks)


RUNS = caption("a dog runs", "DT NN VBZ", ((0, 2),))
BALL = caption("a shiny red ball", "DT JJ JJ NN", ((0, 4),))


def regions(*boxes: tuple[float, float, float, float], size: tuple[float, float] = (100, 100)) -> Regions:
    return Regions.of(torch.ones(len(boxes), 2), torch.tensor(boxes), size)


def test_a_caption_is_bos_words_eos_with_its_nouns_verbs_and_phrases_moved_by_one() -> None:
    line = encode(RUNS, VOCAB, 16)
    assert line.tokens.tolist() == [1, 4, 5, 6, 2]
    assert line.nouns.tolist() == [False, False, True, False, False]
    assert line.visual.tolist() == [False, False, True, True, False]
    assert line.chunks.tolist() == [[1, 3]]


def test_a_long_caption_is_cut_and_so_are_its_phrases() -> None:
    text = caption("a dog runs a red ball", "DT NN VBZ DT JJ NN", ((0, 2), (3, 6)))
    line = encode(text, VOCAB, 4)
    assert line.tokens.tolist() == [1, 4, 5, 6, 4, 2]
    assert line.chunks.tolist() == [[1, 3], [4, 5]]
    assert encode(text, VOCAB, 3).chunks.tolist() == [[1, 3]]
    assert line.nouns.tolist() == [False, False, True, False, False, False]


def test_unknown_words_are_unk_and_a_caption_without_tags_has_no_nouns() -> None:
    line = encode(caption("a zebra"), VOCAB, 16)
    assert line.tokens.tolist() == [1, 4, 3, 2]
    assert not line.visual.any()
    assert line.chunks.shape == (0, 2)


def test_captions_are_grouped_by_image_and_padded() -> None:
    examples = [Example("one", "", (100, 100), (RUNS, BALL)), Example("two", "", (100, 100), (BALL,))]
    lines = [[encode(c, VOCAB, 16) for c in e.captions] for e in examples]
    both = Regions.stack([regions((0, 0, 9, 9)), regions((0, 0, 9, 9), (1, 1, 2, 2))])
    batch = collate(examples, lines, both, VOCAB)
    assert batch.ids == ("one", "two")
    assert batch.image_of.tolist() == [0, 0, 1]
    assert batch.tokens.tolist() == [[1, 4, 5, 6, 2, 0], [1, 4, 3, 7, 8, 2], [1, 4, 3, 7, 8, 2]]
    assert batch.targets.tolist()[0] == [4, 5, 6, 2, 0]
    assert batch.nouns[0].tolist() == [False, False, True, False, False, False]
    assert batch.chunk_of.tolist() == [0, 1, 2]
    assert batch.chunks.tolist() == [[1, 3], [1, 5], [1, 5]]
    assert batch.refs == (((RUNS.tokens), (BALL.tokens)), (BALL.tokens,))
    assert batch.gold is None


def test_unless_boxes_are_merged_the_truth_is_where_a_region_covers_any_box_of_the_phrase_at_its_head() -> None:
    """IoU of (0, 0, 10, 10) and (0, 0, 10, 6) is 0.6; with (0, 0, 10, 5) it is 0.5, which is not above 0.5."""
    phrase = Phrase(0, (0, 2), boxes=((0, 0, 10, 10), (50, 50, 60, 60)), head=1)
    example = Example("one", "", (100, 100), (RUNS, BALL), gold=(phrase, Phrase(1, (0, 4))))
    seen = regions((0, 0, 10, 6), (0, 0, 10, 5), (50, 50, 60, 60), (20, 20, 30, 30))
    gold = overlap([example], [[1, 0]], seen, 6, merge=False) > 0.5
    assert gold.shape == (2, 6, 4)
    assert not gold[0].any()  # nothing was drawn for the second caption
    assert gold[1, 2].tolist() == [True, False, True, False]  # "dog", after BOS and "a"
    assert gold.sum() == 2


def test_a_phrase_without_a_head_gives_its_boxes_to_its_nouns() -> None:
    example = Example("one", "", (100, 100), (RUNS,), gold=(Phrase(0, (0, 3), boxes=((0, 0, 10, 10),)),))
    assert (overlap([example], [[0]], regions((0, 0, 10, 10)), 5) > 0.5).nonzero().tolist() == [[0, 2, 0]]


def test_the_truth_follows_the_size_that_regions_were_made_at_and_their_frame() -> None:
    boxes = ((0.0, 0.0, 10.0, 10.0), (0.0, 0.0, 10.0, 10.0))
    example = Example("one", "", (100, 100), (RUNS,), gold=(Phrase(0, (0, 2), boxes[:1], frames=(1,), head=1),))
    half = Regions.of(
        torch.ones(2, 2), torch.tensor(boxes) / 2, (50, 50), frame=torch.tensor([0, 1], dtype=torch.int64)
    )
    assert (overlap([example], [[0]], half, 5)[0, 2] > 0.5).tolist() == [False, True]


def test_a_word_beyond_the_cut_has_no_truth_nor_has_the_end_in_its_place() -> None:
    example = Example("one", "", (100, 100), (BALL,), gold=(Phrase(0, (0, 4), ((0, 0, 10, 10),), head=3),))
    for length, words in ((2, []), (3, []), (4, [[0, 4, 0]])):
        line = encode(BALL, VOCAB, length)
        assert (overlap([example], [[0]], regions((0, 0, 10, 10)), len(line)) > 0.5).nonzero().tolist() == words


def test_the_place_of_a_word_with_two_boxes_is_the_box_around_them_as_it_is_scored() -> None:
    """Two dogs side by side, 10 wide each. Regions: either dog, IoU 1/2 with both together, and both."""
    two = ((0.0, 0.0, 10.0, 10.0), (10.0, 0.0, 20.0, 10.0))
    example = Example("x", "", (100, 100), (RUNS,), (Phrase(0, (0, 2), boxes=two, head=1),))
    seen = regions(*two, (0, 0, 20, 10))
    assert overlap([example], [[0]], seen, 5)[0, 2].tolist() == [0.5, 0.5, 1.0]
    assert overlap([example], [[0]], seen, 5, merge=False)[0, 2].tolist() == [1.0, 1.0, 0.5]


def test_boxes_of_a_word_are_merged_within_a_frame_and_not_across_frames() -> None:
    """Two boxes in frame 0, one in frame 1: the region of both is right in frame 0, the single one in frame 1."""
    boxes = ((0.0, 0.0, 10.0, 10.0), (10.0, 0.0, 20.0, 10.0), (0.0, 0.0, 10.0, 10.0))
    example = Example("x", "", (100, 100), (RUNS,), (Phrase(0, (0, 2), boxes=boxes, frames=(0, 0, 1), head=1),))
    wide, left = (0.0, 0.0, 20.0, 10.0), (0.0, 0.0, 10.0, 10.0)
    seen = Regions.of(
        torch.ones(4, 2), torch.tensor([wide, left, wide, left]), (100, 100), frame=torch.tensor([0, 0, 1, 1])
    )
    assert overlap([example], [[0]], seen, 5)[0, 2].tolist() == [1.0, 0.5, 0.5, 1.0]
