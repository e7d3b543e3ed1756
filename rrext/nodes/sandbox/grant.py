"""What the programs of one component may import beside the standard library, as the server and the warden know it."""

from __future__ import annotations

from typing import Final

import msgspec


class Grant(msgspec.Struct, frozen=True):
    """The packages of the programs, each with its version in `names`.

    `paths` are the files and folders that programs read. `modules` has the file of each module that is in no granted folder;
    a folder that distributions share ends with `/`. `distributions` has the folders of the metadata. `refused` says of other
    packages why they cannot be imported. `roots` are the folders in which packages are installed.
    """

    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    modules: dict[str, str] = {}
    distributions: dict[str, str] = {}
    refused: dict[str, str] = {}
    roots: tuple[str, ...] = ()

    def why_not(self, module: str) -> str:
        """Why programs cannot import a module."""
        alone = f"with {', '.join(self.names)}" if self.names else "alone"
        usual = f"programs have Python's standard library {alone}, and nothing can be installed"
        return self.refused.get(module.partition(".")[0], usual)


NOTHING: Final = Grant()
