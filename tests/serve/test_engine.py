"""Asks that wait, go together, come too late or are no longer wanted.

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

from groundling.serve.asks import Caption, Choice, Look, Media
from groundling.serve.decoders import Decoders
from groundling.serve.engine import Engine
from groundling.serve.metrics import Metrics
from groundling.serve.problems import Problem
from groundling.serve.settings import Limits
from groundling.types import GroundedCaption

GREEDY = Caption()


class StandIn:
    """Says how many images it was shown together; fails at those that are black."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.together: list[int] = []

    def warm(self) -> None:
        pass

    def regions(self, pictures: Sequence[Image.Image], clip: bool) -> Any:
        return tiny.regions(3) if pictures[0].getpixel((0, 0)) != (0, 0, 0) else None

    def captions(self, regions: Sequence[Any], choice: Choice) -> list[GroundedCaption]:
        time.sleep(self.seconds)
        if None in regions:
            raise ValueError("a black image")
        self.together.append(len(regions))
        return [GroundedCaption("", "said", ("said",), ((0, 4),))] * len(regions)


def photo(shade: int) -> Media:
    buffer = io.BytesIO()
    Image.new("RGB", (4, 4), (shade, shade, shade)).save(buffer, "PNG")
    return Media(buffer.getvalue())


@pytest.fixture(scope="module")
def decoders() -> Iterator[Decoders]:
    pool = Decoders(1, 10_000, 30.0)
    pool.warm()
    yield pool
    pool.stop()


def engine(decoders: Decoders, models: StandIn, **limits: Any) -> Engine:
    made: Any = Engine(lambda: models, Limits(**limits), Metrics(), decoders)  # type: ignore[arg-type, return-value]
    made._thread.start()
    return made  # type: ignore[no-any-return]


def ask(engine: Engine, medias: Sequence[Media], what: Any = GREEDY, **how: Any) -> list[Any]:
    """What comes of asks that are made at the same time: answers or problems."""

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(engine.answer(m, what, **how) for m in medias), return_exceptions=True)

    return asyncio.run(all_of_them())


def test_asks_that_come_together_are_inferred_together(decoders: Decoders) -> None:
    models = StandIn(0.3)
    ask(engine(decoders, models, window=5.0, batch=4), [photo(i) for i in range(1, 9)])
    assert models.together == [4, 4]


def test_a_lone_ask_does_not_wait_for_company(decoders: Decoders) -> None:
    models = StandIn()
    one = engine(decoders, models, window=30.0, deadline=60)
    began = time.monotonic()
    ask(one, [photo(200)])
    assert models.together == [1] and time.monotonic() - began < 20


def test_what_is_drawn_at_random_is_inferred_alone(decoders: Decoders) -> None:
    models = StandIn(0.1)
    ask(engine(decoders, models, window=1.0), [photo(i) for i in range(1, 4)], Caption(Choice(True)))
    assert models.together == [1, 1, 1]


def test_one_bad_image_does_not_spoil_the_others(decoders: Decoders, caplog: pytest.LogCaptureFixture) -> None:
    found = ask(engine(decoders, StandIn(), window=5.0, batch=3), [photo(1), photo(0), photo(2)])
    # the black one has no regions to describe the image by, which fails in the inference thread
    assert [isinstance(one, Problem) for one in found] == [False, True, False]
    assert found[1].status == 500 and "black" not in found[1].detail and "a black image" in caplog.text


def test_more_asks_than_may_wait_are_told_to_come_back(decoders: Decoders) -> None:
    found = ask(engine(decoders, StandIn(0.2), waiting=3), [photo(i) for i in range(1, 7)])
    refused = [one for one in found if isinstance(one, Problem)]
    assert len(refused) == 3 and {one.status for one in refused} == {503}
    assert all(int(one.headers["Retry-After"]) >= 1 for one in refused)
    patient = ask(engine(decoders, StandIn(0.1), waiting=3), [photo(i) for i in range(1, 7)], patient=True)
    assert not any(isinstance(one, Exception) for one in patient)


def test_a_late_ask_is_dropped_and_later_ones_are_answered(decoders: Decoders) -> None:
    models = StandIn(1.5)
    slow = engine(decoders, models, deadline=1.0, batch=1)
    found = ask(slow, [photo(1), photo(2), photo(3)])
    assert [one.status for one in found] == [503] * 3
    time.sleep(1.0)
    assert models.together == [1]  # the first was under way; the others were never begun
    models.seconds = 0.0
    assert ask(slow, [photo(4)])[0]["caption"] == "said" and slow.admitted == 0


def test_an_ask_whose_client_went_away_is_never_inferred(decoders: Decoders) -> None:
    models = StandIn(0.6)
    one = engine(decoders, models, batch=1)

    async def leave() -> None:
        first = asyncio.create_task(one.answer(photo(1), GREEDY))
        await asyncio.sleep(0.3)
        second = asyncio.create_task(one.answer(photo(2), GREEDY))
        await asyncio.sleep(0.2)
        second.cancel()
        await first
        await asyncio.sleep(0.2)

    asyncio.run(leave())
    assert models.together == [1] and one.admitted == 0


def test_an_image_is_remembered_and_the_oldest_is_forgotten(decoders: Decoders) -> None:
    one = engine(decoders, StandIn(), remembered=1)
    [first] = ask(one, [photo(1)])
    assert ask(one, [Media(id=first["image"]["id"])])[0] == first
    ask(one, [photo(2)])
    assert ask(one, [Media(id=first["image"]["id"])])[0].kind == "unknown-image"


def test_models_that_cannot_be_loaded_are_told_to_everybody(decoders: Decoders) -> None:
    from groundling.errors import GroundlingError

    def none() -> Any:
        raise GroundlingError("no weights here; install them")

    one = Engine(none, Limits(), Metrics(), decoders)
    one._thread.start()
    [problem] = ask(one, [photo(1)], Look())
    assert problem.status == 503 and problem.detail == "no weights here; install them" and not one.ready
