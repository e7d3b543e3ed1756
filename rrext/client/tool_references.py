"""The methods of `rrext.Client` for references to tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from rrext.client.pending_call import Body
from rrext.client.tool_call import FeedOptions, result_of, tool_call

if TYPE_CHECKING:
    from rrext.client.client import Client


async def tools_resolve(
    self: Client,
    tools: Sequence[str | Mapping[str, Any]],
    *,
    token: str | None = None,
    context: Mapping[str, Any] | None = None,
) -> Body:
    """Resolve references to tools: `{builtins, custom: [{name, description, input_schema, call_ref, permission?}]}`.

    Raises one error for all problems, which are in `data["errors"]`. An empty list asks nobody.
    """
    given = tools if isinstance(tools, str | Mapping) else list(tools)  # the server says what is wrong with one alone
    if given == []:
        return {"builtins": [], "custom": []}
    return await self.request("rrext_tools_resolve", {"tools": given, "token": token, "context": context})


async def tools_call(
    self: Client,
    call_ref: str | None = None,
    arguments: Mapping[str, Any] | str | None = None,
    *,
    name: str | None = None,
    token: str | None = None,
    pipe_id: int | None = None,
    context: Mapping[str, Any] | None = None,
    meta: Any = None,
    timeout: float | None = None,
    **options: Unpack[FeedOptions],
) -> Any:
    """The result of a tool by its call ref or by a `name`, as `tool` returns and raises it, with the same options.

    `arguments` may be a JSON text, as models write them.
    """
    given: Body = {"call_ref": call_ref, "name": name, "arguments": arguments, "token": token, "pipe_id": pipe_id}
    given |= {"context": context, "_meta": meta}
    sent = {key: value for key, value in given.items() if value is not None}
    return result_of(await tool_call(self._connected(), sent, timeout, options, "rrext_tools_call"), options)
