"""A real server, with the weights of the package, labels to review and an index, for all tests of this folder."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from server_process import Running, labelled, running

from groundling.cli import main


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    place = tmp_path_factory.mktemp("serve")
    labels, index = str(labelled(place / "labels")), str(place / "index")
    assert main(["index", labels, "--out", index]) == 0
    busy = ("--deadline", "250")  # as the machine of the tests may be
    with running(place / "log", "--review", labels, "--index", index, *busy) as server:
        while server.call("GET", "/readyz").status != 200:
            time.sleep(0.1)
        yield server
