"""Which folder a name means: that of a model, of a captioner with its grounder, or weights of the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from groundling.errors import DataError
from groundling.inference.captioner import folders
from groundling.inference.loading import CAPTIONER, GROUNDER, SHIPPED, model_folder
from groundling.recipes import ABOUT


def make(*places: Path) -> None:
    for place in places:
        place.mkdir(parents=True)
        (place / ABOUT).touch()


def test_a_folder_of_both_gives_the_captioner_and_the_grounder(tmp_path: Path) -> None:
    make(tmp_path / CAPTIONER, tmp_path / GROUNDER)
    for part in (CAPTIONER, GROUNDER):
        assert model_folder(tmp_path, part) == model_folder(tmp_path / part, part) == tmp_path / part
    assert folders(tmp_path, "") == (tmp_path / CAPTIONER, tmp_path / GROUNDER)
    assert folders(tmp_path / CAPTIONER, "") == (tmp_path / CAPTIONER, None)  # a captioner alone
    assert folders(tmp_path / CAPTIONER, tmp_path) == (tmp_path / CAPTIONER, tmp_path / GROUNDER)
    assert folders(tmp_path, "flickr8k") == (tmp_path / CAPTIONER, SHIPPED / "flickr8k" / GROUNDER)


def test_a_folder_with_a_captioner_alone_gives_it_without_a_grounder(tmp_path: Path) -> None:
    make(tmp_path / CAPTIONER)
    assert folders(tmp_path, "") == (tmp_path / CAPTIONER, None)


def test_a_model_comes_before_others_in_its_folder(tmp_path: Path) -> None:
    make(tmp_path / "run", tmp_path / "run" / CAPTIONER)
    assert model_folder(tmp_path / "run", CAPTIONER) == tmp_path / "run"


def test_weights_of_the_package_are_named_and_a_folder_of_that_name_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert folders("", "") == (SHIPPED / "everyday" / CAPTIONER, SHIPPED / "everyday" / GROUNDER)
    assert model_folder("flickr8k", GROUNDER) == SHIPPED / "flickr8k" / GROUNDER
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "flickr8k")
    assert model_folder("flickr8k", GROUNDER) == Path("flickr8k")


@pytest.mark.parametrize(
    ("name", "cure"), [("evryday", "did you mean everyday?"), ("runs/x", "`groundling train` make")]
)
def test_a_name_of_nothing_is_answered_with_the_nearest(name: str, cure: str) -> None:
    with pytest.raises(DataError, match=f"no model in {name}: no such folder") as error:
        model_folder(name, CAPTIONER)
    assert cure in str(error.value)
