"""Tables of Chen et al., Distributed Attention for Grounded Image Captioning, MM 2021.

All rows go on from one captioner that learned with one branch, and learn for the same number of epochs: the baseline
with that branch alone, the others with several branches or heads. The learning rate of each row begins anew.

Multi-head attention is as wide as the other, rounded up to a multiple of the heads. It begins with fresh weights; all
other weights, those of the attention to the feature map too, are those that were learned with one branch.

Every table shows how many boxes are right (Corr), only a part of the thing (Part) and elsewhere (Other). One of the
three alone misleads: the union of several regions makes Part smaller even where Corr does not grow.

For videos the paper prints two pairs of numbers: F1_all 5.32 and F1_loc 21.06 in section 4.2, 5.34 and 21.8 in section
4.6. The table has the first pair. The baseline of table 1 is the paper's row of GVD without supervision.
"""

from __future__ import annotations

from collections.abc import Mapping

from groundling.papers.tables import SCORES, SPICE, Job, Row, Table, Value

KINDS = {
    "Mis Cls": "mis_cls",
    "Hallu Cls": "hallu_cls",
    "Corr Grd": "corr_grd",
    "Part Grd": "part_grd",
    "Other Err": "other_err",
}
GROUNDED = {name: KINDS[name] for name in ("Corr Grd", "Part Grd", "Other Err")}  # together: each alone means little
HEADS = (2, 3, 4, 5, 6)
AS_LONG: dict[str, Value] = {"epochs": 20}  # of all branches, as `multi_branch` has them
JOBS = (
    Job("alone", "multi_branch", {"branches": 1, "epochs": 1}),
    *(Job(f"k{k}", "multi_branch", {"branches": k, "warmup_epochs": 0}, start="alone") for k in (1, 2, 3, 4, 5)),
    *(
        Job(f"k{k}-all", "multi_branch", {"branches": k, "warmup_epochs": 0, "eliminate": False}, start="alone")
        for k in (2, 3, 4, 5)
    ),
    *(
        job
        for name, without in (("map", "image_map"), ("vector", "image_vector"))
        for job in (
            Job(f"alone-no-{name}", "multi_branch", {"branches": 1, "epochs": 1, without: False}),
            *(
                Job(
                    f"k{k}-no-{name}",
                    "multi_branch",
                    {"branches": k, "warmup_epochs": 0, without: False},
                    start=f"alone-no-{name}",
                )
                for k in (1, 4)
            ),
        )
    ),
    *(Job(f"heads{n}", "multihead", {"heads": n}, start="alone", defaults=AS_LONG) for n in HEADS),
)
IMAGES = "Flickr30k Entities test, Faster R-CNN of Visual Genome"


def row(label: str, job: str, *numbers: float) -> Row:
    """A line of the paper: five kinds of errors, six scores, or F1_all and F1_loc alone; nothing where it is silent."""
    names = {5: tuple(KINDS), 6: tuple(SCORES), 2: ("F1_all", "F1_loc"), 0: ()}[len(numbers)]
    return Row(label, job, dict(zip(names, numbers, strict=True)))


def table(name: str, title: str, source: str, *rows: Row, columns: Mapping[str, str] = SCORES | GROUNDED) -> Table:
    note = SPICE if "M" in columns else ""
    return Table(f"distributed-{name}", f"Distributed attention, {title}", source, columns, JOBS, rows, note)


ALL = (
    table(
        "table-1",
        "Table 1: against its baseline",
        IMAGES,
        row("Baseline", "k1", 69.2, 26.9, 22.1, 60.1, 3.88, 11.70),
        row("Ours", "k4", 69.2, 27.2, 22.5, 62.5, 7.91, 21.54),
    ),
    table(
        "table-2",
        "Table 2: the number of branches",
        IMAGES,
        row("K = 2", "k2", 68.8, 26.5, 22.4, 60.9, 5.2, 15.90),
        row("K = 3", "k3", 69.3, 27.0, 22.4, 61.6, 6.78, 20.10),
        row("K = 4", "k4", 69.2, 27.2, 22.5, 62.5, 7.91, 21.54),
        row("K = 5", "k5", 68.9, 26.6, 22.4, 62.4, 7.62, 20.45),
    ),
    table(
        "table-3",
        "Table 3: without elimination of regions",
        IMAGES,
        row("K = 2", "k2-all", 68.9, 27.0, 22.4, 61.1, 5.48, 15.80),
        row("K = 3", "k3-all", 68.6, 27.1, 22.51, 61.85, 5.48, 16.14),
        row("K = 4", "k4-all", 68.9, 26.8, 22.4, 61.5, 6.82, 18.91),
        row("K = 5", "k5-all", 68.9, 26.8, 22.3, 61.4, 6.27, 17.36),
        row("K = 4, with elimination", "k4", 69.2, 27.2, 22.5, 62.5, 7.91, 21.54),
    ),
    table(
        "heads",
        "section 4.4: multi-head attention",
        IMAGES,
        *(row(f"{n} heads", f"heads{n}", *((4.75, 13.19) if n == 4 else ())) for n in HEADS),
        row("Ours", "k4", 69.2, 27.2, 22.5, 62.5, 7.91, 21.54),
    ),
    table(
        "table-4",
        "Table 4: what goes wrong",
        IMAGES,
        row("Baseline", "k1", 33.26, 44.92, 7.12, 7.94, 6.76),
        row("Ours", "k4", 32.76, 45.32, 10.92, 2.03, 8.97),
        columns=KINDS,
    ),
    table(
        "figure-2",
        "Figure 2: shapes of wrong boxes",
        IMAGES,
        Row("Baseline", "k1", {"Partial": 54.0, "Enlarged": 41.2, "Deviated": 4.8}),
        Row("Ours", "k4", {}),
        columns={"Partial": "partial", "Enlarged": "enlarged", "Deviated": "deviated"} | GROUNDED,
    ),
    table(
        "upper-bound",
        "section 4.5: if partial groundings were right",
        IMAGES,
        Row("Baseline", "k1", {"F1_all": 3.88, "F1_loc": 11.70, "F1_all, forgiven": 10.65, "F1_loc, forgiven": 30.28}),
        Row("Ours", "k4", {"F1_all": 7.91, "F1_loc": 21.54}),
        columns={name: score for name, score in SCORES.items() if name.startswith("F1")}
        | {"F1_all, forgiven": "f1_all upper bound", "F1_loc, forgiven": "f1_loc upper bound"}
        | GROUNDED,
    ),
    table(
        "image-map",
        "equation 4: with and without the feature map and the vector of the image",
        "",
        Row("K = 1", "k1", {}),
        Row("K = 1 without the map", "k1-no-map", {}),
        Row("K = 1 without the vector", "k1-no-vector", {}),
        Row("K = 4", "k4", {}),
        Row("K = 4 without the map", "k4-no-map", {}),
        Row("K = 4 without the vector", "k4-no-vector", {}),
    ),
    table(
        "videos",
        "section 4.2: videos",
        "ActivityNet Entities validation",
        row("Baseline", "k1", 3.70, 12.70),
        row("Ours", "k4", 5.32, 21.06),
    ),
)

TABLES = {table.name: table for table in ALL}
