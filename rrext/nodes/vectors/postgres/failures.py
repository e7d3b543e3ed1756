"""Failures of PostgreSQL as errors of a vector store, in words without statements, parameters and secrets."""

from __future__ import annotations

from typing import Final

import psycopg

from rrext.errors import RrextError, ToolError, Unavailable
from rrext.nodes.databases.postgres import driver_sentence

NO_EXTENSION: Final = (
    "Let the database's owner run CREATE EXTENSION vector in it; the server needs the package of pgvector for that."
)

MISSING_TABLE: Final = frozenset({"42P01", "3F000"})
TRY_AGAIN: Final = frozenset({"40P01", "40001"})
"""A deadlock and a serialization failure: the transaction had no effect."""
ENDED: Final = frozenset({"57P01", "57P02", "57P03", "57P05"})
"""The server or its operator ended the connection."""

OWN_WORDS: Final[dict[str, tuple[str, str]]] = {
    "42501": ("not_permitted", "Let the database's owner GRANT this user what is missing, or use another user."),
    "25006": ("not_permitted", "This server or user only reads: use one that may write."),
    "54000": ("content_too_large", "Split the document into smaller chunks."),
    "53100": ("disk_full", "The server's disk is full: make room there."),
    "40P01": ("database_conflict", "Calls came into each other's way; nothing was changed. Call again."),
    "40001": ("database_conflict", "Calls came into each other's way; nothing was changed. Call again."),
}
"""States with a better message than the server's: state -> our code and hint."""


def is_missing_table(error: psycopg.Error) -> bool:
    """Whether a statement failed because its table or schema does not exist."""
    return error.sqlstate in MISSING_TABLE


def is_passing(error: psycopg.Error) -> bool:
    """Whether the same transaction may succeed now: it conflicted with another, and had no effect."""
    return error.sqlstate in TRY_AGAIN


def failure_of(error: psycopg.Error, place: str, *, lost: bool) -> RrextError:
    """The error for a statement's failure. `place` names the server; `lost`: the connection is gone too."""
    sentence = driver_sentence(error)
    state = error.sqlstate or ""
    if lost or state in ENDED:
        return ToolError(
            f"The connection to {place} was lost: {sentence}",
            code="connection_lost",
            hint="The next call connects again. A change may have been made or not; storing or deleting again does no harm.",
        )
    if state == "57014":
        return ToolError(f"{place} ended the statement: {sentence}", code="statement_cancelled")
    if _is_about_extension(state, sentence):
        return Unavailable(f"{place} has no pgvector: {sentence}", hint=NO_EXTENSION)
    code, hint = OWN_WORDS.get(state, ("database_failed", None))
    return ToolError(f"{place}: {sentence}", code=code, hint=hint)


def _is_about_extension(state: str, sentence: str) -> bool:
    """Whether the extension is missing: its package (two states, by version), its type, or the right to create it."""
    if state in {"58P01", "0A000", "42501"}:
        return 'extension "vector"' in sentence
    return state == "42704" and "vector" in sentence
