"""The nodes and relationships that a statement will change, according to its text: the writing clauses and their targets.

Databases count set properties, or nothing at all. The number of elements that get other properties or labels is therefore
queried before the statement runs, in its transaction: with its own reading clauses, counting each found element once.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import msgspec

from rrext.errors import InvalidArguments
from rrext.nodes.graph.dialect import CypherToken, tokens

SETTING: Final = frozenset({"SET", "REMOVE"})
CREATING: Final = frozenset({"CREATE", "INSERT", "MERGE"})
DELETING: Final = frozenset({"DELETE", "DROP"})
DETACHING: Final = frozenset({"DETACH", "NODETACH"})
WRITING: Final = SETTING | CREATING | DELETING | DETACHING | {"FOREACH", "ON"}
ENDING: Final = frozenset({"RETURN", "FINISH"})
READING: Final = frozenset({"MATCH", "OPTIONAL", "WITH", "UNWIND", "CALL", "LOAD", "UNION", "LET", "FILTER"})
BY_CHANCE: Final = frozenset(
    {"LIMIT", "SKIP", "OFFSET", "RAND", "RANDOM", "RANDOMUUID", "GEN_RANDOM_UUID", "LOAD", "UNION", "CALL", "USE"}
)
"""Words before the writing clauses with which a second run may find other elements."""


class Effects(msgspec.Struct, frozen=True):
    """The effects of a statement. `sets` says that it gives elements that may have been there other properties or labels.

    `links` is false if it can neither create nor delete relationships. With `sets`, `finding` are its
    clauses that find these elements, which `targets` name; None if that cannot be told. `parameters` are those of `finding`.
    """

    creates: bool = False
    deletes: bool = False
    sets: bool = False
    links: bool = True
    finding: str | None = None
    targets: tuple[str, ...] = ()
    parameters: frozenset[str] = frozenset()

    @property
    def are_countable(self) -> bool:
        """Whether the number of changed elements can be counted."""
        return not self.sets or self.finding is not None


def effects_of(cypher: str) -> Effects:
    """The effects of a statement, according to its text."""
    try:
        pieces = tokens(cypher)
    except InvalidArguments:  # a server may know more of Cypher
        return Effects(creates=True, deletes=True, sets=True)
    return _Reading(cypher, pieces).effects()


class _Clause(msgspec.Struct, frozen=True):
    """A clause outside of all brackets: its first word, and its tokens from `start` to before `end`."""

    word: str
    start: int
    end: int


class _Reading:
    """The reading of one statement."""

    def __init__(self, cypher: str, pieces: list[CypherToken]) -> None:
        self.cypher = cypher
        self.pieces = pieces
        self.clauses: list[_Clause] = []
        self.known: set[str] = set()  # variables that the reading clauses bind
        self.created: set[str] = set()
        self.merged: set[str] = set()  # those of the preceding MERGE
        self.found: list[str] = []  # parts of the text that find existing elements
        self.targets: dict[str, None] = {}

    def effects(self) -> Effects:
        """The effects of the statement."""
        words, is_nested = self._divided()
        if self.clauses and self.clauses[0].word == "EXPLAIN":
            return Effects()
        deletes = bool(words & DELETING)
        links = deletes or any(token.value == "-" and token.kind == "symbol" for token in self.pieces)
        does = Effects(creates=bool(words & CREATING), deletes=deletes, sets=bool(words & SETTING), links=links)
        if not does.sets:
            return does
        if is_nested or does.deletes or not self._is_told():
            return does
        if not self.targets:
            return msgspec.structs.replace(does, sets=False)
        finding = "\n".join(self.found)
        names = {token.value for token in tokens(finding) if token.kind == "parameter"}
        return msgspec.structs.replace(does, finding=finding, targets=tuple(self.targets), parameters=frozenset(names))

    def _divided(self) -> tuple[set[str], bool]:
        """Divide into clauses. Returns the writing words, and whether one of them that sets properties is within brackets."""
        starts: list[tuple[str, int]] = []
        words: set[str] = set()
        is_nested = False
        depth = 0
        for at, token in enumerate(self.pieces):
            if token.kind == "symbol":
                depth += (token.value in "([{") - (token.value in ")]}")
            word = token.keyword
            if not word or self._is_name(at):
                continue
            if word in SETTING or word in CREATING or word in DELETING:
                words.add(word)
                is_nested = is_nested or (depth > 0 and word in SETTING)
            begins = word in WRITING or word in READING or word in ENDING or word in ("EXPLAIN", "PROFILE")
            if depth == 0 and begins and not self._goes_on(at, word):
                starts.append((word, at))
        ends = [*(at for _, at in starts[1:]), len(self.pieces)]
        self.clauses = [_Clause(word, at, end) for (word, at), end in zip(starts, ends, strict=True)]
        return words, is_nested

    def _is_name(self, at: int) -> bool:
        before = self.pieces[at - 1] if at else None
        after = self.pieces[at + 1] if at + 1 < len(self.pieces) else None
        if before is not None and (before.keyword == "AS" or (before.kind == "symbol" and before.value in ".:")):
            return True
        return after is not None and after.kind == "symbol" and after.value == ":"

    def _goes_on(self, at: int, word: str) -> bool:
        """Whether the word belongs to the clause before, as in ON CREATE SET, STARTS WITH, and JOIN ON."""
        before = self.pieces[at - 1].keyword if at else ""
        if word == "ON":
            return at + 1 >= len(self.pieces) or self.pieces[at + 1].keyword not in ("CREATE", "MATCH")
        if word == "WITH":
            return before in ("STARTS", "ENDS")
        if word in ("CREATE", "MATCH"):
            return before == "ON"
        return word == "SET" and at > 1 and self.pieces[at - 2].keyword == "ON"

    def _is_told(self) -> bool:
        """Read the clauses; return whether the set elements are known."""
        writes = [at for at, clause in enumerate(self.clauses) if clause.word in WRITING]
        first = writes[0]
        before, after = self.clauses[:first], self.clauses[first:]
        start = 0
        if before and before[0].word == "PROFILE":
            start = before[0].start + 1
        reading = self.pieces[start : after[0].start]
        if any(token.keyword in BY_CHANCE for token in reading) or any(clause.word in READING for clause in after):
            return False
        self.known = {token.value for token in reading if token.kind in ("word", "name")}
        if reading:
            self.found.append(self.cypher[reading[0].position : self._position(after[0].start)])
        return all(self._is_clear(clause) for clause in after if clause.word not in ENDING)

    def _is_clear(self, clause: _Clause) -> bool:
        match clause.word:
            case "CREATE" | "INSERT":
                self.created |= self._variables(clause) - self.known
                return True
            case "MERGE":
                variables = self._variables(clause)
                if variables & self.created:
                    return False
                self.merged = variables - self.known
                self.known |= variables
                pattern = self.cypher[self._position(clause.start + 1) : self._position(clause.end)]
                self.found.append(f"OPTIONAL MATCH {pattern}")
                return True
            case "ON":
                return self._is_clear_behind_merge(clause)
            case "SET" | "REMOVE":
                return self._are_targets(clause.start + 1, clause.end)
            case _:
                return False

    def _is_clear_behind_merge(self, clause: _Clause) -> bool:
        names = self._named(clause.start + 3, clause.end)
        if names is None or not names <= self.merged:
            return False
        if self.pieces[clause.start + 1].keyword == "MATCH":
            self.targets |= dict.fromkeys(sorted(names))
        return True

    def _are_targets(self, start: int, end: int) -> bool:
        names = self._named(start, end)
        if names is None or not names <= self.known | self.created:
            return False
        self.targets |= dict.fromkeys(sorted(names - self.created))
        return True

    def _named(self, start: int, end: int) -> set[str] | None:
        """The variables at the begin of items of SET or REMOVE; None if an item begins otherwise."""
        names: set[str] = set()
        depth, is_first = 0, True
        for token in self.pieces[start:end]:
            if is_first:
                if token.kind not in ("word", "name"):
                    return None
                names.add(token.value)
            is_first = depth == 0 and token.kind == "symbol" and token.value == ","
            if token.kind == "symbol":
                depth += (token.value in "([{") - (token.value in ")]}")
        return names

    def _variables(self, clause: _Clause) -> set[str]:
        """The names at positions where a pattern binds variables: after a bracket, and before an equals sign."""
        found: set[str] = set()
        for before, token in pairwise(self.pieces[clause.start : clause.end]):
            if token.kind not in ("word", "name"):
                continue
            if before.kind != "symbol" or before.value in "([,":
                found.add(token.value)
        return found

    def _position(self, at: int) -> int:
        return self.pieces[at].position if at < len(self.pieces) else len(self.cypher)
