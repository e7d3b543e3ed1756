"""Which nodes there are: built in, given with `--nodes`, installed; imported when they are used, described on demand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sample_nodes import Chat, Hammer, Weather, Webhook, catalog, component, pipeline

from rrext.errors import ProviderNotFound, Unavailable
from rrext.nodes.base.node import Node
from rrext.pipefile.catalog import plugins
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.catalog.plugins import PluginError, load_nodes
from rrext.pipefile.environment import Environment
from rrext.pipefile.pipeline_loader import load_pipeline

NODE = """
from rrext.nodes.base.node import Node

class {name}(Node):
    provider = "{provider}"
"""

TWO_TOOLS = """
from rrext import Node, tool_function

class T(Node):
    provider = "t"

    @tool_function
    def a(self): ...

    @tool_function(name="a")
    def b(self): ...
"""


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_place_of_a_syntax_error_names_the_file_once(tmp_path: Path) -> None:
    path = tmp_path / "broken_once.py"
    path.write_text("x = (\n")
    with pytest.raises(PluginError) as caught:
        load_nodes(str(path))
    assert str(caught.value).startswith(f"--nodes {path}, line 1: ")


def test_the_classes_of_a_file_come_in_its_order(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "two_nodes.py",
        NODE.format(name="B", provider="b") + "class A(B):\n    provider = 'a'\nclass Base(Node):\n    pass\n",
    )
    assert [cls.provider for cls in load_nodes(path)] == ["b", "a"]


def test_a_file_is_run_once(tmp_path: Path) -> None:
    path = write(tmp_path, "once.py", NODE.format(name="Once", provider="once"))
    assert load_nodes(path) == load_nodes(path)


def test_a_file_may_have_the_name_of_a_module(tmp_path: Path) -> None:
    path = write(tmp_path, "json.py", NODE.format(name="J", provider="j"))
    assert load_nodes(path)[0].__module__ == "rrext_nodes_json"
    import json

    assert hasattr(json, "loads")


def test_a_file_may_import_its_neighbour(tmp_path: Path) -> None:
    write(tmp_path, "neighbour_of_nodes.py", "NAME = 'n'")
    path = write(tmp_path, "with_neighbour.py", "from neighbour_of_nodes import NAME\n" + NODE.format(name="N", provider="n"))
    assert load_nodes(path)[0].provider == "n"


def test_a_module_is_found_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "my_nodes_module.py", NODE.format(name="M", provider="m"))
    monkeypatch.chdir(tmp_path)
    assert load_nodes("my_nodes_module")[0].provider == "m"


def test_a_package_may_pass_on_what_its_modules_define(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "my_nodes_package"
    folder.mkdir()
    write(folder, "inner.py", NODE.format(name="I", provider="i"))
    write(folder, "__init__.py", "from my_nodes_package.inner import I\nfrom rrext.nodes.base.node import Node")
    monkeypatch.chdir(tmp_path)
    assert [cls.provider for cls in load_nodes("my_nodes_package")] == ["i"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("broken_syntax.py", "x = 1\nclass (:\n", r"line 2: .*class \(:"),
        ("broken_import.py", "\nimport no_such_module_here\n", "line 2: ModuleNotFoundError: .*no_such_module_here"),
        ("broken_code.py", "def f():\n    1 / 0\n\nf()\n", "line 2: ZeroDivisionError: division by zero"),
        ("broken_exit.py", "import sys\nsys.exit(3)\n", "line 2: SystemExit: 3"),
        ("no_node.py", "x = 1\n", "no Node class is defined there"),
        ("no_provider.py", "from rrext.nodes.base.node import Node\nclass Bare(Node):\n    pass\n", "Bare has no `provider`"),
        (
            "foreign.py",
            "from rrext.nodes.base.node import Node\nfrom sample_nodes import Hammer\n",
            "no Node class is defined there",
        ),
        ("two_tools.py", TWO_TOOLS, "taken twice"),
    ],
)
def test_a_file_that_cannot_be_used_says_why_and_where(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(PluginError, match=message) as caught:
        load_nodes(write(tmp_path, name, text))
    assert name in caught.value.message
    assert not name.startswith("broken") or name[:-3] not in sys.modules, "a failed module must not stay"


def test_a_file_that_is_not_there_names_near_ones(tmp_path: Path) -> None:
    path = write(tmp_path, "weather_nodes.py", "")
    with pytest.raises(PluginError, match="no such file.*weather_nodes.py"):
        load_nodes(path.replace("weather_nodes", "wether_nodes"))


def test_a_module_that_is_not_there_is_told_from_one_that_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "needs_more.py", "import not_installed_anywhere")
    with pytest.raises(PluginError, match="there is no module nodes_that_are_nowhere"):
        load_nodes("nodes_that_are_nowhere")
    with pytest.raises(PluginError, match="needs_more: ModuleNotFoundError: .*not_installed_anywhere"):
        load_nodes("needs_more")
    write(tmp_path, "plain_file_here.py", "")
    with pytest.raises(PluginError, match=r"there is no module plain_file_here\.sub"):
        load_nodes("plain_file_here.sub")


def test_a_ctrl_c_while_loading_stays_one(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        load_nodes(write(tmp_path, "interrupted.py", "raise KeyboardInterrupt"))


# catalog


def test_a_provider_that_is_taken_names_both_owners() -> None:
    class Other(Node):
        provider = "webhook"

    with pytest.raises(PluginError, match=r"taken twice: by sample_nodes\.Webhook.* and by .*Other"):
        catalog().add(Other)
    with pytest.raises(PluginError, match=r"taken twice: by rrext\.nodes\.basic\.sources:WebhookNode and by .*Other"):
        Catalog([Other])


def test_an_alias_that_is_taken_is_refused_too() -> None:
    class Alias(Node):
        provider = "fresh"
        aliases = ("chat",)

    with pytest.raises(PluginError, match='"chat" is taken twice'):
        catalog().add(Alias)


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        ("lanes", {"text": "text"}, "lanes go from"),
        ("lanes", {"text": None}, "lanes go from"),
        ("lanes", ("text",), "lanes go from"),
        ("class_types", "tool", "class_types is a tuple"),
        ("accepts", "send", "accepts is a tuple"),
        ("aliases", ("",), "aliases is a tuple"),
        ("invoke", {"llm": 1}, "invoke is a dict of dicts"),
        ("profiles", ["a"], "profiles is a dict of dicts"),
        ("default_profile", "none", 'default_profile "none"'),
    ],
)
def test_a_class_that_says_nonsense_of_itself_is_refused(attribute: str, value: Any, message: str) -> None:
    wrong = type("Wrong", (Node,), {"provider": "wrong", attribute: value})
    with pytest.raises(PluginError, match=message):
        catalog().add(wrong)


def test_a_config_that_cannot_be_is_told_at_the_component_and_in_the_listing() -> None:
    class Odd(Node):
        provider = "odd"

        class Config:
            value: complex = 1j

    nodes = Catalog([Webhook, Odd], builtin={}, installed=False)
    document = pipeline(component("w", "webhook"), component("o", "odd"), source="w")
    problem = load_pipeline(document, nodes, Environment()).problems[0]
    assert (problem.code, problem.path) == ("provider_unavailable", "/components/1/provider")
    assert "Config of" in nodes.services()["services"]["odd"]["unavailable"]


def test_the_same_class_twice_is_no_conflict() -> None:
    nodes = catalog()
    nodes.add(Webhook)
    assert nodes.class_of("webhook") is Webhook


def test_an_unknown_provider_names_near_ones() -> None:
    with pytest.raises(ProviderNotFound) as caught:
        catalog().class_of("wether")
    assert caught.value.data["near"] == ["weather"]


def test_every_built_in_name_is_there_without_an_import_of_its_code() -> None:
    program = (
        "import sys\n"
        "from rrext.pipefile.catalog.catalog import Catalog\n"
        "nodes = Catalog()\n"
        "assert 'webhook' in nodes._builtin\n"
        "loaded = [name for name in sys.modules if name.startswith('rrext.nodes.') or name == 'importlib.metadata']\n"
        "print(*(name for name in loaded if not name.startswith('rrext.nodes.base')))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")


def test_every_built_in_node_is_what_the_table_says() -> None:
    nodes = Catalog(installed=False)
    for name in nodes.names():
        assert nodes.class_of(name).provider == name
        nodes.settings_of(nodes.class_of(name))


def test_node_code_that_does_not_import_is_unavailable_and_says_what_failed() -> None:
    nodes = Catalog(
        builtin={"gone": "no_such_module_at_all:X", "odd": "sample_nodes:Hammer", "none": "sample_nodes:catalog"},
        installed=False,
    )
    for name, message in (("gone", "no_such_module_at_all"), ("odd", "calls itself"), ("none", "no Node class")):
        with pytest.raises(Unavailable, match=message):
            nodes.class_of(name)


class Installed:
    """Entry points without packages."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, found: dict[str, list[str]]) -> None:
        self.scans = 0
        self.found = found
        monkeypatch.setattr("rrext.pipefile.catalog.catalog.installed_nodes", self.scan)

    def scan(self) -> dict[str, list[str]]:
        self.scans += 1
        return self.found


