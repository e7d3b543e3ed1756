"""`text_output`: the text of each object becomes a file of a folder."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import blake2b
from typing import Annotated, Any, Final, TypedDict
from urllib.parse import quote

import msgspec

from rrext.errors import ToolError, Unavailable
from rrext.files.confinement import Confinement
from rrext.limits import MIB
from rrext.nodes.base.node import Entry, Node
from rrext.nodes.base.setup import path_below
from rrext.nodes.files.offered_files import open_root
from rrext.tools.context import ToolContext

NOTHING: Final = "N/A"
"""What RocketRide's editor writes for a beginning of paths that is not there."""

MAX_TARGETS: Final = 1_000_000
"""Files of which the node knows the object: about 100 MB. Of more, the later ones may replace others."""


class OutputParameters(TypedDict, total=False):
    """The settings, as RocketRide's editor writes them."""

    storePath: str
    exclude: str


class TextOutputNode(Node):
    """Writes the text of each object into a file below `storePath`, whole or not at all, when the object ends.

    The file has the path of the object, with `.txt` in place of its extension. No path leads out of the folder. Objects of a
    user stand in a folder of their own, those in a space of a user in one below it. An object that is sent again replaces its
    file, and one without text has none.
    """

    provider = "text_output"
    title = "Text output"
    class_types = ("target",)
    capabilities = ("filesystem",)
    lanes = {"text": ()}

    profiles = {"default": {}}
    default_profile = "default"
    paths = {"storePath": "folder", "parameters": "folder"}
    paths_may_be_shared = True
    shared: dict[int, str]
    config: Any

    class Config:
        storePath: Annotated[
            str, "The folder, made if it is not there. A relative one begins at --root, or else at the folder of the file."
        ] = ""
        exclude: Annotated[str, "The beginning of the objects' paths that is left out; N/A or empty: none."] = NOTHING
        parameters: Annotated[OutputParameters, "The same two, as RocketRide's editor writes them."] = {}
        keepExtension: Annotated[
            bool, "Whether `.txt` stands behind the extension: a.pdf and a.docx have each a file then."
        ] = False
        maxBytes: Annotated[int, msgspec.Meta(ge=1), "Bytes of a text. It is held in memory."] = 64 * MIB

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any) -> AsyncIterator[dict[int, str]]:
        """Keep which object each file is of."""
        yield {}

    def open(self, entry: Entry) -> None:
        self._entry = entry
        self._pieces: list[str] = []
        self._size = 0

    def write_text(self, text: str) -> None:
        self._size += len(text.encode("utf-8", "surrogatepass"))
        if self._size > self.config.maxBytes:
            raise ToolError(
                f"The text has more than {self.config.maxBytes:,} bytes (maxBytes)",
                code="text_too_large",
                hint=f'Raise "maxBytes" of node "{self.node_id}".',
            )
        self._pieces.append(text)

    def closing(self, ctx: ToolContext) -> None:
        text = "".join(self._pieces)
        if not text:
            return
        name = os.path.join(*_own_folder(ctx), self._name())
        key = self._taken(name)
        try:
            with self._folder() as files:
                files.make_directory(os.path.dirname(name))
                files.write(name, text.encode("utf-8", "replace"))
        except BaseException:
            self.shared.pop(key, None)  # of a file that was not written
            raise
        self._entry.metadata["textFile"] = name

    def _name(self) -> str:
        """The path of the file below the folder, which the folder checks when it is used. Raises `ToolError`."""
        path = self._entry.path or self._entry.name
        prefix = self._setting("exclude")
        if prefix not in ("", NOTHING):
            if not path.startswith(prefix):
                raise ToolError(f'The path "{path}" does not begin with "{prefix}" (exclude)', code="path_outside")
            path = path[len(prefix) :]
        path = path.replace("\\", "/").lstrip("/")
        stem = path if self.config.keepExtension else os.path.splitext(path)[0]
        if not stem or stem.endswith("/"):
            raise ToolError(f'The object "{self._entry.name}" has no name for its file', code="path_outside")
        return f"{stem}.txt"

    def _taken(self, name: str) -> int:
        """Note that a file is this object's; the key of the note. Raises `ToolError` if it is another one's."""
        key = int.from_bytes(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest())
        mine = self._entry.object_id
        if len(self.shared) < MAX_TARGETS and self.shared.setdefault(key, mine) != mine:
            raise ToolError(
                f'Another object has the file "{name}" already',
                code="target_taken",
                hint=f'Set "keepExtension": true of node "{self.node_id}", or give the objects other paths.',
            )
        return key

    def _setting(self, name: str) -> str:
        return self.config.parameters.get(name) or getattr(self.config, name)

    def _folder(self) -> Confinement:
        """The folder, made if it is not there. Raises `Unavailable`."""
        folder = self._setting("storePath")
        if not folder:
            raise Unavailable(f'Node "{self.node_id}" has no folder for its files', hint='Set "storePath" in its settings.')
        path = path_below(self.directory, folder, confined=self.confined, node_id=self.node_id)
        try:
            if self.confined:
                base = os.path.realpath(self.directory)
                with Confinement.at(base) as outer:
                    outer.make_directory(os.path.relpath(os.path.realpath(path), base))
            else:
                os.makedirs(path, exist_ok=True)
        except OSError as error:
            raise Unavailable(f'The folder "{folder}" cannot be made: {error.strerror or error}') from None
        return open_root(self, folder)


def _own_folder(ctx: ToolContext) -> list[str]:
    """The folder of the user, and of the space, in which an object is: nobody's objects are in none."""
    user = [] if ctx.user_id is None else [f"~{quote(ctx.user_id, safe='')}"]
    return user if ctx.space_id is None else [*user, f"~~{quote(ctx.space_id, safe='')}"]
