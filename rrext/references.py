"""References to tools in configuration and requests: which tool is meant, under which name, how it is wrapped, who may see
it.

The name of a tool anywhere is `tools.{provider}.{integration}.{action}.{connection}`, and the same as a function name,
where `__` stands for the dots. Both forms of plain segments can be read; other segments, and function names over 64
characters, end in a hash, and are understood through the table that made them. The reader reports all problems of
references at once.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import islice
from math import isfinite
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import structs

from rrext.errors import near_matches
from rrext.limits import DEFAULTS, MAX_EXPORTED_NAME, MAX_PATTERNS, MAX_QUOTED_NAME, MAX_REFERENCE_CHAIN, MAX_REFERENCES
from rrext.tools.decorator import is_tool_name
from rrext.tools.names import SEPARATOR, NodeTool, hashed_name, is_plain, joined_name
from rrext.tools.spec import ToolSpec

Kind: TypeAlias = Literal["builtin", "node", "pipeline", "mcp", "http", "composio"]
Permission: TypeAlias = Literal["allow", "ask", "deny"]
PIPELINE_TOOL: Final = "run"
"""The name of the tool that a pipeline is."""

NOTHING: Final[Mapping[str, Any]] = {}


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """A reference to one tool, or to those of a whole server. `path` is its JSON pointer.

    `integration` is the node, the token of the pipeline, the server or the integration; `action` is the tool. A builtin has
    an `action` alone: it is a tool of the pipeline at hand, by its name. Without an `action` the reference takes all tools of
    its server whose names fit a pattern of `include`, if there are any, and none of `exclude`.
    """

    path: str
    kind: Kind
    integration: str = ""
    action: str
    connection: str = ""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    given_name: str = ""
    description: str | None = None
    arguments: Mapping[str, Any] = NOTHING
    parameters: Mapping[str, Mapping[str, Any]] = NOTHING
    available: Availability | None = None
    permission: Permission = "allow"
    timeout: float | None = None

    @property
    def name(self) -> str:
        """The name under which the tool is offered, by default made of integration and action."""
        if self.kind == "builtin":
            return self.action
        return self.given_name or joined_name(self.integration, self.action)

    @property
    def call_ref(self) -> CallRef:
        """The name of the tool that is meant, as it is without this reference."""
        if self.kind in ("node", "pipeline"):
            return CallRef(self.kind, self.integration, self.action)
        return CallRef(self.kind, self.integration, self.action, self.connection or DEFAULT)

    def single(self, tools: Iterable[str]) -> Iterator[Reference]:
        """The references to one tool each that this one stands for. `tools` are the names of all tools of its server."""
        if self.action:
            yield self
            return
        for tool in tools:
            if (not self.include or _fits(tool, self.include)) and not _fits(tool, self.exclude):
                available = self.available and structs.replace(self.available, name=tool)
                yield structs.replace(self, action=tool, include=(), exclude=(), available=available)

    def offers(self, name: str) -> bool:
        """Whether a tool of this name is offered, as far as the reference says."""
        if self.action:
            return name == self.name
        head, _, tool = name.partition(self.integration + SEPARATOR)
        is_hashed = SEPARATOR in tool  # of which tool, only the server knows
        return not head and (is_hashed or any(self.single([tool])))

    @property
    def takes_all(self) -> bool:
        """Whether the reference takes all of an MCP server, for every caller: its prompts and resources, too."""
        is_whole = self.kind == "mcp" and not (self.action or self.include or self.exclude)
        return is_whole and self.permission == "allow" and self.available is None

    @property
    def is_wrapper(self) -> bool:
        """Whether a call through the reference differs from a call of the tool."""
        return bool(self.arguments or self.parameters or self.available or self.timeout or self.permission != "allow")

    def wrap(self, spec: ToolSpec) -> ToolSpec:
        """The tool as this reference offers it."""
        return spec.replace(
            name=self.name,
            description=self.description,
            arguments=self.arguments,
            parameters=self.parameters,
            available=Availability(name=self.name, is_denied=True) if self.permission == "deny" else self.available,
            timeout=self.timeout,
        )


class OfferedReferences:
    """The references of a pipeline, each with the node that offers it, by the names of the tools that they offer.

    `own` has the tools that nodes have by themselves, which come before.
    """

    def __init__(self, listed: Iterable[tuple[str, Reference]], own: Mapping[str, Container[str]]) -> None:
        self._own = own
        self.single: dict[NodeTool, Reference] = {}
        """The references to a single tool, by node id and tool name."""
        self._whole: dict[str, list[Reference]] = {}
        for node_id, reference in listed:
            if reference.kind == "builtin":
                continue  # offered by the node that has it
            if reference.action:
                self.single.setdefault((node_id, reference.name), reference)
            else:
                self._whole.setdefault(node_id, []).append(reference)

    @property
    def nodes(self) -> set[str]:
        """The ids of the nodes that offer something."""
        return {node_id for node_id, _ in self.single} | self._whole.keys()

    def find(self, node_id: str, name: str) -> Reference | None:
        """The reference with which a node offers a tool of this name, or may do so; None for a tool of its own."""
        if name in self._own.get(node_id, ()):
            return None
        whole = self._whole.get(node_id, ())
        return self.single.get((node_id, name)) or next((each for each in whole if each.offers(name)), None)

    def names(self, node_id: str) -> list[str]:
        """The names that a node offers by references to one tool."""
        return [name for owner, name in self.single if owner == node_id]

    def chain(self, reference: Reference) -> list[Reference]:
        """The reference, the one whose tool it means, and so on; empty if there are too many, as in a circle."""
        found = list(islice(self._followed(reference), MAX_REFERENCE_CHAIN + 1))
        return found if len(found) <= MAX_REFERENCE_CHAIN else []

    def is_in_circle(self, reference: Reference) -> bool:
        """Whether the references that follow each other from this one have no end."""
        return len(list(islice(self._followed(reference), len(self.single) + 2))) > len(self.single) + 1

    def _followed(self, reference: Reference) -> Iterator[Reference]:
        inner: Reference | None = reference
        while inner is not None:
            yield inner
            inner = self.find(inner.integration, inner.action) if inner.kind == "node" else None


def _fits(tool: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(tool, pattern) for pattern in patterns)


PREFIX: Final = "tools"
OWN: Final = "self"
"""The connection of a tool of this engine."""

DEFAULT: Final = "default"
"""The connection of a provider that has one for each integration."""


class CallRef(NamedTuple):
    """The five-part name of a tool, without the prefix."""

    provider: str
    integration: str
    action: str
    connection: str = OWN

    @property
    def is_plain(self) -> bool:
        """Whether all segments stand as they are."""
        return all(map(is_plain, self))

    @property
    def text(self) -> str:
        """The name with dots. Only a plain one can be read again."""
        return ".".join((PREFIX, *self))

    @property
    def names_a_wrapper(self) -> bool:
        """Whether the last segment is none of a tool as it is, so that only the table that made the name knows it."""
        own = {"node": OWN, "pipeline": OWN, "mcp": DEFAULT, "http": DEFAULT}.get(self.provider)
        return own is not None and self.connection != own

    @classmethod
    def read(cls, name: str) -> CallRef | None:
        """Read either form of a plain name; None for any other text."""
        return _read(name)


@lru_cache
def _read(name: str) -> CallRef | None:
    for separator in (".", SEPARATOR):
        parts = name.split(separator)
        if len(parts) == 5 and parts[0] == PREFIX and all(map(is_plain, parts)):
            return CallRef(*parts[1:])
    return None


class CallRefNames:
    """Two names for each of some call refs, different from those of all others: a text, and a function name."""

    def __init__(self, refs: Iterable[CallRef] = ()) -> None:
        self._names: dict[CallRef, tuple[str, str]] = {}
        self._refs: dict[str, CallRef] = {}
        for ref in sorted(refs, key=lambda ref: not ref.is_plain):
            self.add(ref)

    def add(self, ref: CallRef) -> tuple[str, str]:
        """The text and the function name of a ref, the same ones each time."""
        names = self._names.get(ref)
        if names is None:
            names = self._names[ref] = self._unused(ref)
            self._refs.update(dict.fromkeys(names, ref))
        return names

    def discard(self, ref: CallRef) -> None:
        """Forget the names of a ref."""
        for name in self._names.pop(ref, ()):
            del self._refs[name]

    def find(self, name: str) -> CallRef | None:
        """The ref of a text or function name of this table, or the one that a plain name says."""
        return self._refs.get(name) or CallRef.read(name)

    def _unused(self, ref: CallRef) -> tuple[str, str]:
        text, function, attempt = ref.text, SEPARATOR.join((PREFIX, *ref)), 0
        is_readable = ref.is_plain and text not in self._refs
        if is_readable and len(function) <= MAX_EXPORTED_NAME and function not in self._refs:
            return text, function
        segments = (PREFIX, ref.provider, "\0".join(ref[1:]))  # less than five, so that it never reads as a plain name
        while True:
            function = hashed_name(segments, attempt)
            dotted = text if is_readable else function.replace(SEPARATOR, ".")
            if function not in self._refs and dotted not in self._refs:
                return dotted, function
            attempt += 1


class Availability(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions for seeing and calling a tool, of which every one must hold; `users` is None for all users."""

    name: str = ""
    space_required: bool = False
    users: frozenset[str] | None = None
    is_on: bool = True
    is_denied: bool = False

    def __call__(self, node: Any, ctx: Any) -> bool:
        if self.is_denied or not self.is_on:
            return False
        if ctx is None:
            return not self.space_required and self.users is None
        if self.space_required and ctx.space_id is None:
            return False
        return self.users is None or ctx.user_id in self.users

    @property
    def by_settings(self) -> bool:
        """Whether the configuration alone decides, so that the engine need not check each call."""
        return self.is_denied or not self.is_on or (not self.space_required and self.users is None)

    @property
    def refusal(self) -> str:
        """The first sentence of the error for a caller who may not use the tool; it names no other users."""
        if self.is_denied:
            return f'Tool "{self.name}" is denied by configuration'
        if not self.is_on:
            return f'Tool "{self.name}" is off by configuration'
        return f'Tool "{self.name}" is not available to this user and space'


