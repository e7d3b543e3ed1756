"""Requests to APIs like three that are published: a payment form, files beside JSON, a document in YAML; compared on the wire
with what their documents say."""

from __future__ import annotations

import json
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from api_server import ApiHost, Asked, Reply, api_host
from outside import provider_of

from rrext.tools.context import ToolContext

pytestmark = pytest.mark.anyio

DEEP = {"style": "deepObject", "explode": True}


def operation(name: str, media: str, properties: dict[str, Any], encoding: Any = None) -> dict[str, Any]:
    sent = {"schema": {"type": "object", "properties": properties}, "encoding": encoding or {}}
    return {"post": {"operationId": name, "requestBody": {"content": {media: sent}}}}


PAYMENTS = json.dumps({
    "openapi": "3.0.0",
    "paths": {
        "/v1/customers": {
            "get": {
                "operationId": "GetCustomers",
                "parameters": [
                    {"name": "created", "in": "query", **DEEP, "schema": {"type": "object"}},
                    {"name": "expand", "in": "query", **DEEP, "schema": {"type": "array"}},
                    {"name": "url", "in": "query", "allowReserved": True, "schema": {"type": "string"}},
                ],
            },
            **operation(
                "PostCustomers",
                "application/x-www-form-urlencoded",
                {"name": {"type": "string"}, "address": {"type": "object"}, "items": {"type": "array"}, "raw": {}},
                {"address": DEEP, "items": DEEP},
            ),
        }
    },
})  # fmt: skip
MODELS = json.dumps({
    "openapi": "3.1.0",
    "paths": {
        "/responses?beta=true": operation("createBeta", "application/json", {"input": {"type": "string"}}),
        "/images/edits": operation(
            "editImage",
            "multipart/form-data",
            {
                "image[]": {"type": "array", "items": {"type": "string", "format": "binary"}},
                "mask": {"type": "string", "format": "binary"},
                "n": {"type": "integer"},
                "session": {"type": "object"},
                "sdp": {"type": "string"},
            },
            {"mask": {"contentType": "image/png"}, "sdp": {"contentType": "application/sdp"}},
        ),
    },
})  # fmt: skip
PLACES = """
openapi: 3.0.3
paths:
  /places/{kind}:
    get:
      operationId: places
      parameters:
        - {name: kind, in: path, required: true, schema: {enum: [on, off]}}
        - {name: tags, in: query, explode: false, schema: {type: array, items: {type: string}}}
      responses:
        200: {description: found, content: {application/json: {schema: {type: object}}}}
"""


def decoded(asked: Asked) -> tuple[str, Any]:
    """The path, and what a server reads from query and body."""
    read: Any = parse_qsl(urlsplit(asked.target).query, keep_blank_values=True)
    media = asked.headers.get("content-type", "")
    if media.startswith("multipart/"):
        head = f"content-type: {media}\r\n\r\n".encode()
        parts: Any = BytesParser(policy=HTTP).parsebytes(head + asked.body)
        read += [
            (part["content-disposition"].params["name"], part.get_content_type(), part.get_payload(decode=True))
            for part in parts.iter_parts()
        ]
    elif media == "application/json":
        read.append(asked.json)
    elif asked.body:
        read += parse_qsl(asked.body.decode(), keep_blank_values=True)
    return asked.path, read


@pytest.mark.promise("provider:http")
@pytest.mark.parametrize(
    ("document", "tool", "input", "asked"),
    [
        (
            PAYMENTS,
            "PostCustomers",
            {
                "body": {
                    "name": "A & B",
                    "address": {"city": "Oslo"},
                    "items": [{"price": "p1"}, {"price": "p2"}],
                    "raw": {"a": 1},
                }
            },
            (
                "/v1/customers",
                [
                    ("name", "A & B"),
                    ("address[city]", "Oslo"),
                    ("items[0][price]", "p1"),
                    ("items[1][price]", "p2"),
                    ("raw", '{"a":1}'),
                ],
            ),
        ),
        (
            PAYMENTS,
            "GetCustomers",
            {"created": {"gte": 5}, "expand": ["data.a", "data.b"], "url": "https://x.example/a?b=c&d"},
            (
                "/v1/customers",
                [("created[gte]", "5"), ("expand[0]", "data.a"), ("expand[1]", "data.b"), ("url", "https://x.example/a?b=c&d")],
            ),
        ),
        (MODELS, "createBeta", {"body": {"input": "Hi"}}, ("/responses", [("beta", "true"), {"input": "Hi"}])),
        (
            MODELS,
            "editImage",
            {"body": {"image[]": ["AAE=", "Ag=="], "mask": "Aw==", "n": 2, "session": {"a": [1]}, "sdp": "v=0"}},
            (
                "/images/edits",
                [
                    ("image[]", "application/octet-stream", b"\x00\x01"),
                    ("image[]", "application/octet-stream", b"\x02"),
                    ("mask", "image/png", b"\x03"),
                    ("n", "text/plain", b"2"),
                    ("session", "application/json", b'{"a":[1]}'),
                    ("sdp", "application/sdp", b"v=0"),
                ],
            ),
        ),
        (PLACES, "places", {"kind": "on", "tags": ["a b", "c"]}, ("/places/on", [("tags", "a b,c")])),
    ],
)
async def test_a_request_is_what_the_document_says(document: str, tool: str, input: Any, asked: Any) -> None:
    def answer(asked: Asked) -> Reply:
        is_document = asked.path == "/openapi"
        return Reply(document.encode(), media="application/yaml") if is_document else Reply({})

    def calls(host: ApiHost) -> list[Any]:
        return [decoded(each) for each in host.asked if each.path != "/openapi"]

    with api_host(answer) as host:
        async with provider_of("http", {"openapi": host.url + "/openapi"}) as provider:
            await provider.call(tool, input, ToolContext())
            assert calls(host) == [asked]
