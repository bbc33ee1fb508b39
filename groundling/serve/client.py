"""A client of `groundling serve`, with the methods of the library; needs nothing but Python.

import groundling

client = groundling.Client("http://127.0.0.1:8000")
caption = client.caption("photo.jpg")
for link in caption:
    print(caption.word(link), link.box, link.evidence)
for one in client.ground("photo.jpg", "a dog on the grass"):
    print(one.phrase, one.box, one.evidence, one.found)
"""

from __future__ import annotations

import base64
import http.client
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from groundling.errors import GroundlingError
from groundling.types import Box, GroundedCaption, Span

Photo = str | Path | bytes  # a path, or the bytes of a file
CHUNK = 16  # images of one batch request
LARGEST = 256 << 20  # bytes of a response


class ServerError(GroundlingError):
    """The server refused; `status` is that of HTTP, `kind` the sort of problem."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(str(problem.get("detail") or f"the server responded with status {status}"))
        self.status, self.kind = status, str(problem.get("type", "")).rpartition(":")[2]


@dataclass(frozen=True)
class GroundedPhrase:
    """A phrase and its box."""

    phrase: str
    span: Span  # its characters in the sentence
    box: Box  # xyxy in pixels
    score: float  # 0 to 1, how sure the model is of the box
    evidence: float | None  # probability that the phrase is in the image at all
    result: str  # "found", "not found", or "unknown": the model never saw the noun
    unknown: tuple[str, ...] = ()  # words of it that the model never saw

    @property
    def found(self) -> bool:
        return self.result == "found"


@dataclass(frozen=True)
class Verdict:
    """The verdict of an audit about a phrase: grounded, wrong place, not there, cannot tell."""

    phrase: str
    span: Span  # its characters in the text
    verdict: str
    evidence: float | None  # probability that it is in the image; None where the verdict is cannot tell
    box: Box | None  # where it most likely is, if it is there
    asked: str = ""  # the word that stood in for a word that the model does not know
    reason: str = ""  # why the verdict is cannot tell
    colour: Mapping[str, Any] | None = None  # a word for its colour, with its verdict and probability


@dataclass(frozen=True)
class Region:
    """A region that the models use, with the words that fit it and how well."""

    box: Box
    frame: int
    words: tuple[tuple[str, float], ...]  # word, cosine
    labels: tuple[tuple[str, float], ...]  # of the detector


class Client:
    """Talks to one server. Threads may share it: every request has a connection of its own."""

    def __init__(
        self, url: str = "http://127.0.0.1:8000", token: str = "", *, timeout: float = 60.0, retries: int = 3
    ) -> None:
        """`timeout`: seconds for each response. `retries`: how often to try again when the server is busy (503)."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise GroundlingError(f"{url!r} is no address of a server; one is written like http://127.0.0.1:8000")
        self._parts, self._token, self._timeout, self._retries = parts, token, timeout, retries

    def caption(self, image: Photo, **options: Any) -> GroundedCaption:
        """Caption one image. Options: beam, no_repeat, evidence_weight, …; or sample, temperature, seed, …"""
        return _caption(self._post("caption", image, options), image)

    def captions(self, images: Iterable[Photo], **options: Any) -> Iterator[GroundedCaption | ServerError]:
        """Caption many, in order, some at a time; an image that cannot be read gives a ServerError in its place."""
        rest = iter(images)
        while chunk := list(islice(rest, CHUNK)):
            rows = [{"image": _base64(image), **options} for image in chunk]
            for image, row in zip(chunk, self._batch("caption", rows), strict=True):
                problem = row.get("problem")
                yield ServerError(problem["status"], problem) if problem else _caption(row, image)

    def ground(self, image: Photo, sentence: str = "", phrases: Sequence[str] = ()) -> list[GroundedPhrase]:
        """Where in an image the noun phrases of a sentence are, or these phrases."""
        fields: dict[str, Any] = {"sentence": sentence} | ({"phrases": list(phrases)} if phrases else {})
        return [_phrase(row) for row in self._post("ground", image, fields)["phrases"]]

    def audit(
        self, image: Photo, text: str, boxes: Sequence[tuple[str, Box]] = (), *, format: str = "plain"
    ) -> list[Verdict]:
        """A verdict for each noun phrase of a text, as `groundling audit` gives it.

        boxes: phrases of a plain text with the boxes that came with them.
        format: one of `groundling convert --list`, whose boxes stand in the text; "auto": recognised by its marks.
        """
        given = [{"phrase": phrase, "box": list(box)} for phrase, box in boxes]
        fields = {"text": text, "format": format, "boxes": given}
        return [_verdict(row) for row in self._post("audit", image, fields)["phrases"]]

    def regions(self, image: Photo, words: int = 5, box: Box | None = None) -> list[Region]:
        """The regions of an image, each with `words` words that fit it; or this box alone."""
        fields: dict[str, Any] = {"words": words} | ({"box": list(box)} if box else {})
        return [_region(row) for row in self._post("regions", image, fields)["regions"]]

    def ready(self) -> bool:
        """Are the models loaded?"""
        try:
            return self._send("GET", "/readyz", b"", "")[0] == 200
        except GroundlingError:
            return False

    # ---------------------------------------------------------------- HTTP

    def _post(self, name: str, image: Photo, options: Mapping[str, Any]) -> dict[str, Any]:
        body = json.dumps({"image": _base64(image), **options}).encode()
        for tries_left in range(self._retries, -1, -1):
            status, content, wait = self._send("POST", f"/v1/{name}", body, "application/json")
            if status == 503 and tries_left:
                time.sleep(wait)
                continue
            row = _parsed(content)
            if status == 200:
                return row
            raise ServerError(status, row)
        raise AssertionError("unreachable")

    def _batch(self, name: str, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        body = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
        status, content, _ = self._send("POST", f"/v1/batch/{name}", body, "application/x-ndjson")
        if status != 200:
            raise ServerError(status, _parsed(content))
        return [_parsed(line) for line in content.splitlines()]

    def _send(self, method: str, path: str, body: bytes, kind: str) -> tuple[int, bytes, float]:
        """Status, content, and the seconds after which to try again."""
        parts = self._parts
        make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        headers = {"Content-Type": kind} if kind else {}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            with closing(make(str(parts.hostname), parts.port, timeout=self._timeout)) as connection:
                connection.request(method, parts.path.rstrip("/") + path, body or None, headers)
                response = connection.getresponse()
                content = response.read(LARGEST)
                wait = response.getheader("Retry-After", "1")
        except (OSError, http.client.HTTPException) as error:
            where = f"{parts.scheme}://{parts.netloc}"
            raise GroundlingError(
                f"{where} does not respond ({error}): is `groundling serve` running there?"
            ) from error
        return response.status, content, min(30.0, float(wait) if wait.isdigit() else 1.0)


def _base64(image: Photo) -> str:
    if isinstance(image, bytes):
        return base64.b64encode(image).decode()
    try:
        return base64.b64encode(Path(image).read_bytes()).decode()
    except OSError as error:
        raise GroundlingError(f"{image} cannot be read ({error.strerror}); check the path") from error


def _parsed(content: bytes) -> dict[str, Any]:
    try:
        row = json.loads(content)
    except ValueError as error:
        raise GroundlingError("the response is not JSON: is this a groundling server?") from error
    if not isinstance(row, dict):
        raise GroundlingError("the response is not a JSON object: is this a groundling server?")
    return row


def _caption(row: dict[str, Any], image: Photo) -> GroundedCaption:
    name = "" if isinstance(image, bytes) else str(image)
    return GroundedCaption.from_dict(row | {"id": Path(name).stem, "media": name})


def _phrase(row: Mapping[str, Any]) -> GroundedPhrase:
    span, unknown = _span(row), tuple(row["unknown"])
    return GroundedPhrase(row["phrase"], span, _box(row["box"]), row["score"], row["evidence"], row["result"], unknown)


def _verdict(row: Mapping[str, Any]) -> Verdict:
    box = _box(row["box"]) if row["box"] else None
    asked, reason = row.get("asked", ""), row.get("reason", "")
    return Verdict(row["phrase"], _span(row), row["verdict"], row["evidence"], box, asked, reason, row.get("colour"))


def _span(row: Mapping[str, Any]) -> Span:
    start, end = row["span"]
    return start, end


def _box(values: Sequence[float]) -> Box:
    left, top, right, bottom = values
    return left, top, right, bottom


def _region(row: Mapping[str, Any]) -> Region:
    words = tuple((word["word"], word["similarity"]) for word in row["words"])
    labels = tuple((label["label"], label["score"]) for label in row["labels"])
    return Region(_box(row["box"]), row["frame"], words, labels)
