"""All caption metrics on one corpus: tokenised once, counted once, each number with its signature.

Rules. Every predicted image needs references; images with references but no prediction are left out, as the official
scripts do with a results file for part of a data set, and the signature then says `n:5000/40504`. An empty caption is a
caption: it scores zero (ROUGE-L against an empty reference: one).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, islice
from pathlib import Path

import numpy as np

from groundling.errors import DataError, unknown
from groundling.metrics import bleu, cider, rouge
from groundling.metrics.caption_files import read_predictions, read_references
from groundling.metrics.cider import DocumentFrequency
from groundling.metrics.ngrams import Corpus, Numbers, Sentences
from groundling.metrics.statistics import ScoreTable, Statistics, mean_statistics, signature
from groundling.text.ptb import Pieces, token_pieces, token_text

log = logging.getLogger(__name__)

TOKENIZER = "ptb-3.4.1"
DEFAULT = ("bleu", "rouge", "cider", "cider-d")


@dataclass(frozen=True)
class Captions:
    """Captions and references as the metrics see them: tokens, joined by single spaces.

    A token may hold a space that does not break ("3 1/2"). BLEU and CIDEr count it as two words, ROUGE-L as one, as
    their official scripts do: hence text here, and not lists of words.
    """

    ids: tuple[str, ...]
    pieces: Pieces  # of the hypotheses, then of the references, image by image
    per_image: tuple[int, ...]  # references of each image
    images: int  # that have references, with or without a hypothesis
    df: DocumentFrequency | None = None  # None: document frequencies of the references at hand
    java: bool = False  # METEOR by its jar

    @cached_property
    def corpus(self) -> Corpus:
        both = Numbers(self.df.vocabulary if self.df else ()).read_pieces(self.pieces)
        n, words, lengths = len(self.ids), both.words, both.lengths
        middle = int(lengths[:n].sum())
        return Corpus(
            Sentences(words[:middle], lengths[:n]), Sentences(words[middle:], lengths[n:]), np.array(self.per_image)
        )

    @cached_property
    def hypotheses(self) -> tuple[str, ...]:
        return self._texts[: len(self.ids)]

    @cached_property
    def references(self) -> tuple[tuple[str, ...], ...]:
        texts = iter(self._texts[len(self.ids) :])
        return tuple(tuple(islice(texts, n)) for n in self.per_image)

    @cached_property
    def _texts(self) -> tuple[str, ...]:
        return tuple(self.pieces.texts())

    def signature(self, metric: str, **fields: str) -> str:
        n = str(len(self.ids)) if len(self.ids) == self.images else f"{len(self.ids)}/{self.images}"
        return signature(metric, **fields, tok=TOKENIZER, n=n)


def score_captions(
    pred: Mapping[str, str] | str | Path,
    refs: Mapping[str, Sequence[str]] | str | Path,
    metrics: Sequence[str] = DEFAULT,
    df: DocumentFrequency | str | Path | None = None,
    java: bool = False,
) -> ScoreTable:
    """Score raw captions, image id -> text, against raw references, image id -> texts; or the files that hold them
    (`caption_files`).

    Printed, it is a table. Each of the statistics has a `score()` with its signature and a value `per_item()`, in the
    order of its `ids`.
    `df`, or the file that it was saved to, makes CIDEr comparable across corpora, and possible on few images. `java`
    asks METEOR's jar, as a cross-check.
    """
    for name in metrics:
        if name not in METRICS:
            raise DataError(unknown("metric", name, METRICS))
    known = DocumentFrequency.load(df) if isinstance(df, str | Path) else df
    hypotheses = read_predictions(pred) if isinstance(pred, str | Path) else pred
    references = read_references(refs) if isinstance(refs, str | Path) else refs
    captions = replace(tokenized(hypotheses, references, known), java=java)
    return ScoreTable(statistics for name in dict.fromkeys(metrics) for statistics in METRICS[name](captions))


def document_frequency(captions: Mapping[str, Sequence[str]] | str | Path, end: str | None = None) -> DocumentFrequency:
    """Count raw captions, image id -> texts, or a file of them. Images without captions are not images of the corpus.

    `end` is a word that is counted behind the last one of each caption: the reward of training needs it, scores do not.
    """
    texts = read_references(captions) if isinstance(captions, str | Path) else captions
    counted = [[token_text(text).split() for text in refs] for refs in texts.values() if refs]
    if not counted:
        raise DataError(f"{captions if isinstance(captions, str | Path) else 'the corpus'}: holds no captions to count")
    return DocumentFrequency.of(counted, end)


def tokenized(
    hypotheses: Mapping[str, str], references: Mapping[str, Sequence[str]], df: DocumentFrequency | None = None
) -> Captions:
    """Tokenise the captions of all predicted images."""
    for image in hypotheses:
        if image not in references:
            raise DataError(f"image {image} has a prediction but is not in the references; are they of another split?")
        if not references[image]:
            raise DataError(f"image {image} has a prediction but no reference captions; leave it out")
    if not hypotheses:
        raise DataError("there are no predictions to score")
    missing = len(references) - len(hypotheses)
    if missing:
        log.warning("%d of %d images have no prediction and are left out", missing, len(references))
    texts = [*hypotheses.values(), *chain.from_iterable(references[image] for image in hypotheses)]
    return Captions(
        ids=tuple(hypotheses),
        pieces=token_pieces(texts),
        per_image=tuple(len(references[image]) for image in hypotheses),
        images=len(references),
        df=df,
    )


# ---------------------------------------------------------------- one entry per metric


def _bleu(captions: Captions) -> Iterator[Statistics]:
    counts = bleu.counts(captions.corpus)
    for order in range(1, 5):
        about = captions.signature(f"bleu-{order}", len="closest")
        yield Statistics(f"BLEU-{order}", about, captions.ids, counts, partial(bleu.bleu, order=order))


def _rouge(captions: Captions) -> Iterator[Statistics]:
    if captions.pieces.plain:
        values = rouge.score(captions.corpus)
    else:
        hypotheses = (text.split(" ") for text in captions.hypotheses)
        values = rouge.rouge_l(hypotheses, ([text.split(" ") for text in refs] for refs in captions.references))
    yield mean_statistics("ROUGE-L", captions.signature("rouge-l", beta="1.2"), captions.ids, values)


def _cider(captions: Captions, name: str, clipped: bool) -> Iterator[Statistics]:
    values = cider.score(captions.corpus, captions.df, clipped)
    about = captions.signature(name.lower(), df=captions.df.digest if captions.df else "corpus")
    yield mean_statistics(name, about, captions.ids, values)


def _meteor(captions: Captions) -> Iterator[Statistics]:
    from groundling.metrics.meteor import meteor

    values = meteor(captions.hypotheses, captions.references, captions.ids, java=captions.java)
    about = captions.signature("meteor-1.5", norm="yes", by="jar" if captions.java else "groundling")
    yield replace(values, signature=about)


def _spice(captions: Captions) -> Iterator[Statistics]:
    from groundling.metrics.spice import spice

    values = spice(captions.hypotheses, captions.references, captions.ids)
    yield replace(values, signature=captions.signature("spice-1.0", parser="corenlp-3.6.0"))


METRICS: dict[str, Callable[[Captions], Iterator[Statistics]]] = {
    "bleu": _bleu,
    "rouge": _rouge,
    "cider": partial(_cider, name="CIDEr", clipped=False),
    "cider-d": partial(_cider, name="CIDEr-D", clipped=True),
    "meteor": _meteor,
    "spice": _spice,
}
