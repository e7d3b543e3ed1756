"""One operation of an HTTP API: its request without the arguments."""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

Place = Literal["path", "text", "query", "header", "cookie"]
"""`text` is a place within the query of a template."""
BodyKind = Literal["json", "form", "multipart", "text", "bytes"]

PLACEHOLDER: Final = re.compile(r"\{([^{}/]+)\}")
HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class ApiParameter(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter: its name in the request, its property in the input, and the way in which its value is written."""

    name: str
    place: Place
    property: str
    style: str = "form"
    explode: bool = False
    is_json: bool = False


class ApiBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a request. `properties`: the input's properties become one JSON object; else one property is the body."""

    kind: BodyKind
    media: str
    property: str = ""
    properties: tuple[str, ...] = ()
    files: frozenset[str] = frozenset()
    """Of a multipart body: the parts whose text is base64 of a file."""


class ApiOperation(msgspec.Struct, frozen=True, kw_only=True):
    """A method and the template of a path below the address of the API."""

    method: str
    path: str
    parameters: tuple[ApiParameter, ...] = ()
    body: ApiBody | None = None

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def annotations_of(method: str, title: str = "") -> dict[str, object]:
    """What a method promises about its tools, as the Model Context Protocol names it."""
    found: dict[str, object] = {"title": title} if title else {}
    if method in ("GET", "HEAD"):
        found["readOnlyHint"] = True
    elif method == "PUT":
        found["idempotentHint"] = True
    elif method == "DELETE":
        found |= {"destructiveHint": True, "idempotentHint": True}
    return {**found, "openWorldHint": True}
