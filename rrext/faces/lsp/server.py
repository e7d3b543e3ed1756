"""The language server: the client's options, its documents, and the registry of features."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeAlias

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.protocol import default_converter

from rrext.editor.analysis import Analysis, AnalysisSettings
from rrext.editor.text import Text
from rrext.faces.lsp.diagnostics import DiagnosticPublisher, Manual, diagnostic_support
from rrext.faces.lsp.documents import Document, Documents
from rrext.faces.lsp.options import Options, OwnNodes, analysis_settings_for, options_from, withdrawn
from rrext.faces.lsp.params import Changed, Closed, Opened, read, uri_in
from rrext.faces.lsp.protocol import PipeProtocol
from rrext.pipefile.text.problems import Problem, Span
from rrext.version import __version__

log: Final = logging.getLogger("rrext.lsp")

CommandHandler: TypeAlias = Callable[[types.ExecuteCommandParams], Awaitable[Any]]
ActionSource: TypeAlias = Callable[[types.CodeActionParams, Text, Span, Analysis], Iterable[types.CodeAction]]
"""A source of code actions for a selection, given as offsets in the text."""


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
        self._own_nodes = OwnNodes(())
        self._loading: asyncio.Task[None] | None = None
        self._commands: dict[str, CommandHandler] = {}
        self._closers: list[Callable[[], Awaitable[None]]] = [self.documents.aclose]
        self.on_client_process: Callable[[int], object] = lambda _: None
        """Receives the id of the client's process, with which the server ends."""
        self.on_initialized: list[Callable[[], object]] = []
        """Listeners for the moment from which the server may send requests."""
        self.on_files_changed: list[Callable[[Any], object]] = []
        """Listeners that receive the raw parameters of `workspace/didChangeWatchedFiles`."""
        self.on_settings_changed: list[Callable[[], object]] = []
        """Listeners for new settings of all analyses."""
        self.on_document_opened: list[Callable[[str], object]] = []
        """Listeners that receive the URI of each opened document."""
        self.on_document_closed: list[Callable[[str], object]] = []
        """Listeners that receive the URI of each closed document."""
        self.on_trust_withdrawn: list[Callable[[], object]] = []
        """Listeners for the end of trust, after which nothing may run."""
        self.action_sources: list[ActionSource] = []
        """Sources of code actions besides fixes."""
        self.feature(types.INITIALIZE)(lambda params: self._on_initialize(params))
        self.feature(types.INITIALIZED)(lambda params: self._on_initialized(params))
        self.protocol.notes.update(
            {
                types.TEXT_DOCUMENT_DID_OPEN: self._on_open,
                types.TEXT_DOCUMENT_DID_CHANGE: self._on_change,
                types.TEXT_DOCUMENT_DID_CLOSE: self._on_close,
                types.WORKSPACE_DID_CHANGE_CONFIGURATION: self._on_settings,
                types.TEXT_DOCUMENT_DID_SAVE: self._on_files,
                types.WORKSPACE_DID_CHANGE_WATCHED_FILES: self._on_watched_files,
            }
        )
        self.feature(types.TEXT_DOCUMENT_DID_SAVE)(lambda _: None)  # so that the capabilities name it

    # the client

    def take_options(self, params: Any) -> None:
        """Read the raw `initializationOptions`, before pygls converts them."""
        self.options, self._complaints = options_from(params, self.options)

    def _on_initialize(self, params: types.InitializeParams) -> None:
        if params.process_id is not None and params.process_id > 0:
            self.on_client_process(params.process_id)
        # a string if the client named it, an enum member by default
        self.documents.unit = types.PositionEncodingKind(self.workspace.position_encoding).value
        self._own_nodes = OwnNodes(self.options.nodes)
        self.analysis_settings, complaints = analysis_settings_for(self.options, self._own_nodes)
        self._complaints += complaints
        self.publisher.support = diagnostic_support(self.client_capabilities)

    def _on_initialized(self, _: types.InitializedParams) -> None:
        for complaint in self._complaints:
            self.show_to_user(complaint, types.MessageType.Warning)
        self._complaints = []
        self._watch_own_nodes()
        for listener in self.on_initialized:
            listener()

    # own nodes

    def _watch_own_nodes(self) -> None:
        """Ask the client to report changes of the files that own nodes are made of."""
        asked = get_capability(self.client_capabilities, "workspace.did_change_watched_files", None)
        folders = self._own_nodes.folders
        if asked is None or not asked.dynamic_registration or not folders:
            return
        patterns: list[Any] = ["**/*.py"]
        if asked.relative_pattern_support:
            patterns = [{"baseUri": Path(folder).as_uri(), "pattern": "**/*.py"} for folder in folders]
        options = {"watchers": [{"globPattern": pattern} for pattern in patterns]}
        method = types.WORKSPACE_DID_CHANGE_WATCHED_FILES
        wanted = types.RegistrationParams([types.Registration("own nodes", method, options)])
        self.protocol.send_request(types.CLIENT_REGISTER_CAPABILITY, wanted)

    def _on_watched_files(self, params: Any) -> None:
        self._on_files(params)
        for listener in self.on_files_changed:
            listener(params)

    def _on_files(self, _: Any) -> None:
        """Files were saved or changed: look whether own nodes are among them, whatever the client calls the files."""
        if self.options.trusted and self._own_nodes.targets and self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._load_again(), name="own nodes")

    async def _load_again(self) -> None:
        """Load own nodes again if they changed. If they cannot be loaded, the former ones stay."""
        try:
            while self._own_nodes.have_changed():
                options = self.options
                settings, complaints = await asyncio.to_thread(analysis_settings_for, options, self._own_nodes, anew=True)
                for complaint in complaints:
                    self.show_to_user(complaint, types.MessageType.Warning)
                if complaints or not self.options.trusted:
                    break
                self.analysis_settings = settings
                self._refresh()
        finally:
            self._loading = None

    def _on_settings(self, params: Any) -> None:
        """Apply changed settings: they may withdraw trust, never grant it, because editors merge settings of the folder."""
        options, complaints = withdrawn(params, self.options)
        for complaint in complaints:
            if complaint not in self._told:  # editors send all settings at each change
                self._told.add(complaint)
                self.show_to_user(complaint, types.MessageType.Warning)
        if options != self.options:
            self.options = options
            self.analysis_settings, _ = analysis_settings_for(options, self._own_nodes)
            self._refresh()
            for listener in self.on_trust_withdrawn:
                listener()

    def _refresh(self) -> None:
        """Analyse everything again, because the settings of the analysis changed."""
        self.documents.refresh()
        for listener in self.on_settings_changed:
            listener()

    def surroundings(self) -> AnalysisSettings:
        """The settings of all analyses."""
        assert self.analysis_settings is not None  # nothing is handled before `initialize`
        return self.analysis_settings

    def show_to_user(self, message: str, kind: types.MessageType = types.MessageType.Info) -> None:
        """Show a message to the user."""
        self.window_show_message(types.ShowMessageParams(kind, message))

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Log an internal failure, which pygls would show to the user."""
        log.error("%s: %s", getattr(source, "__name__", source), error)

    def answer(self, method: str, handler: Callable[[Any], Awaitable[Any]], options: Any = None) -> None:
        """Register a coroutine function for a request of the protocol; `options` go into the server's capabilities."""

        async def run(params: Any) -> Any:  # pygls sets attributes on the handler, which a method does not allow
            return await handler(params)

        self.feature(method, options)(run)

    # documents

    async def analysis_of(self, uri: str) -> tuple[Document, Text, Analysis]:
        """The document, its text and its analysis, for a request.

        Raises `JsonRpcInvalidParams` if it is not open.
        """
        document = self.documents.get(uri)
        state = document.state
        return document, state.text, await self.documents.analysis(document, state)

    def _on_open(self, params: Any) -> None:
        item = read(params, Opened).text_document
        for listener in self.on_document_opened:
            listener(item.uri)
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
        """Close a document whose edit was lost, and tell the user, because its text is wrong from now on."""
        self.documents.close(uri)
        self.show_to_user(f"rrext lost track of {uri} ({why}): close it and open it again.", types.MessageType.Error)

    def refuse_text(self, uri: str, why: str) -> None:
        """Keep a document without its text, which is too large to be received, with one diagnostic that says so."""
        message = f"This document is too large for rrext, which checks nothing in it: {why}. When it is smaller, open it again."
        self.documents.refuse(uri, Problem("too_large", "error", message))

    def publish_again(self, uri: str) -> None:
        """Send diagnostics again after the diagnostics of a finder changed."""
        document = self.documents.find(uri)
        if document is not None:
            self.publisher.publish_again(document)

    # commands

    def add_command(self, name: str, handler: CommandHandler) -> None:
        """Register a command of `workspace/executeCommand`. pygls' own registry cannot cancel it and changes arguments."""
        self._commands[name] = handler
        self.protocol.fm.commands[name] = handler  # so that the capabilities name it

    async def execute(self, params: types.ExecuteCommandParams) -> Any:
        """Run a command. Raises `JsonRpcInvalidParams` for an unknown one."""
        handler = self._commands.get(params.command)
        if handler is None:
            known = ", ".join(self._commands) or "none"
            raise JsonRpcInvalidParams(f'There is no command "{params.command}"; there are {known}')
        return await handler(params)

    # the end

    def when_closing(self, close: Callable[[], Awaitable[None]]) -> None:
        """Add a function to call when the server ends."""
        self._closers.append(close)

    async def aclose(self) -> None:
        """End all features; a failure of one does not keep the others from ending."""
        for close in self._closers:
            try:
                await close()
            except Exception:
                log.exception("a bug of rrext, while it ended")
