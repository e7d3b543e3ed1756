"""Requests good and bad, in an order that makes sense on one fresh connection, and what becomes of each."""

from __future__ import annotations

from typing import Any

import msgspec
from face import Face

from rrext.errors import RrextError

__all__ = ["ROWS", "Row", "told"]


class Row(msgspec.Struct, frozen=True):
    """One request, and the code of its error; None if it succeeds. A session's own commands are none of the engine's."""

    name: str
    command: str
    arguments: dict[str, Any]
    code: str | None = None
    tail: bytes | None = None
    of_session: bool = False


def tool(name: str, tool: Any, input: Any = None, code: str | None = None, /, **more: Any) -> Row:
    arguments = {"subcommand": "tool", "tool": tool, "input": input, **more}
    return Row(name, "rrext_process", {key: value for key, value in arguments.items() if value is not None}, code)


def pipe(name: str, subcommand: str, code: str | None = None, /, tail: bytes | None = None, **more: Any) -> Row:
    return Row(name, "rrext_process", {"subcommand": subcommand, **more}, code, tail)


def ask(name: str, command: str, code: str | None = None, /, **arguments: Any) -> Row:
    return Row(name, command, arguments, code)


def own(name: str, command: str, code: str | None = None, tail: bytes | None = None, /, **arguments: Any) -> Row:
    return Row(name, command, arguments, code, tail, of_session=True)


def store(name: str, subcommand: str, code: str | None = None, /, tail: bytes | None = None, **more: Any) -> Row:
    return Row(name, "rrext_store", {"subcommand": f"fs_{subcommand}", **more}, code, tail)


WEBHOOK = {"id": "webhook_1", "provider": "webhook", "config": {"mode": "Source", "type": "webhook"}}
SECOND = {
    "components": [
        WEBHOOK,
        {"id": "meter_1", "provider": "meter", "config": {}, "input": [{"lane": "text", "from": "webhook_1"}]},
        {"id": "out_1", "provider": "response_text", "config": {}, "input": [{"lane": "text", "from": "meter_1"}]},
    ],
    "source": "webhook_1",
    "project_id": "second-project",
}
TOOLS = {"components": [{"id": "tools_1", "provider": "tools", "config": {}}], "source": "tools_1", "project_id": "no-objects"}
DEPLOYMENTS = ("deploy", *(f"deploy_{name}" for name in ("add", "list", "status", "update", "remove", "pipe", "app")))
WRONG = {
    "components": [
        WEBHOOK,
        {"id": "meter_1", "provider": "metre", "config": {}, "input": [{"lane": "txt", "from": "webhook_1"}]},
        {"id": "out_1", "provider": "response_text", "config": {"laneNam": "x"}, "input": [{"lane": "text", "from": "meter"}]},
    ]
}
MANY = {"text": "äöü €𝄞\u0000\n", "numbers": [0, -1, 2**53, 2**64, 1.5, 1e300], "nested": [[[{}]]], "none": None, "t": True}

GOOD_CALLS = [
    tool("a sync tool", "add", {"a": 1, "b": 2}),
    tool("an async tool", "add_async", {"a": 1, "b": 2}),
    tool("a tool by node", "add", {"a": 1}, nodeId="probe_1"),
    tool("an empty node id is none", "add", {"a": 1}, nodeId=""),
    tool("spaces around names", " add ", {"a": 1}, nodeId=" probe_1 "),
    tool("no input is an empty one", "nothing"),
    tool("null is what is left out", "add", {"a": 1, "b": None}),
    tool("an integral number is an integer", "add", {"a": 1.0, "b": 2e2}),
    tool("any JSON comes back as it is", "echo", {"value": MANY}),
    tool("bytes come back as bytes", "blob", {"data": "AP8Qc3Vu"}),
    tool("no bytes come back as no bytes", "blob", {"data": ""}),
    tool("bytes inside of JSON are base64", "boxed_blob", {"data": "AP8Qc3Vu"}),
    tool("a generator is a list", "count", {"to": 3}),
    tool("an async generator is a list", "count_async", {"to": 3}),
    tool("a generator that returns has both", "count_and_sum", {"to": 3}),
    tool("a result that fits its schema", "broken_promise", {"keep": True}),
    tool(
        "the types that arrive", "typed", {"name": "x", "count": 2.0, "share": 1, "tags": [], "box": {"a": 1}, "pair": [1, "a"]}
    ),
    tool("context and meta", "who", _meta={"traceparent": "00-1", "x": [1]}, context={"userId": "ada", "spaceId": "s"}),
    tool("a tool for one user", "for_ada", context={"userId": "ada"}),
    tool("a timeout that is kept", "add", {"a": 1}, timeout=3600),
    tool("a question to a user whom nobody can ask", "ask_user", {"params": {"message": "?"}}, "unavailable"),
    tool("unknown arguments are ignored", "add", {"a": 1}, fromTheFuture=True),
    tool(
        "nested calls", "ask", {"node": "nest_1", "tool": "ask_async", "input": {"node": "", "tool": "add", "input": {"a": 1}}}
    ),
]