class KnownConnection(msgspec.Struct, frozen=True):
    """The name, provider and integration of a connection. `reason` is the obstacle to its use; empty if there is none."""

    name: str
    provider: str
    integration: str = ""
    reason: str = ""


FORMS: Final[Mapping[str, tuple[str, ...]]] = {
    "node": ("node", "tool"),
    "pipeline": ("pipeline",),
    "mcp": ("server", "tool"),
    "http": ("server", "tool"),
    "composio": ("integration", "action", "connection"),
    "gateway": ("integration", "action", "connection"),
}
"""Type of a reference → the keys that name its tool."""

WHOLE: Final = ("mcp", "http")
"""Types whose references take a whole server where they name no tool."""

PATTERNS: Final = ("include", "exclude")
"""Keys of a reference to a whole server."""

WRAPPING: Final = ("name", "description", "arguments", "parameters", "available", "permission", "timeout")
"""Keys of every reference."""

OF_ONE_TOOL: Final = ("name", "description", "arguments", "parameters")
"""Those of them that a reference to a whole server has not."""

PERMISSIONS: Final = ("allow", "ask", "deny")
CONDITIONS: Final = ("space", "users", "when")
"""Keys of `available`."""

WITH_VALUES: Final = ("arguments", "available")
"""Keys in which the values of variables are put: callers see the others."""

