"""An OpenAPI document: its text, its version, the address of its server, references within it, and its schemas as JSON
Schema 2020-12, each with all definitions that it refers to.

OpenAPI 3.0 has a dialect of its own (`nullable`, `exclusiveMinimum: true`); 3.1 is JSON Schema already. Words that mean
nothing to a validator are left out, and so are mistakes that many documents have (`required: true` on a property).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, Literal
from urllib.parse import unquote, urljoin, urlsplit

import msgspec

from rrext.limits import MAX_EXPORTED_NAME

MAX_YAML_VALUES: Final = 2_000_000
"""Values of a document in YAML, with those that aliases repeat; the largest public ones have a tenth of it."""

MAX_REFERENCES: Final = 50
"""References that lead to references, until a chain of them is taken for a circle."""

_WORDS: Final[Mapping[str, Any]] = {"": None, "~": None, "null": None, "true": True, "false": False}
_NUMBER: Final = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?", re.ASCII)
_VERSION: Final = re.compile(r"3\.[01]\.")


class UnusableDescription(Exception):
    """A part of a description from outside that no tool can be made of; the message says why."""


def read_document(raw: bytes) -> Mapping[str, Any]:
    """The document in JSON or YAML. Raises `UnusableDescription`."""
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    try:
        document = msgspec.json.decode(raw) if raw.lstrip()[:1] in (b"{", b"[") else _yaml(raw)
    except RecursionError:
        raise UnusableDescription("it is nested too deeply") from None
    except msgspec.DecodeError as error:
        raise UnusableDescription(f"it is no JSON: {error}") from None
    if not isinstance(document, dict):
        raise UnusableDescription("it is no object of JSON or YAML")
    version = document.get("openapi")
    if not isinstance(version, str) or _VERSION.match(version) is None:
        said = f"openapi {version}" if version else f"swagger {document['swagger']}" if "swagger" in document else "no version"
        raise UnusableDescription(f"expected an OpenAPI document of version 3.0 or 3.1, got {str(said)[:50]}")
    return document


def _yaml(raw: bytes) -> Any:
    """The value of a text in YAML. Raises `UnusableDescription`."""
    try:
        import yaml
    except ImportError as error:
        raise UnusableDescription(f'it is no JSON; YAML needs a package ({error}): pip install "rrext[http]"') from None
    try:
        return _YamlReader(yaml, raw).document()
    except yaml.YAMLError as error:
        raise UnusableDescription(f"it is neither JSON nor YAML: {' '.join(str(error).split())[:300]}") from None


class _YamlReader:
    """Reads YAML with the types of JSON: a key is a text, `200` too, and so are dates, `no` and `on`.

    It reads events: libyaml composes values by recursion in C, which a deep text ends together with the process. An alias
    counts as often as it stands, because a few lines of them mean more than any memory holds.
    """

    def __init__(self, yaml: Any, raw: bytes) -> None:
        self._yaml = yaml
        events = yaml.parse(raw, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))
        self._events = (event for event in events if isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent))
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._values = 0

    def document(self) -> Any:
        """The one value of the text; None for none."""
        first = next(self._events, None)
        value = None if first is None else self._value(first)
        if next(self._events, None) is not None:
            raise UnusableDescription("it has more than one document")
        return value

    def _value(self, event: Any) -> Any:
        yaml, before = self._yaml, self._values
        value: Any
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise UnusableDescription(f'its alias "{event.anchor[:200]}" stands for nothing before it')
            value, repeated = self._anchors[event.anchor]
            self._values += repeated
        else:
            if isinstance(event, yaml.ScalarEvent):
                value = _scalar(event.value) if event.implicit[0] and event.tag is None else event.value
            elif isinstance(event, yaml.SequenceStartEvent):
                value = []
                while not isinstance(item := next(self._events), yaml.SequenceEndEvent):
                    value.append(self._value(item))
            else:
                value = self._mapping()
            self._values += 1
            if event.anchor is not None:
                self._anchors[event.anchor] = value, self._values - before
        if self._values > MAX_YAML_VALUES:
            raise UnusableDescription(f"it has more than {MAX_YAML_VALUES:,} values, each alias counted as what it stands for")
        return value

    def _mapping(self) -> dict[str, Any]:
        """The mapping that has begun; `<<` adds what other mappings have and it does not."""
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        while not isinstance(key := next(self._events), self._yaml.MappingEndEvent):
            if not isinstance(key, self._yaml.ScalarEvent):
                raise UnusableDescription("a key of a mapping is no text")
            value = self._value(next(self._events))
            if key.value == "<<" and key.implicit[0]:
                for other in value if isinstance(value, list) else [value]:
                    merged = {**(other if isinstance(other, dict) else {}), **merged}
            else:
                own[key.value] = value
        return {**merged, **own}


def _scalar(text: str) -> Any:
    """A scalar without quotes: null, a truth value or a number, else a text."""
    word = text.lower() if text in (text.lower(), text.upper(), text.capitalize()) else text
    if word in _WORDS:
        return _WORDS[word]
    if _NUMBER.fullmatch(text):
        with suppress(msgspec.DecodeError):
            return msgspec.json.decode(text)
    return text


def server_of(document: Mapping[str, Any], source: str) -> str | None:
    """The address of the first server, with the defaults of its variables; `source` is the URL of the document, or ""."""
    servers = document.get("servers")
    server = servers[0] if isinstance(servers, list) and servers else {}
    if not isinstance(server, Mapping):
        return None
    url, variables = server.get("url", "/"), server.get("variables")
    if not isinstance(url, str):
        return None
    for name, variable in variables.items() if isinstance(variables, Mapping) else ():
        if isinstance(variable, Mapping):
            url = url.replace("{" + str(name) + "}", str(variable.get("default", "")))
    try:
        return urljoin(source, url) if source else url
    except ValueError:
        return None


def origin_of(url: str) -> tuple[str, str, int] | None:
    """Scheme, host and port of an absolute HTTP address; None for anything else, and for one that holds a password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None or port == 0:
        return None
    return parts.scheme, parts.hostname.lower(), port or (443 if parts.scheme == "https" else 80)


