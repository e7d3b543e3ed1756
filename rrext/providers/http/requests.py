"""The operations of an HTTP API, and their requests with arguments. No argument changes where a request goes, or adds a header.

Values are written as OpenAPI says by `style` and `explode`, percent-encoded.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, Literal
from urllib.parse import quote, unquote

import msgspec

from rrext.errors import InvalidArguments

Place = Literal["path", "text", "query", "header", "cookie"]
"""`text` is a place within the query of a template."""
BodyKind = Literal["json", "form", "multipart", "text", "bytes"]

PLACEHOLDER: Final = re.compile(r"\{([^{}/]+)\}")
HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SLASHES: Final = re.compile(r"[/\\]")
_SEPARATORS: Final = {"spaceDelimited": " ", "pipeDelimited": "|"}
_PREFIXES: Final = {"label": ".", "matrix": ";"}
_RESERVED: Final = ":/?@!$'()*,=%"
"""Characters that `allowReserved` leaves as they are: all reserved ones but those that would end a value or its query."""
_LONE_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_KINDS: Final[tuple[tuple[str, BodyKind], ...]] = (
    (r"application/(.*\+)?json", "json"),
    (r"application/x-www-form-urlencoded", "form"),
    (r"multipart/form-data", "multipart"),
    (r"text/.*|application/(.*\+)?xml", "text"),
)
KIND_ORDER: Final[tuple[BodyKind, ...]] = (*(kind for _, kind in _KINDS), "bytes")
"""Kinds of content; of several that an operation takes, the first is sent."""
BYTES_MEDIA: Final = "application/octet-stream"
PLAIN_MEDIA: Final[Mapping[BodyKind, str]] = {
    "json": "application/json",
    "text": "text/plain; charset=utf-8",
    "bytes": BYTES_MEDIA,
}
"""What is sent for a kind where the document leaves the type open, as `text/*` does."""


def kind_of(media: Any) -> BodyKind:
    """The kind of a media type."""
    plain = str(media).partition(";")[0].strip().lower()
    for pattern, kind in _KINDS:
        if re.fullmatch(pattern, plain):
            return kind
    return "bytes"


class ApiParameter(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter: its name in the request, its property in the input, and the way in which its value is written."""

    name: str
    place: Place
    property: str
    style: str = "form"
    explode: bool = False
    is_json: bool = False
    allow_reserved: bool = False


class ApiField(msgspec.Struct, frozen=True, kw_only=True):
    """A field of a form or of a multipart body. Its value is written in a style of the query, or without one as its content.

    `media` is the type of the content, "" for plain text, and for JSON where the value is no single one. The value of a file
    is base64, or a list of such; an object in its place is JSON. `headers` are further headers of a part.
    """

    style: str = ""
    explode: bool = True
    allow_reserved: bool = False
    media: str = ""
    is_file: bool = False
    headers: Mapping[str, str] = {}


PLAIN_FIELD: Final = ApiField()


class ApiBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a request. `properties`: the input's properties become one JSON object; else one property is the body."""

    kind: BodyKind
    media: str
    property: str = ""
    properties: tuple[str, ...] = ()
    fields: Mapping[str, ApiField] = {}
    """Of a form or multipart body: the fields that are not plain."""


