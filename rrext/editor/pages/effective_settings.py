"""The effective settings of a component: the defaults of its profile, the file's values, and the node's own defaults.

Variables stay as they are written; their values never appear.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from rrext.editor.analysis import Analysis
from rrext.editor.written_pipeline import WrittenComponent
from rrext.nodes.base.node import Node
from rrext.pipefile.catalog.plugins import PluginError
from rrext.pipefile.catalog.settings import Settings
from rrext.pipefile.config import COMMON, ConfigCheck
from rrext.pipefile.near_names import NearNames
from rrext.pipefile.text.pointer import parts_of
from rrext.pipefile.text.problems import Problems

ValueOrigin: TypeAlias = Literal["file", "profile", "default"]


class Resolved:
    """The effective settings of one component, with variables in place.

    `profile` is the active profile, if any; `chosen`: the file names it. `section` is the path from the config to the object
    with the settings: empty, or the section of the profile.
    """

    def __init__(
        self,
        values: dict[str, Any],
        given: Mapping[str, Any],
        node: type[Node],
        settings: Settings | None,
        profile: str | None,
        section: tuple[str, ...],
    ) -> None:
        self.values = values
        self.profile = profile
        self.chosen = bool(section)
        self.section = section
        self._given = given
        self._defaults: Mapping[str, Any] = node.profiles.get(profile or "", {})
        self._schema: Mapping[str, Any] = {} if settings is None else settings.schema["properties"]

    def value_at(self, parts: Sequence[str]) -> tuple[Any, ValueOrigin] | None:
        """The value at a path below the section, and its origin; None if there is none."""
        found = _at(self.values, parts)
        if found is None:
            return None
        given = _at(self._given, parts)
        if given is not None and (given[0] is not None or found[0] is None):  # a null does not replace a default
            return found[0], "file"
        if _at(self._defaults, parts) is not None:
            return found[0], "profile"
        return found[0], "default"


def resolved_of(analysis: Analysis, part: WrittenComponent, node: type[Node]) -> Resolved | None:
    """The effective settings of a component of this class; None if its profile is unusable."""
    try:
        settings = settings_of(analysis, node)
    except PluginError:
        return None
    problems = Problems()
    configuring = ConfigCheck(node, part.provider, settings, "", problems, NearNames())
    effective = configuring.effective(part.config)
    if problems.errors:
        return None
    section = tuple(parts_of(configuring.section))
    given = _at(part.config, section)
    profile = section[0] if section else node.default_profile
    values = effective if settings is None else _known(effective, settings)
    if node.is_source():
        names = ("mode", "type") if settings is None else settings.names
        values |= {key: value for key, value in (("mode", "Source"), ("type", part.provider)) if key in names}
    return Resolved(values, given[0] if given and isinstance(given[0], dict) else {}, node, settings, profile, section)


def settings_of(analysis: Analysis, node: type[Node]) -> Settings | None:
    """The schema and conversion of a node's settings; None if it takes any. Raises `PluginError` for an invalid class."""
    return analysis.settings.catalog.settings_of(node)


def _known(effective: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """The settings that the node knows, each with a value if it has one."""
    schema: Mapping[str, Any] = settings.schema["properties"]
    kept = {key: value for key, value in effective.items() if key in settings.names or key not in COMMON}
    known, _ = settings.known(kept)
    found: dict[str, Any] = {}
    for name in settings.names:
        value = known.get(name)
        if value is not None or (name in known and not settings.has_default(name)):
            found[name] = value
        elif "default" in schema[name]:
            found[name] = schema[name]["default"]
    return found


def _at(value: Any, parts: Sequence[str]) -> tuple[Any] | None:
    """The value at a path, in a tuple, because null is a value too; None if there is none."""
    for part in parts:
        if isinstance(value, Mapping):
            if part not in value:
                return None
            value = value[part]
        elif isinstance(value, list | tuple):
            if not part.isdecimal() or len(part) > 9 or int(part) >= len(value):
                return None
            value = value[int(part)]
        else:
            return None
    return (value,)
