"""Turns a component's `config` into the settings of its node: profiles, defaults, unknown keys, wrong values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from rrext.errors import InvalidArguments
from rrext.nodes.base.node import Node
from rrext.pipefile.near_names import NearNames
from rrext.pipefile.shape import OTHER_PROFILES
from rrext.pipefile.text.problems import Problems, Related, below, shown

if TYPE_CHECKING:
    from rrext.pipefile.catalog.catalog import Catalog
    from rrext.pipefile.catalog.settings import Settings


COMMON: Final = (
    "mode",
    "type",
    "profile",
    "parameters",
    "secureParameters",
    "hideForm",
    "name",
    "description",
    "tool_description",
)
"""Keys that every component's config may have; a node that uses one declares it."""


class ConfigCheck:
    """Computes the settings of one component and reports their problems.

    `path` is where the config stands. The result of `run` is `node.config`, or None if there are errors.
    """

    def __init__(
        self, node: type[Node], provider: str, settings: Settings | None, path: str, problems: Problems, near: NearNames
    ) -> None:
        self._node = node
        self._provider = provider
        self._settings = settings
        self._path = path
        self._base = path
        self._problems = problems
        self._near = near

    def run(self, config: dict[str, Any]) -> Any:
        """Compute the settings for a config."""
        errors = self._problems.errors
        self._check_common(config)
        effective = self.effective(config)
        if self._problems.errors > errors:
            return None
        if self._settings is None:
            return self._with_source_keys(effective)
        return self._structured(effective, self._settings)

    def _check_common(self, config: Mapping[str, Any]) -> None:
        self._expect_object(config.get("parameters"), "parameters")
        secure = config.get("secureParameters")
        if self._expect_object(secure, "secureParameters") and secure:
            names = secure.get("secure")
            if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
                self._wrong_type("a list of strings", "secureParameters", "secure")
            if not isinstance(secure.get("token", ""), str):
                self._wrong_type("a string", "secureParameters", "token")

    def _expect_object(self, value: Any, *parts: str) -> bool:
        if value is None or isinstance(value, dict):
            return True
        self._wrong_type("an object", *parts)
        return False

    def _wrong_type(self, expected: str, *parts: str) -> None:
        self._problems.add("wrong_type", f"Expected {expected} for {shown('.'.join(parts))}.", below(self._path, *parts))

    # profiles

    @property
    def section(self) -> str:
        """The pointer of the object with the settings: the config itself, or the section of the chosen profile."""
        return self._base

    def effective(self, config: dict[str, Any]) -> dict[str, Any]:
        """Merge the user's values over the defaults of the profile. Empty, with a problem, if the profile cannot be used."""
        profile = config.get("profile")
        if profile is None or (self._settings is not None and "profile" in self._settings.names):
            return self._default_profile(config)
        if not isinstance(profile, str) or not profile:
            self._wrong_type("the name of a profile", "profile")
            return {}
        known = tuple(self._node.profiles)
        near = () if profile in known else self._near.of(profile, known)
        if profile not in known and not near and self._provider in OTHER_PROFILES:
            return self._foreign_profile(config, profile, known)
        if profile not in known:
            text = "which has none" if not known else f"which has {', '.join(known)}"
            message = f"{shown(profile)} is no profile of the node {shown(self._provider)}, {text}."
            self._problems.add("profile_not_found", message, below(self._path, "profile"), near=near)
            return {}
        section = config.get(profile)
        if not self._expect_object(section, profile):
            return {}
        self._report_beside(config, profile, known)
        self._base = below(self._path, profile)
        beside = {key: config[key] for key in self._node.beside_profile if key in config}
        return merged(self._node.profiles[profile], {**beside, **(section or {})})

    def _foreign_profile(self, config: dict[str, Any], profile: str, known: tuple[str, ...]) -> dict[str, Any]:
        """Merge the settings of a profile that RocketRide's node may have over the defaults here."""
        section = config.get(profile)
        if not self._expect_object(section, profile):
            return {}
        has = f"has {', '.join(known)}" if known else "has no profiles"
        message = (
            f"{shown(profile)} may be a profile of RocketRide's {self._provider}; the node here {has}. "
            "The settings of the section are used, over the defaults of the node here."
        )
        self._problems.add("profile_not_found", message, below(self._path, "profile"), severity="warning")
        self._report_beside(config, profile, (*known, profile))
        self._base = below(self._path, profile)
        return merged(self._node.profiles.get(self._node.default_profile or "", {}), section or {})

    def _report_beside(self, config: Mapping[str, Any], profile: str, known: tuple[str, ...]) -> None:
        related = [Related(below(self._path, "profile"), f"The profile {shown(profile)} is named here.")]
        for key in config:
            if key not in COMMON and key not in known and key not in self._node.beside_profile:
                message = f"{shown(key)} is not used here: with a profile, settings belong into the section {shown(profile)}."
                self._problems.add("beside_profile", message, below(self._path, key), on="key", related=related)

    def _default_profile(self, config: dict[str, Any]) -> dict[str, Any]:
        profiles = self._node.profiles
        fields = () if self._settings is None else self._settings.names
        own: dict[str, Any] = {}
        for key, value in config.items():
            if key in profiles and key not in fields and isinstance(value, dict):
                message = f'This section is not used: "profile": {shown(key)} would select it.'
                self._problems.add("profile_not_selected", message, below(self._path, key), on="key")
            else:
                own[key] = value
        default = self._node.default_profile
        return merged(profiles.get(default or "", {}), own)

    # values

    def _with_source_keys(self, effective: dict[str, Any]) -> dict[str, Any]:
        if not self._node.is_source():
            return effective
        return {**effective, "mode": "Source", "type": self._provider}

    def _structured(self, effective: dict[str, Any], settings: Settings) -> Any:
        names = settings.names
        if self._node.is_source():
            effective = {**effective, **{k: v for k, v in (("mode", "Source"), ("type", self._provider)) if k in names}}
        values = {
            key: value
            for key, value in effective.items()
            if (key in names or key not in COMMON) and not (value is None and key in names and settings.has_default(key))
        }
        values, unknown = settings.known(values)
        for parts, known in unknown:
            known = names if known == names else known  # the same tuple, as near matches are remembered by it
            self._report_unknown(str(parts[-1]), below(self._base, *parts), known)
        wrong = settings.problems(values)
        made = None
        if not wrong:
            made, wrong = settings.make(values)
        for parts, message in wrong:
            self._problems.add("invalid_config", _sentence(parts, message), below(self._base, *parts))
        return made

    def _report_unknown(self, key: str, path: str, known: tuple[str, ...]) -> None:
        message = f"The node {shown(self._provider)} does not know {shown(key)}; it is not used."
        near = self._near.of(key, known)
        if not near and len(known) <= 8:
            message += f" It knows {', '.join(known)}." if known else " It has no settings."
        self._problems.add("unknown_config_key", message, path, near=near, on="key")


