"""The one directory to which a node's settings confine its callers; no path leads out of it."""

from __future__ import annotations

import os

from rrext.errors import ToolError, Unavailable
from rrext.files.confinement import Confinement
from rrext.nodes.base.node import Node
from rrext.nodes.base.setup import path_below


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
