"""What the papers claim of their systems, each claim as a comparison of two rows of a table.

`groundling reproduce TABLE` tests the claims whose rows it has trained; `groundling reproduce --page FILE` tells all of
them, also those that nobody has run yet. A claim that two tables of a paper support is here twice, and counts once.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    paper: str
    text: str
    table: str
    job: str  # the row that is to be higher
    than: str  # the row that it is compared with
    score: str  # name of our score
    printed: tuple[float, float]  # the paper's numbers of both
    lower: bool = False  # the claim is that `job` is lower
    than_score: str = ""  # the score of the other row, where it is another one


def _of(paper: str, *claims: tuple[str, str, str, str, float, float]) -> tuple[Claim, ...]:
    """Claims as: claim, table, score, "row > other row" or "row < other row", the paper's numbers of the two."""
    found = []
    for text, table, score, rows, ours, theirs in claims:
        job, sign, than = rows.split()
        other, _, own = score.rpartition(" → ")
        found.append(Claim(paper, text, table, job, than, own, (ours, theirs), sign == "<", other))
    return tuple(found)


CLAIMS = (
    *_of(
        "Zhou et al., CVPR 2020",
        (
            "POS-SCAN looks at the right region more often than SCAN",
            "pos-scan-table-1",
            "attention",
            "pos-scan > scan",
            28.58,
            17.63,
        ),
        (
            "POS-SCAN looks at the right region more often than a captioner",
            "pos-scan-table-1",
            "attention",
            "pos-scan > plain",
            28.58,
            19.83,
        ),
        (
            "a captioner taught by POS-SCAN looks at the right region more often",
            "pos-scan-table-1",
            "attention",
            "kl-pos-scan > plain",
            29.39,
            19.83,
        ),
        (
            "a captioner taught by boxes does so more often than one taught by POS-SCAN",
            "pos-scan-table-1",
            "attention",
            "supervised > kl-pos-scan",
            37.17,
            29.39,
        ),
        (
            "captions of one taught by POS-SCAN are grounded better, in all words",
            "pos-scan-table-2",
            "f1_all",
            "kl-pos-scan > plain",
            6.47,
            5.11,
        ),
        (
            "captions of one taught by POS-SCAN are grounded better, in right words",
            "pos-scan-table-2",
            "f1_loc",
            "kl-pos-scan > plain",
            17.96,
            14.67,
        ),
        ("SCAN is a worse teacher than POS-SCAN", "pos-scan-table-2", "f1_loc", "kl-pos-scan > kl-scan", 17.96, 13.49),
        ("self-critical training raises CIDEr-D", "pos-scan-table-2", "CIDEr-D", "plain-cider > plain", 67.1, 57.1),
        (
            "self-critical training raises CIDEr-D",
            "pos-scan-table-4",
            "CIDEr-D",
            "coco-plain-cider > coco-plain",
            125.2,
            113.1,
        ),
        (
            "a captioner taught by POS-SCAN writes better captions, by cross-entropy",
            "pos-scan-table-4",
            "CIDEr-D",
            "coco-kl-pos-scan > coco-plain",
            114.9,
            113.1,
        ),
        (
            "taught by POS-SCAN and rewarded by SCAN, it writes better captions than by self-critical training alone",
            "pos-scan-table-4",
            "CIDEr-D",
            "coco-kl-pos-scan-reward-scan > coco-plain-cider",
            126.1,
            125.2,
        ),
        (
            "self-critical training by CIDEr alone harms grounding",
            "pos-scan-table-2",
            "f1_loc",
            "plain-cider < plain",
            10.71,
            14.67,
        ),
        (
            "the score of SCAN in the reward helps grounding",
            "pos-scan-table-2",
            "f1_loc",
            "plain-reward-scan > plain-cider",
            12.81,
            10.71,
        ),
    ),
    *_of(
        "Ma et al., ECCV 2020",
        (
            "cyclical training grounds captions better, in all words",
            "cyclical-table-6",
            "f1_all",
            "cyclical > baseline",
            4.98,
            4.08,
        ),
        (
            "cyclical training grounds captions better, in right words",
            "cyclical-table-6",
            "f1_loc",
            "cyclical > baseline",
            13.53,
            11.83,
        ),
        (
            "cyclical training grounds captions better, by sentence",
            "cyclical-table-6",
            "f1_pooled_all",
            "cyclical > baseline",
            15.03,
            13.2,
        ),
        (
            "cyclical training makes captions better",
            "cyclical-table-6",
            "CIDEr-D",
            "cyclical > baseline",
            61.4,
            59.6,
        ),
        (
            "the localizer finds words better than the attention that learns from it",
            "cyclical-table-6",
            "attention → attention localizer",
            "cyclical > cyclical",
            20.4,
            19.3,
        ),
        (
            "without regions for words that are not visual, captions are grounded better by sentence",
            "cyclical-table-6",
            "f1_pooled_loc",
            "zero-representation > cyclical",
            38.45,
            35.54,
        ),
        ("a localizer of several layers is worse", "cyclical-table-6", "f1_loc", "mlp < cyclical", 12.77, 13.53),
        (
            "attention that is drawn to the localized regions is worse than reconstruction",
            "cyclical-table-4",
            "f1_loc",
            "consistency < cyclical",
            11.3,
            14.6,
        ),
        (
            "a localizer that is given the state of the decoder is worse than one that is given the word",
            "cyclical-table-4",
            "f1_loc",
            "hidden < cyclical",
            11.3,
            14.6,
        ),
        (
            "with a perfect detector cyclical training helps too",
            "cyclical-table-11-perfect",
            "f1_loc",
            "cyclical > baseline",
            54.54,
            48.74,
        ),
        (
            "cyclical training grounds captions of videos better, in all words",
            "cyclical-table-2",
            "f1_all",
            "video-cyclical > video-baseline",
            4.71,
            3.75,
        ),
        (
            "cyclical training grounds captions of videos better, in right words",
            "cyclical-table-2",
            "f1_loc",
            "video-cyclical > video-baseline",
            15.84,
            12.0,
        ),
    ),
    *_of(
        "Chen et al., MM 2021",
        (
            "four attentions in turns ground better than one, in all words",
            "distributed-table-1",
            "f1_all",
            "k4 > k1",
            7.91,
            3.88,
        ),
        (
            "four attentions in turns ground better than one, in right words",
            "distributed-table-1",
            "f1_loc",
            "k4 > k1",
            21.54,
            11.7,
        ),
        (
            "with four attentions fewer boxes are only a part of the thing",
            "distributed-table-4",
            "part_grd",
            "k4 < k1",
            2.03,
            7.94,
        ),
        ("with four attentions more boxes are right", "distributed-table-4", "corr_grd", "k4 > k1", 10.92, 7.12),
        ("with four attentions captions are better", "distributed-table-1", "CIDEr-D", "k4 > k1", 62.5, 60.1),
        ("four branches are better than two", "distributed-table-2", "f1_loc", "k4 > k2", 21.54, 15.9),
        ("elimination of chosen regions helps", "distributed-table-3", "f1_loc", "k4 > k4-all", 21.54, 18.91),
        ("four branches ground better than four heads", "distributed-heads", "f1_loc", "k4 > heads4", 21.54, 13.19),
        (
            "four attentions in turns ground videos better than one",
            "distributed-videos",
            "f1_loc",
            "k4 > k1",
            21.06,
            12.7,
        ),
    ),
    *_of(
        "Wang et al., CVPR 2021",
        (
            "NCE is better than max margin",
            "nce-distill-table-4",
            "recall@1 any argmax",
            "grounder-paper-nce > grounder-paper-margin",
            48.35,
            42.11,
        ),
        (
            "NCE and distillation are better than NCE",
            "nce-distill-table-4",
            "recall@1 any argmax",
            "grounder-paper > grounder-paper-nce",
            50.96,
            48.35,
        ),
        (
            "NCE and distillation are better than distillation",
            "nce-distill-table-4",
            "recall@1 any argmax",
            "grounder-paper > grounder-paper-distill",
            50.96,
            45.05,
        ),
        (
            "distillation helps where no detector is run at test time",
            "nce-distill-no-detector",
            "recall@1 any argmax",
            "grounder-free > grounder-free-nce",
            50.96,
            48.35,
        ),
    ),
    *_of(
        "Dai and Lin, NIPS 2017",
        ("contrastive learning raises CIDEr", "contrastive-table-4", "CIDEr-D", "aa-cl > aa", 114.2, 104.2),
        (
            "contrastive learning makes more captions find their own image first",
            "contrastive-table-1",
            "R@1",
            "aa-cl > aa",
            0.32,
            0.1,
        ),
        ("introspective learning lowers CIDEr", "contrastive-table-4", "CIDEr-D", "aa-il < aa", 100.4, 104.2),
        ("a GAN lowers CIDEr", "contrastive-table-4", "CIDEr-D", "aa-gan < aa", 70.0, 104.2),
        ("negative pairs alone lower CIDEr", "contrastive-table-4", "CIDEr-D", "aa-cl-n < aa", 60.3, 104.2),
        (
            "positive and negative pairs together are better than positive pairs",
            "contrastive-table-4",
            "CIDEr-D",
            "aa-cl > aa-cl-p",
            114.2,
            105.9,
        ),
        (
            "contrastive learning raises CIDEr of a captioner without attention",
            "contrastive-table-5",
            "CIDEr-D",
            "nt-cl > nt",
            90.5,
            88.2,
        ),
        ("a better reference raises it more", "contrastive-table-5", "CIDEr-D", "nt-cl-aa > nt-cl", 95.6, 90.5),
        (
            "learning again, with what was learned as the reference, raises METEOR",
            "contrastive-table-6",
            "METEOR",
            "aa-cl-cl > aa-cl",
            27.2,
            27.1,
        ),
    ),
)
