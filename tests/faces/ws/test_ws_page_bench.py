"""The workbench of the status page in a browser: forms of every kind of schema, calls with all that a call can ask and tell,
and nothing that another client of the same user could not do.

With `RREXT_SCREENSHOTS` each test leaves pictures in that folder, for people to look at.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import PATIENCE, Browser, Page, running_browser
from form_nodes import EVIL
from ws_server import ADA, BOB, WsClient, WsServer, certificate, keys_file

pytestmark = [pytest.mark.system, pytest.mark.promise("ws:workbench"), pytest.mark.timeout(180)]

HERE = Path(__file__).resolve().parent
NO_COMPLAINTS: list[str] = []
NODES = ("--nodes", str(HERE / "form_nodes.py"))
PROVIDERS = ("forms", "shows", "probe", "nest")
EVERY: dict[str, Any] = {
    "name": "abc",
    "count": 2**63,
    "choice": None,
    "fixed": "v1",
    "point": {"x": -1.5, "y": 1e300},
    "shape": {"kind": "box", "sides": [1, 2, 3]},
    "share": 0.75,
    "flag": False,
    "note": "two\nlines",
    "maybe": 7,
    "day": "2026-02-28",
    "mail": "a@b.example",
    "secret": "swordfish",
    "blob": "AP8=",
    "tags": ["a", ""],
    "pair": [1, "one"],
    "tree": {"label": "root", "children": [{"label": "leaf", "children": []}, {"label": "leaf"}]},
    "limits": {"a b": 1, "": 2},
    "anything": [1, {"deep": [None, True]}],
    "loose": {"x": {"y": 1}},
    "both": {"x": 1, "y": 2, "z": 3},
    "__proto__": 5,
    "a/b~c": "abc",
}
"""A value of the tool `every` that has each of its properties."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with running_browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture(scope="module")
def bench() -> Iterator[WsServer]:
    """A server of no pipelines and no keys, which knows nodes for forms."""
    with WsServer("--isolation", "none", *NODES, files=()) as server:
        yield server


@pytest.fixture
def client(bench: WsServer) -> Iterator[WsClient]:
    """A client that has loaded a pipeline of these nodes."""
    with bench.client() as client:
        client.body("execute", pipeline=pipeline(), token="forms", name="forms")
        yield client
        client.body("terminate", token="forms")


@pytest.fixture
def page(browser: Browser, bench: WsServer, client: WsClient) -> Iterator[Page]:
    """The workbench, with the tools of that pipeline."""
    with browser.page(f"http://127.0.0.1:{bench.port}/#workbench") as page:
        page.until("document.querySelectorAll('.tool').length > 20")
        yield page
        others = [each for each in page.complaints() if "/status/picture" not in each]  # of a pipeline that has just ended
        assert others == NO_COMPLAINTS
        assert page.value("typeof hacked") == "undefined"
        assert page.value("document.querySelectorAll('main script, main img, main iframe').length") == 0


def pipeline(*more: dict[str, Any], **settings: Any) -> dict[str, Any]:
    control = [{"classType": "tool", "from": "webhook_1"}]
    nodes = [{"id": f"{name}_1", "provider": name, "config": {}, "control": control} for name in PROVIDERS]
    source = {"id": "webhook_1", "provider": "webhook", "config": {}}
    return {"components": [source, *nodes, *more], "source": "webhook_1", "project_id": "p", **settings}


def shot(page: Page, name: str) -> None:
    if "RREXT_SCREENSHOTS" in os.environ:
        page.screenshot(Path(os.environ["RREXT_SCREENSHOTS"]) / f"{name}.png")


def choose(page: Page, tool: str, node: str = "") -> None:
    """Choose a tool by its button."""
    is_it = f"each.querySelector('b').innerText === {json.dumps(tool)} && each.innerText.includes({json.dumps(node)})"
    found = f"[...document.querySelectorAll('.tool')].find((each) => {is_it})"
    page.until(found)
    page.value(f"{found}.click()")
    page.until(f"document.querySelector('.panel h3').innerText.startsWith({json.dumps(tool)})")


