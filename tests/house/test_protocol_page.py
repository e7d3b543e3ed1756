"""protocol.md is whole: every command, event, error code and limit has a heading or a row of a table there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rrext.errors import NUMBERS
from rrext.limits import DEFAULTS, Limits, camel
from rrext.server.commands import COMMANDS, SUBCOMMANDS

PAGE = Path(__file__).resolve().parents[2] / "protocol.md"

EVENTS = (
    "rrext_progress", "rrext_chunk", "rrext_call", "rrext_permission", "rrext_question", "apaevt_status_update", "apaevt_task",
    "apaevt_sse", "apaevt_flow", "output", "apaevt_status_object",
)  # fmt: skip


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


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("command", [*COMMANDS, *SUBCOMMANDS]),
        ("event", EVENTS),
        ("error code", sorted(NUMBERS)),
        ("limit", [camel(field) for field in Limits.__struct_fields__]),
    ],
)
def test_every_name_has_a_place_in_the_protocol(what: str, names: list[str]) -> None:
    missing = set(names) - places()
    assert not missing, f"protocol.md has no heading or row for each {what} of {sorted(missing)}"


def test_every_error_code_stands_in_the_protocol_with_its_number() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    missing = {
        code: number for code, number in NUMBERS.items() if not any(f"`{code}`" in row and str(-number) in row for row in rows)
    }
    assert not missing, f"no row of these codes names their number: {missing}"


def test_limits_are_reported_under_the_names_that_the_protocol_gives() -> None:
    assert set(DEFAULTS.as_json()) == {camel(field) for field in Limits.__struct_fields__}
