"""Bytes are counted as they come, whatever the headers say."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from starlette.datastructures import Headers

from groundling.serve.bodies import Bodies, Disconnected
from groundling.serve.metrics import Metrics
from groundling.serve.problems import Problem
from groundling.serve.settings import Limits

NONE = Headers({})


def bodies(**limits: Any) -> Bodies:
    return Bodies(Limits(**limits), Metrics())


def sender(parts: Iterable[bytes], end: bool = True, pause: float = 0.0) -> Any:
    """What a server would hand on: the parts, then the end of the body, or nothing more."""
    rest = iter(parts)

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(pause)
        for part in rest:
            return {"type": "http.request", "body": part, "more_body": True}
        if not end:
            await asyncio.sleep(60)
        return {"type": "http.request", "body": b"", "more_body": False}

    return receive


def whole(reader: Bodies, receive: Any, headers: Headers = NONE) -> bytes:
    async def read() -> bytes:
        with reader.hold() as holding:
            return await reader.whole(receive, headers, holding)

    return asyncio.run(read())


def lines(reader: Bodies, receive: Any) -> list[bytes]:
    async def read() -> list[bytes]:
        return [line async for line in reader.lines(receive, NONE)]

    return asyncio.run(read())


def test_parts_become_the_body() -> None:
    assert whole(bodies(), sender([b"ab", b"", b"c"])) == b"abc"


def test_a_body_is_refused_at_the_first_byte_too_many() -> None:
    sent = []

    def endless() -> Iterable[bytes]:
        while True:
            sent.append(1)
            yield b"x" * 400

    with pytest.raises(Problem) as caught:
        whole(bodies(body=1000), sender(endless()))
    assert caught.value.status == 413 and len(sent) == 3
    assert whole(bodies(body=1000), sender([b"x" * 1000])) == b"x" * 1000


@pytest.mark.parametrize("length", ["1001", "9" * 20, "-1", "x"])
def test_a_body_that_is_promised_too_large_is_not_read(length: str) -> None:
    with pytest.raises(Problem) as caught:
        whole(bodies(body=1000), None, Headers({"content-length": length}))
    assert caught.value.status == 413


def test_a_slow_body_has_a_deadline_however_steadily_it_drips() -> None:
    drip = sender((b"x" for _ in range(10_000)), pause=0.02)
    with pytest.raises(Problem) as caught:
        whole(bodies(receive=0.2), drip)
    assert caught.value.status == 408 and caught.value.close


def test_a_batch_that_is_worked_on_slowly_is_not_taken_for_one_that_is_sent_slowly() -> None:
    async def read() -> list[bytes]:
        found = []
        async for line in bodies(receive=0.3).lines(sender([b"a\nb\n", b"c\n"], pause=0.1), NONE):
            await asyncio.sleep(0.25)
            found.append(line)
        return found

    assert asyncio.run(read()) == [b"a", b"b", b"c"]


def test_all_bodies_together_have_a_limit_and_give_back_what_they_held() -> None:
    reader = bodies(held=1000, body=900)

    async def two() -> None:
        with reader.hold() as one, reader.hold() as other:
            await reader.whole(sender([b"x" * 600]), NONE, one)
            with pytest.raises(Problem) as caught:
                await reader.whole(sender([b"x" * 600]), NONE, other)
            assert caught.value.status == 503 and caught.value.headers["Retry-After"]

    asyncio.run(two())
    assert reader.held == 0


def test_a_client_that_goes_away_ends_the_reading() -> None:
    async def gone() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    with pytest.raises(Disconnected):
        whole(bodies(), gone)


def test_lines_are_found_across_parts_and_empty_ones_are_none() -> None:
    reader = bodies()
    assert lines(reader, sender([b"on", b"e\ntwo\n\r\n", b"\nthr", b"ee"])) == [b"one", b"two", b"three"]
    assert reader.held == 0


def test_half_a_line_counts_among_the_bytes_in_memory() -> None:
    with pytest.raises(Problem) as caught:
        lines(bodies(held=100, body=1000), sender([b"x" * 60, b"x" * 60]))
    assert caught.value.status == 503


@pytest.mark.parametrize("parts", [[b"x" * 101], [b"x" * 60, b"x" * 60], [b"x" * 101 + b"\n"], [b"a\n" * 11]])
def test_a_line_and_the_number_of_lines_have_limits(parts: list[bytes]) -> None:
    with pytest.raises(Problem) as caught:
        lines(bodies(body=100, batch_lines=10), sender(parts))
    assert caught.value.status == 413
