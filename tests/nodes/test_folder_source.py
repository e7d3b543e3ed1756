"""`filesys`: files of folders enter a pipeline by a call of the source's own tool."""

from __future__ import annotations

import asyncio
import os
import shutil
import uuid
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from rrext import Client, Node, ToolContext, ToolError, tool_function
from rrext.engine.tasks.foreign import refusals
from rrext.errors import Cancelled, InvalidArguments, RrextError
from rrext.files.confinement import Confinement
from rrext.files.naming import url_of
from rrext.limits import DEFAULTS
from rrext.nodes.base.lanes import Tag
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.pipeline_loader import load_pipeline
from rrext.testing import open_pipeline


class Taker(Node):
    """Keeps the bytes of each object; refuses what begins with `bad`, and does not read what begins with `odd`."""

    provider = "taker"
    lanes = {"tags": ("text",)}
    taken: ClassVar[dict[str, bytes]] = {}
    held: ClassVar[asyncio.Event | None] = None

    def open(self, entry: Any) -> None:
        self.entry = entry
        self.data = b""

    async def write_tags(self, tag: Tag) -> None:
        self.data += tag.data
        if tag.kind != "end":
            return
        if self.held is not None:
            self.held.set()
            await asyncio.Event().wait()
        if self.data.startswith(b"bad"):
            raise ToolError("it is bad", code="is_bad")
        if self.data.startswith(b"odd"):
            raise ToolError("it is odd", code="document_unsupported")
        self.taken[self.entry.path] = self.data
        await self.emit("text", self.data.decode("latin-1"))  # pyright: ignore[reportGeneralTypeIssues]


class Asking(Node):
    """Calls the source's tool."""

    provider = "asking"

    @tool_function
    async def ask(self, *, ctx: ToolContext) -> Any:
        """Send the files."""
        return await ctx.call("source_1", "send_source_files")


def pipeline(*include: str, exclude: tuple[str, ...] = (), **config: Any) -> dict[str, Any]:
    paths = {"include": [{"path": path} for path in include], "exclude": [{"path": path} for path in exclude]}
    return {
        "components": [
            {"id": "source_1", "provider": "filesys", "config": {**paths, **config}},
            {"id": "taker_1", "provider": "taker", "config": {}, "input": [{"lane": "tags", "from": "source_1"}]},
            {"id": "out_1", "provider": "response_text", "config": {}, "input": [{"lane": "text", "from": "taker_1"}]},
            {"id": "ask_1", "provider": "asking", "config": {}, "control": [{"classType": "tool", "from": "source_1"}]},
        ]
    }


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(Taker, "taken", {})
    monkeypatch.setattr(Taker, "held", None)
    docs = tmp_path / "docs"
    for path in ("a.txt", "sub/b.md", "sub/deep/c.bin", ".hidden/d", "Thumbs.db", "sub/__MACOSX/e"):
        (docs / path).parent.mkdir(parents=True, exist_ok=True)
        (docs / path).write_bytes(f"<{path}>".encode())
    return docs


async def sent(folder: Path, *include: str, exclude: tuple[str, ...] = (), limits: Any = DEFAULTS, **config: Any) -> Any:
    """The answer of the tool for these settings, with paths below the folder."""
    given = pipeline(*include, exclude=exclude, **config)
    async with open_pipeline(given, nodes=[Taker, Asking], root=folder, limits=limits) as client:
        return await client.tool(tool="send_source_files", input={"results": True})


async def test_each_file_of_a_folder_is_one_object_with_its_bytes_and_its_result(folder: Path) -> None:
    (folder / "sub" / "large").write_bytes(b"x" * 2_500_000)
    answer = await sent(folder, ".")
    assert {path: data for path, data in Taker.taken.items() if path != "sub/large"} == {
        path: f"<{path}>".encode() for path in ("a.txt", "sub/b.md", "sub/deep/c.bin", ".hidden/d")
    }
    assert Taker.taken["sub/large"] == b"x" * 2_500_000
    assert (answer["sent"], answer["skipped"], answer["failed"]) == (5, 0, 0)
    assert answer["bytes"] == sum(map(len, Taker.taken.values()))
    results = {one["path"]: one["result"] for one in answer["results"]}
    assert results["sub/b.md"]["text"] == ["<sub/b.md>\n\n"]
    assert results["sub/b.md"]["name"] == "b.md"


