"""A request becomes a dataclass, or a problem that says what would be right."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundling.serve import requests
from groundling.serve.problems import Problem
from groundling.serve.requests import (
    AuditRequest,
    CaptionRequest,
    DecodingOptions,
    Fields,
    GivenBox,
    GroundRequest,
    InferenceRequest,
    Media,
    RegionsRequest,
)
from groundling.serve.settings import Limits

LIMITS = Limits()


def parsed(
    parser: Callable[[Fields], InferenceRequest], values: dict[str, Any], from_query: bool = False
) -> InferenceRequest:
    fields = Fields(values, LIMITS, from_query)
    request = parser(fields)
    fields.done()
    return request


def test_json_and_query_are_parsed_to_the_same() -> None:
    assert parsed(requests.parse_caption, {"beam": 3}) == parsed(requests.parse_caption, {"beam": "3"}, from_query=True)
    assert parsed(requests.parse_caption, {"beam": 3}) == CaptionRequest(DecodingOptions(False, (("beam", 3),)))
    twice = CaptionRequest(DecodingOptions(False, (("repeat_nouns", True),)))
    assert parsed(requests.parse_caption, {"repeat_nouns": True}) == twice
    assert parsed(requests.parse_caption, {"repeat_nouns": "true"}, from_query=True) == twice
    assert parsed(requests.parse_caption, {"sample": "true", "seed": "7"}, True) == CaptionRequest(
        DecodingOptions(True, (("seed", 7),))
    )
    assert parsed(requests.parse_ground, {"phrases": ["a", "b c"]}) == parsed(
        requests.parse_ground, {"phrases": "a;b c"}, from_query=True
    )
    assert parsed(requests.parse_regions, {"box": [1, 2, 3, 4.5]}) == parsed(
        requests.parse_regions, {"box": "1,2,3,4.5"}, from_query=True
    )
    assert parsed(requests.parse_regions, {}) == RegionsRequest(5, None)
    assert parsed(requests.parse_ground, {"sentence": "a dog"}) == GroundRequest("a dog")
    claims = [{"phrase": "a dog", "box": [0, 0, 9, 9]}]
    assert parsed(requests.parse_audit, {"text": "a dog", "boxes": claims}) == AuditRequest(
        "a dog", (GivenBox("a dog", (0, 0, 9, 9)),)
    )
    qwen = {"text": "[]", "format": "qwen2.5-vl"}
    resized = parsed(requests.parse_audit, qwen | {"resized": [56, 28]})
    assert (
        resized
        == parsed(requests.parse_audit, qwen | {"resized": "56x28"}, from_query=True)
        == AuditRequest("[]", (), "qwen2.5-vl", (56, 28))
    )


@pytest.mark.parametrize(
    ("parser", "values", "message"),
    [
        (requests.parse_caption, {"beam": 0}, "beam must be a whole number from 1 to 10, got 0"),
        (requests.parse_caption, {"beam": 2.5}, "whole number"),
        (requests.parse_caption, {"beam": "3"}, "got text"),
        (requests.parse_caption, {"beam": True}, "got true or false"),
        (requests.parse_caption, {"beam": 10**400}, "got a larger one"),
        (requests.parse_caption, {"length_penalty": float("nan")}, "length_penalty must be a number from 0 to 5"),
        (requests.parse_caption, {"temperature": 1}, "temperature needs sample=true"),
        (requests.parse_caption, {"repeat_nouns": 1}, "repeat_nouns must be true or false"),
        (requests.parse_caption, {"repeat_nouns": True, "sample": True}, "repeat_nouns does not go with sample=true"),
        (requests.parse_caption, {"sample": True, "beam": 2}, "beam does not go with sample=true"),
        (requests.parse_caption, {"sample": "yes"}, "sample must be true or false"),
        (requests.parse_caption, {"bean": 2}, "unknown field 'bean'; known here: beam"),
        (requests.parse_ground, {}, "sentence, or phrases"),
        (requests.parse_ground, {"sentence": " "}, "sentence, or phrases"),
        (requests.parse_ground, {"sentence": 4}, "sentence must be text, got a number"),
        (requests.parse_ground, {"sentence": "x" * 4001}, "at most 4,000"),
        (requests.parse_ground, {"phrases": "a dog"}, "a list of texts"),
        (requests.parse_ground, {"phrases": ["x"] * 65}, "at most 64"),
        (requests.parse_ground, {"phrases": ["x" * 201]}, "at most 200 characters"),
        (requests.parse_audit, {"text": ""}, "text is empty"),
        (requests.parse_audit, {"text": "x", "boxes": [{"phrase": "x"}]}, "each of boxes must be"),
        (requests.parse_audit, {"text": "x", "boxes": [{"phrase": "x", "box": [3, 0, 1, 1]}]}, "x1 < x2"),
        (requests.parse_audit, {"text": "x", "boxes": {"a": 1}}, "boxes must be a list"),
        (
            requests.parse_audit,
            {"text": "a cat", "boxes": [{"phrase": "a dog", "box": [0, 0, 1, 1]}]},
            "is not in the text",
        ),
        (requests.parse_audit, {"text": "x", "format": "word"}, "format must be one of auto, plain, kosmos-2"),
        (requests.parse_audit, {"text": "x", "resized": [0, 5]}, "such as [1036, 728]"),
        (requests.parse_regions, {"frame": 1}, "send box, too"),
        (requests.parse_regions, {"box": [0, 0, 1e9, 1]}, "in pixels"),
        (requests.parse_regions, {"box": [0, 0, True, 1]}, "in pixels"),
        (requests.parse_regions, {"words": 21}, "from 0 to 20"),
    ],
)
def test_what_is_wrong_is_reported_with_what_would_be_right(parser: Any, values: dict[str, Any], message: str) -> None:
    with pytest.raises(Problem) as caught:
        parsed(parser, values)
    assert caught.value.status == 400 and message in caught.value.detail


def test_an_image_is_base64_or_a_data_address_or_an_id() -> None:
    plain = base64.b64encode(b"bytes").decode()
    for value in (plain, f"data:image/png;base64,{plain}"):
        assert requests.parse_media(Fields({"image": value}, LIMITS)) == Media(b"bytes")
    assert requests.parse_media(Fields({"clip": plain, "frames": 3}, LIMITS)) == Media(b"bytes", frames=3)
    assert requests.parse_media(Fields({"image_id": "abc"}, LIMITS)) == Media(id="abc")
    for values in ({}, {"image": plain, "image_id": "x"}, {"image": "§"}, {"image": "a"}, {"image": ""}, {"image": 3}):
        with pytest.raises(Problem):
            requests.parse_media(Fields(values, LIMITS))


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[1]", b"1", b'{"a": NaN}', b'{"a": Infinity}', b"\xff\xfe", b'{"a":' * 100_000, b"9" * 5000],
)
def test_what_is_not_a_json_object_is_a_problem_and_no_crash(content: bytes) -> None:
    with pytest.raises(Problem) as caught:
        requests.parse_json(content)
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
    st.dictionaries(st.sampled_from(NAMES), PIECES, max_size=5),
    st.sampled_from(["caption", "ground", "audit", "regions"]),
)
def test_any_object_is_a_request_or_a_problem(values: dict[str, Any], name: str) -> None:
    try:
        request = parsed(getattr(requests, f"parse_{name}"), values)
        requests.parse_media(Fields(values, LIMITS))
    except Problem as problem:
        assert problem.status == 400
        problem.to_bytes()
    else:
        json.dumps(repr(request)).encode()
