from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tiny import DIM, HIDDEN, VOCAB, regions

from groundling.models.layers import Plain
from groundling.models.multihead import MultiHead
from groundling.models.updown import UpDown
from groundling.tensors import EncodedImage


def encoded(memory: torch.Tensor, keys: torch.Tensor, valid: torch.Tensor, row: torch.Tensor) -> EncodedImage:
    return EncodedImage(memory, keys, valid, torch.zeros_like(valid, dtype=torch.int64), memory.mean(1), row)


def test_it_is_the_multi_head_attention_of_torch() -> None:
    """With the same weights, for two rows of one image and one of another, with padding."""
    torch.manual_seed(0)
    mine = MultiHead(8, 8, 4).double()
    theirs = torch.nn.MultiheadAttention(8, 4, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([mine.of_query.weight, mine.of_memory.weight]))
        theirs.in_proj_bias.copy_(torch.cat([mine.of_query.bias, mine.of_memory.bias]))
        theirs.out_proj.load_state_dict(mine.out.state_dict())
    memory, valid = torch.randn(2, 5, 8).double(), torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    row, query = torch.tensor([0, 1, 0]), torch.randn(3, 8).double()
    context, weights = mine(query, encoded(memory, mine.keys(memory), valid, row))
    expected, shown = theirs(query[:, None], memory[row], memory[row], key_padding_mask=~valid[row])
    torch.testing.assert_close((context, weights), (expected[:, 0], shown[:, 0]))
    assert weights[1, 3:].abs().sum() == 0


def test_two_heads_by_hand() -> None:
    """d = 1, scores 0 and log 3 in one head, log 3 and 0 in the other: weights (1/4, 3/4) and (3/4, 1/4)."""
    attend = MultiHead(2, 2, 2).double()
    with torch.no_grad():
        for weight in attend.parameters():
            weight.zero_()
        attend.of_query.weight.copy_(torch.eye(2))
        attend.of_memory.weight.copy_(torch.cat([torch.eye(2), torch.eye(2)]))
        attend.out.weight.copy_(torch.eye(2))
    log3 = torch.tensor(3.0).double().log()
    memory = torch.tensor([[[0.0, log3], [log3, 0.0]]]).double()
    seen = encoded(memory, attend.keys(memory), torch.ones(1, 2, dtype=torch.bool), torch.tensor([0]))
    context, weights = attend(torch.ones(1, 2).double(), seen)
    torch.testing.assert_close(weights, torch.tensor([[0.5, 0.5]]).double())
    torch.testing.assert_close(context, (0.75 * log3).expand(1, 2))


def test_permuting_regions_permutes_the_attention_and_padding_changes_nothing() -> None:
    torch.manual_seed(0)
    model = UpDown(VOCAB, Plain(DIM, HIDDEN), MultiHead(HIDDEN, 6, 3), HIDDEN, 4).double().eval()
    seen, order, tokens = regions(4), torch.tensor([2, 0, 3, 1]), torch.tensor([[1, 5, 6, 2]])
    shuffled = replace(seen, feats=seen.feats[:, order], boxes=seen.boxes[:, order])
    one, other, padded = (
        model(model.encode(x)[torch.tensor([0])], tokens[:, :-1], tokens[:, 1:])
        for x in (seen, shuffled, regions(4, 7))
    )
    torch.testing.assert_close((one.logp, one.attn[..., order]), (other.logp, other.attn))
    torch.testing.assert_close((one.logp, one.attn), (padded.logp, padded.attn[..., :4]))


@pytest.mark.parametrize("heads", [0, 4])
def test_heads_must_share_the_size_evenly(heads: int) -> None:
    with pytest.raises(ValueError, match="multiple"):
        MultiHead(8, 6, heads)
