"""Providers over real MCP servers."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp_connections import HERE, Connect, HttpServer, hand_written

from rrext.providers.mcp.provider import McpProvider


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Makes providers of connections, and closes them."""
    connect = Connect()
    yield connect
    await connect.aclose()


@pytest.fixture(scope="module")
def http_server() -> Iterator[HttpServer]:
    """A server of the SDK under uvicorn."""
    with HttpServer() as server:
        yield server


@pytest.fixture(params=["stdio", "http"])
def sdk(request: pytest.FixtureRequest, connect: Connect) -> McpProvider:
    """A provider over a server of the SDK, on both transports."""
    if request.param == "stdio":
        return connect(command=[sys.executable, str(HERE / "mcp_servers.py"), "stdio"])
    return connect(url=request.getfixturevalue("http_server").url)


@pytest.fixture
def over_http(connect: Connect, http_server: HttpServer) -> McpProvider:
    """A provider over the server of the SDK, which needs no start."""
    return connect(url=http_server.url)


@pytest.fixture
def by_hand(connect: Connect, tmp_path: Path) -> Any:
    """Makes providers over servers whose code a test writes."""

    def make(code: str, **table: Any) -> McpProvider:
        return connect(command=hand_written(code, tmp_path), **table)

    return make
