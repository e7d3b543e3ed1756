"""A server that judges share, and clients of the installed version."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import anyio
import pytest
from published_server import KEY, PATIENCE, PROXIES, VERSION, PublishedServer, served

if TYPE_CHECKING:
    from rocketride import RocketRideClient  # half a second, which each process that collects tests would spend

SINCE_1_5 = ["test_published_since_1_5.py", "test_published_readers.py"]
collect_ignore = SINCE_1_5 if VERSION < (1, 5) else ["test_published_commands_1_3.py"]
"""Versions have methods and commands of their own."""
if VERSION < (1, 5) or find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
    collect_ignore.append("test_published_telemetry.py")  # it has its packages in an environment of `.ci/run`


@pytest.fixture
def anyio_backend() -> str:
    """The client knows asyncio alone."""
    return "asyncio"


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client obeys them even for this machine, and takes what it is not told from the environment."""
    for name in (*PROXIES, *map(str.upper, PROXIES), "ROCKETRIDE_URI", "ROCKETRIDE_APIKEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublishedServer]:
    """A server that trusts its clients."""
    root = tmp_path_factory.mktemp("served")
    (root / "notes.txt").write_text("found")
    store = tmp_path_factory.mktemp("store")
    with served("--root", str(root), "--trust-clients", "--store", str(store)) as server:
        yield server


@pytest.fixture
def port(server: PublishedServer) -> int:
    """The port of the server."""
    return server.port


@pytest.fixture
async def client(server: PublishedServer) -> AsyncIterator[RocketRideClient]:
    """A connected client."""
    from rocketride import RocketRideClient

    connected = RocketRideClient(uri=server.url, auth=KEY)
    with anyio.fail_after(PATIENCE):
        await connected.connect()
        yield connected
        await connected.disconnect()
