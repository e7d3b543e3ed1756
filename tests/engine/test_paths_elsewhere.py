"""A task on another machine than its server's uses no path, unless its pipeline says on which one the path is."""

from __future__ import annotations

import re
from typing import Any

import pytest

from rrext.engine.tasks.foreign import PathRule
from rrext.nodes.base.node import Node
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.loaded_pipeline import LoadedPipeline
from rrext.pipefile.resources import NO_RESOURCES, Resources
from rrext.pipefile.spec import ComponentSpec
from rrext.pipefile.text.problems import Problem
from rrext.pipefile.validation import PipelineOutline

CATALOG = Catalog(installed=False)
WITH_PATHS = [provider for provider in CATALOG.names() if CATALOG.class_of(provider).paths]
TELLS_A_FILE = re.compile(r"\b(file|folder|directory|socket)\b", re.IGNORECASE)
NO_FILES = {("embedding_local", "model"), ("tool_mcp_client", "server")}
"""Settings whose text tells of a file, and that are names."""


def refused(node: type[Node], settings: dict[str, Any], rule: PathRule, resources: Resources = NO_RESOURCES) -> list[Problem]:
    config: Any = node.Config() if node.Config is not None else None
    for name, value in settings.items():
        setattr(config, name, value)
    spec = ComponentSpec(path="/components/0", id="a", node=node, settings=config)
    outline = PipelineOutline((spec,), resources=resources)
    return [*rule.refusals(LoadedPipeline(None, (), {}, base="", outline=outline, text=None, source_map=None))]


@pytest.mark.parametrize("provider", WITH_PATHS)
def test_each_path_of_each_node_is_refused_at_its_setting(provider: str) -> None:
    node = CATALOG.class_of(provider)
    for name in node.paths:
        value: Any = {"files": {"a": "place"}, "include": [{"path": "place"}]}.get(name, "place")
        others = dict.fromkeys(node.paths.keys() - {name}, {} if name != "files" else "")
        spec = ComponentSpec(path="/components/0", id="a", node=node, settings={**others, name: value})
        outline = PipelineOutline((spec,))
        loaded = LoadedPipeline(None, (), {}, base="", outline=outline, text=None, source_map=None)
        (problem,) = PathRule().refusals(loaded)
        assert (problem.code, problem.severity) == ("not_on_cluster", "error")
        assert problem.path.startswith(f"/components/0/config/{name}")
        pinned = PipelineOutline((spec,), resources=Resources(node="sun"))
        assert not [*PathRule().refusals(LoadedPipeline(None, (), {}, base="", outline=pinned, text=None, source_map=None))]
        shared = [*PathRule(shares_root=True).refusals(loaded)]
        assert bool(shared) == (provider not in ("tool_filesystem", "filesys", "text_output"))


@pytest.mark.parametrize(
    ("provider", "settings", "places"),
    [
        ("db_mysql", {"socket": "/run/my.sock", "sslkey": "key.pem"}, ["socket", "sslkey"]),
        ("db_mysql", {"host": "db.example"}, []),
        ("db_postgres", {"host": "/run/postgresql", "sslrootcert": "root.pem"}, ["host", "sslrootcert"]),
        ("db_postgres", {"host": "db.example", "sslrootcert": "system"}, []),
        ("store_pgvector", {"host": "@abstract"}, ["host"]),
        ("db_sqlite", {"path": ":memory:"}, []),
        ("db_duckdb", {"path": ":memory:"}, []),
    ],
)
def test_files_and_sockets_of_a_machine_are_refused_and_servers_and_memory_are_not(
    provider: str, settings: dict[str, Any], places: list[str]
) -> None:
    found = refused(CATALOG.class_of(provider), settings, PathRule())
    assert [problem.path.rpartition("/")[2] for problem in found] == places


def test_no_setting_whose_text_tells_of_a_file_is_forgotten() -> None:
    forgotten = []
    for provider in CATALOG.names():
        node = CATALOG.class_of(provider)
        settings = CATALOG.settings_of(node)
        for name, schema in (settings.schema["properties"] if settings is not None else {}).items():
            text = schema.get("description", "")
            is_asked = schema.get("type") == "string" and TELLS_A_FILE.search(text) and (provider, name) not in NO_FILES
            if is_asked and name not in node.paths and not refused(node, {name: "/place"}, PathRule()):
                forgotten.append(f"{provider}: {name}: {text}")
    assert not forgotten
