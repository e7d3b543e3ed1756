"""Connections between ends that know each other's certificate: strangers get nothing, and nothing is lost or mixed."""

from __future__ import annotations

import os
import random
import resource
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from itertools import count

import pytest

from rrext.cluster.certificates import new_identity
from rrext.transports.tls import RECORD, STRANGERS, Identity, TlsEnd, accept, connect, context_of, listen

SERVER, WORKER, STRANGER = (new_identity(name) for name in ("server", "worker", "stranger"))


class Listening:
    """An end that waits on a thread for its one client, the server."""

    def __init__(self, patience: float | None = 50) -> None:
        listener = listen("127.0.0.1")
        self.port: int = listener.getsockname()[1]
        self._lifeline, self._alive = os.pipe()
        self._found: TlsEnd | None = None

        def wait() -> None:
            context = context_of(WORKER, SERVER.certificate)
            self._found = accept(listener, context, SERVER.certificate, lifeline=self._lifeline, patience=patience)

        self._thread = threading.Thread(target=wait)
        self._thread.start()

    def connected(self, own: Identity = SERVER, other: Identity = WORKER) -> TlsEnd:
        """A connection to it."""
        return connect("127.0.0.1", self.port, context_of(own, None), other.certificate)

    def plain(self) -> socket.socket:
        """A connection of somebody who speaks no TLS."""
        return socket.create_connection(("127.0.0.1", self.port), 50)

    def found(self) -> TlsEnd | None:
        """The connection of the client."""
        self._thread.join(50)
        assert not self._thread.is_alive()
        return self._found

    def give_up(self) -> None:
        """Be gone, as who started that end."""
        if self._alive >= 0:
            os.close(self._alive)
            self._alive = -1


@contextmanager
def listening(patience: float | None = 50) -> Iterator[Listening]:
    end = Listening(patience)
    try:
        yield end
    finally:
        end.give_up()
        found = end.found()
        if found is not None:
            found.close()


def both(end: Listening) -> tuple[TlsEnd, TlsEnd]:
    """The two ends of its one connection."""
    ours = end.connected()
    theirs = end.found()
    assert theirs is not None
    return ours, theirs


@pytest.mark.promise("cluster:strangers")
def test_a_client_with_another_certificate_is_turned_away_and_the_right_one_comes_in() -> None:
    with listening() as end:
        with pytest.raises(OSError):
            end.connected(own=STRANGER)
        ours, theirs = both(end)
        ours.write_all(b"hello")
        assert theirs.read_exactly(5) == b"hello"
        ours.close()


@pytest.mark.promise("cluster:strangers")
def test_an_end_with_another_certificate_is_told_nothing() -> None:
    with listening() as end, pytest.raises(ConnectionRefusedError):
        end.connected(other=STRANGER)


@pytest.mark.promise("cluster:strangers")
def test_who_comes_second_is_refused() -> None:
    with listening() as end:
        ours, _ = both(end)
        with pytest.raises(OSError):
            end.plain()
        ours.close()


@pytest.mark.promise("cluster:strangers")
@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + bytes(4000), os.urandom(70_000)])
def test_garbage_ends_its_own_connection_alone(garbage: bytes) -> None:
    with listening() as end:
        with closing(end.plain()) as stranger:
            try:
                stranger.sendall(garbage)
                while stranger.recv(1000):
                    pass
            except ConnectionError:
                pass
        both(end)[0].close()


@pytest.mark.promise("cluster:strangers")
def test_ten_thousand_silent_connections_keep_the_right_one_out_for_no_moment() -> None:
    most = min(4 * STRANGERS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4)
    with listening() as end:
        silent: list[socket.socket] = []
        for number in count():
            silent.append(end.plain())
            if len(silent) > most:
                silent.pop(random.randrange(len(silent))).close()
            if number == 10_000:
                break
        both(end)[0].close()
        for stranger in silent:
            stranger.close()


@pytest.mark.promise("cluster:strangers")
def test_a_handshake_that_is_slower_than_a_flood_of_silent_connections_goes_on() -> None:
    with listening() as end:
        ours = Slow(end.plain(), SERVER)
        ours.say_hello()
        silent = [end.plain() for _ in range(STRANGERS + 1)]
        assert silent[0].recv(1) == b""  # the oldest is pushed out
        ours.go_on()
        assert end.found() is not None
        for each in (ours.end, *silent):
            each.close()


