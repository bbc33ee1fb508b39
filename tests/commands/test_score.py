"""`groundling score`: command line in, numbers out."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from groundling import __version__
from groundling.cli import main
from groundling.errors import DataError
from groundling.evaluation.evaluator import score
from groundling.metrics.predictions import read_captions

VECTORS = Path(__file__).parent.parent / "vectors"
KEYS = ["precision", "recall", "f1", "precision_per_sent", "recall_per_sent", "f1_per_sent", "num_classes"]


def write(path: Path, value: Any) -> str:
    path.write_text(json.dumps(value), "utf-8")
    return str(path)


def official(tmp_path: Path, name: str) -> tuple[Any, list[str]]:
    """The vectors as official files, and the command that scores the generated sentences."""
    with gzip.open(VECTORS / f"{name}.json.gz") as file:
        data = json.load(file)
    evaluator = "flickr30k-entities" if data["kind"] == "image" else "activitynet-entities"
    words = ["score", evaluator]
    for option, key in (("submission", "submission_generated"), ("reference", "reference"), ("split-file", "splits")):
        words += [f"--{option}", write(tmp_path / f"{key}.json", data[key])]
    words += ["--split", *data["eval_split"], "--lemmas", write(tmp_path / "lemma.json", data["lemma"])]
    return data, words


# ---------------------------------------------------------------- official files


@pytest.mark.parametrize("name", ["grounding_image_s", "grounding_video_s"])
def test_json_of_generated_sentences_has_the_official_numbers_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    data, words = official(tmp_path, name)
    assert main([*words, "--iou", "0.3", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert {mode: list(group) for mode, group in scores.items()} == {"all": KEYS, "loc": KEYS}
    for mode in ("all", "loc"):
        expected = data["expected"]["0.3"][mode]
        expected = expected | expected.get("per_sentence_derived", {})
        for key in KEYS:
            assert scores[mode][key] == pytest.approx(expected[key], abs=1e-9), key


def test_a_score_of_zero_by_zero_is_null(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, words = official(tmp_path, "grounding_video_zero")
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["all"]["f1"] is None


def test_json_of_given_sentences_is_the_accuracy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, words = official(tmp_path, "grounding_image_adv")
    words[3] = write(tmp_path / "given.json", data["submission_gt_sentences"])
    assert main([*words, "--mode", "gt", "--json"]) == 0
    expected = data["expected"]["0.5"]["gt_sentences"]["accuracy"]
    assert json.loads(capsys.readouterr().out) == {"accuracy": pytest.approx(expected, abs=1e-9)}


def test_the_table_shows_signatures_and_intervals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, words = official(tmp_path, "grounding_image_adv")
    assert main([*words, "--bootstrap", "20"]) == 0
    line = next(line for line in capsys.readouterr().out.split("\n") if line.startswith("f1_all"))
    assert "iou:0.5|text:generated|data:flickr30k-entities|split:val|lemma:table" in line
    assert " to " in line


def test_json_has_intervals_where_they_are_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, words = official(tmp_path, "grounding_image_adv")
    assert main([*words, "--bootstrap", "20", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["all", "loc", "intervals"]
    assert list(found["intervals"]) == [f"{key}_{mode}" for mode in ("all", "loc") for key in KEYS[:-1]]
    low, high = found["intervals"]["recall_all"]
    assert 0 <= low < high <= 1


def test_a_baseline_is_tested_against(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, words = official(tmp_path, "grounding_image_s")
    half = dict(list(data["submission_generated"]["results"].items())[::2])
    words += ["--baseline", write(tmp_path / "half.json", {"results": half}), "--bootstrap", "99"]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    test = next(test for test in found["tests"] if test["name"] == "recall_all")
    assert test["system"] == found["all"]["recall"] and test["difference"] == test["system"] - test["baseline"] > 0
    assert test["p_randomisation"] < 0.05 and test["samples"] == 99
    assert main(words) == 0
    head, *rows = capsys.readouterr().out.split("\n")
    assert head.split() == ["score", "value", "95", "%", "interval", "baseline", "p", "n", "signature"]
    assert f"{test['p_randomisation']:.4f}" in next(row for row in rows if row.startswith("recall_all"))


def test_splits_may_be_named_together_or_one_by_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, words = official(tmp_path, "grounding_image_adv")
    splits = write(tmp_path / "splits.json", {"a": ["1"], "b": ["2"], "c": []})
    words = [*words[: words.index("--split-file")], "--split-file", splits]
    for named in (["--split", "a", "b", "c"], ["--split", "a", "--split", "b", "c"]):
        assert main([*words, *named]) == 0
        assert "|split:a+b+c|" in capsys.readouterr().out


def test_a_bad_file_ends_with_one_line_that_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, words = official(tmp_path, "grounding_image_adv")
    Path(words[3]).write_text("{", "utf-8")
    assert main(words) == 2
    assert "submission_generated.json: not JSON" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", "captions", "flickr30k-entities", "activitynet-entities", "phrases", "chair"])
def test_help_teaches_by_example(capsys: pytest.CaptureFixture[str], name: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["score", *([name] if name else []), "--help"])
    assert stop.value.code == 0
    assert f"groundling score {name}".strip() in capsys.readouterr().out


def test_phrases_are_scored_by_type_and_class(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    right, wrong = [0, 0, 99, 99], [200, 200, 250, 250]
    rows = [
        {"boxes": [right], "gt_boxes": [right], "kinds": ["people"], "label": "man"},
        {"boxes": [wrong], "gt_boxes": [right], "kinds": ["clothing"]},
    ]
    path = tmp_path / "phrases.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    assert main(["score", "phrases", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["scores"]["recall@1"] == 0.5
    assert found["by_kind"]["people"]["recall@1"] == found["by_class"]["man"]["recall@1"] == 1.0
    assert "|truth:any|n:2|v:" in found["signatures"]["recall@1"]
    assert main(["score", "phrases", str(path), "--baseline", str(path), "--json"]) == 0
    tests = json.loads(capsys.readouterr().out)["tests"]
    assert {(test["difference"], test["p_randomisation"]) for test in tests} == {(0.0, 1.0)}
    assert main(["score", "phrases", str(path), "--bootstrap", "10"]) == 0
    out = [line.split() for line in capsys.readouterr().out.split("\n")]
    assert out[1][:2] == ["recall@1", "0.5000"] and "to" in out[1] and "|n:2|" in out[1][-1]
    kinds, labels = (next(i for i, row in enumerate(out) if row[:1] == [name]) for name in ("phrase", "class"))
    assert [row[:2] for row in out[kinds + 1 : kinds + 3]] == [["clothing", "0.0000"], ["people", "1.0000"]]
    assert out[labels + 1][:2] == ["man", "1.0000"] and out[labels + 1][-1] == "1"


def test_chair_takes_coco_files_and_synonyms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synonyms = tmp_path / "synonyms.txt"
    synonyms.write_text("dog, puppy\ncat\nman")
    instances = {
        "categories": [{"id": 7, "name": "dog"}],
        "annotations": [{"image_id": 1, "category_id": 7}],
    }
    words = [
        "score", "chair",
        "--pred", write(tmp_path / "r.json", [{"image_id": 1, "caption": "a puppy, a cat and a man"}]),
        "--refs", write(tmp_path / "c.json", {"annotations": [{"image_id": 1, "caption": "A man."}]}),
        "--synonyms", str(synonyms),
        "--instances", write(tmp_path / "i.json", instances),
    ]  # fmt: skip
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["CHAIRs"], found["CHAIRi"]) == (1.0, pytest.approx(1 / 3))
    assert found["captions"][0]["hallucinated"] == [["cat", "cat"]]
    assert found["signatures"]["CHAIRi"].startswith("CHAIRi|tok:treebank|")
    none = write(tmp_path / "none.json", [{"image_id": 1, "caption": "a man"}])
    assert main([*words, "--json", "--baseline", none]) == 0
    assert [test["difference"] for test in json.loads(capsys.readouterr().out)["tests"]] == pytest.approx([1, 1 / 3])
    assert main([*words, "--bootstrap", "10"]) == 0
    assert "|truth:captions+instances|synonyms:" in (out := capsys.readouterr().out) and " to " in out


# ---------------------------------------------------------------- our own files


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Four images, two captions each, with classes and boxes; images 2 and 3 are in val."""
    folder = tmp_path / "data"
    folder.mkdir()
    annotations = [
        {
            "image_id": i,
            "captions": [
                {
                    "tokens": tokens,
                    "process_idx": [1],
                    "process_clss": ["dog" if i % 2 else "cat"],
                    "process_bnd_box": [[0, 0, 99, 99]],
                }
                for tokens in (
                    ["a", "dog" if i % 2 else "cat", "sits", "on", "grass"],
                    ["a", "dog" if i % 2 else "cat"],
                )
            ],
        }
        for i in range(4)
    ]
    write(folder / "flickr30k_cleaned_class.json", {"annotations": annotations})
    write(folder / "split_ids_flickr30k_entities.json", {"train": ["0", "1"], "val": ["2", "3"]})
    return folder


