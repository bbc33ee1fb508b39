"""Grounded output of models: what their conventions mean, there and back, and what is broken."""

from __future__ import annotations

import random
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from outputs import BOXES, broken, flat, scenes, step

from groundling import formats
from groundling.errors import GroundlingError
from groundling.formats import FORMATS, Grounded, Place, seen_by_qwen
from groundling.formats.reading import LONGEST, phrase_before

SIZE = (1000, 500)


def read(name: str, raw: str, size: tuple[int, int] = SIZE) -> Grounded:
    return formats.read(name, raw, size, (1036, 504))


def places(found: Grounded) -> list[tuple[str, tuple[tuple[float, ...], ...]]]:
    return [
        (found.phrase(place), tuple(tuple(round(x, 3) for x in one) for one in (*place.boxes, *place.points)))
        for place in found.places
    ]


def test_kosmos_2_counts_patches_and_takes_their_centres() -> None:
    """44 is row 1, column 12; 863 is row 26, column 31. A cell is 31.25 wide and 15.625 high."""
    raw = "<grounding> An image of<phrase> a snowman</phrase><object><patch_index_0044><patch_index_0863></object>."
    found = read("kosmos-2", raw)
    assert found.text == "An image of a snowman." and not found.problems
    assert places(found) == [
        ("a snowman", ((12.5 * 31.25, round(1.5 * 15.625, 3), 31.5 * 31.25, round(26.5 * 15.625, 3)),))
    ]


def test_kosmos_2_takes_outer_edges_where_both_patches_share_a_row_and_knows_several_boxes() -> None:
    raw = "<phrase> dogs</phrase><object><patch_index_0000><patch_index_0002></delimiter_of_multi_objects/>"
    found = read("kosmos-2", raw + "<patch_index_0033><patch_index_0066></object> run")
    assert found.text == "dogs run"
    assert places(found) == [("dogs", ((0, 0, 93.75, 15.625), (46.875, 23.438, 78.125, 39.062)))]


