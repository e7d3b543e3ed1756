"""The availability of a reference: a predicate from configuration and the identity of the caller."""

from __future__ import annotations

from typing import Any

import msgspec


class Availability(msgspec.Struct, frozen=True, kw_only=True):
    """Who may see and call a tool. Every condition must hold; `users` is None for all users."""

    name: str = ""
    space_required: bool = False
    users: frozenset[str] | None = None
    is_on: bool = True
    is_denied: bool = False

    def __call__(self, node: Any, ctx: Any) -> bool:
        if self.is_denied or not self.is_on:
            return False
        if ctx is None:
            return not self.space_required and self.users is None
        if self.space_required and ctx.space_id is None:
            return False
        return self.users is None or ctx.user_id in self.users

    @property
    def by_settings(self) -> bool:
        """Whether the configuration alone decides, so that the engine need not check each call."""
        return self.is_denied or not self.is_on or (not self.space_required and self.users is None)

    @property
    def refusal(self) -> str:
        """The first sentence of the error for a caller who may not use the tool; it names no other users."""
        if self.is_denied:
            return f'Tool "{self.name}" is denied by configuration'
        if not self.is_on:
            return f'Tool "{self.name}" is off by configuration'
        return f'Tool "{self.name}" is not available to this user and space'
