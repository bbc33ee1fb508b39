"""Caption metrics called as those of `pycocoevalcap` are, without Java: change the import and nothing else.

    from groundling.metrics.coco_style import Bleu, Cider, COCOEvalCap, Meteor, PTBTokenizer, Rouge

    score, scores = Cider().compute_score(gts, res)  # {id: [caption, …]}, {id: [caption]}, both tokenised
    evaluation = COCOEvalCap(coco, coco_results)  # of pycocotools
    evaluation.evaluate()
    evaluation.eval["CIDEr"]

As there, "CIDEr" is CIDEr-D, and values are on the scale of the original. Unlike there, nothing is printed, and SPICE
is computed only where it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groundling.errors import DataError
from groundling.metrics.captions import METRICS, Captions
from groundling.metrics.statistics import Statistics
from groundling.text.ptb import END, cut, token_text

Texts = Mapping[Any, Sequence[str]]
Floats = NDArray[np.float64]


class PTBTokenizer:
    """Tokens as the Stanford PTBTokenizer 3.4.1 makes them."""

    def tokenize(self, captions_for_image: Mapping[Any, Sequence[Mapping[str, str]]]) -> dict[Any, list[str]]:
        """{id: [{"caption": text}, …]} -> {id: [tokens joined by spaces, …]}."""
        return {id: [token_text(row["caption"]) for row in rows] for id, rows in captions_for_image.items()}


class Bleu:
    """BLEU-1 to BLEU-n."""

    def __init__(self, n: int = 4) -> None:
        if not 1 <= n <= 4:
            raise ValueError(f"n is from 1 to 4, got {n}")
        self.n = n

    def compute_score(self, gts: Texts, res: Texts, verbose: int = 0) -> tuple[list[float], list[list[float]]]:
        """One score for each order, and for each order the scores of the images."""
        statistics = _statistics("bleu", gts, res)[: self.n]
        return [one.score().value for one in statistics], [one.per_item().tolist() for one in statistics]

    def method(self) -> str:
        return "Bleu"


class Rouge:
    """ROUGE-L."""

    def compute_score(self, gts: Texts, res: Texts) -> tuple[float, Floats]:
        return _mean("rouge", gts, res)

    def method(self) -> str:
        return "Rouge"


class Cider:
    """CIDEr-D, which pycocoevalcap calls CIDEr; document frequencies are those of `gts`."""

    def compute_score(self, gts: Texts, res: Texts) -> tuple[float, Floats]:
        return _mean("cider-d", gts, res)

    def method(self) -> str:
        return "CIDEr"


class Meteor:
    """METEOR 1.5; needs the word lists of `groundling[score]`."""

    def compute_score(self, gts: Texts, res: Texts) -> tuple[float, list[float]]:
        score, scores = _mean("meteor", gts, res)
        return score, scores.tolist()

    def method(self) -> str:
        return "METEOR"


class Spice:
    """SPICE by its jar; needs Java and files that no package carries: see docs/spice.md.

    As in the original, the scores of an image are a dictionary; of its categories only {"All": {"f": score}} is there.
    """

    def compute_score(self, gts: Texts, res: Texts) -> tuple[float, list[dict[str, dict[str, float]]]]:
        score, scores = _mean("spice", gts, res)
        return score, [{"All": {"f": value}} for value in scores.tolist()]

    def method(self) -> str:
        return "SPICE"


SCORERS: dict[str, Any] = {"Bleu": Bleu, "METEOR": Meteor, "ROUGE_L": Rouge, "CIDEr": Cider, "SPICE": Spice}


class COCOEvalCap:
    """Results against references, both `pycocotools.coco.COCO`.

    `metrics` are of Bleu, METEOR, ROUGE_L, CIDEr, SPICE. To score some images only, set `params["image_id"]`.
    After `evaluate()`: `eval` {name: score}, `imgToEval` {id: {name: score}}, `evalImgs` the rows of the latter.
    """

    def __init__(
        self, coco: Any, coco_results: Any, metrics: Sequence[str] = ("Bleu", "METEOR", "ROUGE_L", "CIDEr")
    ) -> None:
        for name in metrics:
            if name not in SCORERS:
                raise ValueError(f"unknown metric {name!r}; there are {', '.join(SCORERS)}")
        self.coco, self.cocoRes, self.metrics = coco, coco_results, tuple(metrics)
        self.params: dict[str, Any] = {"image_id": coco.getImgIds()}
        self.eval: dict[str, float] = {}
        self.imgToEval: dict[Any, dict[str, Any]] = {}
        self.evalImgs: list[dict[str, Any]] = []

    def evaluate(self) -> None:
        ids = list(self.params["image_id"])
        tokenizer = PTBTokenizer()
        gts = tokenizer.tokenize({id: self.coco.imgToAnns[id] for id in ids})
        res = tokenizer.tokenize({id: self.cocoRes.imgToAnns[id] for id in ids})
        self.imgToEval = {id: {"image_id": id} for id in ids}
        for name in self.metrics:
            score, scores = SCORERS[name]().compute_score(gts, res)
            if name == "Bleu":
                for order, (one, each) in enumerate(zip(score, scores, strict=True), start=1):
                    self._keep(f"Bleu_{order}", one, ids, each)
            else:
                self._keep(name, score, ids, scores)
        self.evalImgs = list(self.imgToEval.values())

    def _keep(self, name: str, score: float, ids: Sequence[Any], scores: Sequence[Any]) -> None:
        self.eval[name] = score
        for id, value in zip(ids, scores, strict=True):
            self.imgToEval[id][name] = value if isinstance(value, dict) else float(value)


def _mean(metric: str, gts: Texts, res: Texts) -> tuple[float, Floats]:
    [statistics] = _statistics(metric, gts, res)
    return statistics.score().value, np.asarray(statistics.per_item(), np.float64)


def _statistics(metric: str, gts: Texts, res: Texts) -> list[Statistics]:
    """Of tokenised texts, in the order of `gts`."""
    if gts.keys() != res.keys():
        odd = next(iter(gts.keys() ^ res.keys()))
        raise DataError(f"image {odd!r} has a caption or references, but not both")
    for id, captions in res.items():
        if isinstance(captions, str) or len(captions) != 1:
            raise DataError(f"image {id!r}: res holds a list of one caption for each image")
        if isinstance(gts[id], str) or not gts[id]:
            raise DataError(f"image {id!r}: gts holds a list of one or more references for each image")
    if not res:
        raise DataError("there are no captions to score")
    texts = [*(res[id][0] for id in gts), *(text for captions in gts.values() for text in captions)]
    pieces = cut([text.replace(END, "\r") for text in texts])
    corpus = Captions(tuple(map(str, gts)), pieces, tuple(map(len, gts.values())), len(gts))
    return list(METRICS[metric](corpus))
