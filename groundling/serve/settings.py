"""Settings of a server. Every limit is here, with its unit."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from groundling.errors import GroundlingError

MB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """How much one request, and all of them together, may cost."""

    body: int = 20 * MB  # bytes of one request, or of one line of a batch
    held: int = 512 * MB  # bytes of all bodies in memory
    pixels: int = 40_000_000  # of an image, by its header
    batch_bytes: int = 1024 * MB  # of a whole batch, which is never in memory at once
    batch_lines: int = 10_000
    receive: float = 10.0  # seconds for a body, or a line of a batch, to arrive
    deadline: float = 30.0  # seconds from the last byte of a request to the first of its response
    decode: float = 5.0  # seconds after which a decoding process is killed
    waiting: int = 64  # requests that are being worked on or wait for it; the next one is refused
    requests: int = 256  # open at once, slow senders included
    batch: int = 8  # images that are extracted and captioned together
    window: float = 0.02  # seconds that an image waits for others, if requests are under way
    sentence: int = 4000  # characters
    phrases: int = 64  # of one request
    frames: int = 8  # of a clip
    remembered: int = 64  # images whose regions are kept in memory

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 0 or (value == 0 and name not in ("remembered", "window")):
                raise GroundlingError(f"{name} must be above 0, got {value}")


@dataclass(frozen=True)
class Settings:
    """Where to listen, who has access, what there is to review and to search."""

    host: str = "127.0.0.1"
    port: int = 8000
    token: str = ""
    open: bool = False  # may be reached from other machines without a token
    origins: tuple[str, ...] = ()  # other pages whose scripts have access (CORS)
    model: str = ""
    grounder: str = ""
    review: str = ""  # folder or address of labels to review
    reviews: Path | None = None  # the file that keeps the decisions; None: in the folder of the labels
    review_limit: int = 1000  # labels, the least certain
    index: Path | None = None  # of labelled images, to search in
    decoders: int = 2  # processes
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise GroundlingError(f"a port is 0 to 65535, got {self.port}")
        if self.token and not (8 <= len(self.token) <= 512 and self.token.isascii() and self.token.isprintable()):
            raise GroundlingError(
                "a token has 8 to 512 printable ASCII characters: make one with `openssl rand -hex 32`"
            )
        if " " in self.token:
            raise GroundlingError("a token has no space in it")
        if not (self.loopback or self.token or self.open):
            raise GroundlingError(
                f"{self.host} can be reached from other machines: demand a token with --token-file FILE, "
                "or let everybody in with --open"
            )
        for origin in self.origins:
            if not origin.startswith(("http://", "https://")) or origin.count("/") != 2:
                raise GroundlingError(
                    f"{origin!r} is no origin; one is written like https://example.org, without a path"
                )
        if self.reviews and not self.review:
            raise GroundlingError("--reviews FILE keeps what is decided about labels: name these with --review LABELS")

    @property
    def loopback(self) -> bool:
        """Is this machine alone able to reach the server?"""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False
