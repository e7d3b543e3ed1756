"""`audio_player`: plays the sounds that reach it on this machine's device."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final

import msgspec

from rrext.errors import ToolError, Unavailable
from rrext.limits import MIB
from rrext.nodes.audio.decoding import CRASHED
from rrext.nodes.audio.records import AudioSettings, Play
from rrext.nodes.base.lanes import Media
from rrext.nodes.base.node import Entry, Node
from rrext.nodes.base.setup import SetupContext, missing_packages
from rrext.nodes.child.pool import ProcessPool
from rrext.nodes.child.process import NodeProcess, ProcessLost, module_command
from rrext.threads import FEW_HEAPS
from rrext.tools.context import ToolContext

SOUND_SERVER: Final = ("XDG_RUNTIME_DIR", "PULSE_SERVER", "PULSE_COOKIE", "PIPEWIRE_REMOTE", "PIPEWIRE_RUNTIME_DIR")
"""Variables by which a process finds the sound server of its user."""


class SoundPlayer(ProcessPool[NodeProcess]):
    """Plays one sound at a time, in a process of its own."""

    def __init__(self, memory: int) -> None:
        super().__init__(lambda: _player_process(memory), 1)

    def play(self, data: bytes, ctx: ToolContext, *, is_silent: bool) -> None:
        """Play a sound to its end. Raises `ToolError`, and the error of `ctx.check` for a cancelled call: the sound ends."""
        with self.lent(ctx) as process:
            try:
                process.ask(Play(data, is_silent), ctx)
            except (TimeoutError, ProcessLost):
                ctx.check()
                self.check_open()
                raise


def _player_process(memory: int) -> NodeProcess:
    return NodeProcess(
        module_command("rrext.nodes.audio.player_worker"),
        AudioSettings(memory),
        what="the player",
        crash=CRASHED,
        closed="The pipeline ends",
        variables={**FEW_HEAPS, **{name: os.environ[name] for name in SOUND_SERVER if name in os.environ}},
    )


class PlayerNode(Node):
    """Plays sounds on the device of the machine that runs it, one after the other. An object ends when its sounds are over.

    WAV, MP3, FLAC and Ogg Vorbis are played. Of a film nothing is: cut its sound out first. A cancel ends a sound. A pipeline
    that came over a network plays nothing.
    """

    provider = "audio_player"
    title = "Audio player"
    class_types = ("audio",)
    capabilities = ("nosaas",)
    lanes = {"audio": (), "video": ()}
    profiles = {"default": {}}
    default_profile = "default"
    shared: SoundPlayer

    class Config:
        silent: Annotated[bool, "Go through sounds in their time without a device, as for a trial."] = False
        maxBytes: Annotated[int, msgspec.Meta(ge=1), "Bytes of a sound; it is held in memory."] = 64 * MIB
        memory: Annotated[int, msgspec.Meta(ge=192), "MiB of address space of the process that plays."] = 512

    @classmethod
    def unavailable(cls) -> str | None:
        """The missing package for sounds, if any."""
        return missing_packages("audio", "miniaudio")

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any, ctx: SetupContext) -> AsyncIterator[SoundPlayer]:
        """Make the player; its process starts at the first sound."""
        if ctx.remote:
            raise Unavailable(
                f'Node "{ctx.node_id}" plays on this machine, and its pipeline came over a network',
                hint="The server may be started with --trust-clients.",
            )
        player = SoundPlayer(config.memory * MIB)
        try:
            yield player
        finally:
            await ctx.in_thread(player.close)

    def open(self, entry: Entry) -> None:
        self._data = bytearray()

    def write_audio(self, media: Media, ctx: ToolContext) -> None:
        if media.action == "begin":
            self._data.clear()
        elif media.action == "write":
            if len(self._data) + len(media.data) > self.config.maxBytes:
                raise ToolError(f"The sound has more than {self.config.maxBytes:,} bytes (maxBytes)", code="sound_too_large")
            self._data += media.data
        elif self._data:
            data, self._data = bytes(self._data), bytearray()
            missing = self.unavailable()
            if missing is not None:
                raise Unavailable(missing)
            self.shared.play(data, ctx, is_silent=self.config.silent)

    def write_video(self, media: Media) -> None:
        raise ToolError(
            f'Node "{self.node_id}" plays no films, nor their sound', code="sound_unsupported", hint="Cut the sound out first."
        )
