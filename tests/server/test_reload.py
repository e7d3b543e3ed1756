"""`rrext serve --reload`: what changes counts from the next call, what is broken changes nothing, and no call is lost."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

import anyio
import pytest

import rrext
from rrext import Client, TaskLost, TaskNotRegistered, ToolError
from rrext.client.server_address import server_env
from rrext.pipefile.catalog.plugins import source_files
from rrext.server.reload import LoadedSources
from rrext.transports.process import ChildProcess

NODE = """
import os
from pathlib import Path
from uuid import uuid4

import anyio

from helper_of_reload import WORD
from rrext import Node, ToolError, tool_function


BORN = uuid4().hex


class Teller(Node):
    provider = "teller"
    lanes = {"text": ("text",)}

    def write_text(self, text):
        self.emit("text", f"{WORD} {text}")

    @tool_function
    def tell(self) -> str:
        return WORD

    @tool_function
    def pid(self) -> int:
        return os.getpid()

    @tool_function
    def late(self) -> list:
        import late_of_reload

        return [late_of_reload.WORD, BORN]

    @tool_function
    def unreadable(self) -> str:
        raise ToolError("\\udce9 is a folder")

    @tool_function
    async def wait(self, gate: str) -> str:
        while not Path(gate).exists():
            await anyio.sleep(0.01)
        return WORD
"""
PIPE = {
    "components": [
        {"id": "w", "provider": "webhook", "config": {}},
        {
            "id": "t",
            "provider": "teller",
            "config": {},
            "input": [{"lane": "text", "from": "w"}],
            "control": [{"classType": "tool", "from": "w"}],
        },
        {"id": "r", "provider": "response_text", "config": {}, "input": [{"lane": "text", "from": "t"}]},
    ],
    "source": "w",
}


class Served:
    """A server with `--reload`, its client, and the files that it watches."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.client: Client
        self.log = bytearray()
        """All that the server said."""
        self._read = 0
        self._more = anyio.Event()
        (folder / "nodes_of_reload.py").write_text(NODE)
        (folder / "p.pipe").write_text(json.dumps(PIPE))
        (folder / "late_of_reload.py").write_text("WORD = 'one'\n")
        self.say("one")

    def say(self, word: str) -> None:
        """Change the module beside the node."""
        (self.folder / "helper_of_reload.py").write_text(f"WORD = {word!r}\n")

    def hear(self, piece: bytes) -> None:
        self.log.extend(piece)
        self._more.set()
        self._more = anyio.Event()

    async def heard(self, text: str) -> None:
        """Wait until a text stands in the log, behind what was read before."""
        with anyio.fail_after(50):
            while (at := self.log.find(text.encode(), self._read)) < 0:
                await self._more.wait()
        self._read = at + len(text)

    async def rest_of_line(self) -> str:
        """What stands behind what was heard, in its line."""
        begin = self._read
        await self.heard("\n")
        return self.log[begin : self._read].decode()

    async def begun(self) -> int:
        """Wait for a process that imports what waits, once for each; its number."""
        with anyio.fail_after(50):
            while not (found := sorted(self.folder.glob("began *"))):
                await anyio.sleep(0.01)
        found[0].unlink()
        return int(found[0].name.split()[1])

    async def kill_all_that_begin(self) -> None:
        """Kill each process that imports what waits."""
        while True:
            with suppress(ProcessLookupError):
                os.kill(await self.begun(), signal.SIGKILL)

    async def kill_all_that_run(self) -> None:
        """Kill each process that has the pipeline."""
        while True:
            with suppress(TaskNotRegistered, TaskLost, ProcessLookupError):
                os.kill(await self.client.tool(tool="pid"), signal.SIGKILL)
            await anyio.sleep(0.01)

    async def changed_until_heard(self, name: str, text: str) -> None:
        """Change a module that the server may not know yet, until it is loaded anew."""
        for number in count():
            (self.folder / name).write_text(f"{text}# {number}\n")
            with anyio.move_on_after(10):
                return await self.heard("p.pipe is loaded anew")

    async def tell(self) -> str:
        return str(await self.client.tool(tool="tell"))


