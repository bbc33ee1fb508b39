"""Where paper, released code and ours differ: the defaults are the paper's, and each form can be had."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import planted
import pytest
import torch

import groundling
from groundling.data.loader import Loader
from groundling.errors import GroundlingError
from groundling.evaluation.attention_accuracy import _voted
from groundling.models.grounder import Grounder
from groundling.models.recurrence import Cells
from groundling.models.updown import attention_lstm
from groundling.objectives.distill import soft_labels
from groundling.papers.reproduce import Bench
from groundling.papers.tables import TABLES, table
from groundling.recipes import OLD_FIELDS, RECIPES, _config, recipe_class
from groundling.recipes._model import _described
from groundling.recipes._pseudo_labels import UNUSED, PseudoLabels
from groundling.recipes._registry import renamed
from groundling.recipes._settings import BoxSupervision
from groundling.recipes.matcher_pos_scan import MatcherPosScan
from groundling.recipes.matcher_scan import MatcherScan
from groundling.recipes.multi_branch import MultiBranch
from groundling.recipes.multihead import Multihead
from groundling.recipes.pos_scan import PosScan
from groundling.recipes.supervised import Supervised, supervision
from groundling.recipes.supervised_aware import SupervisedAware
from groundling.recipes.two_branch import TwoBranch
from groundling.regions.records import Layout
from groundling.regions.sources._proposals import class_names
from groundling.tensors import Decoding, Regions
from groundling.text.classes import groundable_words
from groundling.text.vocab import Vocabulary
from groundling.training.run import train
from groundling.training.schedules import StepDecay
from groundling.training.stages import Clock, Parts

TINY: dict[str, Any] = {"hidden": 8, "embed": 4, "attention": 4, "dropout": 0.0}
WEIGHTS = Path(groundling.__file__).parent / "weights" / "everyday"


def world(folder: Path) -> tuple[Vocabulary, Any, Any, Any]:
    """Vocabulary, layout and classes of planted things, and a batch with the truth."""
    dataset, store = planted.make(folder / "store", images=8)
    vocab = Vocabulary.of((caption for e in dataset for caption in e.captions), 1)
    batch = next(iter(Loader(dataset, store, vocab, batch_size=8, length=8, uses_boxes=True)(0)))
    return vocab, store.layout, groundable_words(dataset), batch


def test_lstm_1_of_several_branches_does_not_get_h2_unless_coupled() -> None:
    """Eq. 1 of Chen et al."""
    zero, one = torch.zeros(2, 3), torch.ones(2, 3)
    quiet, loud = Cells(one, one, zero, zero), Cells(one, one, one, zero)
    weight = torch.randn(12, 6)
    uncoupled_h1 = [attention_lstm(cells, lambda x: x @ weight.T, coupled=False).h1 for cells in (quiet, loud)]
    coupled_h1 = [attention_lstm(cells, lambda x: x @ weight.T).h1 for cells in (quiet, loud)]
    assert torch.equal(*uncoupled_h1) and not torch.equal(*coupled_h1)
    torch.testing.assert_close(uncoupled_h1[1], coupled_h1[0])
    assert not MultiBranch().coupled and not recipe_class("multihead")().coupled  # type: ignore[attr-defined]


def test_a_captioner_of_branches_without_coupling_gives_its_own_captions(tmp_path: Path) -> None:
    """The same weights, another LSTM_1: from the second word on the probabilities differ."""
    vocab, layout, classes, batch = world(tmp_path)
    logp = []
    for coupled in (False, True):
        torch.manual_seed(0)
        recipe = MultiBranch.of(**TINY, location=4, branches=2, coupled=coupled)
        parts = recipe.parts(vocab, layout, classes).eval()
        logp.append(recipe.xe(2, parts, batch, Clock(0, 0)))  # type: ignore[arg-type]
        captioner = parts.captioner
        encoded = captioner.encode(batch.regions)[batch.image_of]
        logp[-1] = captioner(encoded, batch.inputs, batch.targets).logp
    torch.testing.assert_close(logp[0][:, 0], logp[1][:, 0])
    assert not torch.allclose(logp[0][:, 1], logp[1][:, 1])


@pytest.mark.parametrize("name", ["captioner", "grounder"])
def test_models_of_before_are_what_they_were(name: str) -> None:
    """The packed models name no `coupled` and no `image_map`; theirs is a coupled LSTM_1."""
    about = json.loads((WEIGHTS / name / "model.json").read_text())
    stored = {OLD_FIELDS.get(about["recipe"], {}).get(field, field): value for field, value in about["fields"].items()}
    recipe: Any = _described(WEIGHTS / name / "model.json").recipe
    for field, value in stored.items():
        assert recipe.settings()[field] == value
    if name == "captioner":
        assert recipe.coupled and recipe.captioning().coupled
    former = {"coupled": True, "image_map": True, "image_vector": True, "word_link": False}
    assert renamed("distributed", {"alone": 3}) == {"warmup_epochs": 3, **former}


def test_given_words_are_scored_by_the_branches_that_would_choose_them() -> None:
    """Branches look at regions 0, 1, 2; the word is 7. Two say 7: regions 0 and 2. Nobody: the mean's, region 1."""
    attn = torch.eye(3)[:, None, None].expand(3, 1, 2, 3)
    branches = tuple(
        Decoding(torch.tensor([[7, 7]]), torch.zeros(1, 2), attn[k], torch.tensor([[7 if k != 1 else 4, 4]]))
        for k in range(3)
    )
    mean = torch.tensor([[[0.3, 0.4, 0.3]]]).expand(1, 2, 3)
    read = replace(branches[0], attn=mean, branches=branches)
    found = _voted(read, torch.zeros(1, 3, dtype=torch.int64))
    assert found[0].tolist() == [[True, False, True], [False, True, False]]


