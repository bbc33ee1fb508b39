"""What `groundling serve` must hold, measured against a server on this machine.

    python bench/serve.py                     # everything; saturated for ten minutes
    python bench/serve.py --seconds 20 --hostile 300 --only idle,batching,hostile

Bounded in count and time. Prints one line per measure: its value, its bound, and whether it held. The bounds are for
two cores that nothing else uses; under other load the numbers are those of that load.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "serve"))
from asking import Answer, ask  # noqa: E402
from hostile import KINDS, send  # noqa: E402
from starting import Running, copied, running  # noqa: E402

import groundling  # noqa: E402

PHOTOS = sorted((Path(groundling.__file__).parent / "serve" / "photos").glob("*.jpg"))
BATCH, CLIENTS = 16, 16
NUMBERS = count()
held: list[bool] = []


def report(name: str, value: float, sign: str, bound: float, unit: str = "") -> None:
    right = value <= bound if sign == "<=" else value >= bound
    held.append(right)
    print(f"{'held  ' if right else 'MISSED'}  {name:<58} {value:10.3f} {unit:<4} (bound {sign} {bound:g})", flush=True)


def fresh() -> bytes:
    """A photo that the server has not seen: a number in a comment of the file makes its bytes others."""
    number = next(NUMBERS)
    content = PHOTOS[number % len(PHOTOS)].read_bytes()
    note = b"%d %d" % (os.getpid(), number)
    return content[:2] + b"\xff\xfe" + (len(note) + 2).to_bytes(2, "big") + note + content[2:]


def caption(server: Running) -> tuple[Answer, float]:
    began = time.monotonic()
    answer = ask(server.port, "POST", "/v1/caption", fresh(), {"content_type": "image/jpeg"})
    return answer, time.monotonic() - began


def until_ready(server: Running) -> None:
    while server.ask("GET", "/readyz").status != 200:
        time.sleep(0.05)


@contextmanager
def started(*words: str, folder: Path | None = None) -> Iterator[Running]:
    with tempfile.TemporaryDirectory() as logs, running(Path(logs) / "log", "--quiet", *words, folder=folder) as server:
        until_ready(server)
        caption(server)
        yield server


# ---------------------------------------------------------------- idle


def idle(args: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        with running(Path(folder) / "log", "--quiet") as server:
            caption(server)
            report("first answer after start", time.monotonic() - began, "<=", 4.0, "s")
            caption(server)
            seconds = sorted(caption(server)[1] for _ in range(args.idle))
            report("a photo when idle, median", statistics.median(seconds), "<=", 0.4, "s")
            slowest = seconds[min(len(seconds) - 1, int(0.99 * len(seconds)))]
            report("one client: p99 over median", slowest / statistics.median(seconds), "<=", 1.5)


# ---------------------------------------------------------------- many clients


def load(server: Running, clients: int, seconds: float) -> tuple[float, Counter[int]]:
    """Captions a second, and how often each status came, of clients that ask again as soon as they are answered."""
    statuses: Counter[int] = Counter()
    lock = threading.Lock()
    until = time.monotonic() + seconds

    def client() -> None:
        while time.monotonic() < until:
            answer, _ = caption(server)
            with lock:
                statuses[answer.status] += 1
            if answer.status == 503:
                time.sleep(float(answer.headers.get("retry-after", "1")))

    began = time.monotonic()
    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statuses[200] / (time.monotonic() - began), statuses


def batching(args: argparse.Namespace) -> None:
    with started() as server:
        one, many = [], []
        for _ in range(2):  # in turn: what else the machine does changes with time
            one.append(load(server, 1, args.seconds / 8)[0])
            many.append(load(server, CLIENTS, args.seconds / 8)[0])
        report(f"captions a second, {CLIENTS} clients over 1", sum(many) / sum(one), ">=", 1.5)


def saturation(args: argparse.Namespace) -> None:
    with started() as server:
        library = [own_loop(args.seconds / 8)]
        load(server, CLIENTS, args.seconds / 8)  # warm-up
        before = resident(server)
        rate, statuses = load(server, CLIENTS, args.seconds)
        report("resident memory, growth after warm-up", resident(server) - before, "<=", 50, "MB")
        overload, more = load(server, 100, args.seconds / 8)
        library.append(own_loop(args.seconds / 8))
    report("captions a second, over the library's batch loop", rate / statistics.mean(library), ">=", 0.9)
    wrong = sum(n for status, n in (statuses + more).items() if status not in (200, 503))
    report("answers other than 200 and 503", wrong, "<=", 0)
    print(
        f"        {rate:.2f} captions/s of {CLIENTS} clients, {overload:.2f} of 100 ({dict(more)}), library {library}"
    )


def own_loop(seconds: float) -> float:
    """Captions a second of the library alone, in batches, in a process of its own."""
    command = [sys.executable, __file__, "--library", str(seconds)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def library(seconds: float) -> None:
    from groundling.tensors import Regions

    model = groundling.load()
    none = [""] * BATCH

    def batch() -> None:
        paths = [PHOTOS[next(NUMBERS) % len(PHOTOS)] for _ in range(BATCH)]
        model.generate(Regions.stack([model.regions(path) for path in paths]), none, none)

    batch()
    began, done = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        batch()
        done += BATCH
    print(done / (time.monotonic() - began))


def resident(server: Running) -> float:
    """Megabytes of the server's own process."""
    text = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024


