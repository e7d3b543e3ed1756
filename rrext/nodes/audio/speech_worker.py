"""The process that speaks: `python -m rrext.nodes.audio.speech_worker`.

It loads eSpeak NG by `ctypes`, bounds its memory and, where the kernel can, gives up the network and all files but those of the
voices before the first text comes. It ends when the server closes its end.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any, Final

import msgspec

from rrext.errors import ToolError
from rrext.nodes.audio.records import AudioSettings, Speak, SpeechMessage, SpokenSound, SpokenVoice
from rrext.nodes.child.walls import PACKAGE, STANDARD, bound_memory, fall_silent, lock_in
from rrext.nodes.child.worker import answer_of, begin, receive

GENDERS: Final = {"male": 1, "female": 2}
"""Numbers of eSpeak NG."""


def main() -> None:
    """Serve requests until the server is gone."""
    requests, answers, settings = begin(AudioSettings)
    bound_memory(settings.memory)
    speakers: list[Speaker] = []
    decoder = msgspec.msgpack.Decoder(SpeechMessage)
    while (received := receive(requests)) is not None:
        message = decoder.decode(received[1])
        if isinstance(message, Speak):
            answers.send(received[0], answer_of(lambda message=message: _spoken(speakers, message), "The speech process"))
    os._exit(0)


def _spoken(speakers: list[Speaker], message: Speak) -> SpokenSound:
    if not speakers:
        speakers.append(Speaker())
        _shut_off(speakers[0].folder)
    return speakers[0].speak(message.text, message.voice)


def _shut_off(folder: str) -> None:
    nothing = os.open(os.devnull, os.O_WRONLY)
    lock_in(*STANDARD, PACKAGE, folder)
    fall_silent(nothing)


class EspeakVoice(ctypes.Structure):
    """A voice as the library has it."""

    _fields_ = [  # read by ctypes
        ("name", ctypes.c_char_p),
        ("languages", ctypes.c_char_p),
        ("identifier", ctypes.c_char_p),
        ("gender", ctypes.c_ubyte),
        ("age", ctypes.c_ubyte),
        ("variant", ctypes.c_ubyte),
        ("reserved", ctypes.c_ubyte),
        ("score", ctypes.c_int),
        ("spare", ctypes.c_void_p),
    ]


Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
SYNCHRONOUS, RETURNS_ERRORS, CHARACTERS, UTF_8, RATE = 2, 0x8000, 1, 1, 1
"""Constants of `speak_lib.h`. Without the flag for SSML, marks in a text are read as they stand."""


class Speaker:
    """eSpeak NG in this process."""

    def __init__(self) -> None:
        """Load the library and its voices. Raises `ToolError`."""
        import espeakng_loader

        self.folder = str(Path(espeakng_loader.__file__).parent)
        self._library: Any = ctypes.CDLL(espeakng_loader.get_library_path())
        self._samples = bytearray()
        self._callback = Callback(self._take)
        self._rate: int = self._library.espeak_Initialize(
            SYNCHRONOUS, 0, os.fsencode(espeakng_loader.get_data_path()), RETURNS_ERRORS
        )
        if self._rate <= 0:
            raise ToolError("eSpeak NG cannot load its voices", code="speech_failed")
        self._library.espeak_SetSynthCallback(self._callback)
        pointer, number = ctypes.c_void_p, ctypes.c_uint
        self._library.espeak_Synth.argtypes = [pointer, ctypes.c_size_t, number, number, number, number, pointer, pointer]

    def speak(self, text: str, voice: SpokenVoice) -> SpokenSound:
        """The sound of a text. Raises `ToolError`: `speech_language` for a language without a voice, `speech_failed`."""
        wanted = EspeakVoice(languages=voice.language.encode("ascii", "replace"), gender=GENDERS[voice.gender])
        if self._library.espeak_SetVoiceByProperties(ctypes.byref(wanted)) != 0:
            raise ToolError(
                f'There is no voice for the language "{voice.language}"',
                code="speech_language",
                hint='Use a language of eSpeak NG, such as "en-us", "de" or "pt-br".',
            )
        self._library.espeak_SetParameter(RATE, voice.rate, 0)
        self._samples.clear()
        data = text.replace("\0", " ").encode("utf-8", "replace") + b"\0"
        failed = self._library.espeak_Synth(data, len(data), 0, CHARACTERS, 0, UTF_8, None, None)
        if failed:
            raise ToolError(f"eSpeak NG could not speak the text (error {failed})", code="speech_failed")
        return SpokenSound(bytes(self._samples), self._rate)

    def _take(self, samples: int | None, count: int, _: Any) -> int:
        if samples and count > 0:
            self._samples += ctypes.string_at(samples, 2 * count)
        return 0


if __name__ == "__main__":
    main()
