"""Deployments: documents of the editor loaded as pipelines of the engine, when one of them runs."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pygls.exceptions import JsonRpcInvalidParams
from pygls.uris import to_fs_path

from rrext.editor.analysis import Analysis
from rrext.errors import InvalidPipeline, RrextError, TaskNotRegistered
from rrext.faces.lsp.runs.engine import EngineProcess

if TYPE_CHECKING:
    from rrext.client.client import Client
    from rrext.faces.lsp.server import PipeServer

log: Final = logging.getLogger("rrext.lsp")


class Ready(msgspec.Struct, frozen=True):
    """A document whose pipeline is loaded under a token; `analysis` is that of the loaded text."""

    client: Any
    token: str
    analysis: Analysis
    folder: str | None


class Deployments:
    """The loaded text of each document.

    A changed text is loaded under a new token. Runs on the old one continue, and it is unloaded after them.
    """

    def __init__(self, server: PipeServer, engine: EngineProcess) -> None:
        self._server = server
        self._engine = engine
        self._current: dict[str, _Deployment] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._numbers = count(1)
        self._ending: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def of(self, uri: str) -> AsyncIterator[Ready]:
        """The document in its present state, loaded within this context.

        Raises `JsonRpcInvalidParams` if it is not open, `InvalidPipeline` if it has errors, and the errors of starting the
        engine and loading the pipeline.
        """
        self._server.documents.get(uri)
        async with self._turns.setdefault(uri, asyncio.Lock()):
            analysis = await self._sound(uri)
            deployment = await self._deployed(uri, analysis, await self._engine.client())
            deployment.users += 1
        try:
            yield Ready(deployment.client, deployment.token, analysis, folder_of(uri))
        except TaskNotRegistered:  # another client unloaded it
            self._retire(uri, deployment)
            raise
        finally:
            deployment.users -= 1
            if deployment.is_retired and not deployment.users:
                self._unload(deployment)

    def close(self, uri: str) -> None:
        """Unload a closed document, and end its runs."""
        self._turns.pop(uri, None)
        deployment = self._current.pop(uri, None)
        if deployment is not None:
            self._unload(deployment)

    async def _sound(self, uri: str) -> Analysis:
        _, _, analysis = await self._server.look(uri)
        errors = list(analysis.loaded.errors)
        if errors:
            line, _ = analysis.map.position(analysis.map.span_of(errors[0])[0])
            more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
            text = f"{name_of(uri)} is not run: line {line}: {errors[0].message}{more}"
            raise InvalidPipeline(text, data={"problems": analysis.loaded.problems_as_json()})
        return analysis

    async def _deployed(self, uri: str, analysis: Analysis, client: Client) -> _Deployment:
        known = self._current.get(uri)
        if known is not None and known.client is client and known.text == analysis.text:
            return known
        token = f"{uri}#{next(self._numbers)}"
        arguments = {"pipeline": analysis.text, "token": token, "name": name_of(uri), "folder": folder_of(uri)}
        try:
            await client.request("execute", arguments)
        except InvalidPipeline as error:
            raise _with_line(error, uri) from None
        deployment = _Deployment(client, token, analysis.text)
        if self._server.documents.find(uri) is None:
            self._unload(deployment)
            raise JsonRpcInvalidParams(f"{uri} was closed")
        if known is not None:
            self._retire(uri, known)
        self._current[uri] = deployment
        return deployment

    def _retire(self, uri: str, deployment: _Deployment) -> None:
        """Start no more runs on a deployment."""
        if self._current.get(uri) is deployment:
            del self._current[uri]
        deployment.is_retired = True
        if not deployment.users:
            self._unload(deployment)

    def _unload(self, deployment: _Deployment) -> None:
        if not deployment.is_unloaded:
            deployment.is_unloaded = True
            task = asyncio.get_running_loop().create_task(self._terminate(deployment), name=f"unload {deployment.token}")
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def _terminate(self, deployment: _Deployment) -> None:
        try:
            await deployment.client.terminate(deployment.token)
        except RrextError as error:
            log.debug("%s is not unloaded: %s", deployment.token, error.message)


class _Deployment:
    """One text of one document in one engine. `users` counts its runs."""

    def __init__(self, client: Client, token: str, text: str) -> None:
        self.client = client
        self.token = token
        self.text = text
        self.users = 0
        self.is_retired = False
        self.is_unloaded = False


def name_of(uri: str) -> str:
    """The name of a document's pipeline: the stem of its file, as on the command line."""
    return os.path.splitext(os.path.basename(path_of(uri) or uri))[0]


def folder_of(uri: str) -> str | None:
    """The folder of a document's file, the base of relative paths in its settings; None for a document without a file."""
    path = path_of(uri)
    return None if path is None else os.path.dirname(path)


def path_of(uri: str) -> str | None:
    """The path of a document's file; None for a document without a file."""
    if not uri.startswith("file:"):
        return None
    try:
        path = to_fs_path(uri)
    except ValueError:
        return None
    return None if path is None or "\0" in path else path


def _with_line(error: InvalidPipeline, uri: str) -> InvalidPipeline:
    """An error that only the engine found, such as a variable without a value, with its line."""
    first = next((problem for problem in error.data.get("problems", ()) if problem.get("severity") == "error"), None)
    where = f"line {first['line']}: {first['message']}" if first is not None and "line" in first else error.message
    return InvalidPipeline(f"{name_of(uri)} is not run: {where}", hint=error.hint, data=error.data)
