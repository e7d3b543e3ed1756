"""The thread that reads the client's messages, so that decoding a large text does not delay answers."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from pygls.exceptions import JsonRpcParseError

from rrext.errors import RrextError
from rrext.faces.lsp.document_params import document_in
from rrext.limits import Limits
from rrext.server.outbox import Outbox
from rrext.transports.descriptors import read_into
from rrext.wire.framing import Framer
from rrext.wire.messages import Fatal
from rrext.wire.recovery import recover_members

if TYPE_CHECKING:
    from rrext.faces.lsp.server import PipeServer

log: Final = logging.getLogger("rrext.lsp")

_decode: Final = msgspec.json.Decoder().decode


class _Refused(msgspec.Struct, frozen=True):
    """An undecodable body: its id if that could be recovered, or the document that it was about."""

    request_id: int | str | None
    uri: str | None
    reason: str
    is_too_large: bool = False


class MessageReader(threading.Thread):
    """Passes messages to the server in batches; it reads the next batch once the last is handled and the outbox has room.

    Edits that arrive together are passed on together, so that only their final state is analysed. `on_end` runs on the loop at
    the end of input, with an error if the input is not framed.
    """

    def __init__(
        self,
        fd: int,
        framer: Framer[Any],
        loop: asyncio.AbstractEventLoop,
        server: PipeServer,
        outbox: Outbox,
        limits: Limits,
        on_end: Callable[[str | None], None],
    ) -> None:
        super().__init__(name="rrext-lsp-reader", daemon=True)
        self.has_read = False
        self.is_held = False
        """Whether reading waits until the client reads."""
        self._fd = fd
        self._loop = loop
        self._server = server
        self._outbox = outbox
        self._on_end = on_end
        self._recovery = limits.id_recovery
        self._framer = framer
        framer.deliver(self._decoded, self._refused)
        self._taken = threading.Event()

    def run(self) -> None:
        """Read until the end, or until unframed bytes."""
        while n := self._read():
            self.has_read = True
            self._hand_on(self._framer.buffer_updated(n))
            self.is_held = True
            self._outbox.wait_for_room()
            self.is_held = False
        for event in self._framer.receive_eof():
            log.warning("%s", cast("Fatal", event).error.message)
        self._tell(self._on_end, None)

    def _read(self) -> int:
        try:
            return read_into(self._fd, self._framer.get_buffer())
        except OSError as error:  # a closed terminal, a folder
            log.warning("stdin cannot be read: %s", error.strerror)
            return 0

    def _hand_on(self, events: list[Any]) -> None:
        if events:
            self._taken.clear()
            self._tell(self._take, deque(events))
            self._taken.wait()

    def _tell(self, action: Callable[..., object], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(action, *args)
        except RuntimeError:  # the loop is closed: this thread ends with its process
            self._taken.set()

    def _take(self, events: deque[Any]) -> None:
        """On the loop: handle messages. A request starts before later messages are handled, because it is about the text before
        them."""
        protocol = self._server.protocol
        while events:
            event = events.popleft()
            if isinstance(event, Fatal):
                protocol.refuse(None, JsonRpcParseError(event.error.message))
                self._on_end(event.error.message)
            elif isinstance(event, _Refused):
                self._refuse(event)
            else:
                protocol.receive(event)
                if events and isinstance(event, dict) and "id" in event:
                    self._loop.call_soon(self._take, events)
                    return
        self._taken.set()

    def _refuse(self, event: _Refused) -> None:
        if event.uri is not None and event.is_too_large:
            self._server.refuse_text(event.uri, event.reason)
        elif event.uri is not None:
            self._server.lose(event.uri, event.reason)
        else:
            self._server.protocol.refuse(event.request_id, JsonRpcParseError(event.reason))

    # bodies, on this thread

    def _decoded(self, body: memoryview, _tail: bytes | None, _nbytes: int) -> Any:
        try:
            return _decode(body)
        except (ValueError, RecursionError):
            pass  # JavaScript also sends lone surrogates, which the strict decoder refuses
        try:
            return json.loads(bytes(body))
        except (ValueError, RecursionError) as error:
            return self._refusal(body, f"The message is no JSON: {error}")

    def _refused(self, error: RrextError, start: memoryview) -> Any:
        return self._refusal(start, error.message, is_too_large=True)

    def _refusal(self, body: memoryview, reason: str, *, is_too_large: bool = False) -> _Refused:
        start = bytes(body[: self._recovery])
        found = recover_members(start).get("id")
        request_id = found if isinstance(found, int | str) and not isinstance(found, bool) else None
        uri = document_in(start) if request_id is None else None
        return _Refused(request_id, uri, reason, is_too_large)
