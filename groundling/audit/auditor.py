"""Verdicts on the nouns of one caption, by one image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groundling.audit.known import BROADER, SAME, Found, Known
from groundling.audit.verdicts import (
    CANNOT_TELL,
    GROUNDED,
    NOT_THERE,
    WRONG_PLACE,
    Thresholds,
    best_overlap,
    read_thresholds,
)
from groundling.errors import GroundlingError
from groundling.evaluation.evidence import Likely, PhraseEvidence, caption_evidence, parse
from groundling.formats.grounded import Place
from groundling.images import Picture
from groundling.inference.colours import OTHER_COLOUR
from groundling.inference.loading import GROUNDER, model_folder
from groundling.text.classes import NO_THING
from groundling.text.colours import WORDS
from groundling.types import Box, Caption, Span

if TYPE_CHECKING:
    from groundling.inference.grounder import PhraseGrounder
    from groundling.tensors import Regions


@dataclass(frozen=True)
class ColourVerdict:
    """A word for the colour of a thing that is there, and the verdict on it."""

    word: str
    verdict: str  # GROUNDED or NOT_THERE
    probability: float  # that the thing has this colour


@dataclass(frozen=True)
class PhraseVerdict:
    """A noun phrase of a caption, and the verdict on it."""

    phrase: str
    span: Span  # characters of the caption
    noun: str
    lemma: str
    verdict: str  # one of VERDICTS
    evidence: float | None  # probability that it is in the image; None where nobody can tell
    likely: tuple[Likely, ...] = ()  # where it was looked for, best first
    asked: str = ""  # the word that was looked for instead
    how: str = ""  # what that is: a synonym, a broader kind
    reason: str = ""  # why nobody can tell
    given: Place | None = None  # where the caption says that it is
    overlap: float | None = None  # of that with the likely places
    colour: ColourVerdict | None = None  # that it has by the caption; None where it has none, or nobody can tell

    @property
    def box(self) -> Box | None:
        """Where it most likely is, if it is there."""
        return self.likely[0].box if self.likely and self.verdict in (GROUNDED, WRONG_PLACE) else None

    def to_dict(self) -> dict[str, Any]:
        """What a line of the report holds of a phrase: see docs/audit.md."""
        row: dict[str, Any] = {
            "phrase": self.phrase,
            "span": list(self.span),
            "noun": self.noun,
            "lemma": self.lemma,
            "verdict": self.verdict,
            "evidence": None if self.evidence is None else round(self.evidence, 4),
            "box": None if self.box is None else [round(x, 1) for x in self.box],
            "likely": [{"box": [round(x, 1) for x in one.box], "score": round(one.score, 3)} for one in self.likely],
        }
        row |= {"asked": self.asked, "how": self.how} if self.asked else {}
        row |= {"reason": self.reason} if self.reason else {}
        if self.colour is not None:
            row["colour"] = asdict(self.colour) | {"probability": round(self.colour.probability, 4)}
        if self.given is not None:
            row["given"] = {
                "boxes": [[round(x, 1) for x in box] for box in self.given.boxes],
                "points": [[round(x, 1) for x in point] for point in self.given.points],
                "overlap": round(self.overlap or 0.0, 3),
            }
        return row


class Auditor:
    """Gives verdicts on captions of images, by a grounder that was calibrated."""

    def __init__(self, grounder: PhraseGrounder, thresholds: Thresholds) -> None:
        if grounder.calibration is None:
            raise GroundlingError(
                "this grounder does not know what is not there: fit that with `groundling ground --calibrate`"
            )
        self.grounder, self.thresholds = grounder, thresholds
        words = grounder.calibration.words
        self.known = Known(grounder.vocab, thresholds.learned, words.prior if words else None)

    @staticmethod
    def of(grounder: PhraseGrounder, folder: str | Path = "", not_there_below: float | None = None) -> Auditor:
        """With the thresholds that are kept in the grounder's folder; the shipped one by default. `not_there_below`:
        the evidence below which a noun is not there, instead of theirs."""
        kept = read_thresholds(model_folder(folder, GROUNDER))
        return Auditor(grounder, kept if not_there_below is None else replace(kept, present=not_there_below))

    def audit_text(self, image: Picture, text: str) -> tuple[PhraseVerdict, ...]:
        """The noun phrases of a sentence, in one image."""
        return self.audit(self.grounder.regions(image), parse([text], stops=True)[0])

    def audit(self, regions: Regions, caption: Caption, places: Sequence[Place] = ()) -> tuple[PhraseVerdict, ...]:
        """The noun phrases of a parsed caption in an image (B = 1); `places` are those that the caption came with, in
        pixels of the regions."""
        found = caption_evidence(self.grounder, regions, caption, self._instead, in_caption=True)
        verdicts = [self._verdict_on(one, _given(one.span, places)) for one in found]
        return tuple(self._with_colour(*each, regions) for each in zip(verdicts, found, strict=True))

    def _with_colour(self, found: PhraseVerdict, one: PhraseEvidence, regions: Regions) -> PhraseVerdict:
        """With a verdict on the one word for a colour of a thing that is there. The last word is the thing: oranges."""
        named = [word for word in one.tokens[:-1] if word in WORDS and word != one.noun]
        if found.box is None or len(named) != 1:
            return found
        p = self.grounder.colour(regions, one.tokens, named[0])
        if p is None:
            return found
        return replace(found, colour=ColourVerdict(named[0], NOT_THERE if p < OTHER_COLOUR else GROUNDED, p))

    def _instead(self, noun: str, lemma: str) -> str | None:
        found = self.known.find(noun, lemma)
        return found.word if found else None

    def _verdict_on(self, one: PhraseEvidence, given: Place | None) -> PhraseVerdict:
        found = self.known.find(one.noun, one.lemma)
        if found is None:
            named = {one.noun, one.lemma} & NO_THING
            reason = "it names no thing that has a place" if named else f"the grounder never learned {one.noun!r}"
            return PhraseVerdict(
                one.phrase, one.span, one.noun, one.lemma, CANNOT_TELL, None, reason=reason, given=given
            )
        overlap = None if given is None else best_overlap(given, [place.box for place in one.likely])
        assert one.evidence is not None  # the constructor refuses a grounder that is not calibrated
        verdict = self.verdict(found, one.evidence, overlap)
        return PhraseVerdict(
            one.phrase,
            one.span,
            one.noun,
            one.lemma,
            verdict,
            one.evidence,
            one.likely,
            asked=found.word if found.how != SAME else "",
            how=found.how,
            reason=self._reason(found) if verdict == CANNOT_TELL else "",
            given=given,
            overlap=overlap,
        )

    def _reason(self, found: Found) -> str:
        """Why nobody can tell of a noun that was looked for."""
        if found.how == BROADER:
            return f"{found.word!r} is not there, and is only a {found.how} of it"
        return f"{found.word!r} is not seen, but the grounder learned it from too few photos to be sure"

    def verdict(self, found: Found, evidence: float, overlap: float | None) -> str:
        """On a noun, or what was looked for instead; `overlap` of the place that the caption gives, if it does."""
        if evidence < self.thresholds.present:
            return CANNOT_TELL if found.how == BROADER or self.known.rare(found) else NOT_THERE
        return WRONG_PLACE if overlap is not None and overlap < self.thresholds.overlap else GROUNDED


def _given(span: Span, places: Sequence[Place]) -> Place | None:
    """The place that the caption gives a phrase: that whose words share most characters with it, the boxes of all
    places with the same words together."""
    shared = [max(0, min(span[1], place.span[1]) - max(span[0], place.span[0])) for place in places]
    if not any(shared):
        return None
    best = places[max(range(len(places)), key=lambda i: shared[i])].span
    same = [place for place in places if place.span == best]
    return Place(best, tuple(box for p in same for box in p.boxes), tuple(point for p in same for point in p.points))
