"""Phrases of a sentence, each with its place in an image.

    from groundling import grounding

    model = grounding.load()  # or the folder of one that you trained
    for found in model.ground("photo.jpg", "a man in a red shirt holding a guitar"):
        print(found.phrase, found.box, found.presence)

A phrase is at the box that most likely covers at least half of where it is: argmax_l Σ_m p_m [IoU(l, m) > 1/2], the
step being soft (`boxes.hits`), p = softmax(s / τ). The model may also know how likely it is that the phrase is in the
image at all.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from groundling import recipes
from groundling.boxes import hits
from groundling.errors import DataError, GroundlingError
from groundling.loading import GROUNDER, Picture, device_of, opened, shipped, source_of
from groundling.metrics.calibration import Isotonic
from groundling.models.grounder import Grounder
from groundling.report import picture
from groundling.tensors import Regions, RegionSource
from groundling.text import words
from groundling.text.annotate import annotate
from groundling.types import LIKELY, PAD, UNK, Box, Caption, GroundedCaption, Link, Span

PRESENCE = "presence.json"  # beside the model
FORMAT = 1
THRESHOLD = LIKELY  # a phrase that is less likely to be in the image is not found
SPREAD = 0.08  # temperature of p; chosen on the validation split of Flickr8k
JOINER = "of"  # makes one phrase of two: "a group of people"


@dataclass(frozen=True)
class Found:
    """A phrase and its place. `presence` is None where the model was not calibrated."""

    phrase: str
    span: Span  # its characters in the sentence
    box: Box  # xyxy in pixels
    score: float  # 0 to 1, how sure the model is of the box
    presence: float | None  # probability that the phrase is in the image at all
    unknown: tuple[str, ...] = ()  # words of it that the model never saw

    @property
    def found(self) -> bool:
        return self.presence is None or self.presence >= THRESHOLD

    def to_dict(self) -> dict[str, Any]:
        row = asdict(self) | {"found": self.found, "box": [round(x, 1) for x in self.box]}
        row["score"] = round(self.score, 4)
        row["presence"] = None if self.presence is None else round(self.presence, 4)
        return row


@dataclass(frozen=True)
class Ranking:
    """What a model thinks of P phrases in one image of R regions."""

    similarity: Tensor  # (P, R), s of eq. 1
    overlap: Tensor  # (P, R), how likely each region is right, if the phrase is in the image

    @property
    def evidence(self) -> Tensor:
        """(P,): how well the best region fits, −1 where there is none; what presence is calibrated on."""
        return F.pad(self.similarity, (0, 1), value=-1.0).amax(-1)


class PhraseGrounder:
    """A trained grounder. Made by `load`."""

    def __init__(self, model: recipes.Model, presence: Isotonic | None, device: torch.device) -> None:
        self.model, self.presence, self.device = model, presence, device

    @cached_property
    def matcher(self) -> Grounder:
        matcher = getattr(self.model.parts, "matcher", None)
        if not isinstance(matcher, Grounder):
            name = recipes.recipe_name(self.model.recipe)
            raise GroundlingError(f"{name} grounds no phrases; train a grounder with `groundling train two_branch`")
        return matcher

    @cached_property
    def source(self) -> RegionSource:
        """What makes the regions that the model looks at."""
        return source_of(self.model.fingerprint)

    def regions(self, image: Picture) -> Regions:
        """What the model sees of an image (B = 1)."""
        return self.source(opened(image))

    def ground(self, image: Picture, sentence: str = "", phrases: Sequence[str] = ()) -> list[Found]:
        """Where in an image the noun phrases of a sentence are, or these phrases."""
        return self.place(self.regions(image), sentence, phrases)

    def place(self, regions: Regions, sentence: str = "", phrases: Sequence[str] = ()) -> list[Found]:
        """As `ground`, of an image whose regions (B = 1) are known."""
        said = _given(sentence, phrases) if phrases else noun_phrases(sentence)
        if not said:
            raise GroundlingError(f"no noun phrase in {sentence!r}: name what to look for (--phrase)")
        if not regions.valid.any():
            raise GroundlingError("this image has no regions: there is nothing to choose from")
        tokens = [phrase for _, _, phrase in said]
        ranking = self.rank(regions, tokens)
        best = ranking.overlap.argmax(-1)
        boxes = regions.boxes[0][best.cpu()].tolist()
        scores = ranking.overlap.gather(-1, best[:, None]).squeeze(-1).tolist()
        likely = self.likely(ranking)
        return [
            Found(text, span, (box[0], box[1], box[2], box[3]), score, p, self._unknown(phrase))
            for (text, span, phrase), box, score, p in zip(said, boxes, scores, likely, strict=True)
        ]

    def rank(self, regions: Regions, phrases: Sequence[Sequence[str]]) -> Ranking:
        """Phrases as words, in one image (B = 1)."""
        regions = regions.first(self.model.recipe.regions_per_image).to(self.device)
        with torch.inference_mode():
            seen = self.matcher.see(regions)[0]
            scores = self.matcher.read(self._ids(phrases)) @ seen.T  # (P, R)
            scores = scores.masked_fill(~regions.valid[0], -torch.inf)
            place = (scores / SPREAD).softmax(-1)
            return Ranking(scores, (place @ hits(regions.boxes[0])).masked_fill(~regions.valid[0], -1.0))

    def likely(self, ranking: Ranking) -> list[float | None]:
        """How likely each phrase is in the image."""
        if self.presence is None:
            return [None] * len(ranking.similarity)
        return [float(p) for p in self.presence(ranking.evidence.double().cpu().numpy())]

    def weigh(self, said: GroundedCaption, regions: Regions) -> GroundedCaption:
        """The same caption of an image (B = 1), each link with its evidence: how likely its noun, alone, is there."""
        known = [word for word in {said.word(link): 0 for link in said.links} if word in self.model.vocab]
        if self.presence is None or not known:
            return said
        likely = dict(zip(known, self.likely(self.rank(regions, [[word] for word in known])), strict=True))
        links = tuple(replace(link, evidence=likely.get(said.word(link))) for link in said.links)
        return replace(said, links=links)

    def _ids(self, phrases: Sequence[Sequence[str]]) -> Tensor:
        rows = [self.model.vocab.encode(phrase) or [UNK] for phrase in phrases]
        longest = max(map(len, rows))
        return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows], device=self.device)

    def _unknown(self, phrase: Sequence[str]) -> tuple[str, ...]:
        return tuple(word for word in phrase if word not in self.model.vocab)


def load(path: str | Path = "", device: str = "cpu") -> PhraseGrounder:
    """A grounder from the folder that `groundling train two_branch --out` wrote, and its presence, if it was fitted.

    Without a path, the grounder that comes with the package.
    """
    place = device_of(device)
    folder = Path(path) if path else shipped(GROUNDER)
    model = recipes.load(folder)
    model.parts.to(place)
    found = PhraseGrounder(model, read_presence(folder), place)
    _ = found.matcher
    return found


def read_presence(folder: Path) -> Isotonic | None:
    """The calibration beside a model; None where there is none, DataError where it is damaged."""
    path = folder / PRESENCE
    if not path.exists():
        return None
    try:
        about = json.loads(path.read_bytes())
        if about["format"] != FORMAT:
            raise DataError(f"it has format {about['format']!r}, this version reads {FORMAT}")
        return Isotonic.from_json(about["calibration"])
    except (OSError, KeyError, TypeError, ValueError, RecursionError, DataError) as error:
        raise DataError(f"{path} is damaged; fit it again with `groundling ground --calibrate`: {error}") from error


def noun_phrases(sentence: str) -> list[tuple[str, Span, tuple[str, ...]]]:
    """Text, characters and words of the noun phrases of a sentence; two with "of" between them are one."""
    caption = annotate([words.caption(sentence)])[0]
    return [
        (sentence[first:last], (first, last), caption.tokens[start:end])
        for start, end in joined(caption)
        for first, last in [(caption.spans[start][0], caption.spans[end - 1][1])]
    ]


def joined(caption: Caption) -> list[Span]:
    """The noun phrases of an annotated caption, as spans of tokens."""
    out: list[Span] = []
    for start, end in caption.chunks:
        if out and out[-1][1] == start - 1 and caption.tokens[start - 1] == JOINER:
            out[-1] = out[-1][0], end
        else:
            out.append((start, end))
    return out


def _given(sentence: str, phrases: Sequence[str]) -> list[tuple[str, Span, tuple[str, ...]]]:
    """Phrases as they are given; their characters where the sentence has them, else (0, 0)."""
    said = []
    for phrase in phrases:
        tokens = words.caption(phrase).tokens
        if not tokens:
            raise GroundlingError(f"the phrase {phrase!r} has no word")
        at = sentence.find(phrase)
        said.append((phrase, (at, at + len(phrase)) if at >= 0 else (0, 0), tokens))
    return said


# ---------------------------------------------------------------- pictures


def draw(image: Picture, places: Sequence[Found]) -> Image.Image:
    """The image with a box for each phrase that was found, the phrases below it."""
    return picture.draw(opened(image), as_caption(places))


def as_caption(
    places: Sequence[Found], id: str = "", media: str = "", size: tuple[int, int] = (0, 0)
) -> GroundedCaption:
    """The phrases as one caption, a token each, parted by dots; linked are those that were found."""
    said = tuple(place.phrase if place.found else f"{place.phrase} (not found)" for place in places)
    starts = accumulate((len(one) + 3 for one in said), initial=0)
    spans = tuple((start, start + len(one)) for start, one in zip(starts, said, strict=False))
    links = tuple(
        Link(i, span, place.box, place.score, evidence=place.presence)
        for i, (span, place) in enumerate(zip(spans, places, strict=True))
        if place.found
    )
    return GroundedCaption(id, " · ".join(said), said, spans, links, media=media, size=size)


def heat(regions: Regions, similarity: Tensor, size: tuple[int, int]) -> Tensor:
    """(height, width): for every pixel the mean score of the regions that cover it, 0 to 1 over the image.

    regions: of one image; similarity: (R,) of one phrase; size: width and height of the map.
    """
    width, height = size
    real = regions.valid[0]
    scale = torch.tensor([width, height]) / regions.size[0].clamp(min=1)
    boxes = regions.boxes[0][real] * scale.repeat(2)
    x, y = torch.arange(width) + 0.5, torch.arange(height) + 0.5
    across = ((x >= boxes[:, :1]) & (x < boxes[:, 2:3])).float()  # (R, width)
    down = ((y >= boxes[:, 1:2]) & (y < boxes[:, 3:])).float()
    covered = down.T @ across
    total = down.T @ (across * similarity[real].cpu().float()[:, None])
    mean = torch.where(covered > 0, total / covered.clamp(min=1), torch.inf)
    low, high = mean.min(), mean[covered > 0].max() if (covered > 0).any() else mean.min()
    return ((mean.clamp(max=float(high)) - low) / (high - low).clamp(min=1e-6)).masked_fill(covered == 0, 0.0)


def paint(image: Image.Image, warmth: Tensor) -> Image.Image:
    """The image with a heat map (height, width) over it, red where it is warm."""
    import numpy as np

    warm = np.asarray(warmth)[..., None]
    red, blue = np.array([230.0, 25, 40]), np.array([30.0, 50, 160])
    colour = warm * red + (1 - warm) * blue
    grey = np.asarray(image.convert("RGB").resize((warm.shape[1], warm.shape[0])), float)
    return Image.fromarray((0.55 * grey + 0.45 * colour).clip(0, 255).astype(np.uint8))
