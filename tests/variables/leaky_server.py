"""An MCP server of lines that says its key wherever a server can say something."""

from __future__ import annotations

import base64
import json
import os
import sys
from typing import Any

KEY = os.environ["KEY"]
NAMED = " ".join(value for name, value in os.environ.items() if name.lower() in ("connection_string", "connectionstring"))
"""Secrets by their names, if the connection has some."""
SPELT = [json.dumps(NAMED).replace("/", "\\/"), "".join(f"\\u{ord(c):04x}" for c in NAMED), NAMED.encode().hex().upper()]
SPELT += ["".join(f"%{ord(c):02x}" for c in NAMED), "".join(f"&#{ord(c)};" for c in NAMED), NAMED]
SERVER = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
NAMES = ("fail", "refuse", "babble", "end", "tell", "pack", f"with_{KEY}")
TOOLS = [{"name": name, "description": f"Has {KEY}.", "inputSchema": {"type": "object", "title": KEY}} for name in NAMES]


def answer(request: dict[str, Any]) -> dict[str, Any]:
    match request["method"], request.get("params", {}).get("name"):
        case "initialize", _:
            return {"result": SERVER}
        case "tools/list", _:
            return {"result": {"tools": TOOLS}}
        case "tools/call", "fail":
            return {"result": {"content": [{"type": "text", "text": f"failed with {KEY} {SPELT}"}], "isError": True}}
        case "tools/call", "babble":
            print(f"no message: {KEY}", flush=True)
            token = request["params"].get("_meta", {}).get("progressToken", 0)
            progress = {"progressToken": token, "progress": 1, "message": f"sending {KEY}"}
            print(json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}), flush=True)
            return {"result": {"content": []}}
        case "tools/call", "tell":
            return {
                "result": {"content": [{"type": "text", "text": KEY}], "structuredContent": {KEY: [f"the key {KEY}", *SPELT]}}
            }
        case "tools/call", "pack":
            data = base64.b64encode(f"\0{KEY}".encode()).decode()
            return {"result": {"content": [{"type": "image", "mimeType": "image/png", "data": data}]}}
        case "tools/call", "end":
            sys.exit(f"the key {KEY} is wrong")
        case _:
            return {"error": {"code": -32000, "message": f"refused {KEY}", "data": {"key": KEY}}}


print(f"starting with {KEY}", *SPELT, file=sys.stderr, flush=True)
for line in sys.stdin:
    received = json.loads(line)
    if "id" in received:
        print(json.dumps({"jsonrpc": "2.0", "id": received["id"], **answer(received)}), flush=True)
