"""Data types without tensors: what a data set holds, what a user gets. `tensors.py` has the others.

Kept apart so that scoring and reading data need no torch. Boxes are xyxy in pixels of the image as viewers show it,
turned as its EXIF says; `images.stored_box` gives those of the pixels as the file stores them.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from typing import Any, Protocol

from groundling.errors import DataError

Box = tuple[float, float, float, float]
Span = tuple[int, int]  # half open, [start, end)

PAD, BOS, EOS, UNK = 0, 1, 2, 3  # the first four ids of every vocabulary
WORD_MEAN, WORD_DEVIATION = -5.0, 2.5  # of log(−log(1 − p)), about: image vectors have mean 0 and deviation 1
PHRASE_BEFORE = 2  # words before a noun that belong to its phrase, where nobody has found the phrases
PHRASE_LONGEST = 12  # words of a phrase that are read, the last ones
MATCH_IOU, MATCH_WIDTH = 0.5, 0.08  # two boxes match: σ((IoU − 0.5) / 0.08), its width chosen on Flickr8k's val split
DOUBTED = 0.65  # a noun of a caption whose evidence is below this is marked: of others about one in ten is made up
PALETTE = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d00", "#000000")  # Okabe and Ito
WEB = {".jpg": "jpeg", ".jpeg": "jpeg", ".png": "png", ".webp": "webp", ".gif": "gif"}  # what browsers show
EMBEDDED = 4_000_000  # bytes of a picture that a notebook shows
FAINT = 0.2  # so may one of unknown evidence with less attention than this on its place


# ---------------------------------------------------------------- what a dataset says


@dataclass(frozen=True)
class Caption:
    """One sentence. `tokens` are the lower-cased words that models see; `spans` are their characters in `text`.

    `tags` (Penn), `lemmas` and `chunks` (noun phrases, as token spans) are empty until `text.annotate` fills them.
    """

    text: str
    tokens: tuple[str, ...]
    spans: tuple[Span, ...]
    tags: tuple[str, ...] = ()
    lemmas: tuple[str, ...] = ()
    chunks: tuple[Span, ...] = ()

    @property
    def nouns(self) -> tuple[bool, ...]:
        """Which tokens are nouns; all False before annotation."""
        return tuple(t.startswith("NN") for t in self.tags) or (False,) * len(self.tokens)


@dataclass(frozen=True)
class Phrase:
    """The truth about one phrase of one caption: where it is. Boxes are empty when nothing was drawn."""

    caption: int  # index into Example.captions
    span: Span  # tokens of that caption
    boxes: tuple[Box, ...] = ()
    frames: tuple[int, ...] = ()  # frame of each box; empty for an image
    kinds: tuple[str, ...] = ()  # people, clothing, scene, ... as the dataset names them
    entity: str = ""  # phrases of one entity share it, across captions
    label: str = ""  # single-word object class, if the phrase has one
    head: int = -1  # the token that carries the label


@dataclass(frozen=True)
class Thing:
    """An object that a dataset marks without a phrase (COCO instances)."""

    label: str
    box: Box


@dataclass(frozen=True)
class Example:
    """One image, or one segment of a video, with its captions."""

    id: str
    media: str  # path of the image or video file; "" when only features exist
    size: tuple[int, int]  # width, height of the media; (0, 0) when unknown
    captions: tuple[Caption, ...] = ()
    gold: tuple[Phrase, ...] = ()
    things: tuple[Thing, ...] = ()
    split: str = ""
    segment: tuple[float, float] | None = None  # seconds, for a part of a video


class Vocab(Protocol):
    """Words and their ids; the first four are PAD, BOS, EOS, UNK."""

    @property
    def words(self) -> tuple[str, ...]: ...

    @property
    def nouns(self) -> tuple[bool, ...]:
        """Which words are nouns more often than not; all False where no tags were known."""
        ...

    def __len__(self) -> int: ...

    def encode(self, tokens: Sequence[str]) -> list[int]:
        """Ids of the words, UNK for the unknown; no BOS, no EOS."""
        ...

    def decode(self, ids: Sequence[int]) -> list[str]:
        """Words up to the first EOS; PAD and BOS are dropped."""
        ...


@dataclass(frozen=True)
class Fingerprint:
    """Who made these regions: name, version, parameters, SHA-256 of weights. Equal fingerprints, equal numbers."""

    name: str
    version: str
    dim: int
    parameters: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, str] = field(default_factory=dict)  # file name -> sha256
    labels: tuple[str, ...] = ()  # names of the detector's classes


# ---------------------------------------------------------------- what a user gets


@dataclass(frozen=True)
class Link:
    """A word of a caption and its box. `span` counts characters of the text."""

    token: int
    span: Span
    box: Box
    score: float  # 0 to 1, how sure the model is of the box
    frame: int = 0
    evidence: float | None = None  # probability that the thing is in the image at all; None: no grounder knows it
    source: str = ""  # where the word comes from, if not from the captioner: "image classes"


@dataclass(frozen=True)
class WordAttention:
    """The regions that one word of a caption attended to: boxes with their weights, the largest weight first."""

    token: int
    boxes: tuple[Box, ...]
    weights: tuple[float, ...]
    frames: tuple[int, ...] = ()


@dataclass(frozen=True)
class GroundedCaption:
    """A caption whose words have boxes; one JSON line."""

    id: str
    text: str
    tokens: tuple[str, ...] = field(repr=False)
    spans: tuple[Span, ...] = field(repr=False)  # characters of each token
    links: tuple[Link, ...] = ()
    attention: tuple[WordAttention, ...] = field(default=(), repr=False)  # would fill a screen
    logp: float = 0.0  # of the whole caption
    size: tuple[int, int] = (0, 0)  # width and height that the boxes refer to
    media: str = ""
    frames: int = 0  # of the clip, in which links count theirs; 0 for an image
    segment: tuple[float, float] | None = None  # seconds, for a part of a video
    found: bool = False  # the words are those of a user, and linked are the phrases that were found: none is weak

    def __iter__(self) -> Iterator[Link]:
        return iter(self.links)

    def word(self, link: Link) -> str:
        return self.text[slice(*link.span)]

    def weak(self, link: Link) -> bool:
        """May the word be made up? True if its evidence is low or, where none is known, the attention on its box."""
        if self.found:
            return False
        if link.evidence is not None:
            return link.evidence < DOUBTED
        return link.score * max(1, self.frames) < FAINT  # the frames of a clip share it

    def _repr_html_(self) -> str:
        """In a notebook: the picture with its boxes, the caption, and a row for each of its links."""
        rows = [
            (
                self.word(link),
                " ".join(f"{x:.0f}" for x in link.box),
                f"{link.score:.2f}",
                "" if link.evidence is None else f"{link.evidence:.2f}",
                "perhaps made up" if self.weak(link) else link.source and f"by {link.source}",
            )
            for link in self.links
        ]
        boxes = [] if self.frames else [(self.word(link), link.box, self.weak(link)) for link in self.links]
        picture = html_picture(self.media, self.size, boxes)
        return f"{picture}<p>{escape(self.text)}</p>{html_table(('word', 'box', 'score', 'evidence', ''), rows)}"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON: what one line of a captions file holds. Weights are rounded to four digits."""
        row = asdict(self)
        del row["found"]
        row["caption"] = row.pop("text")
        row["logp"] = round(self.logp, 4)
        if not self.frames:
            del row["frames"], row["segment"]
        for word in row["attention"]:
            word["weights"] = [round(weight, 4) for weight in word["weights"]]
        for link, plain in zip(self.links, row["links"], strict=True):
            plain["word"], plain["score"] = self.word(link), round(link.score, 4)
            plain["evidence"] = None if link.evidence is None else round(link.evidence, 4)
            plain["weak"] = self.weak(link)
            if not link.source:
                del plain["source"]
        return row

    @staticmethod
    def from_dict(row: Mapping[str, Any]) -> GroundedCaption:
        """The inverse of `to_dict`; raises DataError with the field that is wrong."""
        try:
            return GroundedCaption(
                id=str(row["id"]),
                text=str(row["caption"]),
                tokens=tuple(str(t) for t in row.get("tokens", ())),
                spans=tuple(_span(s) for s in row.get("spans", ())),
                links=tuple(_link(x) for x in row.get("links", ())),
                attention=tuple(
                    WordAttention(
                        int(x["token"]),
                        tuple(_box(b) for b in x["boxes"]),
                        tuple(_number(w) for w in x["weights"]),
                        tuple(int(f) for f in x.get("frames", ())),
                    )
                    for x in row.get("attention", row.get("looks", ()))  # "looks": as earlier files have it
                ),
                logp=_number(row.get("logp", 0.0)),
                size=_span(row.get("size", (0, 0))),
                media=str(row.get("media", "")),
                frames=int(row.get("frames", 0)),
                segment=_seconds(row.get("segment")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"not a grounded caption: {type(error).__name__}: {error}") from error


@dataclass(frozen=True)
class Score:
    """A number that can be argued with."""

    name: str
    value: float
    n: int
    signature: str  # f1_all|iou:.5|split:test|text:generated|v:0.1

    def __str__(self) -> str:
        return f"{self.name} = {self.value:.4f} (n = {self.n}) [{self.signature}]"


def html_table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table for notebooks; whatever is in it is shown as text."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def html_picture(media: str, size: tuple[int, int], boxes: Sequence[tuple[str, Box, bool]]) -> str:
    """A picture file with labelled boxes, (label, box, is it weak?), for notebooks; "" where it cannot be shown.

    The file itself is embedded, so that what a browser turns by EXIF is turned here too.
    """
    kind = WEB.get(Path(media).suffix.lower())
    try:
        if kind is None or not all(size) or Path(media).stat().st_size > EMBEDDED:
            return ""
        content = base64.b64encode(Path(media).read_bytes()).decode("ascii")
    except OSError:
        return ""
    unit = max(size) / 400  # so that lines and letters are equally large in every picture
    given = [box for _, box, _ in boxes]
    drawn, names = "", ""
    for i, (name, box, weak) in enumerate(boxes):
        inside = 4 * unit * given[:i].count(box)  # of equal boxes each later one is drawn inside, its name below
        drawn += _rectangle(box, inside, PALETTE[i % len(PALETTE)], weak, unit)
        names += _label(name, box, 4 * inside, PALETTE[i % len(PALETTE)], unit)
    return (
        f'<div style="position:relative;max-width:400px"><img style="width:100%;display:block" alt="" '
        f'src="data:image/{kind};base64,{content}"><svg style="position:absolute;inset:0;width:100%;height:100%" '
        f'viewBox="0 0 {size[0]:d} {size[1]:d}">{drawn}{names}</svg></div>'
    )


def _rectangle(box: Box, inside: float, colour: str, weak: bool, unit: float) -> str:
    left, top, right, bottom = box[0] + inside, box[1] + inside, box[2] - inside, box[3] - inside
    dashes = f' stroke-dasharray="{6 * unit:.1f}"' if weak else ""
    return (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{max(0.0, right - left):.1f}" '
        f'height="{max(0.0, bottom - top):.1f}" fill="none" stroke="{colour}" stroke-width="{3 * unit:.1f}"{dashes}/>'
    )


def _label(name: str, box: Box, below: float, colour: str, unit: float) -> str:
    at = f'x="{box[0] + 4 * unit:.1f}" y="{box[1] + 16 * unit + below:.1f}" font-size="{14 * unit:.1f}"'
    style = f'fill="{colour}" stroke="white" stroke-width="{3 * unit:.1f}" paint-order="stroke"'
    return f"<text {at} {style}>{escape(name)}</text>"


def _link(row: Mapping[str, Any]) -> Link:
    evidence = row.get("evidence")
    return Link(
        int(row["token"]),
        _span(row["span"]),
        _box(row["box"]),
        _number(row["score"]),
        int(row.get("frame", 0)),
        None if evidence is None else _number(evidence),
        str(row.get("source", "")),
    )


def _number(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number} is not a finite number")
    return number


def _span(value: Any) -> Span:
    start, end = value
    return int(start), int(end)


def _seconds(value: Any) -> tuple[float, float] | None:
    if value is None:
        return None
    start, end = value
    return _number(start), _number(end)


def _box(value: Any) -> Box:
    left, top, right, bottom = (_number(x) for x in value)
    return left, top, right, bottom
