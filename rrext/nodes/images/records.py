"""Requests and answers of a process that reads pictures, in frames of `rrext.nodes.child.worker`."""

from __future__ import annotations

import msgspec

from rrext.errors import ToolError
from rrext.nodes.child.process import Cancel, ChildRequest


class PictureSettings(msgspec.Struct, frozen=True):
    """The first message to the process: the bytes of address space that it may have, and whether it loads the model."""

    memory: int
    reads_text: bool


class LoadLibraries(ChildRequest, frozen=True, tag=True):
    """Load the libraries, confined, before the first picture comes."""

    begins = True
    patience = 0.0


class MakeThumbnail(ChildRequest, frozen=True, tag=True):
    """Make a PNG of at most `size` × `size` pixels of a picture with at most `max_pixels`. The answer are its bytes."""

    data: bytes
    size: int
    max_pixels: int

    patience = 0.0


class ReadText(ChildRequest, frozen=True, tag=True):
    """Read the text in a picture with at most `max_pixels` in each of its first `max_frames` frames. The answer is a
    `PictureText`."""

    data: bytes
    max_pixels: int
    max_frames: int
    least: float

    patience = 0.0


class PictureText(msgspec.Struct, frozen=True):
    """The text in a picture, line by line, and what stands there as tables, in Markdown. `frames` is their number, of which
    `read` were read."""

    text: str
    tables: list[str]
    frames: int = 1
    read: int = 1


Message = LoadLibraries | MakeThumbnail | ReadText | Cancel
"""A message of the server. The process is killed for a cancelled call, so it never acts on `Cancel`."""


def corrupt(message: str) -> ToolError:
    """The error for a picture that is damaged, or none."""
    return ToolError(message, code="image_corrupt")


def too_large(message: str, *, hint: str | None = None) -> ToolError:
    """The error for a picture beyond a named limit."""
    return ToolError(message, code="image_too_large", hint=hint)
