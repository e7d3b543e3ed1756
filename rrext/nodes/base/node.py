"""`Node`, the base of all node classes, with the ends of its edges and the switches of its tools, and the `Entry` that an
object carries through a pipe.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, Protocol, TypeAlias

import msgspec

from rrext.errors import Unavailable
from rrext.tools.context import NULL_PUBLISHER, Publisher, ToolContext
from rrext.tools.spec import ToolRegistry, ToolSpec, collect_tools

Tenant: TypeAlias = tuple[str | None, str | None]
"""The ids of the user and the space that an object belongs to."""

NOBODY: Final[Tenant] = (None, None)


class Entry:
    """An object on its way through a pipe: the client's description of it, and the result that the nodes build.

    `name`, `path`, `mime_type`, `size`, `metadata` and `signature` come from `open`. `url` is where the data comes from, by
    default `null://Stream/` with path and name. `object_id` is the client's own, or a uuid5 of the URL.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        path: str = "",
        mime_type: str = "application/octet-stream",
        size: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        url: str | None = None,
        object_id: str | None = None,
        signature: str | None = None,
        tenant: Tenant = NOBODY,
    ) -> None:
        """Made by the engine."""
        self.name: str = name or str(uuid.uuid4())
        self.path = path
        self.url: str = url or f"null://Stream/{whole_path(path, self.name)}"
        self.signature = signature
        self.mime_type = mime_type
        self.size = size
        self.metadata: dict[str, Any] = dict(metadata) if metadata else {}
        self.object_id: str = object_id or str(uuid.uuid5(namespace_of(tenant), self.url))
        self.stored: dict[str, int] = {}
        """Id of a store's node → how many chunks it has of what was sent; a store tells it at `closing`."""
        self.result_types: dict[str, str] = {}
        self.result: dict[str, list[Any]] = {}

    def respond(self, key: str, lane: str, value: Any) -> None:
        """Append a value to the list `key` of the result; `result_types[key]` names its lane."""
        self.result_types.setdefault(key, lane)
        self.result.setdefault(key, []).append(value)

    def body(self) -> dict[str, Any]:
        """The result body of `close`, as the RocketRide client reads it."""
        body: dict[str, Any] = {"name": self.name, "path": self.path, "objectId": self.object_id}
        if self.stored:
            body["stored"] = dict(self.stored)
        if self.result_types:
            body["result_types"] = dict(self.result_types)
            body.update(self.result)
        if self.metadata:
            body["metadata"] = dict(self.metadata)
        return body


def whole_path(path: str, name: str) -> str:
    """The whole path of a file: clients send it, or only the folder of the file."""
    folder = path.rstrip("/")
    return path if path == name or path.endswith(f"/{name}") else f"{folder}/{name}" if path else name


def namespace_of(tenant: Tenant) -> uuid.UUID:
    """The namespace of a tenant's object ids, so that two tenants who send the same path have two objects."""
    if tenant == NOBODY:
        return uuid.NAMESPACE_URL
    return uuid.uuid5(uuid.NAMESPACE_URL, msgspec.json.encode(tenant).decode())


def content_tenant(user_id: str | None, space_id: str | None) -> Tenant:
    """Whose content is kept in a space: that of all its members alike, and without a space the user's own."""
    return (user_id, None) if space_id is None else (None, space_id)


