"""References to tools in an editor: what is offered in them, what they mean, what is shown of them, and what is wrong."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from editor.completing import AROUND, CURSOR, Typing, at, mistakes

from rrext.editor.analysis import analyse
from rrext.editor.fixes.fix import FixContext
from rrext.editor.fixes.table import fixes_for
from rrext.editor.hover import hover_at
from rrext.editor.known_nodes import KnownNodes
from rrext.editor.outline import Names
from rrext.editor.text import applied
from rrext.references import KnownConnection

pytestmark = pytest.mark.promise("editor:references:known")

CONNECTIONS = (
    KnownConnection("github", "mcp"),
    KnownConnection("shop", "http"),
    KnownConnection("mail", "composio", "gmail"),
    KnownConnection("work", "composio", "github"),
    KnownConnection("old", "mcp", reason="it is switched off (active = false)"),
)
KNOWN = msgspec.structs.replace(AROUND, connections=CONNECTIONS)
FILES = '{"id": "files_1", "provider": "files", "control": [{"classType": "tool", "from": "t"}]}'
CLIENT = '{"id": "out_1", "provider": "tool_mcp_client", "config": {"server": "github"}}'


def text(references: str = "", edge: str = "", *more: str) -> str:
    files = FILES.replace('"t"}', f'"t"{edge}}}')
    parts = [f'{{"id": "t", "provider": "tools", "config": {{"tools": [{references}]}}}}', files, *more]
    return f'{{"components": [{", ".join(parts)}]}}'


def offered(references: str = "", edge: str = "", *more: str) -> Typing:
    return at(text(references, edge, *more), KNOWN)


def in_edge(reference: str) -> Typing:
    return offered(edge=f', "tools": [{reference}]')


# completion


def test_a_list_offers_tools_by_name_then_components_connections_and_forms() -> None:
    typing = offered("¦", "", CLIENT)
    assert typing.labels == [
        "read",
        "write",
        "files_1.read → { }",
        "files_1.write → { }",
        "out_1 → { }",
        "github → { }",
        "shop → { }",
        "mail → { }",
        "work → { }",
        "old → { }",
        "pipeline → { }",
    ]
    assert '"tools": ["read"]' in typing.accept("read")
    assert '[{ "type": "node", "node": "files_1", "tool": "write" }]' in typing.accept("files_1.write → { }")
    action = '[{ "type": "composio", "integration": "gmail", "connection": "mail", "action": "" }]'
    assert action in typing.accept("mail → { }")
    for item in typing.completion.items:
        assert not mistakes(typing.accept(item))


def test_without_known_connections_the_forms_are_offered() -> None:
    typing = at(text("¦"))
    assert typing.labels[-4:] == ["pipeline → { }", "mcp → { }", "http → { }", "composio → { }"]
    assert '[{ "type": "mcp", "server": "", "tool": "" }]' in typing.accept("mcp → { }")


@pytest.mark.parametrize(
    ("reference", "labels"),
    [
        ('{"type": "¦"}', ["node", "pipeline", "mcp", "http", "composio", "gateway"]),
        ('{"type": "node", "node": "¦"}', ["files_1"]),
        ('{"type": "node", "node": "files_1", "tool": "¦"}', ["read", "write"]),
        ('{"type": "node", "node": "nobody", "tool": "¦"}', []),
        ('{"type": "mcp", "server": "¦"}', ["github", "old"]),
        ('{"type": "http", "server": "¦"}', ["shop"]),
        ('{"type": "composio", "integration": "¦"}', ["gmail", "github"]),
        ('{"type": "gateway", "integration": "github", "connection": "¦"}', ["work", "mail"]),
        ('{"permission": "¦"}', ["allow", "ask", "deny"]),
        ('{"type": "node", "permission": ¦}', ["allow", "ask", "deny"]),
        ('{"available": {"space": "¦"}}', ["required"]),
        ('{"name": "¦"}', []),
    ],
)
def test_the_values_that_fit_are_offered(reference: str, labels: list[str]) -> None:
    assert offered(reference).labels == labels


@pytest.mark.parametrize(
    ("reference", "first"),
    [
        ('{"¦"}', ["type", "name", "description", "arguments", "parameters", "available", "permission", "timeout"]),
        ('{"type": "node", "¦"}', ["node", "tool", "name"]),
        ('{"type": "mcp", "server": "github", "¦"}', ["tool", "include", "exclude", "available", "permission", "timeout"]),
        ('{"type": "http", "server": "shop", "include": ["get*"], "¦"}', ["exclude", "available"]),
        ('{"type": "composio", "integration": "x", "¦"}', ["action", "connection", "name"]),
        (
            '{"type": "mcp", "server": "github", "tool": "x", "name": "y", "permission": "ask", "¦"}',
            ["description", "arguments"],
        ),
        ('{"type": "node", "node": "files_1", "tool": "write", "arguments": {"path": "x", "¦"}}', ["text"]),
        ('{"type": "node", "node": "files_1", "tool": "write", "parameters": {"¦"}}', ["path", "text"]),
        ('{"available": {"users": [], "¦"}}', ["space", "when"]),
    ],
)
def test_the_missing_keys_are_offered(reference: str, first: list[str]) -> None:
    typing = offered(reference)
    assert typing.labels[: len(first)] == first
    for item in typing.completion.items:
        assert not mistakes(typing.accept(item)), item.offer.label


def test_an_edge_offers_its_component_s_own_tools_without_type_and_node() -> None:
    assert in_edge("¦").labels == ["read → { }", "write → { }"]
    assert '[{ "tool": "read", "name": "" }]' in in_edge("¦").accept("read → { }")
    assert in_edge('{"¦"}').labels[:2] == ["tool", "name"]
    assert in_edge('{"tool": "¦"}').labels == ["read", "write"]
    assert in_edge('{"tool": "read", "arguments": {"¦"}}').labels == ["path"]
    assert "tools" in offered(edge=', "¦"').labels


def test_the_key_of_the_list_is_offered_where_references_are_taken() -> None:
    typing = at('{"components": [{"id": "t", "provider": "tools", "config": {"¦"}}]}')
    assert '"tools": []' in typing.accept("tools")
    assert "tools" not in at('{"components": [{"id": "t", "provider": "webhook", "config": {"¦"}}]}').labels


def test_variables_are_offered_where_their_values_are_put_in_alone() -> None:
    given = '{"type": "node", "node": "files_1", "tool": "read", "arguments": {"path": "¦"}}'
    assert "${ROCKETRIDE_ROOM}" in offered(given).labels
    assert "${ROCKETRIDE_ROOM}" in in_edge('{"tool": "read", "arguments": {"path": "${¦"}}').labels
    assert "${ROCKETRIDE_ROOM}" in offered('{"available": {"when": "¦"}}').labels
    assert "${ROCKETRIDE_ROOM}" not in offered('{"description": "${¦"}').labels


# names and pages

REFERENCES = (
    '"read", {"type": "node", "node": "files_1", "tool": "write", "name": "save", "permission": "ask", '
    '"available": {"users": ["ada"]}}, {"type": "mcp", "server": "old", "tool": "x"}'
)
WHOLE = text(REFERENCES, ', "tools": [{"tool": "read", "name": "look"}, {"node": "files_1", "tool": "write"}]')


def shown(piece: str, nth: int = 0) -> str:
    place = -1
    for _ in range(nth + 1):
        place = WHOLE.index(piece, place + 1)
    found = hover_at(analyse(WHOLE, KNOWN), place + 1)
    assert found is not None, piece
    return found.page.plain()


def test_an_id_in_a_reference_is_renamed_with_its_component() -> None:
    analysis = analyse(WHOLE, KNOWN)
    names = Names(analysis)
    name = names.at(WHOLE.index('"files_1"') + 1)
    assert name is not None
    assert sorted(each.use for each in names.meaning(name)) == ["id", "node", "node"]
    after = analyse(applied(WHOLE, names.renamed(name, "store")), KNOWN)
    assert "files_1" not in after.text
    assert [each.code for each in after.problems] == [each.code for each in analysis.problems]


@pytest.mark.parametrize("piece", ['"read", {', '"write", "name"', '"read", "name": "look"', '"write"}]'])
def test_a_tool_in_a_reference_leads_to_its_component(piece: str) -> None:
    names = Names(analyse(WHOLE, KNOWN))
    name = names.of_tool(WHOLE.index(piece) + 1)
    declared = None if name is None else names.declaration(name)
    assert declared is not None
    assert declared.value == "files_1"
    assert names.of_tool(WHOLE.index('"x"') + 1) is None


def test_everything_in_a_reference_has_a_page() -> None:
    assert "read(path): Read a file." in shown('"read", {').replace("\n\n", ": ")
    assert "A tool of files_1 (files)." in shown('"write", "name"')
    assert "Read a file." in shown('"read", "name": "look"')
    assert shown('"files_1"').startswith("files_1")
    assert "each call needs a permission" in shown('"ask"')
    assert "Whether a call is allowed" in shown('"permission"')
    assert "The ids of the users" in shown('"users"')
    assert "It cannot be used: it is switched off" in shown('"old"')
    assert "a tool of an MCP server" in shown('"mcp"')


# problems


def problems(references: str = "", edge: str = "", around: Any = KNOWN) -> list[tuple[str, str, str, tuple[str, ...]]]:
    found = analyse(text(references, edge), around).problems
    return [(each.code, each.severity, each.path.rpartition("/")[2], each.near) for each in found if "reference" in each.code]


@pytest.mark.parametrize(
    ("reference", "severity", "key", "near"),
    [
        ('{"type": "mcp", "server": "githb", "tool": "x"}', "warning", "server", ("github",)),
        ('{"type": "http", "server": "github", "tool": "x"}', "warning", "server", ()),
        ('{"type": "mcp", "server": "old", "tool": "x"}', "warning", "server", ()),
        (
            '{"type": "composio", "integration": "gmal", "action": "x", "connection": "mail"}',
            "warning",
            "integration",
            ("gmail",),
        ),
        ('{"type": "node", "node": "file_1", "tool": "read"}', "error", "node", ("files_1",)),
        ('{"type": "node", "node": "files_1", "tool": "red"}', "error", "tool", ("read",)),
        ('"wrte"', "error", "0", ("write",)),
    ],
)
def test_what_is_not_there_is_a_problem_with_its_fix(reference: str, severity: str, key: str, near: tuple[str, ...]) -> None:
    assert problems(reference) == [("reference_not_found", severity, key, near)]
    analysis = analyse(text(reference), KNOWN)
    problem = next(each for each in analysis.problems if each.code == "reference_not_found")
    context = FixContext(analysis, KnownNodes(KNOWN.catalog))
    after = [analyse(applied(analysis.text, made.edits), KNOWN) for made in fixes_for(context, problem)]
    assert len(after) == len(near)
    assert not [each for one in after for each in one.problems if each.code == "reference_not_found"]


def test_a_node_that_names_a_connection_has_the_same_offers_and_problems() -> None:
    server = '{"components": [{"id": "c", "provider": "tool_mcp_client", "config": {"server": "%s"}}]}'
    assert at(server % CURSOR, KNOWN).labels[:2] == ["github", "old"]
    found = analyse(server % "githb", KNOWN).problems
    assert [
        (each.severity, each.path.rpartition("/")[2], each.near) for each in found if each.code == "reference_not_found"
    ] == [("warning", "server", ("github",))]
    for name in ("github", "${ROCKETRIDE_NOWHERE}"):
        assert "reference_not_found" not in [each.code for each in analyse(server % name, KNOWN).problems]


def test_connections_that_are_not_known_are_no_problem() -> None:
    assert problems('{"type": "mcp", "server": "githb", "tool": "x"}', around=AROUND) == []
    assert sorted(problems(edge=', "tools": [{"tool": "red", "permision": "ask"}]', around=AROUND)) == [
        ("invalid_reference", "error", "permision", ("permission",)),
        ("reference_not_found", "error", "tool", ("read",)),
    ]


@pytest.mark.parametrize("piece", json.loads(f"[{REFERENCES}]"))
def test_no_place_in_a_reference_breaks_an_offer_or_a_page(piece: Any) -> None:
    whole = text(json.dumps(piece), f', "tools": [{json.dumps(piece)}]')
    for offset in range(len(whole)):
        hover_at(analyse(whole, KNOWN), offset)
        for cut in (whole[:offset] + CURSOR + whole[offset:], whole[:offset] + CURSOR + whole[offset + 1 :]):
            at(cut, KNOWN)
