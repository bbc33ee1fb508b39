"""Our metrics where other packages are called: beside the originals, with the real packages."""

from __future__ import annotations

import gzip
import json
import shutil
import sys
import zipfile
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
METRICS = ("bleu", "rouge", "cider-d", "meteor")


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


FEW = IDS[:6]  # the jar reads its paraphrases anew for each process
JAVA = pytest.mark.java
NEEDED_JAVA = pytest.mark.skipif(shutil.which("java") is None, reason="no Java here")


@JAVA
@NEEDED_JAVA
def test_meteor_gives_what_the_original_gives_by_its_jar() -> None:
    original = pytest.importorskip("pycocoevalcap.meteor.meteor").Meteor()
    gts, res = {id: GTS[id] for id in FEW}, {id: RES[id] for id in FEW}
    score, scores = coco_style.Meteor().compute_score(gts, res)
    try:
        theirs, each = original.compute_score(gts, res)
    finally:
        original.meteor_p.stdin.close()
        original.meteor_p.wait(timeout=60)
        original.meteor_p.stdout.close()
        original.meteor_p.stderr.close()
    assert score == pytest.approx(theirs, abs=1e-6)
    assert isinstance(scores, list) and scores == pytest.approx(each, abs=1e-6)


@JAVA
@NEEDED_JAVA
def test_tokens_are_those_of_the_original_by_its_jar() -> None:
    original = pytest.importorskip("pycocoevalcap.tokenizer.ptbtokenizer").PTBTokenizer()
    rows = {id: RAW[id] for id in FEW}
    assert coco_style.PTBTokenizer().tokenize(rows) == original.tokenize(rows)


@pytest.fixture
def spice_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `java` that answers both callers as SPICE's jar would: its parser's models are not to be had from packages."""
    from groundling.metrics.spice import NEEDED, SETTING

    (tmp_path / "jars").mkdir()
    for name, resource in NEEDED.items():
        with zipfile.ZipFile(tmp_path / "jars" / name, "w") as jar:
            jar.writestr(resource, b"")
    script = tmp_path / "bin" / "java"
    script.parent.mkdir()
    script.write_text(
        f"""#!{sys.executable}
import json, sys
asked, answer = sys.argv[-2:]
if "-out" in sys.argv:  # the original
    asked, answer = sys.argv[sys.argv.index("-cache") - 1], sys.argv[sys.argv.index("-out") + 1]
rows = json.load(open(asked))
def f(row):
    return len(set(row["test"].split()) & set(row["refs"][0].split())) / 10
scores = [{{"image_id": row["image_id"], "scores": {{"All": {{"f": f(row)}}}}}} for row in rows]
json.dump(scores, open(answer, "w"))
"""
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(script.parent))
    monkeypatch.setenv(SETTING, str(tmp_path / "jars" / "stanford-corenlp-3.6.0-models.jar"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_spice_has_the_form_of_the_original(spice_jar: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given the same answers of the jar, in another order than that of the ids."""
    module = pytest.importorskip("pycocoevalcap.spice.spice")
    monkeypatch.setattr(module, "TEMP_DIR", str(tmp_path / "temp"))
    monkeypatch.setattr(module, "CACHE_DIR", str(tmp_path / "their cache"))
    gts, res = {id: GTS[id] for id in sorted(FEW)}, {id: RES[id] for id in sorted(FEW)}
    theirs, each = module.Spice.__new__(module.Spice).compute_score(gts, res)  # its constructor fetches the models
    score, scores = coco_style.Spice().compute_score(gts, res)
    assert 0 < score == pytest.approx(theirs) and scores == each
    made = coco_style.COCOEvalCap(coco_of(RAW), coco_of({id: [{"caption": RES[id][0]}] for id in IDS}), ["SPICE"])
    made.params["image_id"] = FEW
    made.evaluate()
    assert made.imgToEval[FEW[0]]["SPICE"].keys() == {"All"}
    assert made.eval["SPICE"] == pytest.approx(np.mean([row["SPICE"]["All"]["f"] for row in made.evalImgs]))


def coco_of(texts: dict[Any, list[dict[str, str]]]) -> Any:
    rows = [{"image_id": id, "caption": row["caption"]} for id in IDS for row in texts[id]]
    return coco([row | {"id": n} for n, row in enumerate(rows)])


def coco(rows: list[dict[str, Any]]) -> Any:
    COCO = pytest.importorskip("pycocotools.coco").COCO
    made = COCO()
    made.dataset = {"images": [{"id": id} for id in IDS], "annotations": rows}
    made.createIndex()
    return made


def test_coco_eval_cap_reads_pycocotools_and_has_the_fields_of_the_original(capsys: pytest.CaptureFixture[str]) -> None:
    captions = {id: [{"caption": text}] for id, text in zip(IDS, VECTORS["hypotheses"], strict=False)}
    made = coco_style.COCOEvalCap(coco_of(RAW), coco_of(captions), metrics=("Bleu", "ROUGE_L", "CIDEr"))
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
