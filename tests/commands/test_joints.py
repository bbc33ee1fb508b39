"""`--no-joints`: commands whose grounder looks at pictures let the network of joints run, or not."""

from __future__ import annotations

import shutil
from pathlib import Path
from unittest.mock import patch

import pytest

import groundling
from groundling.cli import main
from groundling.regions.sources._keypoints import Keypoints

ASTRONAUT = Path(groundling.__file__).parent / "serve" / "photos" / "astronaut.jpg"


@pytest.mark.parametrize(
    "command",
    [
        "caption photo.jpg --beam 1",
        "ground photo.jpg suit",
        "ground photo.jpg suit --cost",
        "ground clip suit",
        "label photos.csv --out labels --workers 1",
    ],
)
def test_the_network_runs_unless_told_not_to(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the weights of the package, of a woman in a suit."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clip").mkdir()
    for name in ("photo.jpg", "clip/1.jpg", "clip/2.jpg"):
        shutil.copy(ASTRONAUT, name)
    Path("photos.csv").write_text("image,caption\nphoto.jpg,A woman in an orange suit.\n")
    ran = []
    for flags in ([], ["--no-joints"]):
        with patch.object(Keypoints, "__call__", autospec=True, side_effect=Keypoints.__call__) as network:
            assert main([*command.split(), *flags]) == 0
        ran.append(network.called)
        shutil.rmtree("labels", ignore_errors=True)
    assert ran == [True, False]
