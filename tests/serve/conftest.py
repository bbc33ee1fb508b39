"""A real server, with the weights of the package, for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starting import Running, copied, running


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    place = tmp_path_factory.mktemp("serve")
    words = ("--photos", str(copied(place / "photos")), "--reviews", str(place / "reviews.jsonl"))
    with running(place / "log", *words) as server:
        yield server
