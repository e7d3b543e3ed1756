"""Attacks on the spaces of a catalog: clients of a network, with keys, on a server that an operator's changes reach at once."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from listening_server import ListeningServer

from rrext.blocking import Client
from rrext.errors import RrextError
from rrext.nodes.base.node import content_tenant
from rrext.nodes.base.space_list import SpaceList
from rrext.nodes.knowledge.library import Library

pytestmark = pytest.mark.promise("spaces:members-only")

KEYS = {user: f"key-of-{user}-0123456789" for user in ("ada", "ben", "eve")}
SPY = '''
from rrext import Node, ToolContext, tool_function


class Spy(Node):
    """Writes down each space that it sees."""

    provider = "spy"
    lanes = {"text": ()}

    class Config:
        path: str = ""

    def _note(self, ctx):
        with open(self.config.path, "a") as file:
            file.write(f"{ctx.user_id} {ctx.space_id!r}\\n")
        return ctx.space_id

    def open(self, entry, ctx: ToolContext): self._note(ctx)

    def write_text(self, text, ctx: ToolContext): self._note(ctx)

    def closing(self, ctx: ToolContext): self._note(ctx)

    @tool_function
    def peek(self, *, ctx: ToolContext) -> str | None:
        """The space of the call."""
        return self._note(ctx)

    @tool_function
    async def elsewhere(self, token: str, *, ctx: ToolContext) -> dict:
        """Give a text to another pipeline."""
        return await ctx.run_pipeline(token, "a text")
'''


def pipeline(*nodes: str, log: Path) -> dict[str, Any]:
    """A pipeline whose nodes read texts and have tools. A node is its provider, with the folder of a catalog after a colon."""
    components: list[dict[str, Any]] = [{"id": "webhook_1", "provider": "webhook", "config": {}}]
    for node in nodes:
        provider, _, folder = node.partition(":")
        components.append(
            {
                "id": f"{provider}_{folder or 1}",
                "provider": provider,
                "config": {"path": str(log) if provider == "spy" else folder},
                "input": [{"lane": "text", "from": "webhook_1"}],
                "control": [{"classType": "tool", "from": "webhook_1"}],
            }
        )
    return {"components": components, "source": "webhook_1", "project_id": "p"}


class Served:
    """A served folder: the pipelines `main` and `other` with a catalog each, and `plain` without one."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.log = folder / "seen.txt"
        self.log.touch()
        self.spaces = SpaceList(folder / "first")
        self.others = SpaceList(folder / "second")
        (folder / "spy.py").write_text(SPY)
        for name, nodes in {
            "main": ("knowledge:first", "spy"),
            "other": ("knowledge:second", "spy"),
            "plain": ("spy",),
        }.items():
            (folder / f"{name}.pipe").write_bytes(msgspec.json.encode(pipeline(*nodes, log=self.log)))
        keys = folder / "keys.toml"
        keys.write_text("".join(f'"{key}" = "{user}"\n' for user, key in KEYS.items()))
        keys.chmod(0o600)
        files = [str(folder / f"{name}.pipe") for name in ("main", "other", "plain")]
        command = [sys.executable, "-m", "rrext", "serve", *files, "--nodes", str(folder / "spy.py"), "--ws", "127.0.0.1:0"]
        self.server = ListeningServer([*command, "--keys", str(keys), *options])
        self.url = self.server.log.split("listening at ")[1].split()[0]

    @contextmanager
    def client(self, user: str, context: Mapping[str, Any] | None = None, **options: Any) -> Iterator[Client]:
        with Client.connect(self.url, key=KEYS[user], context=context, **options) as client:
            yield client

    @property
    def seen(self) -> list[str]:
        """What nodes have seen: the user, and the space as Python writes it."""
        return self.log.read_text().splitlines()


@pytest.fixture(scope="module", params=["none", "process"])
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("served"), "--isolation", request.param)
    yield served
    assert served.server.end() == 0
    served.server.stop()


@pytest.fixture
def served(shared: Served) -> Served:
    """The server, with ada in the space `legal` of the first catalog, ben in `hr` of it, and eve in `legal` of the second."""
    for spaces in (shared.spaces, shared.others):
        for space in spaces.spaces():
            spaces.delete(space.space)
    for spaces, space, user in (
        (shared.spaces, "legal", "ada"),
        (shared.spaces, "hr", "ben"),
        (shared.others, "legal", "eve"),
    ):
        spaces.create(space)
        spaces.open(space)
        spaces.add(space, [user])
    for content in (shared.folder / "first", shared.folder / "second"):
        library = Library(str(content))
        for tenant in (("ada", None), ("ben", None), ("eve", None), (None, "legal"), (None, "hr")):
            library.remove(tenant)
        library.close()
    shared.log.write_text("")
    return shared


