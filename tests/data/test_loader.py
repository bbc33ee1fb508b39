from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from groundling.data.dataset import Dataset
from groundling.data.loader import Loader, ahead
from groundling.errors import DataError
from groundling.regions.store import Store, Writer
from groundling.tensors import Batch, Regions
from groundling.text.vocab import Vocabulary
from groundling.types import Caption, Example, Fingerprint, Phrase

IMAGES = 50
WORDS = tuple(f"w{i}" for i in range(30))
VOCAB = Vocabulary(("<pad>", "<bos>", "<eos>", "<unk>", *WORDS))


def caption(image: int, number: int) -> Caption:
    """Words that tell where it is from; lengths from 2 to 12."""
    words = (f"w{number}", f"w{image % 30}", *["w0"] * ((image * 7 + number * 3) % 11))
    return Caption(" ".join(words), words, tuple((0, 0) for _ in words))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    path = tmp_path_factory.mktemp("regions") / "store"
    with Writer(path, Fingerprint("test", "1", 4)) as writer:
        for i in range(IMAGES):
            boxes = torch.tensor([[0.0, 0.0, 10.0, 10.0]]).repeat(3 + i % 3, 1)
            writer.add(f"image{i}", Regions.of(torch.full((len(boxes), 4), float(i)), boxes, (20, 20)))
    return Store.open(path)


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    phrase = Phrase(0, (0, 1), boxes=((0, 0, 10, 10),), head=0)
    examples = (
        Example(f"image{i}", "", (20, 20), tuple(caption(i, j) for j in range(5)), gold=(phrase,))
        for i in range(IMAGES)
    )
    return Dataset("test", Path(), tuple(examples))


def loader(dataset: Dataset, store: Store, **more: Any) -> Loader:
    return Loader(dataset, store, VOCAB, **{"batch_size": 8, "length": 9, "seed": 3, **more})


def rows(batches: Iterator[Batch]) -> list[list[tuple[str, tuple[int, ...]]]]:
    """Of each batch, its captions with their images."""
    return [
        [(b.ids[i], tuple(row)) for i, row in zip(b.image_of.tolist(), b.tokens.tolist(), strict=True)] for b in batches
    ]


def test_an_epoch_shows_every_image_once_with_all_its_captions(dataset: Dataset, store: Store) -> None:
    batches = list(loader(dataset, store)(0))
    assert Counter(id for b in batches for id in b.ids) == {f"image{i}": 1 for i in range(IMAGES)}
    assert sum(len(b.tokens) for b in batches) == 5 * IMAGES
    assert sorted(len(b.ids) for b in batches) == [7, 7, 7, 7, 7, 7, 8]  # spread evenly, no rest
    for b in batches:
        assert b.tokens.shape[1] <= 11
        number = b.regions.feats[torch.arange(len(b.ids)), 0, 0].tolist()
        assert [f"image{int(n)}" for n in number] == list(b.ids)


def test_the_order_is_a_function_of_seed_and_epoch(dataset: Dataset, store: Store) -> None:
    first = rows(loader(dataset, store)(1))
    assert rows(loader(dataset, store)(1)) == first
    assert rows(loader(dataset, store)(2)) != first
    assert rows(loader(dataset, store, seed=4)(1)) != first


