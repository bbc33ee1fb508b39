"""Make `word_backbone.safetensors`, the network of the `photos` source, from images and their captions alone.

    python tools/train_word_backbone.py data/coco-256 --out runs/word_backbone.safetensors
    python tools/train_word_backbone.py data/coco-256 --out runs/better.safetensors --start runs/earlier.safetensors

1. Words: the lemmas of nouns, adjectives, verbs and numbers that the captions of at least FEWEST training images have;
   with --start the words of that file.
2. Maps: what the early stages of the network, which stay as they are, make of each photo, once, in bfloat16. They are
   kept beside OUT, some 70 kB a photo.
3. Network: EfficientNet-Lite2 with its ImageNet weights, or that of --start. The last stages and a linear layer learn
   to say the words:

       z_cw = w_w · f_c + b_w        p_w = 1 − Π_c (1 − σ(z_cw))^(48/G)
       loss = −Σ_w y_w log p_w + (1 − y_w) log(1 − p_w)

   f_c: the map at cell c of G.  y_w: does any caption of the image have the word?  Photos are mirrored and cropped at
   random. Weights are averaged over the last thousand steps or so. A run that was stopped goes on from its last
   checkpoint.
4. Projections: principal components of the network's features and of the detector's, over regions of training images,
   each divided by the square root of its deviation. With --start they are turned so that features come as near as
   possible to those of that file, and the detector's stay: models that learned with it are good ones to go on with.
5. Average precision of the words on validation images, printed.

Put the file into groundling/regions/sources/ and its SHA-256, which is printed, into _photos_files.py.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from groundling.data.dataset import load
from groundling.images import open_image
from groundling.progress import track
from groundling.regions.sources._features import Backbone, Bottleneck, Same, _halves, box_means, load_backbone, pixels
from groundling.regions.sources._image_classes import FROZEN
from groundling.regions.sources._photos_files import CELLS, SEARCH_SIDE, WORKING_SIDE
from groundling.regions.sources._proposals import Detector, propose, search
from groundling.types import Example

FEWEST = 60  # images whose captions have a word
BATCH = 64
TOGETHER = 16  # photos that pass the early stages at once
CHUNK = 2048  # photos of a file of early maps, which is made whole or not at all
RATE, WORD_RATE = 2e-4, 5e-4  # learning rates of the network and of the words
DECAY = 0.02  # of weights
WARM_UP = 200  # steps
SAVE = 500  # steps between checkpoints
KEPT = 0.999  # share of the average of weights that a step keeps
CROPPED, LEAST = 0.5, 0.7  # how many batches are cropped, and the least share of each side that is left
FEW = 8  # cells of an early map along a side, at least, after a crop
SEEN, DETECTED = 384, 128  # sizes of the projections
LOOKED_AT = 1500  # photos for the projections
TAGS = ("NN", "JJ", "VB", "CD")  # beginnings of the Penn tags of words that may be seen
NOT_SEEN = {
    *("be", "have", "do", "can", "will", "get", "go", "make", "use", "take", "look", "seem", "appear", "show"),
    *("other", "many", "several", "such"),
}

Truth = dict[str, list[int]]  # the words of each image
State = Mapping[str, Tensor]


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


# ---------------------------------------------------------------- maps of the early stages


class Maps:
    """Early maps (C, H, W) of photos in files of one shape each, in bfloat16, of which numpy knows the bits alone."""

    def __init__(self, files: Iterable[Path]) -> None:
        self.chunks: list[tuple[list[str], NDArray[np.int16]]] = [
            (json.loads(file.with_suffix(".json").read_text()), np.load(file, mmap_mode="r")) for file in sorted(files)
        ]

    def __len__(self) -> int:
        return sum(len(ids) for ids, _ in self.chunks)

    def batches(self, size: int, seed: int) -> Iterator[tuple[list[str], Tensor]]:
        """Ids and maps (B, C, H, W) of photos of one shape, in an order that follows from `seed`."""
        by_shape: dict[tuple[int, ...], list[tuple[int, int]]] = defaultdict(list)
        for at, (ids, maps) in enumerate(self.chunks):
            by_shape[maps.shape[2:]] += [(at, row) for row in range(len(ids))]
        draw, batches = np.random.default_rng(seed), []
        for rows in by_shape.values():
            mixed = [rows[i] for i in draw.permutation(len(rows))]
            batches += [mixed[i : i + size] for i in range(0, len(mixed), size)]
        for i in draw.permutation(len(batches)):
            x = np.stack([self.chunks[at][1][row] for at, row in batches[i]])
            yield [self.chunks[at][0][row] for at, row in batches[i]], torch.from_numpy(x).view(torch.bfloat16)


def early_maps(network: Backbone, paths: Mapping[str, str], folder: Path) -> Maps:
    """Of these photos; what `folder` has already is not made again."""
    folder.mkdir(parents=True, exist_ok=True)
    by_shape: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for id, path in paths.items():
        by_shape[tuple(pixels(open_image(path), WORKING_SIDE).shape[2:])].append(id)
    chunks = {
        folder / f"{height}x{width}-{at}.npy": ids[at : at + CHUNK]
        for (height, width), ids in by_shape.items()
        for at in range(0, len(ids), CHUNK)
    }
    for file, ids in track([*chunks.items()], "early maps, in files"):
        names = file.with_suffix(".json")
        if file.exists() and json.loads(names.read_text()) == ids:
            continue
        file.unlink(missing_ok=True)  # of other photos
        maps = []
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
            for at in range(0, len(ids), TOGETHER):
                x = torch.cat([pixels(open_image(paths[id]), WORKING_SIDE) for id in ids[at : at + TOGETHER]])
                maps.append(network.early(x).bfloat16().contiguous().view(torch.int16).numpy())
        names.write_text(json.dumps(ids))
        partial = file.with_suffix(".partial")
        with partial.open("wb") as stream:
            np.save(stream, np.concatenate(maps))
        os.replace(partial, file)
    return Maps(chunks)


# ---------------------------------------------------------------- network


class Late(nn.Module):
    """The late stages of a network and the words, for maps (C, B, G): channels, photos, cells.

    So a 1x1 convolution is one product of matrices, and a depthwise one a product for each channel, of its map with a
    matrix that has the kernel at the right places. That suits processors with units for matrices in bfloat16; PyTorch's
    gradient of depthwise convolutions in bfloat16 is slow.
    """

    def __init__(self, network: Backbone, words: nn.Linear, dtype: torch.dtype = torch.bfloat16) -> None:
        super().__init__()
        self.blocks: nn.Sequential = network.blocks[FROZEN:]
        self.head, self.words, self.dtype = network.head, words, dtype

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) early maps -> (B, words): −log(1 − p)."""
        cells, _ = self.maps(x)
        z = product(cells, self.words.weight, self.words.bias)  # (words, B, G)
        return CELLS * F.softplus(z).mean(2, dtype=torch.float32).T

    def maps(self, x: Tensor) -> tuple[Tensor, tuple[int, int]]:
        """(B, C, H, W) -> (1280, B, G), and what G is the product of."""
        size = (x.shape[2], x.shape[3])
        x = x.to(self.dtype).flatten(2).transpose(0, 1).contiguous()
        for block in self.blocks:
            x, size = bottleneck(block, x, size)
        return F.relu6(convolution(self.head, x)), size


