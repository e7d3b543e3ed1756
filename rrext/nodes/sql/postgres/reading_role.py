"""The role that reading statements run with on PostgreSQL, so that functions that they reach have no more rights than to read.

The gate refuses functions that are not known. Some run without being named: of operators, of domains and casts, of
`row.function`. In a read-only transaction they can write nothing, but what a superuser's function may do to files and
programs no transaction forbids. So where the server has `pg_read_all_data`, and the user may become that role, it does.

No answer may change by that. Where it would (row-level security, foreign tables, views that ask who reads), the user stays
who it is; and a statement that asks for the role, or reads what the server shows each role otherwise or only to some, runs as
the user, and sees nothing then but the system's own tables and functions.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from rrext.errors import ToolError
from rrext.nodes.databases.word_lists import words
from rrext.nodes.sql.gate.lexer import tokens
from rrext.nodes.sql.gate.tokens import ESCAPED_NAME, SqlToken
from rrext.nodes.sql.postgres.dialect import POSTGRES
from rrext.nodes.sql.postgres.libpq import ask, rows_of

if TYPE_CHECKING:
    from psycopg import Connection

READER_CHECKED_AGAIN: Final = 60.0
"""Seconds after which the database is asked again whether the reading role would change answers."""

_ASKING: Final = (
    "current_user|current_role|session_user|user|has_[a-z_]+_privilege|pg_has_role|row_security_active|information_schema|"
    "pg_stat_(?!statements)[a-z_]+|pg_statio_[a-z_]+|pg_stats[a-z_]*|pg_settings|pg_show_all_settings|pg_file_settings|pg_user_mappings?"
)
_ASKS: Final = re.compile(rf"\b(?:{_ASKING}|current_setting)\b", re.IGNORECASE)
_ASKS_WORD: Final = re.compile(rf"(?:{_ASKING})\Z")
_SHOWS: Final = re.compile(r"\s*show\b", re.IGNORECASE)
_OTHER_SETTING: Final = re.compile(
    r"current_setting\s*\(\s*'(?!(?:is_superuser|role|row_security|search_path|session_authorization)')[\w.]+'", re.IGNORECASE
)
"""A setting of the session that is the same for the reading role."""
_PLACES: Final = re.compile(r"current_schemas?\Z|to_reg[a-z]+\Z|current_setting\Z")
_OF_TYPES: Final = re.compile(r"pg_input_[a-z_]+\Z")
"""Functions that read a value of a type which a text names."""
_OPERATOR_SIGNS: Final = frozenset("+-*/<>=~!@#%^&|`?")
_OPERATOR_WORDS: Final = words("between case distinct ilike in like natural nullif similar using")
"""Words that stand for operators, which are looked for by name."""

_AS_USER: Final = b"SET LOCAL SESSION AUTHORIZATION DEFAULT; SET LOCAL ROLE NONE; SET LOCAL row_security TO DEFAULT; "
_OWN_PATH: Final = b"SET LOCAL search_path TO DEFAULT"
_SYSTEM_ONLY: Final = _AS_USER + b"SET LOCAL search_path = pg_catalog"

_NOT_OF_EXTENSIONS: Final = """NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
    WHERE d.classid = '{0}'::pg_catalog.regclass AND d.objid = o.oid AND d.deptype = 'e')"""
_IS_MADE: Final = f"""
SELECT EXISTS (SELECT FROM pg_catalog.json_array_elements_text($1::json) n WHERE
    EXISTS (SELECT FROM pg_catalog.pg_class o WHERE o.oid >= 16384 AND o.relname = n::name)
    OR EXISTS (SELECT FROM pg_catalog.pg_type o WHERE o.oid >= 16384 AND o.typname = n::name)
    OR EXISTS (SELECT FROM pg_catalog.pg_proc o WHERE o.oid >= 16384 AND o.proname = n::name
      AND {_NOT_OF_EXTENSIONS.format("pg_catalog.pg_proc")}))
  OR EXISTS (SELECT FROM pg_catalog.pg_operator o WHERE o.oid >= 16384 AND pg_catalog.strpos($2, o.oprname) > 0
    AND {_NOT_OF_EXTENSIONS.format("pg_catalog.pg_operator")})"""
"""Whether one of some names is that of a table, a type or a function that a user made, or some signs have one's operator."""

_POSIX: Final = _ASKING.replace("(?:", "(").replace("(?!statements)", "")
_CHECK: Final = f"""
SELECT CASE
    WHEN NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'pg_read_all_data') THEN ''
    WHEN NOT pg_catalog.pg_has_role(session_user, 'pg_read_all_data',
        CASE WHEN pg_catalog.current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END)
      OR current_user <> session_user
      OR NOT EXISTS (
        SELECT FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang
        WHERE p.oid >= 16384 AND l.lanname NOT IN ('internal', 'c')
          AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype)
          AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
            WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'))
      OR EXISTS (SELECT FROM pg_catalog.pg_class WHERE relrowsecurity OR relkind = 'f')
      OR EXISTS (
        SELECT FROM pg_catalog.pg_rewrite r WHERE r.ev_class >= 16384 AND r.ev_type = '1' AND (
          r.ev_action::text ~ (
            SELECT '[{{]SQLVALUEFUNCTION :op (9|10|11|12) |:funcid (' || pg_catalog.string_agg(p.oid::text, '|') || ') '
            FROM pg_catalog.pg_proc p WHERE p.oid < 16384 AND p.proname ~ '^({_POSIX})$')
          OR r.ev_action::text ~ (
            SELECT ':relid (' || pg_catalog.string_agg(c.oid::text, '|') || ') '
            FROM pg_catalog.pg_class c WHERE c.oid < 16384 AND c.relkind = 'v'
              AND (c.relnamespace = 'information_schema'::regnamespace OR c.relname ~ '^({_POSIX})$'))
          OR EXISTS (SELECT FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_proc p ON p.oid = d.refobjid
            WHERE d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_proc'::regclass
              AND p.prosrc ~* '\\y({_POSIX})\\y')))
    THEN ''
    WHEN (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = session_user) THEN 'SESSION AUTHORIZATION'
    ELSE 'ROLE' END,
  (SELECT pg_catalog.json_agg(nspname)::text FROM pg_catalog.pg_namespace
    WHERE nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')),
  CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = session_user)
    THEN (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s), ', ')
      FROM pg_catalog.json_array_elements_text($1::json) s) END
"""
"""How a statement becomes the reader, if it should; the schemas that are not the system's; and the path, `$1`, of a user who
has a schema of the same name, which a role of another name would not find."""
_PATH: Final = b"SELECT pg_catalog.to_json(pg_catalog.current_schemas(false))"