@pytest.mark.parametrize(
    ("name", "raw", "text", "expected"),
    [
        ("florence-2", "red car<loc_53><loc_334><loc_933><loc_775>", "red car", (53.5, 167.25, 933.5, 387.75)),
        ("florence-2", "<s>car<loc_0><loc_0><loc_999><loc_1000></s>", "car", (0.5, 0.25, 999.5, 500)),
        ("qwen-vl", "<ref> Woman</ref><box>(451,379),(731,806)</box>", "Woman", (451, 189.5, 731, 403)),
        (
            "qwen2-vl",
            "<|object_ref_start|>person<|object_ref_end|><|box_start|>(123,456),(789,911)<|box_end|><|im_end|>",
            "person",
            (123, 228, 789, 455.5),
        ),
        (
            "qwen2.5-vl",
            '```json\n[{"bbox_2d":[259,126,518,252],"label":"house"}]\n```',
            "house",
            (250, 125, 500, 250),
        ),
        ("qwen3-vl", '[{"bbox_2d":[135,114,916,672],"label":"house"}]', "house", (135, 57, 916, 336)),
        ("shikra", "the man [0.201,0.302,0.940,0.658] runs", "the man runs", (201, 52, 940, 408)),
        ("ferret", "The man [201, 2, 940, 758] is here.", "The man is here.", (201, 1, 940, 379)),
        ("cogvlm", "a dog [[086,540,400,760]].", "a dog.", (86, 270, 400, 380)),
        ("internvl", "<ref>bus</ref><box>[[290, 202, 835, 851]]</box>", "bus", (290, 101, 835, 425.5)),
        ("paligemma", "<loc0512><loc0256><loc0768><loc0512><seg001><seg127> car", "car", (250, 250, 500, 375)),
        ("gemini", '[{"box_2d":[10,20,110,120],"label":"cat"}]', "cat", (20, 5, 120, 55)),
        ("molmo", 'See <point x="52.3" y="61.0" alt="the dog">the dog</point>!', "See the dog!", (523, 305)),
        (
            "moondream",
            '{"objects":[{"x_min":0.1,"y_min":0.2,"x_max":0.3,"y_max":0.4}]}',
            "",
            (100, 100, 300, 200),
        ),
    ],
)
def test_what_the_numbers_of_each_format_mean(name: str, raw: str, text: str, expected: tuple[float, ...]) -> None:
    """In an image of 1000 x 500 pixels."""
    found = read(name, raw)
    assert found.text == text and not found.problems
    [(_, [box])] = places(found)
    assert box == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "raw", "expected"),
    [
        (
            "florence-2",
            "cat<loc_1><loc_1><loc_2><loc_2><loc_3><loc_3><loc_4><loc_4>dog<loc_5><loc_5><loc_6><loc_6>",
            [2, 1],
        ),
        (
            "qwen-vl",
            "<ref>cats</ref><box>(1,1),(2,2)</box><box>(3,3),(4,4)</box><ref>dog</ref><box>(5,5),(6,6)</box>",
            [2, 1],
        ),
        ("shikra", "cats [0.1,0.5,0.2,0.6;0.3,0.5,0.4,0.6] and a dog [0.5,0.5,0.6,0.6]", [2, 1]),
        ("ferret", "cats [1, 2, 3, 4], [5, 6, 7, 8] and a dog [1, 2, 3, 4]", [2, 1]),
        ("cogvlm", "cats [[001,002,003,004;005,006,007,008]] and a dog [[001,002,003,004]]", [2, 1]),
        (
            "internvl",
            "<ref>cats</ref><box>[[1,2,3,4],[5,6,7,8]]</box> and <ref>dog</ref><box>[[1,2,3,4]]</box>",
            [2, 1],
        ),
        ("paligemma", "<loc0001><loc0002><loc0003><loc0004> cat ; <loc0001><loc0002><loc0003><loc0004> dog", [1, 1]),
        (
            "molmo",
            '<points x1="1" y1="2" x2="3" y2="4" alt="cats">cats</points> <point x="1" y="2">dog</point>',
            [2, 1],
        ),
    ],
)
def test_a_phrase_may_have_several_places(name: str, raw: str, expected: list[int]) -> None:
    found = read(name, raw)
    assert [len(place.boxes) + len(place.points) for place in found.places] == expected
    assert [found.phrase(place).split()[-1].rstrip("s") for place in found.places] == ["cat", "dog"]
    assert not found.problems


def test_shikra_speaks_of_the_image_padded_to_a_square() -> None:
    """400 x 300 is padded by 50 above and below: half of the square is row 200, which is row 150 of the image."""
    [(_, [box])] = places(formats.read("shikra", "a dog [0.000,0.125,0.500,0.500]", (400, 300)))
    assert box == (0, 0, 200, 150)


def test_qwen2_5_needs_the_size_that_it_saw_and_its_processor_tells_it() -> None:
    raw = '[{"bbox_2d":[14,28,28,56],"label":"a"}]'
    with pytest.raises(GroundlingError, match="--resized WxH.*--max-pixels"):
        formats.read("qwen2.5-vl", raw, (100, 100))
    assert seen_by_qwen((1000, 500), 12_845_056) == (1008, 504)
    assert seen_by_qwen((20, 20), 12_845_056) == (56, 56)
    width, height = seen_by_qwen((4000, 3000), 1_003_520)
    assert (width % 28, height % 28) == (0, 0) and width * height <= 1_003_520


def test_a_number_above_1000_is_not_qwen3_and_the_problem_says_whose_it_may_be() -> None:
    found = read("qwen3-vl", '[{"bbox_2d":[135,114,1016,672],"label":"house"}]')
    assert not found.places and found.text == "house"
    assert "1016 is above 1000" in found.problems[0].reason and "Qwen2.5-VL" in found.problems[0].reason