def test_installed_packages_are_looked_through_only_for_a_name_found_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = Installed(monkeypatch, {"tool_hammer": ["sample_nodes:Hammer"]})
    nodes = Catalog([Weather], builtin={"chat": "sample_nodes:Chat"})
    assert (nodes.class_of("weather"), nodes.class_of("chat")) == (Weather, Chat)
    assert installed.scans == 0
    assert nodes.class_of("tool_hammer") is Hammer
    assert nodes.names() == ("chat", "tool_hammer", "weather")
    assert installed.scans == 1


def test_an_installed_package_cannot_take_a_name_that_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    Installed(monkeypatch, {"chat": ["elsewhere:Chat"], "x": ["one:X", "two:X"]})
    nodes = Catalog(builtin={"chat": "sample_nodes:Chat"})
    assert nodes.class_of("chat") is Chat
    nodes.names()
    assert len(nodes.conflicts) == 2
    assert "sample_nodes:Chat and by elsewhere:Chat" in nodes.conflicts[0]


def test_entry_points_are_listed_without_being_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "someones_nodes-1.0.dist-info"
    info.mkdir()
    write(info, "METADATA", "Metadata-Version: 2.1\nName: someones-nodes\nVersion: 1.0\n")
    write(info, "entry_points.txt", "[rrext.nodes]\nsomeones = someones_nodes_module:Someones\n")
    write(tmp_path, "someones_nodes_module.py", NODE.format(name="Someones", provider="someones"))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert plugins.installed_nodes()["someones"] == ["someones_nodes_module:Someones"]
    nodes = Catalog(builtin={})
    assert "someones" in nodes.names()
    assert "someones_nodes_module" not in sys.modules
    assert nodes.class_of("someones").provider == "someones"