async def test_a_file_is_the_same_object_as_when_it_is_sent_by_the_command(folder: Path) -> None:
    answer = await sent(folder, "sub/b.md")
    (one,) = answer["results"]
    assert one["result"]["objectId"] == str(uuid.uuid5(uuid.NAMESPACE_URL, url_of(str((folder / "sub" / "b.md").resolve()))))


async def test_a_path_that_is_there_is_no_pattern(folder: Path) -> None:
    (folder / "Photos [2024]").mkdir()
    for name in ("a?.txt", "b [1].txt"):
        (folder / "Photos [2024]" / name).write_text(name)
    answer = await sent(folder, "Photos [2024]", exclude=("Photos [2024]/b [1].txt",))
    assert (answer["sent"], set(Taker.taken)) == (1, {"Photos [2024]/a?.txt"})
    assert (await sent(folder, "Photos [2024]", exclude=("b [1].txt",)))["sent"] == 1
    assert (await sent(folder, "Photos [2024]/b [1].txt"))["sent"] == 1


@pytest.mark.parametrize(
    ("include", "exclude", "names"),
    [
        ((".",), ("sub",), {"a.txt", ".hidden/d"}),
        ((".",), ("sub/deep", ".hidden"), {"a.txt", "sub/b.md"}),
        ((".",), ("*.md", "d"), {"a.txt", "sub/deep/c.bin"}),
        (("*.bin", "a.*"), (), {"sub/deep/c.bin", "a.txt"}),
        (("sub/*",), ("sub/deep/*",), {"sub/b.md"}),
        (("sub/b.md", "sub", "a.txt"), ("deep",), {"sub/b.md", "a.txt"}),
    ],
)
async def test_folders_files_and_patterns_are_included_and_excluded(
    folder: Path, include: tuple[str, ...], exclude: tuple[str, ...], names: set[str]
) -> None:
    answer = await sent(folder, *include, exclude=exclude)
    assert set(Taker.taken) == names
    assert answer["sent"] == len(names)


async def test_what_systems_keep_is_sent_if_the_settings_want_it(folder: Path) -> None:
    await sent(folder, ".", parameters={"excludeEnableGlobal": False})
    assert {"Thumbs.db", "sub/__MACOSX/e"} <= set(Taker.taken)


async def test_files_that_fail_stop_no_others_and_fail_the_call_at_its_end(folder: Path) -> None:
    (folder / "a.txt").write_bytes(b"bad")
    (folder / "sub" / "b.md").write_bytes(b"odd")
    (folder / "link").symlink_to("/etc/passwd")
    os.mkfifo(folder / "fifo")
    os.close(os.open(os.fsencode(folder) + b"/n\xff", os.O_CREAT))
    with pytest.raises(ToolError) as failure:
        await sent(folder, ".")
    data = failure.value.data
    assert failure.value.code == "files_failed"
    assert set(Taker.taken) == {"sub/deep/c.bin", ".hidden/d"}
    assert (data["sent"], data["skipped"], data["failed"]) == (2, 3, 2)
    assert {one["path"]: one["code"] for one in data["failures"]} == {"a.txt": "is_bad", "n\\xff": "unreadable"}
    assert {one["path"] for one in data["skips"]} == {"sub/b.md", "link", "fifo"}


async def test_one_pipe_is_enough_for_the_call_and_its_objects(folder: Path) -> None:
    answer = await sent(folder, ".", limits=msgspec.structs.replace(DEFAULTS, threads=1), jobs=8)
    assert answer["sent"] == 4


async def test_settings_without_files_and_folders_that_are_not_there_are_errors(folder: Path) -> None:
    for include, code in (((), "no_files"), (("nowhere",), "unavailable")):
        with pytest.raises(RrextError) as failure:
            await sent(folder, *include)
        assert failure.value.code == code


async def test_the_files_are_listed_page_by_page_and_not_sent(folder: Path) -> None:
    async with open_pipeline(pipeline("."), nodes=[Taker, Asking], root=folder) as client:
        first = await client.tool(tool="list_source_files", input={"maxEntries": 3})
        rest = await client.tool(tool="list_source_files", input={"maxEntries": 3, "after": first["next"]})
    assert [one["path"] for page in (first, rest) for one in page["files"]] == [
        ".hidden/d",
        "a.txt",
        "sub/b.md",
        "sub/deep/c.bin",
    ]
    assert (first["total"], rest["total"], rest["next"]) == (4, None, None)
    assert Taker.taken == {}


