"""Batches of a dataset and its region store, in an order that is a function of the seed and the epoch alone."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from groundling.data.collate import collate, encode, overlap
from groundling.data.dataset import Dataset
from groundling.errors import DataError
from groundling.regions.store import Store
from groundling.tensors import Batch
from groundling.types import Example, Vocab

logger = logging.getLogger(__name__)

Thing = TypeVar("Thing")

POOL = 16  # batches among which images are sorted by length
AHEAD = 3  # batches made while the model works


class Loader:
    """`loader(epoch)` yields the epoch's batches, `loader(epoch, start)` those from step `start` on.

    An epoch shows every image once, with `captions_per_image` of its captions (all, if it has fewer). They take turns,
    in an order drawn once, so that all are shown equally often; or, where they are ranked, the first ones are shown in
    every epoch. The images of an epoch are spread evenly over its batches:
    there is no small last one.

    For speed, captions of similar length meet: the shuffled epoch is cut into pools of POOL batches, the images of a
    pool are sorted by their longest caption and cut into batches, and the batches of the epoch are shuffled. Which
    images of about one length meet is random in every epoch, and so is the order of lengths.

    With several processes each takes every `world`-th image of the same global batch, from its `rank` on.
    """

    def __init__(
        self,
        dataset: Dataset,
        store: Store,
        vocab: Vocab,
        *,
        batch_size: int,
        length: int,
        captions_per_image: int = 5,
        ranks: Callable[[Example], Sequence[int]] | None = None,
        regions: int | None = None,
        seed: int = 0,
        uses_boxes: bool = False,
        merge_boxes: bool = True,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        """`batch_size`: images, of all processes together. `length`: words of a caption at most; `ranks`: the captions
        of an example, best first; `regions`: of an image at most (None: all). `uses_boxes`: give the truth to a recipe
        that declares that it uses it; `merge_boxes`: of a word with several boxes, the box around them, not any one."""
        self.examples = [example for example in dataset if any(caption.tokens for caption in example.captions)]
        if len(self.examples) < len(dataset):
            logger.info("%d images without a caption are left out", len(dataset) - len(self.examples))
        _require_regions(self.examples, store)
        self.store, self.vocab, self.seed, self.regions = store, vocab, seed, regions
        self.uses_boxes, self.merge_boxes, self.rank, self.world = uses_boxes, merge_boxes, rank, world
        self.steps = -(-len(self.examples) // batch_size)
        if not self.steps or len(self.examples) // self.steps < world:
            raise DataError(f"{len(self.examples)} images in batches of {batch_size} are too few for {world} processes")
        draw = np.random.default_rng([seed])
        self.captions_per_image = captions_per_image
        self.lines = [[encode(caption, vocab, length) for caption in example.captions] for example in self.examples]
        usable = [[i for i, caption in enumerate(example.captions) if caption.tokens] for example in self.examples]
        self.turns = [draw.permutation(captions).tolist() for captions in usable]
        self.ranked = ranks is not None
        if ranks is not None:
            self.turns = [list(ranks(example)) for example in self.examples]

    def __len__(self) -> int:
        """Steps of an epoch."""
        return self.steps

    def __call__(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        chosen = [self._turn(turns, epoch) for turns in self.turns]
        return ahead((self._batch(images, chosen) for images in self._order(epoch, chosen)[start:]), AHEAD)

    def _turn(self, turns: list[int], epoch: int) -> list[int]:
        """The captions of an image that take part in an epoch."""
        count = min(self.captions_per_image, len(turns))
        first = 0 if self.ranked else epoch * count
        return [turns[(first + i) % len(turns)] for i in range(count)]

    def _order(self, epoch: int, chosen: list[list[int]]) -> list[NDArray[np.int64]]:
        """The images of each global batch."""
        draw = np.random.default_rng([self.seed, epoch])
        longest = np.array([max(len(lines[i]) for i in of) for lines, of in zip(self.lines, chosen, strict=True)])
        shuffled = draw.permutation(len(self.examples))
        pools = np.array_split(shuffled, -(-self.steps // POOL))
        sorted_ = np.concatenate([pool[np.argsort(longest[pool], kind="stable")] for pool in pools])
        batches = np.array_split(sorted_, self.steps)
        return [batches[i] for i in draw.permutation(self.steps)]

    def _batch(self, images: NDArray[np.int64], chosen: list[list[int]]) -> Batch:
        own = images[self.rank :: self.world].tolist()
        examples = [self.examples[i] for i in own]
        regions = self.store.batch([example.id for example in examples], self.regions)
        batch = collate(examples, [[self.lines[i][c] for c in chosen[i]] for i in own], regions, self.vocab)
        if not self.uses_boxes:
            return batch
        size, captions = batch.tokens.shape[1], [chosen[i] for i in own]
        shared = overlap(examples, captions, regions, size, self.merge_boxes)
        return replace(batch, gold=shared > 0.5, gold_iou=shared)


def _require_regions(examples: Sequence[Example], store: Store) -> None:
    missing = [example.id for example in examples if example.id not in store]
    if missing:
        raise DataError(
            f"{len(missing)} of {len(examples)} images have no regions in {store.path}, {missing[0]!r} for one: "
            "make them with `groundling regions extract`, or leave the images out"
        )


def ahead(things: Iterator[Thing], count: int) -> Iterator[Thing]:
    """The same things, made by a thread, at most `count` before they are asked for. Its errors are raised here."""
    done = object()
    made: queue.Queue[object] = queue.Queue(count)
    enough = threading.Event()

    def put(thing: object) -> None:
        placed = False
        while not placed and not enough.is_set():
            with suppress(queue.Full):
                made.put(thing, timeout=0.1)
                placed = True

    def work() -> None:
        try:
            for thing in things:
                put(thing)
                if enough.is_set():
                    return
            put(done)
        except BaseException as error:
            put(error)

    worker = threading.Thread(target=work, name="batches", daemon=True)
    worker.start()
    try:
        while (thing := made.get()) is not done:
            if isinstance(thing, BaseException):
                raise thing
            yield thing  # type: ignore[misc]
    finally:
        enough.set()
        worker.join()
