"""`${NAME}` in pipeline files: which names may be read, and where their values go."""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable, Mapping
from typing import Any, Final

from rrext.engine.text.pointer import below

__all__ = ["NEVER", "PLACEHOLDER", "PREFIX", "Environment", "Substitution", "substitute"]

PREFIX: Final = "ROCKETRIDE_"
NEVER: Final = frozenset({"ROCKETRIDE_APIKEY", "ROCKETRIDE_URI", "ROCKETRIDE_DEPLOY_APIKEY", "ROCKETRIDE_DEPLOY_URI"})
"""The server's own access to other servers; no pipeline may read it, whoever allows it."""

PLACEHOLDER: Final = r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}"
"""A variable in a text, as a regular expression; its group is the name."""
_WORD_LIKE: Final = 4  # a shorter value is replaced in messages only where it stands alone


class Environment:
    """The variables that a pipeline may read: `ROCKETRIDE_*` and the names that the operator gave, with their values."""

    __slots__ = ("_names", "_values")

    def __init__(self, values: Mapping[str, str] | None = None, names: Iterable[str] = ()) -> None:
        self._names = frozenset(names) - NEVER
        self._values = {name: value for name, value in (values or {}).items() if self.may_read(name)}

    @classmethod
    def of_process(cls, names: Iterable[str] = ()) -> Environment:
        """What this process has: for pipelines of the operator."""
        return cls(os.environ, names)

    @classmethod
    def of_client(cls, env: Mapping[str, str] | None, names: Iterable[str] = ()) -> Environment:
        """What a client over a network sees: its own `env`, and of this process only the names that the operator gave."""
        names = frozenset(names)
        own = {name: os.environ[name] for name in names if name in os.environ}
        return cls({**own, **(env or {})}, names)

    def with_values(self, env: Mapping[str, str] | None) -> Environment:
        """The same with the `env` of an `execute`, which wins."""
        return Environment({**self._values, **env}, self._names) if env else self

    def may_read(self, name: str) -> bool:
        """Whether pipelines may read this variable at all."""
        return name not in NEVER and (name.startswith(PREFIX) or name in self._names)

    @property
    def names(self) -> tuple[str, ...]:
        """The variables that have a value, sorted."""
        return tuple(sorted(self._values))

    def get(self, name: str) -> str | None:
        """The value of a variable that may be read; None if it has none."""
        return self._values.get(name)

    def __repr__(self) -> str:
        return f"<Environment {', '.join(sorted(self._values)) or 'empty'}>"


class Substitution:
    """What replacing the variables of one document gave.

    `unresolved` has (pointer, name) of each variable without a value; its text is left as it was. The values are secret:
    `redacted` takes them out of every text that a person may read.
    """

    __slots__ = ("_used", "unresolved", "value")

    def __init__(self) -> None:
        self.value: Any = None
        self.unresolved: list[tuple[str, str]] = []
        self._used: dict[str, str] = {}

    def resolve(self, text: str, path: str, environment: Environment) -> str:
        """One text with its variables replaced."""

        def value_of(match: re.Match[str]) -> str:
            name = match[1]
            value = environment.get(name)
            if value is None:
                self.unresolved.append((path, name))
                return match[0]
            self._used[name] = value
            return value

        return re.sub(PLACEHOLDER, value_of, text)

    def redacted(self, text: str) -> str:
        """The text with every value replaced by the name of its variable."""
        for name, value in sorted(self._used.items(), key=lambda item: -len(item[1])):
            if len(value) >= _WORD_LIKE:
                text = text.replace(value, f"${{{name}}}")
            elif value:
                text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", lambda _, name=name: f"${{{name}}}", text)
        return text

    def add(self, other: Substitution, path: str) -> None:
        """Count what was replaced in a value that stands at a pointer as if it was replaced here."""
        self.unresolved += [(path + inner, name) for inner, name in other.unresolved]
        self._used.update(other._used)

    @property
    def found(self) -> bool:
        """Whether there was any variable."""
        return bool(self._used or self.unresolved)

    @property
    def used(self) -> bool:
        """Whether any variable was replaced."""
        return bool(self._used)

    def __repr__(self) -> str:
        return f"<Substitution of {', '.join(self._used) or 'nothing'}>"


def substitute(value: Any, environment: Environment, path: str = "", *, skip: Container[str] = ()) -> Substitution:
    """Replace `${NAME}` in every text value, not in keys, and not at the pointers `skip`. The original stays as it is.

    The value is put in after parsing, so it can hold quotes and anything else. `${…}` around something that is no
    name of a variable is left alone.
    """
    done = Substitution()
    done.value = _resolved(value, environment, path, skip, done) if _may_hold_variables(value) else value
    return done


def _may_hold_variables(value: Any) -> bool:
    pending = [value]
    for item in pending:  # it grows meanwhile
        kind = type(item)
        if kind is str:
            if "${" in item:
                return True
        elif kind is dict:
            pending.extend(item.values())
        elif kind is list:
            pending.extend(item)
    return False


def _resolved(value: Any, environment: Environment, path: str, skip: Container[str], done: Substitution) -> Any:
    kind = type(value)
    if kind is str:
        return done.resolve(value, path, environment) if "${" in value and path not in skip else value
    if kind is dict:
        items: Iterable[tuple[str | int, Any]] = value.items()
    elif kind is list:
        items = enumerate(value)
    else:
        return value
    copy: Any = None
    for key, item in items:
        inner = type(item)
        if inner is not dict and inner is not list and (inner is not str or "${" not in item):
            continue
        new = _resolved(item, environment, below(path, key), skip, done)
        if new is not item:
            if copy is None:
                copy = value.copy()
            copy[key] = new
    return value if copy is None else copy
