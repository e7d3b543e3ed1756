"""What pipelines offer to hosts beside tools: prompts of `prompt` nodes, files of nodes that have some, as resources, and the
prompts and resources of MCP servers outside, under names and URIs that begin with those of their nodes.

Nodes of our own offer what their settings say. Prompts of theirs are texts of the pipeline; all else is listed and read by
tools of the nodes, so that the rules for tools and their limits hold for it.
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
from rrext.nodes.provided.mcp_client import OFFER, REQUEST
from rrext.tools.names import exported_names

if TYPE_CHECKING:
    from rrext.engine.local_engine import LocalEngine
    from rrext.pipefile.spec import ComponentSpec

SCHEME: Final = "rrext:///"
LIST: Final = "list_files"
CLIENT: Final = "tool_mcp_client"
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


class Outside(NamedTuple):
    """A server outside, behind a node. Its prompts are `prefix__name`; its resources have their own URI behind `uri`."""

    token: str
    node_id: str
    prefix: str

    @property
    def uri(self) -> str:
        """The beginning of the URIs."""
        return f"{SCHEME}{quote(self.token, safe='')}/{quote(self.node_id, safe='')}/"

    def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of the session's command for a request to the server."""
        given = {"method": method, "params": params}
        tool = {"subcommand": "tool", "token": self.token, "nodeId": self.node_id, "tool": REQUEST, "input": given}
        return {**tool, "_meta": OFFER}


class Passed(NamedTuple):
    """A request that is passed on to a server: the part of a list that it gives, or the URI as the host knows it."""

    outside: Outside
    part: int = 0
    uri: str = ""


class Read(NamedTuple):
    """A resource that is read."""

    uri: str
    path: str
    reader: FileReader


