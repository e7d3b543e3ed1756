"""The templates of `rrext init` and `rrext new`: files in the folders beside this module, and the commands that come next.

A template NAME is the folder NAME. In names of files, texts and lines `$stem` and others stand for what a command puts there;
in lines `$file`, `$folder` and the others are paths, as a shell needs them. In names of the folder NAME stands for `$stem` or
`$module`, and code has `.txt` at its end, as it is none of this package.
"""

from __future__ import annotations

import os
from string import Template
from typing import Final, NamedTuple


class Starter(NamedTuple):
    """A template: the names of the files that it writes, the pipeline first, and the command lines that come next."""

    name: str
    summary: str
    files: tuple[str, ...]
    lines: tuple[str, ...]

    def sources(self) -> dict[str, str]:
        """Name of a file → that of its text, beside this module."""
        texts = {each: f"{self.name}/{Template(each).substitute(stem=self.name, module=self.name)}" for each in self.files}
        return {each: f"{text}.txt" if text.endswith((".py", ".toml")) else text for each, text in texts.items()}

    def texts(self) -> dict[str, str]:
        """Name of a file → its text."""
        found: dict[str, str] = {}
        for each, source in self.sources().items():
            with open(os.path.join(os.path.dirname(__file__), source), encoding="utf-8") as text:
                found[each] = text.read()
        return found


STARTERS: Final = {
    each.name: each
    for each in (
        Starter(
            "first",
            "files and texts",
            ("$stem.pipe",),
            ("rrext tool $file list_directory",),
        ),
        Starter(
            "documents",
            "search in documents",
            ("$stem.pipe", "$stem.cases.json", "$stem.files/library.md"),
            (
                "rrext send --sync $file $documents",
                "rrext tool $file search query='When is the library open?' top_k=1",
                "rrext test $file",
            ),
        ),
        Starter(
            "knowledge",
            "documents and questions",
            ("$stem.pipe",),
            (
                "rrext send --sync $file $folder",
                "rrext tool $file search_documents query='…'",
                "rrext chat $file",
                "rrext mcp $file --tools 'knowledge_1.*' --print-config claude",
            ),
        ),
        Starter(
            "sql",
            "a database",
            ("$stem.pipe", "$stem.cases.json", "$stem.sql"),
            ("rrext sql $file --write -f $statements", "rrext sql $file 'select sum(people) from visit'", "rrext test $file"),
        ),
        Starter(
            "api",
            "tools of your own in Python",
            ("$stem.pipe", "$stem.cases.json", "$stem.py", "rrext.toml"),
            (
                "rrext tools $file",
                "rrext tool $file find_orders status=open",
                "rrext test $file",
                "rrext mcp $file --print-config claude",
            ),
        ),
        Starter(
            "chat",
            "questions and answers",
            ("$stem.pipe", "$stem.cases.json"),
            ("rrext chat $file 'When are you open?'", "rrext test $file", "rrext show $file"),
        ),
        Starter(
            "agent",
            "a model with tools",
            ("$stem.pipe", "$stem.cases.json"),
            (
                "rrext chat $file 'Which files are here?'",
                "rrext test $file",
                "rrext tool $file run_agent query='Which files are here?'",
            ),
        ),
    )
}
"""Name of a template → what it writes."""

NODE_PACKAGE: Final = Starter(
    "node",
    "a node",
    ("pyproject.toml", "$module.py", "test_$module.py", "$module.pipe"),
    ("cd $folder", "pip install -e . && pytest", "rrext tool $pipeline count_words text='one two'"),
)
"""The package of a node. In texts `$name` is that of the package, `$module` that of the module and the provider, `$title` that
of the class.
"""
