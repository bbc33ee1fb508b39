"""Checkpoints: one safetensors file, its JSON in the header, replaced in one step or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from groundling.errors import DataError, GroundlingError
from groundling.files import open_regular, saved
from groundling.types import Score

LAST = "last.safetensors"
CHECKSUM = "sha256"  # key in what a file says about its tensors


@dataclass(frozen=True)
class State:
    """Where a run stands: `step` batches of `epoch` of `stage` are done. Everything else follows from it.

    There is no random state: each step seeds the generators from the run's seed and its own number.
    """

    stage: int = 0
    epoch: int = 0
    step: int = 0
    scores: tuple[float, ...] = ()  # the watched score of each finished epoch of this stage
    best: tuple[Score, ...] = ()  # all scores of the weights that were kept
    log: int = 0  # bytes of the log that belong to these weights
    world: int = 1  # number of processes


def packed(tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> bytes:
    """Tensors and what JSON says about them as one safetensors file, whose header holds the checksum of all of it."""
    from safetensors.torch import save

    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    metadata = {**about, CHECKSUM: _checksum(plain, json.dumps(about))}
    content: bytes = save(plain, {"about": json.dumps(metadata)})  # one entry: several have no order that is kept
    return content


def write(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Tensors and what JSON says about them, in one file."""
    content = packed(tensors, about)
    with saved(path) as file:
        file.write(content)


def read(path: Path, sealed: bool = False) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The inverse of `write`; DataError names a file that is not one of ours, or not as it was written.

    `sealed`: it must have a checksum, which models of the first states of this package have not.
    """
    from safetensors import SafetensorError, safe_open

    try:
        open_regular(path).close()
        with safe_open(path, "pt") as file:
            metadata = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        about = dict(json.loads(metadata["about"]))
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise DataError(f"{path} is not a checkpoint of groundling: {type(error).__name__}: {error}") from error
    expected = _checksum(tensors, json.dumps(_without(about)))
    if about.pop(CHECKSUM, "" if sealed else expected) != expected:
        raise DataError(f"{path} is damaged: its checksum does not match. Copy it again, or train it anew (--restart)")
    return tensors, about


def _without(about: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in about.items() if key != CHECKSUM}


def _checksum(tensors: Mapping[str, Tensor], about: str) -> str:
    """SHA-256 of the names, types, shapes and bytes of all tensors and of the JSON."""
    seen = sha256(about.encode())
    for name, value in sorted(tensors.items()):
        seen.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        seen.update(value.reshape(-1).view(torch.uint8).numpy().data if value.numel() else b"")
    return seen.hexdigest()


# ---------------------------------------------------------------- a run's state


def save_run(
    folder: Path,
    state: State,
    settings: Mapping[str, Any],
    parts: nn.Module,
    optimizer: torch.optim.Optimizer | None,
    averages: Mapping[str, Tensor] | None = None,
) -> None:
    """All that a run needs to go on. `settings` are what must be equal then; `averages`: of weights, by their names."""
    tensors = {f"parts.{name}": value for name, value in parts.state_dict().items()}
    tensors |= {f"average.{name}": value for name, value in (averages or {}).items()}
    if optimizer is not None:
        names = _names(parts, optimizer)
        for at, moments in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{key}.{names[at]}": value for key, value in moments.items()}
    write(folder / LAST, tensors, {"state": asdict(state), "settings": dict(settings)})


def load_run(
    folder: Path, settings: Mapping[str, Any], renamed: Callable[[dict[str, Any]], dict[str, Any]] = dict
) -> tuple[State, dict[str, Tensor]]:
    """State and tensors of the run in `folder`, a new run's if there is none; refuses a run with other settings.

    `renamed` gives the settings of a run of an earlier version the names of this one.
    """
    if not (folder / LAST).exists():
        return State(), {}
    tensors, about = read(folder / LAST, sealed=True)
    old, new = renamed(about.get("settings", {})), json.loads(json.dumps(dict(settings)))
    if old != new:
        keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
        changes = "; ".join(f"{key} was {old.get(key, 'not set')}, now {new.get(key, 'not set')}" for key in keys)
        raise GroundlingError(
            f"{folder} holds a run with other settings: {changes}. Choose another --out, or --restart"
        )
    try:
        row = about["state"]
        best = tuple(Score(**score) for score in row.pop("best"))
        return State(**{**row, "scores": tuple(row["scores"]), "best": best}), tensors
    except (KeyError, TypeError) as error:
        raise DataError(f"{folder / LAST} holds no state of a run: {error}; start again with --restart") from error


def restore_parts(parts: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """DataError if these are not the weights of such parts."""
    try:
        parts.load_state_dict({name[6:]: value for name, value in tensors.items() if name.startswith("parts.")})
    except RuntimeError as error:
        first = str(error).splitlines()[1].strip()  # below a heading, one line for each weight
        raise DataError(f"{LAST} holds other weights than this recipe; begin anew with --restart. {first}") from error


def restore_optimizer(optimizer: torch.optim.Optimizer, parts: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Does nothing at the start of a stage, when there is no state yet; DataError if it is that of other weights."""
    at = {name: i for i, name in enumerate(_names(parts, optimizer))}
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        if name.startswith("optimizer."):
            _, key, weight = name.split(".", 2)
            if weight not in at:
                raise DataError(f"{LAST} was training {weight}, this stage does not; begin anew with --restart")
            state.setdefault(at[weight], {})[key] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _names(parts: nn.Module, optimizer: torch.optim.Optimizer) -> list[str]:
    """Names of the optimizer's weights, in its order."""
    name_of = {id(weight): name for name, weight in parts.named_parameters()}
    return [name_of[id(weight)] for group in optimizer.param_groups for weight in group["params"]]
