"""Phrases of a sentence, each with its box in an image.

    import groundling

    grounder = groundling.load_grounder()  # or the folder of one that you trained
    for phrase in grounder.ground("photo.jpg", "a man in a red shirt holding a guitar"):
        print(phrase.phrase, phrase.box, phrase.evidence)

The box of a phrase is the region that most likely covers at least half of the right place: argmax_l Σ_m p_m [IoU(l, m)
> 1/2], the step being soft (`boxes.soft_iou_match`), p = softmax(s / τ). A calibrated grounder also tells the evidence:
how likely it is that the phrase is in the image at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import accumulate, islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import torch
import torch.nn.functional as F
from torch import Tensor

from groundling.boxes import soft_iou_match
from groundling.errors import DataError, GroundlingError
from groundling.images import opened
from groundling.inference import inputs
from groundling.inference.colours import USUAL, colour_fit, has_colour, with_colours
from groundling.inference.evidence import THRESHOLD, read_calibration
from groundling.inference.loading import GROUNDER, device_of, model_folder, source_of
from groundling.metrics.calibration import EvidenceModel
from groundling.models.grounder import Grounder
from groundling.recipes import Model, load, recipe_name
from groundling.tensors import Regions, RegionSource, word_probabilities
from groundling.text import words
from groundling.text.colours import colour_words
from groundling.text.noun_phrases import NounPhrase, noun_phrases
from groundling.text.wordnet import wordnet
from groundling.types import PAD, UNK, Box, GroundedCaption, Link, Span, html_picture, html_table

if TYPE_CHECKING:
    from groundling.inference.inputs import Images, OneImage

TEMPERATURE = 0.08  # of p; chosen on the validation split of Flickr8k
WINDOW = 16  # images that are grounded together
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
class Ranking:
    """What a model thinks of P phrases in one image of R regions."""

    similarity: Tensor  # (P, R), s of eq. 1
    overlap: Tensor  # (P, R), how likely each region is right, if the phrase is in the image


@dataclass(frozen=True)
class RegionFeatures:
    """f(x) of eq. 1 of all regions of B images that a grounder uses: computed once, for any number of phrases."""

    vectors: Tensor  # (B, R, H)
    valid: Tensor  # (B, R) bool
    whole: Tensor | None  # (B, G) image vectors, where the source gives them


class PhraseGrounder:
    """A trained grounder of phrases. Made by `load_grounder`.

    >>> grounder = groundling.load_grounder()
    >>> phrases = grounder.ground("photo.jpg", "a dog with a ball")
    >>> [phrase.phrase for phrase in phrases]
    ['a dog', 'a ball']
    >>> grounder.ground("photo.jpg", phrases=["dog"])[0].evidence  # doctest: +SKIP
    0.93
    """

    def __init__(self, model: Model, calibration: EvidenceModel | None, device: torch.device) -> None:
        self.model, self.calibration, self.device = model, calibration, device

    @cached_property
    def matcher(self) -> Grounder:
        matcher = getattr(self.model.parts, "matcher", None)
        if not isinstance(matcher, Grounder):
            name = recipe_name(self.model.recipe)
            raise GroundlingError(f"{name} grounds no phrases; train a grounder with `groundling train two_branch`")
        return matcher

    @cached_property
    def source(self) -> RegionSource:
        """What makes the regions that the model looks at."""
        return source_of(self.model.fingerprint)

    def regions(self, image: OneImage) -> Regions:
        """The regions of one image (B = 1), with their colours."""
        item = next(inputs.items(image))
        if item.is_clip:
            raise DataError(f"{item.media} is a video: ground its frames, as `groundling ground VIDEO` does")
        if item.picture is None and not item.media:
            raise DataError(f"{item.id!r} has no picture file: give its regions")
        picture = opened(item.picture or item.media)
        return with_colours(self.source(picture), picture)

    @overload
    def ground(  # type: ignore[overload-overlap]  # a name is one image, unless it is that of a folder
        self, images: OneImage, sentence: str = "", phrases: Sequence[str] = (), *, window: int = WINDOW
    ) -> list[GroundedPhrase]: ...

    @overload
    def ground(
        self,
        images: Iterable[OneImage],
        sentence: str | Iterable[str] = "",
        phrases: Sequence[str] = (),
        *,
        window: int = WINDOW,
    ) -> Iterator[list[GroundedPhrase]]: ...

    def ground(
        self,
        images: Images,
        sentence: str | Iterable[str] = "",
        phrases: Sequence[str] = (),
        *,
        window: int = WINDOW,
    ) -> list[GroundedPhrase] | Iterator[list[GroundedPhrase]]:
        """Find phrases in one image, or in many.

        images: one image: the path of a file, a PIL image, an array (height × width × 3, uint8, RGB), a tensor
            (3 × height × width, uint8 or from 0 to 1) or an example of a data set. Or many: a list or any iterable
            of these, or a folder. One image gives the list of its phrases.
            Many give an iterator of such lists, and no more than a window of images is in memory.
        sentence: its noun phrases are looked for. For many images, one sentence for all or an iterable with one each.
        phrases: look for these instead, in every image.
        window: how many sentences are parsed together.
        """
        if inputs.is_one(images):
            return self._of_image(images, _asked([str(sentence)], phrases)[0])
        each = (item.picture or item.media for item in inputs.items(images))
        sentences = repeat(sentence) if isinstance(sentence, str) else sentence
        return self._each(zip(each, sentences, strict=not isinstance(sentence, str)), phrases, window)

    def _each(
        self, pairs: Iterable[tuple[OneImage, str]], phrases: Sequence[str], window: int
    ) -> Iterator[list[GroundedPhrase]]:
        left = iter(pairs)
        while some := list(islice(left, window)):
            asked = _asked([sentence for _, sentence in some], phrases)
            for (image, _), parts in zip(some, asked, strict=True):
                yield self._of_image(image, parts)

    def _of_image(self, image: OneImage, asked: Sequence[NounPhrase]) -> GroundedPhrases:
        regions = self.regions(image)
        width, height = (round(side) for side in regions.size[0].tolist())
        return GroundedPhrases(self._grounded(regions, asked), next(inputs.items(image)).media, (width, height))

    def ground_regions(self, regions: Regions, sentence: str = "", phrases: Sequence[str] = ()) -> list[GroundedPhrase]:
        """As `ground`, of an image whose regions (B = 1) are known."""
        [asked] = _asked([sentence], phrases)
        return self._grounded(regions, asked)

    def _grounded(self, regions: Regions, asked: Sequence[NounPhrase]) -> list[GroundedPhrase]:
        if not regions.valid.any():
            raise GroundlingError("this image has no regions: there is nothing to choose from")
        ranking = self.rank(regions, [one.tokens for one in asked], [one.colours for one in asked])
        best = ranking.overlap.argmax(-1)
        boxes = regions.boxes[0][best.cpu()].tolist()
        scores = ranking.overlap.gather(-1, best[:, None]).squeeze(-1).tolist()
        evidence = self.evidence([one.head or one.tokens[-1] for one in asked], ranking.similarity, regions.whole)
        return [
            GroundedPhrase(
                one.text, one.span, (box[0], box[1], box[2], box[3]), score, p, self._unknown(one.tokens), one.head
            )
            for one, box, score, p in zip(asked, boxes, scores, evidence, strict=True)
        ]

    @torch.inference_mode()
    def features(self, regions: Regions) -> RegionFeatures:
        """What the model computes of the regions of B images."""
        regions = regions.of_each_frame(self.model.recipe.regions_per_image).to(self.device)
        return RegionFeatures(self.matcher.see(regions), regions.valid, regions.whole)

    @torch.inference_mode()
    def embed(self, phrases: Sequence[Sequence[str]]) -> Tensor:
        """(P, H), of unit length: phrases, given as words, in the space that they share with regions."""
        return self.matcher.read(self._ids(phrases))

    @torch.inference_mode()
    def similarity(self, features: RegionFeatures, image: Tensor, phrases: Sequence[Sequence[str]]) -> Tensor:
        """(P, R): s of eq. 1 of each phrase, given as words, in its image (P,); −inf where there is no region."""
        vectors = self.embed(phrases)
        scores = torch.einsum("prh,ph->pr", features.vectors[image], vectors)
        return scores.masked_fill(~features.valid[image], -torch.inf)

    @torch.inference_mode()
    def rank(
        self, regions: Regions, phrases: Sequence[Sequence[str]], colours: Sequence[Sequence[str]] = ()
    ) -> Ranking:
        """Phrases as words, in one image (B = 1). `colours`: words for colours that each has; they help to choose
        where the colours of the regions are known (`inference.colours`)."""
        regions = regions.of_each_frame(self.model.recipe.regions_per_image).to(self.device)
        scores = self.matcher.read(self._ids(phrases)) @ self.matcher.see(regions)[0].T  # (P, R)
        scores = scores.masked_fill(~regions.valid[0], -torch.inf)
        fit = scores
        if regions.colours is not None and any(colours):
            fit = scores + colour_fit(regions.colours[0], colours)
        p = (fit / TEMPERATURE).softmax(-1)
        return Ranking(scores, (p @ soft_iou_match(regions.boxes[0])).masked_fill(~regions.valid[0], -1.0))

    def evidence(
        self, nouns: Sequence[str], similarity: Tensor, whole: Tensor | None, *, said: bool = False
    ) -> list[float | None]:
        """How likely each phrase is in its image; None if not calibrated. See `inference.evidence`.

        nouns: the heads of P phrases. similarity: (P, R), with the regions. whole: the image vector (1, G), or one for
        each phrase (P, G); None: by similarity alone. said: they are phrases of captions, whose frequent nouns are
        right more often than the rare ones, not any phrases.
        """
        if self.calibration is None:
            return [None] * len(similarity)
        count, likely = self.calibration.word_count, None
        if whole is not None and 0 < count <= whole.shape[1]:
            likely = word_probabilities(whole, count).expand(len(similarity), -1).cpu().numpy()
        heads = [noun.split()[-1] for noun in nouns]
        return [*self.calibration(heads, best_similarity(similarity).cpu().double().numpy(), likely, said=said)]

    @torch.inference_mode()
    def colour(self, regions: Regions, phrase: Sequence[str], word: str) -> float | None:
        """How likely a thing, a phrase with a word for its colour, has that colour in an image (B = 1); None where
        nobody can tell: the word is none of `colours.USUAL`, or the colours or words of the image are not known."""
        known = self.calibration.words.prior if self.calibration and self.calibration.words else {}
        if regions.colours is None or regions.whole is None or word not in USUAL or word not in known:
            return None
        similarity = self.rank(regions, [[one for one in phrase if one != word]]).similarity[0].cpu()
        p = word_probabilities(regions.whole, len(known))[0, list(known).index(word)]
        weights = (similarity / TEMPERATURE).softmax(-1)
        return has_colour(regions.colours[0, : len(weights)].cpu(), weights, word, float(p), known[word])

    def add_evidence(self, captions: Sequence[GroundedCaption], features: RegionFeatures) -> list[GroundedCaption]:
        """The same captions of B images, each link with its evidence: how likely its noun, alone, is there."""
        nouns = [(i, word) for i, caption in enumerate(captions) for word in dict.fromkeys(map(caption.word, caption))]
        known = [(i, word) for i, word in nouns if word in self.model.vocab]
        if self.calibration is None or not known:
            return list(captions)
        image = torch.tensor([i for i, _ in known], device=self.device)
        scores = self.similarity(features, image, [[word] for _, word in known])
        whole = None if features.whole is None else features.whole[image]
        evidence = dict(zip(known, self.evidence([word for _, word in known], scores, whole), strict=True))
        return [
            replace(
                caption,
                links=tuple(replace(link, evidence=evidence.get((i, caption.word(link)))) for link in caption.links),
            )
            for i, caption in enumerate(captions)
        ]

    def _ids(self, phrases: Sequence[Sequence[str]]) -> Tensor:
        rows = [self.model.vocab.encode([self._known(word) for word in phrase]) or [UNK] for phrase in phrases]
        longest = max(map(len, rows), default=0)
        return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows], device=self.device)

    def _unknown(self, phrase: Sequence[str]) -> tuple[str, ...]:
        return tuple(word for word in phrase if self._known(word) not in self.model.vocab)

    def _known(self, word: str) -> str:
        """The word, or its singular where the model knows only that."""
        if word in self.model.vocab:
            return word
        singular = wordnet().base(word)
        return singular if singular is not None and singular in self.model.vocab else word


def best_similarity(similarity: Tensor) -> Tensor:
    """(P, R) -> (P,): how well the best region fits, −1 where there is none; what evidence is calibrated on."""
    return F.pad(similarity, (0, 1), value=-1.0).amax(-1)


def load_grounder(path: str | Path = "", device: str = "cpu") -> PhraseGrounder:
    """Load a grounder of phrases, with its calibration, if it has one.

    path: the folder that `groundling train two_branch --out` wrote. Without it, the grounder of the package.
    device: cpu, cuda or mps.
    """
    where = device_of(device)
    folder = model_folder(path, GROUNDER)
    model = load(folder)
    model.parts.to(where)
    grounder = PhraseGrounder(model, read_calibration(folder), where)
    _ = grounder.matcher
    return grounder


def _asked(sentences: Sequence[str], phrases: Sequence[str]) -> list[list[NounPhrase]]:
    """What is looked for in each of several images: these phrases, or the noun phrases of its sentence."""
    if phrases:
        return [_given(sentence, phrases) for sentence in sentences]
    asked = noun_phrases(sentences)
    if empty := next((sentence for sentence, parts in zip(sentences, asked, strict=True) if not parts), None):
        raise GroundlingError(f"no noun phrase in {empty!r}: name what to look for (--phrase)")
    if not all(asked):
        raise GroundlingError("there is no sentence: name what to look for (--phrase)")
    return asked


def _given(sentence: str, phrases: Sequence[str]) -> list[NounPhrase]:
    """Phrases as they are given; their characters where the sentence has them, else (0, 0)."""
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
    return GroundedCaption("", " ".join(tokens), tuple(tokens), spans, tuple(links))


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
    return GroundedCaption(id, " · ".join(tokens), tokens, spans, links, media=media, size=size)
