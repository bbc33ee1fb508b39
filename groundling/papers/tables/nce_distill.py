"""Tables of Wang et al., Improving Weakly Supervised Visual Grounding by Contrastive Knowledge Distillation, CVPR 2021.

A phrase with several boxes is found where its box is one of them (any), or the box around them all (union). The paper
does not say which it counts: its number stands beside both. `bound` is what the proposals allow. As in the paper the
region with the greatest s is chosen; `ours` are the regions that most likely cover the thing, as `groundling ground`
chooses them.

Tables 1 and 2 print rows of table 5 again, beside other systems. Table 3 counts operations at test time: that is
`groundling ground --cost`. The rows of table 5 differ in their regions, which one backbone describes and one detector
labels: each pair is a table here, and is meant for a store of its own. The pair of table 4 is in that table.
"""

from __future__ import annotations

from collections.abc import Mapping

from groundling.papers.tables import Job, Row, Table, Value

COLUMNS = {
    "any": "recall@1 any argmax",
    "union": "recall@1 union argmax",
    "pointing": "pointing any argmax",
    "any, ours": "recall@1 any",
    "union, ours": "recall@1 union",
    "pointing, ours": "pointing any",
    "bound any": "upper_bound any",
    "bound union": "upper_bound union",
}
OURS: dict[str, Value] = {"stairs": 0}
GROUNDER = Job("grounder", "two_branch", OURS)
PAPER: dict[str, Value] = {  # but for the word vectors, which are a file of yours
    "hard": True,
    "contrast": 0.5,
    "tau": 0.5,
    "sharpness": 0.0,
    "distill": 3.0,
    "margin": 0.05,
    "surroundings": 0.0,
    "worn": 0.0,
    "joint": 512,
    "hidden": 300,
    "layers": 2,
    "captions_per_image": 1,
}
OF_VG: dict[str, Value] = {**PAPER, "distill": 1.0}  # b of λ, for the features of Visual Genome
SCHEDULE: dict[str, Value] = {"stairs": 200, "lr": 1e-4}  # of 30,000 images
LEARNED: dict[str, dict[str, Value]] = {  # rows of the table: what is learned from
    "margin": {"nce": 0.0, "distill": 0.0, "ranking": 1.0},
    "nce": {"distill": 0.0},
    "distill": {"nce": 0.0},
    "both": {},
}
GLOVE = "The paper's words are fixed GloVe vectors alone: --set embed=0 --set vectors=FILE --set vector_size=300."


def row(label: str, job: str, accuracy: float) -> Row:
    return Row(label, job, {"any": accuracy, "union": accuracy})


LABELS = {"margin": "Max margin", "nce": "NCE", "distill": "Distill", "both": "NCE + Distill"}
FLICKR = {"margin": 42.11, "nce": 48.35, "distill": 45.05, "both": 50.96}
REFERIT = {"margin": 22.94, "nce": 26.63, "distill": 17.25, "both": 27.59}
SOURCE = "ResNet-101 of COCO; the detector that is distilled is of Open Images"
VGG = "VGG16 of PASCAL VOC; the detector is of COCO"


def accuracies(
    name: str,
    title: str,
    note: str,
    config: Mapping[str, Value],
    prefix: str,
    printed: Mapping[str, float] = FLICKR,
    source: str = f"Flickr30k Entities test, {SOURCE}",
) -> Table:
    """A table with a row for each of the losses that have a printed number."""
    names = {what: prefix if what == "both" else f"{prefix}-{what}" for what in printed}
    defaults = {} if config is OURS else SCHEDULE
    jobs = {what: Job(names[what], "two_branch", {**config, **LEARNED[what]}, defaults=defaults) for what in printed}
    rows = tuple(row(LABELS[what], job.name, printed[what]) for what, job in jobs.items())
    return Table(name, f"Phrase grounding, {title}", source, COLUMNS, tuple(jobs.values()), rows, note)


ALL = (
    accuracies(
        "nce-distill-table-4",
        "Table 4: accuracy by what is learned from",
        GLOVE,
        PAPER,
        "grounder-paper",
    ),
    accuracies(
        "nce-distill-table-5",
        "Table 5: a backbone of Visual Genome",
        GLOVE,
        OF_VG,
        "grounder-vg",
        {"nce": 51.31, "both": 53.10},
        "Flickr30k Entities test, ResNet-101 of Visual Genome, 30 regions; the detector is of Open Images",
    ),
    accuracies(
        "nce-distill-table-5-vgg",
        "Tables 1 and 5: a backbone of PASCAL VOC",
        GLOVE,
        PAPER,
        "grounder-paper",
        {"nce": 35.96, "both": 40.38},
        f"Flickr30k Entities test, {VGG}",
    ),
    accuracies(
        "nce-distill-referit",
        "Tables 2, 4 and 5: ReferItGame",
        GLOVE,
        PAPER,
        "grounder-paper",
        REFERIT,
        f"ReferItGame test, {SOURCE}",
    ),
    accuracies(
        "nce-distill-referit-vg",
        "Tables 2 and 5: ReferItGame, a backbone of Visual Genome",
        GLOVE,
        OF_VG,
        "grounder-vg",
        {"nce": 36.65, "both": 38.39},
        "ReferItGame test, ResNet-101 of Visual Genome; the detector is of Open Images",
    ),
    accuracies(
        "nce-distill-referit-vgg",
        "Tables 2 and 5: ReferItGame, a backbone of PASCAL VOC",
        GLOVE,
        PAPER,
        "grounder-paper",
        {"nce": 23.56, "both": 24.52},
        f"ReferItGame test, {VGG}",
    ),
    accuracies(
        "nce-distill-no-detector",
        "section 3.3: regions and features that no detector has made (`--set detector=teacher`)",
        GLOVE,
        PAPER,
        "grounder-free",
    ),
    accuracies("nce-distill-ours", "the same rows in our setting of `two_branch`", "", OURS, "grounder"),
)
TABLES = {table.name: table for table in ALL}
