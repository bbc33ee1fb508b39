"""`groundling audit` as people call it, on drawn scenes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from groundling.audit import stream
from groundling.audit.verdicts import FILE, VERDICTS, Thresholds
from groundling.cli import main
from groundling.commands import audit
from groundling.data.dataset import load


def run(*words: object) -> int:
    return main([str(word) for word in words])


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def captions(grounded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two captions of each of six images, far from one another; one of a missing image; one line without a tab."""
    examples = load(grounded / "scenes", annotated=False).examples[:6]
    rows = [f"{Path(e.media).name}\t{e.captions[i].text}" for i in (0, 1) for e in examples]
    path = tmp_path_factory.mktemp("captions") / "captions.tsv"
    path.write_text("\n".join([*rows, "missing.png\ta dog", "no tab"]) + "\n")
    return path


@pytest.fixture
def words(grounded: Path, captions: Path, tmp_path: Path) -> list[object]:
    options = ["--images", grounded / "scenes", "--model", grounded / "model", "-o", tmp_path / "out.jsonl"]
    return ["audit", captions, *options]


def test_every_noun_phrase_has_a_verdict_a_span_and_a_box(words: list[object], tmp_path: Path) -> None:
    assert run(*words, "--html", tmp_path / "page.html", "--fix", "hedge") == 0
    found = lines(tmp_path / "out.jsonl")
    audited = [line for line in found if "error" not in line]
    assert len(audited) == 12 and {line["row"] for line in found} == set(range(1, 15))
    assert any("no image called 'missing.png'" in line.get("error", "") for line in found)
    for line in audited:
        assert line["phrases"] and line["width"] > 0
        for one in line["phrases"]:
            assert line["caption"][slice(*one["span"])] == one["phrase"] and one["verdict"] in VERDICTS
            if one["verdict"] == "grounded":
                assert one["box"] == one["likely"][0]["box"] and 0 <= one["evidence"] <= 1
        hedges = line["fixed"].lower().count("what may be")
        assert hedges == sum(one["verdict"] == "not there" for one in line["phrases"])
    text = (tmp_path / "page.html").read_text()
    assert "data:image/webp" in text and "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_a_few_captions_are_printed_with_what_is_not_grounded_and_many_are_not(
    words: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(*words) == 0
    printed = capsys.readouterr().out.splitlines()[:12]
    rows = [one for one in lines(tmp_path / "out.jsonl") if "phrases" in one]
    assert printed == [f"{one['image']}: {audit._with_verdicts(one)}" for one in rows]
    monkeypatch.setattr(audit, "SHOWN", 11)
    assert run(*words) == 0
    told = capsys.readouterr()
    assert told.out.startswith("12 captions") and "out.jsonl: the verdicts on each caption" in told.err


