"""How much faster is a step of self-critical training than its plain formulation? Same weights, interleaved rounds.

    python bench/self_critical.py              # 16 images x 5 samples, 36 regions of 2048, vocabulary 7,000, hidden 512
    python bench/self_critical.py --rounds 2   # quicker, noisier

A step is: the greedy caption and five drawn ones of each image, CIDEr-D of them against the references of 2,000 images,
and the gradient of -(reward - baseline) log p. Ours is the recipe `scst`. It is compared with two others:

published   as the code of Zhou et al. does it, after Luo's self-critical code: the regions of an image are repeated for
            each of its samples, and embedded and projected for each in either pass; samples are drawn word by word with
            gradients and dropout until the last has ended, by multinomial; in a pass of its own the greedy caption is
            made for each sample again; CIDEr-D is asked for all of them, with a dictionary for every sentence
plain       each image is embedded, and its greedy caption made, once; but the regions of every sample are projected
            anew at each step

Both are kinder than that code: features are repeated before the clock starts, a caption that reaches the limit costs no
further step, and n-grams are of numbers instead of strings. The plain one has no dropout, as ours.

Drawn words differ from step to step, so what must agree is checked on captions drawn once: log p and its gradients
within 1e-5, rewards within 1e-9. Then all are timed in turns; the first round warms up. The aim is 3 times faster than
the published one.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path

import captioner as bench
import numpy as np
import torch
from captions import PlainReward
from reference_captioner import Reference
from results import row, timed, told, write
from torch import Tensor

from groundling.data.dataset import Dataset
from groundling.metrics.reward import CiderReward
from groundling.models.updown import UpDown
from groundling.objectives.reinforce import reinforce
from groundling.recipes import TrainingContext
from groundling.recipes.scst import Scst, draw
from groundling.regions.records import Layout
from groundling.tensors import Batch, Regions
from groundling.text.classes import Classes
from groundling.text.vocab import SPECIAL, Vocabulary
from groundling.training.stages import Clock, Parts
from groundling.types import BOS, EOS, PAD, UNK, Caption, Example, Fingerprint

IMAGES, BATCH, SAMPLES, LENGTH = 2000, 16, 5, 16
NEVER = [PAD, BOS, UNK]
CLOCKS, WEIGHT, BIAS, SURE = 32, 20, 12.5, 2


@torch.no_grad()
def captioner() -> UpDown:
    """The captioner of that bench, with 32 clocks instead of one, and surer of its words, as trained ones are.

    With 7,000 words to draw from, EOS needs a larger weight of the clocks than where the likeliest word is taken:
    captions of 12 tokens on average when they are drawn, of 10 when they are greedy, of 5 to 17.
    """
    model, h, n = bench.captioner(), bench.HIDDEN, CLOCKS
    for gate, bias in enumerate((10, 10, math.atanh(0.1), 10)):
        model.language_gates.weight[gate * h : gate * h + n] = 0
        model.language_gates.bias[gate * h : gate * h + n] = bias
    model.logits.weight.mul_(SURE)
    model.logits.weight[:, :n] = 0
    model.logits.weight[EOS, :n] = WEIGHT / n
    model.logits.bias[EOS] = -WEIGHT * math.tanh(1.15) + BIAS
    return model


def sentences(n: int, generator: torch.Generator) -> list[list[int]]:
    """Captions as ids, of natural length, frequent words more often: rank r as often as 1 / r."""
    _, targets = bench.captions(n, generator)
    ranks = (bench.VOCAB - 4) ** torch.rand(targets.shape, generator=generator)
    words = torch.where(targets > UNK, 3 + ranks.long().clamp(min=1), targets)
    return [[i for i in row if i not in (PAD, EOS)] for row in words.tolist()]


def material(generator: torch.Generator) -> tuple[TrainingContext, list[list[list[int]]], Batch]:
    """Training data of which only the captions count, these as ids, and the batch of its first images."""
    flat = sentences(5 * IMAGES, generator)
    references = [flat[i : i + 5] for i in range(0, len(flat), 5)]
    vocab = Vocabulary(SPECIAL + tuple(f"w{i}" for i in range(4, bench.VOCAB)))
    examples = tuple(
        Example(str(i), "", (0, 0), tuple(Caption("", tuple(vocab.decode(ids)), ()) for ids in captions))
        for i, captions in enumerate(references)
    )
    context = TrainingContext(
        Dataset("made up", Path(), examples), vocab, Layout(bench.FEATURE), Fingerprint("", "", 0), Classes((), {})
    )
    nothing = torch.zeros(0, dtype=torch.int64)
    batch = Batch(
        ids=tuple(str(i) for i in range(BATCH)),
        regions=bench.regions(BATCH, generator),
        image_of=torch.arange(BATCH),
        tokens=nothing, nouns=nothing, visual=nothing, chunk_of=nothing, chunks=nothing,
        refs=(),
        vocab=vocab,
    )  # fmt: skip
    return context, references, batch


class Plain:
    """Self-critical training as one would write it down, or, `published`, as it was."""

    def __init__(self, model: Reference, references: list[list[list[int]]], regions: Regions, published: bool) -> None:
        self.model, self.reward, self.published = model, PlainReward(references, cached=False), published
        self.image = torch.arange(len(regions)).repeat_interleave(SAMPLES)
        self.regions = regions[self.image] if published else regions
        self.usual_of = torch.arange(len(self.image)) if published else self.image

    def step(self) -> None:
        self.model.train(self.published).zero_grad()
        words, logp = self.decode(drawn=True)
        self.model.eval()
        with torch.no_grad():
            usual, _ = self.decode(drawn=False)
        image = self.image if self.published else torch.arange(len(usual))
        worth = torch.tensor(self.reward(words.numpy(), self.image.numpy()))
        expected = torch.tensor(self.reward(usual.numpy(), image.numpy()))
        gain = (worth - expected[self.usual_of]).float()
        real = (words != PAD).float()
        (-(gain[:, None] * logp * real).sum() / real.sum()).backward()

    def decode(self, drawn: bool) -> tuple[Tensor, Tensor]:
        """Words and their log-probabilities (N, T), until the last caption has ended."""
        memory, mean, mask = self.model.encode(self.regions)
        if drawn and not self.published:
            memory, mean, mask = (x[self.image] for x in (memory, mean, mask))
        keys = self.model.project_region(memory) if self.published else None
        state, word = self.model.start(memory), torch.full((len(memory),), BOS)
        going = torch.ones_like(word, dtype=torch.bool)
        words, logps = [], []
        for _ in range(LENGTH + 1):
            logp, state = self.model.step(word, memory, mean, mask, state, keys)
            p = logp.detach().exp()
            p[:, NEVER] = 0
            word = p.multinomial(1).squeeze(1) if drawn else p.max(1).indices
            words.append(word * going)
            logps.append(logp.gather(1, word[:, None]).squeeze(1))
            going = going & (word != EOS)
            if not going.any():
                break
        return torch.stack(words, 1), torch.stack(logps, 1)


def check(ours: UpDown, published: Plain, plain: Plain, references: list[list[list[int]]], regions: Regions) -> None:
    """On captions drawn once, without dropout: the same log p, gradients and rewards."""
    image = torch.arange(len(regions)).repeat_interleave(SAMPLES)
    ours.eval().zero_grad()
    plain.model.eval().zero_grad()
    encoded = ours.encode(regions)
    words, usual, logp = draw(Parts(captioner=ours), encoded, LENGTH + 1, SAMPLES, greedy=True)
    gain = torch.randn(len(words), generator=torch.Generator().manual_seed(0))
    reinforce(logp, words, gain).backward()
    inputs, targets = torch.cat([torch.full_like(words[:, :1], BOS), words[:, :-1]], 1), words
    memory, mean, mask = (x[image] for x in plain.model.encode(regions))
    state, steps = plain.model.start(memory), []
    for t in range(inputs.shape[1]):
        every, state = plain.model.step(inputs[:, t], memory, mean, mask, state)
        every = every.index_fill(1, torch.tensor(NEVER), -torch.inf).log_softmax(1)
        steps.append(every.gather(1, targets[:, t : t + 1]).squeeze(1))
    real = words != PAD
    theirs = torch.stack(steps, 1).masked_fill(~real, 0)
    (-(gain[:, None] * theirs).sum() / real.sum()).backward()
    for name, a, b in (
        ("log p", logp.detach(), theirs.detach()),
        ("gradient of logits", ours.logits.weight.grad, plain.model.logits.weight.grad),
        ("gradient of words", ours.embed.weight.grad, plain.model.embed.weight.grad),
    ):
        assert a is not None and b is not None
        if not (difference := float((a - b).abs().max() / b.abs().max())) < 1e-5:
            raise SystemExit(f"{name}: the two formulations differ by {difference:.1e}")
    worth, other = CiderReward(references)(words.numpy(), image.numpy()), plain.reward(words.numpy(), image.numpy())
    if not np.abs(worth - other).max() < 1e-9:
        raise SystemExit(f"rewards differ by {np.abs(worth - other).max():.1e}")
    published.model.eval()
    for greedy, mine in ((plain.decode(drawn=False)[0], usual), (published.decode(drawn=False)[0], usual[image])):
        if not torch.equal(mine[:, : greedy.shape[1]], greedy):
            raise SystemExit("greedy captions differ")
    lengths = (real.sum(1).float().mean(), (usual != PAD).sum(1).float().mean())
    print("equal on captions of {:.1f} tokens, drawn, and {:.1f}, greedy".format(*lengths))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds (default 5)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="torch threads")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers here")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    context, references, batch = material(torch.Generator().manual_seed(1))
    ours = captioner()
    others = [Plain(Reference(ours), references, batch.regions, published) for published in (True, False)]
    check(ours, *others, references, batch.regions)
    steps = {
        "published": others[0].step,
        "plain": others[1].step,
        "ours": our_step(ours, context, batch, "greedy"),
        "ours, --baseline others": our_step(ours, context, batch, "others"),
    }
    rounds = [{name: timed(run) for name, run in steps.items()} for _ in range(args.rounds + 1)][1:]
    rows = []
    for name in list(steps)[1:]:
        what = f"SCST step, 16 images x 5 samples, published code: {name}"
        rows.append(row(what, [(r["published"], r[name]) for r in rounds], args.threads))
        print(told(rows[-1]))
    if args.json:
        write(args.json, rows[1:])


def our_step(model: UpDown, context: TrainingContext, batch: Batch, baseline: str) -> Callable[[], None]:
    recipe = Scst.of(samples=SAMPLES, baseline=baseline)
    losses, parts = recipe.losses(recipe.reward(context), LENGTH + 1), Parts(captioner=model)

    def step() -> None:
        model.train().zero_grad()
        losses(parts, batch, Clock(0, 0))["scst"].backward()

    return step


if __name__ == "__main__":
    main()
