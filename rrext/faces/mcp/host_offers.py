"""What pipelines offer to hosts beside tools: prompts of `prompt` nodes, files of nodes that have some, as resources, and the
prompts and resources of MCP servers outside, under names and URIs that begin with those of their nodes.

Nodes of our own offer what their settings say. Prompts of theirs are texts of the pipeline; all else is listed and read by
tools of the nodes, so that the rules for tools and their limits hold for it.
"""

from __future__ import annotations

import logging
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast
from urllib.parse import quote, unquote

from rrext.errors import Cancelled, InvalidArguments, RrextError, near_matches
from rrext.faces.mcp.listing import PAGE_SIZE
from rrext.files.naming import UNKNOWN_TYPE, mime_type_of
from rrext.nodes.files.offered_files import READ_MAX
from rrext.tools.names import HOST_OFFER, HOST_REQUEST, SEPARATOR, exported_names, hashed_name

TTL: Final = 60.0
"""Seconds for which a client may keep the list of tools. Loaded pipelines stay, but tools can become unavailable."""

MAX_DESCRIPTION: Final = 200
"""Characters of a prompt's instructions that describe it; a host shows a line or two."""

log: Final = logging.getLogger("rrext.server")

SCHEME: Final = "rrext:///"
LIST: Final = "list_files"
ARGUMENTS: Final = (
    {"name": "question", "description": "The question to begin with.", "required": False},
    {"name": "context", "description": "A text that the question is about.", "required": False},
)


NOTHING: Final[Mapping[str, Any]] = {}


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


class OfferedPrompt(NamedTuple):
    """A prompt of our own."""

    title: str
    description: str
    instructions: Sequence[str]

    @property
    def described(self) -> str:
        """The description; without one the beginning of what it says."""
        told = self.description or " ".join(self.instructions)
        return told if len(told) <= MAX_DESCRIPTION else f"{told[:MAX_DESCRIPTION]}…"


class Outside(NamedTuple):
    """A server outside, behind a node. Its prompts are `prefix__name`; its resources have their own URI behind `uri`."""

    token: str
    node_id: str
    prefix: str

    @property
    def uri(self) -> str:
        """The beginning of the URIs."""
        return f"{SCHEME}{quote(self.token, safe='')}/{quote(self.node_id, safe='')}/"

    @property
    def beginning(self) -> str:
        """The beginning of the names of prompts."""
        return f"{self.prefix}{SEPARATOR}"

    def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of the session's command for a request to the server."""
        given = {"method": method, "params": params}
        tool = {"subcommand": "tool", "token": self.token, "nodeId": self.node_id, "tool": HOST_REQUEST, "input": given}
        return {**tool, "_meta": HOST_OFFER}


class Passed(NamedTuple):
    """A request that is passed on to a server: the part of a list that it gives, or the URI as the host knows it."""

    outside: Outside
    part: int = 0
    uri: str = ""
    is_first: bool = False
    """Whether it asks for the beginning of a list."""


class Read(NamedTuple):
    """A resource that is read."""

    uri: str
    path: str
    reader: FileReader


