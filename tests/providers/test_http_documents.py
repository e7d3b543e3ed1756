"""OpenAPI documents as tools: every usable operation is one, with a schema that stands alone."""

from __future__ import annotations

import json
import logging
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from large_document import large_document

from rrext.providers.http.document import MAX_OUTPUT_SCHEMA, Schemas, UnusableDescription, origin_of, read_document, server_of
from rrext.providers.http.document_tools import DocumentTools, HttpTool
from rrext.providers.http.requests import ApiField, request_of
from rrext.tools.decorator import check_name

IMAGE = ApiField(media="image/png", is_file=True)
BASE64 = ApiField(media="application/octet-stream", headers={"content-transfer-encoding": "base64"})


def document(paths: dict[str, Any], **components: Any) -> dict[str, Any]:
    return {"openapi": "3.0.3", "info": {}, "paths": paths, "components": components}


def tools_of(paths: dict[str, Any], **components: Any) -> dict[str, HttpTool]:
    reader = DocumentTools(document(paths, **components))
    found = reader.read()
    assert not reader.problems
    return found


def only_tool(operation: dict[str, Any], path: str = "/x", method: str = "get", **components: Any) -> HttpTool:
    (tool,) = tools_of({path: {method: operation}}, **components).values()
    return tool


def parameter(name: str, place: str = "query", **more: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "schema": {"type": "string"}, **more}


def fits(schema: Any, value: Any) -> bool:
    return jsonschema_rs.validator_for(schema, offline=True, validate_formats=True).is_valid(value)


# names


@pytest.mark.parametrize(
    ("operation", "path", "name"),
    [
        ({"operationId": "getPet"}, "/pets/{id}", "getPet"),
        ({"operationId": "pets.get one"}, "/pets", "pets_get_one"),
        ({"operationId": "a__b"}, "/pets", "a_b"),
        ({}, "/pets/{id}/toys", "get_pets_id_toys"),
        ({"operationId": "  "}, "/", "get"),
        ({"operationId": 7}, "/ä", "get"),
    ],
)
def test_an_operation_is_named_by_its_id_or_by_its_method_and_path(operation: Any, path: str, name: str) -> None:
    assert only_tool(operation, path).tool.name == name


def test_operations_of_one_name_are_told_apart() -> None:
    same = {"operationId": "find"}
    found = tools_of({"/a": {"get": same, "post": same}, "/b": {"get": same}})
    assert list(found) == ["find", "find_2", "find_3"]
    assert [str(tool.operation) for tool in found.values()] == ["GET /a", "POST /a", "GET /b"]


@given(st.lists(st.one_of(st.none(), st.text(max_size=80), st.sampled_from(["a", "a_2", "x" * 70])), max_size=12))
def test_every_operation_has_a_name_of_its_own_that_any_face_takes(ids: list[str | None]) -> None:
    paths = {f"/{number}": {"get": {"operationId": wanted}} for number, wanted in enumerate(ids)}
    found = tools_of(paths)
    assert len(found) == len(ids)
    for name in found:
        check_name(name)


def test_only_the_wanted_tools_are_there() -> None:
    paths = {f"/{name}": {"get": {"operationId": name}} for name in ("listPets", "getPet", "getToy")}
    assert list(DocumentTools(document(paths), only=("*Pet*",)).read()) == ["listPets", "getPet"]


# input


def test_parameters_and_body_are_properties_and_no_other_is_taken() -> None:
    tool = only_tool(
        {
            "parameters": [
                parameter("limit", schema={"type": "integer", "maximum": 9}, description="How many."),
                parameter("X-Id", "header"),
            ],
            "requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}},
        },
        "/pets/{id}",
        "post",
    ).tool
    assert tool.input_schema == {
        "type": "object",
        "properties": {
            "limit": {"type": "integer", "maximum": 9, "description": "How many."},
            "X-Id": {"type": "string"},
            "id": {"type": "string"},
            "body": {"type": "object"},
        },
        "required": ["id", "body"],
        "additionalProperties": False,
    }


