"""`Connections`: all connections that an engine may use, by name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rrext.errors import ConnectionInactive, ConnectionInvalid, ConnectionUnknown, NotFound
from rrext.limits import MIN_SECRET_OF_URL

if TYPE_CHECKING:
    from rrext.connections.connection import Connection, ConnectionProblem
    from rrext.connections.secret import Secret
    from rrext.secrets.redaction import Redactor, ResultRedactor


Found: TypeAlias = "Connection | tuple[ConnectionProblem, ...]"


class Connections:
    """The connections of one configuration by name. Those with problems are invalid, and the others work.

    `variables` names the environment variables with secrets, also those of connections with problems.
    """

    def __init__(self, found: Mapping[str, Found], variables: Iterable[str] = ()) -> None:
        self._found = dict(found)
        self.variables = frozenset(variables)
        self.problems = tuple(problem for each in found.values() if isinstance(each, tuple) for problem in each)

    @classmethod
    def of(cls, tables: Mapping[str, Any], variables: Mapping[str, str] | None = None) -> Connections:
        """Make connections of plain data: name → table, as in a file of connections.

        `variables` has the values of `env:NAME`; the default is this process's environment.
        """
        from rrext.connections.reading import read

        return read(tables, os.environ if variables is None else variables)

    def find(self, name: str, provider: str, integration: str | None = None) -> Connection:
        """The connection of a name for a provider. If `integration` is given, the connection must be for that integration.

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
            message = f'the connection "{name}" is switched off (active = false)'
            raise ConnectionInactive(message, data={"connection": name})
        its = getattr(found.settings, "integration", integration)
        if integration is not None and its != integration:
            message = f'the connection "{name}" is for {its}, not for {integration}'
            raise ConnectionUnknown(message, data={"connection": name, "near": []})
        return found

    def _unknown(self, name: str, provider: str, other: Connection | None) -> NotFound:
        what = f'there is no connection "{name}" for {provider}'
        if other is not None:
            return ConnectionUnknown(f"{what}: it is for {other.provider}", data={"connection": name, "near": []})
        error = ConnectionUnknown.near(f"{what}.", name, self.names(provider))
        error.data["connection"] = name
        return error

    def names(self, provider: str | None = None) -> tuple[str, ...]:
        """The names of the connections for a provider, or of all, sorted; also of those that cannot be used."""
        fit = (name for name, found in self._found.items() if provider in (None, getattr(found, "provider", provider)))
        return tuple(sorted(fit))

    def told(self) -> Iterator[tuple[str, str, str, str]]:
        """Name, provider, integration and obstacle to use of each connection, as `KnownConnection` has them."""
        for name, found in self._found.items():
            if isinstance(found, tuple):
                yield name, "", "", f"{found[0]}"
            else:
                off = "" if found.active else "it is switched off (active = false)"
                yield name, found.provider, getattr(found.settings, "integration", ""), off

    def shared(self) -> Connections:
        """The connections for callers that are not trusted. The others do not exist for them."""
        return Connections({found.name: found for found in self if found.shared})

    def known_to(self, redactor: Redactor) -> None:
        """Let a redactor learn every secret, those in files and keyrings when they are read."""
        for connection in self:
            for secret in _secrets(connection):
                secret.known_to(redactor)
            for part in _private_parts(connection):
                redactor.learn(f"{connection.name}.url", part, always=True)

    def __iter__(self) -> Iterator[Connection]:
        """The connections without problems, also those that are switched off."""
        return (found for found in self._found.values() if not isinstance(found, tuple))

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        return f"<Connections {', '.join(self.names())}>"


NO_CONNECTIONS: Final = Connections({})


def _secrets(connection: Connection) -> Iterator[Secret]:
    from rrext.connections.secret import Secret

    settings = connection.settings
    for key in settings.__struct_fields__:
        value = getattr(settings, key)
        for secret in value.values() if isinstance(value, dict) else (value,):
            if isinstance(secret, Secret):
                yield secret


def results_redactor(connection: Connection) -> ResultRedactor:
    """A redactor of what the server of a connection sends: it knows what is certainly a secret, once that is read."""
    from rrext.secrets.names import is_secret
    from rrext.secrets.redaction import ResultRedactor

    redactor = ResultRedactor()
    for secret in _secrets(connection):
        if secret.is_marked:
            secret.known_to(redactor)
    for name, word in _words_of_urls(connection):
        if is_secret(name):
            redactor.learn(f"{connection.name}.url", word)
    return redactor


def _private_parts(connection: Connection) -> Iterator[str]:
    """What is a secret in URLs by its name, and their long words with digits: some services put keys into the path."""
    from rrext.secrets.names import is_secret

    for name, word in _words_of_urls(connection):
        if is_secret(name) or (len(word) >= MIN_SECRET_OF_URL and any(c.isdigit() for c in word)):
            yield word


def _words_of_urls(connection: Connection) -> Iterator[tuple[str, str]]:
    """The words of each URL of a connection with their names: those of the path have none."""
    from urllib.parse import parse_qsl, urlsplit

    for url in (connection.settings.url, getattr(connection.settings, "openapi", None)):
        try:
            parts = urlsplit(url or "")
        except ValueError:
            continue
        if parts.netloc:
            yield from (("", word) for word in parts.path.split("/"))
            yield from parse_qsl(parts.query)
