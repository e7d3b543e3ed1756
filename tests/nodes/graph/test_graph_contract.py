"""What both kinds of graph do alike, over the tools alone."""

from __future__ import annotations

import anyio
import pytest
from graph_world import GraphWorld, Tools

from rrext.errors import InvalidArguments, ToolError, Unavailable

pytestmark = pytest.mark.usefixtures("forked_children")

PEOPLE = "MATCH (p:Person) RETURN p.name AS name ORDER BY name"


async def test_a_query_gives_its_rows_by_column_name(graph: GraphWorld) -> None:
    async with graph.open() as tools:
        found = await tools("query", query=PEOPLE)
    assert found == {
        "columns": ["name"],
        "types": [{"ladybug": "STRING", "neo4j": None}[graph.kind]],
        "rows": [{"name": "Ada"}, {"name": "Charles"}, {"name": "Mary"}],
        "row_count": 3,
        "truncated": False,
    }


async def test_rows_are_arrays_for_who_wants_them(graph: GraphWorld) -> None:
    async with graph.open() as tools:
        found = await tools("query", query=PEOPLE, row_mode="array")
    assert found["rows"] == [["Ada"], ["Charles"], ["Mary"]]


async def test_a_column_that_comes_twice_is_lost_in_no_row(graph: GraphWorld) -> None:
    async with graph.open() as tools:
        found = await tools("query", query="MATCH (p:Person {name: 'Ada'}) RETURN p.name, p.born, p.name AS `p.name_2`")
        assert found["columns"] == ["p.name", "p.born", "p.name_2"]
        assert found["rows"] == [{"p.name": "Ada", "p.born": 1815, "p.name_2": "Ada"}]


async def test_parameters_are_given_by_name_and_never_read_as_cypher(graph: GraphWorld) -> None:
    async with graph.open() as tools:
        hostile = "x' OR true RETURN 1 //"
        assert await tools.rows("MATCH (p:Person) WHERE p.name = $name RETURN p.name", name=hostile) == []
        assert await tools.rows("MATCH (p:Person) WHERE p.name = $name RETURN p.born", name="Ada") == [[1815]]


async def test_a_parameter_without_a_value_is_named(graph: GraphWorld) -> None:
    async with graph.open() as tools:
        error = await tools.fails("query", query="MATCH (p:Person) WHERE p.name = $nmae RETURN p", params={"name": "Ada"})
    assert isinstance(error, InvalidArguments)
    assert "$nmae has no value" in error.message


async def test_a_list_of_parameters_is_refused(graph: GraphWorld) -> None:
    async with graph.open() as tools:
        error = await tools.fails("execute", query="RETURN $name AS n", params=["Ada"])
    assert isinstance(error, InvalidArguments)
    assert error.data["errors"][0]["path"] == "/input/params"
    assert "expected object" in error.message


async def test_an_integer_that_cypher_has_no_room_for_is_refused(graph: GraphWorld) -> None:
    async with graph.open() as tools:
        most = {"neo4j": 2**63, "ladybug": 2**64}[graph.kind]
        error = await tools.fails("query", query="RETURN $n AS n", params={"n": [most]})
        assert error.data["errors"][0]["path"] == "/input/params/n/0"
        assert await tools.value("RETURN $n AS n", n=most - 1) == most - 1


async def test_a_limit_says_that_it_cut(graph: GraphWorld) -> None:
    async with graph.open() as tools:
        cut = await tools("query", query=PEOPLE, limit=2)
        whole = await tools("query", query=PEOPLE, limit=3)
    assert (cut["row_count"], cut["truncated"]) == (2, True)
    assert (whole["row_count"], whole["truncated"]) == (3, False)


async def test_explain_shows_a_plan_and_runs_nothing(graph: GraphWorld) -> None:
    async with graph.open() as tools:
        assert (await tools("query", query=PEOPLE, explain=True))["plan"]
        error = await tools.fails("query", query="MATCH (p:Person) RETURN q.name", explain=True)
    assert isinstance(error, ToolError | InvalidArguments)


@pytest.mark.parametrize("word", ["EXPLAIN", "PROFILE"])
async def test_a_statement_may_ask_for_its_plan_itself(graph: GraphWorld, word: str) -> None:
    async with graph.open() as tools:
        answer = await tools("query", query=f"{word} {PEOPLE}", row_mode="array")
        assert (await tools("query", query=f"{word} {PEOPLE}", explain=True))["plan"]
        error = await tools.fails("query", query=f"{word} MATCH (p:Person) SET p.born = 1")
    assert len(answer["plan"]) > 1
    assert all("\n" not in line for line in answer["plan"])
    if graph.kind == "ladybug":
        assert answer["rows"][0][0].startswith("\n".join(answer["plan"]))
        assert any("SCAN_NODE_TABLE" in line for line in answer["plan"])
    assert error.code == "not_read_only"


