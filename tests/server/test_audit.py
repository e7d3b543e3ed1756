"""The audit log: one line per call, whatever became of it, in which no name can pass for a field."""

from __future__ import annotations

import logging

import pytest

from rrext.engine.events.records import CallEnded
from rrext.engine.local_engine import LocalEngine
from rrext.errors import RrextError
from rrext.nodes.base.node import Node
from rrext.pipefile.catalog.catalog import Catalog
from rrext.server.journal.audit import begin_audit, line_of
from rrext.testing import pair
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function

pytestmark = pytest.mark.anyio


class Source(Node):
    provider = "audit_source"
    class_types = ("source",)


class Worker(Node):
    provider = "audit_worker"

    @tool_function
    def add(self, a: int) -> int:
        return a + 1

    @tool_function
    async def twice(self, a: int, ctx: ToolContext) -> int:
        return await ctx.call("w", "add", {"a": await ctx.call("w", "add", {"a": a})})


PIPELINE = {
    "source": "s",
    "components": [
        {"id": "s", "provider": "audit_source", "config": {"mode": "Source"}},
        {"id": "w", "provider": "audit_worker", "config": {}, "control": [{"classType": "tool", "from": "s"}]},
    ],
}


def ended(**given: object) -> CallEnded:
    known = {"time": 0.0, "call": 1, "command": "tool", "tool": "add", "node_id": "w", "request_id": 7, "seconds": 0.0125}
    return CallEnded(**{**known, "connection_id": "stdio", **given})  # type: ignore[arg-type]


async def test_a_line_says_who_asked_for_what_and_what_became_of_it() -> None:
    assert line_of(ended(size=3)) == "request=7 client=stdio pipe=None node=w tool=add ms=12.500 outcome=done bytes=3"
    assert line_of(ended(code="cancelled", user_id="ann", pipe_id=4, callers=("w.a", "w.b"))) == (
        "request=7 client=stdio pipe=4 node=w tool=add ms=12.500 outcome=cancelled bytes=0 user=ann caller=w.b"
    )
    assert line_of(ended(tool=None, node_id=None, command="open", pipe_id=1)) == (
        "request=7 client=stdio pipe=1 command=open ms=12.500 outcome=done bytes=0"
    )


@pytest.mark.promise("events:audit:line-per-call")
async def test_names_that_callers_choose_cannot_pass_for_fields() -> None:
    line = line_of(ended(tool='x outcome=done "y', request_id="1 client=root", code="tool_not_found", user_id="half \ud800"))
    assert line == (
        'request="1 client=root" client=stdio pipe=None node=w tool="x outcome=done \\"y" '
        'ms=12.500 outcome=tool_not_found bytes=0 user="half ?"'
    )


@pytest.mark.promise("events:audit:line-per-call")
async def test_every_call_leaves_one_line_also_refused_and_nested_ones(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rrext.calls")
    engine = LocalEngine(catalog=Catalog([Source, Worker]))
    begin_audit(engine)
    engine.load(PIPELINE, token="t")
    async with pair(engine) as client:
        await client.tool(tool="twice", input={"a": 1})
        for tool, given in (("add", {"b": 1}), ("nosuch", {})):
            with pytest.raises(RrextError):
                await client.tool(tool=tool, input=given)
        await client.tools()
    await engine.aclose()
    fields = [dict(part.split("=", 1) for part in record.message.split()) for record in caplog.records]
    assert [(f["tool"], f["outcome"], f.get("caller")) for f in fields] == [
        ("add", "done", "w.twice"),
        ("add", "done", "w.twice"),
        ("twice", "done", None),
        ("add", "invalid_arguments", None),
        ("nosuch", "tool_not_found", None),
    ]
