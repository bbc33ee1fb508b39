"""Mistakes of a first hour: each is answered with one line that names the cure, a code other than 0, no traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from groundling.cli import main
from groundling.commands import did_you_mean
from groundling.commands.train import few_photos


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what a newcomer may have in it."""
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (64, 48), "white").save("photo.png")
    Path("empty.jpg").touch()
    Path("notes.txt").write_text("a dog")
    Path("photo.heic").write_bytes(b"not a photo")
    Path("nothing").mkdir()
    for folder in ("pictures", "table", "album"):
        Path(folder).mkdir()
    for name in ("a.png", "b.png"):
        Image.new("RGB", (64, 48), "white").save(f"album/{name}")
    for folder in ("own", "mine"):
        Path(folder).mkdir()
        Image.new("RGB", (64, 48), "white").save(f"{folder}/a.png")
    Path("mine/captions.csv").write_text("image,caption\na.png,A dog runs.\n")
    Path("own/captions.json").write_text(
        '{"images": [{"id": 1, "file_name": "a.png"}], "annotations": [{"image_id": 1, "caption": "A dog runs."}]}'
    )
    Path("list.json").write_text('[{"image_id": 1, "caption": "a dog"}]')
    Image.new("RGB", (64, 48), "white").save("pictures/a.png")
    Path("table/absent.csv").write_text("image,caption\na.jpg,A dog runs.\nb.jpg,A cat sleeps.\n")
    Path("pictures/few.csv").write_text("image,caption\na.png,A dog runs.\n")
    Path("pictures/absent.csv").write_text("image,caption\nx.jpg,A dog runs.\ny.jpg,A cat sleeps.\n")
    Path("object.json").write_text('{"picture": "photo.png", "words": "a dog"}')
    Path("few.json").write_text('[{"image_id": 1, "caption": "a dog"}]\n{"image_id"')
    Path("columns.csv").write_text("picture_of,words\na.jpg,A dog.\n")
    Path("captions.jsonl").write_text('{"id": "a"\n')
    return tmp_path


