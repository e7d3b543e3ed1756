"""Differences between RocketRide's nodes and those of the same name here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

OTHER_PROFILES: Final = frozenset(
    {
        "db_mysql", "db_neo4j", "db_postgres", "embedding_transformer", "graph_neo4j", "memory_internal", "parse", "postgres",
        "preprocessor_code", "preprocessor_langchain", "prompt", "question", "response", "response_answers", "response_audio",
        "response_documents", "response_image", "response_questions", "response_table", "response_text", "response_video",
        "store_postgres", "tool_filesystem", "tool_python",
    }
)  # fmt: skip
"""The providers whose profiles in RocketRide are not those of the node here. Models are not among them: with another profile,
another model would run."""

LANES_OUT: Final[Mapping[str, tuple[str, ...]]] = {"parse": ("image", "audio", "video")}
"""Provider → the lanes on which RocketRide's node sends and the node of that name here does not."""
