"""What the README shows: load a model, caption an image, look at it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from groundling import generate, recipes
from groundling.errors import GroundlingError
from groundling.grounding import PhraseGrounder, read_presence
from groundling.loading import CAPTIONER, GROUNDER, Picture, device_of, opened, shipped, source_of
from groundling.recipes.teachers import matcher_of
from groundling.regions.fingerprints import require
from groundling.regions.media import of_media
from groundling.regions.store import Store
from groundling.report.picture import draw as draw_caption
from groundling.report.picture import draw_clip
from groundling.tensors import Captioner, Decoding, Matcher, Regions, RegionSource, Scene
from groundling.types import GroundedCaption
from groundling.video import FRAMES, Segment, frame_count, frames, is_clip


@dataclass(frozen=True)
class Likeliest:
    """Say the likeliest words that a beam finds; a beam of 1 takes the likeliest word at every step."""

    beam: int = 1
    length_penalty: float = 0.0  # captions are compared by Σ logp / tokens^length_penalty
    no_repeat: int = 0  # no n-gram of this size twice; 0 allows all
    min_length: int = 0  # words

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise GroundlingError(f"the beam must be 1 or more, got {self.beam}")
        if min(self.length_penalty, self.no_repeat, self.min_length) < 0:
            raise GroundlingError("length_penalty, no_repeat and min_length must be 0 or more")

    def __call__(self, captioner: Captioner, scene: Scene, length: int) -> Decoding:
        if self.beam == 1 and not (self.no_repeat or self.min_length):
            return generate.greedy(captioner, scene, length)
        return generate.beam(
            captioner,
            scene,
            length,
            width=self.beam,
            length_penalty=self.length_penalty,
            no_repeat=self.no_repeat,
            min_length=self.min_length,
        )


@dataclass(frozen=True)
class Drawn:
    """Draw every word at random, as likely as the model finds it. The same seed and images give the same words."""

    temperature: float = 1.0  # words are drawn from p^(1/temperature)
    top_k: int = 0  # among so many likeliest words; 0: all
    top_p: float = 1.0  # among the fewest words that have this probability together
    seed: int = 0

    def __post_init__(self) -> None:
        if self.temperature <= 0 or self.top_k < 0 or not 0 < self.top_p <= 1:
            raise GroundlingError("temperature must be above 0, top_k 0 or more, top_p above 0 and at most 1")

    def __call__(self, captioner: Captioner, scene: Scene, length: int) -> Decoding:
        generator = torch.Generator(scene.row.device).manual_seed(self.seed)
        return generate.sample(
            captioner,
            scene,
            length,
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            generator=generator,
        )


Manner = Likeliest | Drawn
GREEDY = Likeliest()
TRUST = 0.5  # in a grounder's second look; chosen on the validation split of Flickr8k


@dataclass(frozen=True)
class Again:
    """A grounder or matcher that looks again at what was said: see `generate.look_again`."""

    matcher: Matcher  # hears the captioner's words
    trust: float  # 0: only the captioner is believed; 1: only the matcher
    grounder: PhraseGrounder | None = None  # the same, where it knows how likely a word is in the image at all


class Pointer:
    """A trained captioner that points. Made by `load`."""

    def __init__(self, model: recipes.Model, device: torch.device, again: Again | None = None) -> None:
        self.model, self.device, self.again = model, device, again

    @cached_property
    def source(self) -> RegionSource:
        """The region source that the model was trained on, made from its fingerprint."""
        return source_of(self.model.fingerprint)

    def caption(self, image: Picture, manner: Manner = GREEDY) -> GroundedCaption:
        """Caption one image: a path or a PIL image."""
        name = "" if isinstance(image, Image.Image) else str(image)
        return self.say(self.regions(image), [Path(name).stem], [name], manner)[0]

    def caption_video(
        self, clip: str | Path, count: int = FRAMES, segment: Segment | None = None, manner: Manner = GREEDY
    ) -> GroundedCaption:
        """Caption a video file by so many frames of it, or of the segment between two times in seconds."""
        regions = of_media(self.source, clip, count, segment)
        [said] = self.say(regions, [Path(clip).stem], [str(clip)], manner)
        return replace(said, frames=frame_count(clip, count), segment=segment)

    def captions_of(
        self, store: Store, ids: Iterable[str], manner: Manner = GREEDY, *, batch: int = 64
    ) -> Iterator[GroundedCaption]:
        """Caption images whose regions are in a store; refuses a store of another extractor."""
        require(store.fingerprint, self.model.fingerprint)
        rest = iter(ids)
        while chunk := list(islice(rest, batch)):
            yield from self.say(store.batch(chunk), chunk, [""] * len(chunk), manner)

    def regions(self, image: Picture) -> Regions:
        """What the model sees of an image (B = 1). Several become one batch for `say` by `Regions.stack`."""
        return self.source(opened(image))

    def say(
        self, regions: Regions, ids: Sequence[str], media: Sequence[str], manner: Manner = GREEDY
    ) -> list[GroundedCaption]:
        """Caption B images by their regions; `ids` and `media` are only passed on."""
        model = self.model
        seen = regions.first(model.recipe.regions_per_image).to(self.device)
        with torch.inference_mode():
            said = manner(model.captioner, model.captioner.encode(seen), model.length)
            if self.again is not None:
                said = generate.look_again(said, seen, self.again.matcher, self.again.trust)
        captions = generate.ground(said, seen, model.vocab, ids, model.groundable, media=media)
        if self.again is None or self.again.grounder is None:
            return captions
        weigh = self.again.grounder.weigh  # by all regions that the grounder was calibrated with
        return [weigh(one, regions[slice(i, i + 1)]) for i, one in enumerate(captions)]


def load(path: str | Path = "", device: str = "cpu", *, grounder: str | Path = "", trust: float = TRUST) -> Pointer:
    """A model from the folder that `groundling train --out` wrote, ready on a device: cpu, cuda, mps.

    `grounder`: the folder of a grounder or matcher that looks again at what the captioner says. `trust`: how much its
    word counts, from 0 to 1. Without a path, the captioner and the grounder that come with the package.
    """
    if not 0 <= trust <= 1:
        raise GroundlingError(f"trust is from 0 to 1, got {trust}")
    place = device_of(device)
    if not path:
        path, grounder = shipped(CAPTIONER), grounder or shipped(GROUNDER)
    model = recipes.load(path)
    model.parts.to(place)
    return Pointer(model, place, _again(Path(grounder), trust, model, place) if grounder else None)


def _again(folder: Path, trust: float, model: recipes.Model, device: torch.device) -> Again:
    found = recipes.load(folder)
    matcher: Any = matcher_of(found, str(folder), model.vocab, model.fingerprint).to(device)
    presence = read_presence(folder)
    return Again(matcher, trust, None if presence is None else PhraseGrounder(found, presence, device))


def draw(image: Picture, said: GroundedCaption) -> Image.Image:
    """The image with its boxes, the caption below; of a clip its frames, side by side."""
    if not isinstance(image, Image.Image) and is_clip(image):
        return draw_clip(list(frames(image, said.frames or FRAMES, said.segment)), said)
    return draw_caption(opened(image), said)
