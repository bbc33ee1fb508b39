"""Wang et al., Improving Weakly Supervised Visual Grounding by Contrastive Knowledge Distillation, CVPR 2021: table 4.

A phrase with several boxes is found where its box is one of them (any), or the box around them all (union). The paper
does not say which it counts: its number stands beside both. `bound` is what the proposals allow.
"""

from __future__ import annotations

from groundling.papers.tables import Job, Row, Table

COLUMNS = {
    "any": "recall@1 any",
    "union": "recall@1 union",
    "R@5 any": "recall@5 any",
    "R@5 union": "recall@5 union",
    "pointing": "pointing any",
    "bound any": "upper_bound any",
    "bound union": "upper_bound union",
}
GROUNDER = Job("grounder", "two_branch")


def row(label: str, job: str, accuracy: float) -> Row:
    return Row(label, job, {"any": accuracy, "union": accuracy})


TABLES = {
    "nce-distill-table-4": Table(
        "nce-distill-table-4",
        "Phrase grounding, Table 4: accuracy by what is learned from",
        "Flickr30k Entities test, ResNet-101 of COCO; the detector that is distilled is of Open Images",
        COLUMNS,
        (
            Job("grounder-margin", "two_branch", {"nce": 0.0, "distill": 0.0, "ranking": 1.0}),
            Job("grounder-nce", "two_branch", {"distill": 0.0}),
            Job("grounder-distill", "two_branch", {"nce": 0.0}),
            GROUNDER,
        ),
        (
            row("Max margin", "grounder-margin", 42.11),
            row("NCE", "grounder-nce", 48.35),
            row("Distill", "grounder-distill", 45.05),
            row("NCE + Distill", "grounder", 50.96),
        ),
    )
}
