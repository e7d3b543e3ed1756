"""`--record` of `rrext serve`, and `rrext replay`: what clients said and heard, and whether another server says the same."""

from __future__ import annotations

import asyncio
import json
import os
import select
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Any, Literal

import msgspec
import pytest
from commands import HERE, Done, call, component, here, pipeline, spawned, until
from hypothesis import given
from hypothesis import strategies as st

from rrext import Client, RrextError
from rrext.engine.events.records import EngineEvent
from rrext.server.journal.trace_file import (
    RawTail,
    RecordedAnswer,
    RecordedEnd,
    RecordedEvent,
    RecordedLine,
    RecordedRequest,
    RecordingHead,
    TraceFile,
    TraceGap,
    TraceHead,
    TraceInvalid,
    read_trace,
)

NODES = str(HERE / "replay_nodes.py")
Dialect = Literal["dap", "jsonrpc"]
SECRET = "correct-horse-battery-7"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETRIDE_KEY", SECRET)


def shop(folder: Path) -> str:
    """A pipeline that sells, and writes texts in capitals."""
    shop = component("shop_1", "shop", "text:web_1", control="web_1", key="${ROCKETRIDE_KEY}")
    return pipeline(folder, component("web_1", "webhook"), shop, component("out_1", "response_text", "text:shop_1"))


@contextmanager
def recorded(folder: Path, face: str, *words: str, nodes: str = NODES) -> Iterator[str]:
    """The address of a server that records to `r.jsonl` of the folder."""
    with TemporaryDirectory(prefix="rrext-") as place:
        where = ["--listen", f"unix:{place}/s"] if face == "unix" else ["--ws", "127.0.0.1:0", "--trust-clients"]
        path = str(folder / "r.jsonl")
        with spawned("serve", *where, "--nodes", nodes, shop(folder), "--record", path, *words) as server:
            assert server.stderr is not None
            yield until(server.stderr, "listening at").split()[-1]
            end(server)


def end(server: subprocess.Popen[bytes]) -> None:
    server.send_signal(signal.SIGTERM)
    server.wait(30)


async def day(address: str, dialect: Dialect) -> None:
    """All that a client does with a shop."""
    async with Client.connect(address, dialect=dialect) as client, Client.connect(address, dialect=dialect) as other:
        heard: list[Any] = []
        assert len(await client.tools()) == 11
        assert await client.tool(tool="steps", progress=lambda *told: heard.append(told)) == "done"
        assert heard
        assert await client.tool(tool="count", on_chunk=heard.append) is None
        assert await client.tool(tool="content") == bytes(4)
        assert await client.tool(tool="outer", on_event=heard.append)
        assert await client.tool(tool="survey", on_question=lambda question: {"rain": True}) is not None
        await client.tool(tool="stamp")
        pipes = [client.pipe(mimetype="lane/text", objinfo={"name": name}) for name in ("a.txt", "b.txt")]
        async with pipes[0] as one, pipes[1] as two, other.pipe(mimetype="text/plain") as third:
            for pipe in (one, two, third):
                await pipe.write("Grüße ")
                await pipe.write(b"an alle")
        assert one.result is not None
        parked = asyncio.Event()
        task = asyncio.ensure_future(client.tool(tool="park", progress=lambda *told: parked.set()))
        await parked.wait()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        for name in ("refuse", "nosuch"):
            with pytest.raises(RrextError):
                await other.tool(tool=name)
        async with asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(client.tool(tool="price", input={"item": f"apple {number}"}))


async def test_files_are_replayed_to_a_server_whose_handles_have_other_names(tmp_path: Path) -> None:
    with recorded(tmp_path, "unix", "--store", str(tmp_path / "files")) as address:
        async with Client.connect(address) as client:
            await client.files.write("a.txt", b"hello")
            assert await client.files.read("a.txt") == b"hello"
    other = tmp_path / "other"
    other.mkdir()
    with recorded(other, "unix", "--store", str(tmp_path / "files")) as address:
        async with Client.connect(address) as client:
            await client.files.write("b.txt", b"hello")
        done = replay(tmp_path, "--at", address)
    assert done.err.endswith("replayed, no difference\n"), done