def failure(work: Any, *args: Any, **options: Any) -> tuple[Any, ...]:
    """All that an error tells."""
    with pytest.raises(RrextError) as caught:
        work(*args, **options)
    error = caught.value
    return error.code, error.message, error.hint, error.data


def tool(client: Client, name: str, input: Mapping[str, Any] | None = None, **options: Any) -> Any:
    """The result of a tool."""
    return client.tool(tool=name, input=input or {}, **options)


def put(client: Client, name: str, text: str, **context: Any) -> dict[str, Any]:
    with client.pipe(mimetype="text/plain", objinfo={"name": name}, token="main", **context) as pipe:
        pipe.write(text)
    assert pipe.result is not None
    return pipe.result


def names(client: Client, **options: Any) -> list[str]:
    """The names of the documents that a client finds."""
    found = tool(client, "find_by_name", {"pattern": "*"}, token="main", **options)
    return sorted(each["name"] for each in found["documents"])


FORGED = [
    "", " ", "Legal", "LEGAL", "legal ", " legal", "legal\0", "\0legal", "legal\n", "lega1", "\uff4c\uff45\uff47\uff41\uff4c",
    "l\u0435gal", "le\u0301gal", "legal\u200b", "\u202elagel", "..", "../legal", "legal/../legal", "/", "*", "%", "legal'--",
    "' OR '1'='1", "null", "None", "hr", "x" * 200, "\U0001f4a9",
]  # fmt: skip


@pytest.mark.parametrize("space", FORGED, ids=ascii)
def test_a_forged_id_opens_nothing_and_is_answered_like_any_other(space: str, served: Served) -> None:
    with served.client("ada") as client:
        told = failure(tool, client, "peek", token="main", context={"spaceId": space})
        assert told == failure(tool, client, "peek", token="main", context={"spaceId": "nowhere"})
        assert told[0] == "space_not_found"
        assert failure(client.tools, token="main", context={"spaceId": space}) == told
    assert served.seen == []


@pytest.mark.parametrize("space", ["x" * 10_240, "\u00e9" * 10_240, 7, True, ["legal"], {"spaceId": "legal"}, 1.5], ids=repr)
def test_what_is_no_id_is_refused_before_anybody_is_asked(space: Any, served: Served) -> None:
    with served.client("ada") as client:
        assert failure(tool, client, "peek", token="main", context={"spaceId": space})[0] == "invalid_arguments"
        assert failure(client.tools, token="main", context={"spaceId": space})[0] == "invalid_arguments"
        assert tool(client, "peek", token="main", context={"spaceId": "legal"}) == "legal"


def test_half_a_character_is_no_id(served: Served) -> None:
    with served.client("ada") as client:
        told = failure(tool, client, "peek", token="main", context={"spaceId": "\ud800"})
        assert told[0] in ("space_not_found", "invalid_arguments", "usage", "parse_error")
    assert served.seen == []


def test_a_member_works_in_the_space_by_each_way_that_names_it(served: Served) -> None:
    context = {"spaceId": "legal"}
    with served.client("ada") as client:
        put(client, "contract.txt", "the contract", context=context)
        put(client, "diary.txt", "dear diary")
        assert names(client, context=context) == ["contract.txt"]
        assert names(client) == ["contract.txt", "diary.txt"]
        assert "list_sources" in [tool["name"] for tool in client.tools(token="main", context=context)]
        assert "list_sources" not in [tool["name"] for tool in client.tools(token="main")]
    with served.client("ada", context) as client:
        assert names(client) == ["contract.txt"]
        assert tool(client, "peek", token="main", context={}) is None, "the context of a request replaces the connection's"
        assert tool(client, "peek", token="main") == "legal"
    with served.client("ben") as client:
        assert names(client) == []
        assert failure(tool, client, "find_by_name", {"pattern": "*"}, token="main", context=context)[0] == "space_not_found"
    assert {line for line in served.seen if line.startswith("ben")} == set()


