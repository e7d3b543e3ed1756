"""References are read whole, or refused with all their problems at once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.references import Reference, ReferenceReader, same_names, texts_in
from rrext.tools.context import ToolContext

pytestmark = pytest.mark.promise("references:problems:all-at-once")

NODE = {"type": "node", "node": "db_1", "tool": "query"}


def read(*items: Any, node: str | None = None) -> tuple[list[Reference], list[tuple[str, str]]]:
    reader = ReferenceReader()
    found = reader.references(list(items), "/tools", node=node)
    return found, texts_in(reader.problems)


def one(item: Any) -> Reference:
    [found], problems = read(item)
    assert problems == []
    return found


def test_every_form_is_read() -> None:
    found, problems = read(
        "read_file",
        NODE,
        {"type": "pipeline", "pipeline": "summary"},
        {"type": "mcp", "server": "github", "tool": "create_issue"},
        {"type": "http", "server": "weather", "tool": "forecast"},
        {"type": "composio", "integration": "github", "action": "GET_USER", "connection": "github-tvn"},
        {"type": "gateway", "integration": "gmail", "action": "SEND", "connection": "mail", "provider": "composio"},
    )
    assert problems == []
    assert [(each.name, each.call_ref.text) for each in found[1:]] == [
        ("db_1__query", "tools.node.db_1.query.self"),
        ("summary__run", "tools.pipeline.summary.run.self"),
        ("github__create_issue", "tools.mcp.github.create_issue.default"),
        ("weather__forecast", "tools.http.weather.forecast.default"),
        ("github__GET_USER", "tools.composio.github.GET_USER.github-tvn"),
        ("gmail__SEND", "tools.composio.gmail.SEND.mail"),
    ]
    assert (found[0].kind, found[0].name) == ("builtin", "read_file")


PETS = {"type": "http", "server": "pets"}


def test_a_reference_without_a_tool_takes_those_of_its_server() -> None:
    tools = ["getPet", "getToy", "deletePet", "list"]
    assert [each.action for each in one(PETS).single(tools)] == tools
    some = {**PETS, "include": ["get*", "deletePet"], "exclude": ["*Toy"], "permission": "ask", "available": {"users": []}}
    found = list(one(some).single(tools))
    assert [(each.name, each.permission) for each in found] == [("pets__getPet", "ask"), ("pets__deletePet", "ask")]
    assert found[0].call_ref.text == "tools.http.pets.getPet.default"
    assert found[0].available is not None
    assert 'Tool "getPet" is not' in found[0].available.refusal
    only = one({**PETS, "tool": "getPet"})
    assert list(only.single(())) == [only]


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"name": "x"}, ("/tools/0/name", '"name" is for one tool: say which in "tool".')),
        ({"arguments": {"a": 1}}, ("/tools/0/arguments", '"arguments" is for one tool: say which in "tool".')),
        ({"include": "get*"}, ("/tools/0/include", 'Expected a list of patterns of names, such as ["get*"].')),
        ({"exclude": [""]}, ("/tools/0/exclude", 'Expected a list of patterns of names, such as ["get*"].')),
        ({"include": ["a"] * 101}, ("/tools/0/include", "More than 100 patterns in one list of references.")),
        ({"tool": "x", "include": ["a"]}, ("/tools/0/include", '"include" is for a whole server: leave "tool" out.')),
        (
            {"includes": ["a"]},
            ("/tools/0/includes", 'A reference has no key "includes" here. Did you mean "include" or "exclude"?'),
        ),
    ],
)
def test_what_a_reference_to_a_whole_server_cannot_say_is_a_problem(more: Any, problem: tuple[str, str]) -> None:
    assert problem in read({**PETS, **more})[1]


def test_all_problems_are_told_with_their_places_and_near_matches() -> None:
    found, problems = read(
        {**NODE, "permision": "ask"},
        {"type": "nod", "node": "db_1", "tool": "query"},
        {"type": "composio", "integration": "github", "action": "GET_USER"},
        {**NODE, "name": "two words", "timeout": float("inf"), "permission": "alow", "arguments": [], "description": 1},
        {**NODE, "name": "a", "available": {"space": "optional", "user": ["ada"], "users": "ada", "when": "maybe"}},
        {**NODE, "name": "b", "arguments": {"sql": "x"}, "parameters": {"sql": {}, "rows": 1}},
        7,
        "",
    )
    assert [each.path for each in found] == ["/tools/0", "/tools/3", "/tools/4", "/tools/5"], "what is meant is known"
    assert (found[1].given_name, found[1].permission, found[1].timeout) == ("", "deny", None)
    assert problems == [
        ("/tools/0/permision", 'A reference has no key "permision" here. Did you mean "permission"?'),
        (
            "/tools/1/type",
            'Expected one of node, pipeline, mcp, http, composio, gateway, got "nod". Did you mean "node"?',
        ),
        ("/tools/2/connection", 'The key "connection" is missing.'),
        ("/tools/3/name", '"two words" is no name for a tool: use 1 to 64 of the characters a-z A-Z 0-9 _ -.'),
        ("/tools/3/arguments", "Expected an object, got a list."),
        ("/tools/3/description", "Expected a text, got a number."),
        ("/tools/3/permission", 'Expected one of allow, ask, deny. Did you mean "allow"?'),
        ("/tools/3/timeout", "Expected seconds above 0 and at most 3600."),
        ("/tools/4/available/user", 'A reference has no key "user" here. Did you mean "users"?'),
        ("/tools/4/available/space", 'Expected "required".'),
        ("/tools/4/available/users", "Expected a list of texts."),
        (
            "/tools/4/available/when",
            "Expected true or false, or a variable that is one of true, false, 1, 0, yes, no, on, off.",
        ),
        ("/tools/5/parameters/sql", '"sql" is fixed by arguments.'),
        ("/tools/5/parameters/rows", "Expected a JSON Schema object, got a number."),
        ("/tools/6", "A reference is the name of a tool, or an object, not a number."),
        ("/tools/7", "Expected the name of a tool, got an empty one."),
    ]


def test_of_unknown_keys_without_end_some_are_told() -> None:
    _, problems = read({**NODE, **{f"nodes{number}": 1 for number in range(50_000)}})
    assert 0 < len(problems) < 2000


def test_a_name_that_is_offered_twice_names_both_sides_builtins_included() -> None:
    found, problems = read("sales", {**NODE, "name": "sales"}, NODE, NODE)
    assert [each.name for each in found] == ["sales", "sales", "db_1__query", "db_1__query"]
    assert problems == []
    assert texts_in([*same_names(("", each) for each in found)]) == [
        ("/tools/1/name", 'Two references offer the name "sales": /tools/0 and /tools/1.'),
        ("/tools/3", 'Two references offer the name "db_1__query": /tools/2 and /tools/3.'),
    ]
    assert [*same_names((each.path, each) for each in found)] == [], "names of different nodes"


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), 3600.5, True, "5"])
def test_a_timeout_is_finite_and_positive(timeout: Any) -> None:
    assert [path for path, _ in read({**NODE, "timeout": timeout})[1]] == ["/tools/0/timeout"]
    assert one({**NODE, "timeout": 2}).timeout == 2.0


def test_the_references_of_an_edge_mean_its_node() -> None:
    found, problems = read({"tool": "query", "name": "sales"}, node="db_1")
    assert (found[0].integration, found[0].action, problems) == ("db_1", "query", [])
    problems = read({"tool": "query", "node": "db_2"}, {"type": "mcp", "server": "x", "tool": "y"}, "query", node="db_1")[1]
    assert [path for path, _ in problems] == ["/tools/0/node", "/tools/1/type", "/tools/2"]


@pytest.mark.parametrize(
    ("available", "user", "space", "may"),
    [
        ({}, None, None, True),
        ({"space": "required"}, "ada", None, False),
        ({"space": "required"}, None, "s", True),
        ({"users": ["ada"]}, "ada", None, True),
        ({"users": ["ada"]}, "bob", None, False),
        ({"users": []}, "ada", None, False),
        ({"when": "No"}, "ada", "s", False),
        ({"when": "1"}, None, None, True),
        ({"when": False}, "ada", "s", False),
        ({"when": "${UNKNOWN}"}, "ada", "s", False),
        ({"users": ["ada"], "space": "required", "when": True}, "ada", "s", True),
    ],
)
def test_availability_is_by_identity_and_configuration(
    available: dict[str, Any], user: str | None, space: str | None, may: bool
) -> None:
    rule = one({**NODE, "available": available}).available
    assert rule is not None
    assert rule(None, ToolContext(user_id=user, space_id=space)) is may


json = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8) | st.sampled_from(["node", "mcp", "query", "ask"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["type", "node", "tool", "name", "arguments", "parameters", "available", "users", "when", "timeout"]
            )
            | st.text(max_size=5),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(st.lists(json, max_size=6))
def test_any_json_is_read_or_has_a_problem_at_its_place(items: list[Any]) -> None:
    found, problems = read(*items)
    assert len({each.name for each in found}) + len([*same_names(("", each) for each in found)]) == len(found)
    with_problem = {path.split("/")[2] for path, _ in problems}
    assert {each.path.split("/")[2] for each in found} | with_problem == {str(index) for index in range(len(items))}
    assert all(path.startswith("/tools/") for path, _ in problems)
