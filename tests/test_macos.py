"""What is different on a Mac, as far as it can be tried elsewhere."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

from PIL import Image

import groundling
from groundling.data.dataset import load


def test_a_file_whose_accents_macos_took_apart_is_found_by_the_name_in_the_table(tmp_path: Path) -> None:
    apart = unicodedata.normalize("NFD", "café.jpg")
    assert apart != "café.jpg"
    (tmp_path / "images").mkdir()
    Image.new("RGB", (8, 6)).save(tmp_path / "images" / apart)
    (tmp_path / "captions.csv").write_text("image,caption\ncafé.jpg,A cup.\n", encoding="utf-8")
    [example] = load(tmp_path, annotated=False)
    assert Path(example.media).exists() and example.size == (8, 6)


def test_numbers_become_double_on_the_cpu_since_apples_gpu_has_no_such_numbers() -> None:
    """`tensor.double().cpu()` raises for a tensor on the device mps; `tensor.cpu().double()` does not."""
    package = Path(groundling.__file__).parent
    wrong = [
        path.name for path in package.rglob("*.py") if re.search(r"\.double\(\)\.cpu\(\)", path.read_text("utf-8"))
    ]
    assert not wrong