class ReadingRole:
    """The reading role of a database. Shared by its connections."""

    def __init__(self) -> None:
        self._checked = float("-inf")
        self._form = ""
        self._schemas: frozenset[str] = frozenset()
        self._path = ""

    def setup(self, connection: Connection[Any]) -> bytes:
        """Statements for the beginning of a reading transaction, after which the reading role runs it; b"" if it should not.

        Asks the database, once in `READER_CHECKED_AGAIN` seconds.
        """
        if monotonic() - self._checked > READER_CHECKED_AGAIN:
            ((schemas,),) = rows_of(connection, _PATH)
            ask(connection, b"SET search_path = pg_catalog")  # operators of users may stand in the path before the system's
            ((form, schemas, path),) = rows_of(connection, _CHECK.encode(), (schemas or "[]").encode())
            ask(connection, b"RESET search_path")
            self._form, self._schemas, self._path = form or "", frozenset(json.loads(schemas or "[]")), path or ""
            self._checked = monotonic()
        if not self._form:
            return b""
        # What row-level security would hide by now is refused then, and not left out.
        path = f"; SET LOCAL search_path = {self._path}" if self._path else ""
        return f"SET LOCAL row_security = off{path}; SET LOCAL {self._form} pg_read_all_data; ".encode()

    def as_user(self, connection: Connection[Any]) -> None:
        """Switch back to the user until the end of the transaction."""
        if self._form:
            ask(connection, _AS_USER + _OWN_PATH)

    @property
    def is_another(self) -> bool:
        """Whether statements run as the reading role."""
        return bool(self._form)

    def prepare(self, connection: Connection[Any], sql: str, *, is_denied: bool = False) -> bool:
        """Let a statement that asks for its role, or one that the role was denied something, run as the user, with access to
        the system's objects only.

        Returns whether names of other objects are out of reach. Raises `ToolError` for a statement that names some.
        """
        if not self._form:
            return False
        if _SHOWS.match(sql):
            ask(connection, _AS_USER + _OWN_PATH)
            return False
        if not is_denied and not _ASKS.search(sql):
            return False
        found = list(tokens(sql, POSTGRES))
        if not is_denied and not any(
            _is_asking(sql, before, token) for before, token in zip([None, *found], found, strict=False)
        ):
            return False
        named = any(
            token.kind == ESCAPED_NAME or (token.kind in ("word", "name") and token.text in self._schemas and after.kind == ".")
            for token, after in pairwise(found)
        )
        said = [token.text for token in found if token.kind == "word"]
        if named or any(map(_OF_TYPES.match, said)):
            raise self.refusal()
        ask(connection, _SYSTEM_ONLY)
        if not self._may_reach(connection, found):
            ask(connection, _OWN_PATH)  # it decides about names in texts that the server writes, as of a view's definition
            return False
        if any(map(_PLACES.match, said)):
            raise self.refusal()
        return True

    def _may_reach(self, connection: Connection[Any], found: list[SqlToken]) -> bool:
        """Whether a name without a schema may be that of something that a user made."""
        names = sorted({token.text for token in found if token.kind in ("word", "name")})
        if not all(map(str.isascii, names)):
            return True  # in some encodings the server folds more letters than the lexer
        signs = "".join(token.kind if token.kind in _OPERATOR_SIGNS else " " for token in found)
        if not _OPERATOR_WORDS.isdisjoint(names):
            signs += " = <> <= >= ~~* !~~*"
        ((is_made,),) = rows_of(connection, _IS_MADE.encode(), json.dumps(names).encode(), signs.encode())
        return is_made != "f"

    def refusal(self) -> ToolError:
        """The error for a statement that needs both: the user's own role and the database's own objects."""
        return ToolError(
            "The statement asks who runs it (current_user, information_schema, pg_stat_…), and names a table, type or function "
            "of the database: read-only statements run as pg_read_all_data there, and would be answered something else",
            code="not_read_only",
            hint="Ask for the role and the catalogs in a statement of their own, or use execute.",
        )


def _is_asking(sql: str, before: SqlToken | None, token: SqlToken) -> bool:
    if before is not None and (before.text == "as" or (before.kind == "." and token.text in ("user", "current_user"))):
        return False
    if token.text == "current_setting":
        return _OTHER_SETTING.match(sql, token.start) is None
    if token.kind == "word":
        return _ASKS_WORD.match(token.text) is not None
    return token.kind == "name" and token.text not in ("user", "current_user") and _ASKS_WORD.match(token.text) is not None
