"""`--otel`: calls and agents as spans of OpenTelemetry, from a command and from an engine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from commands import call, component, here
from crew_nodes import Boss, Hand, Helper
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rrext.engine.local_engine import LocalEngine
from rrext.errors import RrextError
from rrext.faces.mcp.listing import ListedTools
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.server.journal.otel import SpanExport
from rrext.testing.sessions import pair

TREE = {
    "execute_tool run_agent": {
        "invoke_agent boss": {
            "turn 1": {
                "chat large": {},
                "execute_tool find": {},
                "execute_tool no_such_tool": {},
                "execute_tool ask_helper": {"invoke_agent helper": {"turn 1": {"chat": {}}}},
            },
            "turn 2": {"chat large": {}},
        }
    }
}
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def tree(spans: list[tuple[str, str, str]], above: str = "") -> dict[str, Any]:
    """Spans as (id, id of the parent, name), by their begins, as names within names."""
    return {name: tree(spans, number) for number, parent, name in spans if parent == above}


class Collector(BaseHTTPRequestHandler):
    """Keeps what is sent to it."""

    server: Any

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.append((self.path, dict(self.headers.items()), ExportTraceServiceRequest.FromString(body)))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture
def collector() -> Iterator[Any]:
    server: Any = HTTPServer(("127.0.0.1", 0), Collector)
    server.got = []
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.promise("trace:otel")
def test_a_command_sends_its_spans_to_a_collector_before_it_ends(crew: tuple[str, str], collector: Any) -> None:
    file, nodes = crew
    variables = {
        "ROCKETRIDE_KEY": "correct-horse-battery",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_address[1]}",
        "OTEL_EXPORTER_OTLP_HEADERS": "x-team=ada",
        "NO_PROXY": "127.0.0.1",
    }
    done = call("tool", file, "run_agent", "query=x", "--nodes", nodes, "--otel", **variables)
    assert (done.code, done.err) == (0, "")
    ((path, headers, request),) = collector.got
    assert (path, headers["x-team"]) == ("/v1/traces", "ada")
    (resource,) = request.resource_spans
    assert {each.key: each.value.string_value for each in resource.resource.attributes}["service.name"] == "rrext"
    spans = sorted(resource.scope_spans[0].spans, key=lambda span: (span.start_time_unix_nano, -span.end_time_unix_nano))
    assert tree([(span.span_id.hex(), span.parent_span_id.hex(), span.name) for span in spans]) == TREE
    assert b"gen_ai.tool.call" not in request.SerializeToString()


class Exported:
    """The spans of an engine, in memory."""

    def __init__(self, engine: LocalEngine, *, content: bool = False) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.export = SpanExport(provider, content=content)
        self.export.begin(engine)

    def named(self, name: str) -> Any:
        (found,) = [span for span in self._exporter.get_finished_spans() if span.name == name]
        return found

    def told(self, name: str) -> Mapping[str, Any]:
        """The attributes of conventions that a span has."""
        return {key.removeprefix("gen_ai."): value for key, value in self.named(name).attributes.items()}


@pytest.mark.promise("trace:otel")
async def test_spans_have_the_attributes_of_the_conventions_and_the_place_in_the_trace_of_the_caller() -> None:
    environment = Environment({"ROCKETRIDE_KEY": "correct-horse-battery"})
    engine = LocalEngine(catalog=Catalog([Boss, Hand, Helper]), environment=environment)
    spans, full = Exported(engine), Exported(engine, content=True)
    boss = component("boss_1", "boss", control="s", key="${ROCKETRIDE_KEY}")
    others = [component("hand_1", "hand", control="s"), component("help_1", "helper", control="s")]
    try:
        engine.load({"components": [component("s", "tools"), boss, *others]}, token="t")
        async with pair(engine, trusted=True) as client:
            input = {"query": "correct-horse-battery", "bearer_token": "mine"}
            await client.tool(tool="run_agent", input=input, meta={"traceparent": CALLER})
            with pytest.raises(RrextError):
                await client.tool(tool="find", input={"what": "y"}, meta={"traceparent": "no place"})
            await client.tools()
    except RrextError:
        pass
    finally:
        await engine.aclose()
    root = spans.named("execute_tool run_agent")
    assert f"{root.context.trace_id:032x}" == CALLER[3:35]
    assert f"{root.parent.span_id:016x}" == CALLER[36:52]
    assert spans.told("execute_tool run_agent") == {
        "operation.name": "execute_tool", "tool.name": "run_agent", "tool.type": "function", "rrext.pipeline": "t",
        "rrext.node": "boss_1",
    }  # fmt: skip
    assert spans.told("invoke_agent boss") == {
        "operation.name": "invoke_agent", "agent.name": "boss", "usage.input_tokens": 2500, "usage.output_tokens": 49,
    }  # fmt: skip
    assert spans.told("turn 2") == {"rrext.agent.turn": 2}
    chat = spans.named("chat")
    assert (chat.attributes["gen_ai.usage.input_tokens"], chat.attributes["rrext.usage.estimated"]) == (10, True)
    failed = [span for span in spans._exporter.get_finished_spans() if span.name == "execute_tool find"]
    assert [(span.attributes["error.type"], span.status.is_ok, span.parent is None) for span in failed] == [
        ("nothing", False, False),
        ("nothing", False, True),
    ]
    assert failed[0].context.trace_id != failed[1].context.trace_id
    given = full.told("execute_tool run_agent")
    assert json.loads(given["tool.call.arguments"]) == {"query": "${ROCKETRIDE_KEY}", "bearer_token": "•••"}
    assert json.loads(given["tool.call.result"]) == {"content": "found"}
    large = [span for span in full._exporter.get_finished_spans() if span.name == "chat large"]
    (message,) = json.loads(large[0].attributes["gen_ai.output.messages"])
    assert message["parts"] == [{"type": "text", "content": "I look with ${ROCKETRIDE_KEY}."}]
    assert large[0].attributes["gen_ai.response.finish_reasons"] == ("tool_calls",)
    assert spans.export.end(50)
    assert full.export.end(50)


def test_variables_that_ask_for_what_is_not_here_are_told(
    crew: tuple[str, str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("tool", crew[0], "find", "what=x", "--partial", "--nodes", crew[1], "--otel")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    done = here(capfd, *words)
    assert (done.code, "OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc'; expected http/protobuf" in done.err) == (2, True)
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin")
    done = here(capfd, *words)
    assert (done.code, "OTEL_TRACES_EXPORTER is 'zipkin'; expected otlp, console, none" in done.err) == (2, True)


def test_a_host_of_the_model_context_protocol_hands_its_place_on() -> None:
    listed = ListedTools()
    given = {"name": "find", "arguments": {}, "_meta": {"traceparent": CALLER, "other": 1}}
    assert listed.call(given)["_meta"] == {"traceparent": CALLER}
    assert "_meta" not in listed.call({"name": "find", "_meta": {"other": 1}})