BAD_CALLS = [
    tool("no tool", None, None, "invalid_arguments"),
    tool("an empty tool", " ", None, "invalid_arguments"),
    tool("a tool that is no text", 7, None, "invalid_arguments"),
    tool("a tool almost right", "ad", {"a": 1}, "tool_not_found"),
    tool("a tool that nobody knows", "zzzzzz", None, "tool_not_found"),
    tool("a tool of another node", "measured", None, "tool_not_found", nodeId="probe_1"),
    tool("a tool of the source", "add", {"a": 1}, "tool_not_found", nodeId="webhook_1"),
    tool("a node almost right", "add", {"a": 1}, "node_not_found", nodeId="prob_1"),
    tool("a node that nobody knows", "add", {"a": 1}, "node_not_found", nodeId="zzzzzz"),
    tool("input that is a list", "add", [1], "invalid_arguments"),
    tool("input that lacks something", "add", {}, "invalid_arguments"),
    tool("input that has too much", "add", {"a": 1, "c": 2}, "invalid_arguments"),
    tool("input almost right", "add", {"A": 1}, "invalid_arguments"),
    tool(
        "input of several wrong types",
        "typed",
        {"name": 1, "count": "2", "flag": 0, "tags": [1], "pair": [1]},
        "invalid_arguments",
    ),
    tool("true is no integer", "add", {"a": True}, "invalid_arguments"),
    tool("a text is no integer", "add", {"a": "1"}, "invalid_arguments"),
    tool("a half is no integer", "add", {"a": 1.5}, "invalid_arguments"),
    tool("bytes that are no base64", "blob", {"data": "AP8Qc3V"}, "invalid_arguments"),
    tool("a pipe that was never opened", "measured", None, "pipe_not_open", pipe_id=77),
    tool("a pipe id that is text", "measured", None, "invalid_arguments", pipe_id="1"),
    tool("a token that nobody has", "add", {"a": 1}, "TASK_NOT_REGISTERED", token="nobody"),
    tool("a token almost right", "add", {"a": 1}, "TASK_NOT_REGISTERED", token="fase"),
    tool("a context that is no object", "who", None, "invalid_arguments", context="ada"),
    tool("a context misspelt", "who", None, "invalid_arguments", context={"user_id": "ada"}),
    tool("an argument misspelt", "add", {"a": 1}, "invalid_arguments", node_id="probe_1"),
    tool("an argument of another case", "add", {"a": 1}, "invalid_arguments", NodeId="probe_1"),
    tool("progress that is no boolean", "add", {"a": 1}, "invalid_arguments", progress="yes"),
    *(tool(f"a timeout of {t!r}", "add", {"a": 1}, "invalid_arguments", timeout=t) for t in (0, -1, 3600.5, "30", True)),
    ask("no subcommand", "rrext_process", "invalid_arguments"),
    ask("a subcommand almost right", "rrext_process", "unknown_command", subcommand="tol"),
    ask("a subcommand that is no text", "rrext_process", "invalid_arguments", subcommand=1),
    ask("a command almost right", "rrext_proces", "unknown_command"),
    ask("a command that nobody knows", "zzzzzz", "unknown_command"),
    ask("a subcommand is no command", "open", "unknown_command"),
]

