"""A real server, with the weights of the package, for all tests of this folder."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from starting import Running, copied, running


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    place = tmp_path_factory.mktemp("serve")
    words = ("--photos", str(copied(place / "photos")), "--reviews", str(place / "reviews.jsonl"))
    with running(place / "log", *words, "--deadline", "250") as server:  # the machine of the tests may be busy
        while server.ask("GET", "/readyz").status != 200:
            time.sleep(0.1)
        yield server
