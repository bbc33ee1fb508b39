"""Open an image file of unknown origin: an RGB image, or a DataError that names the file.

A file is hostile until decoded. Its header is checked first: only FORMATS are tried (none of them starts
another program), no more than MAX_PIXELS are decoded, and a JPEG may not make us pass over its pixels more than
MAX_SCANS times. So time and memory are bounded, whatever the bytes say.
"""

from __future__ import annotations

import logging
import mmap
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, TiffImagePlugin, UnidentifiedImageError
from PIL.TiffImagePlugin import IMAGELENGTH, IMAGEWIDTH

from groundling.errors import DataError
from groundling.types import Box

log = logging.getLogger(__name__)

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF", "HEIF")
HEIC = {".heic", ".heif"}  # photos of phones; read where pillow-heif is installed, else named with the cure
BRANDS = {b"heic", b"heix", b"heim", b"heis", b"mif1"}  # what such a file begins with, whatever its name says
SUFFIXES = HEIC | {
    ".jpg",
    ".jpeg",
    ".png",
    ".webp",
    ".gif",
    ".bmp",
    ".tif",
    ".tiff",
    ".ppm",
    ".pgm",
    ".avif",
}  # of FORMATS
MAX_PIXELS = 89_478_485  # of the first frame: 256 MB as RGB, the size at which Pillow itself starts to warn
MAX_SIDE = 1_000_000  # pixels: of an image one pixel wide, every pixel costs 12 bytes
MAX_SCANS = 100  # a progressive JPEG has about ten; a few bytes each can ask for thousands of passes over all pixels

Picture = str | Path | Image.Image  # an image: its file, or what PIL has opened

COPY_SIDE = 320  # pixels of the longer side of a copy that is kept of a picture
_TURNS = {  # EXIF orientation -> how to undo it
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def opened(image: Picture) -> Image.Image:
    """RGB and upright, of a path or of what PIL has opened."""
    return as_shown(image) if isinstance(image, Image.Image) else open_image(image)


def open_image(path: Path | str) -> Image.Image:
    """The image as a viewer shows it: RGB, turned as its EXIF says, the first frame, white where it is transparent."""
    with _header(Path(path)) as image:
        return as_shown(image)


def as_shown(image: Image.Image) -> Image.Image:
    """A copy of the current frame of what PIL has opened, as `open_image` gives it; of such a copy, the same again."""
    turn = None if image.format == "TIFF" else _TURNS.get(_orientation(image))  # Pillow turns a TIFF by itself
    image.load()
    shown = _rgb(image if turn is None else image.transpose(turn))
    for key in ("exif", "Raw profile type exif", "xmp", "XML:com.adobe.xmp"):  # may say that it is not turned yet
        shown.info.pop(key, None)
    return shown


def small_copy(image: Image.Image) -> Image.Image:
    """RGB, no larger than COPY_SIDE: what is kept of a picture for a second look at its pixels."""
    scale = min(1.0, COPY_SIDE / max(image.size))
    size = max(1, round(image.width * scale)), max(1, round(image.height * scale))
    rgb = image if image.mode == "RGB" else image.convert("RGB")
    return rgb.resize(size, Image.Resampling.BOX, reducing_gap=3.0)


def image_size(path: Path | str) -> tuple[int, int]:
    """Width and height that `open_image` would give, from the header alone."""
    with _header(Path(path)) as image:
        width, height = image.size
        if isinstance(image, TiffImagePlugin.TiffImageFile):  # Pillow has turned its size, or not, by version
            width, height = image.tag_v2[IMAGEWIDTH], image.tag_v2[IMAGELENGTH]
        return (height, width) if _orientation(image) >= 5 else (width, height)


def stored_boxes(path: Path | str, boxes: Sequence[Box]) -> list[Box] | None:
    """Boxes of the image as it is shown, in the pixels as the file stores them; None where EXIF turns nothing."""
    with _header(Path(path)) as image:
        turn = _orientation(image)
    return None if turn == 1 else [_stored(box, turn, image_size(path)) for box in boxes]


def stored_box(path: Path | str, box: Box) -> Box:
    """A box of the image as it is shown, in the pixels as the file stores them, before EXIF turns them."""
    return (stored_boxes(path, [box]) or [box])[0]


def _stored(box: Box, turn: int, size: tuple[int, int]) -> Box:
    """The box before an EXIF orientation from 2 to 8 turned the image to this width and height."""
    width, height = size
    left, top, right, bottom = box
    if turn in (2, 3, 6, 7):
        left, right = width - right, width - left
    if turn in (3, 4, 7, 8):
        top, bottom = height - bottom, height - top
    return (top, left, bottom, right) if turn >= 5 else (left, top, right, bottom)


def absent(path: Path | str) -> str:
    """What to do about a file that is not there."""
    if str(path).startswith(("http:/", "https:/", "ftp:/")):
        address = re.sub(":/+", "://", str(path), count=1)  # a Path has lost one of the slashes
        return f"{address} is an address, and nothing is fetched: download the picture and name its file"
    return f"{path} does not exist: check the path"


@contextmanager
def _header(path: Path) -> Iterator[Image.Image]:
    """The opened, undecoded image; whatever goes wrong inside the `with` becomes a DataError about this file."""
    if not path.exists():
        raise DataError(absent(path))
    if not path.is_file():
        raise DataError(f"{path}: not a file; give the path of an image")
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty; fetch it again")
    brand, named = _brand(path), path.suffix.lower() in HEIC
    formats = _readable(bool(brand) or named)
    if (named or brand in BRANDS) and "HEIF" not in formats:
        raise DataError(f"{path}: HEIC photos need pillow-heif: pip install 'groundling[heic]', or convert it to JPEG")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="PIL")  # odd metadata is no reason to refuse or to print
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # we refuse below, with a better message
            with Image.open(path, formats=formats) as image:
                _check_size(path, image)
                yield image
    except DataError:
        raise
    except Image.DecompressionBombError as error:
        raise DataError(f"{path}: too large ({error}); at most {MAX_PIXELS:,} pixels, make it smaller") from error
    except UnidentifiedImageError as error:
        raise DataError(f"{path}: not an image in a known format ({', '.join(FORMATS)}); convert it to PNG") from error
    except Exception as error:  # decoders of damaged files raise nearly every type there is
        raise DataError(
            f"{path}: damaged or unreadable image ({error}); fetch it again or convert it to PNG"
        ) from error


