"""An MCP server that asks the user of each call, and answers with what it was told: `python asking_server.py legacy|modern`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "providers" / "mcp"))

from line_server import answer, say, serve

FORM = {"type": "object", "properties": {"size": {"type": "string", "enum": ["S", "L"], "default": "S"}}, "required": ["size"]}
QUESTION = {"message": "Which size?", "requestedSchema": FORM}
asked = {}


def legacy(message):
    """Ask by a request."""
    if "method" in message:
        asked[message["id"]] = message
        say({"id": f"about {message['id']}", "method": "elicitation/create", "params": QUESTION})
    else:
        call = asked.pop(int(message["id"].removeprefix("about ")))
        answer(call, {"content": [{"type": "text", "text": json.dumps(message.get("result", message.get("error")))}]})


def modern(message):
    """Ask by a result."""
    if "inputResponses" in message["params"]:
        text = json.dumps(message["params"]["inputResponses"]["size"])
        answer(message, {"resultType": "complete", "content": [{"type": "text", "text": text}]})
    else:
        questions = {"size": {"method": "elicitation/create", "params": QUESTION}}
        answer(message, {"resultType": "input_required", "inputRequests": questions, "requestState": "s"})


if __name__ == "__main__":
    serve(legacy if sys.argv[1] == "legacy" else modern, modern=sys.argv[1] == "modern")
