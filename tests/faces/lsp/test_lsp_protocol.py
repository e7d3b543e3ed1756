"""Each request is answered once, nothing else is, and nothing that a client says keeps the next request from its answer."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from faces.lsp.editors import URI, Editor
from lsprotocol import types

from rrext.errors import NodeNotFound

BROKEN = '{"components": [{"id": "in", "provider": "webhok", "config": {}}]}'
PARSE, REQUEST, METHOD, PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
NOT_INITIALIZED, CANCELLED = -32002, -32800


def answers_to(editor: Editor, request_id: Any) -> list[dict[str, Any]]:
    return [message for message in editor.messages if "method" not in message and message["id"] == request_id]


async def settle(editor: Editor) -> None:
    """Wait until everything is answered."""
    await editor.server.protocol.idle()
    await asyncio.sleep(0)


async def assert_works(editor: Editor) -> None:
    """A document that is opened now is looked at."""
    uri = "file:///project/afterwards.pipe"
    editor.open(BROKEN, uri)
    assert (await editor.diagnostics(uri))[0]["code"] == "unknown_provider"


@pytest.fixture
async def editor() -> Editor:
    editor = Editor()
    await editor.start()
    return editor


# the order of things


async def test_before_initialize_every_request_is_refused_and_every_notification_ignored() -> None:
    editor = Editor()
    editor.open(BROKEN)
    assert (await editor.failure("textDocument/hover", {}))["code"] == NOT_INITIALIZED
    assert (await editor.failure("shutdown"))["code"] == NOT_INITIALIZED
    await editor.start()
    await assert_works(editor)
    assert editor.server.documents.find(URI) is None


async def test_a_second_initialize_is_refused_and_changes_nothing(editor: Editor) -> None:
    again = {"capabilities": {}, "initializationOptions": {"trusted": True}}
    assert (await editor.failure("initialize", again))["code"] == REQUEST
    assert not editor.server.options.trusted
    await assert_works(editor)


@pytest.mark.parametrize("params", [None, [], "x", 5])
async def test_an_initialize_that_cannot_be_read_may_be_repeated(params: Any) -> None:
    editor = Editor()
    assert (await editor.failure("initialize", params))["code"] == PARAMS
    await editor.start()
    await assert_works(editor)


async def test_after_shutdown_every_request_is_refused_and_exit_is_a_success(editor: Editor) -> None:
    codes: list[int] = []
    editor.server.protocol.on_exit = codes.append
    assert await editor.request("shutdown") is None
    assert (await editor.failure("textDocument/hover", {}))["code"] == REQUEST
    assert (await editor.failure("shutdown"))["code"] == REQUEST
    editor.notify("exit")
    assert codes == [0]


@pytest.mark.parametrize("started", [True, False])
async def test_exit_without_shutdown_is_a_failure(started: bool) -> None:
    editor, codes = Editor(), list[int]()
    editor.server.protocol.on_exit = codes.append
    if started:
        await editor.start()
    editor.notify("exit")
    assert codes == [1]


async def test_shutdown_cancels_what_runs(editor: Editor) -> None:
    begun = asyncio.Event()

    async def wait(_: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    editor.server.protocol.raw["test/wait"] = wait
    waiting = editor.post("test/wait")
    await begun.wait()
    await editor.request("shutdown")
    assert (await editor.answer(waiting))["error"]["code"] == CANCELLED


# messages that are none


@pytest.mark.parametrize("message", [[], [{"jsonrpc": "2.0", "id": 1, "method": "shutdown"}], None, 5, "x", True, {}])
async def test_what_is_no_message_is_answered_without_an_id(editor: Editor, message: Any) -> None:
    before = len(editor.messages)
    editor.server.protocol.receive(message)
    (answer,) = editor.messages[before:]
    assert answer["id"] is None
    assert answer["error"]["code"] == REQUEST
    await assert_works(editor)


@pytest.mark.parametrize("request_id", [None, True, 1.5, [], {}])
async def test_a_request_whose_id_is_none_is_answered_without_an_id(editor: Editor, request_id: Any) -> None:
    before = len(editor.messages)
    editor.server.protocol.receive({"jsonrpc": "2.0", "id": request_id, "method": "shutdown"})
    assert [message["id"] for message in editor.messages[before:]] == [None]
    await assert_works(editor)


@pytest.mark.parametrize("request_id", [0, -1, 2**53, 2**70, "", "x", "\ud800", "1"])
async def test_an_id_comes_back_as_it_was(editor: Editor, request_id: int | str) -> None:
    editor.server.protocol.receive({"jsonrpc": "2.0", "id": request_id, "method": "nothing"})
    (answer,) = answers_to(editor, request_id)
    assert answer["error"]["code"] == METHOD
    assert type(answer["id"]) is type(request_id)


@pytest.mark.parametrize("version", [None, "1.0", 2.0, 2])
async def test_a_request_of_another_version_is_refused_by_its_id(editor: Editor, version: Any) -> None:
    editor.server.protocol.receive({"jsonrpc": version, "id": 77, "method": "shutdown"})
    assert [answer["error"]["code"] for answer in answers_to(editor, 77)] == [REQUEST]
    await assert_works(editor)


@pytest.mark.parametrize("method", [None, 5, ["shutdown"], {}])
async def test_a_request_whose_method_is_none_is_refused_by_its_id(editor: Editor, method: Any) -> None:
    editor.server.protocol.receive({"jsonrpc": "2.0", "id": 77, "method": method})
    assert [answer["error"]["code"] for answer in answers_to(editor, 77)] == [REQUEST]


async def test_a_nested_jsonrpc_key_is_a_key_like_any_other(editor: Editor) -> None:
    seen: list[Any] = []

    async def take(params: Any) -> Any:
        seen.append(params)
        return params

    editor.server.protocol.raw["test/take"] = take
    params = {"jsonrpc": "2.0", "id": 1, "method": "exit", "no identifier": [{"jsonrpc": "1.0"}], "class": None}
    assert await editor.request("test/take", params) == params
    assert seen == [params]


async def test_an_id_that_is_in_flight_is_no_id(editor: Editor) -> None:
    go_on = asyncio.Event()

    async def wait(_: Any) -> str:
        await go_on.wait()
        return "done"

    editor.server.protocol.raw["test/wait"] = wait
    request_id = editor.post("test/wait")
    editor.server.protocol.receive({"jsonrpc": "2.0", "id": request_id, "method": "test/wait"})
    assert [answer["error"]["code"] for answer in answers_to(editor, None)] == [REQUEST]
    go_on.set()
    assert (await editor.answer(request_id))["result"] == "done"
    await settle(editor)
    assert len(answers_to(editor, request_id)) == 1
    editor.server.protocol.receive({"jsonrpc": "2.0", "id": request_id, "method": "test/wait"})
    await settle(editor)
    assert len(answers_to(editor, request_id)) == 2, "once it is answered it may be used again"


# methods and parameters


@pytest.mark.parametrize(
    "method", ["", "nothing", "textDocument/nothing", "$/nothing", "textDocument/didOpen", "exit", "initialized"]
)
async def test_a_request_for_what_answers_none_is_told_so(editor: Editor, method: str) -> None:
    assert (await editor.failure(method, {}))["code"] == METHOD
    await assert_works(editor)


@pytest.mark.parametrize("method", ["$/nothing", "$/progress", "nothing", "textDocument/didSave", "shutdown", "initialize"])
@pytest.mark.parametrize("params", [None, {}, [], 5])
async def test_a_notification_that_means_nothing_is_ignored(editor: Editor, method: str, params: Any) -> None:
    before = len(editor.messages)
    editor.notify(method, params)
    assert editor.messages[before:] == []
    await assert_works(editor)


@pytest.mark.parametrize("method", ["textDocument/didChange", "textDocument/didOpen", "textDocument/didClose", "$/setTrace"])
@pytest.mark.parametrize("params", [None, {}, [], 5, {"textDocument": {}}, {"textDocument": {"uri": 5}}, {"value": "x"}])
async def test_a_notification_that_cannot_be_used_is_not_answered_and_not_shown(
    editor: Editor, method: str, params: Any
) -> None:
    before = len(editor.messages)
    editor.notify(method, params)
    await settle(editor)
    assert editor.messages[before:] == []
    await assert_works(editor)


async def test_parameters_that_do_not_fit_are_named(editor: Editor) -> None:
    async def answer(_: types.HoverParams) -> None:
        raise AssertionError("this is not to be called")

    editor.server.answer("textDocument/implementation", answer)
    for params in (
        None,
        [],
        5,
        {},
        {"textDocument": 5},
        {"textDocument": {"uri": URI}, "position": {"line": -1, "character": 0}},
    ):
        failure = await editor.failure("textDocument/implementation", params)
        assert failure["code"] == PARAMS
        assert failure["message"].startswith("Invalid parameters of textDocument/implementation: ")
    assert "params.position" in failure["message"]


async def test_a_message_without_params_is_like_one_with_none(editor: Editor) -> None:
    editor.server.protocol.receive({"jsonrpc": "2.0", "method": "initialized"})
    editor.server.protocol.receive({"jsonrpc": "2.0", "id": "s", "method": "shutdown"})
    assert answers_to(editor, "s")[0]["result"] is None


async def test_more_requests_than_anybody_needs_are_refused(editor: Editor) -> None:
    go_on = asyncio.Event()

    async def wait(_: Any) -> None:
        await go_on.wait()

    editor.server.protocol.raw["test/wait"] = wait
    editor.server.protocol.most_calls = 3
    kept = [editor.post("test/wait") for _ in range(3)]
    failure = await editor.failure("test/wait")
    assert failure["data"]["code"] == "too_many_requests"
    go_on.set()
    assert [(await editor.answer(request_id))["result"] for request_id in kept] == [None] * 3


# cancelling


async def test_a_request_that_runs_can_be_cancelled(editor: Editor) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def wait(_: Any) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    editor.server.answer("textDocument/implementation", wait)
    position = {"textDocument": {"uri": URI}, "position": {"line": 0, "character": 0}}
    request_id = editor.post("textDocument/implementation", position)
    await begun.wait()
    editor.notify("$/cancelRequest", {"id": request_id})
    assert (await editor.answer(request_id))["error"]["code"] == CANCELLED
    assert ended.is_set()


async def test_a_request_that_was_cancelled_before_it_began_never_begins(editor: Editor) -> None:
    async def never(_: Any) -> None:
        raise AssertionError("it was cancelled")

    editor.server.protocol.raw["test/never"] = never
    request_id = editor.post("test/never")
    editor.notify("$/cancelRequest", {"id": request_id})
    assert (await editor.answer(request_id))["error"]["code"] == CANCELLED


@pytest.mark.parametrize("params", [None, {}, 5, {"id": None}, {"id": [1]}, {"id": "nobody"}, {"id": 1}, {"id": True}])
async def test_a_cancel_of_what_does_not_run_is_ignored(editor: Editor, params: Any, caplog: pytest.LogCaptureFixture) -> None:
    before = len(editor.messages)
    editor.notify("$/cancelRequest", params)
    assert editor.messages[before:] == []
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING], "editors do this all the time"
    await assert_works(editor)


# what fails


async def test_a_bug_is_an_internal_error_whose_traceback_is_in_the_log_alone(
    editor: Editor, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_: Any) -> None:
        raise KeyError("the reason")

    editor.server.answer("textDocument/implementation", fail)
    position = {"textDocument": {"uri": URI}, "position": {"line": 0, "character": 0}}
    failure = await editor.failure("textDocument/implementation", position)
    assert failure["code"] == INTERNAL
    assert "KeyError: 'the reason'" in failure["message"]
    assert "Traceback" not in str(failure)
    assert __file__ not in str(failure)
    (record,) = (record for record in caplog.records if record.levelno >= logging.ERROR)
    assert record.exc_info is not None
    assert record.exc_info[2] is not None
    assert not [message for message in editor.messages if message.get("method") == "window/showMessage"]


async def test_an_error_of_ours_keeps_its_code_its_number_and_its_hint(editor: Editor) -> None:
    async def fail(_: Any) -> None:
        raise NodeNotFound.near('There is no node "a".', "aab", ["aaa"])

    editor.server.protocol.raw["test/fail"] = fail
    failure = await editor.failure("test/fail")
    assert failure["code"] == NodeNotFound.number
    assert failure["data"] == {"near": ["aaa"], "code": "node_not_found", "hint": 'Did you mean "aaa"?'}


@pytest.mark.parametrize("result", [float("nan"), {"a": [float("inf")]}, {1, 2}, b"bytes", object])
async def test_a_result_that_json_cannot_hold_is_a_failure(editor: Editor, result: Any) -> None:
    async def give(_: Any) -> Any:
        return result

    editor.server.protocol.raw["test/give"] = give
    assert (await editor.failure("test/give"))["code"] == INTERNAL
    await settle(editor)
    assert len(answers_to(editor, 2)) == 1


async def test_half_of_a_character_comes_back_as_it_was(editor: Editor) -> None:
    async def echo(params: Any) -> Any:
        return params

    editor.server.protocol.raw["test/echo"] = echo
    assert await editor.request("test/echo", {"text": "\ud83d"}) == {"text": "\ud83d"}


async def test_a_notification_that_fails_is_logged_and_not_shown(editor: Editor, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: Any) -> None:
        raise ZeroDivisionError

    editor.server.feature("workspace/didCreateFiles")(fail)
    editor.notify("workspace/didCreateFiles", {"files": []})
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ZeroDivisionError]
    assert not [message for message in editor.messages if message.get("method") == "window/showMessage"]
    await assert_works(editor)


# answers of the client


@pytest.mark.parametrize("answer", [{"result": None}, {"error": {"code": 1, "message": "x"}}, {"result": 1, "error": None}])
@pytest.mark.parametrize("request_id", ["nobody", 1, None, [], 1.5])
async def test_an_answer_that_nobody_waits_for_is_ignored(editor: Editor, answer: dict[str, Any], request_id: Any) -> None:
    before = len(editor.messages)
    editor.server.protocol.receive({"jsonrpc": "2.0", "id": request_id, **answer})
    assert editor.messages[before:] == [], "two peers that answer answers would never end"
    await assert_works(editor)


async def test_a_client_cannot_answer_its_own_request(editor: Editor) -> None:
    go_on = asyncio.Event()

    async def wait(_: Any) -> str:
        await go_on.wait()
        return "done"

    editor.server.protocol.raw["test/wait"] = wait
    request_id = editor.post("test/wait")
    editor.server.protocol.receive({"jsonrpc": "2.0", "id": request_id, "result": "forged"})
    go_on.set()
    assert (await editor.answer(request_id))["result"] == "done"


def apply_edit(editor: Editor) -> Any:
    edit = types.ApplyWorkspaceEditParams(types.WorkspaceEdit())
    return asyncio.ensure_future(editor.server.workspace_apply_edit_async(edit))


@pytest.mark.parametrize("answer", [{"result": None}, {"result": []}, {"error": "x"}, {"error": {}}, {"error": None}])
async def test_an_answer_that_cannot_be_read_is_a_failure_for_who_asked(editor: Editor, answer: dict[str, Any]) -> None:
    editor.server.protocol.sink = (asked := asyncio.Queue[bytes]()).put_nowait
    waiting = apply_edit(editor)
    await asked.get()
    (request_id,) = editor.server.protocol._request_futures
    editor.server.protocol.receive({"jsonrpc": "2.0", "id": request_id, **answer})
    with pytest.raises(Exception, match="The client's answer cannot be read"):
        await waiting


async def test_an_error_of_the_client_is_a_failure_for_who_asked(editor: Editor) -> None:
    editor.server.protocol.sink = (asked := asyncio.Queue[bytes]()).put_nowait
    waiting = apply_edit(editor)
    await asked.get()
    (request_id,) = editor.server.protocol._request_futures
    editor.server.protocol.receive({"jsonrpc": "2.0", "id": request_id, "error": {"code": 7, "message": "no"}})
    with pytest.raises(Exception, match="^no$"):
        await waiting


async def test_an_answer_that_comes_too_late_is_ignored(editor: Editor, caplog: pytest.LogCaptureFixture) -> None:
    editor.server.protocol.sink = (asked := asyncio.Queue[bytes]()).put_nowait
    waiting = apply_edit(editor)
    await asked.get()
    (request_id,) = editor.server.protocol._request_futures
    waiting.cancel()
    await asyncio.wait([waiting])
    editor.server.protocol.receive({"jsonrpc": "2.0", "id": request_id, "result": {"applied": True}})
    assert not editor.server.protocol._request_futures
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


# what clients say of themselves


async def test_what_nobody_knows_of_a_client_does_not_keep_it_out() -> None:
    editor = Editor()
    capabilities = {
        "general": {"positionEncodings": ["utf-7", "utf-8"]},
        "textDocument": {
            "publishDiagnostics": {"relatedInformation": True},
            "documentSymbol": {"symbolKind": {"valueSet": [1, 2, 999]}},
            "completion": 5,
            "hover": {"contentFormat": ["markdown", "html"]},
        },
        "workspace": {"workspaceEdit": {"resourceOperations": "all"}, "applyEdit": True},
        "window": None,
        "experimental": {"anything": [1, None]},
        "unknown": {"x": {}},
    }
    strange = {
        "processId": "none",
        "rootUri": "file://[::1",
        "rootPath": 5,
        "workspaceFolders": [{"uri": "file://[::1", "name": "x"}],
        "trace": "compact",
        "clientInfo": 5,
        "workDoneToken": [],
        "capabilities": capabilities,
    }
    result = await editor.request("initialize", strange)
    assert result["capabilities"]["positionEncoding"] == "utf-8"
    editor.notify("initialized")
    known = editor.server.client_capabilities
    assert known.workspace is not None
    assert known.workspace.apply_edit
    assert editor.server.publisher.support.related
    editor.open('{"é": 1 "a": 2}')
    (found,) = (item for item in await editor.diagnostics() if item["code"] == "expected_comma")
    assert found["range"]["start"]["character"] == 8, "bytes of UTF-8"
