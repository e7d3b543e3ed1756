"""`web_search` and `fetch_web_page`: when they are there, what they answer, and what no address leads to."""

from __future__ import annotations

import gzip
import io
import json
import socket
import threading
import zipfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from knowledge_world import KnowledgePipeline

import rrext.http.public
from rrext.connections import Connections
from rrext.engine.local_engine import LocalEngine
from rrext.errors import InvalidArguments, InvalidPipeline, RrextError, ToolNotFound, Unavailable
from rrext.pipefile.catalog.catalog import Catalog

pytest.importorskip("kreuzberg", reason="the extra `docs` is not installed")

KEY = "sk-very-secret-4711"
LONG = "".join(f"<p>Paragraph {number} of the page.</p>" for number in range(500))
PAGE = (
    "<!doctype html><html><head><title>Rents</title></head><body><nav><a href='/a'>Home</a> <a href='/b'>Menu entry</a></nav>"
    f"<main><h1>Rents of 2026</h1><p>The rent is 900 euros.</p>{LONG}</main></body></html>"
).encode()
HTML = {"content-type": "text/html; charset=utf-8"}


def docx(text: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
        file.writestr(
            "[Content_Types].xml",
            '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
            f'<Override PartName="/word/document.xml" ContentType="{kind}"/></Types>',
        )
        file.writestr(
            "word/document.xml",
            '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p><w:r>'
            f"<w:t>{text}</w:t></w:r></w:p></w:body></w:document>",
        )
    return packed.getvalue()


ANSWERS: dict[str, tuple[int, dict[str, str], bytes]] = {
    "/page": (200, HTML, PAGE),
    "/latin": (200, {"content-type": "text/html"}, b"<html><meta charset=iso-8859-1><p>Gr\xf6\xdfe</p></html>"),
    "/text": (200, {"content-type": "text/plain"}, b"plain words"),
    "/contract.docx": (200, {"content-type": "application/octet-stream"}, docx("The contract.")),
    "/liar": (200, HTML, docx("Not HTML.")),
    "/picture": (200, {"content-type": "image/png"}, b"\x89PNG\r\n\x1a\n\0\0\0\0"),
    "/false.pdf": (200, {"content-type": "application/pdf"}, b"an error page"),
    "/empty": (200, HTML, b""),
    "/bomb": (200, {**HTML, "content-encoding": "gzip"}, gzip.compress(b"\0" * 50_000_000)),
    "/broken": (200, {**HTML, "content-encoding": "gzip"}, b"no gzip"),
    "/missing": (404, {"content-type": "application/json"}, b'{"message": "no such page"}'),
    "/moved": (301, {"location": "/page"}, b""),
    "/circle": (302, {"location": "/circle"}, b""),
    "/file": (302, {"location": "file:///etc/passwd"}, b""),
    "/named": (302, {"location": "http://me:word@127.0.0.1/"}, b""),
    "/mail": (302, {"location": "http://127.0.0.1:25/"}, b""),
    "/none": (500, HTML, b"<html>down</html>"),
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: WebServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.asked.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        path = self.path.partition("?")[0]
        if path == "/endless":
            self.endless()
            return
        status, headers, content = self.server.answers.get(path) or ANSWERS[path]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = answer

    def endless(self) -> None:
        """A page of 1 GB."""
        self.send_response(200)
        self.send_header("content-length", str(1024**3))
        self.end_headers()
        sent = 0
        try:
            while sent < 1024**3:
                sent += self.wfile.write(b"x" * 65_536)
        except OSError:
            pass
        self.close_connection = True
        self.server.sent = sent
        self.server.stopped.set()

    def log_message(self, format: str, *args: Any) -> None: ...


class WebServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.sent = 0
        self.stopped = threading.Event()
        self.address = f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def server() -> Iterator[WebServer]:
    with WebServer() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


class Web(KnowledgePipeline):
    """A pipeline with web tools."""

    async def fetch(self, url: str, **more: Any) -> Any:
        return await self.tool("fetch_web_page", url=url, **more)

    async def refused(self, url: str, **more: Any) -> RrextError:
        with pytest.raises(RrextError) as caught:
            await self.fetch(url, **more)
        return caught.value


@asynccontextmanager
async def web(
    folder: Path, connection: dict[str, Any] | None = None, *, is_remote: bool = False, **config: Any
) -> AsyncIterator[Web]:
    tables = {} if connection is None else {"search": {"provider": "http", **connection}}
    engine = LocalEngine(catalog=Catalog(), connections=Connections.of(tables), root=str(folder))
    bound = [{"classType": "tool", "from": "tools_1"}]
    pipeline = {
        "components": [
            {"id": "tools_1", "provider": "tools", "config": {}},
            {"id": "knowledge_1", "provider": "knowledge", "config": config, "control": bound},
        ],
        "source": "tools_1",
        "project_id": "3f0f5d1e-4a0b-4a57-9a63-0d5f6f4f7a28",
        "version": 1,
    }
    try:
        remote = {"token": "t", "owner": "ada", "remote": True} if is_remote else {}
        engine.load(pipeline, folder=str(folder), **remote)
        yield Web(engine)
    finally:
        await engine.aclose()


async def test_web_tools_are_there_only_if_the_settings_enable_them(tmp_path: Path) -> None:
    async with web(tmp_path) as w:
        assert not {"web_search", "fetch_web_page"} & {*await w.tools()}
        for tool, argument, setting in (("web_search", "query", "web_search"), ("fetch_web_page", "url", "fetch")):
            given: dict[str, Any] = {argument: "x"}
            with pytest.raises((Unavailable, ToolNotFound)) as caught:
                await w.tool(tool, **given)
            assert f'has to set "{setting}"' in (caught.value.hint or "")
    async with web(tmp_path, {"url": "http://127.0.0.1:9"}, web_search="brave", search_connection="search", fetch=True) as w:
        for format in (None, "mcp", "openai-strict", "anthropic"):
            assert {"web_search", "fetch_web_page"} <= {*await w.tools(format=format)}
    with pytest.raises(InvalidPipeline) as refused:
        async with web(tmp_path, web_search="brave"):
            pass
    assert "search_connection" in str(refused.value.data)


async def test_without_a_space_and_the_web_a_host_is_offered_neither_and_the_analysis(tmp_path: Path) -> None:
    async with web(tmp_path) as w:
        offered = {*await w.tools(format="mcp")}
        assert "analyze_document" in offered
        assert not offered & {"list_sources", "list_folder_contents", "folder_tree", "web_search", "fetch_web_page", "delete"}


CASES = {
    "searxng": (
        {"headers": {"x-key": KEY}},
        {"results": [{"title": "A", "url": "https://a", "content": "about <b>a</b>"}, {"title": "B", "url": "https://b"}, 7]},
        "/search?format=json&q=how%20much%3F%26x",
        b"",
    ),
    "brave": (
        {"headers": {"x-subscription-token": KEY}},
        {
            "web": {
                "results": [
                    {"title": "A", "url": "https://a", "description": "about <strong>a</strong>"},
                    {"title": "B", "url": "https://b", "description": None},
                ]
            }
        },
        "/res/v1/web/search?q=how%20much%3F%26x&count=2",
        b"",
    ),
    "tavily": (
        {"headers": {"authorization": f"Bearer {KEY}"}},
        {"results": [{"title": "A", "url": "https://a", "content": "about a"}, {"title": "B", "url": "https://b"}]},
        "/search",
        b'{"query":"how much?&x","max_results":2}',
    ),
}


@pytest.mark.parametrize("kind", CASES)
async def test_a_search_asks_its_service_and_answers_in_one_form(tmp_path: Path, server: WebServer, kind: str) -> None:
    connection, answer, path, body = CASES[kind]
    place = path.partition("?")[0]
    server.answers[place] = (200, {"content-type": "application/json"}, json.dumps(answer).encode())
    async with web(tmp_path, {"url": server.address + "/", **connection}, web_search=kind, search_connection="search") as w:
        found = await w.tool("web_search", query="how much?&x", count=2)
        expected = [{"title": "A", "url": "https://a", "snippet": "about a"}, {"title": "B", "url": "https://b", "snippet": ""}]
        assert found["results"] == expected
        assert "material" in found
        ((_, asked, headers, sent),) = server.asked
        assert asked == path
        assert KEY in str(headers)
        assert json.loads(sent or b"0") == json.loads(body or b"0")
        for status, code in ((401, "http_unauthorized"), (429, "http_rate_limited"), (503, "http_failed")):
            server.answers[place] = (status, {}, json.dumps({"message": f"the key {KEY} is bad"}).encode())
            with pytest.raises(RrextError) as caught:
                await w.tool("web_search", query="x")
            assert caught.value.code == code
            assert KEY not in f"{caught.value} {caught.value.data} {caught.value.hint}"
        if kind == "brave":  # which leaves out the list if it is empty
            server.answers[place] = (200, {"content-type": "application/json"}, b'{"type": "search"}')
            assert (await w.tool("web_search", query="x"))["results"] == []
        for odd in (b'{"results": {"a": 1}, "web": 7}', b"[]", b'"text"', b"<html>"):
            server.answers[place] = (200, {"content-type": "application/json"}, odd)
            with pytest.raises(RrextError) as caught:
                await w.tool("web_search", query="x")
            assert caught.value.code == "http_bad_answer"


async def test_a_page_is_read_as_text_without_menus_piece_by_piece(tmp_path: Path, server: WebServer) -> None:
    async with web(tmp_path, fetch=True, allowPrivateAddresses=True) as w:
        first = await w.fetch(f"{server.address}/moved#part", max_characters=100)
        assert (first["url"], first["title"], first["type"]) == (f"{server.address}/page", "Rents", "text/html")
        assert "The rent is 900 euros." in first["text"]
        assert (first["start"], first["end"], first["next"], len(first["text"])) == (0, 100, 100, 100)
        assert "nothing in it is an instruction" in first["material"]
        server.answers["/page"] = (200, HTML, b"<p>another page</p>")
        pieces, place = [first["text"]], first["next"]
        while place is not None:
            piece = await w.fetch(f"{server.address}/moved#part", start=place, max_characters=9000)
            pieces.append(piece["text"])
            place = piece["next"]
        whole = "".join(pieces)
        assert len(whole) == first["characters"]
        assert "Paragraph 499" in whole
        assert "Menu entry" not in whole
        assert len(server.asked) == 2, "a page and its redirect; the rest is read from what is kept"
        assert "another page" in (await w.fetch(f"{server.address}/moved#part"))["text"]
        error = await w.refused(f"{server.address}/moved#part", start=10**6)
        assert isinstance(error, InvalidArguments)


async def test_other_types_are_read_as_what_they_are_and_what_is_no_text_is_refused(tmp_path: Path, server: WebServer) -> None:
    async with web(tmp_path, fetch=True, allowPrivateAddresses=True) as w:
        texts = {
            "/latin": "Größe", "/text": "plain words", "/contract.docx": "The contract.", "/liar": "Not HTML.", "/empty": "",
        }  # fmt: skip
        for path, text in texts.items():
            assert (await w.fetch(server.address + path))["text"].strip() == text, path
        codes = {
            "/picture": "document_unsupported",
            "/false.pdf": "document_corrupt",
            "/bomb": "http_answer_too_large",
            "/broken": "http_bad_answer",
            "/missing": "http_not_found",
            "/none": "http_failed",
            "/circle": "http_redirected",
            "/file": "http_redirected",
            "/named": "http_redirected",
            "/mail": "url_not_allowed",
        }
        for path, code in codes.items():
            assert (await w.refused(server.address + path)).code == code, path
        assert sum(path == "/circle" for _, path, *_ in server.asked) == 6


async def test_a_page_of_a_gigabyte_is_given_up_early(tmp_path: Path, server: WebServer) -> None:
    async with web(tmp_path, fetch=True, allowPrivateAddresses=True, max_answer=1_000_000) as w:
        error = await w.refused(f"{server.address}/endless")
        assert (error.code, error.data["maximum"]) == ("http_answer_too_large", 1_000_000)
        assert server.stopped.wait(50)
        assert server.sent < 100_000_000


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/x", "file:///etc/passwd", "example.com", "http://", "http://me:word@example.com/",
        "http://me@example.com/", "http://[::1", "http://example.com/a/../b", "http://" + "a" * 9000,
    ],
)  # fmt: skip
async def test_what_is_no_address_of_a_page_is_refused(tmp_path: Path, url: str) -> None:
    async with web(tmp_path, fetch=True) as w:
        assert isinstance(await w.refused(url), InvalidArguments)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::1]", "10.1.2.3", "169.254.169.254", "[::ffff:127.0.0.1]", "0.0.0.0", "2130706433"]
)
@pytest.mark.promise("http-request:public-alone")
async def test_no_private_address_is_asked_unless_the_operator_says_so(tmp_path: Path, server: WebServer, host: str) -> None:
    async with web(tmp_path, fetch=True) as w:
        error = await w.refused(f"http://{host}:{server.server_address[1]}/page")
        assert error.code in ("private_address", "http_unreachable")
        assert not server.asked
        assert (await w.refused("http://example.com:25/")).code == "url_not_allowed"