def test_parameters_of_one_name_in_two_places_are_two_properties() -> None:
    tool = only_tool(
        {
            "parameters": [parameter("id", "path", required=True), parameter("id"), parameter("body")],
            "requestBody": {"content": {"text/plain": {}}},
        },
        "/{id}",
        "put",
    )
    assert set(tool.tool.input_schema["properties"]) == {"id", "id_query", "body", "body_request"}


def test_an_operations_own_parameter_replaces_that_of_its_path() -> None:
    own = {"parameters": [parameter("q", schema={"type": "integer"})]}
    item = {"parameters": [parameter("q", schema={"type": "string"})], "get": own}
    (tool,) = tools_of({"/x": item}).values()
    assert tool.tool.input_schema["properties"] == {"q": {"type": "integer"}}


def test_names_that_models_cannot_write_become_others() -> None:
    tool = only_tool({"parameters": [parameter("filter[state]"), parameter("$top")]})
    assert [(p.property, p.name) for p in tool.operation.parameters] == [("filter_state", "filter[state]"), ("top", "$top")]


def test_what_the_connection_sets_is_no_property_and_headers_of_http_are_none_either() -> None:
    headers = [parameter(name, "header") for name in ("X-Token", "Host", "Authorization")]
    listed = [parameter("key"), *headers, parameter("q")]
    reader = DocumentTools(document({"/x": {"get": {"parameters": listed}}}), headers=["x-token"], query=["key"])
    (tool,) = reader.read().values()
    assert list(tool.tool.input_schema["properties"]) == ["q"]


def test_properties_for_the_other_direction_are_left_out() -> None:
    schema = {
        "type": "object",
        "required": ["id", "name"],
        "properties": {
            "id": {"type": "integer", "readOnly": True},
            "name": {"type": "string"},
            "password": {"type": "string", "writeOnly": True},
        },
    }
    both = {"application/json": {"schema": schema}}
    tool = only_tool({"requestBody": {"content": both}, "responses": {"200": {"content": both}}}, method="post").tool
    assert set(tool.input_schema["properties"]["body"]["properties"]) == {"name", "password"}
    assert tool.input_schema["properties"]["body"]["required"] == ["name"]
    assert tool.output_schema is not None
    assert set(tool.output_schema["properties"]) == {"id", "name"}


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"$ref": "#/components/schemas/Kept"}, {"required": ["id", "name"]}]},
        {"allOf": [{"$ref": "#/components/schemas/Wrapped"}], "required": ["id", "name"]},
        {"$ref": "#/components/schemas/Kept", "required": ["id", "name"]},
    ],
)
def test_a_property_of_the_other_direction_is_required_by_no_part_of_a_schema(schema: Any) -> None:
    kept = {"properties": {"id": {"type": "integer", "readOnly": True}, "name": {"type": "string"}}}
    wrapped = {"allOf": [{"$ref": "#/components/schemas/Kept"}, {"$ref": "#/components/schemas/Wrapped"}]}
    body = {"content": {"application/json": {"schema": schema}}}
    tool = only_tool({"requestBody": body}, method="post", schemas={"Kept": kept, "Wrapped": wrapped}).tool
    assert fits(tool.input_schema, {"body": {"name": "x"}})
    assert not fits(tool.input_schema, {"body": {}})


def fields_of(
    media: str, properties: dict[str, Any], encoding: Any = None, version: str = "3.0.3", **components: Any
) -> tuple[Any, Any]:
    """The properties of a body and its fields, as a document describes them."""
    described = {"schema": {"type": "object", "properties": properties}, "encoding": encoding}
    paths = {"/x": {"post": {"requestBody": {"content": {media: described}}}}}
    (tool,) = DocumentTools({**document(paths, **components), "openapi": version}).read().values()
    assert tool.operation.body is not None
    return tool.tool.input_schema["properties"]["body"]["properties"], tool.operation.body.fields


