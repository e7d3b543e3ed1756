"""The process that reads pictures, one after the other: `python -m rrext.nodes.images.worker`.

Its first message is `PictureSettings`. It bounds its memory, loads its libraries for `LoadLibraries`, and gives up the network
and all files but modules before the first picture. It ends when the server closes its end.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Callable
from functools import partial
from importlib import import_module
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rrext.errors import ToolError, Unavailable
from rrext.nodes.child.walls import PACKAGE, STANDARD, bound_memory, fall_silent, lock_in
from rrext.nodes.child.worker import Answer, Failed, answer_of, begin, receive
from rrext.nodes.images.layout import TextBox, lines_of, tables_of, text_of
from rrext.nodes.images.records import (
    LoadLibraries,
    MakeThumbnail,
    Message,
    PictureSettings,
    PictureText,
    ReadText,
    corrupt,
    too_large,
)

if TYPE_CHECKING:
    from PIL.Image import Image


FORMATS: Final = ("PNG", "JPEG", "WEBP", "GIF", "TIFF", "BMP", "AVIF", "JPEG2000", "ICO", "PPM", "TGA")
"""Pillow's names of what is read. It knows more, some of which start programs: EPS is drawn by Ghostscript."""


def main() -> None:
    """Serve requests until the server is gone."""
    requests, answers, settings = begin(PictureSettings)
    bound_memory(settings.memory)
    decoder = msgspec.msgpack.Decoder(Message)
    model: Any = None
    while (received := receive(requests)) is not None:
        call, message = received[0], decoder.decode(received[1])
        del received  # it holds the picture once more
        if isinstance(message, LoadLibraries):
            try:
                model = _load(settings.reads_text)
            except Exception as error:
                answers.send(call, Failed.of(Unavailable(f"The libraries for pictures cannot be loaded: {error}"[:400])))
            else:
                answers.send(call, answer_of(lambda: None, ""))
        elif isinstance(message, MakeThumbnail):
            answers.send(call, _answer(partial(_thumbnail, message)))
        elif isinstance(message, ReadText):
            answers.send(call, _answer(partial(_text, message, model)))
    os._exit(0)


SYSTEM: Final = ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache", "/proc/cpuinfo", "/sys/devices/system/cpu")
"""What the runtime of the model reads when it is imported: libraries, and which processor this is."""


def _load(reads_text: bool) -> Any:
    """Import the libraries, give up what the kernel can take, and return the model.

    The model's runtime starts threads when it is imported, which would stay outside of walls that are raised later: it is
    imported behind them.
    """
    from PIL import Image

    Image.init()  # all formats
    if reads_text:
        from rapidocr import RapidOCR

        import_module("cv2")  # which loads libraries of the system
    else:
        RapidOCR = None
    nothing = os.open(os.devnull, os.O_WRONLY)
    paths = sysconfig.get_paths()
    lock_in(*STANDARD, paths["purelib"], paths["platlib"], PACKAGE, *(SYSTEM if reads_text else ()))
    fall_silent(nothing)
    if RapidOCR is None:
        return None
    import numpy as np

    one = {"EngineConfig.onnxruntime.intra_op_num_threads": 1, "EngineConfig.onnxruntime.inter_op_num_threads": 1}
    model = RapidOCR(params={"Global.log_level": "critical", **one})
    model(np.full((64, 256, 3), 255, np.uint8))  # the model is read at its first picture
    return model


def _answer(work: Callable[[], Any]) -> Answer:
    """The answer to a picture: what `work` returns, or why the picture cannot be read."""

    def told() -> Any:
        try:
            return work()
        except ToolError:
            raise
        except MemoryError:
            raise too_large("Reading it takes more memory than is allowed (memory)") from None
        except Exception as error:
            raise corrupt(f"It cannot be read as a picture: {type(error).__name__}") from None

    return answer_of(told, "The reader of pictures")


def _opened(data: bytes, max_pixels: int) -> Image:
    from PIL import Image, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = None  # the size is looked at here, before any pixel is unpacked
    try:
        picture = Image.open(BytesIO(data), formats=[name for name in FORMATS if name in Image.OPEN])
    except UnidentifiedImageError:
        raise corrupt("It is no picture of a kind that can be read") from None
    _check_size(picture, max_pixels)
    return picture


def _check_size(picture: Image, max_pixels: int) -> None:
    width, height = picture.size
    if width * height > max_pixels:
        raise too_large(
            f"It has {width:,} × {height:,} pixels, and {max_pixels:,} are allowed (maxPixels)",
            hint='Raise "maxPixels" of the node, or send it smaller.',
        )


def _eight_bits(picture: Image) -> Image:
    """A picture with more than 256 greys, as of scanners, in 256 from its darkest to its brightest: Pillow makes white of all
    above the 255th.
    """
    if not picture.mode.startswith(("I", "F")):
        return picture
    fine = picture.convert("I") if picture.mode.startswith("I;") else picture
    found: Any = fine.getextrema()
    low, high = found
    scale = 255 / (high - low) if high > low else 1
    return fine.point(lambda value: value * scale - low * scale).convert("L")


def _thumbnail(message: MakeThumbnail) -> bytes:
    from PIL import ImageOps

    with _opened(message.data, message.max_pixels) as picture:
        picture.draft("RGB", (message.size, message.size))  # a JPEG is unpacked at a fraction of its size
        upright = _eight_bits(ImageOps.exif_transpose(picture))
        if upright.mode not in ("RGB", "RGBA", "L", "LA"):
            upright = upright.convert("RGBA" if "transparency" in upright.info or upright.mode == "PA" else "RGB")
        upright.thumbnail((message.size, message.size))
        out = BytesIO()
        upright.save(out, "PNG")  # without what cameras write into pictures
        return out.getvalue()


def _text(message: ReadText, model: Any) -> PictureText:
    import numpy as np
    from PIL import ImageOps

    texts: list[str] = []
    tables: list[str] = []
    with _opened(message.data, message.max_pixels) as picture:
        frames = getattr(picture, "n_frames", 1)
        for number in range(min(frames, message.max_frames)):
            if number:
                picture.seek(number)
                _check_size(picture, message.max_pixels)
            upright = _eight_bits(ImageOps.exif_transpose(picture))
            if upright.mode in ("RGBA", "LA", "PA", "P"):
                upright = _on_white(upright)
            pixels = np.asarray(upright.convert("RGB"))[:, :, ::-1]  # blue first, as the model wants it
            lines = lines_of(_boxes(model(np.ascontiguousarray(pixels)), message.least))
            texts.append(text_of(lines))
            tables += tables_of(lines)
    return PictureText("\n".join(filter(None, texts)), tables, frames, len(texts))


def _on_white(picture: Image) -> Image:
    """A picture on white paper: letters on a transparent ground may be drawn on any colour."""
    from PIL import Image

    clear = picture.convert("RGBA")
    paper = Image.new("RGBA", clear.size, "white")
    paper.alpha_composite(clear)
    return paper


def _boxes(found: Any, least: float) -> list[TextBox]:
    if found.txts is None:
        return []
    boxes: list[TextBox] = []
    for text, score, corners in zip(found.txts, found.scores, found.boxes, strict=True):
        if text.strip() and score >= least:
            across, down = corners[:, 0], corners[:, 1]
            boxes.append(TextBox(text.strip(), *map(float, (across.min(), down.min(), across.max(), down.max()))))
    return boxes


if __name__ == "__main__":
    main()
