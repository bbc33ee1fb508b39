"""Data types made of tensors, in order of flow: Regions -> Batch -> EncodedImage -> Glimpse -> Decoding.

Shape letters, the same in every file:
B images · N captions · T tokens · R regions · D feature · H hidden · V vocabulary · P phrases · K branches · L labels.
Boxes are xyxy in pixels. A video is an image whose regions carry frame numbers.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor

from groundling.types import BOS, PAD, UNK, Fingerprint, Vocab

if TYPE_CHECKING:
    from PIL import Image

# ---------------------------------------------------------------- what a model sees


@dataclass(frozen=True)
class Regions:
    """Proposals of B images, padded to the same R; `valid` says which are real. Invalid rows are all zero.

    A source makes one image's (B = 1), a store reads any number, `Regions.stack` joins them.
    """

    feats: Tensor  # (B, R, D) float
    boxes: Tensor  # (B, R, 4) float, pixels
    valid: Tensor  # (B, R) bool
    frame: Tensor  # (B, R) int64, 0 for an image
    size: Tensor  # (B, 2) float, width and height in pixels
    labels: Tensor  # (B, R, L) int64, the L likeliest detector classes, -1 where unknown; L may be 0
    scores: Tensor  # (B, R, L) float, their probabilities
    whole: Tensor | None = None  # (B, G) feature of the whole image, where the source gives one
    grid: Tensor | None = None  # (B, C, G) feature map, flattened, where the source gives one
    pictures: tuple[Image.Image, ...] | None = None  # small copies of the B images, where a grounder may look at them
    classes: Tensor | None = (
        None  # (B, R, K) probabilities of nouns by image classes, where a source was asked for them
    )

    def __post_init__(self) -> None:
        if self.boxes.ndim != 3 or self.boxes.shape[-1] != 4:
            raise ValueError(f"boxes must be (B, R, 4), got {tuple(self.boxes.shape)}")
        if self.feats.shape[:2] != self.boxes.shape[:2]:
            raise ValueError(f"feats {tuple(self.feats.shape)} and boxes {tuple(self.boxes.shape)} disagree on (B, R)")

    @staticmethod
    def of(feats: Tensor, boxes: Tensor, size: tuple[float, float], **more: Tensor) -> Regions:
        """One image's regions (B = 1) from (R, D) and (R, 4); what is not given is unknown."""
        r = len(boxes)
        more = {name: value[None] for name, value in more.items()}
        unknown: dict[str, Any] = {
            "valid": torch.ones(1, r, dtype=torch.bool),
            "frame": torch.zeros(1, r, dtype=torch.int64),
            "labels": torch.zeros(1, r, 0, dtype=torch.int64),
            "scores": torch.zeros(1, r, 0),
        }
        return Regions(feats[None], boxes[None].float(), size=torch.tensor([size]).float(), **(unknown | more))

    @staticmethod
    def stack(items: Sequence[Regions]) -> Regions:
        """Join along B, padding R (with zeros, invalid) and L (with -1) to the largest."""
        r, n = max(x.boxes.shape[1] for x in items), max(x.labels.shape[2] for x in items)
        return Regions(
            feats=torch.cat([_pad(x.feats, r) for x in items]),
            boxes=torch.cat([_pad(x.boxes, r) for x in items]),
            valid=torch.cat([_pad(x.valid, r) for x in items]),
            frame=torch.cat([_pad(x.frame, r) for x in items]),
            size=torch.cat([x.size for x in items]),
            labels=torch.cat([_pad(_pad(x.labels, n, -1, axis=2), r) for x in items]),
            scores=torch.cat([_pad(_pad(x.scores, n, axis=2), r) for x in items]),
            whole=None if items[0].whole is None else torch.cat([x.whole for x in items if x.whole is not None]),
            grid=None if items[0].grid is None else torch.cat([x.grid for x in items if x.grid is not None]),
            classes=torch.cat([_pad(x.classes, r) for x in items if x.classes is not None])
            if all(x.classes is not None for x in items)
            else None,
            pictures=tuple(one for x in items for one in x.pictures or ())
            if all(x.pictures is not None for x in items)
            else None,
        )

    def __len__(self) -> int:
        return len(self.boxes)

    def __getitem__(self, index: slice | Tensor) -> Regions:
        """Of these images, without their pictures."""
        return _map(replace(self, pictures=None), lambda x: x[index])

    def only(self, i: int) -> Regions:
        """Of one image (B = 1), with its picture."""
        return replace(self[i : i + 1], pictures=self.pictures[i : i + 1] if self.pictures else None)

    def first(self, limit: int) -> Regions:
        """Only the first so many regions of each image: sources put the most telling ones first."""
        names = ["feats", "boxes", "valid", "frame", "labels", "scores"]
        names += ["classes"] if self.classes is not None else []
        return replace(self, **{name: getattr(self, name)[:, :limit] for name in names})

    def of_each_frame(self, limit: int) -> Regions:
        """At most the first so many of each image, or of each frame of a clip, whose frames take turns."""
        if not self.frame.any():
            return self.first(limit)
        each = [torch.unique(f[ok], return_counts=True)[1] for f, ok in zip(self.frame, self.valid, strict=True)]
        wanted = torch.stack([counts.clamp(max=limit).sum() for counts in each])  # (B,)
        few = self.first(int(wanted.max()))
        kept = torch.arange(few.valid.shape[1], device=wanted.device) < wanted[:, None]
        return replace(few, valid=few.valid & kept, feats=few.feats * kept[..., None].to(few.feats))

    def scale(self, b: int, size: tuple[int, int]) -> Tensor:
        """(4,) double: by what boxes of a data set, in which image `b` has this size, become boxes of these regions; 1
        where the data set does not know the size."""
        if not all(size):
            return torch.ones(4, dtype=torch.float64)
        return (self.size[b].double() / torch.tensor(size, device=self.size.device)).repeat(2)

    def to(self, device: torch.device | str) -> Regions:
        return _map(self, lambda x: x.to(device, non_blocking=True))


