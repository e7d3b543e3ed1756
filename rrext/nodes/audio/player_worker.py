"""The process that plays sounds: `python -m rrext.nodes.audio.player_worker`.

It bounds its memory, has a sound decoded and gives it to the device of this machine, one after the other. It is killed for a
call that is cancelled, which ends the sound.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from typing import Final

import msgspec

from rrext.errors import Unavailable
from rrext.nodes.audio.decoding import CHANNELS, FRAME, RATE, STALLED, DecodedSound
from rrext.nodes.audio.records import AudioSettings, Play, PlayerMessage
from rrext.nodes.child.walls import bound_memory, fall_silent
from rrext.nodes.child.worker import answer_of, begin, receive

BUFFER: Final = 100
"""Milliseconds that the device holds; this long after its last sample a sound is over."""

BUSY: Final = 'Another program may hold the device; "silent": true goes through sounds without one.'


def main() -> None:
    """Serve requests until the server is gone."""
    requests, answers, settings = begin(AudioSettings)
    bound_memory(settings.memory)
    fall_silent(os.open(os.devnull, os.O_WRONLY))  # sound libraries print lines for each device that is not there
    decoder = msgspec.msgpack.Decoder(PlayerMessage)
    while (received := receive(requests)) is not None:
        message = decoder.decode(received[1])
        if isinstance(message, Play):
            answers.send(received[0], answer_of(lambda message=message: _play(message), "The player"))
    os._exit(0)


def _play(message: Play) -> float:
    """Play a sound to its end; return its seconds. Raises `ToolError` for what is no sound, `Unavailable` without a device."""
    sound = DecodedSound(message.data)
    try:
        seconds = _played(sound, is_silent=message.is_silent)
    finally:
        sound.close()
    sound.check()
    return seconds


def _played(sound: DecodedSound, *, is_silent: bool) -> float:
    import miniaudio

    try:
        device = miniaudio.PlaybackDevice(
            nchannels=CHANNELS,
            sample_rate=RATE,
            buffersize_msec=BUFFER,
            backends=[miniaudio.Backend.NULL] if is_silent else None,
            app_name="rrext",
        )
    except miniaudio.MiniaudioError as error:
        raise _no_device(str(error.args[0])) from None
    if device.backend == "Null" and not is_silent:  # what the library takes if it finds no other
        device.close()
        raise _no_device("only a silent one was found")
    over = threading.Event()
    played = SampleCounter(sound, over)
    source = played.samples()
    next(source)
    try:
        device.start(source)
        heard = -1
        while not over.wait(STALLED):
            if played.count == heard:
                is_late = played.waits
                sound.close()  # a device waits for what its callback reads, before it ends
                if is_late:
                    break  # `check` tells that the decoder was ended
                raise Unavailable("The device that plays sounds takes no more of this one", hint=BUSY)
            heard = played.count
        threading.Event().wait(BUFFER / 1000)
    finally:
        device.close()
    return played.count / RATE


def _no_device(why: str) -> Unavailable:
    return Unavailable(f'This machine has no device that plays sounds ({why}); "silent": true goes through them without one')


class SampleCounter:
    """The samples of a sound, counted as the device takes them."""

    def __init__(self, sound: DecodedSound, over: threading.Event) -> None:
        self._sound = sound
        self._over = over
        self.count = 0
        self.waits = False
        """Whether the device waits for the decoder."""

    def samples(self) -> Generator[bytes, int, None]:
        """The generator that a device asks, with the number of samples that it wants."""
        wanted = yield b""
        try:
            while piece := self._read(wanted):
                self.count += len(piece) // FRAME
                wanted = yield piece
        finally:
            self._over.set()

    def _read(self, wanted: int) -> bytes:
        self.waits = True
        piece = self._sound.read(wanted)
        self.waits = False
        return piece


if __name__ == "__main__":
    main()
