"""What is asked becomes a dataclass, or a problem that says what would be right."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundling.serve import asks
from groundling.serve.asks import Ask, Audit, Caption, Choice, Claim, Fields, Ground, Look, Media
from groundling.serve.problems import Problem
from groundling.serve.settings import Limits

LIMITS = Limits()


def parsed(parser: Callable[[Fields], Ask], values: dict[str, Any], plain: bool = False) -> Ask:
    fields = Fields(values, LIMITS, plain)
    ask = parser(fields)
    fields.done()
    return ask


def test_json_and_address_say_the_same() -> None:
    assert parsed(asks.caption, {"beam": 3}) == parsed(asks.caption, {"beam": "3"}, plain=True)
    assert parsed(asks.caption, {"beam": 3}) == Caption(Choice(False, (("beam", 3),)))
    assert parsed(asks.caption, {"sample": "true", "seed": "7"}, True) == Caption(Choice(True, (("seed", 7),)))
    assert parsed(asks.ground, {"phrases": ["a", "b c"]}) == parsed(asks.ground, {"phrases": "a;b c"}, plain=True)
    assert parsed(asks.look, {"box": [1, 2, 3, 4.5]}) == parsed(asks.look, {"box": "1,2,3,4.5"}, plain=True)
    assert parsed(asks.look, {}) == Look(5, None)
    assert parsed(asks.ground, {"sentence": "a dog"}) == Ground("a dog")
    claims = [{"phrase": "a dog", "box": [0, 0, 9, 9]}]
    assert parsed(asks.audit, {"text": "a dog", "boxes": claims}) == Audit("a dog", (Claim("a dog", (0, 0, 9, 9)),))
    qwen = {"text": "[]", "format": "qwen2.5-vl"}
    asked = parsed(asks.audit, qwen | {"resized": [56, 28]})
    assert (
        asked == parsed(asks.audit, qwen | {"resized": "56x28"}, plain=True) == Audit("[]", (), "qwen2.5-vl", (56, 28))
    )


@pytest.mark.parametrize(
    ("parser", "values", "told"),
    [
        (asks.caption, {"beam": 0}, "beam must be a whole number from 1 to 10, got 0"),
        (asks.caption, {"beam": 2.5}, "whole number"),
        (asks.caption, {"beam": "3"}, "got text"),
        (asks.caption, {"beam": True}, "got true or false"),
        (asks.caption, {"beam": 10**400}, "got a larger one"),
        (asks.caption, {"length_penalty": float("nan")}, "length_penalty must be a number from 0 to 5"),
        (asks.caption, {"temperature": 1}, "temperature needs sample=true"),
        (asks.caption, {"sample": True, "beam": 2}, "beam does not go with sample=true"),
        (asks.caption, {"sample": "yes"}, "sample must be true or false"),
        (asks.caption, {"bean": 2}, "unknown field 'bean'; known here: beam"),
        (asks.ground, {}, "sentence, or phrases"),
        (asks.ground, {"sentence": " "}, "sentence, or phrases"),
        (asks.ground, {"sentence": 4}, "sentence must be text, got a number"),
        (asks.ground, {"sentence": "x" * 4001}, "at most 4,000"),
        (asks.ground, {"phrases": "a dog"}, "a list of texts"),
        (asks.ground, {"phrases": ["x"] * 65}, "at most 64"),
        (asks.ground, {"phrases": ["x" * 201]}, "at most 200 characters"),
        (asks.audit, {"text": ""}, "as text"),
        (asks.audit, {"text": "x", "boxes": [{"phrase": "x"}]}, "each of boxes must be"),
        (asks.audit, {"text": "x", "boxes": [{"phrase": "x", "box": [3, 0, 1, 1]}]}, "x1 < x2"),
        (asks.audit, {"text": "x", "boxes": {"a": 1}}, "boxes must be a list"),
        (asks.audit, {"text": "a cat", "boxes": [{"phrase": "a dog", "box": [0, 0, 1, 1]}]}, "is not in the text"),
        (asks.audit, {"text": "x", "format": "word"}, "format must be one of plain, kosmos-2"),
        (asks.audit, {"text": "x", "resized": [0, 5]}, "such as [1036, 728]"),
        (asks.look, {"frame": 1}, "give box, too"),
        (asks.look, {"box": [0, 0, 1e9, 1]}, "in pixels"),
        (asks.look, {"box": [0, 0, True, 1]}, "in pixels"),
        (asks.look, {"words": 21}, "from 0 to 20"),
    ],
)
def test_what_is_wrong_is_told_with_what_would_be_right(parser: Any, values: dict[str, Any], told: str) -> None:
    with pytest.raises(Problem) as caught:
        parsed(parser, values)
    assert caught.value.status == 400 and told in caught.value.detail


def test_an_image_is_base64_or_a_data_address_or_an_id() -> None:
    plain = base64.b64encode(b"bytes").decode()
    for value in (plain, f"data:image/png;base64,{plain}"):
        assert asks.media(Fields({"image": value}, LIMITS)) == Media(b"bytes")
    assert asks.media(Fields({"clip": plain, "frames": 3}, LIMITS)) == Media(b"bytes", frames=3)
    assert asks.media(Fields({"image_id": "abc"}, LIMITS)) == Media(id="abc")
    for values in ({}, {"image": plain, "image_id": "x"}, {"image": "§"}, {"image": "a"}, {"image": ""}, {"image": 3}):
        with pytest.raises(Problem):
            asks.media(Fields(values, LIMITS))


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[1]", b"1", b'{"a": NaN}', b'{"a": Infinity}', b"\xff\xfe", b'{"a":' * 100_000, b"9" * 5000],
)
def test_what_is_not_a_json_object_is_a_problem_and_no_crash(content: bytes) -> None:
    with pytest.raises(Problem) as caught:
        asks.parse_json(content)
    assert caught.value.status == 400


PIECES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=6,
)
NAMES = [
    "beam",
    "sample",
    "top_p",
    "sentence",
    "phrases",
    "text",
    "boxes",
    "format",
    "resized",
    "words",
    "box",
    "image",
    "clip",
    "frames",
    "id",
]


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(st.sampled_from(NAMES), PIECES, max_size=5), st.sampled_from(["caption", "ground", "audit", "look"])
)
def test_any_object_is_an_ask_or_a_problem(values: dict[str, Any], name: str) -> None:
    try:
        ask = parsed(getattr(asks, name), values)
        asks.media(Fields(values, LIMITS))
    except Problem as problem:
        assert problem.status == 400
        problem.to_bytes()
    else:
        json.dumps(repr(ask)).encode()
