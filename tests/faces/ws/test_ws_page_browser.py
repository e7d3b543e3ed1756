"""The status page in a browser: by keyboard, to a screen reader, with hostile names, through restarts, in sizes and colours.

With `RREXT_SCREENSHOTS` each test leaves pictures in that folder, for people to look at.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import Browser, Page, running_browser
from free_ports import free_port
from ws_server import ADA, BOB, PATIENCE, WsClient, WsServer, keys_file

pytestmark = [pytest.mark.system, pytest.mark.promise("ws:page"), pytest.mark.timeout(180)]

EVIL = "\"'><script>hacked=1</script><img src=x onerror=hacked=1>{{7*7}}${7*7}"
BACKWARDS = "\u202ebackwards\u2066"
LONG = "a_very_long_name_" * 20
NO_COMPLAINTS: list[str] = []


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with running_browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def alone() -> Iterator[WsServer]:
    """A server of no pipelines and no keys."""
    with WsServer(files=()) as server:
        yield server


def url(server: WsServer, path: str = "/") -> str:
    return f"http://127.0.0.1:{server.port}{path}"


def shot(page: Page, name: str) -> None:
    if "RREXT_SCREENSHOTS" in os.environ:
        page.screenshot(Path(os.environ["RREXT_SCREENSHOTS"]) / f"{name}.png")


def pipeline(node: str = "upper", title: str = "") -> dict[str, Any]:
    """A pipeline with data and control edges."""
    text = [{"lane": "text", "from": "webhook_1"}]
    return {
        "components": [
            {"id": "webhook_1", "provider": "webhook", "config": {}},
            {"id": node, "provider": "split", "name": title, "config": {}, "input": text},
            {
                "id": "memory_1",
                "provider": "memory_internal",
                "config": {},
                "control": [{"classType": "memory", "from": "webhook_1"}],
            },
            {
                "id": "documents_1",
                "provider": "response_documents",
                "config": {},
                "input": [{"lane": "documents", "from": node}],
            },
            {"id": "text_1", "provider": "response_text", "config": {}, "input": text},
        ],
        "source": "webhook_1",
    }


def send(client: WsClient, token: str, text: str = "hello", name: str = "a.txt") -> None:
    pipe = client.body("rrext_process", subcommand="open", token=token, mimeType="text/plain", object={"name": name})["pipe_id"]
    client.body("rrext_process", subcommand="write", pipe_id=pipe, data=text)
    client.body("rrext_process", subcommand="close", pipe_id=pipe)


def count_of(node: str) -> str:
    """The count that the picture shows of a node, as an expression."""
    groups = "[...document.querySelectorAll('g[data-node]')]"
    return f"{groups}.find((group) => group.dataset.node === {json.dumps(node)})?.querySelector('.count').textContent"


def test_the_picture_counts_live_and_nothing_comes_from_elsewhere(browser: Browser, alone: WsServer) -> None:
    with alone.client() as client, browser.page(url(alone)) as page:
        page.until("document.body.innerText.includes('No pipeline runs')")
        shot(page, "empty")
        client.body("execute", pipeline=pipeline(), token="counted", name="counted")
        page.until("document.querySelector('.toggle')")
        page.value("document.querySelector('.toggle').click()")
        page.until("document.querySelector('.picture svg')")
        for _ in range(12):
            send(client, "counted")
        page.until(f"{count_of('upper')} === '×12'")
        page.until(f"{count_of('webhook_1')} === '×12'")
        edges = "[...document.querySelectorAll('g[data-edge=data] .count')].map((count) => count.textContent)"
        assert page.value(edges) == [" ×12", " ×12", " ×12"]
        client.failure("rrext_process", subcommand="tool", token="counted", tool="nothing")
        page.until("document.querySelector('.failures')")
        client.failure("rrext_process", subcommand="tool", token="counted", tool="get", nodeId="memory_1", input={})
        page.until(f"{count_of('memory_1')} === '×1 1 failed'")
        assert page.value("document.querySelector('#sums .p50 dd').textContent").endswith("s")
        page.size(1200, 1500)
        page.value("document.querySelector('.counts').open = true")
        shot(page, "light")
        page.scheme("dark")
        shot(page, "dark")
        assert page.value("getComputedStyle(document.body).backgroundColor") == "rgb(13, 17, 23)"
        page.size(390, 2400)
        assert page.value("document.documentElement.scrollWidth") <= 390
        shot(page, "phone-dark")
        page.scheme("light")
        shot(page, "phone-light")
        assert page.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.complaints() == NO_COMPLAINTS
        assert [address for address in page.requested() if not address.startswith(url(alone))] == []
        client.body("terminate", token="counted")


def sum_of(page: Page, name: str) -> str:
    """A number of the headline."""
    return str(page.value(f"document.querySelector('.sum.{name} dd').textContent"))


def test_failures_restarts_and_times_of_tools_are_shown_and_equal_errors_are_one(browser: Browser) -> None:
    with WsServer() as server, server.client() as client, browser.page(url(server)) as page:
        page.until("document.querySelector('.picture svg')")
        client.body("execute", pipeline=pipeline(), token="again", name="again")
        client.body("restart", token="again")
        for number in range(12):
            client.tool("add", {"a": number}, token="face")
            client.failure("rrext_process", subcommand="tool", tool="crash" if number % 2 else "mute", token="face")
        for _ in range(5):
            client.failure("rrext_process", subcommand="tool", tool="add", input={"a": "x"}, token="face")
        page.until("document.querySelector('.sum.failedCalls dd').textContent === '17'")
        assert (sum_of(page, "calls"), sum_of(page, "restarts"), sum_of(page, "failed")) == ("29", "1", "0")
        rows = "[...document.querySelectorAll('tr.task')]"
        face = f"{rows}.find((row) => row.innerText.includes('face'))"
        page.until(f"{face}.cells[8].textContent === '17' && {face}.cells[7].textContent === '29'")
        again = f"{rows}.find((row) => row.innerText.includes('again')).cells[1].textContent"
        page.until(f"{again} === 'Running, 1× restarted'")
        page.until("document.querySelectorAll('.failures tbody tr').length === 3")
        counts = "[...document.querySelectorAll('.failures tbody tr')].map((row) => row.cells[1].textContent.split('×')[0])"
        page.until(f"{counts}.sort().join() === '5,6,6'")
        page.value("document.querySelector('.toggle[aria-expanded=true]') ?? document.querySelector('.toggle').click()")
        page.until("document.querySelectorAll('.times > li').length === 3")
        add = "[...document.querySelectorAll('.times > li')].find((each) => each.innerText.startsWith('add'))"
        page.until(f"{add}.querySelectorAll('dd')[0].textContent === '17'")
        assert page.value(f"{add}.querySelectorAll('dd')[1].textContent") == "5"
        assert page.value(f"{add}.querySelectorAll('rect.bad').length") >= 1
        assert "5 failed" in page.value(f"{add}.querySelector('svg').getAttribute('aria-label')")
        for width, height in ((1200, 2000), (390, 3600)):
            page.size(width, height)
            for scheme in ("light", "dark"):
                page.scheme(scheme)
                assert page.value("document.documentElement.scrollWidth") <= width
                shot(page, f"status-{width}-{scheme}")
        assert page.complaints() == NO_COMPLAINTS


def test_a_clock_of_the_browser_that_is_wrong_changes_no_duration(browser: Browser, alone: WsServer) -> None:
    wrong = "const now = Date.now; Date.now = () => now() - 86400000 * 400;"
    with browser.page(url(alone), script=wrong) as page:
        page.until("document.getElementById('server').textContent.includes('up for')")
        assert page.value("document.getElementById('server').textContent").endswith((" s", " min"))
        assert "ago, when the first of your pages was opened" in page.text()


def test_the_tools_of_a_row_are_called_in_the_workbench(browser: Browser, server: WsServer) -> None:
    with browser.page(url(server)) as page:
        page.until("!document.getElementById('login').hidden")
        page.type(ADA)
        page.press("Enter")
        page.until("document.querySelector('.toggle')")
        page.value("document.querySelector('.toggle[aria-expanded=false]')?.click()")
        page.value("[...document.querySelectorAll('button')].find((each) => each.innerText === 'Call its tools…').click()")
        page.until("document.querySelectorAll('.tool').length > 5")
        assert page.value("location.hash") == "#workbench"
        assert page.value("document.getElementById('board').hidden")
        page.value("history.back()")
        page.until("!document.getElementById('board').hidden")
        assert page.value("document.getElementById('bench').hidden")


def test_names_are_text_wherever_they_stand(browser: Browser, alone: WsServer) -> None:
    with alone.client() as client, browser.page(url(alone)) as page:
        for number, name in enumerate((EVIL, LONG, BACKWARDS)):
            wanted = pipeline(name[:120], name)
            client.body("execute", pipeline={**wanted, "description": name}, token=f"evil_{number}", name=name)
            client.failure("rrext_process", subcommand="tool", token=f"evil_{number}", tool=name)
            send(client, f"evil_{number}", name=name)
        page.until("document.querySelectorAll('.toggle').length === 3")
        for number in range(3):
            page.value(f"document.querySelectorAll('.toggle')[{number}].click()")
        page.until("document.querySelectorAll('.picture svg').length === 3")
        page.until("document.querySelectorAll('.failures tbody tr').length >= 3")
        assert EVIL in page.text()
        assert page.value("typeof hacked") == "undefined"
        assert page.value("document.querySelectorAll('main script, main img').length") == 0
        page.size(1200, 2600)
        assert page.value("document.documentElement.scrollWidth") <= 1200
        shot(page, "hostile-and-long-names")
        page.size(390, 2600)
        assert page.value("document.documentElement.scrollWidth") <= 390
        shot(page, "hostile-phone")
        assert page.complaints() == NO_COMPLAINTS
        for number in range(3):
            client.body("terminate", token=f"evil_{number}")


def test_two_hundred_pipelines_are_a_table_with_a_filter(browser: Browser) -> None:
    with contextlib.ExitStack() as stack:
        alone = stack.enter_context(WsServer("--isolation", "none", files=()))  # 200 processes would take a minute
        client = stack.enter_context(alone.client())
        for number in range(200):
            client.body(
                "execute",
                pipeline={**pipeline(), "project_id": f"p{number}"},
                token=f"many_{number}",
                name=f"pipeline {number}",
            )
        page = stack.enter_context(browser.page(url(alone)))
        page.until("document.querySelectorAll('tr.task').length >= 200")
        assert page.value("document.querySelectorAll('.picture').length") == 0
        for width in (390, 1200):
            page.size(width, 1600)
            for scheme in ("dark", "light"):
                page.scheme(scheme)
                assert page.value("document.documentElement.scrollWidth") <= width
                shot(page, f"many-{width}-{scheme}")
        page.value("document.getElementById('filter').focus()")
        page.type("PIPELINE 19")
        page.until("document.getElementById('filter-count').textContent.startsWith('11 of')")
        shot(page, "many-filtered")
        send(client, "many_199")
        rows = "[...document.querySelectorAll('tr.task')]"
        page.until(f"{rows}.find((row) => row.innerText.includes('pipeline 199')).cells[6].textContent === '1'")
        page.value("document.getElementById('filter').select()")
        page.type("pipeline")
        client.failure("rrext_process", subcommand="tool", tool="nothing_such", token="many_150")
        page.value("document.getElementById('failing').click()")
        page.until("document.getElementById('filter-count').textContent.startsWith('1 of')")
        shown = f"{rows}.filter((row) => !row.parentNode.hidden).map((row) => row.cells[0].innerText)"
        assert page.value(shown) == ["pipeline 150"]
        shot(page, "many-failing")
        assert page.complaints() == NO_COMPLAINTS
        for number in range(200):
            client.body("terminate", token=f"many_{number}")
        page.until("document.querySelectorAll('.state.running').length === 0")


def test_all_of_it_works_by_keyboard(browser: Browser, alone: WsServer) -> None:
    with alone.client() as client, browser.page(url(alone)) as page:
        client.body("execute", pipeline=pipeline(), token="keyed", name="keyed")
        page.until("document.querySelector('.toggle')")
        page.press("Tab")
        assert page.focused() == "Skip to the pipelines"
        page.press("Enter")
        page.press("Tab")
        while page.focused() != "keyed":
            page.press("Tab")
        if page.value("document.activeElement.getAttribute('aria-expanded')") == "true":
            page.press("Enter")
        page.press("Enter")
        assert page.value("document.activeElement.getAttribute('aria-expanded')") == "true"
        page.until("document.querySelector('.picture svg')")
        page.press(" ")
        assert page.value("document.activeElement.getAttribute('aria-expanded')") == "false"
        page.press("Enter")
        while page.focused() != "Terminate…":
            page.press("Tab")
        page.press("Enter")
        page.until("document.getElementById('confirm').open")
        assert page.focused() == "Keep it"
        shot(page, "terminate")
        page.press("Escape")
        page.until("!document.getElementById('confirm').open")
        assert page.focused() == "Terminate…"
        page.press("Enter")
        page.press("Tab")
        assert page.focused() == "Terminate"
        page.press("Enter")
        page.until("[...document.querySelectorAll('.state')].some((cell) => cell.textContent === 'Cancelled')")
        shot(page, "ended")
        assert page.value("document.activeElement.id") == "pipelines"
        assert client.failure("rrext_process", subcommand="tools", token="keyed")[0] == "TASK_NOT_REGISTERED"
        assert page.complaints() == NO_COMPLAINTS


def test_a_screen_reader_finds_headings_tables_states_and_names(browser: Browser, alone: WsServer) -> None:
    with alone.client() as client, browser.page(url(alone)) as page:
        client.body("execute", pipeline=pipeline(), token="read", name="read aloud")
        page.until("document.querySelector('.toggle')?.innerText === 'read aloud'")
        page.value("document.querySelector('.toggle[aria-expanded=false]')?.click()")
        page.until("document.querySelector('.picture svg')")
        page.value("document.querySelector('.counts').open = true")
        tree = page.tree()
        for role, name in (
            ("heading", "rrext"),
            ("heading", "Now"),
            ("heading", "Pipelines"),
            ("heading", "Recent errors"),
            ("heading", "Log"),
            ("table", "Pipelines"),
            ("columnheader", "Calls/s"),
            ("rowheader", "read aloud"),
            ("button", "read aloud"),
            ("button", "Terminate…"),
            ("log", "Log"),
            ("table", "Nodes"),
            ("rowheader", "upper"),
        ):
            assert (role, name) in tree, (role, name)
        assert any(role == "status" for role, _ in tree)
        assert any(role in ("image", "img", "graphics-document") and "read aloud" in name for role, name in tree), tree
        assert not [role for role, name in tree if role in ("button", "textbox", "searchbox", "heading", "table") and not name]
        assert page.value("document.documentElement.lang") == "en"
        client.body("terminate", token="read")


def test_the_key_is_asked_for_and_kept_in_memory_alone(browser: Browser, server: WsServer) -> None:
    with browser.page(url(server)) as page:
        page.until("!document.getElementById('login').hidden")
        assert page.value("document.activeElement.id") == "key"
        shot(page, "login")
        page.type("wrong " + BOB)
        page.press("Enter")
        page.until("document.getElementById('key-error').textContent.includes('does not know')")
        shot(page, "login-wrong")
        assert page.value("document.getElementById('key').value") == ""
        page.type(ADA)
        page.press("Enter")
        page.until("document.getElementById('connection').textContent === 'Live'")
        assert "you are ada" in page.text()
        assert page.value("document.getElementById('login').hidden")
        stores = "location.href, document.cookie, {...localStorage}, {...sessionStorage}"
        kept = f"JSON.stringify([{stores}, document.documentElement.outerHTML])"
        assert ADA not in page.value(kept)
        assert not [address for address in page.requested() if ADA in address or "key" in address]
        page.value("document.getElementById('forget').click()")
        page.until("!document.getElementById('login').hidden")
        assert "face" not in page.text()
        page.type(BOB)
        page.press("Enter")
        page.until("document.body.innerText.includes('you are bob')")
        page.open(url(server))
        page.until("!document.getElementById('login').hidden")
        assert [each for each in page.complaints() if "401" not in each] == []


def test_a_page_left_open_outlives_a_restart_and_asks_again_for_a_key_that_is_revoked(browser: Browser, tmp_path: Path) -> None:
    keys, address = keys_file(tmp_path), f"127.0.0.1:{free_port()}"
    with WsServer("--keys", str(keys), address=address) as first, browser.page(url(first)) as page:
        page.until("!document.getElementById('login').hidden")
        page.type(ADA)
        page.press("Enter")
        page.until("document.querySelector('.toggle')")
        first.end()
        page.until("document.body.dataset.connection === 'lost'")
        shot(page, "lost")
        assert "Trying again" in page.text()
        with WsServer("--keys", str(keys), address=address) as second:
            page.until("document.body.dataset.connection === 'live'")
            assert page.value("document.querySelectorAll('.toggle').length") == 1
            second.end()
        keys.write_text(f'"{BOB}" = "bob"\n')
        with WsServer("--keys", str(keys), address=address):
            page.until("!document.getElementById('login').hidden")
            assert "does not know this key" in page.text()
            assert "face" not in page.text()
            shot(page, "revoked")


@contextlib.contextmanager
def foreign_page(body: str) -> Iterator[int]:
    """A server of a page of somebody else; its port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield served.server_address[1]
        finally:
            served.shutdown()
            thread.join(PATIENCE)


