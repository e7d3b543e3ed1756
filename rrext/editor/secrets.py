"""Values that are not for showing: an editor's window is often shared, recorded or projected."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any, Final

from rrext.pipefile.environment import PLACEHOLDER

__all__ = ["HIDDEN", "is_secret", "masked"]

HIDDEN: Final = "•••"

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_WORDS: Final = frozenset({"auth", "bearer", "cookie", "cookies", "dsn", "pwd", "token"})
"""Secret as a word of their own: `token` is, `maxTokens` and `author` are not."""
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
"""Secret wherever they stand in a key."""
_OPEN_KEYS: Final = frozenset({"cache", "foreign", "group", "lane", "partition", "primary", "public", "result", "row", "sort"})
"""What makes a `key` something else than one that opens a door."""
_IN_URL: Final = re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]+(?=@)")
_VARIABLES: Final = re.compile(rf"(?:{PLACEHOLDER})+")


def is_secret(key: str) -> bool:
    """Whether a value under this key is likely to be one that opens something. `maxTokens` is none, `api_key` is."""
    words = [word.lower() for word in _WORD.findall(key)]
    folded = "".join(words)
    if key == "secureParameters" or not _WORDS.isdisjoint(words) or any(name in folded for name in _ANYWHERE):
        return True
    return any(after in ("key", "keys") and word not in _OPEN_KEYS for word, after in pairwise(words))


def masked(value: Any, key: str = "", *, everything: bool = False) -> Any:
    """A JSON value with every secret hidden. Variables stay as they are written: they name a value and are none.

    Below a secret key, texts are hidden; below `secureParameters`, or with `everything`, all that is neither empty nor a
    container is.
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
