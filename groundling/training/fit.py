"""The loop, the only one. Devices, resuming, logging and evaluation are its business and nobody else's.

A run that was killed, at whatever moment, and resumed ends with the weights of one that was not: batches and random
numbers are functions of the seed and the position (stage, epoch, step), schedules of the scores; the rest is saved.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, Protocol

import torch
from torch import Tensor, nn

from groundling.errors import GroundlingError
from groundling.files import saving
from groundling.tensors import Batch
from groundling.training import checkpoint, parallel
from groundling.training.average import Average
from groundling.training.checkpoint import State
from groundling.training.determinism import seed_everything, use_deterministic_kernels
from groundling.training.interrupt import Interrupt, Stopped
from groundling.training.log import Log
from groundling.training.schedules import stale
from groundling.training.stages import Clock, Parts, Stage, Step
from groundling.types import Score

logger = logging.getLogger(__name__)

FUSED = ("cpu", "cuda")  # devices that have Adam as one kernel, in every version of torch that we support


class Batches(Protocol):
    """The batches of an epoch, the same whenever asked; `start` leaves out the first ones without making them."""

    def __len__(self) -> int: ...

    def __call__(self, epoch: int, start: int = 0) -> Iterator[Batch]: ...


@dataclass(frozen=True)
class Run:
    """Where and how, as opposed to what."""

    folder: Path
    settings: Mapping[str, Any]  # plain JSON; a run is resumed only with equal ones
    device: torch.device
    seed: int = 0
    save_seconds: float = 300.0  # at most so much work is lost when the machine dies
    renamed: Callable[[dict[str, Any]], dict[str, Any]] = dict  # settings of an earlier version -> those of this one


def fit(
    stages: Sequence[Stage],
    parts: Parts,
    loader: Batches,
    run: Run,
    *,
    evaluate: Callable[[], Sequence[Score]],
    keep: Callable[[Sequence[Score]], None],
    recall: Callable[[], None],
) -> State:
    """Train `parts` through the stages, going on where an earlier call with this folder and settings was stopped.

    After each epoch `evaluate` scores the parts as they are (or, where a stage asks for it, the moving average of their
    weights), and `keep` is called if they do better, in the score that
    the stage watches, than any epoch of the stage before it (always, where it watches none or `evaluate` gives none).
    What is kept at last is the best of the last stage: a stage may trade the score of an earlier one for what it is
    there for. Before each stage but the first, `recall` puts the weights that were kept back into `parts`. Schedule and
    patience know only the scores of their stage. Ctrl-C and SIGTERM save and raise `Stopped`.
    """
    with saving(run.folder):
        run.folder.mkdir(parents=True, exist_ok=True)
    use_deterministic_kernels(run.device)
    parts.to(run.device)
    state, tensors = checkpoint.load_run(run.folder, run.settings, run.renamed)
    if tensors:
        checkpoint.restore_parts(parts, tensors)
    if tensors and state.world != parallel.world():
        logger.warning("resumed with another number of processes: the same batches, but not the same bits")
    epochs = [sum(stage.epochs for stage in stages[:i]) for i in range(len(stages) + 1)]  # before each stage
    done = (epochs[state.stage] + state.epoch) * len(loader) + state.step
    left = epochs[-1] - epochs[state.stage] - state.epoch
    with Interrupt() as interrupt, Log(run.folder, state.log, done, epochs[-1] * len(loader), left) as log:
        loop = _Loop(run, parts, state, log, interrupt)
        for number in range(state.stage, len(stages)):
            stage = stages[number]
            if number > state.stage:
                recall()
                loop.begin(stage, {})
                loop.save()  # before this stage can keep anything, so that what is recalled is never its own
            else:
                loop.begin(stage, tensors)
            while not loop.over(stage):
                loop.epoch(stage, loader, epochs[number])
                loop.score(stage, evaluate, keep)
            loop.state = State(stage=number + 1, best=loop.state.best)
    return loop.state


class _Loop:
    """The run as it stands: what `state` says has been done to `parts`."""

    def __init__(self, run: Run, parts: Parts, state: State, log: Log, interrupt: Interrupt) -> None:
        self.run, self.parts, self.state, self.log, self.interrupt = run, parts, state, log, interrupt
        self.saved = time.monotonic()

    def begin(self, stage: Stage, tensors: Mapping[str, Tensor]) -> None:
        unfreeze(self.parts, stage)
        self.weights = [p for p in self.parts.parameters() if p.requires_grad]
        fused = True if self.run.device.type in FUSED else None  # None: what torch thinks best
        self.optimizer = torch.optim.Adam(self.weights, stage.lr, fused=fused)
        checkpoint.restore_optimizer(self.optimizer, self.parts, tensors)
        self.average = Average(self.parts, stage.average, tensors)
        self.step = parallel.distribute(Step(self.parts, stage.losses))

    def over(self, stage: Stage) -> bool:
        """All epochs are done, or the score has not become better for too long."""
        return self.state.epoch >= stage.epochs or 0 < stage.patience <= stale(self.state.scores)

    def epoch(self, stage: Stage, loader: Batches, before: int) -> None:
        """The steps of one epoch that are still to be done; `before` epochs were in earlier stages."""
        unfreeze(self.parts, stage)  # again: evaluation switched dropout off
        rate = stage.lr * stage.schedule(self.state.epoch, self.state.scores)
        self.optimizer.param_groups[0]["lr"] = rate
        for batch in loader(before + self.state.epoch, self.state.step):
            at = Clock(self.state.epoch, self.state.step)
            seed_everything(self.run.seed, self.state.stage, at.epoch, at.step, parallel.rank())
            with autocast(self.run.device):
                terms = self.step(batch.to(self.run.device), at)  # {"xe": ..., "attention": ...}, already weighted
            values, stop = agree(terms, self.interrupt.signum)
            self.must_be_finite(values, batch)
            self.optimizer.zero_grad(set_to_none=True)
            torch.stack(list(terms.values())).sum().backward()  # type: ignore[no-untyped-call]
            del terms  # and what its backward pass kept, before the next batch
            values["norm"] = clip_gradient(self.weights, stage)
            self.must_be_finite(values, batch)
            self.optimizer.step()
            self.average.step(at.epoch * len(loader) + at.step)
            self.log.step(stage.name, at.epoch, at.step, {"lr": rate, **values})
            self.state = replace(self.state, step=at.step + 1)
            if stop:
                self.stop()
            if time.monotonic() - self.saved > self.run.save_seconds:
                self.save()

    def score(
        self, stage: Stage, evaluate: Callable[[], Sequence[Score]], keep: Callable[[Sequence[Score]], None]
    ) -> None:
        """The end of an epoch: score, keep the best weights, save."""
        scores = self.scores(evaluate)
        contest = bool(scores and stage.watch)
        watched = parallel.from_first(pick(scores, stage.watch) if contest else math.nan)
        state = self.state
        best = not contest or watched > max(state.scores, default=-math.inf)
        if not math.isnan(watched):
            state = replace(state, scores=(*state.scores, watched))
        note = " (best so far)" if best and contest else ""
        self.log.epoch(stage.name, state.epoch, state.step, {score.name: score.value for score in scores}, note)
        if best and parallel.rank() == 0:
            with self.average.in_place():
                keep(scores)
        self.state = replace(state, epoch=state.epoch + 1, step=0, best=scores if best else state.best)
        self.save()
        parallel.wait()  # what the first process kept is on the disk before another recalls it

    def scores(self, evaluate: Callable[[], Sequence[Score]]) -> tuple[Score, ...]:
        """Evaluation, in every process since it may reduce over all of them. A signal, even of just before, ends it.

        It is repeated when the run goes on: all steps of the epoch are done, and saved.
        """
        self.parts.eval()
        try:
            with self.interrupt.at_once():
                if parallel.any_of(self.interrupt.signum != 0, self.run.device):
                    raise KeyboardInterrupt
                with self.average.in_place():
                    return tuple(evaluate())
        except KeyboardInterrupt:
            self.stop()

    def save(self) -> None:
        self.state = replace(self.state, log=self.log.bytes(), world=parallel.world())
        if parallel.rank() == 0:
            checkpoint.save_run(
                self.run.folder, self.state, self.run.settings, self.parts, self.optimizer, self.average.tensors
            )
        self.saved = time.monotonic()

    def stop(self) -> NoReturn:
        self.save()
        raise Stopped(f"stopped; all is saved in {self.run.folder}: the same command goes on", self.interrupt.signum)

    def must_be_finite(self, values: Mapping[str, float], batch: Batch) -> None:
        """Before the weights are touched: a loss or gradient that is no number stops the run, with the images named."""
        if all(math.isfinite(value) for value in values.values()):
            return
        self.save()
        listed = ", ".join(f"{name} {value:g}" for name, value in values.items())
        where = f"epoch {self.state.epoch + 1}, step {self.state.step + 1}"
        raise GroundlingError(
            f"the loss is not finite at {where} ({listed}); the weights from before this step are saved. "
            f"Look at the captions and regions of its images ({', '.join(batch.ids)}), or lower the learning rate"
        )


def unfreeze(parts: Parts, stage: Stage) -> None:
    """Only what the stage trains learns; teachers stay frozen, dropout off."""
    parts.requires_grad_(False).eval()
    for name in stage.trains:
        getattr(parts, name).requires_grad_(True).train()


def clip_gradient(weights: Sequence[nn.Parameter], stage: Stage) -> float:
    """Make the gradient no larger than the stage allows; its norm as it was."""
    norm = float(nn.utils.clip_grad_norm_(weights, math.inf if stage.clip_each else stage.clip))
    if stage.clip_each:
        nn.utils.clip_grad_value_(weights, stage.clip_each)
    return norm


def autocast(device: torch.device) -> torch.autocast:
    """bfloat16 on GPUs that have it; float32 elsewhere.

    Nothing is cached: in older releases of PyTorch a weight that is first used without gradients, as when captions are
    drawn, has none later in the same step either.
    """
    low = device.type == "cuda" and torch.cuda.is_bf16_supported()
    return torch.autocast(device.type, torch.bfloat16, enabled=low, cache_enabled=False)


def agree(terms: Mapping[str, Tensor], signum: int) -> tuple[dict[str, float], bool]:
    """The terms of the global batch, and whether any process was told to stop; the same answer in all of them."""
    own = torch.stack([term.detach().float() for term in terms.values()])
    means = parallel.mean(torch.cat([own, own.new_tensor([float(signum != 0)])])).tolist()
    return dict(zip(terms, means, strict=False)), means[-1] > 0


def pick(scores: Sequence[Score], name: str) -> float:
    for score in scores:
        if score.name == name:
            return score.value
    raise GroundlingError(f"no score {name!r} to watch; evaluation gives {', '.join(s.name for s in scores)}")
