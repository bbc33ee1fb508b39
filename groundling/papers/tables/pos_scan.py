"""Tables of Zhou et al., More Grounded Image Captioning by Distilling Image-Text Matching Model, CVPR 2020.

Figure 3, the weight of the guide, is a picture without numbers: the numbers beside its rows λ1 = 0 and 0.1 are those
of the same captioners in tables 1 and 2. Its steps are those of the authors' scripts, without their 0.02. Of tables 3
and 4 only the authors' own rows are here. The numbers of the first row of table 3 are as Chen et al., MM 2021, quote
them in their table 1. λ1 is 0.1, but 1 in table 4, as its caption says.

The rows are as released: scheduled sampling up to 0.25; POS-SCAN in which nouns alone share the attention; NLL of the
one region that fits best. Three tables compare what is released with what is printed: `pos-scan-divergence`
KL(guide ‖ captioner) of the code with KL(captioner ‖ guide) of eq. 15, `pos-scan-supervision` the forms of eq. 16,
`pos-scan-matchers` those of eq. 4.
"""

from __future__ import annotations

from collections.abc import Mapping

from groundling.papers.tables import SPICE, Job, Row, Table, Value

DETECTOR = "with the regions of a Faster R-CNN trained on Visual Genome"
SOURCE = f"Flickr30k Entities (val) {DETECTOR}"

MATCHERS = (Job("scan", "matcher_scan"), Job("pos-scan", "matcher_pos_scan"))
AS_RELEASED = {"sampling": 0.25}  # scheduled sampling, in every row of the authors' code
PRETRAINED = (
    Job("supervised", "supervised", AS_RELEASED),
    Job("plain", "updown", AS_RELEASED),
    Job("kl-scan", "pos_scan", {"guide": "@scan", **AS_RELEASED}),
    Job("kl-pos-scan", "pos_scan", {"guide": "@pos-scan", **AS_RELEASED}),
)
REWARDS = {"CIDEr": {}, "CIDEr + SCAN": {"reward_model": "@scan"}, "CIDEr + POS-SCAN": {"reward_model": "@pos-scan"}}
ENDS = {"CIDEr": "cider", "CIDEr + SCAN": "reward-scan", "CIDEr + POS-SCAN": "reward-pos-scan"}
FINISHED = tuple(
    Job(f"{job.name}-{ENDS[reward]}", "scst", config, start=job.name)
    for job in PRETRAINED
    for reward, config in REWARDS.items()
)

GUIDED: dict[str, Value] = {"guide": "@pos-scan", **AS_RELEASED}
WEIGHTS = (0.05, 0.2, 0.5, 1.0)  # λ1, besides 0 and 0.1
SWEPT = tuple(Job(f"kl-pos-scan-{weight:g}", "pos_scan", {**GUIDED, "lam1": weight}) for weight in WEIGHTS)
OTHER_FEATURES = Job("kl-pos-scan-0.2-reward-scan", "scst", REWARDS["CIDEr + SCAN"], start="kl-pos-scan-0.2")
PRINTED = Job("kl-printed", "pos_scan", {**GUIDED, "lam1": 0.0, "lam1_reverse": 0.1})
FORMS = (
    Job("supervised-kl", "supervised", {"nll": 0.0, "kl": 0.1, **AS_RELEASED}),
    Job("supervised-ce", "supervised", {"nll": 0.0, "ce": 0.1, **AS_RELEASED}),
    Job("supervised-nll-any", "supervised", {"nll": 0.0, "nll_any": 0.1, **AS_RELEASED}),
    Job("supervised-kl-any", "supervised", {"nll": 0.0, "kl_any": 0.1, **AS_RELEASED}),
    Job("supervised-any-box", "supervised", {"merge_boxes": False, **AS_RELEASED}),
)
EQUATION_4 = Job("pos-scan-printed", "matcher_pos_scan", {"nouns_only": False})  # all words share the attention

LARGER: dict[str, Value] = {"hidden": 1024}
SCAN_OF_COCO: dict[str, Value] = {"lr": 5e-4, "epochs": 100, "decay_every": 50}  # 20 epochs of five captions, and 10
OF_COCO = {
    "updown": LARGER,
    "pos_scan": {**LARGER, "lam1": 1.0},
    "matcher_scan": SCAN_OF_COCO,
    "matcher_pos_scan": SCAN_OF_COCO,
}


