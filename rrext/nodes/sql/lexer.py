"""The lexer of SQL statements: it splits words, literals and signs as the database does, and finds placeholders.

Nothing is parsed. The scan takes time in proportion to the text, and no single step of it holds the interpreter for long:
other threads run in between. Lists of plain literals (`, 1, 'a'`) are passed over as a whole.

MySQL reads a backslash in a literal by its `sql_mode`. `readings` gives every way in which a server may read a text.
Placeholders are `$1`, `$2`, … in the text of a statement, as opposed to the same text in literals and comments.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from rrext.errors import InvalidArguments
from rrext.nodes.sql.dialect import (
    ESCAPED_NAME,
    NAME,
    NUMBER,
    OTHER_PLACEHOLDER,
    PLACEHOLDER,
    PLACEHOLDERS,
    RUN,
    STRING,
    VARIABLE,
    WORD,
    SqlDialect,
    SqlToken,
)

MAX_TOKENS: Final = 20_000
"""Words, literals and signs of a statement that is judged, beside those of plain lists: some 25 ms of scanning."""

SCAN_STEPS: Final = 1000
"""Doubled quotes and escapes that one step of the scan passes over; between steps other threads run."""

NESTED_COMMENTS: Final = 100
"""The maximum depth of nested comments."""

_AS_WRITTEN: Final = frozenset({NUMBER, PLACEHOLDER, PLACEHOLDERS, OTHER_PLACEHOLDER, VARIABLE})

SMALL_LETTERS: Final = {letter: letter + 32 for letter in range(ord("A"), ord("Z") + 1)}
"""Databases lower-case ASCII letters only."""

_EXECUTED: Final = ("!", "M!", "m!")
"""The begin of a comment that MySQL or MariaDB runs."""

_SETTING_HINT: Final = re.compile(r"\b(?:set_var|resource_group|set)\s*\(", re.IGNORECASE)


@lru_cache(maxsize=16)
def _pattern(dialect: SqlDialect, *, runs: bool) -> re.Pattern[str]:
    patterns = (RUN, *dialect.patterns) if runs else dialect.patterns
    return re.compile("|".join(patterns), re.DOTALL | re.ASCII)  # other digits are letters to a database


def readings(sql: str, dialect: SqlDialect, *, judging: bool, runs: bool = False) -> Iterator[list[SqlToken]]:
    """The tokens of a statement, in each way in which a server of the dialect may read it.

    The first one is how servers read unless they were told otherwise. Another one that is not closed is left out: the
    server that reads so refuses the statement. Raises as `tokens` does.
    """
    first = list(tokens(sql, dialect, judging=judging, runs=runs))
    yield first
    if not dialect.sql_modes or "\\" not in sql:
        return
    for escapes in _OTHERS:
        try:
            other = list(tokens(sql, dialect, judging=judging, escapes=escapes, runs=runs))
        except InvalidArguments as error:
            if "unclosed" in error.data:
                continue
            raise
        if other != first:
            yield other


class _Escapes(NamedTuple):
    """Whether a backslash escapes: in `'…'`, and in `"…"`."""

    in_strings: bool
    in_names: bool


_USUAL: Final = _Escapes(in_strings=True, in_names=True)
_OTHERS: Final = (_Escapes(in_strings=True, in_names=False), _Escapes(in_strings=False, in_names=False))
"""How MySQL reads literals under ANSI_QUOTES, and under NO_BACKSLASH_ESCAPES."""


def tokens(
    sql: str, dialect: SqlDialect, *, judging: bool = False, escapes: _Escapes = _USUAL, runs: bool = False
) -> Iterator[SqlToken]:
    """The tokens of a statement, without blanks, comments and the rest of plain lists; with `runs` placeholders
    one after another are one token: thousands take a fraction of the time.

    Raises `InvalidArguments` for a literal or comment without an end; with `judging`, also for an ambiguous or too long
    text.
    """
    match = _pattern(dialect, runs=runs).match
    at = count = 0
    while (found := match(sql, at)) is not None:
        start, at = at, found.end()
        kind = found.lastgroup
        if kind == "space" or kind == "list":
            continue
        count += 1
        if judging and count > MAX_TOKENS:
            raise _too_many(MAX_TOKENS)
        if kind == "word":
            yield SqlToken(WORD, found["word"].translate(SMALL_LETTERS), start)
        elif kind == "sign":
            sign = found["sign"]
            if sign == "\0":
                raise placed(sql, start, "a character U+0000 cannot stand here")
            if sign == "[" and judging and dialect.sql_modes:
                raise placed(sql, start, "[ begins a name by some servers' sql_mode")
            yield SqlToken(sign, sign, start)
        elif kind in _AS_WRITTEN:
            yield SqlToken(kind, found[0], start)
        elif kind == "block":
            at = _after_block(sql, at, dialect, judging=judging)
        elif kind != "line" and kind != "torn":
            token, at = _quoted(sql, found, start, escapes if dialect.sql_modes else _NONE)
            yield token
        if judging and (kind == "torn" or kind == "escaped"):
            _refuse_torn(sql, found, at)


_NONE: Final = _Escapes(in_strings=False, in_names=False)

_CONTINUED: Final = re.compile(r"(?:\s|--[^\n\r]*+)*+'")


def _refuse_torn(sql: str, found: re.Match[str], at: int) -> None:
    """Refuse an ambiguous text; of a literal with escapes that ends at `at`, that it goes on after a blank."""
    if found.lastgroup == "escaped":
        more = _CONTINUED.match(sql, at)
        if more is not None:
            raise placed(sql, more.end() - 1, "this literal goes on the one before it", "Write one literal, or put || between.")
    elif found["torn"].endswith("\r"):
        raise placed(sql, found.start(), "a carriage return ends this comment or does not", "End lines with a line feed.")
    else:
        message = "a number and a word beside each other can be read in two ways"
        if not found["torn"].isascii():
            message = "what some servers take for a blank and others for a letter can be read in two ways"
        raise placed(sql, found.start(), message, "Put a plain blank between words.")


def _quoted(sql: str, found: re.Match[str], start: int, escapes: _Escapes) -> tuple[SqlToken, int]:
    """The literal or the quoted name that begins at `start`, and the place behind it."""
    at = found.end()
    match found.lastgroup:
        case "string":
            return SqlToken(STRING, "", start), _after_quoted(sql, start, at, "'", escapes=escapes.in_strings)
        case "escaped":
            return SqlToken(STRING, "", start), _after_quoted(sql, start, at, "'", escapes=True)
        case "unicode":
            quote = sql[at - 1]
            return SqlToken(STRING if quote == "'" else ESCAPED_NAME, "", start), _after_quoted(sql, start, at, quote)
        case "dollars":
            return SqlToken(STRING, "", start), _after_mark(sql, start, at, found["dollars"])
        case "bracketed":
            at = _after_mark(sql, start, at, "]")
            return SqlToken(NAME, sql[start + 1 : at - 1], start), at
    quote = found["name"]
    at = _after_quoted(sql, start, at, quote, escapes=quote == '"' and escapes.in_names)
    return SqlToken(NAME, sql[start + 1 : at - 1].replace(quote * 2, quote), start), at


@lru_cache(maxsize=16)
def _inside(quote: str, *, escapes: bool) -> re.Pattern[str]:
    """The pattern of the text between two quotes: a part with at most `SCAN_STEPS` doubled quotes and escapes."""
    plain = rf"[^{re.escape(quote)}{chr(92) * 2 if escapes else ''}]*+"
    special = rf"(?:{re.escape(quote)}{{2}}|\\.)" if escapes else rf"{re.escape(quote)}{{2}}"
    return re.compile(rf"{plain}(?:{special}{plain}){{0,{SCAN_STEPS}}}+", re.DOTALL)


def _after_quoted(sql: str, start: int, at: int, quote: str, *, escapes: bool = False) -> int:
    """The position after a quoted text; a doubled quote does not end it, nor, with `escapes`, one after a backslash."""
    inside = _inside(quote, escapes=escapes).match
    while (found := inside(sql, at)) is not None and found.end() > at:
        at = found.end()
    if not sql.startswith(quote, at):
        raise _unclosed(sql, start, quote)
    return at + 1


def _after_mark(sql: str, start: int, at: int, mark: str) -> int:
    end = sql.find(mark, at)
    if end < 0:
        raise _unclosed(sql, start, sql[start:at])
    return end + len(mark)


def _after_block(sql: str, at: int, dialect: SqlDialect, *, judging: bool) -> int:
    """The position after a comment that began just before `at`."""
    start = at - 2
    if judging and dialect.sql_modes and sql.startswith(_EXECUTED, at):
        raise placed(sql, start, "a comment that some servers run can be read in two ways", "Write its text, or leave it out.")
    end = _after_nested(sql, start) if dialect.nested_comments else sql.find("*/", at) + 2
    if end < at:
        if dialect.open_comments:
            return len(sql)
        raise _unclosed(sql, start, "/*")
    if judging and sql.startswith("+", at) and _SETTING_HINT.search(sql, at, end):
        raise placed(sql, start, "a hint that changes a setting may not stand in a statement that only reads")
    return end


def _after_nested(sql: str, start: int) -> int:
    """The position after a comment that may hold others; -1 if it is not closed."""
    depth, at = 1, start + 2
    opening = sql.find("/*", at)
    for _ in range(NESTED_COMMENTS):
        closing = sql.find("*/", at)
        if closing < 0:
            return -1
        if 0 <= opening < closing:
            depth, at = depth + 1, opening + 2
            opening = sql.find("/*", at)
            continue
        depth, at = depth - 1, closing + 2
        if not depth:
            return at
        if 0 <= opening < at:
            opening = sql.find("/*", at)
    raise placed(sql, start, f"a comment has more than {NESTED_COMMENTS} others inside")


def placeholders(sql: str, dialect: SqlDialect) -> list[SqlToken]:
    """The placeholders `$1`, `$2`, … of a statement, in the order of its text; a token may be several of them.

    Raises `InvalidArguments` for a literal or comment without an end, and where a server's mode decides whether a
    placeholder stands in a literal.
    """
    if "$" not in sql:
        return []
    first, *others = (
        [token for token in found if token.kind in (PLACEHOLDER, PLACEHOLDERS)]
        for found in readings(sql, dialect, judging=False, runs=True)
    )
    for other in others:
        if other != first:
            at = sql.index("$", min(token.start for token in {*first} ^ {*other}))
            message = "by a server's sql_mode a backslash may end a literal before this placeholder"
            raise placed(sql, at, message, "Pass the literal as a parameter too.")
    return first


def placed(sql: str, at: int, message: str, hint: str | None = None) -> InvalidArguments:
    """The error for a position in a statement, with `line` and `column` in its data, counted from 1."""
    line, column = line_and_column(sql, at)
    problem = InvalidArguments.at("/input/sql", f"line {line}, column {column}: {message}", hint=hint)
    problem.data["line"], problem.data["column"] = line, column
    return problem


def _unclosed(sql: str, at: int, mark: str) -> InvalidArguments:
    problem = placed(sql, at, f"{mark} is not closed")
    problem.data["unclosed"] = mark
    return problem


def line_and_column(sql: str, at: int) -> tuple[int, int]:
    """The line and column of a character of a statement, counted from 1."""
    return sql.count("\n", 0, at) + 1, at - (sql.rfind("\n", 0, at) + 1) + 1


def _too_many(limit: int) -> InvalidArguments:
    problem = InvalidArguments.at(
        "/input/sql", f"the statement has more than {limit:,} words and signs: MAX_TOKENS", hint="Pass values as params."
    )
    problem.data["limit"], problem.data["maximum"] = "MAX_TOKENS", limit
    return problem


PLACEHOLDERS_KEPT_OF: Final = 4096
"""Characters of a statement whose placeholders are kept."""

_SEVERAL: Final = re.compile(r"\$\d+", re.ASCII)
_NUMBERS: Final = re.compile(r"\$(\d{1,9})", re.ASCII)
"""No list has as many values as a number of nine digits says."""

_Placed: TypeAlias = tuple[int, int, tuple[int, ...]]


def split_at_placeholders(sql: str, dialect: SqlDialect, count: int) -> tuple[list[str], list[int]]:
    """The text before, between and after the placeholders, and the number of each; one text more than numbers.

    Literals, quoted names, comments and dollar-quoted strings hold no placeholders. Raises the errors of
    `check_placeholders` does.
    """
    texts: list[str] = []
    numbers: list[int] = []
    done = 0
    for start, end, found in _placed(sql, dialect):
        first, *others, _ = _SEVERAL.split(sql[start:end])
        texts += [sql[done:start] + first, *others]
        numbers += found
        done = end
    texts.append(sql[done:])
    _check(numbers, count)
    return texts, numbers


def without_names(sql: str, dialect: SqlDialect, count: int) -> tuple[str, list[int]]:
    """The statement with `?` in the place of each placeholder, and the number of each. Raises as `split_at_placeholders`."""
    texts: list[str] = []
    numbers: list[int] = []
    done = 0
    for start, end, found in _placed(sql, dialect):
        texts += [sql[done:start], _SEVERAL.sub("?", sql[start:end])]
        numbers += found
        done = end
    _check(numbers, count)
    return "".join(texts) + sql[done:], numbers


def check_placeholders(sql: str, dialect: SqlDialect, count: int) -> None:
    """Raise `InvalidArguments` for a placeholder that has no value among `count`, and for a value that no placeholder uses."""
    _check([number for _, _, found in _placed(sql, dialect) for number in found], count)


def _placed(sql: str, dialect: SqlDialect) -> tuple[_Placed, ...]:
    """Where placeholders stand one after another, and the number of each. A cache keeps those of repeated statements."""
    return (_kept if len(sql) <= PLACEHOLDERS_KEPT_OF else _found)(sql, dialect)


def _found(sql: str, dialect: SqlDialect) -> tuple[_Placed, ...]:
    return tuple(
        (token.start, token.start + len(token.text), tuple(map(int, _NUMBERS.findall(token.text))))
        for token in placeholders(sql, dialect)
    )


_kept: Final = lru_cache(maxsize=512)(_found)


def _check(numbers: Collection[int], count: int) -> None:
    used = set(numbers)
    for number in used:
        if not 1 <= number <= count:
            message = f"placeholder ${number} out of range for {count} param(s)"
            raise InvalidArguments(message, data={"errors": [{"path": "/input/sql", "message": message}]})
    if len(used) < count:
        unused = next(number for number in range(1, count + 1) if number not in used)
        raise InvalidArguments.at(
            f"/input/params/{unused - 1}", f"is used by no placeholder: ${unused} does not stand in the statement"
        )
