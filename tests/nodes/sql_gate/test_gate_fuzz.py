"""Statements nobody thought of: whatever the text, the gate answers or refuses, and sends what was written."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sql_attacks import attacks
from sql_dialects import DIALECTS

from rrext.errors import InvalidArguments, ToolError
from rrext.nodes.sql.gate import SqlGate

GATES = {dialect: SqlGate(DIALECTS[dialect]) for dialect in DIALECTS}

PIECES = sorted({word for dialect in GATES for attack in attacks(dialect) for word in attack.sql.split()})


@settings(max_examples=150)
@given(st.sampled_from(sorted(GATES)), st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=12))
def test_any_text_is_answered_or_refused(dialect: str, words: list[str]) -> None:
    gate = GATES[dialect]
    sql = " ".join(words)
    try:
        sent = gate.read_only(sql).sql
    except (InvalidArguments, ToolError):
        return
    assert sent == sql


@given(st.sampled_from(sorted(GATES)), st.text("ab '\"`[]$/*-#\\\n\r;(.1eEuU&", max_size=24))
def test_a_call_is_seen_wherever_literals_and_comments_end(dialect: str, text: str) -> None:
    """Behind any text that the gate takes, a call of a function stays one, or what is before it swallows it whole."""
    gate = GATES[dialect]
    try:
        gate.read_only(f"SELECT {text}")
    except (InvalidArguments, ToolError):
        return
    if dialect == "sqlite" or text.rstrip().endswith((".", ";")) or "--" in text or "#" in text:
        return
    with pytest.raises((InvalidArguments, ToolError)):
        gate.read_only(f"SELECT {text} , no_such_function(1)")
