"""Settings and requests of the processes that speak and play, in frames of `rrext.nodes.child.worker`."""

from __future__ import annotations

from typing import Literal

import msgspec

from rrext.nodes.child.process import Cancel, ChildRequest


class AudioSettings(msgspec.Struct, frozen=True):
    """The first message to a process: the bytes of address space that it may have."""

    memory: int


class SpokenVoice(msgspec.Struct, frozen=True):
    """A voice: a language as `en-us`, whether it is a woman's or a man's, and words in a minute."""

    language: str
    gender: Literal["male", "female"]
    rate: int


class Speak(ChildRequest, frozen=True, tag=True):
    """Speak a text. The answer is `SpokenSound`."""

    text: str
    voice: SpokenVoice

    patience = 0.0


class SpokenSound(msgspec.Struct, frozen=True):
    """Samples of 16 bits of one channel, and how many make a second."""

    samples: bytes
    rate: int


class Play(ChildRequest, frozen=True, tag=True):
    """Play a sound to its end. The answer is its length in seconds. `is_silent`: on no device."""

    data: bytes
    is_silent: bool

    patience = 0.0


SpeechMessage = Speak | Cancel
"""A message of the server to the process that speaks, which is killed for a cancelled call and never acts on `Cancel`."""

PlayerMessage = Play | Cancel
"""The same for the process that plays."""
