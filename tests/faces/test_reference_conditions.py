"""Conditions of references on every face: who calls decides what is listed, resolved and called."""

from __future__ import annotations

from typing import Any

import pytest
from face import Face

from rrext.errors import InvalidArguments, InvalidPipeline, ToolNotFound, Unavailable

pytestmark = pytest.mark.promise("references:pipeline:wrapped")

WHO = {"type": "node", "node": "probe_1", "tool": "who"}
CONDITIONS: dict[str, dict[str, Any]] = {
    "in_space": {"space": "required"},
    "of_ada": {"users": ["ada"]},
    "switched_on": {"when": "${ROCKETRIDE_ON}"},
    "switched_off": {"when": "${ROCKETRIDE_OFF}"},
    "all_three": {"space": "required", "users": ["ada", "eve"], "when": "${ROCKETRIDE_ON}"},
}
OFFERED = [{**WHO, "name": name, "available": condition} for name, condition in CONDITIONS.items()]
PIPELINE = {
    "components": [
        {"id": "tools_1", "provider": "tools", "config": {"tools": OFFERED}},
        {"id": "probe_1", "provider": "probe", "config": {}, "control": [{"classType": "tool", "from": "tools_1"}]},
    ],
    "source": "tools_1",
    "project_id": "conditions",
}
VALUES = {"ROCKETRIDE_ON": "yes", "ROCKETRIDE_OFF": "0"}
CALLERS: list[tuple[dict[str, str] | None, set[str]]] = [
    (None, {"switched_on"}),
    ({"userId": "bob"}, {"switched_on"}),
    ({"userId": "ada"}, {"switched_on", "of_ada"}),
    ({"spaceId": "s"}, {"switched_on", "in_space"}),
    ({"userId": "eve", "spaceId": "s"}, {"switched_on", "in_space", "all_three"}),
    ({"userId": "ada", "spaceId": "s"}, set(CONDITIONS) - {"switched_off"}),
]


@pytest.mark.parametrize(("context", "may"), CALLERS, ids=lambda value: None if isinstance(value, set) else str(value))
async def test_a_reference_is_there_for_those_who_fulfil_each_of_its_conditions(
    face: Face, context: dict[str, str] | None, may: set[str]
) -> None:
    token = (await face.request("execute", {"pipeline": PIPELINE, "env": VALUES}))["token"]
    assert await face.names(token=token, context=context) & CONDITIONS.keys() == may
    for name in CONDITIONS:
        if name in may:
            seen = await face.tool(name, token=token, context=context)
            assert (seen["user"], seen["space"]) == ((context or {}).get("userId"), (context or {}).get("spaceId"))
        else:
            assert isinstance(await face.tool_failure(name, token=token, context=context), Unavailable)
    await face.request("terminate", {"token": token})


async def test_references_of_requests_have_the_same_conditions(face: Face) -> None:
    tools = [{**each, "available": {**each["available"], "when": True}} for each in OFFERED[:2]]
    ada, bob = {"userId": "ada"}, {"userId": "bob"}
    for context, names in ((ada, ["of_ada"]), (bob, []), ({**ada, "spaceId": "s"}, ["in_space", "of_ada"])):
        found = await face.request("rrext_tools_resolve", {"tools": tools, "token": "face", "context": context})
        assert [each["name"] for each in found["custom"]] == names
    call = {"name": "of_ada", "token": "face"}
    assert (await face.request("rrext_tools_call", {**call, "context": ada}))["result"]["user"] == "ada"
    assert isinstance(await face.failure("rrext_tools_call", {**call, "context": bob}), Unavailable)
    assert isinstance(await face.failure("rrext_tools_call", {"name": "of_eve", "token": "face"}), ToolNotFound)


@pytest.mark.parametrize("timeout", [0, -1, -0.0, 1e300, "5", True, [], {}])
async def test_a_timeout_that_is_none_is_refused_with_its_place(face: Face, timeout: Any) -> None:
    wrong = {**WHO, "name": "late", "timeout": timeout}
    error = await face.failure("rrext_tools_resolve", {"tools": [WHO, wrong], "token": "face"})
    assert isinstance(error, InvalidArguments)
    assert [each["path"] for each in error.data["errors"]] == ["/tools/1/timeout"]
    source, probe = PIPELINE["components"]
    edge = {**probe["control"][0], "tools": [{"tool": "who", "name": "later", "timeout": timeout}]}
    parts = [{**source, "config": {"tools": [wrong]}}, {**probe, "control": [edge]}]
    error = await face.failure("execute", {"pipeline": {**PIPELINE, "components": parts}})
    assert isinstance(error, InvalidPipeline)
    assert [problem["path"] for problem in error.data["problems"]] == [
        "/components/0/config/tools/0/timeout",
        "/components/1/control/0/tools/0/timeout",
    ]


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "1e999"])
async def test_a_timeout_that_is_no_number_is_refused_in_a_text(face: Face, word: str) -> None:
    text = f'{{"components": [{{"id": "t", "provider": "tools", "config": {{"tools": [{{"timeout": {word}}}]}}}}]}}'
    error = await face.failure("execute", {"pipeline": text})
    assert isinstance(error, InvalidPipeline)
    assert any(problem["path"].endswith("/timeout") or "line" in problem for problem in error.data["problems"])


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ('{"a": 1, "b": 2}', None),
        (' {"a": 1,\n"b": 2}\t', None),
        ('"{\\"a\\": 1, \\"b\\": 2}"', "invalid_arguments"),
        ('{"a": 1, "b": 2', "invalid_arguments"),
        ('{"a": NaN, "b": 2}', "invalid_arguments"),
        ("[1, 2]", "invalid_arguments"),
        ("", "invalid_arguments"),
        ([1, 2], "invalid_arguments"),
        (7, "invalid_arguments"),
        (True, "invalid_arguments"),
    ],
)
async def test_arguments_are_an_object_or_the_text_of_one(face: Face, arguments: Any, code: str | None) -> None:
    request = {"name": "add", "token": "face", "arguments": arguments}
    if code is None:
        assert (await face.request("rrext_tools_call", request))["result"] == await face.tool("add", {"a": 1, "b": 2})
        return
    error = await face.failure("rrext_tools_call", request)
    assert error.code == code
    assert [each["path"] for each in error.data["errors"]] == ["/arguments"]
