"""Lists of addresses, feeds and mailboxes in step with a store, from servers that behave and that do not."""

from __future__ import annotations

import json
import mailbox
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from commands import Done, InProcess, component, pipeline

from rrext.sync import addresses, sources

Answer = tuple[int, dict[str, str], bytes]


class Pages:
    """A server whose pages a test writes. `asked` are the paths of its requests, `conditions` those with a condition."""

    def __init__(self) -> None:
        self.pages: dict[str, Answer] = {}
        self.asked: list[str] = []
        self.released = threading.Event()
        pages = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                pages.asked.append(self.path)
                if self.path == "/slow":
                    pages.released.wait(30)
                status, headers, body = pages.pages.get(self.path, (404, {}, b"nothing here"))
                if "etag" in headers and self.headers.get("if-none-match") == headers["etag"]:
                    status, body = 304, b""
                self.send_response(status)
                for name, value in {"content-length": str(len(body)), "connection": "close", **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                with suppress(ConnectionError):  # the client does not want all of it
                    self.wfile.write(body)
                self.close_connection = True

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def give(self, path: str, body: str | bytes, status: int = 200, **headers: str) -> str:
        """A page from now on; its address."""
        kind = {"content-type": "text/plain"} | {name.replace("_", "-"): value for name, value in headers.items()}
        self.pages[path] = status, kind, body.encode() if isinstance(body, str) else body
        return self.url + path

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def pages() -> Iterator[Pages]:
    made = Pages()
    yield made
    made.close()


@pytest.fixture
def tmp_path(memory_path: Path) -> Path:
    """Stores are in memory."""
    return memory_path


@pytest.fixture
def store(tmp_path: Path) -> str:
    return pipeline(
        tmp_path,
        component("w", "webhook"),
        component("split", "split", "text:w"),
        component("store", "store_qdrant_edge", "documents:split", path="store", min_free_bytes=0),
    )


def counts(done: Done) -> dict[str, int]:
    return {word: count for word, count in done.lines[-1]["summary"].items() if count and word != "chunks"}


def stored(run: InProcess, store: str) -> dict[str, dict[str, Any]]:
    """Path → the first chunk's metadata with its `content`, of all that is in the store."""
    found = {}
    for each in json.loads(run("tool", store, "list", "limit=1000").out)["objects"]:
        (first, *_) = json.loads(run("tool", store, "get", f"object_id={each['objectId']}").out)["chunks"]
        found[each["parent"]] = {**first["metadata"], "content": first["content"]}
    return found


def test_listed_pages_are_fetched_again_only_if_they_changed(pages: Pages, store: str, tmp_path: Path, run: InProcess) -> None:
    tagged, plain = pages.give("/tagged", "first", etag='"1"'), pages.give("/plain/page?x=1", "second")
    listed = tmp_path / "links.txt"
    listed.write_text(f"# my pages\n{tagged}\n\n{plain}#part\n{plain}\n")
    assert counts(run("send", "--sync", store, f"urls:{listed}")) == {"new": 2}
    host = pages.url.removeprefix("http://")
    found = stored(run, store)
    assert {path: each["content"] for path, each in found.items()} == {
        f"links/{host}/tagged": "first",
        f"links/{host}/plain/page?x=1": "second",
    }
    assert found[f"links/{host}/tagged"]["source"] == "links"
    assert found[f"links/{host}/tagged"]["link"] == tagged
    done = run("send", "--sync", store, f"urls:{listed}")
    assert (counts(done), " 0 B sent" in done.err) == ({"unchanged": 2}, True)
    pages.give("/tagged", "third", etag='"2"')
    listed.write_text(f"{tagged}\n")
    done = run("send", "--sync", store, f"urls:{listed}")
    assert counts(done) == {"changed": 1, "deleted": 1}
    assert {each["content"] for each in stored(run, store).values()} == {"third"}


def test_a_page_that_the_store_lost_is_fetched_whole_though_it_did_not_change(
    pages: Pages, store: str, tmp_path: Path, run: InProcess
) -> None:
    (tmp_path / "links").write_text(pages.give("/page", "words", etag='"1"'))
    word = f"urls:{tmp_path / 'links'}"
    assert counts(run("send", "--sync", store, word)) == {"new": 1}
    run("tool", store, "delete", "--input", json.dumps({"prefix": "links"}))
    assert counts(run("send", "--sync", store, word)) == {"new": 1}
    assert counts(run("send", "--sync", store, word)) == {"unchanged": 1}


def test_a_page_that_fails_blocks_no_other_and_keeps_what_the_store_has(
    pages: Pages, store: str, tmp_path: Path, run: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "MAX_SILENCE", 3.0)
    monkeypatch.setattr(sources, "MAX_ITEM", 1000)
    monkeypatch.setattr(addresses.PageFetcher.fetch, "__kwdefaults__", {"known": None, "of_feed": False, "most": 1000})
    good = pages.give("/good", "good")
    was = pages.give("/was", "was here")
    listed = tmp_path / "links"
    listed.write_text(f"{was}\n{good}")
    assert counts(run("send", "--sync", store, f"urls:{listed}")) == {"new": 2}
    pages.give("/was", "gone now", status=410)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        bad = {
            was: "page_bad_request",
            pages.url + "/slow": "page_timeout",
            pages.give("/huge", b"x" * 2000): "page_too_large",
            pages.give("/said-huge", b"", content_length="9999999999"): "page_too_large",
            pages.give("/cut", "short", content_length="900"): "page_unreachable",
            pages.give("/loop", "", 302, location="/loop"): "page_redirected",
            pages.give("/packed", b"x", content_encoding="zstd"): "page_bad_answer",
            pages.give("/broken", "", 500): "page_failed",
            pages.give("/elsewhere", "", 302, location="file:///etc/passwd"): "address",
            f"http://127.0.0.1:{nobody.getsockname()[1]}/": "page_unreachable",
            "ftp://example.org/x": "unreadable",
            "http://": "unreadable",
        }
        listed.write_text("\n".join([*bad, good]))
        done = run("send", "--sync", store, f"urls:{listed}")
    assert {line["path"]: line["error"]["code"] for line in done.lines if "error" in line} == bad
    assert (done.code, counts(done)) == (1, {"failed": len(bad), "unchanged": 1})
    assert {each["content"] for each in stored(run, store).values()} == {"good", "was here"}


def test_no_redirect_leads_to_another_private_address(pages: Pages, store: str, tmp_path: Path, run: InProcess) -> None:
    port = pages.url.rpartition(":")[2]
    pages.give("/secret", "of the house")
    (tmp_path / "links").write_text(
        "\n".join(
            [
                pages.give("/same", "", 302, location="/secret"),
                pages.give("/other", "", 302, location=f"http://127.0.0.2:{port}/secret"),
                pages.give("/name", "", 302, location=f"http://localhost:{port}/secret"),
            ]
        )
    )
    done = run("send", "--sync", store, f"urls:{tmp_path / 'links'}")
    assert {line["path"].rpartition("/")[2]: line.get("error", {}).get("code") for line in done.lines[:-1]} == {
        "same": None,
        "other": "private_address",
        "name": "private_address",
    }
    assert pages.asked.count("/secret") == 1


def test_a_list_that_is_not_there_deletes_nothing(pages: Pages, store: str, tmp_path: Path, run: InProcess) -> None:
    listed = tmp_path / "links"
    listed.write_text(pages.give("/page", "words"))
    run("send", "--sync", store, f"urls:{listed}")
    listed.rename(tmp_path / "away")
    done = run("send", "--sync", store, f"urls:{listed}")
    assert (done.code, counts(done), done.lines[0]["error"]["message"]) == (1, {"failed": 1}, "No such file or directory")
    listed.touch()
    assert counts(run("send", "--sync", store, f"urls:{listed}")) == {"notDeleted": 1}
    assert len(stored(run, store)) == 1
    assert counts(run("send", "--sync", "--max-delete", "1", store, f"urls:{listed}")) == {"deleted": 1}


RSS = """<?xml version="1.0"?><rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/"><channel>
<title>News &amp; more</title>{entries}</channel></rss>"""


def entry(title: str, text: str, **more: str) -> str:
    parts = "".join(f"<{name}>{value}</{name}>" for name, value in more.items())
    return f"<item><title>{title}</title><content:encoded><![CDATA[<p>{text}</p>]]></content:encoded>{parts}</item>"


def test_entries_of_a_feed_stay_when_the_feed_has_them_no_more(pages: Pages, store: str, run: InProcess) -> None:
    one = entry("One", "first words", guid="1", pubDate="Sat, 28 Nov 2026 12:00:00 GMT", author="Ada")
    url = pages.give("/feed", RSS.format(entries=one + entry("Two", "no id") + entry("Two", "no id")))
    assert counts(run("send", "--sync", store, f"feed:{url}")) == {"new": 2}
    found = {each["title"]: each for each in stored(run, store).values()}
    assert set(found) == {"One", "Two"}
    assert "first words" in found["One"]["content"]
    told = {name: found["One"][name] for name in ("feed", "source", "author", "modified")}
    assert told == {"feed": "News & more", "source": "News & more", "author": "Ada", "modified": 1795867200.0}
    assert "modified" not in found["Two"]
    assert counts(run("send", "--sync", store, f"feed:{url}")) == {"unchanged": 2}
    pages.give("/feed", RSS.format(entries=entry("One", "other words", guid="1") + entry("Three", "x", guid="3")))
    assert counts(run("send", "--sync", store, f"feed:{url}")) == {"new": 1, "changed": 1}
    assert {each["title"] for each in stored(run, store).values()} == {"One", "Two", "Three"}


def test_an_address_that_a_feed_chose_is_a_public_one(
    pages: Pages, store: str, tmp_path: Path, run: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = pages.give("/page", "the page", content_type="text/html")
    film = pages.give("/film", "a film", content_type="video/mp4")
    leads = "".join(f"<item><title>t</title><link>{link}</link></item>" for link in (page, film, "file:///etc/passwd"))
    (tmp_path / "feed.xml").write_text(RSS.format(entries=leads))
    word = f"feed:{tmp_path / 'feed.xml'}"
    done = run("send", "--sync", store, word)
    assert [line["error"]["code"] for line in done.lines[:-1]].count("private_address") == 2
    assert (counts(done), pages.asked) == ({"failed": 3}, [])
    monkeypatch.setattr("rrext.http.public.is_public", lambda address: True)
    done = run("send", "--sync", store, word)
    assert {line["error"]["code"] for line in done.lines[:-1] if "error" in line} == {"page_type", "unreadable"}
    assert counts(done) == {"new": 1, "failed": 2}
    assert counts(run("send", "--sync", store, word)) == {"unchanged": 1, "failed": 2}
    assert pages.asked.count("/page") == 1


@pytest.mark.parametrize("content", ["", "no feed at all", "<html><body>a page</body></html>", '{"a": 1}', "<rss><chan"])
def test_what_is_no_feed_is_said(content: str, store: str, tmp_path: Path, run: InProcess) -> None:
    (tmp_path / "x").write_text(content)
    done = run("send", "--sync", store, f"feed:{tmp_path / 'x'}")
    assert (done.code, counts(done)) == (1, {"failed": 1})
    assert "is no feed" in done.lines[0]["error"]["message"]


def test_a_feed_that_is_cut_gives_what_it_has(store: str, tmp_path: Path, run: InProcess) -> None:
    whole = RSS.format(entries=entry("One", "words", guid="1") + entry("Two", "more", guid="2"))
    (tmp_path / "x").write_text(whole[: whole.index("<title>Two") + 5])
    assert counts(run("send", "--sync", store, f"feed:{tmp_path / 'x'}"))["new"] >= 1


def add(box: Path, subject: str, body: str, **headers: str) -> None:
    message = mailbox.mboxMessage()
    for name, value in {"Subject": subject, "From": "ada@example.org", **headers}.items():
        message[name.replace("_", "-")] = value
    message.set_payload(body)
    made = mailbox.mbox(str(box))
    made.add(message)
    made.close()


@pytest.fixture
def mail_store(tmp_path: Path) -> str:
    (tmp_path / "mail").mkdir()
    return pipeline(
        tmp_path / "mail",
        component("w", "webhook"),
        component("parse", "parse", "tags:w"),
        component("split", "split", "text:parse"),
        component("store", "store_qdrant_edge", "documents:split", path="store", min_free_bytes=0),
    )


def test_each_message_of_a_mailbox_is_an_object(mail_store: str, tmp_path: Path, run: InProcess) -> None:
    box = tmp_path / "letters.mbox"
    dated = {"Message_ID": "<1@x>", "Date": "Sat, 28 Nov 2026 12:00:00 +0000"}
    add(box, "=?utf-8?q?Gr=C3=BC=C3=9Fe?= / and more", "the first letter", **dated)
    add(box, "no id", "the second letter")
    add(box, "no id", "the second letter")
    add(box, "twice", "the third letter", Message_ID="<1@x>")
    word = f"mbox:{box}"
    done = run("send", "--sync", mail_store, word)
    assert (done.code, counts(done)) == (0, {"new": 3}), done
    found = stored(run, mail_store)
    assert {path.rpartition(" ")[0] for path in found} == {"letters/Grüße and more", "letters/no id", "letters/twice"}
    (first,) = [each for path, each in found.items() if "Grüße" in path]
    assert (first["source"], first["modified"]) == ("letters", 1795867200.0)
    assert "the first letter" in first["content"]
    assert counts(run("send", "--sync", mail_store, word)) == {"unchanged": 3}
    made = mailbox.mbox(str(box))
    for key in list(made.iterkeys())[1:3]:
        made.remove(key)
    made.close()
    add(box, "later", "the fourth letter")
    assert counts(run("send", "--sync", mail_store, word)) == {"new": 1, "unchanged": 2, "deleted": 1}
    box.write_text("no mail at all")
    done = run("send", "--sync", mail_store, word)
    assert (counts(done), done.lines[0]["error"]["message"]) == ({"failed": 1}, "is no file of mail")


def test_a_file_with_the_name_of_a_source_is_given_with_a_path(store: str, tmp_path: Path, run: InProcess) -> None:
    (tmp_path / "feed:x").write_text("a text")
    done = run("send", "--sync", store, "./feed:x", "--mime", "text/plain", cwd=tmp_path)
    assert (done.code, counts(done)) == (0, {"new": 1})
    assert run("send", "--sync", store, "feed:", cwd=tmp_path).code == 2


def test_sources_and_folders_go_together_and_a_name_is_that_of_one(
    pages: Pages, store: str, tmp_path: Path, run: InProcess
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("a file")
    listed = tmp_path / "links"
    listed.write_text(pages.give("/page", "words"))
    assert counts(run("send", "--sync", store, tmp_path / "docs", f"urls:{listed}")) == {"new": 2}
    assert counts(run("send", "--sync", store, tmp_path / "docs")) == {"unchanged": 1}
    done = run("send", "--sync", "--root-name", "web", store, f"urls:{listed}")
    assert counts(done) == {"new": 1}
    assert {each["source"] for each in stored(run, store).values()} == {"docs", "links", "web"}
    done = run("send", "--sync", "--root-name", "web", store, tmp_path / "docs", f"urls:{listed}")
    assert (done.code, done.out) == (2, b"")
