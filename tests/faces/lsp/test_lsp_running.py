"""Tools that an editor runs: in an engine of their own, of the text that is seen, with progress, cancel and results."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pytest
from faces.lsp.desks import NODES, Desk, components, desk, pipeline

pytestmark = pytest.mark.usefixtures("forked_servers")


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk(tmp_path) as found:
        yield found


def file_of(uri: str) -> Path:
    return Path(unquote(urlparse(uri).path))


async def test_a_tool_runs_and_its_result_is_opened(bench: Desk) -> None:
    answer = await bench.run("add", {"a": 2})
    assert (answer["ok"], answer["result"]) == (True, {"sum": 3})
    assert answer["seconds"] >= 0
    path = file_of(answer["uri"])
    assert path.name == "bench.add.json"
    assert json.loads(path.read_text()) == {"sum": 3}
    shown = await bench.told("window/showDocument")
    assert (shown["uri"], shown["external"], shown["takeFocus"]) == (answer["uri"], False, False)
    assert "bench.add" in (await bench.told("window/logMessage", "sum"))["message"]


async def test_it_runs_in_another_process_that_sees_what_the_command_line_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUN_TEST", "seen")
    async with desk(tmp_path) as bench:
        found = (await bench.run("where"))["result"]
    assert found["pid"] != str(os.getpid())
    assert (found["cwd"], found["directory"], found["path"]) == (os.getcwd(), str(tmp_path), "seen")


async def test_the_text_that_is_seen_is_what_runs(bench: Desk) -> None:
    await bench.run("steps")
    changed = components()
    changed[1]["config"] = {"journal": "other.txt"}
    bench.replace(json.dumps({"components": changed, "source": "in"}))
    request = bench.command("rrext.runTool", {"tool": "wait", "input": {}})
    await bench.told("$/progress", "parked")
    assert (bench.folder / "other.txt").read_text() == "waiting\n"
    bench.editor.notify("$/cancelRequest", {"id": request})
    await bench.editor.answer(request)


async def test_a_text_that_stays_is_loaded_once(bench: Desk) -> None:
    first = (await bench.run("where"))["result"]["pid"]
    assert (await bench.run("where"))["result"]["pid"] == first
    tasks = await bench.editor.request("rrext_get_tasks")
    assert [task["name"] for task in tasks["tasks"]] == ["bench"]


async def test_a_run_of_an_old_text_goes_on_and_is_unloaded_after_it(bench: Desk) -> None:
    old = bench.command("rrext.runTool", {"tool": "wait", "input": {}})
    await bench.noted("waiting")
    bench.replace(pipeline(name="new"))
    assert (await bench.run("add", {"a": 1}))["ok"]
    assert len((await bench.editor.request("rrext_get_tasks"))["tasks"]) == 2
    assert "unwound" not in bench.journal()
    bench.editor.notify("$/cancelRequest", {"id": old})
    await bench.editor.answer(old)
    while len((await bench.editor.request("rrext_get_tasks"))["tasks"]) != 1:
        pass
    assert "unwound" in bench.journal()


async def test_a_closed_document_is_unloaded_and_what_runs_of_it_ends(bench: Desk) -> None:
    request = bench.command("rrext.runTool", {"tool": "wait", "input": {}})
    await bench.noted("waiting")
    bench.editor.notify("textDocument/didClose", {"textDocument": {"uri": bench.uri}})
    assert (await bench.editor.answer(request))["error"]["code"] == -32800
    while (await bench.editor.request("rrext_get_tasks"))["tasks"]:
        pass
    assert (await bench.refused("rrext.runTool", {"tool": "add"}))["code"] == -32602


async def test_a_document_with_errors_is_not_run_and_says_which(bench: Desk) -> None:
    bench.replace('{\n"components": [\n{"id": "in", "provider": "webhok", "config": {}}, 7]}')
    answer = await bench.run("add", {"a": 1})
    assert not answer["ok"]
    assert answer["error"]["code"] == "invalid_pipeline"
    assert 'bench is not run: line 3: There is no node "webhok"' in answer["error"]["message"]
    assert "(and 1 more)" in answer["error"]["message"]
    assert "line 3" in (await bench.told("window/showMessage"))["message"]


async def test_what_only_a_run_can_miss_is_told_with_its_line(bench: Desk) -> None:
    wanting = components()
    wanting[1]["config"] = {"journal": "${ROCKETRIDE_NOT_THERE}"}
    bench.replace(json.dumps({"components": wanting, "source": "in"}))
    answer = await bench.run("add", {"a": 1})
    assert "line 1: The variable ${ROCKETRIDE_NOT_THERE} has no value" in answer["error"]["message"]


async def test_wrong_input_is_told_as_the_engine_tells_it(bench: Desk) -> None:
    answer = await bench.run("add", {"aa": 1})
    assert answer["error"]["code"] == "invalid_arguments"
    assert {error["path"] for error in answer["error"]["data"]["errors"]} == {"/input/a", "/input/aa"}
    answer = await bench.run("ad", {})
    assert (answer["error"]["code"], answer["error"]["data"]["near"]) == ("tool_not_found", ["add"])


async def test_wrong_arguments_of_a_command_are_refused(bench: Desk) -> None:
    for arguments, path in [({"tool": 7}, "/tool"), ({"input": []}, "/input"), ({"Tool": "add"}, "/Tool")]:
        error = await bench.refused("rrext.runTool", arguments)
        assert (error["code"], error["data"]["code"]) == (-32602, "invalid_arguments")
        assert error["data"]["errors"][0]["path"] == path
    failure = await bench.editor.failure("workspace/executeCommand", {"command": "rrext.runTool", "arguments": [1]})
    assert failure["data"]["code"] == "invalid_arguments"
    failure = await bench.editor.failure("workspace/executeCommand", {"command": "rrext.runTool"})
    assert "uri is required" in failure["message"]
    assert (await bench.editor.failure("workspace/executeCommand", {"arguments": []}))["code"] == -32602


async def test_input_arrives_as_it_was_sent(bench: Desk) -> None:
    answer = await bench.run("add", {"a": 2**53 + 1, "b": 0})
    assert answer["result"] == {"sum": 2**53 + 1}


# results


async def test_text_is_opened_as_text_or_markdown(bench: Desk) -> None:
    plain = await bench.run("talk")
    assert (file_of(plain["uri"]).name, file_of(plain["uri"]).read_text()) == ("bench.talk.txt", "said")
    heading = await bench.run("steps")
    assert (file_of(heading["uri"]).suffix, heading["result"]) == (".md", "# All steps\n\ndone")
    assert json.loads(file_of((await bench.run("nothing"))["uri"]).read_text()) is None


async def test_bytes_are_saved_as_a_file_and_opened_outside(bench: Desk) -> None:
    answer = await bench.run("picture")
    assert "result" not in answer
    assert (file_of(answer["uri"]).suffix, answer["size"]) == (".png", 264)
    assert file_of(answer["uri"]).read_bytes()[8:] == bytes(range(256))
    assert (await bench.told("window/showDocument"))["external"] is True


async def test_a_large_result_is_in_its_file_alone(bench: Desk) -> None:
    answer = await bench.run("large", {"mebibytes": 3})
    assert "result" not in answer
    assert answer["size"] == file_of(answer["uri"]).stat().st_size == 3 * 1024 * 1024
    assert len(json.dumps(bench.messages("window/logMessage"))) < 20_000


async def test_result_files_are_private_and_gone_with_the_server(tmp_path: Path) -> None:
    async with desk(tmp_path) as bench:
        path = file_of((await bench.run("add", {"a": 1}))["uri"])
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parents[1].stat().st_mode) == 0o700
        again = await bench.run("add", {"a": 5})
        assert (file_of(again["uri"]), json.loads(path.read_text())) == (path, {"sum": 6})
    assert not path.parents[1].exists()


async def test_documents_of_one_name_have_results_of_their_own(bench: Desk) -> None:
    first = await bench.run("add", {"a": 1})
    bench.uri = (bench.folder / "other" / "bench.pipe").as_uri()
    bench.editor.open(pipeline(), bench.uri)
    second = await bench.run("add", {"a": 1})
    assert file_of(first["uri"]).name == file_of(second["uri"]).name
    assert first["uri"] != second["uri"]


async def test_an_editor_that_opens_no_documents_gets_a_message(tmp_path: Path) -> None:
    async with desk(tmp_path, capabilities={}) as bench:
        await bench.run("add", {"a": 2})
        assert '"sum": 3' in (await bench.told("window/showMessage", "bench.add"))["message"]
        answer = await bench.run("large", {"mebibytes": 1})
        message = (await bench.told("window/showMessage", "bench.large"))["message"]
        assert f"1048576 bytes, in {answer['uri']}" in message
    assert not bench.messages("window/showDocument")


async def test_an_editor_that_fails_to_open_a_document_gets_a_message(bench: Desk) -> None:
    bench.editor.answers["window/showDocument"] = lambda _: {"success": False}
    await bench.run("add", {"a": 2})
    assert '"sum": 3' in (await bench.told("window/showMessage"))["message"]


async def test_a_generator_gives_its_chunks(bench: Desk) -> None:
    assert (await bench.run("count", {"to": 3}))["result"] == [0, 1, 2]
    assert (await bench.run("count", {"to": 0}))["result"] == []
    assert (await bench.run("count", {"to": 2, "returns": True}))["result"] == {"chunks": [0, 1], "value": "counted"}
    assert (await bench.run("nothing"))["result"] is None


async def test_a_generator_without_end_is_stopped(bench: Desk) -> None:
    answer = await bench.run("flood")
    assert answer["error"]["code"] == "result_too_large"
    assert (await bench.run("add", {"a": 1}))["ok"]


# progress and cancel


async def test_progress_is_told_under_the_clients_token(bench: Desk) -> None:
    request = bench.command("rrext.runTool", {"tool": "wait", "input": {}}, workDoneToken="mine")
    told = await bench.told("$/progress", "parked")
    assert (told["token"], told["value"]["message"], told["value"]["percentage"]) == ("mine", "1/4 parked", 25)
    begin = bench.messages("$/progress")[0]["value"]
    assert (begin["kind"], begin["title"], begin["cancellable"]) == ("begin", "wait", True)
    bench.editor.notify("$/cancelRequest", {"id": request})
    answer = await bench.editor.answer(request)
    assert (answer["error"]["code"], answer["error"]["data"]["code"]) == (-32800, "cancelled")
    assert (await bench.told("$/progress", "end"))["value"] == {"kind": "end", "message": "cancelled"}
    assert not bench.messages("window/workDoneProgress/create")


@pytest.mark.promise("editor:cancel:reaches-tool")
async def test_without_a_token_the_server_makes_one_and_its_cancel_button_works(bench: Desk) -> None:
    request = bench.command("rrext.runTool", {"tool": "wait", "input": {}})
    await bench.noted("waiting")
    (created,) = bench.messages("window/workDoneProgress/create")
    bench.editor.notify("window/workDoneProgress/cancel", {"token": created["token"]})
    assert (await bench.editor.answer(request))["error"]["code"] == -32800
    await bench.run("add", {"a": 1})
    while "unwound" not in bench.journal():
        await bench.run("add", {"a": 1})


async def test_a_client_that_refuses_progress_gets_none(bench: Desk) -> None:
    take = bench.editor.server.protocol.sink

    def refuse(body: bytes) -> None:
        message = json.loads(body)
        if message.get("method") == "window/workDoneProgress/create":
            error = {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}}
            bench.editor.server.protocol.receive(error)
        else:
            take(body)

    bench.editor.server.protocol.sink = refuse
    assert (await bench.run("steps"))["ok"]
    assert not bench.messages("$/progress")


async def test_a_client_without_progress_is_told_none(tmp_path: Path) -> None:
    async with desk(tmp_path, capabilities={}) as bench:
        await bench.run("steps")
        assert not bench.messages("$/progress")
        assert not bench.messages("window/workDoneProgress/create")


@pytest.mark.promise("editor:run:disturbs-nothing")
async def test_a_tool_that_hears_nobody_is_answered_at_once_and_blocks_nothing(bench: Desk) -> None:
    request = bench.command("rrext.runTool", {"tool": "block", "input": {}})
    await bench.noted("blocking")
    assert await bench.editor.request("textDocument/codeLens", {"textDocument": {"uri": bench.uri}})
    assert (await bench.run("add", {"a": 1}))["ok"]
    bench.editor.notify("$/cancelRequest", {"id": request})
    assert (await bench.editor.answer(request))["error"]["code"] == -32800
    assert (await bench.run("add", {"a": 1}))["ok"]


@pytest.mark.promise("editor:cancel:reaches-tool")
async def test_a_cancelled_run_leaves_no_mark_and_no_message(bench: Desk) -> None:
    request = bench.command("rrext.runTool", {"tool": "wait", "input": {}})
    await bench.noted("waiting")
    bench.editor.notify("$/cancelRequest", {"id": request})
    await bench.editor.answer(request)
    assert await bench.marks() == []
    assert not bench.messages("window/showMessage")
    while "unwound" not in bench.journal():
        await bench.run("add", {"a": 1})


@pytest.mark.promise("editor:run:disturbs-nothing")
async def test_what_a_tool_prints_is_in_the_editors_log_and_disturbs_nothing(bench: Desk) -> None:
    assert (await bench.run("talk", {"times": 3}))["result"] == "said"
    assert "hello from a tool" in (await bench.told("window/logMessage", "hello"))["message"]


async def test_of_a_flood_of_output_the_log_has_the_beginning_of_each_run(bench: Desk) -> None:
    for _ in range(2):
        await bench.run("talk", {"times": 20_000})
    while sum("more output" in line["message"] for line in bench.messages("window/logMessage")) < 2:
        await bench.run("add", {"a": 1})
    assert len(json.dumps(bench.messages("window/logMessage"))) < 600_000


# the engine's life


@pytest.mark.promise("editor:run:disturbs-nothing")
async def test_a_crash_fails_the_run_with_its_reason_and_the_next_run_starts_a_new_engine(bench: Desk) -> None:
    parked = bench.command("rrext.runTool", {"tool": "wait", "input": {}})
    await bench.noted("waiting")
    answer = await bench.run("crash")
    assert answer["error"]["code"] == "engine_ended"
    assert "exited with code 7" in answer["error"]["message"]
    assert "the roof falls down" in answer["error"]["message"]
    assert answer["error"]["data"]["exit_code"] == 7
    assert (await bench.editor.answer(parked))["result"]["error"]["code"] == "engine_ended"
    assert (await bench.run("add", {"a": 1}))["ok"]


async def test_an_engine_that_cannot_start_says_why(tmp_path: Path) -> None:
    late = tmp_path / "late_nodes.py"
    late.write_text(NODES.read_text())
    async with desk(tmp_path, nodes=[str(late)]) as bench:
        late.write_text("raise RuntimeError('not here')")
        answer = await bench.run("add", {"a": 1})
        assert answer["error"]["code"] == "engine_ended"
        assert "not here" in answer["error"]["message"]
        late.write_text(NODES.read_text())
        assert (await bench.run("add", {"a": 1}))["ok"]


class Slow:
    """Nodes whose module keeps the engine, and nobody else, until it is let go."""

    def __init__(self, folder: Path) -> None:
        self.here, self.word = folder / "here", folder / "word"
        os.mkfifo(self.here)
        os.mkfifo(self.word)
        self.module = folder / "slow_nodes.py"
        wait = f"open({str(self.here)!r}, 'w').close(); open({str(self.word)!r}).close()"
        rest = NODES.read_text().replace("from __future__ import annotations", "")
        self.module.write_text(f"import sys\nif 'serve' in sys.argv:\n    {wait}\n{rest}")

    async def is_met(self) -> None:
        """Wait until the engine is there."""
        await asyncio.to_thread(lambda: self.here.open().close())

    async def let_go(self) -> None:
        """Let the engine go on."""
        await asyncio.to_thread(lambda: self.word.open("w").close())


async def test_a_run_can_be_cancelled_while_the_engine_starts(tmp_path: Path) -> None:
    slow = Slow(tmp_path)
    async with desk(tmp_path, nodes=[str(slow.module)]) as bench:
        request = bench.command("rrext.runTool", {"tool": "add", "input": {"a": 1}})
        await slow.is_met()
        await bench.editor.until(lambda message: message.get("method") == "window/workDoneProgress/create")
        (created,) = bench.messages("window/workDoneProgress/create")
        bench.editor.notify("window/workDoneProgress/cancel", {"token": created["token"]})
        assert (await bench.editor.answer(request))["error"]["code"] == -32800
        await slow.let_go()
        assert (await bench.run("add", {"a": 1}))["ok"]


async def test_a_document_that_is_closed_while_it_is_loaded_is_not_left_behind(tmp_path: Path) -> None:
    slow = Slow(tmp_path)
    async with desk(tmp_path, nodes=[str(slow.module)]) as bench:
        request = bench.command("rrext.runTool", {"tool": "wait", "input": {}})
        await slow.is_met()
        bench.editor.notify("textDocument/didClose", {"textDocument": {"uri": bench.uri}})
        await slow.let_go()
        assert (await bench.editor.answer(request))["error"]["code"] == -32602
        while (await bench.editor.request("rrext_get_tasks"))["tasks"]:
            pass
        assert bench.journal() == []


async def test_the_engine_can_be_restarted(bench: Desk) -> None:
    first = (await bench.run("where"))["result"]["pid"]
    stuck = bench.command("rrext.runTool", {"tool": "block", "input": {}})
    await bench.noted("blocking")
    restarted = await bench.editor.request("workspace/executeCommand", {"command": "rrext.restartEngine", "arguments": [{}]})
    assert restarted == {"ok": True, "ended": True}
    assert (await bench.editor.answer(stuck))["result"]["error"]["code"] == "engine_ended"
    assert not is_running(int(first))
    assert (await bench.run("where"))["result"]["pid"] != first


async def test_the_engine_ends_with_the_server_also_with_a_stuck_tool(tmp_path: Path) -> None:
    async with desk(tmp_path) as bench:
        pid = int((await bench.run("where"))["result"]["pid"])
        bench.command("rrext.runTool", {"tool": "block", "input": {}})
        await bench.noted("blocking")
        bench.editor.post("shutdown")
    assert not is_running(pid)


async def test_trust_that_is_taken_away_ends_the_engine(bench: Desk) -> None:
    pid = int((await bench.run("where"))["result"]["pid"])
    bench.editor.notify("workspace/didChangeConfiguration", {"settings": {"rrext": {"trusted": False}}})
    assert (await bench.refused("rrext.runTool", {"tool": "add"}))["data"]["code"] == "not_trusted"
    while is_running(pid):
        await bench.refused("rrext_ping")


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# marks


async def test_a_failed_run_is_marked_on_its_node_until_it_succeeds(bench: Desk) -> None:
    await bench.editor.request("textDocument/codeLens", {"textDocument": {"uri": bench.uri}})
    answer = await bench.run("moody")
    assert answer["error"]["code"] == "moody"
    (mark,) = await bench.marks()
    assert (mark["message"], mark["code"], mark["severity"]) == ("not today", "moody", 1)
    line = pipeline().splitlines()[mark["range"]["start"]["line"]]
    assert line[mark["range"]["start"]["character"] : mark["range"]["end"]["character"]] == '"bench"'
    await bench.run("add", {"a": 1})
    assert len(await bench.marks()) == 1
    (bench.folder / "calm").touch()
    await bench.run("moody")
    assert await bench.marks() == []


async def test_a_mark_tells_the_hint_and_goes_with_an_edit_of_its_component(bench: Desk) -> None:
    await bench.run("refuse")
    assert (await bench.marks())[0]["message"] == "nothing is left\ncome back tomorrow"
    bench.replace(pipeline(name="elsewhere"))
    await bench.editor.diagnostics(bench.uri)
    assert len(await bench.marks()) == 1
    bench.replace(pipeline().replace('"config": {}', '"config":  {}'))
    await bench.editor.diagnostics(bench.uri)
    assert await bench.marks() == []


async def test_a_mark_goes_when_the_document_is_closed(bench: Desk) -> None:
    await bench.run("refuse")
    bench.editor.notify("textDocument/didClose", {"textDocument": {"uri": bench.uri}})
    assert await bench.marks() == []
    bench.editor.open(pipeline(), bench.uri)
    await bench.editor.diagnostics(bench.uri)
    assert await bench.marks() == []


async def test_the_answer_leaves_after_the_marks(bench: Desk) -> None:
    await bench.run("refuse")
    kinds = [message.get("method", "answer") for message in bench.editor.messages]
    assert kinds.index("window/showMessage") < len(kinds) - 1
    assert kinds[-1] == "answer"


async def test_runs_at_the_same_time_do_not_mix(bench: Desk) -> None:
    ids = [bench.command("rrext.runTool", {"tool": "add", "input": {"a": number}}) for number in range(30)]
    answers = [(await bench.editor.answer(request))["result"]["result"] for request in ids]
    assert answers == [{"sum": number + 1} for number in range(30)]


async def test_a_document_without_a_file_runs_too(bench: Desk) -> None:
    bench.uri = "untitled:Untitled-1"
    bench.editor.open(pipeline(), bench.uri)
    answer: Any = await bench.run("add", {"a": 1})
    assert (answer["ok"], file_of(answer["uri"]).name) == (True, "untitled_Untitled-1.add.json")


async def test_input_that_cannot_travel_is_no_end_of_the_engine(bench: Desk) -> None:
    answer = await bench.run("add", {"a": "\ud800"})
    assert answer["error"]["code"] == "invalid_arguments"
    assert "surrogate" in answer["error"]["message"]
    assert (await bench.run("add", {"a": 1}))["ok"]
