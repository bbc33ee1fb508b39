"""What boxes around the joints of persons are worth to labels: the entities that have a right box, with and without.

    python bench/label_joints.py DATA --regions STORE                 # validation split, grounder of the package
    python bench/label_joints.py DATA --regions STORE --model RUN

The confidence of both is fitted on one half of the images, as `groundling score labels` does; all that is printed is of
the other half: the share of entities with a right box, of all, by kind, and of all by boxes from the threshold of
confidence on, with p (paired randomisation over entities); the precision of these boxes, and the expected calibration
error, of all boxes and of those of clothes and parts of bodies, with the share that is right and the confidence stated
on average. Boxes without joints are judged by the confidence that was fitted with joints, too: that is `--no-joints`.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from groundling import labels
from groundling.data.dataset import load
from groundling.inference.calibration import in_first_half
from groundling.labels.calibration import Calibration, as_features, fit
from groundling.labels.features import NAMES
from groundling.labels.inputs import Pair
from groundling.labels.labeller import Labeller
from groundling.labels.truth import NO_ENTITY, Tally
from groundling.metrics.calibration import expected_calibration_error, reliability
from groundling.metrics.significance import compare
from groundling.metrics.statistics import Statistics, mean_statistics
from groundling.progress import track
from groundling.types import Example

WORN = ("clothing", "body_part")  # among the features
SURE = "all, from the threshold"
Found = dict[str, dict[str, float]]  # kind -> entity -> 1 where it has a right box


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--regions", required=True)
    parser.add_argument("--split", default="val")
    parser.add_argument("--model", default="", help="grounder (default: that of the package)")
    args = parser.parse_args()
    examples = list(load(args.data, args.split))
    labeller = replace(labels.load(args.model, regions=args.regions), calibration=None)
    halves = []
    for joints in (False, True):
        labeller.model.model.joints = joints
        halves.append(tallied(labeller, examples))
    fitted = [fit(first.checked()) for first, _ in halves]
    tested = [one for one in examples if not in_first_half(one.id)]
    found = []
    for joints, (_, second), calibration in zip((False, True), halves, fitted, strict=True):
        print(f"\njoints: {joints}")
        found.append(by_kind(tested, *measured(second, calibration)))
    print("\njoints: False, confidence fitted with joints")
    measured(halves[0][1], fitted[1])
    print(f"\n{'':26}{'n':>7}  without     with        p")
    for kind in found[0]:
        [paired] = compare(*([statistics(one[kind])] for one in found), 5000)
        row = f"{paired.baseline:9.4f}{paired.system:9.4f}{paired.p_randomisation:9.4f}"
        print(f"{kind:26}{len(found[0][kind]):7}{row}")


def tallied(labeller: Labeller, examples: list[Example]) -> tuple[Tally, Tally]:
    """The boxes of the half that fits, and of the half that tests."""
    first, second = Tally(), Tally()
    pairs = [Pair(one.id, one.media, tuple(caption.text for caption in one.captions)) for one in examples]
    shards = [slice(at, at + 100) for at in range(0, len(pairs), 100)]
    for some in track(shards, "hundreds of images", len(shards)):
        for image, example in zip(labeller.images(pairs[some]), examples[some], strict=True):
            (first if in_first_half(image.id) else second).add(image, example)
    return first, second


def measured(half: Tally, fitted: Calibration) -> tuple[set[str], set[str]]:
    """The entities that have a right box, and those that have one from the threshold on."""
    known = [one for one in half.boxes if one.right is not None]
    sure, right = np.array(fitted.confidence([one.placed for one in known])), np.array([one.right for one in known])
    features = as_features([one.placed for one in known])
    worn = features[:, [NAMES.index(kind) for kind in WORN]].any(1)
    kinds = ((kind, features[:, NAMES.index(kind)] > 0) for kind in WORN)
    for name, some in (("all", np.full(len(known), True)), (" and ".join(WORN), worn), *kinds):
        error, above = (
            expected_calibration_error(reliability(sure[some], right[some])),
            some & (sure >= fitted.threshold),
        )
        print(f"{name}: {some.sum()} boxes, confidence {sure[some].mean():.4f}, right {right[some].mean():.4f}", end="")
        print(f", calibration error {error:.4f}; from {fitted.threshold} on {above.sum()}", end="")
        print(f", precision {right[above].mean():.4f}" if above.any() else "", flush=True)
    names = np.array([f"{one.image}/{one.entity}" for one in known])
    return set(names[right].tolist()), set(names[right & (sure >= fitted.threshold)].tolist())


def by_kind(examples: list[Example], right: set[str], sure: set[str]) -> Found:
    found: Found = {"all": {}, SURE: {}}
    for example in examples:
        for phrase in example.gold:
            if phrase.boxes and phrase.entity != NO_ENTITY:
                name = f"{example.id}/{phrase.entity}"
                found[SURE][name] = float(name in sure)
                for kind in ("all", *phrase.kinds):
                    found.setdefault(kind, {})[name] = float(name in right)
    return found


def statistics(found: dict[str, float]) -> Statistics:
    return mean_statistics("found", "found", tuple(found), np.array([*found.values()]))


if __name__ == "__main__":
    main()
