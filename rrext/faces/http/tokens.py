"""Tokens of clients, which stand for users: those of a file, or one alone."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import Final, NamedTuple

from rrext.errors import UsageError
from rrext.secrets.private_file import NotPrivate, read_private

MIN_TOKEN: Final = 16
"""Characters of a token; a shorter one can be guessed."""

MAX_TOKENS: Final = 500
"""Tokens of a file: each is compared with that of a request, and half of what the redactor keeps is for other secrets."""

OPERATOR: Final = "operator"
"""The user of a token that is the operator's."""


class ShownToken(NamedTuple):
    """A token that a client showed, as far as it is kept."""

    digest: bytes
    user: str


class UserTokens:
    """The users of tokens, `texts` (token → user). For comparison only hashes of the tokens are kept.

    `on_change` are called, on the loop's thread, after the tokens were replaced.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.on_change: list[Callable[[], object]] = []
        self._gone: frozenset[str] = frozenset()
        self._take(texts)

    def _take(self, texts: Mapping[str, str]) -> None:
        self.texts = texts
        self._known = [ShownToken(sha256(token.encode()).digest(), user) for token, user in texts.items()]

    def replace(self, texts: Mapping[str, str]) -> None:
        """Take other tokens from now on. On the loop's thread."""
        if texts != self.texts:
            self._gone = (self._gone | self.users).difference(texts.values())
            self._take(texts)
            for action in self.on_change:
                action()

    @classmethod
    def of_file(cls, path: str, option: str = "--tokens") -> UserTokens:
        """The tokens of a file, which only its owner may read: TOML, a line `token = "user"` for each token.

        Raises `UsageError`, without a token in its message.
        """
        return cls(_tokens_of(path, option))

    @classmethod
    def of_file_alone(cls, path: str, option: str) -> UserTokens:
        """The one token of a file, which only its owner may read and which has nothing else, of the operator.

        Raises `UsageError`, without the token in its message.
        """
        try:
            token = read_private(path).strip()
        except NotPrivate as error:
            raise UsageError(f"{option} {error}") from None
        if len(token) < MIN_TOKEN or len(token.split()) > 1:
            raise UsageError(f"{option} {path}: expected a key alone, of {MIN_TOKEN} characters or more")
        return cls({token: OPERATOR})

    def find(self, token: str) -> ShownToken | None:
        """A token that is known. It takes the same time for every wrong one."""
        digest = sha256(token.encode("utf-8", "surrogatepass")).digest()
        found = None
        for known in self._known:
            if compare_digest(known.digest, digest):
                found = known
        return found

    def user_of(self, token: str) -> str | None:
        """The user of a token."""
        found = self.find(token)
        return None if found is None else found.user

    def holds(self, shown: ShownToken) -> bool:
        """Whether a token that was found before still stands for the same user."""
        return shown in self._known

    def is_gone(self, user: str | None) -> bool:
        """Whether a user has had tokens, and has none any more."""
        return user in self._gone

    @property
    def users(self) -> frozenset[str]:
        """The users of all tokens."""
        return frozenset(self.texts.values())


def _tokens_of(path: str, option: str) -> dict[str, str]:
    try:
        table = tomllib.loads(read_private(path))
    except NotPrivate as error:
        raise UsageError(f"{option} {error}") from None
    except (ValueError, RecursionError) as error:  # of a number that is too long it is no `TOMLDecodeError`
        where = re.search(r" \(at [^()]*\)$", str(error))  # what stands before it may be a token
        raise UsageError(f'{option} {path}: expected lines token = "user"{where[0] if where else ""}') from None
    if not table:
        raise UsageError(f'{option} {path}: it has no token; expected lines token = "user"')
    if len(table) > MAX_TOKENS:
        raise UsageError(f"{option} {path}: it has {len(table)} tokens, more than {MAX_TOKENS}")
    for number, (token, user) in enumerate(table.items(), 1):
        if not isinstance(user, str) or not user:
            raise UsageError(f'{option} {path}: token number {number} has no user; expected token = "user"')
        if len(token) < MIN_TOKEN:
            raise UsageError(f"{option} {path}: token number {number} has fewer than {MIN_TOKEN} characters")
    return table
