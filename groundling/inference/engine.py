"""Captions with boxes by onnxruntime and numpy alone: from what is seen of images to what users get. No torch.

The same mathematics as `GroundedCaptioner.generate`: `decoding`, `links.rerank`, `links.link` and
`PhraseGrounder.add_evidence`, on arrays. The numbers agree to rounding, log-probabilities to 1 in 2,000, so two words
or two regions that are nearly equal may change places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from groundling.boxes import soft_match_of_arrays
from groundling.errors import DataError, GroundlingError
from groundling.inference import networks
from groundling.inference.choosing import Chosen, State, choose_words
from groundling.inference.evidence import LEAST_EVIDENCE, read_calibration
from groundling.inference.garments import PERSON
from groundling.inference.naming import renamed
from groundling.inference.networks import Folder, read_about, read_model
from groundling.inference.phrases import BaseGrounder, Compared, Cues, places
from groundling.inference.pointing import ATTENDED, Pointed, captioned, means_several, with_groups
from groundling.inference.settings import CONJUNCTION, DecodingSettings, Sampling, said_once
from groundling.metrics.calibration import EvidenceModel
from groundling.regions.fingerprints import from_json
from groundling.regions.graphs import Session, cores
from groundling.regions.sources._photos_files import FILES, VERSION
from groundling.regions.sources._photos_onnx import PhotosOnnx, Seen
from groundling.text.vocab import Vocabulary
from groundling.types import (
    PAD,
    PHRASE_BEFORE,
    PHRASE_LONGEST,
    Fingerprint,
    GroundedCaption,
)

if TYPE_CHECKING:
    from groundling.tensors import Regions

Array = NDArray[Any]
Phrase = tuple[int, ...]  # ids of the grounder's words
Placed = tuple[Phrase, list[int]]  # and the tokens of its nouns

THREADS = 2  # of the captioner's step: it waits for memory, and more threads would wait with it
TINY = np.float32(np.finfo(np.float32).tiny)


class Engine:
    """A captioner, perhaps a grounder beside it, and the source of their regions. Made by `engine_of`."""

    def __init__(
        self, captioner: Folder, grounder: GrounderOnnx | None, weight: float, source: Future[PhotosOnnx]
    ) -> None:
        fields = captioner.about["fields"]
        self.vocab, self.groundable = captioner.vocab, captioner.groundable
        self._once, [self._conjunction] = said_once(self.vocab), self.vocab.encode([CONJUNCTION])
        self.grounder, self.weight = grounder, weight
        self.length, self._limit = fields["length"] + 1, fields["regions_per_image"]
        self._captioner, self._source = captioner, source
        step = networks.step_graph(captioner.weights, fields["coupled"], fast=True)
        self._step = Session(step, min(THREADS, cores()))
        self._words, self._word_gates = Session(networks.word_graph(captioner.weights)), dict[int, Array]()
        self._encode = Session(networks.encoder_graph(captioner.weights))

    @property
    def source(self) -> PhotosOnnx:
        """What makes regions; MissingExtra without OpenCV."""
        return self._source.result()

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """Of the regions that the captioner was trained on."""
        return from_json(self._captioner.about["fingerprint"])

    @property
    def signature(self) -> dict[str, Any]:
        """As `GroundedCaptioner.signature`."""
        grounder = self.grounder
        models = [self._captioner, *([grounder.folder] if grounder else [])]
        calibration = grounder.calibration if grounder else None
        return {
            "weights": [model.digest for model in models],
            "calibration": calibration.to_json() if calibration else None,
            "grounder_weight": self.weight if grounder else 0,
            "joints": bool(grounder and grounder.joints),
        }

    def captions(
        self, seen: Sequence[Seen], ids: Sequence[str], media: Sequence[str], settings: DecodingSettings
    ) -> list[GroundedCaption]:
        """One of each image."""
        first = [_first(one, self._limit) for one in seen]
        chosen = self._decoded(first, settings, self._log_evidence(seen) if settings.evidence_weight else None)
        attn = [_attention(one, len(few.boxes)) for one, few in zip(chosen, first, strict=True)]
        words = [self.vocab.decode(one.words) for one in chosen]
        if self.grounder is None:
            places = [_pointed(a, a, few) for a, few in zip(attn, first, strict=True)]
        else:
            asked = self.grounder.asked(seen, words, [a.shape for a in attn], self.groundable.class_of)
            places = [self._reranked(*one) for one in zip(attn, first, asked.alpha, words, strict=True)]
        captions = [
            captioned(
                words[i],
                places[i],
                self.groundable.class_of.__contains__,
                float(np.sum(chosen[i].logps, dtype=np.float32)),
                id=ids[i],
                media=media[i],
                size=seen[i].size,
            )
            for i in range(len(seen))
        ]
        if self.grounder is not None:
            captions = [_evident(caption, known) for caption, known in zip(captions, asked.evidence, strict=True)]
            captions = [self.grounder.on_bodies(*one) for one in zip(captions, seen, strict=True)]
        return [renamed(one, x.boxes, x.frame, x.classes) for one, x in zip(captions, seen, strict=True)]

    def _log_evidence(self, seen: Sequence[Seen]) -> Array | None:
        """(B, V), as `links.Reranker.log_evidence`."""
        if self.grounder is None or self.grounder.calibration is None:
            return None
        words, known = self.vocab.words, self.grounder.vocab
        ids = [i for i, word in enumerate(words) if word in self.groundable.class_of and word in known]
        nouns = tuple(words[i] for i in ids)
        out = np.zeros((len(seen), len(words)), np.float32)
        for row, one in zip(out, seen, strict=True):
            fit = self.grounder.word_fit(_first(one, self.grounder.limit), nouns)
            evidence = self.grounder.calibration.similarity(_best(fit.T))
            row[ids] = np.log(np.maximum(evidence, LEAST_EVIDENCE))
        return out

    def _decoded(self, seen: Sequence[Seen], settings: DecodingSettings, log_evidence: Array | None) -> list[Chosen]:
        most = max(len(one.boxes) for one in seen)
        rows = {
            "feats": np.concatenate([_padded(one.feats, most) for one in seen]),
            "place": np.concatenate([_padded(_place(one), most) for one in seen]),
            "valid": np.concatenate([np.arange(most) < len(one.boxes) for one in seen])[:, None].astype(np.float32),
        }
        memory, keys, *of_image = self._encode(rows | {"whole": np.stack([one.whole for one in seen])})
        by_region = {"memory": memory, "keys": keys, "valid": rows["valid"]}
        fixed = {name: x.reshape(len(seen), most, -1) for name, x in by_region.items()}
        fixed |= dict(zip(("still", "words"), of_image, strict=False))  # words: of captioners with a word link

        def step(tokens: Array, images: Array, state: State) -> tuple[Array, Array, State]:
            cells = dict(zip(("h1", "c1", "h2", "c2"), state, strict=True))
            given = fixed | cells | {"row": images}
            if isinstance(settings, Sampling):
                logp, attn, *after = self._exact_step(given | {"token": tokens})
            else:
                logp, attn, *after = self._step(given | {"word": self._gates(tokens.tolist())})
            return logp, attn, tuple(after)

        nothing = np.zeros((len(seen), memory.shape[1]), np.float32)
        return choose_words(step, (nothing,) * 4, self.length, settings, self._once, self._conjunction, log_evidence)

    @cached_property
    def _exact_step(self) -> Session:
        """For words that are drawn: those that are not likely are drawn, too, as torch draws them."""
        captioner = self._captioner
        step = networks.step_graph(captioner.weights, captioner.about["fields"]["coupled"])
        return Session(step, min(THREADS, cores()))

    def _gates(self, tokens: Sequence[int]) -> Array:
        """What the graph of words makes of each: of the few that captions are made of, it is asked once."""
        new = [token for token in set(tokens) if token not in self._word_gates]
        if new:
            self._word_gates.update(zip(new, self._words({"token": np.array(new)})[0], strict=True))
        return np.stack([self._word_gates[token] for token in tokens])

    def _reranked(self, attn: Array, seen: Seen, alpha: Array, words: Sequence[str]) -> Pointed:
        """As `links.rerank`: attention and the grounder's alpha (T, R) decide together where alpha knows the word."""
        known = alpha.sum(1, keepdims=True) > 0
        mixed = np.float32(1 - self.weight) * np.log(np.maximum(attn, TINY))
        mixed = mixed + np.float32(self.weight) * np.log(np.maximum(alpha, TINY))
        both = np.where(known, _softmax(mixed), attn)
        alike = (seen.frame[:, None] == seen.frame).astype(np.float32)
        several = [word in self.groundable.class_of and means_several(word) for word in words]
        several += [False] * (len(both) - len(words))  # the end of the caption
        sure = with_groups(both @ (soft_match_of_arrays(seen.boxes) * alike), both, seen.boxes, seen.frame, several)
        return _pointed(both, np.where(known, sure, attn), seen)


