"""Sources and the table of built-in nodes."""

from __future__ import annotations

from importlib import import_module

import pytest

from rrext.nodes import BUILTIN
from rrext.nodes.base.lanes import LANES
from rrext.nodes.base.node import Node
from rrext.nodes.basic.folder_source import FilesysNode
from rrext.nodes.basic.sources import ChatNode, DropperNode, ToolsNode, WebhookNode

SOURCES = {"webhook": WebhookNode, "chat": ChatNode, "dropper": DropperNode, "tools": ToolsNode, "filesys": FilesysNode}
HERE = sorted(set(BUILTIN) - {"tool_python"})


def built_in(provider: str) -> type[Node]:
    module, _, name = BUILTIN[provider].partition(":")
    return getattr(import_module(module), name)


@pytest.mark.parametrize("provider", HERE)
def test_the_table_leads_to_a_class_that_has_that_name(provider: str) -> None:
    cls = built_in(provider)
    assert cls.provider == provider
    assert cls.title
    assert cls.__doc__


@pytest.mark.parametrize("provider", HERE)
def test_lanes_have_names_that_exist(provider: str) -> None:
    lanes = built_in(provider).lanes
    assert {name for name in lanes if name != "_source"} | {out for outs in lanes.values() for out in outs} <= set(LANES)


@pytest.mark.parametrize("provider", HERE)
def test_every_lane_that_a_node_takes_has_a_method(provider: str) -> None:
    cls = built_in(provider)
    assert all(hasattr(cls, f"write_{lane}") for lane in cls.lanes if lane != "_source")


@pytest.mark.parametrize("provider", HERE)
def test_only_sources_begin_pipelines(provider: str) -> None:
    assert built_in(provider).is_source() == (provider in SOURCES)


def test_sources_say_which_client_calls_make_sense() -> None:
    assert {name: cls.accepts for name, cls in SOURCES.items()} == {
        "webhook": ("send",),
        "chat": ("chat",),
        "dropper": ("send",),
        "tools": (),
        "filesys": ("send",),
    }


@pytest.mark.parametrize("cls", SOURCES.values())
def test_sources_know_the_settings_that_editors_write(cls: type[Node]) -> None:
    assert all(hasattr(cls.Config, name) for name in ("mode", "type", "hideForm", "parameters"))


def test_the_webhook_offers_every_lane_that_a_mime_type_can_choose() -> None:
    offered = set(WebhookNode.lanes["_source"])
    assert {"tags", "text", "image", "audio", "video", "questions", "json"} <= offered
