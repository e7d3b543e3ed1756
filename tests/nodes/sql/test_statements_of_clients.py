"""`client.database.query` on databases that do not allow `execute`: what only reads runs, the rest is refused."""

from __future__ import annotations

import pytest

from rrext import InvalidArguments, Unavailable
from rrext.testing import open_pipeline

READ_ONLY = {
    "components": [
        {"id": "tools_1", "provider": "tools", "config": {}},
        {
            "id": "db_1",
            "provider": "db_sqlite",
            "config": {"path": ":memory:"},
            "control": [{"classType": "tool", "from": "tools_1"}],
        },
    ]
}


async def test_a_statement_that_only_reads_runs_by_query_on_a_node_that_only_reads() -> None:
    async with open_pipeline(READ_ONLY) as client:
        found = await client.database.query("select $1 as n", params=[7])
        assert (found["rows"], found["affected_rows"]) == ([{"n": 7}], 0)


async def test_a_statement_that_writes_is_refused_with_the_names_of_query_and_read() -> None:
    async with open_pipeline(READ_ONLY) as client:
        with pytest.raises(Unavailable) as caught:
            await client.database.query("create table t (n integer)")
    error = caught.value
    assert error.message.startswith("execute tool is disabled for this node (set allow_execute=true), and `query` refused")
    assert "`query`" in (error.hint or "")
    assert "client.database.read" in (error.hint or "")
    assert '"allow_execute": true' in (error.hint or "")
    assert error.data["instead"] == "query"


@pytest.mark.promise("tools:unique-owner")
async def test_with_several_databases_that_only_read_none_of_them_reads_unasked() -> None:
    first, second = READ_ONLY["components"]
    async with open_pipeline({"components": [first, second, {**second, "id": "db_2"}]}) as client:
        for sql in ("select 1 as n", "delete from t"):
            with pytest.raises(InvalidArguments) as caught:
                await client.database.query(sql)
            assert caught.value.data["nodes"] == ["db_1", "db_2"]
        assert (await client.database.query("select 1 as n", node_id="db_2"))["rows"] == [{"n": 1}]
