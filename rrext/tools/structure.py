"""The forms of classes. attrs classes and dataclasses are structured by cattrs, which calls them as they want to be called
(aliases, keyword-only fields, fields without init) and keeps every field's problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args, get_origin, is_typeddict

import msgspec

from rrext.tools.docstrings import parse_docstring
from rrext.tools.forms import Convert, Form, Misfit, UnsupportedType, convert_items, type_name
from rrext.tools.signature import NO_DEFAULT, annotations_of, strip_annotated

__all__ = ["class_form"]

Forms = Callable[[Any], Form]


class _Field(msgspec.Struct, frozen=True):
    """One property of an object: its name in JSON, its name in the class, its form."""

    key: str
    name: str
    form: Form
    required: bool
    default: Any = NO_DEFAULT


def class_form(cls: Any, forms: Forms) -> Form:
    """The form of a TypedDict, NamedTuple, Struct, dataclass or attrs class; `forms` makes those of its fields."""
    if getattr(cls, "__parameters__", ()):
        raise UnsupportedType(f"{type_name(cls)} is generic: subclass it with the types filled in")
    if is_typeddict(cls):
        return _typed_dict(cls, forms)
    if issubclass(cls, msgspec.Struct):
        return _struct(cls, forms)
    if hasattr(cls, "__attrs_attrs__"):
        return _with_cattrs(cls, _attrs_fields(cls, forms))
    if hasattr(cls, "__dataclass_fields__"):
        return _with_cattrs(cls, _dataclass_fields(cls, forms))
    return _named_tuple(cls, forms)


def _typed_dict(cls: Any, forms: Forms) -> Form:
    from typing import NotRequired, Required

    fields: list[_Field] = []
    for base_name, hint in annotations_of_typed_dict(cls).items():
        required = base_name in cls.__required_keys__
        while get_origin(strip_annotated(hint)) in (Required, NotRequired):
            # Under `from __future__ import annotations` the class itself does not know of these.
            required = get_origin(strip_annotated(hint)) is Required
            hint = get_args(strip_annotated(hint))[0]
        fields.append(_Field(base_name, base_name, forms(hint), required))
    converts = {field.key: field.form.convert for field in fields}
    schema = _schema(cls, fields)
    if not any(converts.values()):
        return Form(schema, {"object"}, tags=_tags(fields))

    def convert(value: Any) -> dict[str, Any]:
        return convert_items((key, entry, converts[key]) for key, entry in value.items())

    return Form(schema, {"object"}, convert, tags=_tags(fields))


def annotations_of_typed_dict(cls: Any) -> dict[str, Any]:
    """The evaluated annotations of a TypedDict; its bases are dicts, so they are asked through `__orig_bases__`."""
    found: dict[str, Any] = {}
    for base in getattr(cls, "__orig_bases__", ()):
        if is_typeddict(base):
            found |= annotations_of_typed_dict(base)
    return found | {name: hint for name, hint in annotations_of(cls).items() if name not in found}


def _named_tuple(cls: Any, forms: Forms) -> Form:
    from rrext.tools.grammar import fixed_array

    hints = annotations_of(cls)
    items = [forms(hints.get(name, Any)) for name in cls._fields]
    required = len(items) - len(cls._field_defaults)
    return fixed_array(items, required, lambda values: _made(cls, lambda: cls(*values)))


def _struct(cls: Any, forms: Forms) -> Form:
    config = cls.__struct_config__
    if config.array_like:
        raise UnsupportedType(f"{type_name(cls)} is array_like: use a NamedTuple")
    hints = annotations_of(cls)
    fields = [
        _Field(
            field.encode_name,
            field.name,
            forms(hints.get(field.name, field.type)),
            field.required,
            _shown(field.default, field.default_factory, msgspec.NODEFAULT),
        )
        for field in msgspec.structs.fields(cls)
    ]
    schema = _schema(cls, fields)
    tags = _tags(fields)
    if config.tag is not None:
        schema["properties"] = {config.tag_field: {"const": config.tag}, **schema["properties"]}
        schema["required"] = [config.tag_field, *schema.get("required", ())]
        tags[config.tag_field] = frozenset({config.tag})
    by_key = {field.key: field for field in fields}

    def convert(value: Any) -> Any:
        items = convert_items((key, entry, by_key[key].form.convert) for key, entry in value.items() if key in by_key)
        return _made(cls, lambda: cls(**{by_key[key].name: entry for key, entry in items.items()}))

    return Form(schema, {"object"}, convert, tags=tags)


def _attrs_fields(cls: Any, forms: Forms) -> list[_Field]:
    import attrs

    hints = annotations_of(cls)
    fields: list[_Field] = []
    for field in attrs.fields(cls):
        if not field.init:
            continue
        factory = field.default.factory if isinstance(field.default, attrs.Factory) else attrs.NOTHING  # type: ignore[arg-type]
        default = NO_DEFAULT if field.default is attrs.NOTHING or factory is not attrs.NOTHING else field.default
        hint = hints.get(field.name, Any if field.type is None else field.type)
        shown = _shown(default, factory, attrs.NOTHING)
        fields.append(_Field(field.alias, field.name, forms(hint), field.default is attrs.NOTHING, shown))
    return fields


def _dataclass_fields(cls: Any, forms: Forms) -> list[_Field]:
    import dataclasses

    hints = annotations_of(cls)
    missing = dataclasses.MISSING
    fields: list[_Field] = []
    for field in dataclasses.fields(cls):
        if field.init:
            required = field.default is missing and field.default_factory is missing
            default = NO_DEFAULT if field.default is missing else field.default
            shown = _shown(default, field.default_factory, missing)
            fields.append(_Field(field.name, field.name, forms(hints.get(field.name, field.type)), required, shown))
    for name, field in cls.__dataclass_fields__.items():
        if isinstance(field.type, dataclasses.InitVar) or str(field.type).startswith(("InitVar", "dataclasses.InitVar")):
            raise UnsupportedType(f"{type_name(cls)}.{name} is an InitVar: make it a field")
    return fields


def _shown(default: Any, factory: Any, missing: Any) -> Any:
    """The default as a schema may show it: factories only where everybody knows what they make."""
    return factory() if factory in (list, dict) and factory is not missing else default


def _with_cattrs(cls: Any, fields: list[_Field]) -> Form:
    from cattrs import Converter
    from cattrs.gen import make_dict_structure_fn, override

    def hook(convert: Convert | None) -> Callable[[Any, Any], Any]:
        return (lambda value, _: value) if convert is None else (lambda value, _: convert(value))

    structure = make_dict_structure_fn(
        cls,
        Converter(),
        _cattrs_forbid_extra_keys=True,
        _cattrs_detailed_validation=True,
        _cattrs_use_alias=True,
        **{field.name: override(struct_hook=hook(field.form.convert)) for field in fields},  # type: ignore[arg-type]
    )
    keys = {field.name: field.key for field in fields}

    def convert(value: Any) -> Any:
        from cattrs import ClassValidationError

        try:
            return structure(value, cls)
        except ClassValidationError as group:
            raise Misfit(_problems(group, keys)) from None

    return Form(_schema(cls, fields), {"object"}, convert, tags=_tags(fields))


def _problems(group: Any, keys: Mapping[str, str]) -> list[tuple[tuple[str | int, ...], str]]:
    """What cattrs found, with the places in the JSON value."""
    from cattrs import AttributeValidationNote

    found: list[tuple[tuple[str | int, ...], str]] = []
    for error in group.exceptions:
        note = next((n for n in getattr(error, "__notes__", ()) if isinstance(n, AttributeValidationNote)), None)
        # attrs validators say which field they refuse by their second argument.
        name = note.name if note is not None else next((arg.name for arg in error.args[1:2] if hasattr(arg, "alias")), None)
        if isinstance(error, Misfit) and note is not None:
            found += error.below(keys[note.name])
        else:
            found.append(((keys[name],) if name in keys else (), _refusal(error)))
    return found


def _made(cls: Any, make: Callable[[], Any]) -> Any:
    try:
        return make()
    except Exception as error:
        raise Misfit.here(_refusal(error)) from None


def _refusal(error: Exception) -> str:
    """Why a class refused its values. Its author's own words may be shown, but a value is never sent back."""
    text = str(error.args[0]) if error.args and isinstance(error.args[0], str) else ""
    for value in error.args[2:]:
        text = text.replace(f" (got {value!r})", "")
    return f"refused: {text}" if text else f"refused ({type(error).__name__})"


def _tags(fields: list[_Field]) -> dict[str, frozenset[str]]:
    """The required properties that hold one of some literal strings."""
    return {
        field.key: frozenset(field.form.schema["enum"])
        for field in fields
        if field.required and field.form.kinds == {"string"} and "enum" in field.form.schema
    }


def _schema(cls: Any, fields: list[_Field]) -> dict[str, Any]:
    from rrext.tools.schema import object_schema

    doc = vars(cls).get("__doc__") or ""
    if doc.startswith(f"{cls.__name__}("):
        doc = ""  # the one that dataclasses and named tuples write for themselves
    parsed = parse_docstring(doc)
    schema = object_schema([(field.key, field.form, field.required, field.default) for field in fields], parsed.parameters)
    return {"description": parsed.text, **schema} if parsed.text else schema