@pytest.mark.parametrize(
    ("schema", "encoding", "field"),
    [
        ({"type": "string", "format": "binary"}, None, ApiField(is_file=True)),
        ({"type": "array", "items": {"format": "binary"}}, {"contentType": "image/png, image/jpeg"}, IMAGE),
        ({"type": "string"}, {"contentType": "image/*, image/png"}, IMAGE),
        ({}, {"contentType": "application/x-thing"}, ApiField(media="application/x-thing", is_file=True)),
        ({"type": "string"}, {"contentType": "application/sdp"}, ApiField(media="application/sdp")),
        ({"type": "object"}, {"contentType": "application/json; v=1"}, ApiField(media="application/json; v=1")),
        ({"type": "object"}, {"style": "deepObject"}, ApiField(style="deepObject")),
        ({"type": "array"}, {"explode": False}, ApiField(style="form", explode=False)),
        ({"type": "string"}, {"allowReserved": True}, ApiField(style="form", allow_reserved=True)),
        ({"type": "string", "contentMediaType": "image/png"}, None, ApiField(is_file=True)),
        ({"type": "string", "contentMediaType": "text/html"}, {"contentType": "text/html"}, ApiField(media="text/html")),
        ({"type": "string", "format": "byte"}, None, BASE64),
        ({"type": "array", "items": {"type": "string", "contentEncoding": "base64"}}, None, BASE64),
        (
            {"type": "integer"},
            {"contentType": "text/csv", "headers": {"X-Form": {"schema": {"const": "a"}}, "X-Any": {}, "Content-Type": {}}},
            ApiField(media="text/csv", headers={"x-form": "a"}),
        ),
    ],
)
def test_a_part_is_written_as_its_encoding_says(schema: Any, encoding: Any, field: ApiField) -> None:
    properties, fields = fields_of("multipart/form-data", {"f": schema, "plain": {"type": "integer"}}, {"f": encoding})
    assert fields == {"f": field}
    assert ("in base64" in str(properties["f"])) == field.is_file
    assert (properties["f"].get("type") == "array") == (schema.get("type") == "array")


BINARY = {"type": "string", "format": "binary", "description": "A picture."}


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ({"anyOf": [BINARY, {"type": "array", "items": BINARY}]}, ["AA==", ["AA==", "AQ=="]]),
        ({"oneOf": [{"$ref": "#/components/schemas/Picture"}, {"type": "object"}]}, ["AA==", {"id": "7"}]),
        ({"allOf": [{"anyOf": [BINARY, {"type": "null"}]}]}, ["AA==", None]),
        ({**BINARY, "nullable": True}, ["AA==", None]),
        ({**BINARY, "type": ["string", "null"]}, ["AA==", None]),
    ],
)
def test_a_file_among_alternatives_is_a_file(schema: Any, values: list[Any]) -> None:
    properties, fields = fields_of("multipart/form-data", {"f": schema}, schemas={"Picture": BINARY})
    assert fields == {"f": ApiField(is_file=True)}
    assert "A picture. The file, in base64." in str(properties["f"])
    assert all(fits(properties["f"], value) for value in values)


def test_what_has_no_type_is_a_file_in_newer_documents() -> None:
    files = {"one": {"title": "One"}, "many": {"type": "array", "items": {}}}
    assert fields_of("multipart/form-data", files, version="3.1.0")[1] == dict.fromkeys(files, ApiField(is_file=True))
    assert fields_of("multipart/form-data", files)[1] == {}


def test_fields_of_a_form_may_stand_in_parts_of_its_schema() -> None:
    whole = {
        "allOf": [{"$ref": "#/components/schemas/Base"}, {"properties": {"n": {"type": "integer"}, "x": {"type": "object"}}}]
    }
    sent = {"schema": whole, "encoding": {"x": {"contentType": "text/xml"}}}
    base = {"properties": {"photo": BINARY}, "anyOf": [{"$ref": "#/components/schemas/Base"}] * 50}
    tool = only_tool({"requestBody": {"content": {"multipart/form-data": sent}}}, method="post", schemas={"Base": base})
    assert tool.operation.body is not None
    assert tool.operation.body.fields == {"photo": ApiField(is_file=True), "x": ApiField(media="text/xml")}


