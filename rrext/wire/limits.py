"""Constants of the wire."""

from __future__ import annotations

from typing import Final

MAX_HANDSHAKE: Final = 64 * 1024
"""Bytes of the head of an HTTP answer that opens a WebSocket."""