class ApiOperation(msgspec.Struct, frozen=True, kw_only=True):
    """A method and the template of a path below the address of the API."""

    method: str
    path: str
    parameters: tuple[ApiParameter, ...] = ()
    body: ApiBody | None = None

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def annotations_of(method: str, title: str = "") -> dict[str, object]:
    """The annotations that a method of HTTP promises for its tools, as the Model Context Protocol names them."""
    found: dict[str, object] = {"title": title} if title else {}
    if method in ("GET", "HEAD"):
        found["readOnlyHint"] = True
    elif method == "PUT":
        found["idempotentHint"] = True
    elif method == "DELETE":
        found |= {"destructiveHint": True, "idempotentHint": True}
    return {**found, "openWorldHint": True}


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request: its URL is complete, but for what the connection adds."""

    method: str
    url: str
    headers: dict[str, str] = {}
    content: bytes | None = None


def request_of(operation: ApiOperation, base: str, arguments: Mapping[str, Any], given: Collection[str] = ()) -> HttpRequest:
    """The request for arguments that fit the tool's schema. `given` names query parameters of the connection.

    Raises `InvalidArguments` for a value that the request cannot carry, or that would change its address.
    """
    parts = _Parts()
    for parameter in operation.parameters:
        if parameter.property in arguments:
            parts.add(parameter, arguments[parameter.property])
    for name in map(unquote, (name for name, _ in parts.pairs)):
        if name in given:
            raise InvalidArguments.at("/input", f'"{name}" is set by the connection')
    content = None
    if operation.body is not None:
        media, content = _content(operation.body, arguments)
        if content is not None:
            parts.headers["content-type"] = media
    path, _, fixed = (
        PLACEHOLDER.sub(lambda found: parts.paths.get(found[1], found[0]), part) for part in operation.path.partition("?")
    )
    query = "&".join([*filter(None, [fixed]), *(f"{name}={text}" for name, text in parts.pairs)])
    url = f"{base}{path}?{query}" if query else base + path
    return HttpRequest(method=operation.method, url=url, headers=parts.headers, content=content)


class _Parts:
    """The parts of a request that its parameters fill."""

    def __init__(self) -> None:
        self.paths: dict[str, str] = {}
        self.pairs: list[tuple[str, str]] = []
        self.headers = {"accept": "application/json, */*;q=0.8"}

    def add(self, parameter: ApiParameter, value: Any) -> None:
        """Add the value of a parameter. Raises `InvalidArguments`."""
        if parameter.is_json:
            value = msgspec.json.encode(value).decode()
        match parameter.place:
            case "path":
                self.paths[parameter.name] = _path_value(parameter, value)
            case "text":
                self.paths[parameter.name] = encoded(value)
            case "query":
                self.pairs += encoded_pairs(parameter.name, value, parameter)
            case "header":
                self.headers[parameter.name.lower()] = _header_value(parameter, value)
            case "cookie":
                cookies = (f"{name}={text}" for name, text in encoded_pairs(parameter.name, value, parameter))
                self.headers["cookie"] = "; ".join([*filter(None, [self.headers.get("cookie")]), *cookies])


def _path_value(parameter: ApiParameter, value: Any) -> str:
    """A value within the path, which it must neither leave nor shorten."""
    pointer = f"/input/{parameter.property}"
    parts = value if isinstance(value, list) else value.values() if isinstance(value, dict) else [value]
    if not parts or any(text_of(part) == "" for part in parts):
        raise InvalidArguments.at(pointer, "is empty: the path would name something else")
    text = path_text(parameter.name, value, parameter.style, parameter.explode)
    if any(piece in (".", "..") for piece in _SLASHES.split(unquote(text))):
        raise InvalidArguments.at(pointer, 'a path has no "." or ".." as a value')
    return text


def _header_value(parameter: ApiParameter, value: Any) -> str:
    text = unquote(listed(value, ",", parameter.explode)) if isinstance(value, list | dict) else text_of(value)
    if not (text.isascii() and text.isprintable()):
        raise InvalidArguments.at(f"/input/{parameter.property}", "holds characters that no header can carry")
    return text


def _content(body: ApiBody, arguments: Mapping[str, Any]) -> tuple[str, bytes | None]:
    """The type and the bytes of the body; None for no body."""
    if body.properties:
        value: Any = {name: arguments[name] for name in body.properties if name in arguments}
    elif body.property in arguments:
        value = arguments[body.property]
    else:
        return body.media, None
    match body.kind:
        case "json":
            return body.media, msgspec.json.encode(value)
        case "form":
            pairs = _form(body.fields, value if isinstance(value, dict) else {})
            return body.media, "&".join(f"{name}={text}" for name, text in pairs).encode()
        case "multipart":
            return _multipart(body, value if isinstance(value, dict) else {})
        case "text":
            return body.media, text_of(value).encode("utf-8", "surrogatepass")
        case "bytes":
            return body.media, _decoded(text_of(value), f"/input/{body.property}")


def _decoded(text: str, pointer: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise InvalidArguments.at(pointer, "is not base64") from None


def _form(fields: Mapping[str, ApiField], values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        field = fields.get(name, PLAIN_FIELD)
        if field.style:
            yield from encoded_pairs(name, value, field)
        elif kind_of(field.media) == "json":
            yield encoded(name), encoded(msgspec.json.encode(value).decode())
        elif value is not None:
            for item in value if isinstance(value, list) else [value]:
                yield encoded(name), encoded(item)


def _multipart(body: ApiBody, values: Mapping[str, Any]) -> tuple[str, bytes]:
    from secrets import token_hex

    boundary = token_hex(16)
    made: list[bytes] = []
    for name, value in values.items():
        field = body.fields.get(name, PLAIN_FIELD)
        is_json = kind_of(field.media) == "json"
        parts: Iterable[tuple[str, Any]] = ((name, item) for item in (value if isinstance(value, list) else [value]))
        if field.style:
            pairs = query_pairs(name, value, field.style, field.explode)
            parts = ((key, separator.join(map(text_of, items))) for key, items, separator in pairs)
        elif value is None and not is_json:
            continue
        for key, item in parts:
            head = f'content-disposition: form-data; name="{_quoted(key)}"'
            if field.is_file and not isinstance(item, dict):
                head += f'; filename="{_quoted(key)}"'
                media, content = field.media or BYTES_MEDIA, _decoded(text_of(item), f"/input/{body.property}/{name}")
            elif is_json or (isinstance(item, dict | list) and (field.is_file or not field.media)):
                media, content = field.media if is_json else "application/json", msgspec.json.encode(item)
            else:
                media = field.media or "text/plain; charset=utf-8"
                content = text_of(item).encode("utf-8", "surrogatepass")
            lines = [head, f"content-type: {media}", *(f"{header}: {text}" for header, text in field.headers.items())]
            made += ["\r\n".join([f"--{boundary}", *lines, "", ""]).encode(), content, b"\r\n"]
    return f"multipart/form-data; boundary={boundary}", b"".join([*made, f"--{boundary}--\r\n".encode()])


def _quoted(name: str) -> str:
    """The name of a part as browsers write it: in UTF-8, without what would end it."""
    name = name.encode("utf-8", "replace").decode()
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


def text_of(value: Any) -> str:
    """A value as plain text: JSON, but texts without quotes and null as nothing."""
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def encoded(value: Any) -> str:
    """A value as percent-encoded text."""
    return quote(text_of(value).encode("utf-8", "surrogatepass"), safe="")


def reserved(value: Any) -> str:
    """A value as text in which reserved characters stand, and what is percent-encoded already."""
    text = _LONE_PERCENT.sub("%25", text_of(value))
    return quote(text.encode("utf-8", "surrogatepass"), safe=_RESERVED)


def encoded_pairs(name: str, value: Any, way: ApiParameter | ApiField) -> Iterator[tuple[str, str]]:
    """A parameter of the query, a cookie or a field of a form as percent-encoded pairs of name and value."""
    write = reserved if way.allow_reserved else encoded
    for key, items, separator in query_pairs(name, value, way.style, way.explode):
        yield encoded(key), quote(separator, safe=",").join(map(write, items))


def query_pairs(name: str, value: Any, style: str, explode: bool) -> Iterator[tuple[str, list[Any], str]]:
    """The pairs of a name and a value in a style of the query: the name, the items of the value, and what separates them."""
    separator = _SEPARATORS.get(style, ",")
    if value is None:
        return
    if style == "deepObject":
        yield from _deep(name, value)
    elif isinstance(value, dict):
        pairs = [(key, item) for key, item in value.items() if item is not None]
        if explode:
            yield from ((key, [item], separator) for key, item in pairs)
        elif pairs:
            yield name, [part for pair in pairs for part in pair], separator
    elif isinstance(value, list):
        if explode:
            yield from ((name, [item], separator) for item in value)
        elif value:
            yield name, value, separator
    else:
        yield name, [value], separator


def _deep(name: str, value: Any) -> Iterator[tuple[str, list[Any], str]]:
    """The single values in a value, each under the way to it in brackets; items of a list have numbers."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _deep(f"{name}[{key}]", item)
    elif value is not None:
        yield name, [value], ""


def path_text(name: str, value: Any, style: str, explode: bool) -> str:
    """A parameter of the path."""
    prefix = _PREFIXES.get(style, "")
    separator = prefix if prefix and explode else ","
    if style == "matrix" and not (isinstance(value, dict) and explode):
        if isinstance(value, list) and explode:
            return "".join(f";{encoded(name)}={encoded(item)}" for item in value)
        return f";{encoded(name)}={listed(value, ',', explode)}"
    return prefix + listed(value, separator, explode)


def listed(value: Any, separator: str, explode: bool) -> str:
    """A value in one text: items, or names and values, with a separator between them."""
    if isinstance(value, list):
        return _joined(value, separator)
    if isinstance(value, dict):
        if explode:
            return separator.join(f"{encoded(key)}={encoded(item)}" for key, item in value.items())
        return _joined([part for pair in value.items() for part in pair], separator)
    return encoded(value)


def _joined(items: list[Any], separator: str) -> str:
    return separator.join(map(encoded, items))
