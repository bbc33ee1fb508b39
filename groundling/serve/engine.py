"""From bytes to answers: decode in a process, find regions in a few threads, infer in one thread, in small batches.

An ask is admitted, or refused at once when too many wait. It carries a deadline; one that is late, or whose client went
away, is dropped before the next stage begins. Decoded pixels live only as long as their regions are being found, so
memory does not grow with the number of asks that wait.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from groundling.errors import GroundlingError
from groundling.serve import answers
from groundling.serve.answers import Seen
from groundling.serve.asks import Ask, Caption, Look, Media
from groundling.serve.decoders import Decoders
from groundling.serve.metrics import Metrics
from groundling.serve.models import Models
from groundling.serve.problems import Problem, bad, internal, overloaded, unfit
from groundling.serve.settings import Limits

if TYPE_CHECKING:
    from PIL import Image

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Errand:
    """Work for the inference thread that is about no image, such as a search."""

    work: Callable[[], dict[str, Any]]


@dataclass(eq=False)
class Job:
    """An ask about an image that was looked at, or an errand, and whoever waits for the answer."""

    ask: Ask | Errand
    seen: Seen | None  # None: an errand
    until: float  # time.monotonic()
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[dict[str, Any]]

    def settle(self, result: dict[str, Any] | Exception) -> None:
        with suppress(RuntimeError):  # the event loop has ended, and with it whoever waited
            self.loop.call_soon_threadsafe(_settle, self.future, result)


def _settle(future: asyncio.Future[dict[str, Any]], result: dict[str, Any] | Exception) -> None:
    if future.done():  # nobody waits any more
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)


@dataclass
class Engine:
    """Made before the server starts; `start` loads the models in a thread, so that the server listens meanwhile."""

    load: Callable[[], Models]
    limits: Limits
    metrics: Metrics
    decoders: Decoders
    jobs: queue.SimpleQueue[Job | None] = field(default_factory=queue.SimpleQueue)
    loaded: threading.Event = field(default_factory=threading.Event)
    models: Models | None = None
    trouble: str = ""  # why there are no models
    admitted: int = 0  # asks; counted in the event loop alone
    looking: int = 0  # of these, whose regions are not yet known

    def __post_init__(self) -> None:
        self._known: OrderedDict[str, Seen] = OrderedDict()
        self._lock = threading.Lock()
        self._finders = ThreadPoolExecutor(max(2, min(4, os.cpu_count() or 1)), "regions")
        self._thread = threading.Thread(target=self._run, name="inference", daemon=True)

    def start(self) -> None:
        self._thread.start()
        threading.Thread(target=self.decoders.warm, name="decoder", daemon=True).start()

    def stop(self) -> None:
        """After the last answer: the threads and processes end."""
        self.jobs.put(None)
        self._finders.shutdown(wait=False, cancel_futures=True)
        self.decoders.stop()
        self._thread.join(timeout=10)

    @property
    def ready(self) -> bool:
        return self.models is not None

    # ---------------------------------------------------------------- in the event loop

    async def answer(self, media: Media, ask: Ask, *, patient: bool = False) -> dict[str, Any]:
        """The answer, as JSON; Problem where there is none. A patient ask waits for its turn, others are refused."""
        return await self._in_time(lambda until: self._answer(media, ask, until), patient)

    async def run(self, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The result of work that is done in the inference thread, within the same bounds."""
        return await self._in_time(lambda until: self._queued(Errand(work), None, until), patient=False)

    async def _in_time(
        self, begin: Callable[[float], Coroutine[Any, Any, dict[str, Any]]], patient: bool
    ) -> dict[str, Any]:
        async with self._admission(patient):
            until = time.monotonic() + self.limits.deadline
            try:
                return await asyncio.wait_for(begin(until), self.limits.deadline)
            except asyncio.TimeoutError as error:
                self.metrics.dropped.labels("deadline").inc()
                raise overloaded(f"no answer within {self.limits.deadline:g} seconds; try again", 5) from error
            except asyncio.CancelledError:
                self.metrics.dropped.labels("client went away").inc()
                raise

    @asynccontextmanager
    async def _admission(self, patient: bool) -> AsyncIterator[None]:
        # batches fill no more than half of the places, so that single requests find one
        while self.admitted >= (self.limits.waiting // 2 if patient else self.limits.waiting):
            if not patient:
                raise overloaded(f"{self.admitted} requests wait already; try again in a moment", 2)
            await asyncio.sleep(0.05)
        self.admitted += 1
        self.metrics.waiting.inc()
        try:
            yield
        finally:
            self.admitted -= 1
            self.metrics.waiting.dec()

    async def _answer(self, media: Media, ask: Ask, until: float) -> dict[str, Any]:
        if isinstance(ask, Look) and ask.box is not None:
            return await self._queued(ask, await self._look_at_box(media, ask, until), until)
        return await self._queued(ask, await self._look(media, until), until)

    async def _queued(self, ask: Ask | Errand, seen: Seen | None, until: float) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        job = Job(ask, seen, until, loop, loop.create_future())
        self.jobs.put(job)
        return await job.future

    async def _look(self, media: Media, until: float) -> Seen:
        key = media.id or _key(media)
        if (seen := self._remembered(key)) is not None:
            self.metrics.remembered.inc()
            return seen
        if media.id:
            raise Problem(404, "unknown-image", "this image is not remembered (any more): send its bytes again")
        return await self._found(self._find, key, media, until)

    async def _look_at_box(self, media: Media, ask: Look, until: float) -> Seen:
        """What is remembered of an image is its regions, not its pixels."""
        if media.id:
            raise bad("a box is looked at anew: with box, send the image itself, not image_id")
        return await self._found(self._find_box, _key(media), media, ask, until)

    async def _found(self, find: Callable[..., Seen], *given: Any) -> Seen:
        """What `find` finds in another thread; it is told when nobody waits for that any more."""
        self.looking += 1
        left = threading.Event()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._finders, find, left, *given)
        finally:
            left.set()
            self.looking -= 1

    def _remembered(self, key: str) -> Seen | None:
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
            return self._known.get(key)

    def _remember(self, seen: Seen) -> None:
        with self._lock:
            self._known[seen.id] = seen
            while len(self._known) > self.limits.remembered:
                self._known.popitem(last=False)

    # ---------------------------------------------------------------- in the threads that find regions

    def _find(self, left: threading.Event, key: str, media: Media, until: float) -> Seen:
        pictures, models = self._decoded(left, media, until)
        with self._looked():
            seen = Seen(key, models.regions(pictures, bool(media.frames)), media.frames)
        self._remember(seen)
        return seen

    def _find_box(self, left: threading.Event, key: str, media: Media, ask: Look, until: float) -> Seen:
        assert ask.box is not None
        pictures, models = self._decoded(left, media, until)
        with self._looked():
            return Seen(key, models.regions_at(pictures, ask.box, ask.frame), media.frames)

    def _decoded(self, left: threading.Event, media: Media, until: float) -> tuple[list[Image.Image], Models]:
        if left.is_set() or time.monotonic() > until:
            raise overloaded("too many requests; try again in a moment", 5)
        with self._timed("decode"):
            pictures = self.decoders.decode(media.content, media.frames)
        models = self._when_loaded(until)
        if left.is_set() or time.monotonic() > until:
            raise overloaded("too many requests; try again in a moment", 5)
        return pictures, models

    @contextmanager
    def _looked(self) -> Iterator[None]:
        with self._timed("regions"):
            try:
                yield
            except GroundlingError as error:
                raise unfit(str(error)) from error

    def _when_loaded(self, until: float) -> Models:
        self.loaded.wait(max(0.0, until - time.monotonic()))
        if self.models is None:
            why = self.trouble or "the models are being loaded; try again in a moment"
            raise Problem(503, "not-ready", why, {"Retry-After": "5"})
        return self.models

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        with self.metrics.stage.labels(stage).time():
            yield

    # ---------------------------------------------------------------- in the inference thread

    def _run(self) -> None:
        try:
            self.models = self.load()
        except GroundlingError as error:
            self.trouble = str(error)
            log.error("no models: %s", error)
        except Exception:
            self.trouble = "the models could not be loaded; the log of the server tells why"
            log.exception("no models")
        self.loaded.set()
        if self.models is None:
            return
        threading.Thread(target=self.models.warm, name="tagger", daemon=True).start()
        while (batch := self._next_batch()) is not None:
            if batch:
                self._infer(self.models, batch)

    def _next_batch(self) -> list[Job] | None:
        """Asks that are there, and those that come while the first one can wait; None at the end."""
        first = self.jobs.get()
        if first is None:
            return None
        batch, until = [first], time.monotonic() + self.limits.window
        while len(batch) < self.limits.batch:
            wait = until - time.monotonic() if self.looking else 0.0  # nobody else is coming: go at once
            try:
                job = self.jobs.get(timeout=wait) if wait > 0 else self.jobs.get_nowait()
            except queue.Empty:
                break
            if job is None:
                self.jobs.put(None)
                break
            batch.append(job)
        return [job for job in batch if self._wanted(job)]

    def _wanted(self, job: Job) -> bool:
        return not job.future.done() and time.monotonic() <= job.until

    def _infer(self, models: Models, batch: list[Job]) -> None:
        groups: dict[Any, list[Job]] = {}
        for job in batch:
            # what is drawn at random depends on the other images of a batch: each such caption is made alone
            together = isinstance(job.ask, Caption) and not job.ask.choice.sample
            groups.setdefault(job.ask if together else id(job), []).append(job)
        for jobs in groups.values():
            with self._timed("inference"):
                self._infer_group(models, jobs)

    def _infer_group(self, models: Models, jobs: list[Job]) -> None:
        self.metrics.batch.observe(len(jobs))
        try:
            results = _results(models, jobs[0].ask, [job.seen for job in jobs if job.seen])
        except Exception as error:
            if len(jobs) > 1:  # one bad image must not spoil the others
                for job in jobs:
                    self._infer_group(models, [job])
                return
            jobs[0].settle(_problem(error))
            return
        for job, result in zip(jobs, results, strict=True):
            job.settle(result)


def _key(media: Media) -> str:
    """The name of an image: what is in its file, and how many frames were asked for."""
    return f"{sha256(media.content).hexdigest()}{f'-{media.frames}' if media.frames else ''}"


def _results(models: Models, ask: Ask | Errand, seen: list[Seen]) -> list[dict[str, Any]]:
    """The answers to the same ask about each of these images."""
    if isinstance(ask, Errand):
        return [ask.work()]
    if isinstance(ask, Caption):
        return answers.captions(models, seen, ask)
    return [answers.answer(models, one, ask) for one in seen]


def _problem(error: Exception) -> Problem:
    if isinstance(error, Problem):
        return error
    if isinstance(error, GroundlingError):
        return unfit(str(error), "unfit")
    log.error("inference failed", exc_info=error)
    return internal()
