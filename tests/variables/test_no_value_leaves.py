"""The value of a variable, put at every place of a pipeline, is in nothing that a server or a command says or starts."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any, Literal

import pytest
from forked import completed
from leaky_nodes import WAYS
from listening import NODES, PATIENCE, Peer, found_in, surroundings

from rrext.cli.main import main
from rrext.nodes.base.node import Node
from rrext.pipefile.catalog.catalog import Catalog

pytestmark = pytest.mark.promise("variables:values:never-leave")

CORES = tuple(secrets.token_hex(8) for _ in range(5))
SECRETS = {
    "ROCKETRIDE_PLAIN": f"S{CORES[0]}",
    "ROCKETRIDE_ODD": f"{CORES[1]}/ü\"'\\ \t%+&={CORES[2]}",
    "GIVEN_NAME": f"{CORES[3]}-{CORES[4]}",
}
VARIABLES = tuple(f"${{{name}}}" for name in SECRETS)

AS_DATA = {"model", "laneName", "lanes", "script", "default", "instructions"}
"""Settings whose purpose is to be in results: names of models and of result keys, scripted answers, texts of prompts."""
NEEDED: dict[str, dict[str, Any]] = {
    "db_sqlite": {"create": True, "allow_execute": True, "allow_insert": True},
    "db_duckdb": {"create": True, "allow_execute": True},
    "db_postgres": {"host": "127.0.0.1", "port": 9, "connect_timeout": 1, "allow_execute": True},
    "db_mysql": {"host": "127.0.0.1", "port": 9, "connect_timeout": 1, "allow_execute": True, "sslmode": "disable"},
    "store_pgvector": {"host": "127.0.0.1", "port": 9, "connect_timeout": 1},
    "store_qdrant": {"host": "http://127.0.0.1", "port": 9},
    "graph_neo4j": {"uri": "bolt://127.0.0.1:9", "connect_timeout": 1, "allow_execute": True},
    "graph_ladybug": {"allow_execute": True},
    "tool_filesystem": {"allow_write": True, "allow_delete": True, "allow_create_directory": True},
    "store_qdrant_edge": {"path": "store"},
    "embedding_local": {"path": "model"},
    "embedding_openai": {"base_url": "http://127.0.0.1:9/v1", "model": "m", "retries": 0},
    "llm_openai_api": {"base_url": "http://127.0.0.1:9/v1", "model": "m", "retries": 0},
    "llm_openai": {"base_url": "http://127.0.0.1:9/v1", "retries": 0},
    "llm_ollama": {"base_url": "http://127.0.0.1:9/v1", "model": "m", "retries": 0},
}
WHOLE = ("{}",)
PLACES = (*WHOLE, "x/{}.db", "postgresql://u:{}@127.0.0.1:9/d", "http://127.0.0.1:9/{}", "bolt://{}@127.0.0.1:9")
"""A value by itself, and as a part of what settings hold that lead somewhere."""
LEAD = ("url", "uri", "path", "root", "base", "host", "socket", "files", "tokenizer")

Dialect = Literal["dap", "jsonrpc"]
CATALOG = Catalog()
PROVIDERS = tuple(name for name in CATALOG.names() if isinstance(CATALOG.find(name), type))


def node_of(provider: str) -> type[Node]:
    found = CATALOG.find(provider)
    assert found is not None
    return found


def component(component_id: str, provider: str, config: Any = None, **more: Any) -> dict[str, Any]:
    return {"id": component_id, "provider": provider, "config": config or {}, **more}


def pipeline_of(provider: str, config: dict[str, Any]) -> dict[str, Any]:
    """A pipeline in which a node is reached by data, if it takes any, and has its tools called."""
    accepts = node_of(provider).lanes
    parts = [component("w", "webhook"), component("q", "question", input=[{"lane": "text", "from": "w"}])]
    edges = [{"lane": lane, "from": start} for lane, start in (("text", "w"), ("questions", "q")) if lane in accepts]
    if node_of(provider).is_source():
        return {"components": [component("n", provider, config)], "source": "n"}
    parts.append(component("n", provider, config, input=edges, control=[{"classType": kind_of(provider), "from": "w"}]))
    for number, lane in enumerate({lane for lanes in accepts.values() for lane in lanes}):
        if lane in ("text", "answers", "questions", "table", "documents"):
            parts.append(component(f"r{number}", f"response_{lane}", input=[{"lane": lane, "from": "n"}]))
    return {"components": parts, "source": "w"}


def kind_of(provider: str) -> str:
    kinds = node_of(provider).class_types
    return "tool" if "tool" in kinds or not kinds else kinds[0]


def settings_of(provider: str) -> Iterator[tuple[str, Any]]:
    """Each setting of a node that may hold a text, with values that have a variable in them."""
    settings = CATALOG.settings_of(node_of(provider))
    variables = cycle(VARIABLES)
    for name, schema in ({} if settings is None else settings.schema["properties"]).items():
        options = (schema, *schema.get("anyOf", ()))
        kinds = {option.get("type") for option in options if option.get("additionalProperties") is not False}
        if name in AS_DATA or not kinds & {"string", "array", "object", None}:
            continue
        for around in PLACES if any(part in name for part in LEAD) else WHOLE:
            text = around.format(next(variables))
            if "string" in kinds or kinds == {None}:
                yield name, text
            if name == "steps":
                yield name, [{"op": "replace", "pattern": text, "text": ""}]
            elif "array" in kinds:
                yield name, [text]
            if "object" in kinds:
                yield name, {"t": text}


def some(schema: dict[str, Any]) -> Any:
    """A value that a schema may accept."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type") or next((option.get("type") for option in schema.get("anyOf", ())), "string")
    match kind:
        case "object":
            properties = schema.get("properties", {})
            return {name: some(properties[name]) for name in schema.get("required", ()) if name in properties}
        case "array":
            return [some(schema.get("items") or {})]
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
        case _:
            return "select 1"


