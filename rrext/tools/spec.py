"""One tool of one owner: how it is described, how its input is checked, how it is called, how its result leaves."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from rrext.errors import ResultTooLarge, ToolError
from rrext.limits import Limits
from rrext.tools.context import ToolContext
from rrext.tools.decorator import Kind, ThreadChoice, ToolDefinitionError, ToolOptions, check_name, kind_of
from rrext.tools.results import NotJson, encode_json

if TYPE_CHECKING:
    from rrext.tools.arguments import InputPlan
    from rrext.tools.docstrings import Docstring
    from rrext.tools.signature import Signature
    from rrext.tools.validation import SchemaValidator

__all__ = ["ToolSpec"]

_log = logging.getLogger(__name__)

_KEPT_SCHEMAS = 64
"""Schemas that callables of one tool gave, and that are kept compiled; pipelines have few configs of one node."""


class ToolSpec:
    """A tool, ready to be described and called. It is the same for all calls, and all of them may use it at once.

    Signature, schemas and validators are looked into when they are first needed, and kept. What is wrong with the tool's
    definition raises `ToolDefinitionError` then.
    """

    __slots__ = (
        "_doubted", "_facts", "annotations", "bound", "function", "group", "has_predicate", "kind", "name", "options",
        "owner", "static", "thread", "timeout",
    )  # fmt: skip

    def __init__(
        self,
        function: Callable[..., Any],
        options: ToolOptions,
        *,
        owner: type | None,
        bound: bool,
        facts: _Facts | None = None,
    ) -> None:
        self.function = function
        self.options = options
        self.owner = owner
        """The class that defines the tool; None for a free function."""
        self.bound = bound
        """Whether the function takes the node first."""
        self.name: str = options.name
        self.kind: Kind = kind_of(function)
        self.thread: ThreadChoice = options.thread
        self.timeout: float | None = options.timeout
        self.group: str | None = options.group
        self.annotations: Mapping[str, Any] | None = options.annotations
        self.has_predicate: bool = options.available is not None
        self.static: bool = not any(map(callable, (options.description, options.input_schema, options.output_schema)))
        """Whether it can be described without a node."""
        self._facts = facts if facts is not None else _Facts(function, options, owner, bound)
        self._doubted = False

    @property
    def origin(self) -> str:
        """Where its author finds it."""
        return f"{self.function.__module__}.{self.function.__qualname__}"

    @property
    def wants_context(self) -> bool:
        """Whether the function has a parameter for the context."""
        return self._facts.signature.context is not None

    @property
    def chunks_described(self) -> bool:
        """Of a generator: whether `output_schema` describes its chunks, because it returns no value."""
        return self._facts.chunks_described

    def replace(self, *, name: str | None = None, description: str | None = None) -> ToolSpec:
        """The same tool under another name or with another description; its parameters stay."""
        options = msgspec.structs.replace(
            self.options,
            name=self.name if name is None else check_name(name),
            description=self.options.description if description is None else description,
        )
        return ToolSpec(self.function, options, owner=self.owner, bound=self.bound, facts=self._facts)

    def describe(self, node: Any) -> dict[str, Any]:
        """`{name, description, inputSchema, outputSchema?, annotations?, group?}`. `node` may be None if `static`.

        The dict is new, the schemas in it are shared: do not change them.
        """
        found: dict[str, Any] = {"name": self.name, "description": self._description(node)}
        found["inputSchema"] = self._input(node).schema
        output = self._output_schema(node)
        if output is not None:
            found["outputSchema"] = output
        if self.annotations is not None:
            found["annotations"] = dict(self.annotations)
        if self.group is not None:
            found["group"] = self.group
        return found

    def structure(self, node: Any, input: Any, limits: Limits) -> dict[str, Any]:
        """The keyword arguments for an input; None is an empty one. Raises `InvalidArguments`, pointers below `/input`."""
        plan = self._facts.input
        return (self._input(node) if plan is None else plan).arguments(input, limits)

    def call(self, node: Any, kwargs: dict[str, Any], ctx: ToolContext | None) -> Any:
        """Call the function with what `structure` gave: its value, coroutine or generator. `kwargs` is used up."""
        signature = self._facts.signature
        if signature.context is not None and (ctx is not None or not signature.optional_context):
            kwargs[signature.context] = ctx if ctx is not None else ToolContext()
        return self.function(node, **kwargs) if self.bound else self.function(**kwargs)

    def is_available(self, node: Any, ctx: ToolContext | None) -> bool:
        """Whether this context may see and call the tool now. A predicate that raises says no, and is logged once."""
        if not self.has_predicate:
            return True
        try:
            return self._facts.predicate(node, ctx if ctx is not None else ToolContext())
        except Exception:
            if not self._doubted:
                self._doubted = True
                _log.exception("available of tool %s (%s) failed: the tool is hidden", self.name, self.origin)
            return False

    def encode(self, node: Any, value: Any, limits: Limits) -> bytes:
        """A result as JSON. Raises `ToolError` with the place if it is no JSON or breaks `output_schema`, and
        `ResultTooLarge`."""
        return self._encoded(node, value, limits, "result", checked=not self._facts.chunks_described)

    def encode_chunk(self, node: Any, value: Any, limits: Limits, *, checked: bool) -> bytes:
        """A chunk of a generator as JSON; `checked` says whether `output_schema` describes it. Raises as `encode`."""
        return self._encoded(node, value, limits, "chunk", checked=checked)

    def _encoded(self, node: Any, value: Any, limits: Limits, what: str, *, checked: bool) -> bytes:
        try:
            raw = encode_json(value)
        except NotJson as error:
            message = f'The {what} of tool "{self.name}" is no JSON: {error.reason} at {error.path or "its root"}'
            raise ToolError(message, data={"path": error.path}) from None
        if len(raw) > limits.max_result:
            raise ResultTooLarge(
                f'The {what} of tool "{self.name}" has {len(raw):,} bytes: max_result is {limits.max_result:,}',
                data={"limit": "max_result", "max": limits.max_result, "size": len(raw)},
            )
        if checked and self.options.output_schema is not None:
            self._check_output(node, raw, limits, what)
        return raw

    def _check_output(self, node: Any, raw: bytes, limits: Limits, what: str) -> None:
        """Check what is sent, not what it was made from: then classes, tuples and bytes are what the caller gets."""
        from rrext.tools.validation import pointer

        validator = self._facts.output(self._output_schema(node))
        value = msgspec.json.decode(raw)
        if validator.fits(value):
            return
        found = [(pointer("", path), message) for path, message in validator.problems(value, limits.max_errors)]
        path, message = found[0] if found else ("", "does not fit")
        raise ToolError(
            f'The {what} of tool "{self.name}" breaks its output_schema: {path or "its root"}: {message}',
            data={"path": path, "errors": [{"path": p, "message": m} for p, m in found]},
        )

    def _description(self, node: Any) -> str:
        given = self.options.description
        text = self._facts.docstring.text if given is None else _asked(self, "description", given, node, str)
        config = getattr(node, "config", None)
        before = config.get("tool_description") if isinstance(config, Mapping) else getattr(config, "tool_description", None)
        return f"{before}\n\n{text}".strip() if isinstance(before, str) and before else text

    def _input(self, node: Any) -> InputPlan:
        given = self.options.input_schema
        return self._facts.input_plan(None if given is None else _asked(self, "input_schema", given, node, Mapping))

    def _output_schema(self, node: Any) -> Mapping[str, Any] | None:
        given = self.options.output_schema
        return None if given is None else _asked(self, "output_schema", given, node, Mapping)

    def __repr__(self) -> str:
        return f"<ToolSpec {self.name} of {self.origin}>"


def _asked(spec: ToolSpec, option: str, value: Any, node: Any, kind: type) -> Any:
    """An option's value; a callable is asked with the node, each time."""
    if not callable(value):
        return value
    try:
        answer = value(node)
    except Exception as error:
        raise ToolDefinitionError(f"{option} of tool {spec.name} ({spec.origin}) failed: {type(error).__name__}: {error}") from error
    if not isinstance(answer, kind):
        raise ToolDefinitionError(f"{option} of tool {spec.name} ({spec.origin}) gave {type(answer).__name__}, not {kind.__name__}")
    return answer


