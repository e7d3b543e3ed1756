"""The nodes that the command line is tried with. What they say on stderr tells a test where they are."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from rrext import Node, ToolContext, ToolError, tool_function


def say(text: str) -> None:
    """Write a line in one piece, whatever other threads write."""
    os.write(2, f"{text}\n".encode())


class Kinds(Node):
    """Tools of every kind."""

    provider = "kinds"

    @tool_function
    def greet(self, name: str, times: int = 1, mood: str | None = None) -> dict[str, str]:
        """Greet somebody.

        Args:
            name: Who is greeted.
            times: How often.
        """
        return {"text": " ".join([f"Hello {name}"] * times)}

    @tool_function
    async def wonder(self, params: dict[str, Any], *, ctx: ToolContext) -> Any:
        """Ask the user."""
        return await ctx.ask(params)

    @tool_function
    def noisy(self) -> str:
        """Print by every way there is."""
        print("from print")
        os.write(1, b"from descriptor 1\n")
        os.system("echo from a child; cat")
        return "quiet"

    @tool_function
    def content(self) -> bytes:
        """Bytes that are no text."""
        return b"\x00\xff{}"

    @tool_function
    def poem(self) -> str:
        """Text."""
        return "Grüße\n"

    @tool_function
    def large(self) -> str:
        """A result near the limit."""
        return "x" * (15 * 1024 * 1024)

    @tool_function
    def count(self, to: int = 3) -> Generator[int, None, str]:
        """Count, and say that it is done."""
        yield from range(to)
        return "done"

    @tool_function
    async def words(self) -> AsyncIterator[str]:
        """Words without a value at the end."""
        for word in ("to ", "be\n"):
            yield word

    @tool_function
    def endless(self) -> Iterator[int]:
        """Chunks until nobody wants them."""
        try:
            while True:
                yield 1
        finally:
            say("endless was closed")

    @tool_function
    async def endless_async(self) -> AsyncIterator[int]:
        """Chunks until nobody wants them."""
        try:
            while True:
                yield 1
        finally:
            say("endless was closed")

    @tool_function
    def flood(self) -> Iterator[str]:
        """More than one result may hold."""
        while True:
            yield "x" * 1_000_000

    @tool_function
    def steps(self, *, ctx: ToolContext) -> str:
        """Report progress."""
        ctx.progress(1, 4, "first \x1b[31mred\nline")
        ctx.progress(3, 4, "third")
        return "done"

    @tool_function
    def refuse(self) -> None:
        """Fail in the author's own words."""
        raise ToolError("no more today", code="spent", hint="come back tomorrow", data={"left": 0})

    @tool_function
    def break_down(self) -> None:
        """Fail by an exception."""
        try:
            _look_up()
        except KeyError as error:
            raise ValueError("no such\x1b[31m thing") from error

    @tool_function
    def nan(self) -> dict[str, Any]:
        """No JSON."""
        return {"a": [float("nan")]}


def _look_up() -> None:
    raise KeyError("lost")


class Waiting(Node):
    """Tools that wait until they are stopped."""

    provider = "waiting"

    @tool_function
    async def park(self) -> None:
        """Wait, and say how that ended."""
        say("begun")
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            say("unwound")

    @tool_function
    def look(self, *, ctx: ToolContext) -> None:
        """Look whether somebody still waits."""
        say("begun")
        stopped = threading.Event()
        ctx.on_cancel(stopped.set)
        stopped.wait()
        try:
            ctx.check()
        except Exception as error:
            say(f"saw {type(error).__name__}")
            raise

    @tool_function
    def stuck(self) -> None:
        """Never look."""
        say("begun")
        threading.Event().wait()

    @tool_function(thread="main")
    def stuck_main(self) -> None:
        """Never look, where the loop runs."""
        say("begun")
        while True:
            time.sleep(0.01)

    @tool_function
    async def own_thread(self) -> None:
        """Leave a thread behind that Python waits for at its end."""
        say("begun")
        await asyncio.to_thread(threading.Event().wait)


class Lending(Node):
    """Shares something that has to be given back."""

    provider = "lending"

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any) -> AsyncIterator[str]:
        say("taken")
        try:
            yield "book"
        finally:
            say("given back")

    @tool_function
    def read(self) -> str:
        """What is shared."""
        return self.shared

    @tool_function
    async def park(self) -> None:
        """Wait."""
        say("begun")
        await asyncio.Event().wait()


class Broken(Node):
    """Cannot be set up."""

    provider = "broken"

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any) -> AsyncIterator[None]:
        raise ConnectionError("no database")
        yield

    @tool_function
    def query(self) -> None:
        """Ask the database."""


class Missing(Node):
    """Cannot run here."""

    provider = "missing"

    @classmethod
    def unavailable(cls) -> str | None:
        return "no camera; install one"

    @tool_function
    def photo(self) -> None:
        """Take a photo."""


class Picky(Node):
    """Takes text, and sends it on in capitals; fails where the text asks for it."""

    provider = "picky"
    lanes = {"text": ("text",), "json": ()}

    def open(self, entry: Any) -> None:
        self.heard = ""
        self.values = 0

    def write_text(self, text: str) -> None:
        if "fail" in text:
            raise ValueError("asked to fail")
        self.heard += text
        self.emit("text", text.upper())

    def write_json(self, value: dict[str, Any]) -> None:
        self.values += 1

    def closing(self) -> None:
        if "late" in self.heard:
            raise ValueError("asked to fail late")
        if self.values:
            self.emit("text", f"{self.values} values")


class Gate(Node):
    """Passes text on, and keeps the objects that are named after waiting."""

    provider = "gate"
    lanes = {"text": ("text",)}

    def open(self, entry: Any) -> None:
        self.waits = "wait" in entry.name

    async def write_text(self, text: str) -> None:
        if self.waits:
            say("waiting")
            await asyncio.Event().wait()
        await self.emit("text", text)

    def close(self) -> None:
        if self.waits:
            say("closed")


class Crowd(Node):
    """Counts how many objects are there at once."""

    provider = "crowd"
    lanes = {"tags": ()}
    most = now = 0

    def open(self, entry: Any) -> None:
        Crowd.now += 1
        Crowd.most = max(Crowd.most, Crowd.now)
        say(f"{Crowd.now} at once")

    async def write_tags(self, tag: Any) -> None:
        await asyncio.sleep(0)
        if tag.kind == "data":
            assert len(tag.data) <= 1024 * 1024

    def close(self) -> None:
        Crowd.now -= 1


class Loud(Node):
    """Prints what it hears."""

    provider = "loud"
    lanes = {"text": ()}

    def write_text(self, text: str) -> None:
        print("loud text")


class Meddler(Node):
    """Makes one document of a text; a file that says "meddle" is written anew meanwhile."""

    provider = "meddler"
    lanes = {"text": ("documents",)}

    def open(self, entry: Any) -> None:
        self.entry = entry

    def write_text(self, text: str) -> None:
        if text == "meddle":
            with open(self.entry.path, "w") as file:
                file.write("meddled")
        self.emit("documents", [{"page_content": text, "metadata": {"objectId": self.entry.object_id}}])
