"""Clients of a Unix socket: each has its own connection, session and pipes; all share one engine."""

from __future__ import annotations

import logging
import os
import select
import socket
from collections.abc import Callable
from itertools import count
from typing import Final

from rrext.engine.interface.call import Caller
from rrext.limits import ACCEPT_RETRY_INTERVAL, REQUESTS_PER_ITERATION
from rrext.server.peer_end import Grace, Peer, RestartingTask
from rrext.server.process import ServingProcess
from rrext.server.reader import Reader
from rrext.transports.descriptors import SocketSink
from rrext.transports.unix import UnixListener, peer_user
from rrext.wire.connection import ServerConnection
from rrext.wire.framing import ContentLength
from rrext.wire.messages import ServerEvent

log: Final = logging.getLogger("rrext.server")


class UnixClients:
    """Accepts the clients of one listening socket, at most `max_connections` at once.

    Only processes of root and of the server's own user are served. Where the system does not reveal a peer's user, only the
    mode of the socket's file keeps other users out.
    """

    def __init__(self, path: str, on_listening: Callable[[], object], *, tools: frozenset[str] | None = None) -> None:
        """`start` will listen at `path`, and then call `on_listening`. `tools` are the only ones that clients may use."""
        self._path = path
        self._tools = tools
        self._on_listening = on_listening
        self._listener: UnixListener | None = None
        self._process: ServingProcess | None = None
        self._numbers = count(1)
        self._clients: dict[Peer, tuple[Reader, socket.socket]] = {}
        self._farewells: dict[Peer, RestartingTask] = {}

    @property
    def _listening(self) -> UnixListener:
        assert self._listener is not None
        return self._listener

    @property
    def _serving(self) -> ServingProcess:
        assert self._process is not None
        return self._process

    def start(self, process: ServingProcess) -> None:
        """Begin to accept clients. Raises `UsageError` if the path cannot be listened at."""
        self._process = process
        self._listener = UnixListener(self._path, process.limits.backlog)
        process.host.loop.add_reader(self._listening.fileno(), self._accept)
        process.host.loop.call_later(process.limits.parent_poll, self._check)
        os.register_at_fork(after_in_child=self._close_in_child)
        self._on_listening()

    def _close_in_child(self) -> None:
        """Close the sockets in a forked child, so that clients do not take it for the server, nor wait for its end."""
        self._listening.release()
        for _, end in self._clients.values():
            end.close()

    def close(self) -> None:
        """Accept no more clients. On the loop's thread."""
        if self._listener is not None and self._listener.fileno() >= 0:
            self._serving.host.loop.remove_reader(self._listener.fileno())
            self._listener.close()

    def reload(self) -> None:
        """Do nothing: it has no files."""

    def remove(self) -> None:
        """Remove the socket's file. From any thread."""
        if self._listener is not None:
            self._listener.remove()

    async def ended(self, grace: Grace) -> None:
        """Return at once: each client is a peer of the process."""

    def _accept(self) -> None:
        try:
            end = self._listening.accept()
        except BlockingIOError:
            return
        except OSError as error:
            log.warning("a client cannot be taken now: %s", error.strerror)
            loop = self._serving.host.loop
            loop.remove_reader(self._listening.fileno())
            loop.call_later(ACCEPT_RETRY_INTERVAL, self._accept_again)
            return
        user = peer_user(end)
        if user not in (None, os.geteuid(), 0):
            log.warning("a client of user %s is refused: this server is user %s's", user, os.geteuid())
            end.close()
        elif len(self._clients) >= self._serving.limits.max_connections:
            log.warning("a client is refused: there are %s already (max_connections)", len(self._clients))
            end.close()
        else:
            self._serve(end)

    def _accept_again(self) -> None:
        if self._listening.fileno() >= 0:
            self._serving.host.loop.add_reader(self._listening.fileno(), self._accept)

    def _serve(self, end: socket.socket) -> None:
        process = self._serving
        loop, limits = process.host.loop, process.limits
        end.setblocking(True)  # for the reading thread; writes never block
        framer: ContentLength[ServerEvent] = ContentLength(limits)
        sink = SocketSink(end, loop, lambda: peer.lost())
        peer = Peer(
            process.engine,
            ServerConnection(framer, limits),
            sink,
            host=process.host,
            limits=limits,
            caller=Caller(connection_id=f"unix-{next(self._numbers)}", tools=self._tools),
            on_shutdown=process.shut_down,
            recorder=process.recorder,
        )

        def at_end() -> None:
            peer.lost("the client is gone") if _hung_up(end) else peer.input_ended()

        reader = Reader(peer.session, framer, end.fileno(), loop, process.host.workers, at_end, share=REQUESTS_PER_ITERATION)
        peer.reading = reader
        self._clients[peer] = reader, end
        process.add(peer, end.fileno())
        self._farewells[peer] = RestartingTask(
            loop, lambda: self._close_at_end(peer, reader, sink, end), f"client {peer.session.caller.connection_id}"
        )
        reader.start()

    async def _close_at_end(self, peer: Peer, reader: Reader, sink: SocketSink, end: socket.socket) -> None:
        """Wait for a client's end and close its descriptor, after the last thread has stopped reading from it."""
        await peer.ended()
        self._serving.remove(peer)
        del self._clients[peer], self._farewells[peer]
        sink.close()
        try:
            end.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads
        except OSError:  # the client has closed already
            pass
        reader.when_left(end.close)

    def _check(self) -> None:
        """Notice clients that hung up while reading from them is paused."""
        for peer, (reader, end) in list(self._clients.items()):
            if reader.paused and _hung_up(end):
                peer.lost("the client hung up")
        if self._listening.fileno() >= 0 or self._clients:
            self._serving.host.loop.call_later(self._serving.limits.parent_poll, self._check)


def _hung_up(end: socket.socket) -> bool:
    """Whether the client closed both directions, so that it reads no answers."""
    poll = select.poll()
    poll.register(end.fileno(), 0)  # a hang-up is always told
    return any(events & (select.POLLHUP | select.POLLERR) for _, events in poll.poll(0))
