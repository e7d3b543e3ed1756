"""The least that a language server on pygls does: it keeps the text, and publishes that nothing is wrong with it."""

from lsprotocol import types
from pygls.lsp.server import LanguageServer

server = LanguageServer("floor", "1")


@server.feature(types.TEXT_DOCUMENT_DID_OPEN)
def opened(params: types.DidOpenTextDocumentParams) -> None:
    publish(params.text_document.uri, params.text_document.version)


@server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
def changed(params: types.DidChangeTextDocumentParams) -> None:
    publish(params.text_document.uri, params.text_document.version)


def publish(uri: str, version: int) -> None:
    server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, [], version))


server.start_io()