def press(page: Page, name: str) -> None:
    """Press the button of a name in the panel."""
    found = f"[...document.querySelectorAll('.panel button')].find((each) => each.innerText === {json.dumps(name)})"
    page.value(f"{found}.click()")


def field(name: str) -> str:
    """The field of a name, as an expression."""
    names = "[...document.querySelectorAll('.panel .field')]"
    return f"{names}.find((each) => each.querySelector('.field-name')?.innerText === {json.dumps(name)})"


def fill(page: Page, name: str, text: str) -> None:
    """Type a text into the field of a name, in place of what is there."""
    page.value(f"{field(name)}.querySelector('.place').querySelector('input, textarea').focus()")
    page.value("document.activeElement.select()")
    page.type(text)


def fill_json(page: Page, value: Any) -> None:
    """Put a value into the form, as JSON."""
    press(page, "As JSON")
    page.value("document.querySelector('.raw textarea').focus()")
    page.value("document.activeElement.select()")
    page.type(json.dumps(value))


def outcome(page: Page) -> str:
    """The end of the call that runs."""
    page.until("/^(Done|Failed|Cancelled)/.test(document.querySelector('.outcome').innerText)")
    return str(page.value("document.querySelector('.outcome').innerText")).split()[0]


def run(page: Page) -> str:
    """Run the tool, to its end."""
    press(page, "Run")
    return outcome(page)


def result(page: Page, name: str = "Result") -> Any:
    """The shown result."""
    return json.loads(page.value(f"document.querySelector('section[aria-label={json.dumps(name)}] pre').innerText"))


def failure(page: Page) -> dict[str, str]:
    """The facts of a failure."""
    facts = page.value(
        "[...document.querySelectorAll('.failure > div')].map((each) => [...each.children].map((e) => e.innerText))"
    )
    return dict(facts)


# forms


def test_a_value_of_every_kind_goes_through_the_form_and_back_unchanged(page: Page) -> None:
    choose(page, "every")
    fill_json(page, EVERY)
    press(page, "As a form")
    page.until("document.querySelector('.raw').hidden")
    assert page.value("document.querySelector('.panel .problem:not([hidden])')?.innerText ?? ''") == ""
    page.size(1200, 3600)
    shot(page, "bench-every-light")
    page.scheme("dark")
    shot(page, "bench-every-dark")
    page.size(390, 4200)
    assert page.value("document.documentElement.scrollWidth") <= 390
    shot(page, "bench-every-phone-dark")
    page.scheme("light")
    shot(page, "bench-every-phone-light")
    assert run(page) == "Done"
    assert result(page) == EVERY
    assert page.value(f"{field('secret')}.querySelector('input').type") == "password"


def test_a_form_is_filled_by_hand_and_what_is_left_out_is_not_sent(page: Page) -> None:
    choose(page, "every")
    fill(page, "name", "abc")
    page.value(f"(() => {{ const s = {field('choice')}.querySelector('select'); s.value = '2';"
               " s.dispatchEvent(new Event('change')) })()")  # fmt: skip
    fill(page, "x", "0.1")
    fill(page, "radius", "1e3")
    fill(page, "share", "0.5")
    assert run(page) == "Done"
    shape = {"kind": "circle", "radius": 1000}
    filled = {"name": "abc", "count": 3, "choice": 7, "fixed": "v1", "point": {"x": 0.1, "y": 0.5}, "shape": shape}
    assert result(page) == {**filled, "share": 0.5}
    leave = f"{field('share')}.querySelectorAll('button')"
    page.value(f"[...{leave}].find((each) => each.innerText === 'Leave out').click()")
    assert run(page) == "Done"
    assert result(page) == filled


