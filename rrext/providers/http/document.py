"""An OpenAPI document: its text, its version, and the address of its server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import msgspec

from rrext.providers.http.pointers import UnusableDescription

_VERSION: Final = re.compile(r"3\.[01]\.")


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
