"""A large OpenAPI document: as many operations as asked for, over schemas that refer to each other in circles."""

from __future__ import annotations

from typing import Any


def large_document(operations: int) -> dict[str, Any]:
    """Four operations for each thing: list, read, create, delete; each thing refers to three others."""
    things = max(1, operations // 4)
    schemas: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for number in range(things):
        properties: dict[str, Any] = {
            f"field_{field}": {"type": "string", "description": f"Field {field} of thing {number}.", "maxLength": 200}
            for field in range(15)
        }
        properties["state"] = {"type": "string", "enum": ["open", "closed"], "nullable": True}
        for other in range(3):
            group = number // 10 * 10  # things of one group form circles
            near = group + (number + other + 1) % 10
            properties[f"other_{other}"] = {"$ref": f"#/components/schemas/Thing{min(near, things - 1)}"}
        schemas[f"Thing{number}"] = {"type": "object", "required": ["field_0"], "properties": properties}
        thing = {"application/json": {"schema": {"$ref": f"#/components/schemas/Thing{number}"}}}
        key = {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}
        page = {"$ref": "#/components/parameters/page"}
        paths[f"/things{number}"] = {
            "get": {"operationId": f"list_things{number}", "summary": "List", "parameters": [page], "responses": {}},
            "post": {
                "operationId": f"create_thing{number}",
                "requestBody": {"required": True, "content": thing},
                "responses": {"201": {"description": "made", "content": thing}},
            },
        }
        paths[f"/things{number}/{{id}}"] = {
            "parameters": [key],
            "get": {"operationId": f"read_thing{number}", "responses": {"200": {"description": "it", "content": thing}}},
            "delete": {"operationId": f"delete_thing{number}", "responses": {"204": {"description": "gone"}}},
        }
    page = {"name": "page", "in": "query", "schema": {"type": "integer", "minimum": 0, "exclusiveMinimum": True}}
    return {
        "openapi": "3.0.3",
        "info": {"title": "Things", "version": "1"},
        "paths": paths,
        "components": {"schemas": schemas, "parameters": {"page": page}},
    }
