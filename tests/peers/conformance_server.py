"""An MCP server behind a pipeline, with the prompts and resources that the protocol's conformance suite asks for, and the tools
that ask the user.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "providers" / "mcp"))

from line_server import answer, refuse, say, serve

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="


CHOICES = ["option1", "option2", "option3"]
TITLED = [{"const": f"value{number}", "title": f"Choice {number}"} for number in (1, 2, 3)]
FORMS = {
    "test_elicitation": {"username": {"type": "string"}, "email": {"type": "string"}},
    "test_elicitation_sep1034_defaults": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
    "test_elicitation_sep1330_enums": {
        "untitledSingle": {"type": "string", "enum": CHOICES},
        "titledSingle": {"type": "string", "oneOf": TITLED},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": CHOICES}},
        "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
    },
}
"""Tool → the fields that it asks for."""
TOOLS = [{"name": name, "description": "Asks the user.", "inputSchema": {"type": "object"}} for name in FORMS]
asked = {}


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
    method, params = request.get("method", ""), request.get("params", {})
    if method == "tools/call":
        asked[f"about {request['id']}"] = request
        form = {"type": "object", "properties": FORMS[params["name"]]}
        question = {"message": params["arguments"].get("message", "Please answer."), "requestedSchema": form}
        say({"id": f"about {request['id']}", "method": "elicitation/create", "params": question})
        return
    if not method:
        said = request.get("result", {})
        text = f"Elicitation completed: action={said.get('action')}, content={json.dumps(said.get('content'))}"
        answer(asked.pop(request["id"]), {"content": [{"type": "text", "text": text}]})
        return
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


serve(handle, tools=TOOLS, prompts={}, resources={}, completions={})
