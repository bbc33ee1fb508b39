"""What `groundling doctor` reports on one's own photos: duplicate pictures, and which way to train."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from groundling.commands.adapt import FEW, FEWEST

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from groundling.data.dataset import Dataset
    from groundling.types import Example

MANY = 50_000  # pictures above which equal ones are not looked for
MANY_SEEN = 5000  # and those that look alike, for which each is decoded: 3 ms for a small one, 30 ms for one of a phone
GRID = 16  # rows and columns of the differences that tell how a picture looks
ALIKE = 24  # of GRID² differences, so many others at most in a copy that was saved again; two photos have 63 or more
PLAIN = 32  # fewer rises or falls of brightness than this: an empty picture looks like any other
FEW_PHOTOS = 3000  # below, adapting is advised; with so many, training from nothing was measured to caption as well
ADAPTING = 0.4  # seconds of one core for a photo, its regions included; measured on 300 and 400 photos, 0.26 and 0.25
REGIONS = 0.109  # MB of the regions of a photo


def leaks(dataset: Dataset) -> Iterator[str]:
    """Pictures, byte for byte the same, in two splits."""
    for group in _equal(dataset):
        splits = {example.split: example for example in group}
        if len(splits) > 1:
            listed = ", ".join(f"{example.id} in {name}" for name, example in splits.items())
            yield f"the same picture is in {len(splits)} splits ({listed}): keep one, or scores are too good"


def advice(dataset: Dataset) -> dict[str, int | str]:
    """Facts: how many pictures are there twice, how to train on so few, and what that takes."""
    facts: dict[str, int | str] = {}
    if twice := sum(len(group) - 1 for group in _equal(dataset)):
        facts["same picture again"] = twice
    if pairs := list(_alike(dataset)):
        first = ", ".join(f"{example.id} in {example.split}" for example in pairs[0])
        count = "a pair" if len(pairs) == 1 else f"{len(pairs)} pairs"
        facts["look alike in two splits"] = f"{count} of pictures ({first}): keep one, or scores are too good"
    train = sum(example.split == "train" for example in dataset)
    if 0 < train < FEW_PHOTOS:
        facts["training"] = (
            f"{train} photo{'s are' if train > 1 else ' is'} few: `groundling adapt` goes on with trained weights"
        )
        scored = sum(example.split == "val" for example in dataset)
        facts["adapting"] = _needs(len(dataset)) if scored >= FEWEST else _too_few(scored)
    return facts


def _too_few(scored: int) -> str:
    photos = f"{scored} photo{'s' * (scored != 1)}"
    return f"needs {FEWEST} photos in the split val, better {FEW}, and has {photos}: add photos"


def _needs(photos: int) -> str:
    """Time and disk that adapting to so many photos takes."""
    minutes, room = max(1, round(photos * ADAPTING / 60)), max(1, round(photos * REGIONS))
    return f"about {minutes} minute{'s' * (minutes > 1)} of one core, and {room} MB for regions"


def _alike(dataset: Dataset) -> Iterator[tuple[Example, Example]]:
    """Pictures of one's own that look the same in two splits: saved again, smaller, or taken a moment later."""
    import numpy as np

    from groundling.data.folder import FORMAT
    from groundling.errors import DataError
    from groundling.images import SUFFIXES
    from groundling.progress import track

    shown = [example for example in dataset if Path(example.media).suffix.lower() in SUFFIXES]
    if dataset.format != FORMAT or len(shown) > MANY_SEEN or len(dataset.splits) < 2:
        return
    seen: dict[str, list[tuple[Example, NDArray[np.bool_]]]] = {}
    for example in track(shown, "how pictures look", quiet=len(shown) < 500):
        try:
            rises = how_it_looks(example.media)
        except DataError:
            continue  # told elsewhere
        if PLAIN <= rises.sum() <= rises.size - PLAIN:
            seen.setdefault(example.split, []).append((example, rises))
    equal = {example.id: number for number, group in enumerate(_equal(dataset)) for example in group}
    names = sorted(seen)
    for one, other in ((a, b) for i, a in enumerate(names) for b in names[i + 1 :]):
        first, second = (np.array([rises for _, rises in seen[name]], np.float32) for name in (one, other))
        apart = first @ (1 - second).T + (1 - first) @ second.T
        for i, j in np.argwhere(apart <= ALIKE):
            pair = seen[one][i][0], seen[other][j][0]
            if len({equal.get(example.id, example.id) for example in pair}) == 2:
                yield pair


def how_it_looks(path: Path | str) -> NDArray[np.bool_]:
    """(GRID²,): where the picture, made tiny and grey, becomes brighter from left to right; the same at any size."""
    import numpy as np
    from PIL import Image

    from groundling.images import open_image

    tiny = open_image(path).convert("L").resize((GRID + 1, GRID), Image.Resampling.BOX)
    levels = np.asarray(tiny, np.int16)
    return np.asarray(levels[:, 1:] > levels[:, :-1]).ravel()


def _equal(dataset: Dataset) -> list[list[Example]]:
    """Groups of examples whose files are the same, found by length first; segments of one clip are no such group."""
    files = [example for example in dataset if example.media and Path(example.media).is_file() and not example.segment]
    if len(files) > MANY:
        return []
    by_length: dict[int, list[Example]] = {}
    for example in files:
        by_length.setdefault(Path(example.media).stat().st_size, []).append(example)
    by_content: dict[bytes, list[Example]] = {}
    for some in by_length.values():
        for example in some if len(some) > 1 else ():
            by_content.setdefault(blake2b(Path(example.media).read_bytes(), digest_size=16).digest(), []).append(
                example
            )
    return [group for group in by_content.values() if len(group) > 1]
