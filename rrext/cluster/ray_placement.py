"""Placement by Ray: the server's side of the placer, which is started anew when it ends."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rrext.cluster.knock import asks_for_token, is_loopback, parts_of
from rrext.cluster.placement import HostAddress, NodeFailed, NodeState
from rrext.cluster.placer import PLACE_PATIENCE, ROOM_PATIENCE, Ask, PlacerStart, Told
from rrext.errors import Unavailable, UsageError
from rrext.pipefile.environment import take_variables
from rrext.pipefile.resources import Resources
from rrext.transports.descriptor_channel import WholeLines
from rrext.transports.process import ChildProcess

if TYPE_CHECKING:
    from rrext.engine.host.host import Host

PASSED_ON: Final = frozenset({"HOME", "LANG", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV"})
"""Variables of the server that are in the environment of its placer. Those of Ray go through its stdin."""

QUIET: Final = {"RAY_USAGE_STATS_ENABLED": "0"}
"""Ray tells nobody that it is used."""

COMMAND: Final = (sys.executable, "-P", "-c", "from rrext.cluster.placer import main; main()")

CONNECT_PATIENCE: Final = 20.0
"""Seconds in which a host waits for a client of Ray that connects: that takes two, and ten on a busy machine."""

ANSWER_PATIENCE: Final = PLACE_PATIENCE + ROOM_PATIENCE + 3.0
"""Seconds until a question is given up, as the client of Ray is stuck: the placer's own patience, and a margin."""

_LOG_PLACE: Final = re.compile(r"^\[[^]]*\] \S+:\d+: ")
"""What stands before a message in a line of Ray's log: time, process, and the place in its source."""

LAST_DELAY: Final = 10.0
"""The longest of the growing delays, in seconds, before a placer is started again."""

log: Final = logging.getLogger("rrext.cluster")


