"""Connections to MySQL and MariaDB: the settings of a node, and the options of the driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from rrext.errors import Unavailable

if TYPE_CHECKING:
    from ssl import SSLContext

SslMode = Literal["disable", "prefer", "require", "verify-ca", "verify-full"]

IN_URL: Final = frozenset({"sslmode", "sslrootcert", "sslcert", "sslkey", "connect_timeout"})
"""Parameters that may follow `?` in a URL. No option file, no socket, no init command."""


class MysqlSettings:
    """The address of a MySQL or MariaDB server, the user and the password. The base of the `Config` of nodes that use one."""

    url: Annotated[
        str, "`mysql://user:password@host:3306/database?sslmode=require`; the other settings fill what it leaves out."
    ] = ""
    host: Annotated[str, "Name or address of the server."] = "localhost"
    port: Annotated[int, msgspec.Meta(ge=1, le=65535), "Port of the server."] = 3306
    database: Annotated[str, "Name of the database."] = ""
    user: Annotated[str, "Who connects."] = "root"
    password: Annotated[str, "The user's password; best as `${ROCKETRIDE_…}`, filled from the environment."] = ""
    socket: Annotated[str, "File of the server's socket, in place of host and port; below the root if there is one."] = ""
    sslmode: Annotated[SslMode, "Whether TLS is used, and what is verified, by PostgreSQL's names."] = "prefer"
    sslrootcert: Annotated[str, "File of the certificates that sign the server's; without it, the machine's own."] = ""
    sslcert: Annotated[str, "File of the certificate that we show to the server, if it wants one."] = ""
    sslkey: Annotated[str, "File of that certificate's key."] = ""
    connect_timeout: Annotated[
        float, msgspec.Meta(gt=0, le=600), "Seconds for one attempt to connect: a server that is there answers in one."
    ] = 10.0


def connection_options(settings: MysqlSettings, path: Callable[[str], str]) -> tuple[dict[str, Any], SSLContext | None]:
    """Keyword arguments for `pymysql.connect`, complete: no option file and no account of this machine changes their meaning;
    and the context of TLS that is only preferred.

    `path` makes paths absolute and refuses those that the node may not use. Raises `Unavailable` for an invalid URL,
    and for unreadable certificates.
    """
    given = {name: getattr(settings, name) for name in _names()} | _parts_of(settings.url)
    options: dict[str, Any] = {
        "host": given["host"],
        "port": int(given["port"]),
        "user": given["user"],
        "password": str(given["password"]).encode(),  # PyMySQL would refuse letters beyond Latin-1
        "database": given["database"] or None,
        "connect_timeout": float(given["connect_timeout"]),
    }
    if given["socket"]:
        options["unix_socket"] = path(given["socket"])
    if given["sslmode"] in ("disable", "prefer"):
        options["auth_plugin_map"] = dict.fromkeys(("mysql_clear_password", "dialog"), _no_clear_text)
        options["ssl_disabled"] = True
        return options, _preferred() if given["sslmode"] == "prefer" else None
    options["ssl"] = _tls(given, path)
    return options, None


def _preferred() -> SSLContext:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _no_clear_text(connection: object) -> object:
    """Refuses clear-text password authentication on a connection without required TLS."""
    from pymysql.err import OperationalError

    raise OperationalError(2059, "the server wants the password in clear text, which needs sslmode=require or more")


def _names() -> list[str]:
    return [name for name in MysqlSettings.__annotations__ if name != "url"]


def _parts_of(url: str) -> dict[str, Any]:
    """The parameters of a URL. No message contains its text, because it may hold the password."""
    if not url:
        return {}
    try:
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
        found = {
            "host": parts.hostname,
            "port": parts.port,
            "user": unquote(parts.username or ""),
            "password": unquote(parts.password or ""),
            "database": unquote(parts.path.removeprefix("/")),
            **query,
        }
        if parts.scheme.partition("+")[0] not in ("mysql", "mariadb") or not 0 < float(query.get("connect_timeout", 1)) <= 600:
            raise ValueError
    except ValueError:
        raise Unavailable(
            'The "url" of this node is no URL of a MySQL database',
            hint="Write it as mysql://user:password@host:3306/database, with signs such as @ and / percent-encoded.",
        ) from None
    unknown = sorted(query.keys() - IN_URL)
    if unknown:
        raise Unavailable(
            f'The "url" of this node may not set {", ".join(unknown)}', hint=f"It may set {', '.join(sorted(IN_URL))}."
        )
    if query.get("sslmode", "prefer") not in SslMode.__args__:
        raise Unavailable(
            'The "url" of this node sets an sslmode that does not exist', hint=f"There are {', '.join(SslMode.__args__)}."
        )
    return {name: value for name, value in found.items() if value not in (None, "")}


def _tls(given: dict[str, Any], path: Callable[[str], str]) -> SSLContext:
    import ssl

    mode = given["sslmode"]
    try:
        context = ssl.create_default_context(cafile=path(given["sslrootcert"]) if given["sslrootcert"] else None)
        # The certificates that MySQL generates fail the strict check.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.check_hostname = mode == "verify-full"
        context.verify_mode = ssl.CERT_NONE if mode == "require" else ssl.CERT_REQUIRED
        if given["sslcert"]:
            context.load_cert_chain(path(given["sslcert"]), path(given["sslkey"]) if given["sslkey"] else None)
    except (OSError, ssl.SSLError) as error:
        raise Unavailable(
            f"The certificates of this node cannot be used: {error.strerror or error}",
            hint="Check sslrootcert, sslcert and sslkey: files in PEM format.",
        ) from None
    return context
