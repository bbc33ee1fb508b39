from __future__ import annotations

import errno
import resource
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from groundling.errors import DataError, GroundlingError
from groundling.files import saved
from groundling.training.checkpoint import LAST, load_run, read, restore_optimizer, restore_parts, write

ABOUT = {"words": ["a", "ß"], "n": 3}


def numbers(size: int) -> dict[str, Tensor]:
    return {"w": torch.arange(float(size)), "n": torch.tensor(3)}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write(tmp_path / "x.safetensors", numbers(5), ABOUT)
    tensors, about = read(tmp_path / "x.safetensors")
    assert about == ABOUT
    assert set(tensors) == {"w", "n"}
    assert torch.equal(tensors["w"], torch.arange(5.0))
    assert [p.name for p in tmp_path.iterdir()] == ["x.safetensors"]


def test_a_full_disk_leaves_the_checkpoint_before_intact(tmp_path: Path) -> None:
    """The kernel stops the file at 10 kB, as a full disk would."""
    path = tmp_path / "x.safetensors"
    write(path, numbers(5), ABOUT)
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(GroundlingError, match="cannot save .*x.safetensors.* the one saved before is intact"):
            write(path, numbers(100_000), ABOUT)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["x.safetensors"]


def test_an_error_when_the_disk_is_told_to_write_counts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.safetensors"
    write(path, numbers(5), ABOUT)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(GroundlingError, match="No space left on device"):
        write(path, numbers(6), ABOUT)
    assert path.read_bytes() == before


def test_a_kill_while_writing_leaves_the_checkpoint_before_intact(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"before")
    with pytest.raises(KeyboardInterrupt), saved(path) as file:
        file.write(b"half of")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"before"


@pytest.mark.parametrize("content", [b"", b"\x80\x05pickle?", b"\xff" * 64, (8).to_bytes(8, "little") + b"{}      "])
def test_a_file_of_another_kind_is_refused_by_name(content: bytes, tmp_path: Path) -> None:
    (tmp_path / LAST).write_bytes(content)
    with pytest.raises(DataError, match=LAST):
        load_run(tmp_path, {})


def test_a_flipped_bit_is_refused_or_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write(path, numbers(50), ABOUT)
    whole, refused = path.read_bytes(), 0
    for at in range(3, 8 * len(whole), 31):
        flipped = bytearray(whole)
        flipped[at // 8] ^= 1 << at % 8
        path.write_bytes(flipped)
        try:
            tensors, about = read(path, sealed=True)
        except DataError:
            refused += 1
        else:
            assert about == ABOUT and torch.equal(tensors["w"], torch.arange(50.0)) and int(tensors["n"]) == 3
    assert refused > 8 * len(whole) // 31 - 5


def test_no_pickle_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pickle

    def refuse(*args: Any) -> None:
        raise AssertionError("a pickle was read")

    write(tmp_path / LAST, numbers(2), {"settings": {}, "state": {"best": [], "scores": []}})
    monkeypatch.setattr(pickle, "load", refuse)
    monkeypatch.setattr(pickle, "Unpickler", refuse)
    state, _ = load_run(tmp_path, {})
    assert state.epoch == 0


def test_weights_of_other_parts_are_refused_with_the_cure() -> None:
    with pytest.raises(DataError, match="last.safetensors .*--restart. size mismatch for weight"):
        restore_parts(torch.nn.Linear(2, 3), {"parts.weight": torch.zeros(3, 4), "parts.bias": torch.zeros(3)})


def test_moments_of_weights_that_are_not_trained_are_refused_with_the_cure() -> None:
    parts = torch.nn.Linear(2, 3)
    with pytest.raises(DataError, match="was training wings, .*--restart"):
        restore_optimizer(torch.optim.Adam(parts.parameters()), parts, {"optimizer.exp_avg.wings": torch.zeros(3)})


def test_a_checkpoint_without_a_run_is_refused(tmp_path: Path) -> None:
    write(tmp_path / LAST, numbers(2), {"settings": {}})
    with pytest.raises(DataError, match="holds no state of a run"):
        load_run(tmp_path, {})
