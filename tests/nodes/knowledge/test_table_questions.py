"""`query_documents` as a pipeline has it: documents that `parse` read, questions to a model, and strict function calling."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rrext import Client
from rrext.errors import RrextError
from rrext.testing import open_pipeline

pytestmark = pytest.mark.anyio

SALES = "Region;Units;Code\nnorth;3;007\nsouth;4;010\n"


def pipeline(folder: Path, script: dict[str, Any] | None) -> dict[str, Any]:
    """Documents go through `parse` into the catalog; the model follows a script."""
    lanes = [{"lane": lane, "from": "parse"} for lane in ("text", "table")]
    components: list[dict[str, Any]] = [
        {"id": "in", "provider": "webhook", "config": {"mode": "Source"}},
        {"id": "parse", "provider": "parse", "config": {}, "input": [{"lane": "tags", "from": "in"}]},
        {
            "id": "docs",
            "provider": "knowledge",
            "config": {"path": str(folder)},
            "input": lanes,
            "control": [{"classType": "tool", "from": "in"}],
        },
    ]
    if script is not None:
        lines = [{"match": match, "answer": answer} for match, answer in script.items()]
        model = {"id": "llm", "provider": "llm_scripted", "config": {"script": lines}}
        components.append({**model, "control": [{"classType": "llm", "from": "docs"}]})
    return {"source": "in", "components": components}


@asynccontextmanager
async def documents(folder: Path, script: dict[str, Any] | None = None) -> AsyncIterator[Client]:
    async with open_pipeline(pipeline(folder, script)) as client:
        await client.send(SALES.encode(), mimetype="text/csv", objinfo={"name": "docs/sales.csv"})
        yield client


async def asked(client: Client, **input: Any) -> Any:
    return await client.tool(tool="query_documents", node_id="docs", input=input)


async def test_a_file_that_parse_read_is_asked_in_sql_without_a_model(tmp_path: Path) -> None:
    async with documents(tmp_path) as client:
        await client.send(
            b'[{"region": "north", "lead": "Ann"}]', mimetype="application/json", objinfo={"name": "docs/leads.json"}
        )
        answer = await asked(client, sql='SELECT "Code", lead FROM sales JOIN leads ON leads.region = sales.region')
        assert answer["rows"] == [["007", "Ann"]]
        assert answer["types"] == ["VARCHAR", "VARCHAR"]
        with pytest.raises(RrextError) as caught:
            await asked(client, question="Who?")
        assert caught.value.code == "unavailable"


async def test_a_question_is_answered_with_the_statement_that_the_model_wrote(tmp_path: Path) -> None:
    sql = 'SELECT sum("Units") AS units FROM sales'
    async with documents(tmp_path, {"how many": {"sql": sql}, "weather": {"answer": "No table knows."}}) as client:
        answer = await asked(client, question="How many units were sold?")
        assert (answer["sql"], answer["rows"], answer["tables"][0]["path"]) == (sql, [[7]], "docs/sales.csv")
        answer = await asked(client, question="How is the weather?")
        assert (answer["sql"], answer["answer"], answer["rows"]) == (None, "No table knows.", [])


async def test_a_statement_of_the_model_that_writes_is_refused(tmp_path: Path) -> None:
    async with documents(tmp_path, {"": {"sql": "DROP TABLE sales"}}) as client:
        with pytest.raises(RrextError) as caught:
            await asked(client, question="Remove it all")
        assert caught.value.code == "unsafe_sql"
        assert len(caught.value.data["attempts"]) == 3
        assert (await asked(client, sql="SELECT count(*) FROM sales"))["rows"] == [[2]]


async def test_a_question_and_a_statement_are_not_given_together(tmp_path: Path) -> None:
    async with documents(tmp_path, {"": {"sql": "SELECT 1"}}) as client:
        for input in ({"question": "Who?", "sql": "SELECT 1"}, {"question": "Who?", "offset": 5}, {"question": " "}):
            with pytest.raises(RrextError) as caught:
                await asked(client, **input)
            assert caught.value.code == "invalid_arguments"