def leads_out(reference: Any) -> UnusableDescription:
    """The error for a reference to another document, or to nothing at all."""
    return UnusableDescription(f"the reference {str(reference)[:200]!r} leads out of the document: nothing else is read")


def pointed(document: Any, reference: Any) -> Any:
    """The value that a reference such as `#/components/schemas/Pet` names. Raises `UnusableDescription`."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        raise leads_out(reference)
    value = document
    for token in reference[2:].split("/") if len(reference) > 2 else ():
        token = unquote(token).replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping) and token in value:
            value = value[token]
        elif isinstance(value, list) and token.isdecimal() and len(token) < 10 and int(token) < len(value):
            value = value[int(token)]
        else:
            raise UnusableDescription(f"the reference {reference[:200]!r} leads to nothing")
    return value


def followed(document: Any, value: Any) -> Any:
    """The value itself, or the one that it refers to. Raises `UnusableDescription`, also for a circle."""
    for _ in range(MAX_REFERENCES):
        if not isinstance(value, Mapping) or "$ref" not in value:
            return value
        value = pointed(document, value["$ref"])
    raise UnusableDescription("its references form a circle")


MAX_DEFINITIONS: Final = 1000
"""Definitions of an input schema; an operation with more has no tool, because no model could read it."""

MAX_OUTPUT_SCHEMA: Final = 4000
"""Bytes of an output schema, behind which its definitions become any value: each list of tools carries it."""

Direction = Literal["in", "out"]

_ONE: Final = {
    *("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties", "contentSchema"),
}
_MANY: Final = {"allOf", "anyOf", "oneOf", "prefixItems"}
_NAMED: Final = {"properties", "patternProperties", "dependentSchemas"}
_DROPPED: Final = {
    *("nullable", "discriminator", "xml", "externalDocs", "example", "readOnly", "writeOnly", "deprecated", "additionalItems"),
    *("$id", "id", "$schema", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary"),
    *("$comment", "$defs", "definitions"),
}
_KEPT_LOOSE: Final = {"$ref", "type", "properties", "items", "allOf", "anyOf", "oneOf"}
_FOREIGN: Final = re.compile(r"[^a-zA-Z0-9_.-]+")


class FreeNames:
    """Adds a number to a name that is taken. Counts for each name, so that ten thousand equal ones cost no more than others."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._counts

    def take(self, wanted: str) -> str:
        """A name like this one that is free, and then taken. Only its number makes it longer, up to `MAX_EXPORTED_NAME`."""
        name = wanted
        while name in self._counts:
            self._counts[wanted] += 1
            tail = f"_{self._counts[wanted]}"
            name = wanted[: MAX_EXPORTED_NAME - len(tail)] + tail
        self._counts[name] = 1
        return name


