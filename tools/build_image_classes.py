"""Make `image_classes.safetensors`: the published classifier of EfficientNet-Lite2, and nouns for its classes.

    pip download --no-deps torchvision && unzip torchvision-*.whl torchvision/models/_meta.py
    python tools/build_image_classes.py torchvision/models/_meta.py groundling/regions/sources/image_classes.safetensors

1. Weights: the published blocks after FROZEN, the head and the classifier, batch normalisation folded, as whole numbers
   with one scale for each output channel. The blocks before are those of `word_backbone.safetensors`.
2. Nouns: a class becomes the nearest of NOUNS that is above it in WordNet, so that "fox squirrel" is a squirrel.
   torchvision (BSD-3-Clause) names the classes, in the order of their synsets' numbers in WordNet 3.0, which is that of
   our table: the longest rising row of synsets that have these names as lemmas tells which sense of "crane" is meant.

Put its SHA-256, which is printed, into _image_classes.py.
"""

from __future__ import annotations

import argparse
import ast
import bisect
import hashlib
import io
import json
from pathlib import Path

import numpy as np
import safetensors.numpy
import torch
from numpy.typing import NDArray

from groundling.regions.eight_bits import packed_rows
from groundling.regions.sources._features import LITE2, fold
from groundling.regions.sources._image_classes import FROZEN
from groundling.text.wordnet import wordnet

NOUNS = {  # kind -> lemmas of WordNet, each as captions write it, or lemma=word; no nouns that are frequent in COCO
    "animal": """
        shark ray=stingray fish cock=rooster hen=chicken ostrich owl eagle vulture peacock parrot hummingbird toucan
        duck goose swan flamingo spoonbill stork heron pelican penguin salamander frog turtle lizard
        crocodilian_reptile=crocodile snake scorpion spider centipede koala kangaroo jellyfish snail slug crab lobster
        whale seal wolf fox hyena lion tiger leopard jaguar=leopard snow_leopard=leopard cheetah mongoose beetle fly bee
        ant grasshopper cricket mantis dragonfly damselfly=dragonfly butterfly starfish sea_urchin rabbit hare=rabbit
        hamster porcupine squirrel marmot beaver guinea_pig swine=pig hippopotamus=hippo water_buffalo=buffalo bison
        wild_goat=goat antelope camel llama weasel otter skunk badger armadillo sloth ape monkey lemur
        giant_panda=panda lesser_panda=red_panda
    """,
    "food": """
        ice_cream pretzel bagel cheeseburger=burger cauliflower zucchini cucumber artichoke sweet_pepper=pepper mushroom
        strawberry lemon fig pineapple pomegranate burrito espresso corn
    """,
    "building": "palace castle church mosque monastery barn greenhouse beacon=lighthouse stupa=temple",
    "vehicle": """
        tractor ambulance fire_engine=fire_truck canoe gondola submarine speedboat airship=blimp
        balloon=hot_air_balloon space_shuttle missile=rocket projectile=rocket forklift snowplow=snow_plow garbage_truck
        horse_cart=cart oxcart=cart jinrikisha=rickshaw go-kart=go_kart golfcart=golf_cart
        steam_locomotive=steam_train
    """,
    "musical_instrument": """
        violin cello piano accordion drum trombone cornet=trumpet sax=saxophone flute harmonica harp guitar banjo
    """,
    "ball": "soccer_ball basketball volleyball golf_ball rugby_ball",
}  # fmt: skip

FEW, MANY = (
    127,
    31,
)  # greatest whole numbers: of filters that see one channel, and of matrices, which a wheel packs well


def class_names(path: Path) -> list[str]:
    """The 1,000 names in torchvision's file, which is read, not run."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_IMAGENET_CATEGORIES":
            return [str(name) for name in ast.literal_eval(node.value)]
    raise SystemExit(f"{path} has no _IMAGENET_CATEGORIES: give torchvision/models/_meta.py")


def synsets(names: list[str]) -> dict[int, int]:
    """Class -> synset: the longest rising row of synsets that have the names as lemmas, in the order of classes."""
    net, having = wordnet(), dict[str, list[int]]()
    for synset in range(len(net)):
        for lemma in net.lemmas(synset):
            having.setdefault(lemma, []).append(synset)
    ends: list[tuple[int, int]] = []  # (class, synset): the smallest synset that a row of each length may end with
    before: dict[tuple[int, int], tuple[int, int] | None] = {}
    for number, name in enumerate(names):
        for synset in reversed(having.get(name.lower().replace(" ", "_"), [])):
            length = bisect.bisect_left(ends, synset, key=lambda one: one[1])
            before[number, synset] = ends[length - 1] if length else None
            ends[length : length + 1] = [(number, synset)]
    row: dict[int, int] = {}
    last: tuple[int, int] | None = ends[-1]
    while last is not None:
        row[last[0]] = last[1]
        last = before[last]
    return row


def groups(of_class: dict[int, int]) -> tuple[dict[str, list[int]], dict[str, str]]:
    """Noun -> its classes, and noun -> its kind, a lemma of WordNet too."""
    net = wordnet()
    named = {
        lemma: ((word or lemma).replace("_", " "), kind)
        for kind, given in NOUNS.items()
        for lemma, _, word in (one.partition("=") for one in given.split())
    }
    found: dict[str, list[int]] = {}
    kinds: dict[str, str] = {}
    for number, synset in of_class.items():
        above = (lemma for kind in net.kinds(synset) for lemma in net.lemmas(kind))
        if (nearest := next((lemma for lemma in above if lemma in named), None)) is not None:
            word, kind = named[nearest]
            found.setdefault(word, []).append(number)
            kinds[word] = kind
    if unused := sorted({word for word, _ in named.values()} - found.keys()):
        raise SystemExit(f"no class is a kind of {', '.join(unused)}")
    return {word: sorted(found[word]) for word in sorted(found)}, kinds


def weights() -> dict[str, NDArray[np.float32]]:
    """The late blocks, numbered from 0, the head and the classifier."""
    state = torch.load(io.BytesIO(LITE2.read()), map_location="cpu", weights_only=True)
    late = {}
    for name, x in fold(state).items():
        part, *rest = name.split(".")
        if part == "head":
            late[name] = x.numpy()
        elif part == "blocks" and int(rest[0]) >= FROZEN:
            late[".".join([part, str(int(rest[0]) - FROZEN), *rest[1:]])] = x.numpy()
    return late | {f"classes.{part}": state[f"_fc.{part}"].numpy() for part in ("weight", "bias")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", type=Path, help="torchvision/models/_meta.py, from 0.13 on")
    parser.add_argument("out", type=Path, help="the file to make")
    args = parser.parse_args()
    names = class_names(args.names)
    nouns, kinds = groups(synsets(names))
    tensors: dict[str, NDArray[np.generic]] = {}
    for name, x in weights().items():
        if x.ndim > 1:
            tensors[name], tensors[f"{name}.scale"] = packed_rows(x, FEW if "depthwise" in name else MANY)
        else:
            tensors[name] = x.astype(np.float32)
    about = {"nouns": json.dumps(nouns), "kinds": json.dumps(kinds)}
    args.out.write_bytes(safetensors.numpy.save(tensors, about))
    for noun, of_noun in nouns.items():
        print(f"{kinds[noun]}, {noun}: {', '.join(names[i] for i in of_noun)}")
    digest = hashlib.sha256(args.out.read_bytes()).hexdigest()
    print(f"{args.out}: {args.out.stat().st_size / 1e6:.1f} MB, SHA-256 {digest}")


if __name__ == "__main__":
    main()
