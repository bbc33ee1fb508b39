"""Make `word_backbone.safetensors`, the network of the `photos` source, from images and their captions alone.

    python tools/train_word_backbone.py data/coco-256 --out runs/word_backbone.safetensors

1. Words: the lemmas of nouns, adjectives, verbs and numbers that the captions of at least FEWEST training images have.
2. Network: EfficientNet-Lite2 with its ImageNet weights. The last stages and a linear layer learn to say the words:

       z_cw = w_w · f_c + b_w        p_w = 1 − Π_c (1 − σ(z_cw))        loss = −Σ_w y_w log p_w + (1 − y_w) log(1 − p_w)

   f_c: the map at cell c.  y_w: does any caption of the image have the word?  One process decodes photos and runs the
   frozen early stages, another trains the rest. A run that was stopped goes on from its last checkpoint.
3. Projections: principal components of the network's features and of the detector's, over regions of training images,
   each divided by the square root of its deviation.
4. Average precision of the words on validation images, printed.

Put the file into groundling/regions/sources/ and its SHA-256, which is printed, into _features.py.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.multiprocessing as mp
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from groundling.data.dataset import load
from groundling.images import open_image
from groundling.regions.sources._features import Backbone, box_means, load_backbone, pixels
from groundling.regions.sources._image_classes import FROZEN
from groundling.regions.sources._photos_files import CELLS, SEARCH_SIDE, WORKING_SIDE
from groundling.regions.sources._proposals import Detector, propose, search
from groundling.types import Example

FEWEST = 60  # images whose captions have a word
LONG_SIDE = 256  # pixels of a photo in training: 8 x 6 cells
BATCH = 32
RATE, WORD_RATE = 1.5e-4, 1e-3  # learning rates of the network and of the words
WARM_UP = 150  # steps
SAVE = 100  # steps between checkpoints
SEEN, DETECTED = 384, 128  # sizes of the projections
TAGS = ("NN", "JJ", "VB", "CD")  # beginnings of the Penn tags of words that may be seen
NOT_SEEN = {
    *("be", "have", "do", "can", "will", "get", "go", "make", "use", "take", "look", "seem", "appear", "show"),
    *("other", "many", "several", "such"),
}

Truth = dict[str, list[int]]  # the words of each image


# ---------------------------------------------------------------- words


def vocabulary(examples: Sequence[Example]) -> list[str]:
    """The lemmas that enough images have, most frequent first."""
    counts = Counter(word for example in examples for word in lemmas(example))
    return [word for word, count in counts.most_common() if count >= FEWEST]


def lemmas(example: Example) -> set[str]:
    """Of what may be seen, in all captions of an image."""
    return {
        lemma.lower()
        for caption in example.captions
        for lemma, tag in zip(caption.lemmas, caption.tags, strict=True)
        if tag.startswith(TAGS) and lemma.isalpha() and len(lemma) > 2 and lemma.lower() not in NOT_SEEN
    }


def truth(examples: Sequence[Example], words: Sequence[str]) -> Truth:
    index = {word: i for i, word in enumerate(words)}
    return {example.id: sorted(index[word] for word in lemmas(example) if word in index) for example in examples}


# ---------------------------------------------------------------- network


class Words(nn.Module):
    """(B, 1280, H, W) map -> (B, words): −log(1 − p)."""

    def __init__(self, shares: Tensor) -> None:
        """`shares`: how often each word is true; before training each is as likely as that."""
        super().__init__()
        self.linear = nn.Linear(1280, len(shares))
        nn.init.normal_(self.linear.weight, std=0.005)
        with torch.no_grad():
            self.linear.bias.copy_(torch.log(torch.expm1(-torch.log1p(-shares.clamp(1e-4, 0.9)) / CELLS)))

    def forward(self, grid: Tensor) -> Tensor:
        cells = self.linear(grid.flatten(2).transpose(1, 2))
        return CELLS * F.softplus(cells).mean(1)


def noisy_or_loss(absence: Tensor, true: Tensor) -> Tensor:
    """Binary cross-entropy of p = 1 − exp(−absence), summed over words, mean over images."""
    there = torch.log(-torch.expm1(-absence.clamp(min=1e-6)))
    return (absence * (1 - true) - there * true).sum(1).mean()


@dataclass(frozen=True)
class Photos:
    """Which photos are seen, in which order: a function of the seed alone."""

    paths: dict[str, str]
    total: int
    seed: int

    def after(self, seen: int) -> Iterator[str]:
        ids = sorted(self.paths)
        for epoch in range(-(-self.total // len(ids))):
            order = np.random.default_rng([self.seed, epoch]).permutation(len(ids))
            start, end = epoch * len(ids), min((epoch + 1) * len(ids), self.total)
            yield from (ids[i] for at, i in enumerate(order, start) if seen <= at < end)


def produce(queue: Any, photos: Photos, seen: int) -> None:
    """Batches of photos of one shape, through the frozen stages, mirrored at random."""
    torch.set_num_threads(1)
    network, draw = load_backbone(), np.random.default_rng([photos.seed, seen, 1])
    waiting: dict[tuple[int, ...], list[tuple[str, Tensor]]] = defaultdict(list)
    with torch.no_grad():
        for id in photos.after(seen):
            image = open_image(photos.paths[id])
            if draw.random() < 0.5:
                image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
            x = network.early(pixels(image, LONG_SIDE))
            alike = waiting[tuple(x.shape)]
            alike.append((id, x))
            if len(alike) == BATCH:
                queue.put(([one for one, _ in alike], torch.cat([x for _, x in alike])))
                alike.clear()
    queue.put(None)


def train(photos: Photos, true: Truth, words: Sequence[str], work: Path) -> tuple[Backbone, Words]:
    torch.manual_seed(photos.seed)
    shares = torch.bincount(torch.tensor([w for row in true.values() for w in row]), minlength=len(words)) / len(true)
    network, head = load_backbone(), Words(shares)
    trained = [*network.blocks[FROZEN:].parameters(), *network.head.parameters()]
    for weight in trained:
        weight.requires_grad_(True)
    rates = {"network": RATE, "words": WORD_RATE}
    optimizer = torch.optim.AdamW(
        [{"params": trained, "lr": RATE}, {"params": head.parameters(), "lr": WORD_RATE}], weight_decay=1e-3
    )
    step, seen = resume(work, network, head, optimizer)
    queue: Any = mp.Queue(6)
    mp.Process(target=produce, args=(queue, photos, seen), daemon=True).start()
    began, before, mean = time.monotonic(), seen, 0.0
    while (made := queue.get()) is not None:
        ids, x = made
        done = min(1.0, seen / photos.total)
        factor = min(1.0, (step + 1) / WARM_UP) * (0.49 * (1 + math.cos(math.pi * done)) + 0.02)
        for group, rate in zip(optimizer.param_groups, rates.values(), strict=True):
            group["lr"] = rate * factor
        y = torch.zeros(len(ids), len(words))
        for row, id in enumerate(ids):
            y[row, true[id]] = 1
        loss = noisy_or_loss(head(network.late(x)), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(trained, 5.0)
        optimizer.step()
        step, seen = step + 1, seen + len(ids)
        mean = loss.item() if not mean else 0.98 * mean + 0.02 * loss.item()
        if step % 20 == 0:
            speed = (seen - before) / (time.monotonic() - began)
            print(f"step {step}, {seen} photos, loss {mean:.2f}, {speed:.1f} photos a second", flush=True)
        if step % SAVE == 0:
            keep(work, network, head, optimizer, step, seen)
    keep(work, network, head, optimizer, step, photos.total)
    return network, head


def keep(work: Path, network: nn.Module, head: nn.Module, optimizer: Any, step: int, seen: int) -> None:
    """A checkpoint, written whole or not at all."""
    tensors = {f"network.{name}": x for name, x in network.state_dict().items()}
    tensors |= {f"words.{name}": x for name, x in head.state_dict().items()}
    for i, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{i}.{name}": x for name, x in state.items()}
    work.mkdir(parents=True, exist_ok=True)
    contiguous = {name: x.contiguous() for name, x in tensors.items()}
    save_file(contiguous, work / "partial", {"step": str(step), "seen": str(seen)})
    os.replace(work / "partial", work / "checkpoint.safetensors")


def resume(work: Path, network: nn.Module, head: nn.Module, optimizer: Any) -> tuple[int, int]:
    """Steps and photos so far; 0 where nothing was kept."""
    path = work / "checkpoint.safetensors"
    if not path.exists():
        return 0, 0
    tensors = load_file(path)
    network.load_state_dict({n.removeprefix("network."): x for n, x in tensors.items() if n.startswith("network.")})
    head.load_state_dict({n.removeprefix("words."): x for n, x in tensors.items() if n.startswith("words.")})
    plain = optimizer.state_dict()
    for name, x in tensors.items():
        if name.startswith("optimizer."):
            _, i, key = name.split(".")
            plain["state"].setdefault(int(i), {})[key] = x
    optimizer.load_state_dict(plain)
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        about = json.loads(file.read(length))["__metadata__"]
    return int(about["step"]), int(about["seen"])


# ---------------------------------------------------------------- projections, precision


def region_features(network: Backbone, paths: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(N, 1280), (N, 1152): of the regions of photos, by the network and by the detector."""
    detector, seen, detected = Detector(), [], []
    with torch.inference_mode():
        for path in paths:
            image = open_image(path)
            rgb = np.asarray(image)
            found = detector(rgb)
            boxes = propose(found, search(rgb, SEARCH_SIDE), 50)
            seen.append(box_means(network(pixels(image, WORKING_SIDE))[0].numpy(), boxes))
            detected.append(np.concatenate([box_means(x, boxes) for x in found.maps], axis=1))
    return np.concatenate(seen), np.concatenate(detected)


