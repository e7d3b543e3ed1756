"""Offers for a setting that is a path: the files and folders of the workspace."""

from __future__ import annotations

from collections.abc import Iterator

from rrext.editor.completions.context import CompletionContext, CursorComponent
from rrext.editor.completions.offer import Offer
from rrext.editor.completions.template import literal


def path_offers(context: CompletionContext, component: CursorComponent) -> Iterator[Offer]:
    """The names in the folder that is typed. Of a setting that takes a folder, folders alone."""
    node, parts = component.node, component.parts[1:]
    if node is None or context.files is None:
        return
    inner = parts[1:] if parts and parts[0] in node.profiles else parts
    wanted = node.paths.get(inner[0]) if inner else None
    typed = context.gap.typed[len(context.gap.quote) :]
    if wanted is None or "\\" in typed:
        return
    folder = typed[: typed.rfind("/") + 1]
    for name, is_folder in context.files.listed(folder or "."):
        if is_folder or wanted == "file":
            path = f"{folder}{name}{'/' * is_folder}"
            yield Offer(path, "folder" if is_folder else "file", (literal(path),))
