"""Connections: servers outside that an operator named, with settings and secrets, read from tables or a TOML file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from rrext.errors import ConnectionInactive, ConnectionInvalid, ConnectionUnknown, NotFound, near_matches
from rrext.limits import CONNECTION_TIMEOUT, MAX_CONNECTION_TIMEOUT, MIN_LITERAL_SECRET, MIN_SECRET_OF_URL
from rrext.secrets.names import is_secret, is_secret_setting
from rrext.secrets.private_file import NotPrivate, open_private, read_private

if TYPE_CHECKING:
    from rrext.secrets.redaction import Redactor, ResultRedactor


Found: TypeAlias = "Connection | tuple[ConnectionProblem, ...]"


class Connections:
    """The connections of one configuration by name. Those with problems are invalid, and the others work.

    `variables` names the environment variables with secrets, also those of connections with problems.
    """

    def __init__(self, found: Mapping[str, Found], variables: Iterable[str] = ()) -> None:
        self._found = dict(found)
        self.variables: frozenset[str] = frozenset(variables)
        self.problems: tuple[ConnectionProblem, ...] = tuple(
            problem for each in found.values() if isinstance(each, tuple) for problem in each
        )

    @classmethod
    def of(
        cls,
        tables: Mapping[str, Any],
        variables: Mapping[str, str] | None = None,
        *,
        folder: str = "",
        lines: Mapping[str, int] | None = None,
    ) -> Connections:
        """Make connections of plain data: name → table, as in a file of connections. A table with problems is invalid.

        `variables` has the values of `env:NAME`; the default is this process's environment. Files of secrets are found from
        `folder` on, and `lines` says where a JSON pointer stands.
        """
        known = os.environ if variables is None else variables
        found = {name: _Table(name, table, lines or {}).read(known, folder) for name, table in tables.items()}
        return cls(found, _variables(tables))

    def sent(self, names: Iterable[str]) -> dict[str, Any]:
        """The connections of these names as plain data for `received` on another machine, with all their secrets.

        Reads files and keyrings, so call it in a thread. Raises `ConnectionInvalid`.
        """
        return {name: found.sent() for name in names if isinstance(found := self._found.get(name), Connection)}

    @classmethod
    def received(cls, tables: Mapping[str, Any]) -> Connections:
        """The connections that another machine `sent`: nothing is looked up here."""
        return cls({name: _Table(name, table, {}, _sent_secret).read({}, "") for name, table in tables.items()})

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

    def known_connections(self) -> Iterator[tuple[str, str, str, str]]:
        """The fields of a `KnownConnection` for each connection: name, provider, integration, and why it cannot be used."""
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
            for secret in _secrets_of(connection):
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


def _secrets_of(connection: Connection) -> Iterator[Secret]:
    settings = connection.settings
    for key in settings.__struct_fields__:
        value = getattr(settings, key)
        for secret in value.values() if isinstance(value, dict) else (value,):
            if isinstance(secret, Secret):
                yield secret


def _private_parts(connection: Connection) -> Iterator[str]:
    """The secrets in URLs: values of secret names, and long words with digits, as some services put keys into the path."""
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


_TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
Problems: TypeAlias = Iterator[tuple[str, str]]
"""Keys with what is wrong with their values."""


class McpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """An MCP server: a command that speaks on its stdin and stdout, or the URL of one that is served by HTTP."""

    command: tuple[str, ...] = ()
    env: dict[str, Secret] = {}
    url: str | None = None
    headers: dict[str, Secret] = {}

    def problems(self, *, forward_authorization: bool = False, **_: Any) -> Problems:
        """The keys that do not fit together."""
        if bool(self.command) == bool(self.url):
            yield "url" if self.url else "command", "expected either a command or a url"
        elif self.command:
            if self.headers:
                yield "headers", "a command gets no headers: use env"
            if forward_authorization:
                yield "forward_authorization", "only a server with a url can be given the caller's authorization"
        elif self.env:
            yield "env", "only a command has an environment: use headers"
        yield from _bad_url("url", self.url)


class UrlTool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool that is the template of a URL: `/pets/{id}`. `parameters` has a schema for each, or the name of its type."""

    url: str
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"] = "GET"
    description: str = ""
    parameters: dict[str, str | dict[str, Any]] = {}
    required: tuple[str, ...] = ()


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP API: an OpenAPI document (`openapi`, a path or a URL), or templates of URLs (`tools`).

    `url` is the address of the API, `only` has patterns of the names of tools, `query` is added to each request.
    """

    openapi: str | None = None
    url: str | None = None
    only: tuple[str, ...] = ()
    headers: dict[str, Secret] = {}
    query: dict[str, Secret] = {}
    tools: dict[str, UrlTool] = {}

    def problems(self, **_: Any) -> Problems:
        """The keys that do not fit together."""
        if not (self.openapi or self.url):
            yield "url", "expected a url, or openapi"
        yield from _bad_url("url", self.url)
        yield from _userinfo("openapi", self.openapi)
        for name, tool in self.tools.items():
            if _TOOL_NAME.fullmatch(name) is None:
                yield "tools", f'"{name}" is no name for a tool: use 1 to 64 of the characters a-z A-Z 0-9 _ -'
            if not tool.url.startswith("/") or tool.url.startswith("//") or "#" in tool.url:
                yield "tools", f'the url of "{name}" is no path below that of the connection, such as /pets/{{id}}'
            for required in tool.required:
                if required not in tool.parameters and f"{{{required}}}" not in tool.url:
                    yield "tools", f'"{name}" requires "{required}", which is none of its parameters'


class ComposioSettings(msgspec.Struct, frozen=True, kw_only=True):
    """An account of composio, or a user of it. `url` is the address of its API, if it is not the public one."""

    integration: str
    key: Secret
    account: str | None = None
    user: str | None = None
    version: str = "latest"
    url: str | None = None

    def problems(self, **_: Any) -> Problems:
        """The keys that do not fit together."""
        yield from _bad_url("url", self.url)


def _bad_url(key: str, url: str | None) -> Problems:
    if url and not url.startswith(("http://", "https://")):
        yield key, "expected a URL that begins with http:// or https://"
    yield from _userinfo(key, url)


def _userinfo(key: str, url: str | None) -> Problems:
    """Clients of HTTP differ in what they do with a name before the host: it is refused, and no failure shows it."""
    if url and "@" in re.split(r"[/?#\\]", url.partition("://")[2], maxsplit=1)[0]:
        yield key, "a name or password in a URL is not sent: use headers"


Settings: TypeAlias = McpSettings | HttpSettings | ComposioSettings
SETTINGS: Final[dict[str, type[Settings]]] = {"mcp": McpSettings, "http": HttpSettings, "composio": ComposioSettings}
"""Provider → its settings."""


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """A server outside that tools may be called on, by the name that its operator gave it.

    `timeout` is in seconds, for one call. With `forward_authorization` the server gets the authorization of the caller.
    `shared`: pipelines and requests of callers that are not trusted may name it. `cluster`: its command may run on any node of
    a cluster. Paths in the settings begin at `folder`.
    """

    name: str
    provider: str
    settings: Settings
    active: bool = True
    timeout: float = CONNECTION_TIMEOUT
    forward_authorization: bool = False
    shared: bool = False
    cluster: bool = False
    folder: str = ""

    def sent(self) -> dict[str, Any]:
        """It as a table with all its secrets, for another machine. Raises `ConnectionInvalid`."""
        settings = {key: _revealed(getattr(self.settings, key)) for key in self.settings.__struct_fields__}
        given = {key: value for key, value in settings.items() if value is not None}
        return {"provider": self.provider, **{key: getattr(self, key) for key in SWITCHES}, **given}

    @property
    def stays(self) -> str:
        """Why it cannot be used on another machine; empty if it can."""
        settings = self.settings
        if isinstance(settings, McpSettings) and settings.command and not self.cluster:
            return "it starts a command, which would run on another machine: that needs cluster = true in its table"
        openapi = getattr(settings, "openapi", None)
        if openapi and "://" not in openapi:
            return f"its openapi {openapi} is a file of the server: on a cluster it is a URL"
        return ""


class ConnectionProblem(msgspec.Struct, frozen=True):
    """A fault in the configuration of a connection: a JSON pointer, a message, and the line of the file."""

    path: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


_SWITCHES: Final = frozenset({"true", "false"})
KINDS: Final = ("env", "file", "keyring")
"""What may stand before the colon of a secret that is kept elsewhere."""


class Secret:
    """A text of a connection that nobody but its server may see.

    Written as `env:NAME`, `file:PATH`, `keyring:SERVICE/USER`, or as the text itself. `key` is that of its setting, and `name`
    stands for it in other texts.
    """

    __slots__ = ("_kind", "_place", "_redactors", "_value", "key", "name")

    def __init__(self, written: str) -> None:
        kind, _, place = written.partition(":")
        self._kind, self._place = (kind, place) if kind in KINDS and place else ("", "")
        self._value: str | None = None if self._kind else written
        self._redactors: list[Redactor | ResultRedactor] = []
        self.name: str = "secret"
        self.key: str = self.name

    @classmethod
    def received(cls, text: str, *, is_marked: bool) -> Secret:
        """A secret that another machine read."""
        secret = cls("")
        secret._value, secret._kind = text, "sent" if is_marked else ""
        return secret

    def read(self, variables: Mapping[str, str], folder: str) -> str | None:
        """Take the text from a variable; return why it cannot be found, if so. Paths begin at `folder`."""
        try:
            match self._kind:
                case "env":
                    self._value = variables.get(self._place) or None
                    return None if self._value else f"the variable {self._place} is not set"
                case "file":
                    self._place = os.path.join(folder, os.path.expanduser(self._place))
                    open_private(self._place).close()
                case "keyring" if "/" not in self._place:
                    return "expected keyring:SERVICE/USER"
                case "keyring" if find_spec("keyring") is None:
                    return 'keyring cannot be imported; install with: pip install "rrext[keyring]"'
                case _:
                    pass
        except NotPrivate as error:
            return str(error)
        return None

    @property
    def is_marked(self) -> bool:
        """Whether it is kept elsewhere, or its key or form tells that it is secret: other texts may be in any result."""
        return bool(self._kind) or is_secret_setting(self.key, self._value or "")

    def known_to(self, redactor: Redactor | ResultRedactor) -> None:
        """Let a redactor learn the text, now or when it is read."""
        self._redactors.append(redactor)
        if self._value is not None:
            self._teach(redactor, self._value)

    def reveal(self) -> str:
        """The text. Reads a file or the keyring at first, so call it in a thread. Raises `ConnectionInvalid`."""
        value = self._value
        if value is None:
            try:
                value = self._read()
            except (ConnectionInvalid, NotPrivate) as error:
                raise ConnectionInvalid(f"{self.name}: {error}") from None
            for redactor in self._redactors:
                self._teach(redactor, value)
            self._value = value
        return value

    def _teach(self, redactor: Redactor | ResultRedactor, value: str) -> None:
        """Teach a redactor a text that is a secret; settings such as `true` in the same place are none."""
        if (self.is_marked or len(value) >= MIN_LITERAL_SECRET) and value.lower() not in _SWITCHES:
            redactor.learn(self.name, value, always=True)

    def _read(self) -> str:
        value: str | None = None
        if self._kind == "file":
            value = read_private(self._place).rstrip("\r\n")
        elif self._kind == "keyring":
            value = _from_keyring(*self._place.split("/", 1))
        if not value:
            raise ConnectionInvalid(f"there is nothing in {self._kind}:{self._place}")
        return value

    def __repr__(self) -> str:
        return f"<Secret {self.name}>"


def _from_keyring(service: str, user: str) -> str | None:
    try:
        import keyring

        return keyring.get_password(service, user)
    except Exception as error:  # its backends raise whatever their systems do
        raise ConnectionInvalid(f"the keyring does not answer: {error or type(error).__name__}") from None


SWITCHES: Final[dict[str, type]] = {
    "active": bool,
    "timeout": float,
    "forward_authorization": bool,
    "shared": bool,
    "cluster": bool,
}
"""The keys that tables of every provider may have, beside `provider`."""

_NAME: Final = re.compile(r"[a-zA-Z0-9-]+(_[a-zA-Z0-9-]+)*")
"""Names of connections are parts of the names of tools."""


class _Table:
    """One table and the problems found in it."""

    def __init__(
        self, name: str, table: Any, lines: Mapping[str, int], secret: Callable[[type, Any], Any] | None = None
    ) -> None:
        self._name = name
        self._secret = secret or _secret
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
            fault = None if switches.get("active") is False else secret.read(variables, folder)
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
            return msgspec.convert(value, kind, dec_hook=self._secret)
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


def _sent_secret(kind: type, value: Any) -> Secret:
    if kind is Secret and isinstance(value, list):
        text, is_marked = value
        return Secret.received(text, is_marked=is_marked)
    raise ValueError("expected a secret of another machine")


def _revealed(value: Any) -> Any:
    """A setting as plain data, in which `_sent_secret` finds the secrets."""
    if isinstance(value, Secret):
        return [value.reveal(), value.is_marked]
    if isinstance(value, dict):
        return {name: _revealed(inner) for name, inner in value.items()}
    return msgspec.to_builtins(value)


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


NO_CONNECTIONS: Final = Connections({})


def results_redactor(connection: Connection) -> ResultRedactor:
    """A redactor of what the server of a connection sends: it knows what is certainly a secret, once that is read."""
    from rrext.secrets.redaction import ResultRedactor

    redactor = ResultRedactor()
    for secret in _secrets_of(connection):
        if secret.is_marked:
            secret.known_to(redactor)
    for name, word in _words_of_urls(connection):
        if is_secret(name):
            redactor.learn(f"{connection.name}.url", word)
    return redactor


_HEADER: Final = re.compile(r"\s*\[\[?\s*(.+?)\s*\]\]?\s*(?:#.*)?")
_KEY: Final = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART: Final = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


def load_connections(path: str, variables: Mapping[str, str] | None = None) -> Connections:
    """The connections of a file. Its tables with problems are invalid; `Connections.problems` has the lines.

    Raises `ConnectionInvalid` if the file cannot be read, is not this user's alone, or is no TOML.
    """
    try:
        import tomllib

        text = read_private(path)
        tables = tomllib.loads(text)
    except NotPrivate as error:
        raise ConnectionInvalid(str(error)) from None
    except (ValueError, RecursionError) as error:  # of a number that is too long it is no `TOMLDecodeError`
        raise ConnectionInvalid(f"{path}: {error}") from None
    return Connections.of(tables, variables, folder=os.path.dirname(os.path.abspath(path)), lines=lines_of(text))


def lines_of(text: str) -> dict[str, int]:
    """JSON pointer → number of the line where a table or key stands. The parser does not say; this finds nearly all."""
    found: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.fullmatch(line):
            table = _pointer(header[1])
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            found.setdefault(table + _pointer(key[1]), number)
    return found


def _pointer(name: str) -> str:
    parts = (part.strip("\"'") for part in _PART.findall(name))
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)
