"""Nodes that put their settings into everything that a server or a command may show."""

from __future__ import annotations

import asyncio
import base64
import ctypes
import faulthandler
import html
import json
import logging
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, quote_plus

from rrext import Node, SetupContext, ToolContext, ToolError, tool_function

log = logging.getLogger("somebody.elses")


class Odd(Exception):
    def __repr__(self) -> str:
        return f"<Odd {self.args!r}>"

    __str__ = __repr__


def _raise(error: BaseException) -> None:
    raise error


def _chained(key: str) -> None:
    try:
        json.loads(f'{{"key": {json.dumps(key)} x')
    except ValueError as error:
        raise RuntimeError(f"the body was {json.dumps({'key': key})}") from error


def _tool_error(key: str) -> None:
    raise ToolError(
        f"no: {key}", code="leaky", hint=f"try {key!r}", data={"keys": [{key: quote(key)}], "at": key.encode().hex()}
    )


WAYS: dict[str, Callable[[str], None]] = {
    "plain": lambda key: _raise(ValueError(key)),
    "repr": lambda key: _raise(KeyError(key)),
    "own": lambda key: _raise(Odd(key, {"nested": [key]})),
    "bytes": lambda key: _raise(ValueError(key.encode())),
    "path": lambda key: _raise(FileNotFoundError(2, "No such file", f"/data/{key}")),
    "open": lambda key: open(f"/nowhere/{key}").close(),
    "json": lambda key: _raise(ValueError(json.dumps(json.dumps({"key": key})))),
    "url": lambda key: _raise(ConnectionError(f"GET https://host/?key={quote_plus(key)}&again={quote(key, safe='')}")),
    "basic": lambda key: _raise(PermissionError("Basic " + base64.b64encode(f"me:{key}".encode()).decode())),
    "shifted": lambda key: _raise(PermissionError(base64.urlsafe_b64encode(f"you:{key}!".encode()).decode())),
    "upper": lambda key: _raise(ValueError(key.upper())),
    "sql": lambda key: _raise(ValueError("near '" + key.replace("'", "''") + "'")),
    "cut": lambda key: _raise(ValueError(key[: len(key) // 2] + "…")),
    "cut at the front": lambda key: _raise(ValueError("..." + key[len(key) // 2 :])),
    "too long": lambda key: _raise(ValueError("x" * (4096 - len(key) // 2) + key + "x" * 4096)),
    "chained": _chained,
    "tool error": _tool_error,
    "slashes": lambda key: _raise(ValueError(json.dumps(key).replace("/", "\\/"))),
    "json escapes": lambda key: _raise(ValueError("".join(f"\\u{ord(c):04x}" for c in key))),
    "bytes escapes": lambda key: _raise(ValueError("".join(f"\\x{byte:02x}" for byte in key.encode()))),
    "url escapes": lambda key: _raise(ValueError("".join(f"%{byte:02X}" for byte in key.encode()))),
    "html": lambda key: _raise(ValueError("".join(f"&#{ord(c)};" if c.isalnum() else html.escape(c) for c in key))),
    "json in json": lambda key: _raise(ValueError(json.dumps(json.dumps(json.dumps({"key": key}).replace("/", "\\/"))))),
    "exit": lambda key: sys.exit(key),
}


class Leaky(Node):
    """Fails in many ways, each of which has its key."""

    provider = "leaky"
    lanes = {"text": ("text",)}
    class_types = ("tool",)

    class Config:
        key: Annotated[str, "What is not to be told."] = ""
        fails: Annotated[bool, "Fail to be set up."] = False

    config: Any

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any) -> Any:
        log.debug("set up with %s", config.key)
        if config.fails:
            raise OSError(f"cannot connect to {config.key}")
        yield config.key

    @property
    def key(self) -> str:
        return self.config.key

    @tool_function
    def fail(self, way: str) -> None:
        """Fail in one way."""
        WAYS[way](self.key)

    @tool_function
    async def fail_later(self, way: str) -> None:
        """Fail in one way, on the loop."""
        WAYS[way](self.key)

    @tool_function
    def chunks(self) -> Iterator[int]:
        """Fail after a chunk."""
        yield 1
        raise ValueError(self.key)

    @tool_function
    def wrong_result(self) -> Any:
        """A result that is no JSON at a place that has the key."""
        return {self.key: object()}

    @tool_function
    async def says(self, ctx: ToolContext) -> str:
        """Say the key wherever a tool can say something."""
        key = self.key
        ctx.progress(1, 2, f"connecting to {key}")
        for level in (logging.DEBUG, logging.WARNING, logging.ERROR):
            log.log(level, "key=%s of %r", key, {"key": key}, extra={"key": key})
        print("printed", key)
        print({"printed": key}, file=sys.stderr)
        for stream in (sys.stdout, sys.stderr):  # in two pieces, each of which is nothing alone
            print(key[: len(key) // 2], end="", flush=True, file=stream)
            print(key[len(key) // 2 :], file=stream)
        warnings.warn(f"the key {key} is old", stacklevel=1)
        thread = threading.Thread(target=WAYS["plain"], args=(key,), name=key)
        thread.start()
        await asyncio.to_thread(thread.join)
        self.forgotten = asyncio.ensure_future(self.fail_later("own"))
        await asyncio.wait([self.forgotten])
        del self.forgotten
        asyncio.get_running_loop().call_exception_handler({"message": "unhandled", "exception": ValueError(key)})
        return "said"

    @tool_function
    def surroundings(self) -> dict[str, str]:
        """What this process and those that it starts have as their environment and arguments."""
        found = {"own": repr(dict(os.environ)), "own file": Path("/proc/self/environ").read_bytes().decode("latin-1")}
        found["child"] = subprocess.run(["env"], capture_output=True, text=True, check=True).stdout
        with os.popen("env; tr '\\0' '\\n' < /proc/$PPID/environ; cat /proc/*/cmdline 2>&1") as shell:
            found["shell"] = shell.read()
        return found

    def open(self, entry: Any) -> None:
        if entry.name == "fails to open":
            raise ValueError(self.key)

    def write_text(self, text: str) -> None:
        raise Odd(self.key)


class LeakyClient(Leaky):
    """Fails in the same ways with a secret of a connection."""

    provider = "leaky_client"

    class Config:
        header: Annotated[str, "The header whose secret is not to be told."]
        fails: Annotated[bool, "Fail to be set up."] = False

    shared: Any

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any, ctx: SetupContext) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        connection = ctx.connections.find("leaky", "http")
        log.debug("connecting with %r", connection)
        secret = await ctx.in_thread(connection.settings.headers[config.header].reveal)
        log.debug("the secret is %s", secret)
        if config.fails:
            raise OSError(f"cannot connect to {secret}")
        yield connection, secret

    @property
    def key(self) -> str:
        return self.shared[1]

    @tool_function
    async def forward(self, way: str, ctx: ToolContext) -> None:
        """Fail with the authorization of the caller."""
        authorization = ctx.authorization_for(self.shared[0])
        assert authorization is not None
        ctx.progress(1, 2, f"sending {authorization}")
        log.warning("sending %s", authorization)
        WAYS[way](authorization)

    @tool_function
    def crash(self) -> None:
        """End the process as a bug of C code does."""
        key = self.key * 2
        faulthandler._sigsegv()  # pyright: ignore[reportAttributeAccessIssue]
        del key

    @tool_function
    def hang(self, ctx: ToolContext) -> None:
        """Keep the interpreter's lock, with the key on the stack."""
        ctx.progress(1, 2, f"hanging with {self.key}")
        ctypes.PyDLL(None).sleep(60)
