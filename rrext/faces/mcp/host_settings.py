"""Settings that make an agent host start a server, in the form that each host documents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

FILES: Final = {
    "vscode": ".vscode/mcp.json",
    "claude": "claude_desktop_config.json, or .mcp.json for Claude Code",
    "cursor": ".cursor/mcp.json",
    "zed": "settings.json",
    "codex": "~/.codex/config.toml",
}
"""Host → the file of its settings."""


def settings_for(host: str, name: str, command: Sequence[str]) -> str:
    """The lines for the settings of a host: a server of that name, started by these words."""
    program, arguments = command[0], list(command[1:])
    server: dict[str, Any] = {"command": program, "args": arguments}
    if host == "codex":
        # strings of JSON are basic strings of TOML
        return f"[mcp_servers.{json.dumps(name)}]\ncommand = {json.dumps(program)}\nargs = {json.dumps(arguments)}"
    key = {"vscode": "servers", "zed": "context_servers"}.get(host, "mcpServers")
    if host == "vscode":
        server = {"type": "stdio", **server}
    return json.dumps({key: {name: server}}, indent=2)
