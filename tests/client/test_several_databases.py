"""`client.database` and a pipeline with several databases: a statement without a node runs in none of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from real_servers import joined, spawned

from rrext.errors import InvalidArguments, ToolError

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("forked_servers"),
    pytest.mark.promise("tools:unique-owner"),
]


def databases(folder: Path, *, allow: bool) -> dict[str, Any]:
    """A pipeline with two databases, of which the first one refuses `execute` unless it is allowed."""
    bound = [{"classType": "tool", "from": "tools_1"}]
    settings = [{"path": str(folder / f"{n}.db"), "create": True, "allow_execute": allow or n == 2} for n in (1, 2)]
    parts = [
        {"id": f"db_{n}", "provider": "db_sqlite", "config": given, "control": bound} for n, given in enumerate(settings, 1)
    ]
    source = {"id": "tools_1", "provider": "tools", "config": {}}
    return {"components": [source, *parts], "source": "tools_1", "project_id": "p"}


@pytest.mark.parametrize("allow", [True, False])
async def test_a_statement_without_a_node_is_refused_with_the_databases(
    allow: bool, tmp_path: Path, anyio_backend: str
) -> None:
    is_spawned = anyio_backend == "asyncio"
    async with spawned(dialect="dap") if is_spawned else joined(dialect="jsonrpc") as client:
        token = (await client.use(pipeline=databases(tmp_path, allow=allow)))["token"]
        for asked in (client.database.query, client.database.read):
            with pytest.raises(InvalidArguments) as caught:
                await asked("create table t (n integer)", token=token)
            assert caught.value.data["nodes"] == ["db_1", "db_2"]
        with pytest.raises(InvalidArguments):
            await client.database.begin_transaction(token=token)
        await client.database.query("create table t (n integer)", node_id="db_2", token=token)
        assert (await client.database.read("select * from t", node_id="db_2", token=token))["rows"] == []
        with pytest.raises(ToolError, match="no such table"):
            await client.database.read("select * from t", node_id="db_1", token=token)
        assert await client.tool(tool="dialect", token=token) == {"dialect": "sqlite"}
