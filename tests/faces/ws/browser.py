"""Headless Chromium, driven by its own protocol: pages, keys, screenshots, and the tree that screen readers read."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from websockets.sync.client import ClientConnection, connect

PATIENCE: Final = 30.0
PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome")
FLAGS: Final = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-port=0"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update", "--hide-scrollbars"),
    *("--no-proxy-server", "--host-resolver-rules=MAP *.example 127.0.0.1"),
)
KEYS: Final = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32}


class Browser:
    """A browser, over the socket of its protocol."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._seq = 0
        self._events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """The result of a command of the protocol; events that come before it are kept."""
        self._seq += 1
        message = {"id": self._seq, "method": method, "params": params} | ({} if session is None else {"sessionId": session})
        self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(self._socket.recv(PATIENCE))
            if answer.get("id") == self._seq:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            self._events.append(answer)

    def events(self, session: str) -> list[dict[str, Any]]:
        """The events of a page until now."""
        return [event for event in self._events if event.get("sessionId") == session]

    @contextmanager
    def page(self, url: str, *, script: str = "") -> Iterator[Page]:
        """A page in a context of its own: no cache, no state of another one. `script` runs before those of the page."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            page.call(f"{domain}.enable")
        page.size(1200, 900)
        page.scheme("light")
        page.call("Page.addScriptToEvaluateOnNewDocument", source=script)
        page.open(url)
        try:
            yield page
        finally:
            self.call("Target.disposeBrowserContext", browserContextId=context)


class Page:
    """One open page."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a command about this page."""
        return self._browser.call(method, self._session, **params)

    def open(self, url: str) -> None:
        """Go to an address."""
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def size(self, width: int, height: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)

    def scheme(self, name: str) -> None:
        """Prefer light or dark."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def value(self, expression: str) -> Any:
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait until a condition holds in the page."""
        end = time.monotonic() + PATIENCE
        while not self.value(f"Boolean({condition})"):
            assert time.monotonic() < end, f"never: {condition}\n{self.text()}"
            time.sleep(0.02)

    def until_event(self, method: str) -> None:
        """Wait until the browser has told such an event of the page."""
        end = time.monotonic() + PATIENCE
        while not any(event["method"] == method for event in self._browser.events(self._session)):
            assert time.monotonic() < end, f"never: {method}"
            self.value("new Promise(requestAnimationFrame)")

    def text(self) -> str:
        """What the page shows."""
        return str(self.value("document.body.innerText"))

    def press(self, key: str, *, shift: bool = False) -> None:
        """Press a key."""
        text = {"Enter": "\r", " ": " "}.get(key, "")
        common = {"key": key, "windowsVirtualKeyCode": KEYS[key], "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text: str) -> None:
        """Type a text where the focus is."""
        self.call("Input.insertText", text=text)

    def focused(self) -> str:
        """The text of the element that has the focus, or its id."""
        return str(self.value("document.activeElement.innerText || document.activeElement.id"))

    def tree(self) -> list[tuple[str, str]]:
        """Role and name of everything that a screen reader finds, in order."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [
            (node["role"]["value"], str(node.get("name", {}).get("value", ""))) for node in nodes if not node.get("ignored")
        ]

    def complaints(self) -> list[str]:
        """Exceptions, and what the browser refused or missed, such as by the content security policy."""
        self.value("1")
        found = []
        for event in self._browser.events(self._session):
            if event["method"] == "Runtime.exceptionThrown":
                found.append(json.dumps(event["params"]["exceptionDetails"]))
            elif event["method"] == "Log.entryAdded":
                found.append(f"{event['params']['entry']['text']} {event['params']['entry'].get('url', '')}")
        return found

    def requested(self) -> list[str]:
        """The addresses that the page asked for."""
        self.value("1")
        events = self._browser.events(self._session)
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def screenshot(self, path: Path) -> None:
        """Write a picture of the page."""
        shot = self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def running_browser(profile: Path) -> Iterator[Browser]:
    """A browser with a profile of its own; the test is skipped where there is none."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip("Chromium is not installed")
    command = [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
    silent = subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=silent, stdout=silent, stderr=silent)
    try:
        with connect(_address(process, profile), compression=None, proxy=None, max_size=None) as socket:
            yield Browser(socket)
    finally:
        process.kill()
        process.wait(PATIENCE)


def _address(process: subprocess.Popen[bytes], profile: Path) -> str:
    """Where the browser listens, which it writes into its profile."""
    port, until = profile / "DevToolsActivePort", time.monotonic() + PATIENCE
    while not port.exists() or len(port.read_text().split()) < 2:
        assert time.monotonic() < until
        assert process.poll() is None
        time.sleep(0.02)
    number, path = port.read_text().split()
    return f"ws://127.0.0.1:{number}{path}"