@dataclass(frozen=True)
class Batch:
    """B images and N captions of them, grouped by image. Every caption is BOS words EOS, then PAD.

    `gold` is None except in recipes that declare `uses_boxes = True`: weak supervision is a property of the types.
    """

    ids: tuple[str, ...]  # B
    regions: Regions
    image_of: Tensor  # (N,) int64, the image of each caption
    tokens: Tensor  # (N, T + 1) int64
    nouns: Tensor  # (N, T + 1) bool, True where the token is a noun
    visual: Tensor  # (N, T + 1) bool, True where the token is a noun or a verb
    chunk_of: Tensor  # (P,) int64, the caption of each noun phrase
    chunks: Tensor  # (P, 2) int64, its half-open span in `tokens`
    refs: tuple[tuple[tuple[str, ...], ...], ...]  # B tuples of all reference captions, each a tuple of words
    vocab: Vocab
    gold: Tensor | None = None  # (N, T + 1, R) bool, regions with IoU > 0.5 to the box of an annotated word
    gold_iou: Tensor | None = None  # (N, T + 1, R) float, that IoU; 0 for words without a box

    @property
    def inputs(self) -> Tensor:
        """(N, T), what the decoder is fed."""
        return self.tokens[:, :-1]

    @property
    def targets(self) -> Tensor:
        """(N, T), the words to predict."""
        return self.tokens[:, 1:]

    def to(self, device: torch.device | str) -> Batch:
        return _map(self, lambda x: x.to(device))


# ---------------------------------------------------------------- what a captioner does


