"""`audio_tts`: texts become speech, by eSpeak NG in a process of its own."""

from __future__ import annotations

import io
import wave
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final, Literal

import msgspec

from rrext.errors import ToolError, Unavailable
from rrext.limits import MIB
from rrext.nodes.audio.records import AudioSettings, Speak, SpokenSound, SpokenVoice
from rrext.nodes.base.lanes import Media, question_text
from rrext.nodes.base.node import Entry, Node
from rrext.nodes.base.setup import SetupContext, missing_packages
from rrext.nodes.child.pool import ProcessPool
from rrext.nodes.child.process import NodeProcess, ProcessLost, module_command
from rrext.nodes.documents.splitter import Characters, Splitter
from rrext.nodes.text.gathered_text import GatheredText, require_size
from rrext.threads import FEW_HEAPS
from rrext.tools.context import ToolContext

PART: Final = 2000
"""Characters that are spoken at once: two minutes of sound, in a tenth of a second. Between parts a cancel is seen."""
WAV: Final = "audio/wav"
VOICE: Final = r"^[abefhijpz][fm]_[a-z]+$"

LANGUAGES: Final = {
    "a": "en-us",
    "b": "en-gb",
    "e": "es",
    "f": "fr-fr",
    "h": "hi",
    "i": "it",
    "j": "ja",
    "p": "pt-br",
    "z": "cmn",
}
"""The first letter of a voice of Kokoro → its language."""


class Speakers(ProcessPool[NodeProcess]):
    """Speaks in up to `processes` processes, with `memory` bytes each and `timeout` seconds for a part of a text."""

    def __init__(self, processes: int, memory: int, timeout: float) -> None:
        super().__init__(lambda: _speech_process(memory), processes)
        self._timeout = timeout

    def speak(self, parts: Iterable[str], voice: SpokenVoice, ctx: ToolContext) -> bytes:
        """A text as a file of sound (WAV). Raises `ToolError`, and the error of `ctx.check` for a cancelled call."""
        samples: list[bytes] = []
        rate = 0
        with self.lent(ctx) as process:
            for part in parts:
                ctx.check()
                try:
                    sound = msgspec.json.decode(process.ask(Speak(part, voice), ctx, self._timeout), type=SpokenSound)
                except TimeoutError:
                    raise ToolError(
                        f"Speaking it took more than {self._timeout:g} seconds (timeout)", code="speech_timeout"
                    ) from None
                except ProcessLost:
                    ctx.check()
                    self.check_open()
                    raise
                samples.append(sound.samples)
                rate = sound.rate
        return wav_of(samples, rate)


def _speech_process(memory: int) -> NodeProcess:
    return NodeProcess(
        module_command("rrext.nodes.audio.speech_worker"),
        AudioSettings(memory),
        what="speech",
        crash=("speech_crashed", 'Raise "memory" of the node, if it is a text that you trust.'),
        closed="The pipeline ends",
        variables=FEW_HEAPS,  # each arena takes address space, which is limited
    )


def wav_of(samples: Iterable[bytes], rate: int) -> bytes:
    """A file of sound: one channel of 16 bits."""
    packed = io.BytesIO()
    with wave.open(packed, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        for piece in samples:
            file.writeframesraw(piece)
    return packed.getvalue()


class SpeechNode(Node):
    """Speaks texts, documents, questions and answers. Each becomes a sound, a WAV file; the text of an object is one of them.

    The speaker is eSpeak NG, which knows a hundred languages and sounds like a machine. Of a voice of Kokoro, RocketRide's, it
    takes the language and whether it is a woman's: `am_fenrir` is American and a man's. `language` chooses another one.
    """

    provider = "audio_tts"
    title = "Text to speech"
    class_types = ("audio",)
    lanes = {"text": ("audio",), "documents": ("audio",), "questions": ("audio",), "answers": ("audio",)}
    profiles = {"kokoro": {}}
    default_profile = "kokoro"
    shared: Speakers

    class Config:
        engine: Annotated[Literal["kokoro", "espeak"], "Accepted from RocketRide's files: eSpeak NG speaks here."] = "kokoro"
        kokoro_voice: Annotated[str, msgspec.Meta(pattern=VOICE), "A voice of Kokoro: its language and gender count."] = (
            "af_heart"
        )
        language: Annotated[str, msgspec.Meta(max_length=40), "The language, as de or en-gb; empty: that of the voice."] = ""
        rate: Annotated[int, msgspec.Meta(ge=80, le=450), "Words in a minute."] = 175
        maxCharacters: Annotated[
            int, msgspec.Meta(ge=1), "Characters of one text: a thousand are a minute, and three megabytes of sound."
        ] = 20_000
        timeout: Annotated[float, msgspec.Meta(gt=0, le=3600), "Seconds for two minutes of speech; it takes tenths of one."] = (
            30.0
        )
        memory: Annotated[int, msgspec.Meta(ge=192), "MiB of address space of a process that speaks."] = 512
        processes: Annotated[int, msgspec.Meta(ge=1, le=64), "Texts that are spoken at a time, each in a process."] = 2

    @classmethod
    def unavailable(cls) -> str | None:
        """The missing package with eSpeak NG, if any."""
        return missing_packages("speech", "espeakng_loader")

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any, ctx: SetupContext) -> AsyncIterator[Speakers]:
        """Make the pool; its first process starts at the first text."""
        speakers = Speakers(config.processes, config.memory * MIB, config.timeout)
        try:
            yield speakers
        finally:
            await ctx.in_thread(speakers.close)

    def open(self, entry: Entry) -> None:
        self._gathered = GatheredText(self.node_id, self.config.maxCharacters)

    def write_text(self, text: str) -> None:
        self._gathered.add(text)

    def write_documents(self, documents: list[dict[str, Any]], ctx: ToolContext) -> None:
        for document in documents:
            self._speak(str(document.get("page_content") or ""), ctx)

    def write_questions(self, question: dict[str, Any], ctx: ToolContext) -> None:
        self._speak(question_text(question), ctx)

    def write_answers(self, answer: dict[str, Any], ctx: ToolContext) -> None:
        said = answer["answer"]
        self._speak(said if isinstance(said, str) else msgspec.json.encode(said).decode(), ctx)

    def closing(self, ctx: ToolContext) -> None:
        self._speak(self._gathered.whole(), ctx)

    def _speak(self, text: str, ctx: ToolContext) -> None:
        if not text.strip():
            return
        missing = self.unavailable()
        if missing is not None:
            raise Unavailable(missing)
        require_size(len(text), self.config.maxCharacters, self.node_id)
        config = self.config
        voice = SpokenVoice(
            config.language.strip() or LANGUAGES[config.kokoro_voice[0]],
            "female" if config.kokoro_voice[1] == "f" else "male",
            config.rate,
        )
        splitter = Splitter("sentences", Characters(PART))
        passages = (*splitter.feed(text), *splitter.finish())
        sound = self.shared.speak((passage.text for passage in passages), voice, ctx)
        for piece in (Media("begin", WAV), Media("write", WAV, sound), Media("end", WAV)):
            self.emit("audio", piece)