@pytest.mark.parametrize(
    ("content", "kind", "media"),
    [
        ({"application/json": BINARY, "multipart/form-data": BINARY}, "multipart", "multipart/form-data"),
        ({"application/json": {"type": "string"}, "multipart/form-data": BINARY}, "json", "application/json"),
        ({"application/json": BINARY, "text/plain": BINARY}, "json", "application/json"),
        ({"application/*+json": {}}, "json", "application/json"),
        ({"*/*": {"type": "array"}}, "json", "application/json"),
        ({"*/*": BINARY}, "bytes", "application/octet-stream"),
        ({"text/*": {}}, "text", "text/plain; charset=utf-8"),
    ],
)
def test_a_body_has_a_type_that_can_hold_it(content: dict[str, Any], kind: str, media: str) -> None:
    described = {name: {"schema": {**schema, "properties": {"f": schema}}} for name, schema in content.items()}
    tool = only_tool({"requestBody": {"content": described}}, method="post")
    assert tool.operation.body is not None
    assert (tool.operation.body.kind, tool.operation.body.media) == (kind, media)


def test_an_operation_with_the_server_of_the_connection_is_a_tool_of_it() -> None:
    servers = {"files": [{"url": "https://files.example/{v}/", "variables": {"v": {"default": "v1"}}}], "own": [{"url": "/v2"}]}
    paths = {f"/{name}": {"servers": listed, "get": {"operationId": name}} for name, listed in servers.items()}
    for base, name in (("https://files.example/v1", "files"), ("https://api.example/v2", "own")):
        reader = DocumentTools(document(paths), source="https://api.example/openapi.json", base=base)
        assert list(reader.read()) == [name]
        assert "make a connection with the url" in reader.problems[0]


def test_xml_in_a_part_is_written_by_the_caller() -> None:
    encoding = {"a": {"contentType": "application/xml; charset=utf-8"}}
    properties, _ = fields_of("multipart/form-data", {"a": {"type": "array", "items": {"type": "object"}}}, encoding)
    assert properties["a"] == {"type": "array", "items": {"type": "string", "description": "The XML."}}


def test_a_fixed_query_stays_in_the_path_and_none_of_its_names_is_a_parameter() -> None:
    listed = [parameter("beta"), parameter("limit"), parameter("only", "path")]
    tool = only_tool({"parameters": listed}, "/answers?beta=true&only={only}")
    assert set(tool.tool.input_schema["properties"]) == {"limit", "only"}
    request = request_of(tool.operation, "https://a.example", {"limit": "2", "only": "a/b&c"})
    assert request.url == "https://a.example/answers?beta=true&only=a%2Fb%26c&limit=2"
    reader = DocumentTools(document({"/a?key=1": {"get": {}}}), query=["key"])
    assert reader.read() == {}
    assert "sets what the connection sets" in reader.problems[0]


# schemas


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "nullable": True, "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"allOf": [{"type": "string"}], "nullable": True}, {"anyOf": [{"allOf": [{"type": "string"}]}, {"type": "null"}]}),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
        ({"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}),
        (
            {"minimum": 1, "exclusiveMinimum": False, "maximum": 3, "exclusiveMaximum": True},
            {"minimum": 1, "exclusiveMaximum": 3},
        ),
        ({"exclusiveMinimum": 4}, {"exclusiveMinimum": 4}),
        ({"type": "string", "required": True, "example": 1, "xml": {}, "x-y": 2, "maxLength": None}, {"type": "string"}),
        ({"type": "string", "pattern": "("}, {"type": "string"}),
        ({"const": None}, {"const": None}),
        ({"items": {"nullable": True, "type": "integer"}}, {"items": {"type": ["integer", "null"]}}),
        ({"additionalProperties": False}, {"additionalProperties": False}),
        (True, True),
        (None, {}),
    ],
)
def test_schemas_of_openapi_become_json_schema(given: Any, made: Any) -> None:
    assert Schemas({}).input({"p": given}, ())["properties"]["p"] == made


