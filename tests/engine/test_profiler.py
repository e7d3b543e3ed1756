"""The profiler: what uses the processor, for those who may know, and one session at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from engine_world import World, until, world

from rrext.engine.interface.call import Caller
from rrext.engine.interface.rare_operations import (
    ProfileReport,
    ProfileStatus,
    ProfileThreads,
    ProfileTree,
    StartProfile,
    StopProfile,
)
from rrext.engine.views.profiler import MAX_PROFILE_TIME
from rrext.nodes.base.node import Node
from rrext.tools.decorator import tool_function

pytestmark = pytest.mark.promise("profile:trusted-only")

ME, OTHER, STRANGER = Caller("me", "ann"), Caller("other", "ann"), Caller("far", "eve", trusted=False)


class Busy(Node):
    """Uses the processor until the profiler has seen that."""

    provider = "busy"
    world: World

    @tool_function
    def burn(self) -> int:
        rounds = 0
        while not seen(self.world, "work_hard"):
            rounds += work_hard()
        return rounds


def work_hard() -> int:
    return len([number * number for number in range(20_000)])


def seen(w: World, name: str) -> bool:
    """Whether the running session has samples of a function."""
    sampler = w.engine._views._profiler._sampler  # type: ignore[union-attr]
    assert sampler is not None
    nodes = [times.root for times in list(sampler.threads.values())]
    while nodes:
        for place, child in list(nodes.pop().children.items()):
            if place[0] == name and child.calls > 1:
                return True
            nodes.append(child)
    return False


async def ask(w: World, operation: Any, caller: Caller = ME) -> Any:
    return await w.ask(operation, caller=caller).answer()


def below(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for child in node["children"]:
        yield child
        yield from below(child)


async def test_a_session_tells_which_functions_use_the_processor_and_in_which_thread() -> None:
    async with world(Busy) as w:
        Busy.world = w
        started = await ask(w, StartProfile(session="mine"))
        assert (started["status"], started["session"], started["owner"]) == ("started", "mine", "me")
        await w.tool("burn", caller=ME).result()
        status = await ask(w, ProfileStatus())
        assert (status["active"], status["session"], status["has_report"]) == (True, "mine", False)
        stopped = await ask(w, StopProfile())
        assert (stopped["status"], stopped["session"]) == ("stopped", "mine")
        assert stopped["runtime"] > 0
        whole = await ask(w, ProfileTree())
        found = {node["name"]: node for node in below(whole["tree"])}
        assert {"Busy.burn", "work_hard"} <= found.keys()
        assert found["work_hard"]["file"] == __file__
        assert 0 < found["work_hard"]["cumtime"] <= found["Busy.burn"]["cumtime"] <= whole["total_time"]
        own = list(below((await ask(w, ProfileTree(include_system=False)))["tree"]))
        assert "work_hard" in {node["name"] for node in own}
        assert not [node for node in own if "lib/python3" in node["file"]]
        threads = (await ask(w, ProfileThreads()))["threads"]
        assert threads[0]["ttot"] == max(row["ttot"] for row in threads)
        trees = [await ask(w, ProfileTree(thread=row["id"])) for row in threads]
        assert sum("work_hard" in {node["name"] for node in below(tree["tree"])} for tree in trees) == 1
        assert "work_hard" in (await ask(w, ProfileReport()))["report"]
        assert not list(below((await ask(w, ProfileTree(min_pct=100.1)))["tree"]))
        flat = await ask(w, ProfileTree(max_depth=1))
        assert all(not node["children"] for node in flat["tree"]["children"])


async def test_one_session_runs_at_a_time_and_ends_with_its_connection_or_its_time() -> None:
    async with world(Busy) as w:
        assert (await ask(w, StopProfile()))["status"] == "error"
        await ask(w, StartProfile())
        assert "runs already" in (await ask(w, StartProfile(), OTHER))["message"]
        assert "alone may stop it" in (await ask(w, StopProfile(), OTHER))["message"]
        w.engine.disconnect("other")
        assert (await ask(w, ProfileStatus(), OTHER))["active"]
        w.engine.disconnect("me")
        assert await ask(w, ProfileStatus()) == {
            "active": False, "owner": None, "session": None, "runtime": 0.0, "has_report": True
        }  # fmt: skip
        await ask(w, StartProfile(target="t"))
        w.engine.disconnect("me")
        assert (await ask(w, StopProfile(target="t"), OTHER))["status"] == "stopped"
        await ask(w, StartProfile())
        w.clock.advance(MAX_PROFILE_TIME)
        await until(lambda: w.engine._views._profiler._sampler is None)  # type: ignore[union-attr]


async def test_nobody_profiles_who_may_not_see_what_others_do() -> None:
    async with world(Busy) as w:
        for operation in (StartProfile(), StopProfile(), ProfileStatus(), ProfileReport(), ProfileTree(), ProfileThreads()):
            assert (await w.ask(operation, caller=STRANGER).error()).code == "unavailable"


async def test_mistakes_are_told() -> None:
    async with world(Busy) as w:
        for operation in (ProfileTree(), ProfileThreads()):
            assert "No profile yet" in (await ask(w, operation))["error"]
        assert "No profile yet" in (await ask(w, ProfileReport()))["report"]
        await ask(w, StartProfile(target="t"))
        await ask(w, StopProfile(target="t"))
        assert "no thread 999" in (await ask(w, ProfileTree(thread=999)))["error"]
        assert "no thread -1" in (await ask(w, ProfileTree(thread=-1)))["error"]
        assert (await w.ask(ProfileTree(max_depth=0)).error()).code == "invalid_arguments"
        assert (await w.ask(StartProfile(target="nobody")).error()).code == "TASK_NOT_REGISTERED"
