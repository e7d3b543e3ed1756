"""Reads tables of connections: typed records, or all problems of a table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from rrext.connections.connection import SETTINGS, Connection, ConnectionProblem, Settings
from rrext.connections.connections import Connections
from rrext.connections.secret import Secret
from rrext.errors import near_matches
from rrext.limits import MAX_CONNECTION_TIMEOUT

SWITCHES: Final[dict[str, type]] = {"active": bool, "timeout": float, "forward_authorization": bool, "shared": bool}
"""The keys that tables of every provider may have, beside `provider`."""
_NAME: Final = re.compile(r"[a-zA-Z0-9-]+(_[a-zA-Z0-9-]+)*")
"""Names of connections are parts of the names of tools."""
NO_LINES: Final[Mapping[str, int]] = {}


def read(
    tables: Mapping[str, Any], variables: Mapping[str, str], *, folder: str = "", lines: Mapping[str, int] = NO_LINES
) -> Connections:
    """The connections of tables; a table with problems makes its connection invalid.

    `variables` has the secrets `env:NAME`, `folder` is where their files are, and `lines` says where a pointer stands.
    """
    found = {name: _Table(name, table, lines).read(variables, folder) for name, table in tables.items()}
    return Connections(found, _variables(tables))


class _Table:
    """One table and the problems found in it."""

    def __init__(self, name: str, table: Any, lines: Mapping[str, int]) -> None:
        self._name = name
        self._table = table
        self._lines = lines
        self._problems: list[ConnectionProblem] = []

    def read(self, variables: Mapping[str, str], folder: str) -> Connection | tuple[ConnectionProblem, ...]:
        """The connection, or the problems."""
        if not _NAME.fullmatch(self._name):
            self._add((), "expected a name of letters, digits and hyphens, with single underscores between them")
        if isinstance(self._table, dict):
            connection = self._connection(variables, folder)
            if connection is not None and not self._problems:
                return connection
        else:
            self._add((), "expected a table: a connection has a name and keys")
        return tuple(sorted(self._problems, key=lambda problem: problem.line or 0))

    def _connection(self, variables: Mapping[str, str], folder: str) -> Connection | None:
        switches = {key: self._value(kind, self._table[key], key) for key, kind in SWITCHES.items() if key in self._table}
        self._check_timeout(switches.get("timeout"))
        shape = self._shape()
        if shape is None:
            return None
        told = len(self._problems)
        values = self._values(shape)
        is_whole = len(self._problems) == told
        for place, secret in _secrets(values):
            secret.name, secret.key = ".".join((self._name, *place)), place[-1]
            fault = None if switches.get("active") is False else secret.look(variables, folder)
            if fault is not None:
                self._add(place, fault)
        if not is_whole:
            return None
        settings = shape(**values)
        for key, message in settings.problems(**switches):
            self._add((key,), message)
        provider = self._table["provider"]
        return Connection(name=self._name, provider=provider, settings=settings, folder=folder, **switches)

    def _add(self, place: tuple[str, ...], message: str) -> None:
        pointers = [""]
        for part in (self._name, *place):
            pointers.append(f"{pointers[-1]}/{_escaped(part)}")
        line = next((self._lines[pointer] for pointer in reversed(pointers) if pointer in self._lines), None)
        self._problems.append(ConnectionProblem(pointers[-1], message, line))

    def _shape(self) -> type[Settings] | None:
        provider = self._table.get("provider")
        shape = SETTINGS.get(provider) if isinstance(provider, str) else None
        if shape is None:
            near = near_matches(provider, SETTINGS) if isinstance(provider, str) else []
            meant = f'; did you mean "{near[0]}"?' if near else ""
            self._add(("provider",), f"expected one of {', '.join(SETTINGS)}{meant}")
        return shape

    def _values(self, shape: type[Settings]) -> dict[str, Any]:
        fields = {field.name: field for field in msgspec.structs.fields(shape)}
        known = ("provider", *SWITCHES, *fields)
        for key in self._table:
            if key not in known:
                near = near_matches(key, known)
                self._add((key,), f'unknown key; did you mean "{near[0]}"?' if near else "unknown key")
        for field in fields.values():
            if field.required and field.name not in self._table:
                self._add((field.name,), "is required")
        return {key: self._value(field.type, self._table[key], key) for key, field in fields.items() if key in self._table}

    def _value(self, kind: Any, value: Any, *place: str) -> Any:
        """The value as a type; None after a problem, because TOML has no null."""
        if kind == dict[str, Secret] and isinstance(value, dict):
            return {name: self._value(Secret, inner, *place, name) for name, inner in value.items()}
        try:
            return msgspec.convert(value, kind, dec_hook=_secret)
        except msgspec.ValidationError as error:
            message, _, path = str(error).partition(" - at `$")
            message = message.replace("`", "").replace(" | null", "").replace("Expected", "expected")
            index = path.rstrip("`").strip("[]")
            self._add((*place, index) if index else place, message)
            return None

    def _check_timeout(self, timeout: float | None) -> None:
        if timeout is not None and not 0 < timeout <= MAX_CONNECTION_TIMEOUT:  # neither NaN nor infinite
            self._add(("timeout",), f"expected seconds above 0 and at most {MAX_CONNECTION_TIMEOUT:g}")


def _secret(kind: type, value: Any) -> Secret:
    if kind is Secret and isinstance(value, str):
        return Secret(value)
    raise ValueError("expected a text: env:NAME, file:PATH, keyring:SERVICE/USER, or the secret itself")


def _secrets(values: Mapping[str, Any]) -> list[tuple[tuple[str, ...], Secret]]:
    """Every secret with its place."""
    found: list[tuple[tuple[str, ...], Secret]] = []
    for key, value in values.items():
        if isinstance(value, Secret):
            found.append(((key,), value))
        elif isinstance(value, dict):
            found += [((key, name), secret) for name, secret in value.items() if isinstance(secret, Secret)]
    return found


def _variables(value: Any) -> Iterator[str]:
    """The environment variables that a value of the file names, whatever else is wrong with it."""
    if isinstance(value, str) and value.startswith("env:"):
        yield value.removeprefix("env:")
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _variables(inner)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
