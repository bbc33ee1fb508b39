"""Geometry, padding and the nouns that decide what a word's place is."""

from __future__ import annotations

import math

import pytest
import torch

from groundling import boxes
from groundling.errors import DataError
from groundling.inference.phrases import GroundedPhrase, as_caption, in_sentence
from groundling.tensors import Glimpse, Regions
from groundling.types import GroundedCaption, Link, WordAttention


def test_iou_of_boxes_that_share_a_third() -> None:
    """(0,0,2,1) and (1,0,3,1) share area 1 of 3 in all."""
    a, b = torch.tensor([[0.0, 0, 2, 1]]), torch.tensor([[1.0, 0, 3, 1], [5.0, 5, 6, 6]])
    torch.testing.assert_close(boxes.iou(a, b), torch.tensor([[1 / 3, 0.0]]))


def test_union_spans_the_chosen_boxes_and_is_nan_without_any() -> None:
    two = torch.tensor([[0.0, 0, 1, 1], [4, 4, 5, 6], [9, 9, 10, 10]])
    assert boxes.union(two, torch.tensor([True, True, False])).tolist() == [0, 0, 5, 6]
    assert boxes.union(two, torch.zeros(3, dtype=torch.bool)).isnan().all()


def test_a_box_does_for_another_when_they_overlap_by_more_than_half() -> None:
    """IoU 1, 0 and 1/2: the step is soft, of width 0.08."""
    found = boxes.soft_iou_match(torch.tensor([[0.0, 0, 10, 10], [20, 0, 30, 10], [0, 0, 10, 5]]))
    step = 1 / (1 + math.exp(0.5 / 0.08))
    torch.testing.assert_close(found[0], torch.tensor([1 - step, step, 0.5]))
    torch.testing.assert_close(found, found.T)


def test_nms_keeps_the_best_of_two_that_overlap() -> None:
    b = torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 9], [20, 20, 30, 30]])
    assert boxes.nms(b, torch.tensor([0.5, 0.9, 0.1]), 0.5).tolist() == [1, 2]


def test_stack_pads_regions_with_zeros_and_labels_with_minus_one() -> None:
    one = Regions.of(
        torch.ones(2, 3), torch.ones(2, 4), (8, 6), labels=torch.ones(2, 1).long(), scores=torch.ones(2, 1)
    )
    two = Regions.of(torch.ones(1, 3), torch.ones(1, 4), (4, 4))
    both = Regions.stack([one, two])
    assert both.valid.tolist() == [[True, True], [True, False]]
    assert both.feats[1, 1].sum() == 0 and both.boxes[1, 1].sum() == 0
    assert both.labels[1, 0].tolist() == [-1]
    assert both.size.tolist() == [[8, 6], [4, 4]]


def test_regions_refuse_boxes_of_another_shape() -> None:
    with pytest.raises(ValueError, match=r"boxes must be \(B, R, 4\)"):
        Regions.of(torch.ones(2, 3), torch.ones(2, 5), (8, 6))


def test_boxes_of_a_data_set_follow_the_size_that_regions_were_made_at() -> None:
    """Regions of 8 x 6 pixels, an image of 16 x 24: across a half, down a quarter. Of an unknown size they stay."""
    regions = Regions.of(torch.ones(1, 2), torch.ones(1, 4), (8, 6))
    assert regions.scale(0, (16, 24)).tolist() == [0.5, 0.25, 0.5, 0.25]
    assert regions.scale(0, (0, 0)).tolist() == [1, 1, 1, 1]


def test_one_branch_picks_the_heaviest_region_of_each_frame() -> None:
    look = Glimpse(torch.tensor([[0.1, 0.4, 0.3, 0.2]]))
    assert look.picks(torch.tensor([7]), torch.tensor([[0, 0, 1, 1]])).tolist() == [[False, True, True, False]]


