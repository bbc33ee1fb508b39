"""Requests about an image as dataclasses, and how they are parsed: from JSON, or from the query of a URL.

A value of the wrong type, out of range or of an unknown name is refused with what would be right.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from groundling.formats import FORMATS
from groundling.serve.problems import bad
from groundling.serve.settings import Limits
from groundling.types import Box

LONGEST_ID = LONGEST_PHRASE = 200  # characters
MOST_FRAMES = 32  # of a clip
MOST_WORDS = 20  # for each region
FORMAT_AUTO = "auto"  # the format of a text to audit is recognised by its marks


@dataclass(frozen=True)
class Option:
    """A number, or true or false, that says how the words of a caption are chosen; `sample`: with sample=true, without
    it, or both."""

    about: str
    low: float = 0
    high: float = 1
    whole: bool = False
    sample: bool | None = None
    flag: bool = False


DECODING = {  # the only place that has these bounds: requests are parsed and documented by it
    "beam": Option("width of the beam; 1 is greedy, 3 the default", 1, 10, True, False),
    "length_penalty": Option(
        "compare the captions of a beam by log p / tokens^this; 0 prefers short ones, 0.9 the default",
        0,
        5,
        False,
        False,
    ),
    "no_repeat": Option(
        "no so many words in a row occur twice, no word twice in a row or around 'and'; 0: all may", 0, 10, True, False
    ),
    "min_length": Option("at least so many words", 0, 40, True, False),
    "repeat_nouns": Option(
        "a caption may have a noun twice; otherwise only in compounds ('tennis on a tennis court')",
        sample=False,
        flag=True,
    ),
    "evidence_weight": Option("how much the evidence of nouns counts when words are chosen; 0: not at all", 0, 10),
    "temperature": Option("with sample: below 1 prefers likely words", 0.05, 10, False, True),
    "top_k": Option("with sample: among the likeliest k; 0: all", 0, 100_000, True, True),
    "top_p": Option("with sample: among the likeliest up to p", 0.001, 1, False, True),
    "seed": Option("with sample: same seed, same words", 0, 2**31 - 1, True, True),
}


@dataclass(frozen=True)
class Media:
    """An image or a clip: its bytes, or the id of one whose regions the server still has."""

    content: bytes = b""
    id: str = ""
    frames: int = 0  # of a clip; 0: an image


@dataclass(frozen=True)
class DecodingOptions:
    """How the words of a caption are chosen: by beam search, or by sampling."""

    sample: bool = False
    options: tuple[tuple[str, float | bool | None], ...] = ()  # names of DECODING


@dataclass(frozen=True)
class CaptionRequest:
    decoding: DecodingOptions = DecodingOptions()


@dataclass(frozen=True)
class GroundRequest:
    """The noun phrases of a sentence, or these phrases."""

    sentence: str = ""
    phrases: tuple[str, ...] = ()


@dataclass(frozen=True)
class GivenBox:
    """A box that came with a text, for one of its phrases."""

    phrase: str
    box: Box


@dataclass(frozen=True)
class AuditRequest:
    """A text about an image, written in a format of `groundling.formats`; boxes may come beside a plain text."""

    text: str
    boxes: tuple[GivenBox, ...] = ()
    format: str = "plain"  # or FORMAT_AUTO
    resized: tuple[int, int] | None = None  # qwen2.5-vl: the width and height at which it saw the image


@dataclass(frozen=True)
class RegionsRequest:
    """The regions of an image, each with `words` words that fit it; or this box alone, of one frame if it is a clip."""

    words: int = 5
    box: Box | None = None
    frame: int = 0


InferenceRequest = CaptionRequest | GroundRequest | AuditRequest | RegionsRequest


@dataclass
class Fields:
    """The values of one request. A field that nobody read before `done` is unknown, and refused."""

    values: Mapping[str, Any]
    limits: Limits
    from_query: bool = False  # values are text, of the query of a URL
    read: set[str] = field(default_factory=set)

    def get(self, name: str) -> Any:
        self.read.add(name)
        return self.values.get(name)

    def text(self, name: str, longest: int) -> str:
        value = self.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise bad(f"{name} must be text, got {_kind(value)}")
        if len(value) > longest:
            raise bad(f"{name} has {len(value):,} characters, at most {longest:,} are read: make it shorter")
        return value.encode("utf-8", "replace").decode()  # half a surrogate pair cannot be sent back

    def number(self, name: str, low: float, high: float, whole: bool = False) -> float | None:
        value = self.get(name)
        if value is None:
            return None
        kind = "a whole number" if whole else "a number"
        right = f"{name} must be {kind} from {low:g} to {high:g}"
        if self.from_query:
            value = _from_text(value, right)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise bad(f"{right}, got {_kind(value)}")
        if not low <= value <= high or (whole and value != int(value)):  # NaN is in no range
            raise bad(f"{right}, got {value if abs(value) < 1e15 else 'a larger one'}")
        return int(value) if whole else float(value)

    def flag(self, name: str) -> bool:
        value = self.get(name)
        if self.from_query and value in ("true", "false", "1", "0"):
            return value in ("true", "1")
        if value is not None and not isinstance(value, bool):
            raise bad(f"{name} must be true or false, got {_kind(value)}")
        return bool(value)

    def box(self, name: str) -> Box | None:
        value = self.get(name)
        if value is None:
            return None
        if self.from_query:
            value = [_from_text(part, f"{name} must be x1,y1,x2,y2") for part in str(value).split(",")[:5]]
        return as_box(value, name)

    def done(self) -> None:
        if unknown := sorted(set(self.values) - self.read):
            raise bad(f"unknown field {unknown[0][:60]!r}; known here: {', '.join(sorted(self.read))}")


# ---------------------------------------------------------------- one parser for each kind of request


def parse_caption(fields: Fields) -> CaptionRequest:
    sample = fields.flag("sample")
    given = []
    for name, option in DECODING.items():
        if fields.get(name) is None:
            continue
        value = fields.flag(name) if option.flag else fields.number(name, option.low, option.high, option.whole)
        if option.sample not in (None, sample):
            raise bad(f"{name} {'does not go with' if sample else 'needs'} sample=true")
        given.append((name, value))
    return CaptionRequest(DecodingOptions(sample, tuple(given)))


def parse_ground(fields: Fields) -> GroundRequest:
    sentence = fields.text("sentence", fields.limits.sentence)
    phrases = fields.get("phrases")
    if fields.from_query and phrases is not None:
        phrases = [part for part in str(phrases).split(";") if part.strip()]
    if phrases is not None and not (isinstance(phrases, list) and all(isinstance(p, str) for p in phrases)):
        raise bad('phrases must be a list of texts, such as ["a dog", "the red ball"]')
    phrases = phrases or []
    if len(phrases) > fields.limits.phrases:
        raise bad(f"{len(phrases)} phrases, at most {fields.limits.phrases} are grounded in one request")
    if any(len(phrase) > LONGEST_PHRASE for phrase in phrases):
        raise bad(f"a phrase has at most {LONGEST_PHRASE} characters")
    if not (sentence.strip() or phrases):
        raise bad("name what to find: sentence, or phrases")
    return GroundRequest(sentence, tuple(phrase.encode("utf-8", "replace").decode() for phrase in phrases))


def parse_audit(fields: Fields) -> AuditRequest:
    text = fields.text("text", fields.limits.sentence)
    if not text.strip():
        raise bad("text is empty: send the text that is to be audited")
    boxes = fields.get("boxes") or []
    if fields.from_query and boxes:
        raise bad("boxes are given in JSON: send Content-Type: application/json")
    if not isinstance(boxes, list) or len(boxes) > fields.limits.phrases:
        raise bad(
            f'boxes must be a list of at most {fields.limits.phrases} of {{"phrase": …, "box": [x1, y1, x2, y2]}}'
        )
    format, resized = fields.text("format", 40) or "plain", _resized(fields)
    if format not in (FORMAT_AUTO, *FORMATS):
        raise bad(f"format must be one of {FORMAT_AUTO}, {', '.join(FORMATS)}")
    if boxes and format not in (FORMAT_AUTO, "plain"):
        raise bad(f"boxes go with plain text; those of {format} stand in the text itself")
    given = tuple(_given_box(one, text) for one in boxes)
    return AuditRequest(text, given, "plain" if given else format, resized)


def _resized(fields: Fields) -> tuple[int, int] | None:
    value = fields.get("resized")
    if value is None:
        return None
    if fields.from_query:
        value = [int(part) if part.isdecimal() else 0 for part in str(value).split("x")[:3]]
    if not isinstance(value, list) or len(value) != 2 or not all(type(x) is int and 0 < x < 10**6 for x in value):
        raise bad("resized must be the width and the height at which the model saw the image, such as [1036, 728]")
    return value[0], value[1]


def parse_regions(fields: Fields) -> RegionsRequest:
    words, box = fields.number("words", 0, MOST_WORDS, whole=True), fields.box("box")
    frame = fields.number("frame", 0, MOST_FRAMES - 1, whole=True)
    if frame is not None and box is None:
        raise bad("frame says which frame of a clip the box is in: send box, too")
    return RegionsRequest(5 if words is None else int(words), box, int(frame or 0))


def _given_box(row: Any, text: str) -> GivenBox:
    if not isinstance(row, dict) or set(row) != {"phrase", "box"} or not isinstance(row["phrase"], str):
        raise bad('each of boxes must be {"phrase": …, "box": [x1, y1, x2, y2]}')
    phrase = " ".join(row["phrase"].encode("utf-8", "replace").decode().split())
    if not 0 < len(phrase) <= LONGEST_PHRASE:
        raise bad(f"the phrase of a box has 1 to {LONGEST_PHRASE} characters")
    if phrase not in " ".join(text.split()):
        raise bad(f"{phrase[:60]!r} has a box but is not in the text: name phrases as the text does")
    return GivenBox(phrase, as_box(row["box"], "box"))


def as_box(value: Any, name: str) -> Box:
    right = f"{name} must be [x1, y1, x2, y2] in pixels, x1 < x2 and y1 < y2"
    if not isinstance(value, list) or len(value) != 4 or any(isinstance(x, bool) for x in value):
        raise bad(right)
    if not all(isinstance(x, int | float) and abs(x) <= 1e6 for x in value):
        raise bad(right)
    left, top, right_side, bottom = (float(x) for x in value)
    if not (left < right_side and top < bottom):
        raise bad(right)
    return left, top, right_side, bottom


# ---------------------------------------------------------------- JSON and base64


def parse_json(content: bytes) -> dict[str, Any]:
    """A JSON object; Problem on anything else, however deep or odd."""

    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is no number")

    try:
        value = json.loads(content.decode("utf-8"), parse_constant=refuse)
    except UnicodeDecodeError as error:
        raise bad("the body is not UTF-8") from error
    except RecursionError as error:
        raise bad("the JSON is nested too deeply") from error
    except ValueError as error:
        raise bad(f"the body is not JSON: {str(error)[:120]}") from error
    if not isinstance(value, dict):
        raise bad(f"the body must be a JSON object, got {_kind(value)}")
    return value


def parse_media(fields: Fields) -> Media:
    """The image of a JSON request: `image` or `clip` in base64, or `image_id` of one that was sent before."""
    names = [name for name in ("image", "clip", "image_id") if fields.get(name) is not None]
    if len(names) != 1:
        raise bad("send one of: image (base64), clip (base64), image_id")
    value = fields.values[names[0]]
    if not isinstance(value, str):
        raise bad(f"{names[0]} must be text, got {_kind(value)}")
    if names == ["image_id"]:
        return Media(id=value[:LONGEST_ID])
    return Media(_from_base64(value, names[0]), frames=parse_frames(fields) if names == ["clip"] else 0)


def parse_frames(fields: Fields) -> int:
    """How many frames of a clip are looked at."""
    frames = fields.number("frames", 1, MOST_FRAMES, whole=True)
    return fields.limits.frames if frames is None else int(frames)


def _from_base64(value: str, name: str) -> bytes:
    if value.startswith("data:"):
        value = value.partition(",")[2]
    try:
        content = base64.b64decode(value.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise bad(
            f"{name} is not base64; its bytes may also be sent as they are, with Content-Type: image/jpeg"
        ) from error
    if not content:
        raise bad(f"{name} is empty")
    return content


def _from_text(value: Any, right: str) -> float:
    try:
        number = float(value)
    except ValueError as error:
        raise bad(f"{right}, got {str(value)[:40]!r}") from error
    if not math.isfinite(number):
        raise bad(f"{right}, got {number}")
    return number


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
