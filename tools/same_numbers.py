"""Does a change of the code leave every number as it was? Run this before and after, and compare.

    python tools/same_numbers.py before.json
    python tools/same_numbers.py after.json --against before.json

It captions and grounds the photos that the package has, draws scenes, extracts their regions, trains small models of
twelve recipes and scores two files of captions, all with fixed seeds. What comes out is written as JSON: texts, boxes,
scores, values of training logs, and hashes of weights, regions and scenes. Durations and paths are left out. With
`--against` the name of every output that differs is printed, and the exit code is 1 if there is one. The package that
is measured is the one that Python imports: to measure another state, set PYTHONPATH.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import hashlib
import io
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

SMALL = ["--epochs", "2", "--seed", "1", "--device", "cpu"]
FRESH = [*SMALL, "--min-count", "2", "--hidden", "32", "--embed", "32"]
ATTEND = [*FRESH, "--attention", "32"]
DATA = ["--data", "scenes", "--regions", "scenes.regions"]
TRAININGS: dict[str, list[str]] = {  # in this order: later ones need earlier ones
    "updown": [*ATTEND, "--sampling", "0.25"],
    "updown_aware": ATTEND,
    "matcher_scan": FRESH,
    "matcher_pos_scan": FRESH,
    "two_branch": FRESH,
    "cyclical": [*ATTEND, "--pretrain", "1"],
    "pos_scan": [*ATTEND, "--guide", "matcher_scan"],
    "supervised_aware": ATTEND,
    "multi_branch": [*ATTEND, "--warmup-epochs", "1"],
    "groundling": [*ATTEND, "--guide", "two_branch", "--warmup-epochs", "1", "--scst-epochs", "1"],
    "scst": [*SMALL, "--start", "updown", "--samples", "2"],
    "gan": [*SMALL, "--start", "updown", "--samples", "2"],
}


def measure() -> dict[str, Any]:
    """All outputs by name; files go to the current folder."""
    import groundling

    for path in (Path(groundling.__file__).parent / "serve" / "photos").glob("*.jpg"):
        shutil.copy(path, path.name)
    pictures, cat, coffee = sorted(path.name for path in Path().glob("*.jpg")), "cat.jpg", "coffee.jpg"
    results: dict[str, Any] = {
        "caption": _run("caption", *pictures, "--json"),
        "caption: greedy, with attention": _run("caption", *pictures, "--json", "--beam", "1", "--attention"),
        "caption: sample": _run("caption", *pictures, "--json", "--sample", "--seed", "3", "--temperature", "0.8"),
        "caption: grounder and evidence": _run("caption", cat, "--json", "--evidence-weight", "0.5"),
        "caption: flickr8k": _run("caption", cat, coffee, "--json", "--model", "flickr8k"),
        "ground: a caption": _run("ground", coffee, "a cup of coffee with a spoon on a table", "--json"),
        "ground: phrases": _run("ground", cat, "--phrase", "a cat", "--phrase", "a zebra", "--json"),
        "ground: flickr8k": _run("ground", cat, "a cat", "--json", "--model", "flickr8k"),
    }
    _run("scenes", "scenes", "--images", "60", "--seed", "5", "--workers", "1")
    _run("regions", "extract", "scenes", "--source", "scenes", "--out", "scenes.regions", "--workers", "1")
    results["scenes"] = _hash(Path("scenes"))
    results["regions of scenes"] = _hash(Path("scenes.regions"))
    results["fingerprint of scenes"] = _fingerprint(Path("scenes.regions"))
    for recipe, flags in TRAININGS.items():
        _run("train", recipe, *DATA, *flags, "--out", recipe)
        results[f"train {recipe}"] = _log(Path(recipe))
        results[f"model of {recipe}"] = _model(Path(recipe))
    for name, more in {"updown": ["--grounder", "two_branch"], "multi_branch": ["--beam", "2"], "scst": []}.items():
        split = ["scenes", "--split", "val", "--regions", "scenes.regions"]
        _run("caption", *split, "--model", name, *more, "--out", f"{name}.jsonl")
        results[f"captions of {name}"] = Path(f"{name}.jsonl").read_text()
    val = ["--data", "scenes", "--split", "val"]
    for name in ("updown", "multi_branch"):
        results[f"score of {name}"] = _run("score", f"{name}.jsonl", *val, "--json")
    results["score attention"] = _run("score", "attention", "updown", *DATA, "--split", "val", "--json")
    results["retrieve"] = _run("retrieve", "matcher_scan", *DATA, "--split", "val", "--json")
    results["ground scenes"] = _run("ground", *DATA, "--split", "val", "--model", "two_branch", "--json")
    return results


def _run(*words: str) -> str:
    """What a command prints."""
    from groundling.cli import main as groundling

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = groundling(list(words))
    if code:
        raise SystemExit(f"groundling {' '.join(words)} ended with {code}")
    return printed.getvalue()


def _hash(where: Path) -> str:
    """Of a folder: the names and bytes of all its files."""
    digest = hashlib.sha256()
    for path in sorted(path for path in where.rglob("*") if path.is_file()):
        digest.update(str(path.relative_to(where)).encode() + path.read_bytes())
    return digest.hexdigest()


def _fingerprint(store: Path) -> Any:
    from groundling.regions import fingerprints
    from groundling.regions.store import Store

    return fingerprints.to_json(Store.open(store).fingerprint)


def _log(run: Path) -> list[list[str]]:
    """Rows of `log.csv`: stage, epoch, step, name, value."""
    with (run / "log.csv").open(newline="") as file:
        return list(csv.reader(file))


def _model(run: Path) -> dict[str, Any]:
    """The scores of a model, and the hash of each of its weights."""
    from safetensors.numpy import load_file

    weights = load_file(str(run / "model.safetensors"))
    hashes = {name: hashlib.sha256(value.tobytes()).hexdigest()[:16] for name, value in weights.items()}
    return {"scores": json.loads((run / "model.json").read_text())["scores"], "weights": hashes}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the JSON file to write")
    parser.add_argument("--against", type=Path, help="the file that an earlier state wrote")
    args = parser.parse_args()
    out = args.out.resolve()
    before = json.loads(args.against.read_text()) if args.against else None
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            results = measure()
        finally:
            os.chdir(here)
    out.write_text(json.dumps(results, indent=1, ensure_ascii=False, sort_keys=True))
    print(f"{len(results)} outputs in {out}")
    if before is None:
        return 0
    different = sorted(name for name in {*before, *results} if before.get(name) != results.get(name))
    print(f"{len(before) - len(different)} of {len(before)} outputs are the same as in {args.against}")
    for name in different:
        print(f"different: {name}")
    return 1 if different else 0


if __name__ == "__main__":
    raise SystemExit(main())
