"""`rrext serve --reload`: what changes counts from the next call, what is broken changes nothing, and no call is lost."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

import anyio
import pytest

import rrext
from rrext import Client
from rrext.client.server_address import server_env
from rrext.pipefile.catalog.plugins import source_files
from rrext.transports.process import ChildProcess

NODE = """
from pathlib import Path
from uuid import uuid4

import anyio

from helper_of_reload import WORD
from rrext import Node, tool_function


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
    def late(self) -> list:
        import late_of_reload

        return [late_of_reload.WORD, BORN]

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
        self._log = bytearray()
        self._more = anyio.Event()
        (folder / "nodes_of_reload.py").write_text(NODE)
        (folder / "p.pipe").write_text(json.dumps(PIPE))
        (folder / "late_of_reload.py").write_text("WORD = 'one'\n")
        self.say("one")

    def say(self, word: str) -> None:
        """Change the module beside the node."""
        (self.folder / "helper_of_reload.py").write_text(f"WORD = {word!r}\n")

    def hear(self, piece: bytes) -> None:
        self._log.extend(piece)
        self._more.set()
        self._more = anyio.Event()

    async def heard(self, text: str) -> None:
        """Wait until a text stands in the log, and forget what stands there."""
        with anyio.fail_after(30):
            while text.encode() not in self._log:
                await self._more.wait()
        self._log.clear()

    async def tell(self) -> str:
        return str(await self.client.tool(tool="tell"))


@asynccontextmanager
async def serving() -> AsyncIterator[Served]:
    with TemporaryDirectory(prefix="rrext-") as name:
        served = Served(Path(name))
        options = ["--reload", "--nodes", f"{name}/nodes_of_reload.py", "--listen", f"unix:{name}/s"]
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


async def test_changed_code_counts_from_the_next_call_and_broken_code_does_not() -> None:
    async with serving() as served:
        assert await served.tell() == "one"
        served.say("two")
        await served.heard("p.pipe is loaded anew")
        assert await served.tell() == "two"
        (served.folder / "helper_of_reload.py").write_text("WORD = 'thr")
        await served.heard("the code of the nodes stays as it was: ")
        assert await served.tell() == "two"
        (served.folder / "nodes_of_reload.py").write_text("from rrext import Node\n")
        await served.heard("no Node class is defined there")
        assert await served.tell() == "two"
        served.say("fou")  # as long as before, within the same second
        (served.folder / "nodes_of_reload.py").write_text(NODE)
        await served.heard("p.pipe is loaded anew")
        assert await served.tell() == "fou"


async def test_a_changed_pipeline_counts_and_a_broken_one_does_not() -> None:
    async with serving() as served:
        path = served.folder / "p.pipe"
        path.write_text(json.dumps(PIPE).replace('"t"', '"other"'))
        await served.heard("p.pipe is loaded anew")
        assert {tool["nodeId"] for tool in await served.client.tools()} == {"other"}
        path.write_text("{")
        await served.heard("p.pipe stays as it was: ")
        path.unlink()
        await served.heard("p.pipe stays as it was: ")
        assert {tool["nodeId"] for tool in await served.client.tools()} == {"other"}
        (task,) = await served.client.tasks()
        assert task["token"] == "p"


async def test_a_module_that_a_tool_imports_late_is_no_change_and_its_changes_are() -> None:
    async with serving() as served:
        born = await served.client.tool(tool="late")
        (served.folder / "p.pipe").write_text(json.dumps(PIPE, indent=1))
        await served.heard("p.pipe is loaded anew")
        assert await served.client.tool(tool="late") == born
        (served.folder / "late_of_reload.py").write_text("WORD = 'two'\n")
        await served.heard("p.pipe is loaded anew")
        word, reborn = await served.client.tool(tool="late")
        assert (word, reborn != born[1]) == ("two", True)


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


async def test_calls_and_open_pipes_end_on_the_old_code_and_none_is_lost() -> None:
    async with serving() as served:
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


@pytest.mark.parametrize("options", [["--ws", "127.0.0.1:0", "--trust-clients"], ["--isolation", "process"]])
async def test_a_server_of_processes_does_not_reload(options: list[str]) -> None:
    done = await anyio.run_process([sys.executable, "-m", "rrext", "serve", "--reload", *options], check=False)
    assert (done.returncode, done.stderr) == (2, b"rrext: --reload loads into this process: it needs --isolation none\n")
