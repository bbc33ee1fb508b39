"""Finding things again: an index of the boxes of labelled images, searched by phrases.

from groundling import search

index = search.open_index("photos.index")
for hit in index.search("a dog on a boat"):
    print(hit.id, hit.score, hit.boxes)
"""

from __future__ import annotations

from groundling.search.index import Hit, Index, build, open_index

__all__ = ["Hit", "Index", "build", "open_index"]
