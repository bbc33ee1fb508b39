"""A picture, a captioner and a grounder that never learned: their words are nonsense, their shapes are not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from PIL import Image, ImageDraw

from groundling import recipes
from groundling.inference import evidence
from groundling.recipes.two_branch import TwoBranch
from groundling.recipes.updown import Updown
from groundling.regions.records import Layout
from groundling.regions.sources import source
from groundling.text.classes import Classes
from groundling.text.vocab import Vocabulary

NOUNS = ("dog", "ball")
WORDS = [*NOUNS, "a", "with", "red"]


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    image = Image.new("RGB", (120, 90), "white")
    pen = ImageDraw.Draw(image)
    pen.rectangle((10, 10, 50, 60), fill="red")
    pen.ellipse((70, 40, 110, 80), fill="blue")
    path = tmp_path_factory.mktemp("pictures") / "a photo.png"
    image.save(path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model on the regions of scenes whose weights are large, so that its attention moves."""
    torch.manual_seed(0)
    made = source("scenes")
    layout = Layout.of(made(Image.new("RGB", (32, 32), "white")))
    recipe = Updown.of(hidden=8, embed=8, attention=8, length=6)
    vocab, classes = Vocabulary.build([WORDS], min_count=1), Classes(NOUNS, {noun: noun for noun in NOUNS})
    parts = recipe.parts(vocab, layout, classes)
    with torch.no_grad():
        for weight in parts.parameters():
            weight.mul_(4)
    path = tmp_path_factory.mktemp("model")
    recipes.save(path, recipes.Model(recipe, parts, vocab, made.fingerprint, layout, classes))
    return path


@pytest.fixture(scope="module")
def looking(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grounder that never learned, with words of its own, which says a probability of (cosine + 1) / 2."""
    torch.manual_seed(1)
    seen = recipes.load(folder)
    recipe = TwoBranch.of(joint=8, embed=8, hidden=8, distill=0)
    vocab = Vocabulary.build([["ball", "the", "dog"]], min_count=1)
    parts = recipe.parts(vocab, seen.layout, seen.groundable)
    path = tmp_path_factory.mktemp("grounder")
    recipes.save(path, recipes.Model(recipe, parts, vocab, seen.fingerprint, seen.layout, seen.groundable))
    about = {"format": evidence.FORMAT, "calibration": {"x": [-1, 1], "p": [0, 1]}}
    (path / evidence.CALIBRATION).write_text(json.dumps(about))
    return path
