"""What captions taught the network of `photos`: average precision of words, before and after fine-tuning.

    python bench/word_backbone.py data/coco-256            # 4,000 photos of val; about five minutes

Two networks of one shape: EfficientNet-Lite2 as published (ImageNet), and the same with its last stages fine-tuned on
the words of captions (tools/train_word_backbone.py). Neither has seen these photos. On each, a ridge regression from
the mean and the maximum of the map to the words is fitted on the first photos, and scored on the last 1,000. The
strength of the penalty is chosen on a quarter of the photos that it is fitted on.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

from groundling.data.dataset import load
from groundling.images import open_image
from groundling.regions.sources._features import load_backbone, load_word_backbone, pixels
from groundling.regions.sources._photos_files import WORKING_SIDE
from groundling.types import Example

FEWEST = 5  # photos to score on that have a word
PENALTIES = (300.0, 1000.0, 3000.0, 10_000.0)
DRAWS = 2000


def pooled(grid: Tensor) -> Tensor:
    """(1, C, H, W) map -> (2C,): mean and maximum over its cells."""
    cells = grid[0].flatten(1)
    return torch.cat([cells.mean(1), cells.amax(1)])


def ridge(x: Tensor, y: Tensor, penalty: float) -> Tensor:
    """(N, D), (N, W) -> (D, W): the weights W that make |xW − y|² + penalty |W|² smallest."""
    return torch.linalg.solve(x.T @ x + penalty * torch.eye(x.shape[1]), x.T @ y)


def average_precisions(scores: Tensor, true: NDArray[np.bool_]) -> NDArray[np.float64]:
    """(N, W), (N, W) -> (W,)"""
    order = np.argsort(-scores.numpy(), axis=0, kind="stable")
    hit = np.take_along_axis(true, order, 0)
    precision = np.cumsum(hit, 0) / np.arange(1, len(hit) + 1)[:, None]
    return np.asarray((precision * hit).sum(0) / hit.sum(0))


def probe(x: Tensor, true: NDArray[np.bool_], scored: int) -> NDArray[np.float64]:
    """Average precision of each word on the last `scored` rows, by a regression fitted on the others."""
    fitted = len(x) - scored
    x = (x - x[:fitted].mean(0)) / x[:fitted].std(0).clamp(min=1e-6)
    y = torch.from_numpy(true).float()
    y = y - y[:fitted].mean(0)
    some = fitted * 3 // 4
    common = true[some:fitted].sum(0) >= FEWEST

    def held_out(penalty: float) -> float:
        scores = x[some:fitted] @ ridge(x[:some], y[:some], penalty)
        return float(average_precisions(scores[:, common], true[some:fitted][:, common]).mean())

    best = max(PENALTIES, key=held_out)
    return average_precisions(x[fitted:] @ ridge(x[:fitted], y[:fitted], best), true[fitted:])


def features(examples: Sequence[Example]) -> dict[str, Tensor]:
    """Pooled maps (N, 2C) of both networks. Their early stages are the same."""
    published, tuned = load_backbone(), load_word_backbone().network
    found: dict[str, list[Tensor]] = {"as published": [], "fine-tuned on captions": []}
    with torch.inference_mode():
        for example in track(examples, console=Console(stderr=True), description="photos"):
            early = published.early(pixels(open_image(example.media), WORKING_SIDE))
            for rows, network in zip(found.values(), (published, tuned), strict=True):
                rows.append(pooled(network.late(early)))
    return {name: torch.stack(rows) for name, rows in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="captioned photos that neither network has seen")
    parser.add_argument("--split", default="val")
    parser.add_argument("--photos", type=int, default=4000, help="the first so many")
    parser.add_argument("--scored", type=int, default=1000, help="the last so many of them")
    args = parser.parse_args()
    examples = list(load(args.data, args.split))[: args.photos]
    words = {word: i for i, word in enumerate(load_word_backbone().words)}
    true = np.zeros((len(examples), len(words)), bool)
    for row, example in enumerate(examples):
        lemmas = {lemma.lower() for caption in example.captions for lemma in caption.lemmas}
        true[row, [words[lemma] for lemma in lemmas if lemma in words]] = True
    often = true[-args.scored :].sum(0) >= FEWEST
    precision = {name: probe(x, true[:, often], args.scored) for name, x in features(examples).items()}
    table = Table("network", "mean average precision", title=f"{often.sum()} words, {args.scored} photos")
    for name, values in precision.items():
        table.add_row(name, f"{values.mean():.4f}")
    console = Console()
    console.print(table)
    before, after = precision.values()
    draw = np.random.default_rng(0)
    gains = [(after - before)[draw.integers(len(before), size=len(before))].mean() for _ in range(DRAWS)]
    low, high = np.quantile(gains, (0.025, 0.975))
    console.print(f"difference {np.mean(after - before):+.4f}, 95 % of draws of words: {low:+.4f} to {high:+.4f}")


if __name__ == "__main__":
    main()
