"""A serving process: its peers, the causes of its end, and its exit code.

The process ends with the client that spawned it, on stdin and stdout; clients of a socket come and go. `shutdown`, SIGTERM
and SIGINT drain, and end it for all clients. No stuck tool keeps the process: if the loop itself is stuck, the end watch
ends the process without it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
from collections.abc import Callable
from time import monotonic, sleep
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

from rrext.engine.host.host import Host
from rrext.engine.interface.call import Caller
from rrext.engine.interface.engine import Engine
from rrext.limits import END_WATCH_MARGIN, SHARED_CLOSE_TIMEOUT, THREADS_END_TIMEOUT, THREADS_POLL_INTERVAL, Limits
from rrext.server.end_watch import EndWatch
from rrext.server.peer_end import DRAINED, GONE, Grace, Peer, RestartingTask
from rrext.server.reader import Reader
from rrext.server.session import Session
from rrext.server.watchdog import Watchdog
from rrext.transports.claimed_stdio import ClaimedStdio
from rrext.transports.descriptors import DescriptorSink, ParentWatch
from rrext.wire.connection import ServedConnection, ServerConnection
from rrext.wire.framing import ContentLength

if TYPE_CHECKING:
    from rrext.server.recording import Recorder

STDIO: Final = Caller(connection_id="stdio")
"""The client on stdin and stdout."""

EXIT_LOST: Final = 1  # answers were not read in time

log: Final = logging.getLogger("rrext.server")


class Listener(Protocol):
    """A source of clients, which adds each client to the process as a peer."""

    def start(self, process: ServingProcess) -> None:
        """Begin to accept clients."""
        ...

    def close(self) -> None:
        """Take no more work of clients. On the loop's thread; repeated calls are allowed."""
        ...

    def reload(self) -> None:
        """Read the files of the operator again. From any thread."""
        ...

    def remove(self) -> None:
        """Remove the server's address, such as the file of a socket. From any thread."""
        ...

    async def ended(self, grace: Grace) -> None:
        """Wait until the clients that are no peers have their answers, until the end of the grace."""
        ...


def framed_connection(limits: Limits) -> ServedConnection:
    """A connection with frames, in the dialect of its first message."""
    return ServerConnection(ContentLength(limits), limits)