def replay(folder: Path, *words: str) -> Done:
    return call("replay", str(folder / "r.jsonl"), *words)


@pytest.mark.promise("record:replay")
@pytest.mark.parametrize("dialect", ["dap", "jsonrpc"])
@pytest.mark.parametrize(("face", "isolation"), [("unix", "none"), ("ws", "process")])
async def test_a_day_with_pipes_progress_and_a_cancel_is_replayed_without_a_difference(
    dialect: Dialect, face: str, isolation: str, tmp_path: Path
) -> None:
    with recorded(tmp_path, face, "--isolation", isolation) as address:
        await day(address, dialect)
    done = replay(tmp_path, "--nodes", NODES, "--trust-clients")
    assert (done.code, done.out.decode()) == (0, ""), done.err
    assert done.err.endswith(" replayed, no difference\n")


async def record_prices(folder: Path, *words: str, face: str = "unix", nodes: str = NODES) -> None:
    """Record some calls, of which one asks for a price."""
    with recorded(folder, face, *words, nodes=nodes) as address:
        async with Client.connect(address) as client:
            await client.tool(tool="steps", progress=print)
            await client.tool(tool="price", input={"item": "pear"})
            await client.tool(tool="price", node_id="shop_1", input={"item": "plum"})
            with pytest.raises(RrextError):
                await client.tool(tool="refuse")


def changed(folder: Path, *changes: tuple[str, str]) -> str:
    """The nodes of the shop with other words."""
    text = Path(NODES).read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "changed_nodes.py"
    path.write_text(text)
    return str(path)


def test_a_recording_that_goes_on_in_a_file_says_so(tmp_path: Path) -> None:
    path = str(tmp_path / "r.jsonl")
    first, second = (call("serve", shop(tmp_path), "--nodes", NODES, "--record", path) for _ in range(2))
    assert (first.code, "the file has a run already" in first.err) == (0, False)
    assert (second.code, "the file has a run already, and this one is added; `rrext replay`" in second.err) == (0, True)


async def test_a_node_that_was_changed_differs_exactly_there(tmp_path: Path) -> None:
    await record_prices(tmp_path)
    nodes = changed(tmp_path, ("PRICE = 7", "PRICE = 8"), ("no more today", "no more"), ('f"step {step + 1}"', '"a step"'))
    done = replay(tmp_path, "--nodes", nodes)
    assert (done.code, done.err) == (1, "6 requests replayed, 4 differ\n")
    assert done.out.decode() == (
        "unix-1 2 tool steps:\n"
        '  /rrext_progress/0/message: expected "step 1", got "a step"\n'
        '  /rrext_progress/1/message: expected "step 2", got "a step"\n'
        '  /rrext_progress/2/message: expected "step 3", got "a step"\n'
        "unix-1 3 tool price:\n"
        "  /result/price: expected 7, got 8\n"
        "unix-1 4 tool shop_1.price:\n"
        "  /result/price: expected 7, got 8\n"
        "unix-1 5 tool refuse:\n"
        '  /error/message: expected "no more today", got "no more"\n'
    )
    ignored = ["--ignore", "/result/price", "--ignore", "/rrext_progress/*/message", "--ignore", "/error"]
    done = replay(tmp_path, "--nodes", nodes, *ignored)
    assert (done.code, done.err) == (0, "6 requests replayed, no difference\n")
    done = replay(tmp_path, "--nodes", nodes, *ignored, "--ignore", "/body/price")
    said = "rrext: --ignore /body/price: nothing differed there\n"
    assert (done.code, done.err) == (0, f"{said}6 requests replayed, no difference\n")


