"""Pipelines beside the one that every face serves."""

from __future__ import annotations

import json
from typing import Any

from houses import PIPELINE

__all__ = ["WEBHOOK", "narrow", "with_tools"]

WEBHOOK = {"id": "webhook_1", "provider": "webhook", "config": {"mode": "Source", "type": "webhook"}}


def narrow() -> dict[str, Any]:
    """The same pipeline as another project, to be loaded with limits of its own."""
    return {**json.loads(PIPELINE.read_text()), "project_id": "narrow"}


def with_tools(**providers: str) -> dict[str, Any]:
    """A webhook that controls nodes of these ids and providers."""
    control = [{"classType": "tool", "from": "webhook_1"}]
    nodes = [{"id": i, "provider": p, "config": {}, "control": control} for i, p in providers.items()]
    return {"components": [WEBHOOK, *nodes], "source": "webhook_1"}
