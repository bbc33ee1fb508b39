"""What evidence does while words are chosen: python bench/evidence_weight.py DATA --regions STORE [--model RUN ...]

Captions of a split are compared by log p + W · Σ log evidence of their nouns (`groundling caption --evidence-weight`).
On the first --choose images each weight has a row. On the others, each --weight is compared with 0 by a paired test.
Beside BLEU-4, CIDEr-D and METEOR, of all nouns that have a box:

    unreferenced         no reference has the noun, nor a kind of it, nor what it is a kind of
    unsupported          these, where also the grounder finds it unlikely that the thing is there (evidence < 0.5)
    undetected           these, where the noun is a class of the region source's detector, which does not find it either

The grounder chooses words, so "unsupported" is no independent measure; references and detector know nothing of the
weight. CPU time is of decoding and grounding, from stored regions.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from stored_data import opened, parser

from groundling import inference
from groundling.metrics.captions import score_captions
from groundling.metrics.significance import compare
from groundling.metrics.statistics import Array, Statistics, signature
from groundling.regions.store import Store
from groundling.text.morphology import lemma_of
from groundling.text.wordnet import wordnet
from groundling.types import Example, GroundedCaption

DETECTED = 0.3  # score from which the detector finds a class
SHOWN = ("BLEU-4", "CIDEr-D", "METEOR", "unreferenced", "unsupported", "undetected", "nouns")


@dataclass(frozen=True)
class Truth:
    """What references and the detector know of an image."""

    words: frozenset[str]  # of its references, and their lemmas
    synsets: frozenset[int]  # of their nouns
    above: frozenset[int]  # these, and all that they are kinds of
    found: frozenset[int]  # classes that the detector finds


def main() -> None:
    flags = parser(__doc__, images=1000)
    flags.add_argument("--grounder", default="")
    flags.add_argument("--choose", type=int, default=600)
    flags.add_argument("--weights", type=float, nargs="*", default=[0, 0.5, 1, 2])
    flags.add_argument("--weight", type=float, nargs="+", default=[0.5, 1])
    flags.add_argument("--beams", type=int, nargs="+", default=[1, 3])
    args = flags.parse_args()
    torch.set_num_threads(1)
    captioner = inference.load(args.model, grounder=args.grounder)
    store, examples = opened(args)
    classes = {name: wordnet().synset(name) for name in store.fingerprint.labels if not name.startswith("word:")}
    truth = {example.id: truth_of(example, detected(store, example.id), classes) for example in examples}
    for beam in args.beams:
        first, rest = examples[: args.choose], examples[args.choose :]
        print(f"beam {beam}, {len(first)} images to choose on")
        print("weight  " + "  ".join(f"{name:>12}" for name in SHOWN) + "  words  CPU-ms")
        for weight in args.weights:
            captions, seconds = decoded(captioner, first, store, beam, weight)
            values = {one.name: one.score().value for one in measured(captions, first, truth, classes)}
            words = len({word for caption in captions for word in caption.tokens})
            row = "  ".join(f"{values[name]:12.4f}" for name in SHOWN)
            print(f"{weight:6.2f}  {row}  {words:5}  {1000 * seconds / len(first):6.1f}", flush=True)
        if not rest:
            continue
        weights = (0, *args.weight)
        before, *others = (measured(decoded(captioner, rest, store, beam, w)[0], rest, truth, classes) for w in weights)
        for weight, after in zip(args.weight, others, strict=True):
            print(f"beam {beam}, {len(rest)} other images: weight 0 against {weight:g}")
            for one in compare(before, after, samples=5000):
                change = f"{one.baseline:.4f} -> {one.system:.4f}  difference {one.low:+.4f} to {one.high:+.4f}"
                print(f"  {one.name:14} {change}  p {one.p_randomisation:.4f}", flush=True)


def decoded(
    captioner: inference.GroundedCaptioner, examples: Sequence[Example], store: Store, beam: int, weight: float
) -> tuple[list[GroundedCaption], float]:
    """Captions, and the processor time that they took."""
    settings = inference.BeamSearch(beam=beam, length_penalty=0, evidence_weight=weight)
    start = time.process_time()
    captions = list(captioner.caption([example.id for example in examples], settings, regions=store))
    return captions, time.process_time() - start


def measured(
    captions: Sequence[GroundedCaption],
    examples: Sequence[Example],
    truth: Mapping[str, Truth],
    classes: Mapping[str, int | None],
) -> list[Statistics]:
    """Scores of the texts, and shares of nouns."""
    references = {example.id: [caption.text for caption in example.captions] for example in examples}
    texts = {caption.id: caption.text for caption in captions}
    counts = np.array([noun_counts(caption, truth[caption.id], set(classes.values())) for caption in captions], float)
    shares = [_share(name, counts, i, captions) for i, name in ((1, "unreferenced"), (2, "unsupported"))]
    shares.append(_share("undetected", counts, 4, captions, of=3))
    shares.append(_share("nouns", np.hstack([counts, np.ones((len(counts), 1))]), 0, captions, of=5))
    scores = score_captions(texts, references, ["bleu", "cider-d", "meteor"])
    return [one for one in (*scores, *shares) if one.name in SHOWN]


def _share(name: str, counts: Array, part: int, captions: Sequence[GroundedCaption], of: int = 0) -> Statistics:
    ids = tuple(caption.id for caption in captions)
    return Statistics(name, signature(name, n=len(ids)), ids, counts[:, [part, of]], _ratio)


def _ratio(sums: Array) -> Array:
    part, whole = np.asarray(sums)[..., 0], np.asarray(sums)[..., 1]
    return np.asarray(part / np.maximum(whole, 1e-12))


def noun_counts(caption: GroundedCaption, truth: Truth, classes: Collection[int | None]) -> tuple[int, ...]:
    """Nouns; unreferenced; unsupported; nouns that are classes of the detector; those of them that are undetected."""
    counts = np.zeros(5, int)
    for word, evidence in {link.token: (caption.word(link), link.evidence) for link in caption.links}.values():
        lemma = lemma_of(word)
        synset = wordnet().synset(lemma)
        kinds = set() if synset is None else set(wordnet().kinds(synset))
        known = {word, lemma} & truth.words or synset in truth.above or kinds & truth.synsets
        unsupported = evidence is not None and evidence < 0.5
        of_detector = not kinds.isdisjoint(classes)
        undetected = of_detector and kinds.isdisjoint(truth.found)
        counts += (1, not known, not known and unsupported, of_detector, not known and undetected)
    return tuple(counts.tolist())


def truth_of(example: Example, found: Collection[str], classes: Mapping[str, int | None]) -> Truth:
    """`found`: names of classes that the detector finds in the image."""
    words = {word for caption in example.captions for word in (*caption.tokens, *caption.lemmas)}
    nouns = {
        lemma for caption in example.captions for lemma, noun in zip(caption.lemmas, caption.nouns, strict=True) if noun
    }
    synsets = {synset for noun in nouns if (synset := wordnet().synset(noun)) is not None}
    above = {kind for synset in synsets for kind in wordnet().kinds(synset)}
    here = {synset for name in found if (synset := classes[name]) is not None}
    return Truth(frozenset(words), frozenset(synsets), frozenset(above), frozenset(here))


def detected(store: Store, id: str) -> set[str]:
    """Names of the detector's classes in a stored image."""
    regions, names = store[id], store.fingerprint.labels
    pairs = zip(regions.labels.flatten().tolist(), regions.scores.flatten().tolist(), strict=True)
    return {names[i] for i, p in pairs if i >= 0 and p >= DETECTED and not names[i].startswith("word:")}


if __name__ == "__main__":
    main()