def test_a_schema_brings_all_definitions_that_it_needs_also_in_circles() -> None:
    schemas = {
        "Pet": {"type": "object", "properties": {"owner": {"$ref": "#/components/schemas/Owner"}}, "required": ["owner"]},
        "Owner": {"type": "object", "properties": {"pets": {"type": "array", "items": {"$ref": "#/components/schemas/Pet"}}}},
        "Other": {"type": "object"},
    }
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}
    schema = only_tool({"requestBody": body}, method="post", schemas=schemas).tool.input_schema
    assert set(schema["$defs"]) == {"Pet", "Owner"}
    assert fits(schema, {"body": {"owner": {"pets": [{"owner": {}}]}}})
    assert not fits(schema, {"body": {"owner": {"pets": [{}]}}})


def test_definitions_of_one_name_in_two_places_are_told_apart() -> None:
    root = {"a": {"Id": {"type": "string"}}, "b": {"Id": {"type": "integer"}}}
    schema = Schemas(root).input({"a": {"$ref": "#/a/Id"}, "b": {"$ref": "#/b/Id"}}, ())
    assert fits(schema, {"a": "x", "b": 1})
    assert not fits(schema, {"a": 1})
    assert not fits(schema, {"b": "x"})


def test_a_pointer_may_have_escaped_tokens() -> None:
    root = {"paths": {"/a b/{c}": {"~": {"type": "integer"}}}}
    schema = Schemas(root).input({"x": {"$ref": "#/paths/~1a%20b~1%7Bc%7D/~0"}}, ())
    assert fits(schema, {"x": 1})
    assert not fits(schema, {"x": "1"})


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"$ref": "https://example.com/pet.json"}, "leads out of the document"),
        ({"$ref": "file:///etc/passwd"}, "leads out of the document"),
        ({"$ref": "#/components/schemas/Nothing"}, "leads to nothing"),
        ({"$ref": 7}, "leads out of the document"),
        ({"$ref": "#/components/schemas/Broken"}, "cannot be used"),
        ({"$ref": "#/components/schemas/Circle"}, "cannot be used"),
        ({"type": "file"}, "cannot be used"),
        ({"items": [{"type": "string"}]}, "no object"),
        ("string", "no object"),
    ],
)
def test_a_broken_operation_is_left_out_and_the_others_stay(schema: Any, why: str) -> None:
    schemas = {
        "Broken": {"type": "thing"},
        "Circle": {"properties": {"a": {"$ref": "#/components/schemas/Round"}, "b": {"$ref": "#/components/schemas/Broken"}}},
        "Round": {"properties": {"c": {"$ref": "#/components/schemas/Circle"}}},
    }
    good = {"operationId": "good"}
    bad = {"operationId": "bad", "parameters": [parameter("p", schema=schema)]}
    around = {"parameters": [parameter("p", schema={"$ref": "#/components/schemas/Round"})]}
    reader = DocumentTools(document({"/a": {"get": bad}, "/b": {"get": good}, "/c": {"get": around}}, schemas=schemas))
    assert list(reader.read()) == ["good"]
    assert why in reader.problems[0]
    assert reader.problems[0].startswith("GET /a: ")


@pytest.mark.parametrize(
    "item",
    [
        None,
        [],
        {"$ref": "#/paths/~1bad"},
        {"$ref": "other.json"},
        {"get": []},
        {"get": {"parameters": [{"in": "query"}]}},
        {"get": {"parameters": [{"name": "x", "in": []}]}},
        {"get": {"parameters": [{"$ref": f"#/paths/~1bad/get/parameters/{'9' * 5000}"}]}},
        {"get": {"parameters": [parameter("x", schema={"type": "object", "required": [[]]})]}},
        {"get": {"parameters": [7]}},
        {"get": {"parameters": [parameter("x", "body")]}},
        {"get": {"parameters": [parameter("bad\r\nname", "header")]}},
        {"get": {"servers": [{"url": "https://elsewhere.example"}]}},
        {"post": {"requestBody": {"content": {"text/plain\r\nx: y": {}}}}},
    ],
)
def test_a_broken_path_is_left_out_and_the_others_stay(item: Any) -> None:
    reader = DocumentTools(document({"/bad": item, "/good": {"get": {"operationId": "good"}}}))
    assert list(reader.read()) == ["good"]
    assert len(reader.problems) == 1


