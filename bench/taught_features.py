"""What captions taught the network of `photos`: captions and phrases of models that see with it, before and after.

    python bench/taught_features.py flickr8k-entities --regions STORE --out RUNS [--limit 3000] [--seeds 0 1]

The regions are the boxes that the source `photos` made in STORE. They are the same in all three rows; what differs is
what a model sees in them:

published   features of EfficientNet-Lite2 with its ImageNet weights, as many principal components (of training photos)
taught      features of the same network, fine-tuned on the words of captions
words       these, and the words that it sees in the image, which captioner and grounder then use

On each, a grounder (`two_branch`) and a captioner (`updown_aware`) learn from nothing, from the first training photos,
and with the same settings. Scores are of the validation split: CIDEr-D of greedy captions, and the accuracy of phrases,
chosen by words alone, by any of their boxes and by the box around all. p: paired randomisation over images, against the
row before. What is finished is not run again. `bench/word_backbone.py` has the average precision of words.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from adapt_curve import Result, groundling, once, statistics_of
from rich.progress import track

from groundling import inference
from groundling.data.dataset import Dataset, load
from groundling.evaluation.phrases import localised
from groundling.images import open_image
from groundling.metrics.significance import compare
from groundling.recipes import load as load_model
from groundling.regions.fingerprints import WORD
from groundling.regions.sources._features import box_means, load_backbone, load_word_backbone, pixels
from groundling.regions.sources._photos_files import WORKING_SIDE
from groundling.regions.sources._pooling import LABELS, fit
from groundling.regions.sources._proposals import CLASSES
from groundling.regions.store import Store, Writer
from groundling.tensors import Regions
from groundling.types import Example

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))
from train_word_backbone import projection  # noqa: E402

FITTED = 300  # training photos whose regions the principal components are of
ROWS = "published", "taught", "words"
SETTINGS = "--regions-per-image 50 --captions-per-image 5 --min-count 3 --batch 16"
LEARNED = {  # recipe and its settings
    "grounder": f"two_branch {SETTINGS} --lr 1e-3 --decay 0.5 --decay-every 1 --epochs 4",
    "captioner": f"updown_aware {SETTINGS} --hidden 512 --embed 300 --attention 256 --location 64 --image-map 0 "
    "--lr 8e-4 --decay 0.5 --plateau 1 --epochs 4",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="a data set with splits train and val, and boxes of phrases")
    parser.add_argument("--regions", required=True, type=Path, help="its regions by the source photos")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=3000, metavar="N", help="training photos (default 3000)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    args = parser.parse_args()
    data, store = load(args.data), Store.open(args.regions)
    seen = [*data.split("train").examples[: args.limit], *data.split("val").examples]
    stores = {row: args.out / f"{row}.regions" for row in ROWS[:2]} | {"words": args.regions}
    for row in ROWS[:2]:
        if not (stores[row] / "index.bin").exists():
            write(row, seen, store, stores[row])
    for seed in args.seeds:
        results = []
        for row in ROWS:
            out = args.out / f"{row}-{seed}"
            for name, words in LEARNED.items():
                given = ["--data", args.data, "--regions", stores[row], "--limit", args.limit, "--seed", seed]
                recipe, *settings = words.split() + (["--word-link"] if (row, name) == ("words", "captioner") else [])
                learn = ["train", recipe, *given, *settings, "--threads", 1, "--out", out / name]
                once(out / f"{name}.json", lambda learn=learn: groundling(learn))
            results.append(
                once(out / "scored.json", lambda row=row, out=out: scored(data, Store.open(stores[row]), out))
            )
        show(seed, data.split("val"), results)


def write(row: str, examples: list[Example], store: Store, out: Path) -> None:
    """STORE without words and maps; for the row "published" with features of the published network."""
    size = load_word_backbone().seen.matrix.shape[1]
    fingerprint = store.fingerprint
    labels = tuple(label for label in fingerprint.labels if not label.startswith(WORD))
    fingerprint = replace(fingerprint, name=f"{fingerprint.name}-{row}", labels=labels)
    features = published(examples, store, size) if row == "published" else None
    with Writer(out, fingerprint) as writer:
        for example in track(examples, f"regions, {row}"):
            regions = store[example.id]
            assert regions.whole is not None
            feats, whole = regions.feats.clone(), regions.whole[:, : size + CLASSES].clone()
            if features is not None:
                feats[0, :, :size] = next(features)
                whole[0, :size] = feats[0, 0, :size]
            few = replace(regions, labels=regions.labels[..., :LABELS], scores=regions.scores[..., :LABELS])
            writer.add(example.id, replace(few, feats=feats, whole=whole, grid=None))


def published(examples: list[Example], store: Store, size: int) -> Iterator[torch.Tensor]:
    """(R, size): of each image, what the published network sees in its regions."""
    network = load_backbone()

    def means(example: Example) -> Any:
        picture = fit(open_image(example.media).convert("RGB"))
        with torch.inference_mode():
            grid = network(pixels(picture, WORKING_SIDE))[0].numpy()
        return box_means(grid, relative(store[example.id]))

    first = np.concatenate([means(example) for example in track(examples[:FITTED], "principal components")])
    short = projection(torch.from_numpy(first).double(), size)
    return (short(torch.from_numpy(means(example)).double()).float() for example in examples)


def relative(regions: Regions) -> Any:
    return (regions.boxes[0] / regions.size[0].repeat(2)).clamp(0, 1).numpy()


def scored(data: Dataset, store: Store, out: Path) -> Result:
    """Captions of the validation photos; phrases found, of how many, of each of them."""
    examples = data.split("val")
    captions = inference.load(str(out / "captioner"), grounder="").caption(
        [example.id for example in examples], inference.GREEDY, regions=store
    )
    texts = {caption.id: caption.text for caption in captions}
    found = localised(inference.load_grounder(str(out / "grounder")), examples, store, argmax=True)
    counts: dict[str, list[int]] = {}
    for i, id in enumerate(found["any"].ids):
        image = counts.setdefault(id.rsplit("/", 2)[0], [0, 0, 0])
        hits = [int(found[truth].recall[i, 0]) for truth in ("any", "union")]
        image[:] = (a + b for a, b in zip(image, (*hits, 1), strict=True))
    return {"texts": texts, "phrases": counts, "words": len(load_model(out / "captioner").vocab)}


def show(seed: int, examples: Dataset, results: list[Result]) -> None:
    references = {x.id: [caption.text for caption in x.captions] for x in examples}
    statistics = [statistics_of(result, references) for result in results]
    print(f"\nseed {seed}, {len(references)} photos\n")
    print("| features | CIDEr-D | p | phrases, any | p | phrases, union | p |")
    print("|---|---|---|---|---|---|---|")
    for i, row in enumerate(ROWS):
        against = compare(statistics[i - 1], statistics[i], 5000) if i else None
        values = [one.score().value for one in statistics[i]]
        cells = [
            f"{x:.4f} | {against[k].p_randomisation:.4f}" if against else f"{x:.4f} |" for k, x in enumerate(values)
        ]
        print(f"| {row} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
