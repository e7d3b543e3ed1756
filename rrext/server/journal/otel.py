"""Spans of calls and agents for OpenTelemetry, named as its conventions for generative AI have them. Its packages are imported
here alone, for `--otel`.

They are made of the engine's events, as the drawing of a trace file is, and not by the instrumentation of the agent's library:
that knows no direct calls, no tools of other processes and no turns, and would tell contents by rules of its own.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rrext.engine.events.records import AgentTurn, CallEnded, CallStarted, Filter
from rrext.engine.views.spans import KINDS, Span, Spans
from rrext.errors import UsageError
from rrext.secrets.names import masked
from rrext.version import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

    from rrext.engine.interface.engine import Engine

EXPORTERS: Final = ("otlp", "console", "none")
"""Values of OTEL_TRACES_EXPORTER that are possible here."""

OPERATIONS: Final = {"tool": "execute_tool", "agent": "invoke_agent", "chat": "chat"}
"""Kind of a span → the operation of the conventions that it is; a turn is none of them."""


def begin_otel(engine: Engine, *, content: bool) -> SpanExport:
    """Export the spans of an engine from now on, as the variables OTEL_… say. Raises `UsageError`."""
    export = SpanExport(_provider(), content=content)
    export.begin(engine)
    return export


def _provider() -> TracerProvider:
    """The provider that the variables of OpenTelemetry describe; those that are not read here its packages read."""
    name = os.environ.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"
    if name not in EXPORTERS:
        raise UsageError(f"--otel: OTEL_TRACES_EXPORTER is {name!r}; expected {', '.join(EXPORTERS)}")
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    if name == "otlp" and protocol not in (None, "", "http/protobuf"):
        raise UsageError(f"--otel: OTEL_EXPORTER_OTLP_PROTOCOL is {protocol!r}; expected http/protobuf")
    from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter

    known = {SERVICE_VERSION: __version__}
    if not os.environ.get("OTEL_SERVICE_NAME") and f"{SERVICE_NAME}=" not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        known[SERVICE_NAME] = "rrext"
    provider = TracerProvider(resource=Resource.create(known), shutdown_on_exit=False)
    if name != "none":
        exporter: SpanExporter
        if name == "console":
            import sys

            exporter = ConsoleSpanExporter(out=sys.stderr)
        else:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            exporter = OTLPSpanExporter()
        provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


class SpanExport:
    """Gives the spans of an engine to a provider. `content` says whether inputs, results and texts are among their attributes,
    without secrets.
    """

    def __init__(self, provider: TracerProvider, *, content: bool) -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = provider
        self._content = content
        self._tracer = provider.get_tracer("rrext", __version__)
        self._propagator = TraceContextTextMapPropagator()
        self._spans = Spans(self._begun, self._ended)

    def begin(self, engine: Engine) -> None:
        """Take the events of an engine from now on."""
        engine.subscribe(Filter(kinds=KINDS, data=self._content), self._spans.take)

    def end(self, seconds: float) -> bool:
        """Send what is left, for at most so many seconds. Returns whether all is sent, or given up."""
        ending = threading.Thread(target=self._provider.shutdown, name="rrext-otel", daemon=True)
        ending.start()
        ending.join(seconds)
        return not ending.is_alive()

    def _begun(self, span: Span) -> None:
        if span.kind == "call":
            return  # those inside of it belong to its caller
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind, set_span_in_context

        context = Context()  # nothing of this thread's own
        above = span.parent
        while above is not None and above.made is None:
            above = above.parent
        if above is not None:
            context = set_span_in_context(above.made, context)
        elif span.traceparent is not None:
            context = self._propagator.extract({"traceparent": span.traceparent}, context)
        span.made = self._tracer.start_span(
            f"{OPERATIONS[span.kind]} {span.name}" if span.kind in ("tool", "agent") else span.name,
            context,
            SpanKind.CLIENT if span.kind == "chat" else SpanKind.INTERNAL,
            self._first(span),
            start_time=_nanoseconds(span.began.time),
        )

    def _first(self, span: Span) -> dict[str, Any]:
        """The attributes that are known at the begin."""
        began = span.began
        known: dict[str, Any] = {}
        if span.kind in OPERATIONS:
            known["gen_ai.operation.name"] = OPERATIONS[span.kind]
        if span.kind == "agent":
            known["gen_ai.agent.name"] = span.name
        elif span.kind == "turn" and isinstance(began, AgentTurn):
            known["rrext.agent.turn"] = began.turn
        elif span.kind == "tool":
            known |= {"gen_ai.tool.name": span.name, "gen_ai.tool.type": "function"}
        if span.kind == "tool" and isinstance(began, CallStarted):
            told = {"rrext.pipeline": began.token, "rrext.node": began.node_id, "enduser.id": began.user_id}
            known |= {name: value for name, value in told.items() if value is not None}
            known |= self._json("gen_ai.tool.call.arguments", began.arguments)
        return known

    def _ended(self, span: Span) -> None:
        made = span.made
        if made is None:
            return
        ended = span.ended
        assert ended is not None  # it is told of its end
        if span.kind == "chat" and isinstance(ended, AgentTurn) and ended.step == "end":
            made.update_name(span.name)
            told = {
                "gen_ai.request.model": ended.model,
                "rrext.usage.estimated": ended.estimated,
                "rrext.usage.cost": ended.cost,
            }
            made.set_attributes({name: value for name, value in told.items() if value is not None})
            if ended.finish is not None:
                made.set_attribute("gen_ai.response.finish_reasons", [ended.finish])
            if self._content and span.text:
                parts = [{"type": "text", "content": "".join(span.text)}]
                messages = [{"role": "assistant", "parts": parts, "finish_reason": ended.finish or ""}]
                made.set_attributes(self._json("gen_ai.output.messages", messages))
        if span.usage.turns:
            made.set_attribute("gen_ai.usage.input_tokens", span.usage.input_tokens)
            made.set_attribute("gen_ai.usage.output_tokens", span.usage.output_tokens)
        if span.kind == "tool" and isinstance(ended, CallEnded):
            made.set_attributes(self._json("gen_ai.tool.call.result", ended.result))
        if span.failure is not None:
            from opentelemetry.trace import Status, StatusCode

            code, message = span.failure
            made.set_attribute("error.type", code)
            made.set_status(Status(StatusCode.ERROR, message or code))
        made.end(_nanoseconds(ended.time))

    def _json(self, name: str, value: Any) -> dict[str, str]:
        """An attribute with content; none without content."""
        if not self._content or value is msgspec.UNSET:
            return {}
        return {name: msgspec.json.encode(masked(value)).decode()}


def _nanoseconds(time: float) -> int:
    return int(time * 1e9)
