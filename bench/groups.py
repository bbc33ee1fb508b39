"""What looking for plural nouns in the box around their places does to phrase accuracy (inference/pointing.py).

    python bench/groups.py DATA --regions STORE                 # validation split, as it is and without
    python bench/groups.py DATA --regions STORE --split train --images 600 --try 0.2 0.3 0.4 0.5    # how G was chosen
    python bench/groups.py DATA --regions STORE --model RUN     # another grounder

Accuracy by any box of a phrase and by the box around all, and p of each G against G = 0 (paired randomisation over
phrases).
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from groundling.data.dataset import load
from groundling.evaluation.phrases import localised
from groundling.inference import pointing
from groundling.inference.grounder import load_grounder
from groundling.metrics.phrases import Localisation
from groundling.metrics.significance import compare
from groundling.regions.store import Store


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--regions", type=Path, required=True)
    parser.add_argument("--split", default="val")
    parser.add_argument("--images", type=int, help="only the first so many")
    parser.add_argument("--model", default="", help="grounder (default: that of the package)")
    parser.add_argument("--try", dest="shares", type=float, nargs="+", default=[pointing.GROUP], help="values of G")
    args = parser.parse_args()
    data = load(args.data).split(args.split)
    data = replace(data, examples=data.examples[: args.images])
    grounder, store = load_grounder(args.model), Store.open(args.regions)

    def measured(share: float) -> dict[str, Localisation]:
        pointing.GROUP = share
        return localised(grounder, data, store, quiet=False)

    before = measured(0.0)
    print("G        any      p        union    p")
    print("0        " + "".join(f"{before[truth].recall[:, 0].mean():<18.4f}" for truth in ("any", "union")))
    for share in args.shares:
        after, cells = measured(share), ""
        for truth in ("any", "union"):
            one, other = (found[truth].statistics()["recall@1"] for found in (before, after))
            [paired] = compare([one], [other], 5000)
            cells += f"{after[truth].recall[:, 0].mean():<9.4f}{paired.p_randomisation:<9.4f}"
        print(f"{share:<9}{cells}")


if __name__ == "__main__":
    main()