@dataclass(frozen=True)
class Asked:
    """What a grounder says of the captions of B images."""

    alpha: list[Array]  # (T, R): where each word is; 0 for words of which it says nothing
    evidence: list[dict[str, float]]  # noun -> evidence as of a noun of a caption


class GrounderOnnx(BaseGrounder):
    """The grounder of phrases, its calibration and its two graphs."""

    _words: tuple[tuple[str, ...], Array] = (), np.empty(0)  # of `word_fit`, and their vectors

    def __init__(self, folder: Folder, calibration: EvidenceModel | None) -> None:
        self.folder, self.calibration = folder, calibration
        fields = folder.about["fields"]
        self.limit, self._temperature = fields["regions_per_image"], np.float32(fields["softness"])
        self._see = Session(networks.region_graph(folder.weights))
        self._read = Session(networks.phrase_graph(folder.weights))

    @property
    def vocab(self) -> Vocabulary:
        return self.folder.vocab

    def compare(
        self, regions: Seen, phrases: Sequence[Sequence[str]], nouns: Sequence[str], colours: Sequence[Sequence[str]]
    ) -> Compared:
        seen = _first(regions, self.limit)
        ids = [tuple(self.word_ids(phrase)) for phrase in phrases]
        read = self._vectors({*ids})
        [vectors] = self._see({"feats": seen.feats})
        similarity = np.stack([read[phrase] for phrase in ids]) @ vectors.T
        boxes, overlap = places(similarity, self._cues(seen, vectors), nouns, colours)
        return Compared(boxes, similarity, overlap, seen.whole)

    def cues(self, regions: Seen) -> Cues:
        seen = _first(regions, self.limit)
        return self._cues(seen, self._see({"feats": seen.feats})[0])

    def _cues(self, seen: Seen, vectors: Array) -> Cues:
        """vectors: (R, H) of the regions."""
        person = (lambda: vectors @ self._person) if PERSON in self.vocab else None
        return Cues(seen.boxes, seen.frame, seen.size, seen.picture, self.joints, person)

    @cached_property
    def _person(self) -> Array:
        """g(y) of the word "person"."""
        [vector] = self._vectors({tuple(self.word_ids([PERSON]))}).values()
        return vector

    def word_fit(self, regions: Seen, words: tuple[str, ...]) -> Array:
        if self._words[0] != words:
            ids = [tuple(self.word_ids([word])) for word in words]
            read = self._vectors({*ids})
            self._words = words, np.stack([read[one] for one in ids])
        return np.asarray(self._see({"feats": regions.feats})[0] @ self._words[1].T)

    def asked(
        self,
        seen: Sequence[Seen],
        words: Sequence[Sequence[str]],
        sizes: Sequence[tuple[int, int]],
        nouns: Mapping[str, str],
    ) -> Asked:
        """Of captions, given as words, with T tokens and R regions each; `nouns` are the words that get a box.

        All phrases of all captions, and their nouns alone, are read at once.
        """
        vocab, few = self.folder.vocab, [_first(one, self.limit) for one in seen]
        ends = np.cumsum([len(one.boxes) for one in few])[:-1]
        vectors = np.split(self._see({"feats": np.concatenate([one.feats for one in few])})[0], ends)
        phrases = [_phrases(vocab.encode(one), vocab.nouns) for one in words]
        alone = [
            {word: (*vocab.encode([word]),) for word in one if self.calibration and word in nouns and word in vocab}
            for one in words
        ]
        read = self._vectors({x for one in phrases for x, _ in one} | {x for one in alone for x in one.values()})
        return Asked(
            [self._alpha(v, one, read, *size) for v, one, size in zip(vectors, phrases, sizes, strict=True)],
            [self._evidence(v, one, read, x.whole) for v, one, x in zip(vectors, alone, few, strict=True)],
        )

    def _alpha(
        self, vectors: Array, phrases: Sequence[Placed], read: Mapping[Phrase, Array], tokens: int, regions: int
    ) -> Array:
        """(T, R), as `models.grounder.Adapted.point`: regions beyond those that are seen have a share as by chance."""
        alpha = np.zeros((tokens, regions), np.float32)
        beyond = max(0, regions - len(vectors))
        for phrase, at in phrases:
            share = _softmax(vectors[:regions] @ read[phrase] / self._temperature)
            alpha[at] = np.concatenate([share * np.float32(1 - beyond / regions), np.full(beyond, 1 / regions)])
        return alpha

    def _evidence(
        self, vectors: Array, nouns: Mapping[str, Phrase], read: Mapping[Phrase, Array], whole: Array
    ) -> dict[str, float]:
        """As `PhraseGrounder.add_evidence`: how likely each noun, alone, is there."""
        if self.calibration is None or not nouns:
            return {}
        best = _best(np.stack([vectors @ read[phrase] for phrase in nouns.values()]))
        return dict(zip(nouns, self.calibration.of_image([*nouns], best, whole, in_caption=True), strict=True))

    def _vectors(self, phrases: set[Phrase]) -> dict[Phrase, Array]:
        """g(y) of each."""
        every = sorted(phrases)
        if not every:
            return {}
        longest = max(map(len, every))
        rows = np.array([phrase + (PAD,) * (longest - len(phrase)) for phrase in every]).T  # (t, P)
        absent = np.where(np.arange(longest)[:, None] < [len(phrase) for phrase in every], 0, networks.NEVER)
        vectors = self._read({"words": rows, "absent": absent[..., None].astype(np.float32)})[0]
        return dict(zip(every, vectors, strict=True))


