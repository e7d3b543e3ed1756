"""`rrext space`: the spaces of a pipeline's catalog of documents, and who is in them; for the operator, on the files."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from rrext.cli.console.exit_codes import EXIT_DONE, EXIT_FAILED, EXIT_USAGE
from rrext.cli.console.lines import terminal_width
from rrext.cli.console.output import Results, print_error
from rrext.cli.console.tables import table
from rrext.cli.local import LocalPipeline, run_locally
from rrext.cli.options import (
    Command,
    add_caller_options,
    add_file,
    add_partial_option,
    add_pipeline_options,
    add_wait_option,
    let_words_follow_options,
)
from rrext.columns import printable
from rrext.engine.interface.call import Caller
from rrext.engine.interface.operations import Tool
from rrext.errors import RrextError, ToolError, UsageError
from rrext.nodes.base.node import content_tenant
from rrext.nodes.base.setup import path_below

if TYPE_CHECKING:
    from rrext.engine.tasks.component import Component
    from rrext.nodes.knowledge.library import Library


DESCRIPTION = "Make the spaces of a pipeline's catalog of documents, and say who is in them."
EXAMPLE = """examples:
  rrext space create pipeline.pipe legal
  rrext space add pipeline.pipe legal ada ben
  rrext space remove pipeline.pipe legal ben
  rrext space list pipeline.pipe
  rrext space delete pipeline.pipe --space legal
  rrext space delete pipeline.pipe --user ben

What is kept in a space belongs to all its members, what a user keeps without a space to that user alone. A server that
runs sees each change at its next call. The list of members is spaces.sqlite in the folder of the node `knowledge`.

`delete` removes all that a space has, or all that a user has outside of spaces: members, documents, and chunks in the
vector store. It asks first; without a terminal it needs --yes. One that was cut off is done again by the same command:
until then nobody is in the space. Take the key of a user away before, or the user may keep something anew.

Exit code 0: done. 1: there is no such space, there is one already, or something could not be removed. 2: nothing was
done, because the command or the pipeline is wrong, or the answer was no.
"""
ACTIONS: Final = {
    "create": "SPACE",
    "add": "SPACE USER…",
    "remove": "SPACE USER…",
    "list": "",
    "delete": "",
}
"""What is done → the words that it needs."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("action", choices=tuple(ACTIONS), metavar="ACTION", help=", ".join(ACTIONS))
    add_file(parser)
    parser.add_argument("words", nargs="*", metavar="SPACE|USER", help="the space, and for add and remove its users")
    let_words_follow_options(parser, "words")
    parser.add_argument("--node", metavar="ID", help="the node `knowledge`; needed if the pipeline has several")
    parser.add_argument("--json", action="store_true", help="with list: [{space, members}]")
    parser.add_argument("--yes", action="store_true", help="with delete: do not ask")
    add_caller_options(parser, user="with delete: the user whose content is removed", space="with delete: the space")
    add_partial_option(parser)
    add_pipeline_options(parser)
    add_wait_option(parser)


def run(args: argparse.Namespace) -> int:
    """Read or change the list; returns the exit code."""
    wrong = _misuse(args)
    if wrong is not None:
        print(f"rrext: {wrong}", file=sys.stderr)
        return EXIT_USAGE
    if args.action == "delete" and not args.yes and not _is_meant(args):
        return EXIT_USAGE

    async def work(pipeline: LocalPipeline, results: Results) -> int:
        from rrext.nodes.knowledge.library import Library

        try:
            part = _catalog_of(pipeline, args.node)
            library = Library(path_below(part.directory, part.config.path, confined=part.confined, node_id=part.id))
        except RrextError as error:
            print_error(error, args.file)
            return EXIT_USAGE
        stores = part.bindings.get("store", ())
        try:
            if args.action == "delete":
                return await _delete(args, pipeline, library, stores)
            if args.action == "create":
                return await _create(args.words[0], pipeline, library, stores)
            return await pipeline.in_thread(lambda: _run(args, library, results))
        except RrextError as error:
            print_error(error)
            return EXIT_FAILED
        finally:
            library.close()

    return run_locally(args, work)


SPACE = Command(DESCRIPTION, EXAMPLE, add_arguments, run)


def _misuse(args: argparse.Namespace) -> str | None:
    """Why the words do not fit; None if they do."""
    words, users = args.words, args.action in ("add", "remove")
    expected = {"create": len(words) == 1, "add": len(words) > 1, "remove": len(words) > 1}.get(args.action, not words)
    if not expected:
        return f"expected: rrext space {args.action} FILE.pipe {ACTIONS[args.action]}".rstrip()
    named = (args.user is not None) + (args.space is not None)
    if args.action == "delete" and named != 1:
        return "expected: rrext space delete FILE.pipe --space SPACE, or --user USER"
    if args.action != "delete" and named:
        return f"--user and --space are for delete; here they are words: rrext space {args.action} FILE.pipe " + (
            "SPACE USER…" if users else "SPACE"
        )
    return None


