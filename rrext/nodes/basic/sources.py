"""The beginnings of pipelines. A source offers the data of clients on lanes; it does nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from rrext.nodes.base.lanes import LANES
from rrext.nodes.base.node import Node

NO_PARAMETERS: Mapping[str, Any] = {}


class SourceNode(Node):
    """The base of all sources: the settings that RocketRide's editor writes, none of which changes what rrext does."""

    class Config:
        mode: Annotated[str, 'Always "Source"; filled in if missing.'] = "Source"
        type: Annotated[str, "The provider's name again; filled in if missing."] = ""
        hideForm: Annotated[bool, "For editors: show no form."] = False
        parameters: Annotated[Mapping[str, Any], "For editors: the values of that form."] = NO_PARAMETERS


class WebhookNode(SourceNode):
    """Begins a pipeline with files or text: `client.send`, `send_files`, `pipe`, `rrext send`.

    The MIME type chooses the lane: `text/*`, `image/*`, `audio/*` and `video/*` go to the lane of that name,
    `application/json` to json, a question to questions, if some node listens there; all else goes to tags as raw
    bytes. `lane/NAME` names a lane directly, and is the only way to lanes without a MIME type, such as documents.
    """

    provider = "webhook"
    title = "Webhook"
    class_types = ("source",)
    lanes = {"_source": LANES}
    accepts = ("send",)


class ChatNode(SourceNode):
    """Begins a pipeline with questions: `client.chat`."""

    provider = "chat"
    title = "Chat"
    class_types = ("source",)
    lanes = {"_source": ("questions",)}
    accepts = ("chat",)


class DropperNode(SourceNode):
    """Begins a pipeline with files as raw bytes: `client.send`, `send_files`, `rrext send`."""

    provider = "dropper"
    title = "Dropper"
    class_types = ("source",)
    lanes = {"_source": ("tags",)}
    accepts = ("send",)


class ToolsNode(SourceNode):
    """Begins a pipeline that has tools and no data: the nodes bound to it by control are called directly.

    `tools` in its config lists references: tools under other names, with fixed arguments or for some callers only.
    """

    provider = "tools"
    title = "Tools"
    class_types = ("source", "tools")
    lanes = {"_source": ()}
    takes_references = True
