"""From an image and its captions to labels.

Each noun phrase of each caption is ranked over the regions of the image; phrases that name one thing become one label
(`merge`), whose boxes are chosen by all of its mentions together (`placing`); a calibration, where there is one, turns
the score of a box into the probability that it is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groundling.errors import DataError, GroundlingError, MissingExtra
from groundling.inference.bodies import PARTS
from groundling.inference.evidence import THRESHOLD
from groundling.inference.inputs import with_pixels
from groundling.labels import calibration, grounder
from groundling.labels.inputs import Pair
from groundling.labels.label import ABSENT, Label, LabelledImage, Mention, PlacedBox
from groundling.labels.merge import chains
from groundling.labels.phrases import CaptionPhrase, caption_phrases, most_telling
from groundling.labels.placing import Placed, best_overlaps, place
from groundling.text.vocab import last_word

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
        for pair, phrases in zip(some, _phrases(some), strict=True):
            try:
                if isinstance(phrases, DataError):
                    raise phrases
                yield self._labelled(pair, phrases)
            except MissingExtra:
                raise
            except DataError as error:
                yield LabelledImage(pair.id, pair.media, (0, 0), pair.captions, (), pair.split, str(error))

    @property
    def about(self) -> dict[str, Any]:
        """What the labels depend on, as JSON."""
        return self.model.about | {"calibration": self.calibration.to_json() if self.calibration else None}

    def _labelled(self, pair: Pair, phrases: Sequence[CaptionPhrase]) -> LabelledImage:
        regions = self._regions(pair, _nouns(phrases))
        width, height = (round(side) for side in regions.size[0].tolist())
        labels = self.labels(regions, phrases) if phrases else []
        return LabelledImage(pair.id, pair.media, (width, height), pair.captions, tuple(labels), pair.split)

    def labels(self, regions: Regions, phrases: Sequence[CaptionPhrase]) -> list[Label]:
        """The labels of an image (B = 1) whose regions are known, in order of first mention."""
        ranked = self.model.rank(regions, [phrase.tokens for phrase in phrases], _nouns(phrases))
        things = chains(phrases, best_overlaps(ranked))
        placed = place(ranked, phrases, things)
        return [
            self._label([phrases[i] for i in members], where) for members, where in zip(things, placed, strict=True)
        ]

    def _label(self, phrases: Sequence[CaptionPhrase], where: Placed) -> Label:
        named = most_telling(phrases)
        mentions = tuple(Mention(one.caption, one.phrase.span) for one in phrases)
        boxes = [PlacedBox(*row) for row in zip(where.boxes, where.scores, where.scores, where.features, strict=True)]
        if self.calibration:
            sure = self.calibration.confidence(boxes)
            boxes = [replace(placed, confidence=p) for placed, p in zip(boxes, sure, strict=True)]
            boxes.sort(key=lambda placed: -placed.confidence)
        label = Label(named.phrase.text, named.head, mentions, tuple(boxes), where.evidence)
        return replace(label, left_out=self._why_left_out(label))

    def _why_left_out(self, label: Label) -> str:
        """A calibrated confidence reckons with the evidence already."""
        if not label.head:
            return "names no thing: a pronoun, or no noun"
        if label.head in NOT_VISIBLE:
            return f"{label.head!r} names no thing that has a box"
        if self.calibration is None and label.evidence is not None and label.evidence < THRESHOLD:
            return f"{ABSENT} (evidence {label.evidence:.2f})"
        return ""

    def _regions(self, pair: Pair, nouns: Sequence[str]) -> Regions:
        """Those of a store with the pixels of the image where a noun is a part of a body and they can be read."""
        if self.store is None:
            return self.model.regions(pair.opened())
        regions = self.store[pair.id]
        if self.model.model.joints and not PARTS.keys().isdisjoint(map(last_word, nouns)):
            with suppress(GroundlingError, OSError):
                return with_pixels(regions, pair.opened())
        return regions


def load(
    model: str = "", device: str = "cpu", regions: str = "", calibrated: str = "", joints: bool = True
) -> Labeller:
    """The labeller of a grounder's folder; ours without a folder.

    `regions`: a region store of the images. `calibrated`: a file of calibration; else the one beside the grounder.
    `joints`: as of `load_grounder`.
    """
    found = grounder.load(model, device, joints)
    sure = calibration.read(Path(calibrated)) if calibrated else calibration.beside(found.folder, found.digest)
    return Labeller(found, sure, found.store(regions) if regions else None)


def _nouns(phrases: Sequence[CaptionPhrase]) -> list[str]:
    """Their heads; the last word of a phrase that has none."""
    return [phrase.head or phrase.tokens[-1] for phrase in phrases]


def _phrases(pairs: Sequence[Pair]) -> list[list[CaptionPhrase] | DataError]:
    """The phrases of each image; why not, where one of its captions cannot be read (too long): the others are."""
    try:
        return [*caption_phrases([pair.captions for pair in pairs])]
    except MissingExtra:
        raise
    except GroundlingError as error:
        if len(pairs) == 1:
            return [DataError(str(error))]
        return [found for pair in pairs for found in _phrases([pair])]
