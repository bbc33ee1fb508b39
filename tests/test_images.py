"""Image files of every kind, sound and damaged."""

from __future__ import annotations

import io
import os
import random
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from groundling import images
from groundling.errors import DataError
from groundling.images import image_size, open_image, opened

RED, GREEN = (255, 0, 0), (0, 160, 0)


def halves(width: int = 48, height: int = 32) -> Image.Image:
    """Red on the left, green on the right."""
    image = Image.new("RGB", (width, height), RED)
    image.paste(GREEN, (width // 2, 0, width, height))
    return image


def near(pixel: object, colour: tuple[int, int, int], tolerance: int = 12) -> bool:
    return bool(np.abs(np.array(pixel) - np.array(colour)).max() <= tolerance)


# ---------------------------------------------------------------- what people have


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "gif", "bmp", "tiff", "ppm", "avif"])
def test_everyday_formats_keep_their_colours(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"photo.{suffix}"
    try:
        halves().save(path)
    except (OSError, KeyError):
        pytest.skip(f"this Pillow cannot write {suffix}")
    image = open_image(path)
    assert image.mode == "RGB" and image.size == image_size(path) == (48, 32)
    assert near(image.getpixel((5, 16)), RED) and near(image.getpixel((43, 16)), GREEN)


def turned(path: Path, orientation: int) -> Path:
    exif = Image.Exif()
    exif[0x0112] = orientation
    halves().save(path, exif=exif, quality=95)
    return path


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tiff"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_an_image_is_turned_as_its_exif_says(tmp_path: Path, suffix: str, orientation: int) -> None:
    """Of the eight orientations, those that show the first column of pixels last put red on another side."""
    path = turned(tmp_path / f"turned.{suffix}", orientation)
    image = open_image(path)
    width, height = image.size
    assert (width, height) == image_size(path) == ((32, 48) if orientation >= 5 else (48, 32))
    red = {1: "left", 4: "left", 2: "right", 3: "right", 5: "top", 6: "top", 7: "bottom", 8: "bottom"}[orientation]
    x, y = {
        "left": (4, height // 2),
        "right": (width - 5, height // 2),
        "top": (width // 2, 4),
        "bottom": (width // 2, height - 5),
    }[red]
    assert near(image.getpixel((x, y)), RED, 20)
    assert near(image.getpixel((width - 1 - x, height - 1 - y)), GREEN, 20)


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tiff"])
@pytest.mark.parametrize("orientation", [1, 2, 6, 7])
def test_what_pil_has_opened_is_shown_as_its_file_is(tmp_path: Path, suffix: str, orientation: int) -> None:
    """Lazily opened, loaded, converted or shown before; and it is not changed itself."""
    path = turned(tmp_path / f"turned.{suffix}", orientation)
    wanted = open_image(path)
    with Image.open(path) as lazy, Image.open(path) as loaded:
        loaded.load()
        before = loaded.tobytes(), dict(loaded.info)
        for image in (lazy, loaded, loaded.convert("RGB"), wanted, opened(wanted)):
            assert opened(image).size == wanted.size
            assert opened(image).tobytes() == wanted.tobytes()
        assert (loaded.tobytes(), dict(loaded.info)) == before


def test_a_transparent_or_deep_image_is_shown_as_its_file_is(tmp_path: Path) -> None:
    clear = Image.new("RGBA", (4, 4), (0, 0, 0, 0))
    deep = Image.fromarray(np.full((4, 4), 40_000, np.uint16))
    for image in (clear, deep):
        image.save(tmp_path / "image.png")
        assert opened(image).tobytes() == open_image(tmp_path / "image.png").tobytes()
    assert opened(clear).getpixel((0, 0)) == (255, 255, 255)


def test_an_orientation_that_xmp_tells_is_heeded_once(tmp_path: Path) -> None:
    path = tmp_path / "xmp.jpg"
    halves().save(path, xmp=b'<x:xmpmeta><rdf:Description tiff:Orientation="6"/></x:xmpmeta>')
    assert open_image(path).size == opened(open_image(path)).size == (32, 48)


def test_broken_exif_is_no_orientation(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "exif.jpg"
    halves().save(path, exif=b"Exif\x00\x00II*\x00\xff\xff\xff\xff")
    assert open_image(path).size == image_size(path) == (48, 32)


def test_size_is_read_without_decoding(tmp_path: Path) -> None:
    path = tmp_path / "cut.png"
    Image.effect_noise((200, 100), 50).save(path)
    path.write_bytes(path.read_bytes()[:200])
    assert image_size(path) == (200, 100)
    with pytest.raises(DataError, match="cut.png"):
        open_image(path)


def test_cmyk_becomes_rgb(tmp_path: Path) -> None:
    path = tmp_path / "print.jpg"
    Image.new("CMYK", (16, 16), (0, 255, 255, 0)).save(path, quality=95)
    assert near(open_image(path).getpixel((8, 8)), RED)


def test_sixteen_bits_are_scaled_not_clipped(tmp_path: Path) -> None:
    """Half of 65535 is a middle grey, not white."""
    for name in ("deep.png", "deep.tiff"):
        path = tmp_path / name
        Image.fromarray(np.full((8, 8), 32768, np.uint16)).save(path)
        assert open_image(path).getpixel((4, 4)) == (128, 128, 128)


@pytest.mark.parametrize(("levels", "grey"), [([0.0, 0.5], 128), ([0.0, 100.0], 100), ([2e6, 1e6], 128)])
def test_floating_point_levels_are_scaled_by_their_range(tmp_path: Path, levels: list[float], grey: int) -> None:
    path = tmp_path / "float.tiff"
    Image.fromarray(np.array([[*levels, np.nan]], np.float32)).save(path)
    image = open_image(path)
    assert image.getpixel((1, 0)) == (grey, grey, grey) and image.getpixel((2, 0)) == (0, 0, 0)


def test_transparent_pixels_are_white(tmp_path: Path) -> None:
    clear = Image.new("RGBA", (8, 8), (0, 0, 0, 0))
    clear.save(tmp_path / "clear.png")
    assert open_image(tmp_path / "clear.png").getpixel((4, 4)) == (255, 255, 255)
    clear.convert("LA").save(tmp_path / "grey.png")
    assert open_image(tmp_path / "grey.png").getpixel((4, 4)) == (255, 255, 255)
    palette = Image.new("P", (8, 8), 0)
    palette.putpalette([0, 0, 0, 255, 0, 0])
    palette.save(tmp_path / "palette.png", transparency=0)
    assert open_image(tmp_path / "palette.png").getpixel((4, 4)) == (255, 255, 255)


def test_palettes_and_two_colours_become_rgb(tmp_path: Path) -> None:
    palette = Image.new("P", (8, 8), 1)
    palette.putpalette([0, 0, 0, 255, 0, 0])
    palette.save(tmp_path / "palette.gif")
    assert open_image(tmp_path / "palette.gif").getpixel((4, 4)) == RED
    Image.new("1", (8, 8), 1).save(tmp_path / "bits.png")
    assert open_image(tmp_path / "bits.png").getpixel((4, 4)) == (255, 255, 255)


@pytest.mark.parametrize("suffix", ["gif", "webp", "png", "tiff"])
def test_an_animation_is_its_first_frame(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"moving.{suffix}"
    Image.new("RGB", (16, 16), RED).save(path, save_all=True, append_images=[Image.new("RGB", (16, 16), GREEN)] * 3)
    assert near(open_image(path).getpixel((8, 8)), RED)


def test_one_pixel_is_an_image(tmp_path: Path) -> None:
    Image.new("RGB", (1, 1), RED).save(tmp_path / "dot.png")
    assert open_image(tmp_path / "dot.png").size == (1, 1)


# ---------------------------------------------------------------- what is refused


def png_header(width: int, height: int) -> bytes:
    """A PNG that promises a size and holds nothing."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IDAT", zlib.compress(b"\0" * 1000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + body + chunk(b"IEND", b"")


@pytest.mark.parametrize("side", [10_000, 60_000])
def test_a_bomb_is_refused_by_its_header(tmp_path: Path, side: int) -> None:
    path = tmp_path / "bomb.png"
    path.write_bytes(png_header(side, side))
    for read in (open_image, image_size):
        with pytest.raises(DataError, match=r"bomb\.png.*89,478,485"):
            read(path)


def test_a_jpeg_of_a_thousand_scans_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "scans.jpg"
    halves().save(path, progressive=True)
    whole = path.read_bytes()
    last = whole.rindex(b"\xff\xda")
    path.write_bytes(whole[:last] + whole[last:-2] * 1000 + whole[-2:])
    with pytest.raises(DataError, match="scans"):
        open_image(path)


@pytest.mark.parametrize(
    ("content", "word"),
    [(b"", "empty"), (b"hello, I am a text file\n" * 9, "known format"), (b"\xff\xd8\xff\xe0", "damaged|known format")],
)
def test_what_is_not_an_image_is_named(tmp_path: Path, content: bytes, word: str) -> None:
    path = tmp_path / "x.jpg"
    path.write_bytes(content)
    with pytest.raises(DataError, match=word) as caught:
        open_image(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        open_image(tmp_path / "nowhere.jpg")
    with pytest.raises(DataError, match="not a file"):
        image_size(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_that_nobody_writes_to_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    with pytest.raises(DataError, match="not a file"):
        open_image(tmp_path / "pipe.jpg")


def test_postscript_is_never_executed(tmp_path: Path) -> None:
    path = tmp_path / "program.png"
    halves().save(path, format="EPS")
    with pytest.raises(DataError, match="known format"):
        open_image(path)


def test_truncated_photos_are_refused_not_padded_with_grey(tmp_path: Path) -> None:
    path = tmp_path / "half.jpg"
    Image.effect_noise((128, 128), 80).convert("RGB").save(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataError, match=r"half\.jpg.*truncated"):
        open_image(path)


# ---------------------------------------------------------------- what nobody has yet


def damaged(whole: bytes, dice: random.Random) -> bytes:
    """One to eight wounds: bytes changed, removed, repeated, or the end cut off."""
    body = bytearray(whole)
    for _ in range(dice.randint(1, 8)):
        at = dice.randrange(len(body)) if dice.random() < 0.5 else dice.randrange(min(len(body), 80))
        wound = dice.choice(["flip", "flip", "remove", "repeat", "cut", "extreme"])
        if wound == "flip":
            body[at] = dice.randrange(256)
        elif wound == "remove":
            del body[at : at + dice.randint(1, 16)]
        elif wound == "repeat":
            body[at:at] = body[at : at + dice.randint(1, 64)]
        elif wound == "cut":
            del body[max(at, 1) :]
        else:
            body[at : at + 4] = dice.choice([b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff"])
        if not body:
            return b"\0"
    return bytes(body)


def test_an_image_of_extreme_length_is_refused_by_its_header(tmp_path: Path) -> None:
    """One pixel wide and as long as MAX_PIXELS allows, it took 2 GB to draw."""
    Image.new("1", (1, images.MAX_SIDE + 1)).save(tmp_path / "long.png")
    with pytest.raises(DataError, match="long.png: 1 x 1000001 pixels, at most 1,000,000 along a side"):
        open_image(tmp_path / "long.png")


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP"])
def test_every_damaged_file_is_an_image_or_a_named_error(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "MAX_PIXELS", 1_000_000)  # the same code on a smaller bound, to keep the test quick
    whole = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6
    halves().save(whole, format=form, **({} if form in ("GIF", "BMP") else {"exif": exif}))
    dice, path = random.Random(form), tmp_path / "wounded"
    outcomes = set()
    for _ in range(150):
        path.write_bytes(damaged(whole.getvalue(), dice))
        try:
            image = open_image(path)
        except DataError as error:
            assert str(path) in str(error)
            outcomes.add("refused")
        else:
            assert image.mode == "RGB" and image.size == image_size(path)
            outcomes.add("opened")
    assert outcomes == {"refused", "opened"}
