"""`client.files`: the files that a user keeps on a server with a file store (`rrext serve --store`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rrext.client.client_session import ClientSession
from rrext.client.endpoint import Body
from rrext.client.pipe import Data, pieces_of_data

if TYPE_CHECKING:
    from rrext.client.client import Client


class StoredFiles:
    """Reads and changes the files of the client's user. Paths are relative, with `/`.

    Failures are `ToolError` with the codes of protocol.md (`rrext_store`), as `path_not_found`; `Unavailable` without a store.
    """

    __slots__ = ("_connect",)

    def __init__(self, connect: Callable[[], ClientSession]) -> None:
        """Made by the client."""
        self._connect = connect

    async def read(self, path: str) -> bytes:
        """The content of a file, as it was when the reading began."""
        pieces: list[bytes] = []
        session = self._connect()
        opened = await _open(session, path, "r")
        try:
            offset, size = 0, opened["size"]
            while offset < size and (piece := (await self._ask("fs_read", handle=opened["handle"], offset=offset))["data"]):
                pieces.append(piece)
                offset += len(piece)
        finally:
            _close(session, opened)
        return b"".join(pieces)

    async def write(self, path: str, data: Data) -> None:
        """Write a file, with the folders above it. It appears whole, in place of an earlier one, or not at all."""
        session = self._connect()
        opened = await _open(session, path, "w")
        try:
            for piece in pieces_of_data(data, session.max_write):
                arguments = {"subcommand": "fs_write", "handle": opened["handle"]}
                await session.endpoint.call("rrext_store", arguments, piece)
        except BaseException:
            _close(session, opened)
            raise
        await self._ask("fs_close", handle=opened["handle"])

    async def stat(self, path: str) -> Body:
        """The entry at a path: `{exists, type, size, modified}`; only `exists` if there is none."""
        return await self._ask("fs_stat", path=path)

    async def list(self, path: str = "") -> list[Body]:
        """The entries of a folder, sorted by name: `{name, type, size, modified}` each."""
        return (await self._ask("fs_list_dir", path=path))["entries"]

    async def delete(self, path: str) -> None:
        """Remove a file."""
        await self._ask("fs_delete", path=path)

    async def rename(self, path: str, new_path: str) -> None:
        """Give a file or a folder another path, where nothing may be yet."""
        await self._ask("fs_rename", old_path=path, new_path=new_path)

    async def make_folder(self, path: str) -> None:
        """Make a folder and those above it."""
        await self._ask("fs_mkdir", path=path)

    async def remove_folder(self, path: str, *, recursive: bool = False) -> None:
        """Remove a folder, which must be empty unless `recursive`."""
        await self._ask("fs_rmdir", path=path, recursive=recursive)

    async def _ask(self, subcommand: str, **arguments: Any) -> Body:
        return await self._connect().endpoint.call("rrext_store", {"subcommand": subcommand, **arguments})

    def __repr__(self) -> str:
        return "<StoredFiles>"


async def _open(session: ClientSession, path: str, mode: str) -> Body:
    arguments = {"subcommand": "fs_open", "path": path, "mode": mode}
    return await session.endpoint.call("rrext_store", arguments, on_late=lambda opened: _close(session, opened))


def _close(session: ClientSession, opened: Body) -> None:
    """Close an open file without a caller; nothing is kept of one that was being written."""
    session.endpoint.post("rrext_store", {"subcommand": "fs_close", "handle": opened["handle"], "discard": True})


@property
def files(self: Client) -> StoredFiles:
    """The files that this user keeps on the server: `await client.files.write("notes.txt", "hello")`."""
    return StoredFiles(self._connected)