def engine_of(captioner: Path, grounder: Path | None, weight: float, image_classes: bool = False) -> Engine | None:
    """The models of these folders; None where torch is needed: for models of other kinds, and other regions.

    Another thread loads the grounder and the source of regions meanwhile.
    """
    about = _captioner_about(captioner)
    if about is None:
        return None
    with ThreadPoolExecutor(1) as other:
        later = other.submit(_grounder, grounder, about) if grounder else None
        source = other.submit(PhotosOnnx, about["fingerprint"]["parameters"]["regions"], image_classes)
        model = read_model(captioner, about, networks.captioner_weights(about))
        matcher = later.result() if later else None
        if model is None or (grounder and matcher is None):
            return None
        try:
            return Engine(model, matcher, weight, source)
        except (DataError, *networks.ODD):  # weights whose sizes do not fit: torch's way tells which
            return None


def read_folders(captioner: Path, grounder: Path | None) -> tuple[Folder, Folder | None]:
    """The models of these folders, as graphs are made of them; GroundlingError where they are of other kinds."""
    about = _captioner_about(captioner)
    model = read_model(captioner, about, networks.captioner_weights(about)) if about else None
    if about is None or model is None:
        raise GroundlingError(
            f"{captioner} holds no captioner that becomes ONNX graphs: it must be of the recipe groundling with one "
            "branch, trained on regions of the source photos, and have its manifest.json"
        )
    matcher = _grounder_folder(grounder, about) if grounder else None
    if grounder and matcher is None:
        raise GroundlingError(
            f"{grounder} holds no grounder that becomes ONNX graphs: it must be of the recipe two_branch with one "
            "layer, trained on the same regions as the captioner, and have its manifest.json"
        )
    return model, matcher


