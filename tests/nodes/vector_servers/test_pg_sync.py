"""`rrext send --sync` into a table that other processes use too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from postgres_server import Database

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def pipe(tmp_path: Path, postgres_database: Database) -> str:
    """A pipeline that splits text into the table, and has two files beside it."""
    (tmp_path / "docs").mkdir()
    for name in ("a", "b"):
        (tmp_path / "docs" / f"{name}.txt").write_text(f"The text of {name}. " * 100)
    edges: list[tuple[str, str, dict[str, Any], list[dict[str, str]]]] = [
        ("w", "webhook", {}, []),
        ("split", "split", {}, [{"lane": "text", "from": "w"}]),
        ("store", "store_pgvector", dict(postgres_database.settings), [{"lane": "documents", "from": "split"}]),
    ]
    components = [dict(zip(("id", "provider", "config", "input"), edge, strict=True)) for edge in edges]
    project = "9d0c5a7e-3b51-4a86-8e0e-5e3c7d1b6a10"
    text = json.dumps({"components": components, "source": "w", "project_id": project, "version": 1})
    (tmp_path / "p.pipe").write_text(text)
    return str(tmp_path / "p.pipe")


def rrext(*args: str) -> list[Any]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-m", "rrext", *args], env=environment, capture_output=True, timeout=50, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def synced(pipe: str) -> dict[str, int]:
    counts = rrext("send", "--sync", pipe, str(Path(pipe).parent / "docs"))[-1]["summary"]
    return {word: count for word, count in counts.items() if count and word != "chunks"}


@pytest.mark.promise("sync:unchanged:is-stored")
def test_what_the_table_has_not_is_sent_again(pipe: str, postgres_database: Database) -> None:
    assert synced(pipe) == {"new": 2}
    assert synced(pipe) == {"unchanged": 2}
    (found,) = rrext("tool", pipe, "search", "--input", '{"query": "text of a", "top_k": 1}')
    about = found["results"][0]["metadata"]
    document = {"object_id": about["objectId"], "content": "somebody else's", "metadata": {"chunkId": 1}}
    rrext("tool", pipe, "upsert", "--input", json.dumps({"documents": [document]}))
    assert synced(pipe) == {"changed": 1, "unchanged": 1}
    rrext("tool", pipe, "delete", "--input", json.dumps({"object_ids": [about["objectId"]]}))
    assert synced(pipe) == {"new": 1, "unchanged": 1}
    (Path(pipe).parent / "docs" / "a.txt").unlink()
    assert synced(pipe) == {"unchanged": 1, "deleted": 1}
    (stats,) = rrext("tool", pipe, "stats")
    assert stats["objects"] == 1
