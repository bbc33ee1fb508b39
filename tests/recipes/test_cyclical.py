"""Decode, localize, reconstruct: the terms and their gradients against a plain loop, and what is left of it on disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import planted
import pytest
import torch
from torch import Tensor

from groundling.data.loader import Loader
from groundling.decoding import greedy
from groundling.errors import GroundlingError
from groundling.evaluation.attention_accuracy import attention_accuracy
from groundling.recipes import TrainingContext, load, save
from groundling.recipes.cyclical import Cyclical
from groundling.regions.records import Layout
from groundling.tensors import Batch, Regions
from groundling.text.classes import groundable_words
from groundling.text.vocab import Vocabulary
from groundling.training.run import train
from groundling.training.stages import Clock, Parts
from groundling.types import PAD

SMALL: dict[str, Any] = {
    "hidden": 24,
    "embed": 16,
    "attention": 12,
    "location": 6,
    "dropout": 0.0,
    "lr": 1e-2,
    "min_count": 1,
    "batch": 8,
    "plateau": 20,
    "patience": 0,
}
NOW = Clock(0, 0)


def little(folder: Path, grid: bool = False, **config: Any) -> tuple[Cyclical, Parts, Batch]:
    """A recipe, its parts with weights large enough that words differ, and a batch of four images; float64."""
    dataset, store = planted.make(folder, images=5)
    vocab = Vocabulary.build((e.captions[0].tokens for e in dataset), 1)
    batch = next(Loader(dataset.split("train"), store, vocab, batch_size=4, length=5)(0))
    recipe = Cyclical.of(**SMALL | config)
    torch.manual_seed(5)
    seen = replace(
        batch.regions, feats=batch.regions.feats.double(), grid=torch.randn(4, 6, 3).double() if grid else None
    )
    parts = recipe.parts(vocab, Layout.of(seen), groundable_words(dataset)).double().eval()
    with torch.no_grad():
        for weight in parts.parameters():
            weight.mul_(2)
    return recipe, parts, replace(batch, regions=seen)


def by_hand(recipe: Cyclical, m: Parts, batch: Batch) -> dict[str, Tensor]:
    """The terms of the cycle, one caption and one word at a time, the words of the first pass being constants."""
    model, localizer = m.captioner, m.localizer.ask
    decoding, reconstruction, apart, words = [], [], [], 0
    for n, image in enumerate(batch.image_of.tolist()):
        encoded = model.encode(batch.regions)[torch.tensor([image])]
        keys, memory = encoded.keys[image], encoded.memory[image]  # (R, A), (R, H)
        first, still = model.start(encoded)
        second = first
        for t, target in enumerate(batch.targets[n].tolist()):
            if target == PAD:
                break
            words += 1
            embedded = model.embed_word(batch.inputs[n, t : t + 1]) + still
            logp, glimpse, (first, _) = model.step(batch.inputs[n, t : t + 1], encoded, (first, still))
            decoding.append(logp[0, target])

            h1, c1 = _cell(embedded + model.attention_gates(torch.cat([second.h2, second.h1], 1)), second.c1)
            word = int(logp.detach().argmax())
            query = h1[0] if recipe.of_hidden else model.embed.weight[word].relu()
            asked = localizer(query) / keys.shape[1] ** 0.5
            beta = (keys @ asked).softmax(0)  # (6)
            context = beta @ memory
            if encoded.grid is not None:
                context = context + (encoded.grid_keys[image] @ asked).softmax(0) @ encoded.grid[image]
            visual = bool(batch.visual[n, t + 1])
            seen = context[None] * (1.0 if visual else recipe.others_region)
            h2, c2 = _cell(model.language_gates(torch.cat([seen, h1, second.h2], 1)), second.c2)  # (7)
            second = type(second)(h1, c1, h2, c2)
            again = model.logits(h2).log_softmax(1)[0, target]
            reconstruction.append(again * (1.0 if visual else recipe.others_loss))
            apart.append((beta.detach() * (beta.detach() / glimpse.attn[0]).log()).sum())
    terms = {
        "decode": -recipe.lam1 * torch.stack(decoding).sum() / words,
        "reconstruct": -recipe.lam2 * torch.stack(reconstruction).sum() / words,
        "consistency": recipe.consistency * torch.stack(apart).sum() / words,
    }
    return terms if recipe.consistency else {name: terms[name] for name in ("decode", "reconstruct")}


def _cell(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    i, f, g, o = gates.chunk(4, 1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def gradients(parts: Parts, loss: Tensor) -> dict[str, Tensor]:
    parts.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in parts.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"lam1": 0.6, "lam2": 0.4},
        {"others_loss": 0.0},
        {"others_region": 0.0},
        {"layers": 2},
        {"of_hidden": 1},
        {"consistency": 0.7},
        {"grid": True, "others_region": 0.0},
    ],
    ids=lambda config: " ".join(config) or "as published",
)
def test_terms_and_gradients_are_those_of_a_plain_loop_in_which_words_are_constants(
    config: dict[str, Any], tmp_path: Path
) -> None:
    recipe, m, batch = little(tmp_path, **config)
    terms, expected = recipe.cycle(m, batch, NOW), by_hand(recipe, m, batch)
    assert list(terms) == list(expected)
    for name in terms:
        torch.testing.assert_close(terms[name], expected[name])
        found = gradients(m, recipe.cycle(m, batch, NOW)[name])
        torch.testing.assert_close(found, gradients(m, by_hand(recipe, m, batch)[name]))


def test_reconstruction_teaches_the_decoder_and_the_localizer_but_not_the_attention_of_the_decoding(
    tmp_path: Path,
) -> None:
    """The attention's own weights (w, W_h) take no part in the second pass: what they learn, they learn by sharing."""
    recipe, m, batch = little(tmp_path)
    found = gradients(m, recipe.cycle(m, batch, NOW)["reconstruct"])
    for name in ("localizer.ask.0.weight", "captioner.embed.weight", "captioner.attention_gates.weight"):
        assert found[name].abs().sum() > 0
    for name in ("captioner.language_gates.weight", "captioner.logits.weight", "captioner.attend.of_memory.weight"):
        assert found[name].abs().sum() > 0
    assert "captioner.attend.weigh.weight" not in found
    assert "captioner.attend.of_query.weight" not in found


