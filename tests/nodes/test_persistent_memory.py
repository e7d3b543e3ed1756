"""`memory_persistent`: what is kept, for whom, and for how long."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rrext.errors import ToolError, Unavailable
from rrext.nodes.base.setup import SetupContext
from rrext.nodes.basic.persistent_memory import TABLE, KeptValues, PersistentMemoryNode
from rrext.nodes.files import kept_rows
from rrext.nodes.files.kept_rows import KeptRows
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.pipeline_loader import load_pipeline
from rrext.threads import Workers
from rrext.tools.context import ToolContext

from fake_pipe import made  # isort: skip
from running import component, pipeline, running  # isort: skip

ADA, BEN = ToolContext(user_id="ada"), ToolContext(user_id="ben")


def opened(path: Path | str = "", node_id: str = "memory_1", now: Any = lambda: 0.0, **settings: Any) -> PersistentMemoryNode:
    node = made(PersistentMemoryNode, **settings)
    rows = KeptRows(str(path), TABLE, SetupContext(Workers(), node_id=node_id), node.config.maxBytes)
    node.shared = KeptValues(rows, node.config, now)
    return node


@pytest.mark.promise("memory:own-user")
def test_values_are_kept_for_each_user_and_space_apart() -> None:
    node = opened()
    assert node.put(" k ", {"a": [None, 1.5]}, ctx=ADA) == {"ok": True, "key": "k", "scope": "user"}
    assert node.get("k", ctx=ADA) == {"ok": True, "key": "k", "value": {"a": [None, 1.5]}}
    for other in (BEN, ToolContext(), ToolContext(user_id="ada", space_id="s")):
        assert node.get("k", ctx=other) == {"ok": False, "key": "k", "value": None}
        assert node.clear(ctx=other) == {"ok": True, "cleared": []}
    node.put("b", None, ctx=ADA)
    assert node.list_keys(ctx=ADA) == {"ok": True, "keys": ["b", "k"]}
    assert node.clear("b", ctx=ADA) == {"ok": True, "cleared": ["b"]}
    node.put("c", 1, ctx=ADA)
    assert node.clear(" ", ctx=ADA) == {"ok": True, "cleared": ["c", "k"]}


@pytest.mark.promise("memory:own-user")
async def test_values_in_a_file_outlive_the_pipeline(tmp_path: Path) -> None:
    spec = pipeline(component("in", "tools"), component("memory", "memory_persistent", control="in", path="kept.db"))
    async with running(spec, folder=str(tmp_path)) as client:
        assert (await client.tool("put", {"key": "k", "value": [1]}))["ok"]
    async with running(spec, folder=str(tmp_path)) as client:
        assert (await client.tool("get", {"key": "k"}))["value"] == [1]
        assert sorted(await client.tools()) == ["clear", "get", "list", "put"]


def test_nodes_and_processes_may_share_a_file(tmp_path: Path) -> None:
    one, same, other = opened(tmp_path / "a.db"), opened(tmp_path / "a.db"), opened(tmp_path / "a.db", "memory_2")
    one.put("k", 1, ctx=ADA)
    assert same.get("k", ctx=ADA)["value"] == 1
    assert other.list_keys(ctx=ADA)["keys"] == []


def test_old_values_are_forgotten_and_too_many_bytes_refused() -> None:
    node = opened(max_history=2)
    for key in ("a", "b", "a", "c"):
        node.put(key, key, ctx=ADA)
    assert node.list_keys(ctx=ADA)["keys"] == ["a", "c"], "a was put again after b"
    hours = [0.0]
    node = opened(session_ttl_hours=1.0, now=lambda: hours[0] * 3600)
    node.put("a", 1, ctx=ADA)
    hours[0] = 0.9
    node.put("b", 1, ctx=ADA)
    hours[0] = 1.1
    assert node.list_keys(ctx=ADA)["keys"] == ["b"]
    node = opened(maxBytes=10)
    node.put("a", 1234567, ctx=ADA)
    with pytest.raises(ToolError, match="maxBytes") as caught:
        node.put("b", "x", ctx=ADA)
    assert caught.value.code == "memory_full"
    assert node.list_keys(ctx=ADA)["keys"] == ["a"], "what does not fit changes nothing"


@pytest.mark.promise("memory:own-user")
@pytest.mark.parametrize("is_file", [False, True])
def test_users_that_somebody_makes_up_keep_no_more_than_all_users_may(
    is_file: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_rows, "MAX_IN_FILE" if is_file else "MAX_IN_MEMORY", 20_000)
    path = tmp_path / "a.db" if is_file else ""
    node = opened(path, maxBytes=5000)
    for number in range(50):
        node.put("k", "x" * 1000, ctx=ToolContext(user_id=f"made-up-{number}"))
    kept = [number for number in range(50) if node.get("k", ctx=ToolContext(user_id=f"made-up-{number}"))["ok"]]
    assert (kept, 12 < len(kept) < 19) == ([*range(50 - len(kept), 50)], True), "what was put first is forgotten first"
    for number in range(500):
        node.put("k", None, ctx=ToolContext(user_id=f"small-{number}"))
    assert not node.get("k", ctx=ToolContext(user_id="made-up-49"))["ok"], "small values count too"
    large = opened(path, "memory_2", maxBytes=50_000)
    large.put("k", "x" * 45_000, ctx=ADA)
    assert large.get("k", ctx=ADA)["ok"], "what one user may keep has room"


def test_a_file_of_an_earlier_version_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(tmp_path / "a.db").put("old", "x" * 9000, ctx=BEN)
    with closing(sqlite3.connect(tmp_path / "a.db")) as rows:
        rows.executescript("DROP TRIGGER rrext_memory_kept; DROP TRIGGER rrext_memory_gone; DROP TABLE rrext_sizes;")
    monkeypatch.setattr(kept_rows, "MAX_IN_FILE", 12_000)
    node = opened(tmp_path / "a.db", maxBytes=6000)
    assert node.list_keys(ctx=BEN)["keys"] == ["old"]
    node.put("new", "x" * 5000, ctx=ADA)
    assert (node.list_keys(ctx=BEN)["keys"], node.list_keys(ctx=ADA)["keys"]) == ([], ["new"])


def test_a_file_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    with pytest.raises(ToolError) as caught:
        opened(tmp_path / "none" / "a.db").put("k", 1, ctx=ADA)
    assert caught.value.code == "store_failed"
    with pytest.raises(Unavailable):
        KeptRows("../a.db", TABLE, SetupContext(Workers(), node_id="m", directory=str(tmp_path), confined=True))


@pytest.mark.parametrize(
    ("config", "code", "place"),
    [
        ({"type": "memory_persistent"}, None, ""),
        ({"profile": "memory", "memory": {"max_history": 5, "auto_summarize": True}}, None, ""),
        ({"profile": "custom", "custom": {"backend": "redis"}}, "invalid_config", "/backend"),
        ({"max_history": 0}, "invalid_config", "/max_history"),
    ],
    ids=repr,
)
def test_settings_of_rocketride_are_taken_or_refused(config: dict[str, Any], code: str | None, place: str) -> None:
    spec = pipeline(component("in", "tools"), component("memory", "memory_persistent", control="in", **config))
    found = [problem for problem in load_pipeline(spec, Catalog(), Environment()).problems if "/config" in problem.path]
    assert [(problem.code, problem.path.endswith(place)) for problem in found] == ([] if code is None else [(code, True)])
