"""The stores of a command's pipeline, for `rrext send --sync`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from rrext.cli.pipeline import Pipeline
from rrext.engine.interface.operations import ListStores, Tool
from rrext.sync.folder_sync import SyncStores

T = TypeVar("T")


class PipelineStores:
    """A `SyncPipeline` of a command."""

    def __init__(self, pipeline: Pipeline, source: str | None, mime_type: str | None) -> None:
        """`source` and `mime_type` are where and as what all files enter, if that is said."""
        self._pipeline = pipeline
        self._asked = ListStores(source=source, mime_type=mime_type)

    async def stores(self) -> SyncStores:
        body, _ = await self._pipeline.ask(self._asked)
        return msgspec.json.decode(body, type=SyncStores)

    async def call(self, store: str, tool: str, given: dict[str, Any]) -> Any:
        body, _ = await self._pipeline.ask(Tool(tool=tool, node_id=store, input=given))
        return msgspec.json.decode(body)["result"]

    async def in_thread(self, work: Callable[[], T]) -> T:
        return await self._pipeline.in_thread(work)
