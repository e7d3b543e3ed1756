"""What a spawned server sees of our environment, what a pipeline sees of the server's, and what no log ever says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from houses import HERE, NODES, PIPELINE
from more_pipelines import narrow, with_tools

from rrext import Client
from rrext.errors import InvalidPipeline

pytestmark = pytest.mark.promise("spawn:env-allow-list")

ROOT = {"PYTHONPATH": str(HERE.parents[1])}
ALLOWED = {
    "HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "PATH",
    "PYTHONPATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "VIRTUAL_ENV",
    "XDG_CONFIG_HOME",
}
FROM_PYTHON_ITSELF = {"LC_CTYPE"}


@pytest.fixture(params=["dap", "jsonrpc"])
def dialect(request: pytest.FixtureRequest) -> Any:
    return request.param


def keyed(text: str) -> dict[str, Any]:
    """A pipeline with this text among its settings."""
    pipeline = with_tools(shared_1="shared")
    pipeline["components"][1]["config"] = {"key": text}
    return pipeline


async def test_a_server_sees_an_allow_list_rocketride_names_and_what_is_given(
    dialect: Any, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "XROCKETRIDE_A", "rocketride_a"):
        monkeypatch.setenv(name, "swordfish")
    monkeypatch.setenv("ROCKETRIDE_GREETING", f"hello-{key}")
    async with Client.spawn(PIPELINE, nodes=NODES, env={**ROOT, "GIVEN": "this"}, dialect=dialect) as client:
        seen = await client.tool(tool="environment")
        await client.use(pipeline=keyed("${ROCKETRIDE_GREETING}"), token="greeting")
        assert await client.tool(tool="connection", token="greeting") == ["the connection"]
        assert await client.tool(tool="journal", input={"key": f"hello-{key}"}, token="face") == ["setup"]
    assert "swordfish" not in str(seen)
    assert "hello" not in str(seen), "what pipelines read is not in the environment of tools and their children"
    assert seen["GIVEN"] == "this"
    others = {name for name in seen if not name.startswith("LC_")} - {"GIVEN"}
    assert others <= ALLOWED
    assert "PATH" in others


async def test_a_pipeline_reads_a_variable_only_if_its_name_was_given(dialect: Any, key: str) -> None:
    secret = f"swordfish-{key}"
    env = {**ROOT, "FACE_KEY": secret, "ROCKETRIDE_KEY": secret, "ROCKETRIDE_APIKEY": secret}
    async with Client.spawn(PIPELINE, nodes=NODES, env=env, dialect=dialect) as client:
        for name in ("FACE_KEY", "ROCKETRIDE_APIKEY"):
            with pytest.raises(InvalidPipeline) as caught:
                await client.use(pipeline=keyed(f"${{{name}}}"))
            assert [problem["code"] for problem in caught.value.data["problems"]][:1] == ["variable_not_allowed"]
            assert secret not in str(caught.value.data)
        await client.use(pipeline=keyed("${ROCKETRIDE_KEY}"), token="one")
    async with Client.spawn(PIPELINE, nodes=NODES, env=env, env_names=["FACE_KEY"], dialect=dialect) as client:
        await client.use(pipeline=keyed("${FACE_KEY}"), token="two")
        assert await client.tool(tool="connection", token="two") == ["the connection"]
        assert await client.tool(tool="journal", input={"key": secret}, token="face") == ["setup"]
        assert secret not in str(await client.tasks())


async def test_no_log_has_a_token_a_value_or_what_was_sent(dialect: Any, tmp_path: Path, key: str) -> None:
    log = tmp_path / "rrext.log"
    secret = f"swordfish-{key}"
    said: list[bytes] = []
    options = ["--log-file", str(log), "--log-level", "debug"]
    env = {**ROOT, "ROCKETRIDE_KEY": secret}
    async with Client.spawn(PIPELINE, nodes=NODES, env=env, args=options, dialect=dialect, on_stderr=said.append) as client:
        body = await client.use(pipeline=keyed("${ROCKETRIDE_KEY}"))
        other = await client.use(pipeline=narrow())
        for token in (body["token"], other["token"]):
            await client.tools(token=token)
            await client.status(token)
        await client.tool(tool="connection", token=body["token"])
        await client.send(f"password {secret}", token=other["token"])
        for failing in ("crash", "unknown"):
            with pytest.raises(Exception, match=failing):
                await client.tool(
                    tool=failing, token=other["token"], input={"password": secret} if failing == "unknown" else {}
                )
        with pytest.raises(Exception, match="not running"):
            await client.tools(token=body["token"][:-1])
        await client.terminate(body["token"])
    written = log.read_text(encoding="utf-8") + b"".join(said).decode()
    assert "connection" in written
    for private in (body["token"], other["token"], body["publicToken"], secret):
        assert private not in written
