"""All caption metrics at once: raw text in, the published numbers out; files from outside; the rules for odd input."""

from __future__ import annotations

import contextlib
import gzip
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundling.cli import main
from groundling.errors import DataError
from groundling.metrics import captions
from groundling.metrics.caption_files import read_predictions, read_references
from groundling.metrics.captions import document_frequency, score_captions
from groundling.metrics.cider import DocumentFrequency
from groundling.metrics.statistics import Statistics

VECTORS = Path(__file__).parent.parent / "vectors"
CASE: dict[str, Any] = json.loads(gzip.decompress((VECTORS / "captions_s.json.gz").read_bytes()))
HYPOTHESES = dict(zip(CASE["ids"], CASE["hypotheses"], strict=True))
REFERENCES = dict(zip(CASE["ids"], CASE["references"], strict=True))
OFFICIAL = {"BLEU-1": "Bleu_1", "BLEU-2": "Bleu_2", "BLEU-3": "Bleu_3", "BLEU-4": "Bleu_4", "ROUGE-L": "ROUGE_L"}


@pytest.fixture(scope="module")
def found() -> dict[str, Statistics]:
    return {s.name: s for s in score_captions(HYPOTHESES, REFERENCES)}


def test_raw_captions_are_tokenised_as_published() -> None:
    tokens = captions.tokenized(HYPOTHESES, REFERENCES)
    assert list(tokens.hypotheses) == CASE["tokenised_hypotheses"]
    assert [list(refs) for refs in tokens.references] == CASE["tokenised_references"]


@pytest.mark.parametrize(
    ("name", "official"),
    [*OFFICIAL.items(), ("CIDEr", "CIDEr_plain_corpus"), ("CIDEr-D", "CIDErD_corpus")],
)
def test_numbers_are_the_published_ones(found: dict[str, Statistics], name: str, official: str) -> None:
    assert found[name].score().value == pytest.approx(CASE["expected"]["overall"][official], abs=1e-9)
    expected = CASE["expected"]["per_image"][official]
    np.testing.assert_allclose(found[name].per_item(), expected, rtol=0, atol=1e-9)


def test_with_document_frequencies_cider_is_the_published_one() -> None:
    corpus = json.loads(gzip.decompress((VECTORS / "captions_df_corpus.json.gz").read_bytes()))["tokenised_references"]
    df = document_frequency({str(i): refs for i, refs in enumerate(corpus)})
    plain, clipped = score_captions(HYPOTHESES, REFERENCES, ["cider", "cider-d"], df)
    assert plain.score().value == pytest.approx(CASE["expected"]["overall"]["CIDEr_plain_precomputed"], abs=1e-9)
    assert clipped.score().value == pytest.approx(CASE["expected"]["overall"]["CIDErD_precomputed"], abs=1e-9)
    assert f"df:{df.digest}" in clipped.signature


def test_a_signature_tells_metric_tokenizer_document_frequencies_number_and_version(
    found: dict[str, Statistics],
) -> None:
    from groundling import __version__

    assert found["CIDEr-D"].signature == f"cider-d|df:corpus|tok:ptb-3.4.1|n:200|v:{__version__}"


def test_statistics_of_a_part_are_the_score_of_that_part(found: dict[str, Statistics]) -> None:
    """Drawing 60 images with resampling weights equals scoring them (BLEU and ROUGE-L need no corpus)."""
    part = dict(list(HYPOTHESES.items())[:60])
    weights = np.zeros((1, 200))
    weights[0, :60] = 1
    for alone in score_captions(part, {i: REFERENCES[i] for i in part}, ["bleu", "rouge"]):
        assert found[alone.name].resample(weights)[0] == pytest.approx(alone.score().value, abs=1e-12)


