"""The beginning of MCP servers that tests write by hand: they speak raw lines, and need no package.

`serve` answers the handshake and `tools/list`, and passes other requests to a function of the test.
"""

import json
import sys

TOOLS = [{"name": "act", "inputSchema": {"type": "object"}}]


def read():
    """The next message; ends the server at the end of stdin."""
    line = sys.stdin.buffer.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def say(message):
    write(json.dumps({"jsonrpc": "2.0", **message}).encode())


def write(line):
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def answer(request, result):
    say({"id": request["id"], "result": result})


def refuse(request, message, code=-32000):
    say({"id": request["id"], "error": {"code": code, "message": message}})


def serve(handle, tools=TOOLS, announces=False, modern=False, **capabilities):
    """Answer as a server of 2025-11-25, or of 2026-07-28. `handle(message)` gets what is neither handshake nor list."""
    while True:
        message = read()
        method = message.get("method")
        able = {"tools": {"listChanged": announces}, **capabilities}
        if method == "server/discover" and modern:
            kept = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
            answer(message, {"supportedVersions": ["2026-07-28"], "capabilities": able, **kept})
        elif method == "server/discover":
            refuse(message, "unknown method", -32601)
        elif method == "initialize":
            info = {"name": "lines", "version": "1"}
            answer(message, {"protocolVersion": "2025-11-25", "capabilities": able, "serverInfo": info})
        elif method == "tools/list":
            found = tools(message) if callable(tools) else {"tools": tools}
            answer(message, found)
        elif method != "notifications/initialized":
            handle(message)
