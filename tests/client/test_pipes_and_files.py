"""Pipes, uploads and chat of `rrext.Client` against a scripted server."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest
from scripted_peer import EchoPipes, connected, settle, until

from rrext.client.upload import UploadProgress
from rrext.errors import PipeFailed, PipeNotOpen, ServerExited, ToolError, UsageError
from rrext.wire.messages import Request

pytestmark = pytest.mark.anyio


async def test_a_pipe_opens_writes_calls_and_closes(dialect: Any) -> None:
    async with connected(EchoPipes(), dialect=dialect) as (client, peer):
        async with client.pipe(token="T", objinfo={"name": "a.txt"}, mimetype="text/plain") as pipe:
            assert pipe.pipe_id == 1
            await pipe.write(b"hello ")
            await pipe.write("wörld")
            assert await pipe.tool(tool="echo", input={"x": 1}) == {"echo": {"x": 1}, "pipe": 1}
        assert pipe.result == {"result_types": {"text": "text"}, "text": ["hello wörld".encode().decode("latin-1")]}
    assert peer.commands() == ["open", "write", "write", "tool", "close", "disconnect"]
    opened = peer.seen[1].arguments
    assert opened == {"subcommand": "open", "object": {"name": "a.txt"}, "mimeType": "text/plain", "token": "T"}
    assert all(request.arguments["token"] == "T" for request in peer.seen[1:6])


async def test_a_pipe_may_be_used_without_a_block() -> None:
    async with connected(EchoPipes()) as (client, peer):
        pipe = client.pipe()
        await pipe.open()
        await pipe.write(b"x")
        assert (await pipe.close())["text"] == ["x"]
        assert (await pipe.close())["text"] == ["x"]  # sends nothing
        with pytest.raises(PipeNotOpen, match="Pipe 1 is not open"):
            await pipe.write(b"y")
        with pytest.raises(UsageError, match="once"):
            await pipe.open()
    assert peer.commands().count("close") == 1


async def test_random_bytes_arrive_as_they_were(dialect: Any) -> None:
    data = os.urandom(300_000)
    async with connected(EchoPipes(), dialect=dialect) as (client, _):
        for content in (data, bytearray(data), memoryview(data)[7:], b""):
            result = await client.send(content)
            assert result["text"] == [bytes(content).decode("latin-1")]


async def test_writes_on_one_pipe_happen_in_the_order_in_which_they_were_made() -> None:
    async with connected() as (client, peer), anyio.create_task_group() as tasks:
        pipe = client.pipe()
        tasks.start_soon(pipe.open)
        await peer.answer(await peer.take("open"), {"pipe_id": 1})
        await until(lambda: pipe.pipe_id)
        for number in range(5):
            tasks.start_soon(pipe.write, f"{number}")
            await settle()  # each gets in line before the next one; asyncio and trio start tasks in different orders
        order = []
        for _ in range(5):
            request = await peer.take("write")
            order.append(request.tail)
            await settle()
            assert peer.requests.statistics().current_buffer_used == 0  # the next one waits for this answer
            await peer.answer(request, {})
    assert order == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_write_larger_than_a_frame_goes_in_several() -> None:
    pipes = EchoPipes()
    async with connected(pipes, hello={"limits": {"maxFrame": 3 * 1024 * 1024}}) as (client, peer):
        data = os.urandom(4 * 1024 * 1024)
        assert (await client.send(data))["text"] == [data.decode("latin-1")]
    sizes = [len(request.tail or b"") for request in peer.seen if request.arguments.get("subcommand") == "write"]
    assert sizes == [1024 * 1024] * 4


async def test_a_failed_object_raises_with_what_there_is_of_its_result(dialect: Any) -> None:
    partial = {"result_types": {"text": "text"}, "text": ["half"], "error": {"code": "sold_out", "message": "no more"}}

    def handler(request: Request) -> dict[str, Any]:
        return partial if request.arguments.get("subcommand") == "close" else {"pipe_id": 1}

    async with connected(handler, dialect=dialect) as (client, _):
        with pytest.raises(ToolError, match="no more") as caught:
            await client.send(b"x")
    assert caught.value.code == "sold_out"
    assert caught.value.result == partial


async def test_a_failed_write_is_raised_and_its_pipe_is_closed() -> None:
    partial = {"text": ["half"], "error": {"code": "pipe_failed", "message": "it failed"}}

    def handler(request: Request) -> dict[str, Any]:
        match request.arguments.get("subcommand"):
            case "write":
                raise ToolError("node failed")
            case "close":
                return partial
            case _:
                return {"pipe_id": 1}

    async with connected(handler) as (client, peer):
        with pytest.raises(ToolError, match="node failed") as caught:
            await client.send(b"x")
    assert caught.value.result == partial
    assert peer.commands() == ["open", "write", "close", "disconnect"]


async def test_an_error_of_the_block_closes_the_pipe_and_comes_out() -> None:
    pipes = EchoPipes()
    async with connected(pipes) as (client, _):

        async def use() -> None:
            async with client.pipe() as pipe:
                await pipe.write(b"x")
                raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            await use()
        assert pipes.open == {}


async def test_an_error_without_code_is_a_failed_pipe() -> None:
    def handler(request: Request) -> dict[str, Any]:
        return {"error": {"message": "hm"}} if request.arguments.get("subcommand") == "close" else {"pipe_id": 1}

    async with connected(handler) as (client, _):
        with pytest.raises(PipeFailed, match="hm"):
            await client.send(b"x")


async def test_send_tells_size_and_type() -> None:
    async with connected(EchoPipes()) as (client, peer):
        await client.send("ü", objinfo={"name": "n"})
        await client.send(b"123", mimetype="image/png")
        await client.send(b"")
    opened = [r.arguments for r in peer.seen if r.arguments.get("subcommand") == "open"]
    assert [(o["object"], o["mimeType"]) for o in opened] == [
        ({"size": 2, "name": "n"}, "text/plain"),
        ({"size": 3}, "image/png"),
        ({"size": 0}, "application/octet-stream"),
    ]


async def test_chat_asks_a_question_in_the_references_form(dialect: Any) -> None:
    async with connected(EchoPipes(), dialect=dialect) as (client, peer):
        result = await client.chat(question="why?")
        assert json.loads(result["text"][0]) == {"type": "question", "questions": [{"text": "why?"}]}
        result = await client.chat(question={"type": "prompt", "questions": []}, token="T")
        assert json.loads(result["text"][0]) == {"type": "prompt", "questions": []}
        with pytest.raises(UsageError, match="not JSON"):
            await client.chat(question={"a": float("nan")})
    opened = [r.arguments for r in peer.seen if r.arguments.get("subcommand") == "open"]
    assert [o["mimeType"] for o in opened] == ["application/rocketride-question"] * 2
    assert [o["object"]["name"] for o in opened] == ["Question 1", "Question 2"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    base = tmp_path / "docs"
    (base / "deep" / "er").mkdir(parents=True)
    (base / "a.txt").write_text("A")
    (base / "deep" / "b.png").write_bytes(b"B" * 10)
    (base / "deep" / "er" / "c").write_bytes(b"")
    return base


def below(path: str, folder: Path) -> str:
    return str(Path(path).relative_to(folder))


async def test_files_of_folders_are_sent_with_their_types_and_names(folder: Path) -> None:
    async with connected(EchoPipes()) as (client, peer):
        results = await client.send_files([folder, folder / "a.txt"], token="T", jobs=1)
    assert [(below(r.path, folder), r.size, r.ok) for r in results] == [
        ("a.txt", 1, True),
        ("deep/b.png", 10, True),
        ("deep/er/c", 0, True),
        ("a.txt", 0, False),
    ]
    assert (results[3].error, results[3].skipped) == (None, f"is the same file as {folder / 'a.txt'}, which is sent")
    assert results[1].result == {"result_types": {"text": "text"}, "text": ["B" * 10]}
    opened = [r.arguments for r in peer.seen if r.arguments.get("subcommand") == "open"]
    assert [(o["object"]["name"], o["mimeType"]) for o in opened] == [
        ("docs/a.txt", "text/plain"),
        ("docs/deep/b.png", "image/png"),
        ("docs/deep/er/c", "application/octet-stream"),
    ]
    assert opened[1]["object"]["size"] == 10


async def test_two_files_of_one_name_are_two_objects(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "same.txt").write_text(name)
    async with connected(EchoPipes()) as (client, peer):
        await client.send_files([tmp_path / "one" / "same.txt", tmp_path / "two" / "same.txt"])
    opened = [r.arguments["object"] for r in peer.seen if r.arguments.get("subcommand") == "open"]
    assert [about["name"] for about in opened] == ["same.txt", "same.txt"]
    assert len({about["url"] for about in opened}) == 2


async def test_what_cannot_be_sent_is_a_result_with_its_path(folder: Path) -> None:
    os.mkfifo(folder / "pipe")

    def handler(request: Request) -> dict[str, Any]:
        if request.arguments.get("object", {}).get("name") == "docs/a.txt":
            raise ToolError("not this one")
        return {"pipe_id": 1}

    async with connected(handler) as (client, _):
        results = await client.send_files([folder, folder / "missing"])
    failures = {below(r.path, folder): str(r.error) for r in results if r.error}
    assert set(failures) == {"a.txt", "missing"}
    assert failures["a.txt"] == "not this one"
    assert [(below(r.path, folder), r.skipped) for r in results if r.skipped] == [("pipe", "is no regular file")]
    assert "No such file" in failures["missing"]
    assert [below(r.path, folder) for r in results if r.ok] == ["deep/b.png", "deep/er/c"]


async def test_large_files_go_in_pieces_of_a_mebibyte(tmp_path: Path) -> None:
    large = tmp_path / "large.bin"
    data = os.urandom(2_500_000)
    large.write_bytes(data)
    async with connected(EchoPipes()) as (client, peer):
        [result] = await client.send_files([large])
    assert result.result is not None
    assert result.result["text"] == [data.decode("latin-1")]
    sizes = [len(r.tail or b"") for r in peer.seen if r.arguments.get("subcommand") == "write"]
    assert sizes == [1_048_576, 1_048_576, 402_848]


async def test_a_file_that_is_one_json_value_goes_in_one_write(tmp_path: Path) -> None:
    large = tmp_path / "large.json"
    large.write_bytes(b'"' + b"x" * 2_500_000 + b'"')
    async with connected(EchoPipes()) as (client, peer):
        await client.send_files([large])
        await client.send_files([large], mimetype="lane/text")
    sizes = [len(r.tail or b"") for r in peer.seen if r.arguments.get("subcommand") == "write"]
    assert sizes == [2_500_002, 1_048_576, 1_048_576, 402_850]


async def test_no_more_files_than_jobs_are_under_way(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.txt" for number in range(12)]
    for path in paths:
        path.write_text("x")
    peak = 0

    class Counting(EchoPipes):
        def __call__(self, request: Request) -> dict[str, Any]:
            nonlocal peak
            body = super().__call__(request)
            peak = max(peak, len(self.open))
            return body

    async with connected(Counting()) as (client, _):
        results = await client.send_files(paths, jobs=3)
    assert all(result.ok for result in results)
    assert [result.path for result in results] == [str(path) for path in paths]
    assert 1 < peak <= 3  # files this small may be done before the third has begun


async def test_progress_counts_bytes_and_files(folder: Path) -> None:
    steps: list[UploadProgress] = []
    async with connected(EchoPipes()) as (client, _):
        await client.send_files([folder], jobs=1, progress=steps.append)
    assert [(s.files_done, s.bytes_done) for s in steps] == [(0, 1), (1, 1), (1, 11), (2, 11), (3, 11)]
    assert {(s.files_total, s.bytes_total) for s in steps} == {(3, 11)}
    assert [s.finished.ok for s in steps if s.finished] == [True, True, True]


async def test_what_the_progress_callback_raises_comes_out_as_it_is(folder: Path) -> None:
    pipes = EchoPipes()

    async def refuse(_: UploadProgress) -> None:
        raise OSError("disk full")

    async with connected(pipes) as (client, _):
        with pytest.raises(OSError, match="disk full"):
            await client.send_files([folder], progress=refuse)
        await until(lambda: not pipes.open)


async def test_an_upload_to_a_lost_server_says_so_for_each_file(folder: Path) -> None:
    async with connected() as (client, peer), anyio.create_task_group() as tasks:

        async def upload() -> None:
            results = await client.send_files([folder], jobs=1)
            assert [type(result.error) for result in results] == [ServerExited] * 3

        tasks.start_soon(upload)
        await peer.take("open")
        await peer.stream.aclose()


async def test_a_path_that_is_no_list_is_refused() -> None:
    async with connected(EchoPipes()) as (client, _):
        with pytest.raises(UsageError, match="list"):
            await client.send_files("/etc/passwd")
        with pytest.raises(UsageError, match="jobs"):
            await client.send_files([], jobs=0)


async def test_a_cancelled_upload_leaves_no_pipe_open(folder: Path) -> None:
    pipes = EchoPipes()
    async with connected(pipes) as (client, _):
        with anyio.CancelScope() as scope:
            await client.send_files([folder], progress=lambda _: scope.cancel())
        assert scope.cancelled_caught
        await until(lambda: "<Endpoint 0 calls" in repr(client))
        assert pipes.open == {}


async def test_a_pipeline_is_used_from_a_file(tmp_path: Path) -> None:
    plain = tmp_path / "a.pipe"
    plain.write_text(json.dumps({"components": [], "source": "s"}))
    wrapped = tmp_path / "b.pipe"
    wrapped.write_text(json.dumps({"pipeline": {"components": []}}))
    commented = tmp_path / "c.pipe"
    commented.write_text('{"components": [], // none\n}')
    async with connected(lambda _: {"token": "T"}) as (client, peer):
        for path in (plain, wrapped, commented):
            await client.use(filepath=path)
        await client.use(filepath=str(plain), source="other", name="mine")
        with pytest.raises(UsageError, match="either"):
            await client.use()
        with pytest.raises(UsageError, match="either"):
            await client.use(filepath=plain, pipeline={})
        with pytest.raises(FileNotFoundError):
            await client.use(filepath=tmp_path / "none.pipe")
    sent = [r.arguments for r in peer.seen if r.command == "execute"]
    assert [arguments["pipeline"] for arguments in sent] == [
        {"components": [], "source": "s"},
        {"components": []},
        '{"components": [], // none\n}',
        {"components": [], "source": "other"},
    ]
    assert [arguments["name"] for arguments in sent] == ["a.pipe", "b.pipe", "c.pipe", "mine"]
