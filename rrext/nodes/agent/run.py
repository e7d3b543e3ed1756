"""`AgentRunner`: the runs of one agent, by pydantic-ai's loop, on the thread of the models."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import msgspec
import pydantic_ai
from pydantic_ai import Agent, ModelRetry, StructuredDict
from pydantic_ai.exceptions import ToolRetryError, UserError
from pydantic_ai.messages import (
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    ModelMessage,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
)
from pydantic_ai.usage import UsageLimits

from rrext.errors import RrextError, ToolError
from rrext.limits import DEFAULTS
from rrext.nodes.agent.budget import BUDGET, Budget, RunLimits, agent_limit, estimated_tokens
from rrext.nodes.agent.conversations import ConversationStore
from rrext.nodes.agent.history import characters_of, fitting, instructions_of, messages_for, tokens_of
from rrext.nodes.agent.steps import Steps
from rrext.nodes.agent.toolset import ANY_RETRIES, BoundAccess, PipelineTools, Repetition, ToolAccess
from rrext.nodes.base.lanes import answer_value
from rrext.nodes.llm.agent_models import model_failure, require_whole
from rrext.nodes.llm.chat import JSON_ONLY, messages_of
from rrext.nodes.llm.model_loop import ModelLoop, run_on
from rrext.tools.context import TurnUsage
from rrext.tools.validation import SchemaValidator

if TYPE_CHECKING:
    from rrext.nodes.agent.node import AgentConfig
    from rrext.nodes.base.setup import SetupContext
    from rrext.nodes.llm.agent_models import AgentModel
    from rrext.tools.context import ToolContext

pydantic_ai.BANNER_ENABLED = False  # stderr belongs to the command, or to the log of the server

OUTPUT_RETRIES: Final = 3
"""Answers that do not fit `output`, or are empty, before the run fails; the model is told the paths each time."""

Answer = dict[str, Any]
"""`{content, meta, stack}`."""


class AgentRunner:
    """Runs an agent of one component. `answer` and `stream` are called on the engine's loop, all else runs on `ModelLoop`."""

    def __init__(self, config: AgentConfig, ctx: SetupContext, kinds: tuple[str, ...] = (), *, tool: str = "run_agent") -> None:
        """`kinds` are the class types of the nodes whose tools the agent may use, `tool` is the tool that asks it.

        Raises `ToolError` for a bad `output`.
        """
        self.config = config
        self._tool = tool
        self._node_id = ctx.node_id
        self._setup = ctx
        self._conversations = ConversationStore(
            config.store, ctx, ttl_hours=config.session_ttl_hours, max_history=config.max_history
        )
        self.kinds = kinds
        self.instructions = instructions_of(config)
        self._limits = RunLimits(
            turns=config.max_waves,
            calls=config.max_calls,
            tokens=config.max_tokens,
            cost=config.max_cost,
            seconds=config.max_seconds,
        )
        self._models: dict[int, tuple[Any, AgentModel]] = {}
        self._agents: dict[bool, Agent[AgentRun, Any]] = {}
        self.agent(expects_json=False)

    def agent(self, *, expects_json: bool) -> Agent[AgentRun, Any]:
        """pydantic-ai's agent, for questions that expect JSON or a text. Raises `ToolError` for a bad `output`."""
        found = self._agents.get(expects_json)
        if found is None:
            found = self._agents[expects_json] = self._new_agent(expects_json)
        return found

    def _new_agent(self, expects_json: bool) -> Agent[AgentRun, Any]:
        schema = self.config.output
        try:
            kind: Any = str if schema is None else StructuredDict(schema, name="answer")
            validator = None if schema is None else SchemaValidator(schema)
            retries: Any = {"tools": ANY_RETRIES, "output": OUTPUT_RETRIES}
            agent: Agent[AgentRun, Any] = Agent(output_type=kind, deps_type=AgentRun, name=self._node_id, retries=retries)
        except (UserError, ValueError) as error:
            raise ToolError(f'"output" of agent "{self._node_id}" is no JSON Schema of an object: {error}') from None
        if validator is not None:
            agent.output_validator(_fitting(validator))
        elif expects_json:
            agent.output_validator(_json)
        return agent

    # on the engine's loop

    async def answer(self, question: Mapping[str, Any], ctx: ToolContext, access: ToolAccess | None = None) -> Answer:
        """The answer to a question, with the tools of `access`, or else those of the nodes bound to it. Raises `ToolError`."""
        engine = asyncio.get_running_loop()
        return await ModelLoop.shared().run(self._answer(question, ctx, engine, None, access))

    def stream(self, question: Mapping[str, Any], ctx: ToolContext) -> AsyncGenerator[Any, None]:
        """The pieces of the text as they come, and then the answer."""
        return ModelLoop.shared().stream(self._streamed, question, ctx, asyncio.get_running_loop())

    def lane_answer(self, answer: Answer, question: Mapping[str, Any]) -> dict[str, Any]:
        """The answer as it travels on the answers lane."""
        content, tokens = answer["content"], answer["meta"]["tokens"]
        is_text = isinstance(content, str)
        text = content if is_text else msgspec.json.encode(content).decode()
        return {"answer": text, "expectJson": not is_text or bool(question.get("expectJson")), "tokens": tokens}

    # on the loop of the models

    async def close(self) -> None:
        """Close the connections of the models, and the file of the sessions."""
        await self._conversations.aclose()
        models, self._models = self._models, {}
        for _, model in models.values():
            await model.close()

    async def _streamed(
        self, question: Mapping[str, Any], ctx: ToolContext, engine: asyncio.AbstractEventLoop
    ) -> AsyncGenerator[Any, None]:
        pieces: asyncio.Queue[str | None] = asyncio.Queue()
        running = asyncio.ensure_future(self._answer(question, ctx, engine, pieces.put_nowait))
        running.add_done_callback(lambda _: pieces.put_nowait(None))
        try:
            while (piece := await pieces.get()) is not None:
                yield piece
            yield await running
        finally:
            running.cancel()
            await asyncio.wait([running])
            if not running.cancelled():
                running.exception()  # its reader has left

    async def _answer(
        self,
        question: Mapping[str, Any],
        ctx: ToolContext,
        engine: asyncio.AbstractEventLoop,
        on_text: Callable[[str], object] | None,
        access: ToolAccess | None = None,
    ) -> Answer:
        budget = Budget(self._node_id, self._limits, BUDGET.get())
        BUDGET.set(budget)  # for the tools of this run alone: it has a task, and so a context, of its own
        steps = Steps(ctx, self._node_id, budget, self._setup.shown_piece, on_text, tool=self._tool)
        steps.start()
        failure: BaseException | None = None
        try:
            return await self._within_time(
                AgentRun(self, ctx, engine, budget, steps, question, access or BoundAccess(ctx, self.kinds))
            )
        except BaseException as error:
            failure = error
            if isinstance(error, ToolError) and "done" not in error.data:
                error.data = {**error.data, "done": steps.done()}
            raise
        finally:
            steps.end(failure)
            del failure  # its traceback references this frame

    async def _within_time(self, run: AgentRun) -> Answer:
        seconds = self._limits.seconds
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await run.answered(self._conversations)
        except TimeoutError:
            if not limit.expired() or seconds is None:
                raise
            raise agent_limit(self._node_id, "max_seconds", seconds, "it is not done") from None

    async def model(self, ctx: ToolContext, engine: asyncio.AbstractEventLoop, *, needs_price: bool) -> AgentModel:
        """The model that is bound to the agent, made at its first use."""
        shared = await run_on(engine, ctx.bound("llm"))
        found = self._models.get(id(shared))
        if found is None:
            make = getattr(shared, "agent_model", None)
            if make is None:
                raise ToolError(
                    f'The node that is bound to agent "{self._node_id}" as "llm" gives no model to agents',
                    hint="Bind one of llm_openai_api, llm_openai, llm_ollama, llm_anthropic, llm_gemini, llm_scripted.",
                )
            made = await asyncio.to_thread(make)  # imports the SDK of its maker
            found = self._models.setdefault(id(shared), (shared, made))
            if found[1] is not made:  # another run has made one meanwhile
                await made.close()
        model = found[1]
        if needs_price and model.price is None:
            raise ToolError(
                f'A limit of money holds for agent "{self._node_id}" (max_cost), and nobody knows the price of "{model.name}"',
                code="price_unknown",
                hint='Set "price": {"input": …, "output": …}, in dollars for a million tokens, in the settings of the model.',
            )
        return model


