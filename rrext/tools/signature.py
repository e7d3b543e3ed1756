"""The signature of a tool's function: its parameters with evaluated hints, the texts of its docstring, and the schema of an
object with such fields.

Docstrings are read in the styles of Google, NumPy and reST.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import SimpleNamespace, UnionType
from typing import Any, ForwardRef, Union, get_args, get_origin, get_type_hints

import msgspec

from rrext.tools.context import ToolContext
from rrext.tools.decorator import ToolDefinitionError
from rrext.tools.forms import Form, json_kind
from rrext.tools.results import NotJson, plain_json

NO_DEFAULT: Any = object()
"""The default of a parameter without one."""


class Parameter(msgspec.Struct, frozen=True):
    """One argument of the caller. `hint` is evaluated; it is `Any` without annotation."""

    name: str
    hint: Any
    default: Any = NO_DEFAULT

    @property
    def required(self) -> bool:
        """Whether a call without it is refused."""
        return self.default is NO_DEFAULT


class Signature(msgspec.Struct, frozen=True):
    """The caller's parameters, and the name of the context parameter."""

    parameters: tuple[Parameter, ...]
    context: str | None = None
    optional_context: bool = False
    """Whether the context parameter has a default."""


def read_signature(function: Callable[..., Any], owner: type | None, *, bound: bool) -> Signature:
    """The signature of a function. Raises `ToolDefinitionError` for a parameter that callers cannot give by name."""
    import inspect

    taken: list[Parameter] = []
    context: inspect.Parameter | None = None
    declared = list(inspect.signature(function).parameters.values())[1 if bound else 0 :]
    scope = _Scope(function, owner)
    for parameter in declared:
        if parameter.kind not in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY):
            raise ToolDefinitionError(
                f'Parameter "{parameter.name}" of {function.__qualname__} is {_kind_text(parameter.kind.name)}: '
                "a tool takes its arguments by name"
            )
        hint = Any if parameter.annotation is parameter.empty else scope.evaluate(parameter.name, parameter.annotation)
        if is_context(hint):
            if context is not None:
                twice = f"{context.name} and {parameter.name}"
                raise ToolDefinitionError(f"{function.__qualname__} asks for its context twice: {twice}")
            context = parameter
        else:
            default = NO_DEFAULT if parameter.default is parameter.empty else parameter.default
            taken.append(Parameter(parameter.name, hint, default))
    if context is None:
        return Signature(tuple(taken))
    return Signature(tuple(taken), context.name, context.default is not context.empty)


def returned_hint(function: Callable[..., Any], owner: type | None) -> Any:
    """The evaluated annotation of what a function returns; `Any` without one. Raises `ToolDefinitionError`."""
    annotation = function.__annotations__.get("return", Any)
    return _Scope(function, owner).evaluate("return", annotation)


def _kind_text(kind: str) -> str:
    return {"VAR_POSITIONAL": "*variable", "VAR_KEYWORD": "**variable", "POSITIONAL_ONLY": "positional-only"}[kind]


def is_context(hint: Any) -> bool:
    """Whether a hint is `ToolContext`, possibly optional or annotated."""
    hint = strip_annotated(hint)
    if hint is ToolContext:
        return True
    return ToolContext in [strip_annotated(part) for part in get_args(hint) if part is not type(None)] and _is_union(hint)


def strip_annotated(hint: Any) -> Any:
    """`Annotated[T, …]` → `T`."""
    return hint.__origin__ if hasattr(hint, "__metadata__") else hint


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, UnionType)


def class_hint(cls: type, name: str) -> Any:
    """The evaluated annotation of a class's field, also an inherited one, with `Annotated`; `Any` if there is none."""
    from inspect import get_annotations

    for base in cls.__mro__:
        found = get_annotations(base)
        if name in found:
            return _Scope(base, base).evaluate(name, found[name])
    return Any


def annotations_of(cls: type) -> dict[str, Any]:
    """The evaluated annotations of a class and its bases, with `Annotated`, in the order of definition."""
    from inspect import get_annotations

    return {name: class_hint(cls, name) for base in reversed(cls.__mro__) for name in get_annotations(base)}


class _Scope:
    """The namespaces in which the annotations of one definition are evaluated."""

    __slots__ = ("_globals", "_in_class", "_local", "_owner", "_what")

    def __init__(self, defined: Any, owner: type | None) -> None:
        import inspect

        self._what: str = defined.__qualname__
        self._owner = owner
        self._in_class = isinstance(defined, type)
        bare = inspect.unwrap(defined)
        self._globals: dict[str, Any] = getattr(bare, "__globals__", None) or vars(sys.modules[bare.__module__])
        self._local: dict[str, Any] = {}

    def evaluate(self, name: str, annotation: Any) -> Any:
        """The value of an annotation, with strings inside it evaluated. Raises `ToolDefinitionError` for an unknown name."""
        if isinstance(annotation, str) and self._in_class:
            annotation = ForwardRef(annotation, is_argument=False, is_class=True)  # where ClassVar and Required are allowed
        holder = SimpleNamespace(__annotations__={name: annotation})
        while True:
            try:
                hints = get_type_hints(holder, globalns=self._globals, localns=self._local or None, include_extras=True)
                return hints[name]
            except NameError as error:
                missing = error.name or ""
                # Names that only a type checker imports are undefined at run time. Those of rrext are known
                # all the same, and so are classes nested in the owner. They come last: a module's own name wins.
                found = next(self._elsewhere(missing), None)
                if found is None or missing in self._local:
                    raise ToolDefinitionError(
                        f'The annotation of "{name}" of {self._what} names "{missing}", which is not defined there',
                        hint="Import it at run time, not under TYPE_CHECKING, and outside of functions.",
                    ) from None
                self._local[missing] = found
            except (TypeError, SyntaxError, AttributeError) as error:
                raise ToolDefinitionError(f'The annotation of "{name}" of {self._what} is no type: {error}') from None

    def _elsewhere(self, name: str) -> Iterator[Any]:
        if name == "ToolContext":
            yield ToolContext
        if name == "rrext":
            yield sys.modules["rrext"]
        for base in self._owner.__mro__ if self._owner is not None else ():
            if name in vars(base):
                yield vars(base)[name]


