"""Spaces that clients of the Model Context Protocol name in `_meta`: over HTTP as members alone, on stdio for the own user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from http_server import HttpServer, two_users
from mcp_host import Host

from rrext.nodes.base.space_list import SpaceList

CONTROL = {"control": [{"classType": "tool", "from": "webhook_1"}]}


def written(folder: Path, name: str, *, catalog: str | None) -> Path:
    """A pipeline that tells who calls, and has a catalog."""
    components: list[dict[str, Any]] = [
        {"id": "webhook_1", "provider": "webhook", "config": {}},
        {"id": "probe_1", "provider": "probe", "config": {}, **CONTROL},
    ]
    if catalog is not None:
        components.append({"id": "knowledge_1", "provider": "knowledge", "config": {"path": catalog}, **CONTROL})
    path = folder / f"{name}.pipe"
    path.write_bytes(msgspec.json.encode({"components": components, "source": "webhook_1", "project_id": name}))
    return path


@pytest.fixture
def spaces(tmp_path: Path) -> SpaceList:
    """The members of a catalog: ada is in `legal`, bob in `hr`."""
    spaces = SpaceList(tmp_path / "catalog")
    for space, user in (("legal", "ada"), ("hr", "bob")):
        spaces.create(space)
        spaces.add(space, [user])
    return spaces


def seen(result: dict[str, Any]) -> tuple[str | None, str | None]:
    """Whom the tool `who` saw."""
    assert not result.get("isError"), result
    return result["structuredContent"]["user"], result["structuredContent"]["space"]


def call(space: Any, name: str = "who") -> dict[str, Any]:
    return {"name": name, "arguments": {}, "_meta": {"rrext/space": space}}


@pytest.mark.promise("spaces:members-only")
def test_a_client_of_http_works_in_a_space_as_a_member_alone(tmp_path: Path, spaces: SpaceList) -> None:
    ada, bob, tokens = two_users(tmp_path)
    with HttpServer(*tokens, files=[written(tmp_path, "main", catalog="catalog")]) as server:
        assert seen(server.result("tools/call", call("legal"), **ada)) == ("ada", "legal")
        assert seen(server.result("tools/call", call("hr"), **bob)) == ("bob", "hr")
        assert seen(server.result("tools/call", {"name": "who", "arguments": {}}, **ada)) == ("ada", None)
        refusals = [server.result("tools/call", call(space), **bob) for space in ("legal", "nowhere", "", "HR", "hr\0")]
        assert all(refusal == refusals[0] for refusal in refusals)
        assert refusals[0]["isError"]
        assert refusals[0]["_meta"]["rrext/error"]["code"] == "space_not_found"
        listed = server.result("tools/list", {"_meta": {"rrext/space": "legal"}}, **ada)["tools"]
        assert "list_sources" in [tool["name"] for tool in listed]
        assert "list_sources" not in [tool["name"] for tool in server.result("tools/list", **ada)["tools"]]
        for space in ("legal", "nowhere"):
            status, answer = server.ask("tools/list", {"_meta": {"rrext/space": space}}, **bob)
            assert "error" in answer, (status, answer)
            assert "no such space" in answer["error"]["message"]
        spaces.remove("legal", ["ada"])
        assert server.result("tools/call", call("legal"), **ada)["isError"]
        assert server.result("tools/call", call(["legal"]), **ada)["isError"]
        assert server.result("tools/call", call("x" * 10_000), **ada)["isError"]


def test_a_pipeline_without_a_list_of_members_takes_no_space_over_http(tmp_path: Path) -> None:
    ada, _, tokens = two_users(tmp_path)
    with HttpServer(*tokens, files=[written(tmp_path, "main", catalog=None)]) as server:
        refused = server.result("tools/call", call("legal"), **ada)
        assert (refused["isError"], refused["_meta"]["rrext/error"]["code"]) == (True, "invalid_arguments")
        assert seen(server.result("tools/call", {"name": "who", "arguments": {}}, **ada)) == ("ada", None)


def test_the_space_of_an_operator_is_not_its_clients_to_leave(tmp_path: Path, spaces: SpaceList) -> None:
    _, bob, tokens = two_users(tmp_path)
    with HttpServer(*tokens, "--space", "legal", files=[written(tmp_path, "main", catalog="catalog")]) as server:
        refused = server.result("tools/call", call("hr"), **bob)
        assert (refused["isError"], refused["_meta"]["rrext/error"]["code"]) == (True, "invalid_arguments")
        assert seen(server.result("tools/call", {"name": "who", "arguments": {}}, **bob)) == ("bob", "legal")


@pytest.mark.promise("spaces:members-only")
def test_a_client_without_a_token_works_as_the_user_of_the_command(tmp_path: Path, spaces: SpaceList) -> None:
    with HttpServer("--user", "ada", files=[written(tmp_path, "main", catalog="catalog")]) as server:
        assert seen(server.result("tools/call", call("legal"))) == ("ada", "legal")
        assert server.result("tools/call", call("hr"))["isError"]


@pytest.mark.promise("spaces:members-only")
def test_of_several_pipelines_those_are_listed_whose_space_it_is(tmp_path: Path, spaces: SpaceList) -> None:
    ada, bob, tokens = two_users(tmp_path)
    files = [written(tmp_path, "main", catalog="catalog"), written(tmp_path, "plain", catalog=None)]
    with HttpServer(*tokens, files=files) as server:
        names = [tool["name"] for tool in server.result("tools/list", {"_meta": {"rrext/space": "legal"}}, **ada)["tools"]]
        assert "list_sources" in names
        assert not any(name.startswith("plain__") for name in names)
        assert "error" in server.ask("tools/list", {"_meta": {"rrext/space": "legal"}}, **bob)[1]


@pytest.mark.parametrize("shakes_hands", [False, True])
def test_a_host_on_stdio_names_a_space_for_its_user(shakes_hands: bool, tmp_path: Path, spaces: SpaceList) -> None:
    file = written(tmp_path, "main", catalog="catalog")
    with Host("--user", "ada", files=[file], shakes_hands=shakes_hands) as host:
        assert seen(host.result("tools/call", call("legal"))) == ("ada", "legal")
        assert seen(host.result("tools/call", {"name": "who", "arguments": {}})) == ("ada", None)
        listed = host.result("tools/list", {"_meta": {"rrext/space": "legal"}})["tools"]
        assert "list_sources" in [tool["name"] for tool in listed]
        refused = [host.result("tools/call", call(space, "list_sources")) for space in ("hr", "nowhere")]
        assert refused[0] == refused[1]
        assert refused[0]["_meta"]["rrext/error"]["code"] == "space_not_found", "the tools of the catalog look themselves"
