"""What is labelled: pairs of an image and its captions, from any data set, WebDataset tars or Parquet, shard by shard."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from groundling.images import open_image

if TYPE_CHECKING:
    from PIL import Image


@dataclass(frozen=True)
class Pair:
    """An image, as a file or as the bytes of one, and what people said of it."""

    id: str
    media: str  # path, or where its bytes came from
    captions: tuple[str, ...]
    split: str = ""
    content: bytes | None = field(default=None, repr=False)  # of the image file; None: read it from `media`

    def opened(self) -> Image.Image:
        """RGB and upright; DataError names an image that cannot be read."""
        if self.content is None:
            return open_image(self.media)
        with tempfile.NamedTemporaryFile(suffix=os.path.splitext(self.media)[1]) as file:
            file.write(self.content)
            file.flush()
            return open_image(file.name)
