"""What the thresholds of `groundling audit` trade: python bench/audit_thresholds.py DATA --regions STORE [--model RUN]

Two tables. `present`: of phrases that are there, and of foils (audit/foils.py), how many are called "not there". The
grounder's own is the evidence below which 5 % of the true phrases of its calibration are (MISSED in
inference/calibration.py), unless audit.json says otherwise.
`overlap`: of true boxes of phrases, and of boxes of other things in the same photo, how many are "in the wrong place".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from stored_data import opened, parser

from groundling.audit import Auditor, foils
from groundling.audit.verdicts import best_overlap
from groundling.evaluation.evidence import caption_evidence
from groundling.formats.grounded import Place
from groundling.inference import load_grounder
from groundling.regions.store import Store
from groundling.types import Box, Example


def main() -> None:
    args = parser(__doc__, images=200).parse_args()
    auditor = Auditor.of(load_grounder(args.model), args.model)
    store, examples = opened(args)
    scores = foils.evaluate(auditor, foils.make_foils(examples), store)
    chosen = auditor.thresholds.present
    print(f"present, on {len(scores.foils)} foils: called not there; the grounder's own is {chosen:.3f}")
    for threshold in sorted((0.1, 0.2, 0.3, 0.4, 0.5, chosen)):
        _tell(threshold, "foil", *scores.in_captions.T)
    right, wrong = (np.array(x) for x in zip(*_overlaps(auditor, examples, store), strict=True))
    print(f"overlap, on {len(right)} phrases: called in the wrong place")
    for threshold in (0.05, 0.1, 0.2, 0.3, 0.4, 0.5):
        _tell(threshold, "other", right, wrong)


def _tell(threshold: float, name: str, true: np.ndarray, false: np.ndarray) -> None:
    below = [100 * float((values < threshold).mean()) for values in (true, false)]
    print(f"  {threshold:.2f}   true {below[0]:5.1f} %   {name} {below[1]:5.1f} %")


def _overlaps(auditor: Auditor, examples: Sequence[Example], store: Store) -> list[tuple[float, float]]:
    """For each annotated phrase the overlap of its true box, and of another entity's, with the likely places."""
    rows = []
    for example in examples:
        regions = store[example.id]
        across, down = (float(a) / b for a, b in zip(regions.size[0].tolist(), example.size, strict=True))
        for i, caption in enumerate(example.captions):
            gold = [phrase for phrase in example.gold if phrase.caption == i and phrase.boxes]
            for one in caption_evidence(auditor.grounder, regions, caption, in_caption=True):
                own = next((g for g in gold if caption.spans[g.span[1] - 1][1] == one.span[1]), None)
                if own is None:
                    continue
                others = [g for g in example.gold if g.boxes and g.entity != own.entity and _apart(own.boxes, g.boxes)]
                if others:
                    likely = [place.box for place in one.likely]
                    pair = [Place((0, 0), tuple(_scaled(b, across, down) for b in g.boxes)) for g in (own, others[0])]
                    rows.append((best_overlap(pair[0], likely), best_overlap(pair[1], likely)))
    return rows


def _apart(a: Sequence[Box], b: Sequence[Box]) -> bool:
    return all(best_overlap(Place((0, 0), (x,)), [y]) < 0.1 for x in a for y in b)


def _scaled(box: Box, across: float, down: float) -> Box:
    return box[0] * across, box[1] * down, box[2] * across, box[3] * down


if __name__ == "__main__":
    main()
