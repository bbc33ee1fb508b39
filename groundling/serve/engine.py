"""From bytes to responses: decode in a process, extract regions in a few threads, infer in one thread in small batches.

A request is admitted, or refused at once when too many wait. It carries a deadline; one that is late, or whose client
disconnected, is dropped before the next stage begins. Decoded pixels live only as long as their regions are being
extracted, so memory does not grow with the number of requests that wait.
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
from groundling.serve import responses
from groundling.serve.decoder_pool import DecoderPool
from groundling.serve.metrics import Metrics
from groundling.serve.models import Models
from groundling.serve.problems import Problem, bad, internal, overloaded, unfit
from groundling.serve.requests import CaptionRequest, InferenceRequest, Media, RegionsRequest
from groundling.serve.responses import ImageRegions
from groundling.serve.settings import Limits

if TYPE_CHECKING:
    from PIL import Image

log = logging.getLogger(__name__)

Json = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """Work for the inference thread that is about no image, such as a search."""

    work: Callable[[], Json]


@dataclass(eq=False)
class Job:
    """A request about an image whose regions are known, or a call, and the future that waits for the result."""

    request: InferenceRequest | Call
    image: ImageRegions | None  # None: of a call
    deadline: float  # time.monotonic()
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Json]

    @property
    def wanted(self) -> bool:
        return not self.future.done() and time.monotonic() <= self.deadline

    def finish(self, result: Json | Exception) -> None:
        with suppress(RuntimeError):  # the event loop has ended, and with it whoever waited
            self.loop.call_soon_threadsafe(_finish, self.future, result)


def _finish(future: asyncio.Future[Json], result: Json | Exception) -> None:
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
    decoders: DecoderPool
    threads: int = min(8, os.cpu_count() or 1) + 1  # that extract regions; more than cores, as some wait for a decoder
    jobs: queue.SimpleQueue[Job | None] = field(default_factory=queue.SimpleQueue)
    loaded: threading.Event = field(default_factory=threading.Event)
    models: Models | None = None
    load_error: str = ""  # why there are no models
    admitted: int = 0  # requests; counted in the event loop alone
    extracting: int = 0  # of these, whose regions are not known yet

    def __post_init__(self) -> None:
        self._cache: OrderedDict[str, ImageRegions] = OrderedDict()
        self._lock = threading.Lock()
        self._extractors = ThreadPoolExecutor(self.threads, "regions")
        self._thread = threading.Thread(target=self._run, name="inference", daemon=True)

    def start(self) -> None:
        self._thread.start()
        threading.Thread(target=self.decoders.warm, name="decoder", daemon=True).start()

    def stop(self) -> None:
        """After the last response: the threads and processes end."""
        self.jobs.put(None)
        self._extractors.shutdown(wait=False, cancel_futures=True)
        self.decoders.stop()
        self._thread.join(timeout=10)

    @property
    def ready(self) -> bool:
        return self.models is not None

    # ---------------------------------------------------------------- in the event loop

    async def respond(self, media: Media, request: InferenceRequest, *, wait: bool = False) -> Json:
        """The response, as JSON; Problem where there is none. When the queue is full, `wait`, or be refused."""
        return await self._in_time(lambda deadline: self._respond(media, request, deadline), wait)

    async def call(self, work: Callable[[], Json]) -> Json:
        """The result of work that is done in the inference thread, within the same bounds."""
        return await self._in_time(lambda deadline: self._queued(Call(work), None, deadline), wait=False)

    async def _in_time(self, begin: Callable[[float], Coroutine[Any, Any, Json]], wait: bool) -> Json:
        async with self._admission(wait):
            deadline = time.monotonic() + self.limits.deadline
            try:
                return await asyncio.wait_for(begin(deadline), self.limits.deadline)
            except asyncio.TimeoutError as error:
                self.metrics.dropped.labels("deadline").inc()
                raise overloaded(f"no response within {self.limits.deadline:g} seconds; try again", 5) from error
            except asyncio.CancelledError:
                self.metrics.dropped.labels("client disconnected").inc()
                raise

    @asynccontextmanager
    async def _admission(self, wait: bool) -> AsyncIterator[None]:
        # batches fill no more than half of the queue, so that single requests find room
        while self.admitted >= (self.limits.waiting // 2 if wait else self.limits.waiting):
            if not wait:
                raise overloaded(f"{self.admitted} requests wait already; try again in a moment", 2)
            await asyncio.sleep(0.05)
        self.admitted += 1
        self.metrics.waiting.inc()
        try:
            yield
        finally:
            self.admitted -= 1
            self.metrics.waiting.dec()

    async def _respond(self, media: Media, request: InferenceRequest, deadline: float) -> Json:
        if isinstance(request, RegionsRequest) and request.box is not None:
            image = await self._regions_of_box(media, request, deadline)
        else:
            image = await self._regions(media, deadline)
        return await self._queued(request, image, deadline)

    async def _queued(self, request: InferenceRequest | Call, image: ImageRegions | None, deadline: float) -> Json:
        loop = asyncio.get_running_loop()
        job = Job(request, image, deadline, loop, loop.create_future())
        self.jobs.put(job)
        return await job.future

    async def _regions(self, media: Media, deadline: float) -> ImageRegions:
        key = media.id or _key(media)
        if (image := self._cached(key)) is not None:
            self.metrics.remembered.inc()
            return image
        if media.id:
            raise Problem(404, "unknown-image", "the server does not have this image (any more): send its bytes again")
        return await self._extracted(self._extract, key, media, deadline)

    async def _regions_of_box(self, media: Media, request: RegionsRequest, deadline: float) -> ImageRegions:
        """What is cached of an image are its regions, not its pixels."""
        if media.id:
            raise bad("the features of a box are made from pixels: with box, send the image itself, not image_id")
        return await self._extracted(self._extract_box, _key(media), media, request, deadline)

    async def _extracted(self, extract: Callable[..., ImageRegions], *args: Any) -> ImageRegions:
        """The result of `extract` in another thread, which learns by an event that nobody waits for it any more."""
        loop, abandoned = asyncio.get_running_loop(), threading.Event()
        self._count_extracting(1)
        try:
            return await loop.run_in_executor(self._extractors, extract, abandoned, *args)
        finally:
            abandoned.set()
            loop.call_soon(self._count_extracting, -1)  # after its job was queued: a batch must not close in between

    def _count_extracting(self, change: int) -> None:
        self.extracting += change

    def _cached(self, key: str) -> ImageRegions | None:
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
            return self._cache.get(key)

    def _add_to_cache(self, image: ImageRegions) -> None:
        with self._lock:
            self._cache[image.id] = image
            while len(self._cache) > self.limits.remembered:
                self._cache.popitem(last=False)

    # ---------------------------------------------------------------- in the threads that extract regions

    def _extract(self, abandoned: threading.Event, key: str, media: Media, deadline: float) -> ImageRegions:
        pictures, models = self._decoded(abandoned, media, deadline)
        with self._extraction():
            image = ImageRegions(key, models.regions(pictures, bool(media.frames)), media.frames)
        self._add_to_cache(image)
        return image

    def _extract_box(
        self, abandoned: threading.Event, key: str, media: Media, request: RegionsRequest, deadline: float
    ) -> ImageRegions:
        assert request.box is not None
        pictures, models = self._decoded(abandoned, media, deadline)
        with self._extraction():
            return ImageRegions(key, models.regions_at(pictures, request.box, request.frame), media.frames)

    def _decoded(self, abandoned: threading.Event, media: Media, deadline: float) -> tuple[list[Image.Image], Models]:
        _check_wanted(abandoned, deadline)
        with self._timed("decode"):
            pictures = self.decoders.decode(media.content, media.frames)
        models = self._when_loaded(deadline)
        _check_wanted(abandoned, deadline)
        return pictures, models

    @contextmanager
    def _extraction(self) -> Iterator[None]:
        with self._timed("regions"):
            try:
                yield
            except GroundlingError as error:
                raise unfit(str(error)) from error

    def _when_loaded(self, deadline: float) -> Models:
        self.loaded.wait(max(0.0, deadline - time.monotonic()))
        if self.models is None:
            why = self.load_error or "the models are being loaded; try again in a moment"
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
            self.load_error = str(error)
            log.error("no models: %s", error)
        except Exception:
            self.load_error = "the models could not be loaded; the log of the server says why"
            log.exception("no models")
        self.loaded.set()
        if self.models is None:
            return
        threading.Thread(target=self.models.warm, name="tagger", daemon=True).start()
        while (batch := self._next_batch()) is not None:
            if batch:
                self._infer(self.models, batch)

    def _next_batch(self) -> list[Job] | None:
        """Jobs that are there, and those that come while the first one may wait; None at the end."""
        first = self.jobs.get()
        if first is None:
            return None
        batch, began = [first], time.monotonic()
        while len(batch) < self.limits.batch:
            left = began + self._window() - time.monotonic()
            try:
                job = self.jobs.get(timeout=min(left, 0.02)) if left > 0 else self.jobs.get_nowait()
            except queue.Empty:
                if left > 0:  # the window may be another by now
                    continue
                break
            if job is None:
                self.jobs.put(None)
                break
            batch.append(job)
        return [job for job in batch if job.wanted]

    def _window(self) -> float:
        """Seconds that an image may wait for others. Where all extracting threads are busy, these decide how long
        responses take, and larger batches leave them more of the cores; where nothing is extracted, nobody comes."""
        if self.extracting >= self.threads:
            return self.limits.busy_window
        return self.limits.window if self.extracting else 0.0

    def _infer(self, models: Models, batch: list[Job]) -> None:
        groups: dict[Any, list[Job]] = {}
        for job in batch:
            # what is sampled depends on the other images of a batch: each such caption is made alone
            together = isinstance(job.request, CaptionRequest) and not job.request.decoding.sample
            groups.setdefault(job.request if together else id(job), []).append(job)
        for jobs in groups.values():
            with self._timed("inference"):
                self._infer_group(models, jobs)

    def _infer_group(self, models: Models, jobs: list[Job]) -> None:
        self.metrics.batch.observe(len(jobs))
        try:
            results = _results(models, jobs[0].request, [job.image for job in jobs if job.image])
        except Exception as error:
            if len(jobs) > 1:  # one bad image must not spoil the others
                for job in jobs:
                    self._infer_group(models, [job])
                return
            jobs[0].finish(_problem(error))
            return
        for job, result in zip(jobs, results, strict=True):
            job.finish(result)


def _key(media: Media) -> str:
    """The id of an image: the hash of its file, and how many frames are to be read."""
    return f"{sha256(media.content).hexdigest()}{f'-{media.frames}' if media.frames else ''}"


def _check_wanted(abandoned: threading.Event, deadline: float) -> None:
    if abandoned.is_set() or time.monotonic() > deadline:
        raise overloaded("too many requests; try again in a moment", 5)


def _results(models: Models, request: InferenceRequest | Call, images: list[ImageRegions]) -> list[Json]:
    """The responses to the same request about each of these images."""
    if isinstance(request, Call):
        return [request.work()]
    if isinstance(request, CaptionRequest):
        return responses.captions(models, images, request)
    return [responses.respond(models, image, request) for image in images]


def _problem(error: Exception) -> Problem:
    if isinstance(error, Problem):
        return error
    if isinstance(error, GroundlingError):
        return unfit(str(error), "unfit")
    log.error("inference failed", exc_info=error)
    return internal()
