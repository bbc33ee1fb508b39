"""Our metrics where other packages are called: beside the originals, with the real packages."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from groundling.errors import DataError
from groundling.metrics import coco_style
from groundling.metrics.captions import score_captions

VECTORS = json.loads(gzip.decompress((Path(__file__).parent.parent / "vectors" / "captions_s.json.gz").read_bytes()))
N = 40
IDS = VECTORS["ids"][:N]
GTS = dict(zip(IDS, VECTORS["tokenised_references"][:N], strict=True))
RES = {id: [text] for id, text in zip(IDS, VECTORS["tokenised_hypotheses"][:N], strict=True)}
RAW = {id: [{"caption": text} for text in texts] for id, texts in zip(IDS, VECTORS["references"][:N], strict=True)}
METRICS = ("bleu", "rouge", "cider-d")


@pytest.mark.parametrize("name", ["Cider", "Rouge"])
def test_compute_score_gives_what_the_original_gives(name: str) -> None:
    module = pytest.importorskip(f"pycocoevalcap.{name.lower()}.{name.lower()}")
    score, scores = getattr(coco_style, name)().compute_score(GTS, RES)
    theirs, each = getattr(module, name)().compute_score(GTS, RES)
    assert score == pytest.approx(theirs, abs=1e-9)
    np.testing.assert_allclose(scores, each, atol=1e-9)


def test_bleu_gives_what_the_original_gives_for_every_order() -> None:
    original = pytest.importorskip("pycocoevalcap.bleu.bleu").Bleu(4)
    score, scores = coco_style.Bleu(4).compute_score(GTS, RES)
    theirs, each = original.compute_score(GTS, RES, verbose=0)
    np.testing.assert_allclose(score, theirs, atol=1e-9)
    np.testing.assert_allclose(scores, each, atol=1e-9)


def coco(rows: list[dict[str, Any]]) -> Any:
    COCO = pytest.importorskip("pycocotools.coco").COCO
    made = COCO()
    made.dataset = {"images": [{"id": id} for id in IDS], "annotations": rows}
    made.createIndex()
    return made


def test_coco_eval_cap_reads_pycocotools_and_has_the_fields_of_the_original(capsys: pytest.CaptureFixture[str]) -> None:
    refs = [{"id": n, "image_id": id, "caption": row["caption"]} for id in IDS for n, row in enumerate(RAW[id])]
    refs = [row | {"id": n} for n, row in enumerate(refs)]
    pred = [
        {"id": n, "image_id": id, "caption": text}
        for n, (id, text) in enumerate(zip(IDS, VECTORS["hypotheses"], strict=False))
    ]
    made = coco_style.COCOEvalCap(coco(refs), coco(pred), metrics=("Bleu", "ROUGE_L", "CIDEr"))
    capsys.readouterr()
    made.evaluate()
    assert capsys.readouterr().out == ""
    assert list(made.eval) == ["Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4", "ROUGE_L", "CIDEr"]
    assert made.eval["CIDEr"] == pytest.approx(coco_style.Cider().compute_score(GTS, RES)[0], abs=1e-9)
    assert made.imgToEval[IDS[3]]["image_id"] == IDS[3] and len(made.evalImgs) == N
    assert np.mean([row["ROUGE_L"] for row in made.evalImgs]) == pytest.approx(made.eval["ROUGE_L"], abs=1e-9)
    made.params["image_id"] = IDS[:5]
    made.evaluate()
    assert [row["image_id"] for row in made.evalImgs] == IDS[:5]


@pytest.mark.parametrize(
    ("gts", "res", "message"),
    [
        ({1: ["a"]}, {2: ["a"]}, "not both"),
        ({1: ["a"]}, {1: ["a", "b"]}, "a list of one caption"),
        ({1: ["a"]}, {1: "a"}, "a list of one caption"),
        ({1: []}, {1: ["a"]}, "one or more references"),
        ({}, {}, "no captions"),
    ],
)
def test_what_cannot_be_scored_is_told(gts: Any, res: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        coco_style.Cider().compute_score(gts, res)


def expected() -> dict[str, float]:
    pred = dict(zip(IDS, VECTORS["hypotheses"], strict=False))
    refs = {id: [row["caption"] for row in rows] for id, rows in RAW.items()}
    return {one.name: one.score().value for one in score_captions(pred, refs, METRICS)}


def test_evaluate_collects_batches_and_computes(tmp_path: Path) -> None:
    pytest.importorskip("evaluate")
    from groundling.metrics.hf_evaluate import CaptionScores

    metric = CaptionScores(metrics=METRICS, cache_dir=str(tmp_path))
    references = [[row["caption"] for row in RAW[id]] for id in IDS]
    for start in range(0, N, 16):
        some = slice(start, min(N, start + 16))
        metric.add_batch(predictions=VECTORS["hypotheses"][some], references=references[some])
    assert metric.compute() == pytest.approx(expected())


def test_torchmetrics_updates_computes_and_resets() -> None:
    pytest.importorskip("torchmetrics")
    from groundling.metrics.torch_metrics import CaptionScores

    metric = CaptionScores(metrics=METRICS)
    references = [[row["caption"] for row in RAW[id]] for id in IDS]
    for start in range(0, N, 16):
        some = slice(start, min(N, start + 16))
        metric.update(VECTORS["hypotheses"][some], references[some])
    assert {name: float(value) for name, value in metric.compute().items()} == pytest.approx(expected())
    metric.reset()
    metric.update(["a café by the sea"], [["a café by the sea"]])
    assert float(metric.compute()["BLEU-4"]) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="1 captions, but references of 2"):
        metric.update(["a"], [["a"], ["b"]])
