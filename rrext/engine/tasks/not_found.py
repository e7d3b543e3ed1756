"""Errors about the node and the tool that a call names, with near matches or candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rrext.errors import InvalidArguments, NodeNotFound, NotFound, ToolNotFound
from rrext.limits import MAX_LISTED_IDS


def node_not_found(node_id: str) -> NodeNotFound:
    """The error for a node that the pipeline does not have, without near matches."""
    return NodeNotFound(f'Node "{node_id}" not found in pipeline.')


def tool_not_found(tool: str, node_id: str | None) -> ToolNotFound:
    """The error for a tool that no node has, or not the named node, without near matches."""
    where = f' on node "{node_id}"' if node_id else ""
    return ToolNotFound(f'No handler found for tool "{tool}"{where}')


def several_owners(tool: str, node_ids: Sequence[str]) -> InvalidArguments:
    """The error for a tool that several nodes own, where its caller wants the only owner."""
    listed = ", ".join(node_ids[:MAX_LISTED_IDS]) + (", …" if len(node_ids) > MAX_LISTED_IDS else "")
    error = InvalidArguments.at(
        "/nodeId", f'is required: {len(node_ids)} nodes have a tool "{tool}"', hint=f"pass `nodeId`, one of: {listed}"
    )
    error.data["nodes"] = list(node_ids)
    return error


def with_near_names(
    error: NotFound, tool: str, node_id: str | None, visible: Sequence[tuple[str, tuple[str, ...]]], unknown: Mapping[str, str]
) -> NotFound:
    """The error with near matches among the tools that its caller may call.

    `visible` has the node's id and the names of each of them. `unknown` are the nodes whose tools are not known, with the
    reasons.
    """
    if isinstance(error, NodeNotFound):
        return NodeNotFound.near(error.message, node_id or "", [owner for owner, _ in visible])
    here = [name for owner, names in visible if not node_id or owner == node_id for name in names]
    elsewhere = [owner for owner, names in visible if tool in names]
    if node_id and elsewhere:
        hint = f'Node "{elsewhere[0]}" has a tool of that name.'
        return ToolNotFound(f"{error.message}. {hint}", hint=hint, data={"near": elsewhere, "nodes": elsewhere})
    for owner, reason in [each for each in unknown.items() if node_id in (None, "", each[0])][:MAX_LISTED_IDS]:
        error.message += f'. The tools of "{owner}" are not known: {reason.rstrip(".")}'
    return ToolNotFound.near(f"{error.message}.", tool, here)