class Schemas:
    """The schemas of one document. Each definition is translated once, however many tools refer to it."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._names: dict[tuple[Direction, str], str] = {}
        self._references: dict[tuple[Direction, str], str] = {}
        self._free = {"in": FreeNames(), "out": FreeNames()}
        self._closures: dict[frozenset[str], dict[str, Any]] = {}
        self._sizes: dict[str, int] = {}  # bytes of the definitions of answers
        self._hidden_behind: dict[tuple[Direction, str], frozenset[str]] = {}
        self._definitions: dict[tuple[Direction, str], tuple[dict[str, Any], frozenset[str]] | str] = {}

    def input(self, properties: Mapping[str, Any], required: Iterable[str]) -> dict[str, Any]:
        """The input schema of a tool with these properties. Raises `UnusableDescription`."""
        found: set[str] = set()
        schema: dict[str, Any] = {"type": "object"}
        schema["properties"] = {name: self._translated(value, "in", found) for name, value in properties.items()}
        if names := list(required):
            schema["required"] = names
        schema["additionalProperties"] = False
        return self._closed(_required_usable(schema), found)

    def object(self, schema: Any) -> dict[str, Any]:
        """The input schema of a tool that is given as the schema of an object. Raises `UnusableDescription`."""
        found: set[str] = set()
        translated = self._translated(schema, "in", found)
        if not isinstance(translated, dict) or translated.setdefault("type", "object") != "object":
            raise UnusableDescription("its input is no object")
        return self._closed(_required_usable(translated), found)

    def output(self, schema: Any) -> dict[str, Any] | None:
        """The shape of an answer, without all that servers do not keep to; None if it cannot be used.

        Only types remain, and null fits everywhere but at the root: a result with a field left out is still a result. Of a
        large one the definitions that are nearest to the root remain, and any value fits the others.
        """
        found: set[str] = set()
        try:
            translated = self._translated(schema, "out", found)
            if isinstance(translated, dict) and "$ref" in translated:
                translated, more = self._definition("out", translated["$ref"].removeprefix("#/$defs/"))
                found = set(more)
            if isinstance(translated, dict) and "$ref" in translated:
                return None
            closed = self._shortened(_required_usable(dict(translated)), found)
        except (UnusableDescription, RecursionError, KeyError, TypeError):
            return None
        if isinstance(closed.get("type"), list):
            closed["type"] = closed["type"][0]
        return closed or None

    def _closed(self, schema: dict[str, Any], found: set[str]) -> dict[str, Any]:
        """The schema with the definitions that it refers to, also through others."""
        if not found:
            return schema
        key = frozenset(found)
        needed = self._closures.get(key)
        if needed is None:
            needed, waiting = {}, sorted(found)
            while waiting:
                name = waiting.pop()
                if len(needed) > MAX_DEFINITIONS:
                    raise UnusableDescription(f"it needs more than {MAX_DEFINITIONS:,} definitions")
                if name not in needed:
                    needed[name], more = self._definition("in", name)
                    waiting += [other for other in more if other not in needed]
            needed = self._closures[key] = dict(sorted(needed.items()))
        return {**schema, "$defs": needed}

    def _shortened(self, schema: dict[str, Any], found: set[str]) -> dict[str, Any]:
        """The schema of an answer with its nearest definitions, up to a size, and empty ones for those behind."""
        needed: dict[str, dict[str, Any]] = {}
        left = MAX_OUTPUT_SCHEMA - len(msgspec.json.encode(schema))
        waiting = deque(sorted(found))
        while waiting:
            name = waiting.popleft()
            if name not in needed:
                needed[name] = {}
                if left > 0:
                    definition, more = self._definition("out", name)
                    if name not in self._sizes:
                        self._sizes[name] = len(msgspec.json.encode(definition))
                    left -= self._sizes[name]
                    if left > 0:
                        needed[name] = definition
                        waiting += sorted(more)
        return {**schema, "$defs": dict(sorted(needed.items()))} if needed else schema

    def _definition(self, direction: Direction, name: str) -> tuple[dict[str, Any], frozenset[str]]:
        """A definition, and the names of those that it refers to. It is made once, also if it is unusable."""
        found = self._definitions.get((direction, name))
        if found is None:
            inner: set[str] = set()
            try:
                target = pointed(self._document, self._references[direction, name])
                found = _required_usable(_as_object(self._translated(target, direction, inner))), frozenset(inner)
            except UnusableDescription as error:
                found = str(error)
            except RecursionError:
                found = "it is nested too deeply"
            self._definitions[direction, name] = found
        if isinstance(found, str):
            raise UnusableDescription(found)
        return found

    def _reference(self, reference: Any, direction: Direction, found: set[str]) -> dict[str, Any]:
        if not isinstance(reference, str):
            raise leads_out(reference)
        name = self._names.get((direction, reference))
        if name is None:
            name = self._free[direction].take(_FOREIGN.sub("_", reference.rpartition("/")[2]) or "root")
            self._names[direction, reference], self._references[direction, name] = name, reference
        found.add(name)
        return {"$ref": f"#/$defs/{name}"}

    def _translated(self, schema: Any, direction: Direction, found: set[str], hidden: Collection[str] = ()) -> Any:
        """The schema, with the names of definitions that it refers to in `found`, and without properties that are `hidden`."""
        if schema is None:
            return {}
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, Mapping):
            raise UnusableDescription("a schema is no object")
        made: dict[str, Any] = {}
        if "properties" in schema or "required" in schema or "allOf" in schema:
            hidden = {*hidden, *self._hidden(schema, direction)}
        for key, value in schema.items():
            if key == "$ref":
                made |= self._reference(value, direction, found)
            elif not _is_dropped(key, value, direction):
                made[key] = self._word(key, value, direction, found, hidden)
        required = made.pop("required", None)
        if isinstance(required, list) and (names := [name for name in required if str(name) not in hidden]):
            made["required"] = names
        if direction == "in":
            _with_bounds(made)
            return _with_null(made) if schema.get("nullable") is True else made
        return _loosened(made)

    def _hidden(self, schema: Any, direction: Direction) -> Iterator[str]:
        """The names of properties that are only for the other direction, also in parts that hold together with the schema."""
        if not isinstance(schema, Mapping):
            return
        if isinstance(reference := schema.get("$ref"), str):
            key = direction, reference
            if key not in self._hidden_behind:
                self._hidden_behind[key] = frozenset()  # for those that lead here again
                with suppress(UnusableDescription):
                    self._hidden_behind[key] = frozenset(self._hidden(pointed(self._document, reference), direction))
            yield from self._hidden_behind[key]
        word = "readOnly" if direction == "in" else "writeOnly"
        properties = schema.get("properties")
        for name, inner in properties.items() if isinstance(properties, Mapping) else ():
            if isinstance(inner, Mapping) and inner.get(word) is True:
                yield name
        parts = schema.get("allOf")
        for part in parts if isinstance(parts, list) else ():
            yield from self._hidden(part, direction)

    def _word(self, key: str, value: Any, direction: Direction, found: set[str], hidden: Collection[str]) -> Any:
        """The value of one word of a schema; `hidden` names properties to leave out."""
        if key in _NAMED and isinstance(value, Mapping):
            kept = {
                name: inner
                for name, inner in value.items()
                if not (key == "properties" and name in hidden) and (key != "patternProperties" or _is_pattern(name))
            }
            return {name: self._translated(inner, direction, found) for name, inner in kept.items()}
        if key in _MANY and isinstance(value, list):
            return [self._translated(inner, direction, found, hidden) for inner in value]
        return self._translated(value, direction, found) if key in _ONE else value


def _is_dropped(key: str, value: Any, direction: Direction) -> bool:
    if key in _DROPPED or key.startswith("x-") or (value is None and key not in ("const", "default")):
        return True
    if key == "pattern" and not (isinstance(value, str) and _is_pattern(value)):
        return True
    return direction == "out" and key not in _KEPT_LOOSE


@lru_cache
def _is_pattern(pattern: str) -> bool:
    """Whether the validator knows the syntax of a pattern; others are left to the server."""
    import jsonschema_rs

    try:
        jsonschema_rs.validator_for({"pattern": pattern}, offline=True)
    except (ValueError, TypeError):
        return False
    return True


def _required_usable(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema itself. Raises `UnusableDescription` for one that is no JSON Schema."""
    import jsonschema_rs

    if jsonschema_rs.meta.is_valid(schema):
        return schema
    raise UnusableDescription("its schema cannot be used")


