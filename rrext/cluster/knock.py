"""What a stranger is told at the door of a cluster: whether anybody is there, and whether the head asks for a token.

The head of Ray answers calls of gRPC. One call without a token tells whether others may do what they like there. It is
written here by hand, as HTTP/2 needs a few bytes for it: Ray's own client repeats a refused call for twenty seconds, and the
server has nothing of Ray.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from contextlib import ExitStack, closing
from ipaddress import ip_address
from typing import Final

from rrext.limits import KIB

KNOCK_PATIENCE: Final = 1.0
"""Seconds in which a node accepts a connection: a network takes thousandths of one."""

ANSWER_PATIENCE: Final = 5.0
"""Seconds in which a head answers a call: it takes thousandths of one, and some on a busy machine."""

MOST_BYTES: Final = 64 * KIB
"""Bytes of an answer: a head sends some hundred."""

METHOD: Final = "/ray.rpc.NodeInfoGcsService/CheckAlive"
"""A call that tells nothing secret and changes nothing, and that needs the token as all others do."""

_BEGIN: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS = 0, 1, 4
"""Kinds of frames."""

_END_STREAM, _END_HEADERS = 1, 4
"""Flags of frames."""

_POST, _HTTP = b"\x83", b"\x86"
"""Headers that HTTP/2 has a number for: the method, and the scheme."""

_STATUS: Final = b"grpc-status"
_OK, _UNAUTHENTICATED = b"\x010", b"\x0216"
"""Values of that header, as texts behind their length."""

_ALERT: Final = b"\x15\x03"
"""How an alert of TLS begins: an end that wants TLS answers so to a call in plain text, or not at all as Ray does."""

_HTTP_2: Final = "h2"
"""Its name in TLS."""

_UNTOLD: Final = "its head does not tell whether it asks for a token"


def answers(address: str, port: int) -> bool:
    """Whether a node listens: Ray counts one that was killed among those that live for some seconds more."""
    try:
        socket.create_connection((address, port), timeout=KNOCK_PATIENCE).close()
    except OSError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether no other machine reaches an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class OpenCluster(Exception):
    """A cluster that other machines reach asks for no token."""


def require_loopback(addresses: Iterable[str]) -> None:
    """Raise `OpenCluster` if a node of a cluster without a token is where others reach it: so is the head, though it answers
    at 127.0.0.1 too."""
    for address in addresses:
        if not is_loopback(address):
            raise OpenCluster(
                f"it has a node at {address}, and asks for no token, so whoever reaches it runs code there: "
                "start all nodes and this server with RAY_AUTH_MODE=token"
            )


def parts_of(head: str) -> tuple[str, int]:
    """The host and the port of an address. Raises `ValueError` for what is none."""
    host, _, port = head.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or "/" in host:
        raise ValueError(head)
    return host, int(port)


def asks_for_token(head: str) -> bool:
    """Whether the head of a cluster refuses a call without a token. Raises `ConnectionError` if it tells neither."""
    said = _said(head)
    if not said or said.startswith(_ALERT):
        said = _said(head, tls=True)
        if not said:
            return True  # it asks for more than a token, and tells who has no certificate nothing
    value = said.partition(_STATUS)[2]
    if not value.startswith((_OK, _UNAUTHENTICATED)):
        raise ConnectionError(_UNTOLD)
    return value.startswith(_UNAUTHENTICATED)


def _said(head: str, *, tls: bool = False) -> bytes:
    """What a head answers to a call, until its status or its end. Raises `ConnectionError` if it waits, or has no TLS."""
    try:
        end = socket.create_connection(parts_of(head), timeout=KNOCK_PATIENCE)
    except OSError:
        raise ConnectionError("nothing listens there: start its head, or look at the address") from None
    said = bytearray()
    with ExitStack() as ends:
        ends.enter_context(closing(end)).settimeout(ANSWER_PATIENCE)
        if tls:
            end = ends.enter_context(closing(_in_tls(end)))
        try:
            end.sendall(_BEGIN + _frame(_SETTINGS, 0, 0, b"") + _call(head))
            while len(said) < MOST_BYTES and (piece := end.recv(MOST_BYTES)):
                said += piece
                if said.partition(_STATUS)[2].startswith((_OK, _UNAUTHENTICATED)):
                    break
        except TimeoutError:
            raise ConnectionError(_UNTOLD) from None
        except OSError:
            pass  # an end, with or without words
    return bytes(said)


def _in_tls(end: socket.socket) -> socket.socket:
    """A connection in TLS, without a certificate, to an end that has HTTP/2 there. Raises `ConnectionError` for another."""
    import ssl

    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # it is told nothing
    context.set_alpn_protocols([_HTTP_2])
    try:
        within = context.wrap_socket(end)
    except OSError:
        raise ConnectionError(_UNTOLD) from None
    if within.selected_alpn_protocol() != _HTTP_2:
        within.close()
        raise ConnectionError(_UNTOLD)
    return within


def _frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + content


def _header(name: str, value: str) -> bytes:
    return b"\0" + b"".join(bytes([len(text)]) + text.encode() for text in (name, value))


def _call(head: str) -> bytes:
    """A call without arguments."""
    names = _header(":path", METHOD) + _header(":authority", head[:100]) + _header("content-type", "application/grpc")
    headers = _frame(_HEADERS, _END_HEADERS, 1, _POST + _HTTP + names + _header("te", "trailers"))
    return headers + _frame(_DATA, _END_STREAM, 1, bytes(5))
