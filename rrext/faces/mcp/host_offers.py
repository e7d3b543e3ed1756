"""What pipelines offer to hosts beside tools: prompts of `prompt` nodes, and files of nodes that have some, as resources.

Only nodes whose settings say so offer anything. Prompts are texts of the pipeline; a resource is listed and read by tools of
its node, so that the rules for tools and their limits hold for it.
"""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from urllib.parse import quote, unquote

from rrext.client.mime_types import UNKNOWN_TYPE, mime_type_of
from rrext.errors import InvalidArguments, near_matches
from rrext.faces.mcp.limits import MAX_DESCRIPTION, PAGE_SIZE, TTL
from rrext.nodes.files.limits import READ_MAX
from rrext.tools.names import exported_names

if TYPE_CHECKING:
    from rrext.engine.local_engine import LocalEngine
    from rrext.pipefile.spec import ComponentSpec

SCHEME: Final = "rrext:///"
LIST: Final = "list_files"
ARGUMENTS: Final = (
    {"name": "question", "description": "The question to begin with.", "required": False},
    {"name": "context", "description": "A text that the question is about.", "required": False},
)


class FileReader(NamedTuple):
    """How a node reads a file: its tool, further input of that, and the members `text` or `blob` and `mimeType` of a result."""

    tool: str
    more: Mapping[str, Any]
    content: Callable[[str, Mapping[str, Any]], dict[str, Any]]


def _bytes(path: str, value: Mapping[str, Any]) -> dict[str, Any]:
    encoded: str = value["content"]
    try:
        content = {"text": a2b_base64(encoded).decode()}
    except UnicodeDecodeError:
        content = {"blob": encoded}
    mime_type = mime_type_of(path)
    return {**content, "mimeType": "text/plain" if mime_type == UNKNOWN_TYPE and "text" in content else mime_type}


READERS: Final = {
    "tool_filesystem": FileReader("read_file", {"encoding": "base64", "maxBytes": READ_MAX}, _bytes),
    "parse": FileReader("parse_document", {}, lambda path, value: {"text": value["text"], "mimeType": "text/markdown"}),
}
"""Provider of a node that has files → its reader."""


class Folder(NamedTuple):
    """The files that a node offers."""

    token: str
    node_id: str
    provider: str
    description: str

    @property
    def uri(self) -> str:
        """The beginning of the URIs of the files."""
        return f"{SCHEME}{quote(self.token, safe='')}/{quote(self.node_id, safe='')}/"

    def call(self, tool: str, given: dict[str, Any]) -> dict[str, Any]:
        """The arguments of the session's command for a call of a tool."""
        return {"subcommand": "tool", "token": self.token, "nodeId": self.node_id, "tool": tool, "input": given}


class Read(NamedTuple):
    """A resource that is read."""

    uri: str
    path: str
    reader: FileReader