FAILURES = [
    tool("a failure in the author's words", "refuse", None, "sold_out"),
    tool("a failure by accident", "crash", None, "tool_failed"),
    tool("a failure on the loop", "crash_async", None, "tool_failed"),
    tool("a tool that would end the process", "leave", None, "tool_failed"),
    tool("a tool that cancels itself", "give_up", None, "tool_failed"),
    tool("a StopIteration", "stop_iteration", None, "tool_failed"),
    tool("an exception without text", "mute", None, "tool_failed"),
    tool("a result that breaks its schema", "broken_promise", {"keep": False}, "tool_failed"),
    tool("a chunk that is no JSON", "bad_chunk", {"kind": "nan"}, "tool_failed"),
    tool("a failure after chunks", "count_and_fail", {"to": 3}, "no_more"),
    *(tool(f"a result with {k}", "bad", {"kind": k}, "tool_failed") for k in ("nan", "object", "surrogate", "key", "cycle")),
    tool("a result that is too large", "large", {"size": 17 * 2**20}, "result_too_large"),
    tool("a tool for somebody else", "for_ada", None, "unavailable", context={"userId": "bob"}),
    tool("a tool for somebody else, by node", "for_ada", None, "unavailable", nodeId="probe_1"),
    tool("a tool with a broken predicate", "for_nobody", None, "unavailable"),
    tool("nesting without end", "sink", {"depth": 9}, "tool_failed"),
    tool("a nested failure", "ask", {"node": "", "tool": "refuse"}, "sold_out"),
    tool("nested input that does not fit", "ask", {"node": "", "tool": "add", "input": {}}, "tool_failed"),
    tool("a nested tool that nobody knows", "ask", {"node": "", "tool": "ad"}, "tool_failed"),
]

LISTS = [
    ask("all tools", "tools"),
    ask("all tools, by the other name", "rrext_process", subcommand="tools"),
    ask("the tools of a node", "tools", nodeId="meter_1"),
    ask("the tools of one name", "tools", tool="add"),
    ask("the tools of a name that is misspelt", "rrext_process", "tool_not_found", subcommand="tools", tool="ad"),
    ask("the tools of the source", "tools", nodeId="webhook_1"),
    ask("the tools of a user", "tools", context={"userId": "bob"}),
    ask("the tools for a model", "tools", format="openai-strict"),
    ask("the tools for a host", "rrext_process", subcommand="tools", format="mcp", nodeId="meter_1"),
    ask("the tools in no format that is known", "tools", "invalid_arguments", format="opena"),
    ask("the tools of nobody's node", "tools", "node_not_found", nodeId="metr_1"),
    ask("the stores of a pipeline without any", "rrext_process", "invalid_arguments", subcommand="stores"),
    ask("a service", "rrext_services", service="meter"),
    ask("a service almost right", "rrext_services", "provider_not_found", service="metre"),
]

REFERENCES = [
    ask(
        "references that are resolved",
        "rrext_tools_resolve",
        tools=[
            "add",
            {"type": "node", "node": "probe_1", "tool": "add_async"},
            {"type": "node", "node": "probe_1", "tool": "add", "name": "plus_one", "arguments": {"b": 1}, "permission": "ask"},
        ],
    ),
    ask("no references", "rrext_tools_resolve", tools=[]),
    ask("references that are wrong", "rrext_tools_resolve", "invalid_arguments", tools=["ad", {"type": "nod"}, 7]),
    ask("a reference to no tool", "rrext_tools_resolve", "tool_not_found", tools=["ad"]),
    ask("no list of references", "rrext_tools_resolve", "invalid_arguments", tools={}),
    ask("a call by call ref", "rrext_tools_call", call_ref="tools.node.probe_1.add_async.self", arguments={"a": 1, "b": 2}),
    ask("a call by function name", "rrext_tools_call", name="tools__node__probe_1__add__self", arguments='{"a": 1}'),
    ask("a call by name", "rrext_tools_call", name="add", arguments={"a": 1}),
    ask("a call with wrong arguments", "rrext_tools_call", "invalid_arguments", name="add", arguments={"a": "1"}),
    ask("a call that nobody permits", "rrext_tools_call", "unavailable", name="plus_one", arguments={"a": 1}),
    ask("a call of two tools", "rrext_tools_call", "invalid_arguments", name="add", call_ref="tools.node.a.b.self"),
    ask("a call of no tool", "rrext_tools_call", "invalid_arguments"),
    ask("a call ref of no tool", "rrext_tools_call", "tool_not_found", call_ref="tools.node.probe_1.ad.self"),
    ask("a call ref that is none", "rrext_tools_call", "tool_not_found", call_ref="add"),
    ask("a connection that nobody has", "rrext_tools_call", "connection_unknown", call_ref="tools.mcp.x.y.default"),
]

