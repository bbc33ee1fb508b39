"""Requests that wait, are inferred together, come too late or are no longer wanted.

The models are stand-ins whose speed and failures a test can choose; `test_api.py` has the real ones.
"""

from __future__ import annotations

import asyncio
import io
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from PIL import Image

from groundling.serve.decoder_pool import DecoderPool
from groundling.serve.engine import Engine
from groundling.serve.metrics import Metrics
from groundling.serve.models import Extracted
from groundling.serve.problems import Problem
from groundling.serve.requests import CaptionRequest, DecodingOptions, Media, RegionsRequest
from groundling.serve.settings import Limits
from groundling.types import GroundedCaption

GREEDY = CaptionRequest()


class StandIn:
    """Says how many images it was shown together; fails at those that are black."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.slow = 0.0  # seconds for the regions of each image
        self.together: list[int] = []

    def warm(self) -> None:
        pass

    def regions(self, pictures: Sequence[Image.Image], clip: bool) -> Extracted:
        shade: Any = pictures[0].getpixel((0, 0))
        time.sleep(self.slow)
        return Extracted(bool(shade[0]), np.zeros((3, 4)), np.zeros(3), (4, 4), np.zeros((3, 0)), np.zeros((3, 0)))

    def captions(self, images: Sequence[Extracted], decoding: DecodingOptions) -> list[GroundedCaption]:
        time.sleep(self.seconds)
        if not all(one.regions for one in images):
            raise ValueError("a black image")
        self.together.append(len(images))
        return [GroundedCaption("", "a text", ("a", "text"), ((0, 1), (2, 6)))] * len(images)


def photo(shade: int) -> Media:
    buffer = io.BytesIO()
    Image.new("RGB", (4, 4), (shade, shade, shade)).save(buffer, "PNG")
    return Media(buffer.getvalue())


@pytest.fixture(scope="module")
def decoders() -> Iterator[DecoderPool]:
    pool = DecoderPool(1, 10_000, 30.0)
    pool.warm()
    yield pool
    pool.stop()


def engine(decoders: DecoderPool, models: StandIn, cores: int = 2, **limits: Any) -> Engine:
    made: Any = Engine(lambda: models, Limits(**limits), Metrics(), decoders, cores)  # type: ignore[arg-type, return-value]
    made.start()
    return made  # type: ignore[no-any-return]


def respond(engine: Engine, medias: Sequence[Media], what: Any = GREEDY, **how: Any) -> list[Any]:
    """What comes of requests that are made at the same time: responses or problems."""

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(engine.respond(m, what, **how) for m in medias), return_exceptions=True)

    return asyncio.run(all_of_them())


def test_requests_that_come_together_are_inferred_together(decoders: DecoderPool) -> None:
    """Five within the window, three at most in a group."""
    models = StandIn(0.3)
    respond(engine(decoders, models, window=0.2, batch=3), [photo(i) for i in range(1, 6)])
    assert sorted(models.together) == [2, 3]  # whichever is full first


def test_requests_that_wait_for_a_core_are_a_group(decoders: DecoderPool) -> None:
    """No window at all: while the only core extracts the first, seven come one after the other, and are one group."""
    models = StandIn()
    models.slow = 0.5
    one = engine(decoders, models, cores=1, window=0)

    async def in_turn() -> None:
        tasks = []
        for shade in range(1, 9):
            tasks.append(asyncio.create_task(one.respond(photo(shade), GREEDY)))
            await asyncio.sleep(0.02)
        await asyncio.gather(*tasks)

    asyncio.run(in_turn())
    assert models.together == [1, 7]


def test_a_lone_request_does_not_wait_for_others(decoders: DecoderPool) -> None:
    models = StandIn()
    one = engine(decoders, models, window=30.0, deadline=60)
    began = time.monotonic()
    respond(one, [photo(200)])
    assert models.together == [1] and time.monotonic() - began < 20


def test_no_more_photos_are_extracted_at_once_than_there_are_cores(decoders: DecoderPool) -> None:
    """A third thread decodes meanwhile."""
    at_once: list[int] = []

    class Counting(StandIn):
        busy = 0

        def regions(self, pictures: Sequence[Image.Image], clip: bool) -> Extracted:
            self.busy += 1
            at_once.append(self.busy)
            time.sleep(0.1)
            self.busy -= 1
            return super().regions(pictures, clip)

    respond(engine(decoders, Counting(), cores=2, window=0.2), [photo(i) for i in range(1, 7)])
    assert len(at_once) == 6 and max(at_once) == 2


class SlowDecoders:
    """Decodes like `decoders`, but takes three seconds for the image of a shade."""

    def __init__(self, decoders: DecoderPool, slow: Media) -> None:
        self.decoders, self.slow, self.count = decoders, slow, decoders.count

    def warm(self) -> None:
        pass

    def decode(self, content: bytes, frames: int = 0) -> list[Image.Image]:
        if content == self.slow.content:
            time.sleep(3.0)
        return self.decoders.decode(content, frames)


def test_an_image_that_is_decoded_for_long_does_not_hold_the_others_of_its_group(decoders: DecoderPool) -> None:
    models, slow = StandIn(), photo(9)
    one = engine(SlowDecoders(decoders, slow), models, window=0.2)  # type: ignore[arg-type]

    async def both() -> tuple[float, float]:
        began = time.monotonic()
        tasks = [asyncio.create_task(one.respond(media, GREEDY)) for media in (photo(1), slow, photo(2))]
        await asyncio.gather(tasks[0], tasks[2])
        quick = time.monotonic() - began
        await tasks[1]
        return quick, time.monotonic() - began

    quick, all_of_them = asyncio.run(both())
    assert models.together == [2, 1] and quick < 3.0 <= all_of_them


def test_a_group_waits_for_regions_however_slow_the_machine_is(decoders: DecoderPool) -> None:
    models = StandIn()
    models.slow = 0.8
    respond(engine(decoders, models, cores=1, window=0.1), [photo(i) for i in range(1, 5)])
    assert models.together == [4]


def test_what_is_drawn_at_random_is_inferred_alone(decoders: DecoderPool) -> None:
    models = StandIn(0.1)
    sampled = CaptionRequest(DecodingOptions(True))
    respond(engine(decoders, models, window=0.2), [photo(i) for i in range(1, 4)], sampled)
    assert models.together == [1, 1, 1]


def test_one_bad_image_does_not_spoil_the_others(decoders: DecoderPool, caplog: pytest.LogCaptureFixture) -> None:
    results = respond(engine(decoders, StandIn(), window=0.2, batch=3), [photo(1), photo(0), photo(2), photo(3)])
    # the black one has no regions to describe the image by, which fails in the inference thread
    assert [isinstance(one, Problem) for one in results] == [False, True, False, False]
    assert results[1].status == 500 and "black" not in results[1].detail and "a black image" in caplog.text


def test_more_requests_than_may_wait_are_told_to_come_back(decoders: DecoderPool) -> None:
    results = respond(engine(decoders, StandIn(0.2), waiting=3), [photo(i) for i in range(1, 7)])
    refused = [one for one in results if isinstance(one, Problem)]
    assert len(refused) == 3 and {one.status for one in refused} == {503}
    assert all(int(one.headers["Retry-After"]) >= 1 for one in refused)
    waited = respond(engine(decoders, StandIn(0.1), waiting=3), [photo(i) for i in range(1, 7)], wait=True)
    assert not any(isinstance(one, Exception) for one in waited)


def test_a_late_request_is_dropped_and_later_ones_are_answered(decoders: DecoderPool) -> None:
    models = StandIn(1.5)
    slow = engine(decoders, models, deadline=1.0, batch=1)
    results = respond(slow, [photo(1), photo(2), photo(3)])
    assert [one.status for one in results] == [503] * 3
    time.sleep(1.0)
    assert models.together == [1]  # the first was under way; the others were never begun
    models.seconds = 0.0
    assert respond(slow, [photo(4)])[0]["caption"] == "a text" and slow.admitted == 0


def test_a_request_whose_client_disconnected_is_never_inferred(decoders: DecoderPool) -> None:
    models = StandIn(0.6)
    one = engine(decoders, models, batch=1)

    async def leave() -> None:
        first = asyncio.create_task(one.respond(photo(1), GREEDY))
        await asyncio.sleep(0.3)
        second = asyncio.create_task(one.respond(photo(2), GREEDY))
        await asyncio.sleep(0.2)
        second.cancel()
        await first
        await asyncio.sleep(0.2)

    asyncio.run(leave())
    assert models.together == [1] and one.admitted == 0


def test_an_image_is_remembered_and_the_oldest_is_forgotten(decoders: DecoderPool) -> None:
    one = engine(decoders, StandIn(), remembered=1)
    [first] = respond(one, [photo(1)])
    assert respond(one, [Media(id=first["image"]["id"])])[0] == first
    respond(one, [photo(2)])
    assert respond(one, [Media(id=first["image"]["id"])])[0].kind == "unknown-image"


def test_models_that_cannot_be_loaded_are_told_to_everybody(decoders: DecoderPool) -> None:
    from groundling.errors import GroundlingError

    def none() -> Any:
        raise GroundlingError("no weights here; install them")

    one = Engine(none, Limits(), Metrics(), decoders)
    one.start()
    [problem] = respond(one, [photo(1)], RegionsRequest())
    assert problem.status == 503 and problem.detail == "no weights here; install them" and not one.ready


class ClipDecoders:
    """Two of them; each frame of a clip is a picture of one colour."""

    count = 2

    def warm(self) -> None:
        pass

    def decode(self, content: bytes, frames: int = 0) -> list[Image.Image]:
        return [Image.new("RGB", (4, 4), "white")] * max(1, frames)


def test_photos_do_not_wait_for_clips_that_fill_the_cores() -> None:
    """Six clips come first, and are not done before the photos after them are."""
    photos_done = threading.Event()

    class SlowClips(StandIn):
        def regions(self, pictures: Sequence[Image.Image], clip: bool) -> Extracted:
            assert not clip or photos_done.wait(60)
            return super().regions(pictures, clip)

    one = engine(ClipDecoders(), SlowClips())  # type: ignore[arg-type]

    async def both() -> list[Any]:
        clips = [asyncio.create_task(one.respond(Media(bytes([i]), frames=4), GREEDY)) for i in range(6)]
        await asyncio.sleep(0.1)
        photos = await asyncio.gather(*(one.respond(Media(bytes([9, i])), GREEDY) for i in range(3)))
        photos_done.set()
        return [*photos, *await asyncio.gather(*clips)]

    assert [row["caption"] for row in asyncio.run(both())] == ["a text"] * 9


def test_clips_fill_no_more_than_half_of_the_queue() -> None:
    """Of four places two are for clips: the third is refused, two photos are not."""
    one = engine(ClipDecoders(), StandIn(0.3), waiting=4)  # type: ignore[arg-type]
    clips = [Media(bytes([i]), frames=2) for i in range(3)]
    results = respond(one, [*clips, Media(b"x"), Media(b"y")])
    assert [isinstance(row, Problem) for row in results] == [False, False, True, False, False]
    assert one.clips == one.admitted == 0


def test_the_captions_of_clips_are_made_apart_from_those_of_photos() -> None:
    models = StandIn(0.3)
    one = engine(ClipDecoders(), models, window=0.1)  # type: ignore[arg-type]
    respond(one, [Media(b"a", frames=2), Media(b"b"), Media(b"c")])
    assert sorted(models.together) == [1, 2]


def test_captions_are_made_before_the_tagger_is_loaded_and_then_the_server_is_ready(decoders: DecoderPool) -> None:
    captioned = threading.Event()

    class Slow(StandIn):
        def warm(self) -> None:
            assert captioned.wait(60)

    one = engine(decoders, Slow())
    assert respond(one, [photo(7)])[0]["caption"] == "a text" and not one.ready
    captioned.set()
    end = time.monotonic() + 60
    while not one.ready and time.monotonic() < end:
        time.sleep(0.01)
    assert one.ready
