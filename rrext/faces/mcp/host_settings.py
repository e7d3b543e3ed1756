"""Settings by which an agent host finds a server, in the form that each host documents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

FILES: Final = {
    "vscode": ".vscode/mcp.json",
    "claude": "claude_desktop_config.json, or .mcp.json for Claude Code, which alone takes a URL",
    "cursor": ".cursor/mcp.json",
    "zed": "settings.json",
    "codex": "~/.codex/config.toml",
}
"""Host → the file of its settings."""


def settings_for(host: str, name: str, command: Sequence[str], variables: Sequence[str] = ()) -> str:
    """The lines for the settings of a host: a server of that name, started by these words, with a place for the value of each
    variable."""
    program, arguments = command[0], list(command[1:])
    server: dict[str, Any] = {"command": program, "args": arguments}
    places = {variable: f"<value of {variable}>" for variable in variables}
    if host == "codex":
        table = f"mcp_servers.{json.dumps(name)}"  # strings of JSON are basic strings of TOML
        lines = [f"[{table}]", f"command = {json.dumps(program)}", f"args = {json.dumps(arguments)}"]
        lines += [f"[{table}.env]"] if places else []
        return "\n".join([*lines, *(f"{json.dumps(variable)} = {json.dumps(place)}" for variable, place in places.items())])
    if places:
        server["env"] = places
    if host == "vscode":
        server = {"type": "stdio", **server}
    return _table(host, name, server)


def settings_for_url(host: str, name: str, url: str, *, with_token: bool) -> str:
    """The lines for the settings of a host: a server at a URL; with a place for the user's token if clients need one."""
    if host == "codex":
        lines = [f"[mcp_servers.{json.dumps(name)}]", f"url = {json.dumps(url)}"]
        return "\n".join([*lines, *(['bearer_token_env_var = "RREXT_TOKEN"'] if with_token else [])])
    server: dict[str, Any] = {"url": url}
    if host in ("vscode", "claude"):
        server = {"type": "http", **server}
    if with_token:
        server["headers"] = {"Authorization": "Bearer TOKEN"}
    return _table(host, name, server)


def _table(host: str, name: str, server: dict[str, Any]) -> str:
    key = {"vscode": "servers", "zed": "context_servers"}.get(host, "mcpServers")
    return json.dumps({key: {name: server}}, indent=2)
