"""What helps when the papers are combined: the ablation that leads to the recipe `groundling`. Of no paper.

All rows but the last go on from one decoder, `updown_aware`; `--set epochs=N` makes them learn equally long. What
attention learns at nouns is KL(guide ‖ attention); the guides, a matcher and a phrase grounder, have learned
from captions alone. The last row is the recipe itself, from nothing, with stages of its own.
"""

from __future__ import annotations

from groundling.papers.tables import Job, Row, Table, cyclical, nce_distill, pos_scan

COLUMNS = {
    "BLEU-4": "BLEU-4",
    "METEOR": "METEOR",
    "CIDEr-D": "CIDEr-D",
    "attention": "attention",
    "F1_all": "f1_all",
    "F1_loc": "f1_loc",
    "F1_all/sent": "f1_per_sent_all",
    "F1_loc/sent": "f1_per_sent_loc",
}
JOBS = (
    *(job for job in pos_scan.MATCHERS if job.name == "pos-scan"),
    nce_distill.GROUNDER,
    *(job for job in cyclical.IMAGES if job.name in ("decoder", "baseline", "cyclical", "supervised-aware")),
    Job("aware-pos-scan", "distill", {"guide": "@pos-scan"}, start="decoder"),
    Job("aware-grounder", "distill", {"guide": "@grounder"}, start="decoder"),
    Job("cyclical-grounder", "distill", {"guide": "@grounder"}, start="cyclical"),
    Job("aware-k4", "multi_branch", {"branches": 4, "warmup_epochs": 0}, start="decoder"),
    Job(
        "aware-k4-grounder", "multi_branch", {"branches": 4, "warmup_epochs": 0, "guide": "@grounder"}, start="decoder"
    ),
    Job("aware-grounder-cider", "scst", start="aware-grounder"),
    Job("aware-grounder-reward", "scst", {"reward_model": "@grounder", "lam2": 0.1}, start="aware-grounder"),
    Job("aware-grounder-contrast", "contrastive", {"guide": "@grounder"}, start="aware-grounder"),
    Job("groundling", "groundling", {"guide": "@grounder"}),
)
TABLES = {
    "combine": Table(
        "combine",
        "The papers combined: what leads to the recipe `groundling`",
        "",
        COLUMNS,
        JOBS,
        (
            Row("Up-Down, grounding-aware", "baseline", {}),
            Row("+ KL(POS-SCAN)", "aware-pos-scan", {}),
            Row("+ KL(grounder)", "aware-grounder", {}),
            Row("cyclical", "cyclical", {}),
            Row("cyclical, then KL(grounder)", "cyclical-grounder", {}),
            Row("distributed, K = 4", "aware-k4", {}),
            Row("distributed, K = 4, + KL(grounder)", "aware-k4-grounder", {}),
            Row("ground truth", "supervised-aware", {}),
            Row("+ KL(grounder), then SCST by CIDEr", "aware-grounder-cider", {}),
            Row("+ KL(grounder), then SCST by CIDEr + grounder", "aware-grounder-reward", {}),
            Row("+ KL(grounder), then contrastive + KL(grounder)", "aware-grounder-contrast", {}),
            Row("the recipe groundling", "groundling", {}),
        ),
    )
}