def _is_meant(args: argparse.Namespace) -> bool:
    """Whether the operator agrees at the terminal; a message says why nothing is done else."""
    if not (os.isatty(0) and os.isatty(2)):
        print("rrext: delete removes for good: without a terminal it needs --yes", file=sys.stderr)
        return False
    what = f'the space "{args.space}"' if args.user is None else f'the user "{args.user}" outside of spaces'
    sys.stderr.write(printable(f"Remove all documents of {what}, for good? [y/n] "))
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    print("rrext: nothing was removed", file=sys.stderr)
    return False


def _catalog_of(pipeline: LocalPipeline, node_id: str | None) -> Component:
    """The component with the catalog. Raises `UsageError`."""
    found = {part.id: part for part in pipeline.task.components.values() if part.node_class.provider == "knowledge"}
    if node_id is None and len(found) == 1:
        return next(iter(found.values()))
    if node_id in found:
        return found[node_id]
    if not found:
        raise UsageError("the pipeline has no node `knowledge`, so it has no spaces")
    raise UsageError(f"--node ID says which catalog is meant: {', '.join(found)}")


def _run(args: argparse.Namespace, library: Library, results: Results) -> int:
    """Read or change the list. Blocks. Raises `ToolError`."""
    spaces, words = library.spaces, args.words
    if args.action == "list":
        _print(args, [(space.space, space.members, space.is_leaving) for space in spaces.spaces()], results)
    else:
        change: Callable[[str, list[str]], list[str]] = spaces.add if args.action == "add" else spaces.remove
        space, users = words[0], list(dict.fromkeys(words[1:]))
        changed = change(space, users)
        told = ("is now in", "was in") if args.action == "add" else ("is now out of", "was not in")
        for user in users:
            print(printable(f'rrext: "{user}" {told[user not in changed]} the space "{space}"'), file=sys.stderr)
    return EXIT_DONE


def _print(args: argparse.Namespace, found: list[tuple[str, tuple[str, ...], bool]], results: Results) -> None:
    if args.json:
        listed = [{"space": space, "members": members} | ({"leaving": True} if gone else {}) for space, members, gone in found]
        results.write_line(msgspec.json.encode(listed))
        return
    if not found:
        print("rrext: there are no spaces: `rrext space create` makes one", file=sys.stderr)
        return
    rows = [(space, "(being deleted: do it again)" if gone else ", ".join(members)) for space, members, gone in found]
    width = terminal_width() if results.is_terminal else None
    bold = results.is_terminal and os.environ.get("TERM") != "dumb"
    for line in table(("SPACE", "MEMBERS"), rows, width=width, bold=bold):
        results.write_line(line.encode("utf-8", "replace"))


async def _create(space: str, pipeline: LocalPipeline, library: Library, stores: tuple[str, ...]) -> int:
    """Make a space. One of an id that was deleted before begins empty too: a call of a server that was on its way then may have
    left something. Raises `ToolError`.
    """
    if not await pipeline.in_thread(lambda: library.spaces.create(space)):
        await _removed(None, space, pipeline, library, stores)
        await pipeline.in_thread(lambda: library.spaces.open(space))
    print(printable(f'rrext: the space "{space}" is there; `rrext space add` lets users in'), file=sys.stderr)
    return EXIT_DONE


async def _delete(args: argparse.Namespace, pipeline: LocalPipeline, library: Library, stores: tuple[str, ...]) -> int:
    """Remove all that a space or a user has. First nobody is in the space any more, so that no call brings anything back, and
    last its id is free again. Raises `ToolError`.
    """
    user, space, spaces = args.user, args.space, library.spaces
    removed: list[str] = []

    def begin() -> ToolError | None:
        if user is not None:
            removed.extend(f'"{user}" is out of the space "{left}"' for left in spaces.delete_user(user))
            return None
        try:
            spaces.begin_delete(space)
        except ToolError as error:
            if error.code != "space_not_found":
                raise
            return error
        removed.append(f'the space "{space}" has no members')
        return None

    missing = await pipeline.in_thread(begin)
    removed += await _removed(user, space, pipeline, library, stores)
    if space is not None and missing is None:
        await pipeline.in_thread(lambda: spaces.delete(space))
    if not removed:
        if missing is not None:
            raise missing
        print(printable(f'rrext: "{user}" has nothing here'), file=sys.stderr)
    for line in removed:
        print(printable(f"rrext: {line}"), file=sys.stderr)
    return EXIT_DONE


async def _removed(
    user: str | None, space: str | None, pipeline: LocalPipeline, library: Library, stores: tuple[str, ...]
) -> list[str]:
    """Remove the content of a user or a space; what was there, in sentences."""
    told: list[str] = []
    if await pipeline.in_thread(lambda: library.remove(content_tenant(user, space))):
        told.append("its documents are gone")
    for store in stores:
        asked = Tool(tool="delete", node_id=store, input={"everything": True})
        body, _ = await pipeline.ask(asked, caller=Caller(user_id=user, space_id=space))
        if count := msgspec.json.decode(body)["result"]["deleted_count"]:
            told.append(f"{count:,} chunks in {store} are gone")
    return told
