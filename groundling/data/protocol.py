"""A data set as a paper's protocol has it: a JSON file that names the data set and says what is done with its captions.

    {"data": "coco", "letters_only": true, "most_words": 18, "validation_images": 2000}

`letters_only`: of the words of a caption letters and emoji are kept, lower-cased, and everything else is removed.
`most_words`: a caption ends after so many. `validation_images`: so many images of `val`, chosen by the hash of their
ids, stay `val`; the others are trained on. All but `data`, a path that begins at the folder of the file, may be left
out. The example is the protocol of Contrastive Learning for Image Captioning (NIPS 2017) for COCO.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from groundling.data.checks import Problems, expect, get, head, read_json
from groundling.data.splits import held_out
from groundling.errors import DataError
from groundling.types import Caption, Example

FORMAT = "data set under a protocol"
LOOKS_FOR = 'a .json file with {"data": PATH, "letters_only": …, "most_words": …, "validation_images": …}'

KNOWN = ("data", "letters_only", "most_words", "validation_images")


def claims(path: Path) -> bool:
    return path.is_file() and path.suffix == ".json" and any(f'"{name}"' in head(path) for name in KNOWN[1:])


def read(path: Path, problems: Problems) -> list[Example]:
    from groundling.data.dataset import find_reader

    rules = expect(read_json(path), dict, str(path))
    if odd := next((name for name in rules if name not in KNOWN), None):
        raise DataError(f"{path}: {odd!r} is no part of a protocol; there are {', '.join(KNOWN)}")
    data = _data(path, rules)
    reader = find_reader(data)
    if reader.FORMAT == FORMAT:
        raise DataError(f"{path}: {data} is a protocol itself; name the data set")
    letters, most, held = (_rule(rules, name, str(path)) for name in KNOWN[1:])
    examples = []
    for example in reader.read(data, problems):
        with problems.item():
            examples.append(_cleaned(example, bool(letters), most, str(path)))
    return _split(examples, held, str(path)) if held else examples


def annotation_files(path: Path) -> list[Path]:
    from groundling.data import dataset

    data = _data(path, read_json(path))
    return [path, *(() if claims(data) else dataset.annotation_files(data))]


def _data(path: Path, rules: Any) -> Path:
    return path.parent / get(rules, "data", str, str(path))


def _rule(rules: dict[str, Any], name: str, where: str) -> int:
    """A number, or 1 for true; 0 where the rule is left out."""
    value = rules.get(name, 0)
    if not isinstance(value, int) or value < 0:
        raise DataError(f"{where}: {name} is {value!r}; expected {'true' if name == 'letters_only' else 'a number'}")
    return value


def _cleaned(example: Example, letters: bool, most: int, where: str) -> Example:
    if any(phrase.boxes for phrase in example.gold) and (letters or most):
        raise DataError(f"{where}: the phrases of {example.id} have boxes, which would lose their words")
    captions = tuple(only_letters(caption) if letters else caption for caption in example.captions)
    captions = tuple(_first_words(caption, most) if most else caption for caption in captions)
    if kept := tuple(caption for caption in captions if caption.tokens):
        return replace(example, captions=kept)
    raise DataError(f"{where}: no word is left of the captions of {example.id}")


def only_letters(caption: Caption) -> Caption:
    """Words without digits, hyphens and apostrophes; those of which nothing is left are left out."""
    kept = [(letters_of(word), span) for word, span in zip(caption.tokens, caption.spans, strict=True)]
    kept = [(word, span) for word, span in kept if word]
    return Caption(caption.text, tuple(word for word, _ in kept), tuple(span for _, span in kept))


def letters_of(word: str) -> str:
    """What is left of a word: no digits, hyphens and apostrophes."""
    return "".join(c for c in word if not c.isdigit() and c not in "'’-")


def _first_words(caption: Caption, most: int) -> Caption:
    return Caption(caption.text, caption.tokens[:most], caption.spans[:most])


def _split(examples: list[Example], count: int, where: str) -> list[Example]:
    """`count` images of val stay there, the rest of val is train."""
    val = [example.id for example in examples if example.split == "val"]
    if len(val) < count:
        raise DataError(f"{where}: {count} images for validation, but val has {len(val)}")
    stays = held_out(val, count)
    return [replace(e, split="train") if e.split == "val" and e.id not in stays else e for e in examples]
