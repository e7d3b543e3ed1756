"""The command line: the list of commands, and their common behaviour.

stdout carries results only; messages go to stderr. Exit codes: 0 done, 1 a tool or a file failed, 2 usage or an invalid
pipeline, 130 Ctrl-C, 141 nobody reads stdout any more. A command's module is imported on demand, because `serve` must start
fast.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, Final, NoReturn

from rrext.cli.console.exit_codes import EXIT_FAILED, EXIT_UNREAD, EXIT_USAGE
from rrext.cli.console.output import is_unread, let_messages_fail
from rrext.errors import RrextError, near_matches
from rrext.limits import memory_limits
from rrext.version import __version__

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

    from rrext.cli.options import Command

COMMANDS = {
    "init": "write a first pipeline, which runs at once",
    "doctor": "tell what this machine has for rrext, and what it lacks",
    "new": "write the package of a node of your own",
    "tools": "list the tools of a pipeline",
    "tool": "call one tool of a pipeline",
    "sql": "ask a database of a pipeline, or sit at its prompt",
    "send": "send files and folders through a pipeline",
    "chat": "ask a pipeline that chats, question after question",
    "space": "make spaces for documents, and say who is in them",
    "check": "list every problem of pipeline files",
    "test": "run the cases that stand beside pipelines",
    "show": "draw a pipeline, in the terminal, as SVG or as Mermaid",
    "trace": "draw the calls that --trace wrote to a file",
    "replay": "play a recording to a server, and show what differs",
    "trust": "let the settings of a project count that can run code",
    "nodes": "list the nodes that pipelines may use",
    "schema": "print the JSON Schema of pipeline files",
    "serve": "answer framed requests on stdin until it ends",
    "ps": "list the pipelines of a running server",
    "logs": "tell what happens in a running server",
    "stop": "unload a pipeline of a running server",
    "cluster": "look at a cluster: its nodes, and what is wrong there",
    "mcp": "offer the tools of pipelines to an agent host (Model Context Protocol)",
    "lsp": "serve an editor: problems, completion, fixes and runs of .pipe files",
    "completion": "print the script that completes commands in a shell",
    "help": "show the help of a command",
}

ROOMS: Final = {
    "calls": ("tool", "tools", "sql", "send", "chat", "space"),
    "authoring": ("init", "new", "check", "nodes", "schema", "show", "test", "trust", "doctor", "completion", "help"),
    "servers": ("serve", "mcp", "lsp", "cluster", "ps", "logs", "stop", "replay", "trace"),
}
"""Folder of `rrext.cli.commands` → the commands in it."""

SHARED_MODULES: Final = {"schema": "nodes", "help": "completion", "ps": "running", "logs": "running", "stop": "running"}
"""Command → its module, if that has another name."""

MODULES: Final = {
    name: f"rrext.cli.commands.{room}.{SHARED_MODULES.get(name, name)}" for room, names in ROOMS.items() for name in names
}
"""Command → its module."""

AT_SERVERS = frozenset(("tools", "tool", "sql", "send", "chat"))
"""Commands that can use a server in place of a file; `--at` changes their options."""

EXAMPLES = """examples:
  rrext init pipeline.pipe
  rrext tools pipeline.pipe
  rrext tool pipeline.pipe read_file path=notes.txt
  rrext sql pipeline.pipe 'select * from visit'
  rrext serve pipeline.pipe
"""

LISTS = frozenset(("-h", "--help", "--version"))
"""Words that need no argument of any command, so that no command is imported."""

PRINTERS = frozenset(("init", "doctor", "check", "trust", "nodes", "schema", "cluster", "completion", "help"))
"""Commands that print with `sys.stdout`; the others keep its descriptor for results, and find out if it is closed."""

UNWRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
"""Failures of a write to stdout, which have no file name."""


class Help(argparse.RawDescriptionHelpFormatter):
    """The form of a help text. It asks for the width of the terminal when it is printed: argparse makes a formatter for each
    option, also where no help is asked for.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=sys.maxsize)

    def format_help(self) -> str:
        from shutil import get_terminal_size

        self._width = get_terminal_size().columns - 2
        self._max_help_position = min(self._max_help_position, max(self._width - 20, 4))
        return super().format_help()


class Parser(argparse.ArgumentParser):
    """A parser whose help and version are results, which fail if they cannot be written: argparse leaves that unsaid."""

    command = ""
    """The command that the words begin with. The parser of all words has it, which tells those that no command knows."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the words alone: the usage of a command has up to twenty lines."""
        prog = f"{self.prog} {self.command}".strip()
        help_of = " ".join(["rrext help", *prog.split()[1:]])
        self.exit(EXIT_USAGE, f"{prog}: error: {message}; `{help_of}` lists the words\n")

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        print(message, end="", file=file or sys.stderr)


