"""Features of others that are small on the disk and large in memory, or that lie in other files of this machine."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from groundling.errors import DataError
from groundling.regions.importers import copy, entries

h5py = pytest.importorskip("h5py")


def read(path: Path) -> None:
    for entry in entries(path):
        entry.load()


def table(path: Path, shape: tuple[int, ...], dtype: str = "i1", rows: int = 1, **more: object) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("ids", data=np.arange(rows))
        file.create_dataset("boxes", (rows, 4, 4), "f4")
        file.create_dataset("features", (rows, *shape), dtype, **more)


def test_numbers_are_counted_as_they_will_be_not_as_they_are_stored(tmp_path: Path) -> None:
    table(tmp_path / "a.h5", (4, 1 << 28), chunks=(1, 1, 1 << 16))
    assert (tmp_path / "a.h5").stat().st_size < 30_000
    with pytest.raises(DataError, match=r"a.h5, 0: \(4, 268435456\) numbers for one image"):
        read(tmp_path / "a.h5")


def test_one_small_row_of_a_giant_piece_is_refused(tmp_path: Path) -> None:
    table(tmp_path / "a.h5", (4, 8), rows=1 << 23, chunks=(1 << 23, 4, 8), compression="gzip")
    with pytest.raises(DataError, match="packed in pieces"):
        read(tmp_path / "a.h5")


def test_a_table_of_endless_equal_ids_ends_at_the_second(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("ids", (10**12,), "i8", chunks=(1000,))
        file.create_dataset("boxes", (10**12, 1, 4), "f4", chunks=(10, 1, 4))
        file.create_dataset("features", (10**12, 1, 4), "f4", chunks=(10, 1, 4))
    with pytest.raises(DataError, match="row 1 of ids has the id '0', as one before"):
        read(tmp_path / "a.h5")


def test_other_files_of_the_machine_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(64))
    table(tmp_path / "other.h5", (4, 4), "f4")
    for kind in ("external link", "soft link", "virtual", "external storage"):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file.create_dataset("ids", data=[7])
            file.create_dataset("boxes", (1, 4, 4), "f4")
            if kind == "external link":
                file["features"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "/features")
            elif kind == "soft link":
                file["features"] = h5py.SoftLink("/boxes")
            elif kind == "virtual":
                layout = h5py.VirtualLayout((1, 4, 4), "f4")
                layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "features", (1, 4, 4))
                file.create_virtual_dataset("features", layout)
            else:
                file.create_dataset("features", (1, 4, 4), "f4", external=[(str(tmp_path / "secret"), 0, 64)])
        with pytest.raises(DataError, match="features is (a link|kept in other files)"):
            read(tmp_path / "a.h5")


def test_an_id_of_gvd_cannot_leave_its_folder(tmp_path: Path) -> None:
    (tmp_path / "dic_a.json").write_text(json.dumps({"images": [{"id": "../../secret"}]}))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("dets_labels", (1, 4, 6), "f4")
    with pytest.raises(DataError, match="'../../secret' is not the name of a file"):
        read(tmp_path)


def test_an_array_whose_header_says_more_than_the_file_holds_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((2, 8), np.float32), bbox=np.zeros((2, 4)))
    data = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "a.npz").write_bytes(data.replace(b"(2, 8)", b"(9, 9)"))
    with pytest.raises(DataError, match="a.npz"):
        read(tmp_path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_archive_packed_by_other_methods_is_refused(method: int, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w", method) as archive:
        archive.writestr("x.npy", bytes(1 << 20))
    with pytest.raises(DataError, match="compressed in another way"):
        read(tmp_path)


def test_a_pipe_among_arrays_is_left_and_one_named_as_a_table_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.tsv")
    with pytest.raises(DataError):
        list(copy(entries(tmp_path / "a.tsv"), tmp_path / "s", "x"))
