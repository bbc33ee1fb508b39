"""Knobs that suit scenes: models that learn in a minute or two on one core."""

from __future__ import annotations

from groundling.tables import Value

SMALL: dict[str, Value] = {
    "hidden": 128,
    "embed": 128,
    "attention": 128,
    "dropout": 0.1,
    "lr": 3e-3,
    "decay_every": 6,
    "min_count": 2,
    "captions_per_image": 2,
    "epochs": 20,
    "contrastive.lr": 3e-4,
    "contrastive.epochs": 6,
    "introspective.lr": 3e-4,
    "introspective.epochs": 6,
    "gan.lr": 3e-4,
    "gan.epochs": 6,
}