def for_coco(job: Job) -> Job:
    """The same job in the sizes and schedules of COCO, unless others are set, under a name of its own."""
    config = {k: f"@coco-{v[1:]}" if isinstance(v, str) and v.startswith("@") else v for k, v in job.config.items()}
    start = f"coco-{job.start}" if job.start else ""
    return Job(f"coco-{job.name}", job.recipe, config, start, OF_COCO.get(job.recipe, {}))


COCO = tuple(for_coco(job) for job in (*MATCHERS, *PRETRAINED, *FINISHED))

ATTENTION = {"attention": "attention"}
COLUMNS = {
    "BLEU-1": "BLEU-1",
    "BLEU-4": "BLEU-4",
    "METEOR": "METEOR",
    "CIDEr-D": "CIDEr-D",
    "F1_all": "f1_all",
    "F1_loc": "f1_loc",
}
TEXTS = {name: COLUMNS[name] for name in ("BLEU-1", "BLEU-4", "METEOR", "CIDEr-D")}
FINAL = dict(zip(COLUMNS, (73.4, 30.1, 22.6, 69.3, 7.17, 17.49), strict=True))
OF_GVD = dict(zip(COLUMNS, (71.4, 28.0, 22.6, 66.2, 6.53, 15.79), strict=True))  # with the features of GVD
PAPER = {  # first row: cross-entropy; then SCST by each of the rewards
    "ground truth": (
        (70.1, 27.4, 21.8, 58.9, 8.33, 23.09),
        (73.4, 29.6, 22.4, 67.5, 7.53, 18.40),
        (72.3, 28.5, 22.6, 67.0, 8.35, 20.75),
        (72.3, 27.6, 22.4, 64.4, 8.01, 19.48),
    ),
    "no guide": (
        (69.6, 26.9, 21.6, 57.1, 5.11, 14.67),
        (73.1, 29.1, 22.2, 67.1, 4.19, 10.71),
        (73.1, 28.8, 22.3, 67.5, 4.59, 12.81),
        (72.1, 27.7, 22.5, 64.9, 5.37, 13.88),
    ),
    "SCAN": (
        (70.0, 27.7, 22.0, 58.8, 4.49, 13.49),
        (73.2, 29.3, 22.5, 67.4, 4.72, 13.47),
        (73.2, 28.6, 22.4, 67.8, 4.77, 12.25),
        (73.3, 28.4, 22.5, 67.5, 5.34, 14.79),
    ),
    "POS-SCAN": (
        (70.4, 27.5, 21.8, 58.0, 6.47, 17.96),
        (73.7, 29.9, 22.3, 67.5, 6.62, 16.97),
        (73.9, 29.4, 22.8, 68.2, 7.30, 18.44),
        (72.6, 28.0, 22.6, 64.3, 7.63, 18.33),
    ),
}


def _rows() -> tuple[Row, ...]:
    rows = []
    for job, (guide, printed) in zip(PRETRAINED, PAPER.items(), strict=True):
        ends = ["", *REWARDS]
        for end, numbers in zip(ends, printed, strict=True):
            label = f"{guide}; SCST by {end}" if end else f"{guide}; cross-entropy"
            name = f"{job.name}-{ENDS[end]}" if end else job.name
            rows.append(Row(label, name, dict(zip(COLUMNS, numbers, strict=True))))
    return tuple(rows)


PLAIN = {**dict(zip(COLUMNS, PAPER["no guide"][0], strict=True)), "attention": 19.83}
FOLLOWS = {**dict(zip(COLUMNS, PAPER["POS-SCAN"][0], strict=True)), "attention": 29.39}
TOLD = {**dict(zip(COLUMNS, PAPER["ground truth"][0], strict=True)), "attention": 37.17}


def table(
    name: str, title: str, columns: Mapping[str, str], *rows: Row, source: str = SOURCE, note: str = "", beam: int = 1
) -> Table:
    jobs = (*MATCHERS, EQUATION_4, *PRETRAINED, *FINISHED, *SWEPT, OTHER_FEATURES, PRINTED, *FORMS, *COCO)
    note = f"{note} {SPICE}".strip() if "METEOR" in columns else note
    plain = next((name for name in ("plain", "coco-plain") if name in {row.job for row in rows}), "")
    return Table(f"pos-scan-{name}", f"POS-SCAN, {title}", source, columns, jobs, rows, note, beam, plain)


def texts(label: str, job: str, *numbers: float) -> Row:
    """A line of Table 4, which has no boxes to score attention by."""
    return Row(label, job, dict(zip(TEXTS, numbers, strict=True)))


