"""What the README shows: load a model, caption an image, look at it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path

import torch
from PIL import Image

from groundling import generate, recipes
from groundling.draw import draw as draw_caption
from groundling.images import open_image
from groundling.regions.fingerprints import require
from groundling.regions.sources import source
from groundling.regions.store import Store
from groundling.tensors import Regions, RegionSource
from groundling.types import GroundedCaption

Picture = str | Path | Image.Image


class Pointer:
    """A trained captioner that points. Made by `load`."""

    def __init__(self, model: recipes.Model) -> None:
        self.model = model

    @cached_property
    def source(self) -> RegionSource:
        """The region source that the model was trained on, made from its fingerprint."""
        made = source(self.model.fingerprint.name, **self.model.fingerprint.parameters)
        require(made.fingerprint, self.model.fingerprint)
        return made

    def caption(self, image: Picture, *, beam: int = 1) -> GroundedCaption:
        """Caption one image: a path or a PIL image."""
        name = "" if isinstance(image, Image.Image) else str(image)
        picture = image.convert("RGB") if isinstance(image, Image.Image) else open_image(image)
        return self.say(self.source(picture), [Path(name).stem], [name], beam=beam)[0]

    def captions(self, images: Iterable[Picture], *, beam: int = 1) -> Iterator[GroundedCaption]:
        for image in images:
            yield self.caption(image, beam=beam)

    def captions_of(
        self, store: Store, ids: Iterable[str], *, beam: int = 1, batch: int = 64
    ) -> Iterator[GroundedCaption]:
        """Caption images whose regions are in a store; refuses a store of another extractor."""
        require(store.fingerprint, self.model.fingerprint)
        rest = iter(ids)
        while chunk := list(islice(rest, batch)):
            yield from self.say(store.batch(chunk), chunk, [""] * len(chunk), beam=beam)

    def say(
        self, regions: Regions, ids: Sequence[str], media: Sequence[str], *, beam: int = 1
    ) -> list[GroundedCaption]:
        """Caption regions: greedily, or with a beam."""
        model = self.model
        regions = regions.first(model.recipe.regions_per_image)
        with torch.inference_mode():
            scene = model.captioner.encode(regions)
            if beam > 1:
                said = generate.beam(model.captioner, scene, model.length, width=beam)
            else:
                said = generate.greedy(model.captioner, scene, model.length)
        return generate.ground(said, regions, model.vocab, ids, model.groundable, media=media)


def load(path: str | Path) -> Pointer:
    """A model from the folder that `groundling train --out` wrote."""
    return Pointer(recipes.load(Path(path)))


def draw(image: Picture, said: GroundedCaption) -> Image.Image:
    """The image with its boxes, the caption below."""
    return draw_caption(image if isinstance(image, Image.Image) else open_image(image), said)
