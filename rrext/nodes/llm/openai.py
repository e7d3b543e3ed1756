"""`llm_openai_api`: any language model behind an OpenAI-compatible API; `llm_openai` and `llm_ollama` know an address."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final, Literal

from rrext.nodes.base.setup import SetupContext, missing_packages
from rrext.nodes.http import endpoint_settings, open_endpoint
from rrext.nodes.llm.chat import ChatModel, ChatSettings
from rrext.nodes.llm.node import LanguageModelNode
from rrext.nodes.llm.settings import LanguageModelSettings

Profiles = dict[str, dict[str, Any]]


def _openai(models: dict[str, str]) -> Profiles:
    return {name: {"model": model, "maxTokensName": "max_completion_tokens"} for name, model in models.items()}


OPENAI_PROFILES: Final[Profiles] = {
    "custom": {"maxTokensName": "max_completion_tokens"},
    **_openai(
        {
            "openai-5-4": "gpt-5.4",
            "openai-5-4-pro": "gpt-5.4-pro",
            "openai-5-4-mini": "gpt-5.4-mini",
            "openai-5-4-nano": "gpt-5.4-nano",
            "openai-5-2": "gpt-5.2",
            "openai-5-1": "gpt-5.1",
            "openai-5": "gpt-5",
            "openai-5-mini": "gpt-5-mini",
            "openai-5-nano": "gpt-5-nano",
            "openai-4o": "gpt-4o",
            "openai-4o-mini": "gpt-4o-mini",
            "gpt-4-1": "gpt-4.1",
            "gpt-4-1-mini": "gpt-4.1-mini",
            "gpt-4-1-nano": "gpt-4.1-nano",
            "gpt-5-5": "gpt-5.5",
            "o3": "o3",
            "o3-mini": "o3-mini",
            "o4-mini": "o4-mini",
        }
    ),
}
"""Profiles of `llm_openai`; any other model goes with `custom` and its name."""

OLLAMA_PROFILES: Final[Profiles] = {
    "custom": {},
    "llama3_3": {"model": "llama3.3:latest"},
    "llama3_2-3b": {"model": "llama3.2"},
    "llama3_2-1b": {"model": "llama3.2:1b"},
    "llama3_1-8b": {"model": "llama3.1:8b"},
    "llama3_1-70b": {"model": "llama3.1:70b"},
    "llama3_1-405b": {"model": "llama3.1:405b"},
    "llama4-latest": {"model": "llama4:latest"},
    "phi4-14b": {"model": "phi4"},
    "mistral-7b": {"model": "mistral"},
    "qwen2_5-0_5b": {"model": "qwen2.5:0.5b"},
    "qwen2_5-1_5b": {"model": "qwen2.5:1.5b"},
    "qwen2_5-3b": {"model": "qwen2.5:3b"},
    "qwen2_5-7b": {"model": "qwen2.5"},
    "qwen2_5-14b": {"model": "qwen2.5:14b"},
    "qwen2_5-32b": {"model": "qwen2.5:32b"},
    "qwen2_5-72b": {"model": "qwen2.5:72b"},
    "qwen3-latest": {"model": "qwen3:latest"},
    "deepseek-r1-1_5b": {"model": "deepseek-r1:1.5b"},
    "deepseek-r1-7b": {"model": "deepseek-r1:7b"},
    "deepseek-r1-14b": {"model": "deepseek-r1:14b"},
    "deepseek-r1-32b": {"model": "deepseek-r1:32b"},
    "deepseek-r1-671b": {"model": "deepseek-r1:671b"},
}
"""Profiles of `llm_ollama`; any other model goes with `custom` and its name."""


class OpenAIApiNode(LanguageModelNode):
    """Asks a language model over an OpenAI-compatible API: OpenAI, Ollama, vLLM, llama.cpp, LM Studio, OpenRouter …

    Questions become answers, on the lane and by the tools `ask` and `ask_stream`. Instructions, goals and examples of a
    question are told first, then its history, its context and documents, and the question itself. An answer that was cut,
    filtered or refused is a failure, never half an answer.
    """

    provider = "llm_openai_api"
    title = "LLM (OpenAI-compatible)"
    profiles = {"custom": {}}
    default_profile = "custom"
    service = "openai-compatible"  # for agents, `openai` knows more than what is compatible

    class Config(LanguageModelSettings):
        maxTokensName: Annotated[
            Literal["max_tokens", "max_completion_tokens"], "What the server calls maxTokens: OpenAI's newer models changed it."
        ] = "max_tokens"
        jsonMode: Annotated[bool, "Ask with response_format for JSON. Turn it off for a server that does not know that."] = True
        extraBody: Annotated[dict[str, Any], "More fields of every request, as the server documents them."] = {}

    @classmethod
    def unavailable(cls) -> str | None:
        """The missing package for HTTP, if any."""
        return missing_packages("llm", "httpx2")

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any, ctx: SetupContext) -> AsyncIterator[ChatModel]:
        """Make one model with one pool of connections for all objects. Connects to nothing yet."""
        settings = endpoint_settings(config, cls.address, ctx.node_id)
        chat = ChatSettings(
            model=config.model.strip(),
            temperature=config.temperature,
            max_tokens=config.maxTokens,
            max_tokens_name=config.maxTokensName,
            json_mode=config.jsonMode,
            extra=config.extraBody,
            service=cls.service,
            window=config.modelTotalTokens,
            price=config.price,
        )
        async with open_endpoint(settings, ctx) as endpoint:
            yield ChatModel(endpoint, chat)


class OpenAINode(OpenAIApiNode):
    """Asks a model of OpenAI. A profile names the model; `base_url` may lead to a proxy of one's own."""

    provider = "llm_openai"
    title = "LLM (OpenAI)"
    profiles = OPENAI_PROFILES
    default_profile = "openai-5-2"
    address = "https://api.openai.com/v1"
    service = "openai"


class OllamaNode(OpenAIApiNode):
    """Asks a model of an Ollama server, on this machine unless `serverbase` says another."""

    provider = "llm_ollama"
    title = "LLM (Ollama)"
    profiles = OLLAMA_PROFILES
    default_profile = "llama3_3"
    address = "http://localhost:11434/v1"
    service = "ollama"
