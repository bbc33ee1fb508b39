"""K attentions that take turns and vote: each step by hand, one branch is Up-Down, alone equals in a batch."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from tiny import DIM, HIDDEN, VOCAB, regions
from torch import Tensor

from groundling import decoding
from groundling.inference import links
from groundling.models.layers import Additive, GroundingAware, Plain
from groundling.models.multi_branch import MultiBranch, majority_vote, remaining_regions, vote_on_target
from groundling.models.updown import UpDown
from groundling.tensors import Decoding, EncodedImage, Regions
from groundling.types import BOS, EOS, PAD, UNK

TOKENS = torch.tensor(
    [
        [BOS, 4, 5, EOS, PAD, PAD],
        [BOS, 6, 7, 8, 9, EOS],
        [BOS, 9, EOS, PAD, PAD, PAD],
        [BOS, 4, 9, 10, EOS, PAD],
        [BOS, 5, 5, 5, EOS, PAD],
    ]
)
IMAGE_OF = torch.tensor([0, 0, 0, 1, 2])


def multi_branch(k: int = 3, seed: int = 0, gain: float = 3.0, eliminate: bool = True) -> MultiBranch:
    """Float64, in eval mode, with weights large enough that words and attention vary."""
    torch.manual_seed(seed)
    attends = [Additive(HIDDEN, 6) for _ in range(k)]
    model = MultiBranch(VOCAB, Plain(DIM, HIDDEN), attends, HIDDEN, 4, eliminate=eliminate).double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(gain)
    return model


def forced(
    model: UpDown | MultiBranch, seen: Regions, tokens: Tensor = TOKENS, image_of: Tensor = IMAGE_OF
) -> Decoding:
    decoded: Decoding = model(model.encode(seen)[image_of], tokens[:, :-1], tokens[:, 1:])
    return decoded


# ---------------------------------------------------------------- elimination


def test_a_branch_sees_all_but_what_those_before_it_chose() -> None:
    """Branch 1 likes region 1; branch 2 too, but may not, and takes 3; branch 3 likes 3, then 1, and is left with 0."""
    z = torch.tensor([[1.0, 9, 0, 2], [1, 9, 0, 2], [0.5, 8, 0, 9], [5, 5, 5, 5]])
    valid, frame = torch.tensor([True, True, True, True]), torch.zeros(4, dtype=torch.int64)
    assert remaining_regions(z, valid, frame).int().tolist() == [[1, 1, 1, 1], [1, 0, 1, 1], [1, 0, 1, 0], [0, 0, 1, 0]]


def test_padding_is_never_seen_and_a_branch_with_nothing_left_begins_anew() -> None:
    z = torch.tensor([[1.0, 2, 9], [1, 2, 9], [1, 2, 9], [1, 2, 9]])
    valid, frame = torch.tensor([True, True, False]), torch.zeros(3, dtype=torch.int64)
    assert remaining_regions(z, valid, frame).int().tolist() == [[1, 1, 0], [1, 0, 0], [1, 1, 0], [1, 0, 0]]
    assert not remaining_regions(z, torch.zeros(3, dtype=torch.bool), frame).any()


def test_in_a_video_one_region_of_each_frame_goes() -> None:
    """Frames 0 0 1 1 1; equals: the first; a frame that is used up gives nothing more while others have regions."""
    z = torch.tensor([[1.0, 2, 7, 7, 0], [1, 2, 7, 7, 0], [1, 2, 7, 7, 0], [0, 0, 0, 0, 0]])
    frame, valid = torch.tensor([0, 0, 1, 1, 1]), torch.ones(5, dtype=torch.bool)
    assert remaining_regions(z, valid, frame).int().tolist() == [
        [1, 1, 1, 1, 1],
        [1, 0, 0, 1, 1],
        [0, 0, 0, 0, 1],
        [1, 1, 1, 1, 1],
    ]


@pytest.mark.parametrize("frames", [1, 2], ids=["image", "video"])
def test_the_regions_that_branches_choose_are_all_different(frames: int) -> None:
    model, seen = multi_branch(3), regions(8, 7, 9, frames=frames)
    attn = torch.stack([branch.attn for branch in forced(model, seen).branches], 2)  # (N, T, K, R)
    real = TOKENS[:, 1:] != PAD
    torch.testing.assert_close(attn.sum(-1)[real], torch.ones(int(real.sum()), 3).double())
    for f in range(frames):
        here = attn.masked_fill((seen.frame[IMAGE_OF] != f)[:, None, None], -1)
        chosen = here.argmax(-1)[real]  # (M, K)
        for k in (1, 2):
            gone = attn[real][:, k].gather(1, chosen[:, :k])
            assert (gone == 0).all()
    free = torch.stack([branch.attn for branch in forced(multi_branch(3, eliminate=False), seen).branches], 2)
    assert (free[real] > 0).sum() == seen.valid[IMAGE_OF].sum(1).repeat_interleave(real.sum(1)).sum() * 3


# ---------------------------------------------------------------- voting


def log(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64).log()[None]


def test_the_mixture_is_the_mean_where_the_vote_agrees_with_it() -> None:
    """Words 4, 5: both branches say 4."""
    p = log([0.05, 0.05, 0.05, 0.05, 0.6, 0.2], [0.05, 0.05, 0.05, 0.05, 0.5, 0.3])
    logp, words = majority_vote(p)
    assert words.tolist() == [[4, 4]]
    torch.testing.assert_close(logp.exp(), torch.tensor([[0.05, 0.05, 0.05, 0.05, 0.55, 0.25]]).double())


def test_the_vote_changes_places_with_the_likeliest_word_of_the_mixture() -> None:
    """Two timid votes for 4 against a sure one for 5: the mean prefers 5 (0.53 to 0.37), the vote is 4."""
    rows = [[0, 0, 0.1, 0, 0.5, 0.4], [0, 0, 0.1, 0, 0.6, 0.3], [0, 0, 0.1, 0, 0.01, 0.89]]
    logp, words = majority_vote(log(*rows))
    mean = torch.tensor(rows, dtype=torch.float64).mean(0)
    assert words.tolist() == [[4, 4, 5]] and mean.argmax() == 5
    torch.testing.assert_close(logp.exp()[0], mean[[0, 1, 2, 3, 5, 4]])
    torch.testing.assert_close(logp.exp().sum(), torch.tensor(1.0).double())


def test_of_equally_many_votes_the_likelier_word_wins_and_special_tokens_get_none() -> None:
    """UNK is the first choice of both branches; then 4 and 5 have a vote each, and 5 is likelier on average."""
    p = log([0, 0, 0.02, 0.5, 0.28, 0.2], [0, 0, 0.02, 0.5, 0.1, 0.38])
    logp, words = majority_vote(p)
    assert words.tolist() == [[4, 5]]
    assert logp[0, 4:].argmax() == 1
    torch.testing.assert_close(logp[0, UNK].exp(), torch.tensor(0.5).double())


@pytest.mark.parametrize("k", [1, 2, 4, 5])
def test_an_election_of_one_target_is_that_of_all_words(k: int) -> None:
    torch.manual_seed(k)
    logits = (3 * torch.randn(300, k, 9, dtype=torch.float64)).requires_grad_()
    target = torch.randint(9, (300,))
    logp, words = majority_vote(logits.log_softmax(-1))
    plain = logp.gather(1, target[:, None]).squeeze(1)
    own, mine, guesses, guess = vote_on_target(logits, target)
    theirs = logits.log_softmax(-1)[torch.arange(300), :, target]
    torch.testing.assert_close((mine, own), (plain, theirs))
    assert torch.equal(guess, logp.argmax(1)) and torch.equal(guesses, logits.argmax(2))
    both, each = torch.randn(300, dtype=torch.float64), torch.randn(300, k, dtype=torch.float64)
    losses = (both * mine).sum() + (each * own).sum(), (both * plain).sum() + (each * theirs).sum()
    torch.testing.assert_close(*(torch.autograd.grad(loss, logits)[0] for loss in losses))
    moved = (logp.argmax(1) != logits.softmax(-1).mean(1).argmax(1)).sum()
    assert (moved > 10) == (k > 2)


# ---------------------------------------------------------------- the captioner


def test_it_computes_equations_3_to_7() -> None:
    """Two branches of one image, written out: the second without what the first chose, LSTM_1 hearing their mean."""
    model, seen, h = multi_branch(2), regions(4), HIDDEN
    first, second = model.attention_gates.weight, model.language_gates.weight
    zero = torch.zeros(h, dtype=torch.float64)

    def cell(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        i, f, g, o = gates.view(4, h)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c

    v = model.encoder.embed[0](seen.feats[0]).relu()
    h1, c1, h2, c2 = zero, zero, [zero, zero], [zero, zero]
    encoded = model.encode(seen)
    state = model.start(encoded)
    for word in (BOS, 4, 5):
        e = model.embed.weight[word].relu()
        still = model.whole_gates(v.mean(0)) + model.word_gates(e)
        h1, c1 = cell(still + first @ torch.cat([(h2[0] + h2[1]) / 2, h1]), c1)
        left, attn, logps = torch.ones(4, dtype=torch.bool), [], []
        for k, attend in enumerate((model.attend, model.others[0])):
            z = (attend.of_memory(v) + attend.of_query(h1)).tanh() @ attend.weigh.weight[0]
            a = z.masked_fill(~left, -math.inf).softmax(0)
            left[a.argmax()] = False
            h2[k], c2[k] = cell(second @ torch.cat([a @ v, h1, h2[k]]) + model.language_gates.bias, c2[k])
            attn.append(a)
            logps.append(model.logits(h2[k]).log_softmax(0))
        logp, glimpse, state = model.step(torch.tensor([word]), encoded, state)
        assert glimpse.branches is not None
        torch.testing.assert_close(glimpse.branches[0], torch.stack(attn))
        torch.testing.assert_close(glimpse.attn[0], (attn[0] + attn[1]) / 2)
        torch.testing.assert_close(logp, majority_vote(torch.stack(logps)[None])[0])


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 1, 0, 3, 2]], ids=["grouped", "mixed"])
@pytest.mark.parametrize("frames", [1, 2], ids=["image", "video"])
def test_forward_equals_step_by_step_in_values_and_gradients(order: list[int], frames: int) -> None:
    model, seen = multi_branch(), regions(4, 2, 6, frames=frames)
    tokens, image_of = TOKENS[order], IMAGE_OF[order]
    targets, real = tokens[:, 1:], tokens[:, 1:] != PAD
    encoded = model.encode(seen)[image_of]
    state, logps, attns, branches = model.start(encoded), [], [], []
    for t in range(targets.shape[1]):
        logp, glimpse, state = model.step(tokens[:, t], encoded, state)
        assert glimpse.branches is not None
        logps.append(logp)
        attns.append(glimpse.attn)
        branches.append(glimpse.branches)
    plain = torch.stack(logps, 1).gather(2, targets[..., None]).squeeze(2) * real
    attn = torch.stack(attns, 1) * real[..., None]
    each = torch.stack(branches, 1) * real[..., None, None]
    decoded = forced(model, seen, tokens, image_of)
    torch.testing.assert_close((decoded.logp, decoded.attn), (plain, attn))
    assert torch.equal(decoded.guess, torch.stack(logps, 1).argmax(2) * real)
    torch.testing.assert_close(torch.stack([branch.attn for branch in decoded.branches], 2), each)
    losses = decoded.logp.sum() + (decoded.attn**2).sum(), plain.sum() + (attn**2).sum()
    one, other = (torch.autograd.grad(loss, list(model.parameters())) for loss in losses)
    torch.testing.assert_close(one, other)


def test_gradients_against_finite_differences() -> None:
    model, seen = multi_branch(2, gain=1.0), regions(3, 4)

    def loss(*weights: Tensor) -> tuple[Tensor, ...]:
        named = {f"model.{k}": w for k, w in zip(dict(model.named_parameters()), weights, strict=True)}
        decoded = torch.func.functional_call(_Forced(model), named, (seen,))
        return decoded.logp.sum(), decoded.attn, decoded.branches[1].logp.sum(), decoded.branches[1].attn

    weights = tuple(p.detach().clone().requires_grad_() for p in model.parameters())
    assert torch.autograd.gradcheck(loss, weights, fast_mode=True)


class _Forced(torch.nn.Module):
    def __init__(self, model: MultiBranch) -> None:
        super().__init__()
        self.model = model

    def forward(self, seen: Regions) -> Decoding:
        return forced(self.model, seen, TOKENS[[0, 1]], torch.tensor([0, 1]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_one_branch_is_up_down_to_rounding(dtype: torch.dtype) -> None:
    """Values, gradients and captions, with dropout; and one of three branches, the others being closed."""
    torch.manual_seed(0)
    plain = UpDown(VOCAB, Plain(DIM, 32), Additive(32, 16), hidden=32, embed=8).to(dtype)
    one = MultiBranch(VOCAB, Plain(DIM, 32), [Additive(32, 16)], 32, 8).to(dtype)
    many = MultiBranch(VOCAB, Plain(DIM, 32), [Additive(32, 16) for _ in range(3)], 32, 8).to(dtype)
    many.open(1)
    seen = regions(9, 2, 6)
    seen = replace(seen, feats=seen.feats.to(dtype))

    def everything(model: UpDown | MultiBranch) -> list[Tensor]:
        missing, extra = model.load_state_dict(plain.state_dict(), strict=False)
        assert not extra and all(name.startswith(("others", "used")) for name in missing)
        model.train()
        torch.manual_seed(1)
        decoded = forced(model, seen)
        grads = torch.autograd.grad(
            decoded.logp.sum() + decoded.attn.max(), [dict(model.named_parameters())[n] for n in names]
        )
        model.eval()
        greedy, beam = (f(model, model.encode(seen), 6) for f in (decoding.greedy, decoding.beam))
        drawn = decoding.sample(model, model.encode(seen), 6, generator=torch.Generator().manual_seed(0))
        captions = [x for d in (decoded, greedy, beam, drawn) for x in (d.tokens, d.logp, d.attn, d.guess)]
        return [*captions, greedy.picks, beam.picks, *grads]  # type: ignore[list-item]

    names = [name for name, _ in plain.named_parameters()]
    for a, b, c in zip(everything(plain), everything(one), everything(many), strict=True):
        assert torch.equal(b, c)
        torch.testing.assert_close(a, b)


def test_padding_regions_and_captions_changes_nothing() -> None:
    model = multi_branch()
    alone = forced(model, regions(5), TOKENS[:1, :4], torch.tensor([0]))
    longer = forced(model, regions(5, 8), TOKENS[:1], torch.tensor([0]))
    for a, b in ((alone, longer), *zip(alone.branches, longer.branches, strict=True)):
        torch.testing.assert_close(b.logp[:, :3], a.logp)
        torch.testing.assert_close(b.attn[:, :3, :5], a.attn)
        assert b.logp[:, 3:].abs().sum() == 0 and b.attn[:, :, 5:].abs().sum() == 0


def test_permuting_regions_permutes_every_branch() -> None:
    model, seen, order = multi_branch(), regions(4), torch.tensor([2, 0, 3, 1])
    shuffled = replace(seen, feats=seen.feats[:, order], boxes=seen.boxes[:, order])
    one, other = (forced(model, x, TOKENS[:1], torch.tensor([0])) for x in (seen, shuffled))
    torch.testing.assert_close(one.logp, other.logp)
    for a, b in zip(one.branches, other.branches, strict=True):
        torch.testing.assert_close(a.attn[..., order], b.attn)


@pytest.mark.parametrize("frames", [1, 2], ids=["image", "video"])
def test_one_caption_equals_its_row_in_a_batch_forced_and_generated(frames: int) -> None:
    model, seen = multi_branch(4), regions(3, 7, 0, 5, frames=frames)
    decode = (decoding.greedy, decoding.beam)
    together = [f(model, model.encode(seen), 6) for f in decode]
    for i in range(4):
        alone = seen[torch.tensor([i])].first(int(seen.valid[i].sum()))
        for f, batch in zip(decode, together, strict=True):
            one = f(model, model.encode(alone), 6)
            t, r = one.tokens.shape[1], alone.boxes.shape[1]
            assert torch.equal(batch.tokens[i, :t], one.tokens[0])
            torch.testing.assert_close(batch.logp[i, :t], one.logp[0])
            assert batch.picks is not None and one.picks is not None
            assert torch.equal(batch.picks[i, :t, :r], one.picks[0])
    decoded = forced(model, seen, TOKENS[:4], torch.arange(4))
    for i in range(4):
        one = forced(model, seen[torch.tensor([i])], TOKENS[i : i + 1], torch.tensor([0]))
        torch.testing.assert_close((decoded.logp[i : i + 1], decoded.attn[i : i + 1]), (one.logp, one.attn))


def test_greedy_says_what_most_branches_say_and_points_at_what_these_chose() -> None:
    model, seen = multi_branch(5), regions(9, 8)
    decoded = decoding.greedy(model, model.encode(seen), 6)
    encoded = model.encode(seen)
    state, token = model.start(encoded), torch.full((2,), BOS)
    assert decoded.picks is not None
    for t in range(decoded.tokens.shape[1]):
        _, glimpse, state = model.step(token, encoded, state)
        assert glimpse.words is not None and glimpse.branches is not None
        token = decoded.tokens[:, t]
        for n in range(2):
            if token[n] == PAD:
                continue
            votes = torch.bincount(glimpse.words[n], minlength=VOCAB)
            assert votes[token[n]] == votes.max() and int(votes[PAD] + votes[BOS] + votes[UNK]) == 0
            agree = glimpse.branches[n][glimpse.words[n] == token[n]]
            assert set(decoded.picks[n, t].nonzero().squeeze(1).tolist()) == set(agree.argmax(1).tolist())
            assert decoded.picks[n, t].sum() == votes.max()


def test_beam_search_finds_what_teacher_forcing_gives_the_same_probability() -> None:
    model, seen = multi_branch(3), regions(5, 6)
    decoded = decoding.beam(model, model.encode(seen), 6, width=3)
    inputs = torch.cat([torch.full((2, 1), BOS), decoded.tokens[:, :-1]], 1)
    again = model(model.encode(seen), inputs, decoded.tokens)
    torch.testing.assert_close((again.logp, again.attn), (decoded.logp, decoded.attn))
    wide = decoding.beam(model, model.encode(seen), 6, width=1)
    assert (decoded.logp.sum(1) >= wide.logp.sum(1) - 1e-9).all()


def test_how_many_branches_are_open_is_kept_with_the_weights() -> None:
    model, other = multi_branch(3), multi_branch(3)
    model.open(2)
    other.load_state_dict(model.state_dict())
    assert len(forced(other, regions(4, 4, 4)).branches) == 2
    with pytest.raises(ValueError, match="3 branches, not 4"):
        model.open(4)


@pytest.mark.parametrize(("told", "found"), [(-1, 1), (0, 1), (9, 3)])
def test_a_file_that_names_branches_that_there_are_not_opens_those_there_are(told: int, found: int) -> None:
    model = multi_branch(3)
    model.used.fill_(told)
    assert len(forced(model, regions(4, 4, 4)).branches) == found


def test_a_feature_map_is_seen_by_every_branch() -> None:
    torch.manual_seed(0)
    encoder = GroundingAware(DIM, 3, HIDDEN, location=4, grid=5)
    attends = [Additive(HIDDEN, 6) for _ in range(3)]
    model = MultiBranch(VOCAB, encoder, attends[:2], HIDDEN, 4, attend_grid=attends[2]).double().eval()
    seen = replace(regions(3, 2), grid=torch.randn(2, 6, 5).double())
    image_of = torch.tensor([0, 1])
    dark = forced(model, replace(seen, grid=torch.zeros(2, 6, 5).double()), TOKENS[:2], image_of)
    for a, b in zip(forced(model, seen, TOKENS[:2], image_of).branches, dark.branches, strict=True):
        assert ((a.logp - b.logp).abs() > 1e-6).any(1).all()


def test_it_overfits_four_images_and_points_at_the_union_of_the_parts() -> None:
    """Each image shows a thing in three parts (one box each) among two regions of noise, at other places each time."""
    torch.manual_seed(0)
    boxes = torch.tensor([[0.0, 0, 10, 10], [10, 0, 20, 10], [0, 10, 10, 20], [50, 50, 60, 60], [70, 0, 80, 10]])
    images = []
    for thing in range(4):
        feats = 0.3 * torch.randn(5, 6)
        feats[:3, thing] += 2
        feats[:3, 4] += 1
        order = torch.randperm(5)
        images.append(Regions.of(feats[order], boxes[order], (100, 100)))
    seen = Regions.stack(images)
    tokens = torch.tensor([[BOS, 4, 5 + k, EOS] for k in range(4)])
    model = MultiBranch(9, Plain(6, 24, dropout=0), [Additive(24, 24) for _ in range(3)], 24, 8, dropout=0)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(150):
        decoded = forced(model, seen, tokens, torch.arange(4))
        optimizer.zero_grad()
        (-torch.stack([branch.logp.mean() for branch in decoded.branches]).mean()).backward()
        optimizer.step()
    decoded = decoding.greedy(model, model.encode(seen), 5)
    assert decoded.tokens.tolist() == tokens[:, 1:].tolist()
    assert decoded.logp.exp().min() > 0.9
    where, _ = links.boxes_of(decoded, seen)
    assert where[:, 1, 0].tolist() == [[0.0, 0, 20, 20]] * 4


def test_captions_without_a_word_and_images_without_a_region() -> None:
    model, seen = multi_branch(), regions(0, 3)
    decoded = decoding.greedy(model, model.encode(seen), 4)
    assert decoded.picks is not None and not decoded.picks[0].any() and decoded.logp.isfinite().all()
    with pytest.raises(ValueError, match="no word"):
        forced(model, seen, torch.zeros(2, 3, dtype=torch.int64), torch.tensor([0, 1]))


def test_rows_may_be_repeated_as_beams_are() -> None:
    model, seen = multi_branch(), regions(4, 3)
    encoded: EncodedImage = model.encode(seen)
    rows = torch.tensor([1, 0, 1, 1])
    state = model.start(encoded[rows])
    logp, glimpse, _ = model.step(torch.full((4,), BOS), encoded[rows], state)
    each, seen_by, _ = model.step(torch.full((2,), BOS), encoded, model.start(encoded))
    torch.testing.assert_close((logp, glimpse.attn), (each[rows], seen_by.attn[rows]))
