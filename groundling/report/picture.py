"""A caption and its boxes as one picture: coloured boxes on the image, the same colours under the words.

Lines and letters grow with the picture, which is drawn at most LARGEST pixels wide or high. The colours are those of
Okabe and Ito, which colour-blind people can distinguish. Of boxes that are nearly equal, each later one is drawn
inside."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

from groundling.images import Picture, opened
from groundling.types import PALETTE, Box, GroundedCaption
from groundling.video import FRAMES, frames, is_clip

LARGEST = 2048  # pixels of the longer side of a drawn image
PLAIN = 640  # pixels of the longer side for which lines and letters have their plain size; smaller ones are enlarged
FRAME, GAP = 320, 6  # pixels: how wide a frame of a clip is drawn, and how far from the next
NARROWEST = 320  # pixels of the caption's lines
LONGEST = 200  # letters of a word that are drawn


def colours(caption: GroundedCaption) -> dict[int, str]:
    """A colour for each grounded token, in order of appearance."""
    tokens = dict.fromkeys(link.token for link in caption.links)
    return {token: PALETTE[i % len(PALETTE)] for i, token in enumerate(tokens)}


def weak_words(caption: GroundedCaption) -> set[int]:
    """The grounded tokens that may be made up: those of which every link is weak."""
    return {link.token for link in caption.links} - {link.token for link in caption.links if not caption.weak(link)}


def draw(image: Picture, caption: GroundedCaption) -> Image.Image:
    """The image with its boxes, the caption below; of a clip its frames, side by side."""
    if not isinstance(image, Image.Image) and is_clip(image):
        return draw_clip(list(frames(image, caption.frames or FRAMES, caption.segment)), caption)
    return draw_image(opened(image), caption)


def draw_image(image: Image.Image, caption: GroundedCaption, frame: int = 0) -> Image.Image:
    """The image with the boxes of one frame, and the caption below it, grounded words underlined in their colour.

    What may be made up has a dashed box and a question mark. Boxes are scaled from `caption.size` to the image, so a
    larger or smaller copy of the picture will do.
    """
    longer = max(image.size)
    scale = min(max(longer, PLAIN), LARGEST) / longer
    return _captioned(_boxed(image, caption, frame, round(image.width * scale)), caption)


def draw_clip(shots: Sequence[Image.Image], caption: GroundedCaption) -> Image.Image:
    """The frames of a clip in rows, each with its boxes, and the caption below them."""
    columns = min(len(shots), 5 if len(shots) > 8 else 4 if len(shots) > 6 else 3)
    boxed = [_boxed(frame, caption, number, FRAME) for number, frame in enumerate(shots)]
    wide, high = boxed[0].width + GAP, max(picture.height for picture in boxed) + GAP
    sheet = Image.new("RGB", (columns * wide - GAP, -(-len(shots) // columns) * high - GAP), "white")
    for number, picture in enumerate(boxed):
        sheet.paste(picture, (number % columns * wide, number // columns * high))
    return _captioned(sheet, caption)


def _boxed(image: Image.Image, caption: GroundedCaption, frame: int, width: int) -> Image.Image:
    """A copy of this width with the boxes of one frame, not higher than can be drawn."""
    width = max(1, width)
    shape = width, min(LARGEST, max(1, round(image.height * width / image.width)))
    rgb = image if image.mode == "RGB" else image.convert("RGB")
    picture = rgb.resize(shape, reducing_gap=3.0)  # in one step the weights of a long image would take gigabytes
    across, down = caption.size if all(caption.size) else image.size
    sx, sy = picture.width / across, picture.height / down
    colour, pen = colours(caption), ImageDraw.Draw(picture)
    unit, drawn = _unit(picture), list[Box]()
    for link in caption.links:
        if link.frame == frame:
            left, top, right, bottom = link.box
            box = _inside((left * sx, top * sy, right * sx, bottom * sy), picture.size)
            drawn.append(_apart(box, drawn, 5 * unit))
            _rectangle(pen, drawn[-1], colour[link.token], caption.weak(link), unit)
    return picture


def _inside(box: Box, size: tuple[int, int]) -> Box:
    """The box as far as it is in the picture or just beside it: captions of other systems may have any box."""
    left, right = (min(max(x, -GAP), size[0] + GAP) for x in (box[0], box[2]))
    top, bottom = (min(max(y, -GAP), size[1] + GAP) for y in (box[1], box[3]))
    return left, top, right, bottom


def _unit(picture: Image.Image) -> float:
    """How many pixels of the picture are one of a picture of PLAIN pixels."""
    return max(1.0, max(picture.size) / PLAIN)


def _apart(box: Box, drawn: Sequence[Box], step: float) -> Box:
    """The box, drawn inside of those before it that it would cover."""
    left, top, right, bottom = box
    while any(max(abs(a - b) for a, b in zip(box, other, strict=True)) < step for other in drawn):
        if right - left < 4 * step or bottom - top < 4 * step:
            break
        left, top, right, bottom = box = left + step, top + step, right - step, bottom - step
    return box


def _captioned(picture: Image.Image, caption: GroundedCaption) -> Image.Image:
    strip = _strip(caption, max(NARROWEST, picture.width), colours(caption), _unit(picture))
    sheet = Image.new("RGB", (strip.width, picture.height + strip.height), "white")
    sheet.paste(picture, (0, 0))
    sheet.paste(strip, (0, picture.height))
    return sheet


def _rectangle(pen: ImageDraw.ImageDraw, box: Box, colour: str, weak: bool, unit: float) -> None:
    left, top, right, bottom = box
    if not weak:
        pen.rectangle((left, top, max(left, right), max(top, bottom)), outline=colour, width=round(4 * unit))
        return
    dash, width = round(6 * unit), round(3 * unit)
    for x0, y0, x1, y1 in ((left, top, right, top), (left, bottom, right, bottom)):
        for x in range(int(x0), int(x1), 2 * dash):
            pen.line((x, y0, min(x + dash, x1), y1), fill=colour, width=width)
    for x0, y0, x1, y1 in ((left, top, left, bottom), (right, top, right, bottom)):
        for y in range(int(y0), int(y1), 2 * dash):
            pen.line((x0, y, x1, min(y + dash, y1)), fill=colour, width=width)


def _strip(caption: GroundedCaption, width: int, colour: dict[int, str], unit: float) -> Image.Image:
    """The caption, wrapped to `width`, each grounded word underlined; no higher than LARGEST and a line."""
    font = ImageFont.load_default(size=22 * unit)
    margin, line, gap = round(12 * unit), round(34 * unit), font.getlength(" ")
    words, x, y = [], float(margin), margin
    doubtful = weak_words(caption)
    for token, (start, end) in enumerate(caption.spans):
        word = caption.text[start:end] + (" ?" if token in doubtful else "")
        word = word if len(word) <= LONGEST else f"{word[:LONGEST]}…"
        length = font.getlength(word)
        if x + length > width - margin and x > margin:
            x, y = float(margin), y + line
        if y > LARGEST:
            words.append((token, "…", x, y, 0.0))
            break
        words.append((token, word, x, y, length))
        x += length + gap
    strip = Image.new("RGB", (width, y + line + margin // 2), "white")
    pen = ImageDraw.Draw(strip)
    for token, word, x, y, length in words:
        pen.text((x, y), word, font=font, fill=colour.get(token, "#222222"))
        if token in colour:
            under = y + round(27 * unit)
            pen.line((x, under, x + length, under), fill=colour[token], width=round(3 * unit))
    return strip
