"""Forms of classes. cattrs structures attrs classes and dataclasses: it handles aliases, keyword-only fields and fields without
init, and collects the problems of every field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NotRequired, Required, get_args, get_origin, is_typeddict

import msgspec

from rrext.tools.forms import Convert, Form, Misfit, UnsupportedType, convert_items, fixed_array, type_name
from rrext.tools.signature import NO_DEFAULT, class_hint, object_schema, parse_docstring, strip_annotated

Forms = Callable[[Any], Form]
Problems = list[tuple[tuple[str | int, ...], str]]


class _Field(msgspec.Struct, frozen=True):
    """One property of an object: its name in JSON, its name in the class, its type."""

    key: str
    name: str
    hint: Any
    required: bool
    default: Any  # NO_DEFAULT without one; msgspec would read an absent default as "required"


def outline(cls: Any) -> Form:
    """The form of a class without its fields, for references inside itself."""
    if _is_named_tuple(cls):
        return Form({}, {"array"})
    return Form({}, {"object"}, tags=_tags(cls, _fields(cls)))


def class_form(cls: Any, forms: Forms) -> Form:
    """The form of a TypedDict, NamedTuple, Struct, dataclass or attrs class; `forms` makes the forms of its fields."""
    if getattr(cls, "__parameters__", ()):
        raise UnsupportedType(f"{type_name(cls)} is generic: subclass it with the types filled in")
    if _is_named_tuple(cls):
        return _named_tuple(cls, forms)
    fields = _fields(cls)
    converts = {field.key: (field, _field_form(cls, field, forms)) for field in fields}
    schema = _schema(cls, converts)
    inner = {key: form.convert for key, (_, form) in converts.items()}
    if is_typeddict(cls):
        convert = _dict_convert(inner) if any(inner.values()) else None
    elif issubclass(cls, msgspec.Struct):
        convert = _struct_convert(cls, fields, inner)
    else:
        convert = _cattrs_convert(cls, fields, inner)
    return Form(schema, {"object"}, convert, tags=_tags(cls, fields))


def _field_form(cls: Any, field: _Field, forms: Forms) -> Form:
    try:
        return forms(field.hint)
    except UnsupportedType as error:
        raise UnsupportedType(f"{type_name(cls)}.{field.name}: {error}") from None


def _is_named_tuple(cls: Any) -> bool:
    return issubclass(cls, tuple)


def _fields(cls: Any) -> list[_Field]:
    if is_typeddict(cls):
        return [_typed_dict_field(cls, name) for name in cls.__annotations__]
    if issubclass(cls, msgspec.Struct):
        return _struct_fields(cls)
    return _attrs_fields(cls) if hasattr(cls, "__attrs_attrs__") else _dataclass_fields(cls)


def _typed_dict_field(cls: Any, name: str) -> _Field:
    hint = class_hint(cls, name)
    required = name in cls.__required_keys__
    while get_origin(strip_annotated(hint)) in (Required, NotRequired):
        # If annotations are strings, `__required_keys__` misses these markers.
        required = get_origin(strip_annotated(hint)) is Required
        hint = get_args(strip_annotated(hint))[0]
    return _Field(name, name, hint, required, NO_DEFAULT)


def _struct_fields(cls: Any) -> list[_Field]:
    import msgspec.structs

    if cls.__struct_config__.array_like:
        raise UnsupportedType(f"{type_name(cls)} is array_like: use a NamedTuple")
    try:
        fields = msgspec.structs.fields(cls)
    except NameError as error:
        raise UnsupportedType(f"{type_name(cls)} has an annotation that cannot be evaluated: {error}") from None
    return [
        _Field(f.encode_name, f.name, f.type, f.required, _shown(f.default, f.default_factory, msgspec.NODEFAULT))
        for f in fields
    ]


def _attrs_fields(cls: Any) -> list[_Field]:
    import attrs

    found: list[_Field] = []
    for field in attrs.fields(cls):
        if field.init:
            factory = getattr(field.default, "factory", None)
            default = attrs.NOTHING if factory is not None else field.default
            required = field.default is attrs.NOTHING
            shown = _shown(default, factory, attrs.NOTHING)
            found.append(_Field(field.alias, field.name, class_hint(cls, field.name), required, shown))
    return found


def _dataclass_fields(cls: Any) -> list[_Field]:
    import dataclasses

    missing = dataclasses.MISSING
    for name, field in cls.__dataclass_fields__.items():
        if isinstance(field.type, dataclasses.InitVar) or str(field.type).startswith(("InitVar", "dataclasses.InitVar")):
            raise UnsupportedType(f"{type_name(cls)}.{name} is an InitVar: make it a field")
    return [
        _Field(
            field.name,
            field.name,
            class_hint(cls, field.name),
            field.default is missing and field.default_factory is missing,
            _shown(field.default, field.default_factory, missing),
        )
        for field in dataclasses.fields(cls)
        if field.init
    ]


def _shown(default: Any, factory: Any, missing: Any) -> Any:
    """The default for the schema; for a factory, the value of `list` or `dict`."""
    if factory in (list, dict):
        return factory()
    return NO_DEFAULT if default is missing else default


def _tags(cls: Any, fields: list[_Field]) -> dict[str, frozenset[str]]:
    """The required properties with literal strings as values, and those strings."""
    tags: dict[str, frozenset[str]] = {}
    name, tag = _struct_tag(cls)
    if isinstance(tag, str):
        tags[name] = frozenset({tag})
    for field in fields:
        hint = strip_annotated(field.hint)
        if field.required and get_origin(hint) is Literal and all(isinstance(value, str) for value in get_args(hint)):
            tags[field.key] = frozenset(get_args(hint))
    return tags


def _struct_tag(cls: Any) -> tuple[str, str | int | None]:
    """The tag property of a msgspec Struct and its value."""
    config = getattr(cls, "__struct_config__", None)
    return ("", None) if config is None else (config.tag_field or "", config.tag)


def _schema(cls: Any, fields: Mapping[str, tuple[_Field, Form]]) -> dict[str, Any]:
    doc = vars(cls).get("__doc__") or ""
    if doc.startswith(f"{cls.__name__}("):
        doc = ""  # the generated docstring of a dataclass
    parsed = parse_docstring(doc)
    schema = object_schema([(key, form, f.required, f.default) for key, (f, form) in fields.items()], parsed.parameters)
    name, tag = _struct_tag(cls)
    if tag is not None:
        schema["properties"] = {name: {"const": tag}, **schema["properties"]}
        schema = {**schema, "required": [name, *schema.get("required", ())]}
    return {"description": parsed.text, **schema} if parsed.text else schema


def _dict_convert(inner: Mapping[str, Convert | None]) -> Convert:
    return lambda value: convert_items((key, entry, inner[key]) for key, entry in value.items())


def _named_tuple(cls: Any, forms: Forms) -> Form:
    fields = [_Field(name, name, class_hint(cls, name), name not in cls._field_defaults, NO_DEFAULT) for name in cls._fields]
    items = [_field_form(cls, field, forms) for field in fields]
    return fixed_array(items, sum(field.required for field in fields), lambda values: _made(lambda: cls(*values)))


def _struct_convert(cls: Any, fields: list[_Field], inner: Mapping[str, Convert | None]) -> Convert:
    names = {field.key: field.name for field in fields}

    def convert(value: Any) -> Any:
        # A tag is in the value and not among the fields.
        items = convert_items((key, entry, inner[key]) for key, entry in value.items() if key in names)
        return _made(lambda: cls(**{names[key]: entry for key, entry in items.items()}))

    return convert


def _cattrs_convert(cls: Any, fields: list[_Field], inner: Mapping[str, Convert | None]) -> Convert:
    from cattrs import ClassValidationError, Converter
    from cattrs.gen import make_dict_structure_fn, override

    def hook(convert: Convert | None) -> Callable[[Any, Any], Any]:
        return (lambda value, _: value) if convert is None else (lambda value, _: convert(value))

    structure: Callable[[Any, Any], Any] = make_dict_structure_fn(
        cls,
        Converter(),
        _cattrs_forbid_extra_keys=True,
        _cattrs_detailed_validation=True,
        _cattrs_use_alias=True,
        **{field.name: override(struct_hook=hook(inner[field.key])) for field in fields},  # pyright: ignore[reportArgumentType]
    )
    keys = {field.name: field.key for field in fields}

    def convert(value: Any) -> Any:
        try:
            return structure(value, cls)
        except ClassValidationError as group:
            raise Misfit(_problems(group, keys)) from None

    return convert


def _problems(group: Any, keys: Mapping[str, str]) -> Problems:
    """The problems that cattrs found, with their paths in the JSON value."""
    from cattrs import AttributeValidationNote

    found: Problems = []
    for error in group.exceptions:
        note = next((n for n in getattr(error, "__notes__", ()) if isinstance(n, AttributeValidationNote)), None)
        # attrs validators say which field they refuse by their second argument.
        name = note.name if note is not None else next((arg.name for arg in error.args[1:2] if hasattr(arg, "alias")), "")
        if isinstance(error, Misfit):
            found += error.below(keys[name])
        else:
            found.append(((keys[name],) if name in keys else (), _refusal(error)))
    return found


def _made(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except RecursionError:
        raise
    except Exception as error:
        raise Misfit.of(_refusal(error)) from None


def _refusal(error: Exception) -> str:
    """The reason why a class refused its values: the author's own text, without the value."""
    text = error.args[0] if error.args and isinstance(error.args[0], str) else ""
    for value in error.args[2:]:
        text = text.replace(f" (got {value!r})", "")  # attrs' validators
    return f"refused: {text}" if text else "refused"
