"""Servers that the tests of a file share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ws_server import WsServer, keys_file


@pytest.fixture(scope="module")
def open_server() -> Iterator[WsServer]:
    """A server without keys."""
    with WsServer() as server:
        yield server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WsServer]:
    """A server with keys of two users, who may read the files of a folder."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "root").mkdir()
    (folder / "root" / "notes.txt").write_text("found")
    with WsServer("--keys", str(keys_file(folder)), "--root", str(folder / "root")) as server:
        yield server
