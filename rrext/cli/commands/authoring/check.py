"""`rrext check`: all problems of pipeline files with their positions, and `--fix`: the same edits as "fix all" of an editor."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from rrext.cli.console.exit_codes import EXIT_USAGE
from rrext.cli.console.lines import is_coloured, painted
from rrext.cli.options import (
    Command,
    add_partial_option,
    add_pipeline_options,
    catalog_from,
    connections_from,
    let_words_follow_options,
    packages_from,
    root_from,
)
from rrext.cli.pipeline_problems import (
    CYAN,
    GREEN,
    RED,
    SEVERITIES,
    counted,
    load,
    no_pipeline,
    print_found,
    print_no_pipeline,
    read_file,
    summary,
)
from rrext.columns import one_line, printable
from rrext.errors import RrextError, UsageError

if TYPE_CHECKING:
    from rrext.connections import Connections
    from rrext.pipefile.catalog.catalog import Catalog
    from rrext.pipefile.environment import Environment
    from rrext.pipefile.loaded_pipeline import LoadedPipeline
    from rrext.references import KnownConnection


DESCRIPTION = "List everything that keeps pipeline files from running here. No node is set up, and nothing runs."
EXAMPLE = """example:
  rrext check pipeline.pipe
  rrext check --diff pipeline.pipe
  rrext check --fix *.pipe
  rrext check --json *.pipe | jq -r '.problems[].message'
  rrext check --connections servers.toml pipeline.pipe

--fix changes what has one obvious answer, as "fix all" of an editor: broken punctuation, names with one near match. Comments
stay. The rest is listed. With - the text after the fixes goes to stdout, and the list to stderr.

It also finds what this machine lacks: packages, with the line that installs them, files that settings name, values of ${NAME},
packages of Python programs that --python-package does not offer, tools that cannot be described. For that it asks the nodes'
code; it runs no pipeline, connects to nothing and makes no file.
With --no-probe only the text counts, and a ${NAME} without a value is a warning.

Exit code 0: all files can be run here. 2: at least one cannot, or cannot be read. Warnings alone do not count.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("files", nargs="*", metavar="FILE.pipe", help="a pipeline; - reads standard input")
    parser.add_argument("--no-probe", action="store_true", help="check the text alone, not what this machine lacks")
    parser.add_argument("--json", action="store_true", help="one line of JSON per file: {file, valid, problems}")
    changes = parser.add_mutually_exclusive_group()
    changes.add_argument("--fix", action="store_true", help="correct what has one obvious answer, in the files; list the rest")
    changes.add_argument("--diff", action="store_true", help="show what --fix would change, as a unified diff; change nothing")
    add_pipeline_options(parser)
    add_partial_option(parser)
    let_words_follow_options(parser, "files")


def run(args: argparse.Namespace) -> int:
    """Check the files; 2 if one of them cannot be run."""
    from rrext.pipefile.environment import Environment
    from rrext.references import KnownConnection

    total = _Total()
    connections = None
    if args.connections is not None:
        connections = _check_connections(args, total)
    elif not args.files:
        raise UsageError("name a pipeline to check, or a file of connections: --connections FILE.toml")
    variables = () if connections is None else connections.variables
    environment, catalog = Environment.taken_from_process(args.env, also=variables), catalog_from(args)
    packages_from(args)
    known = None if connections is None else tuple(KnownConnection(*told) for told in connections.known_connections())
    for path in args.files:
        total.add(_check_file(args, path, catalog, environment, known))
    if total.files > 1 and not args.json:
        print(f"total: {total}", file=sys.stderr)
    return EXIT_USAGE if total.invalid else 0


CHECK = Command(DESCRIPTION, EXAMPLE, add_arguments, run)


