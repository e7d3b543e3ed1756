"""Drivers and models are imported when a node is first used, and never on the thread of the event loop."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rrext.nodes import BUILTIN

ROOT = Path(__file__).resolve().parents[2]

HEAVY = (
    *("sqlalchemy", "sqlglot", "psycopg", "pymysql", "duckdb"),
    *(
        "PIL",
        "cv2",
        "rapidocr",
        "qdrant_edge",
        "qdrant_client",
        "pgvector",
        "numpy",
        "tokenizers",
        "safetensors",
        "onnxruntime",
    ),
    *(
        "neo4j",
        "ladybug",
        "kreuzberg",
        "chardet",
        "chardetng_py",
        "httpx2",
        "sandlock",
        "mcp",
        "re2",
        "pygit2",
        "miniaudio",
        "espeakng_loader",
    ),
    *("pydantic_ai", "openai", "anthropic", "google", "genai_prices", "opentelemetry"),
)

IMPORT_ALL = """
import importlib, json, sys
from rrext.nodes import BUILTIN
for place in BUILTIN.values():
    module, name = place.split(":")
    getattr(importlib.import_module(module), name).tools
print(json.dumps(sorted(sys.modules)))
"""

LIST_TOOLS = """
import asyncio, importlib, json, sys, threading
from importlib.abc import MetaPathFinder

found = {}

class Finder(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        found.setdefault(name, threading.current_thread() is threading.main_thread())

async def main(provider, config):
    from rrext.nodes import BUILTIN
    from rrext.testing import open_node
    module, name = BUILTIN[provider].split(":")
    node = getattr(importlib.import_module(module), name)
    sys.meta_path.insert(0, Finder())
    async with open_node(node, config) as client:
        print(json.dumps({"tools": [tool["name"] for tool in await client.tools(node_id="node")], "found": found,
                          "agents": "pydantic_ai" in sys.modules}))

asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
"""


def run(code: str, *arguments: str, cwd: Path) -> object:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=cwd, capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.promise("data:driver:off-the-loop")
def test_looking_at_every_node_imports_no_driver() -> None:
    modules = run(IMPORT_ALL, cwd=ROOT)
    assert isinstance(modules, list)
    assert not sorted({name.split(".")[0] for name in modules} & set(HEAVY))


FIRST_USES: dict[str, tuple[dict[str, object], set[str]]] = {
    "db_sqlite": ({"path": "a.db"}, set()),
    "db_duckdb": ({}, {"duckdb"}),
    "db_postgres": ({"host": "127.0.0.1", "port": 1, "database": "x", "user": "x"}, {"psycopg"}),
    "db_mysql": ({"host": "127.0.0.1", "port": 1, "database": "x", "user": "x"}, {"pymysql"}),
    "store_qdrant_edge": ({"path": "store"}, set()),
    "store_pgvector": ({"host": "127.0.0.1", "port": 1, "database": "x", "user": "x"}, {"psycopg"}),
    "store_qdrant": ({"host": "http://127.0.0.1", "port": 1}, {"qdrant_client"}),
    "graph_neo4j": ({"uri": "bolt://127.0.0.1:1", "user": "x", "password": "x"}, {"neo4j"}),
    "graph_ladybug": ({"path": "graph"}, set()),  # its process imports it
    "llm_openai_api": ({"base_url": "http://127.0.0.1:1/v1", "model": "x"}, {"httpx2"}),
    "llm_openai": ({"apikey": "x"}, {"httpx2"}),
    "tool_http_request": ({}, {"httpx2"}),
    "llm_anthropic": ({"apikey": "x"}, set()),
    "llm_gemini": ({"apikey": "x"}, set()),
    "embedding_openai": ({"base_url": "http://127.0.0.1:1/v1", "model": "x"}, {"httpx2"}),
}
"""Provider → settings, and what using it imports. The engine of `store_qdrant_edge` is imported in a process of its own."""


@pytest.mark.parametrize("provider", FIRST_USES)
@pytest.mark.promise("data:driver:off-the-loop")
def test_a_driver_is_imported_at_first_use_and_off_the_loop(provider: str, tmp_path: Path) -> None:
    config, drivers = FIRST_USES[provider]
    answer = run(LIST_TOOLS, provider, json.dumps(config), cwd=tmp_path)
    assert isinstance(answer, dict)
    assert answer["tools"], "a node whose server is down lists its tools all the same"
    found: dict[str, bool] = answer["found"]
    on_the_loop = sorted(name for name, on_main in found.items() if on_main and name.split(".")[0] in HEAVY)
    assert not on_the_loop
    assert drivers <= set(found)
    assert not answer["agents"], "pydantic-ai is for agents and questions alone"


def test_every_node_with_a_driver_is_looked_at() -> None:
    strangers = {
        name for name in BUILTIN if name.startswith(("db_", "store_", "graph_", "llm_openai", "llm_anthropic", "llm_gemini"))
    } - set(FIRST_USES)
    assert not strangers
