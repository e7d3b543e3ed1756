"""The client runs on asyncio and on trio, in both dialects."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=["dap", "jsonrpc"])
def dialect(request: pytest.FixtureRequest) -> str:
    return request.param
