"""`graph_neo4j`: Neo4j, or another graph database that speaks Bolt. The official driver does the work.

The driver logs statements, parameters and addresses: it is kept quiet, as its failures become ours anyway. The schema of
a graph without a declared one has labels and types from queries, and properties from samples.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Annotated, Any, ClassVar, Final

import msgspec

from rrext.errors import ToolError, Unavailable
from rrext.nodes.base.setup import SetupContext
from rrext.nodes.databases.failure import Failure, FailureKind
from rrext.nodes.databases.word_lists import words
from rrext.nodes.graph.backend import (
    MESSAGE_MAX,
    BackendTransaction,
    BoltValues,
    GraphBackend,
    GraphCursor,
    GraphSchema,
    Property,
    RelationshipType,
    Rows,
    bytes_in,
)
from rrext.nodes.graph.dialect import CypherDialect
from rrext.nodes.graph.effects import Effects, effects_of
from rrext.nodes.graph.node import GraphNode


class Neo4jNode(GraphNode):
    """A graph database behind a Bolt server. A server that is down fails the calls, not the node: the next call tries again.

    `query` is checked by rrext itself and runs in read access mode; Neo4j enforces that mode, other servers may not.
    """

    provider = "graph_neo4j"
    title = "Neo4j"
    extra = "graph"
    packages = ("neo4j",)

    class Config(GraphNode.Config):
        uri: Annotated[str, "Where the server is: neo4j://host:7687, with +s for TLS; bolt:// for one server alone."] = (
            "neo4j://localhost:7687"
        )
        user: Annotated[str, "Who asks; empty if the server asks for nobody."] = "neo4j"
        password: Annotated[str, "Best as ${ROCKETRIDE_NEO4J_PASSWORD}. Never shown."] = ""
        database: Annotated[str, "Which database of the server; empty: the user's home database."] = ""
        pool_size: Annotated[int, "Connections at most. Every open transaction has one of its own."] = 8
        pool_timeout: Annotated[float, "Seconds that a call waits for a free connection."] = 10.0
        connect_timeout: Annotated[float, "Seconds that connecting may take."] = 5.0

    @classmethod
    def backend(cls, config: Any, ctx: SetupContext) -> GraphBackend:
        ctx.require_local_pipeline()

        return BoltBackend(
            BoltSettings(
                uri=config.uri,
                user=config.user,
                password=config.password,
                database=config.database,
                connections=config.pool_size,
                wait=config.pool_timeout,
                connect=config.connect_timeout,
            )
        )


BOLT_FETCH: Final = 1000
"""Rows that the server sends at once."""

ELEMENTS: Final = ("nodes_created", "nodes_deleted", "relationships_created", "relationships_deleted")
"""The server's counters of elements; others count properties, labels and objects of the schema."""

SCHEMES: Final = ("bolt", "bolt+s", "bolt+ssc", "neo4j", "neo4j+s", "neo4j+ssc")
ADDRESS: Final = re.compile(r"(?P<scheme>[a-z0-9+]+)://(?P<host>[^/?#@]+)/?", re.I)

_BY_CODE: Final[tuple[tuple[str, FailureKind], ...]] = (
    ("Neo.ClientError.Statement.SyntaxError", "syntax"),
    ("Neo.ClientError.Statement.AccessMode", "read_only"),
    ("Neo.ClientError.Transaction.TransactionTimedOut", "timeout"),
    ("Neo.ClientError.Transaction.Terminated", "cancelled"),
    ("Neo.TransientError.Transaction.Terminated", "cancelled"),
    ("Neo.TransientError.Transaction.DeadlockDetected", "locked"),
    ("Neo.TransientError.Transaction.LockClientStopped", "locked"),
)


class BoltSettings(msgspec.Struct, frozen=True):
    """The address of the server, the user and the limits, in seconds; an empty `database` is the user's home database."""

    uri: str
    user: str
    password: str
    database: str
    connections: int
    wait: float
    connect: float

    def __repr__(self) -> str:
        return "<BoltSettings>"  # the settings hold the password