ALL = (
    table(
        "table-1",
        "Table 1: attention of matchers and captioners on reference captions",
        ATTENTION,
        Row("SCAN", "scan", {"attention": 17.63}),
        Row("Up-Down", "plain", {"attention": 19.83}),
        Row("POS-SCAN", "pos-scan", {"attention": 28.58}),
        Row("Up-Down + 0.1 NLL(ground truth)", "supervised", {"attention": 37.17}),
        Row("Up-Down + 0.1 KL(POS-SCAN)", "kl-pos-scan", {"attention": 29.39}),
        Row("Up-Down + 0.1 KL(SCAN)", "kl-scan", {}),
    ),
    table(
        "table-2",
        "Table 2: whose attention is followed, and what SCST rewards",
        COLUMNS,
        *_rows(),
    ),
    table(
        "table-3",
        "Table 3: its final models",
        COLUMNS,
        Row("POS-SCAN, λ1 = 0.2; SCST by CIDEr + SCAN", OTHER_FEATURES.name, OF_GVD),
        Row("POS-SCAN; SCST by CIDEr + SCAN", "kl-pos-scan-reward-scan", FINAL),
        source=f"Flickr30k Entities (test) {DETECTOR}; λ1 = 0.2 with those of Zhou et al., CVPR 2019",
        note="In the paper each row has regions of its own. Run row 1 with those of Zhou et al., CVPR 2019, 100 of an "
        "image (--rows 1 --set regions_per_image=100), and row 2 with the others, in another --out.",
    ),
    table(
        "table-4",
        "Table 4: COCO",
        TEXTS,
        texts("no guide; cross-entropy", "coco-plain", 76.2, 36.4, 27.7, 113.1),
        texts("no guide; SCST by CIDEr", "coco-plain-cider", 80.0, 37.8, 28.1, 125.2),
        texts("POS-SCAN; cross-entropy", "coco-kl-pos-scan", 76.6, 36.5, 27.9, 114.9),
        texts("POS-SCAN; SCST by CIDEr", "coco-kl-pos-scan-cider", 80.1, 37.8, 28.3, 125.9),
        texts("POS-SCAN; SCST by CIDEr + SCAN", "coco-kl-pos-scan-reward-scan", 80.2, 38.0, 28.5, 126.1),
        source=f"MS-COCO (Karpathy's test) {DETECTOR}, beam of 3",
        beam=3,
    ),
    table(
        "figure-3",
        "Figure 3: the weight of the guide",
        COLUMNS | ATTENTION,
        Row("λ1 = 0", "plain", PLAIN),
        Row("λ1 = 0.05", "kl-pos-scan-0.05", {}),
        Row("λ1 = 0.1", "kl-pos-scan", FOLLOWS),
        *(Row(f"λ1 = {weight:g}", f"kl-pos-scan-{weight:g}", {}) for weight in WEIGHTS[1:]),
    ),
    table(
        "divergence",
        "equation 15: both directions of the divergence from the guide",
        COLUMNS | ATTENTION,
        Row("no guide", "plain", PLAIN),
        Row("0.1 KL(POS-SCAN ‖ captioner)", "kl-pos-scan", FOLLOWS),
        Row("0.1 KL(captioner ‖ POS-SCAN)", "kl-printed", {}),
    ),
    table(
        "supervision",
        "equation 16: forms of the supervision by boxes",
        COLUMNS | ATTENTION,
        Row("no supervision", "plain", PLAIN),
        Row("0.1 NLL(ground truth), the best region", "supervised", TOLD),
        Row("0.1 KL(ground truth), softmax of IoU", "supervised-kl", {}),
        Row("0.1 cross-entropy(ground truth), eq. 16", "supervised-ce", {}),
        Row("0.1 NLL(ground truth), any true region", "supervised-nll-any", {}),
        Row("0.1 KL(ground truth), equal on true regions", "supervised-kl-any", {}),
        Row("0.1 NLL(ground truth), any box of a word", "supervised-any-box", {}),
    ),
    table(
        "matchers",
        "its matchers: what they retrieve, and where they look",
        {f"{way} R@{k}": f"{way} R@{k}" for way in ("i2t", "t2i") for k in (1, 5, 10)} | ATTENTION,
        Row("SCAN", "scan", {"attention": 17.63}),
        Row("POS-SCAN", "pos-scan", {"attention": 28.58}),
        Row("POS-SCAN, eq. 4 as printed", "pos-scan-printed", {}),
    ),
)
TABLES = {one.name: one for one in ALL}
