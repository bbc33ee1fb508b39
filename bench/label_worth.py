"""Worth of labels: a detector taught by labels that captions gave, against the same one taught by true boxes.

    groundling label flickr8k --split val --regions STORE --out LABELS
    python bench/label_worth.py LABELS flickr8k --split val --regions STORE

The detector names stored regions: one hidden layer on the features of a region, a probability for each of the most
frequent nouns of the captions. A region shows a noun when its IoU with a box of it is at least 0.5; nouns that the
captions of an image name and nobody gave a box to are left out of its loss. Both detectors learn on one half of the
images (a hash of their ids decides), with the same schedule; only the boxes differ. Both are scored on the true boxes
of the other half: average precision at IoU 0.5 after non-maximum suppression, mean over the nouns.

How labels teach (`Teaching`) is chosen on the learning half alone, one setting after the other: a detector learns on
one half of it and is scored on the other, and the reverse. Intervals: 95 %, a bootstrap over the scored images,
the same images for both. `--by score` uses nothing but what captions taught;
`--by confidence` the calibrated confidence, which was fitted on boxes.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from operator import attrgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from groundling.boxes import iou
from groundling.data.dataset import load
from groundling.inference.calibration import in_first_half
from groundling.labels import LabelledImage, Mention, engine
from groundling.labels.phrases import CaptionPhrase, caption_phrases
from groundling.regions.store import Store
from groundling.types import Box, Example

RIGHT, SAME = 0.5, 0.5  # IoU of a right box; of two detections that are one
APART = 0.2  # IoU with a doubtful box, from which nobody knows whether a region shows its noun
NamedBoxes = dict[str, list["SureBox"]]  # noun -> boxes


@dataclass(frozen=True)
class SureBox:
    """A box, and the probabilities that it is right and that its thing is there."""

    box: Box
    sure: float = 1.0
    evidence: float = 1.0


@dataclass(frozen=True)
class Teaching:
    """How labels teach."""

    least: float = 0.35  # probability from which a box counts
    evidence: float = 0.5  # that its thing has at least
    soft: bool = False  # a region shows a noun with the probability of the box, and not with certainty
    apart: bool = False  # where no box of a noun counts, regions apart from its doubtful boxes do not show it


EXACTLY = Teaching(0.0, 0.0)  # true boxes
SETTINGS: dict[str, tuple[Any, ...]] = {
    "soft": (False, True),
    "least": (0.0, 0.2, 0.35, 0.5, 0.65),
    "evidence": (0.0, 0.5),
    "apart": (False, True),
}


@dataclass(frozen=True)
class Image:
    """An image with its regions; boxes of the nouns of its captions, as labels and as people have them."""

    id: str
    feats: Tensor  # (R, D)
    boxes: Tensor  # (R, 4)
    named: frozenset[str]
    labelled: NamedBoxes
    drawn: NamedBoxes


def read(args: argparse.Namespace) -> tuple[list[Image], list[Image]]:
    """The images to learn on, and those to score on."""
    store, examples = Store.open(args.regions), load(args.data, args.split, annotated=False).by_id
    images = list(engine.Labelled(args.labels))
    halves: tuple[list[Image], list[Image]] = ([], [])
    for image, phrases in zip(images, caption_phrases([one.captions for one in images]), strict=True):
        regions = store[image.id]
        heads = {one.head for one in phrases if one.head}
        labelled, drawn = by_noun(image, phrases, args.by), true_boxes(examples[image.id], phrases)
        one = Image(image.id, regions.feats[0].float(), regions.boxes[0], frozenset(heads), labelled, drawn)
        halves[0 if in_first_half(image.id) else 1].append(one)
    return halves


def by_noun(image: LabelledImage, phrases: Sequence[CaptionPhrase], by: str) -> NamedBoxes:
    """The boxes of each noun that a label is named by."""
    head = {Mention(one.caption, one.phrase.span): one.head for one in phrases}
    out: NamedBoxes = {}
    for label in image.labels:
        if not (label.kept or label.doubtful):  # names no thing that has a box
            continue
        for noun in {head[mention] for mention in label.mentions if head.get(mention)}:
            evidence = 1.0 if label.evidence is None else label.evidence
            out.setdefault(noun, []).extend(SureBox(one.box, getattr(one, by), evidence) for one in label.boxes)
    return out


def true_boxes(example: Example, phrases: Sequence[CaptionPhrase]) -> NamedBoxes:
    """The boxes that people drew of each noun: of annotated phrases that hold the end of a phrase with that noun."""
    out: NamedBoxes = {}
    for gold in example.gold:
        spans = example.captions[gold.caption].spans[slice(*gold.span)]
        for one in phrases:
            if one.head and one.caption == gold.caption and spans[0][0] < one.phrase.span[1] <= spans[-1][1]:
                known = out.setdefault(one.head, [])
                known += [one for one in map(SureBox, gold.boxes) if one not in known]
    return out


# ---------------------------------------------------------------- learning


def targets(image: Image, boxes: NamedBoxes, nouns: Sequence[str], teaching: Teaching) -> tuple[Tensor, Tensor]:
    """(R, K) each: the probability that a region shows a noun; whether that is known."""
    shown, known = torch.zeros(2, len(image.boxes), len(nouns))
    known += 1
    for k, noun in enumerate(nouns):
        some = boxes.get(noun, [])
        sure = [one for one in some if one.sure >= teaching.least and one.evidence >= teaching.evidence]
        if sure:
            right = (iou(image.boxes, torch.tensor([one.box for one in sure])) >= RIGHT).float()
            shown[:, k] = (right * torch.tensor([one.sure if teaching.soft else 1.0 for one in sure])).max(1).values
        elif some and teaching.apart:
            known[:, k] = (iou(image.boxes, torch.tensor([one.box for one in some])) < APART).all(1).float()
        elif noun in image.named:
            known[:, k] = 0
    return shown, known


@dataclass(frozen=True)
class School:
    """What a detector is taught: nouns, by these boxes of an image, and how."""

    nouns: Sequence[str]
    epochs: int
    boxes: Callable[[Image], NamedBoxes] = attrgetter("labelled")
    teaching: Teaching = EXACTLY

    def taught(self, images: Sequence[Image], seed: int) -> nn.Module:
        """A detector that learned from these images."""
        torch.manual_seed(seed)
        rows = [(image.feats, *targets(image, self.boxes(image), self.nouns, self.teaching)) for image in images]
        every = torch.cat([feats for feats, _, _ in rows])
        detector = Detector(every.mean(0), every.std(0) + 1e-3, len(self.nouns))
        optimizer = torch.optim.AdamW(detector.parameters(), 1e-3, weight_decay=0.05)
        steps = -(-len(rows) // 16)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, epochs=self.epochs, steps_per_epoch=steps)
        order = np.random.default_rng(seed)
        for _ in range(self.epochs):
            mixed = order.permutation(len(rows))
            for start in range(0, len(rows), 16):
                some = [rows[i] for i in mixed[start : start + 16]]
                feats, shown, known = (torch.cat(part) for part in zip(*some, strict=True))
                loss = nn.functional.binary_cross_entropy_with_logits(detector(feats), shown, known, reduction="sum")
                optimizer.zero_grad()
                (loss / len(some)).backward()
                optimizer.step()
                schedule.step()
        return detector.eval()

    def scored(self, learned: Sequence[Image], others: Sequence[Image], seeds: int) -> list[Found]:
        """What is found in other images, with each seed."""
        return [found(self.taught(learned, seed), others, self.nouns) for seed in range(seeds)]


def chosen(images: Sequence[Image], school: School, seeds: int = 1) -> Teaching:
    """How labels teach best, measured within these images."""
    parts = [[image for image in images if (blake2b(image.id.encode()).digest()[1] % 2) == part] for part in (0, 1)]

    def worth(teaching: Teaching) -> float:
        one = replace(school, teaching=teaching)
        both = one.scored(parts[0], parts[1], seeds) + one.scored(parts[1], parts[0], seeds)
        value = float(np.mean([each.mean_ap() for each in both]))
        print(f"  {teaching}: {value:.4f}", flush=True)
        return value

    best, tried = school.teaching, {school.teaching: worth(school.teaching)}
    for name, values in SETTINGS.items():
        for value in values:
            other = replace(best, **{name: value})
            if other not in tried:
                tried[other] = worth(other)
        best = max(tried, key=lambda one: tried[one])
    return best


class Detector(nn.Module):
    """(N, D) features of regions -> (N, K) log-odds of nouns."""

    def __init__(self, mean: Tensor, deviation: Tensor, nouns: int) -> None:
        super().__init__()
        self.mean, self.deviation = mean, deviation
        self.layers = nn.Sequential(nn.Linear(len(mean), 128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, nouns))
        nn.init.constant_(self.layers[-1].bias, -4.0)

    def forward(self, feats: Tensor) -> Tensor:
        found: Tensor = self.layers((feats - self.mean) / self.deviation)
        return found


# ---------------------------------------------------------------- scoring


@dataclass(frozen=True)
class Found:
    """Detections of each noun, best first, as arrays: image, and whether it is right; and how many are true."""

    nouns: Sequence[tuple[np.ndarray, np.ndarray]]
    total: np.ndarray  # (images, nouns)

    def mean_ap(self, times: np.ndarray | None = None) -> float:
        """Average precision, mean over the nouns; image i counts `times[i]` times."""
        times = np.ones(len(self.total)) if times is None else times
        total = times @ self.total
        values = [
            average_precision(right, n, times[image]) for (image, right), n in zip(self.nouns, total, strict=True) if n
        ]
        return float(np.mean(values))


@torch.inference_mode()
def found(detector: nn.Module, images: Sequence[Image], nouns: Sequence[str]) -> Found:
    rows: list[list[tuple[float, int, bool]]] = [[] for _ in nouns]
    total = np.zeros((len(images), len(nouns)))
    for i, image in enumerate(images):
        scores, same = detector(image.feats).sigmoid().numpy(), (iou(image.boxes, image.boxes) >= SAME).numpy()
        for k, noun in enumerate(nouns):
            truth = [one.box for one in image.drawn.get(noun, ())]
            total[i, k] = len(truth)
            if truth or noun not in image.named:  # named and not drawn: nobody knows
                rows[k] += [(score, i, ok) for score, ok in detections(scores[:, k], same, image.boxes, truth)]
    ordered = [sorted(some, key=lambda row: -row[0]) for some in rows]
    arrays = [(np.array([i for _, i, _ in some], int), np.array([ok for *_, ok in some], float)) for some in ordered]
    return Found(arrays, total)


def intervals(one: Sequence[Found], other: Sequence[Found], draws: int) -> dict[str, tuple[float, float]]:
    """Of the ratio and of the difference of two mean average precisions, each the mean over seeds."""
    n, drawn = len(one[0].total), np.random.default_rng(0)
    values = []
    for _ in range(draws):
        times = np.bincount(drawn.integers(n, size=n), minlength=n).astype(float)
        a, b = (np.mean([each.mean_ap(times) for each in some]) for some in (one, other))
        values.append((a / b, a - b))
    low, high = np.quantile(values, [0.025, 0.975], axis=0)
    return {name: (float(low[i]), float(high[i])) for i, name in enumerate(("ratio", "difference"))}


def detections(scores: np.ndarray, same: np.ndarray, boxes: Tensor, truth: Sequence[Box]) -> list[tuple[float, bool]]:
    """Score of each detection after non-maximum suppression, and whether it is right: each true box is found once."""
    overlap = iou(boxes, torch.tensor(truth)).numpy() if truth else np.zeros((len(boxes), 0))
    free, left, out = np.ones(len(scores), bool), np.ones(len(truth), bool), []
    for at in np.argsort(-scores):
        if not free[at] or scores[at] < 1e-3:
            continue
        free &= ~same[at]
        best = int(np.where(left, overlap[at], -1).argmax()) if truth else -1
        right = best >= 0 and bool(left[best]) and overlap[at, best] >= RIGHT
        if right:
            left[best] = False
        out.append((float(scores[at]), right))
    return out


def average_precision(right: np.ndarray, total: float, times: np.ndarray) -> float:
    """Area under precision over recall, precision made to fall; of detections, best first, each so many times."""
    n, hits = times.cumsum(), (right * times).cumsum()
    if not len(right) or not n[-1]:
        return 0.0
    precision = np.maximum.accumulate((hits / np.maximum(n, 1e-9))[::-1])[::-1]
    return float((np.diff(hits / total, prepend=0.0) * precision).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labels", help="folder that `groundling label` wrote")
    parser.add_argument("data", help="the data set, with boxes of phrases")
    parser.add_argument("--split", default="val")
    parser.add_argument("--regions", required=True)
    parser.add_argument("--by", choices=("score", "confidence"), default="score", help="how sure a label is")
    parser.add_argument("--least", type=float, help="do not choose how labels teach: hard, from so sure on")
    parser.add_argument("--nouns", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--draws", type=int, default=300, help="of the bootstrap")
    args = parser.parse_args()
    torch.set_num_threads(1)
    start = time.process_time()
    learned, others = read(args)
    counts = Counter(noun for image in learned for noun in image.named if noun)
    drawn = Counter(noun for image in learned for noun in image.drawn)
    nouns = [noun for noun, _ in counts.most_common() if drawn[noun] >= 5][: args.nouns]
    school = School(nouns, args.epochs, teaching=Teaching())
    teaching = chosen(learned, school) if args.least is None else Teaching(args.least)
    print(f"chosen on the learning half: {teaching}; {time.process_time() - start:.0f} CPU-seconds", flush=True)
    schools = {
        "labels": replace(school, teaching=teaching),
        "true boxes": School(nouns, args.epochs, attrgetter("drawn")),
    }
    detected, rows = dict[str, list[Found]](), dict[str, list[float]]()
    for name, one in schools.items():
        detected[name] = one.scored(learned, others, args.seeds)
        rows[name] = [each.mean_ap() for each in detected[name]]
        print(f"{name}: mAP {np.mean(rows[name]):.4f} ± {np.std(rows[name], ddof=1):.4f}", flush=True)
    ratio = np.mean(rows["labels"]) / np.mean(rows["true boxes"])
    told = {"learned": len(learned), "scored": len(others), "by": args.by, "teaching": asdict(teaching)}
    between = intervals(detected["labels"], detected["true boxes"], args.draws)
    print(json.dumps(told | {"nouns": nouns, "map": rows, "ratio": ratio, "intervals": between}))
    low, high = between["ratio"]
    print(f"ratio {ratio:.3f} [{low:.3f}, {high:.3f}]; {time.process_time() - start:.0f} CPU-seconds")


if __name__ == "__main__":
    main()
