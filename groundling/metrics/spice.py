"""SPICE (Anderson et al., ECCV 2016) by its official jar: F1 of the scene graphs of caption and references.

The jar parses sentences with Stanford CoreNLP 3.6.0, whose two jars the user supplies (docs/spice.md). Nothing else is
ever reported under this name. Parsing takes long, so the score of each image is kept on disk, under a hash of its
captions, in JSON lines that only grow.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from zipfile import BadZipFile, ZipFile

import numpy as np

from groundling.errors import DataError, GroundlingError, MissingExtra
from groundling.metrics.jars import cache_folder, jar_folder, run_java
from groundling.metrics.statistics import Statistics, mean_statistics, signature
from groundling.progress import track

log = logging.getLogger(__name__)

SETTING = "GROUNDLING_SPICE_MODELS"
NEEDED = {  # jar -> something that it must hold
    "stanford-corenlp-3.6.0.jar": "edu/stanford/nlp/pipeline/StanfordCoreNLP.class",
    "stanford-corenlp-3.6.0-models.jar": "edu/stanford/nlp/models/lexparser/englishPCFG.ser.gz",
}
BLOCK = 1000  # images a run of the jar: what is done is kept

# The jar's own main class writes its results by a JavaScript engine, which Java has not had since version 15. This one
# asks the same class to score and writes the same JSON itself.
MAIN = """
import edu.anu.spice.SpiceArguments;
import edu.anu.spice.SpiceScorer;
import java.nio.file.Files;
import java.nio.file.Path;

public class Spice {
    public static void main(String[] files) throws Exception {
        var arguments = SpiceArguments.class.getDeclaredConstructor(String[].class);
        var scorer = SpiceScorer.class.getDeclaredConstructor();
        arguments.setAccessible(true);
        scorer.setAccessible(true);
        SpiceScorer spice = scorer.newInstance();
        spice.scoreBatch(arguments.newInstance((Object) new String[] {files[0], "-silent"}));
        Files.writeString(Path.of(files[1]), spice.stats.toJSONString());
    }
}
"""


def spice(hypotheses: Sequence[str], references: Sequence[Sequence[str]], ids: Sequence[str] = ()) -> Statistics:
    """SPICE of captions against their references, all tokenised as the other caption metrics do (`text.ptb`)."""
    ids = tuple(ids) or tuple(str(i) for i in range(len(hypotheses)))
    jar = jar_folder("spice") / "spice-1.0.jar"
    kept = cache_folder() / f"spice-{_digest(jar)}.jsonl"
    keys = [_key(caption, true) for caption, true in zip(hypotheses, references, strict=True)]
    known = _read(kept)
    missing = {key: i for i, key in enumerate(keys) if key not in known}  # each sentence once
    if missing:
        corenlp, rest = find_corenlp(jar.parent), list(missing.items())
        blocks = [rest[i : i + BLOCK] for i in range(0, len(rest), BLOCK)]
        for block in track(blocks, "SPICE", len(blocks)):
            scores = ask_the_jar([(hypotheses[i], references[i]) for _, i in block], jar, corenlp)
            known |= (new := dict(zip((key for key, _ in block), scores, strict=True)))
            with open(kept, "a", encoding="utf-8") as file:
                file.write("".join("\n" + json.dumps({"key": key, "f": f}) for key, f in new.items()))
    values = np.array([known[key] for key in keys], np.float64)
    about = signature("spice-1.0", parser="corenlp-3.6.0", by="jar", n=len(ids))
    return mean_statistics("SPICE", about, ids, values)


def find_corenlp(folder: Path) -> list[Path]:
    """The two jars of CoreNLP 3.6.0: where the user says, or where pycocoevalcap puts them."""
    given = os.environ.get(SETTING)
    home = folder / "lib"
    if given:
        home = Path(given).expanduser()
        home = home if home.is_dir() else home.parent
    jars = [home / name for name in NEEDED]
    for jar in jars:
        if not jar.is_file():
            where = f"{SETTING} is {given}, but {jar} is not there" if given else f"set {SETTING} to their folder"
            raise MissingExtra(
                "SPICE needs Stanford CoreNLP 3.6.0 with its models, stanford-corenlp-3.6.0.jar and "
                f"stanford-corenlp-3.6.0-models.jar, which no package carries: {where}; see docs/spice.md"
            )
        try:
            with ZipFile(jar) as archive:
                archive.getinfo(NEEDED[jar.name])
        except (OSError, BadZipFile, KeyError) as error:
            raise DataError(f"{jar} is not the jar of CoreNLP 3.6.0 ({error}); see docs/spice.md") from error
    return jars


def ask_the_jar(pairs: Sequence[tuple[str, Sequence[str]]], jar: Path, corenlp: Sequence[Path]) -> list[float]:
    """The score of each caption, by one run of the jar."""
    rows = [{"image_id": i, "test": caption, "refs": list(true)} for i, (caption, true) in enumerate(pairs)]
    path = os.pathsep.join(map(str, (jar, *corenlp, jar.parent / "lib" / "*")))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "Spice.java").write_text(MAIN, encoding="utf-8")
        (folder / "in.json").write_text(json.dumps(rows), encoding="utf-8")
        run_java("SPICE", ["-Xmx8G", "-cp", path, "Spice.java", "in.json", "out.json"], folder)
        try:
            text = (folder / "out.json").read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise GroundlingError(f"SPICE's jar left no results: {error}; see docs/spice.md") from error
    return parse(text, len(pairs))


def parse(text: str, n: int) -> list[float]:
    """`[{"image_id": 0, "scores": {"All": {"f": 0.5, …}}}, …]` -> the F of each image, in order of the ids."""
    try:
        scores = {int(row["image_id"]): float(row["scores"]["All"]["f"]) for row in json.loads(text)}
        return [scores[i] for i in range(n)]
    except (ValueError, TypeError, KeyError) as error:
        raise GroundlingError(f"SPICE's jar answered what it should not ({error!r}): {text[:80]!r}") from error


# ---------------------------------------------------------------- results kept on disk


def _key(caption: str, true: Sequence[str]) -> str:
    return blake2b(json.dumps([caption, *true]).encode(), digest_size=16).hexdigest()


def _digest(jar: Path) -> str:
    try:
        return blake2b(jar.read_bytes(), digest_size=8).hexdigest()
    except OSError as error:
        raise DataError(f"{jar}: {error.strerror}; pip install --force-reinstall pycocoevalcap") from error


def _read(kept: Path) -> dict[str, float]:
    """What is known; a line that was cut off by a crash is not."""
    known: dict[str, float] = {}
    if kept.exists():
        for line in filter(None, kept.read_text(encoding="utf-8", errors="replace").split("\n")):
            try:
                row = json.loads(line)
                known[row["key"]] = float(row["f"])
            except (ValueError, TypeError, KeyError):
                log.warning("%s: a damaged line is ignored", kept)
    return known
