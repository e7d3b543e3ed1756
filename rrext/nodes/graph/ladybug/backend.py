"""The embedded graph database in its process: Ladybug, in a file or in memory. The module imports Ladybug at first use.

One process at a time opens a file for writing; processes take turns between transactions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from math import ceil
from typing import Any, Final, TypeAlias

from rrext.errors import ToolError, Unavailable
from rrext.nodes.files.turns import Turns
from rrext.nodes.graph.effects import Effects, effects_of
from rrext.nodes.graph.ladybug.open_database import LentConnection, OpenDatabase
from rrext.nodes.graph.ladybug.rules import EmbeddedError, EmbeddedSettings
from rrext.nodes.graph.parameters import bytes_in, wide_integers_in
from rrext.nodes.graph.values import EmbeddedValues

WRITE_TURN: Final = 0.05
"""Seconds between checks whether a call that waits for its turn to write has been cancelled."""

RAISED: Final = (RuntimeError, ValueError, TypeError, OverflowError)
"""Ladybug's exceptions for statements, and for the conversion of its values to Python."""


class EmbeddedBackend:
    """One database. The first call opens it; if that fails, the next one tries again."""

    def __init__(self, settings: EmbeddedSettings) -> None:
        import_module("ladybug")  # the slow part of the first call, on this thread
        self._settings = settings
        self.turns: Turns[OpenDatabase] = Turns(lambda check: OpenDatabase.open(settings, check), refusal=_closed)
        """Each transaction is a use."""
        self.values = EmbeddedValues()
        self.writing = threading.Lock()

    def transaction(self, *, read_only: bool, timeout: float, check: Callable[[], None]) -> EmbeddedTransaction:
        return EmbeddedTransaction(self, read_only, timeout, check)

    def open(self) -> None:
        """Open the database, if it is not open."""
        with self.turns.use(lambda: None):
            pass

    def wait_to_write(self, check: Callable[[], None]) -> None:
        """Wait for the turn to write: Ladybug has one writing transaction at a time."""
        left = self._settings.lock_timeout
        while not self.writing.acquire(timeout=min(WRITE_TURN, left)):
            check()
            left -= WRITE_TURN
            if left <= 0:
                raise ToolError(
                    f"Another transaction writes, and did not end within {self._settings.lock_timeout:g} s (lock_timeout)",
                    code="database_locked",
                    hint="Try again, or end the open transaction.",
                )

    def close(self) -> None:
        self.turns.close(0.0)


class EmbeddedTransaction:
    """A connection with one transaction on it."""

    def __init__(self, backend: EmbeddedBackend, read_only: bool, timeout: float, check: Callable[[], None]) -> None:
        self._backend = backend
        self._read_only = read_only
        self._timeout = timeout
        self._check = check
        self._database: OpenDatabase | None = None
        self._lease: LentConnection | None = None
        self._is_open = False
        self._is_cancelled = False
        self._writes = False

    def start(self) -> None:
        if not self._read_only:
            self._backend.wait_to_write(self._check)
            self._writes = True
        self._database = self._backend.turns.enter(self._check)
        assert self._database is not None  # it was opened, or that raised
        self._lease = self._database.lease()
        self._lease.connection.set_query_timeout(ceil(self._timeout * 1000))  # 0: none
        self._execute("BEGIN TRANSACTION READ ONLY" if self._read_only else "BEGIN TRANSACTION").close()
        self._is_open = True

    def run(self, cypher: str, params: Mapping[str, Any], *, counts: bool = False) -> EmbeddedCursor:
        params = _given(params)
        tally = Tally(effects_of(cypher), self._rows, params) if counts else None
        result = self._execute(cypher, params)
        return EmbeddedCursor(result, self._backend.values, tally.counters() if tally is not None else None)

    def _rows(self, cypher: str, params: Mapping[str, Any]) -> list[Any]:
        result = self._execute(cypher, params)
        try:
            return result.get_all()
        finally:
            result.close()

    def explain(self, cypher: str, params: Mapping[str, Any]) -> Any:
        result = self._execute(f"EXPLAIN {cypher}", _given(params))
        try:
            return result.get_next()[0]
        finally:
            result.close()

    def commit(self) -> None:
        self._execute("COMMIT").close()
        self._is_open = False

    def end(self) -> None:
        lease, self._lease = self._lease, None
        database, self._database = self._database, None
        try:
            if database is not None and lease is not None:
                is_good = not self._is_cancelled
                if self._is_open:
                    is_good = _rolled_back(lease.connection) and is_good
                database.give_back(lease, is_good=is_good)
        finally:
            self._is_open = False
            if database is not None:
                self._backend.turns.leave()
            if self._writes:
                self._writes = False
                self._backend.writing.release()

    def cancel(self) -> None:
        self._is_cancelled = True
        lease = self._lease
        if lease is not None:
            with suppress(Exception):
                lease.connection.interrupt()

    def _execute(self, cypher: str, params: Mapping[str, Any] | None = None) -> Any:
        lease = self._lease
        assert lease is not None  # started, and not ended
        try:
            if params:
                lease.statements.add(cypher)
                result = lease.connection.execute(cypher, dict(params))
            else:
                result = lease.connection.execute(cypher)
        except RAISED as error:
            raise EmbeddedError(str(error)) from None
        return result[-1] if isinstance(result, list) else result


