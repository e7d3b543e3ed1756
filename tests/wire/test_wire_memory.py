"""Messages for which the process has no memory: each is refused by its id, and the next one is read."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.promise("wire:no-memory"),
    pytest.mark.skipif(sys.platform != "linux", reason="limits the address space"),
]

PROGRAM = """
import resource, sys

def limit(more):
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + more, resource.RLIM_INFINITY))

limit(1 << 40)  # a process knows from its start that it has a limit
from rrext.faces.mcp.connection import McpConnection
from rrext.wire.connection import ServerConnection
from rrext.wire.framing import ContentLength
from rrext.wire.framing import Lines

framing, content, more = sys.argv[1], sys.argv[2], int(sys.argv[3])
SIZE = 12_000_000
small = b'{"jsonrpc":"2.0","id":%d,"method":"ping","params":{}}'
values = {
    "string": b'"' + b"x" * SIZE + b'"',
    "strings": b"[" + b'"x",' * (SIZE // 4) + b'""]',
    "objects": b"[" + b"{}," * (SIZE // 3) + b"{}]",
}
large = b'{"jsonrpc":"2.0","id":2,"method":"ping","params":{"data":%b}}' % values[content]
messages = [small % 1, large, small % 3]
kept = bytearray()
if framing == "whole":
    connection = ServerConnection(None)
    read = lambda message: [connection.receive_message(message)]
elif framing == "frames":
    connection = ServerConnection(ContentLength())
    messages = [b"Content-Length: %d\\r\\n\\r\\n%b" % (len(message), message) for message in messages]
    read = connection.framer.receive_data
elif framing == "tails":
    connection = ServerConnection(ContentLength())
    heads = [(small % 1, b""), (small % 2, large), (small % 3, b"")]
    messages = [b"Content-Length: %d\\r\\nJson-Length: %d\\r\\n\\r\\n%b%b" % (len(a) + len(b), len(a), a, b) for a, b in heads]
    read = connection.framer.receive_data
else:
    connection = McpConnection(Lines())
    messages = [message + b"\\n" for message in messages]
    read = connection.framer.receive_data
read(messages[0])
limit(more)
told = []
for message in messages[1:]:
    for event in read(message):
        error = getattr(event, "error", None)
        told.append((event.id, None if error is None else error.code))
print(told)
"""


@pytest.mark.parametrize(("content", "more"), [("string", 4), ("strings", 4), ("objects", 4), ("objects", 30)])
@pytest.mark.parametrize("framing", ["frames", "tails", "lines", "whole"])
def test_a_message_without_memory_is_refused_by_its_id_and_the_next_one_is_read(framing: str, content: str, more: int) -> None:
    words = [sys.executable, "-c", PROGRAM, framing, content, str(more << 20)]
    done = subprocess.run(words, capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stderr) == (0, "")
    refused, taken = "[(2, 'unavailable'), (3, None)]\n", "[(2, None), (3, None)]\n"
    assert done.stdout == refused or (done.stdout == taken and (framing == "tails" or content == "string"))
