"""Origins of pages, as browsers send them."""

from __future__ import annotations

from urllib.parse import urlsplit


def checked_origin(text: str) -> str:
    """An origin of `--allow-origin`. Raises `ValueError`."""
    parts = urlsplit(text)
    if not parts.scheme or not parts.netloc or f"{parts.scheme}://{parts.netloc}" != text:
        raise ValueError(f"{text!r} is no origin: it is scheme://host[:port], as in https://example.org")
    return text
