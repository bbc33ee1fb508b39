"""A trained captioner: images in, captions out, every noun with its box."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from groundling.errors import DataError, GroundlingError
from groundling.inference import inputs
from groundling.inference.inputs import Item
from groundling.inference.loading import (
    CAPTIONER,
    GROUNDER,
    can_find_joints,
    device_of,
    installed,
    load_model,
    model_folder,
    source_of,
)
from groundling.inference.settings import CONJUNCTION, DEFAULT, DecodingSettings, said_once
from groundling.recipes import Model
from groundling.regions.fingerprints import require
from groundling.regions.graphs import cores
from groundling.types import Fingerprint, GroundedCaption
from groundling.video import FRAMES, Segment, frame_count

if TYPE_CHECKING:
    import torch
    from PIL import Image

    from groundling.inference.engine import Engine, GrounderOnnx
    from groundling.inference.inputs import Images, OneImage
    from groundling.inference.links import Reranker
    from groundling.inference.phrases import BaseGrounder
    from groundling.regions.sources._photos_onnx import Seen
    from groundling.regions.store import Store
    from groundling.tensors import Regions, RegionSource
    from groundling.text.classes import Classes

GROUNDER_WEIGHT = 0.5  # chosen on the validation split of Flickr8k
WINDOW, STORED_WINDOW = 16, 64  # images that are captioned together: of files, of a store

AT_ONCE, AHEAD = 2, 4  # images whose regions are made at the same time, and that may wait for their captions
RUNTIMES = ("auto", "torch", "onnx")

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

    def __init__(
        self, model: Model, device: torch.device, reranker: Reranker | None = None, image_classes: bool = False
    ) -> None:
        self.model, self.device, self.reranker = model, device, reranker
        self.image_classes = image_classes
        self.network, self.length = model.captioner, model.length

    @cached_property
    def source(self) -> RegionSource:
        """The region source that the model was trained on, made from its fingerprint."""
        return source_of(self.fingerprint, self.image_classes)

    @property
    def fingerprint(self) -> Fingerprint:
        """Of the regions that the model was trained on."""
        return self.model.fingerprint

    @property
    def groundable(self) -> Classes:
        """The words that get a box."""
        return self.model.groundable

    @property
    def grounder(self) -> BaseGrounder | None:
        """The grounder of phrases beside it, if there is one."""
        return self.reranker.grounder if self.reranker else None

    def _prepare(self) -> None:
        """A missing extra, or regions that cannot be made here, are told at once."""
        _ = self.source

    @property
    def signature(self) -> dict[str, Any]:
        """All that captions depend on, but for images, regions and settings: weights, and the calibration of evidence.

        A matcher that grounds no phrases is not told apart from another: name its folder beside this.
        """
        from groundling.tensors import digest

        reranker = self.reranker
        grounder = reranker.grounder if reranker else None
        models = [self.model, *([grounder.model] if grounder else [])]
        return {
            "weights": [digest(model.parts.state_dict()) for model in models],
            "calibration": grounder.calibration.to_json() if grounder and grounder.calibration else None,
            "grounder_weight": reranker.weight if reranker else 0,
            "joints": bool(grounder and grounder.joints),
            "image_classes": self.image_classes,
        }

    @overload
    def caption(  # type: ignore[overload-overlap]  # a name is one image, unless it is that of a folder
        self,
        images: OneImage,
        decoding: DecodingSettings = DEFAULT,
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
        decoding: DecodingSettings = DEFAULT,
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
        decoding: DecodingSettings = DEFAULT,
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
            One image gives its caption. Many give an iterator, and no more than a window of them and the next four
            are in memory.
            (For a type checker a name is one image: write `caption([folder])`.)
        decoding: how words are chosen: `BeamSearch(beam=1)` (greedy), `Sampling(temperature=0.7, seed=1)`; by default
            a beam of 3.
        regions: a store that holds the regions of the images. Then nothing is read but the store, and the picture, if
            there is one, where a caption names clothes or parts of bodies; an image may be given by its id alone. It
            must be of the region source that the model was trained on.
        frames: how many frames of a video file are looked at, at the middles of as many equal parts.
        segment: from, to, in seconds: only this part of a video. Examples of a data set bring their own.
        window: how many images are captioned together; 0: 16 of files, 64 of a store. More is faster, up to a point.
        on_error: called with the id and the error for each of many images that cannot be read, which is then left
            out. Without it the first such image raises DataError.
        """
        if regions is None:
            self._prepare()
        else:
            require(regions.fingerprint, self.fingerprint)
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
        from groundling.tensors import Regions

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
                yield item, self._regions_of(item, frames)
            except DataError as error:
                if on_error is None:
                    raise
                on_error(item.id, error)

    def regions(self, image: OneImage, frames: int = FRAMES) -> Regions:
        """The regions of one image (B = 1). `Regions.stack` makes one batch of several, for `generate`."""
        return self._regions_of(next(inputs.items(image)), frames)

    def _regions_of(self, item: Item, frames: int) -> Regions:
        from groundling.regions.media import of_frames

        def look(picture: Image.Image) -> Regions:
            return inputs.with_pixels(self.source(picture), picture)

        return inputs.regions_of(item, look, of_frames, frames)

    def check(self, decoding: DecodingSettings) -> None:
        """GroundlingError where these settings need what the captioner lacks."""
        if decoding.evidence_weight and not (self.grounder and self.grounder.calibration):
            raise GroundlingError(
                "an evidence weight needs a calibrated grounder: name one with --grounder RUN (in Python grounder=RUN) "
                "and calibrate it with `groundling ground --calibrate`"
            )

    def generate(
        self, regions: Regions, ids: Sequence[str], media: Sequence[str], decoding: DecodingSettings = DEFAULT
    ) -> list[GroundedCaption]:
        """Caption B images by their regions; `ids` are only passed on. The file of `media` is looked at where a caption
        names clothes or parts of bodies."""
        import torch

        from groundling.decoding import Constraints
        from groundling.inference.links import link

        self.check(decoding)
        model, reranker, groundable = self.model, self.reranker, self.model.groundable.class_of
        seen = regions.of_each_frame(model.recipe.data.regions_per_image).to(self.device)
        with torch.inference_mode():
            encoded = self.network.encode(seen)
            once = torch.tensor(said_once(model.vocab), device=self.device)
            constraints = Constraints(once, conjunction=model.vocab.encode([CONJUNCTION])[0])
            if reranker is None:
                decoded = decoding.decode(self.network, encoded, self.length, constraints)
                return _renamed(link(decoded, seen, model.vocab, ids, groundable, media=media), regions)
            features = reranker.features(regions)  # of all regions that the grounder uses, once
            if decoding.evidence_weight:
                constraints = replace(constraints, log_evidence=reranker.log_evidence(features))
            decoded = decoding.decode(self.network, encoded, self.length, constraints)
            decoded = reranker.rerank(decoded, seen, features)
            captions = link(decoded, seen, model.vocab, ids, groundable, media=media)
            captions = reranker.add_evidence(captions, features)
            captions = [reranker.on_bodies(one, regions.only(i)) for i, one in enumerate(captions)]
            return _renamed(captions, regions)