class EmbeddedCursor:
    """The result of one statement. Ladybug holds the rows; a fetch converts them to Python values."""

    def __init__(self, result: Any, values: EmbeddedValues, counters: dict[str, int] | None) -> None:
        self._result = result
        self._values = values
        self.counters = counters
        self.columns: list[str] = list(result.get_column_names())
        self.types: list[str | None] = list(result.get_column_data_types())

    def fetch(self, size: int, /) -> list[list[Any]]:
        json = self._values.json
        rows: list[list[Any]] = []
        while len(rows) < size and (values := self._next()) is not None:
            rows.append([json(value) for value in values])
        return rows

    def _next(self) -> list[Any] | None:
        """The next row; None if there is none. A value without a Python equivalent fails the statement."""
        try:
            return self._result.get_next() if self._result.has_next() else None
        except RAISED as error:
            raise EmbeddedError(str(error)) from None

    def close(self) -> None:
        self._result.close()


def _given(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters in the form of the driver."""
    return wide_integers_in(bytes_in(dict(params)))


def _rolled_back(connection: Any) -> bool:
    """Roll back a transaction. A failed statement has ended it already; the connection is not used again then."""
    try:
        connection.execute("ROLLBACK").close()
    except Exception:
        return False
    return True


def _closed() -> Unavailable:
    return Unavailable("The graph database is closed: the node is being unloaded")


NODES: Final = "MATCH (n) RETURN count(n)"
RELATIONSHIPS: Final = "MATCH ()-[r]->() RETURN count(r)"

Run: TypeAlias = "Callable[[str, Mapping[str, Any]], list[Any]]"
"""Runs a statement with parameters and returns all its rows."""


class Tally:
    """Counts of one statement. Made before the statement runs, in the same transaction; call `counters` after it."""

    def __init__(self, effects: Effects, run: Run, params: Mapping[str, Any]) -> None:
        self._effects = effects
        self._run = run
        self._changed = 0
        self._before = (0, 0)
        # Elements that a statement both creates and deletes do not show in the numbers.
        if not effects.are_countable or (effects.creates and effects.deletes):
            return
        if effects.finding is not None:
            self._changed = self._found(effects.finding, params)
        if effects.creates or effects.deletes:
            self._before = self._elements()

    def counters(self) -> dict[str, int] | None:
        """The numbers of created and deleted nodes and relationships, and of changed elements, without those that are
        0. None if it cannot be told."""
        effects = self._effects
        if not effects.are_countable or (effects.creates and effects.deletes):
            return None
        found = {"elements_changed": self._changed}
        if effects.creates or effects.deletes:
            done = "deleted" if effects.deletes else "created"
            for kind, before, after in zip(("nodes", "relationships"), self._before, self._elements(), strict=True):
                found[f"{kind}_{done}"] = abs(after - before)
        return {name: count for name, count in found.items() if count}

    def _elements(self) -> tuple[int, int]:
        [[nodes]] = self._run(NODES, {})
        [[relationships]] = self._run(RELATIONSHIPS, {}) if self._effects.links else [[0]]
        return nodes, relationships

    def _found(self, finding: str, params: Mapping[str, Any]) -> int:
        """The number of elements to change, each counted once, even if several variables name it."""
        names = ["`" + name.replace("`", "``") + "`" for name in self._effects.targets]
        given = {name: value for name, value in params.items() if name in self._effects.parameters}
        if len(names) == 1:
            [[count]] = self._run(f"{finding}\nRETURN count(DISTINCT {names[0]})", given)
            return count
        rows = self._run(f"{finding}\nRETURN DISTINCT {', '.join(f'id({name})' for name in names)}", given)
        return len({(key["table"], key["offset"]) for row in rows for key in row if key is not None})
