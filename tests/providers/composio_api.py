"""A server that speaks the documented REST API of Composio, version 3, and refuses everything that is not documented."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from api_server import Asked, Reply

__all__ = ["ComposioApi", "tool"]

KEY = "ak_geheim_4711"
EXECUTE_FIELDS = {
    *("arguments", "text", "connected_account_id", "user_id", "entity_id", "version", "custom_auth_params"),
    *("custom_connection_data", "allow_tracing"),
}
LIST_PARAMETERS = {
    *("toolkit_slug", "tool_slugs", "search", "important", "tags", "scopes", "auth_config_ids", "include_deprecated"),
    *("toolkit_versions", "cursor", "limit"),
}
STATES = ("INITIALIZING", "INITIATED", "ACTIVE", "FAILED", "EXPIRED", "INACTIVE", "REVOKED")


def tool(slug: str, toolkit: str = "github", **more: Any) -> dict[str, Any]:
    """An item of the catalog with all fields that are documented as given."""
    return {
        "slug": slug,
        "name": slug.removeprefix(toolkit.upper() + "_").replace("_", " ").capitalize(),
        "description": f"Does {slug}.",
        "toolkit": {"slug": toolkit, "name": toolkit.capitalize(), "logo": ""},
        "input_parameters": {
            "type": "object",
            "title": "Request",
            "properties": {
                "owner": {"type": "string", "examples": ["x"], "nullable": True},
                "page": {"type": "integer", "default": 1},
            },
            "required": ["owner"],
        },
        "output_parameters": {"type": "object", "properties": {}},
        "version": "20251027_00",
        "available_versions": ["00000000_00", "20251027_00"],
        "tags": [],
        "scopes": [],
        "scope_requirements": None,
        "no_auth": False,
        "is_deprecated": False,
        "deprecated": {},
        **more,
    }


class ComposioApi:
    """The catalog, the accounts and the executions of one project."""

    def __init__(self, *tools: dict[str, Any]) -> None:
        self.tools = list(tools)
        self.accounts: dict[str, dict[str, Any]] = {"ca_1": self.account("ca_1", "ACTIVE")}
        self.results: dict[str, dict[str, Any]] = {}
        self.largest_page = 100
        self.asked: list[Asked] = []
        self.violations: list[str] = []

    @staticmethod
    def account(name: str, status: str, toolkit: str = "github", **more: Any) -> dict[str, Any]:
        assert status in STATES
        return {
            "id": name,
            "status": status,
            "status_reason": None,
            "toolkit": {"slug": toolkit},
            "auth_config": {"id": "ac_1", "is_composio_managed": True, "is_disabled": False, "auth_scheme": "OAUTH2"},
            "user_id": "user-1",
            "is_disabled": False,
            **more,
        }

    def __call__(self, asked: Asked) -> Reply:
        self.asked.append(asked)
        if asked.headers.get("x-api-key") != KEY:
            return refused(401, "HTTP_Unauthorized", "Invalid API key")
        parts = asked.path.removeprefix("/api/v3/").split("/")
        if not asked.path.startswith("/api/v3/"):
            return refused(404, "HTTP_NotFound", f"Cannot {asked.method} {asked.path}")
        match asked.method, parts:
            case "GET", ["tools"]:
                return self._list(asked)
            case "GET", ["connected_accounts", name]:
                return self._account(name, asked)
            case "POST", ["tools", "execute", slug]:
                return self._execute(slug, asked)
        return refused(405, "HTTP_MethodNotAllowed", f"Cannot {asked.method} {asked.path}")

    def _refused_field(self, name: str) -> Reply:
        self.violations.append(name)
        return refused(400, "HTTP_ValidationError", f"Unrecognized key: {name}")

    def _list(self, asked: Asked) -> Reply:
        pairs = parse_qsl(urlsplit(asked.target).query, keep_blank_values=True, strict_parsing=True)
        query = dict(pairs)
        for name in query:
            if name not in LIST_PARAMETERS:
                return self._refused_field(name)
        limit = int(query.get("limit", "20"))
        if not 1 <= limit <= 1000:
            return refused(400, "HTTP_ValidationError", "limit")
        limit = min(limit, self.largest_page)
        wanted = [item for item in self.tools if item.get("toolkit", {}).get("slug") == query.get("toolkit_slug")]
        if query.get("toolkit_versions") != "latest":
            wanted = [item for item in wanted if query.get("toolkit_versions") in item["available_versions"]]
        start = int(base64.b64decode(query["cursor"])) if "cursor" in query else 0
        more = start + limit < len(wanted)
        page = {
            "items": wanted[start : start + limit],
            "total_items": len(wanted),
            "total_pages": -(-len(wanted) // limit),
            "current_page": start // limit + 1,
            "next_cursor": base64.b64encode(str(start + limit).encode()).decode() if more else None,
        }
        return Reply(page)

    def _account(self, name: str, asked: Asked) -> Reply:
        if asked.query:
            return self._refused_field(next(iter(asked.query)))
        if name not in self.accounts:
            return refused(404, "ConnectedAccount_ResourceNotFound", f'Connected account "{name}" not found')
        return Reply(self.accounts[name])

    def _execute(self, slug: str, asked: Asked) -> Reply:
        if asked.headers.get("content-type") != "application/json":
            return refused(415, "HTTP_UnsupportedMediaType", "JSON is expected")
        said = asked.json
        for name in said:
            if name not in EXECUTE_FIELDS:
                return self._refused_field(name)
        if ("arguments" in said) == ("text" in said):
            return refused(400, "HTTP_ValidationError", "either arguments or text")
        if all(item["slug"] != slug for item in self.tools):
            return refused(404, "Tool_ToolNotFound", f"Tool {slug} not found", code=2401)
        account = self.accounts.get(said.get("connected_account_id"))
        if account is None and "user_id" not in said:
            return refused(400, "ActionExecute_ConnectedAccountNotFound", "No connected account found", code=1810)
        if account is not None and account["status"] != "ACTIVE":
            return refused(400, "ActionExecute_ConnectedAccountExpired", "Connected account is not active", code=1820)
        done = {"data": {"did": slug, **said}, "error": None, "successful": True, "log_id": "log_1", "session_info": None}
        return Reply(self.results.get(slug, done))


def refused(status: int, slug: str, message: str, code: int = 10000) -> Reply:
    """An error as Composio tells it."""
    error = {
        "message": message,
        "slug": slug,
        "code": code,
        "status": status,
        "request_id": "req_1",
        "suggested_fix": "Check it.",
    }
    return Reply({"error": error}, status=status)
