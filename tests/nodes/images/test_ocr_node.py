"""`ocr` reads the text and the tables in pictures, with the model that comes with its package."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from pictures_of_text import ROWS, encoded, picture

from rrext import Client
from rrext.errors import RrextError, Unavailable
from rrext.nodes.images.ocr import OcrNode
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.pipeline_loader import load_pipeline
from rrext.testing import open_node, open_pipeline

pytestmark = pytest.mark.timeout(240)
TABLE = "".join(f"| {' | '.join(row)} |\n" for row in (ROWS[0], ("---",) * 3, *ROWS[1:]))


async def text_in(client: Client, drawn: Any, kind: str = "PNG", **options: Any) -> dict[str, Any]:
    content = base64.b64encode(encoded(drawn, kind, **options)).decode()
    return await client.tool(tool="read_image", input={"content_base64": content})


async def test_text_and_tables_of_pictures_go_out_on_their_lanes() -> None:
    emitted: dict[str, list[Any]] = {}
    async with open_node(OcrNode, {"processes": 1}, emitted=emitted) as client:
        await client.send(encoded(picture(rows=ROWS)), mimetype="image/png")
        (text,), (table,) = emitted.pop("text"), emitted.pop("table")
        assert text.splitlines()[0] == "The quick brown fox"
        assert table == TABLE
        await client.send(encoded(picture(title="")), mimetype="image/png")
        assert emitted == {}, "nothing is in it"
        document = {"type": "Image", "page_content": base64.b64encode(encoded(picture())).decode(), "metadata": {"page": 3}}
        async with client.pipe(mimetype="lane/documents") as pipe:
            await pipe.write(json.dumps([document]))
        assert emitted["text"] == ["The quick brown fox\n"]
        assert emitted["documents"] == [[{**document, "type": "Document", "page_content": "The quick brown fox\n"}]]
        lines = base64.encodebytes(encoded(picture(), "PNG")).decode().replace("\n", "\r\n")
        wrapped = await client.tool(tool="read_image", input={"content_base64": f" {lines}\t"})
        assert wrapped["text"] == "The quick brown fox\n", "as `base64` and MIME write it"
        clear = await text_in(client, picture(mode="RGBA"))
        assert clear["text"] == "The quick brown fox\n", "black letters on a clear ground"
        frames = [picture(title=title) for title in ("first page", "second page", "third page")]
        pages = await text_in(client, frames[0], "TIFF", save_all=True, append_images=frames[1:])
        assert (pages["text"], pages["frames"], pages["read"]) == ("first page\n\nsecond page\n\nthird page\n", 3, 3)
        for data in (b"no picture", encoded(picture())[:200]):
            with pytest.raises(RrextError) as failure:
                await client.send(data, mimetype="image/png")
            assert failure.value.code == "image_corrupt"
        assert (await text_in(client, picture()))["text"] == "The quick brown fox\n"


@pytest.mark.parametrize("profile", ["cyrillic", "arabic", "korean"])
async def test_a_script_that_the_model_does_not_know_is_told_before_anything_is_read(profile: str) -> None:
    async with open_node(OcrNode, {"profile": profile}) as client:
        with pytest.raises(Unavailable) as failure:
            await text_in(client, picture())
    assert f'"{profile}"' in failure.value.message


def test_rocketrides_pipelines_of_pictures_load_whole() -> None:
    parts = [
        ("in", "webhook", {}, []),
        ("parse_1", "parse", {}, [("tags", "in")]),
        ("thumbnail_1", "thumbnail", {}, [("image", "in")]),
        (
            "ocr_1",
            "ocr",
            {"profile": "doctr", "doctr": {"engine": "doctr", "table_engine": "doctr"}},
            [("documents", "thumbnail_1")],
        ),
        ("split_1", "preprocessor_langchain", {"profile": "default"}, [("text", "ocr_1")]),
        ("embedding_1", "embedding_transformer", {}, [("documents", "ocr_1")]),
        ("qdrant_1", "qdrant", {"profile": "local", "local": {"collection": "ocr"}}, [("documents", "embedding_1")]),
    ]
    components = [
        {"id": name, "provider": kind, "config": config, "input": [{"lane": lane, "from": start} for lane, start in edges]}
        for name, kind, config, edges in parts
    ]
    loaded = load_pipeline({"components": components}, Catalog(), Environment())
    assert [problem.message for problem in loaded.problems if problem.severity == "error"] == []
    assert loaded.spec is not None


async def test_a_picture_becomes_a_thumbnail_and_its_text() -> None:
    pipeline = {
        "components": [
            {"id": "in", "provider": "webhook", "config": {}},
            {"id": "small", "provider": "thumbnail", "config": {"size": 900}, "input": [{"lane": "image", "from": "in"}]},
            {"id": "read", "provider": "ocr", "config": {}, "input": [{"lane": "documents", "from": "small"}]},
            {"id": "out", "provider": "response_text", "config": {}, "input": [{"lane": "text", "from": "read"}]},
        ]
    }
    async with open_pipeline(pipeline) as client:
        result = await client.send(encoded(picture()), mimetype="image/png", objinfo={"name": "fox.png"})
    assert result["text"] == ["The quick brown fox\n\n\n"]
