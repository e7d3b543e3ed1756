"""Reads one component without the pipeline around it, so that an unchanged component is read once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from rrext.errors import RrextError, Unavailable
from rrext.nodes.base.node import Node
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.catalog.plugins import PluginError
from rrext.pipefile.config import ConfigCheck
from rrext.pipefile.environment import Environment, Substitution, substitute
from rrext.pipefile.near_names import NearNameQuery, NearNames
from rrext.pipefile.shape import ComponentDraft, ShapeReader
from rrext.pipefile.text.problems import Problem, Problems, Severity, shown

if TYPE_CHECKING:
    from rrext.pipefile.catalog.settings import Settings


class ComponentReading(msgspec.Struct, frozen=True):
    """One component, read by itself; all pointers are relative to it. `draft` is read-only; `draft.at` makes a copy.

    `errors` counts those that `problems` has no room for too. `asked` are the near-name queries that the problems depend on.
    `settled` is false if they depend on what may change any time: which code can be imported.
    """

    value: Any
    draft: ComponentDraft
    problems: tuple[Problem, ...]
    errors: int
    variables: Substitution
    asked: tuple[NearNameQuery, ...]
    settled: bool


class ComponentReader:
    """Reads components, and keeps one problem more than `limit` of each. An unknown provider has the severity `unknown`.

    What `known` has of a value is not worked out again: id of a value → its reading.
    """

    def __init__(
        self,
        catalog: Catalog,
        environment: Environment,
        near: NearNames,
        limit: int,
        unknown: Severity,
        known: Mapping[int, ComponentReading],
    ) -> None:
        self._catalog = catalog
        self._environment = environment
        self._near = near
        self._limit = limit
        self._unknown: Severity = unknown
        self._known = known
        self._nodes: dict[str, type[Node] | RrextError | None] = {}
        self._settings: dict[type[Node], Settings | PluginError | None] = {}
        self._providers: tuple[str, ...] = ()
        self._settled = True

    def read(self, value: Any) -> ComponentReading:
        """Read one component as it is written."""
        known = self._known.get(id(value))
        if known is not None and (not known.asked or self._near.repeat(known.asked)):
            return known
        self._near.taken()
        self._settled = True
        problems = Problems(self._limit + 1)  # one more than are shown, so that it is seen that there are more
        draft = ShapeReader("", problems, self._near).component(value)
        variables = substitute(draft.config, self._environment, "/config")
        draft.config = variables.value
        self._find_node(draft, problems)
        self._configure(draft, problems)
        asked = self._near.taken()
        return ComponentReading(value, draft, tuple(problems), problems.errors, variables, asked, self._settled)

    def _find_node(self, draft: ComponentDraft, problems: Problems) -> None:
        provider = draft.provider
        if not provider:
            return
        if provider not in self._nodes:
            self._nodes[provider] = self._looked_up(provider)
        found = self._nodes[provider]
        if isinstance(found, type):
            draft.node = found
            return
        self._settled = False
        if found is not None:
            problems.add("provider_unavailable", found.message, "/provider")
            return
        self._providers = self._providers or self._catalog.names_and_aliases()
        near = self._catalog.distinct(self._near.of(provider, self._providers))
        problems.add("unknown_provider", f"There is no node {shown(provider)}.", "/provider", near=near, severity=self._unknown)

    def _looked_up(self, provider: str) -> type[Node] | RrextError | None:
        try:
            return self._catalog.find(provider)
        except (Unavailable, PluginError) as error:
            return error

    def _configure(self, draft: ComponentDraft, problems: Problems) -> None:
        node = draft.node
        if node is None:
            draft.settings = draft.config
            return
        if node not in self._settings:
            self._settings[node] = self._form_of(node)
        settings = self._settings[node]
        if isinstance(settings, PluginError):
            self._settled = False
            problems.add("provider_unavailable", settings.message, "/provider")
            return
        draft.settings = ConfigCheck(node, draft.provider, settings, "/config", problems, self._near).run(draft.config)

    def _form_of(self, node: type[Node]) -> Settings | PluginError | None:
        try:
            return self._catalog.settings_of(node)
        except PluginError as error:
            return error