class Node:
    """A step of a pipeline, and the owner of tools.

    A node object belongs to one pipe: `open(entry)` begins an object, `write_<lane>(payload)` receives data, `closing()`
    sends collected data on, `close()` ends. Each may be `def` (it runs where it may block) or `async def`, and each may ask
    for a `ToolContext`. Shared state of all objects of a loaded pipeline (clients, models, connections) is made once by the
    async context manager `setup(cls, config)`, or `setup(cls, config, ctx)` with a `SetupContext`, and is `self.shared`. It
    runs at first use, also when tools are only listed: it imports and prepares, and leaves connecting to the calls.
    """

    provider: ClassVar[str] = ""
    """The name that pipeline files use. A class without one is a base class."""
    title: ClassVar[str] = ""
    """A few words for people; the class's name if empty."""
    aliases: ClassVar[tuple[str, ...]] = ()
    """Other provider names that mean this node."""
    lanes: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Lane in → lanes out. A source offers its lanes under `_source`."""
    class_types: ClassVar[tuple[str, ...]] = ()
    """The kinds of control binding that this node serves; a node with tools always serves `tool`."""
    invoke: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """The control bindings that this node needs: class type → `{description, min, max}`."""
    capabilities: ClassVar[tuple[str, ...]] = ()
    """RocketRide's capability words, for editors."""
    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Named sets of config defaults."""
    default_profile: ClassVar[str | None] = None
    """The profile whose defaults hold when a component names none."""
    beside_profile: ClassVar[tuple[str, ...]] = ()
    """The settings that RocketRide's files have beside the section of a profile, where they count too."""
    paths: ClassVar[Mapping[str, Literal["file", "folder"]]] = {}
    """The settings that are paths in the file system, for editors. The values of an object count; of a list of objects, the
    `path` of each."""
    paths_may_be_shared: ClassVar[bool] = False
    """Whether its paths may be in a folder that several machines share: it keeps no locks and no database there."""
    no_paths: ClassVar[frozenset[str]] = frozenset()
    """Values of these settings that mean something else, such as a database in memory."""
    connections: ClassVar[Mapping[str, str]] = {}
    """The settings that name a connection of the operator, with the provider that it is for, for editors and checks."""
    accepts: ClassVar[tuple[str, ...]] = ()
    """Of a source: the client calls that make sense, `send` and `chat`."""
    takes_references: ClassVar[bool] = False
    """Whether `tools` of the config lists references to tools, which are this node's tools then."""
    keeps_references: ClassVar[bool] = False
    """Whether the node alone may call the tools of its references, see `ToolContext.tools`; callers do not see them."""
    has_dynamic_tools: ClassVar[bool] = False
    """Whether `setup` yields a `ToolSource`, whose tools come to those of the class."""
    Config: ClassVar[type | None] = None
    """The node's settings: attrs, a dataclass or plain annotations. None: any settings, as a dict."""

    tools: ClassVar[ToolRegistry]
    """The tools of this class, inherited ones included."""

    node_id: str = ""
    directory: str = ""
    """The base of relative paths in the settings: `--root`, or the folder of the pipeline's file. Empty: the current one."""
    confined: bool = False
    """Whether the settings may name nothing outside of `directory`: `--root` was given, or the pipeline is not trusted."""
    tool_description: str = ""
    """The pipeline's description of this node's tools; it precedes the description of each."""
    bindings: Mapping[str, tuple[str, ...]] = {}
    """Class type → ids of the nodes that are bound to this one by control, in file order; for `ctx.call(id, tool, …)`."""
    config: Any = None
    shared: Any = None
    _link: Any = None  # set by the engine: where `emit` goes
    _publisher: Publisher = NULL_PUBLISHER  # set by the engine: where `publish` goes

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.tools = collect_tools(cls)

    @classmethod
    def is_source(cls) -> bool:
        """Whether pipelines begin at this node."""
        return "_source" in cls.lanes or "source" in cls.class_types

    @classmethod
    def unavailable(cls) -> str | None:
        """Why no tool of this class can run on this machine, or None; the text names the install line."""
        return None

    @classmethod
    def missing(cls, config: Any, path: Callable[[str], str]) -> Iterable[tuple[str, str]]:
        """The settings that name a file or folder that is not there, or that cannot be right, each with a message, for `rrext
        check`: of a setting in `paths` it says `missing_file`, of another one `invalid_config`.

        Looks at the file system; opens, makes and connects to nothing. `path` is `SetupContext.path`.
        """
        return ()

    @classmethod
    def cautions(cls, config: Any) -> Iterable[tuple[str, str]]:
        """The settings with which the node works and leaves something undone, or will not work for long, each with a message
        that names the way out: the warnings `caution` of `rrext check` and of editors. Looks at the settings alone.
        """
        return ()

    @classmethod
    def unmet(cls, config: Any) -> Iterable[tuple[str, str]]:
        """The settings that ask for what this machine does not have, each with a message, for `rrext check`."""
        return ()

    @classmethod
    def require_member(cls, shared: Any, user_id: str | None, space_id: str) -> None:
        """Return if a user is in a space. Raises the same `RrextError` for a space that does not exist.

        A class that has this method knows the members of spaces. It is asked at each call of a network client that names a
        space, before any node of the pipeline sees that, on any thread, and answers at once. `shared` is the shared state.
        """
        raise NotImplementedError

    @classmethod
    def offers(cls, config: Any) -> Mapping[str, Any] | None:
        """The prompts and resources of the node for hosts of the Model Context Protocol, by its settings; None for nothing."""
        return None

    @classmethod
    def machine_files(cls, config: Any) -> Iterable[str]:
        """The settings beside `paths` whose values are files or sockets of this machine: on another one they mean others."""
        return ()

    @classmethod
    def not_offered(cls, config: Any, packages: Sequence[str]) -> Iterable[tuple[tuple[str | int, ...], str]]:
        """The places in the settings that need more than the `packages` which the operator offers, each with a message, for
        `rrext check`."""
        return ()

    @classmethod
    def bound_problems(cls, config: Any, bound: Mapping[str, Sequence[tuple[type[Node], Any]]]) -> Iterable[tuple[str, str]]:
        """The settings that do not fit the nodes bound by control, each with a message; the pipeline is refused then.

        `bound` has their classes and settings, by class type.
        """
        return ()

    def emit(self, lane: str, value: Any) -> Awaitable[None] | None:
        """Send a payload to every node that listens to this one on `lane`.

        In a `def` method it returns when the receivers have, or raises what they raised. In an `async def` method
        it must be awaited. Raises `ValueError` for a lane that the class does not declare.
        """
        if self._link is None:
            raise RuntimeError(f"{type(self).__name__} is in no pipe: emit() works while an object is open")
        return self._link.emit(lane, value)

    def listens(self, lane: str) -> bool:
        """Whether payloads of this lane may come to this node, while an object is open: some node on the way of the object is
        wired to send them."""
        return self._link is not None and self._link.listens(lane)

    def is_heard(self, lane: str) -> bool:
        """Whether what this node sends on a lane reaches any node, while an object is open. Others need not be made."""
        return self._link is not None and self._link.is_heard(lane)

    def publish(self, type: str, data: Any = None) -> None:
        """Publish a message to the subscribers of this pipeline: `type` is a word of yours, `data` a JSON value.

        From any method and any thread; it never waits. A tool that has a context rather uses `ctx.publish`, which names
        its request too. Raises `ToolError` for data that JSON cannot hold, with its path, or over `max_event_data`.
        """
        self._publisher.publish(self.node_id, type, data)


