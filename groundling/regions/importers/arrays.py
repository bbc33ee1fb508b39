"""Folders of NumPy files, one or two per image.

- `ID.npz` with features and boxes inside, under any of the names in `raw.NAMES` (x, bbox, num_bbox, image_w, ...);
- `NAME_att/ID.npz` (or .npy) beside `NAME_box/ID.npy`, as self-critical.pytorch has them, and perhaps beside
  `NAME_fc/ID.npy`, vectors of images, and `NAME_conv/ID.npy`, feature maps;
- `features/ID.npy` beside `boxes/ID.npy`, and perhaps beside `fc/ID.npy` and `conv/ID.npy`.
The id is the path of the file below its folder, without the ending. Pickled arrays are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from groundling.errors import DataError
from groundling.regions.importers.npy import read_npy, read_npz
from groundling.regions.importers.raw import NAMES, Entry, Raw, named

FORMAT = "arrays"
LOOKS_FOR = "a folder of ID.npz, or NAME_att beside NAME_box, or features beside boxes"


def claims(path: Path) -> bool:
    return path.is_dir() and (_pair(path) is not None or _any(path, ".npz"))


def entries(path: Path) -> Iterator[Entry]:
    pair = _pair(path)
    folder, boxes = pair or (path, None)
    files = sorted(file for file in folder.rglob("*") if file.suffix in (".npz", ".npy") and file.is_file())
    for number, file in enumerate(files, 1):
        id = file.relative_to(folder).with_suffix("").as_posix()
        load = partial(_one, file) if boxes is None else partial(_two, file, boxes / f"{id}.npy", _of_image(folder, id))
        yield Entry(id, str(file), number / len(files), load)


def _any(folder: Path, *suffixes: str) -> bool:
    return any(file.suffix in suffixes for file in folder.rglob("*"))


def _pair(path: Path) -> tuple[Path, Path] | None:
    """The folder of features and the folder of boxes, when there are two."""
    if path.name.endswith("_att"):
        box = path.with_name(path.name.removesuffix("_att") + "_box")
        return (path, box) if box.is_dir() else None
    pairs = [pair for folder in path.glob("*_att") if (pair := _pair(folder))]
    pairs += [
        (path / feats, path / boxes)
        for feats in NAMES["feats"]
        for boxes in NAMES["boxes"]
        if (path / feats).is_dir() and (path / boxes).is_dir()
    ]
    if len(pairs) > 1:
        raise DataError(
            f"{path} holds several sets of regions ({', '.join(str(p[0]) for p in pairs)}); give one of them"
        )
    return pairs[0] if pairs else None


def _of_image(folder: Path, id: str) -> dict[str, Path]:
    """Files with the vector and the feature map of the image, by one of their names in `NAMES`, where there are any."""
    prefix = folder.name.removesuffix("att") if folder.name.endswith("_att") else ""
    names = [name for kind in ("whole", "grid") for name in NAMES[kind]]
    files = {name: folder.with_name(prefix + name) / f"{id}.npy" for name in names}
    return {name: file for name, file in files.items() if file.exists()}


def _one(file: Path) -> Raw:
    if file.suffix == ".npy":
        raise DataError(f"{file}: features without boxes; expected {LOOKS_FOR}")
    return named(read_npz(file), str(file))


def _two(file: Path, boxes: Path, of_image: dict[str, Path]) -> Raw:
    if not boxes.exists():
        raise DataError(f"{file}: its boxes are missing, {boxes}")
    arrays = read_npz(file) if file.suffix == ".npz" else {"features": read_npy(file)}
    more = {name: read_npy(path) for name, path in of_image.items()}
    return named({**arrays, "boxes": read_npy(boxes), **more}, str(file))
