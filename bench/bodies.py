"""What looking for clothes and parts of bodies by joints does to phrase accuracy (inference/bodies.py).

    python bench/bodies.py DATA --regions STORE                 # validation split, with and without
    python bench/bodies.py DATA --regions STORE --split train --images 1500 --try 0.25 0.4 0.6      # how w was chosen
    python bench/bodies.py DATA --regions STORE --model RUN     # another grounder

Accuracy by any box of a phrase and by the box around all, of all phrases and of clothes and parts of bodies, and p of
each w against garments by the boxes of persons alone (paired randomisation over phrases).
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from groundling.data.dataset import load
from groundling.evaluation.phrases import localised
from groundling.inference import bodies
from groundling.inference.grounder import load_grounder
from groundling.metrics.phrases import Localisation
from groundling.metrics.significance import compare
from groundling.regions.store import Store

KINDS = ("clothing", "bodyparts")  # of Flickr30k Entities


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--regions", type=Path, required=True)
    parser.add_argument("--split", default="val")
    parser.add_argument("--images", type=int, help="only the first so many")
    parser.add_argument("--model", default="", help="grounder (default: that of the package)")
    parser.add_argument("--try", dest="weights", type=float, nargs="+", default=[bodies.WEIGHT], help="values of w")
    args = parser.parse_args()
    data = load(args.data).split(args.split)
    data = replace(data, examples=data.examples[: args.images])
    grounder, store = load_grounder(args.model), Store.open(args.regions)

    def measured(weight: float) -> dict[str, Localisation]:
        kept = dict(bodies.PARTS) if weight else {}
        with patch.object(bodies, "WEIGHT", weight), patch.dict(bodies.PARTS, kept, clear=True):
            return localised(grounder, data, store, quiet=False)

    before = measured(0.0)
    print("w        " + "".join(f"{cell:<9}" for cell in ("any", "p", "union", "p", *KINDS)))
    print("without  " + "".join(f"{accuracy(before, truth):<18.4f}" for truth in ("any", "union")) + by_kind(before))
    for weight in args.weights:
        after, cells = measured(weight), ""
        for truth in ("any", "union"):
            one, other = (found[truth].statistics()["recall@1"] for found in (before, after))
            [paired] = compare([one], [other], 5000)
            cells += f"{accuracy(after, truth):<9.4f}{paired.p_randomisation:<9.4f}"
        print(f"{weight:<9}{cells}{by_kind(after)}")


def accuracy(found: dict[str, Localisation], truth: str) -> float:
    return float(found[truth].recall[:, 0].mean())


def by_kind(found: dict[str, Localisation]) -> str:
    one = found["any"]
    hits = [[hit for hit, kinds in zip(one.recall[:, 0], one.kinds, strict=True) if kind in kinds] for kind in KINDS]
    return "".join(f"{sum(some) / max(1, len(some)):<9.4f}" for some in hits)


if __name__ == "__main__":
    main()
