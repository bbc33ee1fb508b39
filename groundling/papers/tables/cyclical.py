"""Tables of Ma et al., Learning to Generate Grounded Visual Captions without Localization Supervision, ECCV 2020.

All rows of a table, the baseline and the supervised captioner too, go on from one pre-trained decoder and learn for the
same number of epochs: they differ in the cycle, or in the boxes, alone. Each stage ends when CIDEr-D has stopped
rising, as in the paper, or after `--set epochs=N`.

Tables of the paper that are not here by their number: table 3 is a part of table 11. Table 8 is a part of
`cyclical-table-11-perfect`, table 9 of `cyclical-table-6`. Tables 13 and 14 give rows of tables 6 and 2 with deviations
(`--seeds`). Table 5 is a study with people (`groundling study --verbs`). Table 11 is meant for other stores:
`groundling regions truth` makes those of a perfect detector, `groundling regions biased` those of a biased one. These
have neither feature map nor image vector: all rows see regions alone, where the paper's keep both.

Videos: 100 regions of each of 10 frames, captions of 20 words, one caption of each segment, as in the authors' code; 96
segments in a batch, as in the paper. Import their features by `groundling regions import --sure 0.2`, the threshold of
their code. The norm of the gradient is clipped at 0.1, as there. The rate falls after 10 epochs without a better score;
theirs falls after 11, and never below 5e-6.
The paper contradicts itself on the cycle: F1_all 4.71 and scores by sentence 11.73 and 41.56 in table 2, 4.68, 12.60
and 44.04 in table 7, all else being equal. Each table here has its own.

The paper says that scores by sentence pool the captions of an image; the evaluator that was released with it compares
each by itself. Both are given, with the paper's number beside both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from groundling.papers.tables import SCORES, SPICE, Job, Row, Table, Value

COLUMNS = SCORES | {"F1_all/sent": "f1_pooled_all", "F1_loc/sent": "f1_pooled_loc"}
RELEASED = {"F1_all/sent, released": "f1_per_sent_all", "F1_loc/sent, released": "f1_per_sent_loc"}
LOOKED = {"attention": "attention", "localizer": "attention localizer"}  # section 4.4: 19.3 and 20.4
FREQUENCY = {f"F1_all, tenth {n}": f"f1_all frequency {n}" for n in range(1, 11)}
EPOCHS: dict[str, Value] = {"epochs": 45}  # as many as the cycle has
IMAGES = (
    Job("decoder", "updown_aware"),
    Job("baseline", "updown_aware", start="decoder", defaults=EPOCHS),
    Job("supervised-aware", "supervised_aware", start="decoder", defaults=EPOCHS),
    Job("cyclical", "cyclical", {"pretrain": 0}, start="decoder"),
    Job("zero-loss", "cyclical", {"pretrain": 0, "others_loss": 0.0}, start="decoder"),
    Job("zero-representation", "cyclical", {"pretrain": 0, "others_region": 0.0}, start="decoder"),
    Job("mlp", "cyclical", {"pretrain": 0, "layers": 2}, start="decoder"),
    Job("consistency", "cyclical", {"pretrain": 0, "consistency": 1.0}, start="decoder"),
    Job("hidden", "cyclical", {"pretrain": 0, "of_hidden": 1}, start="decoder"),
    Job("8-2", "cyclical", {"pretrain": 0, "lam1": 0.8, "lam2": 0.2}, start="decoder"),
    Job("6-4", "cyclical", {"pretrain": 0, "lam1": 0.6, "lam2": 0.4}, start="decoder"),
    Job("4-6", "cyclical", {"pretrain": 0, "lam1": 0.4, "lam2": 0.6}, start="decoder"),
    Job("2-8", "cyclical", {"pretrain": 0, "lam1": 0.2, "lam2": 0.8}, start="decoder"),
    Job("decoder-without", "updown_aware", {"image_map": False}),
    Job("baseline-without", "updown_aware", {"image_map": False}, start="decoder-without", defaults=EPOCHS),
    Job("cyclical-without", "cyclical", {"pretrain": 0, "image_map": False}, start="decoder-without"),
    Job("decoder-mean", "updown_aware", {"image_vector": False}),
    Job("baseline-mean", "updown_aware", {"image_vector": False}, start="decoder-mean", defaults=EPOCHS),
    Job("cyclical-mean", "cyclical", {"pretrain": 0, "image_vector": False}, start="decoder-mean"),
)
OF_VIDEOS: dict[str, Value] = {
    "length": 20,
    "batch": 96,
    "captions_per_image": 1,
    "plateau": 10,
    "clip": 0.1,
}
VIDEOS = tuple(
    replace(
        job,
        name=f"video-{job.name}",
        start=job.start and f"video-{job.start}",
        defaults={**job.defaults, **OF_VIDEOS},
    )
    for job in IMAGES
    if job.name in ("decoder", "baseline", "supervised-aware", "cyclical", "zero-representation")
)


def row(label: str, job: str, *numbers: float | None) -> Row:
    """A line of the paper, in the order of COLUMNS; None where it prints nothing."""
    printed = {name: x for name, x in zip(COLUMNS, numbers, strict=True) if x is not None}
    return Row(
        label, job, printed | {name + ", released": printed[name] for name in list(printed)[-2:] if "sent" in name}
    )


def table(name: str, title: str, source: str, *rows: Row, columns: Mapping[str, str] | None = None) -> Table:
    baseline = next(one.job for one in rows if one.job.removeprefix("video-") == "baseline")
    columns = columns or COLUMNS | RELEASED | LOOKED
    return Table(f"cyclical-{name}", title, source, columns, (*IMAGES, *VIDEOS), rows, SPICE, baseline=baseline)


ALL = (
    table(
        "table-1",
        "Cyclical training, Table 1: images",
        "Flickr30k Entities test, Faster R-CNN of Visual Genome, five runs",
        row("Baseline, supervised", "supervised-aware", 69.0, 26.8, 22.4, 61.1, 8.44, 22.78, 27.37, None),
        row("Baseline", "baseline", 69.1, 26.0, 22.1, 59.6, 4.08, 11.83, 13.20, 31.83),
        row("Cyclical", "6-4", 69.9, 27.4, 22.3, 61.4, 4.98, 13.53, 15.03, 35.54),
    ),
    table(
        "table-2",
        "Cyclical training, Table 2: videos",
        "ActivityNet-Entities val, Faster R-CNN of Visual Genome, five runs",
        row("Baseline, supervised", "video-supervised-aware", 23.1, 2.13, 10.7, 45.0, 7.30, 25.02, 17.88, 60.23),
        row("Baseline", "video-baseline", 23.2, 2.22, 10.8, 45.9, 3.75, 12.00, 9.41, 31.68),
        row("Cyclical", "video-cyclical", 23.7, 2.45, 11.1, 46.4, 4.71, 15.84, 11.73, 41.56),
    ),
    table(
        "table-4",
        "Cyclical training, Table 4: consistency of attention, localizer on h^A",
        "Flickr30k Entities val, Faster R-CNN of Visual Genome, one run",
        row("Baseline", "baseline", None, None, 22.3, 62.1, 4.18, 11.9, None, None),
        row("Cyclical", "cyclical", None, None, 22.2, 62.2, 5.63, 14.6, None, None),
        row("Attention consistency", "consistency", None, None, 22.3, 61.8, 4.19, 11.3, None, None),
        row("Localizer using h^A", "hidden", None, None, 22.2, 61.8, 4.58, 11.3, None, None),
    ),
    table(
        "table-6",
        "Cyclical training, Tables 6 and 9: words that are not visual, MLP localizer",
        "Flickr30k Entities test, Faster R-CNN of Visual Genome, five runs",
        row("Baseline", "baseline", 69.1, 26.0, 22.1, 59.6, 4.08, 11.83, 13.20, 31.83),
        row("Cyclical", "cyclical", 69.4, 27.4, 22.3, 61.4, 4.98, 13.53, 15.03, 35.54),
        row("Zero-loss", "zero-loss", 69.7, 27.0, 22.2, 60.1, 5.14, 14.32, 15.36, 36.33),
        row("Zero-representation", "zero-representation", 69.9, 27.5, 22.4, 62.0, 5.13, 13.99, 16.30, 38.45),
        row("MLP localizer", "mlp", 69.2, 26.4, 22.0, 58.7, 4.40, 12.77, 13.97, 33.40),
    ),
    table(
        "table-7",
        "Cyclical training, Table 7: words that are not visual, videos",
        "ActivityNet-Entities val, Faster R-CNN of Visual Genome, five runs",
        row("Baseline", "video-baseline", 23.2, 2.22, 10.8, 45.9, 3.75, 12.00, 9.41, 31.68),
        row("Cyclical", "video-cyclical", 23.7, 2.45, 11.1, 46.4, 4.68, 15.84, 12.60, 44.04),
        row("Zero-representation", "video-zero-representation", 23.9, 2.58, 11.2, 46.6, 4.48, 15.01, 11.53, 40.30),
    ),
    table(
        "table-10",
        "Cyclical training, Table 10: weights of the losses",
        "Flickr30k Entities val, Faster R-CNN of Visual Genome, five runs",
        row("Baseline", "baseline", 69.7, 26.7, 22.3, 61.1, 4.61, 13.11, 12.41, 30.61),
        row("(0.8, 0.2)", "8-2", 70.3, 27.9, 22.4, 62.2, 4.96, 13.95, 13.95, 33.49),
        row("(0.6, 0.4)", "6-4", 70.4, 28.0, 22.4, 62.7, 5.04, 13.92, 14.46, 34.95),
        row("(0.5, 0.5)", "cyclical", 70.2, 27.9, 22.5, 62.3, 4.93, 13.70, 14.28, 34.62),
        row("(0.4, 0.6)", "4-6", 69.8, 27.6, 22.5, 62.3, 4.97, 13.67, 14.97, 36.31),
        row("(0.2, 0.8)", "2-8", 69.5, 27.7, 22.3, 61.4, 5.07, 14.05, 15.41, 37.63),
    ),
    table(
        "table-11-perfect",
        "Cyclical training, Tables 3, 8 and 11: a perfect detector (`groundling regions truth`)",
        "Flickr30k Entities test, true boxes, three runs",
        row("Baseline, supervised", "supervised-aware", 75.6, 32.0, 25.3, 75.6, 23.19, 52.83, 51.43, 90.76),
        row("Baseline", "baseline", 75.1, 32.1, 25.2, 76.3, 20.82, 48.74, 43.21, 77.81),
        row("Cyclical", "cyclical", 76.7, 32.8, 25.8, 80.2, 25.27, 54.54, 46.98, 81.56),
        row("Zero-representation", "zero-representation", 75.8, 32.2, 25.6, 79.0, 25.65, 55.81, 48.99, 85.99),
    ),
    table(
        "table-11-biased",
        "Cyclical training, Tables 3 and 11: a detector biased to annotated words (`groundling regions biased`)",
        "Flickr30k Entities test, Faster R-CNN of Flickr30k, three runs",
        row("Baseline, supervised", "supervised-aware", 65.9, 23.4, 21.3, 53.3, 8.23, 23.95, 28.06, 66.96),
        row("Baseline", "baseline", 66.1, 23.5, 21.2, 52.4, 5.95, 17.51, 18.11, 42.84),
        row("Cyclical", "cyclical", 65.5, 23.3, 21.2, 52.0, 6.87, 19.65, 20.82, 50.25),
    ),
    table(
        "table-12",
        "Cyclical training, Table 12: videos, test split (--split test)",
        "ActivityNet-Entities test, Faster R-CNN of Visual Genome",
        row("Baseline, supervised", "video-supervised-aware", 23.1, 2.28, 10.8, 45.6, 7.66, 25.7, None, None),
        row("Baseline", "video-baseline", 23.2, 2.17, 10.8, 46.2, 3.60, 12.3, None, None),
        row("Cyclical", "video-cyclical", 23.4, 2.43, 10.8, 46.6, 4.70, 15.6, None, None),
    ),
    table(
        "figure-4",
        "Cyclical training, Figure 4: classes by how often training has them, the most frequent tenth first",
        "Flickr30k Entities val, Faster R-CNN of Visual Genome; a picture without numbers",
        Row("Baseline, supervised", "supervised-aware", {}),
        Row("Baseline", "baseline", {}),
        Row("Cyclical", "cyclical", {}),
        columns=FREQUENCY,
    ),
    table(
        "image-map",
        "Cyclical training, appendix D: with and without the feature map and the vector of the image",
        "",
        Row("Baseline", "baseline", {}),
        Row("Baseline without the map", "baseline-without", {}),
        Row("Baseline without the vector", "baseline-mean", {}),
        Row("Cyclical", "cyclical", {}),
        Row("Cyclical without the map", "cyclical-without", {}),
        Row("Cyclical without the vector", "cyclical-mean", {}),
    ),
)
TABLES = {found.name: found for found in ALL}
