"""Questions to the user: editors can offer choices, but no input forms."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from rrext.editor.schemas import example_of, schemas_at
from rrext.faces.lsp.runs.errors import InputNeeded

if TYPE_CHECKING:
    from rrext.faces.lsp.server import PipeServer

log: Final = logging.getLogger("rrext.lsp")


class UserQuestions:
    """Asks the user to choose a tool."""

    def __init__(self, server: PipeServer) -> None:
        self._server = server

    async def tool(self, tools: Sequence[dict[str, Any]], where: str) -> dict[str, Any]:
        """The descriptor of the only tool, or of the one that the user chooses. Raises `InputNeeded`."""
        if len(tools) == 1:
            return tools[0]
        if not tools:
            raise InputNeeded("/tool", f"{where} has no tool that can be called")
        names = [tool["name"] for tool in tools]
        twice = {name for name in names if names.count(name) > 1}
        titles = [f"{tool['name']} ({tool['nodeId']})" if tool["name"] in twice else tool["name"] for tool in tools]
        chosen = await self._choose(f"Which tool of {where} is to run?", titles)
        if chosen is None:
            raise InputNeeded("/tool", "no tool was chosen", hint=f"pass `tool`, one of {', '.join(titles)}")
        return tools[titles.index(chosen)]

    async def _choose(self, message: str, titles: Sequence[str]) -> str | None:
        actions = [types.MessageActionItem(title) for title in titles]
        asked = types.ShowMessageRequestParams(types.MessageType.Info, message, actions)
        try:
            chosen = await self._server.window_show_message_request_async(asked)
        except JsonRpcException as error:
            log.info("the client asks nobody: %s", error)
            return None
        return chosen.title if chosen is not None and chosen.title in titles else None


def missing_input(tool: dict[str, Any]) -> InputNeeded:
    """The error of a call without the input that its tool requires. Editors show its message, with the comment to write."""
    name, schema = tool["name"], tool["inputSchema"]
    words = json.dumps(example_of(schema, schemas_at(schema, ())), ensure_ascii=False)
    message = (
        f"is missing: {', '.join(schema['required'])}. Write it in a comment of the component: // rrext tool {name} {words}"
    )
    return InputNeeded("/input", message, hint="pass `input`")
