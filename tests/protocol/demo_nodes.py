"""The node of the transcripts in protocol.md."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from rrext import Node, ToolContext, ToolError, tool_function
from rrext.tools.context import CallInfo


class Weather(Node):
    """Weather that never changes."""

    provider = "weather"

    @tool_function
    def forecast(self, city: str, days: int = 3) -> dict[str, Any]:
        """Forecast for a city.

        Args:
            city: Name of the city.
            days: How many days, 1 to 10.
        """
        if city == "Atlantis":
            raise ToolError("there is no weather there", code="unknown_city", hint="ask for a city above the sea")
        return {"city": city, "days": ["sun"] * days}

    @tool_function
    def broken(self) -> None:
        """Fail."""
        raise ValueError("the barometer fell down")

    @tool_function
    def hours(self, count: int) -> Iterator[dict[str, int]]:
        """One chunk an hour.

        Args:
            count: How many hours.
        """
        for hour in range(count):
            yield {"hour": hour}

    @tool_function
    def measure(self, *, ctx: ToolContext) -> float:
        """Measure, and say how far it is."""
        ctx.progress(1, 2, "warming up")
        ctx.progress(2, 2)
        return 21.5

    @tool_function
    def wait(self, *, ctx: ToolContext) -> str:
        """Wait for rain, which does not come."""
        gone = threading.Event()
        ctx.on_cancel(gone.set)
        gone.wait()
        return "dry"

    @tool_function
    def icon(self) -> bytes:
        """A picture of the sun, more or less."""
        return b"\x00\xff\x10sun"

    @tool_function
    async def survey(self, *, ctx: ToolContext) -> str:
        """Ask the user."""
        form = {"type": "object", "properties": {"rain": {"type": "boolean"}}}
        answer = await ctx.ask({"message": "Is it raining?", "requestedSchema": form})
        return "it rains" if answer.get("content", {}).get("rain") else "it does not rain"


class Reporter(Node):
    """Says what the weather of a city is, as an agent would."""

    provider = "reporter"
    lanes = {"text": ("text",)}

    async def write_text(self, city: str, *, ctx: ToolContext) -> None:
        info = CallInfo(tool="", node_id=self.node_id)
        ctx.callbacks.agent_chunk(info, self.node_id, "I look.")
        forecast = await ctx.call("weather_1", "forecast", {"city": city, "days": 1})
        await self.emit("text", forecast["days"][0])  # type: ignore[misc]
