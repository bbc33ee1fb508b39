"""Adapting against training from nothing, by how many photos there are.

    python bench/adapt_curve.py flickr8k-entities --regions VAL_STORE --out RUNS [--sizes 100 300 1000 3000]
    python bench/adapt_curve.py flickr8k-entities --regions VAL_STORE --out RUNS --table    # of what is there already

"Own photos" are drawn at random from the training split, each with one of its captions: 100 to choose the epoch on,
and for each size the first so many of one order, so a smaller set is part of a larger one. `groundling adapt` begins
with the weights of this package. "nothing" is what the README says for thousands of photos: `groundling train
two_branch`, then `groundling train groundling --guide` it, with their defaults. Every model is scored on the first
photos of the validation split of the data set (--validation), which no training sees: CIDEr-D of captions (a beam of
3) with all references, and the accuracy of phrases against the boxes that people drew. p: paired randomisation over
images, against the weights that adapting begins with, and below the table of one way against the other. Processor time
is that of all processes; regions are made once for all sizes, or taken from --photo-regions, and are not counted. What
is finished is not run again, and a training that was stopped goes on.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any

import numpy as np

HELD_OUT = 100  # own photos that the epoch is chosen on
WAYS = "adapt", "nothing"
MODELS = {"before": ("", ""), "adapt": ("captioner", "grounder"), "nothing": ("model", "grounder")}
Result = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="a data set with splits train and val, and boxes of phrases")
    parser.add_argument("--regions", required=True, type=Path, help="regions of its validation split")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--photo-regions", type=Path, help="regions of its training split (default: made in OUT)")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 300, 1000, 3000])
    parser.add_argument(
        "--validation", type=int, default=1000, metavar="N", help="validation photos that each model is scored on"
    )
    parser.add_argument("--ways", choices=WAYS, nargs="+", default=WAYS)
    parser.add_argument("--draw", action="store_true", help="choose the photos, make their regions, and end")
    parser.add_argument("--table", action="store_true", help="run nothing, show what is there")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if not args.table:
        make(args)
    if not args.draw:
        show(args.data, args.out)


def make(args: argparse.Namespace) -> None:
    draw(args.data, args.sizes, args.out, args.seed)
    own = {size: args.out / f"own-{size}.csv" for size in args.sizes}
    store = args.photo_regions or args.out / "regions"
    if not args.photo_regions:
        extract = ["regions", "extract", own[max(args.sizes)], "--source", "photos", "--out", store]
        once(args.out / "regions.json", lambda: groundling(extract))
    if args.draw:
        return
    scored(args, "before", args.out / "before")
    for size, data in own.items():
        given = ["--data", data, "--regions", store, "--seed", args.seed]
        for way in args.ways:
            out = args.out / f"{way}-{size}"
            commands = {
                "adapt": [["adapt", *given, "--out", out]],
                "nothing": [
                    ["train", "two_branch", *given, "--out", out / "grounder"],
                    ["train", "groundling", *given, "--guide", out / "grounder", "--out", out / "model"],
                ],
            }[way]
            once(out / "learned.json", lambda c=commands: groundling(*c))
            scored(args, way, out)


def draw(data: Path, sizes: Sequence[int], out: Path, seed: int) -> None:
    """A table of each size, and the photos beside them."""
    from groundling.data.dataset import load

    if all((out / f"own-{size}.csv").exists() for size in sizes):
        return
    examples = sorted(load(data, "train", annotated=False), key=lambda example: example.id)
    order = random.Random(seed)
    order.shuffle(examples)
    chosen = [(Path(example.media), order.choice(example.captions).text) for example in examples]
    (out / "images").mkdir(parents=True, exist_ok=True)
    for photo, _ in chosen[: HELD_OUT + max(sizes)]:
        shutil.copyfile(photo, out / "images" / photo.name)
    for size in sizes:
        with (out / f"own-{size}.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["image", "caption", "split"])
            for i, (photo, caption) in enumerate(chosen[: HELD_OUT + size]):
                rows.writerow([photo.name, caption, "val" if i < HELD_OUT else "train"])


def once(path: Path, work: Callable[[], Result]) -> Result:
    """What `work` gives, kept in `path`."""
    if not path.exists():
        result = work()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result))
    found: Result = json.loads(path.read_text())
    return found


def groundling(*commands: Sequence[object]) -> Result:
    """What the commands print and the seconds that they take."""
    printed, wall, before = "", time.perf_counter(), getrusage(RUSAGE_CHILDREN)
    for words in commands:
        command = [sys.executable, "-m", "groundling", *map(str, words)]
        printed += subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    after = getrusage(RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    seconds = round(time.perf_counter() - wall, 1)
    memory = after.ru_maxrss // (1 << 20 if sys.platform == "darwin" else 1 << 10)
    return {"seconds": seconds, "cpu": round(cpu, 1), "largest process, MB": memory, "printed": printed}


@cache
def validation(data: Path) -> Any:
    from groundling.data.dataset import load

    return load(data, "val")


def scored(args: argparse.Namespace, way: str, out: Path) -> Result:
    """Captions of the first validation photos; phrases found, of how many, of each of them."""

    def work() -> Result:
        from groundling import inference
        from groundling.evaluation.phrases import localised
        from groundling.regions.store import Store

        captioner, grounder = (str(out / name) if name else "" for name in MODELS[way])
        store, examples = Store.open(args.regions), validation(args.data)[: args.validation]
        captions = inference.load(captioner).caption([example.id for example in examples], regions=store)
        texts = {caption.id: caption.text for caption in captions}
        found = localised(inference.load_grounder(grounder), examples, store)
        counts: dict[str, list[int]] = {}
        for i, id in enumerate(found["any"].ids):
            image = counts.setdefault(id.rsplit("/", 2)[0], [0, 0, 0])
            hits = [int(found[truth].recall[i, 0]) for truth in ("any", "union")]
            image[:] = (a + b for a, b in zip(image, (*hits, 1), strict=True))
        return {"texts": texts, "phrases": counts}

    return once(out / "scored.json", work)


def show(data: Path, out: Path) -> None:
    """The curve as a table of Markdown, of the photos on which every model was scored."""
    from groundling.data.dataset import load
    from groundling.metrics.significance import compare

    runs = [(int(path.parent.name.rpartition("-")[2]), path.parent) for path in out.glob("*-*/scored.json")]
    results = {
        run: json.loads((run / "scored.json").read_text()) for run in (out / "before", *(run for _, run in runs))
    }
    common = set.intersection(*(set(result["texts"]) for result in results.values()))
    examples = load(data, "val", annotated=False)
    references = {x.id: [caption.text for caption in x.captions] for x in examples if x.id in common}
    baseline = statistics_of(results[out / "before"], references)
    values = " | ".join(f"{one.score().value:.4f}" for one in baseline)
    print(f"{len(references)} photos, on which every model is scored\n")
    print("| photos | way | CIDEr-D | p | phrases, any | p | phrases, union | p | CPU-seconds |")
    print("|---|---|---|---|---|---|---|---|---|")
    print(f"| 0 | as shipped | {values.replace(' | ', ' | | ')} | | |")
    for size, run in sorted(runs):
        compared = compare(baseline, statistics_of(results[run], references), 5000)
        cells = " | ".join(f"{one.system:.4f} | {one.p_randomisation:.4f}" for one in compared)
        learned = json.loads((run / "learned.json").read_text())
        print(f"| {size} | {run.name.rpartition('-')[0]} | {cells} | {learned['cpu']:.0f} |")
    print()
    for size in sorted({size for size, _ in runs}):
        adapted, anew = (out / f"{way}-{size}" for way in WAYS)
        if adapted in results and anew in results:
            one, other = (statistics_of(results[run], references) for run in (adapted, anew))
            compared = compare(one, other, 5000)
            told = ", ".join(
                f"{c.name} {c.baseline:.4f} and {c.system:.4f} (p {c.p_randomisation:.4f})" for c in compared
            )
            print(f"{size} photos, adapted and from nothing: {told}")


def statistics_of(result: Result, references: dict[str, list[str]]) -> list[Any]:
    from groundling.metrics.captions import score_captions
    from groundling.metrics.statistics import Statistics, signature

    texts, phrases = ({id: of[id] for id in references if id in of} for of in (result["texts"], result["phrases"]))
    captions = [one for one in score_captions(texts, references, ["cider-d"]) if one.name == "CIDEr-D"]
    ids, counts = tuple(phrases), np.array(list(phrases.values()), float)
    shares = [
        Statistics(name, signature(name, n=len(ids)), ids, counts[:, [i, 2]], lambda sums: sums[..., 0] / sums[..., 1])
        for i, name in enumerate(["any", "union"])
    ]
    return [*captions, *shares]


if __name__ == "__main__":
    main()