class OnnxCaptioner(GroundedCaptioner):
    """The same on onnxruntime: pictures and clips are captioned without torch.

    What it does not do (images without regions, regions of a store) torch does, loaded when asked.
    """

    def __init__(
        self, engine: Engine, with_torch: Callable[[], GroundedCaptioner], image_classes: bool = False
    ) -> None:
        self.engine, self._with_torch, self.image_classes = engine, with_torch, image_classes
        self.length = engine.length

    @cached_property
    def _torch(self) -> GroundedCaptioner:
        return self._with_torch()

    def __getattr__(self, name: str) -> Any:
        if name in ("model", "device", "reranker", "network"):
            return getattr(self._torch, name)
        raise AttributeError(f"a captioner has no attribute {name!r}")

    @property
    def fingerprint(self) -> Fingerprint:
        return self.engine.fingerprint

    @property
    def groundable(self) -> Classes:
        return self.engine.groundable

    @property
    def signature(self) -> dict[str, Any]:
        return self.engine.signature | {"image_classes": self.image_classes}

    @property
    def grounder(self) -> GrounderOnnx | None:
        return self.engine.grounder

    def _prepare(self) -> None:
        _ = self.engine.source

    def _captions(
        self,
        given: Iterator[Item],
        decoding: DecodingSettings,
        store: Store | None,
        frames: int,
        window: int,
        on_error: OnError | None,
    ) -> Iterator[GroundedCaption]:
        if store is not None:
            yield from super()._captions(given, decoding, store, frames, window, on_error)
            return
        self.check(decoding)
        readable = self._seen(given, frames, on_error)
        while some := list(islice(readable, window or WINDOW)):
            items, seen = zip(*some, strict=True)
            captions = self.engine.captions(seen, [x.id for x in items], [x.media for x in items], decoding)
            yield from (_completed(one, item, frames) for one, item in zip(captions, items, strict=True))

    def generate(
        self, regions: Regions, ids: Sequence[str], media: Sequence[str], decoding: DecodingSettings = DEFAULT
    ) -> list[GroundedCaption]:
        if regions.whole is None or not bool(regions.valid.any(1).all()):
            return self._torch.generate(regions, ids, media, decoding)
        self.check(decoding)
        from groundling.inference.engine import arrays

        return _renamed(self.engine.captions(arrays(regions), ids, media, decoding), regions)

    def _seen(self, given: Iterator[Item], frames: int, on_error: OnError | None) -> Iterator[tuple[Item, Seen]]:
        """What is seen of each image, in order; that of the next is made meanwhile."""
        from groundling.regions.sources._photos_onnx import of_frames

        see = partial(inputs.regions_of, source=self.engine.source, of_frames=of_frames, count=frames)
        waiting: deque[tuple[Item, Future[Seen]]] = deque()
        with ThreadPoolExecutor(min(AT_ONCE, cores()), "groundling-regions") as pool:

            def begin(count: int) -> None:
                waiting.extend((item, pool.submit(see, item)) for item in islice(given, count))

            begin(AHEAD)
            while waiting:
                item, made = waiting.popleft()
                begin(1)
                try:
                    seen = made.result()
                except DataError as error:
                    if on_error is None:
                        raise
                    on_error(item.id, error)
                else:
                    yield item, seen


