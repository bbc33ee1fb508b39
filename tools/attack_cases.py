"""Damaged inputs of our own making, and kills: what `tools/attack.py` tries.

A case is a function of a seeded generator and an empty folder. It leaves something damaged there and returns what to do
with it: the words of a command, which may refuse or not, or a function, which raises AssertionError where a change went
unnoticed or a line was lost.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import pickle
import random
import resource
import shutil
import signal
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

Task = list[str] | Callable[[], None]
Draw = random.Random

PIECES = (b"\x00", b"\xff\xfe", b"NaN", b"1e999", b"9" * 5000, b"[" * 100_000, b'"', b"\x1b[2J", b"-1", b"null", b"{}")
PIECES += (b"\\ud800", b"1e308", b"\r", b"\xe2\x80\xa8", b"../", b"%s", b"<!DOCTYPE", b"&", b"\x80\x04")


def damaged(content: bytes, draw: Draw) -> bytes:
    """Flipped bits, a cut, a repeated piece, bytes that parsers trip over, or a gap."""
    data, kind = bytearray(content), draw.randrange(5)
    at = draw.randrange(len(data) or 1)
    if kind == 0 and data:
        for _ in range(draw.randint(1, 8)):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    elif kind == 1:
        del data[at:]
    elif kind == 2:
        data[at:at] = data[at : at + draw.randint(1, 200)] * draw.randint(1, 50)
    elif kind == 3:
        data[at : at + draw.randint(0, 4)] = draw.choice(PIECES)
    else:
        del data[at : at + draw.randint(1, 50)]
    return bytes(data)


def shaken(value: Any, draw: Draw) -> Any:
    """A JSON value with one part, at any depth, exchanged for another: what is still JSON, but not what was meant."""
    odd = (None, True, -1, 0, 10**30, 1e308, float("nan"), "", "\x1b[31m", "\ud800", "x" * 10_000, [], {}, [[]])
    if isinstance(value, dict) and value and draw.random() < 0.8:
        key = draw.choice(list(value))
        return value | {key: shaken(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.8:
        at = draw.randrange(len(value))
        return [*value[:at], shaken(value[at], draw), *value[at + 1 :]]
    return draw.choice(odd)


def as_json(value: Any, draw: Draw) -> bytes:
    """Damaged, as bytes or as a value."""
    if draw.random() < 0.5:
        return damaged(json.dumps(value).encode(), draw)
    return json.dumps(shaken(value, draw)).encode()


# ---------------------------------------------------------------- what is read


def images(draw: Draw, place: Path) -> Task:
    """Decoded and drawn, or refused."""
    from PIL import Image

    from groundling.images import image_size, open_image
    from groundling.report.picture import draw as drawn
    from groundling.types import GroundedCaption, Link

    shape = draw.choice(((8, 8), (1, 3000), (3000, 1), (64, 48), (1, 60_000)))
    kind = draw.choice(("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM"))
    content = io.BytesIO()
    Image.effect_noise(shape if kind != "WEBP" else (64, 48), 50).convert("RGB").save(content, kind)
    (place / "a.png").write_bytes(damaged(content.getvalue(), draw))
    box = tuple(draw.choice((0.0, 5.0, -1e300, 1e300)) for _ in range(4))
    caption = GroundedCaption("a", "a dog", ("a", "dog"), ((0, 1), (2, 5)), (Link(1, (2, 5), box, 0.7),))  # type: ignore

    def task() -> None:
        size = image_size(place / "a.png")
        if open_image(place / "a.png").size != size:
            raise AssertionError("the header promised another size")
        drawn(place / "a.png", caption)

    return task


COCO = {
    "images": [{"id": i, "file_name": f"{i}.jpg", "width": 50, "height": 40} for i in range(3)],
    "annotations": [{"id": i, "image_id": i, "caption": "A dog runs."} for i in range(3)],
}
KARPATHY = {"images": [{"filename": "a.jpg", "split": "val", "sentences": [{"raw": "A dog.", "tokens": ["a", "dog"]}]}]}
LINES = [{"image": "a.jpg", "captions": ["A dog."]}, {"image": "b.jpg", "caption": "A cat."}]
XML = "<annotation><size><width>9</width><height>9</height></size><object><name>1</name><bndbox><xmin>1</xmin>"
XML += "<ymin>1</ymin><xmax>5</xmax><ymax>5</ymax></bndbox></object></annotation>"


def data_sets(draw: Draw, place: Path) -> Task:
    makers: dict[str, Callable[[], bytes]] = {
        "captions_val.json": lambda: as_json(COCO, draw),
        "captions.csv": lambda: damaged(b"image,caption\na.jpg,A dog runs.\nb.jpg,Two boys.\n", draw),
        "captions.jsonl": lambda: b"\n".join(as_json(line, draw) for line in LINES),
        "dataset_x.json": lambda: as_json(KARPATHY, draw),
        "a.zip": lambda: damaged(_entities_zip(draw), draw),
    }
    name = draw.choice([*makers, "folder", "refs(unc).p", "pipe"])
    if name == "pipe":
        os.mkfifo(place / draw.choice([*makers]))
    elif name == "folder":
        for kind, ending, text in (("Sentences", "txt", "[/EN#1/people A man] runs .\n"), ("Annotations", "xml", XML)):
            (place / kind).mkdir()
            (place / kind / f"1.{ending}").write_bytes(damaged(text.encode(), draw))
        (place / "val.txt").write_bytes(damaged(b"1\n", draw) if draw.random() < 0.3 else b"1\n")
    elif name == "refs(unc).p":
        refs = [{"ref_id": 1, "ann_id": 1, "image_id": 1, "split": "val", "sentences": [{"sent": "dog"}]}]
        (place / name).write_bytes(damaged(pickle.dumps(refs, draw.randrange(5)), draw))
        row = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 1, 5, 5]}
        boxes = {"images": COCO["images"], "annotations": [row], "categories": [{"id": 1, "name": "dog"}]}
        (place / "instances.json").write_bytes(as_json(boxes, draw))
    else:
        (place / name).write_bytes(makers[name]())
    skip = draw.random() < 0.5
    if draw.random() < 0.05:  # it also looks at the machine, which takes longer than the data
        return ["doctor", str(place), *(["--skip-bad"] if skip else [])]

    def task() -> None:
        from groundling.data.dataset import load

        list(load(place, annotated=False, skip_bad=skip))

    return task


def _entities_zip(draw: Draw) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", draw.choice((0, 8, 12, 14))) as archive:
        archive.writestr("Sentences/1.txt", b"[/EN#1/people A man] runs .\n" * draw.choice((1, 5, 50_000)))
        archive.writestr("Annotations/1.xml", XML)
    return content.getvalue()


def importers(draw: Draw, place: Path) -> Task:
    (place / "in").mkdir()
    kind = draw.choice((_npz, _hdf5, _tsv))
    name, content = kind(draw, place)
    (place / "in" / name).write_bytes(damaged(content, draw))
    skip = ["--skip-bad"] if draw.random() < 0.5 else []
    return ["regions", "import", str(place / "in"), "--name", "x", "--out", str(place / "s"), *skip]


def _npz(draw: Draw, place: Path) -> tuple[str, bytes]:
    import numpy as np

    content = io.BytesIO()
    shape = draw.choice(((2, 8), (2, 8), (2, 1 << 22)))
    save = draw.choice((np.savez, np.savez_compressed))
    save(content, x=np.zeros(shape, draw.choice(("i1", "f2", "f4"))), bbox=np.zeros((2, 4)), image_w=9, image_h=9)
    return "a.npz", content.getvalue()


def _hdf5(draw: Draw, place: Path) -> tuple[str, bytes]:
    import h5py
    import numpy as np

    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        file.create_dataset("ids", data=np.arange(2))
        file.create_dataset("boxes", data=np.array([[[0, 0, 5, 5]] * 3] * 2, "f4"))
        more = draw.choice(({}, {"compression": "gzip"}, {"chunks": (1, 3, 8)}))
        file.create_dataset("features", data=np.ones((2, 3, 8), draw.choice(("i1", "f2", "f4"))), **more)
    return "a.h5", content.getvalue()


def _tsv(draw: Draw, place: Path) -> tuple[str, bytes]:
    import numpy as np

    boxes, feats = (base64.b64encode(np.ones((2, n), "f4").tobytes()) for n in (4, 6))
    return "a.tsv", b"".join(b"\t".join([b"%d" % i, b"9", b"9", b"2", boxes, feats]) + b"\n" for i in range(3))


def scores(draw: Draw, place: Path) -> Task:
    long = "a dog runs " * draw.choice((1, 1, 1, 150)) + "&" * draw.choice((1, 1, 5000))
    results = [{"image_id": i, "caption": long} for i in range(3)]
    refs = {"images": [{"id": i} for i in range(3)], "annotations": [{**row, "id": i} for i, row in enumerate(results)]}
    hurt = draw.choice((0, 1, 2))
    (place / "results.json").write_bytes(as_json(results, draw) if hurt != 1 else json.dumps(results).encode())
    (place / "refs.json").write_bytes(as_json(refs, draw) if hurt != 0 else json.dumps(refs).encode())
    metrics = draw.choice(("bleu,cider-d", "bleu,rouge,cider,cider-d", "cider-d"))
    files = ["--pred", str(place / "results.json"), "--refs", str(place / "refs.json")]
    return ["score", "captions", *files, "--metrics", metrics]


def grounding(draw: Draw, place: Path) -> Task:
    """The official evaluators' files."""
    predicted = {"sentence": "a man runs", "clss": ["man"], "idx_in_sent": [1], "bbox": [[1, 1, 5, 5]]}
    words, boxes = ["a", "man", "runs"], [[1, 1, 5, 5]]
    true = {"tokens": words, "process_idx": [1], "process_clss": ["man"], "process_bnd_box": boxes}
    files: dict[str, Any] = {
        "submission": {"results": {"1": [predicted]}},
        "reference": {"vocab": ["man"], "annotations": [{"image_id": 1, "captions": [true]}]},
        "split-file": {"val": ["1"]},
    }
    victim = draw.choice(list(files))
    command = ["score", "flickr30k-entities", "--split", "val"]
    for name, value in files.items():
        (place / f"{name}.json").write_bytes(as_json(value, draw) if name == victim else json.dumps(value).encode())
        command += [f"--{name}", str(place / f"{name}.json")]
    return command


