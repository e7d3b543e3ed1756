"""`--tools`: the only tools that a server offers to its clients."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rrext.engine.interface.engine import Engine


def add_tools_option(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    parser.add_argument(
        "--tools",
        action="append",
        metavar="NAME",
        help="offer only this tool, by name, node.tool or call ref; may be repeated (default: all tools)",
    )


def allowed_tools(args: argparse.Namespace) -> frozenset[str] | None:
    """The only tools that clients may use; None for all. The call ref of a node's tool becomes `node.tool`."""
    return None if args.tools is None else frozenset(map(_written, args.tools))


def _written(name: str) -> str:
    from rrext.references import CallRef

    ref = CallRef.read(name)
    if ref is None:
        return name
    return ref.text if ref.provider != "node" or ref.names_a_wrapper else f"{ref.integration}.{ref.action}"


def tell_unknown(names: Iterable[str], engine: Engine) -> None:
    """Warn on stderr of allowed tools that no pipeline has. A call ref of a connection or a pipeline needs none."""
    from rrext.columns import printable
    from rrext.errors import near_matches
    from rrext.references import CallRef

    tasks = engine.tool_names()
    known = dict.fromkeys(name for task in tasks for name in task.names)
    later = [node_id for task in tasks for node_id in task.later]
    for name in sorted(names) if tasks else ():
        if CallRef.read(name) is not None or name in known:
            continue
        near = near_matches(name, known)
        hint = f" Did you mean {near[0]}?" if near else ""
        if later:
            hint += f" It may still come from {', '.join(later)}, whose tools are known after the first use."
        print(printable(f"rrext: warning: --tools {name}: no pipeline has this tool.{hint}"), file=sys.stderr)
