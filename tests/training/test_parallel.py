"""Two processes are one, with a batch in two parts."""

from __future__ import annotations

import multiprocessing
import os
import socket
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from toy import losses, make_batch, new_parts, train

from groundling.objectives.mean import mean_over
from groundling.tensors import Batch
from groundling.training.checkpoint import read, write
from groundling.training.fit import agree
from groundling.training.parallel import distribute, gather, processes, rank, world
from groundling.training.stages import Clock, Parts, Step


def contrast(m: Parts, batch: Batch, clock: Clock) -> dict[str, Tensor]:
    """Each caption should fit its image better than those of all processes: needs `gather` and `mean_over`."""
    images = m.captioner.see(batch.regions.feats.mean(1))  # (B, 8)
    captions = m.captioner.embed(batch.tokens).mean(1)  # (N, 8)
    everyone = gather(images)
    first = 2 * rank() if world() > 1 else 0  # image of row 0 among all; both processes have two
    nll = F.cross_entropy(captions @ everyone.T, batch.image_of + first, reduction="none")
    return {"nce": mean_over(nll, torch.ones_like(nll, dtype=torch.bool))}


def gradients(parts: Parts, batch: Batch) -> dict[str, Tensor]:
    """Of both losses, and their values, for this process's part of the batch."""
    parts.guide.requires_grad_(False)
    found: dict[str, Tensor] = {}
    for name, objective in {"toy": losses, "contrast": contrast}.items():
        torch.manual_seed(0)
        parts.zero_grad()
        step = distribute(Step(parts.eval(), objective))
        terms = step(batch, Clock(0, 0))
        values, _ = agree(terms, 0)
        sum(terms.values()).backward()  # type: ignore[union-attr]
        found |= {f"{name}.{key}": torch.tensor(value) for key, value in values.items()}
        found |= {f"{name}.{key}": p.grad for key, p in parts.named_parameters() if p.grad is not None}
    return found


def work(number: int, folder: Path) -> None:
    """What each of the two processes does, as `torchrun` would start them."""
    torch.set_num_threads(1)
    os.environ |= {"WORLD_SIZE": "2", "RANK": str(number), "LOCAL_RANK": str(number)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": (folder / "port").read_text()}
    with processes(torch.device("cpu")):
        halves = slice(0, 2) if number == 0 else slice(2, 4)
        write(folder / f"gradients-{number}", gradients(new_parts(), make_batch(5, part=halves)), {})
        rows = torch.arange(float(3 + number)).requires_grad_()  # three in one process, four in the other
        everyone = gather(rows)
        (everyone * everyone).sum().backward()
        write(folder / f"rows-{number}", {"everyone": everyone, "grad": rows.grad}, {})  # type: ignore[dict-item]
        write(folder / f"weights-{number}", train(folder / "run").state_dict(), {})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("two")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        (path / "port").write_text(str(free.getsockname()[1]))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["toy"])
    both = [context.Process(target=work, args=(number, path)) for number in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
        assert process.exitcode == 0
    return path


@pytest.mark.parametrize("number", [0, 1])
def test_loss_and_gradient_of_two_parts_are_those_of_the_whole_batch(number: int, folder: Path) -> None:
    """The parts have different numbers of captions and words, so a mean of means would differ."""
    whole = gradients(new_parts(), make_batch(5))
    parts, _ = read(folder / f"gradients-{number}")
    assert whole.keys() == parts.keys()
    for name in whole:
        torch.testing.assert_close(parts[name], whole[name], rtol=1e-5, atol=1e-7, msg=name)


def test_the_parts_of_that_batch_do_have_different_numbers_of_words() -> None:
    first, second = (int((make_batch(5, part=half).targets != 0).sum()) for half in (slice(0, 2), slice(2, 4)))
    assert first != second


def test_gather_joins_ragged_rows_and_sums_what_all_ask_of_them(folder: Path) -> None:
    """Each process computes Σ x² of all rows, so each row gets 2x twice."""
    for number in range(2):
        tensors, _ = read(folder / f"rows-{number}")
        assert tensors["everyone"].tolist() == [0, 1, 2, 0, 1, 2, 3]
        assert tensors["grad"].tolist() == [4.0 * x for x in range(3 + number)]


def test_both_end_with_the_same_weights_and_one_of_them_writes(folder: Path) -> None:
    first, second = (read(folder / f"weights-{number}")[0] for number in range(2))
    start = new_parts().state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["captioner.see.weight"], start["captioner.see.weight"])
    rows = (folder / "run/log.csv").read_text().splitlines()
    assert len(rows) == len(set(rows)) == 1 + 4 * (10 * 4 + 1)


def test_alone_gather_and_rank_do_nothing() -> None:
    rows = torch.ones(2)
    assert gather(rows) is rows
    assert (rank(), world()) == (0, 1)