def test_the_decoding_alone_is_the_captioner_that_has_no_localizer(tmp_path: Path) -> None:
    recipe, m, batch = little(tmp_path, lam1=1.0)
    terms = recipe.decode(m, batch, NOW)
    torch.testing.assert_close(terms["decode"], recipe.cycle(m, batch, NOW)["decode"])
    assert not any(name.startswith("localizer") for name in gradients(m, terms["decode"]))


def test_regions_of_several_frames_are_one_set_and_padding_changes_nothing(tmp_path: Path) -> None:
    recipe, m, batch = little(tmp_path)
    film = replace(batch, regions=replace(batch.regions, frame=torch.arange(planted.REGIONS).expand(4, -1)))
    longer = [Regions.stack([film.regions[b : b + 1], _more(film.regions)])[:1] for b in range(4)]
    padded = replace(film, regions=Regions.stack(longer))
    assert padded.regions.feats.shape[1] == planted.REGIONS + 3
    torch.testing.assert_close(recipe.cycle(m, padded, NOW), recipe.cycle(m, film, NOW))
    assert not torch.allclose(recipe.cycle(m, film, NOW)["decode"], recipe.cycle(m, batch, NOW)["decode"])


def _more(regions: Regions) -> Regions:
    many = torch.arange(planted.REGIONS + 3) % planted.REGIONS
    return replace(
        regions[:1],
        feats=regions.feats[:1, many],
        boxes=regions.boxes[:1, many],
        valid=regions.valid[:1, many],
        frame=regions.frame[:1, many],
        labels=regions.labels[:1, many],
        scores=regions.scores[:1, many],
    )


def test_pre_training_comes_first_unless_a_trained_model_is_given(tmp_path: Path) -> None:
    dataset, store = planted.make(tmp_path, images=5)
    vocab, classes = Vocabulary.build([], 1), groundable_words(dataset)
    context = TrainingContext(dataset, vocab, store.layout, store.fingerprint, classes)
    first, cycle = Cyclical.of(pretrain=3).stages(context)
    assert (first.name, first.epochs, first.trains) == ("decode", 3, ("captioner",))
    assert (cycle.name, cycle.epochs, cycle.trains) == ("cycle", 45, ("captioner", "localizer"))
    assert [stage.name for stage in Cyclical.of(pretrain=0).stages(context)] == ["cycle"]


@pytest.mark.parametrize("config", [{"of_hidden": 2}, {"others_loss": 1.5}, {"layers": 0}, {"consistency": -1.0}])
def test_what_no_variant_has_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(GroundlingError, match=f"{next(iter(config))} must be"):
        Cyclical.of(**config)


@pytest.mark.parametrize("config", [{}, {"layers": 2}, {"others_region": 0.0}])
def test_the_localizer_looks_where_the_word_alone_says(config: dict[str, Any], tmp_path: Path) -> None:
    """β_t = softmax((W_l e_t)ᵀ R / √A), e_t = ReLU(W_e y_t), of the true words y_t: eq. 6 for a given sentence."""
    recipe, m, batch = little(tmp_path, **config)
    encoded = m.captioner.encode(batch.regions)[batch.image_of]
    found = recipe.reconstruct(m, encoded, batch, batch.targets).attn
    for n, image in enumerate(batch.image_of.tolist()):
        for t, word in enumerate(batch.targets[n].tolist()):
            if word != PAD:
                asked = m.localizer.ask(m.captioner.embed.weight[word].relu())
                beta = (encoded.keys[image] @ asked / encoded.keys.shape[2] ** 0.5).softmax(0)
                torch.testing.assert_close(found[n, t], beta)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data, regions and a short training in one folder."""
    folder = tmp_path_factory.mktemp("cyclical")
    dataset, store = planted.make(folder / "store", images=10)
    recipe = Cyclical.of(**SMALL | {"pretrain": 1, "epochs": 1})
    train(recipe, dataset.split("train"), dataset.split("val"), store, folder / "run")
    return folder


def test_the_localizer_is_saved_and_scored_beside_the_captioner(run: Path, tmp_path: Path) -> None:
    dataset, store = planted.make(tmp_path, images=10)
    model = load(run / "run")
    assert [name for name, _ in model.parts.named_children()] == ["captioner", "localizer"]
    own, localized = (
        attention_accuracy(model, dataset, store, localizer=localizer).statistics()["accuracy"].score()
        for localizer in (False, True)
    )
    assert "of:localizer" in localized.signature and "of:localizer" not in own.signature
    assert 0 <= localized.value <= 1 and own.n == localized.n


def test_a_run_of_an_earlier_version_has_no_localizer_and_captions_all_the_same(run: Path, tmp_path: Path) -> None:
    dataset, store = planted.make(tmp_path, images=10)
    model = load(run / "run")
    save(tmp_path / "old", replace(model, parts=Parts(captioner=model.parts.captioner)))
    old = load(tmp_path / "old")
    regions = store.batch([dataset[0].id])
    assert greedy(old.captioner, old.captioner.encode(regions), old.length).tokens.shape[0] == 1
    with pytest.raises(GroundlingError, match="has no localizer"):
        attention_accuracy(old, dataset, store, localizer=True)
