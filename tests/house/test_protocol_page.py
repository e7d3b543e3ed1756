"""protocol.md is whole: every command, event, error code and limit has a heading or a row of a table there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rrext.errors import NUMBERS
from rrext.limits import DEFAULTS, Limits, camel
from rrext.server.commands import COMMANDS, SUBCOMMANDS

PAGE = Path(__file__).resolve().parents[2] / "protocol.md"

EVENTS = ("rrext_progress", "rrext_chunk")


def places() -> set[str]:
    """The names in backquotes in headings and in the first cell of table rows."""
    if not PAGE.exists():
        pytest.fail("protocol.md is missing: it is the contract of the wire")
    found: set[str] = set()
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            found.update(re.findall(r"`([^`]+)`", line))
        elif line.startswith("|"):
            found.update(re.findall(r"`([^`]+)`", line.split("|")[1]))
    return found


@pytest.mark.parametrize("name", [*COMMANDS, *SUBCOMMANDS])
def test_every_command_has_a_place_in_the_protocol(name: str) -> None:
    assert name in places(), f"protocol.md has no heading or row for the command `{name}`"


@pytest.mark.parametrize("name", EVENTS)
def test_every_event_has_a_place_in_the_protocol(name: str) -> None:
    assert name in places(), f"protocol.md has no heading or row for the event `{name}`"


@pytest.mark.parametrize("code", sorted(NUMBERS))
def test_every_error_code_stands_in_the_protocol_with_its_number(code: str) -> None:
    assert code in places(), f"protocol.md has no row for the error code `{code}`"
    number = str(-NUMBERS[code])
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|") and f"`{code}`" in line]
    assert any(number in row for row in rows), f"the row of `{code}` does not name its number −{number}"


@pytest.mark.parametrize("name", [camel(field) for field in Limits.__struct_fields__])
def test_every_limit_has_a_place_in_the_protocol(name: str) -> None:
    assert name in places(), f"protocol.md has no row for the limit `{name}`"


def test_limits_are_reported_under_the_names_that_the_protocol_gives() -> None:
    assert set(DEFAULTS.as_json()) == {camel(field) for field in Limits.__struct_fields__}