def lines(path: Path, box: list[float], word: str = "dog") -> str:
    rows = [
        {
            "id": str(i),
            "caption": f"a {word} sits on grass",
            "tokens": ["a", word, "sits", "on", "grass"],
            "spans": [[0, 1], [2, 5], [6, 10], [11, 13], [14, 19]],
            "links": [{"token": 1, "span": [2, 5], "box": box, "score": 0.9}],
        }
        for i in (2, 3)
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


def scores(text: str) -> dict[str, Any]:
    return {score["name"]: score for score in json.loads(text)["scores"]}


def test_everything_at_once(tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pred = lines(tmp_path / "val.jsonl", [0, 0, 100, 100])
    assert main(["score", pred, "--data", str(data), "--split", "val", "--json", "--bootstrap", "10"]) == 0
    out = capsys.readouterr().out
    found = scores(out)
    assert found["recall_all"]["value"] == 0.5  # the dog is found, the cat is not
    assert found["BLEU-4"]["value"] > 0.5
    assert (found["vocabulary"]["value"], found["novel"]["value"]) == (5.0, 0.0)  # training has the same caption
    assert found["f1_all"]["signature"].endswith(
        f"|data:data|split:val|rules:flickr30k-entities|lemma:groundling|n:2|v:{__version__}"
    )
    for name in ("f1_all", "CIDEr-D", "novel"):
        assert {"interval", "name", "value", "n", "signature"} == set(found[name])
    assert {record["kind"] for record in json.loads(out)["records"]} == {"corr_grd", "hallu_cls", "mis_cls"}


def test_the_function_of_the_same_name_tells_what_the_command_tells(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    submission = {str(i): [{"clss": ["dog"], "idx_in_sent": [1], "bbox": [[0, 0, 9, 99]]}] for i in (2, 3)}
    preds = lines(tmp_path / "val.jsonl", [0, 0, 9, 99]), write(tmp_path / "s.json", {"results": submission})
    for pred in preds:
        assert main(["score", pred, "--data", str(data), "--split", "val", "--iou", "0.05", "--json"]) == 0
        found = score(pred, data, split="val", grounding=True, iou=0.05)
        assert found.to_dict() == json.loads(capsys.readouterr().out)


def test_a_reference_that_cannot_be_read_is_told_or_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [(1, "a dog"), (1, " "), (2, "a cat")]
    refs = {
        "images": [{"id": i, "file_name": f"{i}.jpg"} for i in (1, 2)],
        "annotations": [{"image_id": i, "caption": text} for i, text in rows],
    }
    pred = write(tmp_path / "r.json", [{"image_id": i, "caption": "a dog"} for i in (1, 2)])
    words = ["score", "--pred", pred, "--refs", write(tmp_path / "captions.json", refs), "--json"]
    assert main(words) == 2
    assert "empty caption" in (told := capsys.readouterr().err) and "--skip-bad" in told
    assert main([*words, "--skip-bad"]) == 0
    assert scores(capsys.readouterr().out)["BLEU-1"]["value"] == pytest.approx(3 / 4)


def test_pred_and_refs_are_other_names_of_the_same(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pred = lines(tmp_path / "val.jsonl", [0, 0, 100, 100])
    assert main(["score", "--pred", pred, "--refs", str(data), "--split", "val", "--grounding"]) == 0
    out = capsys.readouterr().out
    assert "f1_all" in out and "CIDEr-D" in out and "wrong groundings" in out


def test_systems_side_by_side_carry_marks_of_significance(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [lines(tmp_path / "a.jsonl", [0, 0, 10, 10]), lines(tmp_path / "b.jsonl", [0, 0, 100, 100])]
    words = ["score", "--compare", *files, "--data", str(data), "--split", "val", "--bootstrap", "50"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "a is the baseline" in out
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["baseline"] == "a"
    recall = next(test for test in found["tests"]["b"] if test["name"] == "recall_all")
    assert (recall["baseline"], recall["system"], recall["difference"]) == (0.0, 0.5, 0.5)
    assert 0 < recall["p_randomisation"] <= 1


def test_coco_results_are_scored_as_texts_alone(tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = [{"image_id": i, "caption": "a dog sits on grass"} for i in (2, 3)]
    pred = write(tmp_path / "r.json", results)
    assert main(["score", pred, "--data", str(data), "--split", "val", "--json"]) == 0
    found = scores(capsys.readouterr().out)
    assert "BLEU-1" in found and "f1_all" not in found
    assert main(["score", pred, "--data", str(data), "--split", "val", "--grounding"]) == 2
    assert "these captions have no links" in capsys.readouterr().err


def test_a_grounding_submission_is_scored_by_its_links_alone(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = {str(i): [{"clss": ["dog"], "idx_in_sent": [1], "bbox": [[0, 0, 99, 99]]}] for i in range(4)}
    pred = write(tmp_path / "s.json", {"results": results})
    assert main(["score", pred, "--data", str(data), "--split", "val", "--json"]) == 0
    found = scores(capsys.readouterr().out)
    assert "BLEU-1" not in found
    assert found["recall_all"]["value"] == 0.5


def test_systems_are_compared_by_what_all_of_them_have(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = {str(i): [{"clss": ["dog"], "idx_in_sent": [1], "bbox": [[0, 0, 99, 99]]}] for i in (2, 3)}
    links = write(tmp_path / "links.json", {"results": results})
    both = lines(tmp_path / "both.jsonl", [0, 0, 100, 100])
    texts = write(tmp_path / "texts.json", [{"image_id": i, "caption": "a dog"} for i in (2, 3)])
    for files in ([links, both], [both, links]):
        assert main(["score", "--compare", *files, "--data", str(data), "--split", "val", "--bootstrap", "9"]) == 0
        assert "f1_all" in (out := capsys.readouterr().out) and "BLEU" not in out and "distinct" not in out
    assert main(["score", "--compare", texts, both, "--data", str(data), "--split", "val", "--bootstrap", "9"]) == 0
    assert "f1_all" not in (out := capsys.readouterr().out) and "BLEU-1" in out and "distinct" in out
    assert main(["score", "--compare", texts, links, "--data", str(data), "--split", "val"]) == 2
    assert "nothing to score" in capsys.readouterr().err


def test_the_page_leads_from_each_error_to_its_image(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (data / "images").mkdir()
    for i in range(4):
        Image.new("RGB", (120, 110), "green").save(data / "images" / f"{i}.jpg")
    pred, page = lines(tmp_path / "val.jsonl", [0, 0, 30, 30]), tmp_path / "val.html"
    words = ["score", pred, "--data", str(data), "--split", "val", "--html", str(page), "--json"]
    assert main([*words, "--iou", "0.25", "--metrics", "rouge"]) == 0
    assert "f1_all" in scores(capsys.readouterr().out)  # nothing but JSON on standard output
    text = page.read_text("utf-8")
    assert "part_grd" in text and "ROUGE-L" in text
    assert "f1_all|iou:0.25|" in text and "BLEU-1" not in text  # what was asked for, and not another scoring


def test_no_metric_at_all_is_refused(tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pred = lines(tmp_path / "val.jsonl", [0, 0, 100, 100])
    assert main(["score", pred, "--data", str(data), "--split", "val", "--metrics", " ,"]) == 2
    assert "name at least one metric" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name one file of captions"),
        (["{pred}"], "name the data set with --data"),
        (["{pred}", "--pred", "{pred}", "--data", "{data}"], "name one file of captions"),
        (["{pred}", "--compare", "{pred}", "--data", "{data}"], "name the systems after --compare"),
        (["--compare", "{pred}", "{pred}", "--data", "{data}"], "--compare: a file is named twice"),
        (["{pred}", "--data", "{data}", "--bootstrap", "-1"], "--bootstrap: takes a number"),
        (["{pred}", "--data", "{data}", "--iou", "1"], "--iou: 1 is not a number from 0 to below 1"),
        (["{pred}", "--data", "{data}", "--iou", "nan"], "--iou: nan is not a number from 0 to below 1"),
        (["phrases", "{pred}", "--iou", "half"], "--iou: invalid overlap value: 'half'"),
        (["phrases", "{pred}", "--bootstrap", "-1"], "--bootstrap: takes a number"),
    ],
)
def test_a_wrong_command_says_what_to_write(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    pred = lines(tmp_path / "val.jsonl", [0, 0, 100, 100])
    with pytest.raises(SystemExit) as stop:
        main(["score", *(word.format(pred=pred, data=data) for word in words)])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: not JSON"),
        ('{"id": "9"}', "line 2: the key 'caption' is missing"),
        ('{"caption": "x"}', "line 2: not a grounded caption: KeyError: 'id'"),
        ('{"id": "2", "caption": "x"}', "image '2' has two captions"),
        ('{"id": "9", "caption": "x", "links": [{"token": 0}]}', "line 2: not a grounded caption: KeyError"),
        ('{"id": "9", "caption": "x", "links": [{"token": Infinity}]}', "line 2: cannot convert float infinity"),
        ("[]", "line 2: expected an object"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, data: Path, line: str, message: str) -> None:
    path = tmp_path / "val.jsonl"
    path.write_text('{"id": "2", "caption": "a"}\n' + line)
    with pytest.raises(DataError) as error:
        read_captions(path)
    assert message in str(error.value)


def test_captions_with_unusual_line_ends_do_not_shift_the_ones_after_them(tmp_path: Path) -> None:
    rows = [
        {"id": "1", "caption": "a\u2028dog\x0b\x0c\x85 \r\n sits"},
        {"id": "2", "caption": ""},
        {"id": "3", "caption": "c"},
    ]
    path = tmp_path / "val.jsonl"
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), "utf-8")
    assert [(one.id, one.text) for one in read_captions(path)] == [(row["id"], row["caption"]) for row in rows]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["token", "span", "box", "score", "frame", "boxes", "weights"]), inner, max_size=5
        )
    ),
    max_leaves=10,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["id", "caption", "tokens", "spans", "links", "attention", "logp", "size"]), values, max_size=8
    )
    | values
)
def test_any_line_is_a_caption_or_a_data_error(tmp_path: Path, row: Any) -> None:
    path = tmp_path / "fuzz.jsonl"
    path.write_text(json.dumps(row), "utf-8", errors="surrogatepass")
    try:
        read_captions(path)
    except DataError as error:
        assert str(error)