def test_captions_that_name_nothing_or_have_no_end_are_told(
    grounded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    image = Path(load(grounded / "scenes", annotated=False).examples[0].media).name
    words = ["audit", tmp_path / "a.tsv", "--images", grounded / "scenes", "--model", grounded / "model"]
    (tmp_path / "a.tsv").write_text(f"{image}\tit\n")
    assert run(*words, "-o", tmp_path / "a.jsonl") == 0
    assert "no noun phrase was found: captions are read as English sentences" in capsys.readouterr().out
    monkeypatch.setattr(stream, "CHARACTERS", 20)
    (tmp_path / "a.tsv").write_text(f"{image}\ta dog\n" + f"{image}\t{'a dog ' * 10}\n" * 2)
    assert run(*words, "-o", tmp_path / "b.jsonl") == 0
    told = "2 rows were not checked, the first: a caption of 59 characters, at most 20 are read; shorten it"
    assert told in capsys.readouterr().err


def test_the_verdict_stands_behind_its_phrase() -> None:
    phrases = [{"span": [0, 5], "verdict": "grounded"}, {"span": [13, 24], "verdict": "not there"}]
    row = {"caption": "a cat beside a surfboard, asleep", "phrases": phrases}
    assert audit._with_verdicts(row) == "a cat beside a surfboard (not there), asleep"


def test_captions_of_one_image_stand_together_and_it_is_looked_at_once(
    words: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from groundling.inference.grounder import PhraseGrounder

    seen, look = [], PhraseGrounder.regions
    monkeypatch.setattr(PhraseGrounder, "regions", lambda self, image: seen.append(image) or look(self, image))
    assert run(*words) == 0
    assert len(seen) == 6
    images = [line["image"] for line in lines(tmp_path / "out.jsonl") if "phrases" in line]
    assert images == [image for image in dict.fromkeys(images) for _ in range(2)]


def test_a_stopped_audit_goes_on_and_ends_the_same(
    words: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.jsonl"
    assert run(*words) == 0
    whole = out.read_text().splitlines()
    out.write_text("\n".join(whole[:5]) + "\n" + whole[5][:40])
    assert run(*words, "--json") == 0
    assert sorted(out.read_text().splitlines()) == sorted(whole)
    before = out.stat().st_mtime_ns, out.read_bytes()
    assert run(*words, "--json") == 0  # nothing is left to do
    assert out.read_bytes() == before[1]
    capsys.readouterr()
    (tmp_path / "out.jsonl").write_text(whole[0].replace('"by": "', '"by": "x') + "\n")
    if "by" in json.loads(whole[0]):
        assert run(*words) == 2
        assert "--overwrite" in capsys.readouterr().err


def test_a_store_of_regions_gives_the_same_verdicts(words: list[object], grounded: Path, tmp_path: Path) -> None:
    assert run(*words) == 0
    first = {line["row"]: line for line in lines(tmp_path / "out.jsonl")}
    assert run(*words, "--overwrite", "--regions", grounded / "regions") == 0
    for line in lines(tmp_path / "out.jsonl"):
        for one, same in zip(line.get("phrases", []), first[line["row"]].get("phrases", []), strict=True):
            assert one["evidence"] == pytest.approx(same["evidence"], abs=0.02)


def test_ci_fails_over_the_share_that_was_named_and_two_systems_are_compared(
    words: list[object], grounded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strict = tmp_path / "strict"
    shutil.copytree(grounded / "model", strict)
    (strict / FILE).write_text(json.dumps(Thresholds(present=1.0, learned=5000).to_json()))
    assert run(*words, "--fail-over", 1) == 0
    capsys.readouterr()
    again = [tmp_path / "strict.jsonl" if word == tmp_path / "out.jsonl" else word for word in words]
    again = [strict if word == grounded / "model" else word for word in again]
    assert run(*again, "--fail-over", 0.5, "--compare", tmp_path / "out.jsonl") == 1
    out = capsys.readouterr().out
    assert "not there" in out and "paired randomisation" in out
    assert run(*again, "--json", "--compare", tmp_path / "out.jsonl") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["shares"]["not there"] > 0.5
    assert found["compared"]["captions"] == 12


def test_the_evidence_below_which_nothing_is_there_can_be_named(words: list[object], tmp_path: Path) -> None:
    """Below 0 is nothing, so nothing is "not there"; with 1 nothing that the grounder knows is there."""
    shares = []
    for below in (0, 1):
        assert run(*words, "--overwrite", "--not-there-below", below) == 0
        verdicts = [one["verdict"] for line in lines(tmp_path / "out.jsonl") for one in line.get("phrases", [])]
        shares.append(verdicts.count("not there") / len(verdicts))
        assert not below or "grounded" not in verdicts
    assert shares[0] == 0 < shares[1]
    assert run(*words, "--not-there-below", 2) == 2


def test_a_given_box_in_the_wrong_place_is_told(words: list[object], grounded: Path, tmp_path: Path) -> None:
    """The grounder's own box is right, one in a corner where nothing was found is not."""
    assert run(*words) == 0
    line = next(x for x in lines(tmp_path / "out.jsonl") if any(p["box"] for p in x.get("phrases", [])))
    one = next(p for p in line["phrases"] if p["box"])
    x1, y1, x2, y2 = one["box"]
    rows = []
    for box in ([x1, y1, x2, y2], [0, 0, 2, 2]):
        place = {"span": one["span"], "boxes": [box]}
        rows.append({"image": line["image"], "text": line["caption"], "places": [place]})
    captions_file = tmp_path / "boxes.jsonl"
    captions_file.write_text("\n".join(map(json.dumps, rows)))
    options = ["--images", grounded / "scenes", "--model", grounded / "model", "-o", tmp_path / "boxes.out"]
    assert run("audit", captions_file, *options) == 0
    verdicts = []
    for line in sorted(lines(tmp_path / "boxes.out"), key=lambda line: line["row"]):
        verdicts += [p["verdict"] for p in line["phrases"] if p["span"] == one["span"]]
    assert verdicts == ["grounded", "wrong place"]


def test_the_output_of_a_model_is_read_by_its_format(grounded: Path, tmp_path: Path) -> None:
    image = Path(load(grounded / "scenes", annotated=False).examples[0].media).name
    raw = "<phrase>a dog</phrase><object><patch_index_0000><patch_index_1023></object> and<phrase> a ball</phr"
    (tmp_path / "k.tsv").write_text(f"{image}\t{raw}\n")
    options = ["--images", grounded / "scenes", "--model", grounded / "model", "-o", tmp_path / "k.jsonl"]
    assert run("audit", tmp_path / "k.tsv", "--format", "kosmos-2", *options) == 0
    [line] = lines(tmp_path / "k.jsonl")
    assert line["caption"].startswith("a dog and a ball") and line["problems"]
    assert line["phrases"][0]["given"]["boxes"]


def test_each_name_of_a_list_has_its_own_verdict_and_box(grounded: Path, tmp_path: Path) -> None:
    """Commas end them, so "chair, red table" is not one phrase whose noun is the last."""
    names = ["chair", "red table", "a dog", "cat"]
    output = json.dumps([{"bbox_2d": [100 * i, 0, 100 * i + 99, 99], "label": name} for i, name in enumerate(names)])
    row = {"image": "000000.png", "output": output}
    (tmp_path / "in.jsonl").write_text(json.dumps(row) + "\n")
    options = ["--images", grounded / "scenes", "--model", grounded / "model", "-o", tmp_path / "out.jsonl"]
    assert run("audit", tmp_path / "in.jsonl", "--format", "qwen3-vl", *options) == 0
    [line] = lines(tmp_path / "out.jsonl")
    assert line["caption"] == "chair, red table, a dog, cat"
    assert [phrase["phrase"] for phrase in line["phrases"]] == names
    lefts = [phrase["given"]["boxes"][0][0] for phrase in line["phrases"]]
    assert lefts == sorted(set(lefts))


def test_images_of_coco_captions_are_found_by_the_names_of_their_files(
    words: list[object], grounded: Path, tmp_path: Path
) -> None:
    """The ids are the numbers of the images, from 1, and not those of the files; the file lies in another folder."""
    examples = load(grounded / "scenes", annotated=False).examples[:2]
    images = [{"id": i, "file_name": Path(e.media).name} for i, e in enumerate(examples, start=1)]
    captions = [{"id": i, "image_id": i, "caption": e.captions[0].text} for i, e in enumerate(examples, start=1)]
    path = tmp_path / "captions.json"
    path.write_text(json.dumps({"images": images, "annotations": captions}))
    page = tmp_path / "page.html"
    assert run("audit", path, *words[2:], "--html", page) == 0
    assert [(line["image"], "error" in line) for line in lines(tmp_path / "out.jsonl")] == [("1", False), ("2", False)]
    assert page.read_text().count("data:image/webp") == 2


def test_a_data_set_is_audited_by_its_own_captions(
    grounded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--regions", grounded / "regions", "--model", grounded / "model", "-o", tmp_path / "d.jsonl", "--json"]
    assert run("audit", "--data", grounded / "scenes", "--split", "val", *options) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["captions"] == sum(len(e.captions) for e in load(grounded / "scenes", "val", annotated=False))


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["audit"], "name a file of CAPTIONS"),
        (["audit", "nowhere.tsv", "--images", "."], "nowhere.tsv"),
        (["audit", "x.tsv"], "give --images FOLDER, or --regions STORE"),
        (["audit", "x.tsv", "--images", ".", "--format", "qwen"], "unknown format 'qwen'"),
        (["audit", "x.tsv", "--images", ".", "--fail-over", "10"], "a share from 0 to 1"),
    ],
)
def test_mistakes_are_told_in_a_line(
    more: list[str], told: str, grounded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    end = ["--model", grounded / "model", "-o", tmp_path / "m.jsonl"] if len(more) > 1 else []
    assert run(*more, *end) == 2
    assert told in capsys.readouterr().err


def test_an_audit_is_held_against_references(
    words: list[object], grounded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The captions are the references themselves: no noun is invented, so there is nothing to part."""
    assert run(*words) == 0
    capsys.readouterr()
    assert run("score", "audit", tmp_path / "out.jsonl", "--data", grounded / "scenes", "--json") == 0
    [found] = json.loads(capsys.readouterr().out).values()
    assert found["captions"] == 12 and found["invented"] == 0 and found["auc"] is None
    (tmp_path / "none.jsonl").write_text("")
    assert run("score", "audit", tmp_path / "none.jsonl", "--data", grounded / "scenes") == 2
    assert "name the data set of its images" in capsys.readouterr().err
