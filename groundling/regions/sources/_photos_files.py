"""What the source of photos is made of: its pinned files, its sizes, and the network that was taught by captions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import safetensors.numpy
from numpy.typing import NDArray

from groundling.regions.sources._files import Pinned
from groundling.regions.sources._proposals import CONFIG, GRAPH, NAMES

VERSION = "3"
WORKING_SIDE = 320  # pixels of the long side that the network sees
SEARCH_SIDE = 200  # and selective search: at 320 it took three times as long and found no more
MAP_SIDE = 7  # cells of the feature map along each side
CELLS = 48  # of a photo when the network was first trained, at 256 pixels; what maps of all sizes are brought to
STAGE_STRIDES = (1, 2, 2, 2, 1, 2, 1)  # of the first block of each stage; a stage is a run of equal output widths
WORD_BACKBONE = Pinned(
    "groundling",
    "regions/sources/word_backbone.safetensors",
    "d1d9409a4b9aeb68ada08945f05d880a81ea3037a67aa4fa707da3f67663180c",
)
FILES = (GRAPH, CONFIG, NAMES, WORD_BACKBONE)


@dataclass(frozen=True)
class WordFile:
    """The network's weights by name, with a prefix "network.", those of its words and projections, and the words."""

    state: dict[str, NDArray[Any]]  # of half or full precision
    words: tuple[str, ...]


def read_word_file() -> WordFile:
    """The pinned file, checked against its SHA-256 before anything of it is used."""
    content = WORD_BACKBONE.read()
    length = int.from_bytes(content[:8], "little")
    return WordFile(
        safetensors.numpy.load(content), tuple(json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["words"]))
    )
