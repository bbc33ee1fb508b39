from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import planted
import pytest
import torch

from groundling.decoding import greedy
from groundling.errors import DataError, GroundlingError, RegionMismatch
from groundling.files import MANIFEST
from groundling.recipes import (
    ABOUT,
    RECIPES,
    WEIGHTS,
    Model,
    ModelRecipe,
    _config,
    builds_model,
    kept,
    load,
    recipe_class,
    save,
)
from groundling.recipes.scst import Scst
from groundling.regions.fingerprints import require
from groundling.text.classes import groundable_words
from groundling.text.vocab import Vocabulary
from groundling.training.checkpoint import read, write
from groundling.training.run import settings, train
from groundling.training.stages import Clock, Parts

SMALL: dict[str, Any] = {"hidden": 32, "embed": 16, "attention": 16, "dropout": 0.0, "lr": 1e-2, "min_count": 1}
QUICK: dict[str, dict[str, Any]] = {
    "updown": {"epochs": 40, "batch": 8, "decay_every": 100},
    "updown_aware": {"epochs": 40, "batch": 8, "location": 8, "plateau": 20, "patience": 0},
    "supervised_aware": {"epochs": 30, "batch": 8, "location": 8, "plateau": 20, "patience": 0},
    "cyclical": {"pretrain": 25, "epochs": 25, "batch": 8, "location": 8, "plateau": 20, "patience": 0},
}


def recipe(name: str, **more: Any) -> ModelRecipe:
    made = recipe_class(name).of(**SMALL | QUICK[name] | more)
    assert builds_model(made)
    return made


