"""`groundling scenes`: draw a data set."""

from __future__ import annotations

import argparse
from pathlib import Path

from groundling.errors import printable
from groundling.parallel import AVAILABLE_CORES

DESCRIPTION = """\
Draw a data set of pictures with captions and boxes, in the layout of Flickr30k Entities.

Each picture shows people, animals, vehicles and things in one of seven places. It has five captions, and every phrase
has its boxes. Objects have parts, some often occur together, and some are rare: these are the problems of grounded
captioning on a small scale. The same seed gives the same files, whatever --workers is.

With --video the command draws clips, in the layout of ActivityNet-Entities: a few frames in which people and things
cross the picture, enter it or leave it, with one sentence, and boxes in every frame.
"""
EPILOG = """\
examples:
  groundling scenes scenes --images 2000 --seed 1
  groundling scenes scenes --images 2000 --seed 1 --recall   # and measure the built-in regions
  groundling scenes moving --video --images 500 --frames 6

what is written:
  OUT/images/ID.png        the pictures
  OUT/Sentences/ID.txt     five captions, phrases marked as [/EN#entity/type words]
  OUT/Annotations/ID.xml   the boxes of every entity
  OUT/{train,val,test}.txt the ids of each split

and with --video:
  OUT/frames/VIDEO_segment_00/NN.png           the frames of each clip
  OUT/anet_entities_cleaned_class_drawn.json   words, their classes, and boxes in each frame
  OUT/anet_entities_drawn.json                 the size of the frames
  OUT/split_ids_anet_entities.json             the videos of each split
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to write; must be new or empty")
    parser.add_argument(
        "--images", type=int, default=2000, metavar="N", help="number of pictures or clips (default 2000)"
    )
    parser.add_argument("--video", action="store_true", help="draw clips instead of pictures")
    parser.add_argument("--frames", type=int, metavar="F", help="with --video: frames of a clip, 2 to 10 (default 10)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="same seed, same bytes (default 0)")
    parser.add_argument(
        "--size", type=int, default=256, metavar="W", help="width in pixels; height is 3/4 of it (default 256)"
    )
    parser.add_argument(
        "--splits",
        type=float,
        nargs=3,
        default=(0.8, 0.1, 0.1),
        metavar=("TRAIN", "VAL", "TEST"),
        help="fractions of the splits (default 0.8 0.1 0.1)",
    )
    parser.add_argument(
        "--workers", type=int, default=AVAILABLE_CORES, metavar="K", help="processes (default: one per core)"
    )
    parser.add_argument(
        "--recall",
        action="store_true",
        help="also print the share of boxes of the val split that the region source `scenes` finds",
    )


def run(args: argparse.Namespace) -> None:
    from groundling.errors import GroundlingError
    from groundling.progress import track
    from groundling.scenes import moving
    from groundling.scenes.write import split_sizes, write

    if args.images < 1:
        raise GroundlingError(f"--images must be at least 1, got {args.images}")
    if args.workers < 1:
        raise GroundlingError(f"--workers must be at least 1, got {args.workers}")
    if not 96 <= args.size <= 1024 or args.size % 4:
        raise GroundlingError(f"--size must be a multiple of 4 from 96 to 1024, got {args.size}")
    if args.frames is not None and not (args.video and 2 <= args.frames <= 10):
        raise GroundlingError(f"--frames {args.frames}: needs --video, and 2 to 10 frames")
    if args.recall and split_sizes(args.images, tuple(args.splits))[1] == 0:
        raise GroundlingError("--recall measures the val split, which has no image here; draw more, or give it more")
    if args.out.exists() and (not args.out.is_dir() or any(args.out.iterdir())):
        raise GroundlingError(f"{args.out} is not an empty folder; name a new one, or delete it first")
    how = args.seed, args.size, tuple(args.splits), min(args.workers, args.images)
    frames = args.frames or 10
    drawn = moving.write(args.out, args.images, frames, *how) if args.video else write(args.out, args.images, *how)
    try:
        for _ in track(drawn, "drawing", args.images):
            pass
    except OSError as error:
        raise GroundlingError(
            f"cannot write to {args.out}: {error.strerror}; is the folder writable, and is there room on the disk?"
        ) from error
    print(printable(f"{args.images} {f'clips of {frames} frames' if args.video else 'scenes'} in {args.out}"))
    if args.recall:
        print(_recall(args.out))


def _recall(out: Path) -> str:
    from groundling.data.dataset import load
    from groundling.progress import track
    from groundling.regions.sources import source
    from groundling.scenes.recall import recall

    val = load(out, "val", annotated=False)
    return f"val: {recall(source('scenes'), track(val, 'regions', len(val)))}"
