"""One pipeline with tools of every origin answers the same through every face, and every face lists the same tools."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from commands import here, spawned, until
from msgspec import structs
from ways_in import WAYS, Answer, Command, WayIn
from whole_pipeline import CALLED, CALLS, LISTED, OF_PYTHON, RESOLVED, Place, Row

from rrext.nodes.sandbox.node import PythonNode

pytestmark = pytest.mark.promise("faces:same-tools")

FACES = [*WAYS, "CLI, a file", "CLI, a server"]


@pytest.fixture(scope="module")
def address(place: Place) -> Iterator[str]:
    """A server of the pipeline."""
    address = f"unix:{place.folder}/s"
    with spawned("serve", "--listen", address, *place.options, str(place.pipeline)) as process:
        assert process.stderr is not None
        until(process.stderr, "listening at")
        yield address


@pytest.fixture(scope="module")
def opened(place: Place, address: str) -> Iterator[Callable[[str], WayIn]]:
    """Opens a face for all tests."""
    with ExitStack() as stack:
        found: dict[str, WayIn] = {}

        def open_once(name: str) -> WayIn:
            if name not in found:
                found[name] = stack.enter_context(WAYS[name](place, address))
            return found[name]

        yield open_once


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest, opened: Any, place: Place, address: str, capfd: Any) -> WayIn:
    """Each face."""
    if request.param == "CLI, a file":
        return Command(lambda *words: here(capfd, *words), str(place.pipeline), *place.options)
    if request.param == "CLI, a server":
        return Command(lambda *words: here(capfd, *words), "--at", address)
    return opened(request.param)


@pytest.fixture(scope="module")
def expected(opened: Any) -> dict[str, Answer]:
    """What the first face answers."""
    return {row.name: opened("DAP").call(row) for row in CALLS}


def without_hashes(answer: Answer) -> Any:
    """An answer whose call refs do not tell the token of the pipeline, which an editor's has another one of."""
    return json.loads(re.sub(r"_[0-9a-f]{10}(?=\")", "", json.dumps(answer)))


def certain_rows() -> list[Row]:
    """The calls whose outcome is certain: programs need a kernel with a sandbox."""
    return [row for row in CALLS if row.tool not in OF_PYTHON or PythonNode.unavailable() is None]


def rows_for(face: WayIn) -> list[Row]:
    """The calls that a face can make, and that do not ask for a permit which only it gives."""
    return [row for row in CALLS if (face.has_nodes or not row.node) and not (row.is_permitted and face.permits)]


def test_every_call_has_the_same_answer(face: WayIn, expected: dict[str, Answer]) -> None:
    answers = {row.name: face.call(row) for row in rows_for(face)}
    different = {name: (answer, face.shown(expected[name])) for name, answer in answers.items()}
    assert {name: pair for name, pair in different.items() if pair[0] != pair[1]} == {}


def test_every_call_has_its_code(expected: dict[str, Answer]) -> None:
    assert {row.name: expected[row.name] for row in certain_rows() if expected[row.name].get("code") != row.code} == {}


def test_a_command_permits_what_it_calls(face: WayIn, expected: dict[str, Answer]) -> None:
    if face.permits:
        rows = [row for row in CALLS if row.is_permitted]
        assert [face.call(row) for row in rows] == [expected["SQL"]] * len(rows)


def test_a_command_names_the_node_of_a_tool_that_several_own(face: WayIn) -> None:
    if isinstance(face, Command):
        for row in CALLS:
            if row.owner:
                answer = face.call(structs.replace(row, owner=""))
                assert (answer["code"], answer["hint"]) == (
                    "invalid_arguments",
                    "--node ID says which one is asked: db_1, py_1",
                )


def test_every_face_lists_the_same_tools(face: WayIn, opened: Any) -> None:
    for format in ("mcp", None) if face.has_nodes else ("mcp",):
        listed, wanted = ({tool["name"]: tool for tool in each.tools(format)} for each in (face, opened("DAP")))
        assert listed == wanted
    assert set(listed) >= LISTED
    described = [(tool["description"], str(tool["inputSchema"])) for tool in listed.values()]
    assert len(set(described)) > len(described) // 2, "the comparison can fail"


def test_references_are_resolved_and_called_alike(face: WayIn, opened: Any) -> None:
    if not face.has_references:
        return
    first = opened("DAP")
    for tools, code in RESOLVED:
        answer, wanted = (each.request("rrext_tools_resolve", {"tools": tools}) for each in (face, first))
        assert wanted.get("code") == code, wanted
        assert without_hashes(answer) == without_hashes(wanted)
    for arguments, code in CALLED:
        answer, wanted = (each.request("rrext_tools_call", arguments) for each in (face, first))
        assert wanted.get("code") == code, wanted
        assert answer == wanted


def test_any_two_different_calls_have_different_answers(expected: dict[str, Answer]) -> None:
    """The comparison can fail."""
    names = [row.name for row in certain_rows()]
    pairs = {(a, b) for a in names for b in names if a < b and expected[a] == expected[b]}
    assert pairs == {("SQL", "SQL, by node")}
