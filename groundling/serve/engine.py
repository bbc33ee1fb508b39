"""From bytes to responses: decode in a process, extract regions in a few threads, infer in one thread.

Clips have threads of their own, fewer than the cores and the decoders, so that a photo never waits for a clip.

A request is admitted, or refused at once when too many wait. Images that arrive within the window of each other, or
while all cores are busy, form a group: their regions are extracted together, then their captions are made together,
which takes less time than one caption after the other. An image that is alone waits for nobody. A request
carries a deadline; one that is late, or whose client disconnected, is dropped before its next stage. Decoded pixels
live only as long as their regions are being extracted, but for small copies, so memory does not grow with the number of
requests that wait.

All of it is kept in the event loop; other threads only calculate.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from groundling.errors import GroundlingError
from groundling.regions.graphs import cores
from groundling.serve import responses
from groundling.serve.decoder_pool import DecoderPool
from groundling.serve.metrics import Metrics
from groundling.serve.models import Models
from groundling.serve.problems import Problem, bad, internal, overloaded, unfit
from groundling.serve.requests import CaptionRequest, InferenceRequest, Media, RegionsRequest
from groundling.serve.responses import ImageRegions
from groundling.serve.settings import Limits

log = logging.getLogger(__name__)

Json = dict[str, Any]
CORES = min(8, cores())
STALLED = 0.5  # seconds after which a group goes on without images that are still being decoded


@dataclass(eq=False)
class Job:
    """A request about an image, and the future that waits for the result."""

    request: InferenceRequest
    media: Media
    key: str  # the id of the image
    deadline: float  # time.monotonic()
    future: asyncio.Future[Json]
    decoding: bool = False  # or waiting for a decoder
    image: ImageRegions | None = None  # None: its regions are not known yet

    @property
    def wanted(self) -> bool:
        return not self.future.done() and time.monotonic() <= self.deadline

    @property
    def is_clip(self) -> bool:
        return self.image is not None and self.image.frames > 0

    def finish(self, result: Json | BaseException) -> None:
        if self.future.done():  # nobody waits any more
            return
        if isinstance(result, BaseException):
            self.future.set_exception(result)
        else:
            self.future.set_result(result)


@dataclass
class Engine:
    """Made before the server starts; `start` loads the models in a thread, so that the server listens meanwhile."""

    load: Callable[[], Models]
    limits: Limits
    metrics: Metrics
    decoders: DecoderPool
    cores: int = CORES  # with fewer images than these to extract, the next group begins
    loaded: threading.Event = field(default_factory=threading.Event)
    models: Models | None = None
    ready: bool = False  # to respond to anything at once; requests that come before wait
    load_error: str = ""  # why there are no models
    admitted: int = 0  # requests
    clips: int = 0  # those of them that are about a clip

    def __post_init__(self) -> None:
        self._cache: OrderedDict[str, ImageRegions] = OrderedDict()
        self._waiting: list[Job] = []  # for their group to begin
        self._ready: list[Job] = []  # whose regions are known
        self._extracting = 0  # photos that a group began with and whose regions are not known yet
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()  # the event loop itself would forget them
        self._inferring = False
        self._photos = ThreadPoolExecutor(self.cores + 1, "photos")  # one waits for a decoder while the others extract
        self._extraction = threading.Semaphore(self.cores)  # photos; clips have fewer threads than there are cores
        self._clips = ThreadPoolExecutor(max(1, min(self.cores, self.decoders.count) - 1), "clips")
        self._inference = ThreadPoolExecutor(1, "inference")

    def start(self) -> None:
        self._inference.submit(self._load)
        threading.Thread(target=self.decoders.warm, name="decoder", daemon=True).start()

    def stop(self) -> None:
        """After the last response: the threads and processes end."""
        self.decoders.stop()
        for pool in (self._photos, self._clips, self._inference):
            pool.shutdown(wait=False, cancel_futures=True)

    # ---------------------------------------------------------------- requests

    async def respond(self, media: Media, request: InferenceRequest, *, wait: bool = False) -> Json:
        """The response, as JSON; Problem where there is none. When the queue is full, `wait`, or be refused."""
        return await self._in_time(lambda deadline: self._respond(media, request, deadline), wait, media.frames > 0)

    async def call(self, work: Callable[[], Json]) -> Json:
        """The result of work about no image that is done in the inference thread, within the same bounds."""

        def timed() -> Json:
            try:
                with self._timed("inference"):
                    return work()
            except Exception as error:
                raise _problem(error) from error

        async def begin(deadline: float) -> Json:
            return await asyncio.get_running_loop().run_in_executor(self._inference, timed)

        return await self._in_time(begin, wait=False)

    async def _in_time(
        self, begin: Callable[[float], Coroutine[Any, Any, Json]], wait: bool, clip: bool = False
    ) -> Json:
        async with self._admission(wait, clip):
            deadline = time.monotonic() + self.limits.deadline
            await asyncio.sleep(0)  # requests that came with this one are counted before it is taken to be alone
            try:
                return await asyncio.wait_for(begin(deadline), self.limits.deadline)
            except asyncio.TimeoutError as error:
                self.metrics.dropped.labels("deadline").inc()
                raise overloaded(f"no response within {self.limits.deadline:g} seconds; try again", 5) from error
            except asyncio.CancelledError:
                self.metrics.dropped.labels("client disconnected").inc()
                raise

    @asynccontextmanager
    async def _admission(self, wait: bool, clip: bool) -> AsyncIterator[None]:
        while self._full(wait, clip):
            if not wait:
                raise overloaded(f"{self.admitted} requests wait already; try again in a moment", 2)
            await asyncio.sleep(0.05)
        self.admitted += 1
        self.clips += clip
        self.metrics.waiting.inc()
        try:
            yield
        finally:
            self.admitted -= 1
            self.clips -= clip
            self.metrics.waiting.dec()

    def _full(self, wait: bool, clip: bool) -> bool:
        """Batches fill no more than half of the queue, and so do clips, so that single photos find room."""
        half = max(1, self.limits.waiting // 2)
        return self.admitted >= (half if wait else self.limits.waiting) or (clip and self.clips >= half)

    async def _respond(self, media: Media, request: InferenceRequest, deadline: float) -> Json:
        if _of_box(request) and media.id:  # of an image its regions are cached, and a small copy
            raise bad("the features of a box are made from pixels: with box, send the image itself, not image_id")
        future: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        job = Job(request, media, media.id or _key(media), deadline, future)
        job.image = None if _of_box(request) else self._cached(job.key)
        if job.image is not None:
            self._infer_soon([job])
        elif media.id:
            raise Problem(404, "unknown-image", "the server does not have this image (any more): send its bytes again")
        elif media.frames:
            self._spawn(self._extracted([job], self._clips))
        else:
            self._join(job)
        try:
            return await job.future
        finally:
            job.media = Media()  # a job that nobody waits for any more may still be in a queue, without its bytes

    def _cached(self, key: str) -> ImageRegions | None:
        if key not in self._cache:
            return None
        self.metrics.remembered.inc()
        self._cache.move_to_end(key)
        return self._cache[key]

    def _add_to_cache(self, image: ImageRegions) -> None:
        self._cache[image.id] = image
        while len(self._cache) > self.limits.remembered:
            self._cache.popitem(last=False)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---------------------------------------------------------------- groups

    def _join(self, job: Job) -> None:
        """The group begins when it is full, or after the window; at once if no other request is under way."""
        self._waiting.append(job)
        if self.admitted == 1 or len(self._waiting) >= self.limits.batch:
            self._begin()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.limits.window, self._begin)

    def _begin(self) -> None:
        """Begin with those who wait, unless all cores are busy: then it is called again when an image is extracted."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waiting = [job for job in self._waiting if job.wanted]
        while self._waiting and self._extracting < self.cores:
            jobs, self._waiting = _split(self._waiting, self.limits.batch)
            self._extracting += len(jobs)
            self._spawn(self._extracted(jobs, self._photos))

    async def _extracted(self, jobs: Sequence[Job], pool: ThreadPoolExecutor) -> None:
        """Extract the regions of all, then have them inferred; what cannot be decoded is told at once."""
        loop = asyncio.get_running_loop()
        jobs_of = {loop.run_in_executor(pool, self._extract, job): job for job in jobs}
        pending = set(jobs_of)
        ready: list[Job] = []
        while pending:
            done, pending = await asyncio.wait(pending, timeout=STALLED, return_when=asyncio.FIRST_COMPLETED)
            self._extracting -= len(done) if pool is self._photos else 0
            for one in done:
                job = jobs_of[one]
                if (error := one.exception()) is not None:
                    job.finish(_problem(error, "unreadable-image"))
                    continue
                job.image = one.result()
                ready.append(job)
                if not _of_box(job.request):
                    self._add_to_cache(job.image)
            stalled = not done and all(jobs_of[one].decoding for one in pending)
            if ready and (stalled or not pending):
                self._infer_soon(ready)
                ready = []
            self._begin()

    def _infer_soon(self, jobs: Sequence[Job]) -> None:
        """Whose regions are known: inferred as soon as the inference thread is free, with whoever is ready then."""
        self._ready += jobs
        if not self._inferring:
            self._inferring = True
            self._spawn(self._infer_ready())

    async def _infer_ready(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._ready:
                jobs, self._ready = _alike(self._ready, self.limits.batch)
                wanted = [job for job in jobs if job.wanted]
                if not wanted:
                    continue
                for job, result in await loop.run_in_executor(self._inference, self._infer, wanted):
                    job.finish(result)
        finally:
            self._inferring = False

    # ---------------------------------------------------------------- in the threads that extract regions

    def _extract(self, job: Job) -> ImageRegions:
        media, request = job.media, job.request
        _check_wanted(job)
        job.decoding = True
        with self._timed("decode"):
            pictures = self.decoders.decode(media.content, media.frames)
        job.decoding = False
        models = self._when_loaded(job.deadline)
        with nullcontext() if media.frames else self._extraction, self._timed("regions"):
            _check_wanted(job)
            if isinstance(request, RegionsRequest) and request.box is not None:
                return ImageRegions(job.key, models.regions_at(pictures, request.box, request.frame), media.frames)
            return ImageRegions(job.key, models.regions(pictures, bool(media.frames)), media.frames)

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

    def _load(self) -> None:
        try:
            self.models = self.load()
        except GroundlingError as error:
            self.load_error = str(error)
            log.error("no models: %s", error)
        except Exception:
            self.load_error = "the models could not be loaded; the log of the server says why"
            log.exception("no models")
        self.loaded.set()
        if self.models is not None:
            threading.Thread(target=self._warm, args=(self.models,), name="tagger", daemon=True).start()

    def _warm(self, models: Models) -> None:
        """Captions need nothing of this, and are made meanwhile."""
        try:
            models.warm()
        except Exception:  # requests that need it tell what is wrong
            log.exception("the tagger could not be loaded")
        self.ready = True

    def _infer(self, jobs: Sequence[Job]) -> list[tuple[Job, Json | Exception]]:
        """The results of the same request about several images, made together."""
        assert self.models is not None  # they made the regions
        self.metrics.batch.observe(len(jobs))
        try:
            with self._timed("inference"):
                results = _results(self.models, jobs[0].request, [job.image for job in jobs if job.image])
            return list(zip(jobs, results, strict=True))
        except Exception as error:
            if len(jobs) > 1:  # one bad image must not spoil the others
                return [row for job in jobs for row in self._infer([job])]
            return [(jobs[0], _problem(error))]


def _key(media: Media) -> str:
    """The id of an image: the hash of its file, and how many frames are to be read."""
    return f"{sha256(media.content).hexdigest()}{f'-{media.frames}' if media.frames else ''}"


def _of_box(request: InferenceRequest) -> bool:
    return isinstance(request, RegionsRequest) and request.box is not None


def _split(jobs: list[Job], count: int) -> tuple[list[Job], list[Job]]:
    return jobs[:count], jobs[count:]


def _alike(jobs: list[Job], count: int) -> tuple[list[Job], list[Job]]:
    """The first job, with others that are made together with it, and the rest. Captions of photos are, if they have the
    same options; a clip has many more regions, and what is sampled depends on the other images of its group."""
    first = jobs[0]
    if not isinstance(first.request, CaptionRequest) or first.request.decoding.sample or first.is_clip:
        return jobs[:1], jobs[1:]
    alike = [job for job in jobs if job.request == first.request and not job.is_clip][:count]
    return alike, [job for job in jobs if job not in alike]


def _check_wanted(job: Job) -> None:
    if not job.wanted:
        raise overloaded("too many requests; try again in a moment", 5)


def _results(models: Models, request: InferenceRequest, images: list[ImageRegions]) -> list[Json]:
    """The responses to the same request about each of these images."""
    if isinstance(request, CaptionRequest):
        return responses.captions(models, images, request)
    return [responses.respond(models, image, request) for image in images]


def _problem(error: BaseException, kind: str = "unfit") -> Problem:
    if isinstance(error, Problem):
        return error
    if isinstance(error, GroundlingError):
        return unfit(str(error), kind)
    log.error("inference failed", exc_info=error)
    return internal()
