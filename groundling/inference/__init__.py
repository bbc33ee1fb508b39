"""What users call: a captioner that points, a grounder of phrases, and how to load them."""

from groundling.decoding import GREEDY, BeamSearch, DecodingSettings, Sampling
from groundling.inference.captioner import GROUNDER_WEIGHT, GroundedCaptioner, load
from groundling.inference.grounder import GroundedPhrase, PhraseGrounder, load_grounder

__all__ = [
    "GREEDY",
    "GROUNDER_WEIGHT",
    "BeamSearch",
    "DecodingSettings",
    "GroundedCaptioner",
    "GroundedPhrase",
    "PhraseGrounder",
    "Sampling",
    "load",
    "load_grounder",
]