@pytest.fixture(params=["none", "process"])
def isolation(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def serving(isolation: str) -> AsyncIterator[Served]:
    with TemporaryDirectory(prefix="rrext-") as name:
        served = Served(Path(name))
        options = ["--reload", "--nodes", f"{name}/nodes_of_reload.py", "--listen", f"unix:{name}/s", "--isolation", isolation]
        command = [sys.executable, "-m", "rrext", "serve", f"{name}/p.pipe", *options]
        process = ChildProcess(command, env=server_env({}), on_stderr=served.hear)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(process.drain_stderr)
                await served.heard("listening at")
                async with Client.connect(f"unix:{name}/s") as served.client:
                    yield served
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await process.stop()
                process.close()


async def test_changed_code_counts_from_the_next_call_and_broken_code_does_not(isolation: str) -> None:
    async with serving(isolation) as served:
        assert await served.tell() == "one"
        served.say("two")
        await served.heard("p.pipe is loaded anew")
        assert await served.tell() == "two"
        (served.folder / "helper_of_reload.py").write_text("WORD = 'thr")
        await served.heard("the code of the nodes stays as it was: ")
        assert await served.tell() == "two"
        (warning,) = (await served.client.status("p"))["warnings"]
        assert re.match("the code of the nodes stays as it was: .*helper_of_reload.py, line 1", warning)
        (served.folder / "nodes_of_reload.py").write_text("from rrext import Node\n")
        await served.heard("no Node class is defined there")
        assert await served.tell() == "two"
        served.say("fou")  # as long as before, within the same second
        (served.folder / "nodes_of_reload.py").write_text(NODE)
        await served.heard("p.pipe is loaded anew")
        assert await served.tell() == "fou"
        assert (await served.client.status("p"))["warnings"] == []


async def test_a_changed_pipeline_counts_and_a_broken_one_does_not(isolation: str) -> None:
    async with serving(isolation) as served:
        path = served.folder / "p.pipe"
        path.write_text(json.dumps(PIPE).replace('"t"', '"other"'))
        await served.heard("p.pipe is loaded anew")
        assert {tool["nodeId"] for tool in await served.client.tools()} == {"other"}
        path.write_text("{")
        await served.heard("p.pipe stays as it was: ")
        assert "p.pipe stays as it was: " in (await served.client.status("p"))["warnings"][0]
        served.say("two")
        await served.heard("p.pipe, as it was, is loaded anew")
        assert "p.pipe stays as it was: " in (await served.client.status("p"))["warnings"][0]
        path.unlink()
        await served.heard("p.pipe stays as it was: ")
        assert {tool["nodeId"] for tool in await served.client.tools()} == {"other"}
        (task,) = await served.client.tasks()
        assert task["token"] == "p"


async def test_a_module_that_a_tool_imports_late_is_no_change_and_its_changes_are(isolation: str) -> None:
    async with serving(isolation) as served:
        born = await served.client.tool(tool="late")
        assert await served.client.tool(tool="late") == born
        (served.folder / "p.pipe").write_text(json.dumps(PIPE, indent=1))
        await served.heard("p.pipe is loaded anew")
        assert (await served.client.tool(tool="late") == born) is (isolation == "none")
        await served.changed_until_heard("late_of_reload.py", "WORD = 'two'\n")
        word, reborn = await served.client.tool(tool="late")
        assert (word, reborn != born[1]) == ("two", True)
        assert served.log.count(b"is loaded anew") == 2


def test_code_of_rrext_of_the_command_and_of_installed_packages_is_not_that_of_the_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = Path(rrext.__file__).parents[1]
    assert {name for name in source_files([str(clone / "nodes.py")]) if name.partition(".")[0] == "rrext"} == set()
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path / "dist-packages"))
    for name, path in {"__main__": "bin/rrext", "theirs_of_reload": "dist-packages/a.py", "mine_of_reload": "a.py"}.items():
        module = ModuleType(name)
        module.__file__ = str(tmp_path / path)
        monkeypatch.setitem(sys.modules, name, module)
    assert source_files([str(tmp_path / "nodes.py")]) == {"mine_of_reload": str(tmp_path.resolve() / "a.py")}
    sources = LoadedSources([str(tmp_path / "nodes.py")])
    assert sources.look()
    assert sources.paths == {str(tmp_path.resolve() / "a.py")}
    monkeypatch.setattr("rrext.server.reload.source_files", pytest.fail)
    assert not sources.look()  # no module came


