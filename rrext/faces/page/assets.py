"""The files of the status page: package data, which holds nothing of a server or a user."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from rrext.picture.colours import style_sheet
from rrext.picture.svg import ROOT

TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
NAMES: Final = ("index.html", "page.css", "main.js", "feed.js", "tasks.js", "picture.js", "elements.js", "icon.svg")
SAFETY: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""The headers of every answer of the page: nothing from elsewhere runs, is loaded, or frames it."""


class Asset(msgspec.Struct, frozen=True):
    """A file of the page."""

    data: bytes
    media_type: str
    etag: str

    def answer(self, request: Request) -> Response:
        """The file, or the word that the browser has it already."""
        headers = {**SAFETY, "ETag": self.etag, "Cache-Control": "no-cache"}
        known = {etag.strip().removeprefix("W/") for etag in request.headers.get("if-none-match", "").split(",")}
        if self.etag in known:
            return Response(status_code=304, headers=headers)
        return Response(self.data, headers=headers, media_type=self.media_type)


@cache
def assets() -> dict[str, Asset]:
    """All files by name. `picture.css` has the rules of pictures, which may not stand in them here."""
    folder = files("rrext.faces.page") / "static"
    texts = {name: (folder / name).read_bytes() for name in NAMES} | {"picture.css": style_sheet(ROOT).encode()}
    return {
        name: Asset(data, TYPES[name.rpartition(".")[2]], f'"{sha256(data).hexdigest()[:32]}"') for name, data in texts.items()
    }
