"""The server of a client: a command that starts it, with its environment, the path of its socket, or an open stream to it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias, TypedDict, Unpack

import anyio
import msgspec
from anyio.abc import ByteStream

from rrext.client.channels import Channel, as_channel, connect_web
from rrext.errors import NotConnected, UsageError
from rrext.limits import BUSY_POLL_INTERVAL, CLIENT_DEFAULTS
from rrext.transports.descriptor_channel import SocketChannel
from rrext.transports.process import ChildProcess
from rrext.transports.unix import connect, socket_path

PASSED_ON = frozenset(
    {
        *("HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "PYTHONPATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV"),
        "XDG_CONFIG_HOME",
    }
)
"""Variables that a program needs to find its files and its language, and `PYTHONPATH`, so that it finds our modules."""
PREFIXES = ("LC_", "ROCKETRIDE_")


def server_env(
    extra: Mapping[str, str] | None = None, base: Mapping[str, str] | None = None, names: Collection[str] = ()
) -> dict[str, str]:
    """The environment of a spawned server: an allow-list of ours, all `ROCKETRIDE_*`, those of `names`, and `extra`.

    Passed on are HOME, LANG, LANGUAGE, LC_*, LOGNAME, PATH, PYTHONPATH, SHELL, TERM, TMPDIR, TZ, USER, VIRTUAL_ENV and
    XDG_CONFIG_HOME.
    Keys and passwords that happen to be in our environment are not, unless `names` has them.
    """
    ours = os.environ if base is None else base
    passed = {name: ours[name] for name in ours if name in PASSED_ON or name in names or name.startswith(PREFIXES)}
    return {**passed, **(extra or {})}


class ServeOptions(TypedDict, total=False):
    """Options of `rrext serve`."""

    nodes: Sequence[str | os.PathLike[str]]
    root: str | os.PathLike[str] | None
    env_names: Sequence[str]
    connections: str | os.PathLike[str] | None
    threads: int | None
    pipe_idle: float | None
    max_frame: int | None
    drain: float | None
    partial: bool
    args: Sequence[str]


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """A server that is still to be started."""

    command: Sequence[str]
    env: dict[str, str]
    cwd: str | None = None
    rlimits: dict[str, int] | None = None
    on_stderr: Callable[[bytes], object] | None = None

    @classmethod
    def serving(
        cls,
        files: Sequence[str | os.PathLike[str]],
        command: Sequence[str] | None,
        env: Mapping[str, str] | None,
        cwd: str | os.PathLike[str] | None,
        rlimits: Mapping[str, int] | None,
        on_stderr: Callable[[bytes], object] | None,
        **options: Unpack[ServeOptions],
    ) -> Launch:
        """A server of `files`, with `env` and what `server_env` passes on."""
        return cls(
            command=serve_command(files, command, **options),
            env=server_env(env, names=options.get("env_names", ())),
            cwd=None if cwd is None else os.fspath(cwd),
            rlimits=dict(rlimits or {}),
            on_stderr=on_stderr,
        )

    def start(self) -> ChildProcess:
        """Start it. Raises `UsageError` when there is no such program."""
        try:
            return ChildProcess(self.command, env=self.env, cwd=self.cwd, rlimits=self.rlimits, on_stderr=self.on_stderr)
        except (OSError, ValueError) as error:
            raise UsageError(f"the server cannot be started: {error}") from error


def serve_command(
    files: Sequence[str | os.PathLike[str]],
    command: Sequence[str] | None = None,
    *,
    nodes: Sequence[str | os.PathLike[str]] = (),
    root: str | os.PathLike[str] | None = None,
    env_names: Sequence[str] = (),
    connections: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    pipe_idle: float | None = None,
    max_frame: int | None = None,
    drain: float | None = None,
    partial: bool = False,
    args: Sequence[str] = (),
) -> list[str]:
    """A command line of `rrext serve`, run by the Python that runs us if `command` does not say otherwise."""
    flags = {
        "--root": root,
        "--connections": connections,
        "--threads": threads,
        "--pipe-idle": pipe_idle,
        "--max-frame": max_frame,
        "--drain": drain,
    }
    line = list(command or (sys.executable, "-m", "rrext", "serve", "--parent", str(os.getpid())))
    for name in nodes:
        line += ["--nodes", os.fspath(name)]
    for name in env_names:
        line += ["--env", name]
    for flag, value in flags.items():
        if value is not None:
            line += [flag, str(value)]
    if partial:
        line.append("--partial")
    return [*line, *args, *map(_as_operand, files)]


def _as_operand(file: str | os.PathLike[str]) -> str:
    """A path that cannot be taken for a flag."""
    path = os.fspath(file)
    return os.path.join(os.curdir, path) if path.startswith("-") else path


class SocketAddress(msgspec.Struct, frozen=True):
    """The path of a server's Unix socket."""

    path: str

    @classmethod
    def of(cls, text: str) -> SocketAddress:
        """The address that `unix:PATH` names. Raises `UsageError`."""
        return cls(socket_path(text))

    async def connect(self) -> SocketChannel:
        """A channel to the server. Raises `NotConnected`, whose hint names the remedy."""
        with anyio.move_on_after(CLIENT_DEFAULTS.start):
            while (end := connect(self.path)) is None:  # noqa: ASYNC110 – a full backlog tells nobody when it is not
                await anyio.sleep(BUSY_POLL_INTERVAL)
            return SocketChannel(end)
        raise NotConnected(f"the server at {self.path} takes no more clients, and did not for {CLIENT_DEFAULTS.start:g} s")


class WebServer(msgspec.Struct, frozen=True):
    """The WebSocket of a server, `ws://HOST:PORT` or `wss://HOST:PORT`, and the key for it."""

    url: str
    key: str | None = None

    def __repr__(self) -> str:
        return f"<WebServer {self.url}>"

    async def connect(self) -> Channel:
        """A channel to the server. Raises `UsageError` and `NotConnected`."""
        from rrext.transports.web import WebAddress  # most clients need none

        return await connect_web(WebAddress.of(self.url))


ServerAddress: TypeAlias = Launch | SocketAddress | WebServer | ByteStream | Channel


async def open_channel(address: ServerAddress) -> Channel:
    """A channel to the server. Raises `UsageError` if it cannot be started, `NotConnected` if it cannot be reached."""
    if isinstance(address, Launch):
        return address.start()
    return await address.connect() if isinstance(address, SocketAddress | WebServer) else as_channel(address)


def address_of(text: str, key: str | None) -> SocketAddress | WebServer:
    """The address `unix:PATH`, or `ws://HOST:PORT` or `wss://HOST:PORT` with the key for it. Raises `UsageError`."""
    if text.partition(":")[0].lower() in ("ws", "wss"):
        from rrext.transports.web import WebAddress

        WebAddress.of(text)
        return WebServer(text, key)
    if key is not None:
        raise UsageError("only servers at ws:// and wss:// take a key")
    return SocketAddress.of(text)