@pytest.mark.parametrize("path", ["no/slash", "/a/../b", "/a?b=c#d", "/a?b=c d", "/./a", "/a\r\nb", "/a b", "/a#b", "/a\\b"])
def test_a_path_that_is_none_has_no_tool(path: str) -> None:
    reader = DocumentTools(document({path: {"get": {}}}))
    assert reader.read() == {}
    assert "its path is none" in reader.problems[0]


def test_a_document_nested_without_end_costs_one_operation() -> None:
    deep: Any = {"type": "string"}
    for _ in range(800):
        deep = {"items": deep}
    reader = DocumentTools(
        document({"/a": {"get": {"parameters": [parameter("p", schema=deep)]}}, "/b": {"get": {"operationId": "good"}}})
    )
    assert "good" in reader.read()


def test_schemas_may_refer_to_each_other_in_a_long_chain() -> None:
    schemas: dict[str, Any] = {
        f"S{number}": {"properties": {"next": {"$ref": f"#/components/schemas/S{number + 1}"}}} for number in range(900)
    }
    schemas["S900"] = {"type": "string"}
    first = {"operationId": "first", "parameters": [parameter("p", schema={"$ref": "#/components/schemas/S0"})]}
    tools = tools_of({"/a": {"get": first}}, schemas=schemas)
    assert len(tools["first"].tool.input_schema["$defs"]) == 901


def test_a_broken_schema_is_translated_once_however_many_operations_refer_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr("rrext.providers.http.document.pointed", lambda document, reference: asked.append(reference) or 7)
    bad = {"parameters": [parameter("p", schema={"$ref": "#/components/schemas/Broken"})]}
    reader = DocumentTools(document({f"/{number}": {"get": bad} for number in range(100)}))
    assert reader.read() == {}
    assert len(asked) == 1


def test_problems_are_logged_with_the_connection_and_not_without_end(caplog: pytest.LogCaptureFixture) -> None:
    reader = DocumentTools(document({f"/{number}": {"get": []} for number in range(30)}))
    reader.read()
    with caplog.at_level(logging.WARNING):
        reader.report("shop")
    assert len(caplog.messages) == 21
    assert caplog.messages[0] == "connection shop: an operation is left out: GET /0: it is no object"
    assert caplog.messages[-1] == "connection shop: 10 more operations are left out"


# output


def answers(schema: Any, **more: Any) -> dict[str, Any]:
    return {"responses": {"200": {"content": {"application/json": {"schema": schema}}}, **more}}


def test_an_output_schema_has_the_types_and_nothing_that_servers_do_not_keep_to() -> None:
    schema = {
        "type": "object",
        "required": ["a"],
        "additionalProperties": False,
        "properties": {
            "a": {"type": "string", "format": "uri", "enum": ["x"]},
            "b": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        },
    }
    output = only_tool(answers(schema)).tool.output_schema
    assert output is not None
    assert output["type"] == "object"
    assert fits(output, {"a": None, "more": 1})
    assert fits(output, {"a": "y", "b": 1})
    assert not fits(output, {"a": 1})
    assert not fits(output, [])


