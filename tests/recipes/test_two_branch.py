from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import planted
import pytest
import torch

from groundling.data.dataset import Dataset
from groundling.data.loader import Loader
from groundling.errors import DataError, GroundlingError
from groundling.evaluation.phrases import queries
from groundling.inference.calibration import calibrate
from groundling.inference.grounder import PhraseGrounder, load_grounder
from groundling.metrics.phrases import localise
from groundling.recipes import Model, TrainingContext, recipe_class, save
from groundling.recipes import load as load_model
from groundling.recipes._pseudo_labels import BELOW, SURROUNDINGS, PseudoLabels
from groundling.recipes.two_branch import TwoBranch
from groundling.regions.store import Store, Writer
from groundling.tensors import Regions
from groundling.text.classes import groundable_words
from groundling.text.vocab import Vocabulary
from groundling.training.run import train
from groundling.training.stages import Clock

SMALL: dict[str, Any] = {
    "joint": 24, "embed": 12, "hidden": 16, "dropout": 0.0, "lr": 1e-2, "min_count": 1, "batch": 8, "epochs": 10,
    "decay_every": 100, "surroundings": 0.0, "worn": 0.0, "softness": 0.3,
}  # fmt: skip
ROWS: dict[str, dict[str, Any]] = {
    "max margin": {"nce": 0.0, "distill": 0.0, "ranking": 1.0},
    "NCE": {"distill": 0.0},
    "Distill": {"nce": 0.0},
    "NCE + Distill": {},
}


def make(folder: Path, **more: Any) -> tuple[Dataset, Store]:
    """Planted things, and a detector that knows each of them by name."""
    dataset, store = planted.make(folder / "plain", **more)
    with Writer(folder / "store", replace(store.fingerprint, labels=planted.THINGS)) as writer:
        for id in store.ids:
            regions = store[id]
            things = regions.feats[..., : len(planted.THINGS)]
            labels = torch.where(things.amax(-1) > 1, things.argmax(-1), -1)
            scores = torch.where(labels >= 0, 0.9, 0.0)
            writer.add(id, replace(regions, labels=labels[..., None], scores=scores[..., None]))
    return dataset, Store.open(folder / "store")


@pytest.fixture(scope="module", params=list(ROWS))
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two_branch")
    dataset, store = make(folder, images=100)
    recipe = TwoBranch.of(**SMALL | ROWS[request.param])
    train(recipe, dataset.split("train"), dataset.split("val"), store, folder / "run")
    return folder / "run"


def test_every_row_of_the_table_finds_planted_things_in_new_images(run: Path, tmp_path: Path) -> None:
    """By chance, one in five."""
    dataset, store = make(tmp_path, images=30, seed=1)
    found = [query for some in queries(load_grounder(run), dataset, store) for query in some]
    assert len(found) == 60
    assert localise(found).recall[:, 0].mean() > 0.8