def conversions(draw: Draw, place: Path) -> Task:
    """Grounded output of other models."""
    from groundling import formats

    name = draw.choice(list(formats.FORMATS))
    text = damaged(formats.FORMATS[name].example.encode(), draw).decode(errors="surrogateescape")
    row = {"image": "a.jpg", "width": 64, "height": 48, "text": text}
    with contextlib.suppress(UnicodeEncodeError):
        (place / "in.jsonl").write_bytes(as_json(row, draw) if draw.random() < 0.3 else json.dumps(row).encode())
    target = draw.choice(("json", "groundling", *formats.FORMATS))
    return ["convert", str(place / "in.jsonl"), "--from", name, "--to", target, "-o", str(place / "out.jsonl")]


def labels(draw: Draw, place: Path) -> Task:
    """A damaged folder of labels, exported."""
    from groundling.labels import formats

    box = {"box": [1, 1, 5, 5], "score": 0.5, "confidence": 0.9}
    dog = {"phrase": "A dog", "head": "dog", "mentions": [{"caption": 0, "span": [0, 5]}], "boxes": [box]}
    row = {"id": "a", "image": str(place / "a.png"), "size": [9, 9], "captions": ["A dog runs."], "labels": [dog]}
    job = {"format": 1, "settings": {}, "shards": ["x"]}
    (place / "l" / "shards").mkdir(parents=True)
    which = draw.random() < 0.8
    (place / "l" / "shards" / "x.jsonl").write_bytes(
        (as_json(row, draw) if which else json.dumps(row).encode()) + b"\n"
    )
    (place / "l" / "job.json").write_bytes(json.dumps(job).encode() if which else as_json(job, draw))
    plain = [name for name in formats.FORMATS if name not in ("parquet", "fiftyone")]
    return ["label", "--out", str(place / "l"), "--to", draw.choice(plain)]


