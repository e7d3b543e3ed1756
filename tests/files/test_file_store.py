"""The file store of a server: apart for each user, within its limits, whole files alone, handles that end with a connection."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rrext.engine.interface.call import Caller
from rrext.engine.interface.rare_operations import STORE_SUBCOMMANDS
from rrext.engine.local_engine import LocalEngine
from rrext.errors import InvalidArguments, RrextError, ToolError, ToolTimeout, Unavailable
from rrext.files.file_store import ABANDONED, READ_PIECE, FileStoreSettings, folder_of
from rrext.pipefile.catalog.catalog import Catalog


class Desk:
    """A user at one connection of an engine."""

    def __init__(self, engine: LocalEngine, user: str | None = "ada", connection: str = "c1") -> None:
        self.engine = engine
        self.caller = Caller(connection, user)

    async def ask(self, subcommand: str, /, data: bytes | None = None, **arguments: Any) -> Any:
        body, tail = await self.raw(subcommand, data, **arguments)
        return tail if tail is not None else msgspec.json.decode(body)

    async def raw(self, subcommand: str, data: bytes | None = None, /, **arguments: Any) -> tuple[bytes, bytes | None]:
        operation = STORE_SUBCOMMANDS[f"fs_{subcommand}"](**arguments)
        return await asyncio.wait_for(self.engine.ask(operation, self.caller, data=data), 30)

    async def begin(self, path: str) -> str:
        return (await self.ask("open", path=path, mode="w"))["handle"]

    async def write(self, path: str, data: bytes) -> None:
        handle = await self.begin(path)
        await self.ask("write", data, handle=handle)
        await self.ask("close", handle=handle)

    async def read(self, path: str) -> bytes:
        opened = await self.ask("open", path=path)
        data = await self.ask("read", handle=opened["handle"])
        await self.ask("close", handle=opened["handle"])
        assert len(data) == opened["size"]
        return data

    async def names(self, path: str = "") -> list[str]:
        return [each["name"] for each in (await self.ask("list_dir", path=path))["entries"]]

    async def code(self, subcommand: str, /, data: bytes | None = None, **arguments: Any) -> str:
        with pytest.raises(RrextError) as caught:
            await self.raw(subcommand, data, **arguments)
        return caught.value.code


@asynccontextmanager
async def engine_of(store: Path | None, **limits: Any) -> AsyncIterator[LocalEngine]:
    engine = LocalEngine(
        catalog=Catalog(installed=False),
        store=None if store is None else FileStoreSettings(directory=str(store), **limits),
    )
    try:
        yield engine
    finally:
        await engine.aclose()


async def until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)


def unfinished(store: Path, user: str = "user-ada") -> list[str]:
    return os.listdir(store / user / "unfinished")


@pytest.mark.promise("store:whole-files")
async def test_a_file_appears_whole_when_it_is_closed_and_not_before(tmp_path: Path) -> None:
    async with engine_of(tmp_path) as engine:
        ada, other = Desk(engine), Desk(engine, connection="c2")
        await ada.write("a/b.txt", b"old")
        handle = await ada.begin("a/b.txt")
        await ada.ask("write", b"ne", handle=handle)
        assert await other.read("a/b.txt") == b"old"
        assert await other.names("a") == ["b.txt"]
        await ada.ask("write", b"w", handle=handle)
        reading = await other.ask("open", path="a/b.txt")
        await ada.ask("close", handle=handle)
        assert await other.ask("read", handle=reading["handle"]) == b"old"  # the file as it was opened
        assert await other.read("a/b.txt") == b"new"
        assert unfinished(tmp_path) == []
        assert stat.S_IMODE((tmp_path / "user-ada" / "files" / "a" / "b.txt").stat().st_mode) == 0o600


@pytest.mark.promise("store:whole-files")
async def test_what_a_vanished_client_wrote_is_given_up_and_its_handles_end(tmp_path: Path) -> None:
    async with engine_of(tmp_path) as engine:
        ada, other = Desk(engine), Desk(engine, connection="c2")
        await ada.write("a", b"old")
        writing, reading = await ada.begin("a"), (await ada.ask("open", path="a"))["handle"]
        await ada.ask("write", b"new", handle=writing)
        assert await other.code("write", b"x", handle=writing) == "handle_not_open"  # it belongs to its connection
        before = len(os.listdir("/proc/self/fd"))
        engine.disconnect("c1")
        await until(lambda: not unfinished(tmp_path))
        await until(lambda: len(os.listdir("/proc/self/fd")) <= before - 2)
        assert await ada.code("write", b"x", handle=writing) == "handle_not_open"
        assert await ada.code("read", handle=reading) == "handle_not_open"
        assert await other.read("a") == b"old"


@pytest.mark.promise("store:user-only")
@pytest.mark.parametrize("user", [None, "bob", "Ada", "../ada", "user-ada", "ada/files", "", "a" * 4000, "ada\0", ".", "%61da"])
async def test_no_user_sees_the_files_of_another_one(tmp_path: Path, user: str | None) -> None:
    async with engine_of(tmp_path) as engine:
        ada, other = Desk(engine), Desk(engine, user, "c1")
        await ada.write("secret.txt", b"ada's")
        handle = (await ada.ask("open", path="secret.txt"))["handle"]
        assert await other.names() == []
        assert await other.ask("stat", path="secret.txt") == {"exists": False}
        assert await other.code("read", handle=handle) == "handle_not_open"
        await other.write("secret.txt", b"other")
        assert await ada.read("secret.txt") == b"ada's"
        assert len(os.listdir(tmp_path)) == 2


def test_every_user_has_a_folder_of_its_own() -> None:
    users = [
        None,
        "",
        "a",
        "A",
        "a" * 101,
        "a" * 102,
        "hash-1",
        "user-a",
        "anonymous",
        "ä",
        "%C3%A4",
        "\ud800",
        "a/b",
        "a%2Fb",
        "~",
    ]
    folders = [folder_of(user) for user in users]
    assert len(set(folders)) == len(users)
    assert all("/" not in folder and not folder.startswith(".") and len(folder) < 200 for folder in folders)


@pytest.mark.promise("store:confined")
async def test_no_path_leads_out_and_no_link_is_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("secret")
    store = tmp_path / "store"
    store.mkdir()
    async with engine_of(store) as engine:
        ada = Desk(engine)
        await ada.ask("mkdir", path="d")
        root = store / "user-ada" / "files"
        (root / "folder").symlink_to(outside)
        (root / "file").symlink_to(outside / "f")
        os.mkfifo(root / "pipe")
        for path in ("../x", "/etc/passwd", "d/../../../outside/f", "folder/f", "file", "pipe", "a\0b"):
            assert await ada.code("open", path=path) in {"path_outside_root", "path_is_symlink", "not_a_file", "path_invalid"}
            assert await ada.code("open", path=path, mode="w") != "handle_not_open"
        assert await ada.code("list_dir", path="folder") == "path_is_symlink"
        assert await ada.code("rmdir", path="folder", recursive=True) == "path_is_symlink"
        assert await ada.code("rename", old_path="d", new_path="folder/d") == "path_is_symlink"
        await ada.ask("mkdir", path="x")
        (root / "x" / "link").symlink_to(outside)
        await ada.ask("rmdir", path="x", recursive=True)
        assert (outside / "f").read_text() == "secret"


@pytest.mark.promise("store:limits")
async def test_the_limits_are_named_and_what_fits_still_works(tmp_path: Path) -> None:
    async with engine_of(tmp_path, quota=100, file_size=60, names=4, open_files=3) as engine:
        ada = Desk(engine)
        await ada.write("a", b"x" * 60)
        handle = await ada.begin("b")
        await ada.ask("write", b"x" * 30, handle=handle)
        with pytest.raises(ToolError, match="--store-quota") as full:
            await ada.ask("write", b"x" * 11, handle=handle)
        assert full.value.code == "quota_exceeded"
        with pytest.raises(ToolError, match="Nothing of the file is kept"):  # no failure becomes a success
            await ada.ask("close", handle=handle)
        assert await ada.names() == ["a"]
        handle = await ada.begin("a")
        with pytest.raises(ToolError, match="file_size"):
            await ada.ask("write", b"x" * 61, handle=handle)
        assert await ada.code("close", handle=handle) == "file_too_large"
        assert await ada.read("a") == b"x" * 60
        await ada.write("b", b"x" * 40)  # what failed is not counted any more
        assert await ada.code("mkdir", path="c/d/e") == "quota_exceeded"
        assert await ada.names() == ["a", "b"]
        await ada.ask("mkdir", path="c/d")
        assert await ada.code("open", path="e", mode="w") == "quota_exceeded"
        await ada.ask("delete", path="b")
        handles = [(await ada.ask("open", path="a"))["handle"] for _ in range(3)]
        with pytest.raises(ToolError, match="open_files"):
            await ada.begin("e")
        await ada.ask("close", handle=handles[0])
        await ada.write("e", b"y" * 40)
        bob = Desk(engine, "bob", "c2")
        await bob.write("a", b"x" * 60)  # a quota of one's own
    async with engine_of(tmp_path, quota=100) as engine:  # counted again after a start
        handle = await Desk(engine).begin("g")
        assert await Desk(engine).code("write", b"x", handle=handle) == "quota_exceeded"


async def test_writes_that_are_sent_at_once_stand_in_their_order(tmp_path: Path) -> None:
    async with engine_of(tmp_path) as engine:
        ada = Desk(engine)
        handle = await ada.begin("a")
        pieces = [bytes([n]) * 1000 for n in range(200)]
        answers = await asyncio.gather(
            *(ada.ask("write", piece, handle=handle) for piece in pieces), ada.ask("close", handle=handle)
        )
        assert answers[:-1] == [{"bytesWritten": 1000}] * 200
        assert await ada.read("a") == b"".join(pieces)


@pytest.mark.promise("store:whole-files")
async def test_of_several_writers_of_a_path_the_last_one_that_closes_stays(tmp_path: Path) -> None:
    async with engine_of(tmp_path) as engine:
        desks = [Desk(engine, connection=f"c{n}") for n in range(20)]
        await asyncio.gather(*(desk.write("same", bytes([n]) * 50_000) for n, desk in enumerate(desks)))
        data = await desks[0].read("same")
        assert len(data) == 50_000
        assert len(set(data)) == 1
        assert unfinished(tmp_path) == []


async def test_a_cancelled_write_fails_its_file_and_a_deadline_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine_of(tmp_path) as engine:
        ada = Desk(engine)
        handle = await ada.begin("a")
        begun, may_end = threading.Event(), threading.Event()
        real = os.write

        def slow(fd: int, data: Any) -> int:
            if data == b"half":
                begun.set()
                assert may_end.wait(10)
            return real(fd, data)

        monkeypatch.setattr("rrext.files.file_store.os.write", slow)
        write = asyncio.ensure_future(ada.ask("write", b"half", handle=handle))
        await until(begun.is_set)
        with pytest.raises(ToolTimeout):
            await ada.ask("write", b"more", handle=handle, timeout=0.01)
        write.cancel()
        with pytest.raises(asyncio.CancelledError):
            await write
        close = asyncio.ensure_future(ada.code("close", handle=handle))
        may_end.set()
        assert await close == "write_cancelled"
        assert await ada.names() == []
        assert unfinished(tmp_path) == []


async def test_a_cancelled_open_leaves_no_file_open(tmp_path: Path) -> None:
    async with engine_of(tmp_path, open_files=1) as engine:
        ada = Desk(engine)
        await ada.ask("list_dir")
        for _ in range(30):
            opening = asyncio.ensure_future(ada.begin("a"))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            opening.cancel()
            await asyncio.wait([opening])
            if not opening.cancelled():
                await ada.ask("close", handle=opening.result())
        await until(lambda: not unfinished(tmp_path))
        await ada.write("a", b"works")


async def test_a_large_file_is_read_in_pieces(tmp_path: Path) -> None:
    async with engine_of(tmp_path) as engine:
        ada = Desk(engine)
        data = os.urandom(READ_PIECE + 10)
        await ada.write("big", data)
        handle = (await ada.ask("open", path="big"))["handle"]
        first = await ada.ask("read", handle=handle, length=2**40)
        assert first == data[:READ_PIECE]
        assert await ada.ask("read", handle=handle, offset=READ_PIECE) == data[READ_PIECE:]
        assert await ada.ask("read", handle=handle, offset=len(data)) == b""
        assert await ada.ask("read", handle=handle, offset=2**60) == b""
        assert await ada.ask("read", handle=handle, length=0) == b""


async def test_many_files_are_read_at_once_each_with_its_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine_of(tmp_path) as engine:
        ada = Desk(engine)
        await ada.write("a", b"\0\n\0")
        await ada.write("b", b"")
        body, frame = await ada.raw("read_many", paths=["a", "no", "b", "../c"])
        entries = msgspec.json.decode(body)["entries"]
        assert [(each["path"], each["ok"], each.get("code")) for each in entries] == [
            ("a", True, None), ("no", False, "path_not_found"), ("b", True, None), ("../c", False, "path_outside_root"),
        ]  # fmt: skip
        assert frame == b"\0\0\0\3\0\n\0" + b"\0\0\0\0" * 3
        monkeypatch.setattr("rrext.files.file_store.READ_MANY_BYTES", 4)
        entries = msgspec.json.decode((await ada.raw("read_many", paths=["a", "a", "b"]))[0])["entries"]
        assert [each["ok"] for each in entries] == [True, False, True]


async def test_a_file_that_a_killed_server_left_goes_after_a_day(tmp_path: Path) -> None:
    folder = tmp_path / "user-ada" / "unfinished"
    folder.mkdir(parents=True)
    for name, age in ("old", ABANDONED + 60), ("new", 60):
        (folder / name).write_text("half")
        now = (folder / name).stat().st_mtime
        os.utime(folder / name, (now - age, now - age))
    async with engine_of(tmp_path) as engine:
        assert await Desk(engine).names() == []
    assert unfinished(tmp_path) == ["new"]


async def test_a_directory_gets_a_name_that_no_file_is_too_deep_for(tmp_path: Path) -> None:
    async with engine_of(tmp_path) as engine:
        ada = Desk(engine)
        deep = "/".join("d" * 100)
        await ada.ask("mkdir", path=deep)
        await ada.ask("mkdir", path="e/" * 30)
        assert await ada.code("rename", old_path="d", new_path="e/" * 29 + "x") == "path_invalid"
        await ada.ask("rename", old_path="d", new_path="f/d")
        await ada.ask("rmdir", path="f", recursive=True)
        assert await ada.names() == ["e"]


async def test_a_server_without_a_store_says_which_option_it_lacks(tmp_path: Path) -> None:
    async with engine_of(None) as engine:
        with pytest.raises(Unavailable, match="--store DIR"):
            await Desk(engine).ask("list_dir")
    async with engine_of(tmp_path / "gone") as engine:
        with pytest.raises(Unavailable, match="No such file"):
            await Desk(engine).ask("list_dir")
        (tmp_path / "gone").mkdir()
        assert await Desk(engine).names() == []  # the next call tries again
        with pytest.raises(InvalidArguments):
            await Desk(engine).ask("open", path="a", mode="rw")
