"""The answers of the file store's operations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from rrext.engine.calls.object_calls import data_of
from rrext.engine.interface import store_operations as ops
from rrext.engine.interface.operations import StoreOperation
from rrext.errors import Unavailable
from rrext.files.file_store import StoreSession


async def stored_answer(
    session: StoreSession, operation: StoreOperation, data: bytes | None
) -> tuple[dict[str, Any], bytes | None]:
    """Run an operation in a session of the store: its body, and its raw bytes. `data` are those of a write."""
    match operation:
        case ops.ReadFile():
            read = await session.read(operation.handle, operation.offset, operation.length)
            return {"size": len(read)}, read
        case ops.ReadFiles():
            return await session.read_many(operation.paths)
        case ops.WriteFile():
            given = data_of(operation, data)
            return await session.write(operation.handle, given.encode() if isinstance(given, str) else given), None
        case ops.LinkFile():
            raise Unavailable("This server gives no links to files of the store: read them with fs_open and fs_read")
        case _:
            return await _SIMPLE[type(operation)](session, operation), None


_SIMPLE: Final[Mapping[type[StoreOperation], Callable[[StoreSession, Any], Awaitable[dict[str, Any]]]]] = {
    ops.OpenFile: lambda session, given: session.open(given.path, given.mode),
    ops.CloseFile: lambda session, given: session.close(given.handle, discard=given.discard),
    ops.StatFile: lambda session, given: session.stat(given.path),
    ops.ListDirectory: lambda session, given: session.list_directory(given.path),
    ops.DeleteFile: lambda session, given: session.delete(given.path),
    ops.MakeDirectory: lambda session, given: session.make_directory(given.path),
    ops.RemoveDirectory: lambda session, given: session.remove_directory(given.path, recursive=given.recursive),
    ops.RenameFile: lambda session, given: session.rename(given.old_path, given.new_path),
}
"""Operation without raw bytes → the method of a session."""