def test_bleu_and_rouge_disagree_on_what_a_token_with_a_space_is() -> None:
    """ "3 1/2" is one token to ROUGE-L, which splits at spaces, and two to BLEU, which splits at all white space."""
    bleu_1, *_, rouge = score_captions({"1": "3 1/2"}, {"1": ["3 1/2 miles"]}, ["bleu", "rouge"])
    assert np.asarray(bleu_1.values)[0, :2].tolist() == [2, 3]
    assert rouge.score().value == pytest.approx(2.44 * 1 * 0.5 / (0.5 + 1.44), abs=1e-12)


def test_images_without_a_prediction_are_left_out_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    part = dict(list(HYPOTHESES.items())[:3])
    with caplog.at_level(logging.WARNING):
        (rouge,) = score_captions(part, REFERENCES, ["rouge"])
    assert "197 of 200 images have no prediction" in caplog.text
    assert rouge.ids == tuple(part) and "|n:3/200|" in rouge.signature
    np.testing.assert_allclose(rouge.per_item(), CASE["expected"]["per_image"]["ROUGE_L"][:3], atol=1e-9)


def test_empty_captions_are_captions() -> None:
    found = score_captions({"1": "", "2": "...", "3": "a dog"}, {"1": ["a dog"], "2": ["a cat", ""], "3": ["a dog"]})
    for statistics in found:
        values = statistics.per_item()
        assert values[0] == pytest.approx(0, abs=1e-6)
        assert values[1] == pytest.approx(1 if statistics.name == "ROUGE-L" else 0, abs=1e-6)
        assert values[2] > 0


@pytest.mark.parametrize("separator", ["\n", "\r", "\r\n", "\v", "\f", "\u2028", "\u2029"])
def test_a_separator_of_lines_moves_no_later_caption(separator: str) -> None:
    hypotheses = {"1": f"a dog{separator}runs", "2": "a cat sleeps", "3": "two birds"}
    references = {"1": ["a dog runs"], "2": ["a cat sleeps"], "3": [f"two{separator}birds"]}
    (rouge,) = score_captions(hypotheses, references, ["rouge"])
    assert rouge.per_item().tolist() == pytest.approx([1, 1, 1])


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        ({}, {"1": ["a"]}, "no predictions"),
        ({"7": "a"}, {"1": ["a"]}, "image 7 .* not in the references"),
        ({"1": "a"}, {"1": []}, "image 1 .* no reference captions"),
    ],
)
def test_what_cannot_be_scored_is_told(hypotheses: Any, references: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        score_captions(hypotheses, references)


@pytest.mark.parametrize(
    ("name", "told"), [("blue", r"did you mean bleu\?"), ("x", "there are bleu, rouge, cider, cider-d, meteor, spice")]
)
def test_an_unknown_metric_is_told_with_the_nearest_or_with_all(name: str, told: str) -> None:
    with pytest.raises(DataError, match=f"unknown metric '{name}'; {told}"):
        score_captions({"1": "a"}, {"1": ["a"]}, [name])


# ---------------------------------------------------------------- files


def coco(*captions: tuple[Any, str]) -> dict[str, Any]:
    images = [{"id": i} for i in dict.fromkeys(i for i, _ in captions)]
    return {"images": images, "annotations": [{"image_id": i, "caption": text} for i, text in captions]}


def test_files_of_coco_are_read(tmp_path: Path) -> None:
    (tmp_path / "refs").write_text(json.dumps(coco((7, "a dog"), (7, "a cat"), ("x", ""))))
    assert read_references(tmp_path / "refs") == {"7": ["a dog", "a cat"], "x": [""]}
    (tmp_path / "pred").write_text('\ufeff[{"image_id": 7, "caption": "a\\u2028b"}, {"image_id": "x", "caption": ""}]')
    assert read_predictions(tmp_path / "pred") == {"7": "a\u2028b", "x": ""}


def test_lines_of_our_own_captions_are_read(tmp_path: Path) -> None:
    (tmp_path / "pred").write_text('{"id": "a", "caption": "x\u2028y"}\n\n{"image_id": 3, "id": 9, "caption": "z"}\n')
    assert read_predictions(tmp_path / "pred") == {"a": "x\u2028y", "3": "z"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not JSON"),
        ("[", "not JSON"),
        ("[]", "no predictions"),
        ("7", "expected a list"),
        ("[7]", "prediction 0: expected an object"),
        ('[{"caption": "a"}]', "'image_id' is missing"),
        ('[{"image_id": 1}]', "'caption' is missing"),
        ('[{"image_id": 1, "caption": null}]', "expected a string"),
        ('[{"image_id": 1.5, "caption": "a"}]', "integer or a string"),
        ('[{"image_id": true, "caption": "a"}]', "integer or a string"),
        ('[{"image_id": 1, "caption": "a"}, {"image_id": "1", "caption": "b"}]', "image 1 is predicted a second time"),
        ('{"image_id": 1, "caption": "a"}\nnonsense', "line 2: not JSON"),
    ],
)
def test_predictions_that_are_wrong_are_told(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "pred.json").write_text(content)
    with pytest.raises(DataError, match=message) as error:
        read_predictions(tmp_path / "pred.json")
    assert "pred.json" in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "references are COCO captions JSON"),
        ("{}", "'annotations' is missing"),
        ('{"images": 7, "annotations": []}', "expected a list"),
        ('{"images": [{"id": 1}, {"id": "1"}], "annotations": []}', "image 1 is listed a second time"),
        ('{"images": [], "annotations": [{"image_id": 1, "caption": "a"}]}', "not among the images"),
        ('{"annotations": [{"image_id": 1, "caption": 5}]}', "expected a string"),
        ('{"annotations": [{"image_id": null, "caption": "a"}]}', "integer or a string"),
        ('{"annotations": [7]}', "expected an object"),
    ],
)
def test_references_that_are_wrong_are_told(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "refs.json").write_text(content)
    with pytest.raises(DataError, match=message) as error:
        read_references(tmp_path / "refs.json")
    assert "refs.json" in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere"):
        read_predictions(tmp_path / "nowhere")