async def test_calls_and_open_pipes_end_on_the_old_code_and_none_is_lost(isolation: str) -> None:
    async with serving(isolation) as served:
        gate = served.folder / "gate"
        answers: list[str] = []

        async def wait() -> None:
            answers.append(await served.client.tool(tool="wait", input={"gate": str(gate)}))

        async with anyio.create_task_group() as calls, served.client.pipe(mimetype="text/plain") as pipe:
            for _ in range(63):
                calls.start_soon(wait)
            await pipe.write("a")
            served.say("two")
            await served.heard("p.pipe is loaded anew")
            assert await served.tell() == "two"
            await pipe.write("b")
            assert await served.client.tool(tool="tell", pipe_id=pipe.pipe_id) == "one"
            gate.touch()
        assert answers == ["one"] * 63
        assert pipe.result is not None
        assert pipe.result["text"] == ["one a\n\none b\n\n"]
        assert (await served.client.send("c"))["text"] == ["two c\n\n"]
        (task,) = await served.client.tasks()
        rows = (await served.client.request("rrext_list_tasks"))["rows"]
        assert [row["completed"] for row in rows] == [False]
        assert task["status"] == "Running"


async def test_an_error_with_a_name_that_is_not_utf8_hides_no_status_and_ends_no_open_pipe(isolation: str) -> None:
    async with serving(isolation) as served, served.client.pipe(mimetype="text/plain") as pipe:
        await pipe.write("a")
        with pytest.raises(ToolError):
            await served.client.tool(tool="unreadable")
        assert (await served.client.status("p"))["errors"] == ["t.unreadable: \\udce9 is a folder"]
        served.say("two")
        await served.heard("p.pipe is loaded anew")
        assert await served.tell() == "two"
        await pipe.write("b")
        await pipe.close()
        assert pipe.result is not None
        assert pipe.result["text"] == ["one a\n\none b\n\n"]


async def test_twenty_saves_one_after_another_end_with_the_last_one(isolation: str) -> None:
    async with serving(isolation) as served:
        for number in range(20):
            served.say(f"save {number}")
            assert re.fullmatch("one|save [0-9]+", await served.tell())
        while await served.tell() != "save 19":
            await served.heard("p.pipe is loaded anew")


async def test_a_pipeline_that_disappears_stays_and_counts_again_when_it_is_back(isolation: str) -> None:
    async with serving(isolation) as served:
        path = served.folder / "p.pipe"
        path.rename(served.folder / "elsewhere")
        await served.heard("p.pipe stays as it was: [Errno 2]")
        assert await served.tell() == "one"
        served.say("two")
        await served.heard("p.pipe, as it was, is loaded anew")
        assert await served.tell() == "two"
        (served.folder / "elsewhere").rename(path)
        await served.heard("p.pipe is loaded anew")
        assert await served.tell() == "two"


async def test_a_pipeline_of_a_client_has_the_new_code_and_keeps_its_keys(isolation: str) -> None:
    async with serving(isolation) as served:
        pipeline = {**PIPE, "project_id": "of a client"}
        own = await served.client.request("execute", {"pipeline": pipeline, "token": "own", "name": "mine"})
        served.say("two")
        await served.heard("pipeline mine is loaded anew")
        assert await served.client.tool(token="own", tool="tell") == "two"
        (task,) = [task for task in await served.client.tasks() if task["token"] == "own"]
        assert task["publicToken"] == own["publicToken"]