def _brand(path: Path) -> bytes:
    """Of a file of the family that HEIC and AVIF belong to, the four letters that tell them apart; of others b""."""
    with suppress(OSError), path.open("rb") as file:  # what cannot be read is told when it is opened
        start = file.read(12)
        return start[8:] if start[4:8] == b"ftyp" else b""
    return b""


@cache
def _readable(heif: bool) -> tuple[str, ...]:
    """FORMATS that this Pillow was built with, or has by pillow-heif. What reads the others is not imported."""
    Image.preinit()
    for plugin in ("WebPImagePlugin", *(["AvifImagePlugin"] if heif else [])):  # TIFF is imported above
        with suppress(ImportError):
            import_module(f"PIL.{plugin}")
    if heif:
        with suppress(ImportError):
            import pillow_heif

            pillow_heif.register_heif_opener(thumbnails=False)
    return tuple(f for f in FORMATS if f in Image.OPEN)


def _check_size(path: Path, image: Image.Image) -> None:
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise DataError(f"{path}: {width} x {height} pixels, at most {MAX_PIXELS:,} are read; make it smaller")
    if max(width, height) > MAX_SIDE:
        raise DataError(f"{path}: {width} x {height} pixels, at most {MAX_SIDE:,} along a side; cut it into pieces")
    if width < 1 or height < 1:
        raise DataError(f"{path}: an image of {width} x {height} pixels; fetch it again")
    if image.format in ("JPEG", "MPO"):
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            # compressed data never holds FF DA: a scan header is the only place where it can stand
            scans = sum(1 for _ in re.finditer(b"\xff\xda", content))
        if scans > MAX_SCANS:
            raise DataError(f"{path}: a JPEG of {scans} scans, at most {MAX_SCANS} are read; convert it to PNG")


def _orientation(image: Image.Image) -> int:
    """1 to 8; 1 (upright) when the metadata says nothing or cannot be read."""
    try:
        exif = Image.Image.getexif(image)  # that of the base class: a PNG's own would decode all pixels first
        turn = exif.get(ExifTags.Base.Orientation, 1)
    except Exception as error:
        log.warning("unreadable EXIF, taken as upright: %s", error)
        return 1
    return turn if turn in _TURNS else 1


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        return Image.fromarray(_eight_bits(image)).convert("RGB")
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
    return image.convert("RGB")


def _eight_bits(image: Image.Image) -> NDArray[np.uint8]:
    """Grey levels of more than 8 bits, scaled so that the largest value of their range becomes white.

    The range is that of 16 bits, or 8 bits (or 0 to 1 for fractions) where nothing exceeds it, or up to the largest
    value of the image where even 16 bits do not hold it.
    """
    levels = np.asarray(image).astype(np.float32)
    levels = np.nan_to_num(levels, nan=0.0, posinf=0.0, neginf=0.0).clip(min=0)
    top = float(levels.max())
    if image.mode.startswith("I;16"):
        white = 65535.0
    else:
        white = next((r for r in (1.0, 255.0, 65535.0) if top <= r and (r > 1 or image.mode == "F")), top)
    scaled: NDArray[np.uint8] = np.floor(levels / white * 255 + 0.5).astype(np.uint8)
    return scaled
