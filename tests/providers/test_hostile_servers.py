"""Servers of HTTP APIs that mean no good: each costs its call, in bounded time and memory, and nothing else."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
import zlib
from collections.abc import Callable

import pytest
from api_server import raw_host
from outside import provider_of

from rrext.errors import RrextError, ToolError, ToolTimeout
from rrext.providers.http.api_client import MAX_ANSWER
from rrext.tools.context import ToolContext

pytestmark = pytest.mark.anyio

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


async def failing(write: Callable[[socket.socket], None], **table: object) -> RrextError:
    """The failure of one call to a server that writes so."""
    with raw_host(write) as url:
        async with provider_of("http", {"url": url, "tools": {"x": {"url": "/x"}}, **table}) as provider:
            with pytest.raises((ToolError, ToolTimeout)) as caught:
                await provider.call("x", {}, ToolContext())
    return caught.value


def endless(piece: bytes) -> Callable[[socket.socket], None]:
    def write(peer: socket.socket) -> None:
        while True:
            peer.sendall(piece)

    return write


def whole(data: bytes) -> Callable[[socket.socket], None]:
    return lambda peer: peer.sendall(data)


async def test_an_endless_body_ends_at_the_limit() -> None:
    def write(peer: socket.socket) -> None:
        peer.sendall(OK + b"\r\n")
        endless(b" " * 65536)(peer)

    error = await failing(write)
    assert error.code == "http_answer_too_large"
    assert error.data == {"limit": "max_answer", "maximum": MAX_ANSWER}


async def test_an_endless_body_of_a_failure_is_read_in_part() -> None:
    def write(peer: socket.socket) -> None:
        peer.sendall(b"HTTP/1.1 500 No\r\nContent-Type: text/plain\r\n\r\n")
        endless(b"no " * 20000)(peer)

    error = await failing(write)
    assert error.code == "http_failed"
    assert len(error.data["body"]) == 4000


@pytest.mark.parametrize("packing", ["gzip", "deflate"])
async def test_a_small_answer_that_unpacks_to_a_huge_one_ends_at_the_limit(packing: str) -> None:
    bomb = gzip.compress(b" " * 300_000_000, 1) if packing == "gzip" else zlib.compress(b" " * 300_000_000, 1)
    head = OK + f"Content-Encoding: {packing}\r\nContent-Length: {len(bomb)}\r\n\r\n".encode()
    assert (await failing(whole(head + bomb))).code == "http_answer_too_large"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (OK + b"Content-Encoding: br\r\nContent-Length: 3\r\n\r\nabc", "http_bad_answer"),
        (OK + b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", "http_bad_answer"),
        (OK + b"Content-Length: 100\r\n\r\n[1", "http_unreachable"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", "http_unreachable"),
        (OK + b"X-Long: " + b"x" * 200_000 + b"\r\n\r\n[]", "http_unreachable"),
        (OK + b"X-Many: 1\r\n" * 20_000 + b"\r\n[]", "http_unreachable"),
        (b"SSH-2.0-OpenSSH\r\n", "http_unreachable"),
        (b"", "http_unreachable"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://[::1\r\nContent-Length: 0\r\n\r\n", "http_redirected"),
        (b"HTTP/1.1 302 Found\r\nLocation: \xff\xfe\r\nContent-Length: 0\r\n\r\n", "http_redirected"),
    ],
)
async def test_an_answer_that_is_none_is_a_failure(data: bytes, code: str) -> None:
    def write(peer: socket.socket) -> None:
        peer.sendall(data)
        peer.shutdown(socket.SHUT_WR)

    assert (await failing(write)).code == code


async def test_endless_headers_end() -> None:
    def write(peer: socket.socket) -> None:
        peer.sendall(OK)
        endless(b"X-More: and more\r\n" * 100)(peer)

    assert (await failing(write)).code == "http_unreachable"


@pytest.mark.parametrize("begin", [b"", OK + b"\r\n", OK + b"Content-Length: 1000000\r\n\r\n"])
async def test_a_server_that_says_little_by_little_ends_at_the_timeout_of_the_connection(begin: bytes) -> None:
    stopped = threading.Event()

    def write(peer: socket.socket) -> None:
        peer.sendall(begin)
        while not stopped.wait(0.02):
            peer.sendall(b" " if begin else b"H")

    try:
        error = await failing(write, timeout=0.3)
    finally:
        stopped.set()
    assert error.code in ("tool_timeout", "http_unreachable")
    if begin:
        assert error.code == "tool_timeout"
        assert "0.3 s" in error.message


async def test_a_mute_server_ends_at_the_timeout_of_the_connection() -> None:
    stopped = threading.Event()
    try:
        error = await failing(lambda _: [stopped.wait()][0] and None, timeout=0.2)
    finally:
        stopped.set()
    assert error.code == "tool_timeout"


async def test_a_cancelled_call_closes_its_request() -> None:
    begun, closed = threading.Event(), threading.Event()

    def write(peer: socket.socket) -> None:
        begun.set()
        while peer.recv(1024):
            continue
        closed.set()

    with raw_host(write) as url:
        async with provider_of("http", {"url": url, "tools": {"x": {"url": "/x"}}}) as provider:
            call = asyncio.ensure_future(provider.call("x", {}, ToolContext()))
            assert await asyncio.to_thread(begun.wait, 30)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert await asyncio.to_thread(closed.wait, 30)


async def test_an_answer_that_takes_long_to_read_does_not_stop_the_loop_for_long() -> None:
    """Decoding happens on a thread: the loop goes on meanwhile."""
    body = b"[" + b",".join([b'"' + b"x" * 100 + b'"'] * 100_000) + b"]"
    with raw_host(whole(OK + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)) as url:
        table = {"url": url, "tools": {"x": {"url": "/x"}}, "headers": {"X-Key": "geheim-4711"}}
        async with provider_of("http", table) as provider:
            assert len(await provider.call("x", {}, ToolContext())) == 100_000


async def test_a_catalog_that_comes_page_by_page_without_haste_ends_at_the_timeout() -> None:
    page = json.dumps({"items": [], "next_cursor": "more"}).encode()
    head = OK + f"Content-Length: {len(page)}\r\nConnection: close\r\n\r\n".encode()
    stopped = threading.Event()

    def write(peer: socket.socket) -> None:
        stopped.wait(0.1)
        peer.sendall(head + page)

    with raw_host(write) as url:
        table = {"integration": "github", "key": "ak_1", "user": "u", "url": url, "timeout": 0.3}
        async with provider_of("composio", table) as provider:
            with pytest.raises(ToolTimeout):
                await provider.tools()
    stopped.set()
