"""Requests that wait, are inferred together, come too late or are no longer wanted.

The models are stand-ins whose speed and failures a test can choose; `test_api.py` has the real ones.
"""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import tiny
from PIL import Image

from groundling.serve.decoder_pool import DecoderPool
from groundling.serve.engine import Engine
from groundling.serve.metrics import Metrics
from groundling.serve.problems import Problem
from groundling.serve.requests import CaptionRequest, DecodingOptions, Media, RegionsRequest
from groundling.serve.settings import Limits
from groundling.types import GroundedCaption

GREEDY = CaptionRequest()


class StandIn:
    """Says how many images it was shown together; fails at those that are black."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.together: list[int] = []

    def warm(self) -> None:
        pass

    def regions(self, pictures: Sequence[Image.Image], clip: bool) -> Any:
        return tiny.regions(3) if pictures[0].getpixel((0, 0)) != (0, 0, 0) else None

    def captions(self, regions: Sequence[Any], decoding: DecodingOptions) -> list[GroundedCaption]:
        time.sleep(self.seconds)
        if None in regions:
            raise ValueError("a black image")
        self.together.append(len(regions))
        return [GroundedCaption("", "a text", ("a", "text"), ((0, 1), (2, 6)))] * len(regions)


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


def engine(decoders: DecoderPool, models: StandIn, threads: int = 2, **limits: Any) -> Engine:
    made: Any = Engine(lambda: models, Limits(**limits), Metrics(), decoders, threads)  # type: ignore[arg-type, return-value]
    made._thread.start()
    return made  # type: ignore[no-any-return]


def respond(engine: Engine, medias: Sequence[Media], what: Any = GREEDY, **how: Any) -> list[Any]:
    """What comes of requests that are made at the same time: responses or problems."""

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(engine.respond(m, what, **how) for m in medias), return_exceptions=True)

    return asyncio.run(all_of_them())


def test_requests_that_come_together_are_inferred_together(decoders: DecoderPool) -> None:
    """Eight at once with one thread to extract regions: that thread is busy until the eighth, so batches fill up."""
    models = StandIn()
    respond(engine(decoders, models, threads=1, window=0, busy_window=5.0, batch=4), [photo(i) for i in range(1, 9)])
    assert models.together == [4, 4]


def test_an_image_waits_for_another_that_is_on_its_way(decoders: DecoderPool) -> None:
    """Two at once with four threads to extract regions: the first waits for the second, within the window."""
    models = StandIn()
    respond(engine(decoders, models, threads=4, window=5.0, busy_window=0), [photo(1), photo(2)])
    assert models.together == [2]


def test_a_lone_request_does_not_wait_for_others(decoders: DecoderPool) -> None:
    models = StandIn()
    one = engine(decoders, models, window=30.0, busy_window=30.0, deadline=60)
    began = time.monotonic()
    respond(one, [photo(200)])
    assert models.together == [1] and time.monotonic() - began < 20


def test_what_is_drawn_at_random_is_inferred_alone(decoders: DecoderPool) -> None:
    models = StandIn(0.1)
    respond(
        engine(decoders, models, window=1.0), [photo(i) for i in range(1, 4)], CaptionRequest(DecodingOptions(True))
    )
    assert models.together == [1, 1, 1]


def test_one_bad_image_does_not_spoil_the_others(decoders: DecoderPool, caplog: pytest.LogCaptureFixture) -> None:
    results = respond(engine(decoders, StandIn(), window=5.0, batch=3), [photo(1), photo(0), photo(2)])
    # the black one has no regions to describe the image by, which fails in the inference thread
    assert [isinstance(one, Problem) for one in results] == [False, True, False]
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


def test_an_request_whose_client_disconnected_is_never_inferred(decoders: DecoderPool) -> None:
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
    one._thread.start()
    [problem] = respond(one, [photo(1)], RegionsRequest())
    assert problem.status == 503 and problem.detail == "no weights here; install them" and not one.ready
