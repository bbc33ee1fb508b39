"""From an image and its captions to labels.

Each noun phrase of each caption is ranked over the regions of the image; phrases that name one thing become one label
(`merge`), whose boxes are chosen by all of its mentions together (`placing`); a calibration, where there is one, turns
the score of a box into the probability that it is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groundling.errors import DataError, MissingExtra
from groundling.labels import calibration, grounder
from groundling.labels.inputs import Pair
from groundling.labels.label import Label, LabelledImage, Mention, PlacedBox
from groundling.labels.merge import chains
from groundling.labels.phrases import NounPhrase, parsed
from groundling.labels.placing import Placed, best_overlaps, place
from groundling.types import LIKELY

if TYPE_CHECKING:
    from groundling.labels.calibration import Calibration
    from groundling.regions.store import Store
    from groundling.tensors import Regions

NOT_VISIBLE = {"view", "background", "foreground", "front", "side", "middle", "top", "bottom", "back", "distance"}
NOT_VISIBLE |= {"day", "night", "time", "way", "part", "end", "center", "edge", "other", "something", "air", "while"}


@dataclass(frozen=True)
class Labeller:
    """Made by `load`. `store`: regions that were made before; without it they are made from the images."""

    model: grounder.Grounder
    calibration: Calibration | None = None
    store: Store | None = None

    def image(self, media: str, captions: Sequence[str], id: str = "") -> LabelledImage:
        """The labels of one image file."""
        return next(self.images([Pair(id or media, media, tuple(captions))]))

    def images(self, pairs: Iterable[Pair]) -> Iterator[LabelledImage]:
        """The labels of images, in their order. An image that cannot be read says so in `problem`."""
        some = list(pairs)
        for pair, phrases in zip(some, parsed([pair.captions for pair in some]), strict=True):
            try:
                yield self._labelled(pair, phrases)
            except MissingExtra:
                raise
            except DataError as error:
                yield LabelledImage(pair.id, pair.media, (0, 0), pair.captions, (), pair.split, str(error))

    @property
    def about(self) -> dict[str, Any]:
        """What the labels depend on, as JSON."""
        return self.model.about | {"calibration": self.calibration.to_json() if self.calibration else None}

    def _labelled(self, pair: Pair, phrases: Sequence[NounPhrase]) -> LabelledImage:
        regions = self._regions(pair)
        width, height = (round(side) for side in regions.size[0].tolist())
        labels = self.labels(regions, phrases) if phrases else []
        return LabelledImage(pair.id, pair.media, (width, height), pair.captions, tuple(labels), pair.split)

    def labels(self, regions: Regions, phrases: Sequence[NounPhrase]) -> list[Label]:
        """The labels of an image (B = 1) whose regions are known, in order of first mention."""
        ranked = self.model.rank(regions, [phrase.tokens for phrase in phrases])
        things = chains(phrases, best_overlaps(ranked))
        placed = place(ranked, phrases, things, self.model.class_names)
        return [
            self._label([phrases[i] for i in members], where) for members, where in zip(things, placed, strict=True)
        ]

    def _label(self, phrases: Sequence[NounPhrase], where: Placed) -> Label:
        named = max(phrases, key=lambda phrase: (bool(phrase.head), len(phrase.tokens)))
        mentions = tuple(Mention(phrase.caption, phrase.span) for phrase in phrases)
        sure = self.calibration or calibration.RAW
        scores = sure.probability(where.scores, len(where.boxes) > 1)
        boxes = [PlacedBox(box, score, p) for box, score, p in zip(where.boxes, where.scores, scores, strict=True)]
        label = Label(named.text, named.head, mentions, tuple(boxes), where.evidence)
        return replace(label, left_out=_why_left_out(label))

    def _regions(self, pair: Pair) -> Regions:
        if self.store is None:
            return self.model.regions(pair.opened())
        return self.store[pair.id]


def load(model: str = "", device: str = "cpu", regions: str = "", calibrated: str = "") -> Labeller:
    """The labeller of a grounder's folder; ours without a folder.

    `regions`: a region store of the images. `calibrated`: a file of calibration; else the one beside the grounder.
    """
    found = grounder.load(model, device)
    sure = calibration.read(Path(calibrated)) if calibrated else calibration.beside(found.folder, found.digest)
    return Labeller(found, sure, found.store(regions) if regions else None)


def _why_left_out(label: Label) -> str:
    if not label.head:
        return "names no thing: a pronoun, or no noun"
    if label.head in NOT_VISIBLE:
        return f"{label.head!r} names no thing that has a box"
    if label.evidence is not None and label.evidence < LIKELY:
        return f"probably not in the image (evidence {label.evidence:.2f})"
    return ""
