"""Attack groundling with damaged inputs of our own making, and count what happens.

    python tools/attack.py                     # minutes: the whole of it
    python tools/attack.py --seconds 60        # a slice of every kind of attack
    python tools/attack.py --only scores stores --cases 500 --seed 7

Every case runs a command in a process of its own, which is killed after 20 seconds or at 2 GB. Printed are, for each
kind of attack: tried; refused (code 1 or 2, one line); survived (code 0); failed (a traceback, a hang, too much memory,
a silent change). Code 1 if anything failed. The same seed makes the same cases.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import pickle
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from groundling.cli import main as groundling

HANG, MEMORY = 20, 2 << 30  # seconds of a processor (three times as many by the clock), bytes
Attack = Callable[[random.Random, Path], "list[str] | Callable[[], None]"]  # words of a command, or what is to be done


def damaged(content: bytes, draw: random.Random) -> bytes:
    """Flipped bits, a cut, a repeated piece, or bytes that parsers trip over."""
    data, kind = bytearray(content), draw.randrange(5)
    at = draw.randrange(len(data) or 1)
    if kind == 0:
        for _ in range(draw.randint(1, 8)):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    elif kind == 1:
        del data[at:]
    elif kind == 2:
        data[at:at] = data[at : at + draw.randint(1, 200)] * draw.randint(1, 50)
    elif kind == 3:
        data[at : at + draw.randint(0, 4)] = draw.choice(
            (
                b"\x00",
                b"\xff\xfe",
                b"NaN",
                b"1e999",
                b"9" * 5000,
                b"[" * 100_000,
                b'"',
                b"\x1b[2J",
                b"-1",
                b"null",
                b"{}",
            )
        )
    else:
        del data[at : at + draw.randint(1, 50)]
    return bytes(data)


# ---------------------------------------------------------------- generators


def images(draw: random.Random, place: Path) -> list[str]:
    from PIL import Image

    shape = draw.choice(((8, 8), (1, 3000), (3000, 1), (64, 48)))
    kind = draw.choice(("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"))
    content = io.BytesIO()
    Image.effect_noise(shape, 50).convert("RGB").save(content, kind)
    (place / "images").mkdir()
    (place / "images" / "a.png").write_bytes(damaged(content.getvalue(), draw))
    return [
        "regions",
        "extract",
        str(place / "images"),
        "--source",
        "grid",
        "--out",
        str(place / "s"),
        "--workers",
        "1",
    ]


def data_sets(draw: random.Random, place: Path) -> list[str]:
    coco = {
        "images": [{"id": i, "file_name": f"{i}.jpg", "width": 50, "height": 40} for i in range(3)],
        "annotations": [{"id": i, "image_id": i, "caption": "A dog runs."} for i in range(3)],
    }
    karpathy = [{"filename": "a.jpg", "split": "val", "sentences": [{"raw": "A dog."}]}]
    kinds: dict[str, bytes] = {
        "captions_val.json": json.dumps(coco).encode(),
        "captions.csv": b"image,caption\na.jpg,A dog runs.\nb.jpg,Two boys.\n",
        "captions.jsonl": b'{"image": "a.jpg", "captions": ["A dog."]}\n{"image": "b.jpg", "caption": "A cat."}\n',
        "dataset_x.json": json.dumps({"images": karpathy}).encode(),
    }
    name = draw.choice([*kinds, "a.zip", "refs(unc).p", "pipe"])
    if name == "pipe":
        os.mkfifo(place / draw.choice(["a.zip", *kinds]))
    elif name == "a.zip":
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w", draw.choice((0, 8, 12, 14))) as archive:
            archive.writestr("Sentences/1.txt", b"[/EN#1/people A man] runs .\n" * draw.choice((1, 5, 50_000)))
            archive.writestr(
                "Annotations/1.xml", b"<annotation><size><width>9</width><height>9</height></size></annotation>"
            )
        (place / name).write_bytes(damaged(content.getvalue(), draw))
    elif name == "refs(unc).p":
        refs = [{"ref_id": 1, "ann_id": 1, "image_id": 1, "split": "val", "sentences": [{"sent": "dog"}]}]
        (place / name).write_bytes(damaged(pickle.dumps(refs, draw.randrange(5)), draw))
        row = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 1, 5, 5]}
        (place / "instances.json").write_text(
            json.dumps({"images": coco["images"], "annotations": [row], "categories": [{"id": 1, "name": "dog"}]})
        )
    else:
        (place / name).write_bytes(damaged(kinds[name], draw))
    return ["doctor", str(place), *(["--skip-bad"] if draw.random() < 0.5 else [])]


def importers(draw: random.Random, place: Path) -> list[str]:
    import numpy as np

    content = io.BytesIO()
    shape = draw.choice(((2, 8), (2, 8), (2, 1 << 24)))
    save = draw.choice((np.savez, np.savez_compressed))
    save(content, x=np.zeros(shape, draw.choice(("i1", "f2", "f4"))), bbox=np.zeros((2, 4)), image_w=9, image_h=9)
    (place / "in").mkdir()
    (place / "in" / "a.npz").write_bytes(damaged(content.getvalue(), draw))
    return ["regions", "import", str(place / "in"), "--name", "x", "--out", str(place / "s")]


def score_files(draw: random.Random, place: Path) -> list[str]:
    lines = [
        {"image_id": i, "caption": "a dog runs " * draw.choice((1, 300)) + "&" * draw.choice((1, 5000))}
        for i in range(3)
    ]
    references = {
        "images": [{"id": i} for i in range(3)],
        "annotations": [{**row, "id": i} for i, row in enumerate(lines)],
    }
    (place / "said.json").write_bytes(damaged(json.dumps(lines).encode(), draw))
    (place / "true.json").write_text(json.dumps(references))
    return ["score", str(place / "said.json"), "--references", str(place / "true.json"), "--metrics", "bleu,cider-d"]


def a_store(place: Path, count: int = 6) -> Path:
    import torch

    from groundling.regions.store import Writer
    from groundling.tensors import Regions
    from groundling.types import Fingerprint

    with Writer(place, Fingerprint("attack", "1", 8)) as writer:
        for i in range(count):
            if f"{i}" not in writer.done:
                feats = torch.full((4, 8), float(i))
                writer.add(f"{i}", Regions.of(feats, torch.tensor([[0.0, 0, 5, 5]] * 4), (9.0, 9.0)))
    return place


def stores(draw: random.Random, place: Path) -> Callable[[], None]:
    """A damaged store is refused, or every image of it is as it was."""
    whole = {p.name: p.read_bytes() for p in a_store(place / "s").iterdir() if p.suffix == ".bin"}
    victim = draw.choice(sorted(whole))
    hurt = damaged(whole[victim], draw)
    (place / "s" / victim).write_bytes(hurt)

    def check() -> None:
        from groundling.regions.store import Store

        store = Store.open(place / "s")
        problems = [problem for _, problem in store.check() if problem]
        if hurt != whole[victim] and not problems:
            raise AssertionError(f"a changed {victim} was not noticed")

    return check


def models(draw: random.Random, place: Path) -> Callable[[], None]:
    """A changed file of the package's grounder is refused."""
    from groundling import recipes

    shutil.copytree(recipes.OWN / "grounder", place / "m")
    victim = draw.choice(["model.json", "model.safetensors", "calibration.json"])
    whole = (place / "m" / victim).read_bytes()
    hurt = damaged(whole, draw)
    (place / "m" / victim).write_bytes(hurt)

    def check() -> None:
        recipes.load(place / "m")
        if hurt != whole:
            raise AssertionError(f"a changed {victim} was not noticed")

    return check


