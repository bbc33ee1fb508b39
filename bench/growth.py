"""How cost grows: the exponents of time and memory over images, captions, regions, vocabulary and video frames.

    python bench/growth.py [--only regions frames] [--doublings 4] [--json growth.json]

Each size runs in a process of its own. Time is processor time on one thread, the least of three; memory is what the
process took beyond what it had before. An exponent is the slope of log cost over log size, over the larger half of the
sizes: 1 is linear.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import resource
import time
from collections.abc import Callable
from pathlib import Path

Work = Callable[[], object]


def images(count: int) -> Work:
    """Captions of so many images, scored."""
    return _scored(count, 5)


def captions(count: int) -> Work:
    """100 images with so many references each, scored."""
    return _scored(100, count)


def _scored(count: int, references: int) -> Work:
    from groundling.metrics.captions import score_captions

    draw = random.Random(0)
    words = [f"w{i}" for i in range(2000)]

    def sentence() -> str:
        return " ".join(draw.choices(words, k=11)) + "."

    hypotheses = {str(i): sentence() for i in range(count)}
    refs = {str(i): [sentence() for _ in range(references)] for i in range(count)}
    return lambda: score_captions(hypotheses, refs, ["bleu", "rouge", "cider-d"])


def regions(count: int) -> Work:
    """A beam of 3 over so many regions."""
    return _captioned(count, 2000)


def vocabulary(count: int) -> Work:
    """A beam of 3 over so many words."""
    return _captioned(36, count)


def frames(count: int) -> Work:
    """A clip of so many frames of 36 regions, captioned."""
    return _captioned(36, 2000, count)


def _captioned(regions: int, words: int, shots: int = 1) -> Work:
    import torch

    from groundling import decoding
    from groundling.models.layers import Additive, Plain
    from groundling.models.updown import UpDown
    from groundling.regions.media import of_frames
    from groundling.tensors import Regions

    torch.manual_seed(0)
    model = UpDown(words, Plain(512, 256), Additive(256, 256), 256, 256).eval()
    one = [Regions.of(torch.rand(regions, 512), torch.tensor([[0.0, 0, 9, 9]] * regions), (9, 9)) for _ in range(shots)]

    def work() -> object:
        with torch.inference_mode():
            return decoding.beam(model, model.encode(of_frames(one)), 17, width=3)

    return work


SIZES: dict[str, tuple[Callable[[int], Work], int]] = {  # what grows -> work, smallest size
    "images": (images, 500),
    "captions": (captions, 5),
    "regions": (regions, 100),
    "vocabulary": (vocabulary, 5000),
    "frames": (frames, 5),
}


def cost(make: Callable[[int], Work], size: int) -> tuple[float, float]:
    """Seconds of a processor and bytes, in a process of its own."""
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        import torch

        torch.set_num_threads(1)
        work = make(size)
        before, times = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, []
        for _ in range(3):
            start = time.process_time()
            work()
            times.append(time.process_time() - start)
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        os.write(write, json.dumps([min(times), used * 1024]).encode())
        os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        seconds, used = json.loads(pipe.read())
    os.waitpid(child, 0)
    return seconds, used


def exponent(sizes: list[int], costs: list[float]) -> float:
    """The slope of log cost over log size, of the larger half."""
    half = len(sizes) // 2
    x, y = ([math.log(max(value, 1e-9)) for value in values[half - 1 :]] for values in (sizes, costs))
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / sum((a - mean_x) ** 2 for a in x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SIZES, default=list(SIZES), metavar="WHAT", help=", ".join(SIZES))
    parser.add_argument("--doublings", type=int, default=4, help="of the smallest size, two or more (default 4)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers here")
    args = parser.parse_args()
    found = {}
    for name in args.only:
        make, smallest = SIZES[name]
        sizes = [smallest << i for i in range(args.doublings + 1)]
        costs = [cost(make, size) for size in sizes]
        seconds, used = (list(column) for column in zip(*costs, strict=True))
        found[name] = {"sizes": sizes, "seconds": seconds, "bytes": used}
        found[name] |= {"time exponent": exponent(sizes, seconds), "memory exponent": exponent(sizes, used)}
        print(f"{name}: time grows with exponent {found[name]['time exponent']:.2f}, memory with", end=" ")
        print(f"{found[name]['memory exponent']:.2f} (load {os.getloadavg()[0]:.1f})")
        for size, second, one in zip(sizes, seconds, used, strict=True):
            print(f"  {size:8}  {second:8.3f} s  {one / 1e6:8.1f} MB", flush=True)
    if args.json:
        args.json.write_text(json.dumps({"grows": found, "load": os.getloadavg()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
