"""Regions of the detector studies of Ma et al., ECCV 2020 (section 4.4): how much of grounding is the detector's fault?

Perfect: the boxes that people drew, each with the object words of its phrases. A row is 1 in the columns of these
words and 0 elsewhere, so that the first linear layer of any captioner is the paper's learned embedding of words.

Biased: the regions of another detector, seen through a classifier that was trained on the annotated object words of the
training split alone. It tells these words well apart and has forgotten the rest: colours, actions, places. The paper
trains a whole detector on Flickr30k; here the boxes stay those of the other detector, and only features are learned.

The paper's captioners keep the feature map and the vector of the image, which come from another network; these stores
have neither.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import torch
from torch import Tensor, nn

from groundling.boxes import iou
from groundling.data.dataset import Dataset
from groundling.errors import DataError
from groundling.objectives.mean import mean_over
from groundling.progress import track
from groundling.regions.fingerprints import to_json
from groundling.regions.store import Store
from groundling.tensors import Regions
from groundling.text.classes import Classes, label
from groundling.types import Box, Example, Fingerprint

HIDDEN = 256  # numbers of a region of the biased detector
EPOCHS, BATCH, RATE = 5, 32, 1e-3  # of its training: BATCH images in a step of Adam


# ---------------------------------------------------------------- perfect


def perfect_fingerprint(classes: Classes) -> Fingerprint:
    """The columns are the classes and, last, whatever is of none of them."""
    return Fingerprint("truth", "1", len(classes.names) + 1, labels=(*classes.names, "other"))


def perfect(example: Example, classes: Classes) -> Regions:
    """One image's regions; the whole picture where nobody drew a box. The labels are the most frequent of the words."""
    if not all(example.size):
        raise DataError(f"image {example.id!r}: its size is not known, which its boxes need")
    column = {name: i for i, name in enumerate(classes.names)}
    words_of: dict[tuple[int, Box], set[int]] = {}
    for phrase in label([example], classes)[0].gold:
        for box, frame in zip(phrase.boxes, phrase.frames or (0,) * len(phrase.boxes), strict=True):
            words_of.setdefault((frame, box), set()).update({column[phrase.label]} if phrase.label else ())
    if not words_of:
        words_of[0, (0.0, 0.0, float(example.size[0]), float(example.size[1]))] = set()
    feats = torch.zeros(len(words_of), len(column) + 1)
    for row, words in zip(feats, words_of.values(), strict=True):
        row[sorted(words) or [len(column)]] = 1
    return Regions.of(
        feats,
        torch.tensor([box for _, box in words_of]),
        example.size,
        frame=torch.tensor([frame for frame, _ in words_of]),
        labels=feats.argmax(1, keepdim=True),
        scores=torch.ones(len(words_of), 1),
    )


# ---------------------------------------------------------------- biased


def biased_fingerprint(head: nn.Sequential, origin: Fingerprint, classes: Classes) -> Fingerprint:
    """The weights count by their hash: another training split is another detector."""
    seen = sha256(b"".join(weight.numpy().tobytes() for weight in head.state_dict().values()))
    labels = (*classes.names, "background")
    return Fingerprint("biased", "1", HIDDEN, {"boxes of": to_json(origin)}, {"head": seen.hexdigest()}, labels)


def train_biased(examples: Dataset, store: Store, classes: Classes) -> nn.Sequential:
    """A classifier (..., D) -> (..., classes + 1) of regions; the last class is the background.

    Objects and background weigh the same, however much of an image is the latter. The same examples and regions give
    the same weights.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = nn.Linear(store.layout.dim, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, len(classes.names) + 1)
        order = [i for _ in range(EPOCHS) for i in torch.randperm(len(examples)).tolist()]
    head, labelled = nn.Sequential(*layers), label(examples, classes)
    optimizer = torch.optim.Adam(head.parameters(), RATE)
    starts = range(0, len(order), BATCH)
    for start in track(starts, "training the biased detector", len(starts)):
        chosen = [labelled[i] for i in order[start : start + BATCH]]
        regions = store.batch([example.id for example in chosen])
        target = torch.stack([targets(e, regions[b : b + 1], classes) for b, e in enumerate(chosen)])
        logp = head(regions.feats).log_softmax(-1).gather(-1, target[..., None]).squeeze(-1)
        nothing = target == len(classes.names)
        loss = -mean_over(logp, regions.valid & nothing) - mean_over(logp, regions.valid & ~nothing)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return head.requires_grad_(False)


def targets(example: Example, regions: Regions, classes: Classes) -> Tensor:
    """(R,): the class of the drawn box that a region overlaps most, with an IoU above 0.5; else the background."""
    column = {name: i for i, name in enumerate(classes.names)}
    best = torch.full(regions.valid.shape[1:], 0.5)
    found = torch.full(best.shape, len(column))
    scale = regions.scale(0, example.size).float()
    for phrase in example.gold:
        if phrase.label and phrase.boxes:
            overlap = iou(regions.boxes[0], torch.tensor(phrase.boxes) * scale)  # (R, boxes)
            if phrase.frames:
                overlap = overlap * (regions.frame[0][:, None] == torch.tensor(phrase.frames))
            most = overlap.amax(1)
            found[most > best] = column[phrase.label]
            best = torch.maximum(best, most)
    return found


def seen_through(head: nn.Sequential, regions: Regions) -> Regions:
    """The same boxes, with the hidden layer of the classifier as features and its likeliest class as label."""
    hidden = head[1](head[0](regions.feats))
    score, found = head[2](hidden).softmax(-1).max(-1, keepdim=True)
    return replace(regions, feats=hidden, labels=found, scores=score, whole=None, grid=None)