def test_an_entry_point_may_name_the_module_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = NODE.format(name="Hail", provider="hail") + NODE.format(name="Snow", provider="snow")
    write(tmp_path, "winter_nodes.py", code)
    monkeypatch.syspath_prepend(str(tmp_path))
    Installed(monkeypatch, {"hail": ["winter_nodes"], "snow": ["winter_nodes"], "slush": ["winter_nodes"]})
    nodes = Catalog(builtin={})
    assert "winter_nodes" not in sys.modules
    assert nodes.class_of("snow").__name__ == "Snow"
    assert nodes.class_of("hail").__name__ == "Hail"
    with pytest.raises(Unavailable, match='winter_nodes has no node "slush": its nodes are hail, snow'):
        nodes.class_of("slush")


# services


def test_a_definition_has_everything_that_editors_and_clients_read() -> None:
    found: dict[str, Any] = catalog().describe("tool_weather")
    assert found["protocol"] == "weather://"
    assert found["aliases"] == ["tool_weather"]
    assert found["classType"] == ["tool"]
    assert found["description"] == "Current weather."
    assert found["fields"]["days"]["default"] == 3
    assert found["Pipe.schema"]["properties"]["units"]["description"] == "metric or imperial"
    (tool,) = found["tools"]
    assert tool["name"] == "forecast"
    assert "inputSchema" in tool


def test_profiles_lanes_and_invoke_are_in_the_definition() -> None:
    nodes = catalog()
    assert nodes.describe("llm")["preconfig"]["default"] == "small"
    assert nodes.describe("webhook")["lanes"] == {"_source": ["tags", "text", "questions"]}
    assert nodes.describe("agent")["invoke"]["llm"]["min"] == 1
    assert nodes.describe("agent")["features"] == ["invoke"]
    assert nodes.describe("agent")["capabilities"] == 1 << 10
    assert nodes.describe("webhook")["input"] == [
        {"lane": "_source", "output": [{"lane": n} for n in ("tags", "text", "questions")]}
    ]


def test_a_listing_has_every_node_and_says_which_cannot_be_used() -> None:
    nodes = Catalog([Weather], builtin={"gone": "no_such_module_at_all:X"}, installed=False)
    found = nodes.services()["services"]
    assert set(found) == {"gone", "weather"}
    assert "no_such_module_at_all" in found["gone"]["unavailable"]


def test_a_service_is_asked_for_by_name() -> None:
    assert catalog().services("weather")["prefix"] == "weather"
    with pytest.raises(ProviderNotFound, match=r"Service 'wether' not found\. .*weather"):
        catalog().services("wether")
