"""The catalog of nodes by provider name. Classes are imported at first use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rrext.errors import NotFound, ProviderNotFound, Unavailable, near_matches
from rrext.nodes.base.node import Node
from rrext.pipefile.catalog.plugins import (
    PluginError,
    builtin_nodes,
    check_definition,
    import_class,
    installed_nodes,
    origin_of,
)

if TYPE_CHECKING:
    from rrext.pipefile.catalog.foreign_nodes import ForeignNode
    from rrext.pipefile.catalog.settings import Settings


class Catalog:
    """Node classes by provider name: given, built-in, and of installed packages, in this order.

    Installed packages are searched only for a name that is found nowhere else, or for a whole listing. `unloaded` are files and
    modules with more nodes, whose code may not run. `ignored` is the project whose nodes and variables do not count, as
    its user does not trust it; empty if there is none.
    """

    def __init__(
        self,
        nodes: Iterable[type[Node]] = (),
        *,
        builtin: Mapping[str, str] | None = None,
        installed: bool = True,
        unloaded: Iterable[str] = (),
        ignored: str = "",
    ) -> None:
        self.ignored = ignored
        self._builtin, self._aliases = builtin_nodes() if builtin is None else (dict(builtin), dict[str, str]())
        self._given: dict[str, type[Node]] = {}
        self._classes: dict[str, type[Node]] = {}
        self._settings: dict[type[Node], Settings | None] = {}
        self._installed: dict[str, str] | None = None
        self._scan = installed
        self._unloaded = tuple(unloaded)
        self._unused: dict[str, list[str]] | None = None
        self.conflicts: list[str] = []
        """Names of installed packages that are taken already; known after a scan."""
        for node_class in nodes:
            self.add(node_class)

    def add(self, node_class: type[Node]) -> None:
        """Add a class under its provider name and its aliases. Raises `PluginError` if one is taken, naming both owners."""
        if not node_class.provider:
            raise PluginError(f"{origin_of(node_class)} has no `provider`, the name that pipelines use for it")
        check_definition(node_class)
        itself = f"{node_class.__module__}:{node_class.__qualname__}"  # a built-in node may be given too, as tests of it do
        for name in (node_class.provider, *node_class.aliases):
            owner = self._owner(name)
            if owner not in (None, itself) and self._given.get(name) is not node_class:
                raise PluginError(f'The provider "{name}" is taken twice: by {owner} and by {origin_of(node_class)}')
        self._given[node_class.provider] = node_class
        self._aliases.update(dict.fromkeys(node_class.aliases, node_class.provider))

    def replace(self, nodes: Iterable[type[Node]]) -> None:
        """Take these given classes in place of those that are there. Raises `PluginError`, and keeps what is there then."""
        before = self._given, self._aliases
        self._given = {}
        self._aliases = {alias: name for alias, name in self._aliases.items() if name not in before[0]}
        try:
            for node_class in nodes:
                self.add(node_class)
        except PluginError:
            self._given, self._aliases = before
            raise

    def class_of(self, provider: str) -> type[Node]:
        """The class of a provider name or alias.

        Raises `ProviderNotFound` with near matches, and `Unavailable` if its code cannot be imported here.
        """
        found = self.find(provider)
        if found is None:
            raise self._not_found(provider, f'There is no node "{provider}".')
        return found

    def find(self, provider: str) -> type[Node] | None:
        """The class of a provider name or alias; None for an unknown name. Raises `Unavailable` if it cannot be imported."""
        name = self.provider_of(provider)
        found = self._given.get(name) or self._classes.get(name)
        if found is not None:
            return found
        reference = self._builtin.get(name) or self._entries().get(name)
        if reference is None:
            return None
        found = self._classes[name] = _imported(name, reference)
        return found

    def unloaded_origin(self, provider: str) -> str:
        """The code, not loaded, that may define a provider: of an installed package, or of the user. Empty if there is none."""
        if not self._scan:
            self._unused = installed_nodes() if self._unused is None else self._unused
            if provider in self._unused:
                return "an installed package"
        return ", ".join(self._unloaded)

    def foreign(self, provider: str) -> ForeignNode | None:
        """A node of RocketRide that rrext does not have; None for any other name."""
        from rrext.pipefile.catalog.foreign_nodes import foreign_node  # only pipelines from elsewhere need the table

        return foreign_node(provider)

    def names(self) -> tuple[str, ...]:
        """All provider names, without aliases, sorted."""
        return tuple(sorted({*self._given, *self._builtin, *self._entries()}))

    def provider_of(self, name: str) -> str:
        """The provider of a name, which may be an alias of one."""
        return self._aliases.get(name, name)

    def names_and_aliases(self) -> tuple[str, ...]:
        """All names that a pipeline may use, sorted."""
        return tuple(sorted({*self.names(), *self._aliases}))

    def distinct(self, names: Iterable[str]) -> tuple[str, ...]:
        """Names and aliases without a second one of the same node."""
        first: dict[str, str] = {}
        for name in names:
            first.setdefault(self.provider_of(name), name)
        return tuple(first.values())

    def aliases_of(self, provider: str) -> tuple[str, ...]:
        """The other names of a provider."""
        return tuple(sorted(alias for alias, name in self._aliases.items() if name == provider))

    def settings_of(self, node_class: type[Node]) -> Settings | None:
        """The schema of a class's `Config`, or None if it takes any settings. Raises `PluginError` for an impossible type."""
        if node_class not in self._settings:
            settings = None
            if node_class.Config is not None:
                from rrext.pipefile.catalog.settings import Settings  # the type grammar: not needed where nothing has settings

                settings = Settings(node_class.Config, owner=origin_of(node_class))
            self._settings[node_class] = settings
        return self._settings[node_class]

    def describe(self, provider: str) -> dict[str, Any]:
        """Make the definition of one node for `rrext_services`. Raises the errors of `class_of`."""
        from rrext.pipefile.catalog.services import definition_of

        node_class = self.class_of(provider)
        try:
            settings = self.settings_of(node_class)
        except PluginError as error:
            raise Unavailable(f'The node "{provider}" cannot be used: {error.message}') from error
        return definition_of(node_class, settings, self.aliases_of(node_class.provider))

    def services(self, service: str | None = None) -> dict[str, Any]:
        """Make the body of `rrext_services`: the definition of one provider, or `{services, icons, version}`.

        Nodes that cannot be imported here have the reason. Raises `ProviderNotFound` for an unknown name.
        """
        from rrext.pipefile.catalog.services import broken_definition

        if service is not None:
            try:
                return self.describe(service)
            except ProviderNotFound:
                raise self._not_found(service, f"Service '{service}' not found.") from None
        found: dict[str, Any] = {}
        for name in self.names():
            try:
                found[name] = self.describe(name)
            except Unavailable as error:
                found[name] = broken_definition(name, error.message)
        return {"services": found, "icons": {}, "version": 1}

    def _not_found(self, name: str, message: str) -> NotFound:
        foreign = self.foreign(name)
        if foreign is not None:  # no near names: another vendor is another node
            return ProviderNotFound(f"{message} {foreign.message}", data={"near": []})
        return ProviderNotFound.near(message, name, self._near(name))

    def _near(self, name: str) -> tuple[str, ...]:
        return self.distinct(near_matches(name, self.names_and_aliases()))

    def _owner(self, name: str) -> str | None:
        name = self.provider_of(name)
        given = self._given.get(name)
        return origin_of(given) if given is not None else self._builtin.get(name)

    def _entries(self) -> dict[str, str]:
        if self._installed is None:
            self._installed = {}
            for name, references in (installed_nodes() if self._scan else {}).items():
                owner = self._owner(name)
                if owner is not None or len(references) > 1:
                    owners = " and by ".join([*([owner] if owner else []), *references])
                    self.conflicts.append(f'The provider "{name}" is taken twice: by {owners}')
                if owner is None:
                    self._installed[name] = references[0]
        return self._installed


def _imported(name: str, reference: str) -> type[Node]:
    try:
        found = import_class(reference, name)
        check_definition(found)
    except PluginError as error:
        raise Unavailable(f'The node "{name}" cannot be used: {error.message}') from error
    except (Exception, SystemExit) as error:  # a broken node must not break a listing
        text = f"{type(error).__name__}: {error}"
        raise Unavailable(f'The node "{name}" cannot be used, {reference} does not import: {text}') from error
    if found.provider != name:
        raise Unavailable(f'The node "{name}" cannot be used: {reference} calls itself "{found.provider}"')
    return found