def bottleneck(block: Bottleneck, x: Tensor, size: tuple[int, int]) -> tuple[Tensor, tuple[int, int]]:
    y = x if block.up is None else F.relu6(convolution(block.up, x))
    y, size = depthwise(block.depthwise, y, size)
    y = convolution(block.down, F.relu6(y))
    return y + x if block.shortcut else y, size


def convolution(layer: Same, x: Tensor) -> Tensor:
    """1x1: (C, B, G) -> (D, B, G)"""
    assert layer.bias is not None
    return product(x, layer.weight.flatten(1), layer.bias)


def product(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    c, b, g = x.shape
    return torch.addmm(bias.to(x.dtype)[:, None], weight.to(x.dtype), x.reshape(c, b * g)).view(-1, b, g)


def depthwise(layer: Same, x: Tensor, size: tuple[int, int]) -> tuple[Tensor, tuple[int, int]]:
    """(C, B, H · W) -> (C, B, H' · W')"""
    assert layer.bias is not None
    kernel, stride = layer.kernel_size[0], layer.stride[0]
    places = shifts(*size, kernel, stride).to(x.dtype)
    after = (-(-size[0] // stride), -(-size[1] // stride))
    matrices = (layer.weight.flatten(1).to(x.dtype) @ places).view(len(x), x.shape[2], after[0] * after[1])
    return torch.baddbmm(layer.bias.to(x.dtype)[:, None, None], x, matrices), after


@cache
def shifts(height: int, width: int, kernel: int, stride: int) -> Tensor:
    """(kernel², H · W · H' · W'): 1 where a place of the kernel leads from a cell of the input to one of the output."""
    rows, columns = (_along(size, kernel, stride) for size in (height, width))
    both = torch.einsum("ahy,bwx->abhwyx", rows, columns)
    return both.reshape(kernel * kernel, -1)


def _along(size: int, kernel: int, stride: int) -> Tensor:
    """(kernel, cells, cells of the output) along one side, padded as `Same` does."""
    before, _ = _halves(size, kernel, stride)
    place, cell, out = torch.meshgrid(
        torch.arange(kernel), torch.arange(size), torch.arange(-(-size // stride)), indexing="ij"
    )
    return (cell == out * stride - before + place).float()


def noisy_or_loss(absence: Tensor, true: Tensor) -> Tensor:
    """Binary cross-entropy of p = 1 − exp(−absence), summed over words, mean over images."""
    absence = absence.clamp(min=1e-6)
    return (absence * (1 - true) - torch.log(-torch.expm1(-absence)) * true).sum(1).mean()


def likely_as(shares: Tensor) -> nn.Linear:
    """Words that are as likely in any photo as they are in all of them."""
    linear = nn.Linear(1280, len(shares))
    nn.init.normal_(linear.weight, std=0.005)
    with torch.no_grad():
        linear.bias.copy_(torch.log(torch.expm1(-torch.log1p(-shares.clamp(1e-4, 0.9)) / CELLS)))
    return linear


# ---------------------------------------------------------------- training


@dataclass
class Training:
    """Weights, their average, the optimizer and how many steps were made."""

    late: Late
    average: dict[str, Tensor]
    optimizer: torch.optim.AdamW
    step: int = 0

    @staticmethod
    def of(late: Late) -> Training:
        first, *others = late.blocks  # the first is wide at the size of the early map, and costs most: it stays
        learned = [p for layer in (first.down, *others, late.head) for p in layer.requires_grad_(True).parameters()]
        groups = [{"params": learned, "lr": RATE}, {"params": [*late.words.parameters()], "lr": WORD_RATE}]
        average = {name: x.clone() for name, x in late.state_dict().items()}
        return Training(late, average, torch.optim.AdamW(groups, weight_decay=DECAY, fused=True))

    def save(self, path: Path, run: str) -> None:
        """Whole or not at all; `run` says what the training is of."""
        tensors = {f"late.{name}": x for name, x in self.late.state_dict().items()}
        tensors |= {f"average.{name}": x for name, x in self.average.items()}
        for i, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{i}.{name}": x for name, x in state.items()}
        partial = path.with_suffix(".partial")
        about = {"step": str(self.step), "run": run}
        save_file({name: x.contiguous() for name, x in tensors.items()}, partial, about)
        os.replace(partial, path)

    def resume(self, path: Path, run: str) -> None:
        if not path.exists():
            return
        with safe_open(path, "pt") as file:
            about = file.metadata()
        if about["run"] != run:
            sys.exit(f"{path} is of other photos, words, epochs or another start: choose another --out, or delete it")
        self.step = int(about["step"])
        tensors = load_file(path)
        self.late.load_state_dict(_under("late.", tensors))
        self.average = _under("average.", tensors)
        plain = self.optimizer.state_dict()
        for name, x in _under("optimizer.", tensors).items():
            i, key = name.split(".")
            plain["state"].setdefault(int(i), {})[key] = x
        self.optimizer.load_state_dict(plain)


def _under(prefix: str, tensors: State) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): x for name, x in tensors.items() if name.startswith(prefix)}


def train(late: Late, maps: Maps, true: Truth, photos: int, path: Path, seed: int) -> None:
    """Until `photos` were seen; `late` is left with the average of its weights."""
    training, run = Training.of(late), digest(late, true, photos, seed)
    training.resume(path, run)
    total, mean, began, first = -(-photos // BATCH), 0.0, time.monotonic(), training.step
    step = 0
    for epoch in range(-(-photos // len(maps)) + 1):
        for ids, x in maps.batches(BATCH, seed + epoch):
            step += 1
            if step <= training.step:
                continue
            if step > total:
                break
            loss = update(training, augmented(x, np.random.default_rng([seed, step])), truths(ids, true, late), total)
            mean = 0.98 * mean + 0.02 * loss if mean else loss
            if step % 20 == 0:
                pace = (time.monotonic() - began) / (step - first) / BATCH * 1e3
                print(f"step {step} of {total}, loss {mean:.2f}, {pace:.1f} ms a photo", flush=True)
            if step % SAVE == 0 or step == total:
                training.save(path, run)
    late.load_state_dict(training.average)


def digest(late: Late, true: Truth, photos: int, seed: int) -> str:
    """Of all that a training follows from: the weights that it starts with, the photos and their words, its length."""
    seen = hashlib.sha256(json.dumps([sorted(true.items()), photos, seed]).encode())
    for value in late.state_dict().values():
        seen.update(value.contiguous().numpy().tobytes())
    return seen.hexdigest()


def update(training: Training, x: Tensor, y: Tensor, total: int) -> float:
    """One step; the rates rise, then fall as a cosine."""
    done = training.step / total
    factor = min(1.0, (training.step + 1) / WARM_UP) * (0.49 * (1 + math.cos(math.pi * done)) + 0.02)
    for group, rate in zip(training.optimizer.param_groups, (RATE, WORD_RATE), strict=True):
        group["lr"] = rate * factor
    loss = noisy_or_loss(training.late(x), y)
    training.optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(training.late.parameters(), 5.0)
    training.optimizer.step()
    training.step += 1
    share = min(KEPT, (1 + training.step) / (10 + training.step))
    with torch.no_grad():
        for name, value in training.late.state_dict().items():
            training.average[name].lerp_(value, 1 - share)
    return loss.item()


def augmented(x: Tensor, draw: np.random.Generator) -> Tensor:
    """The maps of a batch, mirrored with a chance of one half, and some of them cropped."""
    if draw.random() < CROPPED:
        for axis in (2, 3):
            size = x.shape[axis]
            kept = min(size, max(FEW, 2 * round(size * draw.uniform(LEAST, 1) / 2)))
            x = x.narrow(axis, int(draw.integers(size - kept + 1)), kept)
    return x.flip(3) if draw.random() < 0.5 else x


def truths(ids: Sequence[str], true: Truth, late: Late) -> Tensor:
    y = torch.zeros(len(ids), late.words.out_features)
    for row, id in enumerate(ids):
        y[row, true[id]] = 1
    return y


# ---------------------------------------------------------------- projections, precision


class Projection(NamedTuple):
    mean: Tensor  # (C,)
    matrix: Tensor  # (C, size)

    def __call__(self, x: Tensor) -> Tensor:
        return (x - self.mean.double()) @ self.matrix.double()


def region_features(networks: Sequence[Backbone], paths: Sequence[str]) -> list[Tensor]:
    """Of the regions of photos: (N, 1280) by each network, (N, 1152) by the detector."""
    detector = Detector()
    rows: list[list[NDArray[np.float32]]] = [[] for _ in range(len(networks) + 1)]
    with torch.inference_mode():
        for path in track(paths, "regions for the projections"):
            image = open_image(path)
            rgb = np.asarray(image)
            found = detector(rgb)
            boxes = propose(found, search(rgb, SEARCH_SIDE), 50)
            for row, network in zip(rows, networks, strict=False):
                row.append(box_means(network(pixels(image, WORKING_SIDE))[0].numpy(), boxes))
            rows[-1].append(np.concatenate([box_means(x, boxes) for x in found.maps], axis=1))
    return [torch.from_numpy(np.concatenate(row)).double() for row in rows]


def projection(x: Tensor, size: int) -> Projection:
    """All numbers of a projected feature together have deviation 1."""
    mean = x.mean(0)
    values, vectors = torch.linalg.eigh((x - mean).T @ (x - mean) / len(x))
    matrix = vectors.flip(1)[:, :size] / values.flip(0)[:size].clamp(min=1e-8) ** 0.25
    return Projection(mean.float(), (matrix / ((x - mean) @ matrix).std()).float())


def turned(projected: Projection, x: Tensor, wanted: Tensor) -> Projection:
    """The projection, its axes turned so that it makes of x (N, C) what is nearest to `wanted` (N, size).

    U Vᵀ of the singular value decomposition of Yᵀ · wanted is that turn (Schönemann 1966).
    """
    u, _, v = torch.linalg.svd(projected(x).T @ wanted)
    return Projection(projected.mean, (projected.matrix.double() @ u @ v).float())


def average_precision(late: Late, maps: Maps, true: Truth, fewest: int) -> tuple[float, int]:
    """Mean over the words that at least `fewest` of these images have, and how many these are."""
    rows, scores = [], []
    with torch.inference_mode():
        for ids, x in maps.batches(BATCH, 0):
            rows.append(truths(ids, true, late).bool().numpy())
            scores.append(late(x).numpy())
    y, likely = np.concatenate(rows), np.concatenate(scores)
    found = []
    for w in np.flatnonzero(y.sum(0) >= fewest):
        hit = y[np.argsort(-likely[:, w], kind="stable"), w]
        found.append((np.cumsum(hit) / np.arange(1, len(hit) + 1))[hit].mean())
    return float(np.mean(found)), len(found)


# ----------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="captioned photos with the splits train and val")
    parser.add_argument("--out", type=Path, required=True, help="the file to make; maps and states go beside it")
    parser.add_argument("--start", type=Path, help="a file of this tool to go on with (default: ImageNet weights)")
    parser.add_argument("--epochs", type=float, default=2.3, help="how often each photo is seen (default 2.3)")
    parser.add_argument("--scored", type=int, default=1000, help="validation photos for average precision")
    parser.add_argument("--fewest", type=int, default=5, help="and of these that have a word which counts (default 5)")
    parser.add_argument("--threads", type=int, default=0, help="of the CPU (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    data = load(args.data)
    learned, scored = list(data.split("train")), list(data.split("val"))[: args.scored]
    start = load_file(args.start) if args.start else None
    words = read_words(args.start) if args.start else vocabulary(learned)
    true = truth(learned, words)
    network = load_backbone() if start is None else Backbone(_under("network.", halves_to_floats(start)))
    paths = {example.id: example.media for example in learned}
    work = args.out.with_suffix("")
    maps = early_maps(network, paths, work / "train")
    late = Late(network, words_of(start, true, len(words)))
    train(late, maps, true, round(args.epochs * len(paths)), work / "checkpoint.safetensors", args.seed)
    network.requires_grad_(False)
    some = [paths[id] for id in sorted(paths)[:: max(1, len(paths) // LOOKED_AT)]]
    write(args.out, late, network, projections(network, start, some), words, round(args.epochs * len(paths)))
    shown = early_maps(network, {example.id: example.media for example in scored}, work / "val")
    precision, count = average_precision(late, shown, truth(scored, words), args.fewest)
    print(f"mean average precision of {count} words on {len(shown)} photos: {precision:.4f}")


def read_words(path: Path) -> list[str]:
    with safe_open(path, "pt") as file:
        words: list[str] = json.loads(file.metadata()["words"])
    return words


def halves_to_floats(state: State) -> dict[str, Tensor]:
    return {name: x.float() for name, x in state.items()}


def words_of(start: State | None, true: Truth, count: int) -> nn.Linear:
    """The layer of words: that of the file, or one that knows how frequent each word is."""
    if start is None:
        seen = torch.tensor([word for row in true.values() for word in row])
        return likely_as(torch.bincount(seen, minlength=count) / len(true))
    linear = nn.Linear(1280, count)
    linear.load_state_dict({name: start[f"words.{name}"].float() for name in ("weight", "bias")})
    return linear


def projections(network: Backbone, start: State | None, paths: Sequence[str]) -> dict[str, Projection]:
    if start is None:
        seen, detected = region_features([network], paths)
        return {"seen": projection(seen, SEEN), "detected": projection(detected, DETECTED)}
    before = Backbone(_under("network.", halves_to_floats(start)))
    kept = {
        name: Projection(start[f"{name}.mean"].float(), start[f"{name}.matrix"].float())
        for name in ("seen", "detected")
    }
    seen, earlier, _ = region_features([network, before], paths)
    return kept | {"seen": turned(projection(seen, SEEN), seen, kept["seen"](earlier))}


def write(
    out: Path, late: Late, network: Backbone, projected: Mapping[str, Projection], words: Sequence[str], photos: int
) -> None:
    tensors = {f"network.{name}": x for name, x in network.state_dict().items()}
    tensors |= {"words.weight": late.words.weight.data, "words.bias": late.words.bias.data}
    for name, one in projected.items():
        tensors |= {f"{name}.mean": one.mean, f"{name}.matrix": one.matrix}
    halves = {name: (x.half() if x.ndim > 1 else x).contiguous() for name, x in tensors.items()}
    save_file(halves, out, {"words": json.dumps([*words]), "photos": str(photos)})
    print(f"{out}: SHA-256 {hashlib.sha256(out.read_bytes()).hexdigest()}")


if __name__ == "__main__":
    main()