def checkpoints(draw: random.Random, place: Path) -> Callable[[], None]:
    """A changed state of a run is refused, or reads as it was."""
    import torch

    from groundling.training.checkpoint import read, write

    write(place / "last.safetensors", {"a": torch.arange(50.0), "b": torch.ones(3, 4)}, {"step": 3})
    whole = (place / "last.safetensors").read_bytes()
    (place / "last.safetensors").write_bytes(damaged(whole, draw))

    def check() -> None:
        tensors, about = read(place / "last.safetensors")
        if about != {"step": 3} or not torch.equal(tensors["a"], torch.arange(50.0)) or tensors["b"].sum() != 12:
            raise AssertionError("a changed checkpoint was read as another")

    return check


def kills(draw: random.Random, place: Path) -> Callable[[], None]:
    """A store and a sealed folder that are being written when the process dies go on, and end as they should."""
    from groundling.files import check_manifest, replace_files

    a_store(place / "once", 40)
    (place / "m").mkdir()
    replace_files(place / "m", {"model.json": b"0", "model.safetensors": bytes(1000)})
    if (child := os.fork()) == 0:
        with contextlib.suppress(BaseException):
            a_store(place / "s", 40)
            for i in range(1000):
                replace_files(place / "m", {"model.json": b"%d" % i, "model.safetensors": bytes([i % 256]) * 1000})
        os._exit(0)
    time.sleep(draw.random() ** 2 * 0.3)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)

    def check() -> None:
        a_store(place / "s", 40)
        check_manifest(place / "m", required=True)
        for name in ("regions.bin", "index.bin"):
            if (place / "s" / name).read_bytes() != (place / "once" / name).read_bytes():
                raise AssertionError(f"{name} differs from that of a process that was not killed")

    return check