@pytest.mark.parametrize("host", ["evil.example", "localhost", "127.0.0.1"])
def test_a_page_from_elsewhere_reads_terminates_and_frames_nothing(browser: Browser, alone: WsServer, host: str) -> None:
    body = f"""<!doctype html><iframe src="{url(alone)}"></iframe><script>
      const body = JSON.stringify({{token: "wanted"}});
      const ask = (path, options) =>
        fetch("{url(alone)}" + path, options).then((answer) => "status " + answer.status, () => "refused");
      const all = [
        ask("status/feed"), ask("status/feed", {{mode: "no-cors"}}),
        ask("status/terminate", {{method: "POST", body, headers: {{"Content-Type": "application/json"}}}}),
        ask("status/terminate", {{method: "POST", body}}), ask("status/terminate", {{method: "POST", body, mode: "no-cors"}}),
      ];
      Promise.all(all).then((found) => {{ document.title = JSON.stringify(found) }});
    </script>"""
    with alone.client() as client, foreign_page(body) as port, browser.page(f"http://{host}:{port}/") as page:
        client.body("execute", pipeline=pipeline(), token="wanted")
        page.until("document.title")
        assert set(json.loads(page.value("document.title"))) <= {"refused", "status 403", "status 0"}
        assert any("frame" in each for each in page.complaints())
        client.body("terminate", token="wanted")


