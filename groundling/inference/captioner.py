"""A trained captioner that points: images in, captions out, every noun with its box."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from groundling import recipes
from groundling.errors import GroundlingError
from groundling.images import Picture, opened
from groundling.inference import links
from groundling.inference.calibration import read_calibration
from groundling.inference.grounder import PhraseGrounder
from groundling.inference.loading import CAPTIONER, GROUNDER, device_of, model_folder, source_of
from groundling.inference.settings import GREEDY, DecodingSettings
from groundling.recipes._teachers import matcher_of
from groundling.regions.fingerprints import require
from groundling.regions.media import of_media
from groundling.regions.store import Store
from groundling.tensors import Matcher, Regions, RegionSource
from groundling.types import GroundedCaption
from groundling.video import FRAMES, Segment, frame_count

GROUNDER_WEIGHT = 0.5  # chosen on the validation split of Flickr8k


@dataclass(frozen=True)
class Reranker:
    """A grounder or matcher that chooses the box of each noun together with the captioner: see `links.rerank`."""

    matcher: Matcher  # takes the captioner's word ids
    weight: float  # 0: only the captioner's attention counts; 1: only the matcher's
    grounder: PhraseGrounder | None = None  # the same, where it is calibrated: gives the evidence of each noun


class GroundedCaptioner:
    """A trained captioner that points. Made by `load`."""

    def __init__(self, model: recipes.Model, device: torch.device, reranker: Reranker | None = None) -> None:
        self.model, self.device, self.reranker = model, device, reranker

    @cached_property
    def source(self) -> RegionSource:
        """The region source that the model was trained on, made from its fingerprint."""
        return source_of(self.model.fingerprint)

    def caption(self, image: Picture, decoding: DecodingSettings = GREEDY) -> GroundedCaption:
        """Caption one image: a path or a PIL image."""
        name = "" if isinstance(image, Image.Image) else str(image)
        return self.generate(self.regions(image), [Path(name).stem], [name], decoding)[0]

    def caption_video(
        self, clip: str | Path, count: int = FRAMES, segment: Segment | None = None, decoding: DecodingSettings = GREEDY
    ) -> GroundedCaption:
        """Caption a video file by so many frames of it, or of the segment between two times in seconds."""
        regions = of_media(self.source, clip, count, segment)
        [caption] = self.generate(regions, [Path(clip).stem], [str(clip)], decoding)
        return replace(caption, frames=frame_count(clip, count), segment=segment)

    def captions_of(
        self, store: Store, ids: Iterable[str], decoding: DecodingSettings = GREEDY, *, batch: int = 64
    ) -> Iterator[GroundedCaption]:
        """Caption images whose regions are in a store; refuses a store of another extractor."""
        require(store.fingerprint, self.model.fingerprint)
        rest = iter(ids)
        while chunk := list(islice(rest, batch)):
            yield from self.generate(store.batch(chunk), chunk, [""] * len(chunk), decoding)

    def regions(self, image: Picture) -> Regions:
        """The regions of an image (B = 1). `Regions.stack` makes one batch of several, for `generate`."""
        return self.source(opened(image))

    def generate(
        self, regions: Regions, ids: Sequence[str], media: Sequence[str], decoding: DecodingSettings = GREEDY
    ) -> list[GroundedCaption]:
        """Caption B images by their regions; `ids` and `media` are only passed on."""
        model = self.model
        seen = regions.first(model.recipe.regions_per_image).to(self.device)
        with torch.inference_mode():
            decoded = decoding(model.captioner, model.captioner.encode(seen), model.length)
            if self.reranker is not None:
                decoded = links.rerank(decoded, seen, self.reranker.matcher, self.reranker.weight)
        captions = links.link(decoded, seen, model.vocab, ids, model.groundable, media=media)
        if self.reranker is None or self.reranker.grounder is None:
            return captions
        add_evidence = self.reranker.grounder.add_evidence  # by all regions that the grounder was calibrated with
        return [add_evidence(one, regions[slice(i, i + 1)]) for i, one in enumerate(captions)]


def load(
    path: str | Path = "",
    device: str = "cpu",
    *,
    grounder: str | Path = "",
    grounder_weight: float = GROUNDER_WEIGHT,
) -> GroundedCaptioner:
    """A captioner, ready on a device.

    `path`: the folder that `groundling train --out` wrote, or the name of weights in the package: everyday (default),
    flickr8k, each with its grounder. `device`: cpu, cuda or mps. `grounder`: the folder of a grounder or matcher that
    helps to choose the box of each noun and, where it is calibrated, gives its evidence. `grounder_weight`: how much it
    counts against the captioner's own attention, from 0 to 1.
    """
    if not 0 <= grounder_weight <= 1:
        raise GroundlingError(f"grounder_weight is from 0 to 1, got {grounder_weight}")
    where = device_of(device)
    folder = model_folder(path, CAPTIONER)
    if folder != Path(path):  # weights of the package, which are a captioner and a grounder
        grounder = grounder or model_folder(path, GROUNDER)
    model = recipes.load(folder)
    model.parts.to(where)
    return GroundedCaptioner(
        model, where, _reranker(Path(grounder), grounder_weight, model, where) if grounder else None
    )


def _reranker(folder: Path, weight: float, model: recipes.Model, device: torch.device) -> Reranker:
    trained = recipes.load(folder)
    matcher: Any = matcher_of(trained, str(folder), model.vocab, model.fingerprint).to(device)
    calibration = read_calibration(folder)
    return Reranker(matcher, weight, None if calibration is None else PhraseGrounder(trained, calibration, device))
