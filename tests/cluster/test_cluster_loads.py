"""What is read of a pipeline before it is placed on a cluster: its resources, and its connections with their secrets."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rrext.cluster.engine import ClusterEngine
from rrext.cluster.loads import ClusterLoads
from rrext.connections import NO_CONNECTIONS, Connections, load_connections
from rrext.engine.host.host import Host
from rrext.engine.interface.call import ANONYMOUS, Caller
from rrext.engine.interface.operations import Validate
from rrext.errors import ConnectionInvalid, RrextError
from rrext.limits import DEFAULTS
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.resources import NO_RESOURCES, Resources
from rrext.secrets.redaction import Redactor
from rrext.tasks.settings import WorkerSettings

FILE = """
[shop]
provider = "http"
url = "https://shop.example"
shared = true
headers = { authorization = "env:SHOP", x-plain = "env:SHOP", accept = "text/plain" }
[bank]
provider = "http"
url = "https://bank.example"
headers = { authorization = "file:bank.key" }
[shell]
provider = "mcp"
command = ["shell"]
[roaming]
provider = "mcp"
command = ["shell"]
env = { TOKEN = "env:SHOP" }
cluster = true
[described]
provider = "http"
openapi = "shop.yaml"
"""


def pipeline(*connections: str, setting: str | None = None, **more: Any) -> dict[str, Any]:
    """A pipeline that names connections in references, and one in the setting of a node."""
    kinds = {"shell": "mcp", "roaming": "mcp"}
    tools = [{"type": kinds.get(name, "http"), "server": name, "tool": "look"} for name in connections]
    components = [
        {"id": "webhook_1", "provider": "webhook", "config": {}},
        {"id": "tools_1", "provider": "tools", "config": {"tools": tools}},
    ]
    if setting is not None:
        components.append({"id": "client_1", "provider": "tool_mcp_client", "config": {"server": setting}})
    return {"components": components, **more}


@pytest.fixture
def known(tmp_path: Path) -> Connections:
    (tmp_path / "c.toml").write_text(FILE)
    (tmp_path / "bank.key").write_text("bank-secret-1\n")
    for path in tmp_path.iterdir():
        path.chmod(0o600)
    return load_connections(str(tmp_path / "c.toml"), {"SHOP": "env:shop-secret-1"})


def loads(connections: Connections = NO_CONNECTIONS, most: Resources = NO_RESOURCES) -> ClusterLoads:
    host = Host(asyncio.get_running_loop(), limits=DEFAULTS, connections=connections)
    return ClusterLoads(host, Catalog(installed=False), Environment(), connections, most)


async def refusal(loads: ClusterLoads, given: dict[str, Any], **options: Any) -> RrextError:
    with pytest.raises(RrextError) as caught:
        await loads.prepare(given, options)
    return caught.value


async def test_resources_of_the_operator_have_no_limit_and_those_of_clients_do() -> None:
    reader = loads(most=Resources(cpu=1, memory=1 << 30))
    asked = {"cpu": 2, "memory": "512 MiB", "node": "sun"}
    assert (await reader.prepare(pipeline(resources=asked), {}))[0] == Resources(cpu=2, memory=512 << 20, node="sun")
    error = await refusal(reader, pipeline(resources=asked), remote=True)
    found = [(each["code"], each["path"]) for each in error.data["problems"] if each["severity"] == "error"]
    assert found == [("not_permitted", "/resources/cpu"), ("not_permitted", "/resources/node")]
    asked = {"cpu": 1, "memory": "1 GiB"}
    assert (await reader.prepare(pipeline(resources=asked), {"remote": True}))[0] == Resources(cpu=1, memory=1 << 30)


async def test_a_refusal_in_a_text_has_its_line() -> None:
    text = '{"components": [],\n"resources": {"gpu": 1}}'
    with pytest.raises(RrextError) as caught:
        await loads().prepare(text, {"remote": True})
    (problem,) = caught.value.data["problems"]
    assert (problem["line"], problem["column"]) == (2, 22)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"resources": 3}', b"\xff"])
async def test_what_cannot_be_read_asks_for_nothing(text: str | bytes) -> None:
    assert await loads().prepare(text, {"remote": True}) == (NO_RESOURCES, {})


async def test_a_worker_gets_the_secrets_of_the_connections_that_its_pipeline_names(
    known: Connections,
) -> None:
    reader = loads(known)
    assert (await reader.prepare(pipeline(), {}))[1] == {"connections": {}}
    _, told = await reader.prepare(pipeline("shop", setting="roaming"), {})
    assert told["connections"].keys() == {"shop", "roaming"}
    received = Connections.received(msgspec.json.decode(msgspec.json.encode(told["connections"])))
    assert not received.problems
    redactor = Redactor()
    received.known_to(redactor)
    shop: Any = received.find("shop", "http").settings
    headers = shop.headers
    assert {name: secret.reveal() for name, secret in headers.items()} == {
        "authorization": "env:shop-secret-1",  # not read once more, as the name of a variable there
        "x-plain": "env:shop-secret-1",
        "accept": "text/plain",
    }
    assert [secret.is_marked for secret in headers.values()] == [True, True, False]
    assert "shop-secret-1" not in redactor.text("a header env:shop-secret-1")
    roaming: Any = received.find("roaming", "mcp").settings
    assert roaming.env["TOKEN"].reveal() == "env:shop-secret-1"
    assert received.find("shop", "http").shared
    assert (await reader.prepare(pipeline("bank"), {}))[1]["connections"]["bank"]["headers"] == {
        "authorization": ["bank-secret-1", True]
    }


async def test_a_client_gets_the_shared_connections_alone(known: Connections) -> None:
    _, told = await loads(known).prepare(pipeline("shop", "bank"), {"remote": True})
    assert told["connections"].keys() == {"shop"}


async def test_a_connection_that_starts_a_command_or_reads_a_file_stays_on_the_server(known: Connections) -> None:
    error = await refusal(loads(known), pipeline("shell", "roaming", "described", setting="shell"))
    found = [(each["code"], each["path"]) for each in error.data["problems"] if each["severity"] == "error"]
    assert found == [
        ("not_on_cluster", "/components/1/config/tools/0"),
        ("not_on_cluster", "/components/1/config/tools/2"),
    ]
    assert "cluster = true" in error.message


async def test_a_secret_that_cannot_be_read_is_told_before_the_load(known: Connections, tmp_path: Path) -> None:
    (tmp_path / "bank.key").unlink()
    error = await refusal(loads(known), pipeline("bank"))
    assert isinstance(error, ConnectionInvalid)


async def test_a_check_by_the_server_tells_what_its_cluster_would_refuse(known: Connections, tmp_path: Path) -> None:
    settings = WorkerSettings(number=0, limits=DEFAULTS)
    engine = ClusterEngine(
        catalog=Catalog(installed=False),
        environment=Environment(),
        connections=known,
        settings=settings,
        head="127.0.0.1:1",
        variables={},
    )
    given = pipeline("shell", resources={"cpu": 2})
    files = {"id": "files_1", "provider": "tool_filesystem", "config": {"root": str(tmp_path)}}
    given["components"].append({**files, "control": [{"classType": "tool", "from": "webhook_1"}]})

    async def told(caller: Caller, **more: Any) -> set[tuple[str, str]]:
        body, _ = await engine.ask(Validate(pipeline={**given, **more}), caller)
        problems = msgspec.json.decode(body)["problems"]
        return {(each["code"], each["path"]) for each in problems if each["severity"] == "error"}

    try:
        root, shell = ("not_on_cluster", "/components/2/config/root"), ("not_on_cluster", "/components/1/config/tools/0")
        assert await told(ANONYMOUS) == {root, shell}
        assert await told(ANONYMOUS, resources={"node": "sun"}) == {shell}
        assert ("not_permitted", "/resources/cpu") in await told(Caller("a", trusted=False, user_id="ann"))
    finally:
        await engine.aclose()
