"""Connections of nodes to PostgreSQL: the settings, the parameters of a connection, and failures in words without secrets."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from rrext.errors import RrextError, ToolError, Unavailable
from rrext.nodes.databases.word_lists import words
from rrext.secrets.names import authority_of

if TYPE_CHECKING:
    import psycopg

SslMode = Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]

NEUTRAL: Final = {"sslcertmode": "allow", "client_encoding": "UTF8", "application_name": "rrext"}
"""Connection parameters that override libpq's environment variables."""

UNSAID: Final = frozenset({"service", "require_auth", "min_protocol_version", "max_protocol_version"})
"""Parameters that cannot be overridden: environment variables that set them only make connections fail."""

IN_URL: Final = words(
    """host hostaddr port user password dbname sslmode sslrootcert sslcert sslkey sslnegotiation connect_timeout options
    application_name target_session_attrs channel_binding keepalives keepalives_idle keepalives_interval keepalives_count
    tcp_user_timeout"""
)
"""Parameters that a URL may have. Those that name other files, or ask other programs for a password, are refused."""

KEEPALIVES: Final = {"keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "3"}
"""Seconds of silence, seconds between probes, and unanswered probes, before the server counts as gone."""

REFUSALS: Final = (
    ("definition of service", "The environment of rrext has PGSERVICE, which no setting can undo: start it without."),
    ("authentication method requirement", "The environment of rrext may have PGREQUIREAUTH: start it without."),
    ("password authentication failed", "Check the node's user and password."),
    ("no password supplied", "Give the node a password."),
    ("pg_hba.conf", "The server's pg_hba.conf lets this user in only otherwise, or from elsewhere; see sslmode too."),
    ("SSL", 'Check the node\'s sslmode: "prefer" also connects without TLS, "require" only with it.'),
    ("certificate", "Check the node's sslmode and sslrootcert."),
    ("role ", "Check the node's user."),
    ("database ", "Check the node's database: it has to exist."),
)
"""Refusals of a running server: a part of its message -> a hint that a person can act on."""


class PostgresSettings:
    """The address of a PostgreSQL server, the user and the password. The base of the `Config` of nodes that use one."""

    url: Annotated[
        str, "`postgresql://user:password@host:5432/database?sslmode=require`; the other settings fill what it leaves out."
    ] = ""
    host: Annotated[str, "Name or address of the server, or the folder of its socket."] = "localhost"
    port: Annotated[int, msgspec.Meta(ge=1, le=65535), "Port of the server."] = 5432
    database: Annotated[str, "Name of the database."] = "postgres"
    user: Annotated[str, "Who connects."] = "postgres"
    password: Annotated[str, "The user's password; best as `${ROCKETRIDE_…}`, filled from the environment."] = ""
    sslmode: Annotated[SslMode, "Whether TLS is used, and what is verified, as in PostgreSQL's own clients."] = "prefer"
    sslrootcert: Annotated[str, "File of the certificates that sign the server's; `system` for the machine's own."] = ""
    connect_timeout: Annotated[
        float, msgspec.Meta(gt=0, le=600), "Seconds for one attempt to connect: a server that is there answers in one."
    ] = 10.0


def machine_files(settings: PostgresSettings) -> Iterator[str]:
    """The settings that are files or sockets of this machine."""
    if settings.host.startswith(("/", "@")):
        yield "host"
    if settings.sslrootcert not in ("", "system"):
        yield "sslrootcert"


def connection_parameters(settings: PostgresSettings) -> dict[str, str]:
    """Keyword arguments for `psycopg.connect`, complete: no PG… variable and no password file changes their meaning.

    Imports the driver. Raises `Unavailable` for an invalid URL.
    """
    from psycopg.pq import Conninfo

    own = {
        "host": settings.host,
        "port": str(settings.port),
        "dbname": settings.database,
        "user": settings.user,
        "password": settings.password,
        "sslmode": settings.sslmode,
        "sslrootcert": settings.sslrootcert,
        "connect_timeout": str(settings.connect_timeout),
        # No file can exist there, so libpq looks for no password in the home folder of the server's user.
        "passfile": os.path.join(os.devnull, "none"),
    }
    given = own | _parts_of(settings.url)
    # The driver counts in whole seconds, and takes 0 for ever.
    given["connect_timeout"] = str(max(1, math.ceil(float(given["connect_timeout"]))))
    for option in Conninfo.get_defaults():
        keyword = option.keyword.decode()
        if option.envvar and keyword not in given and keyword not in UNSAID:
            given[keyword] = NEUTRAL.get(keyword, (option.compiled or b"").decode())
    return given


def confined_parameters(parameters: dict[str, str], *, path: Callable[[str], str], confined: bool) -> dict[str, str]:
    """The parameters with absolute paths, and without any file of the home folder of the server's user.

    `path` makes the paths of settings absolute, and refuses those outside of the root of a `confined` node. A machine
    that vanishes is noticed within a minute. Raises `Unavailable` for parameters that a confined node may not have.
    """
    hosts, addresses = parameters["host"].split(","), parameters.get("hostaddr", "").split(",")
    places = [address or host for host, address in zip_longest(hosts, addresses, fillvalue="")]
    if confined and any(not place or place.startswith(("/", "@")) for place in places):
        raise Unavailable(
            "This node may not connect to a socket of this machine: the pipeline is confined to its root",
            hint='Give the name or address of a server as "host".',
        )
    checked = {**KEEPALIVES, **parameters}
    for name in ("sslrootcert", "sslcert", "sslkey"):
        given = checked.get(name)
        if given and not (name == "sslrootcert" and given == "system"):
            checked[name] = path(given)
    # A name under which no file can be: libpq would look into ~/.postgresql for a client's certificate.
    checked["sslcert"] = checked.get("sslcert") or os.path.join(os.devnull, "none")
    if checked["sslmode"] == "verify-full" and not checked.get("sslrootcert"):
        checked["sslrootcert"] = "system"
    return checked


def _parts_of(url: str) -> dict[str, str]:
    """The parameters of a URL. No message contains its text, because it may hold the password."""
    if not url:
        return {}
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    url = re.sub(r"\Apostgres(?:ql)?(?:\+\w+)?://", "postgresql://", url)
    try:
        if not url.startswith("postgresql://"):
            raise ValueError
        parts = {key: str(value) for key, value in conninfo_to_dict(url).items() if value not in (None, "")}
        float(parts.get("connect_timeout", 1))
        # libpq ends the password at the first @, and the rest of it would be the host
        if authority_of(url).count("@") > 1 or re.fullmatch(r"[\d,]*", parts.get("port", "")) is None:
            raise ValueError
    except (ProgrammingError, ValueError):
        raise Unavailable(
            'The "url" of this node is no URL of a PostgreSQL database',
            hint="Write it as postgresql://user:password@host:5432/database, with signs such as @ and / percent-encoded.",
        ) from None
    unknown = sorted(parts.keys() - IN_URL)
    if unknown:
        raise Unavailable(
            f'The "url" of this node may not set {", ".join(unknown)}', hint=f"It may set {', '.join(sorted(IN_URL))}."
        )
    return parts


def place_of(parameters: dict[str, str]) -> str:
    """The server, database and user of connection parameters, for messages; never the password."""
    host = parameters["host"]
    where = host if host.startswith("/") else f"{host}:{parameters['port']}"
    return f'PostgreSQL at {where} (database "{parameters["dbname"]}", user "{parameters["user"]}")'


def connection_failure(error: psycopg.Error, parameters: dict[str, str]) -> RrextError:
    """The error for a failed attempt to connect.

    `Unavailable` if no server answers (for now); else `ToolError` with code `connection_refused`: a retry would fail too.
    """
    text = _attempt(error)
    for part, hint in REFUSALS:
        if part in text:
            return ToolError(f"{place_of(parameters)} refused the connection: {text}", code="connection_refused", hint=hint)
    return Unavailable(
        f"{place_of(parameters)} cannot be reached: {text}",
        hint="Check the node's host and port, and that the server runs; the next call tries again.",
    )


def _attempt(error: psycopg.Error) -> str:
    """The reason of a failed connection on one line: the driver reports every address, this keeps the last one's reason."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reasons = [line for line in lines if "failed: " in line] or lines or ["no reason was given"]
    reason = re.split(r'(?:server (?:at|on socket) [^"]*"[^"]*"(?:, port \d+)?|attempts?) failed: ', reasons[-1])[-1]
    return reason.removeprefix("connection failed: ").removeprefix("FATAL:").strip()


def driver_sentence(error: psycopg.Error) -> str:
    """The message of the server or the driver on one line, without the statement, its parameters and its position."""
    message = error.diag.message_primary
    if message is None:
        message = next((line for line in str(error).splitlines() if line.strip()), "no reason was given")
    return " ".join(message.split())
