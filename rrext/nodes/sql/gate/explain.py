"""The query behind `EXPLAIN` and its options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rrext.nodes.databases.word_lists import words
from rrext.nodes.sql.gate.tokens import NAME, NUMBER, STRING, WORD, SqlToken

EXPLAIN_WORDS: Final = words(
    """analyze analyse verbose costs settings generic_plan buffers serialize wal timing summary memory format text json xml yaml
    html graphviz mermaid tree query_tree query_tree_optimizer no_output default traditional on off true false none binary
    extended partitions query plan"""
)
"""Words between `EXPLAIN` and the query. Some databases run the query for it; a query that only reads may run."""


def _sign(tokens: Sequence[SqlToken], index: int) -> str:
    return tokens[index].kind if index < len(tokens) else ""


def query_after_explain(explains: frozenset[str], tokens: Sequence[SqlToken]) -> int:
    """The position of the query after `EXPLAIN …`; 0 if the statement does not begin with that."""
    first = tokens[0].text if tokens[0].kind == WORD else ""
    if first not in explains or (first == "analyze" and len(tokens) > 1 and tokens[1].text == "table"):
        return 0
    at = 1
    while at < len(tokens) and (
        tokens[at].kind == "="
        or (tokens[at].kind in (STRING, NAME) and tokens[at - 1].kind == "=")
        or (tokens[at].kind == WORD and tokens[at].text in EXPLAIN_WORDS)
    ):
        at += 1
    end = at + (_sign(tokens, at) == "(")
    while end < len(tokens) and (
        tokens[end].kind in (",", STRING, NUMBER) or (tokens[end].kind == WORD and tokens[end].text in EXPLAIN_WORDS)
    ):
        end += 1
    return end + 1 if end > at and _sign(tokens, end) == ")" else at
