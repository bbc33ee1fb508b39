"""A captioner of a few hundred weights, with dropout, and batches for it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from groundling.objectives.cross_entropy import cross_entropy
from groundling.tensors import Batch, Regions
from groundling.training.checkpoint import LAST, read, write
from groundling.training.determinism import seed_everything
from groundling.training.fit import Run, fit
from groundling.training.parallel import rank, world
from groundling.training.schedules import Plateau, StepDecay
from groundling.training.stages import Clock, Parts, Stage
from groundling.types import BOS, EOS, PAD, Score

WORDS = 12


class Words:
    """Only its length matters here."""

    words = tuple("abcdefghijkl")

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, tokens: Sequence[str]) -> list[int]:
        return [self.words.index(token) for token in tokens]

    def decode(self, ids: Sequence[int]) -> list[str]:
        return [self.words[i] for i in ids]


class Captioner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, 8)
        self.see = nn.Linear(6, 8)
        self.unused = nn.Linear(2, 2)  # as in a captioner of which a stage needs only a part
        self.say = nn.Sequential(nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, WORDS))

    def forward(self, batch: Batch) -> Tensor:
        """Log-probabilities (N, T) of the targets."""
        whole = self.see(batch.regions.feats.mean(1))[batch.image_of]
        logp = self.say(self.embed(batch.inputs) + whole[:, None]).log_softmax(-1)
        return logp.gather(2, batch.targets[..., None]).squeeze(2)


def make_batch(number: int, images: int = 4, part: slice = slice(None)) -> Batch:
    """Images with one or two captions of random lengths; `part` of the images of the same batch."""
    draw = np.random.default_rng(number)
    chosen = range(images)[part]
    counts, lengths = 1 + draw.integers(2, size=images), draw.integers(1, 7, size=(images, 2))
    feats, words = draw.standard_normal((images, 3, 6)), draw.integers(4, WORDS, (images, 2, 8))
    rows = [(at, i, j) for at, i in enumerate(chosen) for j in range(counts[i])]
    tokens = np.full((len(rows), 9), PAD)
    for row, (_, i, j) in enumerate(rows):
        n = lengths[i, j]
        tokens[row, : n + 2] = [BOS, *words[i, j, :n], EOS]
    boxes = torch.tensor([0.0, 0.0, 4.0, 4.0]).repeat(3, 1)
    regions = Regions.stack([Regions.of(torch.tensor(feats[i]).float(), boxes, (4, 4)) for i in chosen])
    flags = torch.zeros(tokens.shape, dtype=torch.bool)
    none = torch.zeros(0, dtype=torch.int64)
    ids = tuple(f"image-{number}-{i}" for i in chosen)
    image_of = torch.tensor([at for at, _, _ in rows])
    refs = ((("a",),),) * len(ids)
    return Batch(ids, regions, image_of, torch.tensor(tokens), flags, flags, none, none.view(0, 2), refs, Words())


class Loader:
    """Ten batches per epoch; of each, every `world`-th image."""

    def __init__(self, steps: int = 10) -> None:
        self.steps = steps

    def __len__(self) -> int:
        return self.steps

    def __call__(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        for step in range(start, self.steps):
            yield make_batch(1000 * epoch + step, part=slice(rank(), None, world()))


def losses(m: Parts, batch: Batch, clock: Clock) -> dict[str, Tensor]:
    noise = torch.rand(()) + np.random.rand()  # a loss may draw from either
    return {
        "xe": cross_entropy(m.captioner(batch), batch.targets),
        "small": 1e-3 * noise * m.captioner.say[2].bias.sum(),
    }


def stages(epochs: int = 2) -> list[Stage]:
    return [
        Stage("one", losses, lr=1e-2, epochs=epochs, trains=("captioner",), schedule=StepDecay(0.8, 1)),
        Stage("two", losses, lr=1e-3, epochs=epochs, trains=("captioner",), schedule=Plateau(0.1, 1), patience=3),
    ]


def new_parts() -> Parts:
    seed_everything(7)
    return Parts(captioner=Captioner(), guide=nn.Linear(3, 3))


def train(
    folder: Path, *, save_seconds: float = 300.0, epochs: int = 2, change: object = None, **more: object
) -> Parts:
    """A run of two stages; `change` is called with the parts at every evaluation."""
    parts = new_parts()
    batch = make_batch(99)

    def evaluate() -> list[Score]:
        if callable(change):
            change(parts)
        with torch.no_grad():
            return [Score("cider-d", -float(cross_entropy(parts.captioner(batch), batch.targets)), 4, "stand-in")]

    device = torch.device("cpu")
    run = Run(folder, {"recipe": "toy", **more}, device, seed=3, save_seconds=save_seconds)
    kept = folder / "kept.safetensors"

    def keep(scores: Sequence[Score]) -> None:
        write(kept, parts.state_dict(), {})

    def recall() -> None:
        parts.load_state_dict(read(kept)[0])

    fit(stages(epochs), parts, Loader(), run, evaluate=evaluate, keep=keep, recall=recall)
    return parts


def train_until_killed(folder: Path, seconds: float) -> None:
    """In a process of its own. Saves at every step; kill -9 comes so long after the first of them, wherever that is."""
    torch.set_num_threads(1)

    def saved() -> int:
        return (folder / LAST).stat().st_mtime_ns if (folder / LAST).exists() else 0

    def kill(before: int) -> None:
        while saved() == before:
            time.sleep(0.001)
        time.sleep(seconds)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=kill, args=(saved(),), daemon=True).start()
    train(folder, save_seconds=0.0, epochs=8)