WANTING: Final = MemoryError, ImportError, LookupError, SystemError
"""What Python raises where no memory is left."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    if isinstance(sys.stdout, TextIOWrapper):
        # results are UTF-8 in every locale, no character ends the command, and messages come after the results before them
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    if sys.stderr is sys.__stderr__:  # else a program runs the command, and keeps its messages
        let_messages_fail()
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv))
        if sys.stdout is not None and not sys.stdout.closed:  # a tool may have closed it
            sys.stdout.flush()  # not at the exit of Python, whose message is no one's
        return code
    except WANTING as error:
        if not _is_out_of_memory(error):
            raise
        print("rrext: no memory is left: raise the limit of it (ulimit -v, ulimit -d)", file=sys.stderr)
        return EXIT_FAILED
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            return _without_descriptors()
        if not is_unread(error):
            if error.errno not in UNWRITTEN or error.filename is not None:
                raise
            print(f"rrext: stdout: {error.strerror}", file=sys.stderr)
        if sys.stdout is not None:  # what it keeps is not written at the exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_UNREAD if is_unread(error) else EXIT_FAILED


def _is_out_of_memory(error: Exception) -> bool:
    """Whether an error means that no memory was left. Imports and codecs have other words for an allocation that failed."""
    return isinstance(error, MemoryError) or (type(error) in WANTING and bool(memory_limits()))


def _without_descriptors() -> int:
    """Tell that the process has no descriptors left; the words for it are here, because a module would need one."""
    os.write(2, b"rrext: too many open files: raise the limit of descriptors (ulimit -n), of which a server needs 64\n")
    return EXIT_FAILED


def _run(words: list[str]) -> int:
    wrong = _unknown_command(words)
    if wrong is not None:
        print(f"rrext: {wrong}", file=sys.stderr)
        return EXIT_USAGE
    try:
        args = _parse(words)
    except SystemExit as end:  # argparse has printed the message
        return end.code if isinstance(end.code, int) else EXIT_USAGE
    except RrextError as error:
        print(f"rrext: {error.message}", file=sys.stderr)
        return EXIT_USAGE
    if sys.stdout is None and args.command in PRINTERS:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    try:
        return args.run(args)
    except RrextError as error:
        print(f"rrext: {error.message}", file=sys.stderr)
        return EXIT_USAGE


def _parse(words: list[str]) -> argparse.Namespace:
    if not words or words[0] not in COMMANDS or _uses_server(words):
        return make_parser(words).parse_args(words)
    from rrext.cli.projects import parse

    return parse(words, lambda defaults: make_parser(words, defaults))


def _uses_server(words: Sequence[str]) -> bool:
    """Whether a command uses a server that runs."""
    return words[0] in AT_SERVERS and any(word == "--at" or word.startswith("--at=") for word in words)


def _unknown_command(words: list[str]) -> str | None:
    """The message for an unknown command; None for a known one."""
    if not words or words[0] in COMMANDS or words[0].startswith("-"):
        return None
    if words[0].endswith(".pipe"):
        return f"a command comes before the file: `rrext tools {words[0]}` lists its tools, `rrext help` all commands"
    near = near_matches(words[0], COMMANDS)
    meant = f"Did you mean {' or '.join(near)}?" if near else "`rrext help` lists them."
    return f"there is no command {words[0]}. {meant}"


def make_parser(words: Sequence[str], defaults: Mapping[str, Any] | None = None) -> argparse.ArgumentParser:
    """The parser of the command that the words begin with, with other defaults, or else of all commands."""
    parser = Parser(
        prog="rrext",
        description="Tools of RocketRide pipelines, called directly.",
        epilog=EXAMPLES,
        formatter_class=Help,
    )
    if words and words[0] in COMMANDS:
        parser.command = words[0]
    parser.add_argument("--version", action="version", version=f"rrext {__version__}")
    commands = parser.add_subparsers(prog=parser.prog, dest="command", metavar="COMMAND", required=True)
    for name in [words[0]] if words and words[0] in COMMANDS else COMMANDS:
        command = commands.add_parser(name, formatter_class=parser.formatter_class, help=COMMANDS[name])
        if words and words[0] not in LISTS:
            if defaults and "file" in defaults:  # no argument is needed then
                command.set_defaults(file=defaults["file"])
            add_arguments(command, name, words)
            command.set_defaults(**defaults or {})
    return parser


def add_arguments(parser: argparse.ArgumentParser, name: str, words: Sequence[str]) -> None:
    """Fill the parser of a command: with the texts, the arguments and the function of its module."""
    module = import_module(MODULES[name])
    command: Command = getattr(module, name.upper())
    parser.description, parser.epilog = command.description, command.epilog
    parser.set_defaults(run=command.run)
    if name in AT_SERVERS:
        command.add_arguments(parser, at=_uses_server(words))
    else:
        command.add_arguments(parser)
