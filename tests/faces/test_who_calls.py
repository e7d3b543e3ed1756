"""Who calls, what he may see, what he must send, and by which names."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import anyio
import jsonschema_rs
import pytest
from face import Face
from houses import HERE, LocalHouse
from more_pipelines import with_tools

from rrext import Client
from rrext.errors import InvalidArguments, ServerExited, Unavailable
from rrext.pipefile.catalog.plugins import PluginError, load_nodes

META = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "ü": [None, {"1": 1.5}], "": {"_meta": {}}}


TWINS = """
from rrext import Node, tool_function

class Twins(Node):
    provider = "twins"

    @tool_function(name="search")
    def first(self): ...

    @tool_function(name="search")
    def second(self): ...
"""


@pytest.mark.promise("meta:passthrough")
async def test_meta_crosses_untouched(face: Face) -> None:
    assert (await face.tool("who", meta=META))["meta"] == META
    assert (await face.tool("who_nested", meta=META))["meta"] == META
    assert (await face.tool("who"))["meta"] is None
    pipe_id = await face.open()
    assert (await face.tool("who", meta=META, pipe_id=pipe_id))["meta"] == META


@pytest.mark.promise("tool:context:per-call")
@pytest.mark.parametrize("tool", ["who_behind", "who_behind_in_thread"])
async def test_fifty_calls_at_a_time_see_a_context_of_their_own(tool: str, face: Face, key: str) -> None:
    seen: dict[int, Any] = {}
    arrived: set[int] = set()
    all_here = anyio.Event()

    async def call(number: int) -> None:
        def here(*_: Any) -> None:
            arrived.add(number)
            if len(arrived) == 50:
                all_here.set()

        context = {"userId": f"user {number}", "spaceId": f"space {number}"}
        seen[number] = await face.tool(tool, {"key": key}, context=context, meta={"n": number}, progress=here)

    async with anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(call, number)
        with anyio.fail_after(20):
            await all_here.wait()
        await face.tool("open_gate", {"key": key})
    for number in range(50):
        assert (seen[number]["user"], seen[number]["space"]) == (f"user {number}", f"space {number}")
        assert seen[number]["meta"] == {"n": number}
        assert seen[number]["kept"] == []


@pytest.mark.promise("tool:context:per-call")
async def test_fifty_calls_on_one_pipe_share_its_caller_and_nothing_else(face: Face, key: str) -> None:
    pipe_id = await face.open(context={"userId": "ada"})
    seen: list[Any] = []

    async def call(number: int) -> None:
        tool = ("who_behind", "who_behind_in_thread")[number % 2]
        seen.append(await face.tool(tool, {"key": key}, pipe_id=pipe_id, meta=number))

    async with anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(call, number)
        await face.tool("open_gate", {"key": key})
    assert sorted(told["meta"] for told in seen) == list(range(50))
    assert {told["user"] for told in seen} == {"ada"}
    assert {told["pipe"] for told in seen} == {pipe_id}
    assert all(told["kept"] == [] for told in seen)


@pytest.mark.parametrize("on_pipe", [False, True])
async def test_a_node_calls_tools_as_the_same_user_in_another_space(on_pipe: bool, face: Face) -> None:
    context = {"userId": "ada", "spaceId": "home"}
    pipe_id = await face.open(context=context) if on_pipe else None
    for space in ("legal", None):
        told = await face.tool("who_in_space", {"space": space}, context=context, meta=META, pipe_id=pipe_id)
        assert {name: (seen["user"], seen["space"]) for name, seen in told.items()} == {
            "called": ("ada", space),
            "streamed": ("ada", space),
            "in_thread": ("ada", space),
            "within": ("ada", space),
            "back": ("ada", "home"),
            "after": ("ada", "home"),
        }
        assert all((seen["meta"], seen["pipe"], seen["kept"]) == (META, pipe_id, []) for seen in told.values())
    assert (await face.tool("who", context=context))["space"] == "home"


@pytest.mark.promise("tool:context:per-call")
async def test_a_requests_context_stands_in_for_the_connections_as_a_whole_and_once(house: LocalHouse) -> None:
    async with house.connect({"userId": "ada", "spaceId": "s"}) as face:
        assert [(await face.tool("who"))[name] for name in ("user", "space")] == ["ada", "s"]
        told = await face.tool("who", context={"userId": "bob"})
        assert (told["user"], told["space"]) == ("bob", None)
        assert (await face.tool("who"))["user"] == "ada"


# what may be called


@pytest.mark.promise("tools:availability-per-request")
async def test_two_sessions_see_different_tools_at_the_same_moment(house: LocalHouse) -> None:
    async with house.connect({"userId": "ada"}) as ada, house.connect({"userId": "bob"}) as bob, house.connect() as nobody:
        for _ in range(3):
            hers, his, none = await ada.names(), await bob.names(), await nobody.names()
            assert hers - none == {"for_ada"}
            assert his - none == {"for_bob"}
            assert await ada.tool("for_ada") == "hello ada"
            assert await bob.tool("for_bob") == "hello bob"
            assert isinstance(await bob.tool_failure("for_ada"), Unavailable)
            assert isinstance(await ada.tool_failure("for_bob", node_id="probe_1"), Unavailable)


@pytest.mark.promise("tools:availability-per-request")
async def test_listing_and_calling_agree_for_every_context(face: Face) -> None:
    for user in (None, "ada", "bob"):
        context = {"userId": user} if user else {}
        listed = await face.names(context=context)
        for tool in ("for_ada", "for_bob", "for_nobody"):
            if tool in listed:
                assert await face.tool(tool, context=context)
            else:
                for node_id in ("", "probe_1"):
                    assert isinstance(await face.tool_failure(tool, context=context, node_id=node_id), Unavailable)
        assert "for_nobody" not in listed


@pytest.mark.promise("tools:availability-per-request")
async def test_a_pipes_own_caller_decides_what_is_there(face: Face) -> None:
    pipe_id = await face.open(context={"userId": "ada"})
    assert await face.tool("for_ada", pipe_id=pipe_id) == "hello ada"
    assert isinstance(await face.tool_failure("for_bob", pipe_id=pipe_id, context={"userId": "bob"}), Unavailable)


# what must be sent


def mutated(random: Random, value: Any) -> Any:
    """A value that is a little different, or altogether."""
    others: list[Any] = [
        None,
        True,
        0,
        1,
        -1,
        1.0,
        1.5,
        2**53,
        2**70,
        "",
        "1",
        "x",
        [],
        ["a"],
        [1],
        {},
        {"a": 1},
        [1, "a"],
        [0, 1],
    ]
    if isinstance(value, dict) and value and random.random() < 0.8:
        name = random.choice(list(value))
        kind = random.randrange(4)
        if kind == 0:
            return {key: item for key, item in value.items() if key != name}
        if kind == 1:
            return {**value, random.choice(["extra", name.upper()]): random.choice(others)}
        return {**value, name: mutated(random, value[name])}
    if isinstance(value, list) and value and random.random() < 0.5:
        return [*value[:-1], mutated(random, value[-1])]
    return random.choice(others)


@pytest.mark.promise("tool:schema:agrees")
async def test_what_the_published_schema_accepts_is_accepted_and_nothing_else(face: Face) -> None:
    (schema,) = [t["inputSchema"] for t in (await face.request("tools"))["tools"] if t["name"] == "typed"]
    validator = jsonschema_rs.validator_for(schema)
    random = Random(11)
    good = {"name": "n", "count": 2, "share": 0.25, "flag": True, "tags": ["a"], "box": {"a": 1}, "pair": [1, "a"]}
    verdicts: set[bool] = set()
    for _ in range(250):
        value: Any = good
        for _ in range(random.randint(0, 3)):
            value = mutated(random, value)
        value = {} if value is None else value  # no input is an empty one
        taken = await was_taken(face, value)
        if isinstance(value, dict):  # null for what may be left out is its absence
            value = {name: entry for name, entry in value.items() if entry is not None or name in schema["required"]}
        assert taken is validator.is_valid(value), value
        verdicts.add(taken)
    assert verdicts == {True, False}


async def was_taken(face: Face, value: Any) -> bool:
    """Whether the tool ran on this input."""
    try:
        types = await face.tool("typed", value)
    except InvalidArguments as error:
        paths = [problem["path"] for problem in error.data["errors"]]
        return not all(path.startswith("/input") for path in paths)
    return types[:4] == ["str", "int", "float", "bool"]


@pytest.mark.promise("tool:schema:agrees")
async def test_published_schemas_have_no_references_and_no_context(face: Face) -> None:
    tools = (await face.request("tools"))["tools"]
    assert len(tools) > 40
    for tool in tools:
        schema = tool["inputSchema"]
        assert (schema["type"], schema["additionalProperties"]) == ("object", False)
        assert "ctx" not in schema.get("properties", {})
        assert "$ref" not in str(schema)
        assert jsonschema_rs.meta.is_valid(schema)


# names


@pytest.mark.promise("names:unique-and-exportable")
async def test_tools_of_one_name_on_two_nodes_are_both_there(face: Face) -> None:
    long = "a-node-with-a-name-that-is-much-too-long-for-any-model-provider"
    pipeline = with_tools(
        **{"left": "nest", "right": "nest", "dotted.name": "nest", "döner": "nest", "a__b": "nest", long: "nest"}
    )
    await face.request("execute", {"pipeline": pipeline, "token": "twins"})
    references = [(tool["nodeId"], tool["name"]) for tool in (await face.request("tools", {"token": "twins"}))["tools"]]
    assert len(set(references)) == len(references)
    assert len({node for node, tool in references if tool == "thread_same"}) == 6
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool) for _, tool in references)
    threads = {await face.tool(tool, node_id=node, token="twins") for node, tool in references if tool == "thread_same"}
    assert len(threads) == 6  # one of each node
    first = await face.tool("thread_same", token="twins")
    assert first == await face.tool("thread_same", node_id="left", token="twins")


@pytest.mark.promise("names:unique-and-exportable")
def test_two_tools_of_one_name_in_one_node_are_refused_when_the_class_is_made(tmp_path: Any) -> None:
    file = tmp_path / "twins.py"
    file.write_text(TWINS)
    with pytest.raises(PluginError, match=r"search.*first.*second"):
        load_nodes(str(file))


@pytest.mark.promise("names:unique-and-exportable")
async def test_a_server_does_not_start_with_such_a_node(tmp_path: Any) -> None:
    file = tmp_path / "twins_2.py"
    file.write_text(TWINS)
    with pytest.raises(ServerExited, match=r"first.*second") as caught:
        async with Client.spawn(nodes=[file], env={"PYTHONPATH": str(HERE.parents[1])}):
            raise AssertionError("it started")
    assert caught.value.data["exit_code"] == 2