PIPES = [
    pipe("a pipe", "open", object={"name": "a.txt", "path": "/x", "size": 3, "metadata": {"k": 1}}, mimeType="text/plain"),
    pipe("text", "write", pipe_id=1, data="hel"),
    pipe("base64", "write", pipe_id=1, data_base64="bG8="),
    pipe("a raw tail", "write", pipe_id=1, tail="wörld".encode()),
    pipe("nothing at all", "write", pipe_id=1, data=""),
    pipe("no data", "write", "invalid_arguments", pipe_id=1),
    pipe("data twice", "write", "invalid_arguments", pipe_id=1, data="x", data_base64="bG8="),
    pipe("data and a tail", "write", "invalid_arguments", pipe_id=1, data="x", tail=b"x"),
    pipe("data that is no text", "write", "invalid_arguments", pipe_id=1, data=1),
    pipe("bad base64", "write", "invalid_arguments", pipe_id=1, data_base64="bG8"),
    tool("a tool on a pipe", "who", pipe_id=1),
    tool("a tool of a node on a pipe", "measured", nodeId="meter_1", pipe_id=1),
    pipe("the end", "close", pipe_id=1),
    pipe("the end again", "close", "pipe_not_open", pipe_id=1),
    pipe("after the end", "write", "pipe_not_open", pipe_id=1, data="x"),
    pipe("a write without pipe", "write", "invalid_arguments", data="x"),
    pipe("an object that fails", "open", object={"name": "b.txt"}, mimeType="text/plain"),
    pipe("what is good", "write", pipe_id=2, data="good"),
    pipe("what fails", "write", "tool_failed", pipe_id=2, data="fail:"),
    pipe("what comes after", "write", "pipe_failed", pipe_id=2, data="more"),
    tool("a tool on a failed pipe", "measured", None, "pipe_failed", pipe_id=2),
    pipe("the end of what failed", "close", pipe_id=2),
    pipe("an accident", "open", object={"name": "c.txt"}, mimeType="lane/text"),
    pipe("the accident", "write", "tool_failed", pipe_id=3, data="crash:"),
    pipe("its end", "close", pipe_id=3),
    pipe("a result that is no JSON", "open", object={"name": "d.txt"}, mimeType="text/plain"),
    pipe("what spoils it", "write", pipe_id=4, data="spoil:"),
    pipe("the end of what is no JSON", "close", pipe_id=4),
    pipe("not welcome", "open", "unwelcome", object={"name": "unwelcome"}),
    pipe("raw bytes", "open", object={"name": "e.bin"}),
    pipe("many of them", "write", pipe_id=6, tail=bytes(range(256)) * 100),
    pipe("what was counted", "close", pipe_id=6),
    pipe("an image", "open", object={"name": "f.png"}, mimeType="image/png"),
    pipe("an image is no text", "write", "invalid_arguments", pipe_id=7, data="text"),
    pipe("the end of no image", "close", pipe_id=7),
    pipe("json", "open", object={"name": "g.json"}, mimeType="application/json"),
    pipe("one value", "write", pipe_id=8, data='{"b": 1, "a": 2}'),
    pipe("half a value", "write", "invalid_arguments", pipe_id=8, data='{"b": 1'),
    pipe("the end of half a value", "close", pipe_id=8),
    pipe("text that is not UTF-8", "open", object={"name": "h.txt"}, mimeType="text/plain"),
    pipe("the first half of a character", "write", pipe_id=9, tail=b"\xc3"),
    pipe("not the second half", "write", "invalid_arguments", pipe_id=9, tail=b"\xff"),
    pipe("its end, too", "close", pipe_id=9),
    pipe("no MIME type", "open", "invalid_arguments", mimeType="text"),
    pipe("a lane almost right", "open", "invalid_arguments", mimeType="lane/txt"),
    pipe("a lane that nobody listens to", "open", object={"name": "i"}, mimeType="lane/table"),
    pipe("another source", "open", "invalid_arguments", provider="chat"),
    pipe("an object that is none", "open", "invalid_arguments", object="a.txt"),
    pipe("a name that is none", "open", "invalid_arguments", object={"name": 1}),
    pipe("a question for who takes none", "open", "invalid_arguments", mimeType="application/rocketride-question"),
    tool("a tool with a pipe that is gone", "measured", None, "pipe_not_open", pipe_id=2),
]

