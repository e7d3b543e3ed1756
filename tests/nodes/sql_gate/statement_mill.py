"""Thousands of reading statements for each dialect, the same in every run: expressions of all kinds, and shapes of queries.

They are built from lists, each with each: operands with operators, values with types, functions with arguments, literals of
times, clauses with clauses. Whether a statement makes sense to the database is for the database to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final

from reading_statements import READING

__all__ = ["statements"]

NUMBERS: Final = ("1", "-2", "3.50", "1e2", "age", "score", "NULL", "(2 + 1)", "-id")
TEXTS: Final = ("'a'", "name", "''", "'it''s'", "city", "'%b_'")
OPERATORS: Final = ("+", "-", "*", "/", "%", "=", "<>", "<", "<=", ">", ">=", "AND", "OR", "||", "&", "|", "<<", ">>")
WHERE: Final = (
    "",
    " WHERE age > 20",
    " WHERE city IN ('Oslo', 'Rome') AND NOT id = 2",
    " WHERE name LIKE '%a%' OR age IS NULL",
)
GROUPS: Final = ("", " GROUP BY city", " GROUP BY city HAVING COUNT(*) > 1")
LIMITS: Final = ("", " LIMIT 2", " LIMIT 2 OFFSET 1", " LIMIT 0")
AGGREGATES: Final = (
    "COUNT(*)",
    "COUNT(DISTINCT age)",
    "SUM(age)",
    "AVG(score)",
    "MIN(name)",
    "MAX(id) - MIN(id)",
    "SUM(age) / COUNT(*)",
)
WINDOWS: Final = (
    *("ROW_NUMBER()", "RANK()", "DENSE_RANK()", "PERCENT_RANK()", "CUME_DIST()", "NTILE(3)", "LAG(id)", "LEAD(id, 2)"),
    *("FIRST_VALUE(name)", "LAST_VALUE(name)", "SUM(id)", "COUNT(*)", "MIN(age)"),
)
FRAMES: Final = (
    *("", "PARTITION BY city", "ORDER BY id", "PARTITION BY city ORDER BY id DESC", "ORDER BY age, id"),
    *("ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", "ORDER BY id ROWS UNBOUNDED PRECEDING"),
)
JOINS: Final = ("JOIN", "LEFT JOIN", "INNER JOIN", "CROSS JOIN", "RIGHT JOIN")
PREDICATES: Final = (
    *(
        "{} IS NULL",
        "{} IS NOT NULL",
        "{} IN (1, 34, NULL)",
        "{} NOT IN (2, 3)",
        "{} BETWEEN 1 AND 40",
        "{} NOT BETWEEN 0 AND 2",
    ),
    *("NOT {} = 1", "{} LIKE '%a'", "CASE WHEN {} > 1 THEN 'x' ELSE 'y' END", "CASE {} WHEN 1 THEN 2 END", "COALESCE({}, 0)"),
    *("NULLIF({}, 1)", "({})", "- {}", "{} = 1 AND {} <> 2 OR {} = 3", "{} IN (SELECT person FROM orders)"),
)

EXTRA_OPERATORS: Final = {
    "sqlite": ("==", "!=", "IS", "IS NOT", "LIKE", "NOT LIKE", "GLOB", "->>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"),
    "duckdb": ("//", "**", "^", "!=", "LIKE", "ILIKE", "SIMILAR TO", "IS DISTINCT FROM", "^@", "~~", "==", "~"),
    "postgres": ("^", "!=", "LIKE", "ILIKE", "NOT LIKE", "SIMILAR TO", "~", "~*", "!~", "IS DISTINCT FROM", "^@", "#"),
    "mysql": ("DIV", "MOD", "XOR", "<=>", "!=", "LIKE", "NOT LIKE", "REGEXP", "RLIKE", "^", "&&", "SOUNDS LIKE"),
}
TYPES: Final = {
    "sqlite": ("INTEGER", "REAL", "TEXT", "BLOB", "NUMERIC", "DECIMAL(10, 2)", "VARCHAR(3)", "BOOLEAN", "DATE"),
    "duckdb": (
        *(
            "INTEGER",
            "BIGINT",
            "HUGEINT",
            "DOUBLE",
            "DECIMAL(10, 2)",
            "VARCHAR",
            "BLOB",
            "BOOLEAN",
            "DATE",
            "TIME",
            "TIMESTAMP",
        ),
        *("TIMESTAMPTZ", "INTERVAL", "JSON", "UUID", "INTEGER[]", "BIT", "UTINYINT", "STRUCT(a INTEGER)"),
    ),
    "postgres": (
        *(
            "integer",
            "bigint",
            "smallint",
            "double precision",
            "real",
            "numeric(10, 2)",
            "numeric",
            "text",
            "varchar(3)",
            "char(4)",
        ),
        *(
            "bytea",
            "boolean",
            "date",
            "time",
            "timetz",
            "timestamp",
            "timestamptz",
            "interval",
            "json",
            "jsonb",
            "uuid",
            "int[]",
        ),
        *("inet", "int4range", "money", "bit(3)", "name", "xml", "point", "tsvector", "regclass", "oid"),
    ),
    "mysql": (
        *(
            "SIGNED",
            "UNSIGNED",
            "DECIMAL(10, 2)",
            "CHAR(3)",
            "CHAR",
            "BINARY(3)",
            "DATE",
            "TIME",
            "DATETIME",
            "TIME(3)",
            "DATETIME(6)",
        ),
        *("DOUBLE", "FLOAT"),
    ),
}
VALUES: Final = (
    *("1", "'1'", "'12.5'", "1.55", "-3", "NULL", "'t'", "'2024-02-29'", "'10:11:12.5'", "'2024-01-01 10:00:00'", "'[1, 2]'"),
    *("'{\"a\": 1}'", "name", "age", "score"),
)
FUNCTIONS: Final = {
    "sqlite": """abs ceil char floor hex instr length lower ltrim max min quote round rtrim sign sqrt substr trim typeof unicode
    upper date time datetime julianday strftime ifnull iif printf json json_array json_type json_valid concat_ws replace""",
    "duckdb": """abs ascii bit_length ceil chr concat floor hex length lower ltrim md5 reverse round rtrim sign sqrt trim typeof
    upper date_trunc strftime year month left right repeat lpad contains greatest least hash to_json list_value array_agg""",
    "postgres": """abs ascii bit_length ceil chr concat floor length lower ltrim md5 reverse round rtrim sign sqrt btrim
    pg_typeof upper date_trunc to_char left right repeat lpad greatest least to_json to_jsonb array_agg initcap quote_literal
    starts_with json_build_array split_part""",
    "mysql": """abs ascii bit_length ceil char concat floor hex length lower ltrim md5 reverse round rtrim sign sqrt trim upper
    year month date time left right repeat lpad greatest least json_array json_quote concat_ws ifnull if sha1 crc32 quote""",
}
NOW: Final = frozenset({"date", "time", "datetime", "julianday", "strftime"})
"""Functions that tell the time when they are not told one."""
ARGUMENTS: Final = ("", "name", "age", "score", "-1.5", "'aBc', 2", "name, 'a'", "'2024-02-29'", "NULL", "id, 2, 'x'")

TIMES: Final = (
    *("1 day 02:03:04", "1 day ago", "-1 day", "1 year 2 months", "90 minutes", "2 hours 30 minutes", "1 week", "1.5 hours"),
    *("-1 month 3 days", "10:20:30", "0.000001 seconds", "1 century", "P1DT2H", "P1Y2M3DT4H5M6S", "-00:00:01", "3"),
)
AROUND: Final = {
    "sqlite": ("SELECT datetime('2024-01-31 10:00', '{}')", "SELECT '{}'", "SELECT strftime('%s', '2024-01-31', '+{}')"),
    "duckdb": (
        *("SELECT interval '{}'", "SELECT timestamp '2024-01-31 10:00:00' + interval '{}'", "SELECT CAST('{}' AS INTERVAL)"),
        *("SELECT '{}'::interval * 2", "SELECT - interval '{}'", "SELECT interval '{}' = interval '1 day'"),
    ),
    "postgres": (
        *("SELECT interval '{}'", "SELECT timestamp '2024-01-31 10:00' + interval '{}'", "SELECT CAST('{}' AS interval)"),
        *("SELECT '{}'::interval * 2", "SELECT - interval '{}'", "SELECT justify_interval('{}')", "SELECT interval(0) '{}'"),
        *("SELECT extract(epoch FROM interval '{}')", "SELECT interval '{}' AS i, '{}' AS t"),
    ),
    "mysql": (
        *("SELECT DATE '2024-01-31' + INTERVAL '{}' DAY", "SELECT TIMESTAMP '2024-01-31 10:00:00' + INTERVAL '{}' HOUR_SECOND"),
        *(
            "SELECT ADDTIME('10:00:00', '{}')",
            "SELECT '{}' + INTERVAL 1 DAY",
            "SELECT DATE_SUB('2024-03-31', INTERVAL '{}' MONTH)",
        ),
    ),
}
ODD: Final = {
    "sqlite": (
        *("SELECT 1 /* a */ AS [b c], 2 AS `d`", "SELECT 'a' \"b\"", "SELECT 1,2 , 3", "SELECT x'0aFF', 0x1F, 1_0 IS 10"),
        *("SELECT upper ( 'a' )", "SELECT Count ( * ) FROM people", "SELECT current_timestamp > '2020'", "SELECT 1--1\n+1"),
    ),
    "duckdb": (
        *(
            "SELECT current_date > '2020-01-01'",
            "SELECT upper ( 'a' )",
            "SELECT 'a'\n'b'",
            "SELECT $$it's$$",
            "SELECT 1 /* /* */ */ + 1",
        ),
        *(
            "SELECT name.upper().lower() FROM people",
            "SELECT count(*) FROM people TABLESAMPLE reservoir(100%)",
            "SELECT getvariable('x')",
        ),
        *(
            "SELECT bar(5, 0, 10)",
            "SELECT name FROM duckdb_settings() WHERE name = 'access_mode'",
            "PRAGMA table_info('people')",
        ),
        *("CALL pragma_table_info('people')", "SELECT e'a\\'b'", "DESCRIBE people", "SHOW TABLES", "SUMMARIZE SELECT 1 AS a"),
    ),
    "postgres": (
        *("SELECT current_time IS NOT NULL", "SELECT box '((0,0),(1,1))'", "SELECT inet '10.0.0.0/8' >>= inet '10.1.2.3'"),
        *("SELECT json_extract_path('{\"a\": {\"b\": 1}}', 'a', 'b')", "SELECT starts_with('abc', 'a')"),
        *(
            "SELECT j.id FROM people JOIN orders USING (id) AS j",
            "SELECT count(*) FROM people TABLESAMPLE system (100) REPEATABLE (1)",
        ),
        *(
            "SELECT e'a\\'b', $x$ ; $x$",
            "SELECT /*+ SeqScan(people) */ count(*) FROM people",
            'SELECT 1 AS Foo, 2 AS "Foo", 3 a',
        ),
        *("SELECT ?column? FROM (SELECT 1) t", "SELECT 1, 'a', upper('b'), CASE WHEN true THEN 1 END, (SELECT 2)"),
    ),
    "mysql": (
        *("SELECT 'a'||'b'", "SELECT 'it\\'s', 'that\\'s'", 'SELECT "double", `id` FROM people LIMIT 1', "SELECT chr(65)"),
        *("SELECT id = SOME (SELECT person FROM orders) FROM people", "SHOW INDEX FROM people WHERE Key_name = 'PRIMARY'"),
        *(
            "CHECK TABLE people",
            "HELP 'select'",
            "SELECT add_months('2024-01-31', 1)",
            "SELECT 1 = 1 = 1, 5 BETWEEN 0 AND 2 = 1",
        ),
        *(
            "SELECT /*+ NO_INDEX_MERGE(people) */ COUNT(*) FROM people",
            "SELECT 1 -- a\n, 2 # b\n, 3",
            "SELECT CURRENT_TIME IS NOT NULL",
        ),
        *(
            "SELECT 1 /* plain */ AS a",
            "SELECT COUNT(*), count( DISTINCT id ) FROM people",
            "SELECT N'a', _utf8mb4'b', x'41', b'101'",
        ),
    ),
}


def statements(dialect: str) -> Iterator[str]:
    """All of a dialect, each once."""
    yield from dict.fromkeys((*READING[dialect], *ODD[dialect], *_expressions(dialect), *_queries()))


def _expressions(dialect: str) -> Iterator[str]:
    operators = OPERATORS + EXTRA_OPERATORS[dialect]
    for operator, a, b in (*product(operators, NUMBERS, NUMBERS), *product(operators, TEXTS, TEXTS)):
        yield f"SELECT {a} {operator} {b} FROM people ORDER BY id"
    for predicate, a in product(PREDICATES, NUMBERS + TEXTS):
        yield f"SELECT id, {predicate.replace('{}', a)} FROM people ORDER BY id"
    for kind, value in product(TYPES[dialect], VALUES):
        yield f"SELECT CAST({value} AS {kind}) FROM people ORDER BY id"
    if dialect in ("duckdb", "postgres"):
        yield from (f"SELECT ({value})::{kind} AS c FROM people ORDER BY id" for kind, value in product(TYPES[dialect], VALUES))
    for function, given in product(FUNCTIONS[dialect].split(), ARGUMENTS):
        if not given and function in NOW:
            continue
        order = "" if function in {"array_agg"} or (function in ("max", "min") and "," not in given) else " ORDER BY id"
        yield f"SELECT {function}({given}) FROM people{order}"
    for around, time in product(AROUND[dialect], TIMES):
        yield around.replace("{}", time)


def _queries() -> Iterator[str]:
    for where, limit in product(WHERE, LIMITS):
        yield f"SELECT * FROM people{where} ORDER BY id{limit}"
        yield f"SELECT p.name, p.age + 1 AS older FROM people AS p{where} ORDER BY p.id DESC{limit}"
    for aggregate, where, group, limit in product(AGGREGATES, WHERE, GROUPS, LIMITS[:2]):
        city, order = ("city, ", " ORDER BY city") if group else ("", "")
        yield f"SELECT {city}{aggregate} FROM people{where}{group}{order}{limit}"
    for function, frame in product(WINDOWS, FRAMES):
        if "ORDER" not in frame and function not in ("SUM(id)", "COUNT(*)", "MIN(age)"):
            continue  # any order of rows would be right
        yield f"SELECT id, {function} OVER ({frame}) AS w FROM people ORDER BY id"
    for join, where in product(JOINS, ("", " WHERE o.price > 2", " WHERE p.id IS NULL")):
        on = "" if join == "CROSS JOIN" else " ON o.person = p.id"
        yield f"SELECT p.id, o.id, o.price, o.day FROM people p {join} orders o{on}{where} ORDER BY 1, 2"
        joined = f"SELECT p.id AS a, o.price AS b FROM people p {join} orders o{on}{where}"
        yield f"WITH t AS ({joined}) SELECT COUNT(*), SUM(b) FROM t"
