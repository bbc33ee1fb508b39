"""Captions with marked phrases, made from a world and its visible items.

All captions of a world describe its first fact; they differ in words, in form, and in what else they mention. They
mention only items that have a box.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from random import Random

from groundling.scenes.world import PEOPLE, Fact, World, pick

SHORTEST, LONGEST = 6, 16  # words
CAPTIONS = 5  # of each scene
TRIES = 200  # to make a new caption of one world


@dataclass(frozen=True)
class Piece:
    """Some words of a caption. A phrase has a type; `items` are the objects that it names, none for a place."""

    words: str
    type: str = ""
    items: tuple[int, ...] = ()


Caption = tuple[Piece, ...]

NOUNS: dict[str, Mapping[str, float]] = {  # where there is more than the name itself
    "man": {"man": 82, "guy": 8, "person": 10},
    "woman": {"woman": 82, "lady": 10, "person": 8},
    "boy": {"boy": 76, "young boy": 12, "child": 12},
    "girl": {"girl": 76, "young girl": 12, "child": 12},
    "dog": {"dog": 94, "puppy": 6},
    "bicycle": {"bike": 70, "bicycle": 30},
    "motorcycle": {"motorcycle": 80, "motorbike": 20},
    "boat": {"boat": 70, "sailboat": 30},
    "plane": {"airplane": 60, "plane": 40},
    "rock": {"rock": 80, "large rock": 20},
    "castle": {"sand castle": 1},
    "box": {"box": 60, "wooden box": 40},
    "lamp": {"lamp": 60, "street lamp": 40},
    "sign": {"sign": 50, "street sign": 50},
    "bench": {"bench": 80, "park bench": 20},
    "cup": {"cup": 70, "mug": 30},
    "tree": {"tree": 80, "large tree": 20},
    "truck": {"truck": 90, "large truck": 10},
}
PLURALS = {"man": "men", "woman": "women", "person": "people", "child": "children", "sheep": "sheep", "fish": "fish",
           "bus": "buses", "puppy": "puppies", "lady": "ladies", "box": "boxes", "bench": "benches"}  # fmt: skip
NUMBERS = {2: "two", 3: "three", 4: "four"}
UNCOLOURED = {"tree", "rock", "box", "lamp", "snowman", "castle", "camera", "sheep", "elephant", "sign", *PEOPLE}
TYPES = {
    **dict.fromkeys(PEOPLE, "people"),
    **dict.fromkeys(("dog", "cat", "horse", "cow", "sheep", "elephant", "rabbit", "bird", "duck", "fish"), "animals"),
    **dict.fromkeys(
        ("car", "bus", "truck", "train", "tractor", "bicycle", "motorcycle", "boat", "plane", "skateboard", "sled"),
        "vehicles",
    ),
    **dict.fromkeys(("shirt", "dress", "pants", "shorts", "hat", "helmet", "scarf"), "clothing"),
    "guitar": "instruments",
    "water": "scene",
}
VERBS: dict[str, tuple[str, str, str]] = {  # -ing, third person, plural
    "hold": ("holding", "holds", "hold"),
    "play": ("playing", "plays", "play"),
    "ride": ("riding", "rides", "ride"),
    "sit": ("sitting", "sits", "sit"),
    "walk": ("walking", "walks", "walk"),
    "stand": ("standing", "stands", "stand"),
    "run": ("running", "runs", "run"),
    "jump": ("jumping", "jumps", "jump"),
    "kick": ("kicking", "kicks", "kick"),
    "catch": ("catching", "catches", "catch"),
    "chase": ("chasing", "chases", "chase"),
    "graze": ("grazing", "grazes", "graze"),
    "sleep": ("sleeping", "sleeps", "sleep"),
    "fly": ("flying", "flies", "fly"),
    "swim": ("swimming", "swims", "swim"),
    "drive": ("driving", "drives", "drive"),
    "park": ("parked", "is parked", "are parked"),
    "float": ("floating", "floats", "float"),
}
MOVES = {"ride", "walk", "run", "drive", "chase"}
WHERE: dict[str, Mapping[str, float]] = {  # "preposition|phrase"; water has a box, places have none
    "park": {"in|the park": 5, "on|the grass": 3, "in|a park": 1},
    "street": {"on|the street": 4, "on|a city street": 2, "in|the street": 1},
    "beach": {"on|the beach": 6, "on|the sand": 1.5, "at|the beach": 1, "by|the water": 1.5},
    "room": {"in|a room": 4, "in|the living room": 2, "inside|a house": 1},
    "field": {"in|a field": 5, "in|the field": 1, "in|a dry field": 1},
    "snow": {"in|the snow": 5, "on|the snow": 1},
    "lake": {"on|the lake": 3, "in|the water": 3, "on|the water": 2},
}
ALONG: dict[str, Mapping[str, float]] = {
    "street": {"down|the street": 5, "on|the street": 2, "down|a city street": 1},
    "field": {"through|a field": 3, "in|a field": 3},
    "snow": {"through|the snow": 3, "in|the snow": 3},
    "park": {"in|the park": 3, "through|the park": 2, "on|the grass": 2},
    "beach": {"on|the beach": 4, "along|the beach": 3, "on|the sand": 1},
}
ABOVE: dict[str, Mapping[str, float]] = {
    "park": {"over|the park": 3, "in|the sky": 2, "over|the grass": 1},
    "field": {"over|a field": 3, "in|the sky": 2, "over|the field": 1},
    "beach": {"over|the beach": 3, "in|the sky": 2, "over|the water": 1},
    "lake": {"over|the water": 3, "in|the sky": 2, "over|the lake": 1},
}


def captions(world: World, seen: Collection[int], rng: Random) -> tuple[Caption, ...]:
    """`CAPTIONS` different captions, or fewer of a poor world; `seen` are the items that have a box."""
    grammar = CaptionGrammar(world, frozenset(seen), rng)
    made: dict[str, Caption] = {}
    for _ in range(TRIES):
        caption = grammar.caption()
        if SHORTEST <= length(caption) <= LONGEST:
            made.setdefault(text(caption), caption)
        if len(made) == CAPTIONS:
            break
    return tuple(made.values())


def text(caption: Caption) -> str:
    return " ".join(piece.words for piece in caption)


def length(caption: Caption) -> int:
    return len(text(caption).split())


def is_visible(fact: Fact, seen: Collection[int]) -> bool:
    """Are all items of the fact visible?"""
    return all(i in seen for i in fact.subjects) and (fact.thing < 0 or fact.thing in seen)


@dataclass(frozen=True)
class CaptionGrammar:
    """Makes one caption after another of the same world."""

    world: World
    seen: frozenset[int]
    rng: Random

    def caption(self) -> Caption:
        fact, draw = self.world.facts[0], self.rng.random()
        if draw < 0.34:
            return (*self.event(fact, worn=0.0), *self.place(fact))
        if draw < 0.58:
            return self.event(fact, worn=1.0)
        if draw < 0.80:
            return (*self.event(fact, worn=0.8), *self.place(fact))
        return (*self.event(fact, worn=0.3), *self.besides())

    def going(self, past: tuple[int, ...], how: str) -> Caption:
        """The first fact of one who goes past something, or, where there is nothing to pass, goes as `how` says."""
        way = (Piece("past"), self.thing(past, 0.4)) if past else (Piece(how),)
        return (*self.event(self.world.facts[0], worn=0.4), *way)

    def event(self, fact: Fact, worn: float) -> Caption:
        """Who does what with what; `worn` is how likely clothes, or a colour, are mentioned."""
        plural = len(fact.subjects) > 1
        subject = self.thing(fact.subjects, coloured=max(worn, 0.3))
        clothes = self.clothes(fact.subjects[0]) if not plural and self.rng.random() < worn else ()
        ing, singular, many = VERBS[fact.verb]
        be = "are" if plural else "is"
        verb = pick(self.rng, {ing: 55, f"{be} {ing}": 25, many if plural else singular: 20})
        if fact.thing < 0:
            return (subject, *clothes, Piece(verb))
        predicate = f"{verb} {fact.where}".strip()
        return (subject, *clothes, Piece(predicate), self.owned(fact))

    def owned(self, fact: Fact) -> Piece:
        """The object of a fact; somebody who walks a dog may walk his or her dog."""
        piece = self.thing((fact.thing,), coloured=0.4)
        if fact.verb != "walk" or self.rng.random() > 0.3:
            return piece
        whose = "his" if self.world.items[fact.subjects[0]].name in ("man", "boy") else "her"
        return Piece(f"{whose} {piece.words.split(' ', 1)[1]}", piece.type, piece.items)

    def thing(self, items: tuple[int, ...], coloured: float) -> Piece:
        """A noun phrase for one item, or for several of a kind."""
        first = self.world.items[items[0]]
        noun = pick(self.rng, NOUNS.get(first.name, {first.name: 1}))
        same = all(self.world.items[i].colour == first.colour for i in items)
        colour = first.colour if same and first.name not in UNCOLOURED and self.rng.random() < coloured else ""
        kind = TYPES.get(first.name, "other")
        if len(items) > 1:
            *before, last = noun.split()
            many = [NUMBERS[len(items)], colour, *before, PLURALS.get(last, last + "s")]
            return Piece(" ".join(word for word in many if word), kind, items)
        words = f"{colour} {noun}".strip()
        return Piece(f"another {words}" if self.repeats(items[0]) else article(words), kind, items)

    def repeats(self, index: int) -> bool:
        """Is it of the same kind as something in the first fact, which is mentioned before it?"""
        fact = self.world.facts[0]
        mentioned = [i for i in (*fact.subjects, fact.thing) if i >= 0]
        return index not in mentioned and self.world.items[index].name in [self.world.items[i].name for i in mentioned]

    def clothes(self, person: int) -> Caption:
        """In a red shirt; in a red shirt and blue pants; wearing a helmet."""
        worn = {w.name: i for i, w in enumerate(self.world.items) if w.wearer == person and i in self.seen}
        main = next((worn[g] for g in ("dress", "shirt") if g in worn), None)
        extra = [worn[g] for g in ("helmet", "hat", "scarf") if g in worn]
        if extra and (main is None or self.rng.random() < 0.45):
            return Piece("wearing"), self.garment(extra[0], 0.5)
        if main is None:
            return ()
        garments = (Piece(self.rng.choice(("in", "in", "wearing"))), self.garment(main, 1.0))
        below = next((worn[g] for g in ("pants", "shorts") if g in worn), None)
        if below is not None and self.rng.random() < 0.15:
            return (*garments, Piece("and"), self.garment(below, 1.0))
        return garments

    def garment(self, index: int, coloured: float) -> Piece:
        item = self.world.items[index]
        words = f"{item.colour} {item.name}" if self.rng.random() < coloured else item.name
        return Piece(words if item.name in ("pants", "shorts") else article(words), "clothing", (index,))

    def place(self, fact: Fact) -> Caption:
        if fact.verb == "fly":
            choices = ABOVE[self.world.place]
        elif fact.verb in MOVES:
            choices = ALONG.get(self.world.place, WHERE[self.world.place])
        else:
            choices = WHERE[self.world.place]
        before, phrase = pick(self.rng, choices).split("|")
        lake = next((i for i, item in enumerate(self.world.items) if item.name == "water"), None)
        return Piece(before), Piece(phrase, "scene", (lake,) if lake in self.seen and "water" in phrase else ())

    def besides(self) -> Caption:
        """A second fact or something that just stands there; the place where there is neither."""
        ways: list[Callable[[], Caption]] = []
        others = [f for f in self.world.facts[1:] if is_visible(f, self.seen)]
        if others:
            ways.append(lambda: (Piece("while"), *self.clause(others[0])))
            ways.append(lambda: (Piece("with"), self.thing(others[0].subjects, 0.3), *_background()))
        standing = self.extras()
        if standing:
            ways.append(lambda: (Piece("near"), self.thing(self.rng.choice(standing), 0.4)))
            ways.append(lambda: (Piece("with"), self.thing(self.rng.choice(standing), 0.3), *_background()))
        return self.rng.choice(ways)() if ways else self.place(self.world.facts[0])

    def clause(self, fact: Fact) -> Caption:
        ing, singular, many = VERBS[fact.verb]
        plural = len(fact.subjects) > 1
        return self.thing(fact.subjects, 0.3), Piece(self.rng.choice((many if plural else singular, _be(plural, ing))))

    def extras(self) -> list[tuple[int, ...]]:
        """What is in no fact, those of a kind together."""
        mentioned = {i for fact in self.world.facts for i in (*fact.subjects, fact.thing)}
        kinds: dict[str, list[int]] = {}
        for i, item in enumerate(self.world.items):
            if i in self.seen and i not in mentioned and item.wearer < 0 and item.name not in ("water", "leash"):
                kinds.setdefault(item.name, []).append(i)
        return [tuple(same) for same in kinds.values()]


def article(words: str) -> str:
    return f"an {words}" if words[0] in "aeiou" else f"a {words}"


def _be(plural: bool, ing: str) -> str:
    return f"{'are' if plural else 'is'} {ing}"


def _background() -> Caption:
    return Piece("in"), Piece("the background", "notvisual")
