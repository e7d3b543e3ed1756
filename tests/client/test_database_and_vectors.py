"""`client.database` and `client.vectors`: each method is one call of `Client.tool`, with what was given and nothing else."""

from __future__ import annotations

import inspect
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from rrext import ToolError, Unavailable
from rrext.client import blocking
from rrext.client.databases import Database, Vectors


class Tools:
    """Stands where `Client.tool` stands: notes every call, and fails for the statement `fail`."""

    def __init__(self, failing: str = "") -> None:
        self.calls: list[dict[str, Any]] = []
        self.failing = failing

    async def __call__(self, **call: Any) -> Any:
        await anyio.lowlevel.checkpoint()
        self.calls.append(call)
        if call["tool"] == self.failing or call["input"].get("sql") == "fail":
            raise ToolError("as you like")
        return {"session_id": "s1", "dialect": "sqlite"}

    @property
    def names(self) -> list[str]:
        return [call["tool"] for call in self.calls]


CALLS: list[tuple[str, str, tuple[Any, ...], dict[str, Any], str, dict[str, Any]]] = [
    ("database", "query", ("select 1",), {}, "execute", {"sql": "select 1"}),
    (
        "database",
        "query",
        ("select $1",),
        {"params": [1], "session_id": "s", "row_mode": "array"},
        "execute",
        {"sql": "select $1", "params": [1], "session_id": "s", "row_mode": "array"},
    ),
    ("database", "query", ("match (n)",), {"params": {}}, "execute", {"sql": "match (n)", "params": {}}),
    ("database", "read", ("q",), {"limit": 5, "explain": False}, "query", {"sql": "q", "limit": 5, "explain": False}),
    ("database", "begin_transaction", (), {}, "begin", {}),
    ("database", "commit", ("s1",), {}, "commit", {"session_id": "s1"}),
    ("database", "rollback", ("s1",), {}, "rollback", {"session_id": "s1"}),
    ("database", "dialect", (), {}, "dialect", {}),
    ("database", "schema", (), {}, "get_schema", {}),
    ("database", "schema", (), {"table": "t"}, "get_schema", {"table": "t"}),
    ("database", "schema", (), {"refresh": True}, "refresh_schema", {}),
    ("database", "schema", (), {"refresh": True, "label": "P"}, "get_schema", {"label": "P"}),
    ("vectors", "search", ("q",), {"top_k": 3, "mode": "dense"}, "search", {"query": "q", "top_k": 3, "mode": "dense"}),
    (
        "vectors",
        "search",
        (),
        {"embedding": [0.5], "filter": {"parent": "/a"}, "score_threshold": 0.0},
        "search",
        {"embedding": [0.5], "filter": {"parent": "/a"}, "score_threshold": 0.0},
    ),
    ("vectors", "upsert", ([{"content": "x"}],), {}, "upsert", {"documents": [{"content": "x"}]}),
    ("vectors", "delete", (["1"],), {}, "delete", {"object_ids": ["1"]}),
    ("vectors", "delete", (), {"prefix": "/a"}, "delete", {"prefix": "/a"}),
    ("vectors", "list", (), {"offset": 0, "limit": 2, "parent": "/"}, "list", {"offset": 0, "limit": 2, "parent": "/"}),
    ("vectors", "list", (), {"cursor": "c"}, "list", {"cursor": "c"}),
    ("vectors", "get", ("1",), {"limit": 1}, "get", {"object_id": "1", "limit": 1}),
    ("vectors", "move", ("1", "2"), {"parent": "/a"}, "move", {"object_id": "1", "to": "2", "parent": "/a"}),
    ("vectors", "versions", (["1"],), {}, "versions", {"object_ids": ["1"]}),
]  # fmt: skip


@pytest.mark.parametrize(("part", "method", "args", "kwargs", "tool", "input"), CALLS)
async def test_a_method_is_a_call_of_its_tool(
    part: str, method: str, args: tuple[Any, ...], kwargs: dict[str, Any], tool: str, input: dict[str, Any]
) -> None:
    tools = Tools()
    owner: Any = {"database": Database, "vectors": Vectors}[part](tools)
    await getattr(owner, method)(*args, **kwargs)
    await getattr(owner, method)(*args, **kwargs, node_id="db_1", token="t", timeout=3)
    call = {"tool": tool, "input": input, "unique": True, "on_chunk": None}
    middle = len(tools.calls) // 2  # a refresh of one label takes two calls
    assert tools.calls[middle - 1] == call
    assert tools.calls[-1] == {**call, "node_id": "db_1", "token": "t", "timeout": 3}


