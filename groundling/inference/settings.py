"""How the words of a caption are chosen: `BeamSearch`, of which greedy decoding is the narrowest, or `Sampling`."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from groundling import decoding
from groundling.errors import GroundlingError
from groundling.tensors import Captioner, Decoding, EncodedImage


@dataclass(frozen=True)
class BeamSearch:
    """The likeliest caption that a beam finds; a beam of 1 takes the likeliest word at every step (greedy)."""

    beam: int = 1
    length_penalty: float = 0.0  # captions are compared by Σ logp / tokens^length_penalty
    no_repeat: int = 2  # no n-gram of this size twice and no word twice in a row; 0 allows all
    min_length: int = 0  # words

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise GroundlingError(f"the beam must be 1 or more, got {self.beam}")
        if min(self.length_penalty, self.no_repeat, self.min_length) < 0:
            raise GroundlingError("length_penalty, no_repeat and min_length must be 0 or more")

    def __call__(self, captioner: Captioner, encoded: EncodedImage, length: int) -> Decoding:
        if self.beam == 1 and not (self.no_repeat or self.min_length):
            return decoding.greedy(captioner, encoded, length)
        return decoding.beam(
            captioner,
            encoded,
            length,
            width=self.beam,
            length_penalty=self.length_penalty,
            no_repeat=self.no_repeat,
            min_length=self.min_length,
        )


@dataclass(frozen=True)
class Sampling:
    """Every word drawn at random, as likely as the model finds it. The same seed and images give the same words."""

    temperature: float = 1.0  # words are drawn from p^(1/temperature)
    top_k: int = 0  # among so many likeliest words; 0: all
    top_p: float = 1.0  # among the fewest words that have this probability together
    seed: int = 0

    def __post_init__(self) -> None:
        if self.temperature <= 0 or self.top_k < 0 or not 0 < self.top_p <= 1:
            raise GroundlingError("temperature must be above 0, top_k 0 or more, top_p above 0 and at most 1")

    def __call__(self, captioner: Captioner, encoded: EncodedImage, length: int) -> Decoding:
        generator = torch.Generator(encoded.row.device).manual_seed(self.seed)
        return decoding.sample(
            captioner,
            encoded,
            length,
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            generator=generator,
        )


DecodingSettings = BeamSearch | Sampling
GREEDY = BeamSearch()
