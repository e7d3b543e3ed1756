"""The read-only gate: accepts a Cypher statement only if every part of it is known to read.

The gate does not rely on a list of forbidden words. Every word where a clause or an operator can stand has to be one that
it knows, and every function and procedure has to be on a list of those that only read. It judges and changes nothing: the
database gets the caller's text. The database refuses writes in a second place: Neo4j by the access mode of the transaction,
Ladybug by a read-only transaction. Prefixes of a statement that reads are known too: EXPLAIN, PROFILE, CYPHER, and SHOW.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from rrext.errors import InvalidArguments, ToolError
from rrext.nodes.graph.dialect import (
    AFTER_OPERAND,
    CLAUSES,
    HINTS,
    OPERANDS,
    PATH_MODES,
    SHOWN,
    SHOWN_KINDS,
    TYPES,
    WRITING,
    CypherDialect,
    CypherToken,
    tokens,
)

STATEMENT_MAX: Final = 100_000
"""Characters of a statement: more is data, which belongs into parameters."""

NESTING_MAX: Final = 50
"""Brackets within brackets, or NOT after NOT. Ladybug reads by recursion: some hundred more end the process."""

CASES_MAX: Final = 12
"""CASE within CASE: each further CASE about doubles the time that Ladybug needs to read a statement. Nothing stops Ladybug
while it reads."""

STATEMENTS_REMEMBERED: Final = 256
"""Statements whose check is cached."""

NAMES_MAX: Final = 16
"""Parts that the name of a function or procedure may have."""

OPENING: Final = {"(": ")", "[": "]", "{": "}"}
SUBQUERIES: Final = ("EXISTS", "COUNT", "COLLECT", "CALL")


class ReadingCypher(msgspec.Struct, frozen=True):
    """A statement that only reads: the caller's `text`, and the names of its parameters in order.

    `is_plan`: the statement begins with EXPLAIN or PROFILE, so that its answer is a plan.
    """

    text: str
    parameters: tuple[str, ...]
    is_plan: bool = False


@lru_cache(maxsize=STATEMENTS_REMEMBERED)
def read_only(
    cypher: str, dialect: CypherDialect, functions: tuple[str, ...] = (), procedures: tuple[str, ...] = ()
) -> ReadingCypher:
    """Check that the statement only reads.

    `functions` and `procedures` are further ones that may be called, by their full names; a name that ends in `.*` means
    all that begin so. Raises `InvalidArguments` for text that is no clear Cypher, and `ToolError` with the code
    `not_read_only`.
    """
    pieces = single(cypher)
    start, is_plan = beginning(pieces, dialect)
    _Gate(pieces, start, dialect, functions, procedures).check()
    names = dict.fromkeys(token.value for token in pieces if token.kind == "parameter")
    return ReadingCypher(cypher, tuple(names), is_plan)


def single(cypher: str, path: str = "/input/query") -> list[CypherToken]:
    """The tokens of one statement, without the semicolon at its end. Raises `InvalidArguments` for none or several."""
    if len(cypher) > STATEMENT_MAX:
        raise InvalidArguments.at(path, f"is longer than {STATEMENT_MAX} characters: give data as parameters")
    pieces = tokens(cypher, path)
    if pieces and pieces[-1].value == ";":
        pieces.pop()
    if not pieces:
        raise InvalidArguments.at(path, "holds no statement")
    _check_nesting(pieces, path)
    return pieces


def _check_nesting(pieces: list[CypherToken], path: str) -> None:
    """Raise `InvalidArguments` for several statements, and for one that is nested more deeply than a database can read."""
    brackets = cases = negations = 0
    for token in pieces:
        if token.kind == "symbol":
            value = token.value
            if value in "([{":
                brackets += 1
            elif value in ")]}":
                brackets -= 1
            elif value == ";":
                raise InvalidArguments.at(path, "holds several statements: send them one by one")
            negations = 0
        elif word := token.keyword:
            negations = negations + 1 if word == "NOT" else 0
            if word == "CASE":
                cases += 1
            elif word == "END":
                cases = max(0, cases - 1)
        else:
            negations = 0
            continue
        if brackets > NESTING_MAX or negations > NESTING_MAX or cases > CASES_MAX:
            raise InvalidArguments.at(
                path, f"is nested too deeply: {NESTING_MAX} brackets or NOTs and {CASES_MAX} CASEs may be within each other"
            )


class _Gate:
    """The check of one statement, token by token."""

    def __init__(
        self,
        pieces: list[CypherToken],
        start: int,
        dialect: CypherDialect,
        functions: tuple[str, ...],
        procedures: tuple[str, ...],
    ) -> None:
        self.pieces = pieces
        self.functions = (dialect.functions, tuple(name.lower() for name in functions))
        self.procedures = (dialect.procedures, tuple(name.lower() for name in procedures))
        self.open: list[str] = []
        self.at = start
        self.is_alias = False  # whether AS stands before, and is no name itself

    def check(self) -> None:
        """Raise if any token is not known to read."""
        is_complete = True  # whether the expression so far is complete, so that only a known word may follow
        pieces = self.pieces
        while self.at < len(pieces):
            token = pieces[self.at]
            kind = token.kind
            if kind == "symbol":
                self.is_alias = False
                is_complete = self._symbol(token.value, is_complete)
            elif kind in ("string", "number", "parameter"):
                self.is_alias = False
                is_complete = True
            elif self._is_name(token):
                self.is_alias = False
                if is_complete:  # else what stands before could be a clause that was taken for a name
                    raise self._refusal(token, f'no name can stand after what comes before "{token.value}"')
                self._called(token)
                is_complete = True
            else:
                self.is_alias = is_complete and token.keyword == "AS"
                is_complete = self._word(token, is_complete)
            self.at += 1
        if self.open:
            raise InvalidArguments.at("/input/query", f'a "{self.open[-1]}" is missing at the end')

    def _symbol(self, value: str, is_complete: bool) -> bool:
        """Check a bracket or operator; return whether the expression before the next token is complete."""
        if value in "([{":
            self.open.append(OPENING[value])
            return value == "{" and self._begins_subquery()
        if value in ")]}":
            if not self.open or self.open.pop() != value:
                raise InvalidArguments.at("/input/query", f'a "{value}" closes what was not opened')
            return True
        if value == "*":  # `RETURN *` and `count(*)` are complete; `a * b` goes on
            return not is_complete
        return False

    def _begins_subquery(self) -> bool:
        """Whether the brace here begins a subquery, whose first word is a clause, and not a map or a pattern."""
        first, second = self._token(1), self._token(2)
        if first is None or first.kind != "word":
            return False
        return not (second is not None and second.kind == "symbol" and second.value in ":,}.-=")

    def _is_name(self, token: CypherToken) -> bool:
        """Whether this token can only be a name: after a dot, a colon or AS, and before a map's value."""
        if token.kind != "word":
            return token.kind == "name"
        if self.is_alias:
            return True
        before = self._token(-1)
        if before is None or before.kind != "symbol" or before.value not in ".:":
            return False
        further = self._token(-2)
        return further is None or further.kind != "symbol" or further.value not in ".:"

    def _word(self, token: CypherToken, is_complete: bool) -> bool:
        """Check a word that may be a keyword; return whether the expression before the next token is complete then."""
        word = token.keyword
        if word in WRITING:
            raise self._refusal(token, f"{word} changes the graph, or reads files")
        if word == "CALL":
            return self._call(token)
        if is_complete:
            if word == "USING":
                return self._hint(token)
            if word in TYPES:
                return True
            if word not in AFTER_OPERAND:
                raise self._refusal(token, f'"{token.value}" is nothing that a read-only statement can go on with')
            return self._after(word)
        if word in CLAUSES or word in AFTER_OPERAND or word in ("CASE", "DISTINCT"):
            return self._after(word)
        if word in OPERANDS:
            return True
        if word in PATH_MODES or (word in ("ALL", "ANY") and self._precedes(PATH_MODES)):
            return False
        if self._follows("{") and word in SUBQUERIES:
            return False
        self._called(token)
        return True

    def _after(self, word: str) -> bool:
        """Whether the expression before the next token is complete after a known keyword."""
        if word == "UNION":
            following = self._token(1)
            if following is not None and following.keyword in ("ALL", "DISTINCT"):
                self.at += 1
            return True
        return word in OPERANDS or word == "OPTIONAL"

    def _hint(self, token: CypherToken) -> bool:
        """Check USING INDEX, SCAN or JOIN: words of hints, a variable, and the indexed label and properties."""
        while (word := self._keyword(1)) in HINTS:
            self.at += 1
        named = self._token(1)
        if self.pieces[self.at] is token or named is None or named.kind not in ("word", "name") or named.keyword in WRITING:
            raise self._refusal(token, f"USING {word or ''} is no hint that is known")
        if self._is_symbol(2, ":"):
            self.at += 2
            if self._is_symbol(2, "("):
                self.at += 2
                while (inner := self._token(1)) is not None and (inner.kind in ("word", "name") or inner.value in ",."):
                    self.at += 1
                if not self._is_symbol(1, ")"):
                    raise self._refusal(token, "the hint has more than the names of properties in its brackets")
        self.at += 1
        return True

    def _call(self, token: CypherToken) -> bool:
        """Check CALL: of a subquery, whose clauses are checked as all others, or of a procedure that only reads."""
        following = self._token(1)
        if following is not None and following.kind == "symbol" and following.value in "({":
            return False
        name = self._dotted(1)
        if not _allowed(name, self.procedures):
            raise self._refusal(
                token, f'the procedure "{name}" is not known to only read', "The operator can allow it: allowed_procedures."
            )
        self.at += name.count(".") * 2 + 1
        return True

    def _dotted(self, offset: int) -> str:
        """The dotted name that begins here; no name with a dot inside of backticks is known."""
        parts: list[str] = []
        while len(parts) < NAMES_MAX and (token := self._token(offset)) is not None and token.kind in ("word", "name"):
            parts.append(token.value.replace(".", "\0"))
            following = self._token(offset + 1)
            if following is None or following.kind != "symbol" or following.value != ".":
                break
            offset += 2
        return ".".join(parts)

    def _called(self, token: CypherToken) -> None:
        """Check the function, if one is called here: it may only compute."""
        if not self._follows("("):
            return
        parts = [token.value.replace(".", "\0")]
        back = -1
        while len(parts) <= NAMES_MAX and (dot := self._token(back)) is not None and dot.value == "." and dot.kind == "symbol":
            before = self._token(back - 1)
            parts.append(before.value.replace(".", "\0") if before is not None else "")
            back -= 2
        name = ".".join(reversed(parts))
        if not _allowed(name, self.functions):
            raise self._refusal(
                token, f'the function "{name}" is not known to only read', "The operator can allow it: allowed_functions."
            )

    def _follows(self, symbol: str) -> bool:
        return self._is_symbol(1, symbol)

    def _is_symbol(self, offset: int, symbol: str) -> bool:
        following = self._token(offset)
        return following is not None and following.kind == "symbol" and following.value == symbol

    def _keyword(self, offset: int) -> str:
        following = self._token(offset)
        return "" if following is None else following.keyword

    def _precedes(self, words: frozenset[str]) -> bool:
        following = self._token(1)
        return following is not None and following.keyword in words

    def _token(self, offset: int) -> CypherToken | None:
        index = self.at + offset
        return self.pieces[index] if 0 <= index < len(self.pieces) else None

    def _refusal(self, token: CypherToken, why: str, hint: str | None = None) -> ToolError:
        return ToolError(
            f"This statement is not read-only: {why}",
            code="not_read_only",
            hint=hint or 'If it is a name, put it in backticks. What changes the graph goes through "execute".',
            data={"position": token.position},
        )


