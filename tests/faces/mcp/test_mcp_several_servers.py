"""Several servers outside: each name means one prompt, and one server that is down hides no other."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp_host import Host

from rrext.faces.mcp.host_offers import HostOffers

SERVER = Path(__file__).resolve().parents[2] / "peers" / "offering_server.py"

pytestmark = pytest.mark.promise("mcp:passes-on")


def pipeline(folder: Path, servers: dict[str, list[str]], *more: dict[str, Any]) -> tuple[Path, str]:
    """A pipeline with a node for each server, whose id is its key, and its connections."""
    names = {node_id: f"c-{number}" for number, node_id in enumerate(servers)}
    tables = [f'[{names[node_id]}]\nprovider = "mcp"\ncommand = {json.dumps(words)}\n' for node_id, words in servers.items()]
    connections = folder / "connections.toml"
    connections.write_text("".join(tables))
    connections.chmod(0o600)
    control = [{"classType": "tool", "from": "tools_1"}]
    nodes = [
        {"id": node_id, "provider": "tool_mcp_client", "config": {"server": names[node_id]}, "control": control}
        for node_id in servers
    ]
    path = folder / "several.pipe"
    source = {"id": "tools_1", "provider": "tools", "config": {}}
    path.write_text(json.dumps({"components": [source, *nodes, *more], "source": "tools_1", "project_id": "p"}))
    return path, str(connections)


def names(host: Host) -> list[str]:
    """The names of all prompts, page by page."""
    found: list[str] = []
    params: dict[str, Any] = {}
    while True:
        page = host.result("prompts/list", params)
        found += [prompt["name"] for prompt in page["prompts"]]
        if "nextCursor" not in page:
            return found
        params = {"cursor": page["nextCursor"]}


def test_every_name_means_one_prompt_of_one_server(tmp_path: Path) -> None:
    """The servers `a` and `a__b` have the prompts `b__c` and `c`: both would be `a__b__c`; so would a prompt of our own."""
    own = {"id": "a__greet", "provider": "prompt", "config": {"instructions": ["Mine."], "offer": True}}
    servers = {name: [sys.executable, str(SERVER), name] for name in ("a", "a__b", "a__b__b")}
    path, connections = pipeline(tmp_path, servers, own)
    with Host("--connections", connections, files=[path]) as host:
        listed = names(host)
        assert len(set(listed)) == len(listed) == 7
        texts: list[str] = []
        for name in listed:
            given = {} if name == "a__greet" else {"arguments": {"who": "x"}}
            texts.append(host.result("prompts/get", {"name": name, **given})["messages"][0]["content"]["text"])
        assert "Mine." in texts[0]
        assert texts[1:] == [f"{server} {prompt} x" for server in servers for prompt in ("greet", "b__c")]


def test_a_server_that_is_down_hides_neither_others_nor_our_own_and_is_an_error_where_it_is_alone(tmp_path: Path) -> None:
    own = {"id": "poem", "provider": "prompt", "config": {"instructions": ["Rhyme."], "offer": True}}
    up, down = [sys.executable, str(SERVER), "up"], [sys.executable, "-c", "raise SystemExit(3)"]
    path, connections = pipeline(tmp_path, {"down": down, "up": up, "off": down}, own)
    with Host("--connections", connections, files=[path]) as host:
        assert names(host) == ["poem", "up__greet", "up__b__c"]
        assert "exit code 3" in host.failure("prompts/get", {"name": "down__greet"})["message"]
    (tmp_path / "alone").mkdir()
    path, connections = pipeline(tmp_path / "alone", {"down": down})
    with Host("--connections", connections, files=[path]) as host:
        assert "exit code 3" in host.failure("prompts/list")["message"]


def test_an_error_of_a_server_about_a_later_page_is_told(tmp_path: Path) -> None:
    path, connections = pipeline(tmp_path, {name: [sys.executable, str(SERVER), name] for name in ("a", "b")})
    with Host("--connections", connections, files=[path]) as host:
        assert host.failure("prompts/list", {"cursor": "1:x"})["code"] == -32602


def test_a_node_and_a_reference_of_one_name_have_names_of_their_own() -> None:
    nodes = [
        {"nodeId": "out", "provider": "tool_mcp_client", "name": "", "description": "", "offers": {"server": "other"}},
        {"nodeId": "mcp:out", "provider": "", "name": "", "description": "", "offers": {"server": "out"}},
    ]
    offers = HostOffers.of([{"token": "t", "offers": nodes}], None)
    asked = [offers.ask("prompts/get", {"name": f"{prefix}__p"})[0] for prefix in ("out", "mcp-out")]
    assert [each["nodeId"] for each in asked] == ["out", "mcp:out"]