@pytest.mark.parametrize("dialect", ["dap", "jsonrpc"])
def test_nobody_names_another_user(dialect: Any, served: Served) -> None:
    with served.client("ben", dialect=dialect) as client:
        for context in ({"userId": "ada"}, {"userId": "ada", "spaceId": "legal"}, {"userId": "", "spaceId": "hr"}):
            assert failure(tool, client, "peek", token="main", context=context)[0] == "invalid_arguments"
        assert tool(client, "peek", token="main", context={"userId": "ben", "spaceId": "hr"}) == "hr"
    assert served.seen == ["ben 'hr'"]


def test_a_space_is_named_by_the_context_alone(served: Served) -> None:
    meta = {"rrext/space": "legal", "spaceId": "legal", "context": {"spaceId": "legal"}}
    with served.client("ben") as client:
        assert tool(client, "peek", token="main", meta=meta) is None
        assert tool(client, "peek", token="main", meta=meta, context={"spaceId": "hr"}) == "hr"
        told = failure(tool, client, "peek", token="main", meta={"rrext/space": "hr"}, context={"spaceId": "legal"})
        assert told[0] == "space_not_found"
        given = {"subcommand": "tool", "tool": "peek", "input": {}, "token": "main", "spaceId": "legal", "space_id": "legal"}
        assert client.request("rrext_process", given)["result"] is None
    assert served.seen == ["ben None", "ben 'hr'", "ben None"]


def test_a_member_of_another_catalog_is_none_of_this_one(served: Served) -> None:
    context = {"spaceId": "legal"}
    with served.client("eve") as client:
        assert tool(client, "peek", token="other", context=context) == "legal"
        assert failure(tool, client, "peek", token="main", context=context)[0] == "space_not_found"
        assert failure(tool, client, "peek", token="plain", context=context)[0] == "invalid_arguments"
        assert failure(tool, client, "elsewhere", {"token": "main"}, token="other", context=context)[0] == "space_not_found"
        assert failure(tool, client, "elsewhere", {"token": "plain"}, token="other", context=context)[0] == "invalid_arguments"
        assert tool(client, "elsewhere", {"token": "plain"}, token="other")["name"]
    with served.client("ada") as client:
        assert failure(tool, client, "peek", token="other", context=context)[0] == "space_not_found"
    assert served.seen == ["eve 'legal'", *["eve None"] * 3], "an object without a claim is nobody's in any space"


def test_references_and_call_refs_are_no_way_around(served: Served) -> None:
    context = {"spaceId": "legal"}
    node = [{"type": "node", "node": "spy_1", "tool": "peek"}]
    with served.client("ben") as client:
        (custom,) = client.request("rrext_tools_resolve", {"tools": node, "token": "main"})["custom"]
        for name, arguments in (
            ("rrext_tools_resolve", {"tools": node, "token": "main"}),
            ("rrext_tools_call", {"call_ref": custom["call_ref"], "arguments": {}}),
            ("rrext_tools_call", {"name": "peek", "arguments": {}, "token": "main"}),
        ):
            assert failure(client.request, name, {**arguments, "context": context})[0] == "space_not_found"
    with served.client("ada") as client:
        (custom,) = client.request("rrext_tools_resolve", {"tools": node, "token": "main", "context": context})["custom"]
        called = client.request("rrext_tools_call", {"call_ref": custom["call_ref"], "arguments": {}, "context": context})
        assert called["result"] == "legal"
    assert served.seen == ["ada 'legal'"]


def test_who_is_removed_meanwhile_is_refused_at_the_next_call_also_on_an_open_pipe(served: Served) -> None:
    context = {"spaceId": "legal"}
    for way in ("write", "close", "tool"):
        with served.client("ada") as client:
            pipe = client.request(
                "rrext_process",
                {"subcommand": "open", "token": "main", "mimeType": "text/plain", "object": {"name": way}, "context": context},
            )["pipe_id"]
            client.request("rrext_process", {"subcommand": "write", "pipe_id": pipe, "data": "half of it"})
            served.spaces.remove("legal", ["ada"])
            on_pipe = {"write": {"data": "x"}, "close": {}, "tool": {"tool": "peek", "input": {}}}[way]
            asked = {"subcommand": way, "pipe_id": pipe, **on_pipe}
            assert failure(client.request, "rrext_process", asked)[0] == "space_not_found"
            assert failure(tool, client, "peek", token="main", context=context)[0] == "space_not_found"
            served.spaces.add("legal", ["ada"])
            told = failure(client.request, "rrext_process", {"subcommand": "close", "pipe_id": pipe})
            assert told[0] == "pipe_not_open", "the object is gone, with what was half of it"
            assert names(client, context=context) == []