def test_json_in_words_and_json_that_stops_are_read_as_far_as_they_go() -> None:
    raw = 'Here: ```json\n[{"bbox_2d":[1,2,3,4],"label":"cat"}, {"bbox_2d":[5,6,7,8],"label":"dog"}, {"bbox_2d":[9, '
    found = read("qwen3-vl", raw)
    assert found.text == "cat, dog" and len(found.places) == 2
    assert [one.reason for one in found.problems] == ["text around the JSON, or a part of it that is not complete"]
    assert read("qwen3-vl", "[{'bbox_2d': [1, 2, 3, 4], 'label': 'cat'}]").text == "cat"


def test_what_leaves_the_image_is_cut_and_told() -> None:
    found = read("qwen2-vl", "<|object_ref_start|>a<|object_ref_end|><|box_start|>(123,456),(789,1011)<|box_end|>")
    assert found.places[0].boxes[0] == pytest.approx((123, 228, 789, 500))
    assert "1011 is outside 0 to 1000" in found.problems[0].reason
    assert not read("ferret", "a dog [1100, 1100, 1200, 1200]").places


def test_half_of_an_output_keeps_its_words_and_what_is_whole() -> None:
    raw = "<ref> a dog</ref><box>(1,2),(3,4)</box> near<ref> a man</ref><box>(5,6),(7"
    found = read("qwen-vl", raw)
    assert found.text == "a dog near a man" and len(found.places) == 1
    assert [one.reason for one in found.problems] == ["a tag is never closed", "a phrase without a box"]


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("there is a red car", "a red car"),
        ("the man", "the man"),
        ("she is riding big horses", "big horses"),
        ("A bird, two dogs", "two dogs"),
        ("on", ""),
        ("", ""),
    ],
)
def test_the_phrase_before_a_bracket_begins_at_its_article(text: str, phrase: str) -> None:
    assert text[slice(*phrase_before(text))] == phrase


@pytest.mark.parametrize("name", BOXES)
@given(scene=scenes())
@settings(max_examples=25, deadline=None)
def test_boxes_come_back_within_the_size_of_the_grid(name: str, scene: tuple[Grounded, tuple[int, int]]) -> None:
    grounded, size = scene
    seen = seen_by_qwen(size, 12_845_056)
    written = formats.write(name, grounded, size, seen)
    found = formats.read(name, written.text, size, seen)
    assert not written.left_out and not found.problems
    across, down = (x + 1e-6 for x in step(name, size, seen))
    for (phrase, before), (same, after) in zip(flat(grounded), flat(found), strict=True):
        assert same == phrase
        assert after[0::2] == pytest.approx(before[0::2], abs=across)
        assert after[1::2] == pytest.approx(before[1::2], abs=down)
    if FORMATS[name].captions:
        assert found.text == grounded.text


@given(scene=scenes())
@settings(max_examples=25, deadline=None)
def test_molmo_points_at_the_middle_of_boxes_to_a_tenth_of_a_percent(
    scene: tuple[Grounded, tuple[int, int]],
) -> None:
    grounded, size = scene
    found = formats.read("molmo", formats.write("molmo", grounded, size).text, size)
    points = [point for place in found.places for point in place.points]
    assert found.text == grounded.text and not found.problems
    for (x, y), (_, (x1, y1, x2, y2)) in zip(points, flat(grounded), strict=True):
        assert x == pytest.approx((x1 + x2) / 2, abs=size[0] / 1000)
        assert y == pytest.approx((y1 + y2) / 2, abs=size[1] / 1000)


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "plain"])
def test_two_thousand_broken_outputs_are_counted_each_and_none_stops_the_reader(name: str) -> None:
    draw = random.Random(7)
    for _ in range(2000):
        raw = broken(name, draw)
        found = read(name, raw, (640, 480))
        assert found.problems, raw
        assert all(0 <= place.span[0] <= place.span[1] <= len(found.text) for place in found.places)