_SECTION = r"(Args|Arguments|Parameters|Params|Keyword Args|Attributes):\s*$"
_NUMPY_SECTION = r"(Parameters|Other Parameters|Attributes)\s*$"
_NUMPY_RULE = r"-{3,}\s*$"
_GOOGLE_ITEM = r"\*{0,2}([A-Za-z_]\w*)\s*(?:\([^)]*\))?\s*:\s*(.*)$"
_NUMPY_ITEM = r"\*{0,2}([A-Za-z_]\w*)\s*(?::.*)?$"
_REST_ITEM = r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*?\s)?\*{0,2}([A-Za-z_]\w*)\s*:\s*(.*)$"
_REST_TYPE = r":type\s+\w+\s*:"


class Docstring(msgspec.Struct, frozen=True):
    """A docstring: `text` without its parameters, and in `parameters` one line of text for each."""

    text: str
    parameters: dict[str, str]


def parse_docstring(doc: str | None) -> Docstring:
    """Read a docstring. Sections of unknown style stay in the text; nothing is an error."""
    if not doc:
        return Docstring("", {})
    if ":" not in doc and doc.isprintable():  # one line
        return Docstring(doc.strip(), {})
    from inspect import cleandoc

    lines = cleandoc(doc).splitlines()
    kept: list[str] = []
    found: dict[str, list[str]] = {}
    at = 0
    while at < len(lines):
        line = lines[at]
        if re.match(_SECTION, line):
            taken, items = _google_items(lines, at + 1)
        elif re.match(_NUMPY_SECTION, line) and at + 1 < len(lines) and re.match(_NUMPY_RULE, lines[at + 1]):
            taken, items = _numpy_items(lines, at + 2)
        elif match := re.match(_REST_ITEM, line):
            end = _indented(lines, at + 1)
            items, taken = {match[1]: [match[2], *lines[at + 1 : end]]}, end
        elif re.match(_REST_TYPE, line):
            items, taken = {}, at + 1
        else:
            kept.append(line)
            at += 1
            continue
        if taken == at + 1 and not items and not re.match(_REST_TYPE, line):
            kept.append(line)  # a heading with nothing below it is text
        found.update(items)
        at = taken
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()
    return Docstring(text, {name: " ".join(" ".join(part).split()) for name, part in found.items()})


def _google_items(lines: list[str], start: int) -> tuple[int, dict[str, list[str]]]:
    end = _indented(lines, start, blank=True)
    items: dict[str, list[str]] = {}
    current: list[str] | None = None
    base = _margin(lines[start]) if start < end else 0
    for line in lines[start:end]:
        match = re.match(_GOOGLE_ITEM, line.strip()) if _margin(line) == base else None
        if match:
            current = items.setdefault(match[1], [match[2]])
        elif current is not None:
            current.append(line)
    return (end, items) if items else (start, {})


def _numpy_items(lines: list[str], start: int) -> tuple[int, dict[str, list[str]]]:
    items: dict[str, list[str]] = {}
    at = start
    while at < len(lines) and (match := re.match(_NUMPY_ITEM, lines[at])):
        if at + 1 < len(lines) and re.match(_NUMPY_RULE, lines[at + 1]):
            break  # the next section
        end = _indented(lines, at + 1, blank=True)
        items[match[1]] = lines[at + 1 : end]
        at = end
    return at, items


def _indented(lines: list[str], start: int, *, blank: bool = False) -> int:
    """The index after the indented lines from `start`; blank lines among them count if `blank`."""
    at = start
    while at < len(lines) and (lines[at].startswith((" ", "\t")) or (blank and not lines[at].strip())):
        at += 1
    return at


def _margin(line: str) -> int:
    return len(line) - len(line.lstrip())


def object_schema(fields: Iterable[tuple[str, Form, bool, Any]], texts: Mapping[str, str]) -> dict[str, Any]:
    """A closed object: `(name, form, required, default)` for each property; `texts` has descriptions of some."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, form, needed, default in fields:
        schema = form.schema
        if name in texts and "description" not in schema:
            schema = {**schema, "description": texts[name]}
        if default is not NO_DEFAULT:
            schema = _with_default(schema, form, default)
        properties[name] = schema
        if needed:
            required.append(name)
    found: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        found["required"] = required
    found["additionalProperties"] = False
    return found


def _with_default(schema: dict[str, Any], form: Form, default: Any) -> dict[str, Any]:
    """The schema with its default, unless JSON has no form for it or callers could not send it."""
    try:
        shown = plain_json(default)
    except NotJson:
        return schema
    return {**schema, "default": shown} if json_kind(shown) in form.kinds else schema
