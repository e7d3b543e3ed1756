"""`llm_anthropic`: the models of Anthropic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from rrext.nodes.http import EndpointSettings, ServerName
from rrext.nodes.llm.chat import ChatSettings
from rrext.nodes.llm.sdk import SdkNode

if TYPE_CHECKING:
    from rrext.nodes.llm.agent_models import AgentModel

DEFAULT: Final = "claude-sonnet-4-6"

ANTHROPIC_PROFILES: Final[dict[str, dict[str, Any]]] = {
    "custom": {},
    "claude": {"model": DEFAULT},  # of RocketRide's examples
    **{
        name: {"model": name}
        for name in (
            DEFAULT,
            "claude-opus-4-7",
            "claude-opus-4-6",
            "claude-opus-4-5",
            "claude-sonnet-4-5",
            "claude-haiku-4-5",
        )
    },
}
"""Profiles of `llm_anthropic`; any other model goes with `custom` and its name."""

ENDS: Final = {"claude-sonnet-4-5": "2026-11-30", "claude-opus-4-5": "2027-01-22"}
"""Model of a profile → the day on which Anthropic ends it, as its SDK has it. The profile stays, as files name it."""


class AnthropicNode(SdkNode):
    """Asks a model of Anthropic. A profile names the model; `base_url` may lead to a proxy of one's own."""

    provider = "llm_anthropic"
    title = "LLM (Anthropic)"
    profiles = ANTHROPIC_PROFILES
    default_profile = DEFAULT
    address = "https://api.anthropic.com"
    service = "anthropic"
    needs = ("anthropic", "anthropic")

    @classmethod
    def cautions(cls, config: Any) -> Iterable[tuple[str, str]]:
        model = config.model.strip()
        for name, day in ENDS.items():
            if model == name or model.startswith(f"{name}-20"):  # a snapshot of it
                yield "model", f'Anthropic ends the model {model} on {day}: name another one, as by the profile "{DEFAULT}".'

    @classmethod
    def _made(cls, server: ServerName, settings: EndpointSettings, chat: ChatSettings, *, is_remote: bool) -> AgentModel:
        from rrext.nodes.llm.agent_models import anthropic_model

        return anthropic_model(server, settings, chat, is_remote=is_remote)