# ---------------------------------------------------------------- hostile requests


def hostile(args: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder, started(folder=Path(folder)) as server:
        draw = random.Random(0)
        kinds = [draw.choice(list(KINDS)) for _ in range(args.hostile)]
        results: list[tuple[str, int, float, bytes]] = []
        healthy: list[int] = []
        done = threading.Event()

        def well() -> None:
            while not done.is_set():
                answer, _ = caption(server)
                healthy.append(answer.status)
                time.sleep(0.2)

        def attack(mine: list[str]) -> None:
            for kind in mine:
                began = time.monotonic()
                answer = send(server.port, kind)
                results.append((kind, answer.status, time.monotonic() - began, answer.body))

        beside = threading.Thread(target=well)
        beside.start()
        threads = [threading.Thread(target=attack, args=(kinds[i::8],)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        done.set()
        beside.join()
        odd = Counter((kind, status) for kind, status, _, _ in results if not 400 <= status < 500)
        report("hostile requests not answered with 4xx", sum(odd.values()), "<=", 0)
        report("slowest answer to a hostile request", max(seconds for *_, seconds, _ in results), "<=", 30.0, "s")
        report("answers with a traceback", sum(b"Traceback" in body for *_, body in results), "<=", 0)
        report("files that were written", len(os.listdir(folder)), "<=", 0)
        report("healthy requests refused beside them", sum(status != 200 for status in healthy), "<=", 0)
        print(f"        {len(results)} hostile requests, {dict(odd)}; healthy ones {dict(Counter(healthy))}")


# ---------------------------------------------------------------- kill -9


def kill(args: argparse.Namespace) -> None:
    """Decisions are sent by four clients; the server is killed again and again, at moments of no choice of theirs."""
    accepted: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        words = ("--quiet", "--photos", str(copied(place / "photos")), "--reviews", str(place / "r.jsonl"))
        for turn in range(args.kills):
            with running(place / "log", *words) as server:
                threads = [threading.Thread(target=decide, args=(server, turn, i, accepted)) for i in range(4)]
                for thread in threads:
                    thread.start()
                before = len(accepted)
                while len(accepted) < before + 20:  # on a busy machine it takes a while to start
                    time.sleep(0.01)
                time.sleep(random.Random(turn).random())
                os.kill(server.process.pid, signal.SIGKILL)
                for thread in threads:
                    thread.join()
        with running(place / "log", *words) as server:
            found = server.ask("GET", "/v1/reviews?image=cat.jpg").json()["decisions"]
    lost = set(accepted) - {row["phrase"] for row in found}
    report(f"accepted decisions lost, of {len(accepted)}, after {args.kills} kills", len(lost), "<=", 0)


def decide(server: Running, turn: int, client: int, accepted: list[str]) -> None:
    for number in range(100_000):
        row = {"image": "cat.jpg", "phrase": f"{turn} {client} {number}", "verdict": "right", "box": [0, 0, 9, 9]}
        try:
            body = json.dumps(row).encode()
            answer = ask(server.port, "POST", "/v1/reviews", body, {"content_type": "application/json"})
        except Exception:  # the server was killed in the middle of it: nothing was accepted
            return
        if answer.status == 201:
            accepted.append(row["phrase"])  # type: ignore[arg-type]


PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "idle": idle,
    "batching": batching,
    "saturation": saturation,
    "hostile": hostile,
    "kill": kill,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600, help="saturated for so long (600)")
    parser.add_argument("--idle", type=int, default=100, help="photos of the idle server (100)")
    parser.add_argument("--hostile", type=int, default=5000, help="hostile requests (5000)")
    parser.add_argument("--kills", type=int, default=10, help="times that the server is killed (10)")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, by commas (all)")
    parser.add_argument("--library", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.library:
        library(args.library)
        return 0
    print(f"load of this machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    for name in args.only.split(","):
        PARTS[name](args)
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