def _renamed(captions: Sequence[GroundedCaption], regions: Regions) -> list[GroundedCaption]:
    """With nouns by image classes, where the regions have them."""
    from groundling.inference.naming import renamed

    if regions.classes is None:
        return list(captions)
    of_image = zip(
        *(x.cpu().numpy() for x in (regions.valid, regions.boxes, regions.frame, regions.classes)), strict=True
    )
    return [
        renamed(caption, boxes[valid], frame[valid], classes[valid])
        for caption, (valid, boxes, frame, classes) in zip(captions, of_image, strict=True)
    ]


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
    runtime: str = "auto",
    image_classes: bool = True,
    joints: bool = True,
) -> GroundedCaptioner:
    """Load a captioner.

    path: the folder that `groundling train --out` wrote, or a captioner with its grounder: the folder that `groundling
        adapt --out` wrote, or the name of weights in the package, everyday (the default), flickr8k.
    device: cpu, cuda or mps.
    grounder: the folder of a grounder or matcher that helps to choose the box of each noun and, where it is calibrated,
        gives its evidence.
    grounder_weight: how much the grounder counts against the captioner's own attention, from 0 to 1.
    runtime: auto, onnx (onnxruntime, which starts without PyTorch) or torch. auto is onnx where it is installed,
        the device is the CPU and the model is of a kind that it runs.
    image_classes: whether a noun is replaced where a classifier of a thousand classes is sure of a better one of its
        kind: "a squirrel" for "a bird". Regions of other sources than photos, and of stores, have no such classes.
    joints: as of `load_grounder`, of the grounder; False where its weight is 0.
    """
    if not 0 <= grounder_weight <= 1:
        raise GroundlingError(f"grounder_weight is from 0 to 1, got {grounder_weight}")
    if runtime not in RUNTIMES:
        raise GroundlingError(f"runtime is one of {', '.join(RUNTIMES)}, got {runtime!r}")
    folder, other = folders(path, grounder)
    joints = joints and bool(other) and grounder_weight > 0 and can_find_joints()
    with_torch = partial(_with_torch, folder, device, other, grounder_weight, image_classes, joints)
    if runtime == "torch" or (runtime == "auto" and not installed("onnxruntime")):
        return with_torch()
    if runtime == "onnx" and device.lower() != "cpu":
        raise GroundlingError(f"onnxruntime is used on the CPU alone here, not on {device}; use --runtime torch")
    from groundling.inference.engine import engine_of

    engine = engine_of(folder, other, grounder_weight, image_classes) if device.lower() == "cpu" else None
    if engine is None and runtime == "onnx":
        raise GroundlingError(f"{folder} is not of a kind that onnxruntime runs here; leave out --runtime onnx")
    if engine is None:
        return with_torch()
    if engine.grounder is not None:
        engine.grounder.joints = joints
    return OnnxCaptioner(engine, with_torch, image_classes)


def folders(path: str | Path, grounder: str | Path) -> tuple[Path, Path | None]:
    """Of a captioner and of the grounder beside it, as `load` names them."""
    folder = model_folder(path, CAPTIONER)
    beside = folder.parent / GROUNDER
    if not grounder and folder != Path(path) and beside.is_dir():  # both belong together, such as the package's
        grounder = beside
    return folder, model_folder(grounder, GROUNDER) if grounder else None


def _with_torch(
    folder: Path, device: str, grounder: Path | None, weight: float, image_classes: bool, joints: bool
) -> GroundedCaptioner:
    from groundling.inference.links import load_reranker

    where = device_of(device)
    model = load_model(folder, where)
    reranker = load_reranker(grounder, weight, model, where) if grounder else None
    if reranker is not None and reranker.grounder is not None:
        reranker.grounder.joints = joints
    return GroundedCaptioner(model, where, reranker, image_classes)