TASKS = [
    ask("a pipeline", "execute", pipeline=SECOND, token="second", threads=2, name="the second"),
    ask("the same token", "execute", "TASK_ALREADY_RUNNING", pipeline=SECOND, token="second"),
    ask("the same token, joined", "execute", pipeline=SECOND, token="second", useExisting=True),
    ask("the same project", "execute", "TASK_ALREADY_RUNNING", pipeline=SECOND),
    ask("the same project, joined", "execute", pipeline=SECOND, useExisting=True),
    tool("no token, and two pipelines", "add", {"a": 1}, "TASK_AMBIGUOUS"),
    ask("no token, and two pipelines to list", "tools", "TASK_AMBIGUOUS"),
    pipe("no token, and two pipelines to open", "open", "TASK_AMBIGUOUS"),
    tool("a token of several", "add", {"a": 1}, token="face"),
    ask("all pipelines", "rrext_get_tasks"),
    ask("how one of them is", "rrext_get_task_status", token="second"),
    ask("how nobody is", "rrext_get_task_status", "TASK_NOT_REGISTERED", token="secnd"),
    ask("a monitor that tells nothing", "rrext_monitor", token="second", types=["dashboard"]),
    ask("a monitor of the name of an event", "rrext_monitor", token="second", types=["apaevt_status_upload"]),
    ask("a monitor with a name that nobody knows", "rrext_monitor", token="second", types=["SSE", "apaevt_sese"]),
    ask("a monitor of bits as text", "rrext_monitor", token="second", types="64"),
    ask("a monitor of nobody", "rrext_monitor", "TASK_NOT_REGISTERED", token="secnd", types=["SUMMARY"]),
    ask("a monitor of no events", "rrext_monitor", "invalid_arguments", token="*", types=["SUMARY"]),
    ask("a monitor of half a target", "rrext_monitor", "invalid_arguments", projectId="p", types=["SUMMARY"]),
    ask("the end of the monitor", "rrext_monitor", token="second", types=[]),
    ask("the end of one", "terminate", token="second"),
    ask("its end again", "terminate", token="second"),
    ask("how it ended", "rrext_get_task_status", token="second"),
    ask("the end of nobody", "terminate", "TASK_NOT_REGISTERED", token="secnd"),
    ask("no components", "execute", "invalid_pipeline", pipeline={"components": []}),
    ask("all kinds of problems", "execute", "invalid_pipeline", pipeline=WRONG),
    ask("no pipeline", "execute", "invalid_arguments"),
    ask("a pipeline that is a number", "execute", "invalid_arguments", pipeline=7),
    ask("no threads", "execute", "invalid_arguments", pipeline=SECOND, threads=0),
    ask("too many threads", "execute", pipeline=SECOND, threads=65, token="third"),
    ask("the token of a project", "rrext_get_token", projectId="second-project", source="webhook_1"),
    ask("the token of nobody", "rrext_get_token", "TASK_NOT_REGISTERED", projectId="nobody", source="webhook_1"),
    ask("the pipeline of a task", "rrext_get_pipeline", token="third"),
    ask("the outline of a task", "rrext_get_pipeline", token="third", outline=True),
    ask("the pipeline of nobody", "rrext_get_pipeline", "TASK_NOT_REGISTERED", token="thrd"),
    ask("a new beginning", "restart", token=None, projectId="second-project", source="webhook_1", pipeline=SECOND),
    ask("a wrong new beginning", "restart", "invalid_pipeline", token="third", pipeline=WRONG),
    ask("the end of what began again", "terminate", token="third"),
    ask("a pipeline of tools", "execute", pipeline=TOOLS, token="tools"),
    pipe("a chat with tools", "open", "invalid_arguments", token="tools", provider="chat"),
    pipe("a question to tools", "open", "invalid_arguments", token="tools", mimeType="application/rocketride-question"),
    ask("the end of the tools", "terminate", token="tools"),
    *(ask(f"no {name}", f"rrext_{name}", "unavailable") for name in DEPLOYMENTS),
    ask("all tasks, a page of them", "rrext_list_tasks", page=1, page_size=1, filters={"projectId": "second-project"}),
    ask("a page of no task", "rrext_list_tasks", "invalid_arguments", filters={"ttl__gte": "x"}),
    ask("connections that nobody has", "rrext_list_connections", search="no such connection"),
    ask("the server", "rrext_dashboard"),
    ask("no profile yet", "rrext_cprofile_report"),
    ask("the log of a source", "rrext_log", subcommand="chapters", projectId="second-project", source="webhook_1"),
    ask("a page of no log", "rrext_log", subcommand="read", projectId="second-project", source="webhook_1"),
    ask("a segment of no log", "rrext_log", subcommand="segment", projectId="p", source="s", segment=1),
    ask("no logs", "rrext_log", subcommand="streams", projectId="p", source="s"),
    ask("the end of no log", "rrext_log", subcommand="delete", projectId="p", source="s", all=True),
    ask("the end of nothing", "rrext_log", "invalid_arguments", subcommand="delete", projectId="p", source="s"),
    ask("a log that is not named", "rrext_log", "invalid_arguments", subcommand="read"),
    ask("a log of a wrong word", "rrext_log", "unknown_command", subcommand="reed"),
    ask("no tree of a profile", "rrext_cprofile_report_tree"),
    ask("no threads of a profile", "rrext_cprofile_threads"),
    ask("no session to end", "rrext_cprofile_stop"),
    ask("whether a session runs", "rrext_cprofile_status"),
    ask("a session of nobody", "rrext_cprofile_start", "TASK_NOT_REGISTERED", target="nobody"),
    ask("settings as a node gets them", "rrext_resolve_config", provider="response_text", config={"laneName": "x"}),
    ask("settings of no node", "rrext_resolve_config", "provider_not_found", provider="respnse_text"),
    ask("a life that is over", "execute", "invalid_arguments", pipeline=SECOND, ttl=-1),
    ask("a token that is empty", "execute", "invalid_arguments", pipeline=SECOND, token=""),
    ask("a source that is not there", "execute", "invalid_pipeline", pipeline=SECOND, source="webhok_1"),
    ask("a look at a good one", "rrext_validate", pipeline=SECOND),
    ask("a look at a bad one", "rrext_validate", pipeline=WRONG),
    ask("a look at a text", "rrext_validate", pipeline='{\n  "components": [{"id": "a", "provider": "metre",}], // comma\n}'),
    ask("a look at nothing", "rrext_validate", "invalid_arguments"),
]

