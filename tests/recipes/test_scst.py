"""Self-critical training: captions that are worth more become likelier."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import planted
import pytest
import torch
from torch import Tensor, nn

from groundling import decoding
from groundling.data.loader import Loader
from groundling.errors import GroundlingError
from groundling.metrics.bleu import bleu, counts
from groundling.metrics.ngrams import Corpus, Numbers
from groundling.metrics.reward import BleuReward, CiderReward
from groundling.recipes import WEIGHTS, TrainingContext, _teachers, load, scst
from groundling.recipes.multi_branch import MultiBranch
from groundling.recipes.multihead import Multihead
from groundling.recipes.scst import Scst
from groundling.recipes.updown import Updown
from groundling.tensors import Batch, EncodedImage, Regions
from groundling.text.classes import groundable_words
from groundling.text.vocab import Vocabulary
from groundling.training.checkpoint import read
from groundling.training.run import train
from groundling.training.stages import Clock, Parts
from groundling.types import BOS, EOS, PAD, UNK

SMALL: dict[str, Any] = {"hidden": 32, "embed": 16, "attention": 16, "lr": 1e-2, "min_count": 1, "batch": 8}


def world(folder: Path) -> tuple[TrainingContext, Batch]:
    dataset, store = planted.make(folder, images=10)
    dataset = dataset.split("train")
    vocab = Vocabulary.build((e.captions[0].tokens for e in dataset), 1)
    batch = next(Loader(dataset, store, vocab, batch_size=8, length=16)(0))
    return TrainingContext(dataset, vocab, store.layout, store.fingerprint, groundable_words(dataset)), batch


def untrained(context: TrainingContext, dropout: float = 0.0) -> Parts:
    torch.manual_seed(0)
    return Updown.of(dropout=dropout, **SMALL).parts(context.vocab, context.layout, context.classes)


class Kites(nn.Module):
    """A reward model that likes to read of kites."""

    def __init__(self, vocab: Vocabulary) -> None:
        super().__init__()
        self.kite = vocab.encode(["kite"])[0]

    def rate(self, regions: Regions, words: Tensor, image_of: Tensor) -> Tensor:
        return (words == self.kite).any(1).float()


def plainly(m: Parts, encoded: EncodedImage, words: Tensor) -> Tensor:
    """log p of each word (N, T) among those that captions may have, one step after another."""
    state, word, logps = m.captioner.start(encoded), torch.full_like(words[:, 0], BOS), []
    for target in words.unbind(1):
        logp, _, state = m.captioner.step(word, encoded, state)
        logp = logp.index_fill(1, torch.tensor([PAD, BOS, UNK]), -torch.inf).log_softmax(1)
        logps.append(torch.where(target != PAD, logp[torch.arange(len(logp)), target.clamp(min=EOS)], 0.0))
        word = target
    return torch.stack(logps, 1)


# ---------------------------------------------------------------- eq. 18


@pytest.mark.parametrize("baseline", ["greedy", "others"])
def test_the_gradient_is_minus_the_gain_over_the_baseline_times_that_of_log_p(baseline: str, tmp_path: Path) -> None:
    """What is drawn here with the same seed is what the loss draws; scored word by word, with gradients."""
    context, batch = world(tmp_path)
    m, recipe = untrained(context), Scst.of(samples=3, baseline=baseline)

    def reward(m: Parts, batch: Batch, words: Tensor, image_of: Tensor) -> Tensor:
        return (words * torch.arange(1.0, words.shape[1] + 1)).sum(1) / 100 + image_of

    torch.manual_seed(1)
    recipe.losses(reward, 7)(m, batch, Clock(0, 0))["scst"].backward()
    found = [weight.grad.clone() for weight in m.parameters() if weight.grad is not None]
    m.zero_grad()
    torch.manual_seed(1)
    image_of = torch.arange(8).repeat_interleave(3)
    encoded = m.captioner.encode(batch.regions)
    if baseline == "greedy":
        drawn, usual = decoding.sample_several(m.captioner, encoded, 7, 3, greedy=True).tensor_split([24])
    else:  # no greedy caption is made
        drawn = decoding.sample_several(m.captioner, encoded, 7, 3)
    worth = reward(m, batch, drawn, image_of)
    if baseline == "greedy":
        gain = worth - reward(m, batch, usual, torch.arange(8))[image_of]
    else:
        first, second, third = worth.view(8, 3).unbind(1)
        rest = (second + third) / 2, (first + third) / 2, (first + second) / 2
        gain = worth - torch.stack(rest, 1).flatten()
    (-(gain * plainly(m, encoded[image_of], drawn).sum(1)).sum() / (drawn != PAD).sum()).backward()
    assert gain.abs().max() > 0
    for ours, plain in zip(found, [w.grad for w in m.parameters() if w.grad is not None], strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-6)


def test_compared_with_the_others_captions_of_one_worth_teach_nothing_and_all_gains_cancel() -> None:
    worth = torch.tensor([1.0, 2.0, 6.0, 5.0, 5.0, 5.0])
    torch.testing.assert_close(scst.mean_of_others(worth, 3), torch.tensor([4.0, 3.5, 1.5, 5.0, 5.0, 5.0]))
    assert (worth - scst.mean_of_others(worth, 3)).sum() == 0


@pytest.mark.parametrize(
    ("config", "told"),
    [({"baseline": "best"}, "greedy or others"), ({"baseline": "others", "samples": 1}, "--samples 2")],
)
def test_baselines_that_cannot_be(config: dict[str, Any], told: str) -> None:
    with pytest.raises(GroundlingError, match=told):
        Scst.of(**config)


def test_dropout_is_off_so_that_captions_are_of_the_probabilities_that_learn(tmp_path: Path) -> None:
    context, batch = world(tmp_path)
    m, dry = untrained(context, dropout=0.9), untrained(context)
    dry.load_state_dict(m.state_dict())
    losses = Scst.of(samples=3).losses(lambda m, batch, words, image_of: words[:, 0].float(), 6)
    found = []
    for parts in (m, dry):
        parts.train()
        torch.manual_seed(1)
        found.append(losses(parts, batch, Clock(0, 0))["scst"])
    assert found[0] != 0
    torch.testing.assert_close(found[0], found[1])


def test_words_that_are_never_drawn_gain_nothing_from_captions_below_the_baseline(tmp_path: Path) -> None:
    context, batch = world(tmp_path)
    m = untrained(context)
    worth = (torch.arange(4 * len(batch.ids)) >= 3 * len(batch.ids)).float()  # 0 for the drawn, 1 for the greedy ones
    losses = Scst.of(samples=3).losses(lambda m, batch, words, image_of: worth, 6)
    losses(m, batch, Clock(0, 0))["scst"].backward()
    grad = m.captioner.logits.bias.grad
    assert grad.abs().max() > 0.01 and not grad[[PAD, BOS, UNK]].any()
    decoded = m.captioner(m.captioner.encode(batch.regions)[batch.image_of], batch.inputs, batch.targets)
    assert decoded.logp.isfinite().all() and decoded.logp.min() > -100  # and elsewhere they can be told as before


def test_the_expected_reward_rises(tmp_path: Path) -> None:
    """From random weights, rewarded by a reward model alone: kites are read of in one caption of four, then in most."""
    context, batch = world(tmp_path)
    m, reward_model = untrained(context), Kites(context.vocab)
    losses = Scst.of(samples=5).losses(
        lambda m, batch, words, image_of: reward_model.rate(batch.regions, words, image_of), 6
    )
    optimizer = torch.optim.Adam(m.parameters(), 1e-2)

    def expected() -> float:
        encoded = m.captioner.encode(batch.regions)[torch.arange(8).repeat_interleave(50)]
        with torch.no_grad():
            drawn = decoding.sample(m.captioner, encoded, 6, generator=torch.Generator().manual_seed(0)).tokens
        return float(reward_model.rate(batch.regions, drawn, encoded.row).mean())

    before = expected()
    for step in range(25):
        optimizer.zero_grad()
        losses(m, batch, Clock(0, step))["scst"].backward()
        optimizer.step()
    assert before < 0.5
    assert expected() > 0.8


@pytest.mark.parametrize(
    "recipe", [MultiBranch.of(branches=2, location=8, dropout=0.1, **SMALL), Multihead.of(heads=2, location=8, **SMALL)]
)
def test_captioners_of_several_branches_or_heads_learn_too(recipe: MultiBranch | Multihead, tmp_path: Path) -> None:
    context, batch = world(tmp_path)
    m = recipe.parts(context.vocab, context.layout, context.classes)
    reward_model = Kites(context.vocab)
    losses = Scst().losses(lambda m, batch, words, image_of: reward_model.rate(batch.regions, words, image_of), 6)
    torch.manual_seed(0)
    losses(m, batch, Clock(0, 0))["scst"].backward()
    assert all(w.grad is not None and w.grad.isfinite().all() for w in m.captioner.logits.parameters())


# ---------------------------------------------------------------- eq. 19


def test_the_reward_is_cider_and_what_else_was_asked_for(tmp_path: Path) -> None:
    context, batch = world(tmp_path)
    m = Parts(reward_model=Kites(context.vocab))
    words = torch.tensor(
        [[*context.vocab.encode(["the", "kite", "near"]), EOS], [*context.vocab.encode(["the", "dog"]), EOS, PAD]]
    )
    image_of = torch.tensor([3, 6])
    captions = [[context.vocab.encode(e.captions[0].tokens)] for e in context.examples]
    image = np.array([[e.id for e in context.examples].index(batch.ids[i]) for i in (3, 6)])
    cider, also = CiderReward(captions)(words.numpy(), image), BleuReward(captions)(words.numpy(), image)
    for recipe, expected in (
        (Scst(), cider),
        (Scst.of(reward_model="planted", lam2=0.5), cider + np.array([0.5, 0])),
        (Scst.of(bleu=2.0), cider + 2 * also),
    ):
        np.testing.assert_allclose(recipe.reward(context)(m, batch, words, image_of).numpy(), expected, rtol=1e-6)
    assert cider.min() > 0


def test_bleu_of_ids_is_that_of_words_with_the_end_as_a_word() -> None:
    references = [[[4, 5, 6, 7], [4, 5]], [[8, 9, EOS, 4]]]
    samples, image = np.array([[4, 5, 6, EOS, 9], [8, 9, EOS, PAD, PAD], [4, 4, 4, 4, 4]]), np.array([0, 1, 0])
    words = [["4", "5", "6", "2"], ["8", "9", "2"], ["4"] * 5]
    wanted = [["4", "5", "6", "7", "2"], ["4", "5", "2"]], [["8", "9", "2"]]
    corpus = Corpus.of(words, [wanted[0], wanted[1], wanted[0]], Numbers())
    np.testing.assert_allclose(BleuReward(references)(samples, image), bleu(counts(corpus), 4))
    with pytest.raises(ValueError, match="image 1 has no reference"):
        BleuReward([[[4]], []])


# ---------------------------------------------------------------- the guide


class Leftmost(nn.Module):
    """A guide that attends to the first region at every word."""

    def attention(self, batch: Batch) -> Tensor:
        attention = torch.zeros(*batch.targets.shape, batch.regions.boxes.shape[1])
        attention[..., 0] = 1
        return attention


def test_with_a_guide_the_attention_at_nouns_of_true_captions_follows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all captions are worth the same, REINFORCE gives no gradient, and only λ1 KL(guide ‖ captioner) is left."""
    monkeypatch.setattr(_teachers, "teacher", lambda folder, context: Leftmost())
    context, batch = world(tmp_path)
    recipe = Scst.of(samples=2, baseline="others", guide="planted", lam1=0.5)
    m = Parts(captioner=untrained(context).captioner, **recipe.teachers(context))

    def equal(m: Parts, batch: Batch, words: Tensor, image_of: Tensor) -> Tensor:
        return torch.ones(len(words))

    terms = recipe.losses(equal, 7)(m, batch, Clock(0, 0))
    decoded = m.captioner(m.captioner.encode(batch.regions)[batch.image_of], batch.inputs, batch.targets)
    nouns = batch.nouns[:, 1:]
    assert nouns.any() and set(terms) == {"scst", "attention"} and terms["scst"].item() == 0
    torch.testing.assert_close(terms["attention"], -0.5 * decoded.attn[..., 0][nouns].log().mean())


