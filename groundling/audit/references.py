"""An audit held against references: do nouns that no person mentions of an image have less evidence than the others?

A noun of an audited caption counts as true where a reference of its image has it, a kind of it, or what it is a kind
of; else as invented. People do not mention all that is there, so a noun that counts as invented may be there: figures
are lower than with people's marks, and compare systems and versions, not more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from groundling.formats.folder import Named
from groundling.metrics.agreement import area_under_curve, average_precision
from groundling.metrics.statistics import Array
from groundling.text.absent_nouns import Noun, NounsOf
from groundling.text.classes import NO_THING
from groundling.text.wordnet import wordnet
from groundling.types import Example


@dataclass(frozen=True)
class Held:
    """The nouns of an audit beside what references say of them. Nouns of which nobody can tell are only counted."""

    true: Array  # probabilities of the nouns that references bear out
    invented: Array  # and of the others
    lowest: Array  # of each caption, the lowest evidence among its nouns
    wrong: Array  # of each caption, 1 where one of its nouns is invented
    cannot_tell: int

    def numbers(self) -> dict[str, float]:
        """`auc` of nouns; `average_precision` of captions by their lowest evidence, and `base_rate` beside it."""
        nouns = len(self.true) + len(self.invented)
        return {
            "captions": len(self.wrong),
            "nouns": nouns,
            "cannot_tell": self.cannot_tell,
            "invented": len(self.invented) / max(1, nouns),
            "auc": area_under_curve(self.true, self.invented),
            "average_precision": average_precision(-self.lowest, self.wrong),
            "base_rate": float(self.wrong.mean()) if len(self.wrong) else float("nan"),
        }


def hold(lines: Iterable[Mapping[str, Any]], examples: Iterable[Example]) -> Held:
    """The lines of an audit beside the captions of the same images; DataError where a line names an image that could be
    one of two."""
    nouns_of = Named((example.id, example.media, NounsOf(example.captions)) for example in examples)
    true: list[float] = []
    invented: list[float] = []
    lowest: list[float] = []
    wrong: list[float] = []
    unknown = 0
    for line in lines:
        references = None if "error" in line else nouns_of.find(str(line.get("image", "")))
        if references is None:
            continue
        phrases = [one for one in line["phrases"] if one["lemma"] not in NO_THING]
        known = [
            (float(one["evidence"]), _borne_out(one, references)) for one in phrases if one["evidence"] is not None
        ]
        unknown += len(phrases) - len(known)
        true += [p for p, right in known if right]
        invented += [p for p, right in known if not right]
        if known:
            lowest.append(min(p for p, _ in known))
            wrong.append(float(not all(right for _, right in known)))
    return Held(np.array(true), np.array(invented), np.array(lowest), np.array(wrong), unknown)


def _borne_out(phrase: Mapping[str, Any], references: NounsOf) -> bool:
    synset = wordnet().synset(phrase["lemma"])
    if synset is None:
        return phrase["lemma"] in references
    return not references.lack(Noun(phrase["noun"], phrase["lemma"], synset))