def test_the_table_of_a_file_may_count_the_end_and_needs_captions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refs, out = tmp_path / "refs.json", tmp_path / "table.df"
    refs.write_text('{"annotations": [{"image_id": 1, "caption": "A dog."}, {"image_id": 2, "caption": "a cat"}]}')
    assert main(["df", str(refs), "-o", str(out), "--end", "<eos>"]) == 0
    df = DocumentFrequency.load(out)
    assert (df.count(["<eos>"]), df.count(["dog", "<eos>"]), df.images) == (2, 1, 2)
    assert document_frequency(refs, end="<eos>").digest == df.digest
    by_file, by_table = (score_captions({"1": "a dog"}, refs, ["cider-d"], df=known)[0].score() for known in (out, df))
    assert by_file == by_table and by_table.value > 0
    refs.write_text('{"images": [{"id": 1}], "annotations": []}')
    assert main(["df", str(refs), "-o", str(out)]) == 2
    assert "refs.json: holds no captions" in capsys.readouterr().err


simple = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
keys = st.sampled_from(["images", "annotations", "image_id", "id", "caption"]) | st.text(max_size=3)
anything = st.recursive(simple, lambda x: st.lists(x, max_size=4) | st.dictionaries(keys, x, max_size=4), max_leaves=15)


@given(anything | st.binary(max_size=40))
def test_any_content_gives_captions_or_the_typed_error(tmp_path_factory: Any, content: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    for read in (read_predictions, read_references):
        with contextlib.suppress(DataError):
            read(path)


@given(st.dictionaries(st.text(max_size=3), st.text(max_size=20), min_size=1, max_size=4))
def test_any_caption_scores_between_zero_and_ten(hypotheses: dict[str, str]) -> None:
    references = {image: [text, "a dog"] for image, text in hypotheses.items()}
    for statistics in score_captions(hypotheses, references):
        values = statistics.per_item()
        assert ((values >= -1e-9) & (values <= 10 + 1e-9)).all()
