"""An MCP server with prompts, resources, templates and completions, whose texts name the server: `offering_server.py NAME`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "providers" / "mcp"))

from line_server import answer, refuse, serve

NAME = sys.argv[1]
PROMPTS = ["greet", "b__c"]
URIS = ["own://one", "own://two?a=b#c"]


def answered(method, params):
    """The result of a request; None if there is none."""
    if method == "prompts/list" and params.get("cursor", "0").isdecimal():
        found = [{"name": name, "arguments": [{"name": "who", "required": True}]} for name in PROMPTS]
        at = int(params.get("cursor", "0"))
        return {"prompts": found[at : at + 1]} | ({"nextCursor": str(at + 1)} if at + 1 < len(found) else {})
    if method == "prompts/get" and params["name"] in PROMPTS:
        text = f"{NAME} {params['name']} {params['arguments']['who']}"
        return {"messages": [{"role": "assistant", "content": {"type": "text", "text": text}}]}
    if method == "resources/list":
        return {"resources": [{"uri": uri, "name": uri, "mimeType": "text/x-own"} for uri in URIS]}
    if method == "resources/templates/list":
        return {"resourceTemplates": [{"uriTemplate": "own://{+path}", "name": "own"}]}
    if method == "resources/read" and params["uri"] in URIS:
        return {"contents": [{"uri": params["uri"], "mimeType": "text/x-own", "text": f"{NAME} {params['uri']}"}]}
    if method == "completion/complete":
        return {"completion": {"values": [f"{NAME} {params['ref'].get('name', params['ref'].get('uri'))}"], "hasMore": True}}
    return None


def handle(request):
    """Answer a request about what is offered."""
    found = answered(request["method"], request.get("params", {}))
    if found is None:
        refuse(request, f"{NAME} has no such thing", -32602)
    else:
        answer(request, found)


if __name__ == "__main__":
    serve(handle, tools=[], prompts={}, resources={}, completions={})
