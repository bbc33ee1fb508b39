"""The combined recipe: a grounder teaches attention and rewards captions."""

from __future__ import annotations

from pathlib import Path

import planted
import pytest
from torch import nn

from groundling.decoding import greedy
from groundling.errors import GroundlingError
from groundling.recipes import TrainingContext, load
from groundling.recipes.groundling import Groundling
from groundling.recipes.two_branch import TwoBranch
from groundling.text.classes import Classes
from groundling.text.vocab import Vocabulary
from groundling.training.checkpoint import read
from groundling.training.run import train

SMALL = Groundling.of(
    hidden=32, embed=16, attention=16, location=8, dropout=0.0, lr=1e-2, decay_every=100, min_count=1, batch=8,
    lam1=1.0, branches=2, warmup_epochs=12, epochs=3, contrast=1, contrast_lr=1e-4, scst_epochs=1, scst_lr=1e-4,
    samples=2,
)  # fmt: skip
GROUNDER = TwoBranch.of(
    distill=0.0, joint=16, embed=16, hidden=16, dropout=0.0, lr=1e-2, epochs=8, batch=16, min_count=1
)


def test_a_captioner_follows_a_grounder_that_saw_no_box_either(tmp_path: Path) -> None:
    """All stages in one run; on new images it says both things (by chance, 1 in 30) and its branches find them."""
    dataset, store = planted.make(tmp_path / "store", images=150)
    ways = dataset.split("train"), dataset.split("val"), store
    train(GROUNDER, *ways, tmp_path / "grounder")
    recipe = SMALL.changed(guide=str(tmp_path / "grounder"))
    train(recipe, *ways, tmp_path / "run")
    weights, _ = read(tmp_path / "run" / "model.safetensors")
    assert {name.partition(".")[0] for name in weights} == {"captioner"}
    model = load(tmp_path / "run")
    new, regions = planted.make(tmp_path / "new", images=30, seed=1)
    decoded = greedy(model.captioner, model.captioner.encode(regions.batch([e.id for e in new])), model.length)
    words = [model.vocab.decode(row) for row in decoded.tokens.tolist()]
    fine = [i for i, example in enumerate(new) if words[i] == list(example.captions[0].tokens)]
    assert len(fine) >= 20
    assert decoded.picks is not None
    places = [[int(phrase.boxes[0][0]) // 10 for phrase in example.gold] for example in new]
    hits = [bool(decoded.picks[i, 1, places[i][0]] and decoded.picks[i, 4, places[i][1]]) for i in fine]
    assert sum(hits) >= 0.6 * len(hits)  # two of five regions for each thing, by chance: 4 in 25


def test_without_a_guide_it_says_how_to_get_one(tmp_path: Path) -> None:
    dataset, store = planted.make(tmp_path / "store", images=10)
    with pytest.raises(GroundlingError, match="--guide RUN.*two_branch"):
        train(SMALL, dataset.split("train"), dataset.split("val"), store, tmp_path / "run")


@pytest.mark.parametrize(
    ("contrast", "scst", "names"),
    [
        (0, 0, ["guide"]),
        (0, 1, ["guide", "reward_model"]),
        (1, 0, ["guide", "earlier"]),
        (2, 1, ["guide", "reward_model", "earlier"]),
    ],
)
def test_teachers_are_there_only_for_the_stages_that_need_them(
    contrast: int, scst: int, names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groundling.recipes.groundling.teacher", lambda folder, context: nn.Identity())
    dataset, store = planted.make(tmp_path / "store", images=5)
    vocab = Vocabulary.of((c for e in dataset for c in e.captions), 1)
    about = TrainingContext(dataset, vocab, store.layout, store.fingerprint, Classes((), {}))
    recipe = SMALL.changed(guide="elsewhere", contrast=contrast, scst_epochs=scst)
    assert list(recipe.teachers(about)) == names
    stages = [stage.name for stage in recipe.stages(about)]
    assert stages == ["warmup", "together"] + ["cl"] * bool(contrast) + ["scst"] * scst
