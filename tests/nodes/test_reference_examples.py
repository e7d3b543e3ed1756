"""The examples on the reference pages of nodes do what the pages say; what they need to run is here, or a stand-in of it."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from model_server import serving
from postgres_server import Database
from search_service import searching
from tiny_bert import make_model

from rrext.connections import load_connections
from rrext.nodes import BUILTIN
from rrext.nodes.sandbox.node import PythonNode
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.text.source import parse
from rrext.testing.case_file import CaseFile
from rrext.testing.case_runner import CaseRunner, Surroundings

HERE = Path(__file__).resolve().parent
ALL = HERE.parent / "examples"
EXAMPLES = ALL / "nodes"
VARIABLE = re.compile(r"\$\{ROCKETRIDE_(\w+)\}")
KEY = "no-key-at-all-1"
SYSTEM = {"MYSQL_URL"}
"""Variables whose server pip cannot install."""


def variables(path: Path) -> list[str]:
    return sorted({*VARIABLE.findall(path.read_text(encoding="utf-8"))})


def given(path: Path) -> object:
    marks = [pytest.mark.system] if SYSTEM & set(variables(path)) else []
    return pytest.param(path, marks=marks, id=path.stem)


@pytest.fixture
def model_url() -> Iterator[str]:
    with serving() as server:
        yield server.address


@pytest.fixture
def model_root(model_url: str) -> str:
    return model_url.removesuffix("/v1")


@pytest.fixture
def model_key() -> str:
    return KEY


@pytest.fixture
def exa_url() -> Iterator[str]:
    with searching() as server:
        yield server.address


@pytest.fixture
def git_repo_path(tmp_path: Path) -> str:
    from git_repositories import three_commits

    return str(three_commits(tmp_path / "repo").folder)


@pytest.fixture
def model_folder(tmp_path: Path) -> str:
    return str(make_model(tmp_path / "model"))


@pytest.fixture
def postgres_url(postgres_database: Database) -> str:
    return postgres_database.url


@pytest.fixture
def mysql_url() -> Iterator[str]:
    sys.path.append(str(HERE / "sql_servers"))
    from mariadb_server import running_mariadb

    with running_mariadb() as server:
        yield server.create_database("fresh").url


@pytest.fixture
def qdrant_host(monkeypatch: pytest.MonkeyPatch) -> str:
    qdrant_client = pytest.importorskip("qdrant_client", reason="the extra `qdrant` is not installed")
    sys.path.append(str(HERE / "vectors"))
    from qdrant_stores import LocalServer

    server = LocalServer()
    monkeypatch.setattr(qdrant_client, "QdrantClient", lambda **settings: server)
    return "localhost"


@pytest.fixture(scope="module")
def bolt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, object]]:
    sys.path.append(str(HERE / "graph"))
    from bolt_server import BoltServer

    server = BoltServer(tmp_path_factory.mktemp("bolt"))
    server.start()
    yield server.config()
    server.stop()


@pytest.fixture
def neo4j_uri(bolt: dict[str, object]) -> object:
    return bolt["uri"]


@pytest.fixture
def neo4j_user(bolt: dict[str, object]) -> object:
    return bolt["user"]


@pytest.fixture
def neo4j_password(bolt: dict[str, object]) -> object:
    return bolt["password"]


@pytest.fixture
def neo4j_database(bolt: dict[str, object]) -> object:
    return bolt["database"]


@pytest.mark.parametrize("path", [given(path) for path in sorted(EXAMPLES.glob("*/*.pipe"))])
@pytest.mark.timeout(240)  # one reads pictures
async def test_an_example_answers_as_its_cases_say(
    path: Path, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if path.stem == "tool_python" and (missing := PythonNode.unavailable()) is not None:
        pytest.skip(missing)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    monkeypatch.chdir(ALL.parents[1])  # the commands of connections begin at the top
    values = {f"ROCKETRIDE_{name}": str(request.getfixturevalue(name.lower())) for name in variables(path)}
    shutil.copytree(ALL, tmp_path / "examples", ignore=shutil.ignore_patterns("data"))
    (tmp_path / "examples" / "agents" / "connections.toml").chmod(0o600)
    cases_path = tmp_path / "examples" / path.relative_to(ALL).with_suffix(".cases.json")
    file = CaseFile(str(cases_path), cases_path.read_bytes())
    assert [each.message for each in file.problems] == []
    environment = Environment(values)
    connections = load_connections(str(tmp_path / "examples" / "agents" / "connections.toml"))
    runner = CaseRunner(file, Surroundings(Catalog, environment, connections))
    try:
        outcomes = [await runner.run(case) for case in file.cases]
    finally:
        await runner.aclose()
    assert {outcome.case.name: outcome.details for outcome in outcomes if outcome.details} == {}
    assert outcomes


def test_every_node_has_an_example() -> None:
    catalog = Catalog(installed=False)
    shown = {
        catalog.provider_of(each["provider"])
        for path in EXAMPLES.glob("*/*.pipe")
        for each in parse(path.read_text(encoding="utf-8")).value["components"]
    }
    assert sorted(set(BUILTIN) - shown) == [], "a pipeline with the node, and its cases, belong into tests/examples/nodes"