class _Facts:
    """What there is to know about one function, found out when it is first asked for. Shared by copies of a tool."""

    __slots__ = (
        "_bound", "_chunks", "_docstring", "_function", "_inputs", "_lock", "_options", "_outputs", "_owner", "_predicate",
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
        self._predicate: Callable[[Any, ToolContext], bool] | None = None
        self._chunks: bool | None = None
        self._inputs: dict[bytes, InputPlan] = {}
        self._outputs: dict[bytes, SchemaValidator] = {}
        self.input: InputPlan | None = None
        """The plan of the input, once it is made and if it never changes."""

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
        """The docstring; an override without one has that of the method that it overrides."""
        if self._function.__doc__ is not None or self._owner is None:
            return self._function.__doc__
        bases = (vars(base).get(self._function.__name__) for base in self._owner.__mro__)
        return next((doc for doc in (getattr(method, "__doc__", None) for method in bases) if doc), None)

    def input_plan(self, schema: Mapping[str, Any] | None) -> InputPlan:
        """The plan for a schema that the author gave, or for the one of the signature."""
        from rrext.tools.arguments import derived_input, given_input
        from rrext.tools.forms import UnsupportedType
        from rrext.tools.validation import InvalidSchema

        with self._lock:
            try:
                if schema is None:
                    if self.input is None:
                        self.input = derived_input(self.signature, self.docstring.parameters)
                    return self.input
                plan = _kept(self._inputs, schema, lambda: given_input(self.signature, schema))
                if not callable(self._options.input_schema):
                    self.input = plan
                return plan
            except (UnsupportedType, InvalidSchema) as error:
                raise self._unusable(error) from None

    def output(self, schema: Mapping[str, Any] | None) -> SchemaValidator:
        """The validator of a result."""
        from rrext.tools.validation import InvalidSchema, SchemaValidator

        def compiled() -> SchemaValidator:
            validator = SchemaValidator(schema or {})
            validator.compile()
            return validator

        with self._lock:
            try:
                return _kept(self._outputs, schema or {}, compiled)
            except InvalidSchema as error:
                raise self._unusable(error) from None

    def _unusable(self, error: Exception) -> ToolDefinitionError:
        function = self._function
        return ToolDefinitionError(f"Tool {self._options.name} ({function.__module__}.{function.__qualname__}): {error}")

    @property
    def predicate(self) -> Callable[[Any, ToolContext], bool]:
        """`available` as a function of node and context."""
        if self._predicate is None:
            self._predicate = _predicate(self._options.available)
        return self._predicate

    @property
    def chunks_described(self) -> bool:
        if self._chunks is None:
            from rrext.tools.generators import returns_value

            kind = kind_of(self._function)
            self._chunks = kind == "async_generator" or (kind == "generator" and not returns_value(self._function))
        return self._chunks


def _kept(known: dict[bytes, Any], schema: Mapping[str, Any], make: Callable[[], Any]) -> Any:
    """What was made for an equal schema, or a new one; the oldest goes when there are too many."""
    key = msgspec.json.encode(schema)
    found = known.get(key)
    if found is None:
        if len(known) >= _KEPT_SCHEMAS:
            del known[next(iter(known))]
        found = known[key] = make()
    return found


def _predicate(available: Any) -> Callable[[Any, ToolContext], bool]:
    """A predicate takes the context, or the node and the context."""
    import inspect

    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    places = [p for p in inspect.signature(available).parameters.values() if p.kind in kinds and p.default is p.empty]
    if len(places) == 2:
        return lambda node, ctx: bool(available(node, ctx))
    return lambda node, ctx: bool(available(ctx))
