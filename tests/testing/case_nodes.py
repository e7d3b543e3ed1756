"""Nodes for cases of tests."""

from __future__ import annotations

import os
import threading

from rrext import Node, tool_function


class Desk(Node):
    """Counts, prints, hangs, and tells a secret."""

    provider = "desk"
    lanes = {"text": ("text", "questions")}

    class Config:
        key: str = ""

    def write_text(self, text: str) -> None:
        self.emit("text", text.upper())

    @tool_function
    def add(self, a: int, b: int) -> dict[str, object]:
        """Add two numbers."""
        print("adding")
        return {"sum": a + b, "at": "2026-11-29"}

    @tool_function
    def hang(self) -> None:
        """Wait for ever."""
        print("hanging")
        threading.Event().wait()

    @tool_function
    def tell(self) -> str:
        """Tell the key."""
        return self.config.key

    @tool_function
    def photo(self) -> bytes:
        """Some bytes."""
        return b"\x00\xff"

    @tool_function
    def who(self, ctx: object) -> int:
        """The process."""
        del ctx
        return os.getpid()
