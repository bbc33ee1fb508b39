"""Scenes on disk, in the layout of Flickr30k Entities: the same reader serves drawn and real pictures."""

from __future__ import annotations

import io
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from random import Random

from PIL import Image

from groundling.errors import GroundlingError
from groundling.scenes.draw import Picture, Pixels, draw
from groundling.scenes.events import sample
from groundling.scenes.grammar import CAPTIONS, Caption, Piece, captions, is_visible
from groundling.scenes.world import World

SPLITS = ("train", "val", "test")
Key = tuple[int, ...]  # the items that a phrase names; () is the place


@dataclass(frozen=True)
class DrawnScene:
    """A world, its picture and its captions."""

    world: World
    picture: Picture
    captions: tuple[Caption, ...]


def scene(seed: int, number: int, width: int = 256) -> DrawnScene:
    """The same numbers, the same scene. A world that hides its first fact, or is too poor to describe, is not kept."""
    worlds, words = Random(f"world {seed} {number}"), Random(f"words {seed} {number}")
    while True:
        world = sample(worlds)
        picture = draw(world, f"light {seed} {number}", width)
        seen = [i for i, box in enumerate(picture.boxes) if box]
        if is_visible(world.facts[0], seen) and len(made := captions(world, seen, words)) == CAPTIONS:
            return DrawnScene(world, picture, made)


def markup(scene: DrawnScene, number: int) -> tuple[str, str]:
    """The text of `Sentences/ID.txt` and `Annotations/ID.xml`."""
    names: dict[Key, int] = {}
    lines = [_sentence(caption, names, number * 100) for caption in scene.captions]
    return "".join(line + "\n" for line in lines), _annotation(scene, names, number)


def _sentence(caption: Caption, names: dict[Key, int], first: int) -> str:
    words = [_phrase(piece, names, first) for piece in caption]
    return _capital(" ".join(words)) + " ."


def _phrase(piece: Piece, names: dict[Key, int], first: int) -> str:
    if not piece.type:
        return piece.words
    entity = 0 if piece.type == "notvisual" else names.setdefault(piece.items, first + len(names) + 1)
    return f"[/EN#{entity}/{piece.type} {piece.words}]"


def _capital(sentence: str) -> str:
    """The first letter of the words, which may be inside a mark."""
    at = sentence.index(" ") + 1 if sentence.startswith("[") else 0
    return sentence[:at] + sentence[at].upper() + sentence[at + 1 :]


def _annotation(scene: DrawnScene, names: dict[Key, int], number: int) -> str:
    wide, high = scene.picture.image.size
    sides = f"\t\t<width>{wide}</width>\n\t\t<height>{high}</height>\n\t\t<depth>3</depth>\n"
    head = f"<filename>{name(number)}.png</filename>\n\t<size>\n{sides}\t</size>"
    objects = []
    for items, entity in names.items():
        boxes = [box for box in (scene.picture.boxes[i] for i in items) if box]
        objects += [_object(entity, _bndbox(box)) for box in boxes]
        if not boxes:
            objects.append(_object(entity, "\t\t<scene>1</scene>\n\t\t<nobndbox>1</nobndbox>"))
    return f"<annotation>\n\t{head}\n" + "".join(objects) + "</annotation>\n"


def _object(entity: int, body: str) -> str:
    return f"\t<object>\n\t\t<name>{entity}</name>\n{body}\n\t</object>\n"


def _bndbox(box: Pixels) -> str:
    """Flickr30k Entities counts pixels from 1, and the last one is inside."""
    left, top, right, bottom = box
    sides = {"xmin": left + 1, "ymin": top + 1, "xmax": right, "ymax": bottom}
    return "\t\t<bndbox>\n" + "".join(f"\t\t\t<{side}>{at}</{side}>\n" for side, at in sides.items()) + "\t\t</bndbox>"


def name(number: int) -> str:
    return f"{number:06d}"


# ---------------------------------------------------------------- files


def split_sizes(images: int, fractions: tuple[float, float, float]) -> tuple[int, int, int]:
    """How many go to train, val and test; what rounding leaves over goes to train."""
    if min(fractions) < 0 or abs(sum(fractions) - 1) > 1e-6:
        raise GroundlingError(f"the split fractions must be three numbers >= 0 that sum to 1, got {fractions}")
    val, test = (int(images * f + 0.5) for f in fractions[1:])
    if val + test > images:
        raise GroundlingError(f"{images} images are too few for these splits {fractions}")
    return images - val - test, val, test


def write(
    out: Path,
    images: int,
    seed: int,
    width: int = 256,
    fractions: tuple[float, float, float] = (0.8, 0.1, 0.1),
    workers: int = 1,
) -> Iterator[str]:
    """Draw and write scenes 0 .. images - 1, yielding the id of each; exhaust it. The bytes do not depend on `workers`.

    The split lists come last: where they are, the rest is.
    """
    sizes = split_sizes(images, fractions)
    for folder in ("images", "Sentences", "Annotations"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    job = partial(_write_one, out, seed, width)
    if workers == 1:
        yield from map(job, range(images))
    else:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            yield from pool.map(job, range(images), chunksize=16)
    start = 0
    for split, size in zip(SPLITS, sizes, strict=True):
        ids = "".join(name(number) + "\n" for number in range(start, start + size))
        (out / f"{split}.txt").write_text(ids, encoding="utf-8", newline="\n")
        start += size


def _write_one(out: Path, seed: int, width: int, number: int) -> str:
    made = scene(seed, number, width)
    sentences, annotation = markup(made, number)
    save_png(made.picture.image, out / "images" / f"{name(number)}.png")
    (out / "Sentences" / f"{name(number)}.txt").write_text(sentences, encoding="utf-8", newline="\n")
    (out / "Annotations" / f"{name(number)}.xml").write_text(annotation, encoding="utf-8", newline="\n")
    return name(number)


def save_png(image: Image.Image, path: Path) -> None:
    """Encode in memory first, so that a full disk gives an error and leaves no half of a picture."""
    content = io.BytesIO()
    image.save(content, "PNG", compress_level=4)
    path.write_bytes(content.getvalue())