# ---------------------------------------------------------------- what must not change silently


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


def stores(draw: Draw, place: Path) -> Task:
    """A damaged store is refused, or the damage is found."""
    whole = {p.name: p.read_bytes() for p in a_store(place / "s").iterdir() if p.suffix == ".bin"}
    victim = draw.choice(sorted(whole))
    hurt = damaged(whole[victim], draw)
    (place / "s" / victim).write_bytes(hurt)

    def check() -> None:
        from groundling.regions.store import Store

        problems = [problem for _, problem in Store.open(place / "s").check() if problem]
        if hurt != whole[victim] and not problems:
            raise AssertionError(f"a changed {victim} was not noticed")

    return check


def models(draw: Draw, place: Path) -> Task:
    """A changed file of a model of the package is refused."""
    from groundling.inference.grounder import load_grounder
    from groundling.inference.loading import GROUNDER, SHIPPED, WEIGHTS

    shutil.copytree(SHIPPED / WEIGHTS[0] / GROUNDER, place / "m")
    victim = draw.choice(sorted(path.name for path in (place / "m").iterdir()))
    whole = (place / "m" / victim).read_bytes()
    hurt = damaged(whole, draw)
    (place / "m" / victim).write_bytes(hurt)

    def check() -> None:
        load_grounder(place / "m")
        if hurt != whole and victim != "manifest.json":
            raise AssertionError(f"a changed {victim} was not noticed")

    return check