class RayPlacement:
    """Asks a placer for hosts. On the server's loop. `certificate` is the server's, in PEM, `variables` are those of Ray."""

    def __init__(self, host: Host, head: str, certificate: str, variables: Mapping[str, str]) -> None:
        self._host = host
        self._start = PlacerStart(head, certificate, {**variables, **QUIET})
        self._child: ChildProcess | None = None
        self._numbers = count(1)
        self._asked: dict[int, asyncio.Future[Told]] = {}
        self._ready: asyncio.Future[dict[str, str] | None] = host.loop.create_future()
        """Done while there is a placer that is a client of Ray, with the versions there; with None by one that cannot be."""
        self._trouble = ""
        """Why there is no client of Ray, as the last placer told it."""
        self._told: list[Callable[[frozenset[str]], object]] = []
        self._is_closed = False
        self._keeping = host.spawn(self._keep(), "placer")

    # -- what the server asks

    async def place(self, resources: Resources, avoid: frozenset[str] = frozenset()) -> HostAddress:
        told = await self._ask(Ask(next(self._numbers), "place", resources, sorted(avoid)))
        if told.host is not None:
            return told.host
        if told.failed_on or told.has_ended:  # a host that a placer made and did not tell ends by itself
            raise NodeFailed(told.failed_on, told.error)
        raise Unavailable(told.error)

    async def release(self, host: HostAddress) -> None:
        with suppress(Unavailable):
            await self._ask(Ask(next(self._numbers), "release", host=host))

    async def nodes(self) -> list[NodeState]:
        told = await self._ask(Ask(next(self._numbers), "nodes"))
        if told.nodes is None:
            raise Unavailable(told.error)
        return told.nodes

    async def versions(self) -> dict[str, str]:
        """The versions of Ray and of Python of the client."""
        return await self._client()

    def when_draining(self, told: Callable[[frozenset[str]], object]) -> None:
        self._told.append(told)

    async def close(self) -> None:
        self._is_closed = True
        self._keeping.cancel()
        if self._child is not None:
            self._child.signal_group(9)
            self._child.close()
        self._fail_all()

    async def _client(self) -> dict[str, str]:
        done, _ = await asyncio.wait([ready := self._ready], timeout=CONNECT_PATIENCE)
        if done and (versions := ready.result()) is not None:
            return versions
        said = "" if self._child is None else self._child.stderr_tail.strip().rpartition("\n")[2]
        why = self._trouble or _LOG_PLACE.sub("", said) or "it does not answer"
        raise Unavailable(f"the cluster at {self._start.head} cannot be reached: {why}")

    async def _ask(self, ask: Ask) -> Told:
        await self._client()
        answer = self._asked[ask.number] = self._host.loop.create_future()
        try:
            await self._write(ask)
            return await asyncio.wait_for(answer, ANSWER_PATIENCE)
        except TimeoutError:
            if self._child is not None:
                self._child.signal_group(9)  # a new one may do better
            raise Unavailable(f"the cluster at {self._start.head} does not answer") from None
        finally:
            self._asked.pop(ask.number, None)

    async def _write(self, message: Any) -> None:
        assert self._child is not None
        await self._child.write([msgspec.json.encode(message) + b"\n"])

    # -- the placer

    async def _keep(self) -> None:
        """Keep a placer running."""
        delay = 0.0
        while not self._is_closed:
            await asyncio.sleep(delay)
            delay = min(max(2 * delay, 1.0), LAST_DELAY)
            try:
                child = self._child = await self._host.in_thread(self._started)
            except OSError as error:
                log.warning("no placer can be started: %s", error.strerror)
                continue
            try:
                with suppress(OSError):  # it ended at once, which its exit code tells
                    await self._write(self._start)
                await asyncio.gather(child.drain_stderr(), child.pump(WholeLines(self._take)))
                code = await child.wait()
            finally:
                child.close()
            if self._ready.done() and self._ready.result() is not None:
                delay = 0.0
            log.warning("the client of Ray ended (exit code %d): it is started again", code)
            self._fail_all()

    def _started(self) -> ChildProcess:
        passed = {name: value for name, value in os.environ.items() if name in PASSED_ON or name.startswith("LC_")}
        return ChildProcess(COMMAND, env=passed, cwd="/", on_stderr=_log)

    def _fail_all(self) -> None:
        """Answer the questions that the placer left."""
        self._child = None
        if self._ready.done():
            self._ready = self._host.loop.create_future()
        for asked in self._asked.values():
            if not asked.done():
                asked.set_result(Told(error="the client of Ray ended before it answered", has_ended=True))

    def _take(self, line: bytes) -> None:
        told = msgspec.json.decode(line, type=Told)
        if told.number:
            asked = self._asked.get(told.number)
            if asked is not None and not asked.done():
                asked.set_result(told)
        elif told.ready is not None:
            self._trouble = ""
            if not self._ready.done():
                self._ready.set_result(told.ready)
        elif told.draining is not None:
            for tell in self._told:
                tell(frozenset(told.draining))
        elif told.error:
            self._trouble = told.error
            if not self._ready.done():
                self._ready.set_result(None)
            log.warning("the cluster at %s cannot be reached: %s", self._start.head, told.error)


def _log(piece: bytes) -> None:
    log.debug("placer: %s", piece.decode("utf-8", "replace").rstrip())


def take_ray_variables() -> dict[str, str]:
    """The variables of Ray, of which this process keeps none: the token among them would be in the environment of children."""
    return take_variables("RAY_", ())


def head_of(given: str, variables: Mapping[str, str]) -> str:
    """The address of the head that `--cluster` names. Raises `UsageError` for one that cannot be used."""
    head = variables.get("RAY_ADDRESS", "") if given == "auto" else given
    if not head:
        raise UsageError("--cluster auto: the variable RAY_ADDRESS is not set")
    try:
        host, _ = parts_of(head)
    except ValueError:
        raise UsageError(f"--cluster {head}: expected HOST:PORT, the address of the head of a cluster of Ray") from None
    is_far = not is_loopback(host)
    open_to_all = UsageError(
        f"--cluster {head}: who reaches the head of a cluster runs code on all its nodes, and this one asks for no token",
        hint="start all nodes and this server with RAY_AUTH_MODE=token",
    )
    if is_far and variables.get("RAY_AUTH_MODE") != "token":
        raise open_to_all
    if find_spec("ray") is None or find_spec("cryptography") is None:
        raise UsageError('--cluster needs packages: install them with pip install "rrext[cluster]"')
    with suppress(ConnectionError):  # one that does not answer yet is asked again by the placer
        if is_far and not asks_for_token(head):
            raise open_to_all
    return head
