"""Reads references from configuration or a request, and reports all their problems."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from math import isfinite
from typing import Any, Final, Literal

import msgspec

from rrext.errors import near_matches
from rrext.limits import DEFAULTS, MAX_PATTERNS, MAX_QUOTED_NAME, MAX_REFERENCES
from rrext.references.availability import Availability
from rrext.references.reference import PIPELINE_TOOL, Kind, Permission, Reference
from rrext.tools.decorator import is_tool_name

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
                from rrext.tools.empty_schemas import why_nothing_fits

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