def calls_on(peer: Peer, token: str) -> list[int]:
    """Everything that can be asked of a loaded pipeline, sent at once."""
    listed = peer.ask("tools", token=token) or {"tools": []}
    sent = [peer.send("rrext_get_task_status", token=token)]
    for tool in listed["tools"]:
        schema = tool["inputSchema"]
        some_input = some(schema)
        inputs = ({}, some_input, {**some_input, "sql": "select * from t", "path": "x/../y"})
        for given in inputs if schema.get("properties") else inputs[:1]:
            call = {"tool": tool["name"], "nodeId": tool["nodeId"], "input": given, "token": token}
            sent.append(peer.send("rrext_process", subcommand="tool", timeout=0.5, progress=True, **call))
    opened = peer.ask("rrext_process", subcommand="open", token=token, mimeType="text/plain", timeout=0.5, object={"name": "o"})
    if opened is not None:
        pipe = opened["pipe_id"]
        sent.append(peer.send("rrext_process", subcommand="write", pipe_id=pipe, data="what is it?", timeout=0.5))
        sent.append(peer.send("rrext_process", subcommand="close", pipe_id=pipe, timeout=0.5))
    return sent


def check(peer: Peer, more: bytes = b"") -> None:
    """Look through what the server said since the last time, and through what else there is."""
    for data in (*peer.news(), more):
        assert found_in(data, CORES) == []


@pytest.fixture(params=["dap", "jsonrpc"])
def dialect(request: pytest.FixtureRequest) -> Dialect:
    return request.param


