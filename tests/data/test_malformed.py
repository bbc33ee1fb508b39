"""Files from outside may hold anything: whatever they hold, a reader says DataError or reads on."""

from __future__ import annotations

import json
import pickle
import tempfile
from pathlib import Path
from typing import Any

import little
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from groundling.data import evaluator_files
from groundling.data.checks import Problems, checked_box, parse_json, parse_xml
from groundling.data.dataset import load
from groundling.errors import DataError, GroundlingError

FORMATS = little.ALL | {"json lines": little.lines}
QUICK = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**400) | st.floats() | st.text(max_size=8) | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


def attempt(root: Path) -> None:
    """Strict and lenient; nothing but our own errors, and none of the lenient one's examples without a caption."""
    for skip_bad in (False, True):
        try:
            dataset = load(root, annotated=False, skip_bad=skip_bad)
        except GroundlingError as error:
            assert str(error)
        else:
            assert all(e.id and all(c.tokens for c in e.captions) for e in dataset)
            assert all(b[0] < b[2] and b[1] < b[3] for e in dataset for p in e.gold for b in p.boxes)
            assert all(0 <= p.span[0] < p.span[1] <= len(e.captions[p.caption].tokens) for e in dataset for p in e.gold)


def texts(root: Path) -> list[Path]:
    return sorted(
        p for p in root.rglob("*") if p.is_file() and p.suffix not in (".png", ".jpg") and "_@_" not in p.name
    )


@pytest.mark.parametrize("name", FORMATS)
@QUICK
@given(data=st.data())
def test_cut_or_spoilt_files_are_errors_of_ours(name: str, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = FORMATS[name](Path(folder))
        path = data.draw(st.sampled_from(texts(root)), "file")
        content = path.read_bytes()
        at = data.draw(st.integers(0, len(content)), "position")
        put = data.draw(
            st.sampled_from([None, b"", b"\x00", b"\xff", b'"', b"<", b"]", b"-", b"\n", b"9" * 30]), "bytes"
        )
        path.write_bytes(content[:at] if put is None else content[:at] + put + content[at + 1 :])
        attempt(root)


@pytest.mark.parametrize(
    "name", [name for name in FORMATS if name not in ("Flickr30k Entities", "captions in a table")]
)
@QUICK
@given(data=st.data())
def test_any_value_in_any_place_of_a_json_file_is_an_error_of_ours(name: str, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = FORMATS[name](Path(folder))
        path = data.draw(st.sampled_from([p for p in texts(root) if p.suffix in (".json", ".p", ".jsonl")]), "file")
        lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [""]
        content = pickle.loads(path.read_bytes()) if path.suffix == ".p" else json.loads(lines[0] or path.read_text())
        spoilt = spoil(content, data)
        if path.suffix == ".p":
            path.write_bytes(pickle.dumps(spoilt))
        else:
            path.write_text("\n".join([json.dumps(spoilt), *lines[1:]]))
        attempt(root)


def spoil(value: Any, data: st.DataObject) -> Any:
    """The same JSON with one value, somewhere, replaced or removed."""
    if isinstance(value, dict | list) and value and data.draw(st.integers(0, 5), "deeper"):
        copy: Any = value.copy()
        key = data.draw(st.sampled_from(sorted(value) if isinstance(value, dict) else range(len(value))), "key")
        if data.draw(st.integers(0, 9), "remove") == 0:
            del copy[key]
        else:
            copy[key] = spoil(value[key], data)
        return copy
    return data.draw(JSON, "value")


@QUICK
@given(JSON)
def test_any_json_is_no_submission_or_a_good_one(value: Any) -> None:
    for read in (evaluator_files.image_captions, evaluator_files.video_captions):
        for content in (value, {"results": value}, {"results": {"1": [value]}}, {"results": {"1": {"0": value}}}):
            try:
                read(content, "submission")
            except DataError as error:
                assert str(error).startswith("submission")


@pytest.mark.parametrize("text", ["", "{", "[1,", '{"a": NaN}', "[" * 100_000, "1" * 10_000, '"\\ud800"', "\x00"])
def test_what_is_not_json_is_named(text: str) -> None:
    with pytest.raises(DataError, match="^here.*not JSON"):
        parse_json(text, "here")


BOMB = '<!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><annotation>&b;</annotation>'


@pytest.mark.parametrize("text", ["", "<a>", "<a></b>", "<a>&b;</a>", "\x00", "<a>\ud800</a>", BOMB, f"\n {BOMB}"])
def test_what_is_not_plain_xml_is_named(text: str) -> None:
    with pytest.raises(DataError, match="^here"):
        parse_xml(text, "here")


@given(st.lists(st.floats(), min_size=4, max_size=4))
def test_a_checked_box_is_inside_its_image_and_not_empty(corners: list[float]) -> None:
    try:
        left, top, right, bottom = checked_box(corners, (100, 80), "here")
    except DataError as error:
        assert str(error).startswith("here: the box")
    else:
        assert 0 <= left < right <= 100 and 0 <= top < bottom <= 80


def test_problems_raise_once_or_are_collected() -> None:
    strict, lenient = Problems(), Problems(skip=True)
    with pytest.raises(DataError) as caught, strict.item():
        strict.report("here: wrong")
    assert str(caught.value).count("--skip-bad") == 1
    with lenient.item():
        raise DataError("there: wrong")
    assert lenient.found == ["there: wrong"]