def test_starting_later_gives_the_rest_and_reads_nothing_before_it(
    dataset: Dataset, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = rows(loader(dataset, store)(1))
    read: list[str] = []
    original = Store.batch

    def spy(self: Store, ids: list[str], limit: int | None = None) -> Regions:
        read.extend(ids)
        return original(self, ids, limit)

    monkeypatch.setattr(Store, "batch", spy)
    late = loader(dataset, store)(1, start=5)
    assert rows(late) == whole[5:]
    assert len(read) == len({id for batch in whole[5:] for id, _ in batch})
    assert list(loader(dataset, store)(1, start=7)) == []


def test_captions_take_turns(dataset: Dataset, store: Store) -> None:
    """Two of five per epoch: after five epochs each was shown twice, and never twice in one."""
    some = loader(dataset, store, captions_per_image=2)
    seen: Counter[tuple[str, int]] = Counter()
    for epoch in range(5):
        now = [(id, row[1]) for batch in rows(some(epoch)) for id, row in batch]  # the first word numbers the caption
        assert len(now) == len(set(now)) == 2 * IMAGES
        seen.update(now)
    assert len(seen) == 5 * IMAGES
    assert set(seen.values()) == {2}


def test_ranked_captions_are_the_same_in_every_epoch(dataset: Dataset, store: Store) -> None:
    """The best two of every image; the first word of a caption is its number, as the vocabulary counts it."""
    some = loader(dataset, store, captions_per_image=2, ranks=lambda example: [3, 1, 0, 2, 4])
    for epoch in range(3):
        shown = Counter(row[1] for batch in rows(some(epoch)) for _, row in batch)
        assert shown == {VOCAB.encode(["w3"])[0]: IMAGES, VOCAB.encode(["w1"])[0]: IMAGES}


def test_captions_of_like_length_meet_and_lengths_come_in_random_order(dataset: Dataset, store: Store) -> None:
    batches = list(loader(dataset, store, captions_per_image=1, batch_size=5)(0))
    spread = [int((b.tokens != 0).sum(1).max() - (b.tokens != 0).sum(1).min()) for b in batches]
    assert sum(spread) / len(spread) <= 2
    lengths = [b.tokens.shape[1] for b in batches]
    assert lengths != sorted(lengths)


def test_processes_share_out_the_same_global_batches(dataset: Dataset, store: Store) -> None:
    whole = [set(b.ids) for b in loader(dataset, store)(1)]
    parts = [[b.ids for b in loader(dataset, store, rank=rank, world=3)(1)] for rank in range(3)]
    assert [set().union(*shares) for shares in zip(*parts, strict=True)] == whole
    assert [sum(map(len, shares)) for shares in zip(*parts, strict=True)] == [len(ids) for ids in whole]
    with pytest.raises(DataError, match="too few for 9 processes"):
        loader(dataset, store, world=9)


def test_only_a_recipe_that_uses_boxes_gets_the_truth(dataset: Dataset, store: Store) -> None:
    assert all(b.gold is None for b in loader(dataset, store)(0))
    batch = next(loader(dataset, store, uses_boxes=True)(0))
    assert batch.gold is not None
    first = batch.tokens[:, 1] == VOCAB.encode(["w0"])[0]  # the first caption of each image has a box at its first word
    assert batch.gold.any(2).sum() == first.sum() == len(batch.ids)
    assert batch.gold[:, 1].any(1).equal(first)


def test_regions_can_be_limited(dataset: Dataset, store: Store) -> None:
    assert {b.regions.boxes.shape[1] for b in loader(dataset, store, regions=2)(0)} == {2}


def test_images_without_regions_are_named(dataset: Dataset, store: Store) -> None:
    more = Dataset("test", Path(), (*dataset.examples, Example("lost", "", (1, 1), (caption(0, 0),))))
    with pytest.raises(DataError, match="1 of 51 images have no regions in .*'lost'.*regions extract"):
        loader(more, store)


def test_images_and_captions_without_words_are_left_out(dataset: Dataset, store: Store) -> None:
    silent = Caption("...", (), ())
    examples = (
        Example("image0", "", (20, 20), (silent, caption(0, 1))),
        Example("image1", "", (20, 20), (silent,)),
        Example("image2", "", (20, 20)),
    )
    batches = list(loader(Dataset("test", Path(), examples), store)(0))
    assert [b.ids for b in batches] == [("image0",)]
    assert len(batches[0].tokens) == 1


def test_an_error_in_the_thread_is_raised_where_batches_are_asked_for() -> None:
    def things() -> Iterator[int]:
        yield 1
        raise DataError("damaged")

    made = ahead(things(), 2)
    assert next(made) == 1
    with pytest.raises(DataError, match="damaged"):
        next(made)


def test_the_thread_stays_a_few_ahead_and_ends_with_its_consumer() -> None:
    made: list[int] = []
    third = threading.Event()

    def things() -> Iterator[int]:
        for i in range(1000):
            made.append(i)
            if i == 3:
                third.set()
            yield i

    before = threading.active_count()
    stream = ahead(things(), 2)
    assert next(stream) == 0
    assert third.wait(5)  # 1 and 2 wait in the queue, 3 in the hands of the thread
    assert len(made) <= 4
    stream.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before
