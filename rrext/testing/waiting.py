"""The blocking form of asynchronous helpers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from rrext.errors import UsageError

T = TypeVar("T")


def run_to_end(function: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine function on its own event loop. Raises `UsageError` inside another one."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(function())
    raise UsageError("This helper blocks: in async tests use open_node or open_pipeline.")
