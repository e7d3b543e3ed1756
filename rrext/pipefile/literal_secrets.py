"""Secrets that stand literally in a pipeline file, with the pointers of their texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from rrext.limits import MIN_LITERAL_SECRET
from rrext.pipefile.environment import NEVER, PREFIX
from rrext.pipefile.text.pointer import below
from rrext.secrets.names import SECURE, secret_in


class LiteralSecret(msgspec.Struct, frozen=True, gc=False):
    """A literal secret: the pointer of its text, the setting, what it is, and the secret itself, which no message may have."""

    path: str
    setting: str
    what: str
    secret: str

    def __repr__(self) -> str:
        return f"<LiteralSecret {self.path}: {self.what}>"


def literal_secrets(config: Any, path: str) -> Iterator[LiteralSecret]:
    """The literal secrets in the settings of a component as they were written. `path` is their pointer."""
    stack: list[tuple[Any, str, str]] = [(config, path, "")]
    while stack:
        value, where, key = stack.pop()
        if isinstance(value, dict):
            stack += [(item, below(where, name), name) for name, item in value.items() if name != SECURE]
        elif isinstance(value, list):
            stack += [(item, below(where, place), key) for place, item in enumerate(value)]
        elif isinstance(value, str) and len(value) >= MIN_LITERAL_SECRET:
            found = secret_in(value, key)
            if found is not None:
                yield LiteralSecret(where, key, *found)


def variable_for(provider: str, key: str) -> str:
    """The name of an environment variable for a setting of a node."""
    name = PREFIX + re.sub("[^A-Za-z0-9]+", "_", f"{provider}_{key}").strip("_").upper()
    return f"{name}_VALUE" if name in NEVER else name