def projection(features: NDArray[np.float32], size: int) -> tuple[Tensor, Tensor]:
    """Mean (C,) and matrix (C, size); all numbers of a projected feature together have deviation 1."""
    x = torch.from_numpy(features).double()
    mean = x.mean(0)
    values, vectors = torch.linalg.eigh((x - mean).T @ (x - mean) / len(x))
    matrix = vectors.flip(1)[:, :size] / values.flip(0)[:size].clamp(min=1e-8) ** 0.25
    return mean.float(), (matrix / ((x - mean) @ matrix).std()).float()


def average_precision(network: Backbone, head: Words, paths: dict[str, str], true: Truth, side: int) -> float:
    """Mean over the words that at least five of these images have."""
    y = np.zeros((len(paths), head.linear.out_features), bool)
    scores = np.zeros(y.shape, np.float32)
    with torch.inference_mode():
        for row, (id, path) in enumerate(paths.items()):
            y[row, true[id]] = True
            scores[row] = head(network(pixels(open_image(path), side)))[0].numpy()
    found = []
    for w in np.flatnonzero(y.sum(0) >= 5):
        hit = y[np.argsort(-scores[:, w], kind="stable"), w]
        found.append((np.cumsum(hit) / np.arange(1, len(hit) + 1))[hit].mean())
    return float(np.mean(found))


