"""SQLite's authorizer callbacks: the actions that statements of readers and of writers may do.

SQLite reports each table, function and PRAGMA that a statement uses. So SQLite's own parser is the read-only gate, and
the connection, which is opened with `mode=ro`, is the second wall.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Final, Protocol
from weakref import ref

from rrext.nodes.databases.word_lists import words

_ASKING_PRAGMAS: Final = words(
    """table_info table_xinfo table_list index_info index_xinfo index_list foreign_key_list foreign_key_check integrity_check
    quick_check"""
)
"""PRAGMAs that only report something about the object that their value names."""
_TELLING_PRAGMAS: Final = _ASKING_PRAGMAS | words(
    """analysis_limit application_id auto_vacuum automatic_index busy_timeout cache_size cache_spill cell_size_check
    checkpoint_fullfsync collation_list compile_options data_version defer_foreign_keys encoding foreign_keys
    freelist_count fullfsync function_list hard_heap_limit ignore_check_constraints journal_mode journal_size_limit
    legacy_alter_table locking_mode max_page_count mmap_size module_list page_count page_size pragma_list query_only
    read_uncommitted recursive_triggers reverse_unordered_selects schema_version secure_delete soft_heap_limit synchronous
    temp_store threads trusted_schema user_version wal_autocheckpoint writable_schema"""
)
"""PRAGMAs that only report something when they have no value. Others act, as `optimize` does, or show the file's path."""
_OF_THE_FILE: Final = frozenset({"application_id", "user_version", "defer_foreign_keys"})
"""PRAGMAs that a statement of any kind may set: the end of the transaction undoes them."""

_READS: Final = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE, sqlite3.SQLITE_TRANSACTION}
)
_NEVER: Final = frozenset({sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH})
"""Actions on other files than the one of the settings: always refused."""
_MAKES_TEMPORARY: Final = frozenset(
    {
        sqlite3.SQLITE_CREATE_TEMP_INDEX,
        sqlite3.SQLITE_CREATE_TEMP_TABLE,
        sqlite3.SQLITE_CREATE_TEMP_TRIGGER,
        sqlite3.SQLITE_CREATE_TEMP_VIEW,
    }
)
_PREPARED: Final = frozenset({sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE})
_INNER_TABLES: Final = (
    *("sqlite_master", "sqlite_temp_master", "_node", "_rowid", "_parent", "_content", "_segments", "_segdir", "_docsize"),
    *("_stat", "_data", "_idx", "_config"),
)
"""How tables end for which a virtual table prepares writes when it is opened, also to be read: R-tree does. They never run:
who writes such a table meets the connection's `mode=ro`."""
_REFUSED_FUNCTIONS: Final = frozenset({"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit"})

_ACTIONS: Final = {
    sqlite3.SQLITE_INSERT: "INSERT writes",
    sqlite3.SQLITE_UPDATE: "UPDATE writes",
    sqlite3.SQLITE_DELETE: "DELETE writes",
    sqlite3.SQLITE_ATTACH: "ATTACH opens another file",
    sqlite3.SQLITE_DETACH: "DETACH closes a file",
}


class AuthorizedConnection(Protocol):
    """A connection with an authorizer: `refused` is the last action that it refused."""

    refused: str | None
    has_temporary: bool


def reader_may(connection: AuthorizedConnection) -> Callable[..., int]:
    """The authorizer of a connection that only reads."""
    owner = ref(connection)  # a weak reference, because SQLite holds the authorizer: no reference circle

    def may(action: int, first: str | None, second: str | None, database: str | None, source: str | None) -> int:
        if action in _READS or (action in _PREPARED and (first or "").endswith(_INNER_TABLES)):
            return _function(owner, action, second)
        if action == sqlite3.SQLITE_PRAGMA:
            return _pragma(owner, first, second, _ASKING_PRAGMAS)
        return _answer(owner, False, _ACTIONS.get(action, "it changes the database"))

    return may


def writer_may(connection: AuthorizedConnection) -> Callable[..., int]:
    """The authorizer of a connection for statements of any kind."""
    owner = ref(connection)

    def may(action: int, first: str | None, second: str | None, database: str | None, source: str | None) -> int:
        if action == sqlite3.SQLITE_PRAGMA:
            return _pragma(owner, first, second, _ASKING_PRAGMAS | _OF_THE_FILE)
        if action in _MAKES_TEMPORARY and (made_on := owner()) is not None:
            made_on.has_temporary = True
        if action in _NEVER:
            return _answer(owner, False, _ACTIONS[action])
        return _function(owner, action, second)

    return may


def _pragma(owner: ref[AuthorizedConnection], name: str | None, value: str | None, with_value: frozenset[str]) -> int:
    name = (name or "").lower()
    what = f"PRAGMA {name} acts" if value is None else f"PRAGMA {name} with a value changes a setting"
    if name == "database_list":
        what = "PRAGMA database_list tells where the file is, which is nobody's business"
    return _answer(owner, name in (_TELLING_PRAGMAS if value is None else with_value), what)


def _function(owner: ref[AuthorizedConnection], action: int, name: str | None) -> int:
    name = (name or "").lower() if action == sqlite3.SQLITE_FUNCTION else ""
    return _answer(owner, name not in _REFUSED_FUNCTIONS, f'the function "{name}" reaches files')


def _answer(owner: ref[AuthorizedConnection], is_allowed: bool, what: str) -> int:
    if is_allowed:
        return sqlite3.SQLITE_OK
    asked = owner()
    if asked is not None:
        asked.refused = what
    return sqlite3.SQLITE_DENY
