"""The problems of a pipeline file on a terminal: each with its place, its line and what helps; and what a file is that holds no
pipeline.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from itertools import islice
from shlex import quote
from typing import TYPE_CHECKING, Final, TextIO

from rrext.cli.console.lines import is_coloured, painted
from rrext.cli.console.output import unreadable
from rrext.columns import columns, one_line, printable
from rrext.limits import DEFAULTS

if TYPE_CHECKING:
    from rrext.pipefile.catalog.catalog import Catalog
    from rrext.pipefile.environment import Environment
    from rrext.pipefile.loaded_pipeline import LoadedPipeline
    from rrext.pipefile.text.problems import Span
    from rrext.pipefile.text.source import SourceMap
    from rrext.references import KnownConnection


RED, GREEN, YELLOW, CYAN, BOLD = "31", "32", "33", "36", "1"
SEVERITIES: Final = {"error": f"{BOLD};{RED}", "warning": f"{BOLD};{YELLOW}"}
"""The colours of problems on a terminal; others are cyan."""
MAX_LINE_WIDTH: Final = 120
"""Columns of a line of the file in the output; longer ones are cut around the problem."""


def read_file(path: str) -> bytes | None:
    """The content of a file, or of standard input for `-`; None after an error message if it cannot be read."""
    try:
        # not sys.stdin, which is None where it is closed
        with open(0 if path == "-" else path, "rb", closefd=path != "-") as file:
            return file.read(DEFAULTS.max_pipeline + 1)
    except OSError as error:
        print(unreadable(path, error), file=sys.stderr)
        return None


def print_problems(
    path: str,
    text: bytes,
    catalog: Catalog,
    environment: Environment,
    *,
    partial: bool = False,
    is_own: bool = True,
) -> None:
    """Write the problems that keep a pipeline from running, and all others, to stderr; with their lines if the text is the
    user's own, and not made of the words of a command.
    """
    if print_no_pipeline(path, text, sys.stderr):
        return
    loaded = load(text, catalog, environment, strict_env=True, partial=partial)
    print_found(path, loaded, sys.stderr, is_own=is_own)
    if loaded.remedy is not None:
        print(f"rrext: {path}: {printable(loaded.remedy)}", file=sys.stderr)


def load(
    text: str | bytes,
    catalog: Catalog,
    environment: Environment,
    known: Sequence[KnownConnection] | None = None,
    *,
    strict_env: bool = False,
    partial: bool = False,
) -> LoadedPipeline:
    from rrext.pipefile.pipeline_loader import load_pipeline

    return load_pipeline(text, catalog, environment, positions=True, strict_env=strict_env, partial=partial, connections=known)


def print_no_pipeline(path: str, content: bytes, file: TextIO) -> bool:
    """Write what a file is, if it is not even a broken pipeline, and return whether it is so."""
    reason = no_pipeline(path, content)
    if reason is not None:
        severity = painted("error", SEVERITIES["error"] if is_coloured(file) else None)
        print(f"{printable(path)}: {severity}: {printable(reason)}", file=file)
    return reason is not None


def print_found(path: str, loaded: LoadedPipeline, file: TextIO, *, is_own: bool = True) -> None:
    """Write every problem; with its position, its line of the text, and related positions if the text `is_own` to the user."""
    from rrext.pipefile.text.problems import related_places

    where, coloured, given, path = loaded.source_map if is_own else None, is_coloured(file), path, printable(path)
    secrets = [] if where is None else [where.span_of(found) for found in loaded.problems if found.code == "literal_secret"]
    for problem in loaded.problems:
        colour = SEVERITIES.get(problem.severity, CYAN) if coloured else None
        text = f"{painted(problem.severity, colour)}: {one_line(problem.message)} [{problem.code}]"
        if where is None:
            print(f"{path}: {text}", file=file)
            continue
        span = where.span_of(problem)
        line, column = where.position(span[0])
        print(f"{painted(f'{path}:{line}:{column}', BOLD if coloured else None)}: {text}", file=file)
        *before, mark = _excerpt(where, span, secrets) or ("",)
        for shown in before:
            print(shown, file=file)
        if mark:
            print(painted(mark, colour), file=file)
        if (
            problem.code == "unknown_provider"
            and not loaded.ignored
            and (beside := nodes_beside(given, where.text[slice(*span)].strip('"')))
        ):
            print(f"    {beside}", file=file)
        for other, other_span in related_places(problem, where):
            other_line, other_column = where.position(other_span[0])
            print(f"    {path}:{other_line}:{other_column}: {one_line(other['message'])}", file=file)


def _excerpt(where: SourceMap, span: Span, secrets: Sequence[Span]) -> tuple[str, ...]:
    """The line of a problem without secrets, and a line that marks the span in it; nothing of a blank line."""
    number, column = where.position(span[0])
    line, begin = where.line(number), span[0] - column + 1
    for first, last in ((max(start - begin, 0), min(end - begin, len(line))) for start, end in secrets):
        if first < last:  # a log may keep this, and the secret is in no variable that is redacted
            line = line[:first] + "*" * (last - first) + line[last:]
    if not line.strip():
        return ()
    start = column - 1
    end = min(start + max(span[1] - span[0], 1), max(len(line), start + 1))
    cut = 0 if len(line) <= MAX_LINE_WIDTH else max(0, start - MAX_LINE_WIDTH // 2)
    shown, end = line[cut : cut + MAX_LINE_WIDTH], min(end, cut + MAX_LINE_WIDTH)
    before = columns(one_line(line[cut:start]))
    mark = "^" * max(columns(one_line(line[start:end])), 1)
    gutter = f"{number:>5} | "
    rest = "…" if cut + MAX_LINE_WIDTH < len(line) else ""
    return gutter + one_line(shown) + rest, " " * (len(gutter) - 2) + "| " + " " * before + mark


def summary(loaded: LoadedPipeline) -> str:
    """The number of problems and components, in words."""
    counts = [(len(loaded.errors), "error"), (len(loaded.warnings), "warning")]
    found = ", ".join(counted(count, name) for count, name in counts if count)
    if loaded.spec is None:
        return found or "cannot be run"
    missing = sum(bool(component.missing) for component in loaded.spec.components)
    count = counted(len(loaded.spec.components), "component")
    return f"{found or 'ok'}, {count}{f', {missing} unavailable' if missing else ''}"


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


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


def no_pipeline(path: str, content: bytes) -> str | None:
    """The kind of a file that holds no pipeline, with advice; None if it may be a pipeline, also a broken one."""
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
            from rrext.cli.data_files import is_data

            asked = f"`rrext sql {quote(path)}` asks it; else n" if kind in ("a database", "a table") and is_data(path) else "N"
            advice = f"{asked}ame a pipeline with a node that reads it; `rrext init` writes a first one."
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


_LOOKED_AT: Final = 256 * 1024
"""Bytes of a module that are searched for a provider: more than hand-written modules have."""
_MOST_MODULES: Final = 100
"""How many modules of a folder are searched, so that a large one does not delay a message."""


def nodes_beside(path: str, provider: str) -> str | None:
    """Advice that names the Python file beside a pipeline which defines an unknown provider, or has its name."""
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
