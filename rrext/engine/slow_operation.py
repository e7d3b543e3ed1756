"""Runs an operation that may be slow or import modules, in a task that answers its call."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from rrext.engine.calls.run import TaskWork
from rrext.engine.interface.failures import internal_error
from rrext.errors import RrextError, ToolError

if TYPE_CHECKING:
    from rrext.engine.host.host import Host
    from rrext.engine.interface.call import Call

log: Final = logging.getLogger("rrext.engine")


async def answer_slowly(host: Host, call: Call, work: Callable[[Call], Awaitable[tuple[bytes, bytes | None]]]) -> None:
    """Answer a call with the encoded body and the raw bytes that `work` returns, or with its error."""
    if call.settled:
        return  # cancelled before it began
    call.work = TaskWork(asyncio.current_task())
    host.limit(call)
    host.watch(call)
    try:
        if call.outlet is not None:
            await call.outlet.room()  # no answer needs to be made before there is room for it
        encoded, tail = await work(call)
    except asyncio.CancelledError:
        if call.fail(ToolError("the operation was cancelled from inside")):
            return
        raise
    except RrextError as error:
        call.fail(error)
    except BaseException:  # the import of a node's module may raise anything, and must not end the loop
        log.exception("%s a bug of rrext", call.name)
        call.fail(internal_error())
    else:
        call.succeed(encoded, tail)
