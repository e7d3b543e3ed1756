"""Secrets in values that an editor shows, because its window is often shared, recorded or projected."""

from __future__ import annotations

import re
from typing import Any, Final

from rrext.secrets.names import IN_URL, PLACEHOLDER, SECURE, is_secret

HIDDEN: Final = "•••"

_VARIABLES: Final = rf"(?:{PLACEHOLDER})+"


def masked(value: Any, key: str = "", *, everything: bool = False) -> Any:
    """A JSON value with every secret hidden. Variables stay, because they are names and not values.

    Below a secret key, strings are hidden; below `secureParameters`, or with `everything`, all scalars except empty ones.
    """
    everything = everything or key == SECURE
    return _masked(value, is_secret(key) or everything, everything)


def _masked(value: Any, secret: bool, everything: bool) -> Any:
    if isinstance(value, dict):
        return {key: _masked(item, secret or is_secret(key), everything or key == SECURE) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(item, secret, everything) for item in value]
    if isinstance(value, str):
        if not value or re.fullmatch(_VARIABLES, value):
            return value
        return HIDDEN if secret else re.sub(IN_URL, rf"\1:{HIDDEN}", value)
    return HIDDEN if everything and value is not None else value
