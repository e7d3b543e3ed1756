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
from rrext.providers.http.document import UnusableDescription, followed
from rrext.providers.http.requests import (
    BYTES_MEDIA,
    HEADER_NAME,
    KIND_ORDER,
    PLACEHOLDER,
    PLAIN_FIELD,
    ApiBody,
    ApiField,
    ApiOperation,
    ApiParameter,
    BodyKind,
    annotations_of,
    kind_of,
)
from rrext.providers.http.schemas import FreeNames, Schemas
from rrext.providers.limits import MAX_LOGGED_PROBLEMS, MAX_OPERATIONS, MAX_TOOL_DESCRIPTION
from rrext.providers.provider import ProvidedTool, log

METHODS: Final = ("get", "put", "post", "delete", "patch", "head")
_PLACES: Final = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}
"""Places of parameters, and their style by default."""
_NEVER_PARAMETERS: Final = {
    *("accept", "authorization", "connection", "content-length", "content-type", "cookie", "expect", "host", "keep-alive"),
    *("proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade"),
}
"""Headers that a document does not decide: those of the connection and of HTTP itself."""
_FILE: Final = {"type": "string", "description": "The file, in base64."}
_BINARY: Final = re.compile(r"(image|audio|video|font)/|application/(octet-stream|pdf|zip|gzip)\b")
"""Types of content that no text has."""
_XML: Final = {"type": "string", "description": "The XML."}


class HttpTool(msgspec.Struct, frozen=True):
    """A tool and its operation."""

    tool: ProvidedTool
    operation: ApiOperation


class DocumentTools:
    """Reads the operations of one document. `headers` and `query` name what the connection adds to each request."""

    def __init__(
        self,
        document: Mapping[str, Any],
        *,
        headers: Collection[str] = (),
        query: Collection[str] = (),
        only: Collection[str] = (),
    ) -> None:
        self._document = document
        self._schemas = Schemas(document)
        self._given = {("header", name.lower()) for name in headers} | {("query", name) for name in query}
        self._only = only
        self._names = FreeNames()
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
        if described.get("servers") or item.get("servers"):
            raise UnusableDescription("it has a server of its own: make a connection for that")
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
        kind = kind_of(media)
        sent: Mapping[str, Any] = content[media] if isinstance(content[media], Mapping) else {}
        schema, fields = sent.get("schema"), {}
        if kind == "bytes":
            schema = {"type": "string", "description": "The content, in base64."}
        elif kind == "text":
            schema = {"type": "string"}
        elif kind in ("form", "multipart"):
            schema, fields = self._fields(kind, schema, sent.get("encoding"))
        name = _free_property("body", "request", names)
        properties[name] = {} if schema is None else schema
        if body.get("required") is True:
            required.append(name)
        if not (media.isascii() and media.isprintable()):
            raise UnusableDescription("the type of its body is none")
        return ApiBody(kind=kind, media=BYTES_MEDIA if "*" in media else media, property=name, fields=fields)

    def _fields(self, kind: BodyKind, schema: Any, encoding: Any) -> tuple[Any, dict[str, ApiField]]:
        """The schema of a form or multipart body, with files as base64 and XML as text, and the fields that are not plain."""
        schema = followed(self._document, schema)
        properties = schema.get("properties") if isinstance(schema, Mapping) else None
        made: dict[str, Any] = {**properties} if isinstance(properties, Mapping) else {}
        fields: dict[str, ApiField] = {}
        for name, given in {**dict.fromkeys(made), **(encoding if isinstance(encoding, Mapping) else {})}.items():
            inner = followed(self._document, made.get(name))
            items = followed(self._document, inner.get("items")) if isinstance(inner, Mapping) else None
            field = _field(given if isinstance(given, Mapping) else {})
            text = _XML if re.search(r"[/+]xml\b", field.media) else None
            if kind == "multipart" and (_is_file(inner, field.media) or _is_file(items, "")):
                field, text = ApiField(media=field.media, is_file=True), _FILE
            if text is not None and name in made:
                made[name] = {"type": "array", "items": text} if isinstance(items, Mapping) else text
            if field != PLAIN_FIELD:
                fields[name] = field
        return {**schema, "properties": made} if made else schema, fields

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


def _field(given: Mapping[str, Any]) -> ApiField:
    """A field as its encoding says. A style, said or by default, replaces the type of the content."""
    if {"style", "explode", "allowReserved"} & given.keys():
        style = given.get("style", "form")
        if not isinstance(style, str):
            raise UnusableDescription("the style of a field is no text")
        return ApiField(style=style, explode=_explodes(given, style), allow_reserved=given.get("allowReserved") is True)
    listed = given.get("contentType")
    media = (
        next((each.strip() for each in listed.split(",") if "*" not in each), BYTES_MEDIA) if isinstance(listed, str) else ""
    )
    if not (media.isascii() and media.isprintable()):
        raise UnusableDescription("the type of a field is none")
    return ApiField(media=media)


def _explodes(given: Mapping[str, Any], style: str) -> bool:
    return given.get("explode", style in ("form", "deepObject")) is True


def _is_file(schema: Any, media: str) -> bool:
    """Whether the content of a field is bytes, by its schema, or by its type where the schema says no more than text."""
    if not isinstance(schema, Mapping):
        return False
    if schema.get("format") in ("binary", "byte") or "contentMediaType" in schema or "contentEncoding" in schema:
        return True
    return _BINARY.match(media) is not None or ("type" not in schema and media != "" and kind_of(media) == "bytes")


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
