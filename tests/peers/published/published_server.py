"""A server for the published RocketRide client, what the client sends to it, and the client's commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from rrext.client.server_address import server_env

HERE: Final = Path(__file__).resolve().parent
VERSION: Final = tuple(map(int, version("rocketride").split(".")))
KEY: Final = "the-key-of-this-server"
PATIENCE: Final = 60.0
PROXIES: Final = ("http_proxy", "https_proxy", "ws_proxy", "socks_proxy", "all_proxy")
"""Variables that the client obeys even for this machine."""


class PublishedServer:
    """A running server. `log` is what it said on stderr."""

    def __init__(self, process: subprocess.Popen[str], port: int, scheme: str) -> None:
        self.process = process
        self.port = port
        self.url = f"{scheme}://127.0.0.1:{port}"
        self.log = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log += line

    def end(self) -> None:
        """End the server, which had nothing to complain of."""
        self.process.terminate()
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert (code, " ERROR " in self.log) == (0, False), self.log


@contextmanager
def served(*options: str, key: str | None = KEY) -> Iterator[PublishedServer]:
    """A server with these options, and those in `RREXT_SERVE_OPTIONS`, as `rrext serve --ws` starts it."""
    command = [sys.executable, "-m", "rrext", "serve", "--ws", "127.0.0.1:0", "--nodes", str(HERE / "published_nodes.py")]
    env = server_env({"PYTHONPATH": str(HERE.parents[2])} | ({} if key is None else {"ROCKETRIDE_APIKEY": key}))
    command += [*os.environ.get("RREXT_SERVE_OPTIONS", "").split(), *options]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env, text=True) as process:
        assert process.stderr is not None
        found = re.search(r"listening at ws(s?)://127.0.0.1:(\d+)", said := process.stderr.readline())
        assert found is not None, said
        server = PublishedServer(process, int(found[2]), f"http{found[1]}")
        try:
            yield server
        finally:
            server.end()


def component(node_id: str, provider: str, *sources: tuple[str, str], **config: Any) -> dict[str, Any]:
    """A component of a pipeline; `sources` are pairs of a lane and the node from which it comes."""
    inputs = [{"lane": lane, "from": source} for lane, source in sources]
    return {"id": node_id, "provider": provider, "config": config} | ({"input": inputs} if inputs else {})


def tool_node(node_id: str, provider: str, **config: Any) -> dict[str, Any]:
    """A component whose tools the source `w` may call."""
    return {**component(node_id, provider, **config), "control": [{"classType": "tool", "from": "w"}]}


def pipeline(project: str, *middle: str, tools: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """A pipeline that returns texts, which pass through nodes of the providers `middle`."""
    components, last = [component("w", "webhook")], "w"
    for provider in middle:
        components.append(component(provider, provider, ("text", last)))
        last = provider
    components += [*tools, component("out", "response_text", ("text", last), laneName="text")]
    return {"components": components, "source": "w", "project_id": project}


def everything(project: str) -> dict[str, Any]:
    """A pipeline that returns texts, and has the tools of files, of a database, and some that wait."""
    files = tool_node("files_1", "tool_filesystem", root=".", allow_write=True)
    database = tool_node("db_1", "db_sqlite", path=":memory:", allow_execute=True)
    return pipeline(project, tools=[files, database, tool_node("waiter", "waiter")])


def chat() -> dict[str, Any]:
    """A pipeline that answers questions by a script."""
    script = [{"match": "what is it*", "answer": "42"}, {"match": "as json*", "answer": '{"n": 1}'}]
    components = [
        component("c", "chat"),
        component("llm", "llm_scripted", ("questions", "c"), script=script),
        component("out", "response_answers", ("answers", "llm"), laneName="answers"),
    ]
    return {"components": components, "source": "c", "project_id": "chat"}
