"""Scenes that move: clips of some frames with one sentence each, on disk as ActivityNet-Entities has its segments.

The same reader, evaluator and commands serve drawn and real videos. Who walks, rides, drives or flies goes across the
picture, comes into it or leaves it; a ball that is kicked rolls ahead; who jumps goes up and down. A sentence has every
box of its things in every frame in which they can be seen.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from math import pi, sin
from multiprocessing import get_context
from pathlib import Path
from random import Random

from groundling.data.evaluator_files import of_tokens, segment_id, video_reference, video_splits
from groundling.scenes.draw import Picture, draw
from groundling.scenes.events import reach, sample
from groundling.scenes.grammar import LONGEST, SHORTEST, TRIES, Caption, CaptionGrammar, is_visible, length
from groundling.scenes.places import WIDTH
from groundling.scenes.world import Fact, Item, World
from groundling.scenes.write import SPLITS, save_png, split_sizes
from groundling.text.morphology import lemma_of
from groundling.types import Box, Example, Phrase

GOES = {"ride", "walk", "run", "drive", "chase", "swim", "fly", "float"}  # verbs of who does not stay in one place
STILL = 0.25  # how many of the worlds in which nothing moves are kept
INTO, OUT = "into view", "out of view"


@dataclass(frozen=True)
class Move:
    """Items that go together: how far they are from where the world has them, at the first frame and at the last."""

    items: frozenset[int]
    x: tuple[float, float] = (0.0, 0.0)
    y: tuple[float, float] = (0.0, 0.0)
    hop: float = 0.0  # how high, three times


@dataclass(frozen=True)
class Clip:
    """A world with its movements, a picture of each frame, and a sentence about it."""

    world: World
    pictures: tuple[Picture, ...]
    caption: Caption


def clip(seed: int, number: int, frames: int, width: int = WIDTH) -> Clip:
    """The same numbers, the same clip. What is mentioned can be seen in a third of the frames, and in two at least."""
    rng, words = Random(f"clip {seed} {number}"), Random(f"clip words {seed} {number}")
    while True:
        world = sample(rng)
        moves, how = movements(world, rng)
        if not moves and rng.random() > STILL:
            continue
        worlds = [moved(world, moves, t / max(1, frames - 1)) for t in range(frames)]
        pictures = tuple(draw(one, f"clip light {seed} {number}", width) for one in worlds)
        times = [sum(picture.boxes[i] is not None for picture in pictures) for i in range(len(world.items))]
        seen = [i for i, n in enumerate(times) if n >= min(frames, max(2, frames / 3))]
        if is_visible(world.facts[0], seen) and (caption := describe(world, moves, how, seen, words)):
            return Clip(world, pictures, caption)


# ---------------------------------------------------------------- movement


def movements(world: World, rng: Random) -> tuple[tuple[Move, ...], str]:
    """How the items of a world move, and what that is for who the first fact is about: past, into view, out of view."""
    fact = world.facts[0]
    moves, how = [], ""
    first = world.items[fact.subjects[0]]
    side = -1 if first.flip else 1
    if fact.verb in GOES or first.pose in ("walk", "run"):
        main = _together(world, fact)
        how = rng.choices(("past", INTO, OUT), (0.5, 0.25, 0.25))[0]
        left, right = reach([world.items[i] for i in main])
        away = side * ((right if side < 0 else WIDTH - left) + 4), -side * ((WIDTH - left if side < 0 else right) + 4)
        half = side * rng.uniform(25, 50)
        moves.append(Move(main, {"past": (-half, half), INTO: (away[1], 0.0), OUT: (0.0, away[0])}[how]))
    if fact.verb == "jump":
        moves.append(Move(_together(world, fact), hop=rng.uniform(12, 22)))
    if fact.verb == "kick":
        moves.append(Move(frozenset({fact.thing}), (0.0, side * rng.uniform(20, 45))))
    if fact.verb == "catch":
        moves.append(Move(frozenset({fact.thing}), y=(-rng.uniform(25, 45), 0.0)))
    for other in world.facts[1:]:
        if other.verb in GOES:
            far = rng.uniform(20, 60) * (-1 if world.items[other.subjects[0]].flip else 1)
            moves.append(Move(_together(world, other), rng.choice(((0.0, far), (-far, 0.0)))))
    return tuple(moves), how


def _together(world: World, fact: Fact) -> frozenset[int]:
    """Who a fact is about, what they wear, and what goes with them: a bicycle, a dog and its leash, a ball."""
    who = {*fact.subjects, fact.thing} - {-1}
    leashes = {i for i, item in enumerate(world.items) if item.name == "leash"} if fact is world.facts[0] else set()
    return frozenset(who | leashes | {i for i, item in enumerate(world.items) if item.wearer in who})


def moved(world: World, moves: Iterable[Move], t: float) -> World:
    """The world at a time from 0 to 1."""
    items = list(world.items)
    for move in moves:
        for i in move.items:
            items[i] = _moved(items[i], move, t)
    return replace(world, items=tuple(items))


def _moved(item: Item, move: Move, t: float) -> Item:
    across, down = (a + (b - a) * t for a, b in (move.x, move.y))
    return replace(item, x=item.x + across, y=item.y + down - move.hop * abs(sin(3 * pi * t)))


# ---------------------------------------------------------------- words


def describe(world: World, moves: tuple[Move, ...], how: str, seen: Collection[int], rng: Random) -> Caption | None:
    """A sentence, about the movement if there is any; None where there is too little to describe."""
    grammar, fact = CaptionGrammar(world, frozenset(seen), rng), world.facts[0]
    passed = _passed(world, moves[0], grammar.extras()) if how == "past" else ()
    visible_way = fact.verb in GOES and (passed or how in (INTO, OUT))
    for _ in range(TRIES):
        caption = grammar.going(passed, how) if visible_way and rng.random() < 0.6 else grammar.caption()
        if SHORTEST <= length(caption) <= LONGEST:
            return caption
    return None


def _passed(world: World, move: Move, extras: list[tuple[int, ...]]) -> tuple[int, ...]:
    """Something that stands where who moves comes along; () where nothing does."""
    xs = [world.items[i].x for i in move.items]
    low, high = min(xs) + min(move.x), max(xs) + max(move.x)
    return next((e for e in extras if len(e) == 1 and low < world.items[e[0]].x < high), ())


def example(made: Clip, number: int, split: str = "") -> Example:
    """The clip as a data set has it: its words, and the boxes of each phrase in every frame. Labels are lemmas."""
    words: list[str] = []
    gold: list[Phrase] = []
    for piece in made.caption:
        start = len(words)
        words += piece.words.split()
        boxes: list[tuple[Box, int]] = []
        for frame, picture in enumerate(made.pictures):
            places = (picture.boxes[i] for i in piece.items)
            boxes += [((float(b[0]), float(b[1]), float(b[2]), float(b[3])), frame) for b in places if b]
        if boxes:
            head = len(words) - 1
            where, frames = zip(*boxes, strict=True)
            gold.append(Phrase(0, (start, head + 1), where, frames, (piece.type,), "", lemma_of(words[head]), head))
    caption = of_tokens([words[0].capitalize(), *words[1:]], f"clip {number}")
    seconds = float(len(made.pictures))
    size = made.pictures[0].image.size
    return Example(
        segment_id(name(number), "0"), "", size, (caption,), tuple(gold), split=split, segment=(0.0, seconds)
    )


def name(number: int) -> str:
    return f"v_{number:06d}"


# ---------------------------------------------------------------- files


def write(
    out: Path,
    clips: int,
    frames: int,
    seed: int,
    width: int = WIDTH,
    fractions: tuple[float, float, float] = (0.8, 0.1, 0.1),
    workers: int = 1,
) -> Iterator[str]:
    """Draw and write clips 0 .. clips - 1, yielding the id of each; exhaust it. The bytes do not depend on `workers`.

    The list of splits comes last: where it is, the rest is.
    """
    splits = [split for split, n in zip(SPLITS, split_sizes(clips, fractions), strict=True) for _ in range(n)]
    (out / "frames").mkdir(parents=True, exist_ok=True)
    job, examples = partial(_write_one, out, seed, frames, width), []
    for made, split in zip(_each(job, clips, workers), splits, strict=True):
        examples.append(replace(made, split=split))
        yield made.id
    videos = {name(i): {"rwidth": e.size[0], "rheight": e.size[1]} for i, e in enumerate(examples)}
    _dump(out / "anet_entities_drawn.json", {"database": videos})
    _dump(out / "anet_entities_cleaned_class_drawn.json", video_reference(examples))
    _dump(out / "split_ids_anet_entities.json", video_splits(examples))


def _each(job: partial[Example], clips: int, workers: int) -> Iterator[Example]:
    if workers == 1:
        yield from map(job, range(clips))
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(job, range(clips), chunksize=4)


def _write_one(out: Path, seed: int, frames: int, width: int, number: int) -> Example:
    made = clip(seed, number, frames, width)
    written = example(made, number)
    folder = out / "frames" / written.id
    folder.mkdir(exist_ok=True)
    for i, picture in enumerate(made.pictures):
        save_png(picture.image, folder / f"{i:02d}.png")
    return written


def _dump(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8", newline="\n")
