"""The placer: a child process of the server that holds the client of Ray, and makes hosts on the nodes of the cluster.

It is a process of its own because Ray ends the whole process of a client some time after the head of the cluster is gone. It
reads a `PlacerStart` and then `Ask`s from its stdin, and writes `Told`s to its stdout, each one line of JSON. It ends at the
end of its stdin.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any, Final, Literal
from uuid import uuid4

import msgspec

from rrext.cluster.host_actor import HostActor
from rrext.cluster.knock import answers, asks_for_token, parts_of, require_loopback
from rrext.cluster.placement import HostAddress, HostStart, NodeFailed, NodeState
from rrext.limits import MIB
from rrext.pipefile.resources import NO_RESOURCES, Resources
from rrext.transports.claimed_stdio import claim_stdio

NAMESPACE: Final = "rrext"
"""The namespace of our actors in Ray."""

PLACE_PATIENCE: Final = 10.0
"""Seconds until a host that was not heard of is given up: a cold actor takes two, on a busy node ten."""

ROOM_PATIENCE: Final = 2.0
"""Seconds in which a node may get room: Ray hears of the end of a host within one."""

DECIMALS: Final = 4
"""Digits of a number of resources behind the point: Ray keeps these."""

BOOKS_PATIENCE: Final = 1.0
"""Seconds after the start of a host in which Ray's books have what it holds."""

ROOM_INTERVAL: Final = 0.2
"""Seconds between two looks at the free resources of the nodes."""

DRAIN_INTERVAL: Final = 1.0
"""Seconds between two looks for nodes that are drained: their deadlines are minutes."""

PLACES_AT_ONCE: Final = 8
"""Hosts that start at once: each start is an interpreter, with Ray in it, on some node."""

MAX_ACTORS: Final = 256
"""Actors that are known: a host is released in the seconds after its start, or never."""

RAY_NAMES: Final = {"cpu": "CPU", "gpu": "GPU", "memory": "memory"}
"""Our resource → that of Ray."""


class PlacerStart(msgspec.Struct, frozen=True):
    """What a placer is told first: the address of the head, the certificate of the server in PEM, and Ray's variables, of which
    one is a secret that no other process reads in its environment."""

    head: str
    certificate: str
    variables: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<PlacerStart {self.head}>"


class Ask(msgspec.Struct, frozen=True):
    """A question to the placer. `place` is answered by a host, `nodes` by the nodes that live, `release` by nothing more."""

    number: int
    what: Literal["place", "nodes", "release"]
    resources: Resources = NO_RESOURCES
    avoid: list[str] = []
    host: HostAddress | None = None


class Told(msgspec.Struct, frozen=True, omit_defaults=True):
    """An answer to the question of that number; without a number an event: that the client is `ready`, or what is `draining`.

    `error` says why there is none: `failed_on` is the number of the node that failed, if a node did. The server itself writes
    `has_ended`, in place of a placer that is gone.
    """

    number: int = 0
    host: HostAddress | None = None
    nodes: list[NodeState] | None = None
    error: str = ""
    failed_on: str = ""
    has_ended: bool = False
    ready: dict[str, str] | None = None
    draining: list[str] | None = None


def main() -> None:
    """Serve until the server is gone, or Ray's client ends the process."""
    stdio = claim_stdio()
    os.set_blocking(stdio.write_fd, True)
    lines = _lines(stdio.read_fd)
    start = msgspec.json.decode(next(lines, b"null"), type=PlacerStart | None)
    if start is None:
        return
    os.environ.update(start.variables)
    out, asks = Out(stdio.write_fd), ThreadPoolExecutor(PLACES_AT_ONCE)
    placer = Placer(start.certificate)

    def listen() -> None:
        for line in lines:
            ask = msgspec.json.decode(line, type=Ask)
            asks.submit(lambda ask=ask: out.tell(placer.answer(ask)))
        os._exit(0)  # the waits of Ray know no end

    threading.Thread(target=listen, daemon=True).start()
    try:
        out.tell(Told(ready=placer.connect(start.head)))
        draining: list[str] | None = None  # what a placer before this one told is over perhaps
        while True:
            before, draining = draining, placer.draining()
            if draining != before:
                out.tell(Told(draining=draining))
            time.sleep(DRAIN_INTERVAL)
    except Exception as error:
        out.tell(Told(error=_first_line(error)))
        os._exit(1)


