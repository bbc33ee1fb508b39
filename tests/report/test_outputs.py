"""What may be made up is marked wherever a caption is shown: in a terminal, in a picture, in COCO files."""

from __future__ import annotations

import io
import resource
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

import groundling
from groundling.report.picture import draw
from groundling.report.terminal import WEAK, readable
from groundling.types import GroundedCaption, Link

DOG, HORSES = (
    Link(1, (2, 5), (10.0, 20.0, 60.0, 90.0), 0.7, evidence=0.93),
    Link(3, (9, 15), (50.0, 10.0, 150.0, 80.0), 0.6, evidence=0.12),
)
CAPTION = GroundedCaption(
    "0042",
    "a dog or horses",
    ("a", "dog", "or", "horses"),
    ((0, 1), (2, 5), (6, 8), (9, 15)),
    (DOG, HORSES),
    size=(160, 100),
    media="a photo.jpg",
)


def shown(grounded: GroundedCaption) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=120).print(readable(grounded))
    return file.getvalue().splitlines()


def test_in_a_terminal_nouns_are_numbered_and_the_doubtful_one_is_marked() -> None:
    name, caption, _, dog, horses = shown(CAPTION)
    assert name == "a photo.jpg" and caption.strip() == "a dog[1] or horses[2?]"
    assert dog.split() == ["1", "dog", "10", "20", "60", "90", "0.70", "0.93"]
    assert horses.split()[:8] == ["2", "horses", "50", "10", "150", "80", "0.60", "0.12"] and WEAK in horses


def test_control_characters_of_a_name_do_not_reach_the_terminal() -> None:
    assert shown(replace(CAPTION, media="\x1b[2J.jpg"))[0] == r"\x1b[2J.jpg"


def test_a_caption_without_a_noun_is_a_caption() -> None:
    assert shown(replace(CAPTION, links=()))[1].strip() == CAPTION.text


def test_a_clip_names_the_frame_of_each_box() -> None:
    told = shown(replace(CAPTION, frames=4, links=(replace(DOG, frame=2), HORSES)))
    assert told[3].split()[:3] == ["1", "dog", "2"]


def test_a_doubtful_box_is_dashed_and_its_word_has_a_mark() -> None:
    """Along the upper edge of a box every pixel has its colour, or only every other dash."""
    image = Image.new("RGB", (640, 400), "white")

    def coloured(grounded: GroundedCaption) -> float:
        edge = np.asarray(draw(image, grounded))[4 * 20 + 1, 4 * 10 + 8 : 4 * 60 - 8].astype(int)
        return float((edge.min(-1) < 200).mean())

    sure, doubtful = replace(CAPTION, links=(DOG,)), replace(CAPTION, links=(replace(DOG, evidence=0.1),))
    assert coloured(sure) == 1 and 0.3 < coloured(doubtful) < 0.7
    strips = [np.asarray(draw(image, grounded))[400:] for grounded in (sure, doubtful)]
    assert (strips[0] != strips[1]).any()


def test_an_image_of_extreme_shape_is_drawn_in_little_memory() -> None:
    """In one step, 2,048 rows of 2 * 2 * 10,000,000 / 2,048 weights of 8 bytes would take 320 MB."""
    image = Image.new("RGB", (1, 10_000_000))
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + 200_000_000, before[1]))
    try:
        assert draw(image, CAPTION).height > 2000
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("words", [["dog"] * 20_000, ["d" * 1_000_000]])
def test_a_caption_without_end_is_drawn_up_to_a_height(words: list[str]) -> None:
    text = " ".join(words)
    spans = tuple((i * (len(words[0]) + 1), i * (len(words[0]) + 1) + len(words[0])) for i in range(len(words)))
    drawn = draw(Image.new("RGB", (640, 400)), GroundedCaption("a", text, tuple(words), spans, ()))
    assert drawn.height < 2600


def test_boxes_in_coco_form_by_hand() -> None:
    row = groundling.coco_boxes([CAPTION], {"horses": "horse", "dog": "dog"})
    assert row["categories"] == [{"id": 1, "name": "dog"}, {"id": 2, "name": "horse"}]
    assert row["images"] == [{"id": "0042", "file_name": "a photo.jpg", "width": 160, "height": 100}]
    assert row["annotations"] == [
        {
            "id": 1,
            "image_id": "0042",
            "category_id": 1,
            "bbox": [10.0, 20.0, 50.0, 70.0],
            "area": 3500.0,
            "iscrowd": 0,
            "score": 0.93,
            "weak": False,
        },
        {
            "id": 2,
            "image_id": "0042",
            "category_id": 2,
            "bbox": [50.0, 10.0, 100.0, 70.0],
            "area": 7000.0,
            "iscrowd": 0,
            "score": 0.12,
            "weak": True,
        },
    ]


def test_without_a_grounder_the_score_is_that_of_the_place_and_frames_are_named() -> None:
    grounded = replace(CAPTION, id="7", frames=2, links=(replace(DOG, evidence=None, frame=1),))
    [box] = groundling.coco_boxes([grounded])["annotations"]
    assert (box["image_id"], box["score"], box["frame"]) == (7, pytest.approx(0.7), 1)


def test_captions_in_coco_form() -> None:
    assert groundling.coco_results([CAPTION]) == [{"image_id": "0042", "caption": "a dog or horses"}]
