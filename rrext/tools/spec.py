"""One tool of one owner: its description, the check of its input, its call, the encoding of its result; and the registry of
the tools of a class, with the predicates that say who may see and call them.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_args, get_origin, get_type_hints

import msgspec

from rrext.content import Content, encoded_structure
from rrext.errors import ResultTooLarge, ToolError
from rrext.limits import MAX_KEPT_SCHEMAS, Limits
from rrext.tools.context import ToolContext
from rrext.tools.decorator import MARK, Kind, ThreadChoice, ToolDefinitionError, ToolOptions, check_name, kind_of, options_of
from rrext.tools.results import LARGE_TEXT, LARGE_VALUES, NotJson, encode_json
from rrext.tools.validation import InvalidSchema, SchemaValidator, pointer

if TYPE_CHECKING:
    from rrext.tools.arguments import InputPlan
    from rrext.tools.signature import Docstring, Signature


_log = logging.getLogger(__name__)

_UNASKED: Any = object()
"""A context parameter or an output schema that is not determined yet."""


class ToolSpec:
    """A tool, ready to be described and called. All calls share it, concurrently.

    Signature, schemas and validators are computed at first use, and kept. An invalid definition raises `ToolDefinitionError`
    then.
    """

    __slots__ = (
        "_context",
        "_metadata",
        "_output",
        "_plan",
        "_predicate",
        "_predicate_failed",
        "_validator",
        "annotations",
        "bound",
        "function",
        "group",
        "has_predicate",
        "is_def",
        "kind",
        "name",
        "options",
        "owner",
        "static",
        "thread",
        "timeout",
    )

    def __init__(
        self,
        function: Callable[..., Any],
        options: ToolOptions,
        *,
        owner: type | None,
        bound: bool,
        metadata: FunctionMetadata | None = None,
    ) -> None:
        self.function: Callable[..., Any] = function
        self.options: ToolOptions = options
        self.owner: type | None = owner
        """The class that defines the tool; None for a free function."""
        self.bound: bool = bound
        """Whether the function takes the node as its first argument."""
        self.name: str = options.name
        self.kind: Kind = kind_of(function)
        self.is_def: bool = self.kind in ("sync", "generator")
        """Whether the function is no coroutine, and may block its thread."""
        self.thread: ThreadChoice = options.thread
        self.timeout: float | None = options.timeout
        self.group: str | None = options.group
        self.annotations: Mapping[str, Any] | None = options.annotations
        self.has_predicate: bool = options.available is not None
        self.static: bool = not any(map(callable, (options.description, options.input_schema, options.output_schema)))
        """Whether the description needs no node."""
        self._metadata = metadata if metadata is not None else FunctionMetadata(function, options, owner, bound)
        self._context: str | None = _UNASKED
        may_derive = options.output_schema is None and self.kind in ("sync", "async")
        self._output = _UNASKED if may_derive else options.output_schema
        self._plan: InputPlan | None = None
        self._validator: SchemaValidator | None = None
        self._predicate: Predicate | None = None
        self._predicate_failed = False

    @property
    def origin(self) -> str:
        """The dotted name of the function, for its author."""
        return f"{self.function.__module__}.{self.function.__qualname__}"

    @property
    def wants_context(self) -> bool:
        """Whether the function has a parameter for the context."""
        if self._context is _UNASKED:
            self._context = self._metadata.signature.context
        return self._context is not None

    @property
    def chunks_described(self) -> bool:
        """Whether `output_schema` describes the chunks of a generator, because it returns no value."""
        return self._metadata.chunks_described

    def replace(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        input_schema: Mapping[str, Any] | None = None,
        arguments: Mapping[str, Any] | None = None,
        parameters: Mapping[str, Mapping[str, Any]] | None = None,
        available: Callable[..., Any] | None = None,
        timeout: float | None = None,
    ) -> ToolSpec:
        """The same tool with other options; omitted ones stay.

        `arguments` are fixed: they leave the schema, and callers cannot give them. `parameters` maps names to narrower
        schemas, which hold besides the original ones. `available` holds besides the tool's own predicate. Of two timeouts
        the shorter one holds. The result costs no more per call than this tool, unless something is fixed or narrowed.
        """
        options = msgspec.structs.replace(
            self.options,
            name=self.name if name is None else check_name(name),
            description=self.options.description if description is None else description,
            input_schema=self.options.input_schema if input_schema is None else input_schema,
            available=both(self.options.available, available),
            for_models=True,  # a reference names it
            timeout=min((seconds for seconds in (self.timeout, timeout) if seconds is not None), default=None),
        )
        metadata = self._metadata if input_schema is None else None
        copy = self._copy(options, metadata)
        if not arguments and not parameters:
            return copy
        from rrext.tools.narrowed_spec import NarrowedSpec

        return NarrowedSpec(copy, arguments or {}, parameters or {})

    def _copy(self, options: ToolOptions, metadata: FunctionMetadata | None) -> ToolSpec:
        return ToolSpec(self.function, options, owner=self.owner, bound=self.bound, metadata=metadata)

    def describe(self, node: Any) -> dict[str, Any]:
        """`{name, description, inputSchema, outputSchema?, annotations?, group?}`. `node` may be None if `static`.

        The dict is new, its schemas are shared: do not change them.
        """
        found: dict[str, Any] = {"name": self.name, "description": self._description(node)}
        found["inputSchema"] = self.plan(node).schema
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
        plan = self._plan or self.plan(node)
        try:
            return plan.arguments(input, limits)
        except InvalidSchema as error:
            raise self._metadata.unusable(error) from None

    def plan(self, node: Any) -> InputPlan:
        """The steps from an input to the arguments, made once, except for a node that decides on the schema."""
        plan = self._plan
        if plan is None:
            plan = self._input(node)
            if not callable(self.options.input_schema):
                self._plan = plan
        return plan

    def invoke(self, node: Any, kwargs: dict[str, Any], context: Callable[[], ToolContext]) -> Any:
        """Call the function with the arguments from `structure`, and with a context if it takes one: its value, coroutine or
        generator. Changes `kwargs`.
        """
        if self.wants_context:
            kwargs[self._context] = context()  # type: ignore[index]
        return self.function(node, **kwargs) if self.bound else self.function(**kwargs)

    def call(self, node: Any, kwargs: dict[str, Any], ctx: ToolContext | None) -> Any:
        """`invoke` with this context; without one a tool gets an empty one, if it needs any."""
        if ctx is None and self.wants_context and self._metadata.signature.optional_context:
            return self.function(node, **kwargs) if self.bound else self.function(**kwargs)
        return self.invoke(node, kwargs, ToolContext if ctx is None else lambda: ctx)

    def is_available(self, node: Any, ctx: ToolContext | None) -> bool:
        """Whether this context may see and call the tool now. A predicate that raises means no, and is logged once."""
        if not self.has_predicate:
            return True
        try:
            predicate = self._predicate
            if predicate is None:
                predicate = self._predicate = predicate_of(self.options.available)
            return predicate(node, ctx if ctx is not None else ToolContext())
        except Exception:
            if not self._predicate_failed:
                self._predicate_failed = True
                _log.exception("available of tool %s (%s) failed: the tool is hidden", self.name, self.origin)
            return False

    def encode(self, node: Any, value: Any, limits: Limits) -> bytes:
        """A result as JSON. Raises `ToolError` with the path of an invalid value or of a breach of `output_schema`, and
        `ResultTooLarge`."""
        try:
            raw = encode_json(value)
        except NotJson as error:
            raise self._no_json("result", error) from None
        if len(raw) > limits.max_result:
            raise self._too_large("result", len(raw), limits)
        if self._output is not None and self._is_described:
            self._check_output("result", node, raw, limits)
        return raw

    def encode_content(self, node: Any, content: Content, limits: Limits) -> bytes:
        """`{content, structuredContent?, _meta?}` as JSON. `output_schema` is that of the structure. Raises as `encode`."""
        members = content.members
        structured = members.pop("structuredContent", None)
        try:
            raw = encode_json(members)
        except NotJson as error:
            raise self._no_json("result", error) from None
        if len(raw) > limits.max_result:
            raise self._too_large("result", len(raw), limits)
        if content.structured is not msgspec.UNSET:
            value = self.encode(node, structured, limits)
            raw = b'%b,"structuredContent":%b}' % (raw[:-1], encoded_structure(value, wraps=self.wraps(node)))
        elif self._is_described:
            raise ToolError(f'The result of tool "{self.name}" has no structured content, which its output_schema describes')
        return raw

    def value_of(self, content: Content) -> Any:
        """The result for callers that ask for no content: what `output_schema` describes, if there is one."""
        return content.structured if content.structured is not msgspec.UNSET and self._is_described else content.value

    def wraps(self, node: Any) -> bool:
        """Whether structured content of this tool is always `{result: value}`: its output is described, and is no object."""
        output = self._output_schema(node) if self._is_described else None
        return output is not None and output.get("type") != "object"

    @property
    def _is_described(self) -> bool:
        """Whether there is a schema of the value that the function returns."""
        if self._output is _UNASKED:
            self._output = self._metadata.returned
        return self._output is not None and not self._metadata.chunks_described

    def encode_chunk(self, node: Any, value: Any, limits: Limits, *, checked: bool) -> bytes:
        """A chunk of a generator as JSON; `checked`: `output_schema` describes it. Raises as `encode`."""
        try:
            raw = encode_json(value)
        except NotJson as error:
            raise self._no_json("chunk", error) from None
        if len(raw) > limits.max_result:
            raise self._too_large("chunk", len(raw), limits)
        if checked and self._output is not None:
            self._check_output("chunk", node, raw, limits)
        return raw

    def _no_json(self, what: str, error: NotJson) -> ToolError:
        message = f'The {what} of tool "{self.name}" is no JSON: {error.reason} at {error.path or "its root"}'
        return ToolError(message, data={"path": error.path})

    def _too_large(self, what: str, size: int, limits: Limits) -> ResultTooLarge:
        return ResultTooLarge.of(size, limits.max_result, f'The {what} of tool "{self.name}"')

    def _check_output(self, what: str, node: Any, raw: bytes, limits: Limits) -> None:
        """Check the encoded result rather than its source: classes, tuples and bytes then count as the caller gets them."""
        validator = self._validator
        if validator is None:
            validator = self._metadata.output(self._output_schema(node))
            if not callable(self._output):
                self._validator = validator
        with _turn_for_value(raw):
            value = msgspec.json.decode(raw)
            problems = None if validator.fits(value) else validator.problems(value, limits.max_errors)
            del value
        if problems is None:
            return
        found = [(pointer("", path), message) for path, message in problems]
        path, message = found[0] if found else ("", "does not fit")
        raise ToolError(
            f'The {what} of tool "{self.name}" breaks its output_schema: {path or "its root"}: {message}',
            data={"path": path, "errors": [{"path": p, "message": m} for p, m in found]},
        )

    def _description(self, node: Any) -> str:
        given = self.options.description
        text = self._metadata.docstring.text if given is None else _option_value(self, "description", given, node, str)
        before = getattr(node, "tool_description", "")
        return f"{before}\n\n{text}".strip() if before else text

    def _input(self, node: Any) -> InputPlan:
        given = self.options.input_schema
        return self._metadata.input_plan(None if given is None else _option_value(self, "input_schema", given, node, Mapping))

    def _output_schema(self, node: Any) -> Mapping[str, Any] | None:
        given = self.options.output_schema
        return self._metadata.returned if given is None else _option_value(self, "output_schema", given, node, Mapping)

    def __repr__(self) -> str:
        return f"<ToolSpec {self.name} of {self.origin}>"


def _turn_for_value(raw: bytes) -> AbstractContextManager[object]:
    """The turn of a thread to have the value of a text; the loop has one at a time anyway."""
    if len(raw) <= LARGE_TEXT:
        return nullcontext()
    from asyncio import _get_running_loop  # pyright: ignore[reportPrivateUsage] # heavy, and loaded where there is a loop

    return LARGE_VALUES if _get_running_loop() is None else nullcontext()


def _option_value(spec: ToolSpec, option: str, value: Any, node: Any, kind: type) -> Any:
    """The value of an option; a callable is called with the node, each time."""
    if not callable(value):
        return value
    try:
        answer = value(node)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise ToolDefinitionError(f"{option} of tool {spec.name} ({spec.origin}) failed: {why}") from error
    if not isinstance(answer, kind):
        gave = f"gave {type(answer).__name__}, not {kind.__name__}"
        raise ToolDefinitionError(f"{option} of tool {spec.name} ({spec.origin}) {gave}")
    return answer


class ToolRegistry(Mapping[str, ToolSpec]):
    """Tools by name, in the order of their addition. Each name is unique."""

    __slots__ = ("_specs",)

    def __init__(self) -> None:
        self._specs: dict[str, ToolSpec] = {}

    def add(self, tool: ToolSpec | Callable[..., Any]) -> ToolSpec:
        """Add a tool or a marked free function. Raises `ToolDefinitionError` for a name that is taken."""
        spec = tool if isinstance(tool, ToolSpec) else _free_tool(tool)
        other = self._specs.get(spec.name)
        if other is not None:
            raise ToolDefinitionError(
                f'The tool name "{spec.name}" is taken twice: by {other.origin} and by {spec.origin}',
                hint="Rename one of them with @tool_function(name=...).",
            )
        self._specs[spec.name] = spec
        return spec

    def listing(self, node: Any, ctx: ToolContext | None) -> list[dict[str, Any]]:
        """Descriptions of the tools that this context may call now. Calls follow the same rule."""
        return [spec.describe(node) for spec in self._specs.values() if spec.is_available(node, ctx)]

    def __getitem__(self, name: str) -> ToolSpec:
        return self._specs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)

    def __repr__(self) -> str:
        return f"<ToolRegistry {', '.join(self._specs) or 'empty'}>"


def collect_tools(cls: type) -> ToolRegistry:
    """The tools of a class, inherited tools last: a list of tools begins with those that are the class's own.

    An override without decorator stays a tool, with the options of the overridden tool; `name = None` in the class body removes
    a tool. Raises `ToolDefinitionError` if two methods claim one name.
    """
    found: dict[str, tuple[type, Any, ToolOptions]] = {}
    ranks: dict[str, int] = {}
    for rank, base in enumerate(reversed(cls.__mro__)):
        for attribute, value in vars(base).items():
            bare = value.__func__ if type(value) is staticmethod else value
            options = getattr(bare, MARK, None) if type(bare) is FunctionType else None
            if options is None and attribute in found and type(bare) is FunctionType:
                options = found[attribute][2]
            if options is not None:
                found[attribute] = (base, value, options)
                ranks.setdefault(attribute, rank)
            elif attribute in found:
                del found[attribute]
            elif type(value) is classmethod and hasattr(value.__func__, MARK):
                name = f"{base.__qualname__}.{attribute}"
                raise ToolDefinitionError(f"{name} is a class method: a tool is a method or a static method")
    registry = ToolRegistry()
    for attribute in sorted(found, key=ranks.__getitem__, reverse=True):
        owner, value, options = found[attribute]
        static = type(value) is staticmethod
        if not static and not _takes_self(value):
            name = f"{owner.__qualname__}.{attribute}"
            raise ToolDefinitionError(f"{name} takes no self: make it a method, or put @staticmethod above it")
        registry.add(ToolSpec(value.__func__ if static else value, options, owner=owner, bound=not static))
    return registry


def _takes_self(function: Any) -> bool:
    """Whether the first parameter of a method is its node."""
    while (wrapped := getattr(function, "__wrapped__", None)) is not None:
        function = wrapped
    code = getattr(function, "__code__", None)
    return code is None or (code.co_argcount > 0 and code.co_varnames[0] == "self")


def _free_tool(function: Callable[..., Any]) -> ToolSpec:
    options = options_of(function)
    if options is None:
        raise TypeError(f"{function!r} is no tool: mark it with @tool_function")
    return ToolSpec(function, options, owner=None, bound=False)


Predicate: TypeAlias = "Callable[[Any, ToolContext], bool]"


def predicate_of(available: Any) -> Predicate:
    """A function of node and context, from a predicate that takes the context, or the node and the context."""
    import inspect

    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    places = [p for p in inspect.signature(available).parameters.values() if p.kind in kinds and p.default is p.empty]
    if len(places) == 2:
        return lambda node, ctx: bool(available(node, ctx))
    return lambda _, ctx: bool(available(ctx))


def both(own: Callable[..., Any] | None, other: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """The predicate that asks two predicates, of which either may be missing."""
    return BothPredicates(own, other) if own is not None and other is not None else own or other


class BothPredicates:
    """Two predicates that must both agree."""

    def __init__(self, own: Callable[..., Any], other: Callable[..., Any]) -> None:
        self._rules = (own, other)
        self._asked = (predicate_of(own), predicate_of(other))
        self.by_settings = all(getattr(rule, "by_settings", False) for rule in self._rules)

    def __call__(self, node: Any, ctx: ToolContext) -> bool:
        return all(asked(node, ctx) for asked in self._asked)

    def refusing(self, node: Any, ctx: ToolContext) -> Any:
        """The first predicate that does not agree, which may have a text for people."""
        refusing = (rule for rule, asked in zip(self._rules, self._asked, strict=True) if not asked(node, ctx))
        rule = next(refusing, self)
        return rule.refusing(node, ctx) if isinstance(rule, BothPredicates) and rule is not self else rule


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
            from rrext.tools.signature import parse_docstring

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
        from rrext.tools.arguments import derived_output

        return derived_output(self._function, self._owner)

    def unusable(self, error: Exception) -> ToolDefinitionError:
        """The definition error for an unusable schema or type."""
        function = self._function
        return ToolDefinitionError(f"Tool {self._options.name} ({function.__module__}.{function.__qualname__}): {error}")

    @property
    def chunks_described(self) -> bool:
        if self._chunks is None:
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


def returns_value(function: Callable[..., Any]) -> bool:
    """Whether a generator returns a value, by its annotation: `Generator[chunk, sent, value]` does, `Iterator[chunk]` does not.
    Without annotation, whether its code has a `return` with a value."""
    said = function.__annotations__.get("return")
    if isinstance(said, str):
        said = _evaluated(function)
    if said is None:
        return _code_returns_value(function)
    args = get_args(said)
    if getattr(get_origin(said) or said, "__name__", "") == "Generator" and len(args) == 3:
        return args[2] not in (None, type(None))
    return bool(not args and getattr(said, "__name__", "") == "Generator" and _code_returns_value(function))


def _evaluated(function: Callable[..., Any]) -> Any:
    try:
        return get_type_hints(function).get("return")
    except Exception:
        return None  # a name that only type checkers see: the code decides


def _code_returns_value(function: Callable[..., Any]) -> bool:
    import dis
    import inspect

    before = None
    for step in dis.get_instructions(inspect.unwrap(function)):
        nothing = before is not None and before.opname == "LOAD_CONST" and before.argval is None
        if step.opname == "RETURN_VALUE" and not nothing:
            return True
        if step.opname == "RETURN_CONST" and step.argval is not None:
            return True
        before = step
    return False
