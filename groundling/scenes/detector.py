"""The classifier of regions of drawn scenes: a small network that was trained on other scenes, as a detector of photos
is trained on other photos.

    z = [W₂ [W₁ (x − μ) / σ + b₁]₊ + b₂]₊      the hidden layer; classes are separated by a linear layer
    p = softmax(W₃ z + b₃)                      the class; the last one is the background

x: numbers that describe a region's pixels.  `tools/train_scene_detector.py` makes the weights. R regions · L labels.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import safetensors.torch
import torch
from numpy.typing import NDArray
from torch import Tensor

from groundling.regions.sources._files import Pinned
from groundling.regions.sources._pooling import likeliest

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

PEOPLE = ("man", "woman", "boy", "girl")
NAMES = (  # the classes that it is trained on; after them comes the background
    *PEOPLE,
    *("dog", "cat", "horse", "cow", "sheep", "elephant", "rabbit", "bird", "duck", "fish"),
    *("car", "bus", "truck", "train", "tractor", "bicycle", "motorcycle", "boat", "plane", "skateboard", "sled"),
    *("shirt", "dress", "pants", "shorts", "hat", "helmet", "scarf"),
    *("balloon", "umbrella", "kite", "flag", "book", "flower", "camera", "bucket", "cup", "guitar", "ball"),
    *("tree", "bench", "chair", "table", "fence", "rock", "box", "house", "tent", "lamp", "snowman", "castle", "sign"),
    "water",
)
LABELS = (*NAMES, "person")  # its output: a region is as likely a person as a man, a woman, a boy or a girl
LIKELIEST = 5  # labels of a region
HIDDEN = 128  # size of z
WEIGHTS = Pinned(
    "groundling",
    "scenes/scene_head.safetensors",
    "e5e4034f33767699f03509d77ec135722087815c9ef7411564fea41d1fe52b70",
)


@cache
def weights() -> dict[str, Tensor]:
    """mean, deviation, w1, b1, w2, b2, w3, b3, and center and spread of z, in float32."""
    return {name: value.float() for name, value in safetensors.torch.load(WEIGHTS.read()).items()}


def classify(x: NDArray[np.float64]) -> tuple[Floats, Floats]:
    """(R, D) -> z (R, HIDDEN), of mean 0 and deviation 1 over all scenes, and p (R, C) without the background."""
    w = weights()
    hidden = torch.relu(((torch.from_numpy(x).float() - w["mean"]) / w["deviation"]) @ w["w1"].T + w["b1"])
    z = torch.relu(hidden @ w["w2"].T + w["b2"])
    p = (z @ w["w3"].T + w["b3"]).softmax(1)[:, :-1]
    return ((z - w["center"]) / w["spread"]).numpy(), p.numpy()


def likeliest_labels(p: Floats) -> tuple[Ints, Floats]:
    """The likeliest of LABELS with their probabilities, (R, L) each. Of equal ones the more special comes first."""
    person = p[:, : len(PEOPLE)].max(1, keepdims=True)
    return likeliest(np.concatenate([p, person], 1), LIKELIEST)