def _check_file(
    args: argparse.Namespace,
    path: str,
    catalog: Catalog,
    environment: Environment,
    known: tuple[KnownConnection, ...] | None,
) -> LoadedPipeline | None:
    """Write the problems of a file; None if it cannot be read, or is no pipeline."""
    text, where = read_file(path), sys.stderr if args.fix and path == "-" else sys.stdout
    if text is None or (not args.json and print_no_pipeline(path, text, where)):
        return None
    if args.fix or args.diff:
        text = _fixed(args, path, text, catalog, environment, known)
        if text is None:
            return None
    loaded = load(text, catalog, environment, known, strict_env=not args.no_probe, partial=args.partial)
    if not args.no_probe:
        _probe(loaded, path, environment, args)
    if args.json:
        _print_json(path, loaded)
        return loaded
    if not args.diff:
        print_found(path, loaded, where)
    print(f"{printable(path)}: {summary(loaded)}", file=sys.stderr)
    if loaded.remedy is not None:
        print(f"{printable(path)}: {printable(loaded.remedy)}", file=sys.stderr)
    return loaded


def _check_connections(args: argparse.Namespace, total: _Total) -> Connections | None:
    """Write the problems of the file of connections; None if it cannot be read."""
    path, connections = args.connections, None
    try:
        connections = connections_from(args)
        found = [(problem.line, problem.message, problem.path) for problem in connections.problems]
        if not args.no_probe:
            found += [(None, message, pointer) for message, pointer in _missing_programs(connections)]
    except RrextError as error:
        found = [(None, error.message.removeprefix(f"{path}: "), "")]
    total.add_connections(len(found))
    if args.json:
        problems = [
            {"code": "connection_invalid", "severity": "error", "message": message, "path": pointer}
            | ({} if line is None else {"line": line})
            for line, message, pointer in found
        ]
        print(msgspec.json.encode({"file": path, "valid": not found, "problems": problems}).decode())
        return connections
    for line, message, pointer in found:
        place = printable(path if line is None else f"{path}:{line}")
        text = one_line(f"{pointer}: {message}" if pointer else message)
        severity = painted("error", SEVERITIES["error"] if is_coloured(sys.stdout) else None)
        print(f"{place}: {severity}: {text} [connection_invalid]")
    said = "" if connections is None else f", {counted(len(connections), 'connection')}"
    print(f"{printable(path)}: {counted(len(found), 'error') if found else 'ok'}{said}", file=sys.stderr)
    return connections


def _missing_programs(connections: Connections) -> Iterator[tuple[str, str]]:
    """A message for each command that this machine does not have, with the pointer of its setting."""
    from shutil import which

    from rrext.connections import McpSettings
    from rrext.pipefile.text.problems import pointer

    for connection in connections:
        settings = connection.settings
        if not (connection.active and isinstance(settings, McpSettings) and settings.command) or "PATH" in settings.env:
            continue  # a search path that may be a secret is not read here
        if which(settings.command[0]) is None:
            text = f'there is no program "{settings.command[0]}" on this machine'
            yield f"{text}: install it, or name it with its whole path", pointer(connection.name, "command")


class _Total:
    """The numbers of files, errors and warnings of one run."""

    def __init__(self) -> None:
        self.files = self.invalid = self._errors = self._warnings = 0

    def add(self, loaded: LoadedPipeline | None) -> None:
        """Count a file; None for a file that cannot be read."""
        self.files += 1
        self.invalid += loaded is None or loaded.spec is None
        if loaded is not None:
            self._errors += len(loaded.errors)
            self._warnings += len(loaded.warnings)

    def add_connections(self, errors: int) -> None:
        """Count a file of connections."""
        self.files += 1
        self.invalid += errors > 0
        self._errors += errors

    def __str__(self) -> str:
        able = "all can be run" if not self.invalid else f"{self.invalid} cannot be run"
        return f"{self.files} files, {able}; {counted(self._errors, 'error')}, {counted(self._warnings, 'warning')}"


