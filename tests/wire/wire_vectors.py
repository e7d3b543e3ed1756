"""Byte streams and the events that they must give, shared by the tests of this folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from rrext.limits import READ_BUFFER, Limits
from rrext.wire.connection import ClientConnection, ServerConnection
from rrext.wire.framing import ContentLength
from rrext.wire.messages import Event, Fatal, Ignored, Malformed, Request, Response

SMALL = Limits(max_frame=200_000)
"""Small enough that a test can pass it, large enough that a body can be larger than the receive buffer."""

GOOD = {
    "dap": {"type": "request", "seq": 99, "command": "rrext_ping"},
    "jsonrpc": {"jsonrpc": "2.0", "id": 99, "method": "rrext_ping"},
}


def body(message: Any) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()


def frame(content: bytes | dict[str, Any] | list[Any], tail: bytes | None = None, headers: bytes = b"") -> bytes:
    """One frame with the usual header, around bytes or around a value."""
    raw = content if isinstance(content, bytes) else body(content)
    if tail is None:
        return b"Content-Length: %d\r\n%b\r\n%b" % (len(raw), headers, raw)
    size = len(raw) + len(tail)
    return b"Content-Length: %d\r\nJson-Length: %d\r\n%b\r\n%b%b" % (size, len(raw), headers, raw, tail)


def dap(seq: int = 1, command: str = "c", **more: Any) -> dict[str, Any]:
    return {"type": "request", "seq": seq, "command": command, **more}


def rpc(number: int | str = 1, method: str = "c", **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, **more}


def seen(event: object) -> tuple[Any, ...]:
    """An event as a value that can be compared: errors by their code."""
    match event:
        case Request():
            return ("request", event.id, event.command, event.arguments, event.tail, event.nbytes)
        case Response():
            return ("response", event.id, event.command, event.body, event.error and event.error.code, event.tail)
        case Event():
            return ("event", event.name, event.body, event.tail)
        case Malformed():
            return ("malformed", event.error.code, event.id)
        case Fatal():
            return ("fatal", event.error.code)
        case Ignored():
            return ("ignored",)
        case _:
            raise AssertionError(f"{event!r} is no event of the wire")


Side = ClientConnection | ServerConnection


def feed(connection: Side, pieces: Iterable[bytes], *, end: bool = False) -> list[tuple[Any, ...]]:
    """What a connection makes of these pieces."""
    events = [seen(event) for piece in pieces for event in connection.framer.receive_data(piece)]
    return events + [seen(event) for event in connection.framer.receive_eof()] if end else events


def serve(*pieces: bytes, limits: Limits = SMALL, end: bool = False) -> list[tuple[Any, ...]]:
    """What a fresh server makes of these pieces."""
    return feed(ServerConnection(ContentLength(limits)), pieces, end=end)


def byte_by_byte(data: bytes) -> Iterator[bytes]:
    return (data[i : i + 1] for i in range(len(data)))


def in_pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[i : i + size] for i in range(0, len(data), size))


class Vector(NamedTuple):
    """A stream by name, and what a server sees in it."""

    name: str
    data: bytes
    events: list[tuple[Any, ...]]


def _request(message: dict[str, Any], nbytes: int | None = None, tail: bytes | None = None) -> tuple[Any, ...]:
    number = message.get("seq", message.get("id"))
    command = message.get("command", message.get("method"))
    arguments = message.get("arguments", message.get("params")) or {}
    return ("request", number, command, arguments, tail, len(body(message)) + len(tail or b"") if nbytes is None else nbytes)


D, R = dap(arguments={"a": [1, "ü", None], "_meta": {"t": 1}}), rpc(params={"a": [1, "ü", None], "_meta": {"t": 1}})
SIZE = len(body(D))
BIG = dap(2, arguments={"text": "x" * 70_000})
AT = 65_536 - len(b"Content-Length: 65511\r\n\r\n")


def _exactly(size: int) -> dict[str, Any]:
    """A request whose body has this size."""
    return dap(3, arguments={"t": "y" * (size - len(body(dap(3, arguments={"t": ""}))))})


def _header(*lines: bytes, message: dict[str, Any] = D, end: bytes = b"\r\n") -> bytes:
    return b"".join(line + end for line in (*lines, b"")) + body(message)


N = b"%d" % SIZE
HEADERS: list[Vector] = [
    Vector(name, data, [_request(D)])
    for name, data in {
        "usual": _header(b"Content-Length: " + N),
        "lower case": _header(b"content-length: " + N),
        "upper case": _header(b"CONTENT-LENGTH: " + N),
        "mixed case": _header(b"cOnTeNt-LeNgTh: " + N),
        "no space": _header(b"Content-Length:" + N),
        "many spaces": _header(b"Content-Length:    " + N + b"   "),
        "tab": _header(b"Content-Length:\t" + N + b"\t"),
        "space before the colon": _header(b"Content-Length : " + N),
        "leading zeros": _header(b"Content-Length: 000" + N),
        "very many leading zeros": _header(b"Content-Length: " + b"0" * 5000 + N),
        "bare LF": _header(b"Content-Length: " + N, end=b"\n"),
        "CRLF then LF": b"Content-Length: " + N + b"\r\n\n" + body(D),
        "LF then CRLF": b"Content-Length: " + N + b"\n\r\n" + body(D),
        "repeated": _header(b"Content-Length: " + N, b"Content-Length: " + N),
        "repeated in another form": _header(b"Content-Length: " + N, b"content-length:0" + N),
        "content type first": _header(b"Content-Type: application/vscode-jsonrpc; charset=utf-8", b"Content-Length: " + N),
        "content type last": _header(b"Content-Length: " + N, b"Content-Type: application/json"),
        "unknown header": _header(b"X-Anything: 1: 2", b"Content-Length: " + N, b"Y:"),
        "header that is not UTF-8": _header(b"X: \xff\xfe", b"Content-Length: " + N),
        "header of almost 8 KiB": _header(b"X: " + b"x" * 8000, b"Content-Length: " + N),
        "blank lines before": b"\r\n\n\r\n" + _header(b"Content-Length: " + N),
    }.items()
]

TAILS: list[Vector] = [
    Vector("raw tail", frame(D, b"\x00\xff\r\n\r\n{"), [_request(D, tail=b"\x00\xff\r\n\r\n{")]),
    Vector("empty raw tail", frame(D, b""), [_request(D, tail=b"")]),
    Vector("raw tail of JSON-RPC", frame(R, b"abc"), [_request(R, tail=b"abc")]),
    Vector(
        "raw tail, Json-Length first",
        b"json-length:%d\ncontent-length:%d\n\n%bxyz" % (SIZE, SIZE + 3, body(D)),
        [_request(D, tail=b"xyz")],
    ),
    Vector("raw tail that looks like a frame", frame(D, frame(D)), [_request(D, tail=frame(D))]),
    Vector("raw tail larger than the buffer", frame(D, bytes(range(256)) * 300), [_request(D, tail=bytes(range(256)) * 300)]),
    Vector("JSON larger than the buffer, raw tail", frame(BIG, b"tail"), [_request(BIG, tail=b"tail")]),
    Vector("JSON larger than the buffer, empty raw tail", frame(BIG, b""), [_request(BIG, tail=b"")]),
    Vector("repeated Json-Length", frame(D, b"t", b"Json-Length: %d\r\n" % SIZE), [_request(D, tail=b"t")]),
]

BODIES: list[Vector] = [
    Vector("two frames", frame(D) + frame(dap(2)), [_request(D), _request(dap(2))]),
    Vector("JSON-RPC", frame(R) + frame(rpc("x")), [_request(R), _request(rpc("x"))]),
    Vector(
        "body with a frame in a string",
        frame(dap(arguments={"t": frame(D).decode()})),
        [_request(dap(arguments={"t": frame(D).decode()}))],
    ),
    Vector("space around the JSON", frame(b" \r\n\t" + body(D) + b"\n"), [_request(D, SIZE + 5)]),
    Vector("larger than the buffer", frame(BIG) + frame(D), [_request(BIG), _request(D)]),
    *(
        Vector(
            f"frame of {AT + more:+} bytes", frame(_exactly(AT + more)) + frame(D), [_request(_exactly(AT + more)), _request(D)]
        )
        for more in (-1, 0, 1)
    ),
    *(
        Vector(
            f"a full buffer {more:+} bytes, then {kind}",
            frame(D) + frame(_exactly(READ_BUFFER + more), tail) + frame(D),
            [_request(D), _request(_exactly(READ_BUFFER + more), tail=tail), _request(D)],
        )
        for more in (-SIZE - 30, -27, -26, -25, 0, 3000)
        for kind, tail in (("no tail", None), ("a short tail", b"tail"), ("a long tail", bytes(70_000)))
    ),
    Vector("Return after each frame", (frame(D) + b"\n") * 3, [_request(D)] * 3),
]

TOO_LARGE = dap(7, arguments={"t": "z" * 200_000})
BROKEN: list[Vector] = [
    Vector("not JSON", frame(b"{") + frame(D), [("malformed", "parse_error", None), _request(D)]),
    Vector("empty body", frame(b"") + frame(D), [("malformed", "parse_error", None), _request(D)]),
    Vector("oversize", frame(TOO_LARGE) + frame(D), [("malformed", "frame_too_large", 7), _request(D)]),
    Vector("oversize raw tail", frame(dap(8), bytes(200_001)) + frame(D), [("malformed", "frame_too_large", 8), _request(D)]),
    Vector("oversize garbage", frame(b"\xff" * 300_000) + frame(D), [("malformed", "frame_too_large", None), _request(D)]),
    Vector(
        "bad Json-Length",
        frame(D, headers=b"Json-Length: 9999\r\n") + frame(dap(2)),
        [("malformed", "parse_error", 1), _request(dap(2))],
    ),
    Vector(
        "line without colon",
        frame(D, headers=b"hello\r\n") + frame(dap(2)),
        [("malformed", "parse_error", 1), _request(dap(2))],
    ),
]

FATAL: list[Vector] = [
    Vector(name, data + frame(D), [("fatal", "parse_error")])
    for name, data in {
        "no length": b"X: 1\r\n\r\n",
        "no length, bare LF": b"X: 1\n\n",
        "empty length": b"Content-Length:\r\n\r\n",
        "negative": b"Content-Length: -1\r\n\r\n",
        "signed": b"Content-Length: +1\r\n\r\n",
        "hexadecimal": b"Content-Length: 0x10\r\n\r\n",
        "underscore": b"Content-Length: 1_0\r\n\r\n",
        "fraction": b"Content-Length: 1.0\r\n\r\n",
        "two numbers": b"Content-Length: 2, 2\r\n\r\n",
        "digits that are not ASCII": "Content-Length: \u0662\r\n\r\n".encode(),
        "contradictory": b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n",
        "contradictory, one of them bad": b"Content-Length: 2\r\nContent-Length: x\r\n\r\n",
        "over 4 GiB": b"Content-Length: 4294967297\r\n\r\n",
        "thousands of digits": b"Content-Length: " + b"9" * 6000 + b"\r\n\r\n",
        "header over 8 KiB": b"X: " + b"x" * 8200 + b"\r\n\r\n",
        "header that never ends": b"x" * 9000,
        "many headers over 8 KiB": b"X: 1\r\n" * 2000,
        "bare JSON": body(D) + b"\n",
        "bare batch": b"[1]\n",
        "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "blank lines, then bare JSON": b"\r\n\r\n{}",
    }.items()
]

ALL: list[Vector] = [*HEADERS, *TAILS, *BODIES, *BROKEN, *FATAL]
SHORT: list[Vector] = [vector for vector in ALL if len(vector.data) <= 600]
"""Vectors that can be split at every offset in a moment."""

Maker = Callable[[], Side]
