"""The models of the profile names in RocketRide's files."""

from __future__ import annotations

from typing import Any, Final

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
