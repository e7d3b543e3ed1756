"""A question of the questions lane as the messages of a chat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from rrext.nodes.base.lanes import question_text

Message = dict[str, str]
"""`{role, content}`."""

ROLES: Final = ("system", "user", "assistant")
JSON_ONLY: Final = "Answer with one JSON value and nothing else: no other words, no code fence."


def messages_of(question: Mapping[str, Any], *, expect_json: bool = False) -> list[Message]:
    """The messages of a question; an empty list for an empty question.

    One of the system has the role that the model plays, instructions, goals and examples, and with `expect_json` that JSON
    is asked for. The history follows as it was said. The last one, of the user, has context, documents and then the
    questions. A part that is empty leaves nothing behind.
    """
    system = [_line(question.get("role")), *_instructions(question), _goals(question), *_examples(question)]
    user = [*_context(question), *_documents(question), question_text(question).strip()]
    asked = "\n\n".join(part for part in user if part)
    told = "\n\n".join(part for part in system if part)
    if expect_json and (told or asked):
        told = f"{told}\n\n{JSON_ONLY}" if told else JSON_ONLY
    history = [message for item in _items(question, "history") if (message := _said(item))]
    messages = [{"role": "system", "content": told}] if told else []
    messages += history
    if asked:
        messages.append({"role": "user", "content": asked})
    return messages


def _items(question: Mapping[str, Any], key: str) -> list[Any]:
    value = question.get(key)
    return value if isinstance(value, list) else []


def _line(value: Any) -> str:
    """A text without spaces around it; another value as JSON."""
    if value is None:
        return ""
    return (value if isinstance(value, str) else msgspec.json.encode(value).decode()).strip()


def _instructions(question: Mapping[str, Any]) -> list[str]:
    found = []
    for item in _items(question, "instructions"):
        if isinstance(item, Mapping):
            title, text = _line(item.get("subtitle")), _line(item.get("instructions"))
            found.append(f"{title}:\n{text}" if title and text else text or title)
        else:
            found.append(_line(item))
    return found


def _goals(question: Mapping[str, Any]) -> str:
    goals = [f"- {line}" for item in _items(question, "goals") if (line := _line(item))]
    return "\n".join(["Goals:", *goals]) if goals else ""


def _examples(question: Mapping[str, Any]) -> list[str]:
    found = []
    for item in _items(question, "examples"):
        if isinstance(item, Mapping):
            found.append(f"Example.\nGiven: {_line(item.get('given'))}\nAnswer: {_line(item.get('result'))}".rstrip())
        elif line := _line(item):
            found.append(f"Example.\n{line}")
    return found


def _context(question: Mapping[str, Any]) -> list[str]:
    return [f"Context:\n{line}" for item in _items(question, "context") if (line := _line(item))]


def _documents(question: Mapping[str, Any]) -> list[str]:
    """Each document with its number and source, so that an answer can cite it."""
    found = []
    for item in _items(question, "documents"):
        document = item if isinstance(item, Mapping) else {"page_content": item}
        content = _line(document.get("page_content"))
        if not content:
            continue
        metadata = document.get("metadata")
        metadata = metadata if isinstance(metadata, Mapping) else {}
        source = _line(metadata.get("parent")) or _line(metadata.get("objectId"))
        found.append(f"Document {len(found) + 1}{f' ({source})' if source else ''}:\n{content}")
    return found


def _said(item: Any) -> Message | None:
    if not isinstance(item, Mapping):
        return None
    content = _line(item.get("content"))
    role = str(item.get("role") or "user").lower()
    return {"role": role if role in ROLES else "user", "content": content} if content else None