def resolve_config(catalog: Catalog, provider: str, config: dict[str, Any]) -> dict[str, Any]:
    """Merge the settings of a component over those of its profile, and name the keys that its node does not get.

    Raises `ProviderNotFound`, and `InvalidArguments` for a profile that is none.
    """
    node = catalog.class_of(provider)
    settings, problems = catalog.settings_of(node), Problems()
    check = ConfigCheck(node, provider, settings, "", problems, NearNames())
    resolved = check.effective(config)
    if problems.errors:
        raise InvalidArguments.of([(f"/config{each.path}", each.message) for each in problems if each.severity == "error"])
    known = None if settings is None else {*settings.names, *COMMON}
    profile = config.get("profile")
    used = {name: value for name, value in resolved.items() if known is None or name in known}
    # A section is the only source of settings, but for those that its node takes beside it.
    kept = used.keys() if check.section == "" else {profile, "profile", *COMMON, *node.beside_profile}
    return {
        "provider": provider,
        "profile": profile or node.default_profile or "",
        "resolved": used,
        "dropped": [name for name in config if name not in kept],
    }


def merged(defaults: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Merge `values` over `defaults`, inner objects too. A null does not replace a default."""
    found = dict(defaults)
    for key, value in values.items():
        default = found.get(key)
        if isinstance(default, Mapping) and isinstance(value, Mapping):
            found[key] = merged(default, value)
        elif value is not None or key not in found:
            found[key] = value
    return found


def _sentence(parts: tuple[str | int, ...], message: str) -> str:
    where = ".".join(str(part) for part in parts)
    return f"{shown(where)}: {message}." if where else f"{message[:1].upper()}{message[1:]}."
