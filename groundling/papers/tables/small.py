"""Config that suit scenes: rows that learn in a minute or two on one core, of 1,600 images.

What goes on from a trained captioner is shorter than what begins with nothing; self-critical training is the slowest.
"""

from __future__ import annotations

from groundling.papers.tables import Value

MATCHER: dict[str, Value] = {"batch": 32, "lr": 1e-3, "decay_every": 12, "epochs": 16}
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
    **{
        f"{matcher}.{field}": value
        for matcher in ("matcher_scan", "matcher_pos_scan")
        for field, value in MATCHER.items()
    },
    "updown_aware.epochs": 12,
    "supervised_aware.epochs": 12,
    "cyclical.epochs": 12,
    "distill.epochs": 12,
    "multi_branch.warmup_epochs": 12,
    "multi_branch.epochs": 16,
    "multi_branch.batch": 32,
    "multihead.epochs": 16,
    "multihead.batch": 32,
    "two_branch.lr": 1e-3,
    "two_branch.stairs": 20,
    "scst.lr": 2e-4,
    "scst.epochs": 12,
    "scst.samples": 10,
    "scst.batch": 32,
    "scst.lam2": 5.0,
    "groundling.warmup_epochs": 12,
    "groundling.epochs": 4,
    "groundling.contrast": 6,
    "groundling.contrast_lr": 3e-4,
    "groundling.scst_epochs": 4,
    "groundling.scst_lr": 2e-4,
    "contrastive.lr": 3e-4,
    "contrastive.epochs": 6,
    "introspective.lr": 3e-4,
    "introspective.epochs": 6,
    "gan.lr": 3e-4,
    "gan.epochs": 6,
}
