"""Matchers: trained on planted things they find them; many processes are one."""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import planted
import pytest
import torch
from PIL import Image
from torch import Tensor

from groundling.cli import main
from groundling.data.dataset import Dataset
from groundling.data.loader import Loader
from groundling.errors import GroundlingError
from groundling.metrics.retrieval import score_retrieval
from groundling.models.scan import Scan
from groundling.recipes import TrainingContext, load
from groundling.recipes._matching import hardest_triplet, retrieve
from groundling.recipes.matcher_pos_scan import MatcherPosScan
from groundling.recipes.matcher_scan import MatcherScan
from groundling.regions.store import Store
from groundling.tensors import Batch, Regions
from groundling.text.classes import groundable_words
from groundling.text.vocab import Vocabulary
from groundling.training.checkpoint import read, write
from groundling.training.parallel import distribute, processes
from groundling.training.run import train
from groundling.training.stages import Clock, Parts, Step

SMALL: dict[str, Any] = {"hidden": 64, "embed": 16, "lr": 1e-2, "min_count": 1, "batch": 4, "epochs": 20}
SMALL |= {"captions_per_image": 5}
RECIPES: dict[str, type[MatcherScan] | type[MatcherPosScan]] = {"scan": MatcherScan, "pos": MatcherPosScan}


def batches(dataset: Dataset, store: Store, vocab: Vocabulary, size: int = 30, seed: int = 0) -> list[Batch]:
    return list(Loader(dataset, store, vocab, batch_size=size, length=9, uses_boxes=True, seed=seed)(0))


@pytest.fixture(scope="module", params=RECIPES)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    dataset, store = planted.make(folder / "store", images=80)
    made = RECIPES[request.param].of(**SMALL, **({"nouns_only": False} if request.param == "pos" else {}))
    train(made, dataset.split("train"), dataset.split("val"), store, folder / "run")
    return folder / "run"


def test_a_matcher_finds_planted_things_it_has_not_seen(run: Path, tmp_path: Path) -> None:
    """The region of each thing (by chance, 1 in 5), and the image of each caption (by chance, 1 in 30)."""
    model = load(run)
    dataset, store = planted.make(tmp_path / "new", images=30, seed=1)
    [batch] = batches(dataset, store, model.vocab)
    assert batch.gold is not None
    look, nouns = model.parts.matcher.attention(batch), batch.nouns[:, 1:]
    right = batch.gold[:, 1:].gather(2, look.argmax(-1, keepdim=True)).squeeze(2)[nouns]
    assert float(right.float().mean()) > 0.8
    scores = {one.name: one.score().value for one in retrieve(model.parts.matcher, [batch], torch.device("cpu"))}
    assert scores["t2i R@5"] > 0.8 and scores["i2t R@5"] > 0.8
    assert model.scores[-1].name == "rsum" and model.scores[-1].n == 16 and model.scores[-1].value > 300


def test_a_caption_fits_its_image_better_than_that_with_another_thing(run: Path, tmp_path: Path) -> None:
    model = load(run)
    dataset, store = planted.make(tmp_path / "new", images=20, seed=2)
    [batch] = batches(dataset, store, model.vocab)
    matcher = model.parts.matcher
    own = matcher.rate(batch.regions, batch.targets, batch.image_of)
    things = torch.tensor(model.vocab.encode(planted.THINGS))
    first = batch.targets[:, 1]
    absent = torch.stack([things[~torch.isin(things, row)][0] for row in batch.targets])
    wrong = batch.targets.clone()
    wrong[:, 1] = absent
    assert (first != absent).all()
    assert float((own > matcher.rate(batch.regions, wrong, batch.image_of)).float().mean()) > 0.9


def test_retrieval_in_several_batches_is_that_of_all_pairs(run: Path, tmp_path: Path) -> None:
    model, cpu = load(run), torch.device("cpu")
    dataset, store = planted.make(tmp_path / "new", images=20, seed=3)
    several = batches(dataset, store, model.vocab, size=7)
    regions = Regions.stack([batch.regions for batch in several])
    words, nouns = (torch.cat([getattr(batch, name)[:, 1:] for batch in several]) for name in ("tokens", "nouns"))
    whole = model.parts.matcher.pairs(regions, words, nouns).numpy()
    expected = score_retrieval(whole, torch.arange(20).numpy(), [name for batch in several for name in batch.ids])
    found = retrieve(model.parts.matcher, several, cpu)
    assert [one.score() for one in found] == [one.score() for one in expected]


