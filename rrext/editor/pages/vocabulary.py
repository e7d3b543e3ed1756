"""The meanings of the keys and lanes of pipeline files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rrext.nodes.base.lanes import TABLE
from rrext.references import TEXTS

ROOT_TEXTS: Final[Mapping[str, str]] = {
    "components": "The nodes of the pipeline. Their order is the order in which data reaches those that listen to one node.",
    "source": "The id of the component with which the pipeline begins. It may be left out if there is only one source.",
    "project_id": "What the pipeline is called by machines, usually a UUID. It is literal: variables are not replaced in it.",
    "version": "The version of this format: 1.",
    "name": "What the pipeline is called by people. Variables are not replaced in it.",
    "description": "What the pipeline is for. Variables are not replaced in it.",
}
"""Keys of a pipeline with a meaning. All others belong to editors."""

COMPONENT_TEXTS: Final[Mapping[str, str]] = {
    "id": "What other components call this one. Each component has an id of its own.",
    "provider": "Which node this is.",
    "config": "The settings of the node; `{}` if there are none. With `profile`, they stand in the section of that profile.",
    "input": "The data edges that end here: a list of `{lane, from}`. An edge stands on what receives.",
    "control": "The control edges that end here: a list of `{classType, from}`. An edge stands on what is invoked.",
    "name": "What the component is called by people.",
    "description": "What the component is for.",
    "ui": "Where editors draw the component. It means nothing to the pipeline.",
}

EDGE_TEXTS: Final[Mapping[str, str]] = {
    "lane": "What travels on the edge. The sending node offers the lane, and the receiving node accepts it.",
    "classType": "As what this component is invoked, for example tool, llm or memory.",
    "from": "The id of the component that the edge comes from: the one that sends, or the one that invokes.",
    "tools": "References to tools of this component, which the invoking node offers under other names, or wrapped.",
}

REFERENCE_TEXTS: Final[Mapping[str, str]] = {
    **TEXTS,
    "tools": "References to the tools that are offered: names of tools of this pipeline, or objects that say where a tool is.",
    "space": "Whether the caller must have a space: `required`.",
    "users": "The ids of the users who may see and call the tool.",
    "when": "Whether the tool is there at all: true or false, or a variable.",
}
"""Keys of a reference to a tool, and of its `available`."""

REFERENCE_FORMS: Final[Mapping[str, str]] = {
    "node": "a tool of a component",
    "pipeline": "a running pipeline as a tool",
    "mcp": "a tool of an MCP server",
    "http": "a tool of an HTTP API",
    "composio": "an action of an integration of Composio",
    "gateway": "an action of an integration, by a gateway",
}
"""Types of references."""

PERMISSION_TEXTS: Final[Mapping[str, str]] = {
    "allow": "everybody may call it who sees it",
    "ask": "each call needs a permission",
    "deny": "nobody sees it",
}
"""Permissions of references."""

CONFIG_TEXTS: Final[Mapping[str, str]] = {
    "mode": '"Source" makes the component the one that the pipeline begins with.',
    "type": "The provider's name again; editors write it.",
    "profile": "Which of the node's profiles gives the defaults. Settings of one's own then stand in the section of that name.",
    "parameters": "The values of a form in an editor.",
    "secureParameters": "Encrypted values: `secure` lists the names, `token` decrypts them. They are never shown.",
    "hideForm": "For editors: show no form.",
    "name": "What the component is called by people.",
    "description": "What the component is for.",
    "tool_description": "Text that stands before the description of each tool of this component.",
}
"""Keys that every config may have."""

LANE_TEXTS: Final[Mapping[str, str]] = {lane.name: lane.text for lane in TABLE}
"""The payload of each lane."""