def test_what_is_wrong_stands_at_its_field_whoever_finds_it(page: Page) -> None:
    choose(page, "every")
    fill(page, "count", "three")
    press(page, "Run")
    page.until(f"!{field('count')}.querySelector('.problem').hidden")
    assert "whole number" in page.value(f"{field('count')}.querySelector('.problem').innerText")
    assert "required" in page.value(f"{field('choice')}.querySelector('.problem').innerText")
    assert page.value("document.querySelector('.outcome').innerText") == ""  # nothing was sent
    fill(page, "count", "3")
    fill_json(page, {**EVERY, "name": "A", "tags": ["same", "same"], "tree": {"label": "x", "children": [{"label": 1}]}})
    assert run(page) == "Failed"
    assert failure(page)["Code"] == "invalid_arguments"
    assert "/tree/children/0/label" in page.value("document.querySelector('.panel .problem:not([hidden])').innerText")
    shot(page, "bench-problems-json")
    fill_json(page, {**EVERY, "name": "A", "pair": [1, "x"], "shape": {"kind": "box", "sides": [1]}})
    press(page, "As a form")
    assert run(page) == "Failed"
    assert page.value(f"{field('name')}.querySelector('.problem').innerText") != ""
    assert page.value(f"{field('name')}.querySelector('input').getAttribute('aria-invalid')") == "true"
    assert page.value("document.activeElement.id") == page.value(f"{field('name')}.querySelector('input').id")
    page.size(1200, 1000)
    shot(page, "bench-problems")


def test_what_cannot_be_sent_is_not_lost_on_the_way_to_json(page: Page) -> None:
    choose(page, "every")
    fill(page, "x", "1,5")
    press(page, "As JSON")
    assert "no number" in page.value(f"{field('x')}.querySelector('.problem').innerText")
    assert page.value("document.querySelector('.raw').hidden")
    fill(page, "x", "1.5")
    press(page, "As JSON")
    assert json.loads(page.value("document.querySelector('.raw textarea').value"))["point"] == {"x": 1.5, "y": 0.5}


def test_bytes_are_read_from_a_file_and_a_result_is_saved_as_one(page: Page, tmp_path: Path) -> None:
    sent, folder = tmp_path / "bytes", tmp_path / "saved"
    sent.write_bytes(bytes(range(256)) * 40)
    choose(page, "blob")
    root = page.call("DOM.getDocument")["root"]["nodeId"]
    node = page.call("DOM.querySelector", nodeId=root, selector=".panel input[type=file]")["nodeId"]
    page.call("DOM.setFileInputFiles", nodeId=node, files=[str(sent)])
    page.until(f"{field('data')}.querySelector('textarea').value")
    assert run(page) == "Done"
    page.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    press(page, "Save")
    page.until_event("Page.downloadProgress")
    end = time.monotonic() + PATIENCE
    while not (found := [path for path in folder.glob("*") if path.suffix == ".txt"]):
        assert time.monotonic() < end
        page.value("new Promise(requestAnimationFrame)")
    assert base64.b64decode(found[0].read_bytes()) == sent.read_bytes()


def test_what_the_form_has_no_field_for_stays_json_and_is_sent_as_it_is(page: Page) -> None:
    choose(page, "every")
    fill_json(page, {**EVERY, "unknown": 1})
    press(page, "As a form")
    page.until("document.querySelector('.panel').innerText.includes('no field for')")
    assert run(page) == "Failed"
    assert failure(page)["Code"] == "invalid_arguments"
    choose(page, "free")
    fill(page, "input", '{"a": [1, 2.50, 10000000000000000001]}')
    assert run(page) == "Done"
    assert "10000000000000000001" in page.value("document.querySelector('section[aria-label=Result] pre').innerText")
    fill(page, "input", '{"a": ')
    press(page, "Run")
    page.until("document.querySelector('.panel').innerText.includes('this is no JSON')")


def test_a_number_is_exact_on_its_way_out_and_back(page: Page) -> None:
    choose(page, "precise")
    fill(page, "number", str(2**60 + 1))
    assert run(page) == "Done"
    assert result(page) == {"number": 2**60 + 1, "next": 2**60 + 2}


def test_a_schema_without_an_end_is_a_form_of_an_end(page: Page) -> None:
    choose(page, "endless")
    assert 8 <= page.value("document.querySelectorAll('.panel .field').length") < 1000
    press(page, "Run")
    page.until("document.querySelector('.panel .problem:not([hidden])')")


