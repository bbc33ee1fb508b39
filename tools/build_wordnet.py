"""Make `groundling/text/wordnet-nouns.json.gz` from the database files of WordNet 3.0.

    python tools/build_wordnet.py /usr/share/wordnet groundling/text/wordnet-nouns.json.gz

The folder is that of the Debian package `wordnet-base`, or `dict` of Princeton's own archive. Of every noun synset its
lemmas and hypernyms are kept, of every lemma its most frequent synset, and the irregular plurals.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path


def main(folder: Path, out: Path) -> None:
    synsets = [_synset(line) for line in _lines(folder / "data.noun")]
    row = {offset: i for i, (offset, _, _) in enumerate(synsets)}
    first = {lemma: row[offset] for lemma, offset in map(_sense, _lines(folder / "index.noun"))}
    plurals = dict(line.split()[:2] for line in (folder / "noun.exc").read_text("ascii").splitlines())
    table = {
        "notice": _notice(folder / "data.noun"),
        "lemmas": [" ".join(lemmas) for _, lemmas, _ in synsets],
        "hypernyms": [[row[above] for above in hypernyms] for _, _, hypernyms in synsets],
        "first": first,
        "plurals": plurals,
    }
    plain = json.dumps(table, separators=(",", ":")).encode()
    out.write_bytes(gzip.compress(plain, 9, mtime=0))


def _lines(path: Path) -> list[str]:
    """The entries; the licence before them is indented."""
    return [line for line in path.read_text("ascii").splitlines() if not line.startswith("  ")]


def _notice(path: Path) -> str:
    """The licence, without its line numbers."""
    lines = [line for line in path.read_text("ascii").splitlines() if line.startswith("  ")]
    return "\n".join(line.split(maxsplit=1)[1].rstrip() if len(line.split()) > 1 else "" for line in lines)


def _synset(line: str) -> tuple[str, list[str], list[str]]:
    """Offset, lemmas, offsets of hypernyms (of the class, and of the instance): the layout is that of wndb(5WN)."""
    words = line.split("|")[0].split()
    count = int(words[3], 16)
    lemmas = [word.lower() for word in words[4 : 4 + 2 * count : 2]]
    pointers = words[5 + 2 * count :]
    hypernyms = [pointers[i + 1] for i in range(0, 4 * int(words[4 + 2 * count]), 4) if pointers[i] in ("@", "@i")]
    return words[0], lemmas, hypernyms


def _sense(line: str) -> tuple[str, str]:
    """A lemma and its first, most frequent, synset."""
    words = line.split()
    return words[0], words[6 + int(words[3])]


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