async def test_a_large_result_is_streamed_in_chunks(graph: GraphWorld) -> None:
    chunks: list[object] = []
    async with graph.open() as tools:
        value = await tools.client.tool(
            tool="query_stream",
            input={"query": "UNWIND range(1, 2500) AS x RETURN x", "chunk_rows": 1000, "row_mode": "array"},
            on_chunk=chunks.append,
        )
    assert [len(chunk) for chunk in chunks] == [1000, 1000, 500]  # type: ignore[arg-type]
    types = [{"ladybug": "INT64", "neo4j": None}[graph.kind]]
    assert value == {"columns": ["x"], "types": types, "row_count": 2500}


@pytest.mark.parametrize("tool", ["execute", "query", "query_stream"])
async def test_a_statement_is_sql_or_query_but_not_both(graph: GraphWorld, tool: str) -> None:
    async with graph.open() as tools:
        assert await tools(tool, sql=PEOPLE) == await tools(tool, query=PEOPLE)
        for wrong in ({"sql": PEOPLE, "query": PEOPLE}, {}, {"query": "  "}):
            error = await tools.fails(tool, **wrong)
            assert isinstance(error, InvalidArguments)
            assert "exactly one of" in error.message


async def test_execute_is_off_by_default_and_says_how_to_turn_it_on(graph: GraphWorld) -> None:
    async with graph.open():
        pass  # there is something to read now
    async with graph.open(is_filled=False, allow_execute=False) as tools:
        for tool, input in (("execute", {"query": PEOPLE}), ("begin", {})):
            error = await tools.fails(tool, **input)
            assert isinstance(error, Unavailable)
        listed = {tool["name"].rpartition(".")[2] for tool in await tools.client.tools()}
        assert not {name for name in listed if "execute" in name or "begin" in name}
        assert await tools.rows(PEOPLE) == [["Ada"], ["Charles"], ["Mary"]]


async def test_more_rows_than_the_limit_are_an_error_and_nothing_is_kept(graph: GraphWorld) -> None:
    async with graph.open(max_execute_rows=10) as tools:
        statement = "CREATE (:City {name: 'Paris'}) WITH 1 AS one UNWIND range(1, 11) AS x RETURN x"
        error = await tools.fails("execute", query=statement)
        assert error.code == "too_many_rows"
        assert await tools.value("MATCH (c:City) RETURN count(*) AS n") == 1
        answer = await tools("execute", query=statement.replace("11", "10"))
        assert len(answer["rows"]) == 10
        assert await tools.value("MATCH (c:City) RETURN count(*) AS n") == 2


async def test_a_transaction_is_seen_by_others_only_when_it_is_committed(graph: GraphWorld) -> None:
    count = "MATCH (c:City) RETURN count(*) AS n"
    async with graph.open() as tools:
        session = (await tools("begin"))["session_id"]
        await tools("execute", query="CREATE (:City {name: 'Paris'})", session_id=session)
        assert (await tools("execute", query=count, session_id=session))["rows"] == [{"n": 2}]
        assert await tools.value(count) == 1
        assert await tools("commit", session_id=session) == {"ok": True}
        assert await tools.value(count) == 2


async def test_a_transaction_that_is_rolled_back_leaves_nothing(graph: GraphWorld) -> None:
    async with graph.open() as tools:
        session = (await tools("begin"))["session_id"]
        await tools("execute", query="CREATE (:City {name: 'Paris'})", session_id=session)
        assert await tools("rollback", session_id=session) == {"ok": True}
        assert await tools.value("MATCH (c:City) RETURN count(*) AS n") == 1
        error = await tools.fails("execute", query="RETURN 1 AS n", session_id=session)
    assert error.message == f"unknown or expired transaction session: {session}"


async def test_after_a_failure_no_later_statement_of_the_session_is_kept(graph: GraphWorld) -> None:
    """Ladybug ends the transaction by itself, and would commit what follows statement by statement."""
    async with graph.open() as tools:
        session = (await tools("begin"))["session_id"]
        await tools("execute", query="CREATE (:City {name: 'Paris'})", session_id=session)
        error = await tools.fails("execute", query="MATCH (c:City) RETURN nothing.here", session_id=session)
        assert error.data["session"] == "over"
        await tools.fails("execute", query="CREATE (:City {name: 'Rome'})", session_id=session)
        await tools.fails("commit", session_id=session)
        assert await tools.rows("MATCH (c:City) RETURN c.name") == [["London"]]


async def test_an_idle_transaction_is_rolled_back(graph: GraphWorld) -> None:
    async with graph.open(session_idle=2.0) as tools:
        session = (await tools("begin"))["session_id"]
        await tools("execute", query="CREATE (:City {name: 'Paris'})", session_id=session)

        with anyio.fail_after(30):
            while await outcome_of(tools, session) == "kept":  # each use begins its time anew
                await anyio.sleep(2.5)
        assert await outcome_of(tools, session) == "session_not_found"
        assert await tools.value("MATCH (c:City) RETURN count(*) AS n") == 1


