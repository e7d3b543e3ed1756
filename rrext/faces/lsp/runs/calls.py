"""The calls behind the commands: a tool, files and texts through a pipeline, questions."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from rrext.editor.outline import source_of
from rrext.errors import ResultTooLarge, RrextError
from rrext.faces.lsp.runs.deployments import Ready
from rrext.faces.lsp.runs.errors import FilesFailed
from rrext.faces.lsp.runs.progress import WorkProgress
from rrext.limits import DEFAULTS
from rrext.wire.codec import encode_own

if TYPE_CHECKING:
    from rrext.client.upload import FileResult, UploadProgress

MAX_CHUNK: Final = 80
"""Characters of a chunk in a progress message."""

GENERATORS: Final = ("generator", "async_generator")


async def call_tool(ready: Ready, node: str, tool: str, input: dict[str, Any], progress: WorkProgress) -> Any:
    """The result of a tool; for a generator, the list of its chunks, or `{chunks, value}`."""
    chunks = _Chunks(progress)

    def report(value: float, total: float | None, message: str | None) -> None:
        share = value / total if total else None
        amount = f"{value:g}" if total is None else f"{value:g}/{total:g}"
        progress.report(f"{amount} {message or ''}".rstrip(), share)

    value = await ready.client.tool(
        tool=tool, node_id=node, input=input, token=ready.token, progress=report, on_chunk=chunks.add
    )
    if not chunks.values and not _is_generator(ready, node, tool):
        return value
    return chunks.values if value is None else {"chunks": chunks.values, "value": value}


class _Chunks:
    """The chunks of a generator, limited to the size of one result."""

    def __init__(self, progress: WorkProgress) -> None:
        self._progress = progress
        self._size = 0
        self.values: list[Any] = []

    async def add(self, chunk: Any) -> None:
        """Add a chunk. Raises `ResultTooLarge`, which ends the generator."""
        await asyncio.sleep(0)  # many chunks must not delay answers to the editor
        encoded = encode_own(chunk)
        self._size += len(encoded)
        if self._size > DEFAULTS.max_result:
            raise ResultTooLarge.of(self._size, DEFAULTS.max_result, "What the tool gave so far")
        self.values.append(chunk)
        text = encoded[: 4 * MAX_CHUNK].decode("utf-8", "ignore")
        self._progress.report(f"chunk {len(self.values)}: {text if len(text) <= MAX_CHUNK else f'{text[:MAX_CHUNK]}…'}")


def _is_generator(ready: Ready, node: str, tool: str) -> bool:
    drafts = [ready.analysis.by_id[node]] if node in ready.analysis.by_id else ready.analysis.drafts
    owner = next((draft.node for draft in drafts if draft.node is not None and tool in draft.node.tools), None)
    return owner is not None and owner.tools[tool].kind in GENERATORS


def _source(ready: Ready, kind: str) -> str | None:
    """The source that takes a kind of input, if only one does."""
    source = source_of(ready.analysis, kind)
    return None if source is None else source.id


async def ask_question(ready: Ready, question: str | dict[str, Any]) -> Any:
    """The result body of a question."""
    return await ready.client.chat(question=question, token=ready.token, source=_source(ready, "chat"))


async def send_text(ready: Ready, text: str, mime_type: str | None) -> Any:
    """The result body of a text."""
    return await ready.client.send(text, token=ready.token, source=_source(ready, "send"), mimetype=mime_type)


async def send_files(ready: Ready, paths: Sequence[str], mime_type: str | None, progress: WorkProgress) -> Any:
    """The result body of a file; for several files, `[{path, result}]`.

    Relative paths begin at the document's folder. Raises the failure of a single file, and `FilesFailed` with the outcome of
    each of several.
    """
    found = [_absolute(path, ready.folder) for path in paths]

    def report(state: UploadProgress) -> None:
        share = state.bytes_done / state.bytes_total if state.bytes_total else state.files_done / max(state.files_total, 1)
        progress.report(f"{state.files_done}/{state.files_total} files, {os.path.basename(state.path)}", share)

    source = _source(ready, "send")
    results = await ready.client.send_files(found, token=ready.token, source=source, mimetype=mime_type, progress=report)
    if len(results) == 1 and results[0].path == found[0]:
        if results[0].error is not None:
            raise _failure(results[0])
        return results[0].result
    told = [_told(result, ready.folder) for result in results]
    failed = [result for result in results if result.error is not None]
    if failed:
        message = (
            f"{len(failed)} of {len(results)} files failed; {_named(failed[0], ready.folder)}: {_failure(failed[0]).message}"
        )
        error = FilesFailed(message)
        error.result = {"files": told}
        raise error
    return told


def _absolute(path: str, folder: str | None) -> str:
    return os.path.join(folder or os.getcwd(), os.path.expanduser(path))


def _failure(result: FileResult) -> RrextError:
    """The failure of a file as an error of rrext."""
    error = result.error
    if isinstance(error, RrextError):
        error.result = result.result
        return error
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return FilesFailed(f"{os.path.basename(result.path)}: {reason}")


def _told(result: FileResult, folder: str | None) -> dict[str, Any]:
    told: dict[str, Any] = {"path": _named(result, folder)}
    if result.skipped is not None:
        told["skipped"] = result.skipped
    if result.error is not None:
        failure = _failure(result)
        told["error"] = {"code": failure.code, "message": failure.message}
    if result.result is not None:
        told["result"] = result.result
    return told


def _named(result: FileResult, folder: str | None) -> str:
    """The path of a file relative to the folder, in characters that JSON can hold."""
    path = result.path
    if folder is not None and path.startswith(os.path.join(folder, "")):
        path = os.path.relpath(path, folder)
    return os.fsencode(path).decode("utf-8", "backslashreplace")
