"""The one directory to which a node's settings confine its callers; no path leads out of it."""

from __future__ import annotations

import os

from rrext.errors import ToolError, Unavailable
from rrext.files.confinement import Confinement
from rrext.nodes.base.node import Node
from rrext.nodes.base.setup import no_root


def open_root(node: Node, root: str) -> Confinement:
    """Open the directory `root` of a node, anew for each call: the directory may be replaced between calls.

    A relative root begins at the node's `directory`; a confined node's root may not lead out of it. Raises `Unavailable`.
    """
    if node.confined and not node.directory:
        raise no_root(node.node_id)
    try:
        if not node.confined:
            return Confinement.at(os.path.join(node.directory, root))
        with Confinement.at(node.directory) as base:
            return base.beneath(os.path.relpath(root, os.path.abspath(node.directory)) if os.path.isabs(root) else root)
    except OSError as error:
        what = error.strerror or "the system gives no reason"
    except ToolError as error:
        what = error.message
    raise Unavailable(
        f'The root "{root}" of node "{node.node_id}" cannot be used: {what}',
        hint="A relative root begins at --root, or else at the folder of the pipeline's file.",
    )