NEO4J: Final = CypherDialect(
    name="neo4j",
    procedures=words("""
    db.labels db.relationshiptypes db.propertykeys db.schema.visualization db.schema.nodetypeproperties
    db.schema.reltypeproperties db.info db.ping db.index.fulltext.querynodes
    db.index.fulltext.queryrelationships db.index.vector.querynodes db.index.vector.queryrelationships
    db.indexes db.indexdetails db.constraints db.awaitindex db.awaitindexes db.stats.status dbms.procedures dbms.functions
    dbms.showcurrentuser dbms.components apoc.meta.schema apoc.meta.data apoc.meta.graph apoc.meta.stats
    apoc.meta.nodetypeproperties
    apoc.meta.reltypeproperties
"""),
    options=True,
    shows=True,
)


class BoltBackend(GraphBackend):
    """One database of a server. The driver has a pool of connections, and replaces those that broke."""

    dialect: ClassVar[CypherDialect] = NEO4J

    def __init__(self, settings: BoltSettings) -> None:
        import neo4j

        quiet = logging.getLogger("neo4j")
        if quiet.level == logging.NOTSET:
            quiet.setLevel(logging.CRITICAL)
        self._settings = settings
        self._values = BoltValues()
        _check_address(settings.uri)
        try:
            self._driver = neo4j.GraphDatabase.driver(
                settings.uri,
                auth=(settings.user, settings.password) if settings.user else None,
                max_connection_pool_size=settings.connections,
                connection_acquisition_timeout=settings.wait,
                connection_timeout=settings.connect,
                user_agent="rrext",
                telemetry_disabled=True,
                notifications_min_severity="OFF",
            )
        except Exception:
            raise Unavailable('The graph database cannot be used: the driver does not take this "uri"') from None

    def transaction(self, *, read_only: bool, timeout: float, check: Callable[[], None]) -> BackendTransaction:
        import neo4j

        session = self._driver.session(
            database=self._settings.database or None,
            default_access_mode=neo4j.READ_ACCESS if read_only else neo4j.WRITE_ACCESS,
            fetch_size=BOLT_FETCH,
        )
        kind = _BoltReader if read_only else _BoltTransaction
        return kind(session, timeout, self)

    def read_schema(self, run: Rows) -> GraphSchema:
        return sampled_schema(run, self._settings.database or "neo4j")

    def changing(self, cypher: str) -> str:
        return cypher

    def json(self, value: Any) -> Any:
        """A value of the driver in JSON."""
        return self._values.json(value)

    def failure(self, error: Exception) -> Failure | None:
        from neo4j import exceptions

        if isinstance(error, exceptions.ServiceUnavailable | exceptions.SessionExpired):
            return Failure("lost", "the connection to the server is lost, and the transaction with it", "Try again.")
        if isinstance(error, exceptions.Neo4jError):
            return self._refused(error)
        if isinstance(error, exceptions.DriverError):
            return Failure("statement", _sentence(str(error)))
        if type(error).__module__.startswith("neo4j.") or isinstance(error, OSError):
            return Failure("lost", "the connection to the server is lost, and the transaction with it", "Try again.")
        return None

    def _refused(self, error: Any) -> Failure:
        code: str = error.code or ""
        if code.startswith("Neo.ClientError.Security.") and "Forbidden" not in code:
            return Failure("unreachable", "the server does not accept this user and password")
        if code == "Neo.ClientError.Database.DatabaseNotFound":
            return Failure("unreachable", f'the server has no database "{self._settings.database}"')
        kinds: list[FailureKind] = [kind for prefix, kind in _BY_CODE if code.startswith(prefix)]
        kind = kinds[0] if kinds else "statement"
        return Failure(kind, _sentence(error.message or "the server refused the statement"))

    @contextmanager
    def reaching(self) -> Iterator[None]:
        """Around code that connects: failures explain why there is no connection."""
        from neo4j import exceptions

        settings = self._settings
        try:
            yield
        except exceptions.ConnectionAcquisitionTimeoutError:
            raise ToolError(
                f"All {settings.connections} connections are in use: none became free within "
                f"{settings.wait:g} s (pool_timeout)",
                code="pool_exhausted",
                hint='Ask again later, end open transactions, or let the operator raise "pool_size".',
            ) from None
        except (exceptions.ServiceUnavailable, exceptions.SessionExpired) as error:
            if "defunct" in str(error):  # the connection was established before
                raise
            raise Unavailable(
                f"The graph database cannot be used: {_why_unreachable(error, settings.uri)}",
                hint='Is the server running, and is "uri" right? The next call tries again.',
            ) from None

    def close(self) -> None:
        with suppress(Exception):
            self._driver.close()


