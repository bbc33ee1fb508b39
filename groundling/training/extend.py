"""A trained model with more words: every weight is kept, new words get rows of their own.

A new word begins with the row of the nearest known word, by WordNet ("labrador" begins as "dog"), else with the mean of
all rows. In a grounder with word vectors (GloVe) it has its own vector, where the vectors can be read. The bias of a
new word begins low, so that a captioner uses it only once it was learned.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from groundling.errors import GroundlingError
from groundling.recipes import Model, recipe_name
from groundling.text.classes import Classes
from groundling.text.vectors import PACKED, vectors_of_new_words
from groundling.text.vocab import SPECIAL, Vocabulary
from groundling.text.wordnet import wordnet
from groundling.training.meta_init import MetaInit, fill
from groundling.types import Caption

MIN_COUNT = 2  # a new word that occurs less often in the training captions stays unknown
BIAS = ".bias"
RARE = 0.1  # quantile of the known biases at which a new word begins
VECTORS = "vectors"  # the buffer of a grounder that holds word vectors made elsewhere

log = logging.getLogger(__name__)


def extended(model: Model, captions: Iterable[Caption], min_count: int = MIN_COUNT) -> Model:
    """The same model, able to learn the words of these captions; known words keep their ids."""
    seen = Vocabulary.of(captions, min_count)
    noun_of = dict(zip(seen.words, seen.nouns, strict=True))
    new = [word for word in seen.words if word not in model.vocab]
    vocab = Vocabulary(model.vocab.words + tuple(new), model.vocab.nouns + tuple(noun_of[word] for word in new))
    nearest = {word: near for word in new if noun_of[word] and (near := _nearest(word, model.vocab.words))}
    classes = _classes(model.groundable, nearest)
    with MetaInit():
        parts = model.recipe.parts(vocab, model.layout, classes)
    names = {name for name, _ in parts.named_children()}
    if names != {name for name, _ in model.parts.named_children()}:
        raise GroundlingError(
            f"{recipe_name(model.recipe)} keeps only some of its parts when training is over, so that it cannot be "
            "adapted; adapt the weights of this package, or a model of groundling, updown or two_branch"
        )
    copied = [model.vocab.encode([nearest[word]])[0] if word in nearest else -1 for word in new]
    fresh, known = parts.state_dict(), model.parts.state_dict()
    grown = {name: _grown(value, fresh[name], copied, name.endswith(BIAS)) for name, value in known.items()}
    fill(parts, grown | _own_vectors(model, grown, new))
    return replace(model, parts=parts, vocab=vocab, groundable=classes)


def _grown(old: Tensor, fresh: Tensor, copied: Sequence[int], bias: bool) -> Tensor:
    """The tensor `old` as large as `fresh`, with a row for each new word: that of the word at `copied`; -1: the mean.

    In a `bias` all new words begin low. Whole numbers are not learned: columns of image vectors are those of `fresh`.
    """
    if old.shape == fresh.shape:
        return old
    if fresh.shape != (len(old) + len(copied), *old.shape[1:]):
        raise GroundlingError(f"a tensor of {tuple(old.shape)} cannot become one of {tuple(fresh.shape)}")
    if not old.is_floating_point():
        return fresh
    if bias:
        return torch.cat([old, old.float().quantile(RARE).to(old.dtype).expand(len(copied))])
    mean = old[len(SPECIAL) :].mean(0, dtype=torch.float32).to(old.dtype)
    return torch.cat([old, torch.stack([mean if at < 0 else old[at] for at in copied])])


def _own_vectors(model: Model, grown: Mapping[str, Tensor], new: Sequence[str]) -> dict[str, Tensor]:
    """Tensors of word vectors, in which each new word that the source of the vectors knows has its own."""
    source = str(getattr(model.recipe, "vectors", "")).removesuffix(PACKED)
    names = [name for name, value in grown.items() if name.rpartition(".")[2] == VECTORS and value.shape[1]]
    if not (source and names and new):
        return {}
    own = {}
    for name in names:
        old = model.parts.state_dict()[name].cpu()
        try:
            rows = torch.from_numpy(vectors_of_new_words(source, model.vocab.words, old.float().numpy(), new))
        except GroundlingError as error:
            log.warning(
                "%s: new words of the grounder begin with the vectors of the nearest known words instead of their own",
                error,
            )
            return {}
        rows = torch.where(rows.any(1, keepdim=True), rows.to(old.dtype), grown[name][len(old) :].cpu())
        own[name] = torch.cat([old, rows]).to(grown[name].device)
    return own


def _nearest(word: str, known: Sequence[str]) -> str | None:
    """Its singular, another word for it, or what it is a kind of: the first that is known."""
    net, words = wordnet(), set(known)
    synset = net.synset(word)
    if synset is None:
        return None
    names = [net.base(word) or "", *(lemma for kind in net.kinds(synset) for lemma in net.lemmas(kind))]
    return next((name for name in names if name in words), None)


def _classes(classes: Classes, nearest: Mapping[str, str]) -> Classes:
    """A new noun gets a box where the known word nearest to it does."""
    more = {word: classes.class_of[near] for word, near in nearest.items() if near in classes}
    return Classes(classes.names, {**classes.class_of, **more})