class Out:
    """Writes lines to the server. From any thread."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = threading.Lock()

    def tell(self, told: Told) -> None:
        """Write one line. A server that is gone gets none."""
        rest = memoryview(msgspec.json.encode(told) + b"\n")
        with self._lock:
            try:
                while rest:
                    rest = rest[os.write(self._fd, rest) :]
            except OSError:
                os._exit(0)


class Placer:
    """Makes hosts for one server, and knows the nodes. From any thread, after `connect`."""

    def __init__(self, certificate: str) -> None:
        self._certificate = certificate
        self._hosts_on: Counter[str] = Counter()
        """Node → the hosts that were made there, so that those without resources of their own are spread."""
        self._given: list[Given] = []
        """What was given out and is not in Ray's books yet."""
        self._choosing = threading.Lock()
        self._actors: dict[HostAddress | None, Any] = {}
        """The actors of the newest hosts, one of which the server may not reach."""
        self._ray: Any = None
        self._free: Callable[[], Mapping[str, dict[str, float]]] = dict
        """Number of a node → what is free there, in the books of Ray."""
        self._drained: Callable[[], Iterable[str]] = frozenset
        """The numbers of the nodes that are drained."""
        self._on_node: Any = None
        self._actor: Any = None

    def connect(self, head: str) -> dict[str, str]:
        """Become a client of a cluster; its versions. Raises `ConnectionError`, `OpenCluster`, and any exception of Ray."""
        is_open = not asks_for_token(head)
        if is_open:
            require_loopback([parts_of(head)[0]])
        elif os.environ.get("RAY_AUTH_MODE") != "token":  # Ray would try for long
            raise ConnectionError("it asks for a token: start this server with RAY_AUTH_MODE=token, and with its token")
        ray = import_module("ray")
        ray.init(address=head, namespace=NAMESPACE, log_to_driver=False, configure_logging=False)
        # Nobody reads the errors that a thread of Ray waits for; while there is no head it would ask without a pause.
        import_module("ray._private.worker").global_worker.threads_stopped.set()
        if is_open:
            require_loopback(node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"])
        self._ray = ray
        # Ray has no public way to ask for these but its dashboard, which not every cluster has; `ray.nodes` tells neither.
        state = import_module("ray._private.state")
        self._free, self._drained = state.available_resources_per_node, state.state.get_draining_nodes
        self._on_node = import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
        self._actor = ray.remote(HostActor)
        return {"ray": ray.__version__, "python": sys.version.split()[0]}

    def answer(self, ask: Ask) -> Told:
        """Do what is asked. It never raises."""
        try:
            if ask.what == "nodes":
                return Told(ask.number, nodes=self.nodes())
            if ask.what == "place":
                return Told(ask.number, host=self._place(ask.resources, frozenset(ask.avoid)))
            if (actor := self._actors.pop(ask.host, None)) is not None:
                self._ray.kill(actor)
            return Told(ask.number)
        except NodeFailed as error:
            return Told(ask.number, error=str(error), failed_on=error.node)
        except Exception as error:
            return Told(ask.number, error=_first_line(error))

    def nodes(self) -> list[NodeState]:
        """The nodes that live, by name."""
        return sorted((state for _, state in self._states(self._listening())), key=lambda state: state.name)

    def draining(self) -> list[str]:
        """The numbers of the nodes that are drained."""
        return sorted(self._drained())

    def _listening(self) -> list[Mapping[str, Any]]:
        """The nodes that live, as Ray tells of them. It waits for those that are gone."""
        nodes: list[Mapping[str, Any]] = self._ray.nodes()
        return [node for node in nodes if node["Alive"] and answers(node["NodeManagerAddress"], node["NodeManagerPort"])]

    def _states(self, nodes: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, NodeState]]:
        free, draining = self._free(), frozenset(self._drained())
        for node in nodes:
            number = node["NodeID"]
            yield (
                number,
                NodeState(
                    name=_name(node),
                    number=number,
                    address=node["NodeManagerAddress"],
                    total=_ours(node["Resources"]),
                    free=_ours(free.get(number, {})),
                    is_draining=number in draining,
                ),
            )

    def _place(self, resources: Resources, avoid: frozenset[str]) -> HostAddress:
        given = self._choose(resources, avoid)
        number, node = given.number, given.node
        order = HostStart(certificate=self._certificate, listen=node.address, node=node.name, number=number)
        actor = self._actor.options(
            name=f"host-{uuid4()}",
            lifetime="detached",
            max_restarts=0,
            max_task_retries=0,
            num_cpus=resources.cpu,
            num_gpus=resources.gpu,
            memory=resources.memory or None,
            scheduling_strategy=self._on_node(number, soft=False),
        ).remote(msgspec.json.encode(order))
        try:
            line = self._ray.get(actor.address.remote(), timeout=PLACE_PATIENCE)
            host = msgspec.json.decode(line, type=HostAddress)
        except Exception as error:
            with self._choosing:
                self._hosts_on[number] -= 1
                self._given = [each for each in self._given if each is not given]
            self._ray.kill(actor)
            slow = isinstance(error, self._ray.exceptions.GetTimeoutError)
            reason = f"no host in {PLACE_PATIENCE:g} seconds" if slow else _last_line(error)
            raise NodeFailed(number, f"node {node.name}: {reason}") from None
        given.until = time.monotonic() + BOOKS_PATIENCE
        self._actors[host] = actor
        while len(self._actors) > MAX_ACTORS:
            del self._actors[next(iter(self._actors))]
        return host

    def _choose(self, resources: Resources, avoid: frozenset[str]) -> Given:
        """A node with room, which is given out. Ray would place on a node that died some seconds ago, and would not say on
        which."""
        until = time.monotonic() + ROOM_PATIENCE
        while True:
            nodes, now = self._listening(), time.monotonic()
            with self._choosing:
                given = self._chosen(nodes, resources, avoid, is_last=now > until)
            if given is not None:
                return given
            time.sleep(ROOM_INTERVAL)

    def _chosen(
        self, nodes: Iterable[Mapping[str, Any]], resources: Resources, avoid: frozenset[str], *, is_last: bool
    ) -> Given | None:
        """The same at this moment, None if there may be room in a moment. Raises `NoRoom`."""
        books = list(self._states(nodes))
        self._given = [each for each in self._given if not each.is_in(dict(books), time.monotonic())]
        states = [(number, self._without_given(number, node)) for number, node in books]
        if resources.node is not None and all(resources.node not in (number, node.name) for number, node in states):
            raise NoRoom(f'no node of the cluster has the name "{resources.node}": {_listed(states, lambda node: "")}')
        fitting = [
            (number, node)
            for number, node in states
            if not node.is_draining
            and resources.node in (None, number, node.name)
            and all(node.free.get(name, 0.0) >= getattr(resources, name) for name in RAY_NAMES)
        ]
        if fitting:
            number, node = min(fitting, key=lambda each: (each[0] in avoid, self._hosts_on[each[0]], -each[1].free["cpu"]))
            given = Given(number, node, resources)
            self._hosts_on[number] += 1
            self._given.append(given)
            return given
        if is_last or not any(_could(node, resources) for _, node in states):
            wanted = ", ".join(f"{name} {getattr(resources, name):g}" for name in RAY_NAMES if getattr(resources, name))
            raise NoRoom(f"no node has {wanted or 'room'}: free is {_listed(states, _free_text)}")
        return None

    def _without_given(self, number: str, node: NodeState) -> NodeState:
        for given in self._given:
            if given.number == number:
                node = msgspec.structs.replace(node, free=given.rest(node.free))
        return node


