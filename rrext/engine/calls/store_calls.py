"""Calls of the file store: an operation becomes one of the caller's session of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rrext.engine.calls.object_calls import data_of
from rrext.errors import InternalError, ResultTooLarge, Unavailable

if TYPE_CHECKING:
    from rrext.engine.host.host import Host
    from rrext.engine.interface.call import Call
    from rrext.engine.interface.operations import StoreOperation
    from rrext.files.file_store import FileStore, FileStoreSettings, StoreSession


class StoreCalls:
    """Runs the operations of the file store with these settings, if there is to be one. It is loaded at first use."""

    def __init__(self, host: Host, settings: FileStoreSettings | None) -> None:
        self._host = host
        self._settings = settings
        self._store: FileStore | None = None

    async def answer(self, call: Call, operation: StoreOperation) -> tuple[bytes, bytes | None]:
        """Run one operation: its encoded body, and its raw bytes."""
        if self._settings is None:
            raise Unavailable("This server keeps no files: it was started without --store DIR")
        if self._store is None:
            from rrext.files.file_store import FileStore

            self._store = FileStore(self._settings, self._host.in_thread)
        session = self._store.session(call.caller.connection_id, call.caller.user_id)
        body, tail = await answer_of(session, operation, call.data)
        encoded, most = msgspec.json.encode(body), self._host.limits.max_result
        if len(encoded) > most:
            raise ResultTooLarge.of(len(encoded), most)
        return encoded, tail

    def disconnect(self, connection_id: str) -> None:
        """Close the files of a connection that ended."""
        if self._store is not None:
            self._store.disconnect(connection_id)

    async def aclose(self) -> None:
        """Close the store."""
        if self._store is not None:
            await self._store.aclose()


async def answer_of(
    session: StoreSession, operation: StoreOperation, data: bytes | None
) -> tuple[dict[str, Any], bytes | None]:
    """Run an operation in a session of the store: its body, and its raw bytes. `data` are those of a write."""
    from rrext.engine.interface import rare_operations as ops

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
            return await _body_of(session, operation), None


async def _body_of(session: StoreSession, operation: StoreOperation) -> dict[str, Any]:
    from rrext.engine.interface import rare_operations as ops

    match operation:
        case ops.OpenFile():
            return await session.open(operation.path, operation.mode)
        case ops.CloseFile():
            return await session.close(operation.handle, discard=operation.discard)
        case ops.StatFile():
            return await session.stat(operation.path)
        case ops.ListDirectory():
            return await session.list_directory(operation.path)
        case ops.DeleteFile():
            return await session.delete(operation.path)
        case ops.MakeDirectory():
            return await session.make_directory(operation.path)
        case ops.RemoveDirectory():
            return await session.remove_directory(operation.path, recursive=operation.recursive)
        case ops.RenameFile():
            return await session.rename(operation.old_path, operation.new_path)
        case _:
            raise InternalError(f"the file store has no {type(operation).__name__}")