def _fixed(
    args: argparse.Namespace,
    path: str,
    content: bytes,
    catalog: Catalog,
    environment: Environment,
    known: tuple[KnownConnection, ...] | None,
) -> bytes | None:
    """Fix a file, or show how: its content to check. None after an error message."""

    after = None if no_pipeline(path, content) else fixed_text(content, catalog, environment, known)
    if args.diff:
        if after is not None:
            _print_diff(diff_lines(path, content.decode(), after))
        return content
    if path == "-":
        sys.stdout.buffer.write(content if after is None else after.encode())
    elif after is not None:
        try:
            replace_content(path, content, after)
        except OSError as error:
            print(f"rrext: {printable(path)}: {error.strerror}", file=sys.stderr)
            return None
        print(f"{printable(path)}: fixed", file=sys.stderr)
    return content if after is None else after.encode()


def _print_diff(lines: Iterator[str]) -> None:
    colours = {"+": GREEN, "-": RED, "@": CYAN} if is_coloured(sys.stdout) else {}
    for line in lines:
        shown = one_line(line.replace("\t", "    ")) if sys.stdout.isatty() else line
        print(painted(shown, colours.get(line[:1])))


def _probe(loaded: LoadedPipeline, path: str, environment: Environment, args: argparse.Namespace) -> None:
    """Add what keeps a pipeline from running on this machine to its problems; it keeps none that runs in part."""
    from rrext.engine.tasks.probe import folder_of, probe

    root = root_from(args)
    found = probe(loaded, directory=root or folder_of(path), confined=root is not None, packages=args.python_packages)
    if args.partial:
        found = [msgspec.structs.replace(problem, severity="warning") for problem in found]
    if found:
        loaded.add(problem.rewritten(environment.redactor.text) for problem in found)


def _print_json(path: str, loaded: LoadedPipeline) -> None:
    from rrext.pipefile.text.problems import located

    problems = [located(problem, loaded.source_map) for problem in loaded.problems]
    name = os.fsencode(path).decode(errors="backslashreplace")
    line = msgspec.json.encode({"file": name, "valid": loaded.spec is not None, "problems": problems})
    print(line.decode())


def fixed_text(
    content: bytes, catalog: Catalog, environment: Environment, connections: tuple[KnownConnection, ...] | None = None
) -> str | None:
    """The text after all fixes that have one obvious answer; None without any, as for bytes that are not UTF-8."""
    from rrext.editor.analysis import AnalysisSettings, analyse
    from rrext.editor.fixes.table import fix_all_edits, is_safe
    from rrext.editor.text import applied

    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    analysis = analyse(text, AnalysisSettings(catalog, environment, trusted=True, connections=connections))
    if analysis.text != text:  # too large: nothing of it was read
        return None
    edits = fix_all_edits(analysis, is_safe)
    return applied(text, edits) if edits else None


def replace_content(path: str, before: bytes, text: str) -> None:
    """Write a file whole or not at all, with owner and permissions of the old one; a link stays a link.

    Raises `OSError`, also if the content is not `before` any more: an editor may have saved it meanwhile.
    """
    import signal

    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))  # Ctrl-C would leave the temporary file
    try:
        _replace(os.path.realpath(path), before, text)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _replace(path: str, before: bytes, text: str) -> None:
    import errno
    from tempfile import mkstemp

    old = os.stat(path)
    fd, temporary = mkstemp(prefix=f".{os.path.basename(path)}.", dir=os.path.dirname(path))
    try:
        with open(fd, "wb") as file:
            if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(fd, old.st_uid, old.st_gid)
            os.fchmod(fd, old.st_mode & 0o7777)
            file.write(text.encode())
            file.flush()
            os.fsync(fd)
        with open(path, "rb") as file:
            if file.read(len(before) + 1) != before:
                raise OSError(errno.EBUSY, "it has changed meanwhile, and is not written")
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def diff_lines(path: str, before: str, after: str) -> Iterator[str]:
    """The lines of a unified diff, as `patch` reads it."""
    from difflib import unified_diff

    for line in unified_diff(_lines(before), _lines(after), path, path):
        yield line.removesuffix("\n")
        if not line.endswith("\n"):
            yield "\\ No newline at end of file"


def _lines(text: str) -> list[str]:
    """Lines with their ends; only a line feed ends one, unlike `str.splitlines`."""
    *lines, last = text.split("\n")
    return [f"{line}\n" for line in lines] + ([last] if last else [])
