"""What the start of the language server pays for: the classes of the protocol that it uses, and no others."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

FIELDS = """
import json, re, attrs
from lsprotocol import converters, types
converters.get_converter()
plain = lambda value: re.sub(r"0x[0-9a-f]+", "0x", repr(value))
parts = lambda field: (field.name, field.type, field.default, field.validator, field.kw_only)
found = {
    name: [[plain(part) for part in parts(field)] for field in attrs.fields(kind)]
    for name, kind in types.ALL_TYPES_MAP.items()
    if isinstance(kind, type) and attrs.has(kind)
}
print(json.dumps(found))
"""
START = """
import asyncio, gc, json, os
from rrext.cli import main
from rrext.cli.commands.servers import serve

async def initialize(serving):
    from lsprotocol import types
    answers = []
    serving.server.protocol.sink = answers.append
    params = {"processId": None, "rootUri": None, "capabilities": {"textDocument": {"hover": {"contentFormat": ["markdown"]}}}}
    serving.server.protocol.receive({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
    while not answers:
        await asyncio.sleep(0)
    kinds = [kind for kind in types.ALL_TYPES_MAP.values() if "__attrs_attrs__" in getattr(kind, "__dict__", {})]
    complete = sum(isinstance(kind.__dict__["__attrs_attrs__"], tuple) for kind in kinds)
    print(json.dumps([complete, len(kinds), "result" in json.loads(answers[0])]), file=stderr, flush=True)
    return 0

def leave(code, writers):
    raise SystemExit(code)

def loaded():
    from rrext.faces.lsp import stdio
    stdio.LspServing.run = initialize

stderr = os.fdopen(os.dup(2), "w")
gc.freeze = loaded  # called when everything is imported
serve.leave = leave
main.main(["lsp"])
"""
MANY_THREADS = """
import threading
from rrext.faces.lsp.deferred_types import load_protocol_types
load_protocol_types()
from lsprotocol import types

gate, found = threading.Barrier(8), []

def make():
    gate.wait()
    found.append(types.Diagnostic(types.Range(types.Position(0, 0), types.Position(0, 1)), "m"))

threads = [threading.Thread(target=make) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert len(found) == 8 and all(other == found[0] for other in found), found
assert "message='m'" in repr(found[0])
try:
    types.Position("0", 1)
except ValueError:
    print("checked")
"""


def ran(program: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", program], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


def test_deferred_classes_of_the_protocol_have_the_fields_of_complete_ones() -> None:
    deferring = "from rrext.faces.lsp.deferred_types import load_protocol_types; load_protocol_types()"
    complete, deferred = (json.loads(ran(program).stdout) for program in (FIELDS, deferring + FIELDS))
    assert len(complete) > 500
    assert deferred == complete


def test_the_answer_to_initialize_completes_few_classes_of_the_protocol() -> None:
    complete, count, is_result = json.loads(ran(START).stderr.splitlines()[-1])
    assert is_result
    assert count > 500
    assert complete < count / 4


def test_several_threads_may_be_the_first_to_use_a_class() -> None:
    assert ran(MANY_THREADS).stdout == "checked\n"