class ServingProcess:
    """A process that serves stdin and stdout, the clients of `listener`, or both. `run` returns the exit code. If the loop is
    stuck, the process ends without returning from `run`, after `last_words`, which flushes the log. `kind`, `reader` and `sink`
    are the classes of the session on stdin and stdout, and of what reads and writes for it. `recorder` writes the messages of
    all clients.
    """

    def __init__(
        self,
        engine: Engine,
        host: Host,
        claimed: ClaimedStdio,
        *,
        limits: Limits,
        serves_stdio: bool = True,
        connect_stdio: Callable[[Limits], ServedConnection] = framed_connection,
        on_stdio: Callable[[Engine, Session], object] = lambda engine, session: None,
        caller: Caller = STDIO,
        kind: type[Session] = Session,
        reader: Callable[..., Reader] = Reader,
        sink: Callable[..., DescriptorSink] = DescriptorSink,
        listener: Listener | None = None,
        parent: ParentWatch | None = None,
        watchdog: Watchdog | None = None,
        look_at_loop: Callable[[], None] | None = None,
        last_words: Callable[[], object] = lambda: None,
        recorder: Recorder | None = None,
    ) -> None:
        self.engine = engine
        self.recorder = recorder
        self.host = host
        self.limits = limits
        self._listener = listener
        self._last_words = last_words
        self._grace = Grace(host.loop)
        self._end_task: RestartingTask | None = None
        self._code: asyncio.Future[int] = host.loop.create_future()
        self._is_fork = False
        self._peers: dict[Peer, int | None] = {}
        self._make_reader, self._make_sink = reader, sink
        self._claimed = claimed
        self._stdio = self._stdio_peer(claimed, connect_stdio(limits), caller, kind) if serves_stdio else None
        if self._stdio is not None:
            on_stdio(engine, self._stdio.session)
        self._end_watch = EndWatch(
            host.loop,
            claimed.read_fd if serves_stdio else None,
            parent=(parent or ParentWatch()) if serves_stdio else None,
            poll=limits.parent_poll,
            drain=limits.drain + DRAINED.flush + END_WATCH_MARGIN,
            patience=limits.eof_grace,
            on_signal=self.shut_down,
            on_orphaned=self._on_orphaned,
            unread=claimed.write_fd if serves_stdio else None,
            on_hung_up=self._on_hung_up,
            on_unread=self._on_unread,
            on_unheard=claimed.silence,
            on_overdue=self._end_without_loop,
            look_at_loop=look_at_loop,
            watchdog=watchdog,
            on_reload=self._on_reload,
        )

    def _stdio_peer(self, claimed: ClaimedStdio, connection: ServedConnection, caller: Caller, kind: type[Session]) -> Peer:
        assert connection.framer is not None
        peer = Peer(
            self.engine,
            connection,
            self._make_sink(claimed.write_fd, self.host.loop, lambda: peer.lost("nobody reads stdout")),
            host=self.host,
            limits=self.limits,
            caller=caller,
            on_ending=lambda seconds: self._end_within(seconds, "its client on stdio ends"),
            closed=DRAINED,
            kind=kind,
            recorder=self.recorder,
        )
        self._reader = self._make_reader(
            peer.session,
            connection.framer,
            claimed.read_fd,
            self.host.loop,
            self.host.workers,
            lambda: peer.input_ended("end of stdin"),
        )
        peer.reading = self._reader
        self._peers[peer] = claimed.write_fd
        return peer

    def run(self) -> int:
        """Serve until the end; returns 0, or 1 after bytes on stdin that were no frames and if answers to the client on
        stdio could not be delivered. What tools do to the loop and its tasks does not end it."""
        loop, code = self.host.loop, self._code
        loop.run_until_complete(self._start())
        code.add_done_callback(lambda _: loop.stop())
        while not code.done():
            try:
                loop.run_forever()
            except (SystemExit, KeyboardInterrupt):
                log.exception("a task that a tool began wanted to end the process")
            if self._is_fork:
                os._exit(0)
        return code.result()

    async def _start(self) -> None:
        os.register_at_fork(after_in_child=self._in_fork)
        self._end_watch.start()
        if self._listener is not None:
            self._listener.start(self)
        if self._stdio is not None:
            self._claimed.frames_begin()
            self._reader.start()

    def _in_fork(self) -> None:
        """Prepare a forked child, which may return from a tool into the server's code: it must not answer, and ends."""
        self._is_fork = self.host.workers.is_fork = True
        for peer in self._peers:
            peer.session.connection = _ExitOnUse()  # pyright: ignore[reportAttributeAccessIssue]
        self.host.loop.stop()

    # -- peers

    def add(self, peer: Peer, fd: int | None) -> None:
        """Add a peer, which ends with the process. It writes to the descriptor `fd`, or through the loop alone."""
        self._peers[peer] = fd

    def remove(self, peer: Peer) -> None:
        """Remove a peer that ended."""
        self._peers.pop(peer, None)

    @property
    def peers(self) -> int:
        """The number of peers."""
        return len(self._peers)

    # -- reasons to end

    def shut_down(self, why: str) -> None:
        """Drain and end the process, after `shutdown` or a signal."""
        self._end_within(self.limits.drain, why)

    def _on_orphaned(self) -> None:
        """End after the parent's death, which was noticed late: EOF does not come while a sibling process holds the pipe."""
        assert self._stdio is not None  # only the client on stdio is a parent
        self._stdio.end_within(self.limits.eof_grace - self.limits.parent_poll, "the parent process is gone", GONE)

    def _on_hung_up(self) -> None:
        """stdin hung up while reading is paused: treat it as the end of input, so that unread requests do not delay the end."""
        if self._stdio is not None and self._reader.paused:
            self._stdio.input_ended("end of stdin")

    def _on_unread(self) -> None:
        """End the client on stdio: stdout has no reader, though no write has failed yet."""
        if self._stdio is not None:
            self._stdio.lost("nobody reads stdout")

    def _on_reload(self) -> None:
        if self._listener is not None:
            self._listener.reload()

    def _end_within(self, seconds: float, why: str) -> None:
        """Begin the end of the process and its peers, or shorten an end that has begun."""
        begins = not self._grace.has_begun
        if not self._grace.shorten(seconds):
            return
        cause = DRAINED if self._stdio is None else self._stdio.cause
        self._end_watch.expect_end(seconds + cause.flush + END_WATCH_MARGIN, cause.slack)
        if self._listener is not None:
            self._listener.close()
        for peer in list(self._peers):
            peer.end_within(seconds, why, DRAINED)
        if begins:
            log.info("ending: %s", why)
            self._end_task = RestartingTask(self.host.loop, self._end, f"end: {why}")

    # -- the end

    async def _end(self) -> None:
        try:
            for peer in list(self._peers):
                await peer.ended()
            if self._listener is not None:
                await self._listener.ended(self._grace)
            cause = DRAINED if self._stdio is None else self._stdio.cause
            await self._grace.within(cause.flush + SHARED_CLOSE_TIMEOUT, self.engine.aclose())
        except Exception:
            log.exception("a bug of rrext, while it ended")
        if not self._code.done():
            self._code.set_result(self._exit_code(self._stdio is None or self._stdio.has_all))

    def _exit_code(self, is_delivered: bool) -> int:
        if not is_delivered:
            return EXIT_LOST
        return 0 if self._stdio is None else self._stdio.cause.code

    def _end_without_loop(self) -> None:
        """Answer the unanswered requests and exit, though the loop is blocked. On the end watch's thread."""
        is_delivered = False
        try:
            log.error("the event loop is stuck, probably in a tool: ending without it")
            if self._listener is not None:
                self._listener.remove()
            for peer in list(self._peers):
                peer.answer_without_loop()
            _write_last(dict(self._peers))
            is_delivered = self._stdio is None or self._stdio.has_all
            self._last_words()
        finally:
            os._exit(self._exit_code(is_delivered))


class _ExitOnUse:
    """Replaces a connection in a forked child, which must not answer: each use ends the child."""

    def __getattr__(self, name: str) -> NoReturn:
        os._exit(0)


def _write_last(peers: dict[Peer, int | None]) -> None:
    """Wait a moment for threads that are sending answers, and write the rest of the outboxes."""
    until = monotonic() + THREADS_END_TIMEOUT
    while monotonic() < until and any(peer.session.is_busy for peer in peers):
        sleep(THREADS_POLL_INTERVAL)
    poll = select.poll()
    waiting = {fd: peer.session.outbox for peer, fd in peers.items() if fd is not None and peer.session.outbox.size}
    for fd in waiting:
        poll.register(fd, select.POLLOUT)
    while waiting and (ready := poll.poll(max(0.0, until - monotonic()) * 1000)):
        for fd, _ in ready:
            waiting[fd].retry()
            if not waiting[fd].size:
                poll.unregister(fd)
                del waiting[fd]
