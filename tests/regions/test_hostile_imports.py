"""Features of others that are small on the disk and large in memory, or that lie in other files of this machine."""

from __future__ import annotations

import io
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


def test_many_regions_take_memory_by_their_number_not_by_its_square(tmp_path: Path) -> None:
    """Every region beside every other would be 2 * 10^10 numbers."""
    table(tmp_path / "a.h5", (150_000, 1), compression="gzip")
    with h5py.File(tmp_path / "a.h5", "a") as file:
        del file["boxes"]
        file.create_dataset("boxes", (1, 150_000, 4), "f4", compression="gzip")
        file["frame"] = np.arange(150_000)[None] % 2
        file["image_w"] = file["image_h"] = [9]
    (done,) = copy(entries(tmp_path / "a.h5"), tmp_path / "s", "x")
    assert done.added


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


def test_an_id_of_gvd_is_a_name_and_no_pattern(tmp_path: Path) -> None:
    (tmp_path / "dic_a.json").write_text(json.dumps({"images": [{"id": "**a"}]}))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["dets_labels"], file["nms_num"] = np.full((1, 4, 6), [1, 1, 5, 5, 1, 1]), [4]
    (tmp_path / "features").mkdir()
    np.save(tmp_path / "features" / "**a.npy", np.ones((4, 8), np.float32))
    read(tmp_path)


def test_an_archive_is_unpacked_as_far_as_its_arrays_go(tmp_path: Path) -> None:
    """Behind an array of nothing: a hundred times 10 MB, which take a second to unpack."""
    np.save(nothing := io.BytesIO(), np.zeros(0))
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("0.npy", nothing.getvalue() + bytes(10_000_000))
    reads: list[int] = []
    unpacked = zipfile.ZipExtFile._read1

    def counted(file: zipfile.ZipExtFile, n: int) -> bytes:
        reads.append(len(piece := unpacked(file, n)))  # type: ignore[attr-defined]
        return piece

    with pytest.MonkeyPatch.context() as patch, pytest.raises(DataError, match="needs features"):
        patch.setattr(zipfile.ZipExtFile, "_read1", counted)
        read(tmp_path)
    assert sum(reads) < 100_000


def test_a_flipped_bit_in_an_archive_is_found_by_its_checksum(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.full((2, 8), 7, np.float32), bbox=np.ones((2, 4)), image_w=9, image_h=9)
    data = (tmp_path / "a.npz").read_bytes()
    at = data.index(np.full(8, 7, np.float32).tobytes())
    (tmp_path / "a.npz").write_bytes(data[:at] + b"\x01" + data[at + 1 :])
    with pytest.raises(DataError, match="CRC"):
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
    for name, format in (("a.tsv", "auto"), ("a.h5", "hdf5")):
        os.mkfifo(tmp_path / name)
        with pytest.raises(DataError):
            list(copy(entries(tmp_path / name, format), tmp_path / "s", "x"))
    (tmp_path / "dic_a.json").write_text(json.dumps({"images": [{"id": "1"}]}))
    with pytest.raises(DataError, match="a.h5: not a regular file"):
        read(tmp_path)