def test_branches_that_say_the_word_join_their_regions() -> None:
    """Branches 0 and 2 say 7: regions 0 and 2. Nobody says 9: the heaviest of the mean."""
    branches = torch.tensor([[[0.9, 0.1, 0], [0.1, 0.9, 0], [0, 0.3, 0.7]]])
    look = Glimpse(branches.mean(1), branches, torch.tensor([[7, 8, 7]]))
    frame = torch.zeros(1, 3, dtype=torch.int64)
    assert look.picks(torch.tensor([7]), frame).tolist() == [[True, False, True]]
    assert look.picks(torch.tensor([9]), frame).tolist() == [[False, True, False]]


def test_a_grounded_caption_survives_json() -> None:
    link = Link(1, (2, 5), (0, 0, 5, 5), 0.5, evidence=0.25)
    caption = GroundedCaption(
        "7", "a dog", ("a", "dog"), ((0, 1), (2, 5)), (link,), (WordAttention(1, ((0, 0, 5, 5),), (0.5,)),)
    )
    assert caption.word(link) == "dog"
    assert GroundedCaption.from_dict(caption.to_dict()) == caption
    older = caption.to_dict()
    older["looks"] = older.pop("attention")
    assert GroundedCaption.from_dict(older) == caption
    del older["links"][0]["evidence"], older["links"][0]["weak"]
    assert GroundedCaption.from_dict(older).links[0].evidence is None


@pytest.mark.parametrize(
    ("link", "frames", "weak"),
    [
        (Link(0, (0, 1), (0, 0, 5, 5), 0.9, evidence=0.64), 0, True),  # sure of the place of what is not there
        (Link(0, (0, 1), (0, 0, 5, 5), 0.1, evidence=0.65), 0, False),
        (Link(0, (0, 1), (0, 0, 5, 5), 0.1), 0, True),  # no grounder: the attention tells
        (Link(0, (0, 1), (0, 0, 5, 5), 0.1), 5, False),  # which five frames share
    ],
)
def test_a_word_may_be_made_up_by_its_evidence_or_else_by_its_attention(link: Link, frames: int, weak: bool) -> None:
    caption = GroundedCaption("7", "a", ("a",), ((0, 1),), (link,), frames=frames)
    assert caption.weak(link) is weak is caption.to_dict()["links"][0]["weak"]


def test_a_phrase_that_was_found_is_not_marked() -> None:
    """Phrases are found from an evidence of a half on; nouns of captions are marked below more."""
    found = GroundedPhrase("a dog", (0, 5), (0, 0, 5, 5), 0.9, 0.55)
    for caption in (in_sentence("a dog runs", [found]), as_caption([found])):
        assert found.found and [caption.weak(link) for link in caption.links] == [False]


@pytest.mark.parametrize(
    ("field", "value"), [("score", math.nan), ("evidence", math.inf), ("box", [0, 0, math.inf, 5])]
)
def test_a_link_with_a_number_that_is_none_is_refused(field: str, value: object) -> None:
    """JSON as Python reads it has NaN, and 1e999 is infinite: neither can be drawn, or written again."""
    link = {"token": 0, "span": [0, 1], "box": [0, 0, 5, 5], "score": 0.5, field: value}
    with pytest.raises(DataError, match="is not a finite number"):
        GroundedCaption.from_dict({"id": "7", "caption": "a", "links": [link]})


def test_a_row_that_is_no_caption_is_named() -> None:
    with pytest.raises(DataError, match="caption"):
        GroundedCaption.from_dict({"id": "7"})


def test_a_printed_caption_shows_its_text_and_boxes_and_fits_a_screen() -> None:
    link, seen = Link(1, (2, 5), (0, 0, 4, 4), 0.9, evidence=0.8), WordAttention(1, ((0, 0, 4, 4),) * 50, (0.02,) * 50)
    printed = repr(GroundedCaption("7", "a cat", ("a", "cat"), ((0, 1), (2, 5)), (link,), (seen,) * 20))
    assert "a cat" in printed and "(0, 0, 4, 4)" in printed and "evidence=0.8" in printed and len(printed) < 400