@pytest.mark.parametrize(
    "operation",
    [
        {},
        {"responses": {"default": {"content": {"application/json": {"schema": {"type": "object"}}}}}},
        answers({"type": "object"}, **{"204": {"description": "nothing"}}),
        answers({"type": "object"}, **{"201": {"content": {"application/json": {"schema": {"type": "array"}}}}}),
        {"responses": {"200": {"content": {"text/plain": {"schema": {"type": "string"}}}}}},
        {"responses": {"200": {"content": {"application/json": {"schema": {"type": "object"}}, "text/csv": {}}}}},
        answers({"$ref": "elsewhere.json"}),
        answers({}),
        answers({"type": "nonsense"}),
        answers({"$ref": "#/paths/~1x/get/responses/200/content/application~1json/schema"}),
    ],
)
def test_without_one_shape_of_all_successes_there_is_no_output_schema(operation: Any) -> None:
    assert only_tool(operation).tool.output_schema is None


# annotations and descriptions


@pytest.mark.parametrize(
    ("method", "hints"),
    [
        ("get", {"readOnlyHint": True}),
        ("head", {"readOnlyHint": True}),
        ("post", {}),
        ("patch", {}),
        ("put", {"idempotentHint": True}),
        ("delete", {"destructiveHint": True, "idempotentHint": True}),
    ],
)
def test_a_method_promises_what_http_says(method: str, hints: dict[str, bool]) -> None:
    assert only_tool({}, method=method).tool.annotations == {**hints, "openWorldHint": True}


def test_summary_and_description_are_told_and_cut() -> None:
    tool = only_tool({"summary": "Finds.", "description": "word " * 2000}).tool
    assert tool.description.startswith("Finds.\n\nword word")
    assert len(tool.description) == 4000
    assert tool.description.endswith("…")
    assert tool.annotations is not None
    assert tool.annotations["title"] == "Finds."


# documents


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"<html>", "no object of JSON or YAML"),
        (b"[]", "no object of JSON or YAML"),
        (b"", "no object of JSON or YAML"),
        (b"{", "it is no JSON"),
        (b"a: b: c", "neither JSON nor YAML: mapping values are not allowed"),
        (b"a: 1\n--- b", "more than one document"),
        (b"? [a]\n: 1", "a key of a mapping is no text"),
        (b"a: &a [*a]", 'alias "a" stands for nothing'),
        (b"x:\n " + b"- " * 5000, "nested too deeply"),
        (
            b"".join(
                b"%c: &%c [%s]\n" % (97 + n, 97 + n, b",".join([b"*%c" % (96 + n)] * 9 if n else [b"1"])) for n in range(9)
            ),
            "more than 2,000,000 values",
        ),
        (b'{"swagger": "2.0"}', "got swagger 2.0"),
        (b'{"openapi": "4.0.0"}', "got openapi 4.0.0"),
        (b'{"openapi": 3}', "got openapi 3"),
        (b"{}", "got no version"),
        (b"[" * 100_000, "it is"),
    ],
)
def test_what_is_no_document_says_why(raw: bytes, why: str) -> None:
    with pytest.raises(UnusableDescription, match=why):
        read_document(raw)


def test_a_document_may_begin_with_a_byte_order_mark() -> None:
    assert read_document(b'\xef\xbb\xbf{"openapi": "3.1.0"}') == {"openapi": "3.1.0"}


def test_a_document_in_yaml_has_the_types_of_json() -> None:
    raw = b"""# pets
openapi: 3.1.0
x-common: &common {type: string, example: 2020-01-01}
responses:
  200: {when: no, on: On, size: -1.5e3, huge: 1e999, 'null': ~, quoted: "7", tagged: !!str 7, much: 0017, yes: TRUE}
schema: {<<: *common, type: integer, same: *common}
"""
    common = {"type": "string", "example": "2020-01-01"}
    assert read_document(raw) == {
        "openapi": "3.1.0",
        "x-common": common,
        "responses": {
            "200": {
                "when": "no",
                "on": "On",
                "size": -1500.0,
                "huge": "1e999",
                "null": None,
                "quoted": "7",
                "tagged": "7",
                "much": "0017",
                "yes": True,
            }
        },
        "schema": {**common, "type": "integer", "same": common},
    }


