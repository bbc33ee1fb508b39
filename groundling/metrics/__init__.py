"""Scores of captions and of their grounding: strings and boxes in, numbers with signatures out. No torch.

The names below are imported when they are first used, so that one metric costs only itself.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from groundling.metrics.caption_files import read_predictions as read_predictions
    from groundling.metrics.caption_files import read_references as read_references
    from groundling.metrics.captions import document_frequency as document_frequency
    from groundling.metrics.captions import score_captions as score_captions
    from groundling.metrics.chair import read_synonyms as read_synonyms
    from groundling.metrics.chair import score_chair as score_chair
    from groundling.metrics.cider import DocumentFrequency as DocumentFrequency
    from groundling.metrics.classification import Proposals as Proposals
    from groundling.metrics.classification import region_classification as region_classification
    from groundling.metrics.coco_style import Bleu as Bleu
    from groundling.metrics.coco_style import Cider as Cider
    from groundling.metrics.coco_style import COCOEvalCap as COCOEvalCap
    from groundling.metrics.coco_style import Meteor as Meteor
    from groundling.metrics.coco_style import PTBTokenizer as PTBTokenizer
    from groundling.metrics.coco_style import Rouge as Rouge
    from groundling.metrics.coco_style import Spice as Spice
    from groundling.metrics.diversity import score_diversity as score_diversity
    from groundling.metrics.diversity import self_retrieval as self_retrieval
    from groundling.metrics.evaluation import Evaluation as Evaluation
    from groundling.metrics.evaluation import evaluate as evaluate
    from groundling.metrics.grounding_image import flickr30k_entities as flickr30k_entities
    from groundling.metrics.grounding_video import activitynet_entities as activitynet_entities
    from groundling.metrics.phrases import localise as localise
    from groundling.metrics.phrases import read_queries as read_queries
    from groundling.metrics.predictions import read_captions as read_captions
    from groundling.metrics.retrieval import score_retrieval as score_retrieval
    from groundling.metrics.reward import CiderReward as CiderReward
    from groundling.metrics.significance import compare as compare
    from groundling.metrics.significance import intervals as intervals
    from groundling.text.ptb import tokenize as tokenize

_HOME = {
    "read_predictions": "metrics.caption_files",
    "read_references": "metrics.caption_files",
    "document_frequency": "metrics.captions",
    "score_captions": "metrics.captions",
    "read_synonyms": "metrics.chair",
    "score_chair": "metrics.chair",
    "DocumentFrequency": "metrics.cider",
    "Proposals": "metrics.classification",
    "region_classification": "metrics.classification",
    "Bleu": "metrics.coco_style",
    "COCOEvalCap": "metrics.coco_style",
    "Cider": "metrics.coco_style",
    "Meteor": "metrics.coco_style",
    "PTBTokenizer": "metrics.coco_style",
    "Rouge": "metrics.coco_style",
    "Spice": "metrics.coco_style",
    "score_diversity": "metrics.diversity",
    "self_retrieval": "metrics.diversity",
    "Evaluation": "metrics.evaluation",
    "evaluate": "metrics.evaluation",
    "flickr30k_entities": "metrics.grounding_image",
    "activitynet_entities": "metrics.grounding_video",
    "localise": "metrics.phrases",
    "read_queries": "metrics.phrases",
    "read_captions": "metrics.predictions",
    "score_retrieval": "metrics.retrieval",
    "CiderReward": "metrics.reward",
    "compare": "metrics.significance",
    "intervals": "metrics.significance",
    "tokenize": "text.ptb",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"groundling.{_HOME[name]}"), name)
