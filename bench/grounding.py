"""Flickr30k-Entities grounding on 1,000 images x 5 captions: files in, all scores out, on one core.

    python bench/grounding.py [images]

The aim is under 1 second for 1,000 images, reading the JSON files included.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from groundling.metrics.grounding_image import ground_image

LABELS = [
    f"{a}{b}" for a in ("man", "dog", "hat", "car", "tree", "ball", "shirt", "street") for b in "abcdefghijklmnopqrst"
]
WORDS = ["a", "the", "in", "on", "near", "with", "and", "of", "two", "large", "red", "standing", "running", "wearing"]


def box(random: random.Random) -> list[float]:
    x, y, w, h = random.uniform(0, 400), random.uniform(0, 300), random.uniform(20, 200), random.uniform(20, 200)
    return [x, y, x + w, y + h]


def corpus(images: int) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Captions of 13 words, 3 of them annotated; 4 predicted for each image, most of them right and near the truth."""
    rng = random.Random(0)
    annotations, results = [], {}
    for image in range(images):
        scene = {label: box(rng) for label in rng.sample(LABELS, 5)}
        captions = []
        for _ in range(5):
            shown = rng.sample(sorted(scene), 3)
            tokens = rng.choices(WORDS, k=13)
            for index, label in zip((1, 5, 9), shown, strict=True):
                tokens[index] = label
            captions.append(
                {
                    "tokens": tokens,
                    "process_idx": [1, 5, 9],
                    "process_clss": shown,
                    "process_bnd_box": [scene[label] for label in shown],
                }
            )
        annotations.append({"image_id": image, "captions": captions})
        predicted = [*rng.sample(sorted(scene), 3), rng.choice(LABELS)]
        boxes = [[x + rng.gauss(0, 15) for x in scene.get(label, box(rng))] for label in predicted]
        results[str(image)] = [{"clss": predicted, "idx_in_sent": [1, 4, 7, 10], "bbox": boxes}]
    return {"annotations": annotations}, {"results": results}, {"test": [str(i) for i in range(images)]}


def main() -> None:
    images = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("reference.json", "submission.json", "splits.json")]
        for path, value in zip(paths, corpus(images), strict=True):
            path.write_text(json.dumps(value))
        reference, submission, splits = paths
        times = []
        for _ in range(5):
            start, cpu = time.perf_counter(), time.process_time()
            grounding = ground_image(submission, reference, splits, "test")
            scores = grounding.to_dict()
            times.append((time.perf_counter() - start, time.process_time() - cpu))
    wall, cpu = (min(column) for column in zip(*times, strict=True))
    print(f"{images} images x 5 captions: {wall:.3f} s, {cpu:.3f} s of them on the processor (best of 5)")
    print({mode: round(group["f1"], 4) for mode, group in scores.items()})


if __name__ == "__main__":
    main()