class AgentRun:
    """One run of an agent, on the loop of the models."""

    def __init__(
        self,
        runner: AgentRunner,
        ctx: ToolContext,
        engine: asyncio.AbstractEventLoop,
        budget: Budget,
        steps: Steps,
        question: Mapping[str, Any],
        access: ToolAccess,
    ) -> None:
        self._access = access
        self._runner = runner
        self._ctx = ctx
        self._engine = engine
        self._budget = budget
        self._steps = steps
        self._question = question
        self._model: AgentModel
        self.expects_json = bool(question.get("expectJson")) and runner.config.output is None

    async def answered(self, conversations: ConversationStore) -> Answer:
        """The answer. Raises `ToolError`. A question with a `session` is a turn of it."""
        began, started = datetime.now(UTC), time.monotonic()
        asked = messages_of(self._question, expect_json=self.expects_json)
        if not asked or asked[-1]["role"] != "user":
            raise ToolError("The question is empty: there is nothing to ask the agent", code="empty_question")
        told, history, prompt = messages_for(asked)
        self._model = await self._runner.model(self._ctx, self._engine, needs_price=self._budget.needs_price)
        session = self._question.get("session")
        if session is None:
            content, _ = await self._content(told, history, prompt)
        elif not isinstance(session, str):
            raise ToolError("The session of a question is a text, its name", code="bad_session")
        else:
            async with conversations.turn((self._ctx.user_id, self._ctx.space_id), session) as turn:
                content, messages = await self._content(told, [*turn.messages, *history], prompt)
                await turn.finish(messages)
        budget = self._budget
        meta = {
            "framework": "rrext",
            "agent_id": budget.agent,
            "run_id": uuid4().hex,
            "started_at": began.isoformat(),
            "ended_at": datetime.now(UTC).isoformat(),
            "seconds": round(time.monotonic() - started, 3),
            "model": self._model.name,
            "turns": budget.turns,
            "calls": budget.calls,
            "tokens": budget.tokens,
            "input_tokens": budget.input_tokens,
            "output_tokens": budget.output_tokens,
        }
        if budget.is_estimated:
            meta["estimated"] = True
        if budget.cost is not None:
            meta["cost"] = round(budget.cost, 6)
        return {"content": content, "meta": meta, "stack": self._steps.stack}

    async def _content(self, told: list[str], history: list[ModelMessage], prompt: str) -> tuple[Any, list[ModelMessage]]:
        """The content of the answer, and the messages of the turn."""
        runner, model = self._runner, self._model
        tools = PipelineTools(self._access, self._engine, runner.config, self._budget)
        repetition = Repetition(runner.config.max_repeats)
        try:
            async with runner.agent(expects_json=self.expects_json).iter(
                prompt,
                deps=self,
                model=model.model,
                model_settings=model.settings,
                message_history=history,
                instructions=[runner.instructions, *told],
                toolsets=[tools],
                usage_limits=UsageLimits(request_limit=None),
            ) as run:
                async for node in run:
                    if Agent.is_model_request_node(node):
                        self._budget.require_turn()
                        self._fit(run.ctx.state.message_history, node.request)
                        await self._ask(node, run)
                    elif Agent.is_call_tools_node(node):
                        self._count(node.model_response, run.ctx.state.message_history)
                        await self._call(node, run, tools, repetition)
                assert run.result is not None
                return run.result.output, run.result.new_messages()
        except RrextError:
            raise
        except Exception as error:
            raise _unfit(error, self._budget.agent) or model_failure(error, model.server) from None

    async def _ask(self, node: Any, run: Any) -> None:
        """Ask the model, and pass on its text."""
        steps = self._steps
        steps.turn_start()
        try:
            async with node.stream(run.ctx) as events:
                async for event in events:
                    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                        steps.text(event.delta.content_delta)
                    elif isinstance(event, PartStartEvent) and isinstance(event.part, TextPart) and event.part.content:
                        steps.text(event.part.content)
        except asyncio.CancelledError as error:
            steps.turn_end(TurnUsage(model=self._model.name), error)
            raise
        except Exception as error:
            failure = error if isinstance(error, RrextError) else model_failure(error, self._model.server)
            steps.turn_end(TurnUsage(model=self._model.name), failure)
            raise failure from None
        steps.flush()

    def _count(self, response: ModelResponse, messages: list[ModelMessage]) -> None:
        """Count what a turn used, and refuse an answer that is not whole."""
        usage, price = response.usage, self._model.price
        is_estimated = bool(usage.unmeasured_requests) or not (usage.input_tokens or usage.output_tokens)
        taken, given = usage.input_tokens, usage.output_tokens
        if is_estimated:
            whole = tokens_of([*messages])
            given = estimated_tokens(sum(map(characters_of, response.parts)))
            taken = max(0, whole - given)
        cost = None if price is None else (taken * price["input"] + given * price["output"]) / 1e6
        self._budget.add_turn(taken, given, cost, estimated=is_estimated)
        used = TurnUsage(
            model=response.model_name or self._model.name,
            input_tokens=taken,
            output_tokens=given,
            estimated=is_estimated or None,
            cost=cost,
            finish=response.finish_reason,
        )
        failure: ToolError | None = None
        try:
            if not response.tool_calls or not all(map(_is_whole, response.tool_calls)):
                require_whole(self._model.server, response)
        except ToolError as error:
            failure = error
            raise
        finally:
            self._steps.turn_end(used, failure)
            del failure

    async def _call(self, node: Any, run: Any, tools: PipelineTools, repetition: Repetition) -> None:
        """Run the tools that the model called, and report them."""
        called: dict[str, tuple[str, str]] = {}
        failed: set[tuple[str, str, str]] = set()
        succeeded = False
        async with node.stream(run.ctx) as events:
            async for event in events:
                if isinstance(event, FunctionToolCallEvent):
                    part = event.part
                    called[part.tool_call_id] = (part.tool_name, part.args_as_json_str())
                    self._steps.tool_call(part.tool_call_id, part.tool_name, _input_of(part))
                elif isinstance(event, FunctionToolResultEvent):
                    result: Any = event.part
                    number = result.tool_call_id
                    if getattr(result, "outcome", "success") == "success":
                        succeeded = True
                        self._steps.tool_result(number, result.tool_name or "", tools.results.pop(number, result.content), None)
                        continue
                    text = str(result.content)
                    failed.add((*called.get(number, (result.tool_name or "", "")), text))
                    error = tools.failures.pop(number, None) or ToolError(text, code="call_refused")
                    self._steps.tool_result(number, result.tool_name or "", None, error)
        repetition.note(self._budget.agent, frozenset(failed), any_succeeded=succeeded)

    def _fit(self, history: list[ModelMessage], request: ModelMessage) -> None:
        """Make the history smaller, if it fills the window of the model together with the request."""
        compacts = self._runner.config.context == "compact"
        whole = [*history, request]
        found = fitting(whole, self._model.window, agent=self._budget.agent, compacts=compacts)
        if found is not whole:
            history[:] = found[:-1]


