"""How many nouns of captions are in a noun phrase: python bench/noun_coverage.py DATA [--captions 2000] [--seed 0]

The nouns are those of the tagger (tags NN, NNS, NNP, NNPS), in captions drawn at random from a split, but for the words
inside "in front of", "on top of" and "in back of": these are prepositions of three words and name nothing that could be
found. They are counted apart, and "covered, with these" counts them as nouns that are lost. A noun is covered if its
characters are inside a phrase of `text.noun_phrases`, which is what `groundling ground` looks for. "heads": phrases
that end with a word that the tagger calls no noun; the rules added these.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter

from groundling.data.dataset import load
from groundling.text.annotate import annotate
from groundling.text.noun_phrases import PREPOSITIONS, noun_phrases, with_stops


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--split", default="val")
    parser.add_argument("--captions", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    texts = sorted({one.text for example in load(args.data, args.split, annotated=False) for one in example.captions})
    drawn = random.Random(args.seed).sample(texts, min(args.captions, len(texts)))
    print(json.dumps(coverage(drawn), indent=1))


def coverage(texts: list[str]) -> dict[str, object]:
    nouns = covered = prepositions = added = phrases = 0
    lost = Counter[str]()
    for caption, found in zip(annotate([with_stops(text) for text in texts]), noun_phrases(texts), strict=True):
        phrases += len(found)
        inside = {i for phrase in found for i in range(*phrase.span)}
        tagged = set[int]()
        for i, (tag, span) in enumerate(zip(caption.tags, caption.spans, strict=True)):
            if not tag.startswith("NN") or not any(map(str.isalnum, caption.tokens[i])):
                continue
            tagged.add(span[1])
            nouns += 1
            if span[0] in inside:
                covered += 1
            elif caption.tokens[i - 1 : i + 2] in PREPOSITIONS:
                prepositions += 1
            else:
                lost[" ".join(caption.tokens[max(0, i - 3) : i + 3]) + f"  [{caption.tokens[i]}]"] += 1
        added += sum(phrase.span[1] not in tagged for phrase in found)
    return {
        "captions": len(texts),
        "nouns": nouns - prepositions,
        "covered": round(covered / (nouns - prepositions), 5),
        "inside prepositions": prepositions,
        "covered, with these": round(covered / nouns, 5),
        "phrases": phrases,
        "heads that are no tagged noun": added,
        "lost": dict(lost.most_common(30)),
    }


if __name__ == "__main__":
    main()
