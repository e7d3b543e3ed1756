"""Secrets that stand literally in a pipeline file: keys of well-known services, and values of settings that hold secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import msgspec

from rrext.limits import MIN_LITERAL_SECRET
from rrext.pipefile.environment import NEVER, PREFIX
from rrext.pipefile.text.pointer import below

_WORD: Final = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+"
_WORDS: Final = frozenset({"auth", "bearer", "cookie", "cookies", "dsn", "pwd", "token"})
"""Words that mark a secret: `token` does, `maxTokens` and `author` do not."""
_ANYWHERE: Final = (
    "accesskey",
    "apikey",
    "authorization",
    "connectionstring",
    "credential",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "secret",
)
"""Parts of a key that mark a secret."""
_OPEN_KEYS: Final = frozenset({"cache", "foreign", "group", "lane", "partition", "primary", "public", "result", "row", "sort"})
"""Words before `key` that make it harmless."""

_FORMS: Final[dict[str, str]] = {
    "Anthropic": r"sk-ant-[\w-]{20,}",
    "OpenRouter": r"sk-or-[\w-]{20,}",
    "OpenAI or a service like it": r"sk-(?:proj-|svcacct-|admin-)?(?=[\w-]*[A-Z])[\w-]{20,}|sk-[0-9a-f]{32}(?!\w)",
    "AWS": r"(?:AKIA|ASIA)[A-Z0-9]{16}(?!\w)",
    "Google": r"AIza[\w-]{35}(?![\w-])",
    "GitHub": r"gh[pousr]_[A-Za-z0-9]{36,}|github_pat_\w{50,}",
    "GitLab": r"glpat-[\w-]{20,}",
    "Slack": r"xox[abeprs]-[A-Za-z0-9-]{20,}",
    "Stripe": r"[sr]k_(?:live|test)_[A-Za-z0-9]{20,}",
    "Hugging Face": r"hf_[A-Za-z0-9]{30,}",
    "Groq": r"gsk_[A-Za-z0-9]{40,}",
    "xAI": r"xai-[A-Za-z0-9]{40,}",
    "Perplexity": r"pplx-[A-Za-z0-9]{40,}",
    "Pinecone": r"pcsk_\w{40,}",
    "Replicate": r"r8_[A-Za-z0-9]{37,}",
    "Tavily": r"tvly-[A-Za-z0-9-]{20,}",
    "SendGrid": r"SG\.[\w-]{16,}\.[\w-]{16,}",
}
"""Service → the form of its keys, as the service documents or issues them."""
_KEYS: Final = "|".join(f"(?<![\\w-])(?P<s{place}>{form})" for place, form in enumerate(_FORMS.values()))
_PEM: Final = r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----\s*[A-Za-z0-9+/]"
_IN_URL: Final = r"://[^/\s:@]*:([^/\s@]+)@"
_NO_SECRET: Final = r"(?i)your|example|placeholder|dummy|changeme|change-me|redacted|not-needed|\.\.\.|\*\*|<|>"


SECURE: Final = "secureParameters"
"""The section in which RocketRide itself keeps encrypted values."""


class LiteralSecret(msgspec.Struct, frozen=True, gc=False):
    """A literal secret: the pointer of its text, the setting, what it is, and the secret itself, which no message may have."""

    path: str
    setting: str
    what: str
    secret: str

    def __repr__(self) -> str:
        return f"<LiteralSecret {self.path}: {self.what}>"


def is_secret(key: str) -> bool:
    """Whether a key likely names a secret: `api_key` does, `maxTokens` does not."""
    words = [word.lower() for word in re.findall(_WORD, key)]
    folded = "".join(words)
    if key == SECURE or not _WORDS.isdisjoint(words) or any(name in folded for name in _ANYWHERE):
        return True
    return any(after in ("key", "keys") and word not in _OPEN_KEYS for word, after in pairwise(words))


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


def secret_in(text: str, key: str) -> tuple[str, str] | None:
    """What the secret in a setting's text is, and the secret; None if there is none."""
    has_digits = any(map(str.isdigit, text))  # as all that is random; the patterns take a millisecond to compile
    for match in re.finditer(_KEYS, text, re.ASCII) if has_digits else ():
        if _is_random(match[0]):
            place = int((match.lastgroup or "s0")[1:])
            return f"a key of {list(_FORMS)[place]}", match[0]
    if "-----BEGIN" in text and re.search(_PEM, text) is not None:
        return "a private key", text
    for match in re.finditer(_IN_URL, text) if "://" in text else ():
        if _is_random(match[1]):
            return "a password in an address", match[1]
    if key and is_secret(key) and "${" not in text and _is_random(text):
        return "a secret", text
    return None


def variable_for(provider: str, key: str) -> str:
    """The name of an environment variable for a setting of a node."""
    name = PREFIX + re.sub("[^A-Za-z0-9]+", "_", f"{provider}_{key}").strip("_").upper()
    return f"{name}_VALUE" if name in NEVER else name


def _is_random(text: str) -> bool:
    """Whether a text may be a real secret: no placeholder, no name, no sentence."""
    if len(text) < MIN_LITERAL_SECRET or "${" in text or re.search(_NO_SECRET, text) is not None or any(map(str.isspace, text)):
        return False
    return any(map(str.isdigit, text)) and any(map(str.isalpha, text)) and len(set(text)) > MIN_LITERAL_SECRET // 2