class HostOffers:
    """The prompts and resources of pipelines, by the methods of the protocol."""

    def __init__(self, prompts: Mapping[str, ComponentSpec], folders: Sequence[Folder]) -> None:
        self._prompts = prompts
        self._folders = folders

    @classmethod
    def of(cls, engine: LocalEngine, tokens: Iterable[str], allowed: frozenset[str] | None) -> HostOffers:
        """What loaded pipelines offer; no files of nodes whose tools are not among the `allowed` ones, if there are any."""
        prompts: dict[tuple[str, str], ComponentSpec] = {}
        folders: list[Folder] = []
        for token in tokens:
            spec = engine.task(token).spec
            for part in spec.components:
                reader = READERS.get(part.provider)
                if part.missing or part.settings is None:
                    continue
                if part.provider == "prompt" and part.settings.offer:
                    prompts[token, part.id] = part
                # the tools of a node that nothing reaches cannot be called
                if reader is not None and part.id in spec.chain and part.settings.resources and part.settings.root:
                    tools = (LIST, reader.tool)
                    if allowed is None or all({tool, f"{part.id}.{tool}"} & allowed for tool in tools):
                        folders.append(Folder(token, part.id, part.provider, part.description))
        names = exported_names(prompts)
        return cls({names[key]: part for key, part in prompts.items()}, folders)

    @property
    def capabilities(self) -> dict[str, Any]:
        """The capabilities that announce what is here."""
        return ({"prompts": {}} if self._prompts else {}) | ({"resources": {}} if self._folders else {})

    @property
    def methods(self) -> list[str]:
        """The methods of the protocol for which there is something."""
        return [method for method in METHODS if method.partition("/")[0] in self.capabilities]

    def ask(self, method: str, params: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
        """The arguments of the session's command for a tool call, and the fact on which the result depends; without arguments
        the fact is the result. Raises `InvalidArguments`.
        """
        if method == "prompts/list":
            return {}, {"prompts": [_described(name, part) for name, part in self._prompts.items()]}
        if method == "prompts/get":
            return {}, self._prompt(params)
        if method == "resources/templates/list":
            return {}, {"resourceTemplates": [_template(folder) for folder in self._folders]}
        return self._list(params.get("cursor")) if method == "resources/list" else self._read(params.get("uri"))

    def _prompt(self, params: Mapping[str, Any]) -> dict[str, Any]:
        from rrext.nodes.base.lanes import new_question
        from rrext.nodes.basic.prompt import put_together
        from rrext.nodes.llm.messages import messages_of

        name, given = params.get("name"), params.get("arguments") or {}
        part = self._prompts.get(name) if isinstance(name, str) else None
        if part is None:
            near = near_matches(name[:100], list(self._prompts)) if isinstance(name, str) else []
            hint = f"did you mean {near[0]}?" if near else f"it is one of {', '.join(self._prompts)}"
            raise InvalidArguments.at("/name", f"no prompt has this name: {hint}")
        if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
            raise InvalidArguments.at("/arguments", "expected texts by name")
        texts = cast("dict[str, str]", given)
        unknown = texts.keys() - {argument["name"] for argument in ARGUMENTS}
        if unknown:
            raise InvalidArguments.at(f"/arguments/{min(unknown)[:100]}", "a prompt takes question and context")
        questions = [new_question(texts["question"])] if texts.get("question") else []
        context = [texts["context"]] if texts.get("context") else []
        said = messages_of(put_together(part.settings.instructions, context, questions=questions))
        # the protocol has no messages of the system
        text = "\n\n".join(message["content"] for message in said)
        return {"description": _description(part), "messages": [{"role": "user", "content": {"type": "text", "text": text}}]}

    def _list(self, cursor: object) -> tuple[dict[str, Any], int]:
        number, colon, after = ("0", ":", "") if cursor is None else str(cursor).partition(":")
        is_number = bool(colon) and number.isdecimal() and len(number) < 7
        if not is_number or int(number) >= len(self._folders) or ".." in after.split("/"):
            raise InvalidArguments.at("/cursor", "expected the nextCursor of an earlier page")
        return self._folders[int(number)].call(LIST, {"after": after, "maxEntries": PAGE_SIZE}), int(number)

    def _read(self, uri: object) -> tuple[dict[str, Any], Read]:
        for folder in self._folders:
            if isinstance(uri, str) and uri.startswith(folder.uri):
                path, reader = unquote(uri[len(folder.uri) :]), READERS[folder.provider]
                return folder.call(reader.tool, {**reader.more, "path": path}), Read(uri, path, reader)
        known = " or ".join(f"{folder.uri}PATH" for folder in self._folders)
        raise InvalidArguments.at("/uri", f"expected the URI of a resource: {known}")

    def result(self, method: str, fact: Any, value: Any, *, keeps: bool) -> dict[str, Any]:
        """The members of a result, of the fact and the value of a tool call; `keeps`: with those of 2026-07-28 that tell how
        long a client may keep it. Files may change at any time.
        """
        ttl = int(TTL * 1000)
        members: dict[str, Any] = fact
        if method == "resources/read":
            members, ttl = {"contents": [{"uri": fact.uri, **fact.reader.content(fact.path, value)}]}, 0
        elif method == "resources/list":
            members, ttl = self._page(fact, value), 0
        return {**members, "ttlMs": ttl, "cacheScope": "private"} if keeps and method != "prompts/get" else members

    def _page(self, number: int, value: Mapping[str, Any]) -> dict[str, Any]:
        page: dict[str, Any] = {"resources": [_resource(self._folders[number], file) for file in value["files"]]}
        if value["next"] is not None:
            page["nextCursor"] = f"{number}:{value['next']}"
        elif number + 1 < len(self._folders):
            page["nextCursor"] = f"{number + 1}:"
        return page


METHODS: Final = ("prompts/list", "prompts/get", "resources/list", "resources/templates/list", "resources/read")


def _described(name: str, part: ComponentSpec) -> dict[str, Any]:
    titled = {"title": part.name} if part.name else {}
    return {"name": name, **titled, "description": _description(part), "arguments": list(ARGUMENTS)}


def _description(part: ComponentSpec) -> str:
    """The description of a prompt; without one the beginning of what it says."""
    told = part.description or " ".join(part.settings.instructions)
    return told if len(told) <= MAX_DESCRIPTION else f"{told[:MAX_DESCRIPTION]}…"


def _template(folder: Folder) -> dict[str, Any]:
    described = {"description": folder.description} if folder.description else {}
    return {"uriTemplate": f"{folder.uri}{{+path}}", "name": folder.node_id, **described}


def _resource(folder: Folder, file: Mapping[str, Any]) -> dict[str, Any]:
    path: str = file["path"]
    if folder.provider == "parse":  # what is read is text, of another size
        about = {"mimeType": "text/markdown"}
    else:
        about = {"mimeType": mime_type_of(path), "size": file["size"]}
    return {"uri": folder.uri + quote(path), "name": path.rpartition("/")[2], "title": path, **about}
