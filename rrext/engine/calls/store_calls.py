"""Calls of the file store: an operation becomes one of the caller's session of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rrext.errors import ResultTooLarge, Unavailable

if TYPE_CHECKING:
    from rrext.engine.host.host import Host
    from rrext.engine.interface.call import Call
    from rrext.engine.interface.operations import StoreOperation
    from rrext.files.file_store import FileStore, FileStoreSettings


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
        from rrext.engine.calls.stored_answer import stored_answer

        if self._store is None:
            from rrext.files.file_store import FileStore

            self._store = FileStore(self._settings, self._host.in_thread)
        session = self._store.session(call.caller.connection_id, call.caller.user_id)
        body, tail = await stored_answer(session, operation, call.data)
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