# ---------------------------------------------------------------- the whole


def test_a_model_goes_on_with_what_it_was_and_the_reward_model_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, store = planted.make(tmp_path / "store", images=10)
    data = dataset.split("train"), dataset.split("val"), store
    train(Updown.of(epochs=1, length=7, dropout=0.1, **SMALL), *data, tmp_path / "start")
    monkeypatch.setattr(scst, "teacher", lambda folder, context: Kites(context.vocab))
    fine_tune = Scst.of(reward_model="planted", epochs=1, batch=8)
    with pytest.raises(GroundlingError, match="--start"):
        train(fine_tune, *data, tmp_path / "run")
    train(fine_tune, *data, tmp_path / "run", start=tmp_path / "start")
    before, after = load(tmp_path / "start"), load(tmp_path / "run")
    assert (after.recipe, after.fine_tuning, after.vocab) == (before.recipe, (fine_tune,), before.vocab)
    assert after.scores and after.length == 8
    old, new = (read(tmp_path / name / WEIGHTS)[0] for name in ("start", "run"))
    assert old.keys() == new.keys()
    assert any(not torch.equal(old[name], new[name]) for name in old)


def test_images_without_captions_have_no_reward_and_are_left_out(tmp_path: Path) -> None:
    context, batch = world(tmp_path)
    bare = replace(context.examples[0], id="bare", captions=())
    context = replace(context, examples=replace(context.examples, examples=(bare, *context.examples)))
    words = batch.targets[:1]
    assert Scst().reward(context)(Parts(), batch, words, torch.tensor([0])) > 5
