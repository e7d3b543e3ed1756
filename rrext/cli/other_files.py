"""Files that are no pipelines: the kind of a file that was given as a pipeline, and modules that may define its nodes."""

from __future__ import annotations

import os
import re
from itertools import islice
from shlex import quote
from typing import Final

from rrext.columns import printable

_BEGINS: Final = (
    (0, b"SQLite format 3\0", "a database"),
    (8, b"DUCK", "a database"),
    (0, b"PAR1", "a table"),
    (0, b"%PDF-", "a document"),
    (0, b"PK\x03\x04", "an archive"),
    (0, b"\x1f\x8b", "an archive"),
)
"""Bytes by which files of data are known, and where they stand; PK is also how the files of office programs begin."""
_ENDS: Final = {
    **dict.fromkeys((".db", ".sqlite", ".sqlite3", ".duckdb"), "a database"),
    **dict.fromkeys((".csv", ".tsv", ".parquet", ".xlsx", ".xls", ".ods"), "a table"),
    **dict.fromkeys((".txt", ".md", ".pdf", ".docx", ".html"), "a document"),
}
_LINES_OF_JSON: Final = (".ndjson", ".jsonl")
_PIPELINES: Final = (".pipe", ".json", ".jsonc", ".json5")
"""Ends of names whose texts are pipelines, however broken."""
_OF_JSON: Final = (b"{", b"[", b'"', b"/", b"")
"""First bytes of texts that may become a pipeline: those of a value, a comment, and none."""
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_LOOKED_AT: Final = 256 * 1024
"""Bytes of a module that are searched for a provider: more than hand-written modules have."""
_MOST_MODULES: Final = 100
"""How many modules of a folder are searched, so that a large one does not delay a message."""


def no_pipeline(path: str, content: bytes) -> str | None:
    """What is in a file instead of a pipeline, and what to do with it; None if it may be a pipeline, which may be broken."""
    if content.startswith(_UTF_16):
        return "This is a text in UTF-16, and a pipeline is UTF-8: save it as that."
    end = os.path.splitext(path)[1].lower()
    kind = _kind(end, content)
    if kind is None:
        return None
    match end:
        case ".py":
            advice = f"--nodes {quote(path)} loads the nodes that it defines, beside a pipeline."
        case ".sql":
            advice = f"`rrext sql FILE.pipe -f {quote(path)}` runs its statements."
        case _:
            advice = "Name a pipeline with a node that reads it; `rrext init` writes a first one."
    return f"This is {kind}, no pipeline. {advice}"


def _kind(end: str, content: bytes) -> str | None:
    for at, bytes_, kind in _BEGINS:
        if content.startswith(bytes_, at):
            return _ENDS.get(end, kind)
    if end in _LINES_OF_JSON:
        return "a table"
    if b"\0" in content:
        return _ENDS.get(end, "a binary file")
    if end in _PIPELINES or content.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in _OF_JSON:
        return None
    return {".py": "a program", ".sql": "a file of statements"}.get(end) or _ENDS.get(end, "a text")


def nodes_beside(path: str, provider: str) -> str | None:
    """Which Python file beside a pipeline defines a provider that is not known, or has its name, as advice."""
    folder = os.path.dirname(path)
    written = re.compile(rb"""\bprovider\s*(?::[^=\n]*)?=\s*["']%b["']""" % re.escape(provider.encode()))
    try:
        with os.scandir(folder or ".") as entries:
            modules = sorted(entry.name for entry in entries if entry.name.endswith(".py") and entry.is_file())
    except OSError:
        return None
    named = f"{provider}.py"
    for name in islice(sorted(modules, key=lambda name: name != named), _MOST_MODULES):
        beside = os.path.join(folder, name)
        try:
            with open(beside, "rb") as file:
                defines = written.search(file.read(_LOOKED_AT)) is not None
        except OSError:
            continue
        if defines or name == named:
            does = "defines it" if defines else "may define it"
            return printable(f"{beside} {does}: --nodes {quote(beside)} loads the nodes of a file.")
    return None
