"""`agent`: a model that uses the tools of its pipeline, and managers and sub-agents by RocketRide's names."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

import msgspec

from rrext.nodes.base.lanes import new_question
from rrext.nodes.base.node import Node
from rrext.nodes.base.setup import SetupContext, missing_packages
from rrext.nodes.llm.model_loop import ModelLoop
from rrext.threads import imported
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function

if TYPE_CHECKING:
    from rrext.nodes.agent.run import AgentRunner

Count = Annotated[int, msgspec.Meta(ge=1)]
SLOTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "llm": {"description": "The model that the agent asks", "min": 1, "max": 1},
    "tool": {"description": "Nodes whose tools the agent may use, also other agents", "min": 0},
    "memory": {"description": "A memory whose tools the agent may use", "min": 0},
}

ANSWER: Final = {
    "type": "object",
    "properties": {
        "content": {"description": "The answer: a text, or with `output` in the settings a JSON object."},
        "meta": {"type": "object", "description": "The run: ids, times, model, turns, calls, tokens, cost in dollars."},
        "stack": {"type": "array", "items": {"type": "object"}, "description": "The calls of tools, in their order."},
    },
    "required": ["content", "meta", "stack"],
}


class AgentConfig:
    """The settings of an agent."""

    instructions: Annotated[tuple[str, ...], "What the model is told before each question."] = ()
    agent_description: Annotated[str, "What the agent is for: its description as a tool of other agents."] = ""
    max_waves: Annotated[int, msgspec.Meta(ge=1, le=50), "Turns of the model; the last one has no tools, and answers."] = 10
    system_prompt: Annotated[str, "The first instruction, in place of ours."] = ""
    role: Annotated[str, "The role that the model plays (CrewAI)."] = ""
    goal: Annotated[str, "What it is to reach (CrewAI)."] = ""
    backstory: Annotated[str, "Background of its role (CrewAI)."] = ""
    task_description: Annotated[str, "What it is to do with each question (CrewAI)."] = ""
    expected_output: Annotated[str, "What the answer is to be, in words (CrewAI)."] = ""
    advanced_mode: Annotated[bool, "Accepted from RocketRide's files: there it shows more settings."] = False
    output: Annotated[dict[str, Any] | None, "JSON Schema of the answer, an object; null: a text."] = None
    max_calls: Annotated[Count | None, "Calls of tools in a run, with those of sub-agents."] = 200
    max_tokens: Annotated[Count | None, "Tokens of a run, questions and answers, with those of sub-agents."] = None
    max_cost: Annotated[
        Annotated[float, msgspec.Meta(gt=0)] | None, "Dollars of a run, with those of sub-agents; the model needs a price."
    ] = None
    max_seconds: Annotated[Annotated[float, msgspec.Meta(gt=0)] | None, "Seconds of a run."] = None
    max_repeats: Annotated[int, msgspec.Meta(ge=2), "Turns with the same failing call, after which the run fails."] = 3
    parallel_tools: Annotated[Count, "Tools that run at once; others of the same turn wait."] = 8
    max_result: Annotated[
        int, msgspec.Meta(ge=200), "Characters of a result that the model reads at once; it can read on in a longer one."
    ] = 20_000
    defer_tools: Annotated[int, msgspec.Meta(ge=0), "With more tools than this the model searches them."] = 30
    store: Annotated[str, "SQLite file of the sessions, made if there is none; empty: they end with the pipeline."] = ""
    session_ttl_hours: Annotated[
        float, msgspec.Meta(ge=0), "Hours without a turn after which a session is forgotten; 0: never."
    ] = 0.0
    max_history: Annotated[int, msgspec.Meta(ge=1, le=10_000), "Turns of a session that the model is told again."] = 100
    context: Annotated[
        Literal["compact", "refuse"],
        "What happens when a conversation fills the model's window: old results are left out, or it fails.",
    ] = "compact"


class AgentNode(Node):
    """Answers questions with a model that calls the tools bound to it, turn by turn.

    The model sees the tools of the nodes bound as `tool` and `memory`, and those that `tools` of the settings refer to, which
    nobody else may call. A question with a `session` goes on where the last one of that name ended.
    """

    provider = "agent"
    title = "Agent"
    class_types = ("agent", "tool")
    capabilities = ("invoke",)
    lanes = {"questions": ("answers",)}
    invoke = SLOTS
    takes_references = True
    keeps_references = True
    paths: ClassVar[Mapping[str, Literal["file", "folder"]]] = {"store": "file"}
    shared: AgentRunner

    Config = AgentConfig

    @classmethod
    def unavailable(cls) -> str | None:
        """The missing packages of the loop, if any."""
        return missing_packages("agent", "pydantic_ai", "openai", "httpx2")

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any, ctx: SetupContext) -> AsyncIterator[AgentRunner]:
        """Import the loop, a second on a thread. Asks nobody anything yet."""
        module = await ctx.in_thread(imported, "rrext.nodes.agent.run")
        kinds = tuple(kind for kind in cls.invoke if kind != "llm")
        about = config.agent_description.strip() or config.goal.strip() or config.role.strip()
        ctx.tool_description = f"{ctx.tool_description}\n\n{ctx.shown(about)}".strip()
        runner: AgentRunner = module.AgentRunner(config, ctx, kinds)
        try:
            yield runner
        finally:
            await ModelLoop.shared().run(runner.close())

    @classmethod
    def bound_problems(cls, config: Any, bound: Mapping[str, Sequence[tuple[type[Node], Any]]]) -> Iterable[tuple[str, str]]:
        """A limit of money needs the price of the model."""
        if config.max_cost is None:
            return
        for node, settings in bound.get("llm", ()):
            price_of = getattr(node, "price_of", None)
            try:
                price = getattr(settings, "price", None) if price_of is None else price_of(settings)
            except ImportError:  # then the agent cannot run here, which it says by itself
                continue
            if price is None:
                name = getattr(settings, "model", "") or node.provider
                text = 'set "price" of its node to {"input": …, "output": …}, in dollars for a million tokens'
                yield "max_cost", f'nobody knows the price of the model "{name}": {text}'

    async def write_questions(self, question: dict[str, Any], ctx: ToolContext) -> None:
        answer = await self.shared.answer(question, ctx)
        sent = self.emit("answers", self.shared.lane_answer(answer, question))
        if sent is not None:
            await sent

    @tool_function(group="agent", output_schema=ANSWER, description="An agent: ask it in words.")
    async def run_agent(self, query: str, context: dict[str, Any] | None = None, *, ctx: ToolContext) -> dict[str, Any]:
        """Ask the agent.

        Args:
            query: The question or task, with all that the agent has to know.
            context: More that belongs to the question.
        """
        return await self.shared.answer(_asked(query, context), ctx)

    @tool_function(group="agent", description="An agent: ask it in words. The text comes while it is written.")
    async def run_agent_stream(
        self, query: str, context: dict[str, Any] | None = None, *, ctx: ToolContext
    ) -> AsyncIterator[Any]:
        """Ask the agent and get the text while it is written, and the answer of `run_agent` at the end.

        Args:
            query: The question or task, with all that the agent has to know.
            context: More that belongs to the question.
        """
        async with aclosing(self.shared.stream(_asked(query, context), ctx)) as pieces:
            async for piece in pieces:
                yield piece


def _asked(query: str, context: dict[str, Any] | None) -> dict[str, Any]:
    question = new_question(query)
    if context:
        question["context"] = [context]
    return question


class CrewManagerNode(AgentNode):
    """An agent whose tools are its sub-agents."""

    provider = "agent_crewai_manager"
    title = "Agent (CrewAI manager)"
    invoke = {"llm": SLOTS["llm"], "crewai": {"description": "Its sub-agents", "min": 1}}


class CrewSubagentNode(AgentNode):
    """An agent that a manager asks."""

    provider = "agent_crewai_subagent"
    title = "Agent (CrewAI sub-agent)"
    class_types = ("crewai",)
    lanes: ClassVar[Mapping[str, tuple[str, ...]]] = {}


class DeepAgentNode(AgentNode):
    """An agent that may have sub-agents."""

    provider = "agent_deepagent"
    title = "Agent (Deep Agents)"
    invoke = {**SLOTS, "deepagent": {"description": "Its sub-agents", "min": 0}}


class DeepSubagentNode(AgentNode):
    """An agent that another agent asks."""

    provider = "agent_deepagent_subagent"
    title = "Agent (Deep Agents sub-agent)"
    class_types = ("deepagent",)
    lanes: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    class Config(AgentConfig):
        description: Annotated[str, "What the agent is for, as `agent_description`."] = ""
