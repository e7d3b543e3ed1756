"""One pipeline with tools of every origin, the servers that it needs, and calls of its tools."""

from __future__ import annotations

import json
import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Self

import msgspec
from api_server import api_host
from composio_api import KEY, ComposioApi, tool
from mcp_connections import HttpServer

HERE = Path(__file__).resolve().parent
TOKEN = "whole"
"""The stem of the file of the pipeline, by which the commands load it."""


class Row(msgspec.Struct, frozen=True):
    """A call of a tool. `code`: that of its failure; None if it succeeds. `is_permitted`: commands permit what they call.

    `owner`: the node that a command names although others call the tool without, because several nodes own it.
    """

    name: str
    tool: str
    input: dict[str, Any]
    code: str | None = None
    node: str = ""
    is_permitted: bool = False
    owner: str = ""


STARS = {"type": "composio", "integration": "github", "action": "LIST_STARGAZERS", "connection": "github-tvn"}
SALES = {
    "tool": "query",
    "name": "sales",
    "description": "Sales of a year.",
    "arguments": {"sql": "select item, sum(price) as total from sale where year = $1 group by item order by item"},
    "parameters": {"params": {"minItems": 1, "maxItems": 1, "items": {"type": "integer", "minimum": 2000}}},
}
REFERENCES: list[dict[str, Any]] = [
    {"type": "node", "node": "db_1", **SALES},
    {"type": "node", "node": "db_1", "tool": "query", "name": "asked", "permission": "ask"},
    {"type": "node", "node": "db_1", "tool": "query", "name": "denied", "permission": "deny"},
    {"type": "node", "node": "db_1", "tool": "query", "name": "for_ada", "available": {"users": ["ada"]}},
    {"type": "node", "node": "py_1", "tool": "execute", "name": "program", "timeout": 30},
    {**STARS, "name": "stars", "arguments": {"page": 2}},
    {**STARS, "action": "DELETE_REPOSITORY", "name": "delete"},
]


def _component(name: str, provider: str, config: dict[str, Any], control: str = "tools_1") -> dict[str, Any]:
    edges = [{"classType": "tool", "from": control}] if control else []
    return {"id": name, "provider": provider, "config": config, "control": edges}


PIPELINE: dict[str, Any] = {
    "components": [
        _component("tools_1", "tools", {"tools": REFERENCES}, control=""),
        _component("db_1", "db_sqlite", {"path": "sales.db"}),
        _component("py_1", "tool_python", {}),
        _component("mcp_1", "tool_mcp_client", {"server": "outside"}),
    ],
    "source": "tools_1",
    "project_id": "whole",
    "version": 1,
}

SQL = "select item, price from sale where year = 2001 order by price"
CALLS = [
    Row("SQL", "query", {"sql": SQL}),
    Row("SQL with parameters", "query", {"sql": "select $1 as a, $2 as b", "params": ["ä\"'", None]}),
    Row("SQL, by node", "query", {"sql": SQL}, node="db_1"),
    Row("a wrapped tool", "sales", {"params": [2001]}),
    Row("a wrapped tool, by node", "sales", {"params": [2002]}, node="tools_1"),
    Row("a program", "execute", {"code": "print('hi')\nresult = [6 * 7, {'ü': None}]"}, owner="py_1"),
    Row("a program that fails", "execute", {"code": "raise ValueError('no')"}, owner="py_1"),
    Row("a wrapped program", "program", {"code": "result = 1.5"}),
    Row("a text of a server outside", "greet", {"name": "Åda\n"}),
    Row("structured content of a server outside", "add", {"a": 1, "b": 2}),
    Row("bytes of a server outside", "picture", {}),
    Row("a tool of a server outside, by node", "outside.greet", {"name": "Bo", "loud": True}, node="mcp_1"),
    Row("an action with a fixed argument", "stars", {"owner": "me"}),
    # bad arguments
    Row("SQL that is missing", "query", {}, "invalid_arguments"),
    Row("SQL that is a number, and more", "query", {"sql": 7, "limit": "x", "other": 1}, "invalid_arguments"),
    Row("a fixed argument", "sales", {"sql": SQL, "params": [2001]}, "invalid_arguments"),
    Row("what only the narrower schema refuses", "sales", {"params": [1999]}, "invalid_arguments"),
    Row("what only the wider schema refuses", "sales", {"params": 2001}, "invalid_arguments"),
    Row("an empty program", "execute", {"code": " "}, "invalid_arguments", owner="py_1"),
    Row("a number in place of a text, outside", "greet", {"name": 7}, "invalid_arguments"),
    Row("an action that lacks something", "stars", {}, "invalid_arguments"),
    # failures
    Row("SQL that is none", "query", {"sql": "selec 1"}, "invalid_arguments"),
    Row("SQL that writes", "query", {"sql": "delete from sale"}, "not_read_only"),
    Row("a refusal outside", "refuse", {"reason": "sold out"}, "tool_failed"),
    Row("an action that fails", "delete", {"owner": "me"}, "composio_failed"),
    # unknown, denied
    Row("a tool almost right", "querry", {}, "tool_not_found"),
    Row("a tool that nobody knows", "zzzzzz", {}, "tool_not_found"),
    Row("a tool of another node", "sales", {"params": [2001]}, "tool_not_found", node="db_1"),
    Row("a tool of an unknown node", "query", {"sql": SQL}, "node_not_found", node="db_2"),
    Row("a tool that is denied", "denied", {"sql": SQL}, "unavailable"),
    Row("a tool for somebody else", "for_ada", {"sql": SQL}, "unavailable"),
    Row("a tool that needs a permit", "asked", {"sql": SQL}, "unavailable", is_permitted=True),
]
OF_PYTHON = ("execute", "program")
"""Tools that need a kernel with a sandbox."""
LISTED = {"query", "sales", "asked", "greet", "add", "picture", "refuse", "stars", "delete"}
"""Tools that everybody sees, with or without a sandbox."""

