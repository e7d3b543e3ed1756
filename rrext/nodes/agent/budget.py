"""The limits of a run of an agent, and what it has used of them together with its sub-agents."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

import msgspec

from rrext.errors import ToolError

CHARACTERS_PER_TOKEN: Final = 4
"""Of English text, on average: where a server tells no usage, tokens are estimated by it and marked as such."""


class RunLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one run, those of its sub-agents included; None is no limit. `cost` is in dollars."""

    turns: int
    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None


class Budget:
    """Counts what a run uses. What a sub-agent uses counts for the run that called it, too."""

    def __init__(self, agent: str, limits: RunLimits, outer: Budget | None) -> None:
        """`outer` is the budget of the run that called this one."""
        self.agent = agent
        self.limits = limits
        self.outer = outer
        self.turns = 0
        self.calls = 0
        self.input_tokens = 0
        self.output_tokens = 0
        self.cost: float | None = None
        self.is_estimated = False

    @property
    def tokens(self) -> int:
        """The tokens of all questions and answers."""
        return self.input_tokens + self.output_tokens

    def add_turn(self, input_tokens: int, output_tokens: int, cost: float | None, *, estimated: bool) -> None:
        """Count a turn of the model. On the thread of the models, as all that counts."""
        self.turns += 1
        budget: Budget | None = self
        while budget is not None:
            budget.input_tokens += input_tokens
            budget.output_tokens += output_tokens
            budget.is_estimated = budget.is_estimated or estimated
            if cost is not None:
                budget.cost = (budget.cost or 0.0) + cost
            budget = budget.outer

    def take_call(self) -> str | None:
        """Count a call of a tool; the sentence that refuses it, if a limit is reached."""
        chain = list(self._chain())
        for budget in chain:
            most = budget.limits.calls
            if most is not None and budget.calls >= most:
                return f'agent "{budget.agent}" may call {most} tools (max_calls), and has: answer with what is known'
        for budget in chain:
            budget.calls += 1
        return None

    @property
    def may_call(self) -> bool:
        """Whether a call of a tool is within the limits, in a turn that is not the last one."""
        if self.turns + 1 >= self.limits.turns:
            return False
        return all(budget.limits.calls is None or budget.calls < budget.limits.calls for budget in self._chain())

    @property
    def needs_price(self) -> bool:
        """Whether this run, or one that it belongs to, has a limit of money."""
        return any(budget.limits.cost is not None for budget in self._chain())

    def require_turn(self) -> None:
        """Raise `ToolError` `agent_limit` if the model may not be asked again."""
        if self.turns >= self.limits.turns:
            raise agent_limit(self.agent, "max_waves", self.limits.turns, "the model still calls tools, and gives no answer")
        for budget in self._chain():
            if budget.limits.tokens is not None and budget.tokens >= budget.limits.tokens:
                about = " (estimated)" if budget.is_estimated else ""
                raise agent_limit(budget.agent, "max_tokens", budget.limits.tokens, f"{budget.tokens} are used{about}")
            if budget.limits.cost is not None and (budget.cost or 0.0) >= budget.limits.cost:
                about = " (estimated)" if budget.is_estimated else ""
                raise agent_limit(budget.agent, "max_cost", budget.limits.cost, f"${budget.cost:.4f} are spent{about}")

    def _chain(self) -> list[Budget]:
        found, budget = [], self
        while budget is not None:
            found.append(budget)
            budget = budget.outer
        return found


def agent_limit(agent: str, limit: str, maximum: float, text: str) -> ToolError:
    """The failure of a run that reached a limit."""
    return ToolError(
        f'Agent "{agent}" reached its limit {limit}, {maximum:g}: {text}',
        code="agent_limit",
        hint=f'Ask for less, or raise "{limit}" in the settings of the node.',
        data={"limit": limit, "maximum": maximum, "agent": agent},
    )


def estimated_tokens(characters: int) -> int:
    """The tokens of so many characters, about."""
    return -(-characters // CHARACTERS_PER_TOKEN)


BUDGET: ContextVar[Budget | None] = ContextVar("rrext_agent_budget", default=None)
"""The budget of the run whose tool runs: it passes with the call of a tool from thread to thread."""
