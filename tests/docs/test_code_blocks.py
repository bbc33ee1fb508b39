"""Every code block of the README and of the tutorials runs, from top to bottom, on little drawn data.

Commands run as they are printed, but for sizes: fewer scenes, smaller layers, one epoch. Where a page shows what a
command prints, that is compared. A block of which a line is in `MINUTES` takes long even so: its test is `slow`.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from blocks import Block, Command, blocks, commands, prints
from PIL import Image

from groundling.cli import main
from groundling.data.dataset import load
from groundling.recipes._config import read as settings_of

ROOT = Path(__file__).parent.parent.parent
VECTORS = ROOT / "tests" / "vectors"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("tutorials/*.md")), *sorted((ROOT / "docs/api").glob("*.md"))]
SCENES = 24  # drawn instead of hundreds
SMALL = {"epochs": 1, "hidden": 16, "embed": 16, "attention": 16, "joint": 16, "batch": 8, "min_count": 1}
MINUTES = ("groundling reproduce ", "groundling train two_branch", "groundling train groundling ", "--source photos")
MINUTES += ("groundling adapt ",)
SHELLS = ("python", "console")


def pages(slow: bool) -> list[Any]:
    """Pages whose blocks take seconds, or those that have some that take minutes."""
    found = [page for page in PAGES if any(is_slow(block) for block in blocks(page, ROOT)) or not slow]
    return [pytest.param(page, id=page.relative_to(ROOT).as_posix()) for page in found]


def is_slow(block: Block) -> bool:
    return any(part in line for part in MINUTES for line in block.text.splitlines() if "--help" not in line)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the pages take for granted."""
    folder = tmp_path_factory.mktemp("files")
    drawn = ["--images", str(SCENES), "--size", "128", "--workers", "1", "--splits", "0.5", "0.25", "0.25"]
    assert main(["scenes", str(folder / "data/flickr30k"), *drawn]) == 0
    photos_with_captions(folder)
    files_of_evaluators(folder)
    return folder


