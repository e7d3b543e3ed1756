"""Vector stores behind a server: each user has a content of its own, whichever way it is reached."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ws_server import ADA, BOB, WsServer, keys_file

from rrext.blocking import Client
from rrext.cli.main import main


def component(name: str, provider: str, *inputs: tuple[str, str], **config: Any) -> dict[str, Any]:
    return {
        "id": name,
        "provider": provider,
        "config": config,
        "input": [{"lane": lane, "from": sender} for lane, sender in inputs],
    }


def store_file(folder: Path, **config: Any) -> Path:
    store = {"path": "store", "min_free_bytes": 0, "wait": 30, **config}
    path = folder / "library.pipe"
    components = [
        component("w", "webhook"),
        component("split", "split", ("text", "w")),
        component("store", "store_qdrant_edge", ("documents", "split"), ("questions", "w"), **store),
        component("out", "response_answers", ("answers", "store")),
    ]
    path.write_text(json.dumps({"components": components, "source": "w"}))
    return path


def seen(client: Client) -> Mapping[str, int]:
    """How much each way shows of the store."""
    ask = client.tool
    ids = [one["objectId"] for one in ask(tool="list")["objects"]]
    asked = client.chat(question={"questions": [{"text": "penguins"}], "filter": {"limit": 100}})
    return {
        "list": ask(tool="list")["total"],
        "stats": ask(tool="stats")["objects"],
        "search": len(ask(tool="search", input={"query": "penguins", "top_k": 100})["results"]),
        "keyword": len(ask(tool="search", input={"query": "penguins", "mode": "keyword"})["results"]),
        "versions": len(ask(tool="versions", input={"object_ids": [*ids, "rules"]})["versions"]),
        "get": sum(ask(tool="get", input={"object_id": name})["total"] for name in ids),
        "question": sum(bool(answer.strip()) for answer in asked["answers"]),
    }


@pytest.mark.promise("vector:owner:apart")
def test_users_share_no_object_and_one_users_file_is_one_object_on_every_way(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, docs = store_file(tmp_path), tmp_path / "docs"
    docs.mkdir()
    (docs / "a.txt").write_text("penguins of the south")
    (tmp_path / "alias").symlink_to(docs, target_is_directory=True)
    nothing = dict.fromkeys(("list", "stats", "search", "keyword", "versions", "get", "question"), 0)
    one = dict.fromkeys(nothing, 1)
    sent = []
    for words in (["--user", "ada"], []):
        assert main(["send", str(path), str(docs), *words]) == 0
        sent.append(json.loads(capfd.readouterr().out)["result"]["objectId"])
    with (
        WsServer("--keys", str(keys_file(tmp_path)), files=(path,)) as server,
        Client.connect(server.url, key=ADA) as ada,
        Client.connect(server.url, key=BOB) as bob,
    ):
        assert (seen(ada), seen(bob)) == (one, nothing)
        monkeypatch.setenv("ROCKETRIDE_APIKEY", ADA)
        assert main(["send", "--at", server.url, str(tmp_path / "alias" / "a.txt")]) == 0
        (result,) = ada.send_files([tmp_path / "alias"])
        assert json.loads(capfd.readouterr().out)["result"]["objectId"] == (result.result or {})["objectId"] == sent[0]
        assert seen(ada) == one
        bob.send_files([docs])
        bob.vectors.upsert([{"object_id": "rules", "content": "penguins may not swim", "metadata": {"parent": "/r"}}])
        ada.vectors.upsert([{"object_id": "rules", "content": "penguins may swim", "metadata": {"parent": "/r"}}])
        assert seen(ada) == seen(bob) == dict.fromkeys(nothing, 2) | {"question": 1}
        assert [chunk["content"] for chunk in ada.vectors.get("rules")["chunks"]] == ["penguins may swim"]
        assert bob.vectors.delete(prefix="/")["objects"] == 2
        assert (seen(bob), seen(ada)["list"]) == (nothing, 2)
    assert main(["tool", str(path), "list"]) == 0
    assert [found["objectId"] for found in json.loads(capfd.readouterr().out)["objects"]] == [sent[1]]
