"""`ClosingGoogleModel`: a model of Google whose streams close their connection. Its import needs the extra of Gemini."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import httpx2
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import ModelRequestParameters, StreamedResponse
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.settings import ModelSettings

from rrext.nodes.llm.agent_models import OPENED


class ClosingGoogleModel(GoogleModel):
    """The SDK leaves the generators of a stream that is not read to its end to the collector, and with them the connection: the
    server would go on writing, and be paid for it."""

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: Any = None,
    ) -> AsyncGenerator[StreamedResponse]:
        opened: list[httpx2.Response] = []
        async with AsyncExitStack() as stack:
            stack.push_async_callback(_close, opened)
            before = OPENED.set(opened)
            try:
                asked = super().request_stream(messages, model_settings, model_request_parameters, run_context)
                stream = await stack.enter_async_context(asked)
            finally:
                OPENED.reset(before)
            yield stream


async def _close(opened: list[httpx2.Response]) -> None:
    with anyio.CancelScope(shield=True):
        for response in opened:
            await response.aclose()
