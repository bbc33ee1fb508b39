"""What users call: the captioner, the phrase grounder, and the functions that load them."""

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
