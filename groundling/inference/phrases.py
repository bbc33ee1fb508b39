"""To ground phrases, whichever runtime computes: what is asked, where it may be, what users get.

`PhraseGrounder` (torch) and `GrounderOnnx` (onnxruntime) do it; nothing here needs either.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from groundling.boxes import soft_match_of_arrays
from groundling.errors import GroundlingError
from groundling.images import small_copy
from groundling.inference.bodies import PARTS, bodies_in, placed, with_parts
from groundling.inference.colours import USUAL, colour_fit, colour_shares, has_colour
from groundling.inference.evidence import THRESHOLD
from groundling.inference.garments import any_garment, garment_fit
from groundling.inference.inputs import picture_in
from groundling.inference.pointing import means_several, with_groups
from groundling.metrics.calibration import EvidenceModel, image_word_probabilities
from groundling.text.vocab import last_word
from groundling.text.wordnet import wordnet
from groundling.types import UNK, Box, GroundedCaption, Link, Span, html_picture, html_table

if TYPE_CHECKING:
    from PIL import Image

    from groundling.text.noun_phrases import NounPhrase
    from groundling.text.vocab import Vocabulary

Floats = NDArray[np.float32]

TEMPERATURE = 0.08  # of p, the softmax of s; chosen on the validation split of Flickr8k
COLUMNS = ("phrase", "result", "box", "score", "evidence")  # of a table of phrases


@dataclass(frozen=True)
class GroundedPhrase:
    """A phrase and its box. `evidence` is None where the grounder is not calibrated."""

    phrase: str
    span: Span  # its characters in the sentence
    box: Box  # xyxy in pixels
    score: float  # 0 to 1, how sure the model is of the box
    evidence: float | None  # probability that the phrase is in the image at all
    unknown: tuple[str, ...] = ()  # words of it that the model never saw
    head: str = ""  # its last noun; a compound is one: "fire hydrant"

    def _repr_html_(self) -> str:
        """In a notebook: one row."""
        return html_table(COLUMNS, [self._cells()])

    def _cells(self) -> tuple[str, ...]:
        box = " ".join(f"{x:.0f}" for x in self.box) if self.found else ""
        evidence = "" if self.evidence is None else f"{self.evidence:.2f}"
        return self.phrase, self.result, box, f"{self.score:.2f}", evidence

    @property
    def result(self) -> str:
        """ "found", "not found", or "unknown": the model never saw the noun, so that it cannot tell."""
        if self.head and self.head.split()[-1] in self.unknown:
            return "unknown"
        return "found" if self.evidence is None or self.evidence >= THRESHOLD else "not found"

    @property
    def found(self) -> bool:
        return self.result == "found"

    def to_dict(self) -> dict[str, Any]:
        row = asdict(self) | {"found": self.found, "result": self.result, "box": [round(x, 1) for x in self.box]}
        row["score"] = round(self.score, 4)
        row["evidence"] = None if self.evidence is None else round(self.evidence, 4)
        return row


class GroundedPhrases(list[GroundedPhrase]):
    """The phrases of one image: a list that a notebook shows as a picture and a table."""

    def __init__(self, phrases: Iterable[GroundedPhrase], media: str = "", size: tuple[int, int] = (0, 0)) -> None:
        super().__init__(phrases)
        self.media, self.size = media, size  # of the image; "" where it has no file

    def _repr_html_(self) -> str:
        found = [(one.phrase, one.box, False) for one in self if one.found]
        return html_picture(self.media, self.size, found) + html_table(COLUMNS, [one._cells() for one in self])


@dataclass(frozen=True)
class Compared:
    """P phrases, compared with the R regions of one image that a grounder uses."""

    boxes: NDArray[np.floating]  # (R + E, 4) pixels: the regions, then E parts of bodies (`inference.bodies`)
    similarity: NDArray[np.floating]  # (P, R), s of eq. 1; −inf where there is no region
    overlap: NDArray[np.floating]  # (P, R + E), how likely each box is right, if the phrase is there; −1 where none is
    whole: NDArray[np.floating] | None  # the image vector, (G,) or (1, G), where the source gives one


@dataclass(frozen=True)
class Located:
    """Where P phrases may be in one image of R regions, and whether they are there. See `Compared`."""

    boxes: NDArray[np.floating]
    similarity: NDArray[np.floating]
    overlap: NDArray[np.floating]
    evidence: Sequence[float | None]  # P


@dataclass(frozen=True)
class Cues:
    """What helps to choose among the R regions of an image, beside similarity. Functions are called where needed."""

    boxes: Floats  # (R, 4) pixels
    frame: NDArray[np.int64]  # (R,)
    size: tuple[float, float]  # of the image
    picture: Image.Image | None  # a copy of it, perhaps smaller; None: of a clip, or not known
    joints: bool  # whether those of persons may be looked for
    person: Callable[[], Floats] | None  # (R,), similarity with "person"; None: the grounder does not know the word


def with_cues(
    similarity: Floats, cues: Cues, nouns: Sequence[str], colours: Sequence[Sequence[str]]
) -> tuple[Floats, Floats]:
    """The boxes that may be chosen (R + E, 4), and how well they fit phrases (P, R + E), −∞ where they cannot.

    That is s of eq. 1 and what is added to it: how well a region fits the words for colours of a phrase, and where the
    parts of bodies are. `nouns` are the heads of the phrases.
    """
    fit = similarity
    if cues.picture and any(colours):
        fit = fit + colour_fit(colour_shares(cues.picture, cues.boxes, cues.size), colours)
    if cues.person and cues.picture and cues.joints and not PARTS.keys().isdisjoint(map(last_word, nouns)):
        bodies = bodies_in(cues.picture, cues.size, cues.boxes, cues.person(), TEMPERATURE)
        return with_parts(fit, cues.boxes, nouns, bodies)
    if cues.person and any_garment(nouns):
        fit = fit + garment_fit(cues.boxes, cues.frame, nouns, cues.person(), TEMPERATURE)
    return cues.boxes, fit


def places(
    similarity: Floats, cues: Cues, nouns: Sequence[str], colours: Sequence[Sequence[str]], *, groups: bool = True
) -> tuple[Floats, Floats]:
    """The boxes that may be chosen (R + E, 4), and how likely each is right for P phrases (P, R + E); −1 where it is
    none. See `Compared`, `with_cues`; `groups`: plural nouns are looked for in the box around their places."""
    boxes, fit = with_cues(similarity, cues, nouns, colours)
    none = np.isneginf(fit)
    top = np.where(none.all(1, keepdims=True), 0, fit.max(1, keepdims=True, initial=-np.inf))
    p = np.exp((fit - top) / np.float32(TEMPERATURE))
    p /= np.maximum(p.sum(1, keepdims=True), np.finfo(np.float32).tiny)
    overlap = p @ soft_match_of_arrays(boxes)
    if groups and any(several := list(map(means_several, nouns))):
        frame = np.pad(cues.frame, (0, len(boxes) - len(cues.frame)))
        overlap = with_groups(overlap, p, boxes, frame, several)
    return boxes, np.where(none, np.float32(-1), overlap)


class BaseGrounder(ABC):
    """What all grounders of phrases do alike. Regions are those of one image, in the form that its runtime has."""

    calibration: EvidenceModel | None
    joints: bool = True  # whether those of persons help to find what they wear, and parts of their bodies

    @property
    @abstractmethod
    def vocab(self) -> Vocabulary:
        """The words that it knows."""

    @abstractmethod
    def compare(
        self, regions: Any, phrases: Sequence[Sequence[str]], nouns: Sequence[str], colours: Sequence[Sequence[str]]
    ) -> Compared:
        """Phrases, given as words, with the regions of one image; the other arguments are those of `locate`."""

    def locate(
        self,
        regions: Any,
        phrases: Sequence[Sequence[str]],
        nouns: Sequence[str],
        colours: Sequence[Sequence[str]] = (),
        *,
        in_caption: bool = False,
    ) -> Located:
        """Phrases, given as words, in one image; `nouns` are their heads, `colours` the words for colours of each.

        `in_caption`: they are phrases of captions, whose frequent nouns are right more often than the rare ones.
        """
        found = self.compare(regions, phrases, nouns, colours)
        evidence: Sequence[float | None] = [None] * len(phrases)
        if self.calibration is not None:
            best = found.similarity.max(1, initial=-1.0).astype(np.float64)
            evidence = self.calibration.of_image(nouns, best, found.whole, in_caption=in_caption)
        return Located(found.boxes, found.similarity, found.overlap, evidence)

    @abstractmethod
    def word_fit(self, regions: Any, words: tuple[str, ...]) -> NDArray[np.float32]:
        """(R, W): s of eq. 1 of each word alone and each region."""

    @abstractmethod
    def cues(self, regions: Any) -> Cues:
        """Of the regions that it uses."""

    def on_bodies(self, caption: GroundedCaption, regions: Any) -> GroundedCaption:
        """The same caption of one image; parts of bodies that it names are where joints tell, if there are pixels: its
        regions have them, or it names the file of a picture."""
        if not self.joints or PARTS.keys().isdisjoint(last_word(caption.word(link)) for link in caption.links):
            return caption
        cues = self.cues(regions)
        if cues.picture is None and (picture := picture_in(caption.media)) is not None:
            cues = replace(cues, picture=small_copy(picture))
        if cues.picture is None or cues.person is None:
            return caption
        bodies = bodies_in(cues.picture, cues.size, cues.boxes, cues.person(), TEMPERATURE)
        return placed(caption, bodies, TEMPERATURE)

    def colour(self, regions: Any, phrase: Sequence[str], word: str) -> float | None:
        """How likely a thing, a phrase with a word for its colour, has that colour in an image; None where nobody can
        tell: the word is none of `colours.USUAL`, or the colours or words of the image are not known."""
        known = self.calibration.words.prior if self.calibration and self.calibration.words else {}
        if word not in USUAL or word not in known:
            return None
        cues, thing = self.cues(regions), [one for one in phrase if one != word]
        if cues.picture is None or not thing:
            return None
        found = self.compare(regions, [thing], [""], ())  # without the cues that nouns give
        if found.whole is None:
            return None
        weights = np.exp((found.similarity[0] - found.similarity[0].max()) / TEMPERATURE)
        p = image_word_probabilities(found.whole, len(known))[[*known].index(word)]
        shares = colour_shares(cues.picture, cues.boxes, cues.size)
        return has_colour(shares, weights / weights.sum(), word, float(p), known[word])

    def ground_regions(self, regions: Any, sentence: str = "", phrases: Sequence[str] = ()) -> list[GroundedPhrase]:
        """As `PhraseGrounder.ground`, of an image whose regions (B = 1) are known."""
        [wanted] = asked([sentence], phrases)
        return self.grounded(regions, wanted)

    def grounded(self, regions: Any, wanted: Sequence[NounPhrase]) -> list[GroundedPhrase]:
        """Each phrase with its best box."""
        heads = [one.head or one.tokens[-1] for one in wanted]
        found = self.locate(regions, [one.tokens for one in wanted], heads, [one.colours for one in wanted])
        if not found.overlap.size or found.overlap.max() < 0:
            raise GroundlingError("this image has no regions: there is nothing to choose from")
        best = found.overlap.argmax(1)
        boxes, scores = found.boxes[best].tolist(), found.overlap.max(1).tolist()
        return [
            GroundedPhrase(
                one.text, one.span, (box[0], box[1], box[2], box[3]), score, p, self._unknown(one.tokens), one.head
            )
            for one, box, score, p in zip(wanted, boxes, scores, found.evidence, strict=True)
        ]

    def word_ids(self, phrase: Sequence[str]) -> list[int]:
        """Of the words of a phrase, one at least."""
        return self.vocab.encode([self._known(word) for word in phrase]) or [UNK]

    def _unknown(self, phrase: Sequence[str]) -> tuple[str, ...]:
        return tuple(word for word in phrase if self._known(word) not in self.vocab)

    def _known(self, word: str) -> str:
        """The word, or its singular where the model knows only that."""
        if word in self.vocab:
            return word
        singular = wordnet().base(word)
        return singular if singular is not None and singular in self.vocab else word


def asked(sentences: Sequence[str], phrases: Sequence[str]) -> list[list[NounPhrase]]:
    """What is looked for in each of several images: these phrases, or the noun phrases of its sentence."""
    if phrases:
        return [_given(sentence, phrases) for sentence in sentences]
    from groundling.text.noun_phrases import noun_phrases

    found = noun_phrases(sentences)
    if empty := next((sentence for sentence, parts in zip(sentences, found, strict=True) if not parts), None):
        raise GroundlingError(f"no noun phrase in {empty!r}: name what to look for (--phrase)")
    if not all(found):
        raise GroundlingError("there is no sentence: name what to look for (--phrase)")
    return found


def _given(sentence: str, phrases: Sequence[str]) -> list[NounPhrase]:
    """Phrases as they are given; their characters where the sentence has them, else (0, 0)."""
    from groundling.text import words
    from groundling.text.colours import colour_words
    from groundling.text.noun_phrases import NounPhrase, noun_phrases

    asked = []
    for phrase in phrases:
        tokens = words.caption(phrase).tokens
        if not tokens:
            raise GroundlingError(f"the phrase {phrase!r} has no word")
        at = sentence.find(phrase)
        head = next((one.head for one in reversed(noun_phrases([phrase])[0])), tokens[-1])
        [colours] = colour_words(tokens, [(0, len(tokens))])
        span = (at, at + len(phrase)) if at >= 0 else (0, 0)
        asked.append(NounPhrase(phrase, span, tokens, head, colours=colours))
    return asked


def in_sentence(sentence: str, phrases: Sequence[GroundedPhrase]) -> GroundedCaption:
    """The whole sentence as a caption: each phrase one token, linked where it was found, else with what it is."""
    tokens: list[str] = []
    links: list[Link] = []
    end = 0
    for one in sorted(phrases, key=lambda one: one.span):
        tokens += sentence[end : one.span[0]].split()
        if one.found:
            start = sum(len(token) + 1 for token in tokens)
            links.append(Link(len(tokens), (start, start + len(one.phrase)), one.box, one.score, evidence=one.evidence))
        tokens.append(one.phrase if one.found else f"{one.phrase} ({one.result})")
        end = one.span[1]
    tokens += sentence[end:].split()
    starts = accumulate((len(token) + 1 for token in tokens), initial=0)
    spans = tuple((start, start + len(token)) for start, token in zip(starts, tokens, strict=False))
    return GroundedCaption("", " ".join(tokens), tuple(tokens), spans, tuple(links), found=True)


def as_caption(
    phrases: Sequence[GroundedPhrase], id: str = "", media: str = "", size: tuple[int, int] = (0, 0)
) -> GroundedCaption:
    """The phrases as one caption, a token each, parted by dots; linked are those that were found."""
    tokens = tuple(one.phrase if one.found else f"{one.phrase} ({one.result})" for one in phrases)
    starts = accumulate((len(token) + 3 for token in tokens), initial=0)
    spans = tuple((start, start + len(token)) for start, token in zip(starts, tokens, strict=False))
    links = tuple(
        Link(i, span, one.box, one.score, evidence=one.evidence)
        for i, (span, one) in enumerate(zip(spans, phrases, strict=True))
        if one.found
    )
    return GroundedCaption(id, " · ".join(tokens), tokens, spans, links, media=media, size=size, found=True)