def test_markup_and_instructions_in_schemas_and_results_are_text(page: Page) -> None:
    choose(page, "hostile")
    assert EVIL in page.text()
    page.value("[...document.querySelectorAll('.panel .quiet')].find((each) => each.innerText === 'Add').click()")
    fill(page, EVIL, EVIL)
    assert run(page) == "Done"
    assert result(page)[EVIL] == EVIL
    for width in (1200, 390):
        page.size(width, 1600)
        assert page.value("document.documentElement.scrollWidth") <= width
        shot(page, f"bench-hostile-{width}")
    choose(page, "refuse", "shows_1")
    assert run(page) == "Failed"
    assert failure(page) == {"Code": "too_evil", "Message": f"{EVIL} 0", "Hint": "ask for something <b>else</b>"}
    assert result(page, "Data") == {"near": [EVIL]}
    shot(page, "bench-failure")
    choose(page, "rows")
    assert run(page) == "Done"
    assert EVIL in page.value("document.querySelector('.rows table').innerText")
    assert page.value("document.querySelector('.rows caption').innerText") == "3 rows"
    assert len(result(page)) == 3
    choose(page, "free")
    fill(page, "input", '{"entries": [{"a": 1}, {"b": [2]}], "more": [1]}')
    assert run(page) == "Done"
    assert page.value("document.querySelector('.rows table').innerText").split() == ["2", "rows", "a", "b", "1", "[2]"]
    choose(page, "rows")
    shot(page, "bench-rows")


# calls


def test_progress_is_shown_and_a_call_is_cancelled(page: Page, client: WsClient) -> None:
    choose(page, "wait")
    press(page, "Run")
    page.until("document.querySelector('.panel').innerText.includes('1: parked')")
    page.until("!document.querySelector('.panel .danger').hidden")
    assert page.value("document.querySelector('.panel .main').getAttribute('aria-disabled')") == "true"
    shot(page, "bench-running")
    press(page, "Cancel")
    assert outcome(page) == "Cancelled"
    assert failure(page)["Code"] == "cancelled"
    assert page.value("document.querySelector('.panel .main').getAttribute('aria-disabled')") is None


def test_calls_of_two_tools_go_on_side_by_side(page: Page) -> None:
    choose(page, "wait")
    fill(page, "key", "side")
    press(page, "Run")
    page.until("document.querySelector('.panel').innerText.includes('parked')")
    choose(page, "open_gate")
    fill(page, "key", "side")
    assert run(page) == "Done"
    choose(page, "wait")
    assert outcome(page) == "Done"
    assert page.value("document.querySelector('section[aria-label=Result] pre').innerText") == "passed"


def test_chunks_are_shown_and_the_value_after_them(page: Page) -> None:
    choose(page, "count_and_sum")
    fill(page, "to", "4")
    assert run(page) == "Done"
    assert page.value("document.querySelector('section[aria-label=Chunks] pre').innerText").split() == ["0", "1", "2", "3"]
    assert result(page) == 6
    choose(page, "count_and_fail")
    fill(page, "to", "2")
    assert run(page) == "Failed"
    assert failure(page)["Code"] == "no_more"
    assert page.value("document.querySelector('section[aria-label=\"Chunks until then\"] pre').innerText").split() == ["0", "1"]


def test_of_a_large_result_the_beginning_is_shown(page: Page) -> None:
    choose(page, "large", "shows_1")
    fill(page, "size", "3000000")
    assert run(page) == "Done"
    assert page.value("document.querySelector('section[aria-label=Result] pre').innerText.length") < 250_000
    assert "of 3,000,000 characters" in page.text()


def test_a_deadline_is_an_option(page: Page) -> None:
    choose(page, "wait")
    page.value("document.querySelector('.more').open = true")
    page.value("document.querySelector('.more input').focus()")
    page.type("0.05")
    assert run(page) == "Failed"
    assert failure(page)["Code"] == "tool_timeout"
    page.value("document.querySelector('.more input').focus()")
    page.value("document.activeElement.select()")
    page.type("soon")
    assert run(page) == "Failed"
    assert "/timeout" in failure(page)["Message"]


