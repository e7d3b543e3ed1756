"""Reads the components of a pipeline: their shape, their variables, their node class and its settings.

Secrets that stand literally in the file are problems. Of a pipeline that is loaded in part, some problems make only one
component unavailable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from rrext.errors import RrextError, Unavailable
from rrext.limits import MAX_MISSING_REASONS, MAX_PROBED_TEXT, MIN_LITERAL_SECRET
from rrext.nodes.base.node import Node
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.catalog.plugins import PluginError
from rrext.pipefile.config import ConfigCheck
from rrext.pipefile.environment import NEVER, PREFIX, Environment, substitute
from rrext.pipefile.near_names import NearNames
from rrext.pipefile.shape import EDGE_TOOLS, ShapeReader
from rrext.pipefile.spec import ComponentSpec
from rrext.pipefile.text.problems import Problem, Problems, Severity, below, shown
from rrext.references import WITH_VALUES, ReferenceReader
from rrext.secrets.names import SECURE, secret_in

if TYPE_CHECKING:
    from rrext.pipefile.catalog.settings import Settings


class ComponentReader:
    """Reads components and reports their problems.

    A variable without a value has the severity `unresolved`; `without_value` has the pointers of the texts with such
    variables. `is_file`: literal secrets are reported, as others may read the file. With `partial`, a missing node or setting
    is a warning, and `missing` of the component has the reason.
    """

    def __init__(
        self,
        catalog: Catalog,
        environment: Environment,
        shape: ShapeReader,
        problems: Problems,
        near: NearNames,
        *,
        unresolved: Severity,
        is_file: bool,
        partial: bool,
    ) -> None:
        self.without_value: set[str] = set()
        self._catalog = catalog
        self._environment = environment
        self._shape = shape
        self._problems = problems
        self._near = near
        self._unresolved: Severity = unresolved
        self._is_file = is_file
        self._partial = partial
        self._nodes: dict[str, type[Node] | RrextError | None] = {}
        self._settings: dict[type[Node], Settings | PluginError | None] = {}
        self._providers: tuple[str, ...] = ()

    def read(self, value: Any, index: int) -> ComponentSpec:
        """Read the component at an index of the pipeline."""
        before = len(self._problems)
        draft = self._shape.component(value, index)
        if self._is_file:
            self._report_secrets(draft)
        path = below(draft.path, "config")
        node = self._known_node(draft.provider)
        if isinstance(node, type) and node.takes_references and "tools" in draft.config:
            tools = draft.config["tools"]
            draft.config = {**self._substituted({**draft.config, "tools": None}, path), "tools": self._with_values(tools, path)}
        else:
            draft.config = self._substituted(draft.config, path)
        self._find_node(draft)
        self._configure(draft)
        if self._partial:
            excused = self._problems.excuse(before, lambda problem: is_excusable(problem, draft.path))
            told = [
                problem for problem in excused if problem.code != "invalid_config" or problem.path not in self.without_value
            ]
            draft.missing = self._environment.redactor.text(missing_of(told))
        self._read_references(draft)
        return draft

    def _substituted(self, value: Any, path: str) -> Any:
        variables = substitute(value, self._environment, path)
        for where, name in dict.fromkeys(variables.unresolved):
            self._report_variable(name, where)
        return variables.value

    def _with_values(self, tools: Any, path: str) -> Any:
        """References with the values of variables where callers do not see them: fixed arguments and conditions."""
        if not isinstance(tools, list):
            return tools
        return [
            {key: self._substituted(part, below(path, "tools", index, key)) if key in WITH_VALUES else part
             for key, part in each.items()} if isinstance(each, dict) else each
            for index, each in enumerate(tools)
        ]  # fmt: skip

    def _read_references(self, draft: ComponentSpec) -> None:
        """Read the references of the config and of control edges."""
        reader = ReferenceReader()
        if draft.node is not None and draft.node.takes_references and draft.config.get("tools") is not None:
            draft.references = tuple(reader.references(draft.config["tools"], below(draft.path, "config", "tools")))
        for place, given in draft.edge_tools.items():
            path = below(draft.path, "control", place, EDGE_TOOLS)
            written = self._with_values(given, below(draft.path, "control", place))
            read = tuple(reader.references(written, path, node=draft.id))
            draft.controls = tuple(replace(edge, references=read) if edge.index == place else edge for edge in draft.controls)
        for problem in reader.problems:
            self._problems.add(problem.code, problem.message, problem.path, near=problem.near, on=problem.on)

    def _report_secrets(self, draft: ComponentSpec) -> None:
        for found in literal_secrets(draft.config, below(draft.path, "config")):
            name = variable_for(draft.provider, found.setting)
            message = f"This is {found.what}, for every reader of this file. Keep it in a variable, such as ${{{name}}}."
            self._problems.add("literal_secret", message, found.path)

    def _report_variable(self, name: str, path: str) -> None:
        self.without_value.add(path)
        known = self._environment.names
        code, message = "unresolved_variable", f"The variable ${{{name}}} has no value."
        like = self._near.of(name, known)
        if not self._environment.may_read(name):
            rule = f"pipelines may read {PREFIX}* and the names given by --env"
            why = "it is the server's own" if name in NEVER else rule
            code, message = "variable_not_allowed", f"The variable {shown(name)} may not be read here: {why}."
            like = (PREFIX + name,) if PREFIX + name in known else like
        self._problems.add(code, message, path, severity=self._unresolved, near=like, part=f"${{{name}}}")

    def _find_node(self, draft: ComponentSpec) -> None:
        provider = draft.provider
        if not provider:
            return
        found = self._known_node(provider)
        if isinstance(found, type):
            draft.node = found
            return
        path = below(draft.path, "provider")
        if found is not None:
            self._problems.add("provider_unavailable", found.message, path)
            return
        origin = self._catalog.unloaded_origin(provider)
        draft.foreign = None if origin else self._catalog.foreign(provider)
        if draft.foreign is not None:
            self._problems.add("foreign_provider", draft.foreign.message, path)
            return
        self._providers = self._providers or self._catalog.names_and_aliases()
        near = self._catalog.distinct(self._near.of(provider, self._providers))
        message, severity = f"There is no node {shown(provider)}.", None
        if origin:
            message = f"{message[:-1]} that is loaded. It may be one of {origin}: without trust no code of nodes is loaded."
            severity = "information"
        self._problems.add("unknown_provider", message, path, near=near, severity=severity)

    def _known_node(self, provider: str) -> type[Node] | RrextError | None:
        if provider and provider not in self._nodes:
            self._nodes[provider] = self._looked_up(provider)
        return self._nodes.get(provider)

    def _looked_up(self, provider: str) -> type[Node] | RrextError | None:
        try:
            return self._catalog.find(provider)
        except (Unavailable, PluginError) as error:
            return error

    def _configure(self, draft: ComponentSpec) -> None:
        node = draft.node
        if node is None:
            draft.settings = draft.config
            return
        if node not in self._settings:
            self._settings[node] = self._form_of(node)
        settings = self._settings[node]
        if isinstance(settings, PluginError):
            self._problems.add("provider_unavailable", settings.message, below(draft.path, "provider"))
            return
        check = ConfigCheck(node, draft.provider, settings, below(draft.path, "config"), self._problems, self._near)
        config = draft.config
        if node.takes_references and "tools" in config:
            config = {key: value for key, value in config.items() if key != "tools"}
        draft.settings = check.run(config)
        if draft.settings is not None and getattr(node.cautions, "__func__", None) is not Node.cautions.__func__:
            self._report_cautions(node, draft)

    def _report_cautions(self, node: type[Node], draft: ComponentSpec) -> None:
        try:
            for setting, message in node.cautions(draft.settings):
                self._problems.add("caution", message, below(draft.section, setting))
        except Exception as error:
            text = f"{node.__name__} could not look at its settings: {type(error).__name__}: {error}"[:MAX_PROBED_TEXT]
            self._problems.add("caution", text, below(draft.path, "provider"))  # the node may work all the same

    def _form_of(self, node: type[Node]) -> Settings | PluginError | None:
        try:
            return self._catalog.settings_of(node)
        except PluginError as error:
            return error


class LiteralSecret(msgspec.Struct, frozen=True, gc=False):
    """A literal secret: the pointer of its text, the setting, what it is, and the secret itself, which no message may have."""

    path: str
    setting: str
    what: str
    secret: str

    def __repr__(self) -> str:
        return f"<LiteralSecret {self.path}: {self.what}>"


def literal_secrets(config: Any, path: str) -> Iterator[LiteralSecret]:
    """The literal secrets in the settings of a component as they were written. `path` is their pointer."""
    stack: list[tuple[Any, str, str]] = [(config, path, "")]
    while stack:
        value, where, key = stack.pop()
        if isinstance(value, dict):
            stack += [(item, below(where, name), name) for name, item in value.items() if name != SECURE]
        elif isinstance(value, list):
            stack += [(item, below(where, place), key) for place, item in enumerate(value)]
        elif isinstance(value, str) and len(value) >= MIN_LITERAL_SECRET:
            found = secret_in(value, key)
            if found is not None:
                yield LiteralSecret(where, key, *found)


def variable_for(provider: str, key: str) -> str:
    """The name of an environment variable for a setting of a node."""
    name = PREFIX + re.sub("[^A-Za-z0-9]+", "_", f"{provider}_{key}").strip("_").upper()
    return f"{name}_VALUE" if name in NEVER else name


ABSENT: Final = frozenset(
    {
        *("unknown_provider", "foreign_provider", "provider_unavailable", "node_unavailable"),
        *("unresolved_variable", "variable_not_allowed"),
    }
)
"""Codes of a node or a value that is missing here."""

_OF_ONE_NODE: Final = ABSENT | {"invalid_config", "missing_file", "tool_undescribed"}


def is_excusable(problem: Problem, component: str) -> bool:
    """Whether a problem concerns only the node or the settings of the component at a pointer."""
    in_component = problem.path.startswith(f"{component}/")
    return in_component and (problem.code in _OF_ONE_NODE or problem.path.startswith(below(component, "config") + "/"))


def missing_of(problems: Iterable[Problem]) -> str:
    """Say in sentences what a component with these problems is missing."""
    first = sorted(problems, key=lambda problem: not problem.path.endswith("/provider"))
    reasons = list(dict.fromkeys(problem.message for problem in first))
    more = len(reasons) - MAX_MISSING_REASONS
    return " ".join([*reasons[:MAX_MISSING_REASONS], *([f"(and {more} more)"] if more > 0 else [])])