_ON: Final = frozenset({"true", "1", "yes", "on"})
_OFF: Final = frozenset({"false", "0", "no", "off", ""})
_VARIABLE: Final = re.compile(r"\$\{[A-Za-z_]")
_TYPES: Final = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}


class ReferenceProblem(msgspec.Struct, frozen=True):
    """A problem of a reference: its JSON pointer, a sentence, near matches; another place with a sentence."""

    code: str
    path: str
    message: str
    near: Sequence[str] = ()
    related: tuple[str, str] | None = None
    on: Literal["key", "value"] = "value"


class ReferenceReader:
    """Reads lists of references. `problems` collects what is wrong with them."""

    def __init__(self) -> None:
        self.problems: list[ReferenceProblem] = []
        self._patterns_read = 0

    def references(self, value: Any, path: str, *, node: str | None = None) -> list[Reference]:
        """Read the list at a JSON pointer. `node` is the one node of a list whose references all mean its tools.

        References whose tool is not said are left out; `same_names` tells of names that do not differ.
        """
        if not isinstance(value, list):
            self.add(path, f"Expected a list of references, got {_kind(value)}.")
            return []
        if len(value) > MAX_REFERENCES:
            self.add(path, f"{len(value)} references are more than {MAX_REFERENCES}.")
            return []
        found = [self._reference(item, f"{path}/{index}", node) for index, item in enumerate(value)]
        return [reference for reference in found if reference is not None]

    def add(self, path: str, message: str, near: Sequence[str] = (), *, on: Literal["key", "value"] = "value") -> None:
        """Report a problem of the form of a reference."""
        self.problems.append(ReferenceProblem("invalid_reference", path, message, near, on=on))

    def _reference(self, item: Any, path: str, node: str | None) -> Reference | None:
        if isinstance(item, str) and node is None:
            if 0 < len(item) <= DEFAULTS.max_name:
                return Reference(path=path, kind="builtin", action=item)
            self.add(path, f"Expected the name of a tool, got {_unusable(item)}.")
            return None
        if not isinstance(item, dict):
            expected = "an object" if node is not None else "the name of a tool, or an object"
            self.add(path, f"A reference is {expected}, not {_kind(item)}.")
            return None
        kind = self._type(item, path, node)
        if kind is None:
            return None
        form, more = FORMS[kind], ("provider",) if kind == "gateway" else PATTERNS if kind in WHOLE else ()
        self._unknown_keys(item, ("type", *form, *WRAPPING, *more), path)
        is_whole = kind in WHOLE and "tool" not in item
        for key in OF_ONE_TOOL if is_whole else PATTERNS if kind in WHOLE else ():
            if item.get(key) is not None:
                which = 'one tool: say which in "tool"' if is_whole else 'a whole server: leave "tool" out'
                self.add(f"{path}/{key}", f'"{key}" is for {which}.', on="key")
        named = [
            node if key == "node" and node is not None else self._required(item, key, path)
            for key in form
            if key != "tool" or not is_whole
        ]
        if node is not None and item.get("node", node) != node:
            self.add(f"{path}/node", f'The references of this edge mean tools of "{node}".')
        if kind == "gateway" and item.get("provider", "composio") != "composio":
            self.add(f"{path}/provider", 'The gateway is "composio".')
        reference = self._wrapped(item, path, "composio" if kind == "gateway" else kind, named)
        return reference if all(named) else None

    def _wrapped(self, item: Mapping[str, Any], path: str, kind: Any, named: list[str]) -> Reference:
        name = self._name(item, path)
        arguments = self._object(item, "arguments", path)
        parameters = self._object(item, "parameters", path)
        empty: set[str] = set()
        for key, schema in parameters.items():
            if not isinstance(schema, dict):
                self.add(f"{path}/parameters/{_escaped(key)}", f"Expected a JSON Schema object, got {_kind(schema)}.")
            elif key in arguments:
                self.add(f"{path}/parameters/{_escaped(key)}", f'"{_cut(key)}" is fixed by arguments.')
            else:
                from rrext.tools.narrowed_spec import why_nothing_fits

                for where, text in islice(why_nothing_fits(schema), 1):
                    empty.add(key)
                    self.add("/".join((path, "parameters", *(_escaped(str(part)) for part in (key, *where)))), text)
        integration, action, connection = (*named, *("" for _ in range(3 - len(named))))
        whole: Kind = kind
        return Reference(
            path=path,
            kind=whole,
            integration=integration,
            action=PIPELINE_TOOL if whole == "pipeline" else action,
            connection=connection,
            **{key: self._patterns(item, key, path) for key in (PATTERNS if whole in WHOLE else ())},
            given_name=name,
            description=self._text(item, "description", path),
            arguments=arguments,
            parameters={
                key: schema
                for key, schema in parameters.items()
                if isinstance(schema, dict) and key not in arguments.keys() | empty
            },
            available=self._available(item, path, name or action or integration),
            permission=self._permission(item, path),
            timeout=self._timeout(item, path),
        )

    def _type(self, item: Mapping[str, Any], path: str, node: str | None) -> str | None:
        kind = item.get("type", "node" if node is not None else None)
        if isinstance(kind, str) and kind in FORMS and (node is None or kind == "node"):
            return kind
        known = ["node"] if node is not None else list(FORMS)
        if "type" not in item:
            self.add(f"{path}/type", f'The key "type" is missing: one of {", ".join(known)}.')
        else:
            got = f'"{_cut(kind)}"' if isinstance(kind, str) else _kind(kind)
            near = near_matches(kind, known) if isinstance(kind, str) and len(kind) <= MAX_QUOTED_NAME else []
            self.add(f"{path}/type", f"Expected one of {', '.join(known)}, got {got}.", near)
        return None

    def _unknown_keys(self, item: Mapping[str, Any], known: Sequence[str], path: str) -> None:
        """Report unknown keys: a misspelt one would leave out a restriction."""
        for key in item:
            if len(self.problems) > MAX_REFERENCES:
                break  # who sends so many of them reads no more
            if key not in known:
                near = near_matches(key, known) if len(key) <= MAX_QUOTED_NAME else []
                self.add(f"{path}/{_escaped(key)}", f'A reference has no key "{_cut(key)}" here.', near, on="key")

    def _required(self, item: Mapping[str, Any], key: str, path: str) -> str:
        value = item.get(key)
        if isinstance(value, str) and 0 < len(value) <= DEFAULTS.max_name:
            return value
        if key not in item:
            self.add(f"{path}/{key}", f'The key "{key}" is missing.')
        else:
            got = _unusable(value) if isinstance(value, str) else _kind(value)
            self.add(f"{path}/{key}", f"Expected a text, got {got}.")
        return ""

    def _name(self, item: Mapping[str, Any], path: str) -> str:
        name = self._text(item, "name", path)
        if name is not None and not is_tool_name(name):
            self.add(f"{path}/name", f'"{_cut(name)}" is no name for a tool: use 1 to 64 of the characters a-z A-Z 0-9 _ -.')
            return ""
        return name or ""

    def _text(self, item: Mapping[str, Any], key: str, path: str) -> str | None:
        value = item.get(key)
        if value is None or isinstance(value, str):
            return value
        self.add(f"{path}/{key}", f"Expected a text, got {_kind(value)}.")
        return None

    def _object(self, item: Mapping[str, Any], key: str, path: str) -> dict[str, Any]:
        value = item.get(key)
        if isinstance(value, dict):
            return value
        if value is not None:
            self.add(f"{path}/{key}", f"Expected an object, got {_kind(value)}.")
        return {}

    def _patterns(self, item: Mapping[str, Any], key: str, path: str) -> tuple[str, ...]:
        value = item.get(key)
        if value is None:
            return ()
        texts: list[Any] = value if isinstance(value, list) else [None]
        if not all(isinstance(each, str) and 0 < len(each) <= DEFAULTS.max_name for each in texts):
            self.add(f"{path}/{key}", 'Expected a list of patterns of names, such as ["get*"].')
            return ()
        self._patterns_read += len(texts)
        if self._patterns_read > MAX_PATTERNS:
            self.add(f"{path}/{key}", f"More than {MAX_PATTERNS} patterns in one list of references.")
            return ()
        return tuple(texts)

    def _permission(self, item: Mapping[str, Any], path: str) -> Permission:
        value = item.get("permission", "allow")
        if value in PERMISSIONS:
            return value
        near = near_matches(value, PERMISSIONS) if isinstance(value, str) and len(value) <= MAX_QUOTED_NAME else []
        self.add(f"{path}/permission", f"Expected one of {', '.join(PERMISSIONS)}.", near)
        return "deny"

    def _timeout(self, item: Mapping[str, Any], path: str) -> float | None:
        value = item.get("timeout")
        if value is None:
            return None
        most = DEFAULTS.max_timeout
        if isinstance(value, bool) or not isinstance(value, int | float) or not (isfinite(value) and 0 < value <= most):
            self.add(f"{path}/timeout", f"Expected seconds above 0 and at most {most:g}.")
            return None
        return float(value)

    def _available(self, item: Mapping[str, Any], path: str, name: str) -> Availability | None:
        if item.get("available") is None:
            return None
        given = self._object(item, "available", path)
        path = f"{path}/available"
        self._unknown_keys(given, CONDITIONS, path)
        if given.get("space") not in (None, "required"):
            self.add(f"{path}/space", 'Expected "required".')
        users = given.get("users")
        if users is not None and not (isinstance(users, list) and all(isinstance(user, str) for user in users)):
            self.add(f"{path}/users", "Expected a list of texts.")
            users = []
        return Availability(
            name=name,
            space_required=given.get("space") is not None,
            users=None if users is None else frozenset(users),
            is_on=self._switch(given.get("when"), f"{path}/when"),
        )

    def _switch(self, value: Any, path: str) -> bool:
        """Whether a condition holds. A variable without a value, which is another problem, is off."""
        if value is None or isinstance(value, bool):
            return value is not False
        if isinstance(value, str) and (word := value.strip().lower()) in _ON | _OFF:
            return word in _ON
        if not isinstance(value, str) or _VARIABLE.search(value) is None:
            self.add(path, "Expected true or false, or a variable that is one of true, false, 1, 0, yes, no, on, off.")
        return False


