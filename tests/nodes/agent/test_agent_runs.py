"""Runs of an agent: tools, answers, errors that its model may mend, limits, cancels and sessions."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pydantic_ai
import pytest
from agent_world import SECRET, AgentWorld, Call, Events, Say, Tools, agent_world, component
from engine_world import AsyncPark, until
from model_server import Asked, Gate, HalfStream, ModelServer, Status, Usage
from outside_tools import Outside

from rrext.engine.interface.call import Caller
from rrext.errors import Cancelled, InvalidPipeline, ToolError, ToolTimeout

pytestmark = pytest.mark.anyio
ONCE = [Call("add", {"a": 1, "b": 2})]


async def test_an_agent_calls_tools_at_once_reads_their_results_and_answers(server: ModelServer) -> None:
    async with agent_world(server) as w:
        w.plays(Say("I add.", calls=[*ONCE, Call("fail")]), Say("It is 3."))
        feed = Events()
        answer = await w.ask("1 + 2?", feed).result()
        assert answer["content"] == "It is 3."
        codes = {step["name"]: step["payload"].get("error", {}).get("code") for step in answer["stack"]}
        assert codes == {"add": None, "fail": "tool_failed"}, "the one that ends first comes first"
        first, second = server.asked
        assert sorted(first.tools) == [*("add", "ask_other", "fail", "leak", "long", "not_a_number", "stay", "whoami")]
        assert second.results[0] == "3"
        assert "the disk is full" in second.results[1]
        assert server.connections == 1
        meta = answer["meta"]
        assert (meta["turns"], meta["calls"], meta["input_tokens"], meta["output_tokens"]) == (2, 2, 10, 14)
        assert (meta["framework"], meta["agent_id"], meta["model"], "cost" in meta) == ("rrext", "agent_1", "test", False)
        steps = [kind for kind in feed.kinds if kind.startswith("agent")]
        assert steps[:5] == [
            "agent_step start",
            "agent_turn start",
            "agent_step chunk",
            "agent_turn end",
            "agent_step tool_call add",
        ]
        assert steps[-4:] == ["agent_turn start", "agent_step chunk", "agent_turn end", "agent_step end"]
        assert [body["data"] for body in feed.bodies if body.get("step") == "tool_result" and "data" in body] == [3]
        ended = [body for body in feed.bodies if body["event"] == "call_ended" and body["tool"] == "add"]
        started = [body for body in feed.bodies if body["event"] == "call_started" and body["tool"] == "run_agent"]
        assert ended[0]["caller"] == started[0]["call"]


async def test_the_loop_prints_nothing_of_its_own(server: ModelServer) -> None:
    async with agent_world(server) as w:
        await w.ask("Hello").result()
    assert not pydantic_ai.BANNER_ENABLED  # in tests it is never shown, on a terminal once


async def test_an_agent_without_tools_answers_and_one_without_a_question_asks_nobody(server: ModelServer) -> None:
    async with agent_world(server) as w:
        answer = await w.ask("Hello").result()
        assert answer["content"] == "You said: Hello"
        asked = len(server.asked)
        assert (await w.ask("  ").error()).code == "empty_question"
        assert len(server.asked) == asked


async def test_what_the_model_does_wrong_goes_back_to_it_and_nothing_runs(server: ModelServer) -> None:
    wrong = [
        Call("add", arguments='{"a": 1, "b":'),
        Call("add", arguments="[1, 2]"),
        Call("add", {"a": "one", "b": 2}),
        Call("ad", {"a": 1, "b": 2}),
        Call("model_1__ask", {"question": "?"}),
        Call("not_a_number"),
        Call("add", {"a": 1, "b": 2}, id=None),
        Call("add", {"a": 2, "b": 2}, has_index=False),
    ]
    async with agent_world(server) as w:
        w.plays(Say(calls=wrong), Say("done"))
        answer = await w.ask().result()
        results = server.asked[1].results
        assert "no JSON, and nothing was run" in results[0]
        assert "no JSON object" in results[1]
        assert "/a" in results[2]
        assert "Unknown tool name: 'ad'" in results[3]
        assert "Unknown tool name: 'model_1__ask'" in results[4]
        assert "NaN" in results[5] or "nan" in results[5]
        assert results[6:] == ["3", "4"]
        assert [bool(step["payload"].get("error")) for step in answer["stack"]].count(True) == 6
        assert (answer["content"], answer["meta"]["calls"]) == ("done", 4)


async def test_a_model_that_repeats_the_same_failing_call_ends_with_a_precise_error(server: ModelServer) -> None:
    async with agent_world(server) as w:
        server.plays(lambda asked: Say(calls=[Call("fail")]))
        error = await w.ask().error()
        assert (error.code, error.data["tool"], len(server.asked)) == ("agent_stuck", "fail", 3)
        assert "the disk is full" in error.message
        server.plays(lambda asked: Say(calls=[Call("nothing")]))
        assert (await w.ask().error()).code == "agent_stuck"


async def test_an_answer_that_is_not_whole_fails_with_the_part_that_came(server: ModelServer) -> None:
    async with agent_world(server) as w:
        w.plays(Say("It is thr", finish="length"))
        error = await w.ask().error()
        assert (error.code, error.data["answer"]) == ("answer_cut", "It is thr")
        w.plays(Say(calls=[Call("add", arguments='{"a": 1')], finish="length"))
        assert (await w.ask().error()).code == "answer_cut"
        w.plays(Say(calls=ONCE, finish="length"), Say("3", finish="tool_calls"))  # both lie
        assert (await w.ask().result())["content"] == "3"
        w.plays(Say("", refusal="I may not"))
        assert (await w.ask().error()).code == "answer_refused"
        w.plays(HalfStream(["It ", "is "]))
        assert (await w.ask().error()).code == "model_unreachable"
        w.plays(Status(503), Say("after all"))
        assert (await w.ask().result())["content"] == "after all"
        w.plays(Status(400, "sk-4711 is wrong"))
        error = await w.ask().error()
        assert "sk-4711" not in error.message


async def test_structured_output_is_checked_by_our_own_validator_and_mended_by_the_model(server: ModelServer) -> None:
    schema = {"type": "object", "properties": {"temp": {"type": "number", "minimum": 0}}, "required": ["temp"]}
    async with agent_world(server, output=schema) as w:
        server.plays(lambda asked: Say(calls=[Call(asked.tools[-1], {"temp": "hot"} if not asked.results else {"temp": 21.5})]))
        answer = await w.ask().result()
        assert answer["content"] == {"temp": 21.5}
        assert "/temp" in server.asked[1].results[0]
        server.plays(lambda asked: Say(calls=[Call(asked.tools[-1], {"temp": -1})]))
        error = await w.ask().error()
        assert error.code == "model_bad_answer"
        assert "in 4 attempts. The last one: /temp: expected at least 0" in error.message
        server.plays(lambda asked: Say("warm"))
        error = await w.ask().error()
        assert "it is empty, or no JSON" in error.message
        assert '"output" simpler' in (error.hint or "")


async def test_the_last_turn_has_no_tools_and_limits_end_a_run_by_name(server: ModelServer) -> None:
    def calls(asked: Asked) -> Say:
        return Say(calls=[Call("add", {"a": len(server.asked), "b": 1})])

    async with agent_world(server, max_waves=3) as w:
        w.plays(Say(calls=ONCE), Say(calls=ONCE), Say("last"))
        assert (await w.ask().result())["content"] == "last"
        assert [bool(asked.tools) for asked in server.asked] == [True, True, False]
        server.plays(calls)
        error = await w.ask().error()
        assert (error.code, error.data["limit"], error.data["done"]["turns"]) == ("agent_limit", "max_waves", 3)
        server.asked.clear()
        server.plays(lambda asked: None)
    async with agent_world(server, max_waves=1) as w:
        assert (await w.ask("Hello").result())["content"]
        assert server.asked.pop().tools == []
    server.plays(calls)
    async with agent_world(server, max_tokens=30) as w:
        error = await w.ask().error()
        assert (error.code, error.data["limit"], len(server.asked)) == ("agent_limit", "max_tokens", 3)
        server.asked.clear()
    async with agent_world(server, max_cost=0.01, model={"price": {"input": 100, "output": 1000}}) as w:
        error = await w.ask().error()
        assert (error.code, error.data["limit"], len(server.asked)) == ("agent_limit", "max_cost", 2)
    async with agent_world(server, max_calls=1) as w:
        w.plays(Say(calls=[*ONCE, Call("add", {"a": 5, "b": 5})]), Say("enough"))
        server.asked.clear()
        assert (await w.ask().result())["content"] == "enough"
        assert "max_calls" in server.asked[1].results[1]
        assert server.asked[1].tools == []
    with pytest.raises(InvalidPipeline, match="config/max_cost: nobody knows the price"):
        async with agent_world(server, max_cost=1):
            pass
    async with agent_world(server, max_cost=1, model={"model": "gpt-4o", "base_url": "https://api.openai.com/v1"}):
        pass


async def test_without_a_report_of_usage_tokens_are_estimated_and_marked(server: ModelServer) -> None:
    async with agent_world(server) as w:
        w.plays(Say("x" * 400, usage=None))
        meta = (await w.ask("y" * 400).result())["meta"]
        assert meta["estimated"] is True
        assert meta["output_tokens"] == 100
        assert 100 <= meta["input_tokens"] < 400


async def test_a_long_result_is_cut_and_the_model_reads_on(server: ModelServer) -> None:
    async with agent_world(server, max_result=1000) as w:
        w.plays(
            Say(calls=[Call("long", {"size": 10_000_000})]),
            Say(calls=[Call("read_result", {"result": 1, "start": 9_999_995}), Call("read_result", {"result": 7, "start": 0})]),
            Say("read"),
        )
        assert (await w.ask().result())["content"] == "read"
        assert "read_result" not in server.asked[0].tools
        cut = server.asked[1].results[0]
        assert len(cut) < 1200
        assert "1,000 of 10,000,000 characters" in cut
        assert server.asked[2].results[1].startswith("56789\n")
        assert "There is no result 7" in server.asked[2].results[2]


async def test_of_many_tools_the_model_searches_the_ones_that_it_needs(server: ModelServer) -> None:
    async with agent_world(server, defer_tools=2) as w:
        server.plays(lambda asked: Say(calls=ONCE) if "add" in asked.tools else None)
        w.plays(Say(calls=[Call("search_tools", {"queries": ["add numbers"]})]))
        w.plays(Say(calls=ONCE), Say("found"))
        assert (await w.ask().result())["content"] == "found"
        assert server.asked[0].tools == ["search_tools"]
        assert "add" in server.asked[1].tools


async def test_references_are_for_the_agent_alone_and_what_is_not_bound_is_not_there(server: ModelServer) -> None:
    free = component("free_1", "toys", [{"classType": "tool", "from": "source"}])
    reference = {"type": "node", "node": "free_1", "tool": "add", "name": "plus", "arguments": {"a": 40}, "permission": "ask"}
    async with agent_world(server, free, tools=[reference]) as w:
        w.plays(Say(calls=[Call("plus", {"b": 2}), Call("free_1__add", {"a": 1, "b": 1})]), Say("done"))
        feed = Events(permit=True)
        await w.ask("?", feed).result()
        assert server.asked[1].results[0] == "42"
        assert "Unknown tool name" in server.asked[1].results[1]
        assert [(asked["tool"], asked["within"]) for asked in feed.asked] == [("plus", "agent_1.run_agent")]
        assert "plus" not in await w.inner.tools()
        for feed, text in ((Events(permit=False), "it was denied"), (None, "did not offer to answer")):
            w.plays(Say(calls=[Call("plus", {"b": 2})]), Say("without"))
            assert (await w.ask("?", feed).result())["content"] == "without"
            assert text in server.asked[-1].results[0]
        w.plays(Say(calls=[Call("plus", {"b": 2})]), Say("at last"))
        waiting = Events()
        asked = w.ask("?", waiting)
        await until(lambda: waiting.asked)
        w.inner.clock.advance(10_000)  # a permit that never comes
        assert (await asked.result())["content"] == "at last"
        assert "there was no answer within" in server.asked[-1].results[0]


async def test_tools_that_change_between_turns_are_those_of_the_next_turn(server: ModelServer) -> None:
    outside = Outside("first")
    async with agent_world(server, component("outside_1", "outside"), nodes=[outside.node]) as w:
        gate = Gate()
        w.plays(
            Say(pieces=[gate], calls=[Call("first", {"input": "x"})]), Say(calls=[Call("first", {"input": "x"})]), Say("done")
        )
        asked = w.ask()
        assert await asyncio.to_thread(gate.reached.acquire, timeout=50)
        outside.source.become("second")
        gate.open()
        assert (await asked.result())["content"] == "done"
        assert [("first" in asked.tools, "second" in asked.tools) for asked in server.asked] == [
            (True, False), (False, True), (False, True),
        ]  # fmt: skip
        assert all("first" in result for result in server.asked[-1].results)


@pytest.mark.parametrize("fate", ["cancelled", "disconnected", "timeout"])
async def test_a_stop_ends_the_request_and_the_tools_and_says_what_was_done(server: ModelServer, fate: str) -> None:
    Tools.lot = AsyncPark()
    async with agent_world(server) as w:
        gate = Gate()
        w.plays(Say(calls=ONCE), Say(pieces=["It is ", gate, "3."]))
        asked = w.ask("?", Events(), timeout=50)
        assert await asyncio.to_thread(gate.reached.acquire, timeout=50)
        await until(lambda: asked.call.done and asked.call.done["calls"])
        if fate == "timeout":
            w.inner.clock.advance(50)
            error: Any = await asked.error()
            assert isinstance(error, ToolTimeout)
        else:
            asked.cancel(fate)
            error = await asked.error()
            assert isinstance(error, Cancelled)
        assert error.data["done"]["calls"] == [{"tool": "add", "ended": True}]
        assert await asyncio.to_thread(server.lost.acquire, timeout=50)  # the request was closed
        w.plays(Say(calls=[Call("stay")]))
        asked = w.ask()
        await until(lambda: Tools.lot.inside)
        asked.cancel()
        assert (await asked.error()).data["done"]["calls"] == [{"tool": "stay", "ended": False}]
        await until(lambda: not Tools.lot.inside)
        await w.inner.at_rest()


async def test_a_run_that_takes_too_long_ends_by_its_own_limit(server: ModelServer) -> None:
    async with agent_world(server, max_seconds=0.2) as w:
        gate = Gate()
        w.plays(Say(pieces=[gate]))
        error = await w.ask().error()
        assert (error.code, error.data["limit"], "calls" in error.data["done"]) == ("agent_limit", "max_seconds", True)
        assert not server.asked or await asyncio.to_thread(server.lost.acquire, timeout=50)


async def test_the_text_comes_while_it_is_written_and_the_answer_after_it(server: ModelServer) -> None:
    async with agent_world(server) as w:
        gate = Gate()
        w.plays(Say(pieces=["Once ", "upon ", gate, "a time"]))
        feed = Events()
        asked = w.ask("?", feed, tool="run_agent_stream")
        await until(lambda: feed.chunks)
        assert json.loads(feed.chunks[0]) == "Once upon "
        gate.open()
        await asked.answer()
        *_, text, answer = map(json.loads, feed.chunks)
        assert (text, answer["content"]) == ("a time", "Once upon a time")


async def test_runs_at_once_keep_their_users_and_their_tokens_apart(server: ModelServer) -> None:
    async with agent_world(server) as w:
        server.plays(
            lambda asked: Say(f"I am {asked.results[0]}", usage=Usage(1, 1)) if asked.results else Say(calls=[Call("whoami")])
        )
        users = [f"user{number}" for number in range(40)]
        runs = [w.ask(caller=Caller(user, user_id=user)) for user in users]
        answers = [await run.result() for run in runs]
        assert [answer["content"] for answer in answers] == [f"I am {user}" for user in users]
        assert {answer["meta"]["tokens"] for answer in answers} == {14}


async def test_a_sub_agent_is_a_tool_and_shares_the_limits_of_the_agent_that_asks(server: ModelServer) -> None:
    def played(asked: Asked) -> Say | None:
        if asked.model == "small":
            return Say(calls=[Call("add", {"a": 20, "b": 1})]) if not asked.results else Say("21")
        if not asked.results:
            return Say(calls=[Call("run_agent", {"query": "half?"}), Call("add", {"a": 1, "b": 1})])
        return Say("done")

    reference = {"type": "node", "node": "toys_2", "tool": "add", "name": "plus"}
    more = (
        component("agent_2", "agent", agent_description="Halves numbers.", tools=[reference]),
        component(
            "model_2", "llm_openai_api", [{"classType": "llm", "from": "agent_2"}], base_url=server.address, model="small"
        ),
        component("toys_2", "toys", [{"classType": "tool", "from": "agent_2"}]),
    )
    server.plays(played)
    async with agent_world(server, *more) as w:
        feed = Events()
        answer = await w.ask("?", feed).result()
        assert answer["content"] == "done"
        assert not {"run_agent_stream", "plus"} & set(server.asked[0].tools)
        assert answer["meta"]["tokens"] == 48  # four requests of twelve
        assert answer["meta"]["calls"] == 3
        assert server.asked[-1].results[0] == "21"
        definition = next(tool for tool in server.asked[0].body["tools"] if tool["function"]["name"] == "run_agent")
        assert definition["function"]["description"].startswith("Halves numbers.")
        inner = next(body for body in feed.bodies if body["event"] == "call_started" and body["nodeId"] == "agent_2")
        outer = next(body for body in feed.bodies if body["event"] == "call_started" and body["nodeId"] == "agent_1")
        assert inner["caller"] == outer["call"]
        assert {body["call"] for body in feed.bodies if body.get("agent") == "agent_2"} == {inner["call"]}
    async with agent_world(server, *more) as w:
        w.server.next(Say(calls=[Call("ask_other")]), Say("done"), model="test")
        assert (await w.ask().result())["meta"]["tokens"] == 48  # through a thread, too
    async with agent_world(server, *more, max_cost=1, model={"price": {"input": 1, "output": 1}}) as w:
        await w.ask().result()
        assert "price_unknown" in server.asked[-1].results[0]  # the sub-agent would spend what nobody counts
    async with agent_world(server, *more, max_tokens=36) as w:
        error = await w.ask().error()
        assert (error.code, error.data["agent"]) == ("agent_limit", "agent_1")


async def test_a_question_on_the_lane_is_answered_there(server: ModelServer) -> None:
    async with agent_world(server) as w:
        w.plays(Say(calls=ONCE), Say("Three."))
        pipe = await w.inner.open(mime_type="application/rocketride-question")
        await w.inner.write(pipe, json.dumps({"questions": [{"text": "1 + 2?"}], "role": "a counter"})).answer()
        body = await w.inner.close(pipe).answer()
        assert body["answers"] == ["Three."]
        assert "a counter" in json.dumps(server.asked[0].body["messages"])


async def test_a_session_goes_on_where_it_ended_for_its_user_alone_also_in_a_file(server: ModelServer, tmp_path: Path) -> None:
    async def chat(w: AgentWorld, text: str, session: Any, user: str) -> Any:
        who = Caller(user, user_id=user)
        pipe = await w.inner.open(mime_type="application/rocketride-question", caller=who)
        question = json.dumps({"questions": [{"text": text}], "session": session})
        await w.inner.write(pipe, question, caller=who).answer()
        body = await w.inner.close(pipe, caller=who).answer()
        return body["answers"]

    def told(asked: Asked) -> list[str]:
        return [message["content"] for message in asked.body["messages"] if message["role"] == "user"]

    store = str(tmp_path / "sessions.db")
    async with agent_world(server, store=store) as w:
        w.plays(Say(calls=ONCE), Say("3"))
        assert await chat(w, "1 + 2?", "math", "ada") == ["3"]
        await chat(w, "And?", "math", "bob")
        await chat(w, "Else?", "other", "ada")
        assert [told(asked) for asked in server.asked[2:]] == [["And?"], ["Else?"]]
        with pytest.raises(ToolError, match="text, its name"):
            await chat(w, "?", 7, "ada")
    async with agent_world(server, store=store) as w:
        await chat(w, "Plus one?", "math", "ada")
        assert told(server.asked[-1]) == ["1 + 2?", "Plus one?"]
        assert server.asked[-1].results == ["3"]


async def test_a_conversation_that_fills_the_window_leaves_out_old_results_or_fails(server: ModelServer) -> None:
    model = {"modelTotalTokens": 4000}

    def grows(asked: Asked) -> Say:
        if len(asked.results) == 4:
            return Say("done", usage=None)
        return Say(calls=[Call("long", {"size": 5000 + len(asked.results)})], usage=None)

    server.plays(grows)
    async with agent_world(server, model=model) as w:
        assert (await w.ask().result())["content"] == "done"
        last = server.asked[-1]
        assert "left out" in last.results[0]
        assert len(last.results[-1]) > 5000
        assert len(json.dumps(last.body["messages"])) < 4 * 4000
    async with agent_world(server, model=model, context="refuse") as w:
        error = await w.ask().error()
        assert (error.code, error.data["window"]) == ("context_too_long", 4000)


async def test_values_of_variables_reach_no_model_and_no_caller_by_failures_and_pieces_of_text(server: ModelServer) -> None:
    async with agent_world(server, component("down_1", "down")) as w:
        w.inner.engine.host.redactor.learn("ROCKETRIDE_PW", SECRET)
        gate = Gate()
        w.plays(Say(calls=[Call("leak")]), Say(pieces=[f"It is {SECRET[:9]}", gate, f"{SECRET[9:]}."]))
        feed = Events()
        asked = w.ask("?", feed)
        assert await asyncio.to_thread(gate.reached.acquire, timeout=50)
        await until(lambda: any(body.get("data") for body in feed.bodies if body.get("step") == "chunk"))
        gate.open()
        answer = await asked.result()
        told = json.dumps([answer["stack"], feed.bodies[:-1], [each.body for each in server.asked]])
        assert "me:${ROCKETRIDE_PW}@db/x" in told
        assert "root:${ROCKETRIDE_PW}@db" in told
        assert SECRET[:9] not in told
        assert SECRET[9:] not in told


async def test_a_name_that_a_model_invents_ends_no_run(server: ModelServer) -> None:
    async with agent_world(server) as w:
        w.plays(Say(calls=[Call("x" * 3_000_000)]), Say("done"))
        assert (await w.ask("?", Events()).result())["content"] == "done"