async def pages(client: Client, size: int) -> list[str]:
    listed: list[str] = []
    page: dict[str, Any] = {"next": ""}
    while page["next"] is not None:
        page = await client.tool(tool="list_source_files", input={"maxEntries": size, "after": page["next"]})
        listed += [one["path"] for one in page["files"]]
    return listed


@pytest.mark.parametrize(
    "include",
    [
        (".",),
        ("sub", "."),
        ("sub/*.md", "."),
        ("a.txt", "sub/deep", "*"),
        (".", "sub", "a.txt"),
        ("sub/deep/c.bin", "sub/../sub"),
    ],
)
async def test_pages_of_any_size_list_the_same_files_in_the_order_in_which_they_are_sent(
    include: tuple[str, ...], folder: Path
) -> None:
    for n in range(4):
        (folder / "sub" / "deep" / f"{n}.md").write_bytes(b"x")
        (folder / f"sub{n}").mkdir()
        (folder / f"sub{n}" / "z").write_bytes(b"x")
    async with open_pipeline(pipeline(*include), nodes=[Taker, Asking], root=folder) as client:
        whole = await pages(client, 100)
        assert len(set(whole)) == len(whole)
        for size in (1, 2, 3):
            assert await pages(client, size) == whole
        await client.tool(tool="send_source_files")
    assert set(Taker.taken) == set(whole)


async def test_a_page_reads_the_folders_behind_it_alone_and_bears_what_is_gone_meanwhile(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    listing = Confinement.listing

    def told(self: Confinement, path: str, **options: Any) -> Any:
        read.append(path)
        return listing(self, path, **options)

    monkeypatch.setattr(Confinement, "listing", told)
    async with open_pipeline(pipeline("."), nodes=[Taker, Asking], root=folder) as client:
        (folder / "sub" / "b.md").unlink()
        page = await client.tool(tool="list_source_files", input={"after": "sub/b.md"})
        assert [one["path"] for one in page["files"]] == ["sub/deep/c.bin"]
        assert ".hidden" not in read
        shutil.rmtree(folder / "sub")
        page = await client.tool(tool="list_source_files", input={"after": "sub/deep/c.bin"})
        assert page == {"files": [], "total": None, "next": None}
        for after in ("../a.txt", "/etc/passwd", "Thumbs.db/x"):
            with pytest.raises(InvalidArguments, match="no path of this listing"):
                await client.tool(tool="list_source_files", input={"after": after})


async def test_an_object_cannot_send_objects(folder: Path) -> None:
    async with open_pipeline(pipeline("."), nodes=[Taker, Asking], root=folder) as client:
        assert (await client.tool(tool="ask"))["sent"] == 4
        async with client.pipe(objinfo={"name": "x"}) as pipe:
            with pytest.raises(RrextError) as failure:
                await pipe.tool(tool="ask")
    assert failure.value.code == "unavailable"
    assert "never end" in failure.value.message


async def test_a_cancel_ends_the_objects_that_are_on_their_way(folder: Path) -> None:
    Taker.held = asyncio.Event()
    async with open_pipeline(pipeline("."), nodes=[Taker, Asking], root=folder) as client:
        running = asyncio.ensure_future(client.tool(tool="send_source_files"))
        await Taker.held.wait()
        running.cancel()
        with pytest.raises((asyncio.CancelledError, Cancelled)):
            await running
        Taker.held = None
        assert (await client.tool(tool="send_source_files"))["sent"] == 4  # the pipes are free again


def test_a_pipeline_of_a_network_client_reads_below_the_root_alone(tmp_path: Path) -> None:
    catalog = Catalog([Taker, Asking])
    loaded = load_pipeline(pipeline("docs/*", "../else", "/etc"), catalog, Environment())
    found = [(problem.code, problem.path) for problem in refusals(loaded, str(tmp_path))]
    assert found == [
        ("not_permitted", "/components/0/config/include/1/path"),
        ("not_permitted", "/components/0/config/include/2/path"),
    ]
