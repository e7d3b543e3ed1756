"""A network between a server and its hosts that can be cut, or fall silent: a relay in front of each connection."""

from __future__ import annotations

import select
import socket
import ssl
import threading
from contextlib import suppress

from rrext.transports.tls import TlsEnd, connect


class Relay:
    """One connection, through a thread."""

    def __init__(self, network: Network, address: str, port: int) -> None:
        self._network = network
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._target = (address, port)
        self.port: int = self._listener.getsockname()[1]
        self._end, self._cut = socket.socketpair()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        with self._listener, self._end:
            ready, _, _ = select.select([self._listener, self._end], [], [])
            if self._end in ready:
                return
            near, _ = self._listener.accept()
            with near, socket.create_connection(self._target) as far, suppress(OSError):
                self._pump({near: far, far: near})

    def _pump(self, ends: dict[socket.socket, socket.socket]) -> None:
        watched = {self._end, *ends}
        while True:
            ready, _, _ = select.select(watched, [], [])
            if self._end in ready:
                return
            for source in ready:
                piece = source.recv(1 << 16)
                if piece and not self._network.is_silent:
                    ends[source].sendall(piece)
                elif not piece and not self._network.is_silent:
                    return
                elif not piece:
                    watched.remove(source)  # nobody hears of an end either

    def cut(self) -> None:
        """End the connection, for both."""
        self._cut.close()


class Network:
    """All connections of a server to its hosts, the control connection of each first."""

    def __init__(self) -> None:
        self.relays: list[Relay] = []
        self.is_silent = False

    def connect(self, address: str, port: int, context: ssl.SSLContext, certificate: str) -> TlsEnd:
        """In the place of `connect` of TLS."""
        relay = Relay(self, address, port)
        self.relays.append(relay)
        return connect("127.0.0.1", relay.port, context, certificate)

    def close(self) -> None:
        """Cut what is left."""
        for relay in self.relays:
            relay.cut()
            relay.thread.join()
