"""What a user's typed program looks like; a type checker reads it against the installed package."""

from __future__ import annotations

from typing import Any

import rrext
from rrext import Node, RrextError, ToolContext, ToolError, tool_function


class Weather(Node):
    provider = "weather"
    lanes = {"questions": ("answers",)}

    class Config:
        units: str = "metric"

    @tool_function
    def forecast(self, city: str, days: int = 3, *, ctx: ToolContext) -> dict[str, Any]:
        ctx.check()
        ctx.progress(1, days, "asked")
        if not city:
            raise ToolError("no city", code="no_city", hint="name one")
        return {"city": city, "days": days}

    @tool_function(name="alerts", description="Warnings for a city.", timeout=5, thread="same", group="weather")
    async def list_alerts(self, city: str) -> list[str]:
        return [city]

    def write_questions(self, question: dict[str, Any]) -> None:
        self.emit("answers", {"answer": question, "expectJson": False})


async def use() -> str:
    async with rrext.Client.spawn("weather.pipe") as client:
        try:
            result = await client.tool(tool="forecast", node_id="weather_1", input={"city": "Oslo"})
        except RrextError as error:
            return f"{error.code}: {error.message}"
        return str(result)


version: str = rrext.__version__
