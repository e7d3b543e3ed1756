"""The command that draws a pipeline. No code of it runs, so it needs no trust and no engine."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec
from lsprotocol import types

from rrext.errors import InvalidArguments, RrextError
from rrext.faces.lsp.runs.deployments import name_of
from rrext.faces.lsp.runs.display import Display
from rrext.faces.lsp.runs.results import Shown
from rrext.limits import DEFAULTS
from rrext.server.arguments import decode

if TYPE_CHECKING:
    from rrext.editor.analysis import Analysis
    from rrext.faces.lsp.server import PipeServer

Form: TypeAlias = Literal["text", "svg", "mermaid"]

EXTENSIONS: Final[dict[Form, str]] = {"text": ".txt", "svg": ".svg", "mermaid": ".mmd"}


class ShowGraph(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Draw a document's pipeline."""

    uri: str
    form: Form | None = None


class Graphs:
    """Drawings of one server's documents in their present state, also with errors."""

    def __init__(self, server: PipeServer, display: Display) -> None:
        self._server = server
        self._display = display
        server.add_command("rrext.showGraph", self._show)

    async def _show(self, params: types.ExecuteCommandParams) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        arguments = (params.arguments or ({},))[0]
        if not isinstance(arguments, dict):
            raise InvalidArguments.at("", f"{params.command} takes one object")
        given = decode(arguments, ShowGraph, DEFAULTS)
        form: Form = given.form or "text"
        _, _, analysis = await self._server.look(given.uri)
        try:
            drawn = await loop.run_in_executor(None, _drawn, analysis, form)  # a large one takes seconds
        except RrextError as error:
            self._server.tell(error.message, types.MessageType.Error)
            failure = {"code": error.code, "message": error.message}
            return {"ok": False, "error": failure, "seconds": round(loop.time() - begun, 3)}
        result = Shown(drawn.encode("utf-8", "replace"), EXTENSIONS[form], drawn, is_picture=form == "svg")
        place, size = await self._display.show(given.uri, f"{name_of(given.uri)}.graph", result)
        saved = {} if place is None else {"uri": place, "size": size}
        return {"ok": True, "result": drawn, **saved, "seconds": round(loop.time() - begun, 3)}


def _drawn(analysis: Analysis, form: Form) -> str:
    """The picture. Raises `RrextError` if it would be empty or too large."""
    from rrext.picture.picture import picture_of

    picture = picture_of(analysis.loaded)
    if not picture.nodes and not (form == "svg" and picture.remarks):
        raise InvalidArguments("There is no component that could be drawn")
    if form == "svg":
        from rrext.picture.svg import as_svg

        return as_svg(picture)
    if form == "mermaid":
        from rrext.picture.mermaid import as_mermaid

        return as_mermaid(picture)
    from rrext.picture.text import as_text

    return as_text(picture)