@pytest.mark.parametrize("recipe", [PosScan.of(sampling=0.25), Supervised.of(sampling=0.25)])
def test_scheduled_sampling_is_that_of_the_released_code(recipe: Any, tmp_path: Path) -> None:
    """0.05 more every 5 epochs, up to 0.25."""
    seen: list[float] = []

    class Spy(torch.nn.Module):
        def encode(self, regions: object) -> torch.Tensor:
            return torch.zeros(100)

        def forward(self, encoded: object, inputs: object, targets: object, sampling: float) -> None:
            seen.append(sampling)
            raise StopIteration

    batch = world(tmp_path)[3]
    for epoch in (0, 5, 12, 100):
        with pytest.raises(StopIteration):
            recipe.xe(Parts(captioner=Spy()), batch, Clock(epoch, 0))
    assert seen == [0, 0.05, 0.1, 0.25]


def test_rows_of_pos_scan_learn_as_released() -> None:
    """All sample up to a quarter of the words; boxes teach the one best region, POS-SCAN's nouns alone share."""
    made: dict[str, Any] = {}
    for name in ("pos-scan-table-1", "pos-scan-table-2", "pos-scan-table-3", "pos-scan-table-4"):
        chosen = table(name)
        made |= {job.name: recipe_class(job.recipe).of(**job.config) for job in chosen.order(chosen.rows)}
    first = {name: recipe for name, recipe in made.items() if "sampling" in recipe.settings()}
    assert {"plain", "supervised", "kl-scan", "kl-pos-scan", "kl-pos-scan-0.2", "coco-plain"} <= first.keys()
    assert {recipe.sampling for recipe in first.values()} == {0.25}
    weights = first["supervised"].boxes
    assert (weights.nll, weights.kl, weights.ce, weights.nll_any, weights.kl_any) == (0.1, 0, 0, 0, 0)
    assert weights.merge_boxes
    assert made["pos-scan"].nouns_only and made["coco-pos-scan"].nouns_only
    forms = {job.name: job.config for job in table("pos-scan-matchers").jobs}
    assert forms["pos-scan-printed"] == {"nouns_only": False}


@pytest.mark.parametrize("name", [name for name in TABLES if name.startswith("distributed-")])
def test_right_boxes_parts_and_others_stand_together(name: str) -> None:
    assert {"corr_grd", "part_grd", "other_err"} <= set(table(name).columns.values())


