"""`Connections`: all connections that an engine may use, by name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from rrext.connections.connection import Connection
from rrext.connections.secret import Secret
from rrext.errors import ConnectionInactive, ConnectionInvalid, ConnectionUnknown, RrextError

if TYPE_CHECKING:
    from rrext.redaction import Redactor


class ConnectionProblem(msgspec.Struct, frozen=True):
    """A fault in the configuration of connections: a JSON pointer, a message, and the line of a file."""

    path: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class Connections:
    """The connections of one configuration. Those with problems are invalid, and the others work.

    `problems` has every problem; `variables` the names of the environment variables that hold secrets.
    """

    def __init__(self, found: Mapping[str, Connection | tuple[ConnectionProblem, ...]]) -> None:
        self._found = dict(found)
        self.problems = tuple(p for each in found.values() if isinstance(each, tuple) for p in each)

    @classmethod
    def of(cls, tables: Mapping[str, Any], variables: Mapping[str, str] | None = None) -> Connections:
        """Make connections of plain data: name → table, as in a file of connections.

        `variables` has the values of `env:NAME`; the default is this process's environment.
        """
        from rrext.connections.reading import read

        return read(tables, os.environ if variables is None else variables)

    def find(self, name: str, provider: str) -> Connection:
        """The connection of a name for a provider.

        Raises `ConnectionUnknown`, `ConnectionInactive` or `ConnectionInvalid`.
        """
        found = self._found.get(name)
        if isinstance(found, tuple):
            first, *others = found
            more = f" (and {len(others)} more)" if others else ""
            raise ConnectionInvalid(
                f'the connection "{name}" cannot be used: {first}{more}',
                data={"connection": name, "errors": [{"path": p.path, "message": p.message} for p in found]},
            )
        if found is None or found.provider != provider:
            raise self._unknown(name, provider, found)
        if not found.active:
            raise ConnectionInactive(
                f'the connection "{name}" is switched off', hint="set active = true", data={"connection": name}
            )
        return found

    def _unknown(self, name: str, provider: str, other: Connection | None) -> RrextError:
        what = f'there is no connection "{name}" for {provider}'
        if other is not None:
            return ConnectionUnknown(f"{what}: it is for {other.provider}", data={"connection": name, "near": []})
        error = ConnectionUnknown.near(f"{what}.", name, self.names(provider))
        error.data["connection"] = name
        return error

    def names(self, provider: str | None = None) -> tuple[str, ...]:
        """The names of the connections for a provider, or of all, sorted; also of those that cannot be used."""
        return tuple(
            sorted(
                name
                for name, found in self._found.items()
                if provider is None or isinstance(found, tuple) or found.provider == provider
            )
        )

    @property
    def variables(self) -> frozenset[str]:
        """The names of the environment variables that hold secrets."""
        return frozenset(secret.variable for secret in self._secrets() if secret.variable)

    def known_to(self, redactor: Redactor) -> None:
        """Let a redactor learn every secret, those in files and keyrings when they are read."""
        for secret in self._secrets():
            secret.known_to(redactor)

    def _secrets(self) -> Iterator[Secret]:
        for connection in self:
            for value in msgspec.structs.asdict(connection.settings).values():
                for secret in value.values() if isinstance(value, dict) else (value,):
                    if isinstance(secret, Secret):
                        yield secret

    def __iter__(self) -> Iterator[Connection]:
        """The connections without problems, also those that are switched off."""
        return (found for found in self._found.values() if isinstance(found, Connection))

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        return f"<Connections {', '.join(self.names())}>"
