"""The rules of both evaluators once more, written out word by word without arrays, against random little corpora."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from groundling.metrics.grounding_image import flickr30k_entities
from groundling.metrics.grounding_video import activitynet_entities

LABELS = ["dog", "cat", "man", "hat", "sky"]
IDS = ["a", "b", "c", "d", "e", "f"]


def iou(p: list[float], g: list[float]) -> float:
    f = np.float32
    p, g = [f(x) for x in p[:4]], [f(x) for x in g[:4]]
    pw, ph, gw, gh = p[2] - p[0] + f(1), p[3] - p[1] + f(1), g[2] - g[0] + f(1), g[3] - g[1] + f(1)
    w = max(min(p[2], g[2]) - max(p[0], g[0]) + f(1), f(0))
    h = max(min(p[3], g[3]) - max(p[1], g[1]) + f(1), f(0))
    if pw == 1 and ph == 1:
        return -1.0
    if gw == 1 and gh == 1:
        return 0.0
    union = pw * ph + gw * gh - w * h
    return float(w * h / union) if union else math.nan


class Plain:
    """Lists of 0 and 1 by class and by sentence, and the averages that the evaluators make of them."""

    def __init__(self) -> None:
        self.precision: dict[str, list[int]] = {}
        self.recall: dict[str, list[int]] = {}
        self.by_sentence: list[tuple[list[int], list[int]]] = []
        self.classes: set[str] = set()

    def scores(self, handed_in: int) -> dict[str, float]:
        def average(lists: dict[str, list[int]]) -> float:
            total = sum(sum(x) / len(x) for x in lists.values())
            return total / len(self.classes) if self.classes else math.nan

        p, r = average(self.precision), average(self.recall)
        rows = [(a, b) for a, b in self.by_sentence if b]
        left = handed_in - (len(self.by_sentence) - len(rows))
        ps, rs = [sum(a) / len(a) if a else 0 for a, _ in rows], [sum(b) / len(b) for _, b in rows]
        fs = [2 * a * b / (a + b) if a + b else 0 for a, b in zip(ps, rs, strict=True)]
        per_sentence = [sum(x) / left if left else math.nan for x in (ps, rs, fs)]
        f1 = 2 * p * r / (p + r) if p + r else math.nan
        names = ["precision", "recall", "f1", "precision_per_sent", "recall_per_sent", "f1_per_sent"]
        return dict(zip(names, [p, r, f1, *per_sentence], strict=True))


def evaluate(segments: list[dict[str, Any]], predicted: list[Any], loc: bool, threshold: float) -> Plain:
    """`segments`: tokens, boxes, frames, idx and clss (lists per box), scored; `predicted`: rows or None."""
    plain = Plain()
    for segment, row in zip(segments, predicted, strict=True):
        pairs = [
            (i, c)
            for idx, clss in zip(segment["idx"], segment["clss"], strict=True)
            for i, c in zip(idx, clss, strict=True)
        ]

        def hit(k: int, word: int, segment: dict[str, Any] = segment, row: Any = row) -> int:
            for box, frame, idx in zip(segment["boxes"], segment["frames"], segment["idx"], strict=True):
                if (
                    word in idx
                    and 0 <= frame < len(row["boxes"][k])
                    and iou(row["boxes"][k][frame], box) > np.float32(threshold)
                ):
                    return 1
            return 0

        mine: list[int] = []
        if row is not None:
            plain.classes |= {c for _, c in pairs}
            annotated = {i for i, _ in pairs}
            excused = {token for i, token in enumerate(segment["tokens"]) if i not in annotated and token}
            for k, name in enumerate(row["clss"]):
                words = [i for i, c in pairs if c == name]
                if words:
                    value = hit(k, min(words))
                elif name in excused or loc:
                    continue
                else:
                    value = 0
                plain.precision.setdefault(name, []).append(value)
                mine.append(value)
        found: list[int] = []
        for word in sorted({i for i, _ in pairs}):
            name = next(c for i, c in pairs if i == word)
            if row is None:
                value = 0
            elif name in row["clss"]:
                value = hit(row["clss"].index(name), word)
            elif loc:
                continue
            else:
                value = 0
            plain.recall.setdefault(name, []).append(value)
            found.append(value)
        if row is not None and segment["boxes"]:
            plain.by_sentence.append((mine, found))
    return plain


def box(rng: random.Random) -> list[float]:
    x, y = rng.randint(0, 6), rng.randint(0, 6)
    return [x, y, x + rng.randint(-1, 9), y + rng.randint(-1, 9) + rng.choice([0, 0.25])]


def tokens(rng: random.Random) -> list[str]:
    return [rng.choice([*LABELS, "a", "", "on"]) for _ in range(8)]


@pytest.mark.parametrize("seed", range(60))
def test_videos(seed: int) -> None:
    rng = random.Random(seed)
    reference: dict[str, Any] = {}
    results: dict[str, Any] = {}
    for video in IDS:
        for number in map(str, range(rng.randint(1, 3))):
            n = rng.choice([0, 1, 2, 3])
            idx = [[rng.randint(0, 4) for _ in range(rng.randint(1, 2))] for _ in range(n)]
            segment = {
                "tokens": tokens(rng),
                "process_bnd_box": [box(rng) for _ in range(n)],
                "frame_ind": [rng.choice([0, 1, 5, 9, 11]) for _ in range(n)],
                "process_idx": idx,
                "process_clss": [[rng.choice(LABELS) for _ in one] for one in idx],
            }
            reference.setdefault(video, {"segments": {}})["segments"][number] = segment
    for video in [*IDS, "unknown"]:
        for number in map(str, range(3)):
            if rng.random() < 0.7:
                k = rng.randint(0, 3)
                results.setdefault(video, {})[number] = {
                    "clss": [rng.choice(LABELS) for _ in range(k)],
                    "idx_in_sent": list(range(k)),
                    "bbox_for_all_frames": [[box(rng) for _ in range(10)] for _ in range(k)],
                }
    split = IDS[:5]
    places = [(v, n) for v in split for n, s in reference[v]["segments"].items() if s["frame_ind"]]
    segments = [_segment(reference[v]["segments"][n]) for v, n in places]
    rows = [_row(results.get(v, {}).get(n)) for v, n in places]
    scores = activitynet_entities(
        {"results": results}, {"annotations": reference}, {"val": split}, "val", iou=0.4, lemmas=str
    )
    handed_in = sum(len(one) for one in results.values())
    for mode in ("all", "loc"):
        plain = evaluate(segments, rows, mode == "loc", 0.4)
        for name, value in plain.scores(handed_in).items():
            assert scores[mode][name] == pytest.approx(value, abs=1e-9, nan_ok=True), (mode, name)
        assert scores[mode]["num_classes"] == len(plain.classes)


@pytest.mark.parametrize("seed", range(60))
def test_images(seed: int) -> None:
    rng = random.Random(seed)
    annotations, results = [], {}
    for image in IDS:
        captions = []
        for _ in range(5):
            idx = rng.sample(range(8), rng.choice([0, 0, 1, 3]))
            captions.append(
                {
                    "tokens": tokens(rng),
                    "process_idx": idx,
                    "process_clss": [rng.choice(LABELS) for _ in idx],
                    "process_bnd_box": [box(rng) for _ in idx],
                }
            )
        annotations.append({"image_id": image, "captions": captions})
    for image in [*IDS, "unknown"]:
        if rng.random() < 0.8:
            k = rng.randint(0, 4)
            row = {"clss": [rng.choice(LABELS) for _ in range(k)], "idx_in_sent": list(range(k))}
            results[image] = [{**row, "bbox": [box(rng) for _ in range(k)]}]
    split = IDS[:5]
    segments, rows = [], []
    for one in annotations[:5]:
        for caption in one["captions"]:
            n = len(caption["process_idx"])
            lists = {
                **caption,
                "frame_ind": [0] * n,
                "process_idx": [[i] for i in caption["process_idx"]],
                "process_clss": [[c] for c in caption["process_clss"]],
            }
            segments.append(_segment(lists))
            row = results.get(one["image_id"])
            rows.append(_row({**row[0], "bbox_for_all_frames": [[b] for b in row[0]["bbox"]]}) if row else None)
    scores = flickr30k_entities(
        {"results": results}, {"annotations": annotations}, {"val": split}, "val", iou=0.4, lemmas=str
    )
    for mode in ("all", "loc"):
        plain = evaluate(segments, rows, mode == "loc", 0.4)
        for name, value in plain.scores(5 * len(results)).items():
            assert scores[mode][name] == pytest.approx(value, abs=1e-9, nan_ok=True), (mode, name)
        assert scores[mode]["num_classes"] == len(plain.classes)


def _segment(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "tokens": row["tokens"],
        "boxes": row["process_bnd_box"],
        "frames": row["frame_ind"],
        "idx": row["process_idx"],
        "clss": row["process_clss"],
    }


def _row(row: Any) -> Any:
    return None if row is None else {"clss": row["clss"], "boxes": row["bbox_for_all_frames"]}