async def outcome_of(tools: Tools, session: str) -> str:
    try:
        await tools("execute", query="RETURN 1 AS n", session_id=session)
    except ToolError as error:
        return error.code
    return "kept"


@pytest.mark.parametrize("how", ["timeout of the call", "statement_timeout", "cancelled"])
async def test_a_slow_statement_ends_and_the_node_goes_on(graph: GraphWorld, how: str) -> None:
    async with graph.open(statement_timeout=3.0 if how == "statement_timeout" else 60.0) as tools:
        slow = {"query": graph.slow()}
        if how == "cancelled":
            with anyio.move_on_after(0.3) as scope:
                await tools.client.tool(tool="query", input=slow)
            assert scope.cancelled_caught
        else:
            timeout = 0.3 if how == "timeout of the call" else None
            with pytest.raises((ToolError, Exception)) as caught:
                await tools.client.tool(tool="query", input=slow, timeout=timeout)
            assert getattr(caught.value, "code", None) == ("tool_timeout" if timeout else "statement_timeout")
        assert await tools.rows(PEOPLE) == [["Ada"], ["Charles"], ["Mary"]]


async def test_the_schema_tells_labels_types_and_what_they_connect(graph: GraphWorld) -> None:
    async with graph.open() as tools:
        schema = await tools("refresh_schema")
    assert schema["refreshed_at"]
    people = {entry["property"]: entry["type"] for entry in schema["nodes"]["Person"]["properties"]}
    assert (
        people
        == {
            "neo4j": {"name": "STRING", "born": "INTEGER", "height": "FLOAT"},
            "ladybug": {"name": "STRING", "born": "INT64", "height": "DOUBLE"},
        }[graph.kind]
    )
    assert schema["relationships"]["KNOWS"]["ends"] == [{"from": "Person", "to": "Person"}]
    assert [entry["property"] for entry in schema["relationships"]["KNOWS"]["properties"]] == ["since"]
    assert schema["relationships"]["LIVES_IN"]["ends"] == [{"from": "Person", "to": "City"}]


async def test_the_schema_of_one_label_has_what_touches_it(graph: GraphWorld) -> None:
    async with graph.open() as tools:
        city = await tools("get_schema", label="City")
        error = await tools.fails("get_schema", label="Persn")
    assert list(city["nodes"]) == ["City"]
    assert list(city["relationships"]) == ["LIVES_IN"]
    assert error.code == "label_not_found"
    assert error.data["near"] == ["Person"]


async def test_the_schema_is_a_snapshot_until_it_is_refreshed(graph: GraphWorld) -> None:
    async with graph.open() as tools:
        before = await tools("get_schema")
        new = (
            "CREATE NODE TABLE Ship(name STRING PRIMARY KEY)" if graph.kind == "ladybug" else "CREATE (:Ship {name: 'Beagle'})"
        )
        await tools("execute", query=new)
        assert await tools("get_schema") == before
        assert "Ship" in (await tools("refresh_schema"))["nodes"]


async def test_the_dialect_is_the_truth(graph: GraphWorld) -> None:
    async with graph.open(is_filled=False) as tools:
        assert await tools("dialect") == {"dialect": graph.kind}


async def test_a_syntax_error_is_bad_input_and_quotes_no_statement(graph: GraphWorld) -> None:
    async with graph.open() as tools:
        error = await tools.fails("execute", query="MATCH (n {secret: 'hunter2'}) RETRUN n")
    assert isinstance(error, InvalidArguments)
    assert "hunter2" not in f"{error.message} {error.hint} {error.data}"


async def test_calls_run_beside_each_other(graph: GraphWorld) -> None:
    async with graph.open() as tools:
        answers: list[object] = []

        async def ask(number: int) -> None:
            answers.append(await tools.value("RETURN $n AS n", n=number))

        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(ask, number)
    assert sorted(answers) == list(range(20))  # type: ignore[type-var]


async def test_many_different_statements_use_no_memory_up(graph: GraphWorld) -> None:
    """Ladybug's connections keep a plan of half a megabyte for each statement with parameters."""
    async with graph.open(is_filled=False, **({"memory_mb": 64} if graph.kind == "ladybug" else {})) as tools:
        for number in range(300 if graph.kind == "ladybug" else 20):
            assert await tools.value(f"RETURN $n AS n{number}", n=number) == number


async def test_without_a_limit_of_time_a_statement_takes_what_it_takes(graph: GraphWorld) -> None:
    async with graph.open(statement_timeout=0) as tools:
        assert await tools.rows(PEOPLE) == [["Ada"], ["Charles"], ["Mary"]]