ATTACKS: dict[str, tuple[Attack, int]] = {  # name -> generator, cases of the whole attack
    "images": (images, 1500),
    "data sets": (data_sets, 3000),
    "importers": (importers, 1200),
    "scores": (score_files, 2000),
    "stores": (stores, 1200),
    "checkpoints": (checkpoints, 800),
    "models": (models, 300),
    "kills": (kills, 300),
}

# ---------------------------------------------------------------- one case


def tried(attack: Attack, seed: str, keep: Path) -> tuple[str, str]:
    """What became of one case: refused, survived, or failed and why."""
    place = Path(tempfile.mkdtemp(prefix="attack-"))
    try:
        if (child := os.fork()) == 0:
            os._exit(_run(attack, seed, place))
        code, told = _watched(child, place)
        if told:
            (keep / f"{seed.replace(' ', '-')}.txt").write_text(told)
        return ("failed", told) if told else ("survived" if code == 0 else "refused", "")
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _run(attack: Attack, seed: str, place: Path) -> int:
    """In the child: make the case, run it, write down a traceback."""
    from groundling.errors import GroundlingError

    try:
        task = attack(random.Random(seed), place)
        resource.setrlimit(resource.RLIMIT_CPU, (HANG, HANG + 1))
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            if not callable(task):
                return groundling(task)
            task()
        return 0
    except GroundlingError:
        return 2
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    except BaseException:
        (place / "traceback").write_text(traceback.format_exc())
        return 3


def _watched(child: int, place: Path) -> tuple[int, str]:
    """The code of a child, and what is wrong with how it ended, or nothing."""
    end = time.monotonic() + 3 * HANG
    while not (ended := os.wait4(child, os.WNOHANG))[0]:
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return -1, f"no end after {3 * HANG} seconds"
        time.sleep(0.005)
    code, used = os.waitstatus_to_exitcode(ended[1]), ended[2].ru_maxrss * 1024
    if (place / "traceback").exists():
        return code, (place / "traceback").read_text()
    if code < 0:
        return code, f"killed by signal {-code}: {HANG} seconds of processor time, or a crash"
    return code, f"{used:,} bytes of memory" if used > MEMORY else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="same seed, same cases (%(default)s)")
    parser.add_argument("--seconds", type=float, default=0, help="stop after so long, every kind having had its share")
    parser.add_argument("--cases", type=int, default=0, help="of each kind (default: 10,000 in all, and 300 kills)")
    parser.add_argument(
        "--only", nargs="+", choices=ATTACKS, default=list(ATTACKS), metavar="KIND", help=", ".join(ATTACKS)
    )
    parser.add_argument("--keep", type=Path, default=Path("attack-failures"), help="where failures are described")
    args = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    args.keep.mkdir(parents=True, exist_ok=True)
    failed = 0
    print(f"{'attack':<12} {'tried':>6} {'refused':>8} {'survived':>9} {'failed':>7}")
    for name in args.only:
        attack, cases = ATTACKS[name]
        end = time.monotonic() + args.seconds / len(args.only) if args.seconds else float("inf")
        found: Counter[str] = Counter()
        for case in range(args.cases or cases):
            if time.monotonic() > end:
                break
            what, told = tried(attack, f"{name} {args.seed} {case}", args.keep)
            found[what] += 1
            if what == "failed":
                print(f"  {name} {args.seed} {case}: {told.strip().splitlines()[-1][:150]}", file=sys.stderr)
        failed += found["failed"]
        print(
            f"{name:<12} {found.total():>6} {found['refused']:>8} {found['survived']:>9} {found['failed']:>7}",
            flush=True,
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
