"""The language server: what the client said of itself, its documents, and the features that answer it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.protocol import default_converter

from rrext import __version__
from rrext.bridges.lsp.diagnostics import as_diagnostics
from rrext.bridges.lsp.documents import Document, Documents, State
from rrext.bridges.lsp.features import register_features
from rrext.bridges.lsp.manual import Manual
from rrext.bridges.lsp.options import Options, options_from
from rrext.bridges.lsp.protocol import PipeProtocol
from rrext.bridges.lsp.surroundings import surroundings_for
from rrext.editor.analysis import Analysis, Surroundings
from rrext.editor.text import Text

__all__ = ["PipeServer"]

log: Final = logging.getLogger("rrext.lsp")

CommandHandler: TypeAlias = Callable[[types.ExecuteCommandParams], Awaitable[Any]]


class PipeServer(LanguageServer):
    """A language server for `.pipe` files, for one client. `given` are the options of the command line."""

    protocol: PipeProtocol  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, given: Options = Options()) -> None:  # noqa: B008 (it is frozen)
        super().__init__("rrext", __version__, protocol_cls=PipeProtocol, converter_factory=default_converter)
        self.options = given
        self.manual = Manual()
        self.around: Surroundings | None = None
        self.documents = Documents(self.surroundings, self._publish, self._retract)
        self._complaints: list[str] = []
        self._commands: dict[str, CommandHandler] = {}
        self._closers: list[Callable[[], Awaitable[None]]] = []
        self.feature(types.INITIALIZE)(lambda params: self._on_initialize(params))
        self.feature(types.INITIALIZED)(lambda params: self._on_initialized(params))
        register_features(self)

    # the client

    def take_options(self, params: Any) -> None:
        """Take `initializationOptions` as they came, before pygls makes objects of them."""
        self.options, self._complaints = options_from(params, self.options)

    def _on_initialize(self, _: types.InitializeParams) -> None:
        # a text if the client named it, a member of the enumeration if it is the default
        self.documents.unit = types.PositionEncodingKind(self.workspace.position_encoding).value
        self.around, complaints = surroundings_for(self.options)
        self._complaints += complaints

    def _on_initialized(self, _: types.InitializedParams) -> None:
        for complaint in self._complaints:
            self.tell(complaint, types.MessageType.Warning)
        self._complaints = []

    def surroundings(self) -> Surroundings:
        """What documents are judged by."""
        assert self.around is not None  # nothing is handled before `initialize`
        return self.around

    def tell(self, message: str, kind: types.MessageType = types.MessageType.Info) -> None:
        """Show a message to the person at the editor."""
        self.window_show_message(types.ShowMessageParams(kind, message))

    def answer(self, method: str, handler: Callable[[Any], Awaitable[Any]], options: Any = None) -> None:
        """Let a coroutine function answer a request of the protocol; `options` go into the server's capabilities."""

        async def run(params: Any) -> Any:  # pygls marks what it is given, and a method cannot be marked
            return await handler(params)

        self.feature(method, options)(run)

    # documents

    async def look(self, uri: str) -> tuple[Document, Text, Analysis]:
        """A document as it is now, for a request about it: the document, its text, what is known of it.

        Raises `JsonRpcInvalidParams` if it is not open.
        """
        document = self.documents.get(uri)
        state = document.state
        return document, state.text, await self.documents.analysis(document, state)

    def _publish(self, document: Document, state: State, analysis: Analysis) -> None:
        found = as_diagnostics(analysis.loaded.problems, analysis.map, state.text, document.uri, self.manual)
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(document.uri, found, state.version))

    def _retract(self, document: Document) -> None:
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(document.uri, []))

    # commands

    def add_command(self, name: str, handler: CommandHandler) -> None:
        """Let `workspace/executeCommand` run something. pygls' own way cannot cancel it and changes its arguments."""
        self._commands[name] = handler
        self.protocol.fm.commands[name] = handler  # so that the capabilities name it

    async def execute(self, params: types.ExecuteCommandParams) -> Any:
        """Run a command. Raises `JsonRpcInvalidParams` for one that is not there."""
        handler = self._commands.get(params.command)
        if handler is None:
            known = ", ".join(self._commands) or "none"
            raise JsonRpcInvalidParams(f'There is no command "{params.command}"; there are {known}')
        return await handler(params)

    def when_closing(self, close: Callable[[], Awaitable[None]]) -> None:
        """Have something ended with the server."""
        self._closers.append(close)

    async def aclose(self) -> None:
        """End what runs."""
        for close in self._closers:
            await close()
