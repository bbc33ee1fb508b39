"""`groundling tokenize`, `groundling df` and `score captions`: command line in, text and files out."""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from groundling.cli import main
from groundling.commands import score_captions
from groundling.errors import DataError

VECTORS = Path(__file__).parent.parent / "vectors"


def groundling(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "groundling", *arguments], input=given, capture_output=True)


def load(name: str) -> Any:
    return json.loads(gzip.decompress((VECTORS / f"{name}.json.gz").read_bytes()))


def test_every_line_in_is_a_line_out() -> None:
    lines = ["A man's dog.", "", "...", "a\rb\x0bc\x0cd\u2028e\u2029f\x85g", "🐶", "(x)"]
    result = groundling("tokenize", given="\n".join(lines).encode() + b"\n\xff\xfe a\n")
    assert result.returncode == 0, result.stderr
    assert result.stdout.decode().split("\n") == ["a man 's dog", "", "", "a b c d e f g", "", "-lrb- x -rrb-", "a", ""]


def test_vectors_through_json_lines() -> None:
    cases = load("ptb_tokenizer")["cases"]
    given = "".join(json.dumps(case["text"]) + "\n" for case in cases)
    result = groundling("tokenize", "--jsonl", given=given.encode())
    got = [" ".join(json.loads(line)) for line in result.stdout.decode().splitlines()]
    assert got == [case["tokens"] for case in cases]


def test_files_are_read_in_turn(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").write_text("One dog")
    (tmp_path / "b").write_text("Two dogs\n")
    assert main(["tokenize", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert capfd.readouterr().out == "one dog\ntwo dogs\n"


@pytest.mark.parametrize(("line", "message"), [("nonsense", "line 1: not JSON"), ("[1]", "expected a JSON string")])
def test_lines_that_are_not_json_strings_are_told(line: str, message: str) -> None:
    result = groundling("tokenize", "--jsonl", given=line.encode())
    assert result.returncode == 2
    assert message in result.stderr.decode()


def test_a_file_that_is_not_there_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["tokenize", str(tmp_path / "nowhere")]) == 2
    assert "nowhere: cannot be read" in capfd.readouterr().err


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The vectors as COCO files: refs.json, pred.json, and corpus.json for document frequencies."""
    folder = tmp_path_factory.mktemp("captions")
    case, corpus = load("captions_s"), load("captions_df_corpus")["tokenised_references"]
    write_coco(folder / "refs.json", dict(zip(case["ids"], case["references"], strict=True)))
    write_coco(folder / "corpus.json", {str(i): refs for i, refs in enumerate(corpus)})
    predictions = [
        {"image_id": int(i), "caption": text} for i, text in zip(case["ids"], case["hypotheses"], strict=True)
    ]
    (folder / "pred.json").write_text(json.dumps(predictions))
    return folder


def write_coco(path: Path, captions: dict[str, list[str]]) -> None:
    annotations = [{"image_id": int(i), "caption": text} for i, texts in captions.items() for text in texts]
    path.write_text(json.dumps({"images": [{"id": int(i)} for i in captions], "annotations": annotations}))


def score(*arguments: str) -> None:
    parser = argparse.ArgumentParser()
    score_captions.add_arguments(parser)
    score_captions.run(parser.parse_args(arguments))


def test_scores_are_printed_as_json(files: Path, capfd: pytest.CaptureFixture[str]) -> None:
    case = load("captions_s")
    score("--pred", str(files / "pred.json"), "--refs", str(files / "refs.json"), "--json", "--per-image")
    out = json.loads(capfd.readouterr().out)
    assert list(out) == ["scores", "per_image"]
    names = {"BLEU-4": "Bleu_4", "ROUGE-L": "ROUGE_L", "CIDEr": "CIDEr_plain_corpus", "CIDEr-D": "CIDErD_corpus"}
    assert [row["name"] for row in out["scores"]] == ["BLEU-1", "BLEU-2", "BLEU-3", *names]
    for row in out["scores"][3:]:
        official = names[row["name"]]
        assert row["value"] == pytest.approx(case["expected"]["overall"][official], abs=1e-9)
        assert row["n"] == 200 and row["signature"].startswith(row["name"].lower() + "|")
        expected = dict(zip(case["ids"], case["expected"]["per_image"][official], strict=True))
        assert out["per_image"][row["name"]] == pytest.approx(expected, abs=1e-9)


def test_document_frequencies_are_made_and_used(files: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["df", str(files / "corpus.json"), "-o", str(files / "df")]) == 0
    assert "95,187 n-grams of 1,500 images" in capfd.readouterr().out
    arguments = ["--pred", str(files / "pred.json"), "--refs", str(files / "refs.json"), "--df", str(files / "df")]
    score(*arguments, "--metrics", "cider-d,cider", "--json")
    out = json.loads(capfd.readouterr().out)
    expected = load("captions_s")["expected"]["overall"]
    values = {row["name"]: row["value"] for row in out["scores"]}
    assert values["CIDEr-D"] == pytest.approx(expected["CIDErD_precomputed"], abs=1e-9)
    assert values["CIDEr"] == pytest.approx(expected["CIDEr_plain_precomputed"], abs=1e-9)
    assert out["per_image"] == {}


def test_a_baseline_is_tested_against(files: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rows = json.loads((files / "pred.json").read_text())
    (tmp_path / "poor.json").write_text(json.dumps([row | {"caption": row["caption"][:9]} for row in rows]))
    arguments = ["--pred", str(files / "pred.json"), "--refs", str(files / "refs.json"), "--metrics", "bleu,rouge"]
    score(*arguments, "--baseline", str(tmp_path / "poor.json"), "--json")
    tests = json.loads(capfd.readouterr().out)["tests"]
    assert [test["name"] for test in tests] == ["BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "ROUGE-L"]
    assert all(test["difference"] > 0 and test["p_randomisation"] < 0.01 for test in tests)


def test_scores_are_printed_as_a_table(files: Path, capfd: pytest.CaptureFixture[str]) -> None:
    score("--pred", str(files / "pred.json"), "--refs", str(files / "refs.json"), "--metrics", "rouge", "--per-image")
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].split() == ["score", "value", "n", "signature"]
    assert (
        lines[1].split()[:3] == ["ROUGE-L", "0.4475", "200"] and "rouge-l|beta:1.2|tok:ptb-3.4.1|n:200|v:" in lines[1]
    )
    assert lines[3].split() == ["image", "ROUGE-L"] and len(lines) == 204


def test_a_file_that_is_not_a_table_of_frequencies_is_refused(files: Path) -> None:
    with pytest.raises(DataError, match="groundling df"):
        score("--pred", str(files / "pred.json"), "--refs", str(files / "refs.json"), "--df", str(files / "refs.json"))


def test_scoring_captions_starts_without_torch(files: Path) -> None:
    """Whoever only scores should not wait for a tensor library."""
    code = (
        "import sys, argparse; from groundling.commands import score_captions as c; p = argparse.ArgumentParser();"
        f"c.add_arguments(p); c.run(p.parse_args(['--pred', {str(files / 'pred.json')!r}, '--refs',"
        f"{str(files / 'refs.json')!r}])); assert not {{'torch', 'spacy'}} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