def _as_object(schema: Any) -> dict[str, Any]:
    return schema if isinstance(schema, dict) else {} if schema else {"not": {}}


def _with_bounds(schema: dict[str, Any]) -> None:
    """Turn the exclusive bounds of OpenAPI 3.0, which are flags, into numbers."""
    for flag, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(flag), bool) and schema.pop(flag) and bound in schema:
            schema[flag] = schema.pop(bound)


def _with_null(schema: dict[str, Any]) -> dict[str, Any]:
    kind = schema.get("type")
    if kind is None:
        return {"anyOf": [schema, {"type": "null"}]} if schema else schema
    kinds = list(kind) if isinstance(kind, list) else [kind]
    made = {**schema, "type": kinds if "null" in kinds else [*kinds, "null"]}
    if isinstance(made.get("enum"), list) and None not in made["enum"]:
        made["enum"] = [*made["enum"], None]
    return made


def _loosened(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of an answer in which null fits as well, and several alternatives at once."""
    if "oneOf" in schema:
        alternatives = schema.pop("oneOf")
        schema["anyOf"] = [*schema.get("anyOf", ()), *alternatives]
    if "type" in schema:
        return _with_null(schema)
    if "anyOf" in schema:
        schema["anyOf"] = [*schema["anyOf"], {"type": "null"}]
    return schema
