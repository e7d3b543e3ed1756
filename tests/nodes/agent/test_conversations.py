"""The conversations of an agent: which turns are there, for whom, and for how long."""

from __future__ import annotations

import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from rrext.errors import ToolError, Unavailable
from rrext.nodes.agent import conversations
from rrext.nodes.agent.conversations import ConversationStore
from rrext.nodes.base.setup import SetupContext
from rrext.nodes.files import kept_rows
from rrext.threads import Workers

pytest.importorskip("pydantic_ai", reason="the extra `agent` is not installed")

from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart

ADA, BEN = ("ada", None), ("ben", None)


@asynccontextmanager
async def store(path: Path | str = "", node_id: str = "agent_1", **settings: Any) -> AsyncIterator[ConversationStore]:
    made = ConversationStore(str(path), SetupContext(Workers(), node_id=node_id), **settings)
    try:
        yield made
    finally:
        await made.aclose()


async def say(kept: ConversationStore, text: str, session: str = "s", tenant: Any = ADA) -> list[str]:
    """Take a turn; what was said before."""
    async with kept.turn(tenant, session) as turn:
        call = ToolCallPart("tool", {"a": [1]}, tool_call_id="c")
        await turn.finish([ModelRequest.user_text_prompt(text), ModelResponse([TextPart(text), call])])
    return [part.content for message in turn.messages for part in message.parts if isinstance(part, TextPart)]


@pytest.mark.promise("sessions:own-user")
@pytest.mark.parametrize("is_file", [False, True])
async def test_a_session_has_its_turns_in_order_and_those_of_nobody_else(is_file: bool, tmp_path: Path) -> None:
    path = tmp_path / "kept.db" if is_file else ""
    async with store(path) as kept:
        assert await say(kept, "one") == []
        assert await say(kept, "two") == ["one"]
        for tenant in (BEN, ("ada", "space"), (None, None)):
            assert await say(kept, "other", tenant=tenant) == []
        assert await say(kept, "other", session="t") == []
        async with store(path, "agent_2") as others:
            assert await say(others, "other") == []
        async with kept.turn(ADA, "s") as turn:
            (_, call) = turn.messages[1].parts
            assert isinstance(call, ToolCallPart)
            assert (call.args, call.tool_call_id) == ({"a": [1]}, "c")
        if is_file:
            async with store(path) as again:  # the first one did not end: so it is after a crash
                assert await say(again, "three") == ["one", "two"]
            assert stat.S_IMODE(tmp_path.joinpath("kept.db").stat().st_mode) == 0o600


@pytest.mark.promise("sessions:own-user")
async def test_a_turn_that_was_not_finished_leaves_nothing() -> None:
    async with store() as kept:
        await say(kept, "one")
        with pytest.raises(ZeroDivisionError):
            async with kept.turn(ADA, "s"):
                raise ZeroDivisionError
        assert await say(kept, "two") == ["one"]


@pytest.mark.promise("sessions:own-user")
async def test_turns_of_one_session_follow_each_other_and_others_do_not_wait() -> None:
    begun, goes_on = anyio.Event(), anyio.Event()
    heard: list[list[str]] = []
    async with store() as kept, anyio.create_task_group() as group:

        async def first() -> None:
            async with kept.turn(ADA, "s") as turn:
                begun.set()
                await goes_on.wait()
                await turn.finish([ModelResponse([TextPart("one")])])

        async def second() -> None:
            heard.append(await say(kept, "two"))

        group.start_soon(first)
        await begun.wait()
        group.start_soon(second)
        await leave_the_line(kept)
        assert await say(kept, "other", session="t") == []
        assert await say(kept, "other", tenant=BEN) == []
        assert heard == []
        goes_on.set()
    assert heard == [["one"]]
    assert kept._lines == {}


async def leave_the_line(kept: ConversationStore) -> None:
    with anyio.move_on_after(0):
        async with kept.turn(ADA, "s"):
            raise AssertionError("the turn before is not over")


async def test_a_session_forgets_its_oldest_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    async with store(max_history=2) as kept:
        for text in ("one", "two", "three"):
            await say(kept, text)
        assert await say(kept, "four") == ["two", "three"]
    monkeypatch.setattr(conversations, "MAX_SESSION_BYTES", 3000)
    async with store() as kept:
        for text in ("one", "two", "three"):
            await say(kept, text)
        assert await say(kept, "four") == ["two", "three"]
        with pytest.raises(ToolError) as caught:
            await say(kept, "x" * 3000)
        assert caught.value.code == "turn_too_large"


async def test_a_session_that_rests_too_long_is_forgotten() -> None:
    hours = [0.0]
    async with store(ttl_hours=24, now=lambda: hours[0] * 3600) as kept:
        await say(kept, "one")
        hours[0] = 24
        assert await say(kept, "two") == ["one"]
        hours[0] = 48.1
        assert await say(kept, "three") == []


@pytest.mark.parametrize("is_file", [False, True])
async def test_a_user_keeps_so_many_sessions_and_all_users_so_many_bytes(
    is_file: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversations, "MAX_SESSIONS", 2)
    async with store(tmp_path / "kept.db" if is_file else "") as kept:
        await say(kept, "one", tenant=BEN)
        for session in ("a", "b", "c"):
            await say(kept, "one", session)
        assert await say(kept, "two", "b") == ["one"]
        assert await say(kept, "two", "a") == []
        assert await say(kept, "two", tenant=BEN) == ["one"]
        monkeypatch.setattr(kept_rows, "MAX_IN_FILE" if is_file else "MAX_IN_MEMORY", 4000)
        await say(kept, "x" * 1000, "a")
        assert await say(kept, "two", tenant=BEN) == [], "of all that are kept, these rested longest"


@pytest.mark.parametrize("name", ["", " ", "x" * 300])
async def test_a_session_has_a_name_of_some_characters(name: str) -> None:
    async with store() as kept:
        with pytest.raises(ToolError) as caught:
            await say(kept, "one", name)
    assert caught.value.code == "bad_session"


async def test_a_file_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    tmp_path.joinpath("text.db").write_text("this is no database, but it is long enough to look at" * 20)
    async with store(tmp_path / "text.db") as kept:
        with pytest.raises(ToolError) as caught:
            await say(kept, "one")
    assert caught.value.code == "store_failed"
    async with store() as kept:
        await say(kept, "one")
        kept._rows.run(lambda rows: rows.execute("UPDATE rrext_turns SET messages = '[1]'"))
        with pytest.raises(ToolError) as caught:
            await say(kept, "two")
    assert caught.value.code == "conversation_unreadable"
    with pytest.raises(Unavailable):
        ConversationStore("../kept.db", SetupContext(Workers(), node_id="a", directory=str(tmp_path), confined=True))