@pytest.fixture
def place(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a page's code runs: a copy of these files."""
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def photos_with_captions(place: Path) -> None:
    """`photo.jpg`, a folder `new` of photos, and `my/data`, photos with a table of captions; a folder `photos`, and
    `captions.tsv` and `photos.csv` about its files."""
    (place / "my/data").mkdir(parents=True)
    (place / "new").mkdir()
    rows = ["image\tcaption"]
    for example in load(place / "data/flickr30k", annotated=False):
        shutil.copy(example.media, place / "my/data" / Path(example.media).name)
        rows += [f"{Path(example.media).name}\t{caption.text}" for caption in example.captions]
    (place / "my/data/captions.tsv").write_text("\n".join(rows))
    pictures = sorted((place / "my/data").glob("*.png"))
    for name, picture in zip(("photo.jpg", "new/a.jpg", "new/b.jpg"), pictures, strict=False):
        Image.open(picture).convert("RGB").save(place / name)
    (place / "photos").mkdir()
    shutil.copy(place / "photo.jpg", place / "photos/dog.jpg")
    (place / "captions.tsv").write_text("dog.jpg\ta dog on the grass\n")
    (place / "photos.csv").write_text("image,caption\nphotos/dog.jpg,a dog on the grass\n")
    (place / "demo/photos").mkdir(parents=True)  # as `make demo` lays them out
    Image.open(place / "photo.jpg").save(place / "demo/photos/coffee.png")
    (place / "demo/photos/CREDITS.txt").write_text("drawn for a test")
    (place / "demo/captions.tsv").write_text("coffee.png\ta cup of coffee\n")


def files_of_evaluators(place: Path) -> None:
    """COCO results and references, captions with links of two systems, submissions for the official evaluators."""
    examples = list(load(place / "data/flickr30k", "test", annotated=False))
    texts = [{"image_id": i, "caption": c.text} for i, e in enumerate(examples) for c in e.captions]
    images = [{"id": i, "file_name": f"{i}.jpg"} for i in range(len(examples))]
    write(place / "captions_val2014.json", {"images": images, "annotations": texts})
    write(place / "results.json", [{"image_id": i, "caption": e.captions[1].text} for i, e in enumerate(examples)])
    for name in ("captions", "plain", "grounded"):
        rows = [{"id": e.id, "caption": e.captions[0].text, "links": links(e)} for e in examples]
        (place / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for kind, folder in (("image", "flickr30k"), ("video", "activitynet")):
        vectors = json.loads(gzip.decompress((VECTORS / f"grounding_{kind}_s.json.gz").read_bytes()))
        (place / "official" / folder).mkdir(parents=True)
        for name, key in (("submission", "submission_generated"), ("reference", "reference"), ("splits", "splits")):
            write(place / "official" / folder / f"{name}.json", vectors[key])


def links(example: Any) -> list[dict[str, Any]]:
    """The last word of each phrase of the first caption, with its first box."""
    spans = example.captions[0].spans
    tied = {p.span[1] - 1: p.boxes[0] for p in example.gold if p.caption == 0 and p.boxes}
    return [{"token": t, "span": spans[t], "box": box, "score": 1.0} for t, box in tied.items()]


def write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


# ---------------------------------------------------------------- running


def run_page(page: Path, capsys: pytest.CaptureFixture[str], slow: bool) -> int:
    """Run the blocks of a page; how many."""
    names: dict[str, Any] = {}
    chosen = [b for b in blocks(page, ROOT) if b.language in SHELLS and (slow or not is_slow(b))]
    for block in chosen:
        if block.language == "python":
            exec(compile(block.text, block.where, "exec"), names)
            continue
        for command in commands(block):
            run_command(command, block.where, capsys)
    return len(chosen)


def run_command(command: Command, where: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = command.words
    if words[:2] == ["pip", "install"]:
        return check_extras(words, where)
    assert words[0] == "groundling", f"{where}: {words[0]} is not a command that the tests can run"
    if words[1] == "serve":  # which ends when it is stopped
        words = [*words, "--help"]
    capsys.readouterr()
    try:
        code = main(smaller(words[1:]))
    except SystemExit as stopped:  # of --help
        code = int(stopped.code or 0)
    out, err = capsys.readouterr()
    assert code == 0, f"{where}: `{command.text}` ends with {code}: {err.strip()}"
    if command.printed:
        assert prints(command.printed, out), f"{where}: `{command.text}` prints\n{out}"
    return None


def smaller(words: Sequence[str]) -> list[str]:
    """The same command on less data, in one process."""
    words = list(words)
    if words[0] == "train" and "--help" not in words:
        fields = {field.name for field in settings_of(words[1])[1]}
        for name, value in SMALL.items():
            if name in fields:
                words += [f"--{name.replace('_', '-')}", str(value)]
    if words[:2] == ["regions", "extract"]:
        words += ["--workers", "1"]
    if words[0] == "scenes":
        words += ["--images", str(SCENES), "--workers", "1"]
    if words[0] == "reproduce" and len(words) > 1:
        words += ["--rows", "1", "--seeds", "0", "--set", "epochs=1"]
        words += [w for name, value in SMALL.items() if name != "epochs" for w in ("--set", f"{name}={value}")]
    return words


def check_extras(words: Sequence[str], where: str) -> None:
    """Installing is not for tests; that the extras exist is."""
    project = (ROOT / "pyproject.toml").read_text()
    for extra in (name for word in words for found in re.findall(r"\[(.+)\]", word) for name in found.split(",")):
        assert re.search(rf"^{extra} = \[", project, re.MULTILINE), f"{where}: there is no extra [{extra}]"


# ---------------------------------------------------------------- tests


@pytest.mark.parametrize("page", pages(slow=False))
def test_the_code_of_a_page_runs(page: Path, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_page(page, capsys, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize("page", pages(slow=True))
def test_all_code_of_a_page_runs(page: Path, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_page(page, capsys, slow=True) > 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_that_nothing_runs_is_not_shown_as_code(page: Path) -> None:
    """A block in another language would be passed over without a word: `text` says that it is none."""
    assert {block.language for block in blocks(page, ROOT)} <= {*SHELLS, "text"}


def test_the_home_page_shows_code_of_the_readme() -> None:
    shown = [block.text for block in blocks(ROOT / "docs/index.md", ROOT)]
    assert shown and set(shown) <= {block.text for block in blocks(ROOT / "README.md", ROOT)}


def test_a_wrong_output_is_noticed() -> None:
    assert prints(("a  1", "…", "c"), "a  1  \nb\nb\nc\n")
    assert not prints(("a  1", "…", "c"), "a  2\nb\nc\n")
    assert not prints(("a",), "a\nb\n")


def test_commands_are_split_as_a_shell_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b.jpg").touch()
    block = Block("x.md", 1, "console", '$ groundling caption *.jpg \\\n    --out "a b"   # a note\nsaid\n')
    [command] = commands(block)
    assert command.words == ["groundling", "caption", "b.jpg", "--out", "a b"]
    assert command.printed == ("said",)
