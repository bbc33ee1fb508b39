"""Fingerprints of region sources as JSON, the check that regions are those a model was trained on, and the words that
an image vector holds."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from groundling.errors import DataError, RegionMismatch
from groundling.types import Fingerprint

IMPORTED = "imported"  # the version of features that were made elsewhere
DETECTOR = "detector"  # parameter of sources whose boxes and features no detector has made
TEACHER, NONE = "teacher", "none"  # its values: one labels the regions, for training; none is run
WORD = "word:"  # begins the labels that are words of captions, not classes of a detector


def words_of(fingerprint: Fingerprint) -> tuple[str, ...]:
    """The words whose probabilities are the last numbers of an image vector, in their order; none for most sources."""
    return tuple(label.removeprefix(WORD) for label in fingerprint.labels if label.startswith(WORD))


def to_json(fingerprint: Fingerprint) -> dict[str, Any]:
    """Plain JSON values; tuples among the parameters become lists."""
    try:
        plain = json.loads(json.dumps(asdict(fingerprint), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise DataError(f"the parameters of region source {fingerprint.name!r} are not plain JSON: {error}") from error
    return dict(plain)


def from_json(row: Mapping[str, Any]) -> Fingerprint:
    """The inverse of `to_json`; DataError names the field that is wrong."""
    try:
        return Fingerprint(
            name=_text(row["name"]),
            version=_text(row["version"]),
            dim=_count(row["dim"]),
            parameters={_text(k): v for k, v in row["parameters"].items()},
            weights={_text(k): _text(v) for k, v in row["weights"].items()},
            labels=tuple(_text(x) for x in row["labels"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"not a fingerprint of regions: {type(error).__name__}: {error}") from error


def require(actual: Fingerprint, expected: Fingerprint) -> None:
    """RegionMismatch unless the two are equal; the message says what differs and how to make the right regions.

    Labels of a detector that is only a teacher are not what a model sees: with and without them regions are the same.
    """
    if difference := differences(actual, expected):
        raise RegionMismatch(f"these regions are not the expected ones. {_cure(expected)} What differs: {difference}")


def differences(actual: Fingerprint, expected: Fingerprint) -> str:
    """What distinguishes the two, in words; empty when they are equal."""
    have, want = to_json(actual), to_json(expected)
    if all(DETECTOR in row["parameters"] for row in (have, want)):
        for row in (have, want):
            row["labels"], row["parameters"] = [], {k: v for k, v in row["parameters"].items() if k != DETECTOR}
    return "; ".join(_difference(name, have[name], want[name]) for name in want if have[name] != want[name])


def _difference(name: str, have: Any, want: Any) -> str:
    if isinstance(want, dict):
        keys = sorted(k for k in have.keys() | want.keys() if have.get(k) != want.get(k))
        return ", ".join(f"{name} {k}: {have.get(k, 'none')} instead of {want.get(k, 'none')}" for k in keys)
    if isinstance(want, list):
        return f"other {name} ({len(have)} instead of {len(want)})"
    return f"{name}: {have} instead of {want}"


def _cure(expected: Fingerprint) -> str:
    if expected.version == IMPORTED:
        flags = "".join(f" --{k.replace('_', '-')} {v}" for k, v in sorted(expected.parameters.items()))
        made = f"groundling regions import SOURCE --name {shlex.quote(expected.name)}{flags} --out STORE"
        return f"Import the right ones: `{made}`."
    parameters = sorted(to_json(expected)["parameters"].items())
    sets = "".join(" --set " + shlex.quote(f"{k}={json.dumps(v, separators=(',', ':'))}") for k, v in parameters)
    made = f"groundling regions extract DATA --source {expected.name}{sets} --out STORE"
    return f"Make the right ones: `{made}`."


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"{value!r} is not a count")
    return value
