"""`text_output` writes the text of objects below one folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rrext.errors import RrextError
from rrext.nodes.files.text_output import TextOutputNode
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.pipeline_loader import load_pipeline
from rrext.testing import open_node


def files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text("utf-8") for path in folder.rglob("*") if path.is_file()}


async def sent(root: Path, *objects: tuple[str, str], context: Any = None, **config: Any) -> list[str]:
    """The codes of the failures of objects, each a path and a text."""
    codes: list[str] = []
    async with open_node(TextOutputNode, {"storePath": "out", **config}, root=root, context=context) as client:
        for path, text in objects:
            try:
                await client.send(text, mimetype="text/plain", objinfo={"name": path.rpartition("/")[2], "path": path})
            except RrextError as error:
                codes.append(error.code)
    return codes


async def test_each_object_has_a_file_of_its_path_and_one_without_text_has_none(tmp_path: Path) -> None:
    assert await sent(tmp_path, ("a/b.pdf", "words of ü"), ("/abs/c", "more"), ("d.md", ""), ("a/b.pdf", "new words")) == []
    assert files(tmp_path / "out") == {"a/b.txt": "new words", "abs/c.txt": "more"}


async def test_no_path_leads_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "link").symlink_to(tmp_path)
    objects = [(path, "x") for path in ("../up.md", "a/../../up.md", "link/up.md", "..\\up.md", "a/")]
    codes = await sent(tmp_path, *objects)
    assert codes == [*["path_outside_root"] * 2, "path_is_symlink", "path_outside_root", "path_outside"]
    assert files(tmp_path) == {}


async def test_two_objects_do_not_share_a_file_unless_the_extension_is_kept(tmp_path: Path) -> None:
    assert await sent(tmp_path, ("a.pdf", "one"), ("a.docx", "two")) == ["target_taken"]
    assert files(tmp_path / "out") == {"a.txt": "one"}
    assert await sent(tmp_path, ("a.pdf", "one"), ("a.docx", "two"), storePath="kept", keepExtension=True) == []
    assert files(tmp_path / "kept") == {"a.pdf.txt": "one", "a.docx.txt": "two"}


async def test_a_beginning_of_paths_is_left_out_and_others_fail(tmp_path: Path) -> None:
    parameters = {"storePath": "texts", "exclude": "Users/me/"}
    assert await sent(tmp_path, ("Users/me/a.md", "x"), ("other/b.md", "y"), parameters=parameters) == ["path_outside"]
    assert files(tmp_path / "texts") == {"a.txt": "x"}


async def test_users_and_spaces_have_folders_of_their_own(tmp_path: Path) -> None:
    for context in ({"userId": "ada"}, {"userId": ".."}, {"userId": "ada", "spaceId": "x/y"}):
        assert await sent(tmp_path, ("a.md", str(context)), context=context) == []
    assert set(files(tmp_path / "out")) == {"~ada/a.txt", "~../a.txt", "~ada/~~x%2Fy/a.txt"}


async def test_a_text_over_the_limit_and_a_node_without_a_folder_fail(tmp_path: Path) -> None:
    assert await sent(tmp_path, ("a.md", "ü" * 6), maxBytes=11) == ["text_too_large"]
    assert await sent(tmp_path, ("a.md", "x"), storePath="") == ["unavailable"]
    assert files(tmp_path) == {}


@pytest.mark.parametrize("provider", ["text_output", "local_text_output", "local-text-output"])
def test_rocketrides_settings_load_without_a_word(provider: str) -> None:
    config = {"profile": "default", "default": {"parameters": {"storePath": "x", "exclude": "N/A"}}}
    for given in ({"parameters": {"storePath": "x", "exclude": "N/A"}}, config):
        components = [
            {"id": "in", "provider": "webhook", "config": {}},
            {"id": "out", "provider": provider, "config": given, "input": [{"lane": "text", "from": "in"}]},
        ]
        loaded = load_pipeline({"components": components}, Catalog(), Environment())
        assert [problem.message for problem in loaded.problems] == []
