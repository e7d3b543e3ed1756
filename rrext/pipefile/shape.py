"""The shape of a pipeline document: types, ids, and edges as they are written.

Differences between RocketRide's nodes and those of the same name here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from rrext.limits import Limits
from rrext.pipefile.near_names import NearNames
from rrext.pipefile.resources import Resources, read_resources
from rrext.pipefile.spec import ComponentSpec, ControlEdge, DataEdge, EdgeKind
from rrext.pipefile.text.problems import Problems, Related, below, shown
from rrext.secrets.names import PLACEHOLDER

ROOT_KEYS: Final = ("components", "source", "project_id", "version", "name", "description", "resources")
EDITOR_KEYS: Final = ("viewport", "docRevision", "isLocked", "snapToGrid", "snapGridSize", "editorMode", "chain", "pipeline")
COMPONENT_KEYS: Final = ("id", "provider", "config", "input", "control", "name", "description", "ui")
EDGE_KEYS: Final[dict[EdgeKind, tuple[str, str]]] = {"input": ("lane", "from"), "control": ("classType", "from")}
EDGE_TOOLS: Final = "tools"
"""The key of a control edge with references to tools."""

NAMES: Final = frozenset({"id", "provider", "source", "project_id", "lane", "classType", "from"})
"""Keys whose values are names of parts of a pipeline."""

VERSION: Final = 1

_TYPES: Final = {
    dict: "an object",
    list: "a list",
    str: "a text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "null",
}


class ShapeReader:
    """Checks the types and keys of the document at `base`."""

    def __init__(self, base: str, problems: Problems, near: NearNames) -> None:
        self._base = base
        self._problems = problems
        self._near = near

    def root(self, document: Mapping[str, Any], limits: Limits) -> Resources:
        """Check the root of a document, without its components; the resources that it asks for."""
        self._unknown_keys(document, ROOT_KEYS, self._base, EDITOR_KEYS)
        for key in ("source", "project_id", "name", "description"):
            self._text(document, key, self._base, required=False)
        self._version(document)
        components = self._list(document, "components", self._base, required=True)
        if len(components) > limits.max_components:
            text = f"{len(components)} components are more than {limits.max_components} (max_components)."
            self._problems.add("too_many_components", text, below(self._base, "components"), on="key")
        return read_resources(document, self._base, self._problems, self._near)

    def _version(self, document: Mapping[str, Any]) -> None:
        version = document.get("version")
        if version is None:
            return
        path = below(self._base, "version")
        if type(version) is not int:
            self._problems.add("wrong_type", f"Expected a whole number for version, got {type_text(version)}.", path)
        elif version != VERSION:
            self._problems.add("invalid_version", f"The version {version} is not known: expected {VERSION}.", path)

    def component(self, item: Any, index: int) -> ComponentSpec:
        """Read one component of the document."""
        draft = ComponentSpec(index=index, path=below(self._base, "components", index))
        if not isinstance(item, dict):
            self._problems.add("wrong_type", f"A component is an object, not {type_text(item)}.", draft.path)
            return draft
        meant = self._unknown_keys(item, COMPONENT_KEYS, draft.path)
        draft.broken = "input" in meant or "control" in meant  # there are edges, under a name that says nothing
        draft.id = self._text(item, "id", draft.path, required=True)
        misspelt = item.get(meant.get("id", "id"))
        if isinstance(misspelt, str):
            draft.id = misspelt  # only the key is wrong, not the edges from it
        draft.provider = self._provider(item, draft.path)
        draft.name = self._text(item, "name", draft.path, required=False)
        draft.description = self._text(item, "description", draft.path, required=False)
        config = item.get("config")
        if isinstance(config, dict):
            draft.config = config
            self._report_misplaced(config, draft)
        elif "config" in item:
            self._problems.add(
                "wrong_type", f"Expected an object for config, got {type_text(config)}.", below(draft.path, "config")
            )
        inputs = self._edges(item, "input", draft)
        draft.inputs = tuple(DataEdge(name, source, place) for name, source, place in inputs)
        controls = self._edges(item, "control", draft)
        draft.controls = tuple(ControlEdge(name, source, place) for name, source, place in controls)
        draft.edge_tools = {
            place: edge[EDGE_TOOLS] for _, _, place in controls if EDGE_TOOLS in (edge := item["control"][place])
        }
        return draft

    def _report_misplaced(self, config: Mapping[str, Any], draft: ComponentSpec) -> None:
        """Report edges inside of a config."""
        for kind, keys in EDGE_KEYS.items():
            listed = config.get(kind)
            if (
                isinstance(listed, list)
                and listed
                and all(isinstance(edge, dict) and set(keys) <= set(edge) for edge in listed)
            ):
                draft.broken = True
                message = f"{shown(kind)} belongs beside config, not inside of it: these edges have no effect here."
                self._problems.add("misplaced_key", message, below(draft.path, "config", kind), on="key")

    def _edges(self, item: Mapping[str, Any], kind: EdgeKind, draft: ComponentSpec) -> list[tuple[str, str, int]]:
        """The usable edges of a component, each with its place in the list."""
        found: list[tuple[str, str, int]] = []
        seen: dict[tuple[str, str], str] = {}
        draft.broken = draft.broken or not isinstance(item.get(kind), list | None)
        for place, edge in enumerate(self._list(item, kind, draft.path, required=False)):
            path = below(draft.path, kind, place)
            if not isinstance(edge, dict):
                self._problems.add("wrong_type", f"An edge is an object, not {type_text(edge)}.", path)
                draft.broken = True
                continue
            keys = EDGE_KEYS[kind]
            self._unknown_keys(edge, keys, path, (EDGE_TOOLS,) if kind == "control" else ())
            name, source = (self._text(edge, key, path, required=True) for key in keys)
            if not name or not source:
                draft.broken = True
            elif (name, source) in seen:
                related = [Related(seen[name, source], "It stands here.")]
                message = f"This edge from {shown(source)} stands here already."
                self._problems.add("duplicate_edge", message, path, related=related)
            else:
                seen[name, source] = path
                found.append((name, source, place))
        return found

    # one key

    def _provider(self, item: Mapping[str, Any], path: str) -> str:
        """The provider, which other programs call `type`."""
        kind = item.get("type")
        if "provider" in item or not isinstance(kind, str) or not kind:
            return self._text(item, "provider", path, required=True)
        message = f'The key "provider" is missing. "type" has no meaning here: write "provider": {shown(kind)}.'
        self._problems.add("missing_key", message, below(path, "provider"))
        return ""

    def _text(self, item: Mapping[str, Any], key: str, path: str, *, required: bool) -> str:
        value = item.get(key)
        if isinstance(value, str) and (value or not required):
            if key in NAMES and "${" in value and re.search(PLACEHOLDER, value) is not None:
                self._report_variable(key, path)
            return value
        if value is None and not required:
            return ""
        if key not in item:
            self._missing(key, path)
        else:
            got = "an empty one" if value == "" else type_text(value)
            self._problems.add("wrong_type", f"Expected a text for {key}, got {got}.", below(path, key))
        return ""

    def _report_variable(self, key: str, path: str) -> None:
        """Report a variable in a name, because names are not secret."""
        if key == "project_id":
            message = "project_id must be literal: a pipeline keeps it wherever it runs."
            self._problems.add("variable_in_project_id", message, below(path, key))
        else:
            message = f"{key} must be literal: names are shown to everybody, so variables are replaced in config alone."
            self._problems.add("variable_in_name", message, below(path, key))

    def _list(self, item: Mapping[str, Any], key: str, path: str, *, required: bool) -> list[Any]:
        value = item.get(key)
        if isinstance(value, list):
            return value
        if required and key not in item:
            self._missing(key, path)
        elif value is not None or required:
            self._problems.add("wrong_type", f"Expected a list for {key}, got {type_text(value)}.", below(path, key))
        return []

    def _missing(self, key: str, path: str) -> None:
        self._problems.add("missing_key", f"The key {shown(key)} is missing.", below(path, key))

    def _unknown_keys(
        self, item: Mapping[str, Any], known: tuple[str, ...], path: str, more: tuple[str, ...] = ()
    ) -> dict[str, str]:
        """Report keys that resemble a known key, and return them by the known key; other keys belong to editors."""
        meant: dict[str, str] = {}
        for key in item:
            if key not in known and key not in more:
                near = tuple(name for name in self._near.of(key, known) if name not in item)
                meant.update(dict.fromkeys(near, key))
                if near:
                    self._problems.add(
                        "unknown_key", f"The key {shown(key)} has no meaning here.", below(path, key), near=near, on="key"
                    )
        return meant


def report_same_ids(drafts: Iterable[ComponentSpec], problems: Problems) -> None:
    """Report each component with the id of an earlier one."""
    first: dict[str, ComponentSpec] = {}
    for draft in drafts:
        other = first.setdefault(draft.id, draft)
        if draft.id and other is not draft:
            message = f"The id {shown(draft.id)} is taken: every component needs its own."
            related = [other.here(f"The first {shown(draft.id)} stands here.")]
            problems.add("duplicate_id", message, below(draft.path, "id"), related=related)
            draft.broken = True


def type_text(value: Any) -> str:
    """The JSON type of a value, in words."""
    return _TYPES.get(type(value), type(value).__name__)


OTHER_PROFILES: Final = frozenset(
    {
        "db_mysql", "db_neo4j", "db_postgres", "embedding_transformer", "graph_neo4j", "memory_internal", "parse", "postgres",
        "preprocessor_code", "preprocessor_langchain", "prompt", "question", "response", "response_answers", "response_audio",
        "response_documents", "response_image", "response_questions", "response_table", "response_text", "response_video",
        "store_postgres", "tool_filesystem", "tool_python",
    }
)  # fmt: skip
"""The providers whose profiles in RocketRide are not those of the node here. Models are not among them: with another profile,
another model would run."""

LANES_OUT: Final[Mapping[str, tuple[str, ...]]] = {"parse": ("audio", "video")}
"""Provider → the lanes on which RocketRide's node sends and the node of that name here does not."""
