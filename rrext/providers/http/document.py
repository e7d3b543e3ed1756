"""An OpenAPI document: its text, its version, the address of its server, and references within it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote, urljoin, urlsplit

import msgspec

from rrext.providers.limits import MAX_REFERENCES

_VERSION: Final = re.compile(r"3\.[01]\.")


class UnusableDescription(Exception):
    """A part of a description from outside that no tool can be made of; the message says why."""


def read_document(raw: bytes) -> Mapping[str, Any]:
    """The document in JSON. Raises `UnusableDescription`."""
    try:
        document = msgspec.json.decode(raw.removeprefix(b"\xef\xbb\xbf"))
    except RecursionError:
        raise UnusableDescription("it is nested too deeply") from None
    except msgspec.DecodeError as error:
        looks = "it looks like YAML: convert it to JSON" if re.match(rb"\s*(openapi|swagger|#|---|info)", raw) else str(error)
        raise UnusableDescription(f"it is no JSON: {looks}") from None
    if not isinstance(document, dict):
        raise UnusableDescription("it is no JSON object")
    version = document.get("openapi")
    if not isinstance(version, str) or _VERSION.match(version) is None:
        said = f"openapi {version}" if version else f"swagger {document['swagger']}" if "swagger" in document else "no version"
        raise UnusableDescription(f"expected an OpenAPI document of version 3.0 or 3.1, got {str(said)[:50]}")
    return document


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