async def test_tools_of_the_new_version_are_told_to_who_watches(isolation: str) -> None:
    async with serving(isolation) as served:
        events = await served.client.monitor("TASK")
        (served.folder / "p.pipe").write_text(json.dumps(PIPE).replace('"t"', '"other"'))
        async for event in events:
            if event.name == "apaevt_task" and event.body["action"] == "restart":
                break
        assert {tool["nodeId"] for tool in await served.client.tools()} == {"other"}


WAITS = """
import os, time
from pathlib import Path
here = Path(__file__).parent
(here / f"began {os.getpid()}").touch()
while not (here / "go on").exists():
    time.sleep(0.01)
"""
"""An import of a changed module that waits."""


async def test_a_process_that_dies_while_another_is_made_ready_loses_no_change() -> None:
    async with serving("process") as served:
        (served.folder / "helper_of_reload.py").write_text(f"{WAITS}WORD = 'two'\n")
        await served.begun()
        pid = await served.client.tool(tool="pid")
        os.kill(pid, signal.SIGKILL)
        (served.folder / "go on").touch()
        await served.heard("p.pipe is loaded anew")
        assert await served.tell() == "two"


async def test_code_whose_process_is_killed_or_never_ends_its_import_changes_nothing_and_mended_code_counts() -> None:
    async with serving("process") as served:
        helper = served.folder / "helper_of_reload.py"
        helper.write_text(f"{WAITS}# killed\n")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(served.kill_all_that_begin)  # one may be started ahead
            await served.heard("the code of the nodes stays as it was: ")
            assert "it was killed by SIGKILL" in await served.rest_of_line()
            tasks.cancel_scope.cancel()
        assert await served.tell() == "one"
        helper.write_text(f"{WAITS}# never ends\n")
        began = await served.begun()
        served.say("two")
        await served.heard("p.pipe is loaded anew")
        assert await served.tell() == "two"
        with anyio.fail_after(50), suppress(ProcessLookupError):
            while True:
                os.kill(began, 0)
                await anyio.sleep(0.01)


async def test_imports_that_never_end_hold_up_no_mended_code() -> None:
    async with serving("process") as served:
        (served.folder / "helper_of_reload.py").write_text(f"{WAITS}# never ends\n")
        await served.begun()
        async with anyio.create_task_group() as executes:
            for number in range(6):
                pipeline = {**PIPE, "project_id": str(number)}
                executes.start_soon(served.client.request, "execute", {"pipeline": pipeline})
            for _ in range(3):
                await served.begun()
            served.say("two")
            await served.heard("p.pipe is loaded anew")
        assert await served.client.tool(token="p", tool="tell") == "two"


async def test_a_pipeline_that_was_lost_on_broken_code_is_back_at_once_when_it_is_mended() -> None:
    async with serving("process") as served:
        (served.folder / "helper_of_reload.py").write_text("WORD = 1 / 0\n")
        await served.heard("the code of the nodes stays as it was: ")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(served.kill_all_that_run)  # one may have been started ahead, on the former code
            await served.heard("pipeline p cannot be loaded again: ")
            tasks.cancel_scope.cancel()
        served.say("two")
        await served.heard("p.pipe is loaded anew")
        assert await served.tell() == "two"


async def test_pipelines_on_other_machines_are_not_reloaded() -> None:
    options = ["--reload", "--cluster", "127.0.0.1:1", "--isolation", "process"]
    done = await anyio.run_process([sys.executable, "-m", "rrext", "serve", *options], check=False)
    assert (done.returncode, done.stderr) == (
        2,
        b"rrext: --reload is for pipelines on this machine: other machines have other files, so leave out --cluster\n",
    )