def test_a_grounder_is_a_guide_that_looks_at_the_thing(run: Path, tmp_path: Path) -> None:
    dataset, store = make(tmp_path, images=30, seed=2)
    model = load_model(run)
    batch = next(iter(Loader(dataset, store, model.vocab, batch_size=30, length=16, captions_per_image=1)(0)))
    seen = model.parts.matcher.attention(batch).argmax(-1)
    places = {e.id: [int(p.boxes[0][0]) // 10 for p in e.gold] for e in dataset}
    hits = [seen[i, [1, 4]].tolist() == places[id] for i, id in enumerate(batch.ids)]
    assert sum(hits) > 18


def test_a_reward_model_prefers_what_is_there(run: Path, tmp_path: Path) -> None:
    dataset, store = make(tmp_path, images=12, seed=3)
    model = load_model(run)
    words = torch.tensor([model.vocab.encode(e.captions[0].tokens) + [2] for e in dataset])
    regions = store.batch([e.id for e in dataset])
    pairs = model.parts.matcher.pairs(regions, words)
    own = pairs.diagonal()
    assert (own > pairs.mean(0)).float().mean() > 0.8
    torch.testing.assert_close(model.parts.matcher.rate(regions, words, torch.arange(12)), own)


def test_evidence_is_fitted_and_measured_on_different_images(run: Path, tmp_path: Path) -> None:
    dataset, store = make(tmp_path, images=60, seed=4)
    found = calibrate(load_grounder(run), dataset, store)
    assert found.fitted_on > 0 and found.tested_on > 0
    assert found.accuracy > 0.8
    assert found.ece < 0.3  # few phrases: the noise of a bin of ten


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> tuple[TrainingContext, Loader]:
    dataset, store = make(tmp_path_factory.mktemp("given"))
    examples = dataset.split("train")
    vocab = Vocabulary.of((c for e in examples for c in e.captions), 1)
    loader = Loader(examples, store, vocab, batch_size=8, length=16, regions=5)
    return TrainingContext(examples, vocab, store.layout, store.fingerprint, groundable_words(examples)), loader


def test_lambda_climbs_a_staircase(context: tuple[TrainingContext, Loader]) -> None:
    """(6): λ = min(⌊step / a⌋, b) with a = 3, b = 2; four steps make an epoch of 32 images."""
    about, loader = context
    recipe = TwoBranch.of(**SMALL | {"batch": 8}, stairs=3, distill=2.0)
    parts = recipe.parts(about.vocab, about.layout, about.classes).eval()
    batch, losses = next(iter(loader(0))), recipe.stages(about)[0].losses
    with torch.no_grad():
        terms = [float(losses(parts, batch, Clock(step // 4, step % 4))["distill"]) for step in range(12)]
    once = terms[3]
    assert once > 0
    assert terms == pytest.approx([0, 0, 0, *[once] * 3, *[2 * once] * 6])


def test_only_terms_with_a_weight_are_computed(context: tuple[TrainingContext, Loader]) -> None:
    about, loader = context
    batch = next(iter(loader(0)))
    names = []
    for fields in ROWS.values():
        recipe = TwoBranch.of(**SMALL | fields)
        parts = recipe.parts(about.vocab, about.layout, about.classes)
        names.append(set(recipe.stages(about)[0].losses(parts, batch, Clock(0, 0))))
    assert names == [{"ranking"}, {"nce"}, {"distill"}, {"nce", "distill"}]


def test_distillation_without_a_detector_is_refused_with_the_cure(context: tuple[TrainingContext, Loader]) -> None:
    about = replace(context[0], fingerprint=replace(context[0].fingerprint, labels=()))
    with pytest.raises(GroundlingError, match="--distill 0"):
        TwoBranch().stages(about)


@pytest.mark.parametrize(
    "fields", [{"nce": 0.0, "distill": 0.0}, {"vectors": "glove.txt"}, {"vector_size": 50}, {"dropout": 1.5}]
)
def test_knobs_that_make_no_sense_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(GroundlingError):
        TwoBranch.of(**fields)


def test_word_vectors_are_in_the_model_and_their_file_is_not_needed_again(
    tmp_path: Path, context: tuple[TrainingContext, Loader]
) -> None:
    file, about = tmp_path / "vectors.txt", context[0]
    file.write_text("dog 1 2\ncat 2 1\nnear 0 0\n")
    recipe = TwoBranch.of(**SMALL, vectors=str(file), vector_size=2)
    parts = recipe.parts(about.vocab, about.layout, about.classes)
    assert parts.matcher.vectors[about.vocab.encode(["dog"])[0]].abs().sum() > 0
    save(tmp_path, Model(recipe, parts, about.vocab, about.fingerprint, about.layout, about.classes))
    file.unlink()
    assert load_model(tmp_path).parts.matcher.vectors.equal(parts.matcher.vectors)
    with pytest.raises(DataError, match="vectors.txt: cannot read"):
        recipe.parts(about.vocab, about.layout, about.classes)


# ---------------------------------------------------------------- pseudo labels


def labelled() -> Regions:
    """The whole image, a person, the upper part of the person, another person; in an image of 100 by 100."""
    boxes = torch.tensor([[0.0, 0, 100, 100], [10, 0, 50, 100], [12, 10, 48, 65], [60, 0, 90, 100]])
    labels, scores = torch.tensor([[-1], [0], [-1], [0]]), torch.tensor([[0.0], [0.9], [0.0], [0.8]])
    return Regions.of(torch.zeros(4, 2), boxes, (100, 100), labels=labels, scores=scores)


WORDS = ("man", "men", "crowd", "shirt", "field", "street", "red", "one", "kayakers", "drivers", "with", "board")
LABELS = PseudoLabels.of(WORDS, ("person", "dog"))


def best(word: str, group: bool = False) -> list[float]:
    label = LABELS.class_of[[WORDS.index(word)]]
    found = LABELS.evidence(labelled(), torch.tensor([0]), label, torch.tensor([group]), 1.0, 1.0)
    return [round(x, 3) for x in found[0].tolist()]


def test_classes_of_words() -> None:
    assert LABELS.class_of[:3].tolist() == [0, 0, 0]
    assert LABELS.class_of[WORDS.index("field")] == SURROUNDINGS
    assert LABELS.class_of[WORDS.index("street")] == BELOW
    assert [LABELS.class_of[WORDS.index(word)] for word in ("one", "kayakers", "drivers")] == [0, 0, 0]
    assert LABELS.class_of[WORDS.index("red")] == PseudoLabels.of(["clothing"], ("person",)).class_of[0] != -1
    assert LABELS.class_of[WORDS.index("with")] == -1
    assert LABELS.class_of[WORDS.index("board")] == -1  # no gathering, though WordNet thinks of a committee first
    assert LABELS.groups.tolist() == [word == "crowd" for word in WORDS]


def test_a_man_is_where_the_detector_sees_a_person() -> None:
    assert best("man") == [0, 0.9, 0, 0.8]


def test_a_crowd_is_where_all_persons_are() -> None:
    """The box around both is 80 by 100: 0.8 of the image, half and 3/8 of which are the persons'; times 0.9."""
    assert best("crowd", group=True) == pytest.approx([0.72, 0.45, 36 * 55 / 8000 * 0.9, 30 / 80 * 0.9], abs=1e-3)


def test_a_shirt_is_on_the_upper_part_of_a_person() -> None:
    assert max(range(4), key=best("shirt").__getitem__) == 2
    assert best("shirt")[2] == pytest.approx(0.9, abs=0.01)  # the part of the first person, exactly


def test_a_football_is_a_ball() -> None:
    assert PseudoLabels.of(["football", "basketballs"], ("person", "sports ball")).class_of.tolist() == [1, 1]


def test_a_street_is_below() -> None:
    """58 of 100 rows are: 0.58 of the image; of the first person 40 by 58, the union being 74.8; and so on."""
    assert best("street") == [0.58, round(2320 / 7480 * 0.1, 3), round(828 / 6952, 3), round(1740 / 7060 * 0.2, 3)]


def test_a_field_is_large_and_no_thing() -> None:
    assert best("field") == [1, round(0.4 * 0.1, 3), round(0.36 * 0.55, 3), round(0.3 * 0.2, 3)]


def test_without_persons_nothing_is_worn() -> None:
    other = PseudoLabels.of(WORDS, ("dog",))
    label = other.class_of[[WORDS.index("shirt")]]
    found = other.evidence(labelled(), torch.tensor([0]), label, torch.tensor([False]), 1.0, 1.0)
    assert not found.any()


def test_the_recipe_is_listed() -> None:
    assert recipe_class("two_branch") is TwoBranch


def test_a_model_without_phrases_is_no_grounder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no model"):
        load_grounder(tmp_path)
    assert PhraseGrounder.__doc__