class HostOffers:
    """The prompts and resources of pipelines, by the methods of the protocol."""

    def __init__(
        self, prompts: Mapping[str, ComponentSpec], folders: Sequence[Folder], outside: Sequence[Outside] = ()
    ) -> None:
        self._prompts = prompts
        self._folders = folders
        self._outside = outside

    @classmethod
    def of(cls, engine: LocalEngine, tokens: Iterable[str], allowed: frozenset[str] | None) -> HostOffers:
        """What loaded pipelines offer; no files of nodes whose tools are not among the `allowed` ones, if there are any."""
        prompts: dict[tuple[str, str], ComponentSpec] = {}
        folders: list[Folder] = []
        servers: dict[tuple[str, str], str] = {}
        for token in tokens:
            spec = engine.task(token).spec
            for part in spec.components:
                reader = READERS.get(part.provider)
                if part.missing or part.settings is None:
                    continue
                is_allowed = allowed is None or {REQUEST, f"{part.id}.{REQUEST}"} & allowed
                if part.provider == CLIENT and part.id in spec.chain and is_allowed:
                    servers[token, part.id] = part.id
                if part.provider == "prompt" and part.settings.offer:
                    prompts[token, part.id] = part
                # the tools of a node that nothing reaches cannot be called
                if reader is not None and part.id in spec.chain and part.settings.resources and part.settings.root:
                    tools = (LIST, reader.tool)
                    if allowed is None or all({tool, f"{part.id}.{tool}"} & allowed for tool in tools):
                        folders.append(Folder(token, part.id, part.provider, part.description))
        names, prefixes = exported_names(prompts), exported_names(servers)
        outside = [Outside(*key, prefixes[key]) for key in servers]
        return cls({names[key]: part for key, part in prompts.items()}, folders, outside)

    @property
    def capabilities(self) -> dict[str, Any]:
        """The capabilities that announce what is here."""
        found = {"prompts": self._prompts, "resources": self._folders, "completions": (), "logging": ()}
        return {name: {} for name, own in found.items() if own or self._outside}

    @property
    def methods(self) -> list[str]:
        """The methods of the protocol for which there is something."""
        return [method for method, capability in METHODS.items() if capability in self.capabilities]

    def ask(self, method: str, params: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
        """The arguments of the session's command for a tool call, and the fact on which the result depends; without arguments
        the fact is the result. Raises `InvalidArguments`.
        """
        if method in LISTED:
            return self._part(method, params.get("cursor"))
        if method == "prompts/get":
            return self._prompt(params)
        if method == "completion/complete":
            return self._complete(params)
        if method == "logging/setLevel":
            if params.get("level") not in LEVELS:
                raise InvalidArguments.at("/level", f"expected one of {', '.join(LEVELS)}")
            return {}, {}
        return self._read(params.get("uri"))

    def _part(self, method: str, cursor: object) -> tuple[dict[str, Any], Any]:
        """A part of a list: what our own nodes have, then what each server has, which is passed on page by page."""
        first = len(self._folders) if method == "resources/list" else 1
        own = self._prompts if method == "prompts/list" else self._folders
        begin = str(0 if own or not self._outside else first)  # some hosts read no further than an empty part
        number, colon, after = (begin, ":", "") if cursor is None else str(cursor).partition(":")
        is_number = bool(colon) and number.isdecimal() and len(number) < 7
        part = int(number) if is_number else -1
        if not 0 <= part < first + len(self._outside):
            raise InvalidArguments.at("/cursor", "expected the nextCursor of an earlier page")
        if part >= first:
            outside = self._outside[part - first]
            return outside.ask(method, {"cursor": after} if after else {}), Passed(outside, part)
        if method == "resources/list":
            return self._files(part, after)
        following = {"nextCursor": "1:"} if self._outside else {}
        if method == "prompts/list":
            return {}, {"prompts": [_described(name, part) for name, part in self._prompts.items()], **following}
        return {}, {"resourceTemplates": [_template(folder) for folder in self._folders], **following}

    def _complete(self, params: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
        """The values of an argument, which a server knows; our own prompts and files take any."""
        given = params.get("ref")
        reference = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
        key = {"ref/prompt": "name", "ref/resource": "uri"}.get(str(reference.get("type")))
        name = None if key is None else reference.get(key)
        if not isinstance(name, str) or not isinstance(params.get("argument"), dict):
            raise InvalidArguments.at("/ref", 'expected {"type": "ref/prompt", "name"} or {"type": "ref/resource", "uri"}')
        found = self._prompt_outside(name) if key == "name" else self._resource_outside(name)
        if found is None:
            if name not in (self._prompts if key == "name" else [_template(folder)["uriTemplate"] for folder in self._folders]):
                raise InvalidArguments.at(f"/ref/{key}", "nothing that is offered has this name")
            return {}, {"completion": {"values": []}}
        outside, own = found
        return outside.ask("completion/complete", {**params, "ref": {**reference, key: own}}), Passed(outside)

    def _prompt_outside(self, name: str) -> tuple[Outside, str] | None:
        """The server of a prompt, and the name there. A single server takes a prompt by its own name, too."""
        for outside in sorted(self._outside, key=lambda each: -len(each.prefix)):
            if name.startswith(f"{outside.prefix}__"):
                return outside, name.removeprefix(f"{outside.prefix}__")
        return (self._outside[0], name) if len(self._outside) == 1 and name not in self._prompts else None

    def _resource_outside(self, uri: str) -> tuple[Outside, str] | None:
        """The server of a resource, and the URI there. Links in results have that one: a single server takes it as it is."""
        for outside in self._outside:
            if uri.startswith(outside.uri):
                return outside, uri.removeprefix(outside.uri)
        return (self._outside[0], uri) if len(self._outside) == 1 and not uri.startswith(SCHEME) else None

    def _prompt(self, params: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
        from rrext.nodes.base.lanes import new_question
        from rrext.nodes.basic.prompt import put_together
        from rrext.nodes.llm.messages import messages_of

        name, given = params.get("name"), params.get("arguments") or {}
        part = self._prompts.get(name) if isinstance(name, str) else None
        if part is None and isinstance(name, str) and (found := self._prompt_outside(name)) is not None:
            outside, own = found
            return outside.ask("prompts/get", {**params, "name": own}), Passed(outside)
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
        said_once = [{"role": "user", "content": {"type": "text", "text": text}}]
        return {}, {"description": _description(part), "messages": said_once}

    def _files(self, number: int, after: str) -> tuple[dict[str, Any], int]:
        if ".." in after.split("/"):
            raise InvalidArguments.at("/cursor", "expected the nextCursor of an earlier page")
        return self._folders[number].call(LIST, {"after": after, "maxEntries": PAGE_SIZE}), number

    def _read(self, uri: object) -> tuple[dict[str, Any], Read | Passed]:
        for folder in self._folders:
            if isinstance(uri, str) and uri.startswith(folder.uri):
                path, reader = unquote(uri[len(folder.uri) :]), READERS[folder.provider]
                return folder.call(reader.tool, {**reader.more, "path": path}), Read(uri, path, reader)
        if isinstance(uri, str) and (found := self._resource_outside(uri)) is not None:
            outside, own = found
            return outside.ask("resources/read", {"uri": own}), Passed(outside, uri=uri)
        known = " or ".join(
            [*(f"{folder.uri}PATH" for folder in self._folders), *(f"{outside.uri}URI" for outside in self._outside)]
        )
        raise InvalidArguments.at("/uri", f"expected the URI of a resource: {known}")

    def result(self, method: str, fact: Any, value: Any, *, keeps: bool) -> dict[str, Any]:
        """The members of a result, of the fact and the value of a tool call; `keeps`: with those of 2026-07-28 that tell how
        long a client may keep it. Files may change at any time.
        """
        ttl = int(TTL * 1000)
        members: dict[str, Any] = fact
        if isinstance(fact, Passed):
            members, ttl = self._passed(method, fact, value), 0
        elif method == "resources/read":
            members, ttl = {"contents": [{"uri": fact.uri, **fact.reader.content(fact.path, value)}]}, 0
        elif method == "resources/list":
            members, ttl = self._page(fact, value), 0
        return {**members, "ttlMs": ttl, "cacheScope": "private"} if keeps and method in KEPT else members

    def _page(self, number: int, value: Mapping[str, Any]) -> dict[str, Any]:
        page: dict[str, Any] = {"resources": [_resource(self._folders[number], file) for file in value["files"]]}
        if value["next"] is not None:
            page["nextCursor"] = f"{number}:{value['next']}"
        elif number + 1 < len(self._folders) + len(self._outside):
            page["nextCursor"] = f"{number + 1}:"
        return page

    def _passed(self, method: str, fact: Passed, value: Mapping[str, Any]) -> dict[str, Any]:
        """What a server answered, under the names and URIs that hosts know."""
        outside, members = fact.outside, dict(value)
        if method in LISTED:
            following = members.pop("nextCursor", None)
            first = len(self._folders) if method == "resources/list" else 1
            if following is not None:
                members["nextCursor"] = f"{fact.part}:{following}"
            elif fact.part + 1 < first + len(self._outside):
                members["nextCursor"] = f"{fact.part + 1}:"
            listed = LISTED[method]
            members[listed] = [_prefixed(each, outside) for each in members[listed]]
        elif method == "resources/read" and fact.uri.startswith(outside.uri):
            members["contents"] = [{**each, "uri": f"{outside.uri}{each['uri']}"} for each in members["contents"]]
        return members


LISTED: Final = {
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
"""Method of a list → the member that has it."""
KEPT: Final = frozenset((*LISTED, "resources/read"))
"""Methods whose result says how long it may be kept."""
METHODS: Final = {
    "prompts/list": "prompts",
    "prompts/get": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resources",
    "resources/read": "resources",
    "completion/complete": "completions",
    "logging/setLevel": "logging",
}
"""Method → the capability that announces it."""
LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


def _prefixed(each: Mapping[str, Any], outside: Outside) -> dict[str, Any]:
    """A prompt, resource or template of a server: a prompt with its name, others with their URI behind those of the node."""
    for key in ("uri", "uriTemplate"):
        if key in each:
            return {**each, key: f"{outside.uri}{each[key]}"}
    return {**each, "name": f"{outside.prefix}__{each['name']}"}


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