# ---------------------------------------------------------------- the loss


@pytest.fixture
def given_batch(tmp_path: Path) -> tuple[Batch, TrainingContext]:
    dataset, store = planted.make(tmp_path / "store", images=12)
    vocab = Vocabulary.of((caption for e in dataset for caption in e.captions), 1)
    [batch] = batches(dataset, store, vocab)
    return batch, TrainingContext(dataset, vocab, store.layout, store.fingerprint, groundable_words(dataset))


def test_the_loss_is_that_of_the_whole_matrix(given_batch: tuple[Batch, TrainingContext]) -> None:
    batch, context = given_batch
    torch.manual_seed(0)
    matcher = MatcherScan.of(hidden=8, embed=8).parts(context.vocab, context.layout, context.classes).matcher
    s = matcher.pairs(batch.regions, batch.targets)
    own = s.diagonal()
    rivals = s.masked_fill(torch.eye(len(s), dtype=torch.bool), -1)
    by_hand = (0.2 - own + rivals.amax(1)).relu() + (0.2 - own + rivals.amax(0)).relu()
    torch.testing.assert_close(hardest_triplet(matcher, batch, 0.2), by_hand.mean())


def test_captions_without_a_noun_and_a_batch_of_one_image_have_no_loss(
    given_batch: tuple[Batch, TrainingContext],
) -> None:
    batch, context = given_batch
    torch.manual_seed(0)
    matcher = MatcherPosScan.of(hidden=8, embed=8).parts(context.vocab, context.layout, context.classes).matcher
    assert hardest_triplet(matcher, batch, 0.2) > 0
    assert hardest_triplet(matcher, replace(batch, nouns=torch.zeros_like(batch.nouns)), 0.2) == 0
    alone = replace(
        batch, regions=batch.regions[:1], image_of=batch.image_of[:1], tokens=batch.tokens[:1], nouns=batch.nouns[:1]
    )
    assert hardest_triplet(matcher, alone, 0.2) == 0


def test_captions_without_a_noun_are_nobodys_rivals(given_batch: tuple[Batch, TrainingContext]) -> None:
    """The loss is that of the batch without them, though a score of 0 would beat those of true rivals, all negative."""
    batch, context = given_batch
    torch.manual_seed(0)
    matcher = MatcherPosScan.of(hidden=8, embed=8).parts(context.vocab, context.layout, context.classes).matcher
    with torch.no_grad():
        matcher.of_regions.weight.zero_()
        matcher.of_regions.bias.copy_(-matcher.encode_words(batch.targets, matcher.counted(batch.targets)).sum((0, 1)))
    assert matcher.pairs(batch.regions, batch.targets, batch.nouns[:, 1:]).max() < 0
    silent = batch.nouns.clone()
    silent[:4] = False
    rest = replace(
        batch,
        ids=batch.ids[4:],
        regions=batch.regions[4:],
        image_of=batch.image_of[4:] - 4,
        tokens=batch.tokens[4:],
        nouns=batch.nouns[4:],
    )
    found, expected = hardest_triplet(matcher, replace(batch, nouns=silent), 0.2), hardest_triplet(matcher, rest, 0.2)
    torch.testing.assert_close(found, expected)
    silent[:11] = False  # one caption has nouns, and no rival
    assert hardest_triplet(matcher, replace(batch, nouns=silent), 0.2) == 0


def test_pos_scan_refuses_words_of_which_none_is_a_noun(given_batch: tuple[Batch, TrainingContext]) -> None:
    _, context = given_batch
    with pytest.raises(GroundlingError, match="needs nouns"):
        MatcherPosScan().stages(replace(context, vocab=Vocabulary(context.vocab.words)))


# ---------------------------------------------------------------- several processes


