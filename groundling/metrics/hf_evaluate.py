"""Caption metrics for Hugging Face `evaluate`: a metric class that is not downloaded.

from groundling.metrics.hf_evaluate import CaptionScores

metric = CaptionScores(metrics=("bleu", "cider-d"))
metric.add_batch(predictions=["a dog runs"], references=[["a dog is running", "the dog runs"]])
metric.compute()  # {"BLEU-1": …, "CIDEr-D": …}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from groundling.errors import MissingExtra
from groundling.metrics.captions import DEFAULT, score_captions

try:
    import datasets
    import evaluate
except ImportError as error:
    raise MissingExtra("this adapter needs evaluate: pip install evaluate") from error

DESCRIPTION = "BLEU, ROUGE-L, CIDEr, CIDEr-D, METEOR 1.5: equal to the official COCO scripts, without Java."


class CaptionScores(evaluate.Metric):  # type: ignore[misc]  # its package is not checked
    """Raw captions against raw references, tokenised as the official scripts do.

    `metrics`: of bleu, rouge, cider, cider-d, meteor, spice. Other arguments are those of `evaluate.Metric`.
    """

    def __init__(self, *args: Any, metrics: Sequence[str] = DEFAULT, **kwargs: Any) -> None:
        self.metrics = tuple(metrics)
        super().__init__(*args, **kwargs)

    def _info(self) -> Any:
        texts = datasets.Value("string")
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation="",
            inputs_description="predictions: a caption for each image; references: a list of captions for each image",
            features=datasets.Features({"predictions": texts, "references": datasets.Sequence(texts)}),
        )

    def _compute(self, predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
        ids = [str(number) for number in range(len(predictions))]
        statistics = score_captions(
            dict(zip(ids, predictions, strict=True)), dict(zip(ids, map(list, references), strict=True)), self.metrics
        )
        return {one.name: one.score().value for one in statistics}
