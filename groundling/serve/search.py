"""Search in an index that `groundling index` wrote. The only module here that knows what an index is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundling.errors import GroundlingError
from groundling.images import SUFFIXES
from groundling.serve.problems import unfit

MOST = 100  # images of one response


@dataclass(frozen=True)
class Search:
    """An opened index; `files` are its pictures by their ids."""

    index: Any
    files: Mapping[str, Path]

    @staticmethod
    def open(folder: Path, model: str) -> Search:
        """GroundlingError where the folder is no index, or one of another grounder."""
        from groundling.search import open_index

        index = open_index(folder, model)
        media = {entry.id: Path(entry.media) for entry in index.entries}
        return Search(index, {id: path for id, path in media.items() if path.suffix.lower() in SUFFIXES})

    def __call__(self, query: str, images: int) -> dict[str, Any]:
        """The images that show most of what the query names. Called in the inference thread."""
        try:
            hits = self.index.search(query, images)
        except GroundlingError as error:
            raise unfit(str(error), "no-phrase") from error
        return {"query": query, "hits": [_row(hit) for hit in hits]}


def _row(hit: Any) -> dict[str, Any]:
    boxes = [
        {"query": phrase, "phrase": entry.phrase, "box": [round(x, 1) for x in entry.box], "score": round(score, 4)}
        for phrase, entry, score in hit.boxes
    ]
    return {"image": hit.id, "size": list(hit.size), "score": round(hit.score, 4), "boxes": boxes}