@pytest.fixture(scope="module")
def peer_of_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """A server that loads pipelines with each node, and says nothing at its end either."""
    with Peer("dap", "--env", "GIVEN_NAME", secrets=SECRETS, folder=tmp_path_factory.mktemp("nodes")) as peer:
        yield peer
        peer.end()
        check(peer)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_setting_of_a_node_is_in_an_answer_a_log_or_a_process(provider: str, peer_of_nodes: Peer, tmp_path: Path) -> None:
    peer, loaded = peer_of_nodes, 0
    for number, (name, value) in enumerate(settings_of(provider)):
        pipeline = pipeline_of(provider, {**NEEDED.get(provider, {}), name: value, "tool_description": VARIABLES[0]})
        sent = [peer.send("rrext_validate", pipeline=pipeline)]
        token = f"{provider}{number}"
        if peer.ask("execute", pipeline=pipeline, token=token, folder=str(tmp_path)) is not None:
            loaded += 1
            sent += calls_on(peer, token)
            peer.ask("rrext_get_tasks")
        for request in sent:
            peer.answer(request)
        check(peer, peer.processes())
        peer.ask("terminate", token=token)
    assert loaded or not list(settings_of(provider)), "at least one pipeline has to be tried"


STRUCTURE = [
    ("components", 1, "id"),
    ("components", 1, "provider"),
    ("components", 1, "name"),
    ("components", 1, "description"),
    ("components", 1, "ui"),
    ("components", 1, "strange"),
    ("components", 1, "config"),
    ("components", 1, "config", "profile"),
    ("components", 1, "config", "parameters"),
    ("components", 1, "config", "secureParameters"),
    ("components", 1, "config", "strange"),
    ("components", 1, "config", "key"),
    ("components", 1, "input"),
    ("components", 1, "input", 0, "lane"),
    ("components", 1, "input", 0, "from"),
    ("components", 1, "control", 0, "classType"),
    ("components", 1, "control", 0, "from"),
    ("components", 1, "control"),
    ("source",),
    ("project_id",),
    ("name",),
    ("description",),
    ("version",),
    ("strange",),
    ("components",),
]


@pytest.fixture(scope="module", params=["dap", "jsonrpc"])
def lasting_peer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """A server for all places of a pipeline, which says nothing at its end either."""
    with Peer(request.param, "--env", "GIVEN_NAME", secrets=SECRETS, folder=tmp_path_factory.mktemp("lasting")) as peer:
        yield peer
        peer.end()
        check(peer)


@pytest.mark.parametrize("place", STRUCTURE, ids=lambda place: "/".join(map(str, place)))
def test_no_value_comes_back_from_any_place_of_a_pipeline(place: tuple[Any, ...], lasting_peer: Peer) -> None:
    peer = lasting_peer
    for variable in VARIABLES:
        for text in (variable, f"a{variable}"):
            leaky = component("l", "leaky", {}, control=[{"classType": "tool", "from": "w"}])
            leaky["input"] = [{"lane": "text", "from": "w"}]
            document: Any = {"components": [component("w", "webhook"), leaky], "source": "w", "project_id": "p"}
            holder: Any = document
            for key in place[:-1]:
                holder = holder[key]
            holder[place[-1]] = text
            for pipeline in (document, json.dumps(document)):
                peer.ask("rrext_validate", pipeline=pipeline)
                body = peer.ask("execute", pipeline=pipeline, token="t", source=None)
                peer.ask("rrext_get_tasks")
                if body is not None:
                    for request in calls_on(peer, "t"):
                        peer.answer(request)
                    peer.ask("terminate", token="t")
    check(peer, peer.processes())


def leaky(**config: Any) -> dict[str, Any]:
    part = component("l", "leaky", config, control=[{"classType": "tool", "from": "w"}], input=[{"lane": "text", "from": "w"}])
    return {"components": [component("w", "webhook"), part], "source": "w"}


