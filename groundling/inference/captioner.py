"""A trained captioner that points: images in, captions out, every noun with its box."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, overload

import torch

from groundling.decoding import GREEDY, DecodingSettings
from groundling.errors import DataError, GroundlingError
from groundling.inference import inputs
from groundling.inference.inputs import Images, Item, OneImage
from groundling.inference.links import Reranker, link, load_reranker
from groundling.inference.loading import CAPTIONER, GROUNDER, device_of, model_folder, source_of
from groundling.recipes import Model
from groundling.recipes import load as load_model
from groundling.regions.fingerprints import require
from groundling.regions.store import Store
from groundling.tensors import Captioner, Regions, RegionSource, digest
from groundling.types import GroundedCaption
from groundling.video import FRAMES, Segment, frame_count

GROUNDER_WEIGHT = 0.5  # chosen on the validation split of Flickr8k
WINDOW, STORED_WINDOW = 16, 64  # images that are captioned together: of files, of a store

OnError = Callable[[str, DataError], None]  # id of an image that cannot be read, and why


class GroundedCaptioner:
    """A trained captioner that points. Made by `load`.

    >>> captioner = groundling.load()
    >>> caption = captioner.caption("photo.jpg")
    >>> [(caption.word(link), link.box) for link in caption]  # doctest: +SKIP
    [('dog', (12.0, 40.5, 180.2, 201.0))]
    >>> captions = captioner.caption("photos/")  # a folder: one caption after the other, as they are asked for
    >>> [caption.id for caption in captions]
    ['beach', 'street']
    """

    def __init__(self, model: Model, device: torch.device, reranker: Reranker | None = None) -> None:
        self.model, self.device, self.reranker = model, device, reranker
        self.length = model.length
        if "captioner" in model.recipe.saved_modules:  # commands that judge matchers load them too
            _ = self.network

    @cached_property
    def network(self) -> Captioner:
        return self.model.captioner

    @cached_property
    def source(self) -> RegionSource:
        """The region source that the model was trained on, made from its fingerprint."""
        return source_of(self.model.fingerprint)

    @property
    def signature(self) -> dict[str, Any]:
        """All that captions depend on, but for images, regions and settings: weights, and the calibration of evidence.

        A matcher that grounds no phrases is not told apart from another: name its folder beside this.
        """
        reranker = self.reranker
        grounder = reranker.grounder if reranker else None
        models = [self.model, *([grounder.model] if grounder else [])]
        return {
            "weights": [digest(model.parts.state_dict()) for model in models],
            "calibration": grounder.calibration.to_json() if grounder and grounder.calibration else None,
            "grounder_weight": reranker.weight if reranker else 0,
        }

    @overload
    def caption(  # type: ignore[overload-overlap]  # a name is one image, unless it is that of a folder
        self,
        images: OneImage,
        decoding: DecodingSettings = GREEDY,
        *,
        regions: Store | None = None,
        frames: int = FRAMES,
        segment: Segment | None = None,
        window: int = 0,
        on_error: OnError | None = None,
    ) -> GroundedCaption: ...

    @overload
    def caption(
        self,
        images: Iterable[OneImage],
        decoding: DecodingSettings = GREEDY,
        *,
        regions: Store | None = None,
        frames: int = FRAMES,
        segment: Segment | None = None,
        window: int = 0,
        on_error: OnError | None = None,
    ) -> Iterator[GroundedCaption]: ...

    def caption(
        self,
        images: Images,
        decoding: DecodingSettings = GREEDY,
        *,
        regions: Store | None = None,
        frames: int = FRAMES,
        segment: Segment | None = None,
        window: int = 0,
        on_error: OnError | None = None,
    ) -> GroundedCaption | Iterator[GroundedCaption]:
        """Caption one image, or many.

        images: one image or video: the path of a file, a PIL image, an array (height × width × 3, uint8, RGB), a
            tensor (3 × height × width, uint8 or from 0 to 1) or an example of a data set. Or many: a list or any
            iterable of these, an array or a tensor of four dimensions, or a folder.
            One image gives its caption. Many give an iterator, and no more than a window of them is in memory.
            (For a type checker a name is one image: write `caption([folder])`.)
        decoding: how words are chosen: `BeamSearch(beam=3)`, `Sampling(temperature=0.7, seed=1)`; greedy by default.
        regions: a store that holds the regions of the images. Then nothing is read but the store, and an image may be
            given by its id alone. It must be of the region source that the model was trained on.
        frames: how many frames of a video file are looked at, at the middles of as many equal parts.
        segment: from, to, in seconds: only this part of a video. Examples of a data set bring their own.
        window: how many images are captioned together; 0: 16 of files, 64 of a store. More is faster, up to a point.
        on_error: called with the id and the error for each of many images that cannot be read, which is then left
            out. Without it the first such image raises DataError.
        """
        if regions is None:
            _ = self.source  # a missing extra, or regions that cannot be made here, are told at once
        else:
            require(regions.fingerprint, self.model.fingerprint)
        given = self._by_id(images, regions) if regions is not None else inputs.items(images)
        if segment is not None:
            given = (item if item.segment else replace(item, segment=segment) for item in given)
        one = inputs.is_one(images) or (regions is not None and isinstance(images, str))
        captions = self._captions(given, decoding, regions, frames, window, None if one else on_error)
        return next(captions) if one else captions

    def _by_id(self, images: Images, store: Store) -> Iterator[Item]:
        """Images of a store: text is an id, not the name of a file."""
        each = [images] if isinstance(images, str) or inputs.is_one(images) else images
        for image in each:  # type: ignore[union-attr]
            yield Item(image) if isinstance(image, str) else next(inputs.items(image))

    def _captions(
        self,
        given: Iterator[Item],
        decoding: DecodingSettings,
        store: Store | None,
        frames: int,
        window: int,
        on_error: OnError | None,
    ) -> Iterator[GroundedCaption]:
        """A window after the other: regions, then captions."""
        window = window or (WINDOW if store is None else STORED_WINDOW)
        while some := list(islice(given, window)):
            if store is not None:
                seen, regions = some, store.batch([item.id for item in some])
            else:
                readable = list(self._readable(some, frames, on_error))
                if not readable:
                    continue
                seen, regions = [item for item, _ in readable], Regions.stack([one for _, one in readable])
            captions = self.generate(regions, [item.id for item in seen], [item.media for item in seen], decoding)
            yield from (_completed(one, item, frames) for one, item in zip(captions, seen, strict=True))

    def _readable(self, some: Sequence[Item], frames: int, on_error: OnError | None) -> Iterator[tuple[Item, Regions]]:
        for item in some:
            try:
                yield item, inputs.regions_of(item, self.source, frames)
            except DataError as error:
                if on_error is None:
                    raise
                on_error(item.id, error)

    def regions(self, image: OneImage, frames: int = FRAMES) -> Regions:
        """The regions of one image (B = 1). `Regions.stack` makes one batch of several, for `generate`."""
        return inputs.regions_of(next(inputs.items(image)), self.source, frames)

    def check(self, decoding: DecodingSettings) -> None:
        """GroundlingError where these settings need what the captioner lacks."""
        if decoding.evidence_weight and not (self.reranker and self.reranker.calibrated):
            raise GroundlingError(
                "an evidence weight needs a calibrated grounder: name one with --grounder RUN (in Python grounder=RUN) "
                "and calibrate it with `groundling ground --calibrate`"
            )

    def generate(
        self, regions: Regions, ids: Sequence[str], media: Sequence[str], decoding: DecodingSettings = GREEDY
    ) -> list[GroundedCaption]:
        """Caption B images by their regions; `ids` and `media` are only passed on."""
        self.check(decoding)
        model, reranker, groundable = self.model, self.reranker, self.model.groundable.class_of
        seen = regions.of_each_frame(model.recipe.regions_per_image).to(self.device)
        with torch.inference_mode():
            encoded = self.network.encode(seen)
            if reranker is None:
                decoded = decoding(self.network, encoded, self.length)
                return link(decoded, seen, model.vocab, ids, groundable, media=media)
            features = reranker.features(regions)  # of all regions that the grounder uses, once
            log_evidence = reranker.log_evidence(features) if decoding.evidence_weight else None
            decoded = decoding(self.network, encoded, self.length, log_evidence)
            decoded = reranker.rerank(decoded, seen, features)
            captions = link(decoded, seen, model.vocab, ids, groundable, media=media)
            return reranker.add_evidence(captions, features)


def _completed(caption: GroundedCaption, item: Item, frames: int) -> GroundedCaption:
    """With the frames and the segment of a clip; of a clip of which only regions are there, the frames of its links."""
    if item.is_clip:
        return replace(caption, frames=frame_count(item.media, frames), segment=item.segment)
    if any(link.frame for link in caption.links):
        return replace(caption, frames=1 + max(link.frame for link in caption.links), segment=item.segment)
    return caption


def load(
    path: str | Path = "",
    device: str = "cpu",
    *,
    grounder: str | Path = "",
    grounder_weight: float = GROUNDER_WEIGHT,
) -> GroundedCaptioner:
    """Load a captioner.

    path: the folder that `groundling train --out` wrote, or the name of weights in the package, a captioner with its
        grounder: everyday (the default), flickr8k.
    device: cpu, cuda or mps.
    grounder: the folder of a grounder or matcher that helps to choose the box of each noun and, where it is calibrated,
        gives its evidence.
    grounder_weight: how much the grounder counts against the captioner's own attention, from 0 to 1.
    """
    if not 0 <= grounder_weight <= 1:
        raise GroundlingError(f"grounder_weight is from 0 to 1, got {grounder_weight}")
    where = device_of(device)
    folder = model_folder(path, CAPTIONER)
    if folder != Path(path):  # weights of the package, which are a captioner and a grounder
        grounder = grounder or model_folder(path, GROUNDER)
    model = load_model(folder)
    model.parts.to(where)
    reranker = load_reranker(Path(grounder), grounder_weight, model, where) if grounder else None
    return GroundedCaptioner(model, where, reranker)
