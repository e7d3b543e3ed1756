"""Programs that want the network, and sockets that are none of theirs."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from guests import Guests

pytestmark = pytest.mark.system


class Listeners:
    """Something to reach in each family; `reached` says who got through."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.path, self.abstract = str(folder / "socket"), f"\0rrext-test-{folder.name}"
        self.sockets: dict[str, socket.socket] = {}
        for name, family, kind, address in (
            ("tcp", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            ("udp", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            ("unix", socket.AF_UNIX, socket.SOCK_STREAM, self.path),
            ("abstract", socket.AF_UNIX, socket.SOCK_STREAM, self.abstract),
            ("datagram", socket.AF_UNIX, socket.SOCK_DGRAM, self.abstract + "d"),
        ):
            listener = stack.enter_context(socket.socket(family, kind))
            listener.bind(address)
            listener.setblocking(False)
            if kind == socket.SOCK_STREAM:
                listener.listen()
            self.sockets[name] = listener

    @property
    def reached(self) -> list[str]:
        found = []
        for name, listener in self.sockets.items():
            try:
                listener.accept() if listener.type == socket.SOCK_STREAM else listener.recv(1)
            except BlockingIOError:
                continue
            found.append(name)
        return found


@pytest.fixture
def listeners(tmp_path: Path) -> Iterator[Listeners]:
    with ExitStack() as stack:
        yield Listeners(tmp_path, stack)


def test_no_socket_reaches_the_host(guests: Guests, listeners: Listeners) -> None:
    tcp, udp = (listeners.sockets[name].getsockname() for name in ("tcp", "udp"))
    run = guests.run(
        f"""
        import socket
        for family, kind, address in (
            (socket.AF_INET, socket.SOCK_STREAM, {tcp!r}),
            (socket.AF_INET, socket.SOCK_DGRAM, {udp!r}),
            (socket.AF_UNIX, socket.SOCK_STREAM, {listeners.path!r}),
            (socket.AF_UNIX, socket.SOCK_STREAM, {listeners.abstract!r}),
            (socket.AF_UNIX, socket.SOCK_DGRAM, {listeners.abstract + "d"!r}),
        ):
            try:
                s = socket.socket(family, kind)
                s.connect(address)
                s.sendall(b"x")
                print("reached", address)
            except OSError:
                pass
        """
    )
    assert (run.exit_code, run.stdout, listeners.reached) == (0, "", [])


def test_one_end_of_a_socket_pair_cannot_be_turned_against_the_host(guests: Guests, listeners: Listeners) -> None:
    run = guests.run(
        f"""
        import array, ctypes, socket
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            for address in ({listeners.path!r}, {listeners.abstract!r}, {listeners.abstract + "d"!r}):
                ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
                for attempt in (
                    lambda: ours.connect(address), lambda: ours.bind(address + "2"), lambda: ours.listen(),
                    lambda: ours.sendto(b"x", address), lambda: ours.sendmsg([b"x"], [], 0, address),
                ):
                    try:
                        attempt()
                        print("done")
                    except OSError:
                        pass
        """
    )
    assert (run.exit_code, run.stdout, listeners.reached) == (0, "", [])


def test_no_family_of_sockets_can_be_opened(guests: Guests) -> None:
    code = """
        import _socket
        result = []
        for family in range(46):
            for kind in (1, 2, 3, 5):
                try:
                    result.append(repr(_socket.socket(family, kind)))
                except OSError:
                    pass
        """
    assert guests.result(code) == []


def test_no_name_is_looked_up_and_no_page_is_fetched(guests: Guests) -> None:
    code = """
        import socket, urllib.request
        result = []
        for attempt in (
            lambda: socket.getaddrinfo("example.org", 80), lambda: socket.create_connection(("127.0.0.1", 22), 1),
            lambda: urllib.request.urlopen("http://127.0.0.1/", timeout=1), lambda: socket.create_server(("", 0)),
        ):
            try:
                result.append(str(attempt()))
            except OSError:
                pass
        """
    assert guests.result(code) == []


def test_no_descriptor_is_passed_out_over_the_channel(guests: Guests) -> None:
    run = guests.run(
        """
        import array, socket
        for fd in range(3, 9):
            try:
                s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=fd)
                s.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
                print("sent")
            except OSError:
                pass
        """
    )
    assert "sent" not in run.stdout