def same_names(references: Iterable[tuple[str, Reference]]) -> Iterator[ReferenceProblem]:
    """A problem for each reference with the name of an earlier one of the same owner, both sides named."""
    first: dict[tuple[str, str], Reference] = {}
    for owner, reference in references:
        if not reference.action:
            continue  # what it offers is known when its server is
        name = reference.name
        other = first.setdefault((owner, name), reference)
        if other is not reference:
            whose = f' of "{owner}"' if owner else ""
            message = f'Two references{whose} offer the name "{name}": {other.path} and {reference.path}.'
            where = f"{reference.path}/name" if reference.given_name else reference.path
            related = (other.path, f'The first "{name}" stands here.')
            yield ReferenceProblem("duplicate_reference", where, message, (), related)


def texts_in(problems: Sequence[ReferenceProblem]) -> list[tuple[str, str]]:
    """Each problem as its JSON pointer and its message with near matches."""
    return [(problem.path, problem.message + _did_you_mean(problem.near)) for problem in problems]


def _did_you_mean(near: Sequence[str]) -> str:
    return " Did you mean " + " or ".join(f'"{name}"' for name in near) + "?" if near else ""


def _escaped(key: str) -> str:
    return _cut(key).replace("~", "~0").replace("/", "~1")


def _cut(name: str) -> str:
    return name if len(name) <= MAX_QUOTED_NAME else f"{name[:MAX_QUOTED_NAME]}…"


