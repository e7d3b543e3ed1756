"""`llm_gemini`: the models of Google's Gemini API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rrext.nodes.http import EndpointSettings, ServerName
from rrext.nodes.llm.chat import ChatSettings
from rrext.nodes.llm.sdk import SdkNode

if TYPE_CHECKING:
    from rrext.nodes.llm.agent_models import AgentModel

DEFAULT: Final = "gemini-3_1-pro-preview"

GEMINI_PROFILES: Final[dict[str, dict[str, Any]]] = {
    "custom": {},
    DEFAULT: {"model": "gemini-3.1-pro-preview"},
    "gemini": {"model": "gemini-3.1-pro-preview"},  # of RocketRide's examples
    "gemini-3_1-flash-image-preview": {"model": "gemini-3.1-flash-image-preview"},
    "gemini-3_1-flash-lite-preview": {"model": "gemini-3.1-flash-lite-preview"},
    "gemini-3-flash-preview": {"model": "gemini-3-flash-preview"},
    "gemini-3-pro-image-preview": {"model": "gemini-3-pro-image-preview"},
    "gemini-3-pro-preview": {"model": "gemini-3-pro-preview"},
    "gemini-3-pro-image": {"model": "gemini-3-pro-image"},
    "gemini-2_5-pro": {"model": "gemini-2.5-pro"},
    "gemini-2_5-flash": {"model": "gemini-2.5-flash"},
    "gemini-2_5-flash-lite": {"model": "gemini-2.5-flash-lite"},
    "gemini-2_5-flash-image": {"model": "gemini-2.5-flash-image"},
    "gemini-2_0-flash": {"model": "gemini-2.0-flash"},
    "gemini-2_0-flash-lite": {"model": "gemini-2.0-flash-lite"},
    "models-gemini-2-5-flash-lite-preview-09-2025": {"model": "gemini-2.5-flash-lite-preview-09-2025"},
    "models-gemini-2-5-pro-preview": {"model": "gemini-2.5-pro-preview"},
    "models-gemini-2-5-pro-preview-05-06": {"model": "gemini-2.5-pro-preview-05-06"},
    "models-gemini-3-1-pro-preview-customtools": {"model": "gemini-3.1-pro-preview-customtools"},
    "models-gemini-flash-latest": {"model": "gemini-flash-latest"},
    "models-gemini-pro-latest": {"model": "gemini-pro-latest"},
}
"""Profiles of `llm_gemini`; any other model goes with `custom` and its name."""


class GeminiNode(SdkNode):
    """Asks a model of Google's Gemini API. A profile names the model; `base_url` may lead to a proxy of one's own."""

    provider = "llm_gemini"
    title = "LLM (Gemini)"
    profiles = GEMINI_PROFILES
    default_profile = DEFAULT
    address = "https://generativelanguage.googleapis.com"
    service = "google"
    needs = ("gemini", "google.genai")

    @classmethod
    def _made(cls, server: ServerName, settings: EndpointSettings, chat: ChatSettings, *, is_remote: bool) -> AgentModel:
        from rrext.nodes.llm.agent_models import gemini_model

        return gemini_model(server, settings, chat, is_remote=is_remote)