@pytest.mark.parametrize("variable", VARIABLES)
def test_whatever_a_node_of_ones_own_raises_logs_or_prints_names_the_variable(
    variable: str, dialect: Dialect, tmp_path: Path
) -> None:
    with Peer(dialect, "--env", "GIVEN_NAME", "--log-file", "log", secrets=SECRETS, folder=tmp_path) as peer:
        assert peer.ask("execute", pipeline=leaky(key=variable), token="t") is not None
        assert peer.ask("execute", pipeline=leaky(key=variable, fails=True), token="fails") is not None
        sent = [
            peer.send("rrext_process", subcommand="tool", tool=tool, token="t", input={"way": way})
            for tool in ("fail", "fail_later")
            for way in WAYS
        ]
        sent += [
            peer.send("rrext_process", subcommand="tool", tool=tool, token=token, progress=True, stream=True)
            for tool in ("chunks", "wrong_result", "says", "surroundings")
            for token in ("t", "fails")
        ]
        sent += calls_on(peer, "t")
        sent.append(peer.send("rrext_process", subcommand="open", token="t", object={"name": "fails to open"}))
        told = [json.dumps(peer.answer(request)) for request in sent]
        assert sum(variable in text for text in told) > len(WAYS), "failures say which variable it is about"
        peer.ask("rrext_get_task_status", token="t")
        check(peer, peer.processes())
        peer.end()
        check(peer, (tmp_path / "log").read_bytes())
        assert variable.encode() in (tmp_path / "log").read_bytes()


def command_lines(variable: str, folder: Path) -> Iterator[list[str]]:
    """Commands with a pipeline that has the variable, as it should be, where it does harm and where it may not stand."""
    (folder / "o.txt").write_text("text")
    for name, config in (
        ("good", {"key": variable}),
        ("bad", {"key": variable, "fails": True}),
        ("odd", {"key": [variable]}),
    ):
        path = str(folder / f"{name}.pipe")
        Path(path).write_text(json.dumps(leaky(**config, profile=variable) if name == "odd" else leaky(**config)))
        lines = [
            ["check", path], ["check", "--json", path],
            ["show", path], ["show", "--svg", path], ["show", "--mermaid", path],
            ["tools", path], ["tools", "--json", path], ["send", path, "o.txt"],
            *(["tool", path, tool] for tool in ("says", "surroundings", "chunks", "wrong_result")),
            *(["tool", path, "fail", "--input", json.dumps({"way": way})] for way in ("chained", "tool error")),
        ]  # fmt: skip
        for line in lines:
            yield [line[0], "--nodes", str(NODES), "--env", "GIVEN_NAME", *line[1:]]


@pytest.mark.parametrize("variable", VARIABLES)
def test_no_command_says_a_value(
    variable: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    codes, told = set(), ""
    for line in command_lines(variable, tmp_path):
        for name, value in SECRETS.items():
            monkeypatch.setenv(name, value)  # the command before took it out of the environment
        codes.add(main(line))
        out, err = capfd.readouterr()
        told += f"{out}\n{err}"
        assert found_in(f"{out}\n{err}".encode(), CORES) == [], line
    assert codes == {0, 1, 2}
    assert variable in told, "failures say which variable it is about"


def test_no_command_of_a_process_of_its_own_hands_on_a_value(tmp_path: Path) -> None:
    lines = [line for line in command_lines(VARIABLES[1], tmp_path) if "--json" not in line and "bad.pipe" in " ".join(line)]
    for line in lines:
        done = completed([sys.executable, "-m", "rrext", *line], cwd=tmp_path, env=surroundings(SECRETS))
        assert found_in(done.stdout + b"\n" + done.stderr, CORES) == [], line
    assert {line[0] for line in lines} == {"check", "show", "tools", "send", "tool"}


def test_a_file_that_is_served_tells_no_value_when_it_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "p.pipe"
    path.write_text(json.dumps(leaky(profile=VARIABLES[1], key=VARIABLES[0], strange=VARIABLES[2])))
    peer = Peer("dap", "--env", "GIVEN_NAME", secrets=SECRETS, files=[path], folder=tmp_path)
    assert peer.process.wait(PATIENCE) == 2
    peer.join()
    check(peer)
