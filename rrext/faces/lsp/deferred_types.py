"""The classes of the protocol, each completed by attrs at its first use: completing all 700 is most of the start.

`lsprotocol.types` runs unchanged, in a namespace whose `attrs.define` marks a class instead of completing it. A marked class
becomes what `attrs.define` makes of it, without slots, when it is called or when its fields are read. If lsprotocol is written
differently one day, its classes are complete from the start.
"""

from __future__ import annotations

import builtins
import importlib.util
import sys
import threading
import typing
from typing import Any, Final

import attrs

NAME: Final = "lsprotocol.types"


class _Attrs:
    """The module `attrs`, except that a plain `@define` marks a class."""

    def __init__(self, names: dict[str, Any]) -> None:
        self._names = names
        self._building = threading.RLock()
        self._fields = _Fields(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(attrs, name)

    def define(self, wanted: type | None = None, **options: Any) -> Any:
        """Mark a class. One with options, or with a base class that has fields, is completed at once."""
        if wanted is None or options or any("__attrs_attrs__" in base.__dict__ for base in wanted.__mro__[1:]):
            return attrs.define(wanted, **options)
        setattr(wanted, "__attrs_attrs__", self._fields)  # noqa: B010 (pyright knows no such member)
        setattr(wanted, "__init__", _first_call(self))  # noqa: B010
        return wanted

    def complete(self, marked: type) -> None:
        """Complete a class, if no thread has done so."""
        with self._building:
            if marked.__dict__.get("__attrs_attrs__") is self._fields:
                hints = typing.get_type_hints(marked, self._names, {}, include_extras=True)
                marked.__annotations__ = {name: hints[name] for name in marked.__annotations__}
                attrs.define(marked, slots=False, init=True)


class _Fields:
    """The fields of a marked class: reading them completes it."""

    def __init__(self, of: _Attrs) -> None:
        self._of = of

    def __get__(self, _: object, owner: type) -> Any:
        self._of.complete(owner)
        return owner.__dict__["__attrs_attrs__"]


def _first_call(of: _Attrs) -> Any:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        of.complete(type(self))
        type(self).__init__(self, *args, **kwargs)

    return __init__


def load_protocol_types() -> None:
    """Import `lsprotocol.types` with deferred classes, unless it is imported already."""
    spec = importlib.util.find_spec(NAME)
    if NAME in sys.modules or spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    names = module.__dict__
    deferring = _Attrs(names)

    def imported(name: str, *args: Any) -> Any:
        return deferring if name == "attrs" else __import__(name, *args)

    names["__builtins__"] = {**builtins.__dict__, "__import__": imported}
    sys.modules[NAME] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[NAME]
        raise
    setattr(sys.modules["lsprotocol"], "types", module)  # noqa: B010 (as an import does)

    importlib.import_module("lsprotocol.converters")
    hooks = sys.modules.get("lsprotocol._hooks")
    if hasattr(hooks, "_resolved_forward_references"):  # a class resolves its own when it is completed
        setattr(hooks, "_resolved_forward_references", True)  # noqa: B010