def checkpoints(draw: Draw, place: Path) -> Task:
    """A changed state of a run is refused, or reads as it was."""
    import torch

    from groundling.training.checkpoint import read, write

    write(place / "last.safetensors", {"a": torch.arange(50.0), "b": torch.ones(3, 4)}, {"step": 3})
    (place / "last.safetensors").write_bytes(damaged((place / "last.safetensors").read_bytes(), draw))

    def check() -> None:
        tensors, about = read(place / "last.safetensors", sealed=True)
        if about != {"step": 3} or not torch.equal(tensors["a"], torch.arange(50.0)) or tensors["b"].sum() != 12:
            raise AssertionError("a changed checkpoint was read as another")

    return check


def caches(draw: Draw, place: Path) -> Task:
    """A damaged cache of tags, which travels with the data, is not believed beyond what a tagger could say."""
    import gzip

    from groundling.text import annotate
    from groundling.text.words import caption

    tagger = annotate.Tagger("en", "1")
    row = ["DT NN VBZ", "a dog run", [0, 2]]
    whole = {"layout": annotate.LAYOUT, "model": "en 1", "sentences": {"a dog runs": row, "the dog runs": row}}
    hurt = draw.random() < 0.2
    packed = gzip.compress(json.dumps(whole).encode() if hurt else as_json(whole, draw))
    (place / "c.gz").write_bytes(damaged(packed, draw) if hurt else packed)

    def check() -> None:
        for known in annotate._read(place / "c.gz", tagger).values():
            if annotate._fits(known, 3):
                spans = annotate._filled(caption("a dog runs"), known).chunks
                if not all(0 <= start < end <= 3 for start, end in spans):
                    raise AssertionError(f"{spans} are no noun phrases")

    return check


# ---------------------------------------------------------------- outputs