class Given:
    """Resources of a node that were given out a moment ago: the next choice counts them until Ray does."""

    def __init__(self, number: str, node: NodeState, resources: Resources) -> None:
        """`node` is as it was before."""
        self.number = number
        self.node = node
        self.until = float("inf")
        """When Ray has them in its books at the latest, as the host is up."""
        self._resources = resources

    def rest(self, free: Mapping[str, float]) -> dict[str, float]:
        """What is left of what is free."""
        return {name: round(free[name] - getattr(self._resources, name), DECIMALS) for name in RAY_NAMES}

    def is_in(self, books: Mapping[str, NodeState], now: float) -> bool:
        """Whether Ray has them in its books: as much is free there as is left of what was."""
        node, rest = books.get(self.number), self.rest(self.node.free)
        held = [name for name in RAY_NAMES if getattr(self._resources, name)]
        return node is None or now > self.until or all(node.free[name] <= rest[name] for name in held)


class NoRoom(Exception):
    """No node has what a host asks for."""


def _name(node: Mapping[str, Any]) -> str:
    return str(node.get("NodeName") or node["NodeID"])


def _ours(given: dict[str, float]) -> dict[str, float]:
    return {name: float(given.get(theirs, 0.0)) for name, theirs in RAY_NAMES.items()}


def _could(node: NodeState, resources: Resources) -> bool:
    """Whether a node could have the resources if nothing else ran there."""
    return not node.is_draining and all(node.total[name] >= getattr(resources, name) for name in RAY_NAMES)


def _free_text(node: NodeState) -> str:
    what = "drained" if node.is_draining else f"cpu {node.free['cpu']:g}, gpu {node.free['gpu']:g}"
    return f" ({what}, memory {node.free['memory'] / MIB:,.0f} MiB)" if not node.is_draining else f" ({what})"


def _listed(states: list[tuple[str, NodeState]], more: Callable[[NodeState], str]) -> str:
    return ", ".join(f"{node.name}{more(node)}" for _, node in states) or "there are none"


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0] or type(error).__name__


def _last_line(error: BaseException) -> str:
    """What is told of an error of an actor, whose text is a traceback."""
    lines = str(error).strip().splitlines()
    return lines[-1].strip() if lines else type(error).__name__


def _lines(fd: int) -> Iterator[bytes]:
    with open(fd, "rb", closefd=False) as stream:
        yield from stream


if __name__ == "__main__":
    main()
