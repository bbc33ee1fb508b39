"""Config that suits scenes: rows that learn in one to three minutes on one core, of 1,200 images.

What goes on from a trained captioner is shorter than what begins with nothing; self-critical training is the slowest.
Captioners that learn by cross-entropy have 16 images in a batch, all rows of a table alike: with 32, and 16 or 17
epochs in all, 7 of 9 runs of `distributed-table-1` were best on val in their last epoch, by 0.1 to 0.4 of CIDEr-D, and
F1_loc of one row differed by up to 8 points between seeds. The rate of matchers falls after 15 epochs: where it fell
after 9, t2i R@1 of SCAN and POS-SCAN (val, seed 0) was 0.40 and 0.44 after 7 epochs, 0.59 and 0.53 after 9, 0.60 and
0.56 after 12.
"""

from __future__ import annotations

from groundling.papers.tables import Value

GALLERY = 300  # images among which captions look for their own; of 1,200 it took longer than the training
PLAIN = ("updown", "pos_scan", "supervised", "adaptive", "neuraltalk")
AWARE = ("updown_aware", "supervised_aware", "cyclical", "distill", "multi_branch", "multihead")
MATCHER: dict[str, Value] = {"lr": 1e-3, "decay_every": 15, "epochs": 20}
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
    **{f"{recipe}.batch": 16 for recipe in (*PLAIN, *AWARE)},
    **{f"{recipe}.epochs": 10 for recipe in AWARE},
    "multi_branch.warmup_epochs": 10,
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
