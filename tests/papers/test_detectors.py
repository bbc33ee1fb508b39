"""The detectors of the studies: one that is never wrong, and one that was taught nothing but object words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import planted
import pytest
import torch

from groundling.cli import main
from groundling.errors import DataError
from groundling.papers.detectors import (
    biased_fingerprint,
    perfect,
    perfect_fingerprint,
    seen_through,
    targets,
    train_biased,
)
from groundling.regions.store import Store
from groundling.text.classes import Classes, groundable_words, label
from groundling.types import Example, Phrase

BOX, OTHER_BOX = (0.0, 0.0, 10.0, 10.0), (20.0, 0.0, 30.0, 10.0)
CLASSES = Classes(("dog", "cat"), {"dog": "dog", "cat": "cat"})


def example(*phrases: tuple[str, tuple[float, float, float, float], int], size: tuple[int, int] = (50, 10)) -> Example:
    """A caption per phrase: a word, its box, its frame."""
    captions = tuple(planted.caption(word, "tree") for word, _, _ in phrases)
    gold = tuple(Phrase(i, (0, 2), (box,), (frame,)) for i, (_, box, frame) in enumerate(phrases))
    return Example("1", "", size, captions, gold)


def test_a_box_is_one_region_with_all_its_labels() -> None:
    """The dog is also called a cat by somebody; the boat is of no class, so it is of the last column."""
    found = perfect(example(("dog", BOX, 0), ("cat", BOX, 0), ("boat", OTHER_BOX, 0)), CLASSES)
    assert found.boxes[0].tolist() == [list(BOX), list(OTHER_BOX)]
    assert found.feats[0].tolist() == [[1, 1, 0], [0, 0, 1]]
    assert found.labels[0].tolist() == [[0], [2]]
    assert found.size[0].tolist() == [50, 10]
    assert perfect_fingerprint(CLASSES).dim == 3
    assert perfect_fingerprint(CLASSES).labels == ("dog", "cat", "other")


def test_a_class_that_the_data_set_names_is_that_of_the_region() -> None:
    """As in ActivityNet-Entities, which calls a puppy a dog."""
    seen = example(("puppy", BOX, 0))
    seen = replace(seen, gold=(replace(seen.gold[0], label="dog", head=1),))
    assert perfect(seen, CLASSES).feats[0].tolist() == [[1, 0, 0]]


def test_the_same_box_in_another_frame_is_another_region() -> None:
    found = perfect(example(("dog", BOX, 0), ("dog", BOX, 3)), CLASSES)
    assert found.frame[0].tolist() == [0, 3]


def test_an_image_without_boxes_is_one_region() -> None:
    found = perfect(example(), CLASSES)
    assert found.boxes[0].tolist() == [[0, 0, 50, 10]]
    assert found.feats[0].tolist() == [[0, 0, 1]]


def test_an_image_of_unknown_size_is_named() -> None:
    with pytest.raises(DataError, match="image '1'.*size"):
        perfect(example(("dog", BOX, 0), size=(0, 0)), CLASSES)


def test_a_region_is_the_class_of_the_box_that_it_overlaps_most_in_its_frame(tmp_path: Path) -> None:
    """Region i of the planted images is the box from 10 i to 10 i + 10."""
    _, store = planted.make(tmp_path, images=1)
    regions = store["0"]
    near = (21.0, 0.0, 31.0, 10.0)  # IoU with region 2: 9 / 11
    seen = label([example(("dog", near, 0), ("cat", (20.0, 0.0, 30.0, 10.0), 0), ("dog", BOX, 1))], CLASSES)[0]
    assert targets(seen, regions, CLASSES).tolist() == [2, 2, 1, 2, 2]
    half = replace(seen, size=(100, 20))  # the boxes were drawn on a picture twice as large
    assert targets(half, regions, CLASSES).tolist() == [2, 2, 2, 2, 2]


def test_the_biased_detector_tells_object_words_apart_and_is_known_by_its_weights(tmp_path: Path) -> None:
    """On images that it was not trained on; by chance, 1 in 7."""
    dataset, store = planted.make(tmp_path, images=400)
    classes = groundable_words(dataset)
    head = train_biased(dataset.split("train"), store, classes)
    hits, n = 0, 0
    for seen in label(dataset.split("val"), classes):
        regions = store[seen.id]
        told = seen_through(head, regions)
        where = targets(seen, regions, classes)
        objects = where < len(classes.names)
        hits += int((told.labels[0, objects, 0] == where[objects]).sum())
        n += int(objects.sum())
        assert torch.equal(told.boxes, regions.boxes)
        assert told.feats.shape[2] == 256
    assert hits > 0.9 * n
    again = train_biased(dataset.split("train"), store, classes)
    before, after = (biased_fingerprint(x, store.fingerprint, classes) for x in (head, again))
    assert before == after
    other = train_biased(dataset.split("val"), store, classes)
    assert biased_fingerprint(other, store.fingerprint, classes) != before


def test_the_commands_write_stores_that_train(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, store, truth, biased = (str(tmp_path / name) for name in ("scenes", "regions", "truth", "biased"))
    assert main(["scenes", data, "--images", "12", "--size", "96", "--workers", "1"]) == 0
    assert main(["regions", "extract", data, "--source", "scenes", "--out", store, "--workers", "1"]) == 0
    assert main(["regions", "truth", data, "--out", truth]) == 0
    assert main(["regions", "biased", data, "--regions", store, "--out", biased]) == 0
    assert len(Store.open(truth)) == len(Store.open(biased)) == 12
    assert Store.open(biased).layout.dim == 256
    capsys.readouterr()
    assert main(["regions", "truth", data, "--out", truth]) == 0
    assert capsys.readouterr().out == f"{truth}: 12 images, 0 of them new\n"
    small = ["--hidden", "8", "--embed", "8", "--attention", "8", "--location", "4", "--min-count", "1"]
    quick = ["--pretrain", "1", "--epochs", "1", "--threads", "1"]
    words = ["train", "cyclical", "--data", data, "--regions", truth, "--out", str(tmp_path / "run")]
    assert main([*words, *small, *quick]) == 0


def test_data_without_boxes_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from PIL import Image

    Image.new("RGB", (8, 8)).save(tmp_path / "1.png")
    (tmp_path / "captions.jsonl").write_text('{"image": "1.png", "captions": ["a dog"], "split": "train"}')
    assert main(["regions", "truth", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert "has no boxes" in capsys.readouterr().err
