"""Labels against what people drew: precision and recall over confidence, calibration, and chains against theirs.

A mention of a label and an annotated phrase of the same caption are the same when they share at least half the
characters of the shorter. A label means the entity that most of its mentions are marked as. Of such a label, a box
is right when its IoU with a true box that no surer box has claimed is at least a half, or, where the label has one box
alone, its IoU with the box around all true ones. Labels of entities without a box are counted on their own: nobody
drew them, so nobody knows; `strict_precision` takes each for wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groundling.boxes import iou_of_arrays
from groundling.errors import DataError
from groundling.inference.calibration import in_first_half
from groundling.labels.calibration import Calibration, CheckedBox, fit
from groundling.labels.label import Label, LabelledImage, Mention, PlacedBox
from groundling.metrics.calibration import Bin, expected_calibration_error, reliability
from groundling.metrics.statistics import Statistics, mean_statistics, signature
from groundling.types import Box, Example, Span

RIGHT = 0.5  # IoU
STEPS = tuple(round(0.05 * i, 2) for i in range(20))  # thresholds of the curve
NO_ENTITY = "0"  # entity of phrases that name nothing visible

Array = NDArray[np.float64]
Chain = str  # an entity of an image, as the data set names it


@dataclass(frozen=True)
class ScoredBox:
    """A box of a label, compared with the truth. `right` is None where nobody drew the thing."""

    placed: PlacedBox
    right: bool | None
    image: str
    entity: Chain


@dataclass(frozen=True)
class Point:
    """What labels are worth from a confidence on."""

    threshold: float
    boxes: int
    precision: float
    strict_precision: float
    recall: float  # entities with a right box, of all that people drew
    box_recall: float  # true boxes that were found


@dataclass(frozen=True)
class Chains:
    """Merged phrases against the entities of the annotators, over mentions that both have."""

    mentions: int
    precision: float  # of pairs of mentions that are one thing
    recall: float
    b3: float  # F1 of B-cubed

    @property
    def f1(self) -> float:
        return 2 * self.precision * self.recall / max(1e-12, self.precision + self.recall)


@dataclass
class Tally:
    """Sums over images, from which everything is told."""

    boxes: list[ScoredBox] = field(default_factory=list)
    entities: int = 0  # that have boxes
    true_boxes: int = 0
    unmatched: int = 0  # boxes of labels that no annotated phrase names
    images: int = 0
    together: int = 0  # pairs of mentions: one thing in both
    ours: int = 0
    theirs: int = 0
    cubes: list[tuple[float, float]] = field(default_factory=list)

    def add(self, image: LabelledImage, example: Example) -> None:
        """One image. Labels that were left out for doubt count too: their confidence is known."""
        self.images += 1
        truth = {one.entity: one.boxes for one in example.gold if one.boxes and one.entity != NO_ENTITY}
        self.entities += len(truth)
        self.true_boxes += sum(len(set(boxes)) for boxes in truth.values())
        spans = _marked(example)
        linked = [[_entity(mention, spans) for mention in label.mentions] for label in image.labels]
        self._chains(linked)
        for label, entities in zip(image.labels, linked, strict=True):
            if not (label.kept or label.doubtful):
                continue
            known = Counter(entity for entity in entities if entity is not None)
            if not known:
                self.unmatched += len(label.boxes)
                continue
            entity = known.most_common(1)[0][0]
            self.boxes += _scored(label, entity, truth.get(entity, ()), example.id)

    def _chains(self, linked: Sequence[Sequence[Chain | None]]) -> None:
        ours = [[entity for entity in chain if entity not in (None, NO_ENTITY)] for chain in linked]
        both = Counter((at, entity) for at, chain in enumerate(ours) for entity in chain)
        sizes, chains = [len(chain) for chain in ours], Counter(entity for chain in ours for entity in chain)
        self.together += sum(n * (n - 1) // 2 for n in both.values())
        self.ours += sum(n * (n - 1) // 2 for n in sizes)
        self.theirs += sum(n * (n - 1) // 2 for n in chains.values())
        for (at, entity), n in both.items():
            self.cubes += [(n / sizes[at], n / chains[entity])] * n

    # ------------------------------------------------------------ results

    def chains(self) -> Chains:
        b3 = np.array(self.cubes).mean(0) if self.cubes else np.zeros(2)
        f1 = float(2 * b3.prod() / max(1e-12, b3.sum()))
        return Chains(len(self.cubes), self.together / max(1, self.ours), self.together / max(1, self.theirs), f1)

    def curve(self, confidence: Sequence[float] | None = None) -> list[Point]:
        """Precision and recall from each confidence on; of other confidences than the labels' own where given."""
        confidences = self._confidences(confidence)
        return [self.point(threshold, confidences) for threshold in STEPS]

    def _confidences(self, confidence: Sequence[float] | None) -> Array:
        return np.array([one.placed.confidence for one in self.boxes] if confidence is None else confidence, float)

    def point(self, threshold: float, confidence: Sequence[float] | Array | None = None) -> Point:
        confidences = confidence if isinstance(confidence, np.ndarray) else self._confidences(confidence)
        some = [one for one, keep in zip(self.boxes, confidences >= threshold, strict=True) if keep]
        drawn = [one for one in some if one.right is not None]
        right = [one for one in drawn if one.right]
        found = len({(one.image, one.entity) for one in right})
        return Point(
            threshold,
            len(some),
            len(right) / max(1, len(drawn)),
            len(right) / max(1, len(some)),
            found / max(1, self.entities),
            min(1.0, len(right) / max(1, self.true_boxes)),
        )

    def reliability(self, confidence: Sequence[float] | None = None) -> tuple[float, list[Bin]]:
        """The expected calibration error of boxes whose truth is known, and its bins."""
        confidences = self._confidences(confidence).tolist()
        pairs = [(p, float(one.right)) for p, one in zip(confidences, self.boxes, strict=True) if one.right is not None]
        if not pairs:
            raise DataError("no label has a phrase with annotated boxes, so nothing can be scored")
        stated, true = np.array(pairs).T
        bins = reliability(stated, true)
        return expected_calibration_error(bins), bins

    def checked(self) -> list[CheckedBox]:
        """What a calibration is fitted on."""
        return [CheckedBox(one.placed, one.right, one.image) for one in self.boxes if one.right is not None]