MISTAKES = [
    ("captoin photo.png", "did you mean caption? `groundling --help` lists all commands"),
    ("caption photo.png --jsn", "did you mean --json? `groundling caption --help` shows examples"),
    (
        "train supervised_aware --data d --regions r --out o --decay-every 1",
        "unknown argument --decay-every; did you mean --decay? `groundling train supervised_aware --help`",
    ),
    ("score val.jsonl --dat d", "did you mean --data?"),
    ("score foils d --regions r --imges 3", "did you mean --images?"),
    ("score captoins --pred p --refs r", "did you mean captions?"),
    ("caption", "required: IMAGES"),
    ("caption photo.png --beam wide", "--beam: invalid int value"),
    ("caption photo.png --beam 0", "the beam must be 1 or more"),
    ("caption photo.png --temperature 0.5", "--temperature needs --sample"),
    ("caption missing.png", "missing.png does not exist: check the path"),
    ("caption https://example.org/a.jpg", "https://example.org/a.jpg is an address, and nothing is fetched: download"),
    ("caption photo.png --device gpu", "use cuda (NVIDIA), mps (Apple) or cpu"),
    ("caption photo.png --model nowhere", "no model in nowhere"),
    ("caption photo.png --model nothing", "name the folder that `groundling train` or `groundling adapt` wrote"),
    ("caption photo.png --model flickr30k", "the package has everyday and flickr8k alone; did you mean flickr8k?"),
    ("serve --model nowhere", "no model in nowhere"),
    ("caption nothing", "no image files"),
    ("caption notes.txt", "no known data set is here"),
    ("caption photo.png --out nothing", "is a folder: give the name of a file"),
    ("ground photo.png", "name what to find"),
    (
        "ground photo.png a dog on grass",
        "too many arguments: dog on grass; a sentence is one argument, between quotes; more phrases go with --phrase.",
    ),
    ("caption photo.png --json x.json", "too many arguments: x.json."),
    ("train updwn --data d --regions r --out o", "did you mean updown?"),
    ("train two_branch --data d --regions r --out o --heart 1", "did you mean --hard?"),
    ("train updown --data missing --regions r --out o", "r"),
    ("train updown --data d --regions r --out o", "make one: groundling regions extract DATA --source photos --out r"),
    ("adapt", "required: --data"),
    ("adapt --data missing", "missing: no such file or folder"),
    ("adapt --data columns.csv", "columns.csv"),
    ("adapt --data pictures/few.csv", "adapting needs 2 there, better 20; add photos"),
    ("caption photo.png --frames 0", "--frames"),
    (
        "caption photo.png --png photo.png",
        "photo.png is what the command reads, and would be lost: choose another place",
    ),
    ("caption photo.png pictures/a.png --png x.png", "--png x.png is one picture, and 2 are drawn: name a folder, x/"),
    ("caption pictures/a.png --png pictures", "pictures/a.png is what the command reads, and would be lost"),
    ("ground pictures dog --png pictures/a.png", "pictures/a.png is what the command reads, and would be lost"),
    ("ground photo.png dog --png photo.png", "photo.png is what the command reads, and would be lost"),
    ("caption photo.png --out photo.png", "photo.png is what the command reads, and would be lost"),
    ("caption own --out own/captions.json", "own/captions.json is what the command reads, and would be lost"),
    ("caption table --out table/absent.csv", "table/absent.csv is what the command reads, and would be lost"),
    ("audit --data own --html own/captions.json", "own/captions.json is what the command reads, and would be lost"),
    ("label own --out o --review own/captions.json", "own/captions.json is what the command reads, and would be lost"),
    ("report captions.jsonl --data own -o own/captions.json", "own/captions.json is what the command reads"),
    ("study list.json list.json --data own --out own/captions.json", "own/captions.json is what the command reads"),
    ("caption mine --out mine/captions.csv", "mine/captions.csv is what the command reads, and would be lost"),
    ("caption pictures --html pictures/a.png", "pictures/a.png is what the command reads, and would be lost"),
    ("ground photo.png dog --coco-boxes photo.png", "photo.png is what the command reads, and would be lost"),
    ("audit list.json -o list.json --overwrite", "list.json is what the command reads, and would be lost"),
    ("audit list.json --html ./list.json", "list.json is what the command reads, and would be lost"),
    ("audit list.json --images album -o few.json", "few.json: line 1 is no line of an audit"),
    ("audit list.json --images album -o notes.txt", "notes.txt: line 1 is no line of an audit"),
    ("convert list.json -o list.json", "list.json is what the command reads, and would be lost"),
    ("convert list.json --problems list.json", "list.json is what the command reads, and would be lost"),
    ("report captions.jsonl -o captions.jsonl", "captions.jsonl is what the command reads, and would be lost"),
    ("study list.json captions.jsonl --out list.json", "list.json is what the command reads, and would be lost"),
    ("df list.json -o list.json", "list.json is what the command reads, and would be lost"),
    ("caption empty.jpg", "the file is empty; fetch it again"),
    ("ground missing.png dog", "missing.png does not exist: check the path"),
    ("ground https://example.org/a.jpg dog", "nothing is fetched: download the picture"),
    ("ground photo.png ?!", "name what to look for (--phrase)"),
    ("audit", "name a file of CAPTIONS"),
    ("audit table/absent.csv", "give --images FOLDER"),
    ("audit object.json --images album", "no image called 'picture'; expected an image of --images and its caption"),
    ("audit photo.png", "photo.png is a picture: name the file of its CAPTIONS"),
    ("adapt --data pictures/absent.csv", "pictures/absent.csv, line 2: image x.jpg: no such file"),
    ("adapt --data album", "2 pictures without captions: add captions.csv with the columns image and caption"),
    ("regions extract pictures --source photo --out s", "unknown region source 'photo'; did you mean photos?"),
    ("reproduce pos-scan-table-22", "unknown table 'pos-scan-table-22'; did you mean pos-scan-table-2?"),
    ("reproduce --page page.md --out typo", "typo has no results of tables (summaries/*.json): name the folder"),
    ("reproduce --page page.md --out nothing", "nothing has no results of tables"),
    ("score captions --pred p.json --refs list.json --metrics blue", "unknown metric 'blue'; did you mean bleu?"),
    ("score captions --pred list.json --refs list.json", "list.json: references are COCO captions JSON"),
    ("score captions.jsonl --data missing", "captions.jsonl: not JSON"),
    ("doctor --regions s", "--regions needs DATA"),
    ("scenes", "required: "),
]