@pytest.mark.parametrize("allow", [True, False])
def test_a_permit_is_asked_for_as_of_any_client(page: Page, client: WsClient, allow: bool) -> None:
    tools = {"tools": [{"type": "node", "node": "probe_1", "tool": "add", "name": "sum", "permission": "ask"}]}
    asking = {"id": "tools_1", "provider": "tools", "config": tools}
    probe = {"id": "probe_1", "provider": "probe", "config": {}, "control": [{"classType": "tool", "from": "tools_1"}]}
    client.body("execute", pipeline={"components": [asking, probe], "source": "tools_1"}, token="asking", name="asking")
    try:
        page.until("[...document.querySelectorAll('#bench-pipeline option')].some((each) => each.value === 'asking')")
        select = "document.getElementById('bench-pipeline')"
        page.value(f"{select}.value = 'asking'; {select}.dispatchEvent(new Event('change'))")
        page.until("[...document.querySelectorAll('.tool b')].some((each) => each.innerText === 'sum')")
        choose(page, "sum")
        fill(page, "a", "1")
        fill(page, "b", "2")
        press(page, "Run")
        page.until("document.querySelector('.ask')")
        assert json.loads(page.value("document.querySelector('.ask pre').innerText")) == {"a": 1, "b": 2}
        assert page.focused() == "Refuse"
        shot(page, "bench-permit")
        press(page, "Permit once" if allow else "Refuse")
        assert outcome(page) == ("Done" if allow else "Failed")
        if allow:
            assert result(page) == {"sum": 3}
        else:
            assert failure(page)["Code"] == "unavailable"
    finally:
        client.body("terminate", token="asking")


def test_a_tool_asks_its_user_by_a_form(page: Page) -> None:
    asked = {"type": "object", "properties": {"name": {"type": "string", "title": EVIL}}, "required": ["name"]}
    choose(page, "ask_user")
    fill_json(page, {"params": {"message": EVIL, "requestedSchema": asked}})
    press(page, "Run")
    page.until("document.querySelector('.ask')")
    assert EVIL in page.value("document.querySelector('.ask').innerText")
    shot(page, "bench-question")
    page.value("document.querySelector('.ask textarea').focus()")
    page.type("Ada")
    press(page, "Answer")
    assert outcome(page) == "Done"
    assert result(page) == {"modes": ["form", "url"], "action": "accept", "content": {"name": "Ada"}}
    fill_json(page, {"params": {"mode": "url", "message": "look", "url": "https://evil.example/", "elicitationId": "1"}})
    press(page, "Run")
    page.until("document.querySelector('.ask')")
    assert page.value("document.querySelectorAll('.ask a').length") == 0
    press(page, "Decline")
    assert outcome(page) == "Done"
    assert result(page)["action"] == "decline"


# who calls


def test_a_user_sees_and_calls_what_is_theirs_with_the_audit_lines_of_any_client(browser: Browser, tmp_path: Path) -> None:
    options = ("--keys", str(keys_file(tmp_path)), "--audit", *NODES)
    with WsServer(*options) as server, browser.page(f"http://127.0.0.1:{server.port}/#workbench") as page:
        page.until("!document.getElementById('login').hidden")
        assert page.value("document.getElementById('bench').hidden")
        page.type(ADA)
        page.press("Enter")
        page.until("document.querySelectorAll('.tool').length > 5")
        names = page.value("[...document.querySelectorAll('.tool b')].map((each) => each.innerText)")
        assert "for_ada" in names
        assert "for_bob" not in names
        choose(page, "for_ada")
        assert run(page) == "Done"
        choose(page, "who")
        assert run(page) == "Done"
        assert result(page)["user"] == "ada"
        assert [address for address in page.requested() if ADA in address or "token" in address] == []
        kept = "JSON.stringify([location.href, document.cookie, {...localStorage}, {...sessionStorage}])"
        assert ADA not in page.value(kept)
        server.heard("tool=for_ada")
        (line,) = [line for line in server.log.splitlines() if "tool=for_ada" in line]
        assert "client=ws-1" in line
        assert "user=ada" in line
        assert "outcome=done" in line
        page.value("document.getElementById('forget').click()")
        page.until("!document.getElementById('login').hidden")
        assert page.value("document.getElementById('bench').hidden")
        assert page.value("document.querySelectorAll('.tool, .panel').length") == 0
        page.type(BOB)
        page.press("Enter")
        page.until("document.querySelectorAll('.tool').length > 5")
        assert "for_bob" in page.value("[...document.querySelectorAll('.tool b')].map((each) => each.innerText)")
        choose(page, "who")
        assert run(page) == "Done"
        assert result(page)["user"] == "bob"


