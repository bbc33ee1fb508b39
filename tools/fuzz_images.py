"""Damaged image files, captioned: each must end in a caption or in a named error, soon and in little memory.

    python tools/fuzz_images.py                 500 files, by the weights of the package
    python tools/fuzz_images.py --count 50 --seed 7 --model runs/photos

Files are cut short, some of their bits are turned, their headers are those of another format or tell of huge sizes, and
so on. A process of its own captions them; the one that watches it kills it when a file takes more than --seconds, and
its memory is limited. Prints what became of them, and ends with code 1 if anything but a caption or a named error did.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import resource
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from select import select

from PIL import Image, ImageDraw

from groundling.commands import whole_number

STARTS = 300.0  # seconds in which a process is ready for its first file

# ---------------------------------------------------------------- damage


def whole() -> dict[str, bytes]:
    """A small picture in all formats and some of their kinds: file name -> content."""
    picture = Image.new("RGB", (96, 64), "skyblue")
    pen = ImageDraw.Draw(picture)
    pen.ellipse((10, 10, 50, 50), fill="orange", outline="black")
    pen.polygon([(60, 60), (75, 20), (90, 60)], fill="green")
    grain = Image.frombytes("L", picture.size, random.Random(0).randbytes(96 * 64))
    picture = Image.blend(picture, grain.convert("RGB"), 0.2)
    clear = picture.convert("RGBA")
    clear.putalpha(Image.linear_gradient("L").resize(clear.size))
    frames = [picture.rotate(angle) for angle in (10, 20)]
    kinds: list[tuple[str, Image.Image, dict[str, object]]] = [
        ("plain.png", picture, {}),
        ("clear.png", clear, {}),
        ("palette.png", picture.quantize(16), {}),
        ("deep.png", picture.convert("L").convert("I;16"), {}),
        ("plain.jpg", picture, {}),
        ("progressive.jpg", picture, {"progressive": True}),
        ("cmyk.jpg", picture.convert("CMYK"), {}),
        ("turned.jpg", picture, {"exif": _turned()}),
        ("plain.gif", picture, {}),
        ("moving.gif", picture, {"save_all": True, "append_images": frames}),
        ("plain.bmp", picture, {}),
        ("palette.bmp", picture.quantize(16), {}),
        ("plain.tiff", picture, {}),
        ("packed.tiff", picture, {"compression": "tiff_lzw"}),
        ("deflated.tiff", picture.convert("L"), {"compression": "tiff_adobe_deflate"}),
        ("plain.webp", picture, {}),
        ("lossless.webp", clear, {"lossless": True}),
        ("moving.webp", picture, {"save_all": True, "append_images": frames}),
    ]
    return {name: _saved(name, image, options) for name, image, options in kinds}


def _turned() -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


def _saved(name: str, image: Image.Image, options: dict[str, object]) -> bytes:
    buffer = io.BytesIO()
    kind = {"jpg": "JPEG"}.get(name.rsplit(".", 1)[1], name.rsplit(".", 1)[1].upper())
    image.save(buffer, kind, **options)
    return buffer.getvalue()


Draw = random.Random


def cut(content: bytes, draw: Draw) -> bytes:
    return content[: draw.randrange(len(content))]


def flip(content: bytes, draw: Draw) -> bytes:
    """Turn 1 to 64 bits, anywhere or near the beginning, where headers are."""
    new, reach = bytearray(content), draw.choice([64, len(content)])
    for _ in range(draw.choice([1, 4, 16, 64])):
        new[draw.randrange(min(reach, len(new)))] ^= 1 << draw.randrange(8)
    return bytes(new)


def fill(content: bytes, draw: Draw) -> bytes:
    """One byte again and again over a part."""
    start = draw.randrange(len(content))
    length = draw.randrange(1, len(content) - start + 1)
    return content[:start] + bytes([draw.choice([0, 255, draw.randrange(256)])]) * length + content[start + length :]


def repeat(content: bytes, draw: Draw) -> bytes:
    """A part many times."""
    start = draw.randrange(len(content))
    end = draw.randrange(start, len(content)) + 1
    return content[:end] + content[start:end] * draw.choice([1, 10, 1000]) + content[end:]


def huge(content: bytes, draw: Draw) -> bytes:
    """Wherever the width or the height is written as a number, another one, up to what the format allows."""
    sizes = [0, 1, 9_400, 30_000, 65_535, 2**31 - 1, 2**32 - 1]
    new = content
    for side in (96, 64):
        for code in ("<I", ">I", "<H", ">H"):
            most = 2 ** (8 * struct.calcsize(code)) - 1
            old = struct.pack(code, side)
            new = new.replace(old, struct.pack(code, min(draw.choice(sizes), most)), draw.choice([0, 1, 1, 2]))
    return new


def mask(content: bytes, draw: Draw) -> bytes:
    """The header of another format."""
    heads = [
        b"\x89PNG\r\n\x1a\n",
        b"\xff\xd8\xff\xe0",
        b"GIF89a",
        b"BM",
        b"II*\0",
        b"MM\0*",
        b"RIFF\0\0\0\0WEBPVP8 ",
        b"P6\n",
    ]
    return draw.choice(heads) + content[draw.choice([0, 8, 12]) :]


def noise(content: bytes, draw: Draw) -> bytes:
    """The header, and nothing sensible after it."""
    return content[: draw.choice([4, 16, 64])] + draw.randbytes(draw.choice([0, 100, 10_000]))


DAMAGES: tuple[Callable[[bytes, Draw], bytes], ...] = (cut, flip, fill, repeat, huge, mask, noise)


def damaged(count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """So many damaged files, each with a name that tells what was done; the same seed, the same files."""
    files = list(whole().items())
    for number in range(count):
        draw = random.Random(f"{seed}/{number}")
        name, content = files[number % len(files)]
        damage = DAMAGES[number % len(DAMAGES)]
        yield f"{number:04}-{damage.__name__}-{name}", damage(content, draw)


# ---------------------------------------------------------------- the process that captions, and the one that watches


def caption(folder: Path, model: str, memory: int, skip: int) -> None:
    """One JSON line for each file of the folder, after the first `skip`."""
    from groundling import inference
    from groundling.errors import GroundlingError

    captioner = inference.load(model)
    _ = captioner.source
    print(json.dumps(["", "", 0.0, _most()]), flush=True)
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    for path in sorted(folder.iterdir())[skip:]:
        start = time.perf_counter()
        try:
            captioner.caption(path)
            became = "caption"
        except GroundlingError as error:
            became = "named error" if path.name in str(error) else f"an error that does not name the file: {error}"
        except Exception as error:
            became = f"{type(error).__name__}: {error}"
        print(json.dumps([path.name, became, time.perf_counter() - start, _most()]), flush=True)


def _most() -> float:
    """MB that this process has used at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def watch(folder: Path, args: argparse.Namespace) -> list[tuple[str, str, float]]:
    """What became of each file: name, outcome, seconds. After a crash or a hang a new process goes on."""
    names, done, memory = sorted(path.name for path in folder.iterdir()), [], [0.0]
    while len(done) < len(names):
        words = ["--worker", str(folder), "--skip", str(len(done)), "--memory", str(args.memory)]
        command = [sys.executable, __file__, *words, *(["--model", args.model] if args.model else [])]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0)
        assert child.stdout is not None
        limit = STARTS
        while select([child.stdout], [], [], limit)[0]:
            if not (line := child.stdout.readline()):
                break
            name, became, seconds, used = json.loads(line)
            memory.append(used)
            if name:
                done.append((name, became, seconds))
            limit = args.seconds
        else:
            child.kill()
        if limit == STARTS:
            sys.exit(child.wait() or 1)
        if child.wait() and len(done) < len(names):
            done.append((names[len(done)], f"the process ended with {child.returncode}", limit))
    print(f"memory: {memory[1]:.0f} MB before the first file, {max(memory):.0f} MB at most")
    return done


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--count", type=whole_number(1), default=500, help="files (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", default="", help="a captioner (default: that of the package)")
    parser.add_argument("--seconds", type=float, default=30.0, help="for one file (%(default)s)")
    parser.add_argument("--memory", type=int, default=4 << 30, help="bytes of data (%(default)s)")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--skip", type=int, default=0, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        caption(args.worker, args.model, args.memory, args.skip)
        return 0
    with tempfile.TemporaryDirectory() as place:
        for name, content in damaged(args.count, args.seed):
            (Path(place) / name).write_bytes(content)
        done = watch(Path(place), args)
    for became, n in Counter(became for _, became, _ in done).most_common():
        print(f"{n:5} {became}")
    print(f"slowest: {max(done, key=lambda one: one[2])}")
    return int(any(became not in ("caption", "named error") for _, became, _ in done))


if __name__ == "__main__":
    sys.exit(main())