def test_several_heads_read_captions_as_several_branches_do() -> None:
    """20 words, and more of them than those of Zhou et al., CVPR 2020."""
    heads: Any = recipe_class("multihead")()
    assert heads.data == MultiBranch().data and heads.batches == MultiBranch().batches
    assert heads.data.length == 20 and heads.data.min_count < Supervised().data.min_count
    assert heads.training.epochs == MultiBranch().warmup_epochs + MultiBranch().training.epochs


def test_the_supervised_row_of_cyclical_teaches_the_classifiers_too() -> None:
    for name in ("cyclical-table-1", "cyclical-table-2"):
        jobs = {job.name: job for job in table(name).jobs}
        job = jobs[table(name).rows[0].job]
        assert job.recipe == "supervised_aware"
        recipe: Any = recipe_class(job.recipe).of(**job.config)
        assert recipe.classes > 0 and recipe.boxes.merge_boxes


@pytest.mark.parametrize("merge", [True, False])
def test_training_merges_the_boxes_of_a_word_unless_told_otherwise(
    merge: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regions 10 wide, side by side; a word with two boxes, of regions 0 and 4, is around all five: none fits."""
    dataset, store = planted.make(tmp_path / "store", images=10)
    ends = ((0.0, 0.0, 10.0, 10.0), (40.0, 0.0, 50.0, 10.0))
    wide = tuple(replace(e, gold=tuple(replace(p, boxes=ends) for p in e.gold)) for e in dataset)
    dataset, seen = replace(dataset, examples=wide), []
    real = Supervised.xe

    def xe(recipe: Supervised, m: Any, batch: Any, clock: Clock) -> dict[str, torch.Tensor]:
        seen.append(int(batch.gold.sum(-1).max()))
        return real(recipe, m, batch, clock)

    monkeypatch.setattr(Supervised, "xe", xe)
    given = {} if merge else {"merge_boxes": False}
    recipe = Supervised.of(**TINY, **given, epochs=1, min_count=1)
    train(recipe, dataset.split("train"), dataset.split("val"), store, tmp_path / "run")
    assert set(seen) == {0 if merge else 2}


def test_all_methods_of_a_contrastive_table_keep_their_last_weights() -> None:
    """Also those that would keep the best CIDEr-D: one rule for all rows."""
    for name in ("contrastive-table-4", "contrastive-table-5", "contrastive-table-6"):
        jobs = {job.name: job for job in table(name).jobs}
        for job in (jobs[row.job] for row in table(name).rows if jobs[row.job].start):
            assert job.config["keep_last"] is True
    losses: Any = None
    assert recipe_class("contrastive").of(keep_last=True).stage("cl", losses).watch == ""
    assert recipe_class("contrastive")().stage("cl", losses).watch == "cider-d"


def test_the_table_of_coco_has_its_own_sizes_schedules_and_beam() -> None:
    coco = table("pos-scan-table-4")
    assert coco.beam == 3 and table("pos-scan-table-2").beam == 1
    jobs = {job.name: job for job in coco.order(coco.rows)}
    assert jobs and all(name.startswith("coco-") for name in jobs)
    assert jobs["coco-kl-pos-scan"].defaults["hidden"] == 1024
    assert jobs["coco-kl-pos-scan"].defaults["lam1"] == 1 and PosScan().lam1 == 0.1
    assert jobs["coco-kl-pos-scan"].config["guide"] == "@coco-pos-scan"
    assert jobs["coco-kl-pos-scan-reward-scan"].start == "coco-kl-pos-scan"
    assert jobs["coco-scan"].defaults == {"lr": 5e-4, "epochs": 20 * 5, "decay_every": 10 * 5}


def test_sizes_of_the_table_of_coco_may_be_set(tmp_path: Path) -> None:
    """They are the same in all its rows, so that they distinguish none."""
    coco = table("pos-scan-table-4")
    bench = Bench(tmp_path, tmp_path, tmp_path, {"hidden": 64, "epochs": 3})
    found = {job.name: bench.settings(job, 0) for job in coco.order(coco.rows)}
    assert {found[name]["hidden"] for name in ("coco-plain", "coco-kl-pos-scan", "coco-scan")} == {64}
    assert found["coco-scan"]["epochs"] == 3 and found["coco-scan"]["decay_every"] == 50


def test_both_of_the_authors_rows_of_table_3_are_there() -> None:
    """Of the features of GVD the attention follows POS-SCAN with λ1 = 0.2 (section 4, Q5), of the others with 0.1."""
    final = table("pos-scan-table-3")
    jobs = {job.name: job for job in final.jobs}
    weights = [jobs[jobs[row.job].start].config.get("lam1", PosScan.lam1) for row in final.rows]
    assert weights == [0.2, 0.1]
    assert all(row.paper.keys() == final.columns.keys() for row in final.rows)
    assert {jobs[row.job].config["reward_model"] for row in final.rows} == {"@scan"}


def test_matchers_are_as_released() -> None:
    """128 captions in a batch, one of an image; nouns alone share the attention. An epoch shows one caption of five."""
    for made in (MatcherScan(), MatcherPosScan()):
        assert (made.batches.batch, made.batches.captions_per_image) == (128, 1)
        assert (made.training.epochs, made.training.schedule) == (30 * 5, StepDecay(0.1, 15 * 5))
    assert MatcherPosScan().nouns_only


def test_classifiers_of_regions_are_taught_by_boxes(tmp_path: Path) -> None:
    """The gradient of the classification loss reaches W_c; without it the term is not there."""
    vocab, layout, classes, batch = world(tmp_path)
    from groundling.recipes.supervised_aware import class_of_word

    for weight in (0.0, 0.1):
        recipe = SupervisedAware.of(**TINY, location=4, classes=weight, nll=0.0, kl=0.1)
        parts = recipe.parts(vocab, layout, classes)
        terms = recipe.losses(class_of_word(vocab, classes))(parts, batch, Clock(0, 0))
        assert set(terms) == {"xe", "kl", *(["classes"] if weight else [])}
    grad = torch.autograd.grad(terms["classes"], parts.captioner.encoder.classify.weight)[0]  # type: ignore[attr-defined]
    assert grad.abs().sum() > 0


def test_the_image_map_and_the_image_vector_are_used_where_there_is_one_unless_told_otherwise() -> None:
    layout, classes = Layout(6, 0, 5, (4, 7)), groundable_words([])
    vocab = Vocabulary(("<pad>", "<bos>", "<eos>", "<unk>", "dog"))
    for name in ("updown_aware", "cyclical", "multi_branch", "multihead", "groundling", "supervised_aware"):
        for used in (True, False):
            recipe: Any = recipe_class(name).of(**TINY | {"location": 4, "image_map": used})
            captioner = recipe.parts(vocab, layout, classes).captioner
            assert (captioner.attend_grid is not None, captioner.encoder.grid is not None) == (used, used)
            assert captioner.encoder.whole is not None
            recipe = recipe_class(name).of(**TINY | {"location": 4, "image_vector": used})
            assert (recipe.parts(vocab, layout, classes).captioner.encoder.whole is not None) == used
        assert recipe_class(name)().settings().items() >= {"image_map": True, "image_vector": True}.items()


def test_heads_of_any_number_take_over_all_else_of_a_captioner_with_branches() -> None:
    """Of 10 numbers 3 heads have 4 each; the attention to the feature map keeps the size that it has there."""
    layout, classes = Layout(6, 0, 5, (4, 7)), groundable_words([])
    vocab = Vocabulary(("<pad>", "<bos>", "<eos>", "<unk>", "dog"))
    sizes = TINY | {"location": 4, "attention": 10}
    made: list[Any] = [MultiBranch.of(**sizes), Multihead.of(**sizes, heads=3)]
    branches, heads = (recipe.parts(vocab, layout, classes).captioner.state_dict() for recipe in made)
    assert heads["attend.of_query.weight"].shape[0] == 12
    assert any(name.startswith("attend_grid.") for name in heads)
    other = [name for name, x in heads.items() if name not in branches or branches[name].shape != x.shape]
    assert other and all(name.startswith("attend.") for name in other)


def test_the_kl_of_boxes_is_also_for_words_whose_box_no_region_fits_well() -> None:
    """As released. Two regions overlap a box by 0.4 and 0.2: the target is softmax(0.8, 0.4); β is even."""
    beta, shared = torch.full((1, 1, 2), 0.5), torch.tensor([[[0.0, 0.0], [0.4, 0.2]]])
    regions = Regions.of(torch.zeros(2, 3), torch.tensor([[0.0, 0, 1, 1], [0, 0, 1, 1]]), (1, 1))
    gold = torch.zeros(1, 2, 2, dtype=torch.bool)
    batch: Any = SimpleNamespace(gold=gold, gold_iou=shared, regions=regions, image_of=torch.tensor([0]))
    terms = supervision(BoxSupervision(nll=0.1, kl=1.0), batch, beta)
    p = torch.tensor([0.8, 0.4]).softmax(0)
    torch.testing.assert_close(terms["kl"], (p * (2 * p).log()).sum())
    assert terms["nll"] == 0


def test_the_maximum_of_two_branch_grounding_can_be_hard_and_its_labels_as_printed() -> None:
    """max(0.2, 0.6) = 0.6, padding apart; p̂ of 0.1 and 0.3 is 1/4 and 3/4."""
    scores, valid = torch.tensor([[0.2, 0.6, 0.9]]), torch.tensor([[True, True, False]])
    assert Grounder(5, 3, joint=4, embed=2, hidden=2, hard=True).best(scores, valid).tolist() == pytest.approx([0.6])
    found = soft_labels(torch.tensor([[0.1, 0.3, 0.5]]), valid, 0.0)
    torch.testing.assert_close(found, torch.tensor([[0.25, 0.75, 0.0]]))
    with pytest.raises(GroundlingError, match="a word needs numbers: embed above 0, or vectors"):
        TwoBranch.of(embed=0)


def test_a_class_of_the_detector_wins_over_rules_unless_no_caption_has_it() -> None:
    """A helmet is its own class where the detector has it; COCO's hat has a name and no boxes."""
    own = PseudoLabels.of(["helmet", "sweater", "shirt"], ("person", "helmet", "sweater"))
    assert own.class_of[:2].tolist() == [1, 2] and own.class_of[2] < -1
    rules = PseudoLabels.of(["hat"], ("person", *UNUSED))
    assert rules.class_of[0] == PseudoLabels.of(["hat"], ("person",)).class_of[0] < -1
    of_photos = PseudoLabels.of(["hat", "hats", "glasses"], class_names())
    assert of_photos.class_of.tolist() == [rules.class_of[0]] * 3


def test_a_sweater_is_the_clothing_of_a_detector_that_has_such_a_class() -> None:
    """As in the paper, whose detector is of Open Images; one without a class for clothing has a rule for sweaters."""
    names = ("Person", "Clothing", "Helmet", "Hat", "Trousers", "Human face")
    words = ["sweater", "helmet", "cap", "sunhat", "shorts", "face", "spectators", "street"]
    found = PseudoLabels.of(words, names).class_of.tolist()
    classes = ["Clothing", "Helmet", "Clothing", "Hat", "Trousers", "Human face", "Person"]
    assert [names[i] for i in found[:-1]] == classes
    assert found[-1] < -1  # a rule, as the detector has nothing for it
    assert PseudoLabels.of(["sweater", "sunhat"], ("Person", "Hat")).class_of.amax() < -1


@pytest.mark.parametrize("name", RECIPES)
def test_fields_that_are_true_or_false_are_bool_and_0_or_1_are_read(name: str) -> None:
    made: Any = recipe_class(name)
    for field in _config.read(name)[1]:
        if field.type is bool:
            assert field.parse("0") is False and field.parse("yes") is True
            assert made.of(**{field.name: 1}).settings()[field.name] == 1
            with pytest.raises(GroundlingError, match=f"{field.name} must be 0 or 1; got 2"):
                made.of(**{field.name: 2})
