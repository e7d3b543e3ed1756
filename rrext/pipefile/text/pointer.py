"""JSON pointers (RFC 6901), which name places in a pipeline."""

from __future__ import annotations


def pointer(*parts: str | int) -> str:
    """`("components", 0, "a/b")` → `/components/0/a~1b`; nothing → the empty pointer, the whole document."""
    return below("", *parts)


def below(path: str, *parts: str | int) -> str:
    """The pointer of a value inside the value at `path`."""
    for part in parts:
        path += f"/{part}" if type(part) is int else f"/{_escaped(str(part))}"
    return path


def parts_of(path: str) -> list[str]:
    """The keys and indexes of a pointer, unescaped. List indexes stay strings."""
    if not path:
        return []
    return [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]


def _escaped(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1") if "~" in part or "/" in part else part
