"""Scores of captions and of their grounding: strings and boxes in, numbers with signatures out. No torch.

The names below are imported when they are first used, so that one metric costs only itself.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from groundling.metrics.captions import document_frequency as document_frequency
    from groundling.metrics.captions import score_captions as score_captions
    from groundling.metrics.evaluation import Evaluation as Evaluation
    from groundling.metrics.evaluation import evaluate as evaluate
    from groundling.metrics.grounding_image import flickr30k_entities as flickr30k_entities
    from groundling.metrics.grounding_video import activitynet_entities as activitynet_entities
    from groundling.metrics.phrases import localise as localise
    from groundling.metrics.predictions import read_captions as read_captions
    from groundling.metrics.significance import compare as compare
    from groundling.metrics.significance import intervals as intervals

_HOME = {
    "document_frequency": "captions",
    "score_captions": "captions",
    "Evaluation": "evaluation",
    "evaluate": "evaluation",
    "flickr30k_entities": "grounding_image",
    "activitynet_entities": "grounding_video",
    "localise": "phrases",
    "read_captions": "predictions",
    "compare": "significance",
    "intervals": "significance",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