def _allowed(name: str, lists: tuple[frozenset[str], tuple[str, ...]]) -> bool:
    known, further = lists
    lowered = name.lower()
    if lowered in known or lowered in further:
        return True
    return any(rule.endswith(".*") and lowered.startswith(rule[:-1]) for rule in further)


_GOES_ON: Final = frozenset({"YIELD", "WHERE", "RETURN"})


def beginning(pieces: list[CypherToken], dialect: CypherDialect) -> tuple[int, bool]:
    """The position of a statement's first clause, and whether its answer is a plan.

    Raises `ToolError` (`not_read_only`) for SHOW of objects that are not known to be harmless.
    """
    at, is_plan = 0, False
    if dialect.options and _word(pieces, at) == "CYPHER":
        at = _after_options(pieces, at + 1)
    if _word(pieces, at) in ("EXPLAIN", "PROFILE") and at + 1 < len(pieces):
        is_plan = True
        at += 2 if dialect.logical_plans and _word(pieces, at + 1) == "LOGICAL" else 1
    if dialect.shows and _word(pieces, at) == "SHOW":
        at = _after_show(pieces, at + 1)
    return at, is_plan


def _word(pieces: list[CypherToken], at: int) -> str:
    return pieces[at].keyword if at < len(pieces) else ""


def _after_options(pieces: list[CypherToken], at: int) -> int:
    """The position after the version and options of a query, as `CYPHER 25 runtime=slotted`."""
    if at < len(pieces) and pieces[at].kind == "number":
        at += 1
    while at + 2 < len(pieces) and pieces[at].kind == "word" and pieces[at + 1].value == "=":
        at += 3
    return at


def _after_show(pieces: list[CypherToken], at: int) -> int:
    """The position after the object of SHOW: YIELD, WHERE or the end."""
    start = at
    words: set[str] = set()
    while at < len(pieces) and (word := pieces[at].keyword) not in _GOES_ON:
        if word not in SHOWN:
            break
        words.add(word)
        at += 1
    if not words & SHOWN_KINDS or (at < len(pieces) and pieces[at].keyword not in _GOES_ON):
        shown = pieces[min(at, len(pieces) - 1)]
        raise ToolError(
            f'This statement is not read-only: SHOW of "{shown.value}" is not known to only read',
            code="not_read_only",
            hint=f"Known are {', '.join(sorted(SHOWN_KINDS))}.",
            data={"position": pieces[start - 1].position},
        )
    return at
