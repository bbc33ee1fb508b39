"""`groundling ground --cost`: operations and time of one image."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

TIMES = 5  # the median of so many runs is reported
SENTENCE = "a man in a red shirt is holding a guitar on the street"


def run(args: argparse.Namespace) -> None:
    from groundling import inference
    from groundling.images import open_image
    from groundling.text.noun_phrases import noun_phrases

    model = inference.load_grounder(args.model, args.device, joints=args.joints)
    picture = open_image(args.image)
    regions = model.regions(picture)
    asked = [phrase.tokens for phrase in noun_phrases([args.sentence or SENTENCE])[0]]
    rows = [
        {"part": "regions and features, of one image", **_measured(lambda: model.regions(picture))},
        {
            "part": f"grounder, {len(asked)} phrases in a prepared image",
            **_measured(lambda: model.rank(regions, asked)),
        },
    ]
    detector = getattr(model.source, "flops", None)
    if detector is not None:
        rows[0]["gflops"] += detector / 1e9
    if args.json:
        print(json.dumps({"image": args.image, "size": picture.size, "cost": rows}))
        return
    for row in rows:
        print(f"{row['part']:<50} {row['gflops']:8.3f} GFLOPs {row['ms']:8.1f} ms")
    if detector is None and model.model.fingerprint.labels:
        print("operations of the detector, which does not run in torch, are not in them")


def _measured(work: Callable[[], Any]) -> dict[str, Any]:
    """Operations (two for a multiplication with its addition) of what runs in torch, and milliseconds."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        work()
    took = []
    for _ in range(TIMES):
        start = time.perf_counter()
        work()
        took.append(time.perf_counter() - start)
    return {"gflops": counter.get_total_flops() / 1e9, "ms": 1e3 * sorted(took)[TIMES // 2]}
