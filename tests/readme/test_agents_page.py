"""The page about agents: its recipes run as they stand, in this process, and a scripted server plays the model."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from model_server import Asked, Call, Say, serving

from rrext.cli.main import main
from rrext.nodes.agent.node import AgentConfig
from rrext.pipefile.catalog.catalog import Catalog

pytest.importorskip("pydantic_ai", reason="the extra `agent` is not installed")

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "tests" / "examples"
PAGE = (ROOT / "rrext" / "nodes" / "AGENTS.md").read_text(encoding="utf-8")
RECIPES = {
    re.findall(r"agents/(\w+)\.pipe", block)[0]: block.splitlines()
    for block in re.findall(r"^### (?:(?!^#).)*?^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
}
"""Name of a pipeline → the lines of its recipe."""


def after(call: Call, answer: Callable[[Any], Say]) -> Callable[[Asked], Say]:
    """A model that calls a tool and answers from its result."""

    def play(asked: Asked) -> Say:
        if not asked.results:
            return Say("I look.", calls=[call])
        return answer(json.loads(asked.results[-1]))

    return play


def cited(found: Any) -> Say:
    best = found["results"][0]
    document, text = best["metadata"]["parent"], best["content"].splitlines()[2]
    return Say(calls=[Call("final_result", {"answer": text, "citations": [{"document": document, "quote": text}]})])


def opening(found: Any) -> Say:
    return Say(found["content"].splitlines()[2].partition(".")[0])


READER = after(Call("read_file", {"path": "welcome.txt"}), opening)


def asking(asked: Asked) -> Say:
    if not asked.results:
        return Say("I ask.", calls=[Call("run_agent", {"query": "When is it open?"})])
    return Say(f"The reader says: {asked.results[-1]}")


MODELS: dict[str, Callable[[Asked], Say]] = {
    "documents": after(Call("search_documents", {"query": "When is the library open?", "top_k": 1}), cited),
    "sql": after(
        Call("query", {"sql": "select sum(pages) as pages from catalog"}), lambda found: Say(str(found["rows"][0]["pages"]))
    ),
    "python": after(Call("execute", {"code": "result = sum(range(101))"}), lambda found: Say(str(found["result"]))),
    "mcp": READER,
    "team": lambda asked: (asking if "run_agent" in asked.tools else READER)(asked),
}
OPEN = "It is open from nine to five"
TOOLS = {
    "documents": [["search_documents", "final_result"]],
    "sql": [["dialect", "get_schema", "query", "refresh_schema"]],
    "python": [["execute"]],
    "mcp": [["list_directory", "read_file", "stat_file"]],
    "team": [["run_agent"], ["list_directory", "read_file", "stat_file"]],
}


def said(name: str, out: str) -> bool:
    """Whether the lines of a recipe printed what they are for."""
    if name == "documents":
        found = json.loads(out.splitlines()[-1])
        (citation,) = found["citations"]
        document = EXAMPLES.parent.parent / citation["document"]
        return citation["quote"] == found["answer"] and citation["quote"] in document.read_text(encoding="utf-8")
    if name == "team":
        return out.startswith(f"The reader says: {OPEN}") and "reader_1.run_agent" in out and "files_1.read_file" in out
    return out.strip() == {"sql": "457", "python": "5050", "mcp": OPEN}[name]


@pytest.mark.parametrize("name", MODELS)
def test_a_recipe_runs_and_its_model_has_the_tools_of_the_recipe_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for pipeline in re.findall(r"\S+\.pipe", "\n".join(RECIPES[name])):
        for provider in re.findall(r'"provider": "(\w+)"', (ROOT / pipeline).read_text(encoding="utf-8")):
            if missing := Catalog().class_of(provider).unavailable():
                pytest.skip(missing)
    shutil.copytree(EXAMPLES, tmp_path / "tests" / "examples", ignore=shutil.ignore_patterns("data"))
    monkeypatch.chdir(tmp_path)
    for variable in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    with serving() as server:
        server.plays(MODELS[name])
        for line in RECIPES[name]:
            program, *words = shlex.split(line)
            if program != "rrext":
                subprocess.run([program, *words], check=True)
                continue
            for variable, value in (("_URL", server.address), ("", "scripted"), ("_KEY", "none")):
                monkeypatch.setenv(f"ROCKETRIDE_MODEL{variable}", value)  # each command takes them out of the environment
            assert main(words) == 0, capfd.readouterr().err
        assert said(name, capfd.readouterr().out)
        offered = [sorted(asked.tools) for asked in server.asked if not asked.results]
        assert offered == [sorted(tools) for tools in TOOLS[name]]


def test_each_recipe_is_tested_and_each_pipeline_has_a_recipe() -> None:
    pipelines = {path.stem for path in (EXAMPLES / "agents").glob("*.pipe")}
    assert set(RECIPES) == set(MODELS) == pipelines


def test_every_setting_of_an_agent_has_a_row() -> None:
    rows = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\|(.*?)\|", PAGE, re.MULTILINE))))
    assert rows - {"compact"} == {*AgentConfig.__annotations__, "tools"}


def test_the_pipelines_of_the_page_and_its_recipes_are_right(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (text,) = re.findall(r"^```jsonc\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    shown = tmp_path / "clerk.pipe"
    shown.write_text(text, encoding="utf-8")
    main(["check", "--no-probe", "--json", str(shown), *map(str, (EXAMPLES / "agents").glob("*.pipe"))])
    found = [problem for line in capfd.readouterr().out.splitlines() for problem in json.loads(line)["problems"]]
    assert {problem["code"] for problem in found} == {"unresolved_variable"}, found
