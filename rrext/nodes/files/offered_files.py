"""The one directory to which a node's settings confine its callers, and the files in it that the node offers to hosts: those
whose paths fit a pattern, folder by folder, page by page.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, Final

import msgspec

from rrext.errors import ToolError, Unavailable
from rrext.files.confinement import MAX_DEPTH, Confinement, FileInfo
from rrext.limits import MIB
from rrext.nodes.base.node import Node
from rrext.nodes.base.setup import path_below
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function

READ_MAX: Final = 4 * MIB
"""Bytes of a file that one call reads: an answer has a limit, and a model a smaller one."""

LIST_MAX: Final = 10_000
"""Entries of a folder, or files, in one answer."""

WALK_MAX: Final = 20_000
"""Files that one page of offered files looks at: some tenths of a second, after which a caller may give up."""

OFFERED_DEFAULT: Final = 250
"""Offered files of a page."""


class Offered:
    """An availability rule: the settings of a node offer files."""

    by_settings = True
    """The settings alone decide, so that the engine need not check each call."""
    missing = 'The operator of this pipeline has to set "resources" in the settings of the node, such as ["*.md"].'

    def __call__(self, node: Any, ctx: ToolContext | None) -> bool:
        return node is not None and bool(node.config.resources) and bool(node.config.root)


class OfferingNode(Node):
    """A node that offers files to hosts. Its settings have `root` and `resources`, the patterns of paths."""

    @classmethod
    def offers(cls, config: Any) -> dict[str, Any] | None:
        """The files."""
        return {"files": True} if config.resources and config.root else None

    @tool_function(group="files", annotations={"readOnlyHint": True, "openWorldHint": False}, available=Offered())
    def list_files(
        self,
        after: str = "",
        maxEntries: Annotated[int, msgspec.Meta(ge=1, le=LIST_MAX)] = OFFERED_DEFAULT,
        *,
        ctx: ToolContext,
    ) -> dict[str, Any]:
        """List the files that this node offers, in all folders, by path.

        Answers `{files: [{path, size, modified}], next}`. `size` is in bytes, `modified` in seconds since 1970.
        `next` is null at the end, else there may be more: call again with it as `after`.

        Args:
            after: List only files that come after this path.
            maxEntries: How many are listed at most.
        """
        return offered_files(self, after=after, limit=maxEntries, check=ctx.check)


def offered_files(node: Node, *, after: str, limit: int, check: Callable[[], None]) -> dict[str, Any]:
    """Answer `{files: [{path, size, modified}], next}`: at most `limit` files whose paths fit a pattern of the settings.

    `next` is the path after which the next page begins, None at the end. A page can be short, even empty, before the end: it
    looks at a bounded number of files. Hidden files and folders, and folders that cannot be read, are left out.
    """
    found: list[dict[str, Any]] = []
    patterns: Sequence[str] = node.config.resources
    with open_root(node, node.config.root) as files:
        start = tuple(part for part in after.split("/") if part)
        for seen, (path, info) in enumerate(_walk(files, (), start, check), 1):
            if any(fnmatchcase(path, pattern) for pattern in patterns):
                found.append({"path": path, "size": info.size, "modified": info.modified})
            if len(found) >= limit or seen >= WALK_MAX:
                return {"files": found, "next": path}
    return {"files": found, "next": None}


def _walk(
    files: Confinement, folder: tuple[str, ...], after: tuple[str, ...], check: Callable[[], None]
) -> Iterator[tuple[str, FileInfo]]:
    """The files below a folder that come after a path, by their paths' parts."""
    name = after[0] if after else ""
    if len(after) > 1 and (info := files.info("/".join((*folder, name)))) is not None and info.type == "dir":
        yield from _below(files, (*folder, name), after[1:], check)
    while True:
        check()
        names = files.listing("/".join(folder), limit=LIST_MAX, after=name, check=check)
        for info in names:
            name = info.name
            if name.startswith(".") or not info.addressable:
                continue
            if info.type == "file":
                yield "/".join((*folder, name)), info
            elif info.type == "dir" and len(folder) + 2 <= MAX_DEPTH:
                yield from _below(files, (*folder, name), (), check)
        if len(names) < LIST_MAX:
            return


def _below(
    files: Confinement, folder: tuple[str, ...], after: tuple[str, ...], check: Callable[[], None]
) -> Iterator[tuple[str, FileInfo]]:
    """The files below a folder; none if it cannot be read, or was removed meanwhile."""
    try:
        yield from _walk(files, folder, after, check)
    except ToolError as error:
        if error.code not in ("path_not_found", "permission_denied", "not_a_directory", "path_is_symlink"):
            raise


def open_root(node: Node, root: str) -> Confinement:
    """Open the directory `root` of a node, anew for each call: the directory may be replaced between calls.

    It is that of `path_below`. If the node is confined, the way that this resolves is walked without following a link, so
    that no link which is new since then leads out. Raises `Unavailable`.
    """
    path = path_below(node.directory, root, confined=node.confined, node_id=node.node_id)
    try:
        if not node.confined:
            return Confinement.at(path)
        base = os.path.realpath(node.directory)
        with Confinement.at(base) as outer:
            return outer.beneath(os.path.relpath(os.path.realpath(path), base))
    except OSError as error:
        what = error.strerror or "the system gives no reason"
    except ToolError as error:
        what = error.message
    raise Unavailable(
        f'The root "{root}" of node "{node.node_id}" cannot be used: {what}',
        hint="A relative root begins at --root, or else at the folder of the pipeline's file.",
    )
