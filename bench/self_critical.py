"""How much faster is a step of self-critical training than its plain formulation? Same weights, interleaved rounds.

    python bench/self_critical.py              # 16 images x 5 samples, 36 regions of 2048, vocabulary 7,000, hidden 512
    python bench/self_critical.py --rounds 2   # quicker, noisier

A step is: the greedy caption and five drawn ones of each image, CIDEr-D of them against the references of 2,000 images,
and the gradient of -(reward - baseline) log p. The plain formulation draws with gradients, word by word, projects the
regions of every sample anew at each step, and keeps n-grams in dictionaries. Ours is the recipe `scst`.

Drawn words differ from step to step, so what must agree is checked on captions drawn once: log p and its gradients
within 1e-4, rewards within 1e-9. Then both are timed in turns; the first round warms up. The aim is 2 times faster.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import captioner as bench
import numpy as np
import torch
from captions import PlainReward
from reference_captioner import Reference
from torch import Tensor

from groundling import generate
from groundling.data.dataset import Dataset
from groundling.metrics.reward import CiderReward
from groundling.models.updown import UpDown
from groundling.objectives.reinforce import reinforce
from groundling.recipes import Given
from groundling.recipes.scst import Scst, log_likelihood
from groundling.regions.records import Layout
from groundling.tensors import Batch, Regions
from groundling.text.classes import Classes
from groundling.text.vocab import SPECIAL, Vocabulary
from groundling.train.stages import Clock, Parts
from groundling.types import BOS, EOS, PAD, UNK, Caption, Example, Fingerprint

IMAGES, BATCH, SAMPLES, LENGTH = 2000, 16, 5, 16
LISTENS, LOUD = 25, 7  # EOS to the clocks: captions of about 11 words


@torch.no_grad()
def captioner() -> UpDown:
    """The captioner of that bench, with 32 clocks instead of one, so that dropout does not stop them all.

    With 7,000 words to draw from, EOS must listen harder to them than where the likeliest word is taken.
    """
    model, h, n = bench.captioner(), bench.HIDDEN, 32
    for gate, bias in enumerate((10, 10, math.atanh(0.1), 10)):
        model.language_gates.weight[gate * h : gate * h + n] = 0
        model.language_gates.bias[gate * h : gate * h + n] = bias
    model.logits.weight[:, :n] = 0
    model.logits.weight[EOS, :n] = LISTENS / n
    model.logits.bias[EOS] = -LISTENS * math.tanh(1.15) + LOUD
    return model


def sentences(n: int, generator: torch.Generator) -> list[list[int]]:
    """Captions as ids, of natural length, frequent words more often: rank r as often as 1 / r."""
    _, targets = bench.captions(n, generator)
    ranks = (bench.VOCAB - 4) ** torch.rand(targets.shape, generator=generator)
    words = torch.where(targets > UNK, 3 + ranks.long().clamp(min=1), targets)
    return [[i for i in row if i not in (PAD, EOS)] for row in words.tolist()]


def material(generator: torch.Generator) -> tuple[Given, list[list[list[int]]], Batch]:
    """Training data of which only the captions count, these as ids, and the batch of its first images."""
    flat = sentences(5 * IMAGES, generator)
    references = [flat[i : i + 5] for i in range(0, len(flat), 5)]
    vocab = Vocabulary(SPECIAL + tuple(f"w{i}" for i in range(4, bench.VOCAB)))
    examples = tuple(
        Example(str(i), "", (0, 0), tuple(Caption("", tuple(vocab.decode(ids)), ()) for ids in captions))
        for i, captions in enumerate(references)
    )
    given = Given(
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
    return given, references, batch


class Plain:
    """Self-critical training as one would write it down."""

    def __init__(self, model: Reference, references: list[list[list[int]]]) -> None:
        self.model, self.reward = model, PlainReward(references, cached=False)

    def step(self, regions: Regions) -> None:
        image = torch.arange(len(regions)).repeat_interleave(SAMPLES)
        self.model.eval()
        usual, _ = self.model.greedy(regions, LENGTH + 1)
        self.model.train().zero_grad()
        words, logp = self.sample(regions, image)
        worth = torch.tensor(self.reward(words.numpy(), image.numpy()))
        expected = torch.tensor(self.reward(usual.numpy(), np.arange(len(regions))))
        gain = (worth - expected[image]).float()
        real = (words != PAD).float()
        (-(gain[:, None] * logp * real).sum() / real.sum()).backward()

    def sample(self, regions: Regions, image: Tensor) -> tuple[Tensor, Tensor]:
        """Words and their log-probabilities (N, T), with gradients; until the last caption has ended."""
        memory, mean, mask = (x[image] for x in self.model.encode(regions))
        state, word = self.model.start(memory), torch.full((len(image),), BOS)
        going = torch.ones_like(word, dtype=torch.bool)
        words, logps = [], []
        for _ in range(LENGTH + 1):
            logp, state = self.model.step(word, memory, mean, mask, state)
            may = logp.detach().clone()
            may[:, [PAD, BOS, UNK]] = -torch.inf
            word = may.softmax(1).multinomial(1).squeeze(1)
            words.append(word * going)
            logps.append(logp.gather(1, word[:, None]).squeeze(1))
            going = going & (word != EOS)
            if not going.any():
                break
        return torch.stack(words, 1), torch.stack(logps, 1)


def check(ours: UpDown, plain: Plain, references: list[list[list[int]]], regions: Regions) -> None:
    """On captions drawn once, without dropout: the same log p, gradients and rewards."""
    image = torch.arange(len(regions)).repeat_interleave(SAMPLES)
    ours.eval().zero_grad()
    plain.model.eval().zero_grad()
    scene = ours.encode(regions)[image]
    words = generate.sample(ours, scene, LENGTH + 1).tokens
    logp = log_likelihood(Parts(captioner=ours), scene, words)
    gain = torch.randn(len(words), generator=torch.Generator().manual_seed(0))
    reinforce(logp, words, gain).backward()
    inputs, targets = torch.cat([torch.full_like(words[:, :1], BOS), words[:, :-1]], 1), words
    memory, mean, mask = (x[image] for x in plain.model.encode(regions))
    state, steps = plain.model.start(memory), []
    for t in range(inputs.shape[1]):
        every, state = plain.model.step(inputs[:, t], memory, mean, mask, state)
        steps.append(every.gather(1, targets[:, t : t + 1]).squeeze(1))
    real = words != PAD
    theirs = torch.stack(steps, 1) * real
    (-(gain[:, None] * theirs).sum() / real.sum()).backward()
    for name, a, b in (
        ("log p", logp.detach(), theirs.detach()),
        ("gradient of logits", ours.logits.weight.grad, plain.model.logits.weight.grad),
        ("gradient of words", ours.embed.weight.grad, plain.model.embed.weight.grad),
    ):
        assert a is not None and b is not None
        if not (difference := float((a - b).abs().max() / b.abs().max())) < 1e-4:
            raise SystemExit(f"{name}: the two formulations differ by {difference:.1e}")
    mine, other = CiderReward(references)(words.numpy(), image.numpy()), plain.reward(words.numpy(), image.numpy())
    if not np.abs(mine - other).max() < 1e-9:
        raise SystemExit(f"rewards differ by {np.abs(mine - other).max():.1e}")
    lengths = real.sum(1).float()
    print(f"equal on {len(words)} captions of {lengths.mean():.1f} tokens, reward {mine.mean():.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds (default 5)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="torch threads")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    given, references, batch = material(torch.Generator().manual_seed(1))
    ours = captioner()
    plain = Plain(Reference(ours), references)
    check(ours, plain, references, batch.regions)
    recipe = Scst(samples=SAMPLES)
    losses, parts = recipe.losses(recipe.reward(given), LENGTH + 1), Parts(captioner=ours)

    def step() -> None:
        ours.train().zero_grad()
        losses(parts, batch, Clock(0, 0))["scst"].backward()

    times = [(timed(lambda: plain.step(batch.regions)), timed(step)) for _ in range(args.rounds + 1)][1:]
    usual, fast = (statistics.median(column) for column in zip(*times, strict=True))
    ratio = statistics.median(a / b for a, b in times)
    print(
        f"{BATCH} images x {SAMPLES} samples, CPU milliseconds: plain {usual:.0f}, ours {fast:.0f}, {ratio:.2f} times"
    )


def timed(run: Callable[[], object]) -> float:
    """Milliseconds of the processor, which a busy machine does not stretch as it does those on the wall."""
    start = time.process_time()
    run()
    return 1000 * (time.process_time() - start)


if __name__ == "__main__":
    main()
