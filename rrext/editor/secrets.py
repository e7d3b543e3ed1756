"""Secrets in values that an editor shows, because its window is often shared, recorded or projected."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any, Final

from rrext.pipefile.environment import PLACEHOLDER

HIDDEN: Final = "•••"

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_WORDS: Final = frozenset({"auth", "bearer", "cookie", "cookies", "dsn", "pwd", "token"})
"""Words that mark a secret: `token` does, `maxTokens` and `author` do not."""
_ANYWHERE: Final = (
    "accesskey",
    "apikey",
    "authorization",
    "connectionstring",
    "credential",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "secret",
)
"""Parts of a key that mark a secret."""
_OPEN_KEYS: Final = frozenset({"cache", "foreign", "group", "lane", "partition", "primary", "public", "result", "row", "sort"})
"""Words before `key` that make it harmless."""
_IN_URL: Final = re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]+(?=@)")
_VARIABLES: Final = re.compile(rf"(?:{PLACEHOLDER})+")


def is_secret(key: str) -> bool:
    """Whether a key likely names a secret: `api_key` does, `maxTokens` does not."""
    words = [word.lower() for word in _WORD.findall(key)]
    folded = "".join(words)
    if key == "secureParameters" or not _WORDS.isdisjoint(words) or any(name in folded for name in _ANYWHERE):
        return True
    return any(after in ("key", "keys") and word not in _OPEN_KEYS for word, after in pairwise(words))


def masked(value: Any, key: str = "", *, everything: bool = False) -> Any:
    """A JSON value with every secret hidden. Variables stay, because they are names and not values.

    Below a secret key, strings are hidden; below `secureParameters`, or with `everything`, all scalars except empty ones.
    """
    everything = everything or key == "secureParameters"
    return _masked(value, is_secret(key) or everything, everything)


def _masked(value: Any, secret: bool, everything: bool) -> Any:
    if isinstance(value, dict):
        return {
            key: _masked(item, secret or is_secret(key), everything or key == "secureParameters") for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_masked(item, secret, everything) for item in value]
    if isinstance(value, str):
        if not value or _VARIABLES.fullmatch(value):
            return value
        return HIDDEN if secret else _IN_URL.sub(rf"\1:{HIDDEN}", value)
    return HIDDEN if everything and value is not None else value