STORE = [
    store("a file to write", "open", path="notes/a.txt", mode="w"),
    store("its text", "write", handle="h1", data="hel"),
    store("its base64", "write", handle="h1", data_base64="bG8="),
    store("its bytes", "write", handle="h1", tail=b"\0\n\xff"),
    store("the end of the file", "close", handle="h1", mode="w"),
    store("the end of what has ended", "close", "handle_not_open", handle="h1"),
    store("the file to read", "open", path="notes/a.txt"),
    store("all of it", "read", handle="h2"),
    store("a part of it", "read", handle="h2", offset=1, length=2),
    store("what is behind it", "read", handle="h2", offset=8),
    store("a part before it", "read", "invalid_arguments", handle="h2", offset=-1),
    store("a write to what is read", "write", "invalid_arguments", handle="h2", data="x"),
    store("a write of nothing", "write", "invalid_arguments", handle="h2"),
    store("the end of reading", "close", handle="h2"),
    store("a file that nobody has", "open", "path_not_found", path="b.txt"),
    store("a mode that nobody knows", "open", "invalid_arguments", path="b.txt", mode="a"),
    store("a file as a folder", "open", "not_a_directory", path="notes/a.txt/b", mode="w"),
    store("a folder as a file", "open", "not_a_file", path="notes", mode="w"),
    store("a way out", "open", "path_outside_root", path="../a", mode="w"),
    store("a path from the root", "stat", "path_outside_root", path="/etc/passwd"),
    store("how a file is", "stat", path="notes/a.txt"),
    store("how a folder is", "stat", path="notes"),
    store("how nothing is", "stat", path="no/where"),
    store("the names", "list_dir", path="notes"),
    store("the names of all", "list_dir"),
    store("the names of nothing", "list_dir", "path_not_found", path="no"),
    store("several files", "read_many", paths=["notes/a.txt", "no", "notes", "../x"]),
    store("too many files", "read_many", "invalid_arguments", paths=["a"] * 257),
    store("a folder", "mkdir", path="x/y/z"),
    store("the folder again", "mkdir", path="x/y/z"),
    store("a folder that is not empty", "rmdir", "directory_not_empty", path="x"),
    store("all that is in a folder", "rmdir", path="x", recursive=True),
    store("a folder that is gone", "rmdir", "path_not_found", path="x"),
    store("everything", "rmdir", "path_invalid", path="", recursive=True),
    store("a file gets another name", "rename", old_path="notes/a.txt", new_path="c/d.txt"),
    store("a name that is taken", "rename", "path_exists", old_path="notes", new_path="c"),
    store("a folder into itself", "rename", "path_invalid", old_path="c", new_path="c/e"),
    store("the end of a file", "delete", path="c/d.txt"),
    store("its end twice", "delete", "path_not_found", path="c/d.txt"),
    store("a link", "geturl", "unavailable", path="a"),
    ask("a store without subcommand", "rrext_store", "invalid_arguments"),
    ask("a store almost right", "rrext_store", "unknown_command", subcommand="fs_opne"),
    ask("the store of another user", "rrext_store", subcommand="fs_list_dir", context={"userId": "../ada"}),
]

