"""The tools of templates of URLs, as a connection lists them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rrext.providers.http.document_tools import HttpTool
from rrext.providers.http.operation import PLACEHOLDER, ApiBody, ApiOperation, ApiParameter, annotations_of
from rrext.providers.http.schemas import Schemas
from rrext.providers.provider import ProvidedTool

if TYPE_CHECKING:
    from rrext.connections.connection import UrlTool

_WITHOUT_BODY = ("GET", "HEAD", "DELETE")


def url_tool(name: str, given: UrlTool) -> HttpTool:
    """The tool of a template. Raises `UnusableDescription`.

    Each `{name}` in the template is a parameter, required; others go into the query, or for POST, PUT and PATCH into a body
    of JSON.
    """
    properties: dict[str, Any] = {key: _schema(value) for key, value in given.parameters.items()}
    placeholders = list(dict.fromkeys(PLACEHOLDER.findall(given.url)))
    for placeholder in placeholders:
        properties.setdefault(placeholder, {"type": "string"})
    required = [*placeholders, *(key for key in given.required if key not in placeholders)]
    schema = Schemas({}).input(properties, required)
    others = tuple(key for key in properties if key not in placeholders)
    within = PLACEHOLDER.findall(given.url.partition("?")[0])
    parameters = [
        ApiParameter(name=key, place="path" if key in within else "text", property=key, style="simple") for key in placeholders
    ]
    body = None
    if given.method in _WITHOUT_BODY:
        parameters += [ApiParameter(name=key, place="query", property=key, explode=True) for key in others]
    elif others:
        body = ApiBody(kind="json", media="application/json", properties=others)
    tool = ProvidedTool(name=name, description=given.description, input_schema=schema, annotations=annotations_of(given.method))
    return HttpTool(tool, ApiOperation(method=given.method, path=given.url, parameters=tuple(parameters), body=body))


def _schema(value: str | Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of a parameter, which may be the name of a type alone."""
    return {"type": value} if isinstance(value, str) else value
