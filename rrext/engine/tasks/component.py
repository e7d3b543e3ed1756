"""A component of a loaded pipeline: its class, its settings, and the shared state of its node objects.

A hidden one has a node class of its own here: a connection, or another pipeline, whose tools references alone offer.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

from rrext.engine.host.places import Places
from rrext.engine.interface.failures import failure_of
from rrext.engine.tasks.routes import OfferedReference
from rrext.errors import Cancelled, RrextError, ToolError, Unavailable
from rrext.nodes.base.node import Node
from rrext.nodes.base.setup import SetupContext, takes_context
from rrext.pipefile.loaded_pipeline import LoadedPipeline
from rrext.pipefile.spec import PipelineSpec, listed_references, offered_references
from rrext.references import Reference
from rrext.threads import OwnThread, shielded
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function
from rrext.tools.names import HOST_REQUEST

if TYPE_CHECKING:
    from rrext.engine.host.host import Host
    from rrext.nodes.base.node import ToolSource
    from rrext.providers.provided_tools import ProvidedTools
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
        "config", "confined", "directory", "dynamic_tools", "failure", "id", "is_hidden", "knows_members", "makes_state",
        "missing", "node_class", "partial", "ready", "remote", "shared", "thread_places", "tool_description", "tool_prefix",
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
        overridden = _overrides(node_class)
        self.makes_state = "__init__" in overridden
        self.knows_members = "require_member" in overridden
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
        self._checked = "unavailable" not in overridden
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
            self._waiting.add_done_callback(_retrieve)
            self._keeper = host.spawn(self._keep(self._waiting, host), f"setup {self.id}")
        try:
            await shielded(self._waiting)
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
            redact_piece=host.redactor.piece,
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


def _retrieve(waiting: asyncio.Future[None]) -> None:
    """Retrieve the exception, so that asyncio does not log a failure without waiters as never retrieved."""
    if not waiting.cancelled():
        waiting.exception()


class ConnectionNode(Node):
    """Has the tools of a connection. `config` is the kind of its provider, its name, and the integration that is meant."""

    has_dynamic_tools = True

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: tuple[str, str, str], ctx: SetupContext) -> AsyncIterator[ProvidedTools]:
        """Connect, and learn the tools."""
        from rrext.providers.provided_tools import ProvidedTools  # few pipelines have tools outside

        kind, name, integration = config
        async with ProvidedTools.of(await ctx.provider(name, kind, integration)) as found:
            yield found


class PipelineNode(Node):
    """Has a running pipeline as its one tool. `config` is the kind, and the token of the pipeline."""

    @tool_function(description=lambda node: f'Give a text to the pipeline "{node.config[1]}", and get its result.')
    async def run(
        self,
        text: Annotated[str, "The text, or the question for a pipeline that chats."],
        mime_type: Annotated[str | None, "The type of the text, which chooses its lane."] = None,
        name: Annotated[str | None, "A name for the text."] = None,
        *,
        ctx: ToolContext,
    ) -> dict[str, Any]:
        return await ctx.run_pipeline(self.config[1], text, mime_type=mime_type, name=name)


def components_of(
    loaded: LoadedPipeline, *, directory: str, confined: bool, partial: bool = False, remote: bool = False
) -> dict[str, Component]:
    """Make the components in chain order; of the sources, those alone that have tools. Raises `InvalidPipeline` with all
    problems.
    """
    spec = loaded.require()
    specs = {component.id: component for component in spec.components}
    bindings = _bindings(spec)
    written = loaded.unresolved["components"]  # whoever lists the tools reads this
    sources = [part.id for part in spec.components if part.node_class.tools and part.node_class.is_source()]
    return {
        node_id: Component(
            node_id,
            specs[node_id].node_class,
            specs[node_id].settings,
            directory=directory,
            confined=confined,
            tool_description=_text(written[specs[node_id].index].get("config", {}).get("tool_description")),
            bindings=bindings.get(node_id, {}),
            missing=specs[node_id].missing,
            partial=partial,
            remote=remote,
        )
        for node_id in dict.fromkeys((*spec.chain, *sources))
    }


def references_of(spec: PipelineSpec, components: dict[str, Component], *, remote: bool) -> list[OfferedReference]:
    """The references of a pipeline with the components that have their tools; components outside of the file are added."""
    offered, found = offered_references(spec.components), list[OfferedReference]()
    for offering, reference in listed_references(spec.components):
        meant = offered.chain(reference)[-1]  # which a file that can be run has
        component = component_for(meant, components, remote=remote)
        if component is not None:
            found.append((offering, reference, component))
    return found


def component_for(
    reference: Reference, components: dict[str, Component], *, remote: bool, is_hidden: bool = True
) -> Component | None:
    """The component that has the tool of a reference. None for a builtin, and for a node that is not there.

    A pipeline or a connection is a hidden component, which is added if it is the first of its name.
    """
    if reference.kind in ("builtin", "node"):
        return components.get(reference.integration)
    name = reference.connection or reference.integration
    node_class: type[Node] = PipelineNode if reference.kind == "pipeline" else ConnectionNode
    node_id, config = f"{reference.kind}:{name}", (reference.kind, name, reference.integration)
    while (component := components.get(node_id)) is not None:
        if (component.is_hidden or not is_hidden) and component.config == config:
            return component
        node_id += "'"
    component = components[node_id] = Component(node_id, node_class, config, remote=remote, is_hidden=is_hidden)
    return component


def _bindings(spec: PipelineSpec) -> dict[str, dict[str, tuple[str, ...]]]:
    """The control bindings: invoker → class type → ids of the controlled nodes."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for component in spec.components:
        for edge in component.controls:
            of_invoker = found.setdefault(edge.source_id, {})
            of_invoker[edge.class_type] = (*of_invoker.get(edge.class_type, ()), component.id)
    return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
