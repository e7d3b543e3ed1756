"""One pipeline file with an embedded store in a server and in commands of a shell at once: all are answered."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rrext import Client

CONTROL = [{"classType": "tool", "from": "tools"}]
WAIT = 300
"""Seconds that a process waits for its turn: five on a loaded machine take longer than the default of 10."""
STORES: dict[str, dict[str, Any]] = {
    "store_qdrant_edge": {"path": "data", "min_free_bytes": 0, "wait": WAIT},
    "graph_ladybug": {"path": "data", "allow_execute": True, "wait": WAIT},
}
Call = tuple[str, Mapping[str, Any], str]
"""A tool, its input, and where in its answer the count is."""
WRITES: dict[str, Call] = {
    "store_qdrant_edge": ("upsert", {"documents": [{"object_id": "{}", "content": "word"}]}, "count"),
    "graph_ladybug": ("execute", {"query": "CREATE (:T {{id: '{}'}})"}, "affected_rows"),
}
READS: dict[str, Call] = {
    "store_qdrant_edge": ("search", {"query": "word", "top_k": 100}, "total"),
    "graph_ladybug": ("query", {"query": "MATCH (t:T) RETURN t.id"}, "row_count"),
}


def pipeline(provider: str) -> dict[str, Any]:
    store = {"id": "store", "provider": provider, "config": STORES[provider], "control": CONTROL}
    return {"components": [{"id": "tools", "provider": "tools", "config": {}}, store], "source": "tools"}


async def shell(file: Path, tool: str, input: Mapping[str, Any]) -> Any:
    """What `rrext tool` answers."""
    command = [sys.executable, "-m", "rrext", "tool", str(file), tool, "--input", json.dumps(input)]
    process = await asyncio.create_subprocess_exec(*command, stdout=-1, stderr=-1)
    try:
        answer, errors = await process.communicate()
    except asyncio.CancelledError:  # another of the group failed: its error is the one to be seen
        process.kill()
        await process.wait()
        raise
    assert process.returncode == 0, errors.decode()
    return json.loads(answer)


def written(provider: str, name: str) -> tuple[str, Any]:
    tool, input, _ = WRITES[provider]
    return tool, json.loads(json.dumps(input).replace("{}", name).replace("{{", "{").replace("}}", "}"))


@pytest.mark.parametrize("provider", STORES)
@pytest.mark.promise("graph:file:in-turns")
@pytest.mark.promise("vector:folder:in-turns")
async def test_a_server_and_four_commands_at_once_are_all_answered(provider: str, tmp_path: Path) -> None:
    file = tmp_path / "pipeline.pipe"
    file.write_text(json.dumps(pipeline(provider)))
    async with Client.spawn(str(file)) as server:
        if provider == "graph_ladybug":
            await server.tool(tool="execute", input={"query": "CREATE NODE TABLE T(id STRING PRIMARY KEY)"})
        await server.tool(tool=written(provider, "s")[0], input=written(provider, "s")[1])
        async with asyncio.TaskGroup() as group:
            for n in range(2):
                group.create_task(shell(file, *written(provider, f"w{n}")))
        tool, input, count = READS[provider]
        async with asyncio.TaskGroup() as group:
            answers = [group.create_task(shell(file, tool, input)) for _ in range(4)]
            answers.append(group.create_task(server.tool(tool=tool, input=input)))
        assert [answer.result()[count] for answer in answers] == [3] * 5


async def test_a_command_waits_as_long_as_it_says_and_not_as_its_node_does(tmp_path: Path) -> None:
    made = pipeline("graph_ladybug")
    made["components"][1]["config"] = {**STORES["graph_ladybug"], "wait": 3600}
    file = tmp_path / "pipeline.pipe"
    file.write_text(json.dumps(made))
    async with Client.spawn(str(file)) as server:
        session = (await server.tool(tool="begin", input={}))["session_id"]  # which keeps the file
        await server.tool(tool="execute", input={"query": "CREATE NODE TABLE T(id STRING PRIMARY KEY)", "session_id": session})
        command = [
            sys.executable,
            "-m",
            "rrext",
            "tool",
            "--wait",
            "0.2",
            str(file),
            "query",
            "--input",
            '{"query": "RETURN 1"}',
        ]
        process = await asyncio.create_subprocess_exec(*command, stdout=-1, stderr=-1)
        _, errors = await process.communicate()
        assert process.returncode == 1
        assert b"did not let go of it within 0.2 s" in errors, errors


async def test_a_graph_that_another_program_has_open_is_waited_for(tmp_path: Path) -> None:
    """As a process does that has rrext's lock while the engine's own of a process that ends is not yet released."""
    file, data = tmp_path / "pipeline.pipe", tmp_path / "data"
    file.write_text(json.dumps(pipeline("graph_ladybug")))
    program = "import sys, ladybug; opened = ladybug.Database(sys.argv[1]); print(1, flush=True); sys.stdin.read()"
    other = await asyncio.create_subprocess_exec(sys.executable, "-c", program, str(data), stdin=-1, stdout=-1)
    assert other.stdin
    assert other.stdout
    async with Client.spawn(str(file)) as server:
        await other.stdout.readline()
        call = asyncio.create_task(server.tool(tool="query", input={"query": "RETURN 1"}))
        lock = tmp_path / "data.lock"
        while not call.done() and not (lock.exists() and lock.read_text()):
            await asyncio.sleep(0.01)
        other.stdin.close()
        assert (await call)["row_count"] == 1
        await other.wait()
