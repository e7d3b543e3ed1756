"""The page of one setting of a component, or of one of its profiles, with the effective settings.

The effective settings are the file's values, the defaults of the component's profile, and the node's own defaults. Variables
stay as they are written; their values never appear.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from rrext.editor.analysis import Analysis, WrittenComponent
from rrext.editor.page import CONFIG_TEXTS, Code, Inline, Item, Page, json_text
from rrext.editor.schemas import Schema, bounds_text, schema_at, type_text
from rrext.nodes.base.node import Node
from rrext.pipefile.catalog.plugins import PluginError
from rrext.pipefile.catalog.settings import Settings
from rrext.pipefile.config import COMMON, ConfigCheck
from rrext.pipefile.near_names import NearNames
from rrext.pipefile.text.problems import Problems, parts_of
from rrext.secrets.names import is_secret, masked

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


_ORIGINS: Final = {"file": "as this file says", "default": "the node's default"}


def setting_page(analysis: Analysis, part: WrittenComponent, node: type[Node] | None, parts: Sequence[str]) -> Page | None:
    """The page of a key of a component's config; `parts` is its path from the config. None for an unknown key."""
    if node is None or not parts:
        return _common_page(parts)
    try:
        settings = settings_of(analysis, node)
    except PluginError:
        return None
    resolved = resolved_of(analysis, part, node)
    section = resolved.section if resolved is not None else ()
    own = settings is None or parts[0] in settings.names
    if not section and not (own and settings is not None) and parts[0] in COMMON:
        return profile_page(node, None) if tuple(parts) == ("profile",) else _common_page(parts)
    if section and tuple(parts[: len(section)]) != section:
        return _beside_page(node, parts, section)
    below = tuple(parts[len(section) :])
    if section and not below:
        return profile_page(node, section[0])
    if not own and not section and parts[0] in node.profiles:
        return profile_page(node, parts[0]) if len(parts) == 1 else None
    return _page(None if settings is None else settings.schema, below, resolved)


def profile_page(node: type[Node] | None, name: str | None) -> Page | None:
    """The page of a profile; None as a name means the default one."""
    if node is None or not node.profiles:
        return _common_page(("profile",))
    chosen = node.default_profile if name is None else name
    if chosen is None or chosen not in node.profiles:
        page = Page().prose(CONFIG_TEXTS["profile"])
    else:
        what = " is the default profile: what it sets holds if none is chosen." if name is None else " sets:"
        page = Page().text("The profile ", Code(chosen), what)
        page.block(json_text(masked(dict(node.profiles[chosen]))), "json")
        if name is not None:
            page.text("What this file says of the settings stands in the section ", Code(chosen), ".")
    others = [other for other in node.profiles if other != chosen]
    return page.items(_profile_items(node, others))


def _profile_items(node: type[Node], names: Sequence[str]) -> list[Item]:
    found: list[Item] = []
    for name in names[:20]:
        default = " (the default)" if name == node.default_profile else ""
        found.append((0, [Code(name), f"{default}: sets {', '.join(map(str, node.profiles[name])) or 'nothing'}"]))
    return found


def _common_page(parts: Sequence[str]) -> Page | None:
    text = CONFIG_TEXTS.get(parts[0]) if len(parts) == 1 else None
    return None if text is None else Page().title(Code(parts[0])).prose(text)


def _beside_page(node: type[Node], parts: Sequence[str], section: tuple[str, ...]) -> Page | None:
    """The page of a key in a config outside of the active section."""
    if tuple(parts) == ("profile",):
        return profile_page(node, section[0])
    if parts[0] in COMMON:
        return _common_page(parts)
    if parts[0] in node.profiles:
        return profile_page(node, parts[0]) if len(parts) == 1 else None
    return Page().text(Code(parts[0]), " is not used: with a profile, settings stand in the section ", Code(section[0]), ".")


def _page(schema: Schema | None, parts: tuple[str, ...], resolved: Resolved | None) -> Page | None:
    key = ".".join(parts)
    page = Page()
    if schema is None:
        page.title(Code(key)).text("The node takes any settings, as they stand here.")
    else:
        own = schema_at(schema, parts)
        if own is None:
            return None
        page.title(Code(key), f": {type_text(own, schema)}")
        said = [text for text in (bounds_text(own), _need(schema, parts)) if text]
        if said:
            page.text(", ".join(said).capitalize(), ".")
        if own.get("description"):
            page.prose(str(own["description"]))
        if "default" in own:
            page.text("Default: ", Code(_shown(own["default"], parts)))
    _add_value(page, parts, resolved)
    return page


def _need(schema: Schema, parts: tuple[str, ...]) -> str:
    around = schema_at(schema, parts[:-1])
    return "required" if around is not None and parts[-1] in (around.get("required") or ()) else ""


def _add_value(page: Page, parts: tuple[str, ...], resolved: Resolved | None) -> None:
    if resolved is None:
        return
    found = resolved.value_at(parts)
    if found is None:
        page.text("It has no value here.")
        return
    value, origin = found
    where = _ORIGINS.get(origin)
    said: list[Inline] = [where] if where else ["from the profile ", Code(resolved.profile or "")]
    if isinstance(value, dict | list) and value:
        page.text("Value, ", *said, ":").block(json_text(_hidden(value, parts)), "json")
    else:
        page.text("Value: ", Code(_shown(value, parts)), ", ", *said)


def _shown(value: Any, parts: Sequence[str]) -> str:
    return json.dumps(_hidden(value, parts), ensure_ascii=False, default=str)


def _hidden(value: Any, parts: Sequence[str]) -> Any:
    """A value with its secrets hidden; any key on its path can mark it as secret."""
    secret = next((part for part in parts if is_secret(part)), "")
    return masked(value, secret, everything="secureParameters" in parts)
