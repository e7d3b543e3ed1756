"""A pipeline on its way to the server, from an object or a file, and a question on its way to a pipeline."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import anyio

from rrext.client.pending_call import Body
from rrext.errors import ParseError, UsageError
from rrext.wire.codec import decode, encode

Path: TypeAlias = str | os.PathLike[str]


async def pipeline_arguments(pipeline: Mapping[str, Any] | None, filepath: Path | None, source: str | None) -> Body:
    """The arguments `pipeline` and `source` of a command. Raises `OSError` for a file that cannot be read."""
    if (pipeline is None) == (filepath is None):
        raise UsageError("Give a pipeline either as pipeline= or as filepath=.")
    value: Any = pipeline
    if filepath is not None:
        value = _read_pipeline(await anyio.Path(filepath).read_bytes())
    if isinstance(value, str):
        return {"pipeline": value, "source": source}
    inner = value.get("pipeline")
    flat = inner if isinstance(inner, dict) else value
    return {"pipeline": {**flat, "source": source} if source is not None else flat}


def _read_pipeline(content: bytes) -> Any:
    """The pipeline as an object, or as text when it has comments: reading those is the server's part."""
    try:
        return decode(content)
    except ParseError:
        return content.decode("utf-8", "replace")


QUESTION_TYPE: Final = "application/rocketride-question"


def question_content(question: str | Mapping[str, Any]) -> bytes:
    """The bytes of a question object, or of a new one for a text. Raises `UsageError` for what is not JSON."""
    asked = {"type": "question", "questions": [{"text": question}]} if isinstance(question, str) else question
    try:
        return encode(asked)
    except ValueError as error:
        raise UsageError(f"the question is not JSON: {error}") from error
