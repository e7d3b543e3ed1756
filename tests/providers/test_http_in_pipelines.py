"""Tools of HTTP APIs take the one way of a tool call: with its check of input, its deadline and its redaction."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest
from api_server import Asked, Reply, api_host

from rrext.connections import Connections
from rrext.engine.interface.operations import ListTools, Tool
from rrext.engine.local_engine import LocalEngine
from rrext.errors import InvalidArguments, ToolError
from rrext.nodes.base.node import Node
from rrext.nodes.basic.mcp_client import ProvidedToolsNode
from rrext.pipefile.catalog.catalog import Catalog

pytestmark = pytest.mark.anyio

DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "paths": {
        "/words/{word}": {
            "get": {
                "operationId": "getWord",
                "description": "Explains a word.",
                "parameters": [{"name": "lines", "in": "query", "schema": {"type": "integer", "minimum": 1}}],
                "responses": {
                    "200": {
                        "content": {
                            "application/json": {"schema": {"type": "object", "properties": {"text": {"type": "string"}}}}
                        }
                    }
                },
            }
        }
    },
}


class Source(Node):
    provider = "source"
    class_types = ("source",)
    lanes: ClassVar[Any] = {"_source": ("text",)}


class HttpNode(ProvidedToolsNode):
    provider = "http"
    kind = "http"

    class Config:
        connection: str


def answer(asked: Asked) -> Reply:
    match asked.path:
        case "/openapi.json":
            return Reply(DOCUMENT)
        case "/words/secret":
            return Reply({"error": f"refused: {asked.headers['x-key']}"}, status=403)
        case "/words/number":
            return Reply({"text": 7})
        case _:
            return Reply({"text": asked.target})


@pytest.mark.promise("provider:http")
async def test_an_operation_of_a_document_is_called_like_any_tool_of_a_pipeline() -> None:
    with api_host(answer) as host:
        table = {"provider": "http", "openapi": host.url + "/openapi.json", "headers": {"X-Key": "env:KEY"}}
        connections = Connections.of({"words": table}, {"KEY": "geheim-4711"})
        engine = LocalEngine(catalog=Catalog([Source, HttpNode]), connections=connections)
        try:
            components = [
                {"id": "s", "provider": "source", "config": {}},
                {
                    "id": "w",
                    "provider": "http",
                    "config": {"connection": "words"},
                    "control": [{"classType": "tool", "from": "s"}],
                },
            ]
            engine.load({"components": components, "source": "s", "project_id": "p"}, token="t")

            async def ask(operation: Any) -> Any:
                body, _ = await engine.ask(operation)
                return json.loads(body)

            (tool,) = (await ask(ListTools()))["tools"]
            assert (tool["name"], tool["description"]) == ("getWord", "Explains a word.")
            assert tool["annotations"] == {"readOnlyHint": True, "openWorldHint": True}
            assert tool["outputSchema"]["type"] == "object"

            async def call(**input: Any) -> Any:
                return (await ask(Tool(tool="getWord", input=input)))["result"]

            assert await call(word="a/b", lines=2) == {"text": "/words/a%2Fb?lines=2"}
            with pytest.raises(InvalidArguments, match="/input/lines"):
                await call(word="x", lines=0)
            with pytest.raises(InvalidArguments, match='unexpected property "line"'):
                await call(word="x", line=1)
            with pytest.raises(ToolError, match=r"answered 403: refused: \$\{words.headers.X-Key\}") as caught:
                await call(word="secret")
            assert caught.value.code == "http_unauthorized"
            with pytest.raises(ToolError, match="breaks its output_schema"):
                await call(word="number")
            assert [asked.target for asked in host.asked].count("/openapi.json") == 1
        finally:
            await engine.aclose()
