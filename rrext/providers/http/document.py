"""An OpenAPI document: its text, its version, the address of its server, and references within it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import unquote, urljoin, urlsplit

import msgspec

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
