"""An MCP server behind a pipeline, with the prompts and resources that the protocol's conformance suite asks for."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "providers" / "mcp"))

from line_server import answer, refuse, serve

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="


def prompt(name, given):
    """The content of the message of a prompt."""
    if name == "test_prompt_with_embedded_resource":
        return {"type": "resource", "resource": {"uri": given["resourceUri"], "mimeType": "text/plain", "text": "embedded"}}
    if name == "test_prompt_with_image":
        return {"type": "image", "data": PNG, "mimeType": "image/png"}
    return {"type": "text", "text": f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'"}


def resource(uri):
    """The content of a resource."""
    if uri == "test://static-binary":
        return {"uri": uri, "mimeType": "image/png", "blob": PNG}
    if uri.startswith("test://template/"):
        found = {"id": uri.split("/")[3], "templateTest": True, "data": f"Data for ID: {uri.split('/')[3]}"}
        return {"uri": uri, "mimeType": "application/json", "text": json.dumps(found)}
    return {"uri": uri, "mimeType": "text/plain", "text": "This is the content of the static text resource."}


def handle(request):
    """Answer what is asked beside tools."""
    method, params = request["method"], request.get("params", {})
    if method == "prompts/get":
        content = prompt(params["name"], params.get("arguments", {}))
        answer(request, {"messages": [{"role": "user", "content": content}]})
    elif method == "resources/read":
        answer(request, {"contents": [resource(params["uri"])]})
    elif method == "completion/complete":
        answer(request, {"completion": {"values": ["paris", "park"], "hasMore": False}})
    elif method.endswith("/list"):
        member = {"resources/templates/list": "resourceTemplates"}.get(method, method.partition("/")[0])
        answer(request, {member: []})
    elif "id" in request:
        refuse(request, "unknown method", -32601)


serve(handle, tools=[], prompts={}, resources={}, completions={})