class _BoltTransaction(BackendTransaction):
    """A session of the driver with one transaction in it."""

    def __init__(self, session: Any, timeout: float, backend: BoltBackend) -> None:
        self._session = session
        self._timeout = timeout
        self._backend = backend
        self._transaction: Any = None
        self._is_cancelled = False

    def start(self) -> None:
        with self._backend.reaching():
            self._transaction = self._session.begin_transaction(timeout=self._timeout or None)

    def run(self, cypher: str, params: Mapping[str, Any], *, counts: bool = False) -> GraphCursor:
        params = bytes_in(dict(params))
        changed = self._changed(effects_of(cypher), params) if counts else None
        return _BoltCursor(self._transaction.run(cypher, params), self._backend, changed)

    def _changed(self, effects: Effects, params: Mapping[str, Any]) -> int | None:
        """The number of elements that will get other properties or labels; None if unknown."""
        if not effects.sets or effects.finding is None:
            return None if effects.sets else 0
        names = ", ".join("`" + name.replace("`", "``") + "`" for name in effects.targets)
        asked = f"{effects.finding}\nWITH [{names}] AS elements UNWIND elements AS element RETURN count(DISTINCT element)"
        given = {name: value for name, value in params.items() if name in effects.parameters}
        [[changed]] = self._transaction.run(asked, given).values()
        return changed

    def explain(self, cypher: str, params: Mapping[str, Any]) -> Any:
        return self._backend.json(self._transaction.run(f"EXPLAIN {cypher}", bytes_in(dict(params))).consume().plan)

    def commit(self) -> None:
        self._transaction.commit()

    def end(self) -> None:
        if self._is_cancelled:
            self._cut()
        with suppress(Exception):  # a broken connection has nothing to roll back: the server did that
            self._session.close()

    def cancel(self) -> None:
        """Close the connection: the server then ends the running statement. The driver's own cancel is for asyncio only."""
        self._is_cancelled = True
        self._cut()

    def _cut(self) -> None:
        connection = getattr(self._session, "_connection", None)
        if connection is not None:
            with suppress(Exception):
                connection.kill()


class _BoltCursor:
    """The result of one statement, fetched in parts."""

    def __init__(self, result: Any, backend: BoltBackend, changed: int | None) -> None:
        self._result = result
        self._backend = backend
        self._changed = changed
        self._records = iter(result)
        self.columns: list[str] = list(result.keys())
        self.types: list[str | None] = [None] * len(self.columns)  # each value has its own

    def fetch(self, size: int, /) -> list[list[Any]]:
        json = self._backend.json
        return [[json(value) for value in record.values()] for record in islice(self._records, size)]

    def counters(self) -> dict[str, int] | None:
        counters = self._result.consume().counters
        return {
            name: count
            for name, count in vars(counters).items()
            if isinstance(count, int) and not isinstance(count, bool) and count
        }

    def affected(self) -> int | None:
        counters = self._result.consume().counters
        is_set = counters.properties_set or counters.labels_added or counters.labels_removed
        changed = self._changed if is_set else 0
        if changed is None:
            return None
        return changed + sum(getattr(counters, name) for name in ELEMENTS)

    def plan(self) -> Any:
        summary = self._result.consume()
        plan = summary.profile or summary.plan
        return None if plan is None else self._backend.json(plan)

    def close(self) -> None:
        return  # the transaction ends the result


def _check_address(uri: str) -> None:
    """Raise `Unavailable` for an invalid address, without quoting it: it may hold a password."""
    found = ADDRESS.fullmatch(uri)
    if found is None or found["scheme"].lower() not in SCHEMES:
        raise Unavailable(
            'The graph database cannot be used: "uri" is no address of a Bolt server',
            hint=f"Write it as neo4j://host:7687; schemes are {', '.join(SCHEMES)}. Give user and password as settings.",
        )


