"""What a file is called elsewhere: its name in JSON, the URL of its object, and the MIME type that its extension says."""

from __future__ import annotations

import os
from functools import cache

UNKNOWN_TYPE = "application/octet-stream"

_PLAIN_TEXT = """
adoc asciidoc bib cc cfg clj cmake conf cpp cs cxx dart diff env erl ex exs fish go gql gradle graphql groovy hpp hs
ini java jl jsx kt kts less log lua m ml org patch php po pro properties proto ps1 pyi r rb rs rst sass scala scss sol sql
styl swift text tf tla toml ts tsx vb vue zig zsh
""".split()  # noqa: SIM905 – a table, read as words
"""Extensions of source texts that the standard library does not know; `ts` is TypeScript far more often than a film."""

_TYPES = {
    **dict.fromkeys(_PLAIN_TEXT, "text/plain"),
    "7z": "application/x-7z-compressed",
    "bash": "text/x-shellscript",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "eml": "message/rfc822",
    "epub": "application/epub+zip",
    "flac": "audio/flac",
    "gz": "application/gzip",
    "ics": "text/calendar",
    "ipynb": "application/x-ipynb+json",
    "js": "text/javascript",
    "jsonl": "application/x-ndjson",
    "m4a": "audio/mp4",
    "m4v": "video/mp4",
    "markdown": "text/markdown",
    "md": "text/markdown",
    "mjs": "text/javascript",
    "mkv": "video/x-matroska",
    "ndjson": "application/x-ndjson",
    "odp": "application/vnd.oasis.opendocument.presentation",
    "ods": "application/vnd.oasis.opendocument.spreadsheet",
    "odt": "application/vnd.oasis.opendocument.text",
    "oga": "audio/ogg",
    "ogg": "audio/ogg",
    "ogv": "video/ogg",
    "parquet": "application/vnd.apache.parquet",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "rtf": "application/rtf",
    "sh": "text/x-shellscript",
    "tex": "text/x-tex",
    "tgz": "application/gzip",
    "webp": "image/webp",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "yaml": "text/yaml",
    "yml": "text/yaml",
}
"""Extensions that the standard library lacks, or knows by a name that would keep text away from the text lane."""


def shown(path: str) -> str:
    """A path as text that JSON can hold: bytes of a name that are not UTF-8 become `\\xNN`."""
    return path if path.isascii() else os.fsencode(path).decode("utf-8", "backslashreplace")


def url_of(identity: str) -> str:
    """The URL by which a server knows a file: made from its identity, which it does not tell."""
    import uuid
    from urllib.parse import quote

    scheme = "file://" if identity.startswith("/") else "root:"
    return uuid.uuid5(uuid.NAMESPACE_URL, scheme + quote(os.fsencode(identity))).urn


def mime_type_of(path: str) -> str:
    """The MIME type that the extension says, the same on every machine; `application/octet-stream` for an unknown one."""
    return _types().get(os.path.splitext(path)[1].lower(), UNKNOWN_TYPE)


@cache
def _types() -> dict[str, str]:
    import mimetypes

    standard = mimetypes.MimeTypes().types_map[True]  # without the types of this machine's /etc/mime.types
    return {**standard, **{f".{extension}": kind for extension, kind in _TYPES.items()}}
