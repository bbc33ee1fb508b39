"""What may be captioned or grounded: one image or many, as files, pictures, arrays, tensors, folders or examples."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from groundling.errors import DataError, GroundlingError
from groundling.images import open_image, opened, small_copy
from groundling.regions.jobs import images_below
from groundling.types import Example
from groundling.video import Segment, frames, is_clip

if TYPE_CHECKING:
    from torch import Tensor

    from groundling.tensors import Regions

    OneImage = str | Path | Image.Image | NDArray[Any] | Tensor | Example
    Images = OneImage | Iterable[OneImage]

Seen = TypeVar("Seen")  # what a source of regions makes: Regions, or arrays


@dataclass(frozen=True)
class Item:
    """One image or clip on its way through a model."""

    id: str
    media: str = ""  # its file; "" where it has none
    picture: Image.Image | None = None
    segment: Segment | None = None  # seconds, of a clip

    @property
    def is_clip(self) -> bool:
        return bool(self.media) and is_clip(self.media)


def is_one(images: Images) -> TypeGuard[OneImage]:
    """One image, or a sequence, a folder or an array of several?"""
    if isinstance(images, str | Path):
        return not Path(images).is_dir()
    if isinstance(images, np.ndarray) or _is_tensor(images):
        return images.ndim < 4
    return isinstance(images, Image.Image | Example)


def items(images: Images) -> Iterator[Item]:
    """Each image in turn. Of a folder, its image and video files by name, and those of the folders in it.

    The id is the name of a file without its ending, that of an example, or else the number of the image, from 0.
    """
    if is_one(images):
        yield _item(images, "")
        return
    each: Iterable[OneImage] = [images] if isinstance(images, str | Path) else images  # type: ignore[assignment]
    for number, image in enumerate(each):
        if isinstance(image, str | Path) and Path(image).is_dir():
            yield from (Item(job.id, str(job.path)) for job in images_below(Path(image)))
        else:
            yield _item(image, str(number))


def _item(image: OneImage, number: str) -> Item:
    if isinstance(image, str | Path):
        return Item(Path(image).stem, str(image))
    if isinstance(image, Example):
        return Item(image.id, image.media, segment=image.segment)
    if isinstance(image, Image.Image):
        return Item(number, picture=image)
    if isinstance(image, np.ndarray):
        return Item(number, picture=_picture(image))
    if _is_tensor(image):
        return Item(number, picture=_picture(_array(image)))
    raise GroundlingError(
        f"an image is a file, a PIL image, an array, a tensor or an example, not {type(image).__name__}"
    )


def _is_tensor(image: object) -> TypeGuard[Tensor]:
    """Where torch was not loaded there is no tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(image, torch.Tensor)


def _array(image: Tensor) -> NDArray[Any]:
    """(3, height, width) of uint8, or of fractions from 0 to 1 -> (height, width, 3) of uint8."""
    import torch

    if image.ndim != 3 or image.shape[0] != 3 or not (image.dtype == torch.uint8 or image.is_floating_point()):
        shape = "×".join(map(str, image.shape))
        raise GroundlingError(
            f"a tensor of an image is 3 × height × width, RGB, of uint8 or of fractions from 0 to 1; got {shape} of "
            f"{image.dtype}"
        )
    if image.is_floating_point():
        if not bool(((image >= 0) & (image <= 1)).all()):
            low, high = float(image.min()), float(image.max())
            raise GroundlingError(
                f"a tensor of fractions holds an image from 0 to 1; got {low:g} to {high:g}: undo its normalisation"
            )
        image = (image.detach().float() * 255).round().to(torch.uint8)
    array: NDArray[Any] = image.permute(1, 2, 0).cpu().numpy()
    return array


def _picture(array: NDArray[Any]) -> Image.Image:
    colours = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))
    if array.dtype != np.uint8 or not colours or not array.size:
        shape = "×".join(map(str, array.shape))
        raise GroundlingError(
            f"an array of an image is height × width × 3 of uint8, RGB from 0 to 255; got {shape} of {array.dtype}"
        )
    return Image.fromarray(np.ascontiguousarray(array))


def with_pixels(regions: Regions, picture: Image.Image) -> Regions:
    """The regions of one image (B = 1), with a small copy of it."""
    return replace(regions, pictures=(small_copy(picture),))


def picture_in(media: str) -> Image.Image | None:
    """The picture of a file; None where there is none that can be read."""
    if media and not is_clip(media):
        with suppress(DataError, OSError):
            return open_image(media)
    return None


def regions_of(
    item: Item, source: Callable[[Image.Image], Seen], of_frames: Callable[[Sequence[Seen]], Seen], count: int
) -> Seen:
    """The regions of an image, or of `count` frames of a clip as one (B = 1); DataError names a file."""
    if item.picture is not None:
        return source(opened(item.picture))
    if not item.media:
        raise DataError(f"{item.id!r} has no picture file: give its regions")
    if item.is_clip:
        return of_frames([source(frame) for frame in frames(item.media, count, item.segment)])
    return source(open_image(item.media))