RESOLVED: list[tuple[list[Any], str | None]] = [
    (["query", "greet", {"type": "node", "node": "db_1", **SALES}, {"type": "mcp", "server": "outside", "tool": "add"}], None),
    ([STARS, {**STARS, "name": "mine", "arguments": {"owner": "me"}, "permission": "ask"}], None),
    ([{"type": "node", "node": "db_1", "tool": "query", "name": "hidden", "permission": "deny"}], None),
    ([], None),
    (["querry", {**STARS, "connection": "github"}, {"type": "mcp", "server": "outside", "tool": "ad"}], "invalid_arguments"),
    ([{"type": "mcp", "server": "off", "tool": "x"}], "connection_inactive"),
    ([{"type": "http", "server": "broken", "tool": "x"}], "connection_invalid"),
]
"""References, and the code of the error."""
CALLED: list[tuple[dict[str, Any], str | None]] = [
    ({"call_ref": "tools.node.db_1.query.self", "arguments": {"sql": SQL}}, None),
    ({"name": "sales", "arguments": '{"params": [2001]}'}, None),
    ({"name": "tools__mcp__outside__add__default", "arguments": {"a": 1, "b": 2}}, None),
    ({"call_ref": "tools.composio.github.LIST_STARGAZERS.github-tvn", "arguments": {"owner": "me"}}, None),
    ({"name": "mine", "arguments": {}}, "unavailable"),
    ({"name": "sales", "arguments": {"params": [1999]}}, "invalid_arguments"),
    ({"name": "sales", "arguments": "[]"}, "invalid_arguments"),
    ({"call_ref": "tools.node.db_1.querry.self"}, "tool_not_found"),
    ({"call_ref": "tools.mcp.elsewhere.add.default"}, "connection_unknown"),
    ({"name": "hidden"}, "tool_not_found"),
]
"""Calls after these, and the code of the error."""


class Place:
    """A folder with the pipeline, its database and its connections, while the servers of these run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pipeline = folder / f"{TOKEN}.pipe"
        self.connections = folder / "connections.toml"
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with self._stack as stack:
            api = ComposioApi(tool("GITHUB_LIST_STARGAZERS"), tool("GITHUB_DELETE_REPOSITORY"))
            api.results["GITHUB_DELETE_REPOSITORY"] = {"data": {}, "error": "not yours", "successful": False, "log_id": "log_7"}
            address = stack.enter_context(api_host(api)).url
            outside = stack.enter_context(HttpServer(HERE / "outside_server.py")).url
            self._write(f"{address}/api/v3", outside)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _write(self, composio: str, outside: str) -> None:
        with closing(sqlite3.connect(self.folder / "sales.db")) as database:
            database.execute("create table sale (item text, price real, year integer)")
            rows = [("apple", 1.25, 2001), ("pear", 2, 2001), ("apple", 3, 2001), ("fig", None, 2002)]
            database.executemany("insert into sale values (?, ?, ?)", rows)
            database.commit()
        self.pipeline.write_text(json.dumps(PIPELINE))
        self.connections.touch(0o600)
        self.connections.write_text(f"""
            [outside]
            provider = "mcp"
            url = "{outside}"
            headers = {{ Authorization = "Bearer of-the-operator" }}
            [github-tvn]
            provider = "composio"
            integration = "github"
            key = "{KEY}"
            account = "ca_1"
            url = "{composio}"
            [off]
            provider = "mcp"
            url = "{outside}"
            active = false
            [broken]
            provider = "http"
            timeout = 0
        """)

    @property
    def options(self) -> list[str]:
        """The options of each command that loads the pipeline."""
        return ["--connections", str(self.connections), "--root", str(self.folder)]
