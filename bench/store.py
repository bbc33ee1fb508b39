"""The region store under load: 20,000 images x 36 regions x 2048, about 3 GB in a temporary folder.

    python bench/store.py [--images 20000] [--folder DIR]

Reports what opening, a random image and a training batch cost, and how much resident memory one pass over everything
adds. Times are those of the processor, system calls included, so that a busy machine does not show; the files are in
the page cache. Fails when memory grows by 300 MB or more.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from groundling.progress import track
from groundling.regions.store import Store, Writer
from groundling.tensors import Regions
from groundling.types import Fingerprint

R, D, BATCH = 36, 2048, 64
LIMIT_MB = 300


def resident() -> float:
    """Resident memory of this process in MB, mapped pages of files included."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def fill(path: Path, images: int) -> None:
    feats = torch.randn(64 + R, D)  # a window slides over it: different images, little work
    boxes = torch.rand(R, 4) * 400
    with Writer(path, Fingerprint("bench", "1", D)) as writer:
        for i in track(range(images), "writing", images):
            writer.add(f"{i:012d}", Regions.of(feats[i % 64 : i % 64 + R], boxes, (640, 480)))


def median_ms(work: Callable[[], object], times: int) -> float:
    spent = []
    for _ in range(times):
        start = time.process_time()
        work()
        spent.append(time.process_time() - start)
    return 1e3 * statistics.median(spent)


def measure(path: Path) -> float:
    """Print the numbers; return the growth of resident memory in MB."""
    print(f"open                     {median_ms(lambda: Store.open(path), 50):8.2f} ms")
    store, rng = Store.open(path), np.random.default_rng(0)
    ids = list(store.ids)
    store.batch(ids[:BATCH])
    before, peak = resident(), 0.0
    start = time.process_time()
    for at in track(range(0, len(ids), BATCH), "one pass, checksums verified"):
        store.batch(ids[at : at + BATCH])
        peak = max(peak, resident())
    first = time.process_time() - start
    print(f"first pass               {1e3 * first * BATCH / len(ids):8.2f} ms per batch of {BATCH}, checksums verified")

    def any_ids(n: int) -> list[str]:
        return [ids[i] for i in rng.integers(0, len(ids), n)]

    print(f"random image             {1e3 * median_ms(lambda: store[any_ids(1)[0]], 2000):8.0f} us")
    print(f"random batch             {median_ms(lambda: store.batch(any_ids(BATCH)), 200):8.2f} ms per {BATCH} images")
    print(f"random batch, limit 18   {median_ms(lambda: store.batch(any_ids(BATCH), 18), 200):8.2f} ms")
    peak = max(peak, resident())
    print(f"resident memory          {before:8.0f} MB before, {peak - before:+.0f} MB at the highest")
    return peak - before


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--folder", type=Path, help="where to put the data (default: the system's temporary folder)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="groundling-bench-", dir=args.folder) as folder:
        path = Path(folder) / "store"
        start = time.perf_counter()
        fill(path, args.images)
        size = sum(file.stat().st_size for file in path.iterdir()) / 1e6
        spent = time.perf_counter() - start
        print(f"{args.images:,} images, {size:,.0f} MB; written in {spent:.1f} s ({size / spent:.0f} MB/s)")
        growth = measure(path)
    if growth >= LIMIT_MB:
        print(f"resident memory grew by {growth:.0f} MB; the limit is {LIMIT_MB}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