@dataclass(frozen=True)
class EncodedImage:
    """B encoded images, and which of them each of N rows attends to. Indexing picks rows and copies nothing.

    `keys` is what the attention made of `memory` once, before the first word. Attentions see the rows of one image side
    by side (`fold`), so that broadcasting replaces a copy of the image's regions for each of its captions or beams.
    """

    memory: Tensor  # (B, R, H)
    keys: Tensor  # (B, R, A)
    valid: Tensor  # (B, R) bool
    frame: Tensor  # (B, R) int64
    whole: Tensor  # (B, H)
    row: Tensor  # (N,) int64 into B
    grid: Tensor | None = None  # (B, C, H) encoded feature map
    grid_keys: Tensor | None = None  # (B, C, A)
    word_scores: Tensor | None = (
        None  # (B, V) score of each word of the vocabulary by the image vector, see `models.layers.WordLink`
    )

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, index: Tensor) -> EncodedImage:
        return replace(self, row=self.row[index])

    def only(self, images: Tensor) -> EncodedImage:
        """The same rows, with a copy of these images and no others, in this order."""
        position = torch.empty(len(self.memory), dtype=torch.int64, device=images.device)
        position[images] = torch.arange(len(images), device=images.device)
        row = position[self.row]
        return replace(_map(self, lambda x: x if x is self.row else x.index_select(0, images)), row=row)

    def of_grid(self) -> EncodedImage:
        """The same rows looking at the feature map instead of the regions."""
        if self.grid is None or self.grid_keys is None:
            raise ValueError("this captioner attends to feature maps, but its regions have none (regions.grid)")
        everywhere = torch.ones_like(self.grid[..., 0], dtype=torch.bool)
        still = torch.zeros_like(everywhere, dtype=torch.int64)
        return replace(self, memory=self.grid, keys=self.grid_keys, valid=everywhere, frame=still)

    @cached_property
    def _folds(self) -> tuple[int, int, Tensor | None]:
        """b, g, slot: rows attend to the first b images, at most g to each; row n is slot[n] of all b * g (None: n)."""
        count = torch.bincount(self.row)
        b, g = len(count), int(count.max()) if len(count) else 0
        if b * g == len(self.row) and bool((self.row[1:] >= self.row[:-1]).all()):
            return b, g, None
        order = self.row.argsort(stable=True)
        rank = torch.empty_like(order)
        rank[order] = torch.arange(len(order), device=order.device) - (count.cumsum(0) - count)[self.row[order]]
        return b, g, self.row * g + rank

    def fold(self, x: Tensor) -> Tensor:
        """(N, ·) -> (b, g, ·): the rows of one image side by side, for the first b images; 0 where there is none."""
        b, g, slot = self._folds
        if slot is not None:
            x = x.new_zeros(b * g, x.shape[1]).index_copy(0, slot, x)
        return x.view(b, g, x.shape[1])

    def unfold(self, x: Tensor) -> Tensor:
        """(b, g, ·) -> (N, ·), the inverse of `fold`."""
        slot = self._folds[2]
        return x.flatten(0, 1) if slot is None else x.flatten(0, 1).index_select(0, slot)


@dataclass(frozen=True)
class Glimpse:
    """The attention of a captioner for one word: `attn` sums to 1; a captioner of K branches also has that of each."""

    attn: Tensor  # (N, R)
    branches: Tensor | None = None  # (N, K, R)
    words: Tensor | None = None  # (N, K) int64, the word that each branch votes for

    def __getitem__(self, index: Tensor) -> Glimpse:
        return _map(self, lambda x: x[index])

    def picks(self, token: Tensor, frame: Tensor) -> Tensor:
        """(N, R) bool: the regions whose union is the place of `token`, at most one per frame and agreeing branch.

        One branch: the most attended region of each frame. K branches: that of every branch that votes for `token`;
        where no branch does, the most attended one.
        """
        alone = _top(self.attn, frame)
        if self.branches is None or self.words is None:
            return alone
        agrees = self.words == token[:, None]  # (N, K)
        tops = torch.stack([_top(a, frame) for a in self.branches.unbind(1)], 1)  # (N, K, R)
        voted = (tops & agrees[..., None]).any(1)
        return torch.where(agrees.any(1, keepdim=True), voted, alone)


@dataclass(frozen=True)
class Decoding:
    """N captions as a captioner scored or generated them. Everything at or after PAD is 0 or False."""

    tokens: Tensor  # (N, T) int64, words then EOS then PAD
    logp: Tensor  # (N, T), log-probability of each token; differentiable
    attn: Tensor  # (N, T, R), the attention of each word; differentiable
    guess: Tensor  # (N, T) int64, the likeliest word at each step (= tokens when decoding greedily)
    picks: Tensor | None = None  # (N, T, R) bool, the regions whose union is the word's place; made by generation only
    branches: tuple[Decoding, ...] = ()  # teacher forcing of K branches: one Decoding each

    @property
    def real(self) -> Tensor:
        """(N, T) bool: the positions up to and including EOS."""
        return self.tokens != PAD


def without_special(x: Tensor, never: float = -math.inf) -> Tensor:
    """A copy of what words score, (..., V), with `never` for PAD, BOS and UNK."""
    return x.index_fill(-1, torch.tensor((PAD, BOS, UNK), device=x.device), never)


def digest(weights: Mapping[str, Tensor]) -> str:
    """Which weights these are: the beginning of a hash of all of them."""
    hashed = hashlib.sha256()
    for name, weight in sorted(weights.items()):
        hashed.update(name.encode() + weight.cpu().numpy().tobytes())
    return hashed.hexdigest()[:12]


# ---------------------------------------------------------------- calling conventions

Self = TypeVar("Self")


