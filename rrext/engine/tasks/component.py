"""A component of a loaded pipeline: its class, its settings, and the shared state of its node objects."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from rrext.engine.host.places import Places
from rrext.engine.interface.failures import failure_of
from rrext.errors import Cancelled, RrextError, ToolError, Unavailable
from rrext.nodes.base.node import Node
from rrext.nodes.base.setup import SetupContext, takes_context
from rrext.threads import OwnThread
from rrext.tools.names import HOST_REQUEST

if TYPE_CHECKING:
    from rrext.engine.host.host import Host
    from rrext.nodes.base.node import ToolSource
    from rrext.tools.context import Publisher
    from rrext.tools.spec import ToolSpec


GIVEN: Final = 8
"""Attributes that `new_object` sets."""
NO_BINDINGS: Final[Mapping[str, tuple[str, ...]]] = {}
NO_TOOLS: Final[Mapping[str, ToolSpec]] = {}

UNLOADED: Final = "cancelled: the pipeline was unloaded"

log: Final = logging.getLogger("rrext.component")


class Component:
    """One component while its pipeline is loaded.

    `setup` is entered at first use and left at unload, both in one task of the component, as an async context manager
    needs. A failing `setup` fails the calls that waited for it; the next call tries again, and `failure` is the last error.
    `blocked` is the reason why this machine cannot run the node, None before the check. `missing` is the reason why a node of
    a pipeline that was loaded in part (`partial`) never runs; there, a node whose `setup` fails is unavailable.
    A hidden component is no part of the file: its tools are offered by references alone.
    `dynamic_tools` are the tools that came with the shared state, `tools_changed` is called after each change of them; callers
    may write `tool_prefix` before their names.
    """

    __slots__ = (
        "_checked", "_is_closed", "_keeper", "_leave", "_setup", "_thread", "_thread_lock", "_waiting", "bindings", "blocked",
        "config", "confined", "directory", "dynamic_tools", "failure", "id", "is_hidden", "makes_state", "missing",
        "node_class", "partial", "ready", "remote", "shared", "thread_places", "tool_description", "tool_prefix",
        "tools_changed",
    )  # fmt: skip

    def __init__(
        self,
        component_id: str,
        node_class: type[Node],
        config: Any,
        *,
        directory: str = "",
        confined: bool = False,
        tool_description: str = "",
        bindings: Mapping[str, tuple[str, ...]] = NO_BINDINGS,
        missing: str = "",
        partial: bool = False,
        remote: bool = False,
        is_hidden: bool = False,
    ) -> None:
        self.id = component_id
        self.is_hidden = is_hidden
        self.directory = directory
        self.confined = confined
        self.tool_description = tool_description
        self.bindings = bindings
        self.makes_state = "__init__" in _overrides(node_class)
        self.node_class = node_class
        self.config = config
        self.shared: Any = None
        self.dynamic_tools: Mapping[str, ToolSpec] = NO_TOOLS
        self.tool_prefix = ""
        self.tools_changed: Callable[[Component], None] | None = None
        self.missing = missing
        self.partial = partial
        self.remote = remote
        self.blocked: str | None = missing or None
        self.failure: RrextError | None = None
        self._checked = "unavailable" not in _overrides(node_class)
        self._is_closed = False
        self._waiting: asyncio.Future[None] | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._leave: asyncio.Event | None = None
        self._setup: SetupContext | None = None
        self._thread: OwnThread | None = None
        self._thread_lock = threading.Lock()
        self.thread_places = Places(1, f'thread of the node "{component_id}"')
        self.ready = not missing and self._checked and not hasattr(node_class, "setup")

    def new_object(self, publisher: Publisher) -> Node:
        """Make a node object of this component; its settings are set before `__init__` runs."""
        node = self.node_class.__new__(self.node_class)
        node.node_id = self.id
        node.directory = self.directory
        node.confined = self.confined
        node.tool_description = self.tool_description
        node.config = self.config
        node.shared = self.shared
        node.bindings = self.bindings
        node._publisher = publisher
        node.__init__()
        return node

    def tool(self, name: str) -> ToolSpec | None:
        """A tool of the node's class, or a dynamic one as far as they are known."""
        return self.node_class.tools.get(name) or self.dynamic_tools.get(name)

    @property
    def tool_names(self) -> Iterable[str]:
        """The names of all its tools, as far as they are known."""
        return [name for name in {**self.node_class.tools, **self.dynamic_tools} if name != HOST_REQUEST]

    async def ensure(self, host: Host, *, trusted: bool) -> None:
        """Wait until the component is set up. Raises `Unavailable`, or the error of `setup` as `failure_of` translates it."""
        if self.ready:
            return
        if self.missing:
            raise unavailable(self.id, self.missing)
        if self._is_closed:
            raise Cancelled(UNLOADED)
        if self._waiting is None:
            self._waiting = host.loop.create_future()
            self._waiting.add_done_callback(_seen)
            self._keeper = host.spawn(self._keep(self._waiting, host), f"setup {self.id}")
        try:
            await asyncio.shield(self._waiting)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # setup may raise anything
            what = f'Node "{self.id}" could not be set up'
            failure = failure_of(
                error, what=what, node_id=self.id, tool=None, request=f"setup of {self.id}", trusted=trusted, limits=host.limits
            )
            cause = failure.__cause__
            if self.partial and not isinstance(failure, Unavailable | Cancelled):
                data = {**failure.data, "nodeId": self.id, "cause": failure.code}
                failure = Unavailable(failure.message, hint=failure.hint, data=data)
            self.failure = failure.again()
            try:
                raise failure.again() from cause  # the setup's own error would get the traceback of each call that waited
            finally:
                del failure, cause  # their tracebacks reference this frame

    @property
    def own_thread(self) -> OwnThread:
        """The one thread of this component's `thread="same"` tools."""
        with self._thread_lock:  # nested calls run on worker threads
            if self._thread is None:
                self._thread = OwnThread(f"rrext-{self.id}")
            return self._thread

    def disconnected(self, connection_id: str) -> None:
        """Release the resources that the shared state holds for a connection that ended."""
        if self._setup is not None:
            self._setup.disconnected(connection_id)

    async def close(self, patience: float) -> None:
        """Leave `setup`. Gives up with a warning after `patience` seconds, so that a stuck node blocks no unload."""
        self._is_closed = True
        self.ready = False
        keeper, waiting = self._keeper, self._waiting
        if keeper is not None:
            if self._leave is None:
                keeper.cancel()
                if waiting is not None:  # a task that is cancelled before its first step sets no future
                    self._fail(waiting, Cancelled(UNLOADED))
            else:
                self._leave.set()
            _, stuck = await asyncio.wait([keeper], timeout=patience)
            if stuck:
                log.warning("setup of node %s was not left within %g s", self.id, patience)
                keeper.cancel()  # it may listen to that
        with self._thread_lock:
            if self._thread is not None:
                self._thread.stop()

    async def _keep(self, waiting: asyncio.Future[None], host: Host) -> None:
        context = SetupContext(
            host.workers,
            node_id=self.id,
            directory=self.directory,
            confined=self.confined,
            remote=self.remote,
            bindings=self.bindings,
            redact=host.redactor.text,
            wait=host.wait,
            connections=host.shared_connections if self.remote else host.connections,
            packages=host.packages,
            tool_description=self.tool_description,
            provider_of=host.provider_of,
        )
        try:
            if not self._checked:
                await self._check(context)
            if not hasattr(self.node_class, "setup"):
                self._become_ready(waiting)
                return
            async with self._entering(context) as shared:
                self.shared, self.tool_description = shared, context.tool_description
                self._setup = context
                self._leave = asyncio.Event()
                if self.node_class.has_dynamic_tools:
                    shared.watch(lambda: self._take_tools(shared))
                    self._take_tools(shared)
                self._become_ready(waiting)
                await self._leave.wait()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                self._fail(waiting, Cancelled(UNLOADED))
                raise
            self._fail(waiting, ToolError(f'setup of node "{self.id}" was cancelled from inside', data={"nodeId": self.id}))
        except BaseException as error:
            if waiting.done():
                log.warning("leaving setup of node %s failed", self.id, exc_info=error)
            self._fail(waiting, error)
        finally:
            self._leave = self._keeper = self._setup = None

    def _entering(self, context: SetupContext) -> Any:
        setup = self.node_class.setup  # pyright: ignore[reportAttributeAccessIssue]
        return setup(self.config, context) if takes_context(setup) else setup(self.config)

    async def _check(self, context: SetupContext) -> None:
        """Ask the class, in a thread because it may import or probe, whether this machine can run it."""

        def ask() -> str | None:
            try:
                return self.node_class.unavailable()
            except BaseException as error:
                log.warning("node %s could not say whether it is available", self.id, exc_info=error)
                name = self.node_class.__name__  # not every caller may read the exception's text, and `str` of it may fail
                return f"{name} could not say whether it can run here: {type(error).__name__}, told in the server's log"

        reason = self.blocked = await context.in_thread(ask)
        if reason is not None:
            raise unavailable(self.id, reason)
        self._checked = True

    def _take_tools(self, source: ToolSource) -> None:
        self.dynamic_tools, self.tool_prefix = source.tools(), source.prefix
        if self.tools_changed is not None and not self._is_closed:
            self.tools_changed(self)

    def _become_ready(self, waiting: asyncio.Future[None]) -> None:
        self.ready = not self._is_closed
        self.failure = None
        if not waiting.done():
            waiting.set_result(None)

    def _fail(self, waiting: asyncio.Future[None], error: BaseException) -> None:
        self._waiting = None  # the next call tries again
        if not waiting.done():
            waiting.set_exception(error)


def unavailable(node_id: str, reason: str) -> Unavailable:
    """Make the error of a call that needs a node which cannot run here."""
    return Unavailable(f'Node "{node_id}" is not available here: {reason}', data={"nodeId": node_id})


def _overrides(node_class: type[Node]) -> set[str]:
    return {name for cls in node_class.__mro__ if cls not in (Node, object) for name in vars(cls)}


def _seen(waiting: asyncio.Future[None]) -> None:
    """Retrieve the exception, so that asyncio does not log a failure without waiters as never retrieved."""
    if not waiting.cancelled():
        waiting.exception()
