"""Caption metrics for `torchmetrics`: `update` with captions and references, `compute` at the end.

    from groundling.metrics.torch_metrics import CaptionScores

    metric = CaptionScores(metrics=("bleu", "cider-d"))
    metric.update(["a dog runs"], [["a dog is running", "the dog runs"]])
    metric.compute()  # {"BLEU-1": tensor(…), "CIDEr-D": tensor(…)}

Captions are kept as bytes in tensors, so that several processes gather them as they do the states of other metrics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from groundling.errors import MissingExtra
from groundling.metrics.captions import DEFAULT, score_captions

try:
    import torch
    from torch import Tensor
    from torchmetrics import Metric
    from torchmetrics.utilities import dim_zero_cat
except ImportError as error:
    raise MissingExtra("this adapter needs torchmetrics: pip install torchmetrics") from error


class CaptionScores(Metric):  # type: ignore[misc]  # its package is not checked
    """Raw captions against raw references, tokenised as the official COCO scripts do.

    `metrics`: of bleu, rouge, cider, cider-d, meteor, spice. Other arguments are those of `torchmetrics.Metric`.
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False
    content: list[Tensor]
    lengths: list[Tensor]
    counts: list[Tensor]

    def __init__(self, metrics: Sequence[str] = DEFAULT, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.metrics = tuple(metrics)
        self.add_state("content", [], dist_reduce_fx="cat")  # bytes of all texts, one behind the other
        self.add_state("lengths", [], dist_reduce_fx="cat")  # bytes of each text
        self.add_state("counts", [], dist_reduce_fx="cat")  # texts of each image: its caption, then its references

    def update(self, preds: Sequence[str], target: Sequence[Sequence[str]]) -> None:
        """Captions of some images, and the references of each."""
        if len(preds) != len(target):
            raise ValueError(f"{len(preds)} captions, but references of {len(target)} images")
        texts = [[caption, *references] for caption, references in zip(preds, target, strict=True)]
        coded = [text.encode() for one in texts for text in one]
        self.content.append(torch.tensor(list(b"".join(coded)), dtype=torch.uint8, device=self.device))
        self.lengths.append(torch.tensor([len(one) for one in coded], dtype=torch.int64, device=self.device))
        self.counts.append(torch.tensor([len(one) for one in texts], dtype=torch.int64, device=self.device))

    def compute(self) -> dict[str, Tensor]:
        content = bytes(dim_zero_cat(self.content).cpu().tolist())
        texts, start = [], 0
        for length in dim_zero_cat(self.lengths).tolist():
            texts.append(content[start : start + length].decode())
            start += length
        pred: dict[str, str] = {}
        refs: dict[str, list[str]] = {}
        left = iter(texts)
        for number, count in enumerate(dim_zero_cat(self.counts).tolist()):
            pred[str(number)] = next(left)
            refs[str(number)] = [next(left) for _ in range(count - 1)]
        statistics = score_captions(pred, refs, self.metrics)
        return {one.name: torch.tensor(one.score().value, dtype=torch.float64) for one in statistics}