def test_a_space_of_the_same_name_has_nothing_of_the_one_before(served: Served) -> None:
    context = {"spaceId": "legal"}
    with served.client("ada") as client:
        put(client, "contract.txt", "the contract", context=context)
        assert names(client, context=context) == ["contract.txt"]
        served.spaces.begin_delete("legal")
        assert failure(tool, client, "find_by_name", {"pattern": "*"}, token="main", context=context)[0] == "space_not_found"
        assert names(client) == []
        library = Library(str(served.folder / "first"))
        assert library.remove(content_tenant(None, "legal"))
        library.close()
        served.spaces.delete("legal")
        served.spaces.create("legal")
        served.spaces.open("legal")
        assert failure(tool, client, "peek", token="main", context=context)[0] == "space_not_found"
        served.spaces.add("legal", ["ada", "ben"])
        assert names(client, context=context) == []
        put(client, "new.txt", "new", context=context)
    with served.client("ben") as client:
        assert names(client, context=context) == ["new.txt"]


def test_members_that_change_while_many_call_are_seen_by_each_call_that_begins_after_it(served: Served) -> None:
    context = {"spaceId": "legal"}
    stop = threading.Event()

    def call() -> set[Any]:
        told: set[Any] = set()
        with served.client("ada") as client:
            while not stop.is_set():
                try:
                    told.add(tool(client, "peek", token="main", context=context))
                except RrextError as error:
                    told.add(error.code)
        return told

    with ThreadPoolExecutor(2) as threads, served.client("ada") as client:
        calling = [threads.submit(call) for _ in range(2)]
        try:
            for _ in range(30):
                served.spaces.remove("legal", ["ada"])
                assert failure(tool, client, "peek", token="main", context=context)[0] == "space_not_found"
                served.spaces.add("legal", ["ada"])
                assert tool(client, "peek", token="main", context=context) == "legal"
        finally:
            stop.set()
        assert set().union(*(each.result() for each in calling)) <= {"legal", "space_not_found"}


def test_commands_at_a_server_name_a_space_for_the_user_of_their_key(served: Served) -> None:
    def peek(user: str, *options: str) -> str:
        command = [sys.executable, "-m", "rrext", "tool", "--at", served.url, "--token", "main", "peek", *options]
        done = subprocess.run(command, env={**os.environ, "ROCKETRIDE_APIKEY": KEYS[user]}, capture_output=True, text=True)
        return done.stdout.strip() or done.stderr

    assert peek("ada", "--space", "legal") == '"legal"'
    assert peek("ada", "--space", "legal", "--user", "ada") == '"legal"'
    assert "[space_not_found]" in peek("ben", "--space", "legal")
    assert "[invalid_arguments]" in peek("ben", "--user", "ada", "--space", "legal")
    assert served.seen == ["ada 'legal'"] * 2


def test_who_signs_on_anew_keeps_no_space_of_the_user_before(served: Served) -> None:
    with served.client("ada", {"spaceId": "legal"}) as client:
        assert tool(client, "peek", token="main") == "legal"
        client.request("auth", {"auth": KEYS["ben"]})
        assert tool(client, "peek", token="main") is None
    assert served.seen == ["ada 'legal'", "ben None"]


def test_a_damaged_list_lets_nobody_in(served: Served) -> None:
    file, backup = served.folder / "second" / "spaces.sqlite", served.folder / "backup.sqlite"
    served.others.close()
    with closing(sqlite3.connect(file)) as rows, closing(sqlite3.connect(backup)) as copy:
        rows.backup(copy)
    with served.client("eve") as client:
        assert tool(client, "peek", token="other", context={"spaceId": "legal"}) == "legal"
        file.unlink()
        file.write_bytes(b"no database at all" * 500)
        code, message, _, _ = failure(tool, client, "peek", token="other", context={"spaceId": "legal"})
        assert (code, str(served.folder) in message) == ("store_failed", False)
        file.unlink()
        for rest in ("-wal", "-shm"):
            file.with_name(file.name + rest).unlink(missing_ok=True)
        assert failure(tool, client, "peek", token="other", context={"spaceId": "legal"})[0] == "space_not_found"
        backup.rename(file)
        assert tool(client, "peek", token="other", context={"spaceId": "legal"}) == "legal", "from a backup"
