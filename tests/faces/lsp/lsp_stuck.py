"""`rrext lsp` with features that never end, each in its own way; run as a program by tests."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from rrext.cli.main import main
from rrext.faces.lsp.features import table
from rrext.faces.lsp.options import Options
from rrext.faces.lsp.server import PipeServer


def register(server: PipeServer) -> None:
    """Have them answer custom requests; each says on stderr that it has begun."""

    def begin(name: str) -> None:
        print(f"arrived at {name}", file=sys.stderr, flush=True)

    async def wait(_: Any) -> None:
        begin("wait")
        await asyncio.Event().wait()

    async def deaf(_: Any) -> None:
        begin("deaf")
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    async def block(_: Any) -> None:
        begin("block")
        while True:
            time.sleep(60)  # noqa: ASYNC251

    async def slow(_: Any) -> str:
        await asyncio.sleep(0.1)
        return "done"

    async def stay() -> None:
        await asyncio.Event().wait()

    server.protocol.raw.update({"test/wait": wait, "test/deaf": deaf, "test/block": block, "test/slow": slow})
    server.when_closing(stay)


if __name__ == "__main__":
    before = table.language_server

    def both(given: Options) -> PipeServer:
        server = before(given)
        register(server)
        return server

    table.language_server = both
    sys.exit(main(["lsp", *sys.argv[1:]]))
