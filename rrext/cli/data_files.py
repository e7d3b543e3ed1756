"""Files of data, and databases on servers, that `rrext sql` asks in the place of a pipeline: their names, and the pipeline that
has them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from glob import has_magic
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from rrext.columns import printable
from rrext.errors import UsageError, near_matches
from rrext.nodes.base.setup import missing_packages
from rrext.nodes.sql.duckdb.endings import OWN_SCHEMAS, ending_of, holds_tables
from rrext.nodes.sql.duckdb.files import is_table
from rrext.secrets.names import authority_of, without_user

FILES: Final = "(files)"
"""The id of the database of files that were named in place of a pipeline."""
DATABASES: Final = {".sqlite": "db_sqlite", ".sqlite3": "db_sqlite", ".db": "db_sqlite", ".duckdb": "db_duckdb"}
"""Endings of databases, and their nodes."""
_SERVER: Final = re.compile(
    r"(?:(?P<name>\S*?)=)?(?P<url>(?P<kind>postgres|mysql|mariadb)\w*(?:\+\w+)?://\S*)", re.ASCII | re.IGNORECASE
)
_PLAIN: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_ADDRESS: Final = re.compile(r"\S+://\S*@\S*")
_PATH_OF_URL: Final = re.compile(r"://[^/]*/([^/?#]*)")
_RESERVED: Final = (
    "all analyse analyze and anti any array as asc asof asymmetric at authorization binary both by case cast check collate "
    "collation column concurrently constraint create cross default deferrable desc describe distinct do else end except "
    "false fetch for foreign freeze from full glob group having ilike in initially inner intersect into is isnull join "
    "lambda lateral leading left like limit natural not notnull null offset on only or order outer overlaps pivot "
    "pivot_longer pivot_wider placing positional primary qualify references returning right select semi show similar some "
    "summarize symmetric table tablesample then to trailing true union unique unpack unpivot using variadic verbose when "
    "where window with"
)
"""Words that DuckDB takes for no table without quotes."""


def pipeline_of(files: Sequence[str]) -> bytes:
    """A pipeline whose one database has these files, each a table or, if it holds several, a schema, and the databases of
    servers. A database alone is asked itself, by its own node. Raises `UsageError`.
    """
    node, config = _database_alone(files[0]) if len(files) == 1 else (None, {})
    if node is None:
        taken: dict[str, str] = {}
        tables: dict[str, str] = {}
        databases: dict[str, Any] = {}
        for file in files:
            server = _SERVER.fullmatch(file)
            name = table_of(file) if server is None else _name_of(server)
            if name in taken:
                raise UsageError(f"{taken[name]} and {shown(file)} would both be the table {name}: rename one")
            taken[name] = shown(file)
            if server is None:
                tables[name] = os.path.abspath(file)
            else:
                databases[name] = _address(server)
        # half of the machine's memory: a user alone asks, and no other call needs it
        config = {"files": tables, "databases": databases, "memory_limit": "50%"}
    config["statement_timeout"] = 0  # who waits for the end can stop it too: --timeout, Ctrl-C
    components = [
        {"id": "source", "provider": "tools", "config": {}},
        {"id": FILES, "provider": node or "db_duckdb", "config": config, "control": [{"classType": "tool", "from": "source"}]},
    ]
    return msgspec.json.encode({"source": "source", "components": components})


def _database_alone(word: str) -> tuple[str | None, dict[str, Any]]:
    server = _SERVER.fullmatch(word)
    if server is not None:
        return "db_postgres" if server["kind"].lower() == "postgres" else "db_mysql", _address(server)
    return DATABASES.get(ending_of(word)), {"path": os.path.abspath(word)}


def _address(server: re.Match[str]) -> dict[str, Any]:
    """The URL of a database, and beside it its password, in which a variable may then have any sign. Raises `UsageError`,
    which tells nothing of the URL.
    """
    scheme, _, rest = server["url"].partition("://")
    try:
        authority = authority_of(server["url"])
        user, at, host = authority.rpartition("@")
        if "@" in user:
            raise ValueError
    except ValueError:
        raise UsageError(
            "the URL of a database has one @, before its host: percent-encode the signs of the password (%40 is @), or give it "
            "as ${ROCKETRIDE_PASSWORD}"
        ) from None
    if server["name"] is not None and not _PLAIN.fullmatch(server["name"]):
        raise UsageError("the name of a database, before its URL, has letters of a to z, digits and _, and no digit at first")
    user, colon, password = user.partition(":")
    url = f"{scheme.lower()}://{user}{at if user else ''}{host}{rest[len(authority) :]}"
    return {"url": url, "password": unquote(password)} if colon else {"url": url}


def _name_of(server: re.Match[str]) -> str:
    """The name before the URL, else that of the database in it. Raises as `_address` does."""
    _address(server)
    path = _PATH_OF_URL.search(server["url"])
    return server["name"] or table_of(path[1] if path is not None else "")


def shown(word: str) -> str:
    """A word as messages name it: a URL may have a password. Raises `UsageError` for one that may hide a part of it."""
    server = _SERVER.fullmatch(word)
    return without_user(word) if server is None else f"the database {_name_of(server)}"


def require_known(words: Sequence[str]) -> None:
    """Raise `UsageError` for the address of something that is no database which can be asked."""
    for word in words:
        if _ADDRESS.fullmatch(word) is not None and _SERVER.fullmatch(word) is None:
            raise UsageError(f"{without_user(word)}: the URL of a database begins with postgresql://, mysql:// or mariadb://")


def require_readable(files: Sequence[str]) -> None:
    """Raise `UsageError` for a file that is not there, with those of its folder that have nearly its name, and for files that
    DuckDB reads where it is not installed.
    """
    for file in files:
        if _SERVER.fullmatch(file) is None and not has_magic(file) and not os.path.exists(file):
            raise UsageError(f"{printable(shown(file))}: there is no such file.{_similar(file)}")
    node = _database_alone(files[0])[0] if len(files) == 1 else None
    if node in (None, "db_duckdb") and (missing := missing_packages("duckdb", "duckdb", "pytz")):
        raise UsageError(f"files are read with DuckDB: {missing}")


def _similar(file: str) -> str:
    folder, name = os.path.split(file)
    try:
        others = [each for each in os.listdir(folder or os.curdir) if is_data(each)]
    except OSError:
        return ""
    near = near_matches(name, others)
    return f" Did you mean {' or '.join(printable(os.path.join(folder, each)) for each in near)}?" if near else ""


def is_data(name: str) -> bool:
    """Whether a name is that of a file which `pipeline_of` takes, by its ending, or of a database on a server, by its URL."""
    return _SERVER.fullmatch(name) is not None or ending_of(name) in DATABASES or is_table(name)


def names_data(word: str) -> bool:
    """Whether a word that may also be a statement names a file of data: with a blank, as SQL has, only one that exists."""
    return is_data(word) and (len(word.split()) == 1 or os.path.isfile(word))


def table_of(file: str) -> str:
    """The name of the table or schema of a file: its own without folders and endings, in a form that needs no quotes."""
    name = re.sub(r"\W+", "_", os.path.basename(file).split(".")[0]).strip("_").lower()
    is_taken = name in _RESERVED.split() or (holds_tables(file) and name in OWN_SCHEMAS)
    return f"t_{name}" if not name or name[0].isdigit() or is_taken else name
