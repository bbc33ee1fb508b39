"""Every exchange format is read back, and by the tool that it is made for."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from labelled_photos import labelled

from groundling.errors import DataError, GroundlingError
from groundling.labels import Label, LabelledImage, files, formats

ALL = [*formats.FORMATS]


@pytest.fixture
def images(tmp_path: Path) -> list[LabelledImage]:
    return labelled(tmp_path / "photos")


def written(name: str, images: list[LabelledImage], tmp_path: Path) -> Path:
    folder = tmp_path / name
    formats.write(name, images, folder)
    return folder


def again(name: str, images: list[LabelledImage], tmp_path: Path) -> list[LabelledImage]:
    return list(formats.read(name, written(name, images, tmp_path)))


def boxes(label: Label) -> list[tuple[float, ...]]:
    return [placed.box for placed in label.boxes]


def kept(image: LabelledImage) -> list[Label]:
    return list(image.kept)


def merged(labels: Iterable[Label]) -> set[tuple[Any, ...]]:
    """What formats hold that know phrases caption by caption: where each mention is, and its boxes."""
    return {(mention, tuple(boxes(label))) for label in labels for mention in label.mentions}


@pytest.mark.parametrize("name", ALL)
def test_every_format_keeps_the_boxes_of_what_is_exported(
    name: str, images: list[LabelledImage], tmp_path: Path
) -> None:
    """To a hundredth of a pixel; Flickr30k Entities has whole pixels."""
    found = again(name, images, tmp_path)
    assert len(found) == len(images)
    near = 0.51 if name == "flickr30k-entities" else 0.011
    for before, after in zip(images, found, strict=True):
        want = sorted({box for label in before.kept for box in boxes(label)})
        have = sorted({tuple(round(x, 2) for x in box) for label in after.kept for box in boxes(label)})
        assert len(want) == len(have)
        for one, other in zip(want, have, strict=True):
            assert other == pytest.approx(one, abs=near)
        assert after.size == before.size


@pytest.mark.parametrize("name", ["jsonl", "parquet", "webdataset"])
def test_formats_of_our_own_fields_lose_nothing(name: str, images: list[LabelledImage], tmp_path: Path) -> None:
    found = again(name, images, tmp_path)
    assert [replace(image, media="") for image in found] == [replace(image, media="") for image in images]


@pytest.mark.parametrize("name", ["parquet", "webdataset"])
def test_images_inside_a_container_can_be_exported_again(
    name: str, images: list[LabelledImage], tmp_path: Path
) -> None:
    from groundling.labels.files import content

    found = again(name, images, tmp_path)
    assert [content(image.media) for image in found] == [Path(image.media).read_bytes() for image in images]


@pytest.mark.parametrize("name", ["coco", "fiftyone", "imagefolder", "label-studio"])
def test_formats_with_phrases_keep_mentions_heads_and_confidence(
    name: str, images: list[LabelledImage], tmp_path: Path
) -> None:
    for before, after in zip(images, again(name, images, tmp_path), strict=True):
        assert after.captions == before.captions and after.id == before.id and after.split == before.split
        for one, other in zip(before.kept, after.labels, strict=True):
            assert (one.phrase, one.head, one.mentions) == (other.phrase, other.head, other.mentions)
            assert [p.confidence for p in other.boxes] == [p.confidence for p in one.boxes]
            if name in ("coco", "fiftyone"):
                assert other.evidence == one.evidence


@pytest.mark.parametrize("name", ["odvg-tokens", "mdetr"])
def test_formats_by_caption_keep_where_each_phrase_is(name: str, images: list[LabelledImage], tmp_path: Path) -> None:
    for before, after in zip(images, again(name, images, tmp_path), strict=True):
        assert after.captions == before.captions
        assert merged(after.labels) == merged(before.kept)


def test_odvg_has_one_box_a_region_or_lists_of_them(images: list[LabelledImage], tmp_path: Path) -> None:
    one = written("odvg", images, tmp_path) / "odvg.jsonl"
    many = written("odvg-tokens", images, tmp_path) / "odvg-tokens.jsonl"
    first = json.loads(one.read_text().splitlines()[0])["grounding"]
    assert [region["phrase"] for region in first["regions"]] == ["A man", "two dogs", "two dogs"]
    assert first["regions"][1]["bbox"] == [50, 40, 70, 79]
    first = json.loads(many.read_text().splitlines()[0])["grounding"]
    assert first["regions"][1] == {
        "bbox": [[50, 40, 70, 79], [80, 40, 110.5, 79]],
        "phrase": "two dogs",
        "tokens_positive": [[12, 20]],
    }


def test_flickr30k_entities_keeps_chains(images: list[LabelledImage], tmp_path: Path) -> None:
    found = again("flickr30k-entities", images, tmp_path)
    first = next(image for image in found if image.id == "a")
    assert first.split == "train"
    assert [label.mentions for label in first.labels] == [label.mentions for label in images[0].kept]


# ---------------------------------------------------------------- the tools themselves


def test_pycocotools_loads_coco(images: list[LabelledImage], tmp_path: Path) -> None:
    coco_api = pytest.importorskip("pycocotools.coco")
    folder = written("coco", images, tmp_path)
    coco = coco_api.COCO(str(folder / "annotations.json"))
    assert [row["name"] for row in coco.loadCats(coco.getCatIds())] == ["cat", "dog", "man"]
    dogs = coco.loadAnns(coco.getAnnIds(catIds=coco.getCatIds(catNms=["dog"])))
    assert [row["bbox"] for row in dogs] == [[50, 40, 20, 39], [80, 40, 30.5, 39]]
    assert coco.getImgIds() == [1, 2]


def test_pycocotools_loads_mdetr(images: list[LabelledImage], tmp_path: Path) -> None:
    coco_api = pytest.importorskip("pycocotools.coco")
    coco = coco_api.COCO(str(written("mdetr", images, tmp_path) / "mdetr.json"))
    for row in coco.loadAnns(coco.getAnnIds()):
        caption = coco.loadImgs([row["image_id"]])[0]["caption"]
        assert [caption[start:end] for start, end in row["tokens_positive"]][0] in (
            "A man",
            "two dogs",
            "dogs",
            "A cat",
        )


@pytest.mark.filterwarnings("ignore")
def test_datasets_loads_an_imagefolder(images: list[LabelledImage], tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    folder = written("imagefolder", images, tmp_path)
    data = datasets.load_dataset("imagefolder", data_dir=str(folder), cache_dir=str(tmp_path / "cache"))
    assert {split: len(data[split]) for split in data} == {"train": 1, "validation": 1}
    row = data["train"][0]
    assert row["image"].size == (120, 80)
    assert row["objects"]["phrase"] == ["A man", "two dogs", "two dogs"]
    assert row["objects"]["bbox"][0] == [10.25, 5, 29.75, 70.5]


@pytest.mark.filterwarnings("ignore")
def test_datasets_loads_parquet(images: list[LabelledImage], tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    file = written("parquet", images, tmp_path) / "labels.parquet"
    data = datasets.load_dataset("parquet", data_files=str(file), split="train", cache_dir=str(tmp_path / "cache"))
    data = data.cast_column("image", datasets.Image())
    assert [row["image"].size for row in data] == [(120, 80), (64, 48)]


def test_of_many_tars_only_those_that_were_read_last_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "OPEN_TARS", 2)
    for name in ("a", "b", "c"):
        (tmp_path / name).write_bytes(name.encode())
        with tarfile.open(tmp_path / f"{name}.tar", "w") as archive:
            archive.add(tmp_path / name, "x")
    files.close_tars()
    tars = {name: str(tmp_path / f"{name}.tar") for name in ("a", "b", "c")}
    read = [files._member(tars[name], "x").decode() for name in ("a", "b", "a", "c", "b")]
    assert read == ["a", "b", "a", "c", "b"]
    assert [*files._open_tars] == [tars["c"], tars["b"]]
    kept = [file for file, _ in files._open_tars.values()]
    files.close_tars()
    assert all(file.closed for file in kept) and not files._open_tars


@pytest.mark.filterwarnings("ignore")
def test_webdataset_reads_the_tars(images: list[LabelledImage], tmp_path: Path) -> None:
    wds = pytest.importorskip("webdataset")
    tar = written("webdataset", images, tmp_path) / "labels-000000.tar"
    rows = list(wds.WebDataset(str(tar), shardshuffle=False).decode("pil").to_tuple("__key__", "png", "json"))
    assert [(key, image.size, row["id"]) for key, image, row in rows] == [("a", (120, 80), "a"), ("b", (64, 48), "b")]


@pytest.mark.filterwarnings("ignore")
def test_label_studio_accepts_configuration_and_predictions(images: list[LabelledImage], tmp_path: Path) -> None:
    interface = pytest.importorskip("label_studio_sdk.label_interface")
    folder = written("label-studio", images, tmp_path)
    config = interface.LabelInterface((folder / "config.xml").read_text())
    config.validate()
    for task in json.loads((folder / "tasks.json").read_text()):
        assert config.validate_task({"data": task["data"]})
        for prediction in task["predictions"]:
            assert config.validate_prediction(prediction, return_errors=True) == []


def test_cvat_names_images_within_their_folder_and_splits_as_subsets(
    images: list[LabelledImage], tmp_path: Path
) -> None:
    """A file with splits is that of a project, which has subsets; one without is that of a task."""
    placed = [replace(image, media=str(tmp_path / "photos" / f"{image.id}.jpg")) for image in images]
    xml = ElementTree.parse(written("cvat", placed, tmp_path) / "annotations.xml")
    assert [one.get("name") for one in xml.iter("image")] == [f"{image.id}.jpg" for image in images]
    assert [one.text for one in xml.findall("meta/project/subsets/subset")] == sorted({one.split for one in images})
    alone = [replace(image, split="") for image in images]
    (tmp_path / "other").mkdir()
    xml = ElementTree.parse(written("cvat", alone, tmp_path / "other") / "annotations.xml")
    assert xml.find("meta/task/labels/label") is not None and xml.find("meta/project") is None


def test_yolo_names_its_classes_and_splits(images: list[LabelledImage], tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    folder = written("yolo", images, tmp_path)
    about = yaml.safe_load((folder / "data.yaml").read_text())
    assert about == {"path": ".", "train": "images/train", "val": "images/val", "names": {0: "cat", 1: "dog", 2: "man"}}
    assert (folder / "labels/train/a.txt").read_text().splitlines()[1] == "1 0.500000 0.743750 0.166667 0.487500"
    assert (folder / "images/val/b.png").exists()


# ---------------------------------------------------------------- damage


def test_an_unknown_format_is_named_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(GroundlingError, match="unknown format 'voc'.*coco"):
        list(formats.read("voc", tmp_path))


@pytest.mark.parametrize(
    ("name", "file", "content"),
    [
        ("jsonl", "labels.jsonl", '{"id": 3}'),
        ("jsonl", "labels.jsonl", '{"id": "a", "labels": [{"phrase": "x", "boxes": [{"box": [5, 5, 1, 1]}]}]}'),
        ("coco", "annotations.json", "[]"),
        ("coco", "annotations.json", "[" * 100_000),
        ("odvg", "odvg.jsonl", '{"filename": "a", "width": 5, "height": 5}'),
        ("odvg-tokens", "odvg-tokens.jsonl", '{"filename": "a", "width": 5, "height": 5, "grounding": 7}'),
        ("mdetr", "mdetr.json", '{"images": [{"id": 1}], "annotations": []}'),
        ("label-studio", "tasks.json", '[{"data": {}}]'),
        ("cvat", "annotations.xml", '<annotations><image name="a"><box xtl="nan"/></image></annotations>'),
        ("cvat", "annotations.xml", "<!DOCTYPE x><annotations/>"),
        ("parquet", "labels.parquet", "PAR1"),
        ("webdataset", "a.tar", "no tar"),
        ("yolo", "data.yaml", "path: ."),
    ],
)  # fmt: skip
def test_a_damaged_file_is_an_error_that_names_it(name: str, file: str, content: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text(content)
    with pytest.raises(DataError, match=file):
        list(formats.read(name, tmp_path))


def test_half_of_a_surrogate_pair_is_refused_where_labels_are_read() -> None:
    """JSON can spell it, and no format that is written as UTF-8 can hold it."""
    row = json.loads(json.dumps({"id": "a", "captions": ["A \ud800 dog."], "labels": []}))
    with pytest.raises(DataError, match="not a labelled image"):
        LabelledImage.from_dict(row)