SIGNS = "<>[](){}|/_\"':;,.0123456789 \n\0é" + "refboxpatchlocpointobjectlabel"


@pytest.mark.parametrize("name", list(FORMATS))
def test_any_characters_are_read_without_an_error(name: str) -> None:
    draw = random.Random(3)
    for _ in range(300):
        read(name, "".join(draw.choices(SIGNS, k=draw.randrange(120))))


TRAPS = (
    *("[", "]", "[[", "<", "<|", "{", "}", "<box>", "</box>", "<ref>", "<phrase>", "<object>", "<loc_1>", "<loc0001>"),
    *(
        "<patch_index_0001>",
        "<point x=",
        "<points ",
        '"',
        "a [1",
        "[1,2,3,4]",
        "x [0.1,0.2,0.3,0.4",
        " ",
        "1",
        "1.",
        ";",
    ),
    *('{"bbox_2d":', "<ref>a</ref><box>(1,2),(3,4)</box>", "</delimiter_of_multi_objects/>", "```", "a "),
)


@pytest.mark.parametrize("name", list(FORMATS))
def test_time_grows_with_length_alone(name: str) -> None:
    """30,000 characters of whatever could make a pattern search again and again: a fraction of a second each."""
    for trap in TRAPS:
        raw = (trap * (30_000 // len(trap) + 1))[:30_000]
        start = time.process_time()
        read(name, raw)
        assert time.process_time() - start < 1, trap


def test_an_output_without_end_is_cut_and_told() -> None:
    found = read("kosmos-2", "a " * LONGEST)
    assert len(found.text) <= LONGEST and "first 1,000,000 characters" in found.problems[0].reason


def test_a_plain_caption_with_marks_of_a_model_says_which_format_to_name() -> None:
    assert "looks like florence-2" in read("plain", "a car<loc_1>").problems[0].reason
    assert not read("plain", "a car").problems


def test_what_cannot_be_written_is_told() -> None:
    overlapping = Grounded("a red car", (Place((0, 9), ((1, 2, 3, 4),)), Place((6, 9), ((1, 2, 3, 4),)), Place((0, 0))))
    assert formats.write("kosmos-2", overlapping, SIZE).left_out == (
        "it has no box",
        "its words are in another place, too",
    )


def test_marks_in_a_caption_cannot_become_places() -> None:
    evil = Grounded("a [1,2,3,4] <loc_1> dog", (Place((20, 23), ((1, 2, 3, 4),)),))
    for name in BOXES:
        again = read(name, formats.write(name, evil, SIZE, (1036, 504)).text)
        assert len(again.places) == 1, name


def test_an_unknown_format_is_named_with_those_that_there_are() -> None:
    with pytest.raises(GroundlingError, match="unknown format 'qwen'; there are plain, kosmos-2"):
        formats.format_of("qwen")


def test_formats_need_no_heavy_package() -> None:
    code = "import sys, groundling.formats; sys.exit(bool({'torch', 'numpy', 'spacy', 'PIL'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("name", formats.FORMATS)
def test_the_example_of_a_format_is_recognised(name: str) -> None:
    assert formats.guess(formats.FORMATS[name].example) == name


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        ("", "plain"),
        ("a [dog] in 1990, [1, 2]", "plain"),
        ("a dog [0, 0, 1, 1]", "shikra"),  # of the whole image
        (
            "a dog [0.1, 0.2, 0.5, 0.6] and a cat [10, 20, 30, 40]",
            "ferret",
        ),  # no format mixes them; shikra has none > 1
        ('[{"bbox_2d": [1000, 0, 1000, 9], "label": "x"}]', "qwen3-vl"),
        ('[{"bbox_2d": [1001, 0, 1002, 9], "label": "x"}]', "qwen2.5-vl"),
    ],
)
def test_a_format_is_recognised_by_its_marks_and_numbers(raw: str, name: str) -> None:
    assert formats.guess(raw) == name
