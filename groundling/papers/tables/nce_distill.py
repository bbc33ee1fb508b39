"""Wang et al., Improving Weakly Supervised Visual Grounding by Contrastive Knowledge Distillation, CVPR 2021: table 4.

A phrase with several boxes is found where its box is one of them (any), or the box around them all (union). The paper
does not say which it counts: its number stands beside both. `bound` is what the proposals allow.
"""

from __future__ import annotations

from collections.abc import Mapping

from groundling.papers.tables import Job, Row, Table, Value

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
PAPER: dict[str, Value] = {  # but for the word vectors, which are a file of yours
    "hard": True,
    "contrast": 0.5,
    "tau": 0.5,
    "sharpness": 0.0,
    "stairs": 200,
    "distill": 3.0,
    "surroundings": 0.0,
    "worn": 0.0,
    "joint": 512,
    "hidden": 300,
    "layers": 2,
    "lr": 1e-4,
    "captions_per_image": 1,
}
LEARNED: dict[str, dict[str, Value]] = {  # rows of the table: what is learned from
    "margin": {"nce": 0.0, "distill": 0.0, "ranking": 1.0},
    "nce": {"distill": 0.0},
    "distill": {"nce": 0.0},
    "both": {},
}
GLOVE = "The paper's words are fixed GloVe vectors alone: --set embed=0 --set vectors=FILE --set vector_size=300."


def row(label: str, job: str, accuracy: float) -> Row:
    return Row(label, job, {"any": accuracy, "union": accuracy})


def accuracies(name: str, title: str, note: str, config: Mapping[str, Value], prefix: str) -> Table:
    names = {what: prefix if what == "both" else f"{prefix}-{what}" for what in LEARNED}
    jobs = {what: Job(names[what], "two_branch", {**config, **own}) for what, own in LEARNED.items()}
    labels = {"margin": "Max margin", "nce": "NCE", "distill": "Distill", "both": "NCE + Distill"}
    printed = {"margin": 42.11, "nce": 48.35, "distill": 45.05, "both": 50.96}
    rows = tuple(row(labels[what], job.name, printed[what]) for what, job in jobs.items())
    source = "Flickr30k Entities test, ResNet-101 of COCO; the detector that is distilled is of Open Images"
    return Table(name, f"Phrase grounding, {title}", source, COLUMNS, tuple(jobs.values()), rows, note)


ALL = (
    accuracies(
        "nce-distill-table-4",
        "Table 4: accuracy by what is learned from",
        GLOVE,
        PAPER,
        "grounder-paper",
    ),
    accuracies("nce-distill-ours", "the same rows in our setting of `two_branch`", "", {}, "grounder"),
)
TABLES = {table.name: table for table in ALL}
