"""Make the weights in `groundling/weights/` from data folders; `flickr8k` goes on with the `everyday` of the package.

    make weights EVERYDAY=data/coco-256 FLICKR8K=data/flickr8k-entities

or one of the two, step by step (those not named are left out):

    python tools/make_weights.py everyday data/coco-256 --work runs/everyday
    python tools/make_weights.py everyday data/coco-256 --work runs/everyday --only pack labels score \\
        --boxes data/flickr8k-entities --boxes-regions flickr8k.regions

or put one trained captioner in the place of that of the package, as it is or with rare nouns likelier (`raise_rare`):

    python tools/make_weights.py everyday --captioner runs/better
    python tools/make_weights.py everyday data/coco-256 --captioner runs/better

The grounder of `everyday` that ships was made, on a CPU with AVX512-BF16, by

    python tools/make_weights.py everyday data/coco-256 --bfloat16 --at-once

STEPS are commands of groundling, printed before they run. Each goes on where it was stopped, so the same call again
goes on too. `pack` then writes the two models, matrices of the captioner in 8 bits (`groundling/regions/eight_bits.py`)
but for those that lose by it, all others in half precision, without the paths of this machine; `labels` labels the
validation split of a data set with boxes of phrases (--boxes) with the grounder that was written, and leaves the
confidence of such labels beside it; `score` scores what was written on the validation split: the numbers of the model
card. The network of the `photos` source, which both see with, is made by tools/train_word_backbone.py.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from groundling import recipes
from groundling.audit import verdicts
from groundling.data.dataset import load
from groundling.files import write_manifest
from groundling.inference.evidence import CALIBRATION, read_calibration
from groundling.inference.loading import CAPTIONER, GROUNDER, SHIPPED
from groundling.labels import calibration as confidence
from groundling.labels.grounder import digest_of
from groundling.recipes import ABOUT, WEIGHTS, read_weights
from groundling.regions import eight_bits
from groundling.text.vectors import PACKED
from groundling.training.checkpoint import write

# ---------------------------------------------------------------- all that is decided, config included

EVERYDAY = {  # name -> words of `groundling`; {data} and {work} are filled in
    "regions": "regions extract {data} --source photos --out {work}/regions",
    "grounder": "train two_branch --data {data} --regions {work}/regions --out {work}/grounder "
    "--vectors glove-6b-50d --vector-size 50 --epochs 3 --decay 0.4 --decay-every 1 --captions-per-image 5 "
    "--regions-per-image 50 --min-count 3 --worn 0.4 --surroundings 0.2",
    "calibrate": "ground --data {data} --split val --regions {work}/regions --model {work}/grounder --calibrate",
    "decoder": "train updown_aware --data {data} --regions {work}/regions --out {work}/decoder "
    "--hidden 512 --embed 300 --attention 256 --location 64 --regions-per-image 50 --image-map 0 --dropout 0.15 "
    "--lr 8e-4 --epochs 1 --captions-per-image 3 --word-link --average 0.998",
    "taught": "train groundling --data {data} --regions {work}/regions --out {work}/taught "
    "--start {work}/decoder --guide {work}/grounder --regions-per-image 50 --image-map 0 --dropout 0.15 "
    "--lr 4e-4 --warmup-epochs 0 --epochs 1 --contrast 0 --captions-per-image 2 --coupled --word-link "
    "--average 0.998",
    "greedy": "caption {data} --split val --regions {work}/regions --model {work}/taught --beam 1 "
    "--out {work}/greedy.jsonl",
    "sampled": "caption {data} --split val --regions {work}/regions --model {work}/taught --sample "
    "--out {work}/sampled.jsonl",
    "nouns": "ground --data {data} --split val --regions {work}/regions --model {work}/grounder --calibrate "
    "--learn-from train --captions {work}/greedy.jsonl {work}/sampled.jsonl",
}
FLICKR8K = {  # both go on with the weights `everyday` of the package
    "regions": "regions extract {data} --source photos --out {work}/regions",
    "grounder": "train two_branch --data {data} --regions {work}/regions --out {work}/grounder "
    f"--start {shlex.quote(str(SHIPPED / 'everyday' / GROUNDER))} --new-words --vectors glove-6b-50d --vector-size 50 "
    "--lr 6e-4 --decay 0.5 --decay-every 1 --epochs 4 --captions-per-image 5 --regions-per-image 50 --min-count 3 "
    "--worn 0.4 --surroundings 0.2",
    "calibrate": "ground --data {data} --split val --regions {work}/regions --model {work}/grounder --calibrate "
    "--learn-from train --contrast-from {data} {work}/regions",
    "decoder": "train updown_aware --data {data} --regions {work}/regions --out {work}/decoder "
    f"--start {shlex.quote(str(SHIPPED / 'everyday' / CAPTIONER))} --new-words --hidden 512 --embed 300 "
    "--attention 256 --location 64 --regions-per-image 50 --image-map 0 --dropout 0.5 --lr 5e-4 --decay 0.5 "
    "--plateau 1 --epochs 8 --captions-per-image 5 --min-count 3 --word-link --average 0.998",
    "taught": "train groundling --data {data} --regions {work}/regions --out {work}/taught "
    "--start {work}/decoder --guide {work}/grounder --hidden 512 --embed 300 --attention 256 --location 64 "
    "--regions-per-image 50 --image-map 0 --dropout 0.5 --lr 4e-4 --decay 0.6 --decay-every 1 --warmup-epochs 0 "
    "--epochs 2 --contrast 0 --captions-per-image 5 --coupled --word-link --average 0.998",
    "rewarded": "train scst --data {data} --regions {work}/regions --out {work}/rewarded --start {work}/taught "
    "--guide {work}/grounder --baseline others --lr 1e-4 --bleu 1 --epochs 2 --batch 32",
}
STEPS = {"everyday": EVERYDAY, "flickr8k": FLICKR8K}
DECODER = "decoder"
BESIDE = ("grounder", "calibrate")  # what the decoder does not need
SCORES = (  # of what is in the package: captions as `groundling caption` says them
    "caption {data} --split val --regions {work}/regions --model {name} --out {work}/val.jsonl",
    "score {work}/val.jsonl --data {data} --split val --metrics bleu,rouge,cider-d,meteor",
)
PHRASES = "ground --data {data} --split val --regions {work}/regions --model {name}"  # where people drew boxes
LABELS = (  # the confidence of labels, with the grounder that was packed
    "label {boxes} --split val --model {grounder} --out {labels}",
    "score labels {labels} --data {boxes} --split val --calibrate {grounder}/labels.json",
)
KEPT = 0.5  # of what self-critical training changes; all of it makes captions alike
LARGEST = 40e6  # bytes of both models of a set together
BITS = {torch.int8: "8 bits", torch.float16: "half precision", torch.float32: "single precision"}
IN_HALVES = ("captioner.logits.weight", "captioner.language_gates.weight")  # in 8 bits they move captions most


class Rare(NamedTuple):
    """What makes rare nouns likelier, see `raise_rare`; chosen on validation photos."""

    share: float  # of the words of captions, below which a noun is rare
    gain: float  # factor of the gain of the image vector's score of it
    adjusted: float  # weight of log(share / π) in its bias


RAISED = "rare_nouns"  # names in model.json what was done
RARE = {"everyday": (Rare(1e-3, 1.2, 0.05),), "flickr8k": (Rare(1e-3, 1.2, 0.2), Rare(3e-3, 1.3, 0.27))}  # in turn

# ----------------------------------------------------------------


def main() -> None:
    last = ["pack", "labels", "score"]
    names = [*dict.fromkeys(step for steps in STEPS.values() for step in steps), *last]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("weights", choices=STEPS, help="which weights")
    parser.add_argument("data", type=Path, nargs="?", help="the data set; `groundling doctor` checks it")
    parser.add_argument("--work", type=Path, help="where all is made (runs/ and the name)")
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="STEP", help=", ".join(names))
    parser.add_argument(
        "--boxes", type=Path, help="data set with boxes of phrases that `labels` fits on (flickr8k: its data)"
    )
    parser.add_argument("--boxes-regions", type=Path, help="regions of its validation split (default: computed)")
    parser.add_argument(
        "--captioner", type=Path, metavar="RUN", help="pack this captioner alone; with DATA, its rare nouns likelier"
    )
    parser.add_argument("--out", type=Path, help="where the two models go (default: into the package)")
    parser.add_argument("--bfloat16", action="store_true", help="as of `groundling train`, for every training")
    parser.add_argument(
        "--at-once",
        action="store_true",
        help="train the grounder beside the decoder, each with half of the cores; it writes to WORK/grounder.log",
    )
    args = parser.parse_args()
    out = args.out or SHIPPED / args.weights
    if args.captioner is not None:
        shrink_captioner(args.captioner, out / CAPTIONER, args.data, RARE[args.weights])
        weigh(out)
        return
    if args.data is None:
        parser.error("name the data set, or a trained model with --captioner")
    work, steps = args.work or Path("runs") / args.weights, STEPS[args.weights]
    if args.weights == "flickr8k" and args.boxes is None:
        args.boxes, args.boxes_regions = args.data, work / "regions"
    scores = [*SCORES, PHRASES] if args.weights == "flickr8k" else [*SCORES]

    def words(command: str, more: Sequence[str] = ()) -> list[str]:
        filled = [
            word.format(data=args.data, work=work, name=args.out or args.weights) for word in shlex.split(command)
        ]
        return filled + ([*more, *["--bfloat16"] * args.bfloat16] if filled[0] == "train" else [])

    todo = [name for name in [*steps, *last] if name in args.only]
    beside = [name for name in BESIDE if name in todo] if args.at_once and DECODER in todo else []
    for name in (name for name in todo if name not in beside):
        if name == DECODER and beside:
            half = "--threads", str(max(1, (os.cpu_count() or 1) // 2))
            with meanwhile([words(steps[name], half) for name in beside], work / "grounder.log"):
                groundling(words(steps[name], half))
        elif name == "pack":
            pack(work, out, args.data, RARE[args.weights])
        elif name == "labels":
            fit_labels(work, out / GROUNDER, args.boxes, args.boxes_regions)
        else:
            for command in scores if name == "score" else [steps[name]]:
                groundling(words(command))


def groundling(words: list[str]) -> None:
    print(f"\n$ groundling {shlex.join(words)}", flush=True)
    if code := subprocess.run([sys.executable, "-m", "groundling", *words]).returncode:
        sys.exit(code)


@contextmanager
def meanwhile(commands: Sequence[list[str]], log: Path) -> Iterator[None]:
    """Run these, one after the other, beside what is in the `with` block; their output goes to the end of `log`."""

    def run() -> None:
        with log.open("ab") as file:
            for words in commands:
                file.write(f"\n$ groundling {shlex.join(words)}\n".encode())
                file.flush()
                called = [sys.executable, "-m", "groundling", *words]
                if code := subprocess.run(called, stdout=file, stderr=subprocess.STDOUT).returncode:
                    sys.exit(
                        f"beside it, this failed with code {code}; the end of {log} tells why: {shlex.join(words)}"
                    )

    log.parent.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(1) as pool:
        ran = pool.submit(run)
        yield
        ran.result()


def pack(work: Path, out: Path, data: Path, rare: Sequence[Rare]) -> None:
    """Both models of `work`, in few bits, into `out`; nouns that are rare in the captions of `data` are likelier."""
    captioner = work / "taught"
    if (work / "rewarded").is_dir():
        captioner = work / CAPTIONER
        interpolate(work / "taught", work / "rewarded", KEPT, captioner)
    if read_calibration(work / GROUNDER) is None:
        sys.exit(f"{work / GROUNDER} was not calibrated: run the step `calibrate`")
    for name in (confidence.FILE, verdicts.FILE):  # of the weights before
        (out / GROUNDER / name).unlink(missing_ok=True)
    shrink(work / GROUNDER, out / GROUNDER)
    shrink_captioner(captioner, out / CAPTIONER, data, rare)
    (out / GROUNDER / CALIBRATION).write_bytes((work / GROUNDER / CALIBRATION).read_bytes())
    for name in (GROUNDER, CAPTIONER):
        write_manifest(out / name)
    weigh(out)


def weigh(out: Path) -> None:
    """Print the size of both models; an error where it is too large for the package."""
    size = sum(path.stat().st_size for name in (GROUNDER, CAPTIONER) for path in (out / name).glob("*"))
    print(f"\n{out}: {size / 1e6:.1f} MB")
    if size > LARGEST:
        sys.exit(f"that is more than {LARGEST / 1e6:.0f} MB: train smaller models")


def fit_labels(work: Path, grounder: Path, boxes: Path | None, regions: Path | None) -> None:
    """Beside the packed grounder: how likely a box of its labels is right, fitted where people drew boxes."""
    if boxes is None:
        print(f"\n{grounder}: no {confidence.FILE}, its confidence is the score: name a data set with --boxes")
        return
    digest = digest_of(grounder)
    named = {"boxes": boxes, "grounder": grounder, "labels": work / f"labels-{digest}"}
    label, score = ([word.format(**named) for word in shlex.split(command)] for command in LABELS)
    groundling(label + (["--regions", str(regions)] if regions else []))
    groundling(score)
    if confidence.beside(grounder, digest) is None:
        sys.exit(f"{grounder / confidence.FILE} is not of the grounder beside it")


def interpolate(start: Path, end: Path, share: float, out: Path) -> None:
    """The model on the way from `start` to `end`, which was trained from it: start + share · (end − start)."""
    before, about = read_weights(start / WEIGHTS)
    after, _ = read_weights(end / WEIGHTS)
    between = {
        name: torch.lerp(value.float(), after[name].float(), share) if value.is_floating_point() else value
        for name, value in before.items()
    }
    out.mkdir(parents=True, exist_ok=True)
    write(out / WEIGHTS, between, about)
    described = json.loads((end / ABOUT).read_bytes()) | {"scores": []}  # those of `end` are not its own
    (out / ABOUT).write_text(json.dumps(described, ensure_ascii=False), encoding="utf-8")
    write_manifest(out)


def shrink_captioner(run: Path, out: Path, data: Path | None, rare: Sequence[Rare]) -> None:
    """`shrink`, where `data` is given after `raise_rare`."""
    if data is None:
        shrink(run, out)
        return
    if RAISED in json.loads((run / ABOUT).read_bytes()):
        sys.exit(f"{run}: its rare nouns were raised before; pack it without DATA, or name the run that it came from")
    with tempfile.TemporaryDirectory() as folder:
        raise_rare(run, data, rare, Path(folder))
        shrink(Path(folder), out)


def raise_rare(run: Path, data: Path, rares: Sequence[Rare], out: Path) -> None:
    """The captioner with rare nouns likelier; where it has scores of words (`models.layers.WordLink`), nouns with one.

    A noun w is rare where its share π of the words of the training captions (one more of it counted) is below
    `rare.share`. The gain of its score is multiplied by `rare.gain`: where the image is sure of w, it is said rather
    than a frequent noun, and where not, it becomes less likely still. Its bias gets `rare.adjusted` ·
    log(`rare.share` / π), part of what keeps it from being said as it is seldom said (Menon et al., Long-tail learning
    via logit adjustment, ICLR 2021). Each of `rares` is applied to what the one before has left.
    """
    counts = Counter(word for example in load(data, "train") for caption in example.captions for word in caption.tokens)
    model = recipes.load(run)
    link, logits = model.parts.captioner.word_link, model.parts.captioner.logits
    for rare in rares:
        nouns = zip(model.vocab.words, model.vocab.nouns, strict=True)
        most = rare.share * counts.total()
        ratio = torch.tensor([most / (counts[word] + 1) if noun else 1.0 for word, noun in nouns])
        chosen = ratio > 1 if link is None else (ratio > 1) & (link.column >= 0)
        with torch.no_grad():
            if link is not None:
                link.gain[chosen] *= rare.gain
            logits.bias[chosen] += rare.adjusted * ratio[chosen].log()
    recipes.save(out, replace(model, scores=()))
    described = json.loads((out / ABOUT).read_bytes()) | {RAISED: [rare._asdict() for rare in rares]}
    (out / ABOUT).write_text(json.dumps(described, ensure_ascii=False), encoding="utf-8")
    write_manifest(out)


def shrink(run: Path, out: Path) -> None:
    """The model of a run with its matrices in few bits; checked by loading it, which makes them whole again.

    A model that was packed before may be packed again, into its own folder too: its bytes stay the same.
    """
    weights, about = read_weights(run / WEIGHTS)
    small: dict[str, Tensor] = {}
    for name, value in weights.items():
        small |= in_few_bits(name, value)
        if value.is_floating_point() and not bool(small.get(name + eight_bits.SCALE, small[name]).isfinite().all()):
            sys.exit(f"{run / WEIGHTS}: {name} is not finite in {BITS[small[name].dtype]}")
    out.mkdir(parents=True, exist_ok=True)
    write(out / WEIGHTS, small, about)
    described = json.loads((run / ABOUT).read_bytes())
    for recipe in (described, *described.get("fine_tuning", ())):
        recipe["fields"] = portable(recipe["fields"])
    (out / ABOUT).write_text(json.dumps(described, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
    write_manifest(out)
    recipes.load(out)


def in_few_bits(name: str, value: Tensor) -> dict[str, Tensor]:
    """What a file has of it: matrices of captioners in 8 bits, other matrices in half precision.

    Vectors stay: they are few numbers, and variances among them are too small for half precision. Grounders are small,
    and calibrations are fitted to their numbers.
    """
    if not value.is_floating_point() or value.ndim < 2:
        return {name: value}
    if name.startswith(f"{CAPTIONER}.") and name not in IN_HALVES and eight_bits.is_matrix(value.numpy()):
        with np.errstate(invalid="ignore"):  # numbers that are not finite are told by their scales
            return {name: torch.from_numpy(x) for name, x in eight_bits.packed(name, value.numpy()).items()}
    return {name: value.half()}


def portable(fields: dict[str, Any]) -> dict[str, Any]:
    """Config without folders of this machine. Word vectors are among the weights: nobody shall look for their file."""
    plain = {field: Path(value).name if isinstance(value, str) else value for field, value in fields.items()}
    return plain | ({"vectors": plain["vectors"].removesuffix(PACKED) + PACKED} if plain.get("vectors") else {})


if __name__ == "__main__":
    main()