async def test_a_tool_that_fails_hangs_or_has_no_answer_in_time_is_told(tmp_path: Path) -> None:
    await record_prices(tmp_path)
    nodes = changed(
        tmp_path,
        ('return {"item": item, "price": PRICE, "notes": ["fresh", item]}', "raise ToolError('sold', code='sold')"),
        ('raise ToolError("no more today", code="spent", hint="come back tomorrow", data={"left": 0})', "return None"),
        ('        return "done"', "        import threading\n        threading.Event().wait()\n        return ''"),
    )
    done = replay(tmp_path, "--nodes", nodes, "--timeout", "0.3")
    assert done.code == 1
    lines = done.out.decode().splitlines()
    assert lines[1] == "  /: an answer is missing: none came within 0.3 s more than it took"
    assert lines[3] == "  /error: is not expected: sold [sold]"
    assert lines[7] == "  /error: expected no more today [spent], and it succeeded"


async def test_ctrl_c_ends_a_replay_with_its_server(tmp_path: Path) -> None:
    await record_prices(tmp_path)
    stuck = "import os, threading\n        os.write(2, b'stuck %d\\n' % os.getpid())\n        threading.Event().wait()"
    nodes = changed(tmp_path, ("        for step in range(to)", f"        {stuck}\n        for step in range(to)"))
    with spawned("replay", str(tmp_path / "r.jsonl"), "--nodes", nodes) as playing:
        assert playing.stderr is not None
        server = os.pidfd_open(int(until(playing.stderr, "stuck").split()[-1]))
        playing.send_signal(signal.SIGINT)
        assert playing.wait(30) == 130
        assert select.select([server], [], [], 30)[0], "the server ends too"
    os.close(server)


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "r.jsonl").read_text().splitlines()]


