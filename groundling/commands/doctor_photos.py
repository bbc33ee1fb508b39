"""What `groundling doctor` reports on one's own photos: duplicate pictures, and which way to train."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from groundling.data.dataset import Dataset
    from groundling.types import Example

MANY = 50_000  # pictures above which equal ones are not looked for
FEW_PHOTOS = 3000  # below, adapting is advised; a choice, not measured
ADAPTING = 0.5  # seconds of one core for a photo, its regions included; measured on 400 photos
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
    train = sum(example.split == "train" for example in dataset)
    if 0 < train < FEW_PHOTOS:
        facts["training"] = f"{train} photos are few: `groundling adapt` goes on with trained weights"
        facts["adapting"] = _needs(len(dataset))
    return facts


def _needs(photos: int) -> str:
    """Time and disk that adapting to so many photos takes."""
    minutes, room = max(1, round(photos * ADAPTING / 60)), max(1, round(photos * REGIONS))
    return f"about {minutes} minutes of one core, and {room} MB for regions"


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
