"""`thumbnail` makes small pictures of pictures, and survives those that are none."""

from __future__ import annotations

import base64
import struct
import zlib
from io import BytesIO
from typing import Any

import pytest
from pictures_of_text import encoded, picture
from PIL import Image

from rrext.errors import RrextError
from rrext.nodes.base.lanes import Media
from rrext.nodes.images.thumbnail import ThumbnailNode
from rrext.testing import open_node, run_node


def sizes(found: bytes) -> tuple[tuple[int, int], str | None]:
    with Image.open(BytesIO(found)) as small:
        return small.size, small.format


def whole(media: list[Media]) -> bytes:
    assert [one.action for one in media] == ["begin", "write", "end"]
    assert {one.mime_type for one in media} == {"image/png"}
    return b"".join(one.data for one in media)


@pytest.mark.parametrize(
    ("drawn", "kind", "size"),
    [
        (picture(900, 300), "PNG", (128, 43)),
        (picture(300, 900), "JPEG", (43, 128)),
        (picture(60, 40), "WEBP", (60, 40)),
        (picture(500, 500, mode="RGBA"), "PNG", (128, 128)),
        (picture(400, 400).convert("P"), "GIF", (128, 128)),
        (picture(400, 400).convert("CMYK"), "TIFF", (128, 128)),
        (picture(400, 400).convert("1"), "BMP", (128, 128)),
    ],
)
def test_a_picture_of_each_kind_becomes_a_small_png_and_a_document(drawn: Any, kind: str, size: tuple[int, int]) -> None:
    emitted = run_node(ThumbnailNode, "image", encoded(drawn, kind))
    small = whole(emitted["image"])
    assert sizes(small) == (size, "PNG")
    ((document,),) = emitted["documents"]
    assert (document["type"], base64.b64decode(document["page_content"])) == ("Image", small)
    assert document["metadata"]["chunkId"] == 0


@pytest.mark.parametrize(("mode", "kind"), [("I;16", "PNG"), ("I", "TIFF"), ("F", "TIFF")])
def test_greys_of_many_bits_stay_apart(mode: str, kind: str) -> None:
    deep = Image.new(mode, (100, 100), 40_000)
    deep.paste(5_000, (0, 0, 50, 100))
    emitted = run_node(ThumbnailNode, "image", encoded(deep, kind))
    with Image.open(BytesIO(whole(emitted["image"]))) as small:
        assert [small.convert("L").getpixel((x, 50)) for x in (10, 90)] == [0, 255]


def test_a_photo_is_upright_and_loses_what_the_camera_wrote() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    exif[0x010F] = "the camera"
    emitted = run_node(ThumbnailNode, "image", encoded(picture(400, 200), "JPEG", exif=exif))
    small = whole(emitted["image"])
    assert sizes(small)[0] == (64, 128)
    assert b"the camera" not in small


def test_a_document_keeps_its_metadata_and_gets_the_small_picture() -> None:
    document = {"type": "Image", "page_content": base64.b64encode(encoded(picture())).decode(), "metadata": {"page": 3}}
    emitted = run_node(ThumbnailNode, "documents", [document], config={"size": 32})
    ((small,),) = emitted["documents"]
    assert small["metadata"] == {"page": 3}
    assert sizes(base64.b64decode(small["page_content"])) == ((32, 15), "PNG")


def bomb() -> bytes:
    """A PNG of a few bytes that says to have 60,000 × 60,000 pixels."""

    def part(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(b"\0" * 1000)) + part(b"IEND", b"")


async def test_what_is_no_picture_fails_its_object_with_the_reason_and_the_next_one_is_read() -> None:
    cut = encoded(picture())[:200]
    for data, code in (
        (b"no picture", "image_corrupt"),
        (cut, "image_corrupt"),
        (bomb(), "image_too_large"),
        (b"", "image_corrupt"),
        (encoded(picture(), "EPS"), "image_corrupt"),
    ):
        async with open_node(ThumbnailNode, {"processes": 1}) as client:
            with pytest.raises(RrextError) as failure:
                await client.send(data, mimetype="image/png")
            assert failure.value.code == code, data[:10]
            assert (await client.send(encoded(picture()), mimetype="image/png"))["name"]


async def test_limits_have_their_names_in_the_message() -> None:
    for config, name in (({"maxBytes": 100}, "maxBytes"), ({"maxPixels": 1000}, "maxPixels")):
        async with open_node(ThumbnailNode, config) as client:
            with pytest.raises(RrextError) as failure:
                await client.send(encoded(picture()), mimetype="image/png")
        assert (failure.value.code, name in failure.value.message) == ("image_too_large", True)


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ({"type": "Document", "page_content": "a text", "metadata": {}}, "document_not_image"),
        ({"type": "Image", "page_content": "no base64!", "metadata": {}}, "image_corrupt"),
        ({"type": "Image", "metadata": {}}, "image_corrupt"),
    ],
)
def test_documents_that_are_no_pictures_fail(document: dict[str, Any], code: str) -> None:
    with pytest.raises(RrextError) as failure:
        run_node(ThumbnailNode, "documents", [document])
    assert failure.value.code == code
