"""Links from the paths in settings to the files that they name."""

from __future__ import annotations

from collections.abc import Iterator

from rrext.editor.analysis import Analysis
from rrext.editor.workspace_files import WorkspaceFiles
from rrext.pipefile.text.pointer import below
from rrext.pipefile.text.problems import Span
from rrext.pipefile.text.tree import Located


def links_of(analysis: Analysis, files: WorkspaceFiles) -> Iterator[tuple[Span, str]]:
    """The text of each path that names an existing file, without its quotes, and the file."""
    for located in _paths(analysis):
        name = located.value
        if located.kind == "string" and isinstance(name, str) and name and "${" not in name:
            path = files.file(name)
            if path is not None:
                yield (located.start + 1, located.end - 1), path


def _paths(analysis: Analysis) -> Iterator[Located]:
    """The values of all settings that are paths; of an object, its members."""
    for draft in analysis.drafts:
        if draft.node is None or not draft.node.paths:
            continue
        config = below(draft.path, "config")
        for section in (config, *(below(config, profile) for profile in draft.node.profiles)):
            for setting in draft.node.paths:
                located = analysis.map.find(below(section, setting))
                if located is not None:
                    yield from (located, *located.children)
