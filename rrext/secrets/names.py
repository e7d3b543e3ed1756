"""The one rule for which names and which values are secret, for connections, pipelines, editors and everything that is told.

A name is split into words, so all its spellings (`api_key`, `apiKey`, `X-API-Key`) are one name to the rule. `masked`
hides such values in what an editor shows, because its window is often shared, recorded or projected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from rrext.limits import MIN_LITERAL_SECRET

# The patterns are texts: compiling them would cost each start milliseconds, and most processes never need them.
SECURE: Final = "secureParameters"
"""The section in which RocketRide itself keeps encrypted values."""

PLACEHOLDER: Final = r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}"
"""A variable in a text, as a regular expression; its group is the name. It is a name, and no secret."""

_WORD: Final = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+"
_ANYWHERE: Final = (
    "accesskey|apikey|authorization|conn(?:ection)?str(?:ing)?|credential|kennwort|mnemonic(?!s)|motdepasse|passcode|passphrase|passw(?:or)?[dt]"
    "|privatekey|(?:recovery|seed)phrase|secret(?!ar)|sess(?:ion)?id|sharedaccess"
)
"""Parts of a name without its separators that mark a secret."""

_WORDS: Final = frozenset(
    {
        *("auth", "authentication", "bearer", "cookie", "cookies", "cred", "creds", "dsn", "jwt", "key", "keys", "oauth"),
        *("otp", "pass", "pat", "pwd", "session", "token"),
    }
)
"""Words that mark a secret: `token` does, `tokenizer` and `author` do not. `key` alone does, as a header is named."""

_LAST: Final = "sas"
"""A word that marks a secret at the end of a name, as a signature of access is named; elsewhere it names a program."""

_ENDS: Final = r"(.+?)(auth|cookies?|dsn|jwt|keys?|pass|pwd|token)"
"""Ends of a word that mark a secret as the word does: `dbpass`, `openaikey`."""

_ORDINARY: Final = frozenset(
    {
        *("by", "com", "im", "over", "sur", "tres", "under"),  # bypass, compass, …
        *("don", "hoc", "hot", "joc", "lac", "low", "malar", "mon", "smo", "tur", "turn", "whis"),  # monkey, hotkey, …
    }
)
"""Beginnings of words with such an end that mean something else."""

_OPEN: Final[dict[str, frozenset[str]]] = {
    "key": frozenset(
        {
            *("cache", "candidate", "composite", "dedup", "foreign", "group", "hash", "idempotency", "index", "join", "lane"),
            *("map", "natural", "order", "partition", "primary", "public", "range", "result", "routing", "row"),
            *("shard", "sort", "surrogate", "translation", "unique"),
        }
    ),
    "token": frozenset(
        {
            *("avg", "bos", "cls", "continuation", "eos", "first", "input", "last", "mask", "max", "min", "next", "num"),
            *("number", "output", "pad", "page", "per", "prompt", "sep", "special", "start", "stop", "sync", "total", "unk"),
        }
    ),
}
"""Words before `key` and `token` that make them harmless."""

_AFTER_KEY: Final = frozenset({"by", "code", "down", "frame", "frames", "pair", "pairs", "up", "value", "values", "word"})
"""Words after a `key` with nothing before that make it harmless."""

_PLURAL: Final = frozenset({"access", "api", "auth", "bearer", "bot", "client", "refresh", "secret", "service", "session"})
"""Words before `tokens` that say what they open; other tokens are counted."""

_ABOUT: Final = frozenset(
    {
        *("age", "budget", "class", "column", "count", "counts", "description", "dir", "directory", "enabled", "encoding"),
        *("endpoint", "expiration", "expires", "expiry", "field", "fields", "file", "filename", "folder", "format", "issuer"),
        *("kind", "label", "length", "lifetime", "limit", "limits", "max", "method", "methods", "min", "mode", "name", "names"),
        *("path", "placeholder", "policy", "provider", "rate", "region", "required", "rotation", "schema", "scope", "scopes"),
        *("size", "storage", "store", "style", "template", "through", "timeout", "title", "ttl", "type", "types", "uri", "url"),
        *("usage", "user", "username", "version", "window"),
    }
)
"""Last words of a name that is about a secret, and does not have it: `token_limit`, `password_policy`."""

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
IN_URL: Final = r"(?<=://)([^/\s:@]*):([^/?#\s]+|[^/\s@]+)(?=@)"
"""The name and the password in an address. The host stands behind the last `@`, as clients read it."""

_IN_PAIRS: Final = r"(?<![\w.-])([\w.-]{1,64})\s*=\s*('[^']+'|[^\s;&']+)"
"""A name and a value among the pairs of a connection string, or of a query."""

_SIGNED: Final = r"(?i)sig(?:nature)?|x-(?:amz|goog)-signature"
"""Names of pairs whose values open the address that is signed by them; under such a name alone a value may be anything."""

_SCHEME: Final = r"(?i)(?:api-?key|basic|bearer|bot|digest|jwt|key|negotiate|oauth|token)\s+(?=\S{8})"
"""The beginning of an authorization: its rest is a secret by itself."""

_NO_SECRET: Final = r"(?i)your|example|placeholder|dummy|changeme|change-me|redacted|not-needed|\.\.\.|\*\*|<|>"


MOST_KEPT: Final = 64
"""Characters of a name whose answer is kept: those of members come again and again, and longer ones are data."""


def is_secret(name: str) -> bool:
    """Whether a value of this name is a secret: that of `api_key` is, that of `max_tokens` is not."""
    return _is_secret(name) if len(name) <= MOST_KEPT else _is_secret.__wrapped__(name)


@lru_cache(maxsize=1024)
def _is_secret(name: str) -> bool:
    words = [word.lower() for word in re.findall(_WORD, name)]
    if name == SECURE:
        return True
    if not words or words[-1] in _ABOUT:
        return False
    if words[-1] == _LAST or re.search(_ANYWHERE, "".join(words)) is not None:
        return True
    return any(_marks(words, place) for place in range(len(words)))


def _marks(words: list[str], place: int) -> bool:
    """Whether a word of a name marks a secret, between those that stand beside it."""
    word, before, after = words[place], words[place - 1] if place else "", words[place + 1] if place + 1 < len(words) else ""
    if word == "tokens":
        return before in _PLURAL
    if word not in _WORDS:
        end = re.fullmatch(_ENDS, word)
        if end is None or end[1] in _ORDINARY:
            return False
        before, word = end[1], end[2]
    elif word in ("key", "keys") and (after in ("id", "ids") or (not before and after in _AFTER_KEY)):
        return False
    return before not in _OPEN.get(word.removesuffix("s"), ())


def is_authorization(value: str) -> bool:
    """Whether a value has the form of an authorization: a scheme and credentials."""
    return re.match(_SCHEME, value) is not None


def secrets_within(value: str) -> Iterator[str]:
    """The secrets within a value: the credentials of an authorization, passwords of addresses, values of pairs."""
    if (scheme := re.match(_SCHEME, value)) is not None:
        yield value[scheme.end() :]
    for match in re.finditer(IN_URL, value) if "://" in value else ():
        yield match[2]
    for match in re.finditer(_IN_PAIRS, value) if "=" in value else ():
        if is_secret(match[1]) or re.fullmatch(_SIGNED, match[1]) is not None:
            yield match[2].strip("'")


def is_secret_setting(name: str, value: str) -> bool:
    """Whether the value of a setting of a connection is a secret, by its name or by its form."""
    return is_secret(name) or secret_in(value, name) is not None or next(secrets_within(value), None) is not None


def secret_in(text: str, name: str) -> tuple[str, str] | None:
    """The kind of the secret in the text of a setting, and the secret; None if there is none."""
    has_digits = any(map(str.isdigit, text))  # as all that is random; the patterns take a millisecond to compile
    for match in re.finditer(_KEYS, text, re.ASCII) if has_digits else ():
        if _is_random(match[0]):
            place = int((match.lastgroup or "s0")[1:])
            return f"a key of {list(_FORMS)[place]}", match[0]
    if "-----BEGIN" in text and re.search(_PEM, text) is not None:
        return "a private key", text
    for match in re.finditer(IN_URL, text) if "://" in text else ():
        if _is_random(match[2]):
            return "a password in an address", match[2]
    if name and is_secret(name) and "${" not in text and _is_random(text):
        return "a secret", text
    return None


_KEY_STARTS: Final = (
    r"sk-|AKIA|ASIA|AIza|gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|[sr]k_(?:live|test)_|hf_|gsk_|xai-|pplx-|pcsk_|r8_|tvly-"
    r"|SG\."
)
"""How the keys of `_FORMS` begin: only there the forms are looked for, because texts may have megabytes."""

_PEM_WHOLE: Final = r"(?s)-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----.*?(?:-----END (?:[A-Z0-9]+ )*PRIVATE KEY-----|\Z)"
_PAIR: Final = r"(?<![\w.-])([\w.-]{1,64})[ \t]{0,8}=[ \t]{0,8}('[^']{1,256}'|[^\s;&'=]{1,256})"
_BEARER: Final = r"(?i)(?<=\bbearer\s)\s*([\w.~+/=-]{16,})"


def without_keys(value: Any) -> Any:
    """A JSON value without what its form alone says to be secret, wherever it stands in a text: keys of known services, private
    keys, bearer tokens, and values after the name of a secret and `=`.
    """
    if isinstance(value, dict):
        return {name: without_keys(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_keys(item) for item in value]
    return _without_keys(value) if isinstance(value, str) and len(value) >= MIN_LITERAL_SECRET else value


def _without_keys(text: str) -> str:
    spans = [match.span() for match in re.finditer(_PEM_WHOLE, text)] if "-----BEGIN" in text else []
    for start in re.finditer(_KEY_STARTS, text):
        if (key := _key_pattern().match(text, start.start())) is not None and _is_random(key[0]):
            spans.append(key.span())
    for pair in re.finditer(_PAIR, text) if "=" in text else ():
        if is_secret(pair[1]) and _is_random(pair[2]):
            spans.append(pair.span(2))
    if "earer" in text or "EARER" in text:
        spans += [match.span(1) for match in re.finditer(_BEARER, text) if _is_random(match[1])]
    if not spans:
        return text
    pieces: list[str] = []
    done = 0
    for start, end in sorted(spans):
        if start >= done:
            pieces += (text[done:start], HIDDEN)
        done = max(done, end)
    return "".join((*pieces, text[done:]))


@lru_cache(maxsize=1)
def _key_pattern() -> re.Pattern[str]:
    return re.compile(_KEYS, re.ASCII)


def _is_random(text: str) -> bool:
    """Whether a text may be a real secret: no placeholder, no name, no sentence."""
    if len(text) < MIN_LITERAL_SECRET or "${" in text or re.search(_NO_SECRET, text) is not None or any(map(str.isspace, text)):
        return False
    return any(map(str.isdigit, text)) and any(map(str.isalpha, text)) and len(set(text)) > MIN_LITERAL_SECRET // 2


HIDDEN: Final = "•••"


def without_user(text: str) -> str:
    """A text without the names and passwords in its addresses: a password may have any sign, so the last `@` ends it."""
    return re.sub(r"://\S*@", f"://{HIDDEN}@", text) if "://" in text else text


def authority_of(url: str) -> str:
    """The user and the host of a URL. Raises `ValueError` for an `@` behind them: a sign that is not percent-encoded may have
    cut a password, whose parts would pass for a host, a port and a path.
    """
    rest = url.partition("://")[2]
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    if authority and "@" in rest[len(authority) :]:
        raise ValueError("an @ stands behind the host")
    return authority


_VARIABLES: Final = rf"(?:{PLACEHOLDER})+"


def masked(value: Any, key: str = "", *, everything: bool = False) -> Any:
    """A JSON value with every secret hidden. Variables stay, because they are names and not values.

    Below a secret key, strings are hidden; below `secureParameters`, or with `everything`, all scalars except empty ones.
    """
    everything = everything or key == SECURE
    return _masked(value, is_secret(key) or everything, everything)


def _masked(value: Any, secret: bool, everything: bool) -> Any:
    if isinstance(value, dict):
        return {key: _masked(item, secret or is_secret(key), everything or key == SECURE) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(item, secret, everything) for item in value]
    if isinstance(value, str):
        if not value or ("$" in value and re.fullmatch(_VARIABLES, value)):
            return value
        return HIDDEN if secret else re.sub(IN_URL, rf"\1:{HIDDEN}", value) if "://" in value else value
    return HIDDEN if everything and value is not None else value
