"""Users of one server on a network: none sees, lists, joins or guesses what another one has."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from ws_server import ADA, BOB, EVE, PIPELINE, WsClient, WsServer

pytestmark = pytest.mark.promise("ws:users:apart")


def pipeline(project: str = "p") -> dict[str, object]:
    """A pipeline with a name that only its user knows."""
    return json.loads(PIPELINE.read_text()) | {"name": f"plans of {project}", "project_id": project}


@pytest.fixture
def ada(server: WsServer) -> Iterator[WsClient]:
    """A client of one user, which has a pipeline of its own."""
    with server.client(ADA) as client:
        client.body("execute", pipeline=pipeline("ada"), token="adas_plans")
        yield client
        client.ask("terminate", token="adas_plans")


@pytest.fixture
def bob(server: WsServer) -> Iterator[WsClient]:
    """A client of another user."""
    with server.client(BOB) as client:
        yield client


def test_a_list_of_tasks_has_the_servers_and_the_users_own(ada: WsClient, bob: WsClient) -> None:
    assert {task["token"] for task in ada.body("rrext_get_tasks")["tasks"]} == {"face", "adas_plans"}
    assert {task["token"] for task in bob.body("rrext_get_tasks")["tasks"]} == {"face"}


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("rrext_process", {"subcommand": "tool", "tool": "who", "input": {}}),
        ("rrext_process", {"subcommand": "open"}),
        ("tools", {}),
        ("rrext_get_task_status", {}),
        ("terminate", {}),
        ("restart", {"pipeline": pipeline("bob")}),
        ("rrext_get_pipeline", {}),
        ("rrext_tools_resolve", {"tools": ["who"]}),
        ("rrext_tools_call", {"name": "who"}),
    ],
)
def test_a_task_of_another_user_answers_like_one_that_never_was(
    ada: WsClient, bob: WsClient, command: str, arguments: dict[str, object]
) -> None:
    real = bob.ask(command, **arguments, token="adas_plans")
    near = bob.ask(command, **arguments, token="adas_plan")
    never = bob.ask(command, **arguments, token="zzzz_zzzzz")
    for answer in (real, near, never):
        assert (answer["success"], answer["code"]) == (False, "TASK_NOT_REGISTERED")
        assert "adas" not in json.dumps(answer)
    assert real["message"] == near["message"] == never["message"]


def test_references_to_a_pipeline_of_another_user_find_none(ada: WsClient, bob: WsClient) -> None:
    tools = [{"type": "pipeline", "pipeline": "adas_plans"}]
    ada.body("rrext_tools_resolve", tools=tools)
    answer = bob.ask("rrext_tools_resolve", tools=tools)
    assert answer["code"] == "TASK_NOT_REGISTERED"
    called = bob.ask("rrext_tools_call", call_ref="tools.pipeline.adas_plans.run.self", arguments={"text": "hello"})
    assert called["code"] == "TASK_NOT_REGISTERED"


def test_the_only_task_that_a_user_sees_needs_no_token(ada: WsClient, bob: WsClient) -> None:
    assert bob.tool("who")["user"] == "bob"
    answer = ada.ask("rrext_process", subcommand="tool", tool="who")
    assert answer["code"] == "TASK_AMBIGUOUS"
    assert answer["data"]["tokens"] == ["adas_plans", "face"]


def test_two_users_may_choose_the_same_token_and_have_a_pipeline_each(ada: WsClient, bob: WsClient) -> None:
    bob.body("execute", pipeline=pipeline("bob"), token="adas_plans")
    assert [task["name"] for task in bob.body("rrext_get_tasks")["tasks"]] == ["face", "plans of bob"]
    assert bob.tool("who", token="adas_plans")["user"] == "bob"
    assert bob.ask("execute", pipeline=pipeline("bob"), token="adas_plans")["code"] == "TASK_ALREADY_RUNNING"
    bob.body("terminate", token="adas_plans")
    assert ada.tool("who", token="adas_plans")["user"] == "ada"


def test_nobody_joins_a_running_pipeline_of_another_user(ada: WsClient, bob: WsClient) -> None:
    hers = next(task for task in ada.body("rrext_get_tasks")["tasks"] if task["token"] == "adas_plans")
    unnamed = bob.body("execute", pipeline=pipeline("ada"), useExisting=True)
    assert unnamed["token"] != "adas_plans"
    bob.body("terminate", token=unnamed["token"])
    his = bob.body("execute", pipeline=pipeline("ada"), token="adas_plans", useExisting=True)
    assert his["publicToken"] != hers["publicToken"]
    bob.body("terminate", token="adas_plans")


def test_a_pipe_belongs_to_its_connection_also_among_one_users(server: WsServer, ada: WsClient, bob: WsClient) -> None:
    pipe = ada.body("rrext_process", subcommand="open", token="adas_plans")["pipe_id"]
    with server.client(ADA) as other:
        for stranger in (other, bob):
            answer = stranger.ask("rrext_process", subcommand="write", pipe_id=pipe, data="x")
            assert (answer["code"], answer["message"]) == ("pipe_not_open", f"Pipe {pipe} is not open")
    ada.body("rrext_process", subcommand="close", pipe_id=pipe)


def test_the_user_of_a_call_is_that_of_the_key_whatever_a_request_says(ada: WsClient) -> None:
    for context in ({"userId": "bob"}, {"spaceId": "bobs"}, {"userId": "bob", "spaceId": "bobs"}):
        answer = ada.ask("rrext_process", subcommand="tool", tool="who", token="face", context=context)
        assert answer["code"] == "invalid_arguments"
    assert ada.ask("initialize", context={"userId": "bob"})["code"] == "invalid_arguments"
    assert ada.tool("who", token="face", context={"userId": "ada"})["user"] == "ada"


def test_a_user_sees_of_the_servers_pipeline_only_that_it_runs(ada: WsClient, bob: WsClient) -> None:
    pipe = ada.body("rrext_process", subcommand="open", token="face", object={"name": "secret.txt"})["pipe_id"]
    status = bob.body("rrext_get_task_status", token="face")
    assert "secret.txt" not in json.dumps(status)
    assert status["threads"]["used"] >= 1
    assert next(task for task in bob.body("rrext_get_tasks")["tasks"])["pipeline"] == {}
    ada.body("rrext_process", subcommand="close", pipe_id=pipe)


def test_the_servers_pipeline_is_not_its_clients_to_end(bob: WsClient) -> None:
    answer = bob.ask("terminate", token="face")
    assert answer["code"] == "unavailable"
    assert bob.tool("who")["user"] == "bob"


def test_shutdown_ends_only_the_connection(server: WsServer, ada: WsClient, bob: WsClient) -> None:
    with server.client(BOB) as third:
        third.body("shutdown")
    assert bob.body("rrext_ping") == {"pong": True}


def test_no_command_tells_of_pipelines_and_clients_of_others(server: WsServer, ada: WsClient) -> None:
    ada.body("rrext_identify", clientName="adas program")
    ada.body("execute", pipeline=pipeline("ada"), token="adas_ended")
    ada.body("terminate", token="adas_ended")
    with server.client(EVE) as eve:
        for command in ("rrext_list_tasks", "rrext_list_connections", "rrext_dashboard", "rrext_get_tasks"):
            assert "adas" in json.dumps(ada.body(command))
            told = json.dumps(eve.body(command))
            assert [word for word in ("adas", "plans of ada", '"ada"') if word in told] == [], told
        answer = eve.ask("rrext_get_token", projectId="ada", source="webhook_1")
        assert answer["code"] == "TASK_NOT_REGISTERED"
        assert eve.ask("rrext_get_task_status", token="adas_ended")["code"] == "TASK_NOT_REGISTERED"
    assert ada.body("rrext_get_token", projectId="ada", source="webhook_1")["token"] == "adas_plans"


def test_the_servers_pipeline_is_not_its_clients_to_read_or_restart(bob: WsClient) -> None:
    assert bob.ask("rrext_get_pipeline", token="face")["code"] == "unavailable"
    assert bob.ask("restart", token="face", pipeline=pipeline("bob"))["code"] == "unavailable"


def test_a_pipeline_that_is_restarted_is_trusted_no_more_than_before(ada: WsClient) -> None:
    wanted = pipeline("ada")
    node = {"id": "n", "provider": "tool_filesystem", "config": {"root": ".", "allow_write": True}}
    wanted["components"] = [*wanted["components"], node]  # type: ignore[misc]
    assert ada.ask("restart", token="adas_plans", pipeline=wanted)["code"] == "invalid_pipeline"
    assert ada.tool("who", token="adas_plans")["user"] == "ada"
