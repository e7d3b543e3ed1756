"""Every request has the same answer on every face: code, message, hint, data and body."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import msgspec
import pytest
from answer_rows import ROWS, Row, told
from face import WAYS, Face, Way
from houses import ISOLATED, open_house

from rrext.server.commands import COMMANDS, SUBCOMMANDS

pytestmark = [pytest.mark.promise("engine:plain-data"), pytest.mark.promise("testing:pair-public")]

WORKER = 1 << 32
"""What the numbers of pipes in the first worker are above those of an engine."""


async def all_answers(way: Way) -> dict[str, Any]:
    async with open_house(way, fresh=True) as house, house.connect() as face:
        if way.kind in ISOLATED:
            return await answers_of_processes(face)
        return {row.name: await told(face, row) for row in ROWS if not (row.of_session and way.kind == "engine")}


async def answers_of_processes(face: Face) -> dict[str, Any]:
    """The answers of a fresh server whose tasks have processes of their own."""
    return {row.name: counted_from_one(await told(face, of_worker(row))) for row in ROWS}


def of_worker(row: Row) -> Row:
    """The row for the first worker of a server, whose pipes have numbers of their own."""
    number = row.arguments.get("pipe_id")
    if type(number) is not int:
        return row
    return msgspec.structs.replace(row, arguments={**row.arguments, "pipe_id": number + WORKER})


def counted_from_one(answer: Any) -> Any:
    """An answer with numbers of pipes that count from one."""
    if isinstance(answer, dict):
        return {key: counted_from_one(value) for key, value in answer.items()}
    if isinstance(answer, list):
        return [counted_from_one(value) for value in answer]
    if isinstance(answer, str):
        return re.sub(r"\b42949\d{5}\b", lambda found: str(int(found[0]) - WORKER), answer)
    return answer - WORKER if type(answer) is int and WORKER < answer < 16 * WORKER else answer


async def expected_answers() -> dict[str, Any]:
    """The engine's own answers; a session's own commands are answered by the first that has one."""
    return {**await all_answers(WAYS[1]), **await all_answers(WAYS[0])}


@pytest.fixture(scope="module")
async def expected() -> dict[str, Any]:
    return await expected_answers()


async def test_every_request_of_the_table_is_answered_alike(way: Way, expected: dict[str, Any]) -> None:
    assert not different(await all_answers(way), expected)


def different(answers: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """Those that differ, both of each."""
    return {name: (answer, expected[name]) for name, answer in answers.items() if answer != expected[name]}


async def test_every_request_of_the_table_has_its_code(expected: dict[str, Any]) -> None:
    assert {row.name: expected[row.name] for row in ROWS if expected[row.name]["code"] != row.code} == {}


async def test_every_failure_of_the_table_is_one_that_json_holds_and_a_person_understands(expected: dict[str, Any]) -> None:
    failures = {row.name: expected[row.name] for row in ROWS if row.code}
    assert msgspec.json.decode(msgspec.json.encode(failures)) == failures
    odd = {
        name: answer for name, answer in failures.items() if not answer["message"].strip() or "Traceback" in answer["message"]
    }
    assert odd == {}


def test_the_table_has_every_command_and_no_name_twice() -> None:
    asked = {row.command for row in ROWS}
    assert set(COMMANDS) - asked == {"shutdown", "disconnect"}  # they end the connection: each has tests of its own
    assert {row.arguments.get("subcommand") for row in ROWS} >= set(SUBCOMMANDS)
    assert [name for name, count in Counter(row.name for row in ROWS).items() if count > 1] == []


async def test_any_two_answers_of_engine_and_client_are_told_apart(expected: dict[str, Any]) -> None:
    """The comparison can fail: rows of different requests differ."""
    assert expected["a sync tool"] != expected["a generator is a list"]
    assert expected["a tool almost right"] != expected["a tool that nobody knows"]
