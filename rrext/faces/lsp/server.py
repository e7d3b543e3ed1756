"""The language server: what the client said of itself, its documents, and the features that answer it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeAlias

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.protocol import default_converter

from rrext.editor.analysis import Analysis, AnalysisSettings
from rrext.editor.text import Text
from rrext.faces.lsp.analysis_settings import analysis_settings_for
from rrext.faces.lsp.documents import Document, Documents
from rrext.faces.lsp.manual import Manual
from rrext.faces.lsp.options import Options, options_from, withdrawn
from rrext.faces.lsp.protocol import PipeProtocol
from rrext.faces.lsp.publishing import DiagnosticPublisher, Finder
from rrext.faces.lsp.sync import Changed, Closed, Opened, Pulled, read, uri_in
from rrext.pipefile.text.problems import Span
from rrext.version import __version__

__all__ = ["PipeServer"]

log: Final = logging.getLogger("rrext.lsp")

NOT_NOW: Final = types.LSPErrorCodes.ServerCancelled.value

CommandHandler: TypeAlias = Callable[[types.ExecuteCommandParams], Awaitable[Any]]
ActionSource: TypeAlias = Callable[[types.CodeActionParams, Text, Span, Analysis], Iterable[types.CodeAction]]
"""Gives code actions for a selection, whose offsets are in the text."""


class PipeServer(LanguageServer):
    """A language server for `.pipe` files, for one client. `given` are the options of the command line."""

    protocol: PipeProtocol  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, given: Options) -> None:
        super().__init__("rrext", __version__, protocol_cls=PipeProtocol, converter_factory=default_converter)
        self.options = given
        self.manual = Manual()
        self.analysis_settings: AnalysisSettings | None = None
        self.publisher = DiagnosticPublisher(self.protocol, self.manual)
        self.documents = Documents(self.surroundings, self.publisher.publish, self._closed)
        self._complaints: list[str] = []
        self._told: set[str] = set()
        self._commands: dict[str, CommandHandler] = {}
        self._closers: list[Callable[[], Awaitable[None]]] = [self.documents.aclose]
        self.on_document_closed: list[Callable[[str], object]] = []
        """Called with the URI of each document that is closed."""
        self.on_trust_withdrawn: list[Callable[[], object]] = []
        """Called when nothing may run any more."""
        self.action_sources: list[ActionSource] = []
        """What gives code actions for a place beside the fixes of its problems."""
        self.feature(types.INITIALIZE)(lambda params: self._on_initialize(params))
        self.feature(types.INITIALIZED)(lambda params: self._on_initialized(params))
        self.protocol.notes.update(
            {
                types.TEXT_DOCUMENT_DID_OPEN: self._on_open,
                types.TEXT_DOCUMENT_DID_CHANGE: self._on_change,
                types.TEXT_DOCUMENT_DID_CLOSE: self._on_close,
                types.WORKSPACE_DID_CHANGE_CONFIGURATION: self._on_settings,
            }
        )

    # the client

    def take_options(self, params: Any) -> None:
        """Take `initializationOptions` as they came, before pygls makes objects of them."""
        self.options, self._complaints = options_from(params, self.options)

    def _on_initialize(self, _: types.InitializeParams) -> None:
        # a text if the client named it, a member of the enumeration if it is the default
        self.documents.unit = types.PositionEncodingKind(self.workspace.position_encoding).value
        self.analysis_settings, complaints = analysis_settings_for(self.options)
        self._complaints += complaints
        if self.publisher.introduce(self.client_capabilities):
            asked = types.DiagnosticOptions(inter_file_dependencies=False, workspace_diagnostics=False, identifier="rrext")
            self.answer(types.TEXT_DOCUMENT_DIAGNOSTIC, self._on_pull, asked)  # so that the capabilities name it
            self.protocol.raw[types.TEXT_DOCUMENT_DIAGNOSTIC] = self._on_pull

    def _on_initialized(self, _: types.InitializedParams) -> None:
        for complaint in self._complaints:
            self.tell(complaint, types.MessageType.Warning)
        self._complaints = []

    def _on_settings(self, params: Any) -> None:
        """Settings change: trust may be taken away. It is never given here, as editors mix in files of the folder."""
        options, complaints = withdrawn(params, self.options)
        for complaint in complaints:
            if complaint not in self._told:  # editors send all settings at each change of one
                self._told.add(complaint)
                self.tell(complaint, types.MessageType.Warning)
        if options != self.options:
            self.options = options
            self.analysis_settings, _ = analysis_settings_for(options)
            self.documents.refresh()
            for listener in self.on_trust_withdrawn:
                listener()

    def surroundings(self) -> AnalysisSettings:
        """What documents are judged by."""
        assert self.analysis_settings is not None  # nothing is handled before `initialize`
        return self.analysis_settings

    def tell(self, message: str, kind: types.MessageType = types.MessageType.Info) -> None:
        """Show a message to the person at the editor."""
        self.window_show_message(types.ShowMessageParams(kind, message))

    def report_server_error(self, error: Exception, source: Any) -> None:
        """What pygls would show to the person: its own failures belong into the log."""
        log.error("%s: %s", getattr(source, "__name__", source), error)

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

    def _on_open(self, params: Any) -> None:
        item = read(params, Opened).text_document
        self.documents.open(item.uri, item.version, item.text)

    def _on_change(self, params: Any) -> None:
        try:
            changed = read(params, Changed)
        except JsonRpcInvalidParams as error:
            uri = uri_in(params)
            if uri is not None and self.documents.find(uri) is not None:
                self.lose(uri, error.message)
            raise
        self.documents.change(changed.text_document.uri, changed.text_document.version, changed.content_changes)

    def _on_close(self, params: Any) -> None:
        self.documents.close(read(params, Closed).text_document.uri)

    def _closed(self, document: Document) -> None:
        self.publisher.retract(document)
        for listener in self.on_document_closed:
            listener(document.uri)

    def lose(self, uri: str, why: str) -> None:
        """An edit did not arrive: what is known of its document is wrong from now on, so it is given up, and that is told."""
        self.documents.close(uri)
        self.tell(f"rrext lost track of {uri} ({why}): close it and open it again.", types.MessageType.Error)

    async def _on_pull(self, params: Any) -> dict[str, Any]:
        asked = read(params, Pulled)
        document = self.documents.find(asked.text_document.uri)
        if document is None:
            raise JsonRpcException(f"{asked.text_document.uri} is not open", NOT_NOW, {"retriggerRequest": False})
        state = document.state
        return self.publisher.report(document, state, await self.documents.analysis(document, state), asked.previous_result_id)

    def add_finder(self, finder: Finder) -> None:
        """Have diagnostics shown that the text alone does not tell, such as how a run failed: see `publish_again`.

        `finder(uri, text, analysis)` gives those of a document as it is now.
        """
        self.publisher.finders.append(finder)

    def publish_again(self, uri: str) -> None:
        """What finders know of a document has changed."""
        document = self.documents.find(uri)
        if document is not None:
            self.publisher.publish_again(document)

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

    # the end

    def when_closing(self, close: Callable[[], Awaitable[None]]) -> None:
        """Have something ended with the server."""
        self._closers.append(close)

    async def aclose(self) -> None:
        """End what runs; what fails to end does not keep the others from it."""
        for close in self._closers:
            try:
                await close()
            except Exception:
                log.exception("a bug of rrext, while it ended")