class HostOffers:
    """The prompts and resources of pipelines, by the methods of the protocol."""

    def __init__(
        self, prompts: Mapping[str, OfferedPrompt] = NOTHING, folders: Sequence[Folder] = (), outside: Sequence[Outside] = ()
    ) -> None:
        self._prompts = prompts
        self._folders = folders
        self._outside = outside

    @classmethod
    def of(cls, tasks: Iterable[Mapping[str, Any]], allowed: frozenset[str] | None) -> HostOffers:
        """What pipelines offer, of `{token, offers}` of each; nothing of nodes whose tools for it are not among the `allowed`
        ones, if there are any.
        """
        prompts: dict[tuple[str, str], OfferedPrompt] = {}
        folders: list[Folder] = []
        servers: dict[tuple[str, str], str] = {}
        for token, node in ((task["token"], node) for task in tasks for node in task["offers"]):
            node_id, offers, described = node["nodeId"], node["offers"], node["description"]
            if "instructions" in offers:
                prompts[token, node_id] = OfferedPrompt(node["name"], described, offers["instructions"])
            elif "files" in offers:
                if _are_allowed((LIST, READERS[node["provider"]].tool), node_id, allowed):
                    folders.append(Folder(token, node_id, node["provider"], described))
            elif _are_allowed((HOST_REQUEST,), node_id, allowed):
                name = node_id if node["provider"] else offers["server"]  # a hidden node has the name of its connection
                servers[token, f"mcp-{name}" if (token, name) in servers else name] = node_id
        own = {name: prompts[key] for key, name in exported_names(prompts).items()}
        prefixes = _prefixes(servers, own)
        outside = [Outside(key[0], node_id, prefixes[key]) for key, node_id in servers.items()]
        return cls(own, folders, outside)

    @property
    def capabilities(self) -> dict[str, Any]:
        """The capabilities that announce what is here."""
        own = (self._prompts, self._folders, (), ())
        return {name: {} for name, offered in zip(CAPABILITY, own, strict=True) if offered or self._outside}

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
        if not own and not self._outside and cursor is None:
            return {}, {LISTED[method]: []}
        begin = str(0 if own or not self._outside else first)  # some hosts read no further than an empty part
        number, colon, after = (begin, ":", "") if cursor is None else str(cursor).partition(":")
        is_number = bool(colon) and number.isdecimal() and len(number) < 7
        part = int(number) if is_number else -1
        if not 0 <= part < first + len(self._outside):
            raise InvalidArguments.at("/cursor", "expected the nextCursor of an earlier page")
        if part >= first:
            outside = self._outside[part - first]
            return outside.ask(method, {"cursor": after} if after else {}), Passed(outside, part, is_first=not after)
        if method == "resources/list":
            return self._files(part, after)
        following = {"nextCursor": "1:"} if self._outside else {}
        if method == "prompts/list":
            return {}, {"prompts": [_described(name, prompt) for name, prompt in self._prompts.items()], **following}
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
        for outside in self._outside:
            if name.startswith(outside.beginning):
                return outside, name.removeprefix(outside.beginning)
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
        from rrext.nodes.llm.chat import messages_of

        name, given = params.get("name"), params.get("arguments") or {}
        prompt = self._prompts.get(name) if isinstance(name, str) else None
        if prompt is None and isinstance(name, str) and (found := self._prompt_outside(name)) is not None:
            outside, own = found
            return outside.ask("prompts/get", {**params, "name": own}), Passed(outside)
        if prompt is None:
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
        said = messages_of(put_together(prompt.instructions, context, questions=questions))
        # the protocol has no messages of the system
        text = "\n\n".join(message["content"] for message in said)
        said_once = [{"role": "user", "content": {"type": "text", "text": text}}]
        return {}, {"description": prompt.described, "messages": said_once}

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
        elif isinstance(fact, Read):
            members, ttl = {"contents": [{"uri": fact.uri, **fact.reader.content(fact.path, value)}]}, 0
        elif isinstance(fact, int):
            members, ttl = self._page(fact, value), 0
        return {**members, "ttlMs": ttl, "cacheScope": "private"} if keeps and method in KEPT else members

    def without(self, fact: Any, error: RrextError) -> dict[str, Any] | None:
        """The value in place of a list of a server that cannot tell it: others are listed nevertheless. None if it is alone."""
        own = self._prompts or self._folders
        if (
            not isinstance(fact, Passed)
            or not fact.is_first
            or isinstance(error, Cancelled)
            or (len(self._outside) == 1 and not own)
        ):
            return None
        log.warning("what the server of %s offers is left out: %s", fact.outside.node_id, error.message)
        return {}

    def _page(self, number: int, value: Mapping[str, Any]) -> dict[str, Any]:
        page: dict[str, Any] = {"resources": [_resource(self._folders[number], file) for file in value["files"]]}
        if value["next"] is not None:
            page["nextCursor"] = f"{number}:{value['next']}"
        elif number + 1 < len(self._folders) + len(self._outside):
            page["nextCursor"] = f"{number + 1}:"
        return page

    def _passed(self, method: str, fact: Passed, value: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of a server, under the names and URIs that hosts know."""
        outside, members = fact.outside, dict(value)
        if method in LISTED:
            following = members.pop("nextCursor", None)
            first = len(self._folders) if method == "resources/list" else 1
            if following is not None:
                members["nextCursor"] = f"{fact.part}:{following}"
            elif fact.part + 1 < first + len(self._outside):
                members["nextCursor"] = f"{fact.part + 1}:"
            listed = LISTED[method]
            members[listed] = [_prefixed(each, outside) for each in members.get(listed, ())]
        elif method == "resources/read" and fact.uri.startswith(outside.uri):
            members["contents"] = [{**each, "uri": f"{outside.uri}{each['uri']}"} for each in members["contents"]]
        return members


CAPABILITY: Final = ("prompts", "resources", "completions", "logging")
"""The capabilities of what can be offered."""
LISTED: Final = {
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
"""Method of a list → the member that has it."""
KEPT: Final = frozenset((*LISTED, "resources/read"))
"""Methods whose result says how long it may be kept."""
METHODS: Final = (*LISTED, "prompts/get", "resources/read", "completion/complete", "logging/setLevel")
"""The methods, which are answered also where nothing is offered."""
LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


def _prefixed(each: Mapping[str, Any], outside: Outside) -> dict[str, Any]:
    """A prompt, resource or template of a server: a prompt with its name, others with their URI behind those of the node."""
    for key in ("uri", "uriTemplate"):
        if key in each:
            return {**each, key: f"{outside.uri}{each[key]}"}
    return {**each, "name": f"{outside.beginning}{each['name']}"}


def _are_allowed(tools: Sequence[str], node_id: str, allowed: frozenset[str] | None) -> bool:
    return allowed is None or all({tool, f"{node_id}.{tool}"} & allowed for tool in tools)


def _described(name: str, prompt: OfferedPrompt) -> dict[str, Any]:
    titled = {"title": prompt.title} if prompt.title else {}
    return {"name": name, **titled, "description": prompt.described, "arguments": list(ARGUMENTS)}


def _prefixes(nodes: Iterable[tuple[str, str]], own: Iterable[str]) -> dict[tuple[str, str], str]:
    """A prefix for each server. None begins the prefix of another one or a prompt of ours, so that a name has one meaning."""
    found = exported_names(nodes)
    taken = [*found.values(), *own]
    for key, prefix in found.items():
        attempt = 0
        while any(other.startswith(f"{found[key]}{SEPARATOR}") for other in taken):
            found[key], attempt = hashed_name((prefix,), attempt), attempt + 1
    return found


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
