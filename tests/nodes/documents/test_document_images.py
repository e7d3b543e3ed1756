"""`parse` sends the pictures of documents on, if a node takes them."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import docx
import pytest
from PIL import Image
from pptx import Presentation
from pptx.util import Emu
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen import canvas

from rrext.errors import RrextError, ToolError
from rrext.nodes.documents.conversion import read
from rrext.nodes.documents.records import DocumentRequest
from rrext.testing import open_pipeline

WANTED = DocumentRequest(images=True)


def picture(kind: str = "PNG", shade: int = 0) -> bytes:
    out = BytesIO()
    Image.new("RGB", (60, 40), (shade, 90, 200)).save(out, kind)
    return out.getvalue()


def word(*pictures: bytes, text: str = "some words") -> bytes:
    document = docx.Document()
    document.add_paragraph(text)
    for each in pictures:
        document.add_picture(BytesIO(each))
    out = BytesIO()
    document.save(out)
    return out.getvalue()


def pdf(*pages: bytes, text: str = "") -> bytes:
    out = BytesIO()
    drawn = canvas.Canvas(out)
    for each in pages:
        drawn.drawImage(ImageReader(BytesIO(each)), 50, 200)
        if text:
            drawn.drawString(50, 700, text)
        drawn.showPage()
    drawn.save()
    return out.getvalue()


def slides(*pictures: bytes) -> bytes:
    show = Presentation()
    for each in pictures:
        show.slides.add_slide(show.slide_layouts[6]).shapes.add_picture(BytesIO(each), Emu(0), Emu(0))
    out = BytesIO()
    show.save(out)
    return out.getvalue()


def kinds(data: bytes, request: DocumentRequest = WANTED) -> list[str]:
    return [image.mime_type for image in read(data, request).images]


def test_pictures_of_office_files_are_found_as_they_are() -> None:
    parsed = read(word(picture(), picture("JPEG")), WANTED)
    assert [image.data for image in parsed.images] == [picture(), picture("JPEG")]
    assert parsed.pieces[0].content.startswith("some words")
    assert kinds(slides(picture(shade=1), picture("GIF", shade=2))) == ["image/png", "image/gif"]


def test_pictures_of_pdfs_are_found_and_a_scan_without_text_is_no_empty_document() -> None:
    assert kinds(pdf(picture("JPEG"), picture(shade=9), text="words")) == ["image/jpeg", "image/png"]
    scan = pdf(picture())
    found = read(scan, WANTED).images[0]
    with Image.open(BytesIO(found.data)) as seen:
        assert (seen.size, seen.convert("RGB").getpixel((5, 5))) == ((60, 40), (0, 90, 200))
    with pytest.raises(ToolError) as failure:
        read(scan, DocumentRequest())
    assert failure.value.code == "document_empty"


def test_a_picture_that_comes_again_is_sent_once() -> None:
    assert kinds(pdf(picture(), picture(), text="a logo on each page")) == ["image/png"]


def test_none_are_looked_for_unless_they_are_wanted() -> None:
    assert kinds(word(picture()), DocumentRequest()) == []


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        (DocumentRequest(images=True, max_images=1), "maxImages"),
        (DocumentRequest(images=True, max_unpacked=40_000), "maxUnpacked"),
    ],
)
def test_too_many_or_too_large_pictures_fail_by_the_name_of_the_limit(request_: DocumentRequest, name: str) -> None:
    large = BytesIO()
    Image.effect_noise((300, 300), 90).save(large, "PNG")
    with pytest.raises(ToolError) as failure:
        read(pdf(picture(), large.getvalue(), text="x"), request_)
    assert (failure.value.code, name in failure.value.message) == ("document_too_large", True)


def pipeline(*lanes: str) -> dict[str, Any]:
    inputs = [{"lane": lane, "from": "parse_1"} for lane in lanes]
    return {
        "components": [
            {"id": "in", "provider": "dropper", "config": {}},
            {"id": "parse_1", "provider": "parse", "config": {}, "input": [{"lane": "tags", "from": "in"}]},
            {"id": "out", "provider": "response", "config": {}, "input": inputs},
        ]
    }


async def test_pictures_and_files_with_pictures_come_out_on_the_lane_from_a_confined_process() -> None:
    async with open_pipeline(pipeline("text", "image")) as client:
        for name, data in (("a.docx", word(picture())), ("a.pdf", pdf(picture(), text="words")), ("a.png", picture())):
            result = await client.send(data, mimetype="application/octet-stream", objinfo={"name": name})
            assert [image["mime_type"] for image in result["image"]] == ["image/png"], name
            assert ("text" in result) == (name != "a.png")
        assert result["metadata"]["mimeType"] == "image/png"


async def test_a_picture_that_nobody_takes_is_not_read() -> None:
    async with open_pipeline(pipeline("text")) as client:
        with pytest.raises(RrextError) as failure:
            await client.send(picture(), mimetype="image/png", objinfo={"name": "a.png"})
    assert failure.value.code == "document_unsupported"