def test_over_tls_the_workbench_calls_over_tls(browser: Browser, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    options = ("--isolation", "none", "--tls-cert", str(cert), "--tls-key", str(key))
    with WsServer(*options) as server, browser.page("about:blank") as page:
        page.call("Security.setIgnoreCertificateErrors", ignore=True)
        page.open(f"https://127.0.0.1:{server.port}/#workbench")
        page.until("document.querySelectorAll('.tool').length > 5")
        choose(page, "add")
        fill(page, "a", "41")
        assert run(page) == "Done"
        assert result(page) == {"sum": 42}
        assert [each for each in page.complaints() if "certificate" not in each.lower()] == NO_COMPLAINTS


def test_the_end_of_the_server_ends_the_call_with_a_word(browser: Browser) -> None:
    with WsServer("--isolation", "none") as server, browser.page(f"http://127.0.0.1:{server.port}/#workbench") as page:
        page.until("document.querySelectorAll('.tool').length > 5")
        choose(page, "wait")
        press(page, "Run")
        page.until("document.querySelector('.panel').innerText.includes('parked')")
        server.process.kill()
        assert outcome(page) == "Failed"
        assert failure(page)["Code"] == "connection_lost"


def test_all_of_the_workbench_works_by_keyboard_and_has_names(page: Page) -> None:
    page.value("document.getElementById('bench-title').focus()")
    while page.value("document.activeElement.className") != "tool":
        page.press("Tab")
    while not page.focused().startswith("precise"):
        page.press("Tab")
    page.press("Enter")
    page.until("document.activeElement.tagName === 'H3'")
    while page.value("document.activeElement.tagName") != "INPUT":
        page.press("Tab")
    page.type("41")
    page.press("Enter")
    assert outcome(page) == "Done"
    assert result(page)["next"] == 42
    choose(page, "every")
    tree = page.tree()
    named = ("button", "textbox", "searchbox", "combobox", "heading", "table", "group", "listbox")
    assert not [role for role, name in tree if role in named and not name.strip()]
    assert ("heading", "Workbench") in tree
    assert ("link", "Status") in tree


def test_two_hundred_pipelines_are_found_by_name(page: Page, client: WsClient) -> None:
    for number in range(199):
        wanted = pipeline(project_id=f"p{number}")
        client.body("execute", pipeline=wanted, token=f"many_{number}", name=f"pipeline {number}")
    try:
        options = "document.querySelectorAll('#bench-pipeline option')"
        page.until(f"{options}.length >= 200")
        page.size(390, 844)
        shot(page, "bench-many-phone")
        page.value("document.getElementById('bench-find').focus()")
        page.type("PIPELINE 19")
        page.until("document.getElementById('bench-found').textContent === '10 of 200'")
        select = "document.getElementById('bench-pipeline')"
        page.value(f"{select}.value = 'many_198'; {select}.dispatchEvent(new Event('change'))")
        page.until("document.querySelectorAll('.tool').length > 20")
        page.value("document.getElementById('bench-filter').focus()")
        page.type("precise")
        page.until("document.querySelectorAll('.tool').length === 1")
        choose(page, "precise")
        fill(page, "number", "1")
        assert run(page) == "Done"
        assert page.value("document.documentElement.scrollWidth") <= 390
        shot(page, "bench-many-phone-done")
        page.value("document.querySelector('.panel').scrollIntoView()")
        shot(page, "bench-many-phone-form")
    finally:
        for number in range(199):
            client.body("terminate", token=f"many_{number}")