def _captioner_about(folder: Path) -> dict[str, Any] | None:
    about = read_about(folder, "groundling", ("length", "regions_per_image", "coupled"))
    return about if about and _of_photos(about) else None


def _grounder_folder(folder: Path, captioner: Mapping[str, Any]) -> Folder | None:
    about = read_about(folder, "two_branch", ("regions_per_image", "softness"))
    if about is None or about["fingerprint"] != captioner["fingerprint"]:
        return None
    return read_model(folder, about, networks.GROUNDER)


def _grounder(folder: Path, captioner: Mapping[str, Any]) -> GrounderOnnx | None:
    model = _grounder_folder(folder, captioner)
    try:
        return None if model is None else GrounderOnnx(model, read_calibration(folder))
    except DataError:
        return None


def _of_photos(about: Mapping[str, Any]) -> bool:
    """Whether it was trained on regions as `PhotosOnnx` makes them."""
    made, pinned = about.get("fingerprint", {}), {file.name: file.sha256 for file in FILES}
    return (made.get("name"), made.get("version"), made.get("weights")) == ("photos", VERSION, pinned)


# ---------------------------------------------------------------- arrays


def arrays(regions: Regions) -> list[Seen]:
    """Regions of B images with image vectors, as arrays."""
    assert regions.whole is not None
    names = ("feats", "boxes", "frame", "labels", "scores", "valid", "size", "whole")
    rows = zip(*(getattr(regions, name).cpu().numpy() for name in names), strict=True)
    return [
        Seen(feats[valid], boxes[valid], frame[valid], _size(size), whole, labels[valid], scores[valid])
        for feats, boxes, frame, labels, scores, valid, size, whole in rows
    ]