def test_a_slow_connection_gets_fewer_states_and_always_the_newest(browser: Browser, alone: WsServer) -> None:
    with alone.client() as client, browser.page(url(alone)) as page:
        page.until("document.body.dataset.connection === 'live'")
        slow = {"offline": False, "latency": 300, "downloadThroughput": 20_000, "uploadThroughput": 20_000}
        page.call("Network.emulateNetworkConditions", **slow)
        for number in range(60):
            client.body("execute", pipeline={**pipeline(), "project_id": f"s{number}"}, token=f"slow_{number}", name="x" * 300)
        page.until("document.querySelectorAll('.state.running').length >= 60")
        for number in range(60):
            client.body("terminate", token=f"slow_{number}")
        page.until("document.querySelectorAll('.state.running').length === 0")
        assert page.value("document.body.dataset.connection") == "live"


SOON = "const later = setTimeout; window.setTimeout = (act, ms) => later(act, {20000: 0, 30000: 2500}[ms] ?? ms);"
"""A script that shortens the times until a hidden page lets go of the server, and until a silent server is lost."""


def test_a_server_that_hangs_is_lost_and_found_again(browser: Browser, alone: WsServer) -> None:
    with alone.client() as client, browser.page(url(alone), script=SOON) as page:
        for number in range(5):
            client.body("execute", pipeline={**pipeline(), "project_id": f"h{number}"}, token=f"h{number}", name=f"h{number}")
        page.until("document.querySelectorAll('.toggle').length === 5")
        page.value("document.querySelector('.toggle[aria-expanded=false]')?.click()")
        alone.process.send_signal(signal.SIGSTOP)
        try:
            page.until("document.body.dataset.connection === 'lost'")
        finally:
            alone.process.send_signal(signal.SIGCONT)
        page.until("document.body.dataset.connection === 'live'")
        page.until("document.querySelector('.toggle').getAttribute('aria-expanded') === 'true'")


def test_a_page_that_nobody_sees_lets_go_of_the_server_until_somebody_looks(browser: Browser, alone: WsServer) -> None:
    hide = "Object.defineProperty(document, 'hidden', {get: () => %s, configurable: true});"
    change = "document.dispatchEvent(new Event('visibilitychange'))"
    with alone.client() as client, browser.page(url(alone), script=SOON) as page:
        page.until("document.body.dataset.connection === 'live'")
        page.value(hide % "true" + change)
        page.until_event("Network.loadingFailed")  # the feed is given up
        client.body("execute", pipeline=pipeline(), token="unseen", name="unseen")
        assert page.value("document.querySelectorAll('.toggle').length") == 0
        page.value(hide % "false" + change)
        page.until("document.querySelector('.toggle')")
        assert page.complaints() == NO_COMPLAINTS
