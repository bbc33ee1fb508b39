"""Tables of Dai and Lin, Contrastive Learning for Image Captioning, NeurIPS 2017.

The captioners "nt" and "aa" learn by cross-entropy, and keep the weights with the best CIDEr-D on held-out images. All
learning methods go on from these, and their last weights are scored: some of them lower CIDEr-D, so that the weights
with the best CIDEr-D would be those that had learned the least.

All tables here have self-retrieval, which the paper has in table 1 alone: how many captions find their own image among
the first k of a gallery. The gallery is the first 5,000 images, where the paper draws as many, or with `--small` the
first 300; among fewer it is easier. Table 2 is of COCO's server, to which captions are submitted (`groundling caption
--coco`). The paper keeps only letters of captions, at most 18 words of each, and 2,000 images for validation. A JSON
file of these rules, named as --data, does the same to any data set (docs/data.md).
"""

from __future__ import annotations

from collections.abc import Mapping

from groundling.papers.tables import Job, Row, Table, Value

COLUMNS = {
    "B-1": "BLEU-1",
    "B-2": "BLEU-2",
    "B-3": "BLEU-3",
    "B-4": "BLEU-4",
    "METEOR": "METEOR",
    "ROUGE_L": "ROUGE-L",
    "CIDEr": "CIDEr-D",
}
RETRIEVAL = {f"R@{k}": f"R@{k}" for k in (1, 5, 10)}
LAST: dict[str, Value] = {"keep_last": True}  # one rule for all that is learned after cross-entropy
ONE: dict[str, Value] = {"captions_per_image": 1}  # a post has one
JOBS = (
    Job("nt", "neuraltalk"),
    Job("aa", "adaptive"),
    Job("aa-il", "introspective", LAST, start="aa"),
    Job("aa-gan", "gan", LAST, start="aa"),
    Job("aa-cl-p", "contrastive", {"negative": 0.0, **LAST}, start="aa"),
    Job("aa-cl-n", "contrastive", {"positive": 0.0, **LAST}, start="aa"),
    Job("aa-cl", "contrastive", LAST, start="aa"),
    Job("aa-cl-cl", "contrastive", LAST, start="aa-cl"),
    Job("nt-cl", "contrastive", LAST, start="nt"),
    Job("nt-cl-aa", "contrastive", {"reference": "@aa", **LAST}, start="nt"),
    Job("aa-posts", "adaptive", ONE),
    Job("aa-posts-cl", "contrastive", {**ONE, **LAST}, start="aa-posts"),
)
TABLE_1 = {f"R@{k}": f"R@{k}" for k in (1, 5, 50, 500)} | {"ROUGE_L": "ROUGE-L", "CIDEr": "CIDEr-D"}
VALIDATION = "MSCOCO, 2,000 images for validation"


def row(label: str, job: str, *numbers: float, columns: Mapping[str, str] = COLUMNS) -> Row:
    """A line of the paper, in the order of the columns, in per cent."""
    return Row(label, job, dict(zip(columns, numbers, strict=True)))


def table(
    name: str, title: str, *rows: Row, source: str = VALIDATION, columns: Mapping[str, str] = COLUMNS | RETRIEVAL
) -> Table:
    return Table(f"contrastive-{name}", f"Contrastive learning, {title}", source, columns, JOBS, rows)


ALL = (
    table(
        "table-1",
        "Table 1: self-retrieval",
        row("Neuraltalk2", "nt", 0.02, 0.32, 3.02, 27.50, 65.2, 82.7, columns=TABLE_1),
        row("AdaptiveAttention", "aa", 0.10, 0.96, 11.76, 78.46, 68.9, 100.4, columns=TABLE_1),
        row("AdaptiveAttention + CL", "aa-cl", 0.32, 1.18, 11.84, 80.96, 69.5, 102.9, columns=TABLE_1),
        source="MSCOCO test, self-retrieval among 5,000 images",
        columns=TABLE_1,
    ),
    table(
        "table-3",
        "Table 3: posts of people, one caption each, with emoji",
        row("AdaptiveAttention", "aa-posts", 6.5, 2.6, 1.1, 0.5, 2.9, 9.3, 12.6),
        row("AdaptiveAttention + CL", "aa-posts-cl", 7.2, 2.8, 1.3, 0.6, 3.2, 10.1, 14.4),
        source="InstaPIC-1.1M test, 5,000 images",
    ),
    table(
        "table-4",
        "Table 4: learning methods",
        row("AdaptiveAttention (Base)", "aa", 73.3, 57.2, 43.3, 32.7, 26.0, 54.0, 104.2),
        row("Base + IL", "aa-il", 70.6, 54.4, 40.8, 30.7, 25.3, 53.0, 100.4),
        row("Base + GAN", "aa-gan", 62.9, 43.7, 29.0, 19.0, 21.2, 45.8, 70.0),
        row("Base + CL(P)", "aa-cl-p", 73.5, 57.3, 43.7, 33.4, 26.2, 54.5, 105.9),
        row("Base + CL(N)", "aa-cl-n", 53.9, 41.1, 29.9, 21.2, 24.6, 47.9, 60.3),
        row("Base + CL(Full)", "aa-cl", 75.5, 59.8, 46.0, 35.3, 27.1, 55.9, 114.2),
    ),
    table(
        "table-5",
        "Table 5: targets and references",
        row("NT", "nt", 69.7, 52.5, 38.9, 29.1, 23.8, 51.6, 88.2),
        row("NT, reference NT", "nt-cl", 70.8, 53.6, 39.9, 30.0, 24.2, 52.4, 90.5),
        row("NT, reference AA", "nt-cl-aa", 71.6, 54.7, 41.1, 31.1, 24.9, 53.3, 95.6),
        row("AA", "aa", 73.3, 57.2, 43.3, 32.7, 26.0, 54.0, 104.2),
        row("AA, reference AA", "aa-cl", 75.5, 59.8, 46.0, 35.3, 27.1, 55.9, 114.2),
    ),
    table(
        "table-6",
        "Table 6: the reference replaced",
        row("run 0 (MLE)", "aa", 73.3, 57.2, 43.3, 32.7, 26.0, 54.0, 104.2),
        row("run 1", "aa-cl", 75.5, 59.8, 46.0, 35.3, 27.1, 55.9, 114.2),
        row("run 2", "aa-cl-cl", 75.6, 59.8, 46.0, 35.3, 27.2, 55.9, 114.2),
    ),
)
TABLES = {one.name: one for one in ALL}