def report(
    images: Iterable[LabelledImage], examples: Mapping[str, Example], digest: str = ""
) -> tuple[dict[str, Any], Calibration]:
    """All that is known of these labels, as JSON; and a calibration, fitted on the first half of the images.

    "as_labelled" is of all images; "calibrated" is what the calibration gives on the second half.
    """
    whole, first, second = Tally(), Tally(), Tally()
    for image in images:
        if image.id in examples:
            for tally in (whole, first if in_first_half(image.id) else second):
                tally.add(image, examples[image.id])
    if not whole.boxes:
        raise DataError("none of these labels is of an image and a phrase that people annotated")
    fitted = fit(first.checked(), digest)
    row: dict[str, Any] = _counts(whole) | {"chains": asdict(whole.chains()) | {"f1": whole.chains().f1}}
    row["as_labelled"] = _judgement(whole, None)
    confidences = fitted.confidence([one.placed for one in second.boxes])
    row["calibrated"] = _counts(second) | _judgement(second, confidences) | {"fitted_on": fitted.boxes}
    row["calibrated"]["at_threshold"] = asdict(second.point(fitted.threshold, confidences))
    return row, fitted


def entities_found(images: Iterable[LabelledImage], examples: Mapping[str, Example]) -> Statistics:
    """The share of an image's entities that have a right box, however sure; mean over images with entities."""
    rows = []
    for image in images:
        tally = Tally()
        if image.id in examples:
            tally.add(image, examples[image.id])
        if tally.entities:
            rows.append((image.id, tally.point(0.0).recall))
    if not rows:
        raise DataError("none of these labels is of an image in which people drew boxes of phrases")
    about = signature("entities_found", iou=RIGHT)
    return mean_statistics("entities_found", about, tuple(id for id, _ in rows), np.array([value for _, value in rows]))


def _counts(tally: Tally) -> dict[str, Any]:
    row = {"images": tally.images, "entities": tally.entities, "true_boxes": tally.true_boxes}
    row |= {"boxes": len(tally.boxes), "not_drawn": sum(one.right is None for one in tally.boxes)}
    return row | {"unmatched": tally.unmatched}


def _judgement(tally: Tally, confidence: Sequence[float] | None) -> dict[str, Any]:
    error, bins = tally.reliability(confidence)
    curve = [asdict(point) for point in tally.curve(confidence)]
    return {"ece": error, "curve": curve, "reliability": [asdict(one) for one in bins]}


def _marked(example: Example) -> dict[int, list[tuple[Span, Chain]]]:
    """Annotated phrases of each caption: characters and entity."""
    found: dict[int, list[tuple[Span, Chain]]] = {}
    for phrase in example.gold:
        spans = example.captions[phrase.caption].spans[slice(*phrase.span)]
        found.setdefault(phrase.caption, []).append(((spans[0][0], spans[-1][1]), phrase.entity))
    return found


def _entity(mention: Mention, marked: Mapping[int, Sequence[tuple[Span, Chain]]]) -> Chain | None:
    """The entity of the annotated phrase that a mention shares most with; None where it shares too little."""
    best, found = 0, None
    for (start, end), entity in marked.get(mention.caption, ()):
        shared = min(end, mention.span[1]) - max(start, mention.span[0])
        shorter = min(end - start, mention.span[1] - mention.span[0])
        if shared > best and 2 * shared >= shorter:
            best, found = shared, entity
    return found


def _scored(label: Label, entity: Chain, truth: Sequence[Box], image: str) -> list[ScoredBox]:
    right = (
        _right([placed.box for placed in label.boxes], list(dict.fromkeys(truth))) if truth and label.boxes else None
    )
    return [
        ScoredBox(placed, None if right is None else right[i], image, entity) for i, placed in enumerate(label.boxes)
    ]


def _right(boxes: Sequence[Box], truth: Sequence[Box]) -> list[bool]:
    """Which boxes, the surest first, find a true box of their own."""
    overlap = iou_of_arrays(np.array(boxes, float), np.array(truth, float))
    out = []
    for row in overlap:
        best = int(row.argmax())
        out.append(bool(row[best] >= RIGHT))
        if out[-1]:
            overlap[:, best] = -1
    if len(boxes) == 1 and not out[0]:
        around = np.array(truth, float)
        whole = np.concatenate([around[:, :2].min(0), around[:, 2:].max(0)])[None]
        out = [bool(iou_of_arrays(np.array(boxes, float), whole)[0, 0] >= RIGHT)]
    return out
