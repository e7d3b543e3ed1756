"""The tools of an OpenAPI document: one for each operation. A broken operation is left out; the others stay."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from msgspec import structs

from rrext.limits import MAX_EXPORTED_NAME
from rrext.providers.http.document import FreeNames, Schemas, UnusableDescription, followed, server_of
from rrext.providers.http.requests import (
    BYTES_MEDIA,
    HEADER_NAME,
    KIND_ORDER,
    PLACEHOLDER,
    PLAIN_FIELD,
    PLAIN_MEDIA,
    ApiBody,
    ApiField,
    ApiOperation,
    ApiParameter,
    BodyKind,
    annotations_of,
    kind_of,
)
from rrext.providers.provider import ProvidedTool, log

MAX_TOOL_DESCRIPTION: Final = 4000
"""Characters of a description; some documents have whole chapters there, which models read with each question."""

MAX_OPERATIONS: Final = 10_000
"""Tools of one document; further operations are left out."""
MAX_ALTERNATIVES: Final = 5
"""Alternatives within alternatives, and items within items, in which files of a body are looked for."""
MAX_BODY_PARTS: Final = 1000
"""Parts of the schema of a body in which fields and files are looked for: alternatives of alternatives may have no end."""
MAX_LOGGED_PROBLEMS: Final = 20
"""Operations without a tool that are logged with their reason; of the others, their number is."""

METHODS: Final = ("get", "put", "post", "delete", "patch", "head")
_PLACES: Final = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}
"""Places of parameters, and their style by default."""
_NEVER_PARAMETERS: Final = {
    *("accept", "authorization", "connection", "content-length", "content-type", "cookie", "expect", "host", "keep-alive"),
    *("proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade"),
}
"""Headers that a document does not decide: those of the connection and of HTTP itself."""
_FILE: Final = "The file, in base64."
_BINARY: Final = re.compile(r"(image|audio|video|font)/|application/(octet-stream|pdf|zip|gzip)\b")
"""Types of content that no text has."""
_MANY: Final = ("anyOf", "oneOf", "allOf")
_NOTES: Final = {"title", "description", "default", "example", "examples", "deprecated", "readOnly", "writeOnly"}
"""Keywords that say nothing of the form of a value."""
_XML: Final = {"type": "string", "description": "The XML."}


class HttpTool(msgspec.Struct, frozen=True):
    """A tool and its operation."""

    tool: ProvidedTool
    operation: ApiOperation


class DocumentTools:
    """Reads the operations of one document, whose URL is `source`, for the API at the address `base`.

    `headers` and `query` name what the connection adds to each request.
    """

    def __init__(
        self,
        document: Mapping[str, Any],
        *,
        source: str = "",
        base: str = "",
        headers: Collection[str] = (),
        query: Collection[str] = (),
        only: Collection[str] = (),
    ) -> None:
        self._document = document
        self._schemas = Schemas(document)
        self._given = {("header", name.lower()) for name in headers} | {("query", name) for name in query}
        self._only = only
        self._source = source
        self._base = base
        self._names = FreeNames()
        self._looked = 0  # parts of the schema of the body at hand
        self._is_newer = not str(document.get("openapi")).startswith("3.0")
        self.problems: list[str] = []

    def read(self) -> dict[str, HttpTool]:
        """The tools by name."""
        found: dict[str, HttpTool] = {}
        for path, item, method in self._operations():
            if len(found) == MAX_OPERATIONS:
                self.problems.append(f"{method.upper()} {path} and all after it: {MAX_OPERATIONS:,} tools are the limit")
                break
            try:
                made = self._tool(path, item, method)
            except UnusableDescription as error:
                self.problems.append(f"{method.upper()} {path}: {error}")
            except RecursionError:
                self.problems.append(f"{method.upper()} {path}: it is nested too deeply")
            else:
                if made is not None:
                    found[made.tool.name] = made
        return found

    def report(self, connection: str) -> None:
        """Log the operations that were left out."""
        for problem in self.problems[:MAX_LOGGED_PROBLEMS]:
            log.warning("connection %s: an operation is left out: %s", connection, problem[:1000])
        if (more := len(self.problems) - MAX_LOGGED_PROBLEMS) > 0:
            log.warning("connection %s: %d more operations are left out", connection, more)

    def _operations(self) -> Iterator[tuple[str, Mapping[str, Any], str]]:
        paths = self._document.get("paths")
        for path, item in paths.items() if isinstance(paths, Mapping) else ():
            if path.startswith("x-"):
                continue
            try:
                item = followed(self._document, item)
            except UnusableDescription as error:
                self.problems.append(f"{path}: {error}")
                continue
            if not isinstance(item, Mapping):
                self.problems.append(f"{path}: it is no object")
                continue
            for method in METHODS:
                if method in item:
                    yield path, item, method

    def _tool(self, path: str, item: Mapping[str, Any], method: str) -> HttpTool | None:
        described = item[method]
        if not isinstance(described, Mapping):
            raise UnusableDescription("it is no object")
        if servers := described.get("servers") or item.get("servers"):
            own = server_of({"servers": servers}, self._source) or ""
            if own.rstrip("/") != self._base:
                raise UnusableDescription(f"it has a server of its own: make a connection with the url {own[:200]!r} for it")
        below, _, fixed = path.partition("?")
        if re.fullmatch(r"/[^#\\\s]*", path) is None or not path.isprintable() or {".", ".."} & set(below.split("/")):
            raise UnusableDescription("its path is none")
        in_query = {("query", name) for name, _ in parse_qsl(fixed, keep_blank_values=True)}
        if in_query & self._given:
            raise UnusableDescription("its path sets what the connection sets")
        name = self._name(described.get("operationId"), method, path)
        if self._only and not any(fnmatchcase(name, pattern) for pattern in self._only):
            return None
        properties: dict[str, Any] = {}
        required: list[str] = []
        names = FreeNames()
        parameters = tuple(self._parameters(item, described, path, in_query | self._given, properties, required, names))
        body = self._body(described.get("requestBody"), properties, required, names)
        schema = self._schemas.input(properties, required)
        tool = ProvidedTool(
            name=name,
            description=_description(described),
            input_schema=schema,
            output_schema=self._output(described.get("responses")),
            annotations=annotations_of(method.upper(), _text(described.get("summary"))),
        )
        return HttpTool(tool, ApiOperation(method=method.upper(), path=path, parameters=parameters, body=body))

    def _name(self, wanted: Any, method: str, path: str) -> str:
        text = wanted if isinstance(wanted, str) and wanted.strip() else f"{method}_{path}"
        return self._names.take(re.sub(r"[^a-zA-Z0-9-]+", "_", text).strip("_")[:MAX_EXPORTED_NAME].rstrip("_") or method)

    def _parameters(
        self,
        item: Mapping[str, Any],
        described: Mapping[str, Any],
        path: str,
        given: Collection[tuple[str, str]],
        properties: dict[str, Any],
        required: list[str],
        names: FreeNames,
    ) -> Iterator[ApiParameter]:
        placeholders, within = PLACEHOLDER.findall(path), PLACEHOLDER.findall(path.partition("?")[0])
        found: dict[tuple[str, str], Mapping[str, Any]] = {}
        for listed in (item.get("parameters"), described.get("parameters")):
            for each in listed if isinstance(listed, list) else ():
                parameter = followed(self._document, each)
                name, place = (parameter.get("name"), parameter.get("in")) if isinstance(parameter, Mapping) else (None, None)
                if not isinstance(name, str) or not name or not isinstance(place, str) or place not in _PLACES:
                    raise UnusableDescription("a parameter has no name, or no place")
                found[place, name.lower() if place == "header" else name] = parameter
        for name in placeholders:
            found.setdefault(("path", name), {"name": name, "in": "path", "schema": {"type": "string"}})
        for (place, name), parameter in found.items():
            if place == "header" and HEADER_NAME.fullmatch(name) is None:
                raise UnusableDescription("the name of a header is none")
            if (place, name) in given or (place == "header" and name in _NEVER_PARAMETERS):
                continue
            if place == "path" and name not in placeholders:
                continue
            made, schema = self._parameter(parameter, place, names)
            if place == "path" and name not in within:
                made = structs.replace(made, place="text")
            properties[made.property] = schema
            if place == "path" or parameter.get("required") is True:
                required.append(made.property)
            yield made

    def _parameter(self, parameter: Mapping[str, Any], place: Any, names: FreeNames) -> tuple[ApiParameter, Any]:
        content = parameter.get("content")
        schema: Any = parameter.get("schema")
        is_json = False
        if isinstance(content, Mapping) and content:
            media, described = next(iter(content.items()))
            is_json = kind_of(media) == "json"
            schema = described.get("schema") if isinstance(described, Mapping) else None
        style = parameter.get("style", _PLACES[place])
        if not isinstance(style, str):
            raise UnusableDescription("the style of a parameter is no text")
        if text := _text(parameter.get("description")):
            schema = {**schema, "description": text} if isinstance(schema, Mapping) and "$ref" not in schema else schema
            if isinstance(schema, Mapping) and "$ref" in schema:
                schema = {"allOf": [schema], "description": text}
        made = ApiParameter(
            name=parameter["name"],
            place=place,
            property=_free_property(parameter["name"], place, names),
            style=style,
            explode=_explodes(parameter, style),
            is_json=is_json,
            allow_reserved=place == "query" and parameter.get("allowReserved") is True,
        )
        return made, {} if schema is None else schema

    def _body(self, described: Any, properties: dict[str, Any], required: list[str], names: FreeNames) -> ApiBody | None:
        body = followed(self._document, described)
        content = body.get("content") if isinstance(body, Mapping) else None
        if not isinstance(content, Mapping) or not content:
            return None
        media = min(content, key=lambda name: KIND_ORDER.index(kind_of(name)))
        if kind_of(media) == "json" and self._has_file(content[media]):  # which JSON cannot hold
            media = next((name for name in content if kind_of(name) == "multipart"), media)
        kind = kind_of(media)
        sent: Mapping[str, Any] = content[media] if isinstance(content[media], Mapping) else {}
        schema, fields = sent.get("schema"), {}
        if kind == "bytes" and "*" in media and _is_structured(followed(self._document, schema)):
            kind = "json"
        if kind == "bytes":
            schema = {"type": "string", "description": "The content, in base64."}
        elif kind == "text":
            schema = {"type": "string"}
        elif kind in ("form", "multipart"):
            schema, fields = self._form(kind, schema, sent.get("encoding"))
        name = _free_property("body", "request", names)
        properties[name] = {} if schema is None else schema
        if body.get("required") is True:
            required.append(name)
        if not (media.isascii() and media.isprintable()):
            raise UnusableDescription("the type of its body is none")
        return ApiBody(kind=kind, media=PLAIN_MEDIA[kind] if "*" in media else media, property=name, fields=fields)

    def _has_file(self, sent: Any) -> bool:
        _, fields = self._form("json", sent.get("schema") if isinstance(sent, Mapping) else None, None)
        return any(field.is_file for field in fields.values())

    def _form(self, kind: BodyKind, schema: Any, encoding: Any, depth: int = 0) -> tuple[Any, dict[str, ApiField]]:
        """The schema of a form or multipart body, with files as base64 and XML as text, and the fields that are not plain."""
        self._looked = self._looked if depth else 0
        inner = followed(self._document, schema)
        if not isinstance(inner, Mapping) or not self._may_look(depth):
            return schema, {}
        encoding = encoding if isinstance(encoding, Mapping) else {}
        fields = {} if depth else {name: self._field(given) for name, given in encoding.items()}
        made: dict[str, Any] = {}
        for key in _MANY:
            if isinstance(listed := inner.get(key), list):
                parts = [self._form(kind, part, encoding, depth + 1) for part in listed]
                made[key] = [part for part, _ in parts]
                for _, found in parts:
                    fields |= found
        if isinstance(properties := inner.get("properties"), Mapping):
            made["properties"] = {}
            for name, described in properties.items():
                made["properties"][name], field = self._form_field(kind, described, self._field(encoding.get(name)))
                fields |= {} if field == PLAIN_FIELD else {name: field}
        fields = {name: field for name, field in fields.items() if field != PLAIN_FIELD}
        return ({**inner, **made} if fields else schema), fields

    def _may_look(self, depth: int) -> bool:
        """Whether there may be fields or files in one more part of a body, at this depth of alternatives."""
        self._looked += 1
        return depth <= MAX_ALTERNATIVES and self._looked <= MAX_BODY_PARTS

    def _form_field(self, kind: BodyKind, schema: Any, field: ApiField) -> tuple[Any, ApiField]:
        """The schema that callers see of a field, and how its value is written."""
        inner = followed(self._document, schema)
        items = followed(self._document, inner.get("items")) if isinstance(inner, Mapping) else None
        if re.search(r"[/+]xml\b", field.media):
            return {"type": "array", "items": _XML} if isinstance(items, Mapping) else _XML, field
        if kind == "form":
            return schema, field
        found, has_file = self._with_files(schema, field.media if kind == "multipart" else None)
        if has_file:
            return found, ApiField(media=field.media, is_file=True, headers=field.headers)
        if encoded := _encoding_of(inner) or _encoding_of(items):
            headers = {"content-transfer-encoding": encoded, **field.headers}
            return schema, structs.replace(field, media=field.media or BYTES_MEDIA, headers=headers)
        return schema, field

    def _with_files(self, schema: Any, media: str | None, depth: int = 0) -> tuple[Any, bool]:
        """The schema with files as base64, and whether there are any, also as items and in alternatives.

        `media` is the type of the content, as far as it is said; None stands for JSON.
        """
        inner = followed(self._document, schema)
        if not isinstance(inner, Mapping) or not self._may_look(depth):
            return schema, False
        if self._is_file(inner, media):
            text = f"{_text(inner.get('description'))} {_FILE}".strip()
            return {"type": inner.get("type", "string"), "nullable": inner.get("nullable"), "description": text}, True
        made: dict[str, Any] = {}
        for key in _MANY:
            if isinstance(listed := inner.get(key), list):
                parts = [self._with_files(part, media, depth + 1) for part in listed]
                if any(is_file for _, is_file in parts):
                    made[key] = [part for part, _ in parts]
        if "items" in inner or inner.get("type") == "array":
            items, is_file = self._with_files(inner.get("items", {}), media, depth + 1)
            made |= {"items": items} if is_file else {}
        return ({**inner, **made}, True) if made else (schema, False)

    def _is_file(self, schema: Mapping[str, Any], media: str | None) -> bool:
        """Whether a value is bytes, by its schema, or by the type of the content where the schema says no more than text."""
        if schema.get("format") == "binary":
            return True
        if media is None or _encoding_of(schema) or any(key in schema for key in _MANY):
            return False
        if kind_of(schema.get("contentMediaType", "text/plain")) == "bytes":
            return True
        if "type" in schema:
            return schema["type"] in ("string", ["string", "null"]) and _BINARY.match(media) is not None
        return kind_of(media) == "bytes" if media else self._is_newer and schema.keys() <= _NOTES

    def _field(self, given: Any) -> ApiField:
        """A field as its encoding says. A style, said or by default, replaces the type of the content."""
        if not isinstance(given, Mapping):
            return PLAIN_FIELD
        headers = dict(self._fixed_headers(given.get("headers")))
        if {"style", "explode", "allowReserved"} & given.keys():
            style = given.get("style", "form")
            if not isinstance(style, str):
                raise UnusableDescription("the style of a field is no text")
            is_open = given.get("allowReserved") is True
            return ApiField(style=style, explode=_explodes(given, style), allow_reserved=is_open, headers=headers)
        listed = given.get("contentType")
        types = [each.strip() for each in listed.split(",")] if isinstance(listed, str) else []
        media = next((each for each in types if "*" not in each), BYTES_MEDIA if types else "")
        if not (media.isascii() and media.isprintable()):
            raise UnusableDescription("the type of a field is none")
        return ApiField(media=media, headers=headers)

    def _fixed_headers(self, headers: Any) -> Iterator[tuple[str, str]]:
        """The headers of a part that can have one value alone: no argument is a header of a part."""
        for name, header in headers.items() if isinstance(headers, Mapping) else ():
            described = followed(self._document, header)
            schema = followed(self._document, described.get("schema")) if isinstance(described, Mapping) else None
            values = schema.get("enum", [schema.get("const")]) if isinstance(schema, Mapping) else None
            match values:
                case [str(text)] if HEADER_NAME.fullmatch(name) and text.isascii() and text.isprintable():
                    if name.lower() not in ("content-type", "content-disposition"):
                        yield name.lower(), text

    def _output(self, responses: Any) -> dict[str, Any] | None:
        """The shape of the answer, if each success has the same one in JSON."""
        if not isinstance(responses, Mapping):
            return None
        schemas: list[Any] = []
        for status, response in responses.items():
            if not str(status).startswith("2"):
                continue
            try:
                content = followed(self._document, response).get("content")
                ((media, described),) = content.items()
            except (UnusableDescription, AttributeError, TypeError, ValueError):
                return None
            if kind_of(media) != "json" or not isinstance(described, Mapping) or "schema" not in described:
                return None
            schemas.append(described["schema"])
        if not schemas or any(schema != schemas[0] for schema in schemas):
            return None
        return self._schemas.output(schemas[0])


def _explodes(given: Mapping[str, Any], style: str) -> bool:
    return given.get("explode", style in ("form", "deepObject")) is True


def _encoding_of(schema: Any) -> str:
    """The encoding in which a text stands for bytes, such as `base64`; "" for other values."""
    if not isinstance(schema, Mapping):
        return ""
    encoding = "base64" if schema.get("format") in ("byte", "base64") else schema.get("contentEncoding")
    return encoding if isinstance(encoding, str) and HEADER_NAME.fullmatch(encoding) else ""


def _is_structured(schema: Any) -> bool:
    """Whether a schema describes an object or a list."""
    return isinstance(schema, Mapping) and schema.get("type", "object" if "properties" in schema else "") in ("object", "array")


def _free_property(name: str, place: str, names: FreeNames) -> str:
    """A name of a property, in the characters that vendors of models accept."""
    wanted = re.sub(r"[^a-zA-Z0-9_.-]+", "_", name).strip("_")[:MAX_EXPORTED_NAME] or place
    return names.take(f"{wanted[: MAX_EXPORTED_NAME - 10]}_{place}" if wanted in names else wanted)


def _text(value: Any) -> str:
    return " ".join(value.split())[:MAX_TOOL_DESCRIPTION] if isinstance(value, str) else ""


def _description(described: Mapping[str, Any]) -> str:
    parts = (described.get("summary"), described.get("description"))
    texts = dict.fromkeys(part.strip() for part in parts if isinstance(part, str) and part.strip())
    text = "\n\n".join(texts)
    return text if len(text) <= MAX_TOOL_DESCRIPTION else text[: MAX_TOOL_DESCRIPTION - 1] + "…"