def _size(values: Array) -> tuple[int, int]:
    return round(float(values[0])), round(float(values[1]))


def _first(seen: Seen, limit: int) -> Seen:
    """As `Regions.of_each_frame`: at most the first so many of an image, or of each frame of a clip."""
    each = np.unique(seen.frame, return_counts=True)[1]
    wanted = int(np.minimum(each, limit).sum())
    return replace(seen, feats=seen.feats[:wanted], boxes=seen.boxes[:wanted], frame=seen.frame[:wanted])


def _attention(chosen: Chosen, regions: int) -> Array:
    """(T, R)"""
    return np.array([attn[:regions] for attn in chosen.attn], np.float32).reshape(-1, regions)


def _padded(x: Array, length: int) -> Array:
    return np.pad(x, ((0, length - len(x)), (0, 0)))


def _relative(seen: Seen) -> Array:
    """(R, 4): boxes in fractions of the image."""
    return np.asarray(seen.boxes / np.maximum(np.array([*seen.size, *seen.size], np.float32), 1))


def _place(seen: Seen) -> Array:
    """(R, 5), as `models.layers.locations`: the box in fractions of the image, the frame in fractions of the video."""
    return np.concatenate([_relative(seen), seen.frame[:, None] / max(1, int(seen.frame.max()))], 1).astype(np.float32)


def _best(similarity: Array) -> Array:
    """As `grounder.best_similarity`: (P, R) -> (P,)."""
    return np.asarray(similarity.max(1, initial=-1.0), np.float64)


def _softmax(x: Array) -> Array:
    raised = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(raised / raised.sum(-1, keepdims=True))


def _pointed(attn: Array, heaviest: Array, seen: Seen) -> Pointed:
    """The region with the most of `heaviest` (T, R) in each frame is a word's place, `attn` (T, R) on it the score."""
    frames = range(int(seen.frame.max()) + 1)
    here = np.stack([np.where(seen.frame == f, heaviest, -1) for f in frames], 1)  # (T, F, R)
    best = here.argmax(2)
    boxes = np.where((here.max(2) > 0)[..., None], seen.boxes[best], np.nan)
    top = np.argsort(-attn, axis=1, kind="stable")[:, :ATTENDED]
    return Pointed(
        boxes.tolist(),
        np.take_along_axis(attn, best, 1).tolist(),
        top.tolist(),
        np.take_along_axis(attn, top, 1).tolist(),
        seen.boxes.tolist(),
        seen.frame.tolist(),
    )


def _phrases(ids: Sequence[int], nouns: Sequence[bool]) -> list[Placed]:
    """As `models.grounder.Grounder.phrases_in`: nouns in a row, and at most PHRASE_BEFORE words before them."""
    found: list[Placed] = []
    previous = at = 0
    while at < len(ids):
        end = at
        while end < len(ids) and nouns[ids[end]]:
            end += 1
        if end > at:
            start = max(previous, at - PHRASE_BEFORE, end - PHRASE_LONGEST)
            found.append((tuple(ids[start:end]), [*range(at, end)]))
            previous = end
        at = max(end, at + 1)
    return found


def _evident(caption: GroundedCaption, evidence: Mapping[str, float]) -> GroundedCaption:
    """With the evidence of its nouns."""
    links = (replace(link, evidence=evidence.get(caption.word(link))) for link in caption.links)
    return replace(caption, links=tuple(links))