@pytest.mark.promise("cluster:strangers")
def test_who_is_pushed_out_by_handshakes_of_strangers_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening() as end:
        shake, pushed = TlsEnd.shake_whole, list[TlsEnd]()

        def shake_late(ours: TlsEnd, certificate: str) -> None:
            if not pushed:
                pushed.append(ours)
                mine = Slow(socket.socket(fileno=os.dup(ours.fileno)), SERVER)
                mine.say_hello()
                for stranger in [Slow(end.plain(), STRANGER) for _ in range(STRANGERS)]:
                    stranger.say_hello()
                    stranger.end.close()
                mine.drain()
            shake(ours, certificate)

        monkeypatch.setattr(TlsEnd, "shake_whole", shake_late)
        both(end)[0].close()
        assert pushed


class Slow:
    """A client that does one step of a handshake, and the others when it is told."""

    def __init__(self, end: socket.socket, own: Identity) -> None:
        end.settimeout(50)
        self.end = end
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context_of(own, None).wrap_bio(self._incoming, self._outgoing)

    def say_hello(self) -> None:
        """Do the first step, and wait until it is answered."""
        with pytest.raises(ssl.SSLWantReadError):
            self._tls.do_handshake()
        self.end.sendall(self._outgoing.read())
        assert self.end.recv(1, socket.MSG_PEEK)

    def go_on(self) -> None:
        """Do the rest."""
        while True:
            self._incoming.write(self.end.recv(RECORD))
            with suppress(ssl.SSLWantReadError):
                self._tls.do_handshake()
                self.end.sendall(self._outgoing.read())
                return

    def drain(self) -> None:
        """Read until the other end has closed the connection."""
        with suppress(ConnectionResetError), self.end:
            while self.end.recv(RECORD):
                pass


@pytest.mark.promise("cluster:strangers")
def test_a_handshake_that_never_ends_is_cut_off() -> None:
    with listening() as end, closing(end.plain()) as stranger:
        stranger.sendall(b"\x16\x03\x01")
        assert stranger.recv(1) == b""


def test_who_waits_gives_up_when_nobody_wants_it_any_more() -> None:
    with listening() as end:
        end.give_up()
        assert end.found() is None


def test_who_waits_gives_up_after_its_patience() -> None:
    with listening(patience=0.05) as end:
        assert end.found() is None


def test_only_the_newest_version_of_tls_is_spoken() -> None:
    context = context_of(SERVER, None)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    with listening() as end, pytest.raises(OSError):
        connect("127.0.0.1", end.port, context, WORKER.certificate)


def test_bytes_come_as_they_were_written_whatever_their_pieces_and_the_room() -> None:
    chance = random.Random(7)
    with listening() as end:
        ours, theirs = both(end)
        queue = [chance.randbytes(chance.choice((0, 1, 100, 20_000, 300_000))) for _ in range(200)]
        sent, got = b"".join(queue), bytearray()
        while len(got) < len(sent):
            if queue:
                some = queue[: chance.randint(1, 5)]
                written = ours.write(some)
                while queue and written >= len(queue[0]):
                    written -= len(queue.pop(0))
                if written:
                    queue[0] = queue[0][written:]
            buffer = bytearray(chance.choice((1, 100, 8192, 100_000)))
            try:
                size = theirs.receive(memoryview(buffer))
            except BlockingIOError:
                continue
            assert size
            got += buffer[:size]
        assert got == sent
        ours.close()
        assert theirs.read_exactly(1) == b""


def test_what_has_no_room_is_not_reported_as_written_and_may_have_left() -> None:
    with listening() as end:
        ours, theirs = both(end)
        data, written = bytes(1 << 20), 0
        while more := ours.write([data]):
            written += more
        assert ours.in_records
        rest = theirs.read_exactly(written)
        assert rest == bytes(written)
        ours.close()


def test_all_that_a_failed_write_has_given_to_the_system_may_have_left() -> None:
    with listening() as end:
        ours, theirs = both(end)
        theirs.close()
        with pytest.raises(OSError):
            ours.write([bytes(8 * RECORD + 10)])
        assert ours.in_records >= 2 * RECORD
        ours.close()


def test_a_key_is_in_no_file_and_in_no_text() -> None:
    assert SERVER.key not in repr(SERVER)
    assert not [name for name in os.listdir("/proc/self/fd") if "identity" in os.path.realpath(f"/proc/self/fd/{name}")]
