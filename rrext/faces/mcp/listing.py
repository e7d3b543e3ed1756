"""The tools that a server has listed: pages of `tools/list`, the calls of these tools, and the notification that the list has
changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from rrext.engine.events.hub import Subscription
from rrext.engine.interface.engine import Engine
from rrext.errors import InvalidArguments
from rrext.limits import Limits
from rrext.wire.codec import encode_own

if TYPE_CHECKING:
    from rrext.faces.mcp.connection import McpConnection
    from rrext.server.session import Session


PAGE_SIZE: Final = 250
"""Tools in one answer to `tools/list`. Hosts show a model a tenth of that; a page stays far below the size of a frame."""

TIMEOUT_KEY: Final = "rrext/timeout"
"""The member of a call's `_meta` with its deadline, in seconds from its receipt."""

SPACE_KEY: Final = "rrext/space"
"""The member of a request's `_meta` with the space in which it is asked."""


def space_of(params: Mapping[str, Any], limits: Limits) -> str | None:
    """The space that a request names; None if it names none. Raises `InvalidArguments`."""
    meta = params.get("_meta")
    if not isinstance(meta, Mapping) or (space := cast("dict[str, Any]", meta).get(SPACE_KEY)) is None:
        return None
    if not isinstance(space, str) or len(space) > limits.max_name:
        raise InvalidArguments.at(SPACE_PATH, f"expected the id of a space, of at most {limits.max_name} characters (max_name)")
    return space


SPACE_PATH: Final = "/_meta/rrext~1space"


class ListedTools:
    """The facts about tools in their last list on which calls of them depend."""

    def __init__(self) -> None:
        self._objects: dict[str, frozenset[str]] = {}  # of each tool, its parameters that take an object

    def page(self, body: bytes, start: int) -> bytes:
        """The members of the page that begins with the tool number `start`, encoded; `body` is the encoded `{"tools": […]}`
        of the session's command.
        """
        tools: list[dict[str, Any]] = msgspec.json.decode(body)["tools"]
        self._objects |= {tool["name"]: _objects_of(tool) for tool in tools}
        end = start + PAGE_SIZE
        page: dict[str, Any] = {"tools": tools[start:end]}
        if len(tools) > end:
            page["nextCursor"] = str(end)
        return encode_own(page)[1:-1]

    def __contains__(self, name: str) -> bool:
        return name in self._objects

    def call(self, params: dict[str, Any]) -> dict[str, Any]:
        """The arguments of the session's command `rrext_process` for those of `tools/call`. Raises `InvalidArguments`."""
        name, meta = params.get("name"), params.get("_meta")
        if not isinstance(name, str):
            raise InvalidArguments.at("/name", "expected the name of a tool")
        given = self._objects_decoded(name, params.get("arguments", {}))
        arguments: dict[str, Any] = {"subcommand": "tool", "tool": name, "input": given, "content": True}
        if not isinstance(meta, dict):
            return arguments
        timeout, token = cast("dict[str, Any]", meta).get(TIMEOUT_KEY), cast("dict[str, Any]", meta).get("progressToken")
        if timeout is not None:
            arguments["timeout"] = timeout
        if (parent := cast("dict[str, Any]", meta).get("traceparent")) is not None:
            arguments["_meta"] = {"traceparent": parent}
        if token is not None:
            if type(token) is not int and not isinstance(token, str):
                raise InvalidArguments.at("/_meta/progressToken", "expected a string or a whole number")
            arguments["progress"] = arguments["events"] = True
        return arguments

    def _objects_decoded(self, name: str, given: Any) -> Any:
        """The arguments, with objects where a model wrote the JSON text of one for a parameter that is an object."""
        given = decoded(given)
        if not isinstance(given, dict) or name not in self._objects:
            return given
        written = cast("dict[str, Any]", given)
        texts = [key for key in self._objects[name] if isinstance(written.get(key), str)]
        return {**written, **{key: decoded(written[key]) for key in texts}} if texts else given


def decoded(value: Any) -> Any:
    """The object that a JSON text holds; any other value as it is."""
    if not isinstance(value, str) or not value.lstrip().startswith("{"):
        return value
    try:
        found = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value
    return found if isinstance(found, dict) else value


def _objects_of(tool: dict[str, Any]) -> frozenset[str]:
    """The parameters of a tool that take an object and no string."""
    from rrext.tools.forms import accepted_kinds  # not needed for a first call before any list

    schema = tool["inputSchema"]
    kinds = {name: accepted_kinds(parameter, schema) for name, parameter in schema.get("properties", {}).items()}
    return frozenset(name for name, taken in kinds.items() if "object" in taken and "string" not in taken)


def start_of(cursor: object) -> int:
    """The number of the first tool of a page; `cursor` is the `nextCursor` of the page before it. Raises `InvalidArguments`."""
    if cursor is None:
        return 0
    if isinstance(cursor, str) and cursor.isdecimal() and len(cursor) < 10 and int(cursor) % PAGE_SIZE == 0:
        return int(cursor)
    raise InvalidArguments.at("/cursor", "expected the nextCursor of an earlier page")


KINDS: Final = frozenset(("task_begun", "task_ended", "tools_changed"))
"""The events after which other tools are listed."""


def watch_tools(engine: Engine, changed: Callable[[Any], object]) -> Subscription:
    """Call `changed` in any thread after each event that may change the list of tools."""
    from rrext.engine.events.records import Filter

    return engine.subscribe(Filter(kinds=KINDS), changed)


class ToolChanges:
    """Tells the client of a connection that its list of tools has changed; once, however often it changes, while the client
    reads nothing.
    """

    def __init__(self, engine: Engine, session: Session, connection: McpConnection) -> None:
        self._engine = engine
        self._session = session
        self._connection = connection
        self._watches = False
        connection.when_heard = self._begin

    def _begin(self) -> None:
        """Begin to watch the engine, when the client may have begun to listen. On the thread that reads."""
        if not self._watches:
            self._watches = True
            watch_tools(self._engine, self._notify)

    def _notify(self, event: Any) -> None:
        if self._session.outbox.is_full:
            self._session.late_event(self)
        else:
            self.catch_up()

    def catch_up(self) -> None:
        """Send what the client does not know yet."""
        pieces = self._connection.tools_changed()
        if pieces and not self._session.is_closed:
            self._session.send(pieces)
