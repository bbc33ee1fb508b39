"""How words are chosen, as users say it: by a beam, or at random. `decoding` does it, and for arrays `choosing`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from groundling.errors import GroundlingError

if TYPE_CHECKING:
    from torch import Tensor

    from groundling.decoding import Constraints
    from groundling.tensors import Captioner, Decoding, EncodedImage
    from groundling.types import Vocab

LENGTH_PENALTY = 0.9  # Σ log p alone prefers short captions; chosen on validation photos: docs/weights.md
EVIDENCE_WEIGHT = 0.0  # more takes away made-up nouns, and costs BLEU-4: see the model card
CONJUNCTION = "and"
FIRST_PARTS = frozenset(  # nouns that another noun follows in four of five places or more of COCO's training captions
    ("baseball", "birthday", "brick", "cell", "christmas", "cutting", "decker", "dining", "hotel", "living", "metal")
    + ("motor", "parking", "passenger", "police", "school", "silver", "skate", "ski", "steel", "stone", "style", "surf")
    + ("teddy", "tennis", "video")
)


def said_once(vocab: Vocab) -> tuple[bool, ...]:
    """The words that a caption has once: nouns, but those that name a thing only with the next ("a tennis court")."""
    return tuple(noun and word not in FIRST_PARTS for word, noun in zip(vocab.words, vocab.nouns, strict=True))


@dataclass(frozen=True)
class BeamSearch:
    """The likeliest caption that a beam finds; a beam of 1 takes the likeliest word at every step (greedy).

    Captions are compared by (Σ log p(word) + evidence_weight · Σ log evidence(noun)) / tokens^length_penalty. The
    evidence of a noun is the probability, by a calibrated grounder beside the captioner, that it is in the image. Of
    nouns that fit the sentence equally well, the one that is there is chosen. While words are chosen, evidence is the
    calibrated similarity alone; that of links also weighs the image vector.
    """

    beam: int = 3  # captions that are followed at a time
    length_penalty: float = LENGTH_PENALTY  # 0: Σ log p alone
    no_repeat: int = 2  # no n-gram of this size twice, no word twice in a row nor around "and"; 0 allows all
    min_length: int = 0  # words
    repeat_nouns: bool = (
        False  # may a caption have a noun twice that is not of FIRST_PARTS? One in twenty of people's has
    )
    evidence_weight: float = EVIDENCE_WEIGHT  # 0: the captioner alone chooses

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise GroundlingError(f"the beam must be 1 or more, got {self.beam}")
        if min(self.length_penalty, self.no_repeat, self.min_length) < 0:
            raise GroundlingError("length_penalty, no_repeat and min_length must be 0 or more")
        _check_evidence_weight(self.evidence_weight)

    def decode(
        self, captioner: Captioner, encoded: EncodedImage, length: int, constraints: Constraints | None = None
    ) -> Decoding:
        """One caption of at most `length` tokens for each row of `encoded`."""
        from groundling.decoding import UNCONSTRAINED, beam, greedy

        known = constraints or UNCONSTRAINED
        bias, once = _bias(self.evidence_weight, known.log_evidence), None if self.repeat_nouns else known.once
        if self.beam == 1 and once is None and not (self.no_repeat or self.min_length):
            return greedy(captioner, encoded, length, bias)
        return beam(
            captioner,
            encoded,
            length,
            width=self.beam,
            length_penalty=self.length_penalty,
            no_repeat=self.no_repeat,
            min_length=self.min_length,
            once=once,
            conjunction=known.conjunction,
            bias=bias,
        )


@dataclass(frozen=True)
class Sampling:
    """Every word drawn at random, as likely as the model finds it. The same seed and images give the same words.

    Words are drawn from (p · evidence^evidence_weight)^(1/temperature), see `BeamSearch`.
    """

    temperature: float = 1.0
    top_k: int = 0  # among so many likeliest words; 0: all
    top_p: float = 1.0  # among the fewest words that have this probability together
    seed: int = 0
    evidence_weight: float = EVIDENCE_WEIGHT  # 0: the captioner alone chooses

    def __post_init__(self) -> None:
        if self.temperature <= 0 or self.top_k < 0 or not 0 < self.top_p <= 1:
            raise GroundlingError("temperature must be above 0, top_k 0 or more, top_p above 0 and at most 1")
        _check_evidence_weight(self.evidence_weight)

    def decode(
        self, captioner: Captioner, encoded: EncodedImage, length: int, constraints: Constraints | None = None
    ) -> Decoding:
        """One caption of at most `length` tokens for each row of `encoded`. Nouns may be drawn twice."""
        import torch

        from groundling.decoding import UNCONSTRAINED, sample

        generator = torch.Generator(encoded.row.device).manual_seed(self.seed)
        return sample(
            captioner,
            encoded,
            length,
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            generator=generator,
            bias=_bias(self.evidence_weight, (constraints or UNCONSTRAINED).log_evidence),
        )


def _check_evidence_weight(weight: float) -> None:
    if not 0 <= weight < math.inf:
        raise GroundlingError(f"evidence_weight must be 0 or more, got {weight}")


def _bias(weight: float, log_evidence: Tensor | None) -> Tensor | None:
    return weight * log_evidence if weight and log_evidence is not None else None


DecodingSettings = BeamSearch | Sampling
DEFAULT, GREEDY = BeamSearch(), BeamSearch(beam=1)