def _fitting(validator: SchemaValidator) -> Callable[[Any], Any]:
    """The check of an answer by its schema: the model is told the path of each problem."""

    def check(output: Any) -> Any:
        if problems := validator.problems(output, DEFAULTS.max_errors):
            raise ModelRetry("\n".join(f"/{'/'.join(map(str, path))}: {text}" for path, text in problems))
        return output

    return check


def _unfit(error: Exception, agent: str) -> ToolError | None:
    """The failure of a model that answered, but never as it should; None for any other failure."""
    cause = error.__cause__
    if not isinstance(cause, ModelRetry | ToolRetryError):
        return None
    what = cause.message if isinstance(cause, ModelRetry) else "it is empty, or no JSON"
    return ToolError(
        f'Agent "{agent}" got no answer that it can use from its model in {OUTPUT_RETRIES + 1} attempts. The last one: {what}',
        code="model_bad_answer",
        hint='Say in the instructions what the answer is to be, make "output" simpler, or take another model.',
    )


def _json(output: str) -> str:
    """The check of a text that is to be JSON."""
    try:
        answer_value({"answer": output, "expectJson": True})
    except ToolError as error:
        raise ModelRetry(f"{error.message}. {JSON_ONLY}") from None
    return output


def _is_whole(call: ToolCallPart) -> bool:
    """Whether the arguments of a call are JSON: those of an answer that was cut are not."""
    try:
        call.args_as_dict(raise_if_invalid=True)
    except Exception:
        return False
    return True


def _input_of(call: ToolCallPart) -> Any:
    """The arguments of a call; of those that cannot be read the size, because nobody could take secrets out of them."""
    try:
        return call.args_as_dict(raise_if_invalid=True)
    except Exception:
        return f"[{len(str(call.args)):,} characters that are no JSON object]"