@pytest.mark.parametrize(("line", "cure"), MISTAKES, ids=[line for line, _ in MISTAKES])
def test_a_mistake_is_answered_with_its_cure(
    here: Path, line: str, cure: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in here.rglob("*.*") if path.is_file()}
    try:
        code = main(line.split())
    except SystemExit as stopped:  # of the parser
        code = int(stopped.code or 0)
    told = capsys.readouterr().err.strip().splitlines()
    assert code != 0
    assert {path: path.read_bytes() for path in before} == before  # nothing of the user's is lost
    assert told[-1].startswith("groundling: ") or told[-1].startswith("  ")  # what was looked for is a list
    assert cure in "\n".join(told)
    assert not any("Traceback" in one for one in told)


def test_a_table_whose_pictures_are_all_missing_is_a_problem(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "table/absent.csv", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)["data"]["problems"]
    assert any("not one of the 2 images is there" in one for one in told)


def test_a_table_of_missing_pictures_beside_others_names_the_first(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "pictures/absent.csv", "--json"]) == 1
    [told] = json.loads(capsys.readouterr().out)["data"]["problems"]
    assert "all 2 items are bad; the first: " in told and "x.jpg" in told
    assert main(["doctor", "pictures/absent.csv"]) == 1  # and it is told at the end, where people read
    assert "x.jpg" in "".join(capsys.readouterr().out.splitlines()[-6:])


def test_a_picture_in_two_splits_is_a_problem_and_few_photos_are_told_to_adapt(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("b.png").write_bytes(Path("photo.png").read_bytes())
    Path("own.csv").write_text("image,caption,split\nphoto.png,A dog.,train\nb.png,A cat.,val\n")
    assert main(["doctor", "own.csv", "--json"]) == 1
    data = json.loads(capsys.readouterr().out)["data"]
    assert any("the same picture is in 2 splits" in one for one in data["problems"])
    assert "groundling adapt" in data["facts"]["training"]
    assert data["facts"]["adapting"] == "needs 2 photos in the split val, better 20, and has 1 photo: add photos"
    assert data["facts"]["training"].startswith("1 photo is few")


def test_what_adapting_takes_is_told_where_there_are_photos_to_judge_on(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{i}.png,A dog.,{'val' if i < 2 else 'train'}\n" for i in range(4)]
    for i in range(4):
        Image.new("RGB", (64, 48), (60 * i, 0, 0)).save(f"{i}.png")
    Path("own.csv").write_text("image,caption,split\n" + "".join(rows))
    assert main(["doctor", "own.csv", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)["data"]["facts"]
    assert facts["adapting"] == "about 1 minute of one core, and 1 MB for regions"


def test_what_is_like_nothing_is_not_guessed() -> None:
    assert did_you_mean("captoin", ["caption", "score"]) == "; did you mean caption?"
    assert did_you_mean("xyz", ["caption", "score"]) == ""


def test_training_from_nothing_on_few_photos_is_warned_of() -> None:
    assert "try `groundling adapt --data my` first" in few_photos(300, "photos", "my", started=False)
    assert few_photos(300, "scenes", "my", started=False) == ""
    assert few_photos(300, "photos", "my", started=True) == few_photos(9000, "photos", "my", started=False) == ""
