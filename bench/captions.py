"""Caption metrics against `pycocoevalcap`, the self-critical reward against dictionaries, and memory.

    python bench/captions.py scores [--images 5000] [--rounds 3]
    python bench/captions.py reward [--rounds 20]
    python bench/captions.py memory [--images 40000]

`scores`: tokenizer, BLEU, ROUGE-L and CIDEr-D of 5,000 images x 5 references, interleaved with pycocoevalcap in one
process, its Java included as its users pay for it; tokens and scores are compared. The aim is 20 times faster. Its jar
reads all captions as one text, so that a caption that ends with "P." loses its period where the next begins with "A":
which is which depends on the order of the images, so ours reads each caption alone. Such captions are asked for again.
`reward`: CIDEr-D of 64 images x 5 samples on word ids; the aim is 40 times faster than with dictionaries, equal within
1e-12. `memory`: the whole command on files of 40,000 images; the aim is less than 1 GB.

Captions are those of COCO that pycocoevalcap carries; without it, `memory` and `reward` use sentences made up here.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import random
import resource
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import results
from results import Row, compare, timed, told, write

from groundling.metrics.captions import score_captions
from groundling.metrics.reward import CiderReward
from groundling.text import ptb
from groundling.types import EOS

Captions = dict[str, list[str]]


def coco(images: int) -> Captions:
    """So many images with 5 captions each, real ones if they are there."""
    try:
        import pycocoevalcap
    except ImportError:
        return made_up(images)
    jar = zipfile.ZipFile(Path(pycocoevalcap.__path__[0]) / "spice" / "spice-1.0.jar")
    rows = json.loads(jar.read("coco/annotations/captions_val2014.json"))["annotations"]
    captions: Captions = defaultdict(list)
    for row in rows:
        captions[str(row["image_id"])].append(row["caption"])
    return {image: captions[image][:5] for image in list(captions)[:images]}


def made_up(images: int) -> Captions:
    rng = random.Random(0)
    nouns = [a + b for a in ("dog", "man", "hat", "car", "tree", "ball") for b in ("", "s", "let", "like", "y", "er")]
    verbs, places = ["holds", "sees", "isn't near", "jumps over"], ["on grass", "in the U.S.", "at 5:30", "indoors"]

    def caption() -> str:
        return f"A {rng.choice(nouns)} {rng.choice(verbs)} two {rng.choice(nouns)}, {rng.choice(places)}."

    return {str(i): [caption() for _ in range(5)] for i in range(images)}


def hypotheses_of(references: Captions) -> dict[str, str]:
    """A caption for each image: of its own, of another, or between the two."""
    rng, images = random.Random(1), list(references)
    return {
        image: " ".join(
            [*references[image][0].split()[: rng.randrange(12)], *references[rng.choice(images)][1].split()]
        )
        for image in images
    }


def theirs(hypotheses: dict[str, str], references: Captions) -> tuple[Any, dict[str, float]]:
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        refs = PTBTokenizer().tokenize({i: [{"caption": c} for c in cs] for i, cs in references.items()})
        hyps = PTBTokenizer().tokenize({i: [{"caption": c}] for i, c in hypotheses.items()})
        bleu = Bleu(4).compute_score(refs, hyps)[0]
        scores = [*bleu, Rouge().compute_score(refs, hyps)[0], Cider().compute_score(refs, hyps)[0]]
    names = ["BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "ROUGE-L", "CIDEr-D"]
    return (refs, hyps), dict(zip(names, map(float, scores), strict=True))


def alone(text: str) -> str:
    """The tokens that the jar finds in a caption with no other behind it."""
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    with contextlib.redirect_stderr(io.StringIO()):
        return str(PTBTokenizer().tokenize({0: [{"caption": text}]})[0][0])


def ours(hypotheses: dict[str, str], references: Captions) -> dict[str, float]:
    ptb._CHUNKS.clear()  # every round pays for every word
    found = score_captions(hypotheses, references, ["bleu", "rouge", "cider-d"])
    return {s.name: s.score().value for s in found}


def bench_scores(images: int, rounds: int) -> list[Row]:
    references = coco(images)
    hypotheses = hypotheses_of(references)
    found: list[Any] = []
    pairs = compare(
        rounds,
        lambda: found.append(theirs(hypotheses, references)),
        lambda: found.append(ours(hypotheses, references)),
    )
    scores = next(one for one in found if isinstance(one, dict))
    (refs, hyps), official = next(one for one in found if isinstance(one, tuple))
    pairs_of_tokens = [(text, hyps[i][0]) for i, text in hypotheses.items()]
    pairs_of_tokens += [pair for i, texts in references.items() for pair in zip(texts, refs[i], strict=True)]
    different = [text for text, tokens in pairs_of_tokens if ptb.token_text(text) != tokens]
    peeked = sum(ptb.token_text(text) == alone(text) for text in different)
    print(
        f"captions tokenised differently: {len(different) - peeked}, and {peeked} where the jar reads on into the next"
    )
    gap = max(abs(scores[name] - official[name]) for name in official)
    print(f"largest difference of a score: {gap:.1e}")
    print(", ".join(f"{name} {value:.4f}" for name, value in scores.items()))
    return [results.row(f"tokenizer, BLEU, ROUGE-L, CIDEr-D, {len(references):,} x 5, `pycocoevalcap`", pairs, 1)]


class PlainReward:
    """CIDEr-D as in the formula: a dictionary per sentence and order. The n-grams of references are counted anew for
    every sample, as the published scorer does, or, `cached`, once and for all."""

    def __init__(self, references: list[list[list[int]]], cached: bool) -> None:
        self.references = [[[*ids, EOS] for ids in refs] for refs in references]
        self.counts = [[self.count(ids) for ids in refs] for refs in self.references]
        self.df = Counter(gram for refs in self.counts for gram in {g for counts in refs for g in counts})
        self.log_n, self.cached = math.log(len(references)), cached

    @staticmethod
    def count(ids: list[int]) -> Counter[tuple[int, ...]]:
        return Counter(tuple(ids[i : i + n]) for n in range(1, 5) for i in range(len(ids) - n + 1))

    def vector(self, counts: Counter[tuple[int, ...]]) -> tuple[list[dict[tuple[int, ...], float]], list[float], int]:
        vectors: list[dict[tuple[int, ...], float]] = [{}, {}, {}, {}]
        for gram, times in counts.items():
            vectors[len(gram) - 1][gram] = times * (self.log_n - math.log(max(1, self.df[gram])))
        norms = [math.sqrt(sum(value**2 for value in vector.values())) for vector in vectors]
        return vectors, norms, sum(times for gram, times in counts.items() if len(gram) == 2)

    def __call__(self, samples: Any, image: Any) -> Any:
        scores = []
        for row, i in zip(samples.tolist(), image, strict=True):
            ids = row[: row.index(EOS) + 1] if EOS in row else row
            sample, norms, length = self.vector(self.count(ids))
            total = 0.0
            for k, reference in enumerate(self.references[i]):
                vectors, other, wanted = self.vector(self.counts[i][k] if self.cached else self.count(reference))
                for n in range(4):
                    dot = sum(min(v, vectors[n][g]) * vectors[n][g] for g, v in sample[n].items() if g in vectors[n])
                    total += dot / (norms[n] * other[n] or 1) * math.exp(-((length - wanted) ** 2) / 72) / 4
            scores.append(10 * total / len(self.references[i]))
        return np.array(scores)


def bench_reward(rounds: int) -> list[Row]:
    numbers: dict[str, int] = {}
    tokens = [[ptb.tokenize(text) for text in texts] for texts in coco(5000).values()]
    references = [[[numbers.setdefault(w, len(numbers) + 4) for w in ids] for ids in refs] for refs in tokens]
    rng = random.Random(0)
    image = np.repeat(rng.sample(range(len(references)), 64), 5)
    samples = np.full((320, 17), EOS)
    for line, i in zip(samples, image, strict=True):
        ids = rng.choice(references[i])[:16]
        line[: len(ids)] = [w if rng.random() < 0.7 else rng.randrange(4, len(numbers) + 4) for w in ids]
    mine = CiderReward(references)
    rows = []
    for name, cached in (("dictionaries", False), ("dictionaries, reference counts cached", True)):
        plain = PlainReward(references, cached)
        gap = np.abs(mine(samples, image) - plain(samples, image)).max()
        print(f"{name}: largest difference {gap:.1e}")
        pairs = compare(rounds, lambda p=plain: p(samples, image), lambda: mine(samples, image))  # type: ignore[misc]
        rows.append(results.row(f"CIDEr-D reward, 64 images x 5 samples, {name}", pairs, 1))
    return rows


def bench_memory(images: int) -> None:
    references = coco(images)
    rows = [{"image_id": image, "caption": text} for image, text in hypotheses_of(references).items()]
    notes = [{"image_id": image, "caption": text} for image, texts in references.items() for text in texts]
    with tempfile.TemporaryDirectory() as folder:
        pred, refs = Path(folder, "pred.json"), Path(folder, "refs.json")
        pred.write_text(json.dumps(rows))
        refs.write_text(json.dumps({"images": [{"id": image} for image in references], "annotations": notes}))
        spent = timed(lambda: subprocess.run([sys.executable, __file__, "score", str(pred), str(refs)], check=True))
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"{len(references)} images x 5, files in, scores out: {spent.wall / 1000:.1f} s, {peak:.0f} MB at most")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["scores", "reward", "memory", "score"])
    parser.add_argument("files", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--images", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers here")
    args = parser.parse_args()
    if args.what in ("scores", "reward"):
        scores = args.what == "scores"
        rows = bench_scores(args.images or 5000, args.rounds or 3) if scores else bench_reward(args.rounds or 20)
        for one in rows:
            print(told(one))
        if args.json:
            write(args.json, rows)
    elif args.what == "memory":
        bench_memory(args.images or 40000)
    else:
        from groundling.cli import main as groundling

        groundling(["score", "captions", "--pred", args.files[0], "--refs", args.files[1]])


if __name__ == "__main__":
    main()
