from __future__ import annotations

import numpy as np
import planted
import pytest
import tiny
import torch

from groundling import recipes
from groundling.decoding import greedy
from groundling.evaluation import self_retrieval
from groundling.evaluation.self_retrieval import Gallery, logp_of_pairs, own_words
from groundling.metrics.retrieval import own_ranks
from groundling.recipes import Model
from groundling.text.classes import groundable_words
from groundling.text.vocab import Vocabulary
from groundling.types import EOS, PAD

CPU = torch.device("cpu")
CAPTIONS = torch.tensor([[5, 6, EOS, PAD], [5, 6, 7, EOS], [5, EOS, PAD, PAD], [5, 6, EOS, PAD], [8, 9, 10, 4]])


def test_a_pair_scores_what_teacher_forcing_gives_it() -> None:
    """Captions with common beginnings, one twice, one that was cut before its end; pairs in any order."""
    model = tiny.updown()
    encoded = model.encode(tiny.regions(3, 5, 2))
    caption, image = torch.tensor([4, 0, 1, 3, 2, 1, 0]), torch.tensor([2, 0, 0, 0, 1, 2, 1])
    inputs = torch.cat([torch.ones(5, 1, dtype=torch.int64), CAPTIONS[:, :-1]], 1)
    forced = model(encoded[image], inputs[caption], CAPTIONS[caption]).logp.sum(1)
    torch.testing.assert_close(logp_of_pairs(model, encoded, CAPTIONS, caption, image), forced)


def test_common_beginnings_are_walked_once() -> None:
    """Image 0 says 1 + 2 + 3 + 2 distinct beginnings of the five captions: '', '5'/'8', '5 6'/'8 9' ..."""
    model, rows = tiny.updown(), []
    step = model.step
    model.step = lambda token, encoded, state: rows.append(len(token)) or step(token, encoded, state)  # type: ignore[method-assign,func-returns-value]
    encoded = model.encode(tiny.regions(3))
    logp_of_pairs(model, encoded, CAPTIONS, torch.arange(5), torch.zeros(5, dtype=torch.int64))
    assert rows == [1, 2, 2, 2]


def test_the_words_of_an_image_are_the_mean_of_what_it_chose_from() -> None:
    """Two words of image 0 (EOS is one), one of image 1: rows are distributions, by hand from `step`."""
    model = tiny.updown()
    encoded = model.encode(tiny.regions(3, 4))
    tokens = torch.tensor([[5, EOS], [EOS, PAD]])
    first, _, state = model.step(torch.tensor([1, 1]), encoded, model.start(encoded))
    second, _, _ = model.step(torch.tensor([5, EOS]), encoded, state)
    wanted = torch.stack([(first[0].exp() + second[0].exp()) / 2, first[1].exp()])
    torch.testing.assert_close(own_words(model, encoded, tokens).exp(), wanted)


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Gallery:
    """Planted images and a captioner that has learned nothing."""
    dataset, store = planted.make(tmp_path_factory.mktemp("store"), images=70)
    recipe = recipes.recipe_class("updown").of(hidden=16, embed=8, attention=8, min_count=1)
    vocab = Vocabulary.build((c.tokens for e in dataset for c in e.captions), 1)
    torch.manual_seed(0)
    classes = groundable_words(dataset)
    parts = recipe.parts(vocab, store.layout, classes).eval()
    with torch.no_grad():
        for weight in parts.parameters():
            weight.mul_(4)
    model = Model(recipe, parts, vocab, store.fingerprint, store.layout, classes)
    return Gallery.of(model, store, [example.id for example in dataset], CPU, quiet=True)


def test_a_gallery_says_what_the_captioner_says(gallery: Gallery) -> None:
    captioner = gallery.model.captioner
    tokens = greedy(captioner, captioner.encode(gallery.store.batch(["3"])), gallery.model.length).tokens
    assert gallery.words()[3] == gallery.model.vocab.decode(tokens[0].tolist())


def test_blocks_of_any_size_give_the_same_ranks(gallery: Gallery, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = np.concatenate(list(gallery.scores(quiet=True)))
    assert whole.shape == (70, 70)
    for name, size in (("CAPTIONS", 30), ("IMAGES", 12), ("NUMBERS", 2000)):
        monkeypatch.setattr(self_retrieval, name, size)
    parts = list(gallery.scores(quiet=True))
    assert [len(part) for part in parts] == [30, 30, 10]
    np.testing.assert_allclose(np.concatenate(parts), whole, atol=1e-4)
    assert (own_ranks([np.concatenate(parts)]) == own_ranks([whole])).mean() > 0.9  # ties apart


def test_a_shortlist_of_all_images_loses_nothing_and_a_short_one_says_what_it_lost(gallery: Gallery) -> None:
    whole = np.concatenate(list(gallery.scores(quiet=True)))
    every, some = gallery.shortlist(70, quiet=True), gallery.shortlist(20, quiet=True)
    np.testing.assert_allclose(np.concatenate(list(gallery.scores(every, quiet=True))), whole, atol=1e-4)
    assert gallery.recall(every, quiet=True).value == 1
    short = np.concatenate(list(gallery.scores(some, quiet=True)))
    assert (np.isfinite(short).sum(1) == 20).all()
    np.testing.assert_allclose(short[np.isfinite(short)], whole[np.isfinite(short)], atol=1e-4)
    told = gallery.recall(some, sample=70, quiet=True)
    top = np.argsort(-whole, 1)[:, :10]
    assert told.value == pytest.approx(np.isfinite(np.take_along_axis(short, top, 1)).mean(), abs=0.02)
    assert told.value > 2 * 20 / 70  # far better than chance
    assert "shortlist:20" in told.signature