@pytest.mark.promise("record:no-secret")
@pytest.mark.parametrize("isolation", ["none", "process"])
async def test_no_secret_is_in_a_recording_and_a_replay_needs_its_value(
    isolation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden, unused = "a-token-of-mine-3", "planted-in-no-pipeline-9"
    monkeypatch.setenv("ROCKETRIDE_UNUSED", unused)
    with recorded(tmp_path, "unix", "--trace-content", "--isolation", isolation) as address:
        async with Client.connect(address) as client:
            assert await client.tool(tool="key", input={"given": f"<{SECRET}>"}) == f"{SECRET} <{SECRET}>"
            await client.tool(tool="key", input={"given": SECRET.upper()})
            await client.tool(tool="outer", input={"item": f"{unused}!"}, on_event=print)
            async with client.pipe(mimetype="lane/text", objinfo={"name": SECRET}) as pipe:
                await pipe.write(SECRET.encode())
                await pipe.write(SECRET)
            with pytest.raises(RrextError):
                await client.tool(tool="price", input={"bearer_token": hidden})
            with pytest.raises(RrextError):
                await client.tool(tool="price", input={SECRET: 1})
            await client.request("rrext_process", {"subcommand": "tools", "context": {"authorization": hidden}})
            await client.request("rrext_validate", {"pipeline": {}, "env": {"not a name": unused}})
        text = (tmp_path / "r.jsonl").read_text()
        assert not any(secret.lower() in text.lower() for secret in (SECRET, hidden, unused, "horse-battery"))
        (given, _) = [line for line in lines_of(tmp_path) if line.get("secrets") in (["/input/given"], ["/input/item"])]
        assert given["arguments"]["input"]["given"] == "<${ROCKETRIDE_KEY}>"

        needs = "not replayed: it needs the value of ${ROCKETRIDE_KEY}: set the variable, and name it by --env"
        kept = tmp_path / "kept"  # the server records the replay too
        kept.mkdir()
        shutil.copy(tmp_path / "r.jsonl", kept)
        done = replay(kept, "--at", address)
        assert done.code == 1
        told = done.out.decode().splitlines()
        assert told == [
            "unix-1 3 tool key: not replayed: it has a secret without a name at /input/given",
            "unix-1 9 tool price: not replayed: it has a secret without a name at /input/bearer_token",
            "unix-1 10 tool price: not replayed: it has a secret without a name at /input",
            "unix-1 11 tools: not replayed: it has a secret without a name at /context/authorization",
            f"unix-1 12 rrext_validate: {needs.replace('ROCKETRIDE_KEY', 'not a name')}",
        ]
        monkeypatch.delenv("ROCKETRIDE_KEY")
        told = replay(kept, "--at", address).out.decode().splitlines()
        assert told[0] == f"unix-1 2 tool key: {needs}"
        assert f"unix-1 5 open: {needs}" in told
        numbers = [line["body"]["pipe_id"] for line in lines_of(kept) if "pipe_id" in line.get("body", ())]
        assert f"unix-1 8 close: not replayed: pipe_id {numbers[0]} of the recording is none here" in told


@pytest.mark.promise("record:no-secret")
async def test_a_secret_in_pieces_and_one_that_its_form_shows_are_not_in_a_recording(tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "Ab3" * 12  # of nobody
    nodes = changed(tmp_path, ("yield from range(to)", "yield from ('the key: ', *self.config.key, '; the end')"))
    with recorded(tmp_path, "unix", nodes=nodes) as address:
        async with Client.connect(address) as client:
            chunks: list[Any] = []
            await client.tool(tool="count", on_chunk=chunks.append)
            assert "".join(chunks) == f"the key: {SECRET}; the end"
            async with client.pipe(mimetype="lane/text", objinfo={"name": "a"}) as pipe:
                for at in range(0, len(SECRET), 3):
                    await pipe.write(SECRET[at : at + 3])
                await pipe.write("and more")
            for given in (f"with {key}, thanks", f"Authorization: Bearer {key[7:]}", "host=a password=p4ssw0rd7x"):
                await client.tool(tool="key", input={"given": given})
    lines = lines_of(tmp_path)
    text = (tmp_path / "r.jsonl").read_text()
    assert not any(part in text for part in (key, key[7:], "p4ssw0rd7x"))
    written = [line["tail"]["text"] for line in lines if line.get("tail") and line["event"] == "request"]
    assert (written[0], written[-1], {*written[3:-1]}) == ("cor", "and more", {"•••"})
    told = [line["body"]["chunk"] for line in lines if line.get("name") == "rrext_chunk"]
    assert (told[0], told[-1], {*told[9:-1]}) == ("the key: ", "; the end", {"•••"})
    given = [line["arguments"]["input"]["given"] for line in lines if "given" in line.get("arguments", {}).get("input", {})]
    assert given == ["with •••, thanks", "Authorization: Bearer •••", "host=a password=•••"]
    done = replay(tmp_path, "--nodes", nodes)
    assert done.err == "6 requests replayed, no difference; 11 not replayed\n", done
    assert "close: not replayed: write, of the same pipe_id, is not replayed" in done.out.decode()


async def test_what_follows_a_gap_in_an_object_is_not_replayed_and_its_place_is_free_again(tmp_path: Path) -> None:
    with recorded(tmp_path, "unix", "--threads", "1", "--store", str(tmp_path / "files")) as address:
        async with Client.connect(address) as client:
            for _ in range(3):
                async with client.pipe(mimetype="lane/text", objinfo={"name": "a"}) as pipe:
                    await pipe.write(b"x" * 1_100_000)
                    await pipe.tool(tool="price", input={"item": "pear"})
                    await pipe.write("and more")
            await client.files.write("a.txt", b"y" * 1_100_000)
            assert await client.tool(tool="price", input={"item": "pear"})
    done = replay(tmp_path, "--nodes", NODES)
    told = [line.split(" ", 2)[2].removesuffix(" for the recording") for line in done.out.decode().splitlines()]
    gap = "not replayed: write, of the same pipe_id, is not replayed"
    assert told[:4] == [
        "write: not replayed: its 1,100,099 bytes are too many",
        f"tool price: {gap}",
        f"write: {gap}",
        f"close: {gap}",
    ]
    assert told[-1] == "fs_close: not replayed: fs_write, of the same handle, is not replayed"
    assert (done.code, done.err) == (1, "7 requests replayed, no difference; 14 not replayed\n")


async def test_a_recording_is_not_believed_that_clients_are_trusted(tmp_path: Path) -> None:
    nodes = changed(tmp_path, ('return {"item": item', 'raise ValueError("of the house")\n        return {"item": item'))
    with recorded(tmp_path, "ws", nodes=nodes) as address:
        async with Client.connect(address) as client:
            with pytest.raises(RrextError, match="of the house"):
                await client.tool(tool="price", input={"item": "pear"})
    done = replay(tmp_path, "--nodes", nodes)
    assert done.code == 1
    assert "trusted its clients, and this one does not" in done.err
    assert "its text is in the server's log" in done.out.decode()
    done = replay(tmp_path, "--nodes", nodes, "--trust-clients")
    assert (done.code, "trusted" in done.err) == (0, False), done


async def test_variables_that_a_client_gives_to_a_pipeline_are_named_in_a_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [component("web_2", "webhook"), component("shop_2", "shop", control="web_2", key="${ROCKETRIDE_SHOP}")]
    given = {"components": nodes, "source": "web_2", "project_id": "9d0c5a7e-3b51-4a86-8e0e-5e3c7d1b6a12"}
    with recorded(tmp_path, "unix") as address:
        async with Client.connect(address) as client:
            token = (await client.use(pipeline=given, env={"ROCKETRIDE_SHOP": "planted-11-value"}))["token"]
            assert await client.tool(tool="key", token=token) == "planted-11-value "
    assert "planted-11" not in (tmp_path / "r.jsonl").read_text()
    done = replay(tmp_path, "--nodes", NODES)
    assert "execute: not replayed: it needs the value of ${ROCKETRIDE_SHOP}: set" in done.out.decode()
    monkeypatch.setenv("ROCKETRIDE_SHOP", "another-12-value")
    done = replay(tmp_path, "--nodes", NODES)
    assert (done.code, done.err) == (0, "4 requests replayed, no difference\n"), done


async def test_a_crash_of_a_server_is_replayed(tmp_path: Path) -> None:
    nodes = changed(
        tmp_path,
        ("import asyncio", "import asyncio\nimport os"),
        ('        return {"item"', '        os._exit(3)\n        return {"item"'),
    )
    with recorded(tmp_path, "unix", nodes=nodes) as address, pytest.raises(RrextError):
        async with Client.connect(address) as client:
            await client.tool(tool="price", input={"item": "pear"})
    done = replay(tmp_path, "--nodes", nodes)
    assert done.out == b"unix-1 2 tool price: the recording has no answer, nor came one here: the connection ended\n"
    assert (done.code, done.err) == (0, "2 requests replayed, no difference; 1 without an answer in the recording\n")


async def test_a_key_of_a_client_is_in_no_recording_and_a_replay_shows_its_own(tmp_path: Path) -> None:
    keys = tmp_path / "keys.toml"
    key = "a-key-of-anna-with-40-characters-in-all-1"
    keys.touch(0o600)
    keys.write_text(f'"{key}" = "anna"\n')
    with recorded(tmp_path, "ws", "--keys", str(keys), "--isolation", "none") as address:
        async with Client.connect(address, key=key) as client:
            await client.tool(tool="price", input={"item": key})
        assert key not in (tmp_path / "r.jsonl").read_text()
        assert "auth" not in {line.get("command") for line in lines_of(tmp_path)}
        (tmp_path / "key").touch(0o600)
        (tmp_path / "key").write_text(key)
        done = replay(tmp_path, "--at", address, "--key-file", str(tmp_path / "key"))
        assert "/input/item" in done.out.decode()
        assert done.err.startswith("2 requests replayed, no difference"), done
        done = replay(tmp_path, "--at", address)
        assert (done.code, "[not_authenticated]" in done.out.decode()) == (1, True), done


async def test_a_recording_that_is_cut_is_replayed_up_to_there(tmp_path: Path) -> None:
    await record_prices(tmp_path)
    path = tmp_path / "r.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    (place,) = [at for at, line in enumerate(lines) if b'"answer"' in line and b'"id":3,' in line]
    path.write_bytes(b"".join(lines[:place]) + lines[place][:40])
    done = replay(tmp_path, "--nodes", NODES)
    assert (done.code, done.out) == (1, b"unix-1 3 tool price: the recording has no answer, and one came here\n")
    assert done.err == (
        "rrext: a line is cut off or damaged in the recording: it is replayed up to there\n"
        "3 requests replayed, no difference; 1 without an answer in the recording\n"
    )
    dropped = b'{"event":"dropped","count":2}\n'
    path.write_bytes(b"".join([*lines[:place], dropped, *lines[place + 1 :]]))
    done = replay(tmp_path, "--nodes", NODES)
    assert done.code == 1
    assert done.err.startswith("rrext: 2 lines were dropped in the recording: it is replayed up to there; ")
    assert done.err.endswith("3 requests replayed, no difference; 1 without an answer in the recording\n")


async def test_lines_that_somebody_edited_end_no_replay(tmp_path: Path) -> None:
    await record_prices(tmp_path)
    path = tmp_path / "r.jsonl"
    head, *lines = lines_of(tmp_path)
    edits: list[dict[str, Any]] = [
        {"command": "cancel", "arguments": {"requestId": []}, "id": 20},
        {"command": "rrext_process", "arguments": {"subcommand": "close", "pipe_id": {}}, "id": 21},
        {"command": "rrext_process", "arguments": {"input": 7}, "secrets": ["/input/x"], "id": 22},
        {"command": "rrext_process", "arguments": {"input": 7}, "secrets": ["/"], "id": "a text"},
    ]
    place = next(at for at, line in enumerate(lines) if line["event"] == "answer") + 1
    lines[place:place] = [{"event": "request", "time": head["time"], "connection_id": "unix-1", **edit} for edit in edits]
    lines.insert(
        place, {"event": "event", "time": head["time"], "connection_id": "unix-1", "name": "x", "body": {"request": []}}
    )
    lines.insert(
        place, {"event": "answer", "time": head["time"], "connection_id": "unix-9", "command": "x", "error": {}, "id": 1}
    )
    at = {"time": head["time"], "connection_id": "unix-1", "command": "rrext_process", "id": 23}
    tool = {"subcommand": "tool", "tool": "price", "input": {"item": "fig"}}
    lines[place:place] = [{"event": "request", **at, "arguments": tool}, {"event": "answer", **at, "body": {"result": "@"}}]
    text = "\n".join(map(json.dumps, [head, *lines]))
    path.write_text(text.replace('"@"', "[" * 900 + "]" * 900))
    done = replay(tmp_path, "--nodes", NODES)
    assert (done.code, done.out.decode().splitlines()) == (
        1,
        [
            "unix-1 23 message: not replayed: its line is nested too deeply",
            "unix-1 22 rrext_process: not replayed: the recording is damaged: it has no text at /input/x",
            "unix-1 a text rrext_process: not replayed: the recording is damaged: it has no text at /",
            "unix-1 20 cancel: the recording has no answer, and one came here",
            "unix-1 21 close: the recording has no answer, and one came here",
        ],
    )


async def test_runs_that_follow_each_other_are_replayed_on_servers_of_their_own(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    await record_prices(tmp_path)
    await record_prices(tmp_path, "--isolation", "process")
    done = replay(tmp_path, "--nodes", NODES)
    assert (done.code, done.err) == (0, "12 requests replayed, no difference\n")
    drawn = here(capfd, "trace", str(tmp_path / "r.jsonl"))
    assert (drawn.code, drawn.err) == (0, "8 calls of tools, 2 failed\n")
    assert drawn.out.count(b"shop_1.price") == 4


def frame(message: dict[str, Any], tail: bytes | None = None) -> bytes:
    body = json.dumps(message).encode()
    lengths = f"Content-Length: {len(body) + len(tail or b'')}\r\n" + ("" if tail is None else f"Json-Length: {len(body)}\r\n")
    return f"{lengths}\r\n".encode() + body + (tail or b"")


def test_a_client_on_stdio_is_replayed_with_notifications_and_what_was_no_request(tmp_path: Path) -> None:
    def message(method: str, number: int | str | None, **params: Any) -> bytes:
        return frame({"jsonrpc": "2.0", "method": method, "params": params} | ({} if number is None else {"id": number}))

    tool = {"subcommand": "tool", "tool": "park", "progress": True}
    said = [
        message("initialize", "first", rawTail=True),
        message("rrext_process", "a", **tool),
        message("rrext_process", "a", **tool),
        message("$/cancelRequest", None, id="a"),
        frame({"jsonrpc": "2.0", "method": 7}),
        message("rrext_process", "b", subcommand="tool", tool="content", input={"size": 2_000_000}),
        message("rrext_process", "c", subcommand="write", pipe_id=9, data="x" * 1_100_000),
        message("rrext_monitor", "d", types=["TASK"], token="*"),
        message("rrext_process", "e", subcommand="tool", tool="complain"),
        message("shutdown", 5),
    ]
    words = ["serve", "--nodes", NODES, shop(tmp_path), "--record", str(tmp_path / "r.jsonl")]
    assert call(*words, stdin=b"".join(said)).code == 0
    assert (tmp_path / "r.jsonl").stat().st_size < 100_000
    done = replay(tmp_path, "--nodes", NODES)
    assert done.code == 1
    size = len(said[6].partition(b"\r\n\r\n")[2])
    assert done.out.decode().splitlines() == [
        "stdio a tool park: not replayed: its id is that of tool park, which has no answer yet",
        'stdio - message: not replayed: it is no request that can be read: "method" must be a string [invalid_request]',
        f"stdio c write: not replayed: its {size:,} bytes are too many for the recording",
    ]
    assert "7 requests replayed, no difference; 3 not replayed; 1 too large to be compared" in done.err


async def test_no_replay_ends_a_server_of_others(tmp_path: Path) -> None:
    with recorded(tmp_path, "unix") as address:
        async with Client.connect(address) as client:
            await client.request("shutdown", {})
    with recorded(tmp_path, "unix") as address:
        done = replay(tmp_path, "--at", address)
        assert "shutdown: not replayed: it would end a server that others use" in done.out.decode()
        assert replay(tmp_path, "--at", address).code == 1
    assert replay(tmp_path, "--at", address).code == 2, "nobody listens there any more"


@pytest.mark.promise("record:never-blocks")
async def test_a_recording_that_nobody_reads_holds_up_no_call_and_counts_what_it_lost(tmp_path: Path) -> None:
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    async with Client.spawn(shop(tmp_path), nodes=[NODES], args=["--record", path]) as client:
        read = b""
        for _ in range(30):
            await client.tool(tool="price", input={"item": "x" * 20_000})
        while b'"dropped"' not in read:
            with suppress(BlockingIOError):
                read += os.read(reader, 65536)
            await client.tool(tool="price", input={"item": "pear"})
    os.close(reader)
    (line, *_) = [line for line in read.splitlines() if b'"dropped"' in line]
    assert json.loads(line)["count"] > 0


def test_a_recording_has_an_end_at_its_limit(tmp_path: Path) -> None:
    told: list[OSError] = []
    path = tmp_path / "r.jsonl"
    file = TraceFile(str(path), content=False, on_failure=told.append, recording=RecordingHead(), most=1000)
    for number in range(100):
        file.add(RecordedEnd(time=1.0, connection_id=f"unix-{number}", why="end of input"))
    file.end(1.0)
    file.writer.close()
    assert path.stat().st_size < 1200
    lines = [*read_trace(str(path))]
    gaps = [line.count for line in lines if isinstance(line, TraceGap)]
    assert sum(gaps) + len([line for line in lines if isinstance(line, RecordedEnd)]) == 100
    assert len(told) == 1


def test_bad_words_are_answered_before_anything_is_begun(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "r.jsonl"

    def said(*words: str) -> str:
        done = here(capfd, "replay", str(path), *words)
        assert (done.code, done.out) == (2, b""), done
        return done.err

    assert said() == f"rrext: {path}: No such file or directory\n"
    path.write_text("")
    assert said() == f"rrext: {path}: the file is empty\n"
    path.write_text('{"rrext_trace":1,"time":"x"}\n')
    assert said() == f"rrext: {path}: its first line is cut off\n"
    path.write_text('{"rrext_trace":1,"version":"0.1.0","time":1.0}\n')
    assert said() == f"rrext: {path}: a trace without requests, of --trace; --record writes them too\n"
    path.write_text('{"rrext_trace":1,"version":"0.1.0","time":1.0,"recording":{"pipelines":["gone/p.pipe"]}}\n')
    assert "had pipelines that are not here: name them: rrext replay" in said()
    assert "has its own pipelines: name none" in said(shop(tmp_path), "--at", "unix:/nowhere")
    assert "a pointer begins with /" in said("--ignore", "result")
    (tmp_path / "bad.pipe").write_text("{")
    done = call("replay", str(path), str(tmp_path / "bad.pipe"))
    assert (done.code, "bad.pipe" in done.err, "did not start" in done.err) == (2, True, True), done.err
    words = ["serve", shop(tmp_path), "--nodes", NODES, "--record", str(path)]
    assert "give each a file of its own" in call(*words, "--trace", str(path)).err
    path.chmod(0o644)
    done = call(*words)
    assert (done.code, "--record" in done.err, "chmod 600" in done.err) == (2, True, True), done.err


WHOLE = b"".join(
    msgspec.json.encode(line) + b"\n"
    for line in (
        TraceHead(1, "0.1.0", 1.0, recording=RecordingHead(["stdio"], ["p.pipe"])),
        RecordedRequest(time=1.0, connection_id="stdio", id=1, command="rrext_ping", arguments={"a": [1, "é"]}),
        RecordedAnswer(time=1.5, connection_id="stdio", id=1, command="rrext_ping", body={"pong": True}),
        RecordedEvent(time=1.5, connection_id="stdio", name="rrext_chunk", body={"request": 1}, tail=RawTail(base64=b"\xff")),
        {"event": "dropped", "count": 3},
        RecordedEnd(time=2.0, connection_id="stdio", why="end of stdin"),
    )
)


def read_of(data: bytes) -> list[Any]:
    with NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        return [*read_trace(file.name)]


@given(st.integers(0, len(WHOLE)))
def test_a_recording_that_ends_anywhere_has_all_lines_before_its_end(size: int) -> None:
    whole, first = read_of(WHOLE), WHOLE.index(b"\n") + 1
    if not 0 < size < first:
        read = read_of(WHOLE[:size])
        lines = WHOLE[:size].count(b"\n")
        assert read[:lines] == whole[:lines]
        assert all(isinstance(line, TraceGap) or line == whole[lines] for line in read[lines:])
        assert len(read) <= lines + 1


@given(st.data())
def test_no_damage_of_a_recording_ends_its_reader(data: st.DataObject) -> None:
    damaged = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(damaged)))
        end = at + data.draw(st.integers(0, 20))
        damaged[at:end] = data.draw(st.binary(max_size=20) | st.sampled_from([b"[" * 5000, b"\n", b'{"rrext_trace":']))
    try:
        read = read_of(bytes(damaged))
    except TraceInvalid:
        return
    assert all(isinstance(line, TraceHead | TraceGap | RecordedLine | EngineEvent) for line in read)
