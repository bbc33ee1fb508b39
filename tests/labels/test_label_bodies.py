"""Labels of parts of bodies: what the joints of persons tell is offered beside the regions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import groundling
from groundling import labels
from groundling.boxes import iou_of_arrays
from groundling.inference.grounder import Ranking
from groundling.labels.features import WORD
from groundling.labels.grounder import Grounder
from groundling.labels.inputs import Pair
from groundling.labels.label import LabelledImage
from groundling.labels.labeller import Labeller
from groundling.tensors import Regions

ASTRONAUT = Path(groundling.__file__).parent / "serve" / "photos" / "astronaut.jpg"
HAIR = (155, 15, 302, 180)  # as a person would draw it
TEXT = "A woman with brown hair."


@pytest.fixture(scope="module")
def labeller() -> Labeller:
    return labels.load()


@pytest.fixture(scope="module")
def blind(labeller: Labeller) -> Labeller:
    """It has the regions of the photo in a store, and the photo only where it opens its file."""
    regions = replace(labeller.model.regions(Pair("a", str(ASTRONAUT), ()).opened()), pictures=None)
    return replace(labeller, store={"a": regions, "b": regions})  # type: ignore[arg-type]


def hair(image: LabelledImage) -> np.ndarray:
    assert not image.problem
    [label] = [label for label in image.labels if label.head == "hair"]
    assert all(np.isfinite(placed.features).all() for placed in label.boxes)
    return np.array([label.boxes[0].box])


def is_right(box: np.ndarray) -> bool:
    return bool(iou_of_arrays(box, np.array([HAIR], float)) > 0.6)


def test_a_part_of_a_body_is_labelled_where_a_person_would_draw_it(labeller: Labeller) -> None:
    """Both captions name one thing."""
    found = labeller.image(str(ASTRONAUT), [TEXT, "Brown hair."])
    assert is_right(hair(found))
    assert [len(label.mentions) for label in found.labels if label.head == "hair"] == [2]


def test_with_stored_regions_the_photo_is_opened_where_a_phrase_names_a_part(
    blind: Labeller, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, read = [], Pair.opened
    monkeypatch.setattr(Pair, "opened", lambda pair: (opened.append(pair.id), read(pair))[1])
    pairs = [Pair("a", str(ASTRONAUT), (TEXT,)), Pair("b", str(ASTRONAUT), ("A flag behind a woman.",))]
    found = list(blind.images(pairs))
    assert opened == ["a"]
    assert is_right(hair(found[0]))
    content = ASTRONAUT.read_bytes()
    assert is_right(hair(next(blind.images([Pair("a", "bytes.jpg", (TEXT,), content=content)]))))


@pytest.mark.parametrize("media", ["", "no such file.jpg", "nowhere://photo.jpg"])
def test_a_photo_that_cannot_be_read_has_the_labels_of_its_stored_regions(blind: Labeller, media: str) -> None:
    box = hair(blind.image(media, [TEXT], "a"))
    regions = blind.store["a"].boxes[0].numpy()  # type: ignore[index]
    assert np.abs(regions - box).max(1).min() < 1e-3 and not is_right(box)


class Planted:
    """Ranks two phrases: the boxes are three regions, the second of them padding, and four parts of bodies. Each phrase
    names two parts; of these, the first is the same, the second of the first phrase is beyond the edge."""

    fingerprint = SimpleNamespace(labels=(f"{WORD}shirt",))
    model = SimpleNamespace(fingerprint=fingerprint)

    def rank(self, *_: Any, **__: Any) -> Ranking:
        shirt, edge, other = [1.0, 0, 10, 10], [60, 0, 60, 20], [30, 0, 40, 10]
        return Ranking(
            torch.tensor([[0.5, -torch.inf, 0.2], [0.4, -torch.inf, 0.1]]),
            torch.tensor([[0.0, 0, 10, 10], [0, 0, 0, 0], [30, 0, 50, 10], shirt, edge, shirt, other]),
            torch.tensor([[0.6, -1, 0.1, 0.7, 0.2, -1, -1], [0.3, -1, 0.2, -1, -1, 0.5, 0.4]]),
        )

    def evidence(self, nouns: list[str], *_: Any) -> list[float]:
        return [0.9] * len(nouns)


def test_the_same_part_of_several_phrases_is_one_box() -> None:
    """It is as similar as the region that overlaps it most (IoU 0.9); where a phrase does not name it, it has 0."""
    seen = Regions.of(
        torch.zeros(3, 4),
        torch.tensor([[0.0, 0, 10, 10], [0, 0, 0, 0], [30, 0, 50, 10]]),
        (60, 20),
        valid=torch.tensor([True, False, True]),
        labels=torch.tensor([[0], [-1], [0]]),
        scores=torch.tensor([[0.8], [0.0], [0.3]]),
    )
    grounder = Grounder.__new__(Grounder)
    grounder.model = Planted()  # type: ignore[assignment]
    found = grounder.rank(seen, [("shirt",), ("shirts",)], ["shirt", "shirt"])
    assert found.boxes.tolist() == [[0, 0, 10, 10], [30, 0, 50, 10], [1, 0, 10, 10], [30, 0, 40, 10]]
    np.testing.assert_allclose(found.overlap, [[0.6, 0.1, 0.7, 0], [0.3, 0.2, 0.5, 0.4]], rtol=1e-6)
    np.testing.assert_allclose(found.similarity, [[0.5, 0.2, 0.5, 0.2], [0.4, 0.1, 0.4, 0.1]], rtol=1e-6)
    assert found.labels.tolist() == [[0], [0], [-1], [-1]]
    np.testing.assert_allclose(found.label_scores, [[0.8], [0.3], [0], [0]], rtol=1e-6)