async def test_session_and_dialect_are_answered_as_texts() -> None:
    database = Database(Tools())
    assert await database.begin_transaction() == "s1"
    assert await database.dialect() == "sqlite"


async def test_a_stream_hands_on_its_callback() -> None:
    tools = Tools()
    chunks: list[Any] = []
    take = chunks.append
    await Database(tools).stream("q", on_chunk=take, row_mode="array")
    (call,) = tools.calls
    assert call["tool"] == "query_stream"
    assert call["input"] == {"sql": "q", "row_mode": "array"}
    assert call["on_chunk"] is take


async def test_a_transaction_that_ends_well_is_committed_where_it_began() -> None:
    tools = Tools()
    async with Database(tools).transaction(node_id="db_1", token="t") as transaction:
        await transaction.query("insert", params=[1])
    assert tools.names == ["begin", "execute", "commit"]
    assert {(call["node_id"], call["token"]) for call in tools.calls} == {("db_1", "t")}
    assert tools.calls[1]["input"] == {"sql": "insert", "params": [1], "session_id": "s1"}


async def test_a_transaction_that_fails_is_rolled_back_and_the_failure_comes_out() -> None:
    tools = Tools()
    with pytest.raises(ToolError, match="as you like"):
        async with Database(tools).transaction() as transaction:
            await transaction.query("fail")
    with pytest.raises(KeyError):
        async with Database(tools).transaction():
            raise KeyError("mine")
    assert tools.names == ["begin", "execute", "rollback", "begin", "rollback"]


async def test_a_rollback_that_fails_too_is_noted_on_the_failure_of_the_block() -> None:
    with pytest.raises(KeyError) as caught:
        async with Database(Tools(failing="rollback")).transaction():
            raise KeyError("mine")
    assert caught.value.__notes__ == ["The rollback failed too: as you like"]


async def test_a_transaction_that_is_cancelled_is_rolled_back() -> None:
    tools = Tools()
    with anyio.CancelScope() as scope:
        async with Database(tools).transaction():
            scope.cancel()
            await anyio.sleep_forever()
    assert tools.names == ["begin", "rollback"]


@pytest.mark.parametrize(("plain", "blocking"), [(Database, blocking.Database), (Vectors, blocking.Vectors)])
def test_the_blocking_client_has_every_method_with_the_same_arguments(plain: Any, blocking: Any) -> None:
    names = {name for name in vars(plain) if not name.startswith("_")}
    assert names == {name for name in vars(blocking) if not name.startswith("_")}
    for name in names:
        ours, theirs = inspect.signature(getattr(plain, name)), inspect.signature(getattr(blocking, name))
        assert list(ours.parameters) == list(theirs.parameters)


class ReadOnly(Tools):
    """A node without `allow_execute`, whose tool `query` answers `found`, or fails with `error`."""

    def __init__(self, found: dict[str, Any] | None = None, error: ToolError | None = None) -> None:
        super().__init__()
        self.found = found
        self.error = error

    async def __call__(self, **call: Any) -> Any:
        await super().__call__(**call)
        if call["tool"] == "execute":
            raise Unavailable("execute tool is disabled", hint="use `query`", data={"instead": "query"})
        if self.error is not None:
            raise self.error
        return self.found


async def test_a_statement_in_a_transaction_is_never_read_instead() -> None:
    tools = ReadOnly()
    with pytest.raises(Unavailable, match="execute tool is disabled"):
        await Database(tools).query("select 1", session_id="s")
    assert tools.names == ["execute"]


async def test_more_rows_than_can_be_read_instead_are_an_error() -> None:
    tools = ReadOnly({"rows": [], "truncated": True})
    with pytest.raises(ToolError, match="more than 25,000 rows") as caught:
        await Database(tools).query("select 1", params=[1], row_mode="array", node_id="db_1")
    assert caught.value.code == "too_many_rows"
    assert tools.calls[1]["input"] == {"sql": "select 1", "params": [1], "row_mode": "array", "limit": 25_000}
    assert tools.calls[1]["node_id"] == "db_1"


async def test_a_failure_of_the_statement_read_instead_is_its_own() -> None:
    with pytest.raises(ToolError, match="no such table"):
        await Database(ReadOnly(error=ToolError("no such table", code="sql_failed"))).query("select 1")