def gradients(folder: Path, number: int | None = None) -> dict[str, Tensor]:
    """Of a matcher whose batch is given whole, or one of two uneven parts: 5 images and 9 captions, or 7 and 13."""
    store = Store.open(folder / "store")
    tokens = torch.randint(4, 20, (22, 8), generator=torch.Generator().manual_seed(3))
    lengths = 2 + torch.arange(22) % 5
    tokens[torch.arange(8) == lengths[:, None]] = 2
    tokens[torch.arange(8) > lengths[:, None]] = 0
    tokens[:, 0] = 1
    image_of = torch.sort(torch.arange(22) % 12).values
    if number is None:
        images, rows = slice(0, 12), slice(0, 22)
    else:
        images, rows = ((slice(0, 5), image_of < 5), (slice(5, 12), image_of >= 5))[number]
    regions = store.batch([str(i) for i in range(12)][images])
    blank = Regions.of(torch.zeros(7, planted.DIM), torch.zeros(7, 4), (1, 1))
    none = torch.zeros(0, dtype=torch.int64)
    tokens = tokens[rows] if number is None else tokens[rows][:, : int(lengths[rows].max()) + 1]
    batch = Batch(
        ids=tuple(map(str, range(12)))[images],
        regions=regions if number else Regions.stack([regions, blank])[: len(regions)],  # padded differently
        image_of=image_of[rows] - image_of[rows][0],
        tokens=tokens,
        nouns=tokens % 3 == 0,
        visual=tokens > 99,
        chunk_of=none,
        chunks=none.view(0, 2),
        refs=(),
        vocab=Vocabulary(("<pad>", "<bos>", "<eos>", "<unk>")),
    )
    torch.manual_seed(0)
    parts = Parts(matcher=Scan(20, planted.DIM, 8, 6, nouns=[False] * 20)).eval()  # each has statistics of its own
    step = distribute(Step(parts, lambda m, batch, clock: {"triplet": hardest_triplet(m.matcher, batch, 0.2)}))
    loss = step(batch, Clock(0, 0))["triplet"]
    loss.backward()
    return {"loss": loss.detach()} | {k: p.grad for k, p in parts.named_parameters() if p.grad is not None}


def work(number: int, folder: Path) -> None:
    torch.set_num_threads(1)
    os.environ |= {"WORLD_SIZE": "2", "RANK": str(number), "LOCAL_RANK": str(number)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": (folder / "port").read_text()}
    with processes(torch.device("cpu")):
        write(folder / f"gradients-{number}", gradients(folder, number), {})


def test_two_processes_with_the_same_statistics_find_the_rivals_and_the_gradient_of_one(tmp_path: Path) -> None:
    planted.make(tmp_path / "store", images=12)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        (tmp_path / "port").write_text(str(free.getsockname()[1]))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["planted"])
    both = [context.Process(target=work, args=(number, tmp_path)) for number in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
        assert process.exitcode == 0
    whole = gradients(tmp_path)
    parts = [read(tmp_path / f"gradients-{number}")[0] for number in range(2)]
    assert whole.keys() == parts[0].keys() and len(whole) > 5
    torch.testing.assert_close((parts[0].pop("loss") + parts[1].pop("loss")) / 2, whole.pop("loss"))
    for name, expected in whole.items():
        torch.testing.assert_close(parts[0][name], expected, atol=1e-6, rtol=1e-4)
        torch.testing.assert_close(parts[1][name], parts[0][name])


# ---------------------------------------------------------------- the command


def test_the_command_tells_both_ways(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    data.mkdir()
    dataset, _ = planted.make(tmp_path / "new", images=12, seed=4)
    rows = [{"image": f"{e.id}.png", "captions": [e.captions[0].text] * 2, "split": "test"} for e in dataset]
    for example in dataset:
        Image.new("RGB", example.size).save(data / f"{example.id}.png")
    (data / "captions.jsonl").write_text("\n".join(map(json.dumps, rows)))
    words = ["retrieve", str(run), "--data", str(data), "--regions", str(tmp_path / "new"), "--split", "test"]
    assert main([*words, "--json"]) == 0
    scores = {row["name"]: row for row in json.loads(capsys.readouterr().out)["scores"]}
    assert scores["i2t R@5"]["n"] == 12 and scores["t2i R@5"]["n"] == 24
    assert scores["t2i R@5"]["value"] > 0.8
    assert "|images:12|captions:24|split:test|" in scores["rsum"]["signature"]
    assert main([*words, "--limit", "6"]) == 0
    assert "images:6|captions:12" in capsys.readouterr().out
    assert main([*words, "--shortlist", "5"]) == 2
    assert "this model is a matcher" in capsys.readouterr().err
