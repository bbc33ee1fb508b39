"""Config that suits scenes: rows that learn in half a minute or a minute on one core, of 1,200 images.

What goes on from a trained captioner is shorter than what begins with nothing; self-critical training is the slowest.
"""

from __future__ import annotations

from groundling.papers.tables import Value

MATCHER: dict[str, Value] = {"lr": 1e-3, "decay_every": 9, "epochs": 12}
SMALL: dict[str, Value] = {
    "hidden": 128,
    "embed": 128,
    "attention": 128,
    "dropout": 0.1,
    "lr": 3e-3,
    "decay_every": 4,
    "min_count": 2,
    "captions_per_image": 2,
    "epochs": 12,
    "batch": 32,
    **{
        f"{matcher}.{field}": value
        for matcher in ("matcher_scan", "matcher_pos_scan")
        for field, value in MATCHER.items()
    },
    "updown_aware.epochs": 8,
    "supervised_aware.epochs": 8,
    "cyclical.epochs": 8,
    "distill.epochs": 8,
    "multi_branch.warmup_epochs": 10,
    "multi_branch.epochs": 6,
    "multihead.epochs": 6,
    "two_branch.lr": 1e-3,
    "two_branch.stairs": 20,
    "scst.lr": 4e-4,
    "scst.epochs": 5,
    "scst.samples": 5,
    "scst.lam2": 5.0,
    "groundling.warmup_epochs": 12,
    "groundling.epochs": 4,
    "groundling.contrast": 6,
    "groundling.contrast_lr": 3e-4,
    "groundling.scst_epochs": 4,
    "groundling.scst_lr": 2e-4,
    "contrastive.lr": 3e-4,
    "contrastive.epochs": 4,
    "introspective.lr": 3e-4,
    "introspective.epochs": 4,
    "gan.lr": 3e-4,
    "gan.epochs": 4,
}
