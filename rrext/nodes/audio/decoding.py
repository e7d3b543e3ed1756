"""A sound of a stranger, decoded in a process for it alone, which has no files, no network and bounded memory.

The process is a fork of the player, made before a device starts threads: it has the sound, and writes its samples to a pipe as
fast as the player takes them.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
from typing import Final, NoReturn

from rrext.errors import ToolError, Unavailable
from rrext.nodes.child.walls import PACKAGE, STANDARD, lock_in

RATE: Final = 44_100
"""Samples in a second; RocketRide's, and what devices have."""
CHANNELS: Final = 2
"""Left and right."""
FRAME: Final = 2 * CHANNELS
"""Bytes of a sample of 16 bits for each channel."""
PIECE: Final = 4096
"""Samples that are decoded at once, a tenth of a second."""
STALLED: Final = 10.0
"""Seconds in which a decoder has begun, and in which a device that works takes something of a sound."""
FORMS: Final = "Sounds are WAV, MP3, FLAC or Ogg Vorbis."
CRASHED: Final = "player_crashed", "Try the sound in another form, such as WAV."

_BEGUN, _NO_SOUND = b"B", 3  # the first byte of a sound, before its samples; the exit code for what is none
_PR_SET_PDEATHSIG = 1
"""A number of prctl(2): the signal that a process gets when its parent ends."""


class DecodedSound:
    """The samples of a sound. Call `close` at its end."""

    def __init__(self, data: bytes) -> None:
        """Start to decode. Raises `ToolError` for what is no sound, or breaks the decoder, `Unavailable` without a process."""
        player = os.getpid()
        self._is_over = False
        self._samples, end = os.pipe()
        try:
            self._process = os.fork()
            if self._process == 0:
                _decode(data, end, player)
        except OSError as error:
            raise Unavailable(f"No process starts that decodes the sound: {error.strerror}") from None
        finally:
            os.close(end)
        ready, _, _ = select.select([self._samples], [], [], STALLED)
        if not ready or self._next(1) != _BEGUN:
            self.close()
            self.check()

    def read(self, count: int) -> bytes:
        """The next samples, as many as wanted; fewer only at the end."""
        data = bytearray()
        while len(data) < count * FRAME and (piece := self._next(count * FRAME - len(data))):
            data += piece
        return bytes(data)

    def _next(self, most: int) -> bytes:
        piece = os.read(self._samples, most)
        self._is_over = not piece
        return piece

    def close(self) -> None:
        """End the process, wherever it is; a `read` of another thread then comes to its end."""
        if self._process:
            if not self._is_over:  # else it ends just now
                os.kill(self._process, signal.SIGKILL)
            _, status = os.waitpid(self._process, 0)
            self._process, self._code = 0, os.waitstatus_to_exitcode(status)

    def check(self) -> None:
        """Raise `ToolError` if the closed process did not come to its end by itself."""
        if self._code == _NO_SOUND:
            raise ToolError("It is no sound of a known form", code="sound_unsupported", hint=FORMS)
        if self._code != 0:
            code, hint = CRASHED
            raise ToolError(f"Decoding it took too long or broke the decoder (exit code {self._code})", code=code, hint=hint)

    def __del__(self) -> None:
        os.close(self._samples)


def _decode(data: bytes, end: int, player: int) -> NoReturn:
    """Write the samples to `end`, behind walls, and end the process."""
    code = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, *map(ctypes.c_ulong, (signal.SIGKILL, 0, 0, 0)))
        if os.getppid() != player:
            os._exit(1)  # it ended before the line above
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        os.closerange(3, end)
        os.closerange(end + 1, most)
        import miniaudio

        lock_in(*STANDARD, PACKAGE)
        try:
            stream = miniaudio.stream_memory(data, nchannels=CHANNELS, sample_rate=RATE, frames_to_read=PIECE)
        except miniaudio.MiniaudioError:
            os._exit(_NO_SOUND)
        _write(end, _BEGUN)
        for piece in stream:
            _write(end, memoryview(piece).cast("B"))
        code = 0
    except BaseException:  # as a lack of memory: the player tells
        pass
    os._exit(code)


def _write(end: int, data: bytes | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(end, view) :]