# ----------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="captioned photos with the splits train and val")
    parser.add_argument("--out", type=Path, required=True, help="the file to make")
    parser.add_argument("--photos", type=int, default=0, help="how many are seen in training (0: each once)")
    parser.add_argument("--scored", type=int, default=1000, help="validation photos for average precision")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    data = load(args.data)
    learned, scored = list(data.split("train")), list(data.split("val"))[: args.scored]
    words = vocabulary(learned)
    paths = {example.id: example.media for example in learned}
    photos = Photos(paths, args.photos or len(paths), args.seed)
    network, head = train(photos, truth(learned, words), words, args.out.with_suffix(""))
    network.requires_grad_(False)
    some = [paths[id] for id in sorted(paths)[:: max(1, len(paths) // 700)]]
    seen, detected = region_features(network, some)
    tensors = {f"network.{name}": x for name, x in network.state_dict().items()}
    tensors |= {"words.weight": head.linear.weight.data, "words.bias": head.linear.bias.data}
    tensors["seen.mean"], tensors["seen.matrix"] = projection(seen, SEEN)
    tensors["detected.mean"], tensors["detected.matrix"] = projection(detected, DETECTED)
    halves = {name: (x.half() if x.ndim > 1 else x).contiguous() for name, x in tensors.items()}
    save_file(halves, args.out, {"words": json.dumps(words), "photos": str(photos.total)})
    print(f"{args.out}: SHA-256 {hashlib.sha256(args.out.read_bytes()).hexdigest()}")
    shown = {example.id: example.media for example in scored}
    for side in (LONG_SIDE, WORKING_SIDE):
        precision = average_precision(network, head, shown, truth(scored, words), side)
        print(f"average precision of {len(words)} words on {len(shown)} photos at {side} pixels: {precision:.4f}")


if __name__ == "__main__":
    main()