Node.tools = collect_tools(Node)


def offered_lanes(node: type[Node]) -> tuple[str, ...]:
    """The lanes on which a node may send."""
    return tuple(dict.fromkeys(lane for outs in node.lanes.values() for lane in outs))


def accepted_lanes(node: type[Node]) -> tuple[str, ...]:
    """The lanes on which a node may receive."""
    return tuple(lane for lane in node.lanes if lane != "_source")


def served_types(node: type[Node]) -> tuple[str, ...]:
    """The class types as which a node may be bound by control."""
    return tuple(dict.fromkeys((*node.class_types, *(("tool",) if node.tools or node.has_dynamic_tools else ()))))


def accepted_input(node: type[Node]) -> frozenset[str]:
    """The kinds of input that a source is for: `send`, `chat`."""
    if node.accepts:
        return frozenset(node.accepts)
    lanes = node.lanes.get("_source", ())
    return frozenset(("send", "chat") if "questions" in lanes else ("send",) if lanes else ())


class Switch:
    """An availability rule: a switch in the node's settings is on.

    `value` is what turns it on, in words. `refusal` is the first sentence of the error for a tool that is off, if the switch
    has its own; `missing` names the setting to change. `instead` names another tool of the node, which serves some of these
    calls; `otherwise` is a sentence about these calls.
    """

    by_settings = True
    """The settings alone decide, so that the engine need not check each call."""

    def __init__(
        self,
        switch: str,
        value: str = "true",
        *,
        refusal: str | None = None,
        instead: str | None = None,
        otherwise: str = "",
    ) -> None:
        self.switch = switch
        self.refusal = refusal
        self.instead = instead
        set_it = f'The operator of this pipeline has to set "{switch}": {value} in the settings of the node.'
        self.missing = f"{otherwise} {set_it}".lstrip()

    def __call__(self, node: Any, ctx: ToolContext | None) -> bool:
        return node is not None and getattr(node.config, self.switch)

    def require(self, node: Node, tool: str) -> None:
        """Raise `Unavailable` if the switch is off."""
        if not self(node, None):
            message = self.refusal or f'"{tool}" of node "{node.node_id}" is off: "{self.switch}" is not set'
            raise Unavailable(message, hint=self.missing)


class InSpace:
    """The availability of tools that walk over the content of one space."""

    missing = "It walks over one space, and the call names none: begin with `--space`, or `spaceId` in the context."

    def __call__(self, ctx: ToolContext) -> bool:
        return ctx.space_id is not None


IN_SPACE: Final = InSpace()


class ToolSource(Protocol):
    """The shared state of a class with `has_dynamic_tools`. Its methods are called on the loop's thread."""

    prefix: str
    """What a caller may write before the name of a tool, as `connection.`; empty for nothing."""

    def tools(self) -> Mapping[str, ToolSpec]:
        """The tools by name, now. A tool that did not change keeps its `ToolSpec`."""
        ...

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` on the loop's thread after each change of the tools."""
        ...
