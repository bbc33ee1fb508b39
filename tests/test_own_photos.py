"""Photos as people have them: turned by EXIF, of phones, of any size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import ExifTags, Image

import groundling
from groundling import images
from groundling.commands.outputs import add_stored_boxes
from groundling.errors import DataError
from groundling.images import open_image, stored_box
from groundling.inference.phrases import GroundedPhrase, GroundedPhrases
from groundling.report.picture import LARGEST, PALETTE, draw
from groundling.types import Box, GroundedCaption, Link


def box_of_black(image: Image.Image) -> Box:
    rows, columns = np.nonzero(np.asarray(image.convert("L")) < 128)
    return float(columns.min()), float(rows.min()), float(columns.max() + 1), float(rows.max() + 1)


@pytest.mark.parametrize("turn", range(1, 9))
def test_a_box_of_a_turned_photo_is_known_in_its_stored_pixels_too(turn: int, tmp_path: Path) -> None:
    stored = Image.new("RGB", (60, 40), "white")
    stored.paste((0, 0, 0), (5, 10, 30, 20))
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = turn
    stored.save(tmp_path / "photo.png", exif=exif)
    shown = box_of_black(open_image(tmp_path / "photo.png"))
    assert stored_box(tmp_path / "photo.png", shown) == (5, 10, 30, 20)


def test_json_has_the_box_in_stored_pixels_where_exif_turns_the_photo(tmp_path: Path) -> None:
    """Orientation 6 turns the stored 60 × 40 by 90 degrees, to the right; an upright photo needs no second box."""
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    Image.new("RGB", (60, 40)).save(tmp_path / "turned.png", exif=exif)
    Image.new("RGB", (40, 60)).save(tmp_path / "upright.png")
    for name, stored in (("turned", [0, 30, 60, 40]), ("upright", None), ("absent", None)):
        rows = [{"box": (0.0, 0.0, 10.0, 60.0)}]
        add_stored_boxes(str(tmp_path / f"{name}.png"), rows)
        assert rows[0].get("stored_box") == stored


def test_a_heic_photo_is_read_where_pillow_heif_is_installed(tmp_path: Path) -> None:
    pillow_heif = pytest.importorskip("pillow_heif")
    pillow_heif.from_pillow(Image.new("RGB", (64, 48), "red")).save(tmp_path / "a.heic")
    assert open_image(tmp_path / "a.heic").size == (64, 48)


def test_without_it_the_photo_is_named_with_the_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its name says: phones and messengers name HEIC files .jpg. A film is no photo, and needs nothing."""
    monkeypatch.setattr(images, "_readable", lambda heif: ("JPEG", "PNG"))
    (tmp_path / "a.heic").write_bytes(b"bytes of a phone")
    (tmp_path / "b.jpg").write_bytes(b"\0\0\0\x18ftypheic and so on")
    (tmp_path / "film.jpg").write_bytes(b"\0\0\0\x18ftypisom and so on")
    for name in ("a.heic", "b.jpg"):
        with pytest.raises(DataError, match=rf"{name}: HEIC photos need pillow-heif: pip install 'groundling\[heic\]'"):
            open_image(tmp_path / name)
    with pytest.raises(DataError, match=r"film\.jpg: not an image in a known format"):
        open_image(tmp_path / "film.jpg")


def caption(*boxes: Box) -> GroundedCaption:
    words = tuple("abcdefgh"[: len(boxes)])
    spans = tuple((2 * i, 2 * i + 1) for i in range(len(words)))
    links = tuple(Link(i, spans[i], box, 0.9, evidence=0.9) for i, box in enumerate(boxes))
    return GroundedCaption("x", " ".join(words), words, spans, links)


def test_letters_grow_with_the_picture_and_the_picture_has_a_largest_size() -> None:
    strip = {}
    for side in (640, 2000, 6000):
        drawn = draw(Image.new("RGB", (side, side), "white"), caption((0, 0, side / 2, side / 2)))
        assert drawn.width == min(side, LARGEST)
        strip[side] = (drawn.height - drawn.width) / drawn.width
    assert strip[2000] == pytest.approx(strip[640], rel=0.1)
    assert strip[6000] == pytest.approx(strip[640], rel=0.1)


def test_of_two_equal_boxes_both_are_seen() -> None:
    drawn = draw(Image.new("RGB", (640, 480), "white"), caption((100, 100, 400, 400), (100, 100, 400, 400)))
    colours = {colour for _, colour in drawn.crop((0, 0, 640, 480)).getcolors() or ()}
    assert {tuple(int(name[i : i + 2], 16) for i in (1, 3, 5)) for name in PALETTE[:2]} <= colours


def test_a_notebook_shows_a_caption_and_its_boxes_and_no_markup_of_others() -> None:
    grounded = caption((10, 20, 30, 40))
    assert "<td>10 20 30 40</td>" in grounded._repr_html_()
    evil = GroundedCaption("x", "<script>", ("<script>",), ((0, 8),), (Link(0, (0, 8), (0, 0, 1, 1), 0.9),))
    assert "<script>" not in evil._repr_html_()


def test_a_notebook_shows_the_picture_with_a_box_where_its_file_is_there(tmp_path: Path) -> None:
    Image.new("RGB", (80, 60)).save(tmp_path / "a.png")
    seen = replace(caption((10, 20, 30, 40)), media=str(tmp_path / "a.png"), size=(80, 60))
    assert 'src="data:image/png;base64,' in seen._repr_html_()
    assert '<rect x="10.0" y="20.0" width="20.0" height="20.0"' in seen._repr_html_()
    twice = replace(caption((10, 20, 30, 40), (10, 20, 30, 40)), media=seen.media, size=seen.size)
    assert '<rect x="10.8" y="20.8" width="18.4"' in twice._repr_html_()  # 4 of 80 / 400 pixels inside
    assert "<svg" not in replace(seen, media=str(tmp_path / "gone.png"))._repr_html_()
    phrase = GroundedPhrase("a dog", (0, 5), (10, 20, 30, 40), 0.9, 0.8)
    shown = GroundedPhrases([phrase], str(tmp_path / "a.png"), (80, 60))
    assert shown == [phrase] and "<rect" in shown._repr_html_() and "<td>a dog</td>" in shown._repr_html_()


def test_the_public_names_are_shown_before_they_are_used() -> None:
    assert {"load", "load_grounder", "draw", "GroundedCaption"} <= set(dir(groundling))