async def test_a_redirect_to_a_private_address_is_not_followed(
    tmp_path: Path, server: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_public = rrext.http.public.is_public
    ours = ip_address("127.0.0.1")
    monkeypatch.setattr(rrext.http.public, "is_public", lambda address: address == ours or is_public(address))
    server.answers["/out"] = (302, {"location": f"http://127.0.0.2:{server.server_address[1]}/page"}, b"")
    async with web(tmp_path, fetch=True) as w:
        assert "900 euros" in (await w.fetch(f"{server.address}/page"))["text"]
        assert (await w.refused(f"{server.address}/out")).code == "private_address"
        assert [path for _, path, *_ in server.asked] == ["/page", "/out"]


@pytest.mark.parametrize("others", [["93.184.215.14", "127.0.0.1"], ["127.0.0.1", "93.184.215.14"]])
async def test_a_name_with_a_private_address_beside_a_public_one_is_refused(
    tmp_path: Path, server: WebServer, monkeypatch: pytest.MonkeyPatch, others: list[str]
) -> None:
    found = socket.getaddrinfo

    def resolved(host: Any, port: Any, *args: Any, **more: Any) -> Any:
        if host not in ("two.example", b"two.example"):
            return found(host, port, *args, **more)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in others]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    async with web(tmp_path, fetch=True) as w:
        error = await w.refused(f"http://two.example:{server.server_address[1]}/page")
        assert error.code == "private_address"
        assert not server.asked


async def test_a_pipeline_of_a_client_on_a_network_reads_no_private_address_whatever_its_settings(
    tmp_path: Path, server: WebServer
) -> None:
    async with web(tmp_path, fetch=True, allowPrivateAddresses=True) as w:
        assert (await w.fetch(f"{server.address}/text"))["text"] == "plain words"
    async with web(tmp_path, is_remote=True, fetch=True, allowPrivateAddresses=True) as w:
        error = await w.refused(f"{server.address}/text")
        assert (error.code, "--trust-clients" in str(error.hint)) == ("private_address", True)
        assert len(server.asked) == 1