def _why_unreachable(error: BaseException, uri: str) -> str:
    """Explain a failed connection in a sentence, from the causes of the driver's exception."""
    causes = [*_causes(error)]
    names = {type(cause).__name__ for cause in causes}
    host = uri.partition("://")[2].rstrip("/")
    if names & {"BoltSecurityError", "SSLError", "SSLEOFError", "SSLCertVerificationError"}:
        return f"{host} does not speak TLS as the scheme of the uri demands, or its certificate is not trusted"
    if "gaierror" in names:
        return f"the name of {host} is not known"
    if names & {"TimeoutError", "SocketDeadlineExceededError"}:
        return f"{host} does not answer"
    return f"no connection to {host} can be made"


def _causes(error: BaseException, depth: int = 8) -> list[BaseException]:
    inner = [cause for cause in (error.__cause__, error.__context__) if cause is not None]
    if isinstance(error, BaseExceptionGroup):
        inner += error.exceptions
    return [error, *(found for cause in inner if depth for found in _causes(cause, depth - 1))]


def _sentence(message: str) -> str:
    """The server's message without the lines that quote the statement."""
    return message.split("\n", 1)[0].strip()[:MESSAGE_MAX]


SAMPLE: Final = 100
"""Elements of each label and each type in a sample."""


def sampled_schema(run: Rows, database: str) -> GraphSchema:
    """All labels and types, with the properties of the first elements of each."""
    labels = sorted(row[0] for row in run("CALL db.labels()"))
    types = sorted(row[0] for row in run("CALL db.relationshipTypes()"))
    return GraphSchema(
        database,
        {label: _node(run, label) for label in labels},
        {name: _relationship(run, name) for name in types},
    )


def _node(run: Rows, label: str) -> tuple[Property, ...]:
    rows = run(f"MATCH (n:{_quoted(label)}) WITH n LIMIT {SAMPLE} RETURN properties(n)")
    return _properties(row[0] for row in rows)


def _relationship(run: Rows, name: str) -> RelationshipType:
    rows = run(f"MATCH (a)-[r:{_quoted(name)}]->(b) WITH a, r, b LIMIT {SAMPLE} RETURN properties(r), labels(a), labels(b)")
    ends = {(start, end) for _, starts, finishes in rows for start in starts for end in finishes}
    return RelationshipType(_properties(row[0] for row in rows), tuple(sorted(ends)))


def _properties(maps: Iterable[dict[str, Any]]) -> tuple[Property, ...]:
    found: dict[str, set[str]] = {}
    for properties in maps:
        for name, value in properties.items():
            found.setdefault(name, set()).add(_type(value))
    return tuple(Property(name, " | ".join(sorted(found[name]))) for name in sorted(found))


def _type(value: Any) -> str:
    match value:
        case bool():
            return "BOOLEAN"
        case int():
            return "INTEGER"
        case float():
            return "FLOAT"
        case str():
            return "STRING"
        case list():
            inner = sorted({_type(entry) for entry in value})
            return f"LIST<{' | '.join(inner) or 'ANY'}>"
        case dict():
            return "POINT" if "srid" in value else "MAP"
        case _:
            return "ANY"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


class _BoltReader(_BoltTransaction):
    """A statement that only reads, in an implicit transaction: begin and commit would cost two round trips."""

    def start(self) -> None:
        return

    def run(self, cypher: str, params: Mapping[str, Any], *, counts: bool = False) -> GraphCursor:
        return _BoltCursor(self._ran(cypher, params), self._backend, None)

    def explain(self, cypher: str, params: Mapping[str, Any]) -> Any:
        return self._backend.json(self._ran(f"EXPLAIN {cypher}", params).consume().plan)

    def _ran(self, cypher: str, params: Mapping[str, Any]) -> Any:
        import neo4j

        text: Any = cypher  # the driver wants literals; this one is from the gate
        with self._backend.reaching():
            return self._session.run(neo4j.Query(text, timeout=self._timeout or None), bytes_in(dict(params)))
