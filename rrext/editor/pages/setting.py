"""The page of one setting of a component, or of one of its profiles."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from rrext.editor.analysis import Analysis
from rrext.editor.pages.effective_settings import Resolved, resolved_of, settings_of
from rrext.editor.pages.page import Code, Inline, Item, Page, json_text
from rrext.editor.pages.vocabulary import CONFIG_TEXTS
from rrext.editor.schemas.descriptions import bounds_text, type_text
from rrext.editor.schemas.lookup import Schema, schema_at
from rrext.editor.written_pipeline import WrittenComponent
from rrext.nodes.base.node import Node
from rrext.pipefile.catalog.plugins import PluginError
from rrext.pipefile.config import COMMON
from rrext.secrets.names import is_secret, masked

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