def _unusable(text: str) -> str:
    return "one that is too long" if text else "an empty one"


def _kind(value: Any) -> str:
    return _TYPES.get(type(value), "a number")


TEXTS: Final = {
    "type": "Where the tool is.",
    "node": "The component that has the tool.",
    "tool": "The tool, by its own name.",
    "pipeline": "The token of a running pipeline.",
    "server": "The name of a connection.",
    "integration": "The integration, as its provider names it.",
    "action": "The action of the integration.",
    "connection": "The name of a connection.",
    "provider": "The gateway that has the integration.",
    "include": "Patterns of the names of the tools that a reference without one takes from its server; all without it.",
    "exclude": "Patterns of the names of tools that it does not take.",
    "name": "The name under which the tool is offered; by default made of both names above.",
    "description": "The description that callers see instead of the tool's own.",
    "arguments": "Fixed arguments: they leave the schema, and callers cannot give them.",
    "parameters": "Narrower schemas of parameters, which hold besides the original ones.",
    "available": "Who may see and call the tool.",
    "permission": "Whether a call is allowed, asks somebody, or is denied.",
    "timeout": "Seconds for one call.",
}
"""Key of a reference → its description."""


def reference_definitions(variable: dict[str, Any]) -> dict[str, Any]:
    """The definitions `references` and `edgeReferences`. `variable` is the schema of a text with a variable in it."""
    name = {"anyOf": [{"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,64}$"}, {"type": "null"}, variable]}
    users = {"type": ["array", "null"], "items": {"type": "string"}}
    when = {"anyOf": [{"type": ["boolean", "null"]}, {"enum": ["true", "false"]}, variable, {"type": "string"}]}
    conditions = {"space": {"enum": ["required", None]}, "users": users, "when": when}
    shared = {
        "name": name,
        "description": {"type": ["string", "null"]},
        "arguments": {"type": ["object", "null"]},
        "parameters": {"type": ["object", "null"], "additionalProperties": {"type": "object"}},
        "available": {"type": ["object", "null"], "properties": conditions, "additionalProperties": False},
        "permission": {"anyOf": [{"enum": list(PERMISSIONS)}, variable]},
        "timeout": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": DEFAULTS.max_timeout},
    }

    def form(kinds: list[str], keys: tuple[str, ...], required: list[str]) -> dict[str, Any]:
        text = {"type": "string", "minLength": 1}
        more = {"provider": {"anyOf": [{"const": "composio"}, variable]}} if "gateway" in kinds else {}
        properties = {"type": {"anyOf": [{"enum": kinds}, variable]}, **dict.fromkeys(keys, text), **more, **shared}
        described = {key: {**schema, "description": TEXTS[key]} for key, schema in properties.items()}
        return {"type": "object", "properties": described, "required": required, "additionalProperties": False}

    def whole_server(kind: str) -> dict[str, Any]:
        made = form([kind], ("server",), ["type", "server"])
        patterns = {"type": ["array", "null"], "items": {"type": "string", "minLength": 1}, "maxItems": MAX_PATTERNS}
        kept = {key: schema for key, schema in made["properties"].items() if key not in OF_ONE_TOOL}
        return {**made, "properties": {**kept, **{key: {**patterns, "description": TEXTS[key]} for key in PATTERNS}}}

    forms = [form([kind], keys, ["type", *keys]) for kind, keys in FORMS.items()]
    forms += [whole_server(kind) for kind in WHOLE]
    whole = {"type": ["array", "null"], "maxItems": MAX_REFERENCES}
    return {
        "references": {**whole, "items": {"anyOf": [{"type": "string", "minLength": 1}, *forms]}},
        "edgeReferences": {**whole, "type": "array", "items": form(["node"], FORMS["node"], ["tool"])},
    }
