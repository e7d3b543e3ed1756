"""The argument of a node's `setup`: the root of its paths, threads for imports and connections, lost connections; and the
packages that a node needs and this machine lacks.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rrext.connections import NO_CONNECTIONS, Connections
from rrext.errors import Unavailable
from rrext.threads import in_thread

if TYPE_CHECKING:
    from rrext.connections import Connection
    from rrext.providers.provider import ToolProvider
    from rrext.threads import Workers


T = TypeVar("T")
NO_BINDINGS: Final[Mapping[str, tuple[str, ...]]] = {}

log: Final = logging.getLogger("rrext.component")


class SetupContext:
    """One `setup`, as its node class sees it: `async def setup(cls, config, ctx)`.

    `node_id`, `directory`, `confined` and `bindings` are those that the node's objects have; `connections` has the servers
    outside that this pipeline may name, `packages` the names of those that Python programs may import. A `remote` pipeline came
    from a client that is not trusted: settings must not lead to private addresses. `setup` may add to `tool_description`, which
    precedes the description of each tool. The context may be kept as long as what `setup` yields.
    """

    def __init__(
        self,
        workers: Workers,
        *,
        node_id: str = "",
        directory: str = "",
        confined: bool = False,
        remote: bool = False,
        bindings: Mapping[str, tuple[str, ...]] = NO_BINDINGS,
        redact: Callable[[str], str] = str,
        redact_piece: Callable[[str], tuple[str, str]] = lambda text: (text, ""),
        wait: float | None = None,
        connections: Connections = NO_CONNECTIONS,
        packages: Sequence[str] = (),
        tool_description: str = "",
        provider_of: Callable[[Connection], Awaitable[ToolProvider]] | None = None,
    ) -> None:
        """Made by the engine."""
        self._workers = workers
        self._redact = redact
        self._redact_piece = redact_piece
        self._wait = wait
        self._listeners: list[Callable[[str], object]] = []
        self.node_id = node_id
        self.directory = directory
        self.confined = confined
        self.remote = remote
        self.bindings = bindings
        self.connections = connections
        self.packages = packages
        self.tool_description = tool_description
        self._provider_of = provider_of

    def path(self, name: str) -> str:
        """The absolute path of a setting: a relative one begins at the node's `directory`.

        Raises `Unavailable` if the node is confined and the path leads out of its directory, also by a symbolic link.
        """
        return path_below(self.directory, name, confined=self.confined, node_id=self.node_id)

    def require_local_pipeline(self) -> None:
        """Raise `Unavailable` for a remote pipeline: for nodes that connect to any server which their settings name."""
        if self.remote:
            raise Unavailable(
                f'Node "{self.node_id}" may not connect to a database server: its pipeline came over a network',
                hint="The server may be started with --trust-clients.",
            )

    def wait(self, setting: float) -> float:
        """Seconds that a call waits for files of other processes: those of `--wait`, else the node's own setting."""
        return setting if self._wait is None else self._wait

    def shown(self, text: str) -> str:
        """A text that holds settings as others may read it: with `${NAME}` in place of the values of variables.

        Failures and log lines are given to their readers like that anyway; results are not.
        """
        return self._redact(text)

    def shown_piece(self, text: str) -> tuple[str, str]:
        """A piece of a text that goes on as others may read it, and its end that may begin a value: put it before the next."""
        return self._redact_piece(text)

    async def in_thread(self, function: Callable[..., T], *args: Any) -> T:
        """Run a function that imports, connects or reads on a thread of its own, and return or raise what it did.

        A cancelled caller waits no longer; the thread goes on to its end.
        """
        return await in_thread(self._workers, function, *args)

    async def provider(self, connection: str, kind: str, integration: str | None = None) -> ToolProvider:
        """The provider of tools behind a connection. Raises the errors of `Connections.find`."""
        found = self.connections.find(connection, kind, integration)
        if self._provider_of is None:
            raise Unavailable(f'Node "{self.node_id}" cannot use the connection "{connection}" here')
        return await self._provider_of(found)

    def on_disconnect(self, listener: Callable[[str], object]) -> None:
        """Call `listener` with the id of every connection that is lost while the node is set up, on a thread that may block.

        The connection's calls were cancelled before, but threads of theirs may still run.
        """
        self._listeners.append(listener)

    def disconnected(self, connection_id: str) -> None:
        """Tell the listeners that a connection is gone."""
        for listener in self._listeners:
            self._workers.run(lambda listener=listener: _notify(listener, connection_id))


def path_below(directory: str, name: str, *, confined: bool, node_id: str) -> str:
    """The absolute path of a node's setting; see `SetupContext.path`."""
    if confined and not directory:
        raise Unavailable(
            f'Node "{node_id}" may use no files: its pipeline came over a network, and the server has no root for such files',
            hint="The server may be started with --root FOLDER.",
        )
    directory = os.path.abspath(directory)
    path = os.path.normpath(os.path.join(directory, name))
    if confined:
        root = os.path.realpath(directory)
        if os.path.commonpath([root, os.path.realpath(path)]) != root:
            raise Unavailable(
                f'Node "{node_id}" may not use "{name}": it leads out of the root', hint="Give a path below --root."
            )
    return path


def _notify(listener: Callable[[str], object], connection_id: str) -> None:
    try:
        listener(connection_id)
    except Exception:
        log.exception("on_disconnect: %r failed", listener)


def takes_context(setup: Callable[..., Any]) -> bool:
    """Whether a `setup` takes a `SetupContext` beside the settings."""
    from inspect import Parameter, signature

    positional = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    return sum(parameter.kind in positional for parameter in signature(setup).parameters.values()) > 1


def missing_packages(extra: str, *modules: str) -> str | None:
    """The command that installs an extra's missing modules; None if none is missing.

    Only looks for the modules, without importing them.
    """
    missing = [module for module in modules if not _is_there(module)]
    if not missing:
        return None
    return f'{" and ".join(missing)} cannot be imported; install with: pip install "rrext[{extra}]"'


def _is_there(module: str) -> bool:
    top, _, rest = module.partition(".")
    try:
        return find_spec(top) is not None and (not rest or find_spec(module) is not None)
    except (ImportError, ValueError):  # a parent package that fails, or a module made by hand
        return False