class Captioner(Protocol):
    """Anything that can be decoded. Teacher forcing, sampling and beam search are loops over `step`."""

    def encode(self, regions: Regions) -> EncodedImage: ...

    def start(self, encoded: EncodedImage) -> Any:
        """State before the first word: a tuple (possibly nested) of tensors whose first axis is N."""
        ...

    def step(
        self, token: Tensor, encoded: EncodedImage, state: Any, mask_special: bool = False
    ) -> tuple[Tensor, Glimpse, Any]:
        """(N,) previous words -> log-probabilities (N, V) of the next, the attention, the new state.

        `mask_special`: the probabilities leave out PAD, BOS and UNK (`without_special`).
        """
        ...


@runtime_checkable
class SteppingCaptioner(Protocol):
    """A captioner that makes steps faster where gradients and dropout are off."""

    def stepper(self, encoded: EncodedImage) -> tuple[Captioner, EncodedImage]:
        """What makes them, with the weights as they are now, and what it is given as `encoded`: these rows."""
        ...


class TrainableCaptioner(Captioner, Protocol):
    """A captioner as recipes see it: a module that also scores given captions, by teacher forcing."""

    def __call__(
        self, encoded: EncodedImage, inputs: Tensor, targets: Tensor, *, mask_special: bool = False
    ) -> Decoding:
        """Log p of `targets` (N, T), saying `inputs` (N, T) before them."""
        ...

    def eval(self: Self) -> Self:
        """Itself, with dropout switched off."""
        ...

    def state_dict(self) -> dict[str, Any]: ...


class Attention(Protocol):
    """Called as `attend(query, encoded)`; `keys` is called once per image and put into the encoded image."""

    def keys(self, memory: Tensor) -> Tensor: ...

    def __call__(self, query: Tensor, encoded: EncodedImage) -> tuple[Tensor, Tensor]:
        """(N, H) -> context (N, H), weights (N, R) that are exactly 0 on invalid regions."""
        ...


class Matcher(Protocol):
    """Knows which words are where: the teacher of a captioner's attention, and a scorer of its captions."""

    def attention(self, batch: Batch) -> Tensor:
        """(N, T, R): where each word of `batch.targets` is. Sums to 1 over the regions, or is 0: no opinion."""
        ...

    def point(self, regions: Regions, words: Tensor, image_of: Tensor) -> Tensor:
        """(N, T, R): as `attention`, of captions (N, T) that end at EOS or PAD and that nobody has parsed."""
        ...

    def rate(self, regions: Regions, words: Tensor, image_of: Tensor) -> Tensor:
        """(N,): how well captions (N, T), which end at EOS or PAD, fit their images."""
        ...


class ImageTextMatcher(Matcher, Protocol):
    """A matcher of a trained model: a module that also scores all images with all captions."""

    def pairs(self, regions: Regions, words: Tensor, nouns: Tensor | None = None) -> Tensor:
        """(B, N), of captions (N, T) which end at EOS or PAD; `nouns` (N, T) are their tags, where known."""
        ...

    def to(self: Self, device: torch.device) -> Self: ...


class RegionSource(Protocol):
    """Image in, regions out. `fingerprint` names everything that the numbers depend on."""

    fingerprint: Fingerprint

    def __call__(self, image: Any) -> Regions: ...


# ----------------------------------------------------------------


def _pad(x: Tensor, length: int, value: float = 0, axis: int = 1) -> Tensor:
    if x.shape[axis] == length:
        return x
    shape = list(x.shape)
    shape[axis] = length - shape[axis]
    return torch.cat([x, x.new_full(shape, value)], axis)


def _top(attn: Tensor, frame: Tensor) -> Tensor:
    """(N, R), (N, R) -> (N, R) bool: the heaviest region of each frame that has any weight."""
    best = torch.zeros_like(attn, dtype=torch.bool)
    for f in range(int(frame.max()) + 1 if frame.numel() else 0):
        here = attn.masked_fill(frame != f, -1.0)
        heaviest, index = here.max(1, keepdim=True)
        best.scatter_(1, index, best.gather(1, index) | (heaviest > 0))
    return best


Noun = TypeVar("Noun", Regions, Batch, EncodedImage, Glimpse)


def _map(noun: Noun, change: Callable[[Tensor], Tensor]) -> Noun:
    """A copy of a dataclass with `change` applied to its tensors, and to those of the Regions inside."""
    new: dict[str, Any] = {}
    for f in fields(noun):
        value = getattr(noun, f.name)
        if isinstance(value, Tensor):
            new[f.name] = change(value)
        elif isinstance(value, Regions):
            new[f.name] = _map(value, change)
    return replace(noun, **new)
