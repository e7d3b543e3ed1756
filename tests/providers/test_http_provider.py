"""Tools of an HTTP API over a real server: its document, its answers, its failures; and the keys, which go nowhere else."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from api_server import ApiHost, Asked, Reply, api_host
from large_document import large_document
from outside import answered, provider_of, provider_over

from rrext.connections import load_connections
from rrext.errors import ConnectionInvalid, InvalidArguments, ToolError, ToolNotFound
from rrext.tools.context import ToolContext

pytestmark = pytest.mark.anyio

PETS: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Pets", "version": "1"},
    "servers": [{"url": "/"}],
    "paths": {
        "/pets/{id}": {
            "get": {"operationId": "getPet", "parameters": [{"name": "id", "in": "path", "schema": {"type": "integer"}}]},
            "delete": {"operationId": "deletePet"},
        },
        "/pets": {
            "post": {
                "operationId": "addPet",
                "requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}},
            }
        },
        "/broken": {"get": {"parameters": [{"$ref": "http://127.0.0.1:1/x.json"}]}},
    },
}
KEYS = {"headers": {"X-Key": "env:SHOP_KEY", "Authorization": "Bearer own-quark"}, "query": {"token": "to/ken &gluon"}}
VARIABLES = {"SHOP_KEY": "geheim-boson"}


def pets(reply: Reply | None = None) -> Any:
    """Answers with the document, and with the same reply to everything else."""

    def answer(asked: Asked) -> Reply:
        if asked.path == "/openapi.json":
            return Reply(PETS)
        return reply or Reply({"asked": asked.target})

    return answer


def of(host: ApiHost, **table: Any) -> dict[str, Any]:
    return {"openapi": host.url + "/openapi.json", **table}


async def failing(reply: Reply, **table: Any) -> ToolError:
    """The failure of a call that is answered so."""
    with api_host(pets(reply)) as host:
        async with provider_of("http", of(host, **KEYS, **table), variables=VARIABLES) as provider:
            with pytest.raises(ToolError) as caught:
                await provider.call("getPet", {"id": 1}, ToolContext())
        assert sum(asked.path == "/pets/1" for asked in host.asked) <= 1
    told = f"{caught.value.message} {caught.value.data} {caught.value.__cause__} {caught.value.__context__}"
    for secret in ("quark", "gluon", "boson"):
        assert secret not in told
    return caught.value


async def result(reply: Reply) -> Any:
    with api_host(pets(reply)) as host:
        async with provider_of("http", of(host, **KEYS), variables=VARIABLES) as provider:
            return await provider.call("getPet", {"id": 1}, ToolContext())


# the document


@pytest.mark.promise("provider:http")
async def test_each_usable_operation_of_a_document_is_a_tool() -> None:
    with api_host(pets()) as host:
        async with provider_of("http", of(host)) as provider:
            tools = await provider.tools()
            assert [tool.name for tool in tools] == ["getPet", "deletePet", "addPet"]
            assert await provider.call("getPet", {"id": 7}, ToolContext()) == {"asked": "/pets/7"}
            assert await provider.tools() == tools
        assert [asked.path for asked in host.asked] == ["/openapi.json", "/pets/7"]


async def test_a_document_may_be_a_file_and_its_server_has_a_path(tmp_path: Path) -> None:
    with api_host(pets()) as host:
        file = tmp_path / "pets.json"
        file.write_text(json.dumps({**PETS, "servers": [{"url": host.url + "/api/v1/"}]}))
        async with provider_of("http", {"openapi": str(file)}) as provider:
            assert await provider.call("getPet", {"id": 7}, ToolContext()) == {"asked": "/api/v1/pets/7"}
        async with provider_of("http", {"openapi": str(file), "url": host.url}) as provider:
            assert await provider.call("getPet", {"id": 7}, ToolContext()) == {"asked": "/pets/7"}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "cannot be read: No such file"),
        ("openapi: 3.0.0", "its address is none"),
        ("openapi: [3.0.0", "neither JSON nor YAML"),
        ('{"swagger": "2.0"}', "expected an OpenAPI document of version 3.0 or 3.1"),
        ('{"openapi": "3.0.0", "servers": [{"url": "/v1"}]}', "its address is none"),
        ('{"openapi": "3.0.0", "servers": [{"url": "https://user:password@a.example"}]}', "its address is none"),
        ('{"openapi": "3.0.0", "servers": [{"url": "https://a.example?x=1"}]}', "its address is none"),
    ],
)
async def test_an_unusable_document_makes_the_connection_invalid(content: str | None, why: str, tmp_path: Path) -> None:
    file = tmp_path / "api.json"
    if content is not None:
        file.write_text(content)
    async with provider_of("http", {"openapi": str(file)}) as provider:
        with pytest.raises(ConnectionInvalid, match=why) as caught:
            await provider.tools()
        assert caught.value.data["connection"] == "shop"


async def test_a_document_that_cannot_be_fetched_is_fetched_again_by_the_next_call() -> None:
    replies = [Reply("later", status=503), Reply(PETS)]
    with api_host(lambda asked: replies.pop(0)) as host:
        async with provider_of("http", of(host)) as provider:
            with pytest.raises(ToolError, match="answered 503"):
                await provider.tools()
            assert len(await provider.tools()) == 3


async def test_a_document_of_a_thousand_operations_is_a_thousand_tools(tmp_path: Path) -> None:
    file = tmp_path / "large.json"
    file.write_text(json.dumps(large_document(1000)))
    async with provider_of("http", {"openapi": str(file), "url": "http://127.0.0.1:1"}) as provider:
        assert len(await provider.tools()) == 1000


async def test_an_unknown_tool_is_not_found_with_its_near_matches() -> None:
    with api_host(pets()) as host:
        async with provider_of("http", of(host)) as provider:
            with pytest.raises(ToolNotFound, match="getPet"):
                await provider.call("get_pet", {}, ToolContext())


# templates


async def test_templates_of_urls_are_tools() -> None:
    tools = {
        "find": {"url": "/pets/{id}?full={full}", "description": "Finds.", "parameters": {"limit": "integer"}},
        "add": {
            "url": "/pets",
            "method": "POST",
            "parameters": {"name": {"type": "string"}, "age": "integer"},
            "required": ["name"],
        },
    }
    with api_host(lambda asked: Reply([asked.method, asked.target, asked.body.decode()])) as host:
        async with provider_of("http", {"url": host.url + "/v1/", "tools": tools}) as provider:
            find, add = await provider.tools()
            assert (find.name, find.description) == ("find", "Finds.")
            assert find.input_schema["required"] == ["id", "full"]
            assert add.input_schema["required"] == ["name"]
            found = await provider.call("find", {"id": "a b", "full": "x&y", "limit": 3}, ToolContext())
            assert found == ["GET", "/v1/pets/a%20b?full=x%26y&limit=3", ""]
            assert (await provider.call("find", {"id": "a", "full": ".."}, ToolContext()))[1] == "/v1/pets/a?full=.."
            with pytest.raises(InvalidArguments, match="/input/id"):
                await provider.call("find", {"id": "..", "full": ""}, ToolContext())
            added = await provider.call("add", {"name": "Rex"}, ToolContext())
            assert added == ["POST", "/v1/pets", '{"name":"Rex"}']


@pytest.mark.parametrize(
    ("tool", "why"),
    [
        ({"url": "https://elsewhere.example/x"}, "no path below"),
        ({"url": "//elsewhere.example/x"}, "no path below"),
        ({"url": "x"}, "no path below"),
        ({"url": "/x", "required": ["y"]}, '"x" requires "y"'),
        ({"url": "/x", "methd": "POST"}, "unknown field"),
        ({"url": "/x", "parameters": {"a": "text"}}, "cannot be used"),
    ],
)
async def test_a_template_that_cannot_work_makes_the_connection_invalid(tool: dict[str, Any], why: str) -> None:
    with pytest.raises(ConnectionInvalid, match=why):
        async with provider_of("http", {"url": "http://127.0.0.1:1", "tools": {"x": tool}}) as provider:
            await provider.tools()


async def test_a_connection_without_document_and_templates_says_so() -> None:
    async with provider_of("http", {"url": "http://127.0.0.1:1"}) as provider:
        with pytest.raises(ConnectionInvalid, match="neither openapi nor tools"):
            await provider.tools()


async def test_templates_come_before_operations_of_the_same_name() -> None:
    with api_host(pets()) as host:
        async with provider_of("http", of(host, tools={"getPet": {"url": "/mine"}})) as provider:
            assert await provider.call("getPet", {}, ToolContext()) == {"asked": "/mine"}


# answers


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        (Reply({"a": [1, None, "é"]}), {"a": [1, None, "é"]}),
        (Reply({"title": "x"}, media="application/problem+json; charset=utf-8"), {"title": "x"}),
        (Reply(b"\xef\xbb\xbf[1]"), [1]),
        (Reply("é".encode("latin-1"), media='text/plain; charset="iso-8859-1"'), "é"),
        (Reply("é".encode(), media="text/csv"), "é"),
        (Reply("\u0434\u0430".encode("koi8-r"), media="text/plain; charset=KOI8-R"), "\u0434\u0430"),
        (Reply(b"a\xff", media="text/plain"), b"a\xff"),
        (Reply(b"a\xff", media="text/html; charset=us-ascii"), b"a\xff"),
        (Reply(b"a\x81", media="application/xml; charset=windows-1252"), b"a\x81"),
        (Reply("é".encode(), media="text/plain; charset=punycode"), "é"),
        (Reply(b"a\xff", media="text/plain; charset=iso-8859-99"), b"a\xff"),
        (Reply(b"<a/>", media="application/atom+xml"), "<a/>"),
        (Reply(b"\x00\xff", media="image/png"), b"\x00\xff"),
        (Reply(b"abc", media=None), b"abc"),
        (Reply(status=204, media=None), None),
        (Reply(b"", media="application/json"), None),
        (Reply(list(range(200_000))), list(range(200_000))),
    ],
)
async def test_an_answer_has_the_form_of_its_content_type(reply: Reply, value: Any) -> None:
    assert await result(reply) == value


@pytest.mark.parametrize("body", [b"{", b"NaN", b'{"a": 1} x', b"<html>", b"[" * 100_000])
async def test_json_that_is_none_is_a_failure_and_no_text(body: bytes) -> None:
    error = await failing(Reply(body))
    assert error.code == "http_bad_answer"
    assert "no JSON" in error.message


# failures


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "http_bad_request"),
        (401, "http_unauthorized"),
        (403, "http_unauthorized"),
        (404, "http_not_found"),
        (409, "http_bad_request"),
        (429, "http_rate_limited"),
        (500, "http_failed"),
        (503, "http_failed"),
        (304, "http_redirected"),
    ],
)
async def test_a_status_is_a_failure_with_a_code_and_is_never_tried_again(status: int, code: str) -> None:
    error = await failing(Reply({"error": {"message": "no such pet, Bearer own-quark"}}, status=status))
    assert error.code == code
    assert error.data["status"] == status
    if status != 304:
        assert f"answered {status}: no such pet, ${{shop" in error.message
        assert json.loads(error.data["body"])["error"]["message"].startswith("no such pet")


async def test_a_failure_quotes_no_more_than_a_part() -> None:
    error = await failing(Reply("x" * 100_000, status=500, media="text/plain"))
    assert len(error.message) < 1000
    assert len(error.data["body"]) == 4000


async def test_a_server_that_asks_for_a_pause_is_quoted() -> None:
    error = await failing(Reply("slow down", status=429, headers={"Retry-After": "7"}))
    assert error.data["retryAfter"] == 7.0


async def test_a_server_that_is_not_there_is_unreachable() -> None:
    async with provider_of("http", {"url": "http://127.0.0.1:1", "tools": {"x": {"url": "/x"}}}) as provider:
        with pytest.raises(ToolError) as caught:
            await provider.call("x", {}, ToolContext())
    assert caught.value.code == "http_unreachable"


async def test_an_argument_that_no_request_can_carry_sends_none() -> None:
    with api_host(pets()) as host:
        async with provider_of("http", of(host)) as provider:
            with pytest.raises(InvalidArguments, match="/input/id"):
                await provider.call("deletePet", {"id": "../admin"}, ToolContext())
        assert [asked.path for asked in host.asked] == ["/openapi.json"]


# keys


@pytest.mark.promise("provider:http:keys")
async def test_the_keys_of_a_connection_go_with_each_request_and_come_back_in_no_result() -> None:
    def echo(asked: Asked) -> Reply:
        if asked.path == "/openapi.json":
            return Reply(PETS)
        if asked.path == "/pets/2":
            return Reply(json.dumps(asked.headers).encode(), media="text/plain")
        return Reply({"headers": asked.headers, "target": asked.target, **asked.query})

    with api_host(echo) as host:
        async with provider_of("http", of(host, **KEYS), variables=VARIABLES) as provider:
            said = await answered(provider, "getPet", {"id": 1}, ToolContext())
            text = await answered(provider, "getPet", {"id": 2}, ToolContext())
        for asked in host.asked:
            assert asked.headers["x-key"] == "geheim-boson"
            assert asked.headers["authorization"] == "Bearer own-quark"
            assert asked.query["token"] == "to/ken &gluon"
    assert said["headers"]["x-key"] == "${shop.headers.X-Key}"
    for secret in ("quark", "gluon", "boson"):
        assert secret not in json.dumps(said) + text


@pytest.mark.promise("provider:http:keys")
async def test_no_logger_of_the_process_is_told_a_key(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), api_host(Redirecting(307, "/pets/2")) as host:
        async with provider_of("http", of(host, **KEYS), variables=VARIABLES) as provider:
            await provider.call("getPet", {"id": 1}, ToolContext(authorization="Bearer caller-meson"))
        assert [asked.query["token"] for asked in host.asked] == ["to/ken &gluon"] * 3
    assert any("/pets/2" in message for message in caplog.messages), "the client does log its requests"
    for secret in ("quark", "gluon", "boson", "meson"):
        assert not [record for record in caplog.records if secret in f"{record.getMessage()} {record.args!r}"]


async def test_a_document_from_elsewhere_neither_gets_the_keys_nor_says_where_they_go() -> None:
    with api_host(lambda asked: Reply({**PETS, "servers": [{"url": "https://evil.example"}]})) as docs, api_host(pets()) as api:
        async with provider_of("http", {"openapi": docs.url + "/d.json", **KEYS}, variables=VARIABLES) as provider:
            with pytest.raises(ConnectionInvalid, match="names a server elsewhere: https://evil.example"):
                await provider.tools()
        docs.asked.clear()
        async with provider_of(
            "http", {"openapi": docs.url + "/d.json", "url": api.url, **KEYS}, variables=VARIABLES
        ) as provider:
            await provider.call("getPet", {"id": 1}, ToolContext())
        (fetched,) = docs.asked
        assert not {"x-key", "authorization"} & fetched.headers.keys()
        assert fetched.query == {}
        assert api.asked[0].headers["x-key"] == "geheim-boson"


class Redirecting:
    """Redirects the pet 1, and every POST, to `target`."""

    def __init__(self, status: int, target: str) -> None:
        self.status = status
        self.target = target

    def __call__(self, asked: Asked) -> Reply:
        if asked.path in ("/pets/1", "/pets"):
            return Reply(status=self.status, headers={"Location": self.target})
        return pets()(asked)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_within_the_server_is_followed_and_one_to_another_is_not(status: int) -> None:
    redirecting = Redirecting(status, "/pets/2?x=1")
    with api_host(pets()) as other, api_host(redirecting) as host:
        async with provider_of("http", of(host, **KEYS), variables=VARIABLES) as provider:
            assert (await provider.call("getPet", {"id": 1}, ToolContext()))["asked"].startswith("/pets/2?x=1&token=")
            for target in (other.url + "/x", host.url.replace("http:", "https:"), "ftp://127.0.0.1/", "//127.0.0.1:1/"):
                redirecting.target = target
                with pytest.raises(ToolError) as caught:
                    await provider.call("getPet", {"id": 1}, ToolContext())
                assert caught.value.code == "http_redirected"
            redirecting.target = "/pets/1"
            with pytest.raises(ToolError, match="redirects in a circle"):
                await provider.call("getPet", {"id": 1}, ToolContext())
        assert other.asked == []


@pytest.mark.parametrize(("status", "methods"), [(303, ["POST", "GET"]), (307, ["POST", "POST"]), (308, ["POST", "POST"])])
async def test_a_redirected_call_is_sent_on_as_the_server_says(status: int, methods: list[str]) -> None:
    with api_host(Redirecting(status, "/done")) as host:
        async with provider_of("http", of(host)) as provider:
            assert await provider.call("addPet", {"body": {"a": 1}}, ToolContext()) == {"asked": "/done"}
        assert [asked.method for asked in host.asked[1:]] == methods
        assert all(asked.body == (b'{"a":1}' if asked.method == "POST" else b"") for asked in host.asked[1:])


@pytest.mark.parametrize("status", [301, 302])
async def test_a_redirect_that_leaves_open_whether_the_call_was_done_is_a_failure(status: int) -> None:
    with api_host(Redirecting(status, "/done")) as host:
        async with provider_of("http", of(host)) as provider:
            with pytest.raises(ToolError) as caught:
                await provider.call("addPet", {"body": {"a": 1}}, ToolContext())
        assert caught.value.code == "http_redirected"
        assert [asked.path for asked in host.asked] == ["/openapi.json", "/pets"]


async def test_cookies_of_one_call_do_not_travel_with_another() -> None:
    with api_host(pets(Reply({}, headers={"Set-Cookie": "session=of-somebody; Path=/"}))) as host:
        async with provider_of("http", of(host)) as provider:
            for _ in range(2):
                await provider.call("getPet", {"id": 1}, ToolContext())
        assert all("cookie" not in asked.headers for asked in host.asked)


@pytest.mark.parametrize("forwards", [True, False])
async def test_the_callers_own_authorization_goes_along_if_the_connection_says_so(forwards: bool) -> None:
    with api_host(pets()) as host:
        async with provider_of("http", of(host, **KEYS, forward_authorization=forwards), variables=VARIABLES) as provider:
            await provider.call("getPet", {"id": 1}, ToolContext(authorization="Bearer of-the-caller"))
            await provider.call("getPet", {"id": 1}, ToolContext())
        document, first, second = (asked.headers["authorization"] for asked in host.asked)
        assert document == second == "Bearer own-quark"
        assert first == ("Bearer of-the-caller" if forwards else "Bearer own-quark")


async def test_a_key_that_no_header_can_carry_makes_the_connection_invalid() -> None:
    table = {"url": "http://127.0.0.1:1", "headers": {"X-Key": "a\r\nb: geheim"}, "tools": {"x": {"url": "/"}}}
    async with provider_of("http", table) as provider:
        with pytest.raises(ConnectionInvalid, match=r"shop.headers.X-Key holds characters") as caught:
            await provider.call("x", {}, ToolContext())
    assert "geheim" not in caught.value.message


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    with api_host(pets()) as host:
        async with provider_of("http", of(host)) as provider:
            assert len(await provider.tools()) == 3


async def test_a_document_stands_beside_the_file_of_its_connection(tmp_path: Path) -> None:
    (tmp_path / "pets.json").write_text(json.dumps(PETS))
    file = tmp_path / "connections.toml"
    file.write_text('[pets]\nprovider = "http"\nopenapi = "pets.json"\nurl = "http://127.0.0.1:1"\n')
    file.chmod(0o600)
    connection = load_connections(str(file)).find("pets", "http")
    async with provider_over(connection) as provider:
        assert len(await provider.tools()) == 3
