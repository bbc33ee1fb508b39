"""One HTML file with the hits of a search, each image with its boxes. It needs no server and no network."""

from __future__ import annotations

import html
import io
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

from groundling.errors import DataError
from groundling.files import save_text
from groundling.labels.inputs import Pair
from groundling.search.index import Hit, highlighted

SIDE = 400  # pixels of the longest side of an embedded image
COLOURS = ("#d4421e", "#1c6fb8", "#2c8a3c", "#8a3cb0", "#b07a00")

STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.45 system-ui, sans-serif; margin: 1rem auto; max-width: 1200px; padding: 0 1rem }
main { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(280px, 1fr)) }
figure { margin: 0 } svg { width: 100%; height: auto; display: block }
figcaption { font-size: .85rem; overflow-wrap: anywhere }
rect { fill: none; stroke-width: 3; vector-effect: non-scaling-stroke }
"""


def write(path: Path, query: str, hits: Sequence[Hit]) -> None:
    """The page of the hits of a query; a hit whose image cannot be read says so."""
    title = html.escape(f"{len(hits)} images for “{query}”")
    figures = "\n".join(_figure(hit) for hit in hits)
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    page = f'<!doctype html><html lang="en"><head>{head}<style>{STYLE}</style></head>'
    save_text(path, f"{page}<body><h1>{title}</h1><main>\n{figures}\n</main></body></html>\n")


def _figure(hit: Hit) -> str:
    boxes = list(highlighted(hit))
    phrases = ", ".join(
        f'<span style="color:{COLOURS[i % len(COLOURS)]}">{html.escape(text)}</span>'
        for i, (text, _) in enumerate(boxes)
    )
    caption = f"<figcaption><b>{html.escape(hit.id)}</b> {hit.score:.3f}<br>{phrases}</figcaption>"
    try:
        address = _embedded(hit)
    except DataError as error:
        return f"<figure><p>{html.escape(str(error))}</p>{caption}</figure>"
    width, height = hit.size
    drawn = "".join(
        f'<rect x="{b[0]:.1f}" y="{b[1]:.1f}" width="{b[2] - b[0]:.1f}" height="{b[3] - b[1]:.1f}" '
        f'stroke="{COLOURS[i % len(COLOURS)]}"/>'
        for i, (_, b) in enumerate(boxes)
    )
    image = f'<image href="{address}" width="{width}" height="{height}"/>'
    named = html.escape(hit.id, quote=True)
    picture = f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{named}">{image}{drawn}</svg>'
    return f"<figure>{picture}{caption}</figure>"


def _embedded(hit: Hit) -> str:
    picture = Pair(hit.id, hit.media, ()).opened()
    picture.thumbnail((SIDE, SIDE))
    buffer = io.BytesIO()
    picture.save(buffer, "WEBP", quality=72, method=2)
    return "data:image/webp;base64," + b64encode(buffer.getvalue()).decode("ascii")
