"""The statements of the test suites of PostgreSQL, MariaDB and SQLite, out of the languages that those are written in.

What a script does by commands of its own program (variables, loops, other connections) is left out: then some of its statements
fail, for the driver as for rrext.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["READING", "TEMPORARY", "mysqltest", "psql", "tcl"]

READING: Final = re.compile(r"(?:\s|--[^\n]*(?:\n|\Z)|#[^\n]*\n|/\*[^!].*?\*/|\()*(?:select|with|values|table)\b", re.I | re.S)
"""The begin of a statement that may only read. Plans are left out: they are shown in another shape."""
TEMPORARY: Final = re.compile(r"\A(\s*create\s+(?:or\s+replace\s+)?)(?:local\s+|global\s+)?temp(?:orary)?\s+", re.I)
"""The begin of a statement that defines something for one connection alone."""

_PSQL: Final = re.compile(
    r"(?P<skip>--[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)|(?P<command>\\[^\n]*)|(?P<end>;)|(?P<open>\()|(?P<close>\))"
    r"|(?P<text>[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\$(?P<tag>(?:[A-Za-z_]\w*)?)\$.*?\$(?P=tag)\$)"
    r"|(?P<word>\w+)|(?P<other>.)",
    re.S,
)
_COPIES: Final = re.compile(r"copy\b.*\bfrom\s+stdin", re.IGNORECASE | re.DOTALL)
_ROWS_END: Final = re.compile(r"^\\\.$", re.MULTILINE)
_FILE: Final = re.compile(r"\\set filename :abs_srcdir '/([^']+)'")


def psql(text: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Each statement, and the rows that COPY reads behind it. `folder` has the files that it reads."""
    at = begun = depth = inside = 0
    last = file = ""
    while at < len(text):
        found = _PSQL.match(text, at)
        assert found is not None
        at = found.end()
        match found.lastgroup:
            case "command":
                file = named[1] if (named := _FILE.match(found[0])) else file
                begun, depth = at, 0
            case "skip" if not text[begun : found.start()].strip():
                begun = at
            case "open" | "close":
                depth += 1 if found[0] == "(" else -1
            case "word":
                word = found[0].lower()
                inside += (word == "atomic" and last == "begin") or (word == "case" and inside > 0)
                inside -= word == "end" and inside > 0
                last = word
            case "end" if depth <= 0 and not inside:
                statement, rows = text[begun : found.start()].strip(), ""
                if re.match(r"(?i)copy\b.*\bfrom\s+stdin", statement, re.S) and (
                    end := re.compile(r"^\\\.$", re.M).search(text, at)
                ):
                    rows, at = text[text.index("\n", at) + 1 : end.start()], end.end()
                elif (place := re.match(r"COPY (\w+) FROM :'filename'", statement)) is not None:
                    statement, rows = f"COPY {place[1]} FROM STDIN", (folder / file).read_text()
                yield statement, rows
                begun, depth = at, 0


_COMMANDS: Final = re.compile(
    r"(?:append_file|cat_file|ch(?:ange_user|aracter_set|mod)|connect(?:ion)?|copy_file|dec|die|dirty_close|(?:dis|en)able_\w+|"
    r"disconnect|echo|end|error|eval\w*|exec|exit|file_exists|if|inc|let|list_files|mkdir|move_file|ping|query\w*|reap|remove_file|"
    r"replace_(?:column|regex|result)|require|reset_connection|result_format|rmdir|send\w*|shutdown_server|skip|sleep|"
    r"sorted_result|source|(?:start|end)_timer|(?:vertical|horizontal)_results|wait_until_connected_again|while)\b"
)


def mysqltest(text: str) -> Iterator[str]:
    """Each statement. Lines of commands are left out, and statements with variables."""
    delimiter, held = ";", ""
    lines = iter(text.split("\n"))
    for line in lines:
        word = re.match(r"(?:--\s*)?(\w+)", line.strip())
        command = word[1].lower() if word else ""
        if not held and command == "delimiter":
            said = line.replace("--", "", 1).split()[1]
            delimiter = said.removesuffix(delimiter) or said
        elif not held and command in ("perl", "write_file", "append_file"):
            for other in lines:
                if other.strip() == "EOF":
                    break
        elif not held and (
            line.lstrip()[:1] in ("", "#", "}", "{") or line.lstrip()[:2] == "--" or _COMMANDS.fullmatch(command)
        ):
            continue
        else:
            held += f"{line}\n"
            if held.rstrip().endswith(delimiter):
                statement, held = held.rstrip().removesuffix(delimiter).strip(), ""
                if "$" not in statement:
                    yield statement


_BLOCK: Final = re.compile(r"(?:do_(?:execsql|catchsql)_test\s+\S+|execsql|catchsql|db\s+eval)\s*\{")
_BOUND: Final = re.compile(r"[$@]\w|(?<![:\w]):[A-Za-z]|\[\w+ ")


def tcl(text: str) -> Iterator[str]:
    """Each statement of the blocks of SQL, but those with variables."""
    for block in _BLOCK.finditer(text):
        at, depth = block.end(), 1
        while depth and at < len(text):
            depth += (text[at] == "{") - (text[at] == "}")
            at += 1
        held = ""
        for part in re.split(r"(?<=;)", text[block.end() : at - 1]):
            held += part
            if held.strip() and (sqlite3.complete_statement(held) or not part.endswith(";")):
                statement, held = held.strip().rstrip(";").strip(), ""
                if statement and not _BOUND.search(re.sub(r"'(?:[^']|'')*'", "''", statement)):
                    yield statement
