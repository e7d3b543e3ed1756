"""Reads tables of connections: typed records, or all problems of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rrext.connections.connection import SETTINGS, Connection, Settings
from rrext.connections.connections import ConnectionProblem, Connections
from rrext.connections.secret import Secret
from rrext.errors import near_matches
from rrext.limits import MAX_CONNECTION_TIMEOUT

GENERAL = {"active": bool, "timeout": float, "forward_authorization": bool}
"""The keys that tables of every provider may have, beside `provider`."""


def read(tables: Mapping[str, Any], variables: Mapping[str, str]) -> Connections:
    """The connections of tables; a table with problems makes its connection invalid."""
    return Connections({name: _Table(name, table).read(variables) for name, table in tables.items()})


class _Table:
    """One table and the problems found in it."""

    def __init__(self, name: str, table: Any) -> None:
        self._name = name
        self._path = "/" + _escaped(name)
        self._table = table
        self._problems: list[ConnectionProblem] = []

    def read(self, variables: Mapping[str, str]) -> Connection | tuple[ConnectionProblem, ...]:
        """The connection, or the problems."""
        settings: Settings | None = None
        general: dict[str, Any] = {}
        if not isinstance(self._table, dict):
            self._add("", f"expected a table with a provider, one of {', '.join(SETTINGS)}")
        else:
            general = {key: self._value(key, kind) for key, kind in GENERAL.items() if key in self._table}
            settings = self._settings(None if general.get("active") is False else variables)
        if self._problems or settings is None:
            return tuple(self._problems)
        return Connection(name=self._name, provider=self._table["provider"], settings=settings, **general)

    def _add(self, path: str, message: str) -> None:
        self._problems.append(ConnectionProblem(self._path + path, message))

    def _settings(self, variables: Mapping[str, str] | None) -> Settings | None:
        provider = self._table.get("provider")
        shape = SETTINGS.get(provider) if isinstance(provider, str) else None
        if shape is None:
            near = near_matches(provider, SETTINGS) if isinstance(provider, str) else []
            meant = f'; did you mean "{near[0]}"?' if near else ""
            self._add("/provider", f"expected one of {', '.join(SETTINGS)}{meant}")
            return None
        fields = {field.name: field for field in msgspec.structs.fields(shape)}
        known = ("provider", *GENERAL, *fields)
        for key in self._table:
            if key not in known:
                near = near_matches(key, known)
                self._add(f"/{_escaped(key)}", f'unknown key; did you mean "{near[0]}"?' if near else "unknown key")
        for field in fields.values():
            if field.required and field.name not in self._table:
                self._add(f"/{field.name}", "is required")
        values = {key: self._value(key, field.type) for key, field in fields.items() if key in self._table}
        self._bind_secrets(values, variables)
        return None if self._problems else shape(**values)

    def _value(self, key: str, kind: Any) -> Any:
        value = self._table[key]
        try:
            converted = msgspec.convert(value, kind, dec_hook=_secret)
        except msgspec.ValidationError as error:
            message, _, place = str(error).partition(" - at `$")
            self._add(f"/{key}{_pointer(place)}", message.replace("`", "").replace("Expected", "expected"))
            return None
        if key == "timeout" and not 0 < converted <= MAX_CONNECTION_TIMEOUT:
            self._add("/timeout", f"expected seconds above 0 and at most {MAX_CONNECTION_TIMEOUT:g}")
        return converted

    def _bind_secrets(self, values: dict[str, Any], variables: Mapping[str, str] | None) -> None:
        """Give each secret its name, and look for it unless the connection is switched off."""
        for key, value in values.items():
            inner = value.items() if isinstance(value, dict) else [("", value)]
            for name, secret in inner:
                if not isinstance(secret, Secret):
                    continue
                secret.name = ".".join(filter(None, [self._name, key, name]))
                if variables is not None and (fault := secret.check(variables)) is not None:
                    self._add(f"/{key}" + (f"/{_escaped(name)}" if name else ""), fault)


def _secret(kind: type, value: Any) -> Secret:
    if kind is Secret and isinstance(value, str):
        return Secret(value)
    raise ValueError("expected a text: env:NAME, file:PATH, keyring:SERVICE/USER, or the secret itself")


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _pointer(path: str) -> str:
    """`.env[...]` → `/env/...`, the way of msgspec to write keys."""
    parts = path.rstrip("`").replace("[", ".").replace("]", "").split(".")
    return "".join(f"/{_escaped(part)}" for part in parts if part)