def outputs(draw: Draw, place: Path) -> Task:
    """Odd places to write to: links, devices, full disks, names of all kinds. What was there stays, or is replaced."""
    from groundling.cli import main

    rows = "".join(
        json.dumps({"image": f"{i}.jpg", "width": 9, "height": 9, "text": "a dog"}) + "\n" for i in range(50)
    )
    (place / "in.jsonl").write_text(rows)
    (place / "old").write_text("old")
    (place / "link").symlink_to("old")
    (place / "folder").mkdir()
    names = ["old", "link", "folder", "/dev/null", "/dev/full", "old/below", "new/a/b", "n" * 255, "n" * 300]
    target = draw.choice([*names, "\x1b[2J.jsonl", os.fsdecode(b"\xff\xfe"), "a\nb", "-", " ", "é", "."])
    full = draw.random() < 0.5
    words = ["convert", str(place / "in.jsonl"), "--from", "kosmos-2", "--to", "json", "-o", str(place / target)]
    if draw.random() < 0.3:
        (place / "refs.json").write_text(json.dumps(COCO))
        words = ["df", str(place / "refs.json"), "-o", str(place / target)]

    def task() -> None:
        if full:
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
        try:
            code = main(words)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        if not (place / "link").is_symlink() or not Path("/dev/null").is_char_device():
            raise AssertionError("a link or a device was replaced")
        if code and (place / "old").read_text() != "old":
            raise AssertionError("an earlier file did not survive")
        if left := [path.name for path in place.rglob("*.part")]:
            raise AssertionError(f"{left} was left behind")
        if code:
            raise SystemExit(code)

    return task


# ---------------------------------------------------------------- kills


def _killed(work: Callable[[], None], draw: Draw, longest: float) -> None:
    """Do this in a process of its own and kill it after a while."""
    if (child := os.fork()) == 0:
        with contextlib.suppress(BaseException):
            work()
        os._exit(0)
    time.sleep(draw.random() ** 2 * longest)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def kills(draw: Draw, place: Path) -> Task:
    """A store, a sealed folder and lines that were being written go on, and end as without the kill."""
    from groundling.commands.outputs import appending, unfinished
    from groundling.files import check_manifest, replace_files

    a_store(place / "once", 40)
    (place / "m").mkdir()
    replace_files(place / "m", {"model.json": b"0", "model.safetensors": bytes(1000)})
    (place / "out.jsonl").write_text("old\n")

    def lines() -> None:
        with unfinished(place / "out.jsonl", {"call": 1}) as some:
            done = len(some.rows())
            with appending(some.kept) as add:
                for n in range(done, 300):
                    add({"n": n, "text": "x" * 500})
            some.finish()

    def model() -> None:
        for i in range(1000):
            replace_files(place / "m", {"model.json": b"%d" % i, "model.safetensors": bytes([i % 256]) * 1000})

    for work in (lambda: a_store(place / "s", 40), lines, model):
        _killed(work, draw, 0.15)
    was = (place / "out.jsonl").read_text()

    def check() -> None:
        a_store(place / "s", 40)
        check_manifest(place / "m", required=True)
        for name in ("regions.bin", "index.bin"):
            if (place / "s" / name).read_bytes() != (place / "once" / name).read_bytes():
                raise AssertionError(f"{name} differs from that of a process that was not killed")
        if was != "old\n" and was.count("\n") != 300:
            raise AssertionError("half of a file was there")
        lines()
        if [json.loads(row)["n"] for row in (place / "out.jsonl").read_text().splitlines()] != list(range(300)):
            raise AssertionError("a line was lost, or is there twice")

    return check


Attack = Callable[[Draw, Path], Task]
ATTACKS: dict[str, tuple[Attack, int]] = {  # name -> generator, cases of the whole attack
    "images": (images, 1500),
    "data sets": (data_sets, 2500),
    "importers": (importers, 1000),
    "scores": (scores, 1500),
    "grounding": (grounding, 800),
    "conversions": (conversions, 600),
    "labels": (labels, 600),
    "stores": (stores, 700),
    "checkpoints": (checkpoints, 400),
    "models": (models, 150),
    "caches": (caches, 150),
    "outputs": (outputs, 300),
    "kills": (kills, 100),  # three each
}
