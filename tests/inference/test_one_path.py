"""One image or many, whatever they are given as: the same captions, and never more than a window in memory."""

from __future__ import annotations

import doctest
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import groundling
from groundling.errors import DataError, GroundlingError
from groundling.inference import BeamSearch, captioner, grounder, loading
from groundling.models.grounder import Grounder
from groundling.tensors import Regions
from groundling.types import Example

LONG = BeamSearch(no_repeat=1, min_length=5)  # all five words, so both nouns


@pytest.fixture(scope="module")
def model(folder: Path, looking: Path) -> groundling.GroundedCaptioner:
    return groundling.load(folder, grounder=looking)


@pytest.fixture(scope="module")
def photos(picture: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two pictures."""
    path = tmp_path_factory.mktemp("photos")
    shutil.copy(picture, path / "one.png")
    Image.new("RGB", (50, 50), "green").save(path / "two.png")
    return path


def test_a_folder_files_pictures_arrays_and_examples_get_the_same_captions(
    model: groundling.GroundedCaptioner, photos: Path
) -> None:
    files = sorted(photos.iterdir())
    pictures = [Image.open(file) for file in files]
    expected = [model.caption(file, LONG).text for file in files]
    arrays = [np.asarray(picture) for picture in pictures]
    examples = [Example(file.stem, str(file), (0, 0)) for file in files]
    for images in ([photos], files, [str(file) for file in files], pictures, arrays, examples, iter(files)):
        assert [one.text for one in model.caption(images, LONG)] == expected  # type: ignore[call-overload]
    assert [one.id for one in model.caption([photos])] == ["one", "two"]
    assert [one.id for one in model.caption(arrays)] == ["0", "1"]
    assert model.caption(arrays[0], LONG).text == expected[0]
    [stacked] = model.caption(arrays[0][None], LONG)  # type: ignore[misc]
    tensor = torch.from_numpy(arrays[0].copy()).permute(2, 0, 1)
    for same in (tensor, tensor / 255, tensor.double() / 255):
        assert model.caption(same, LONG).text == expected[0]
    [batched] = model.caption(tensor[None], LONG)  # type: ignore[misc]
    assert batched.text == expected[0]
    assert stacked.text == expected[0]


def test_no_more_than_a_window_of_images_is_taken(model: groundling.GroundedCaptioner) -> None:
    taken = []

    def endless() -> Iterator[Image.Image]:
        while True:
            taken.append(1)
            yield Image.new("RGB", (40, 30), "red")

    captions = model.caption(endless(), window=3)
    assert not taken
    for seen in (3, 3, 3, 6):
        next(captions)
        assert len(taken) == seen


def test_a_file_that_cannot_be_read_is_told_and_left_out_or_raises(
    model: groundling.GroundedCaptioner, picture: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"not a picture")
    told: list[str] = []
    captions = list(model.caption([bad, picture, bad], on_error=lambda id, error: told.append(f"{id}: {error}")))
    assert [one.id for one in captions] == ["a photo"] and len(told) == 2 and "bad.png" in told[0]
    with pytest.raises(DataError, match="bad.png"):
        list(model.caption([picture, bad]))
    with pytest.raises(DataError, match="bad.png"):
        model.caption(bad, on_error=lambda id, error: told.append(id))


def test_the_grounder_computes_the_regions_of_an_image_once(
    model: groundling.GroundedCaptioner, picture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, encode = [], Grounder.encode_regions

    def counted(self: Grounder, regions: Regions) -> torch.Tensor:
        calls.append(len(regions))
        return encode(self, regions)

    monkeypatch.setattr(Grounder, "encode_regions", counted)
    captions = list(model.caption([picture, picture], LONG))
    assert calls == [2] and all(link.evidence is not None for one in captions for link in one)


@pytest.mark.parametrize(
    "array",
    [np.zeros((4, 5, 3)), np.zeros((4, 5, 2), np.uint8), np.zeros((0, 5, 3), np.uint8), np.zeros(7, np.uint8)],
    ids=["floats", "two channels", "empty", "a row"],
)
def test_an_array_that_is_no_picture_is_refused(model: groundling.GroundedCaptioner, array: np.ndarray) -> None:
    with pytest.raises(GroundlingError, match="height × width × 3 of uint8"):
        model.caption(array)


@pytest.mark.parametrize(
    ("tensor", "cure"),
    [
        (torch.zeros(8, 8, 3), "3 × height × width"),
        (torch.zeros(3, 8, 8, dtype=torch.int64), "of uint8 or of fractions"),
        (torch.full((3, 8, 8), -1.5), "undo its normalisation"),
    ],
)
def test_a_tensor_that_is_no_picture_is_refused(
    model: groundling.GroundedCaptioner, tensor: torch.Tensor, cure: str
) -> None:
    with pytest.raises(GroundlingError, match=cure):
        model.caption(tensor)


def test_what_is_no_image_is_refused(model: groundling.GroundedCaptioner) -> None:
    with pytest.raises(GroundlingError, match="an image is a file.*not int"):
        list(model.caption([7]))  # type: ignore[list-item]


def test_phrases_are_found_in_many_images_as_in_each(looking: Path, photos: Path) -> None:
    model = groundling.load_grounder(looking)
    files = sorted(photos.iterdir())
    sentences = ["a dog with a ball", "the red ball"]
    each = [model.ground(file, sentence) for file, sentence in zip(files, sentences, strict=True)]
    assert list(model.ground(files, sentences, window=1)) == each
    assert list(model.ground([photos], phrases=["dog"])) == [model.ground(file, phrases=["dog"]) for file in files]
    with pytest.raises(ValueError, match="zip"):
        list(model.ground(files, sentences[:1]))


@pytest.mark.parametrize("module", [captioner, grounder], ids=["captioner", "grounder"])
def test_the_examples_of_docstrings_run(
    module: object, folder: Path, looking: Path, picture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With these models in place of the package's own."""
    shutil.copytree(folder, tmp_path / "weights" / "everyday" / "captioner")
    shutil.copytree(looking, tmp_path / "weights" / "everyday" / "grounder")
    monkeypatch.setattr(loading, "SHIPPED", tmp_path / "weights")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    for name in ("photo.jpg", "photos/beach.jpg", "photos/street.jpg"):
        Image.open(picture).save(tmp_path / name)
    result = doctest.testmod(module, extraglobs={"groundling": groundling}, raise_on_error=True)  # type: ignore[arg-type]
    assert result.attempted > 1
