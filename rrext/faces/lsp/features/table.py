"""The language server with all its features."""

from __future__ import annotations

from typing import Any

import msgspec
from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from rrext.faces.lsp.features.actions import register_actions, register_formatting
from rrext.faces.lsp.features.positions import (
    register_completion,
    register_hover,
    register_links,
    register_navigation,
    register_symbols,
)
from rrext.faces.lsp.features.workspace import register_workspace
from rrext.faces.lsp.options import Options
from rrext.faces.lsp.runs.commands import Commands, CustomMethods, Offers
from rrext.faces.lsp.runs.engine import Deployments, EngineOutput, EngineProcess
from rrext.faces.lsp.runs.results import Display, Graphs
from rrext.faces.lsp.runs.runner import Runner
from rrext.faces.lsp.server import PipeServer


class CommandParams(msgspec.Struct, frozen=True, rename="camel"):
    """The parameters of `workspace/executeCommand`."""

    command: str
    arguments: list[Any] | None = None
    work_done_token: int | str | None = None


def register_runs(server: PipeServer) -> None:
    """Let a server run pipelines. The engine starts with the first run and ends with the server."""

    def log(text: str) -> None:
        server.window_log_message(types.LogMessageParams(types.MessageType.Log, text))

    output = EngineOutput(log)
    engine = EngineProcess(lambda: server.options, on_output=output, on_event=server.protocol.send_notification)
    deployments = Deployments(server, engine)
    display = Display(server)
    Commands(server, engine, Runner(server, engine, deployments, output, display), output)
    Graphs(server, display)
    CustomMethods(server, engine, output)
    Offers(server)

    async def execute(params: Any) -> Any:
        # Raw parameters: pygls would convert every part of a large input or result to objects.
        try:
            asked = msgspec.convert(params, CommandParams)
        except msgspec.ValidationError as error:
            raise JsonRpcInvalidParams(str(error)) from None
        return await server.execute(types.ExecuteCommandParams(asked.command, asked.arguments, asked.work_done_token))

    async def close() -> None:
        await engine.end()

    server.protocol.raw[types.WORKSPACE_EXECUTE_COMMAND] = execute
    server.on_document_closed.append(deployments.close)
    server.on_trust_withdrawn.append(engine.abandon)
    server.when_closing(close)


def language_server(given: Options = Options()) -> PipeServer:  # noqa: B008 (it is frozen)
    """A server with all features. `given` are the options of the command line."""
    server = PipeServer(given)
    for register in (
        register_completion,
        register_hover,
        register_navigation,
        register_symbols,
        register_formatting,
        register_links,
        register_workspace,
        register_runs,
        register_actions,
    ):
        register(server)
    return server