@pytest.mark.parametrize(
    ("servers", "source", "address"),
    [
        ([{"url": "https://a.example/v1"}], "", "https://a.example/v1"),
        ([{"url": "/v2"}], "https://a.example/docs/openapi.json", "https://a.example/v2"),
        ([{"url": "https://{region}.example", "variables": {"region": {"default": "eu"}}}], "", "https://eu.example"),
        ([], "https://a.example/docs/openapi.json", "https://a.example/"),
        ([7], "", None),
    ],
)
def test_the_server_of_a_document_is_its_first_one(servers: Any, source: str, address: str | None) -> None:
    assert server_of({"servers": servers}, source) == address


@pytest.mark.parametrize(
    "url", ["ftp://a", "https://user:pass@a", "https://", "//a", "a", "https://a:x", "http://a:0", "http://[::1"]
)
def test_what_is_no_address_of_http_has_no_origin(url: str) -> None:
    assert origin_of(url) is None


def test_a_thousand_operations_are_a_thousand_tools_that_share_their_definitions() -> None:
    reader = DocumentTools(large_document(1000))
    found = reader.read()
    assert len(found) == 1000
    assert not reader.problems
    first, second = found["create_thing3"].tool.input_schema, found["create_thing4"].tool.input_schema
    assert first["$defs"]["Thing5"] is second["$defs"]["Thing5"]
    assert fits(first, {"body": {"field_0": "x", "other_1": {"field_0": "y", "state": None}}})
    assert not fits(first, {"body": {"field_0": "x", "other_1": {}}})


def test_a_large_shape_of_answers_keeps_what_is_near_and_takes_any_value_behind() -> None:
    for name in ("create_thing3", "read_thing3"):
        output = DocumentTools(large_document(1000)).read()[name].tool.output_schema
        assert output is not None
        assert len(json.dumps(output)) < 1.3 * MAX_OUTPUT_SCHEMA
        assert "Field" not in json.dumps(output), "types alone"
        assert not fits(output, {"field_1": 1})
        assert not fits(output, {"other_0": {"field_1": 1}})
        assert fits(output, {"other_0": {"other_0": {"other_0": {"other_0": {"other_0": {"field_1": 1}}}}}})


def test_a_field_of_an_answer_may_be_called_like_a_word_that_is_left_out() -> None:
    schema = {"type": "object", "properties": {"title": {"type": "string"}, "description": {"type": "string", "title": "x"}}}
    output = only_tool(answers(schema)).tool.output_schema
    assert output is not None
    assert not fits(output, {"title": 1})
    assert not fits(output, {"description": 1})


WORDS = (
    *("$ref", "get", "post", "parameters", "requestBody", "content", "schema", "name", "in", "type", "items", "properties"),
    *("responses", "200", "application/json", "multipart/form-data", "allOf", "required", "enum", "nullable", "/x"),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["#/paths", "#", "object", "query"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=25,
)
parameters = st.fixed_dictionaries(
    {"name": st.text(max_size=4), "in": st.sampled_from(["path", "query"]) | json_values, "schema": json_values}
)
contents = st.fixed_dictionaries(
    {"content": st.dictionaries(st.sampled_from(["application/json", "multipart/form-data", "a/b"]), json_values)}
)
operations = st.fixed_dictionaries(
    {},
    optional={
        "operationId": json_values,
        "summary": json_values,
        "parameters": json_values | st.lists(parameters, max_size=2),
        "requestBody": json_values | contents,
        "responses": json_values | st.fixed_dictionaries({"200": contents}),
    },
)
items = json_values | st.dictionaries(st.sampled_from(["get", "post", "parameters"]), operations | json_values)


@given(st.dictionaries(st.sampled_from(["/a", "/b/{c}", "x"]), items, max_size=3), json_values)
def test_no_document_breaks_the_reader_and_every_tool_has_a_usable_schema(paths: dict[str, Any], components: Any) -> None:
    found = DocumentTools({"openapi": "3.1.0", "paths": paths, "components": components}).read()
    for tool in found.values():
        fits(tool.tool.input_schema, {})
        if tool.tool.output_schema is not None:
            fits(tool.tool.output_schema, {})
