"""Variables in pipeline files, `${NAME}`: the readable names, and the substitution of their values.

The variables of this process that pipelines may read are taken out of its environment: children inherit none of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from rrext.pipefile.text.problems import below
from rrext.secrets.names import PLACEHOLDER
from rrext.secrets.redaction import Redactor

ORDINARY: Final = frozenset(
    {"HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "PYTHONPATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV"}
)
"""Variables with which every program finds its files and its language: no secrets, and they stay where they are."""

_ENV_START: Final = 47
"""Where the start of the environment stands in /proc/self/stat, counted from behind the program's name (proc_pid_stat(5))."""


def take_variables(prefix: str | tuple[()], names: Iterable[str]) -> dict[str, str]:
    """The variables with a prefix, if one is given, and those of the names. This process has them in its environment no more.

    Names in `ORDINARY` keep their variable.
    """
    wanted = frozenset(names)
    found = {name: value for name, value in os.environ.items() if name.startswith(prefix) or name in wanted}
    taken = found.keys() - ORDINARY
    for name in taken:
        del os.environ[name]
    if taken:
        with suppress(OSError, ValueError, IndexError):  # not Linux, or a system that does not let a process do that
            _overwrite(taken)
    return found


def _overwrite(names: Collection[str]) -> None:
    """Put zeros where the process had the values when it began: /proc/PID/environ shows that to its user for ever."""
    with open("/proc/self/stat", "rb") as status:
        start, end = map(int, status.read().rpartition(b")")[2].split()[_ENV_START : _ENV_START + 2])
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(start)
        at = start
        for entry in memory.read(end - start).split(b"\0"):
            name, _, value = entry.partition(b"=")
            if os.fsdecode(name) in names:
                memory.seek(at + len(entry) - len(value))
                memory.write(bytes(len(value)))
            at += len(entry) + 1


PREFIX: Final = "ROCKETRIDE_"
NEVER: Final = frozenset({"ROCKETRIDE_APIKEY", "ROCKETRIDE_URI", "ROCKETRIDE_DEPLOY_APIKEY", "ROCKETRIDE_DEPLOY_URI"})
"""The server's own credentials for other servers; no pipeline may ever read them."""


class Environment:
    """The variables that a pipeline may read: `ROCKETRIDE_*` and the names that the operator gave, with their values.

    `redactor` knows each value that was put into a pipeline, and takes it out of texts.
    """

    def __init__(
        self,
        values: Mapping[str, str] | None = None,
        names: Iterable[str] = (),
        redactor: Redactor | None = None,
        given: frozenset[str] = frozenset(),
    ) -> None:
        self.redactor = redactor or Redactor()
        self.given = given
        """The names whose values came with an `execute`: the redactor may forget them for newer ones, and no others."""
        self._names = frozenset(names) - NEVER
        self._values = {name: value for name, value in (values or {}).items() if self.may_read(name)}

    @classmethod
    def of_process(cls, names: Iterable[str] = ()) -> Environment:
        """The variables of this process, for pipelines of the operator."""
        return cls(os.environ, names)

    @classmethod
    def taken_from_process(cls, names: Iterable[str] = (), also: Iterable[str] = ()) -> Environment:
        """Like `of_process`, and remove the variables from this process's environment, so that no child inherits them.

        Those of `also` are removed too, and no pipeline may read them for that.
        """
        names = frozenset(names)
        return cls(take_variables(PREFIX, names.union(also)), names)

    def for_client(self, env: Mapping[str, str] | None) -> Environment:
        """The environment of a network client: its own `env`, and only those variables that the operator named."""
        own = {name: value for name, value in self._values.items() if name in self._names}
        return Environment({**own, **(env or {})}, self._names, self.redactor, self.given.union(env or ()))

    def with_values(self, env: Mapping[str, str] | None) -> Environment:
        """Copy this environment and add the `env` of an `execute`, whose values win."""
        if not env:
            return self
        return Environment({**self._values, **env}, self._names, self.redactor, self.given.union(env))

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


class Substitution:
    """The result of replacing the variables of one document.

    `unresolved` has (pointer, name) of each variable without a value; its text is left as it was. `used` says whether any
    other was replaced: the environment's redactor knows its value from then on.
    """

    __slots__ = ("unresolved", "used", "value")

    def __init__(self) -> None:
        self.value: Any = None
        self.unresolved: list[tuple[str, str]] = []
        self.used = False

    def resolve(self, text: str, path: str, environment: Environment) -> str:
        """Replace the variables of one text."""

        def value_of(match: re.Match[str]) -> str:
            name = match[1]
            value = environment.get(name)
            if value is None:
                self.unresolved.append((path, name))
                return match[0]
            environment.redactor.learn(name, value, always=name not in environment.given)
            self.used = True
            return value

        return re.sub(PLACEHOLDER, value_of, text)


def substitute(value: Any, environment: Environment, path: str = "") -> Substitution:
    """Replace `${NAME}` in every text value, not in keys. The original stays as it is. `path` is where the value stands.

    The value is put in after parsing, so it can hold quotes and anything else. `${…}` around something that is no
    name of a variable is left alone.
    """
    done = Substitution()
    done.value = _resolved(value, environment, path, done) if _may_hold_variables(value) else value
    return done


def _may_hold_variables(value: Any) -> bool:
    pending = [value]
    for item in pending:  # the list grows meanwhile
        kind = type(item)
        if kind is str:
            if "${" in item:
                return True
        elif kind is dict:
            pending.extend(item.values())
        elif kind is list:
            pending.extend(item)
    return False


def _resolved(value: Any, environment: Environment, path: str, done: Substitution) -> Any:
    kind = type(value)
    if kind is str:
        return done.resolve(value, path, environment) if "${" in value else value
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
        new = _resolved(item, environment, below(path, key), done)
        if new is not item:
            if copy is None:
                copy = value.copy()
            copy[key] = new
    return value if copy is None else copy
