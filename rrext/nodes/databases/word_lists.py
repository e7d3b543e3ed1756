"""Sets of words, for lists that are easier to read as a text."""

from __future__ import annotations

from pathlib import Path


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


def words_of(module: str, name: str) -> frozenset[str]:
    """The words in the text file `name` beside a module, which is given by its own path."""
    return words(Path(module).with_name(name).read_text(encoding="ascii"))