@pytest.fixture(scope="module", params=list(QUICK))
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run folder and the store that it was trained on."""
    folder = tmp_path_factory.mktemp(request.param)
    dataset, store = planted.make(folder / "store")
    train(recipe(request.param), dataset.split("train"), dataset.split("val"), store, folder / "run")
    return folder / "run", folder / "store"


def test_a_recipe_learns_planted_things_and_points_at_them(trained: tuple[Path, Path], tmp_path: Path) -> None:
    """On images that it has not seen: both words (by chance, 1 in 30), and where both are (by chance, 1 in 25)."""
    model = load(trained[0])
    dataset, store = planted.make(tmp_path / "new", images=30, seed=1)
    regions = store.batch([example.id for example in dataset])
    decoded = greedy(model.captioner, model.captioner.encode(regions), model.length)
    words = [model.vocab.decode(row) for row in decoded.tokens.tolist()]
    right = [decoded == list(e.captions[0].tokens) for decoded, e in zip(words, dataset, strict=True)]
    places = [(int(e.gold[0].boxes[0][0]) // 10, int(e.gold[1].boxes[0][0]) // 10) for e in dataset]
    looks = [(int(attn[1].argmax()), int(attn[4].argmax())) for attn in decoded.attn]
    hits = [seen == place for seen, place, fine in zip(looks, places, right, strict=True) if fine]
    assert sum(right) >= 22
    assert sum(hits) >= 0.75 * len(hits)
    assert model.scores[0].name == "cider-d"
    assert model.scores[0].value > 5
    assert model.scores[0].n == 8


def test_what_is_saved_is_what_inference_needs(trained: tuple[Path, Path]) -> None:
    weights, _ = read(trained[0] / WEIGHTS)
    model = load(trained[0])
    assert weights.keys() == model.parts.state_dict().keys()
    assert not any(p.requires_grad for p in model.parts.parameters())
    assert not model.parts.captioner.training
    about = json.loads((trained[0] / ABOUT).read_text())
    assert about["vocab"]["words"][4:6] == ["the", "near"]
    assert set(about["groundable"]["names"]) == set(planted.THINGS)


def test_a_model_that_is_loaded_and_saved_again_is_the_same_file(trained: tuple[Path, Path], tmp_path: Path) -> None:
    save(tmp_path, load(trained[0]))
    for name in (WEIGHTS, ABOUT):
        assert (tmp_path / name).read_bytes() == (trained[0] / name).read_bytes()


def test_regions_of_another_source_are_refused(trained: tuple[Path, Path]) -> None:
    model = load(trained[0])
    with pytest.raises(RegionMismatch, match="regions extract.*version: 2 instead of 1"):
        require(replace(model.fingerprint, version="2"), model.fingerprint)


@pytest.mark.parametrize("name", RECIPES)
def test_flags_are_the_fields_of_the_dataclass_and_each_has_help(name: str) -> None:
    docstring, found = _config.read(name)
    assert {k.name: k.default for k in found} == recipe_class(name)().settings()
    assert len({k.name for k in found}) == len(found)  # no name in two groups: a flag would have two meanings
    assert all(isinstance(k.default, k.type) for k in found)
    assert all(k.help for k in found)
    assert len(docstring.splitlines()[0]) > 20


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize(
    ("field", "value"), [("patience", 0), ("dropout", 0), ("dropout", 1.0), ("lr", 0), ("length", 1000)]
)
def test_the_ends_of_a_range_are_legal(name: str, field: str, value: float) -> None:
    assert recipe(name, **{field: value}).settings()[field] == value


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("epochs", 0), ("epochs", 1.5), ("epochs", 10**400), ("dropout", 1.01), ("lr", float("inf"))),
        *(("lr", float("nan")), ("patience", -1), ("length", 1001)),
    ],
)
def test_what_is_out_of_range_is_named(name: str, field: str, value: float) -> None:
    with pytest.raises(GroundlingError, match=f"{field} must be .*got {value}"):
        recipe(name, **{field: value})


def test_scheduled_sampling_grows_with_the_epochs_up_to_its_limit(tmp_path: Path) -> None:
    dataset, store = planted.make(tmp_path / "store", images=5)
    seen: list[float] = []

    class Spy(torch.nn.Module):
        def encode(self, regions: object) -> torch.Tensor:
            return torch.zeros(4)

        def forward(self, encoded: object, inputs: object, targets: object, sampling: float) -> None:
            seen.append(sampling)
            raise StopIteration

    from groundling.data.loader import Loader
    from groundling.recipes.updown import Updown

    batch = next(Loader(dataset.split("train"), store, Vocabulary.build([], 1), batch_size=4, length=5)(0))
    for epoch in (0, 4, 5, 12, 100):
        with pytest.raises(StopIteration):
            Updown.of(sampling=0.25).xe(Parts(captioner=Spy()), batch, Clock(epoch, 0))
    assert seen == [0, 0, 0.05, 0.1, 0.25]


def test_without_boxes_the_heads_of_noun_phrases_are_groundable(tmp_path: Path) -> None:
    dataset, _ = planted.make(tmp_path / "store")
    bare = replace(dataset, examples=tuple(replace(example, gold=()) for example in dataset))
    assert set(groundable_words(bare)) == set(groundable_words(dataset)) == set(planted.THINGS)


def test_the_classes_and_the_boxes_that_a_recipe_sees_are_settings_of_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, store = planted.make(tmp_path / "store", images=10)
    moved = replace(dataset, examples=tuple(replace(e, gold=e.gold[::-1]) for e in dataset))
    vocab, classes = Vocabulary.build([], 1), groundable_words(dataset)
    made = recipe("updown")
    model = Model(made, Parts(), vocab, store.fingerprint, store.layout, classes)
    before = settings(made, model, dataset, dataset, 0)
    fewer = settings(made, replace(model, groundable=replace(classes, names=classes.names[1:])), dataset, dataset, 0)
    assert {key for key in before if before[key] != fewer[key]} == {"object classes"}
    assert settings(made, model, moved, dataset, 0) == before
    monkeypatch.setattr(type(made), "uses_boxes", True)
    assert settings(made, model, moved, dataset, 0) != settings(made, model, dataset, dataset, 0)


# ---------------------------------------------------------------- what may be wrong with a folder


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    dataset, store = planted.make(tmp_path / "store", images=10)

    vocab = Vocabulary.build((e.captions[0].tokens for e in dataset), 1)
    classes = groundable_words(dataset)
    made = recipe("updown")
    parts = made.parts(vocab, store.layout, classes)
    save(tmp_path / "run", Model(made, parts, vocab, store.fingerprint, store.layout, classes))
    return tmp_path / "run"


def change(folder: Path, **fields: Any) -> None:
    about = json.loads((folder / ABOUT).read_text()) | fields
    (folder / ABOUT).write_text(json.dumps({k: v for k, v in about.items() if v is not None}))
    (folder / MANIFEST).unlink(missing_ok=True)


def test_a_folder_without_a_model_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no model in .*groundling train"):
        load(tmp_path)


@pytest.mark.parametrize(
    "fields",
    [
        {"recipe": None},
        {"fields": {"hidden": 32, "wings": 2}},
        {"fields": []},
        {"fields": {"hidden": -1}},
        {"fields": {"dropout": "much"}},
        {"vocab": {"words": ["a"]}},
        {"fingerprint": {"name": "x"}},
        {"layout": {"dim": 1}},
        {"layout": {"dim": "x", "grid": [0, 0]}},
        {"layout": {"dim": -1, "whole": 0, "grid": [0, 0], "labels": 0}},
        {"vocab": ["a"]},
        {"scores": [{"name": "x"}]},
        {"groundable": []},
        {"format": 99},
    ],
    ids=lambda f: next(iter(f)),
)
def test_a_description_with_something_missing_or_odd_is_refused(fields: dict[str, Any], saved: Path) -> None:
    change(saved, **fields)
    with pytest.raises(DataError, match="model.json does not describe a model"):
        load(saved)


def test_knobs_of_finishes_that_there_are_no_longer_are_passed_over(saved: Path) -> None:
    """What a model was finished with tells its story, and is not needed to use it."""
    change(saved, fine_tuning=[{"recipe": "scst", "fields": {"epochs": 3, "regions_per_image": 100}}])
    assert load(saved).fine_tuning == (Scst.of(epochs=3),)


def test_an_unknown_recipe_is_named_with_those_there_are(saved: Path) -> None:
    change(saved, recipe="downup")
    with pytest.raises(GroundlingError, match="'downup'; there are groundling, updown, "):
        load(saved)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000])
def test_a_description_that_is_no_json_object_is_refused(content: bytes, saved: Path) -> None:
    (saved / ABOUT).write_bytes(content)
    (saved / MANIFEST).unlink()
    with pytest.raises(DataError, match="does not describe a model"):
        load(saved)


@pytest.mark.parametrize("name", [name for name in RECIPES if builds_model(recipe_class(name)())])
def test_what_is_loaded_is_what_was_saved_down_to_what_is_in_no_file(name: str, saved: Path, tmp_path: Path) -> None:
    """Which words are nouns is not among the weights. Half precision on the disk is single precision in memory."""
    seen, made = load(saved), recipe_class(name)()
    assert builds_model(made)
    vocab = replace(seen.vocab, nouns=tuple(i % 3 == 0 for i in range(len(seen.vocab))))
    parts = made.parts(vocab, seen.layout, seen.groundable)
    model = replace(seen, recipe=made, parts=parts, vocab=vocab)
    save(tmp_path / name, model)
    weights, about = read(tmp_path / name / WEIGHTS)
    write(tmp_path / name / WEIGHTS, {k: v.half() if v.is_floating_point() else v for k, v in weights.items()}, about)
    (tmp_path / name / MANIFEST).unlink()
    state = torch.get_rng_state()
    found, wanted = (dict(tensors(parts)) for parts in (load(tmp_path / name).parts, kept(model)))
    assert torch.get_rng_state().equal(state)
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        exact = value.half().to(value.dtype) if value.is_floating_point() else value
        torch.testing.assert_close(found[key], exact, rtol=0, atol=0)


def tensors(parts: Parts) -> Iterator[tuple[str, torch.Tensor]]:
    yield from parts.named_parameters()
    yield from parts.named_buffers()


@pytest.mark.parametrize(
    ("name", "fields", "told"),
    [
        ("updown", {"hidden": 10**6}, "copy both from one run, or train anew. size mismatch for "),
        ("updown", {"hidden": 10**9}, "model.json does not describe a model: .*Copy the run again"),
        ("updown", {"hidden": 10**30}, "model.json does not describe a model: .*Copy the run again"),
        ("updown", {"length": 10**12}, "model.json does not describe a model: length must be from 1 to 1000; got 1"),
        ("two_branch", {"layers": 10**9}, "model.json does not describe a model: .*more than 10,000 tensors"),
        ("multi_branch", {"branches": 10**9}, "model.json does not describe a model: .*more than 10,000 tensors"),
        ("two_branch", {"vectors": "/dev/zero", "vector_size": 10**9}, "not of the run of its model.json"),
    ],
)
def test_sizes_that_the_weights_do_not_have_take_no_memory(
    name: str, fields: dict[str, Any], told: str, saved: Path
) -> None:
    """10⁶ by 4 · 10⁶ numbers would be 16 TB: they are compared with the weights, not made."""
    change(saved, recipe=name, fields=fields)
    with pytest.raises(DataError, match=told):
        load(saved)


def test_loading_imports_no_compiler(saved: Path) -> None:
    """torch would, seconds and 75 MB of it, to draw normal numbers into tensors without memory."""
    code = f"import sys; from groundling.recipes import load; load({str(saved)!r}); sys.exit('sympy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_weights_of_another_model_are_refused(saved: Path) -> None:
    write(saved / WEIGHTS, {"captioner.embed.weight": torch.zeros(3, 3)}, {})
    (saved / MANIFEST).unlink()
    with pytest.raises(DataError, match="not of the run of its model.json"):
        load(saved)
    (saved / WEIGHTS).unlink()
    with pytest.raises(DataError, match="model.safetensors"):
        load(saved)


@pytest.mark.parametrize("name", sorted(set(RECIPES) - {"distill", "groundling"}))  # these two are ours
def test_a_recipe_says_what_is_its_papers_and_what_is_ours(name: str) -> None:
    about = " ".join(_config.read(name)[0].split())
    assert re.search(r"The (paper's|papers'|released code's)", about) and re.search(r"\bOurs[,:]", about)


def test_settings_are_changed_by_name_whichever_group_they_are_in() -> None:
    made = recipe_class("cyclical").of(hidden=64, lam1=0.6, plateau=5)
    assert made.settings().items() >= {"hidden": 64, "lam1": 0.6, "plateau": 5, "epochs": 45, "lr": 1e-4}.items()
    assert made.changed(batch=8).batches.batch == 8 and made.batches.batch == 32
    with pytest.raises(TypeError, match="Cyclical has no setting wings"):
        made.changed(wings=2)


@pytest.mark.parametrize(
    ("name", "field", "told"),
    [
        ("adaptive", "hidden", "size of v, h and s"),  # beside the value, in the recipe
        ("updown", "hidden", "size of regions and of both LSTMs: v', h1 and h2; the paper takes 1024 for COCO"),
        ("cyclical", "epochs", "epochs of the cycle"),
        ("multi_branch", "decay_every", "epochs, of both stages together"),  # in a group in a group
    ],
)
def test_help_is_the_comment_of_the_recipe_or_else_of_the_group(name: str, field: str, told: str) -> None:
    assert next(one.help for one in _config.read(name)[1] if one.name == field) == told