OWN = [
    own("a sign of life", "rrext_ping"),
    own("what anybody may know", "rrext_public_probe"),
    own("another name", "rrext_identify", clientName="the one of the table"),
    own("another name that is none", "rrext_identify", "invalid_arguments"),
    own("a second introduction", "initialize", "invalid_request"),
    own("a cancel of nothing", "cancel", requestId=12345),
    own("a permit that nobody waits for", "rrext_permit", permission=12345, allow=True),
    own("a permit that is no boolean", "rrext_permit", "invalid_arguments", permission=1, allow="yes"),
    own("an answer that nobody waits for", "rrext_answer", question=12345, action="accept", content={}),
    own("an answer without an action", "rrext_answer", "invalid_arguments", question=1, content={}),
    own("a cancel without id", "cancel", "invalid_arguments"),
    own("a cancel of a boolean", "cancel", "invalid_arguments", requestId=True),
    own("a tail for a tool", "rrext_process", "invalid_arguments", b"tail", subcommand="tool", tool="nothing"),
    own("a tail for a look at a file", "rrext_store", "invalid_arguments", b"tail", subcommand="fs_stat", path="a"),
    own("a tail for a ping", "rrext_ping", "invalid_arguments", b"tail"),
]

ROWS = [*GOOD_CALLS, *BAD_CALLS, *FAILURES, *LISTS, *REFERENCES, *PIPES, *TASKS, *STORE, *OWN]

CLOCKED = {"publicToken", "startTime", "modified", "endTime", "metrics", "elapsedTime", "idleTime", "rateCount", "rateSize"}
"""Members whose value depends on the time of the request; rates are those of the last seconds."""
VOLATILE = CLOCKED | {"overview", "connections"}
"""Members whose value is another one each time."""


def comparable(value: Any) -> Any:
    """Without what is another each time; bytes and tuples as JSON has them."""
    if isinstance(value, dict):
        return {key: "…" if key in VOLATILE else comparable(item) for key, item in value.items()}
    return [comparable(item) for item in value] if isinstance(value, list | tuple) else value


async def told(face: Face, row: Row) -> Any:
    """The answer as data."""
    try:
        body = await face.request(row.command, row.arguments, row.tail)
    except RrextError as error:
        return {"code": error.code, "message": error.message, "hint": error.hint, "data": comparable(error.data)}
    return {"code": None, "body": comparable(body)}
