"""What `groundling serve` must hold, measured against a server on this machine.

    python bench/serve.py                             # everything; saturated for 10 minutes, about 18 in all
    python bench/serve.py --minutes 1 --hostile 300   # a short run
    python bench/serve.py --only idle,hostile

Bounded in count and time; all requests go to 127.0.0.1. Prints a line for each measure, with its bound and whether it
held, then how many held, and writes the same as JSON. The bounds are for two cores that nothing else uses: each part
also prints how much of the cores other processes had. Processor seconds hardly depend on them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "serve"))
from hostile_requests import KINDS, LONG, send  # noqa: E402
from http_calls import Response, call  # noqa: E402
from server_process import Running, labelled, running  # noqa: E402

import groundling  # noqa: E402

PHOTOS = sorted((Path(groundling.__file__).parent / "serve" / "photos").glob("*.jpg"))
BATCH, CLIENTS, MANY = 16, 16, 100
TURNS = 4  # into which the time of saturation is divided
PATIENCE = 300.0  # seconds for anything that should take a few
NUMBERS = count()


@dataclass(frozen=True)
class Measure:
    """`bound` is None for what is measured without a promise."""

    name: str
    value: float
    unit: str = ""
    sign: str = ""
    bound: float | None = None

    @property
    def held(self) -> bool:
        return self.bound is None or (self.value <= self.bound if self.sign == "<=" else self.value >= self.bound)

    def line(self) -> str:
        if self.bound is None:
            return f"        {self.name:<62} {self.value:10.3f} {self.unit}"
        mark = "held  " if self.held else "MISSED"
        return f"{mark}  {self.name:<62} {self.value:10.3f} {self.unit:<4} (bound {self.sign} {self.bound:g})"


def most(name: str, value: float, bound: float, unit: str = "") -> Measure:
    return Measure(name, value, unit, "<=", bound)


def least(name: str, value: float, bound: float, unit: str = "") -> Measure:
    return Measure(name, value, unit, ">=", bound)


# ---------------------------------------------------------------- asking


def fresh() -> bytes:
    """A photo that the server has not seen: a number in a comment of the file makes its bytes others."""
    number = next(NUMBERS)
    content = PHOTOS[number % len(PHOTOS)].read_bytes()
    note = b"%d %d" % (os.getpid(), number)
    return content[:2] + b"\xff\xfe" + (len(note) + 2).to_bytes(2, "big") + note + content[2:]


def caption(server: Running) -> tuple[Response, float]:
    began = time.monotonic()
    response = call(server.port, "POST", "/v1/caption", fresh(), {"content_type": "image/jpeg"})
    return response, time.monotonic() - began


def until(there: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not there():
        if time.monotonic() > end:
            raise TimeoutError(f"waited for {PATIENCE:g} seconds in vain")
        time.sleep(0.02)


@contextmanager
def started(folder: Path | None = None) -> Iterator[Running]:
    """A server that has answered once; its threads are as many as people get who start it."""
    with (
        tempfile.TemporaryDirectory() as logs,
        running(Path(logs) / "log", "--quiet", folder=folder, threads=None) as server,
    ):
        until(lambda: server.call("GET", "/readyz").status == 200)
        caption(server)
        yield server


def mistakes(server: Running) -> Measure:
    """What the server logs of itself that it should not."""
    text = server.log.read_text()
    if "Traceback" in text:
        print(text[-4000:], file=sys.stderr)
    return most("tracebacks in the log of the server", text.count("Traceback"), 0)


# ---------------------------------------------------------------- one client


def idle(args: argparse.Namespace) -> Iterator[Measure]:
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        with running(Path(folder) / "log", "--quiet", threads=None) as server:
            caption(server)
            yield most("first response after start", time.monotonic() - began, 4.0, "s")
            caption(server)
            seconds = []
            for _ in range(min(30, args.idle)):
                time.sleep(0.2)
                seconds.append(caption(server)[1])
            yield most("a photo when idle, median", statistics.median(seconds), 0.4, "s")
            busy = sorted(caption(server)[1] for _ in range(args.idle))
            slow = busy[min(len(busy) - 1, int(0.99 * len(busy)))]
            yield most(f"one client, {args.idle} photos: p99 over median", slow / statistics.median(busy), 1.5)
            yield Measure("one client: median, p99 being", statistics.median(busy), f"s, {slow:.3f} s")


# ---------------------------------------------------------------- many clients


def load(server: Running, clients: int, seconds: float) -> Counter[int]:
    """How often each status came, of clients that ask again as soon as they are answered."""
    statuses: Counter[int] = Counter()
    lock = threading.Lock()
    end = time.monotonic() + seconds

    def client() -> None:
        while time.monotonic() < end:
            response, _ = caption(server)
            with lock:
                statuses[response.status] += 1
            if response.status == 503:
                time.sleep(float(response.headers.get("retry-after", "1")))

    _together([threading.Thread(target=client) for _ in range(clients)])
    return statuses


def _together(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@dataclass
class Rate:
    """What clients of one number got, over several times."""

    captions: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    batches: float = 0.0  # calls of the captioner

    @property
    def each_second(self) -> float:
        return self.captions / self.seconds

    def line(self, name: str) -> Measure:
        spent, together = self.cpu / max(1, self.captions), self.captions / max(1.0, self.batches)
        about = f", {1000 * spent:.0f} ms of a core each, {together:.1f} made together"
        return Measure(f"captions a second of {name}", self.each_second, about)


def measured(server: Running, clients: int, seconds: float, rate: Rate) -> Counter[int]:
    began, spent, batches = time.monotonic(), cpu(server), made(server)
    statuses = load(server, clients, seconds)
    rate.captions += statuses[200]
    rate.seconds += time.monotonic() - began
    rate.cpu += cpu(server) - spent
    rate.batches += made(server) - batches
    return statuses


def made(server: Running) -> float:
    """How many batches were inferred so far."""
    text = server.call("GET", "/metrics").body.decode()
    return float(text.partition("\ngroundling_batch_images_count ")[2].split()[0])


def batching(args: argparse.Namespace) -> Iterator[Measure]:
    one, many = Rate(), Rate()
    with started() as server:
        load(server, CLIENTS, 3)  # warm-up
        for _ in range(4):  # in turn: what else the machine does changes with time
            measured(server, 1, args.minutes * 1.5, one)
            measured(server, CLIENTS, args.minutes * 1.5, many)
    yield least(f"captions a second, {CLIENTS} clients over 1", many.each_second / one.each_second, 1.5)
    yield one.line("one client")
    yield many.line(f"{CLIENTS} clients")


def saturation(args: argparse.Namespace) -> Iterator[Measure]:
    saturated, overload, own = Rate(), Rate(), list[tuple[float, float]]()
    statuses: Counter[int] = Counter()
    with started() as server:
        load(server, CLIENTS, max(10, args.minutes * 3))  # warm-up
        before = resident(server)
        for _ in range(TURNS):  # the library in turn with the server, whose memory and caches stay as they are
            own.append(own_loop(max(6, args.minutes * 1.2)))
            statuses += measured(server, CLIENTS, args.minutes * 60 / TURNS, saturated)
        own.append(own_loop(max(6, args.minutes * 1.2)))
        yield most("resident memory, growth after warm-up", resident(server) - before, 50, "MB")
        statuses += measured(server, MANY, args.minutes * 2, overload)
        yield mistakes(server)
    rate, cost = (statistics.mean(values) for values in zip(*own, strict=True))
    yield least("captions a second, over the library's batch loop", saturated.each_second / rate, 0.9)
    wrong = sum(n for status, n in statuses.items() if status not in (200, 503))
    yield most(f"answers other than 200 and 503, of {statuses.total()}", wrong, 0)
    yield saturated.line(f"{CLIENTS} clients")
    yield overload.line(f"{MANY} clients, {statuses[503]} refused with 503")
    yield Measure("captions a second of the library's loop", rate, f", {1000 * cost:.0f} ms of a core each")


def own_loop(seconds: float) -> tuple[float, float]:
    """Of the library alone, in batches, in a process of its own: captions a second, processor seconds a caption."""
    command = [sys.executable, __file__, "--library", str(seconds)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds + PATIENCE)
    rate, cost = done.stdout.split()[-2:]
    return float(rate), float(cost)


def library(seconds: float) -> None:
    """Print captions a second and processor seconds a caption of the loop that people write."""
    captions = groundling.load().caption(PHOTOS[number % len(PHOTOS)] for number in count())
    for _ in range(BATCH):
        next(captions)
    began, spent, done = time.monotonic(), time.process_time(), 0
    while time.monotonic() - began < seconds:
        for _ in range(BATCH):
            next(captions)
        done += BATCH
    print(done / (time.monotonic() - began), (time.process_time() - spent) / done)


def family(server: Running) -> list[Path]:
    """The server and its decoding processes, as folders of /proc."""
    mine = server.process.pid
    children = Path(f"/proc/{mine}/task/{mine}/children").read_text().split()
    for task in Path(f"/proc/{mine}/task").iterdir():  # a process belongs to the thread that started it
        children += (task / "children").read_text().split()
    return [Path(f"/proc/{pid}") for pid in {str(mine), *children}]


def resident(server: Running) -> float:
    """Megabytes."""
    texts = [(process / "status").read_text() for process in family(server)]
    return sum(int(text.partition("VmRSS:")[2].split()[0]) for text in texts) / 1024


def cpu(server: Running) -> float:
    """Processor seconds so far."""
    fields = [(process / "stat").read_text().rpartition(")")[2].split() for process in family(server)]
    return sum(int(row[11]) + int(row[12]) for row in fields) / os.sysconf("SC_CLK_TCK")


# ---------------------------------------------------------------- hostile requests


def hostile(args: argparse.Namespace) -> Iterator[Measure]:
    draw = random.Random(0)
    kinds = [*LONG] * max(1, args.hostile // 300)
    kinds += [draw.choice(list(KINDS)) for _ in range(args.hostile - len(kinds))]
    draw.shuffle(kinds)
    results: list[tuple[str, int, float, bytes]] = []
    healthy: list[int] = []
    done = threading.Event()
    with tempfile.TemporaryDirectory() as folder, started(Path(folder)) as server:

        def well() -> None:
            while not done.is_set():
                healthy.append(caption(server)[0].status)
                time.sleep(0.2)

        def attack(mine: list[str]) -> None:
            for kind in mine:
                began = time.monotonic()
                response = send(server.port, kind)
                results.append((kind, response.status, time.monotonic() - began, response.body))

        beside = threading.Thread(target=well)
        beside.start()
        _together([threading.Thread(target=attack, args=(kinds[i::8],)) for i in range(8)])
        done.set()
        beside.join()
        written = len(os.listdir(folder))
        yield mistakes(server)
    odd = Counter(f"{kind}: {status}" for kind, status, _, _ in results if not 400 <= status < 500)
    several = len({kind for kind, *_ in results})
    yield most(f"of {len(results)} hostile requests of {several} kinds, not answered with 4xx", odd.total(), 0)
    yield most("slowest response to a hostile request", max(seconds for *_, seconds, _ in results), 30.0, "s")
    yield most("answers with a traceback", sum(b"Traceback" in body for *_, body in results), 0)
    yield most("files that were written", written, 0)
    refused = sum(status != 200 for status in healthy)
    yield most(f"healthy requests refused, of {len(healthy)} beside them", refused, 0)
    if odd:
        print(f"not 4xx: {dict(odd)}", file=sys.stderr)


# ---------------------------------------------------------------- kill -9


def kill(args: argparse.Namespace) -> Iterator[Measure]:
    """Decisions are sent by four clients; the server is killed again and again, at moments of no choice of theirs."""
    accepted: dict[int, float] = {}  # label -> the height of its box, of the last decision that was accepted
    with tempfile.TemporaryDirectory() as folder:
        place, labels = Path(folder), 400
        words = ("--quiet", "--review", str(labelled(place / "labels", copies=labels)))
        for turn in range(args.kills):
            with running(place / "log", *words) as server:
                mine = [list(range(i, labels, 4)) for i in range(4)]
                threads = [threading.Thread(target=decide, args=(server, turn, some, accepted)) for some in mine]
                for thread in threads:
                    thread.start()
                until(lambda: sum(height >= 1 + turn for height in list(accepted.values())) >= 20)  # noqa: B023
                time.sleep(random.Random(turn).random())
                os.kill(server.process.pid, signal.SIGKILL)
                for thread in threads:
                    thread.join()
        with running(place / "log", *words) as server:
            found = server.call("GET", "/v1/review").json()["decisions"]
    kept = {row["label"]: row["boxes"][0][3] for row in found}
    lost = [label for label, height in accepted.items() if kept.get(label, 0) < height]
    yield most(f"accepted decisions lost, of {len(accepted)} labels, {args.kills} kills", len(lost), 0)


def decide(server: Running, turn: int, labels: list[int], accepted: dict[int, float]) -> None:
    """The box of a label grows from one decision to the next: the box that was kept shows which decision it was."""
    for number in count():
        label = labels[number % len(labels)]
        height = 1 + turn + (number // len(labels)) / 1000
        row = {"image": "cat", "label": label, "action": "redraw", "boxes": [[0, 0, 9, height]]}
        try:
            body = json.dumps(row).encode()
            response = call(server.port, "POST", "/v1/review", body, {"content_type": "application/json"})
        except Exception:  # the server was killed in the middle of it: nothing was accepted
            return
        if response.status == 201:
            accepted[label] = height


# ---------------------------------------------------------------- all of it

PARTS: dict[str, Callable[[argparse.Namespace], Iterator[Measure]]] = {
    "idle": idle,
    "batching": batching,
    "saturation": saturation,
    "hostile": hostile,
    "kill": kill,
}


def about() -> dict[str, Any]:
    return {"groundling": groundling.__version__, "python": platform.python_version(), "cores": os.cpu_count()}


@dataclass
class Others:
    """How much of the cores other processes had since this was made; /proc has no such line, but two to subtract."""

    began: float = field(default_factory=time.monotonic)
    used: float = field(default_factory=lambda: _busy())
    mine: float = field(default_factory=lambda: _mine())

    def cores(self) -> float:
        """Processes that were killed and not waited for count as others."""
        return (_busy() - self.used - (_mine() - self.mine)) / (time.monotonic() - self.began)


def _busy() -> float:
    """Processor seconds of all cores so far, but those that were idle."""
    user, nice, system, idle, wait, *rest = map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:])
    return (user + nice + system + sum(rest[:3])) / os.sysconf("SC_CLK_TCK")


def _mine() -> float:
    """Of this process and its children that have ended, which all servers have after their part."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10, help="saturated (10); other loads in proportion")
    parser.add_argument("--idle", type=int, default=300, help="photos of one client (300)")
    parser.add_argument("--hostile", type=int, default=5000, help="hostile requests (5000)")
    parser.add_argument("--kills", type=int, default=10, help="times that the server is killed (10)")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, by commas (all)")
    parser.add_argument("--out", default="serve-bench.json", help="the measures as JSON (%(default)s)")
    parser.add_argument("--library", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.library:
        library(args.library)
        return 0
    machine, measures = about(), list[Measure]()
    for name in args.only.split(","):
        print(f"{name} …", file=sys.stderr, flush=True)
        others = Others()
        try:
            for one in PARTS[name](args):
                measures.append(one)
                print(one.line(), flush=True)
        except Exception as error:  # the other parts are measured all the same
            traceback.print_exc()
            measures.append(most(f"{name} ended early: {type(error).__name__}", 1, 0))
        measures.append(Measure(f"cores that other processes had in {name}", others.cores()))
        print(measures[-1].line(), flush=True)
        rows = [asdict(one) | {"held": one.held} for one in measures]  # written part by part: a run may be interrupted
        Path(args.out).write_text(json.dumps({"machine": machine, "arguments": vars(args), "measures": rows}, indent=1))
    promised = [one for one in measures if one.bound is not None]
    for one in promised:
        if not one.held:
            print(one.line())
    print(f"{sum(one.held for one in promised)} of {len(promised)} held", end=" · ")
    print(" · ".join(f"{name} {value}" for name, value in machine.items()), f"· {' '.join(sys.argv[1:])}")
    return 0 if all(one.held for one in promised) else 1


if __name__ == "__main__":
    sys.exit(main())
