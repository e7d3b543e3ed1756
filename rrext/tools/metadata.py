"""Metadata of a tool's function: signature, docstring, schemas; each is computed at first use."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from rrext.limits import MAX_KEPT_SCHEMAS
from rrext.tools.decorator import ToolDefinitionError, ToolOptions, kind_of
from rrext.tools.results import NotJson, encode_json
from rrext.tools.validation import InvalidSchema, SchemaValidator

if TYPE_CHECKING:
    from rrext.tools.arguments import InputPlan
    from rrext.tools.docstrings import Docstring
    from rrext.tools.signature import Signature


_NO_CLASS: Final = re.compile(r"<class '(?:str|int|float|bool|bytes|dict|list)'>|(?:[a-z\[\], |.]|typing\.|Any|None)*")
"""An annotation without a class of its own, as text."""


class FunctionMetadata:
    """Metadata of one function, computed at first use. Copies of a tool share it."""

    __slots__ = (
        "_bound", "_chunks", "_docstring", "_function", "_inputs", "_lock", "_options", "_outputs", "_owner", "_returned",
        "_signature", "input",
    )  # fmt: skip

    def __init__(self, function: Callable[..., Any], options: ToolOptions, owner: type | None, bound: bool) -> None:
        self._function = function
        self._options = options
        self._owner = owner
        self._bound = bound
        self._lock = threading.RLock()
        self._signature: Signature | None = None
        self._docstring: Docstring | None = None
        self._chunks: bool | None = None
        self._returned: tuple[Mapping[str, Any] | None] | None = None
        self._inputs: dict[bytes, InputPlan] = {}
        self._outputs: dict[bytes, SchemaValidator] = {}
        self.input: InputPlan | None = None
        """The input plan, if it is made and never changes."""

    @property
    def signature(self) -> Signature:
        if self._signature is None:
            from rrext.tools.signature import read_signature

            with self._lock:
                self._signature = read_signature(self._function, self._owner, bound=self._bound)
        return self._signature

    @property
    def docstring(self) -> Docstring:
        if self._docstring is None:
            from rrext.tools.docstrings import parse_docstring

            self._docstring = parse_docstring(self._doc())
        return self._docstring

    def _doc(self) -> str | None:
        """The docstring; for an override without one, the docstring of the overridden method."""
        if self._function.__doc__ is not None or self._owner is None:
            return self._function.__doc__
        bases = (vars(base).get(self._function.__name__) for base in self._owner.__mro__)
        return next((doc for doc in (getattr(method, "__doc__", None) for method in bases) if doc), None)

    def input_plan(self, schema: Mapping[str, Any] | None) -> InputPlan:
        """The plan for the author's schema, or for the schema of the signature if `schema` is None."""
        from rrext.tools.arguments import derived_input, given_input
        from rrext.tools.forms import UnsupportedType

        with self._lock:
            try:
                if self.input is not None:
                    return self.input
                if schema is None:
                    self.input = derived_input(self.signature, self.docstring.parameters)
                    return self.input
                plan = _kept(self._inputs, schema, lambda: given_input(self.signature, schema, self._options.takes_input))
                if not callable(self._options.input_schema):
                    self.input = plan
                return plan
            except (UnsupportedType, InvalidSchema) as error:
                raise self.unusable(error) from None

    def output(self, schema: Mapping[str, Any] | None) -> SchemaValidator:
        """The validator of results."""

        def compiled() -> SchemaValidator:
            validator = SchemaValidator(schema or {})
            validator.compile()
            return validator

        with self._lock:
            try:
                return _kept(self._outputs, schema or {}, compiled)
            except InvalidSchema as error:
                raise self.unusable(error) from None

    @property
    def returned(self) -> Mapping[str, Any] | None:
        """The schema of the output that the annotation of the return value says, if it does."""
        if self._returned is None:
            with self._lock:
                self._returned = (self._derived_output(),)
        return self._returned[0]

    def _derived_output(self) -> Mapping[str, Any] | None:
        said = getattr(self._function, "__annotations__", {}).get("return")
        if kind_of(self._function) not in ("sync", "async") or said is None or _NO_CLASS.fullmatch(str(said)):
            return None  # most tools: without the import of what reads types
        from rrext.tools.output import derived_output

        return derived_output(self._function, self._owner)

    def unusable(self, error: Exception) -> ToolDefinitionError:
        """The definition error for an unusable schema or type."""
        function = self._function
        return ToolDefinitionError(f"Tool {self._options.name} ({function.__module__}.{function.__qualname__}): {error}")

    @property
    def chunks_described(self) -> bool:
        if self._chunks is None:
            from rrext.tools.generators import returns_value

            kind = kind_of(self._function)
            self._chunks = kind == "async_generator" or (kind == "generator" and not returns_value(self._function))
        return self._chunks


def _kept(known: dict[bytes, Any], schema: Mapping[str, Any], make: Callable[[], Any]) -> Any:
    """The object made for an equal schema, or a new one; the oldest is dropped when there are too many."""
    try:
        key = encode_json(schema)
    except NotJson as error:
        raise InvalidSchema(f"the schema is no JSON: {error}") from None
    found = known.get(key)
    if found is None:
        if len(known) >= MAX_KEPT_SCHEMAS:
            del known[next(iter(known))]
        found = known[key] = make()
    return found
