"""Objects of the blocking client, each around an object of the async client."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from rrext.client.portal import Portal

P = ParamSpec("P")
R = TypeVar("R")
W = TypeVar("W")


class Wrapping(Protocol[W]):
    """Has an async object, and the portal to its event loop. Raises `NotConnected` when there is no loop."""

    wrapped: W

    @property
    def portal(self) -> Portal:
        """The way to the event loop."""
        ...


def in_caller_thread(method: Callable[Concatenate[W, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[Wrapping[W], P], R]:
    """The blocking form of an async method that waits for answers alone: it runs in the caller's thread."""

    @functools.wraps(method)
    def call(self: Wrapping[W], *args: P.args, **kwargs: P.kwargs) -> R:
        return self.portal.in_caller_thread(method, self.wrapped, *args, **kwargs)

    return call


def on_loop(method: Callable[Concatenate[W, P], Awaitable[R]]) -> Callable[Concatenate[Wrapping[W], P], R]:
    """The blocking form of an async method that has tasks or reads files: it runs as a task of the loop."""

    @functools.wraps(method)
    def call(self: Wrapping[W], *args: P.args, **kwargs: P.kwargs) -> R:
        return self.portal.run(method, self.wrapped, *args, **kwargs)

    return call


class Blocking(Generic[W]):
    """An async object, and the loop that runs it."""

    def __init__(self, wrapped: W, portal: Portal) -> None:
        """Made by the blocking client."""
        self.wrapped = wrapped
        self.portal = portal

    def __repr__(self) -> str:
        return f"<blocking {self.wrapped!r}>"
