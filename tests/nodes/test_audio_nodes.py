"""`audio_tts` and `audio_player`: what is spoken, what is played, and what is refused."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import subprocess
import sys
import wave
from pathlib import Path
from typing import Any

import pytest

from rrext.engine.local_engine import LocalEngine
from rrext.errors import InvalidPipeline, RrextError, ToolError, Unavailable
from rrext.nodes.audio.decoding import DecodedSound
from rrext.nodes.audio.player import PlayerNode
from rrext.nodes.audio.speech import SpeechNode, wav_of
from rrext.nodes.base.lanes import Media, new_question
from rrext.testing import open_node, pair, run_node, run_pipeline

from running import component, pipeline  # isort: skip

speech = pytest.mark.skipif(SpeechNode.unavailable() is not None, reason="the extra `speech` is not installed")
sounds = pytest.mark.skipif(PlayerNode.unavailable() is not None, reason="the extra `audio` is not installed")


def spoken(*pieces: Any, lane: str = "text", **settings: Any) -> list[bytes]:
    """The sounds that come of payloads."""
    found: list[bytes] = []
    for media in run_node(SpeechNode, lane, *pieces, config=settings).get("audio", []):
        assert isinstance(media, Media)
        assert media.mime_type == "audio/wav"
        if media.action == "write":
            found.append(media.data)
    return found


def seconds(sound: bytes) -> float:
    with wave.open(io.BytesIO(sound)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 22_050)
        return file.getnframes() / file.getframerate()


@speech
def test_the_text_of_an_object_is_one_sound() -> None:
    (sound,) = spoken("The library is o", "pen from nine ", "to five.")
    (half,) = spoken("The library")
    assert 0.3 < seconds(half) < seconds(sound) < 10


@speech
def test_documents_questions_and_answers_are_spoken_each_by_itself_and_blank_ones_not_at_all() -> None:
    assert len(spoken([{"page_content": "One."}, {"page_content": "Two."}, {"page_content": " "}], lane="documents")) == 2
    assert len(spoken(new_question("Why?"), lane="questions")) == 1
    for answer in ("Because.", {"reason": "it is so"}):
        assert len(spoken({"answer": answer, "expectJson": False}, lane="answers")) == 1
    assert spoken(" \n ") == []


@speech
def test_the_voice_of_a_profile_has_its_language_and_gender() -> None:
    sounds_of = {
        name: spoken("Three hundred and sixty five days.", profile="kokoro", kokoro={"kokoro_voice": name})[0]
        for name in ("af_heart", "am_fenrir", "ef_dora", "ff_siwis")
    }
    assert len(set(sounds_of.values())) == len(sounds_of)
    assert spoken("Zwei.", language="de") != spoken("Zwei.")
    assert seconds(spoken("A slow sentence of six words.", rate=80)[0]) > seconds(
        spoken("A slow sentence of six words.", rate=300)[0]
    )


@speech
def test_a_long_text_is_spoken_part_by_part_and_whole() -> None:
    one = seconds(spoken("This is a sentence of some words. " * 10)[0])
    many = seconds(spoken("This is a sentence of some words. " * 200)[0])
    assert 18 < many / one < 22


@speech
@pytest.mark.parametrize("text", ["<break time='60s'/> word", "[[60 hello]] word", "wo\0rd", "💥 word"])
def test_marks_in_a_text_order_nothing(text: str) -> None:
    assert 0.1 < seconds(spoken({"answer": text, "expectJson": False}, lane="answers")[0]) < 30


@speech
def test_what_cannot_be_spoken_is_told() -> None:
    with pytest.raises(InvalidPipeline):
        spoken("a", kokoro_voice="nobody")
    with pytest.raises(ToolError, match='no voice for the language "xx"'):
        spoken("a", language="xx")
    with pytest.raises(ToolError) as caught:
        spoken("a" * 11, maxCharacters=10)
    assert caught.value.code == "text_too_large"
    with pytest.raises(ToolError) as caught:
        spoken("word " * 3000, timeout=0.001)
    assert caught.value.code == "speech_timeout"


@speech
async def test_after_a_text_that_took_too_long_the_next_one_is_spoken() -> None:
    emitted: dict[str, list[Any]] = {}
    async with open_node(SpeechNode, {"processes": 1, "timeout": 20.0}, emitted=emitted) as client:
        with pytest.raises(RrextError):
            async with client.pipe(mimetype="lane/answers") as pipe:
                await pipe.write(json.dumps({"answer": "word " * 3900, "expectJson": False}), timeout=0.01)
        async with client.pipe(mimetype="lane/answers") as pipe:
            await pipe.write(json.dumps({"answer": "word", "expectJson": False}))
    assert [media.action for media in emitted["audio"]][-3:] == ["begin", "write", "end"]


def played(*pieces: bytes, lane: str = "audio", **settings: Any) -> dict[str, list[Any]]:
    return run_node(PlayerNode, lane, *pieces, config={"silent": True, **settings})


TONE = wav_of([b"\0\1\0\2" * 500], 22_050)


@sounds
def test_a_sound_is_played_to_its_end() -> None:
    assert played(TONE[:50], TONE[50:]) == {}


@sounds
def test_what_is_no_sound_is_refused() -> None:
    for data in (b"no sound at all", TONE[:20], b"RIFF" + b"\xff" * 100):
        with pytest.raises(ToolError) as caught:
            played(data)
        assert caught.value.code == "sound_unsupported"
    with pytest.raises(ToolError) as caught:
        played(TONE, maxBytes=100)
    assert caught.value.code == "sound_too_large"
    with pytest.raises(ToolError, match="plays no films"):
        played(b"film", lane="video")


DECODER = """
import json, os, socket, sys, time
import miniaudio
from rrext.errors import ToolError
from rrext.nodes.audio import decoding
decoding.STALLED = 0.5
def tried(work):
    try:
        work()
    except OSError:
        return 0
    return 1
def stream(data, **settings):
    if data == b"endless":
        time.sleep(60)
    if data == b"broken":
        os.abort()
    if data == b"memory":
        raise MemoryError
    if data == b"none":
        raise miniaudio.DecodeError("none", 1)
    found = [
        tried(lambda: open(sys.argv[1])), tried(socket.socket), tried(lambda: os.kill(os.getppid(), 0)),
        tried(lambda: os.truncate(sys.argv[1], 0)), tried(lambda: os.listdir("/proc")),
    ]
    return iter([bytes(found), b"\\0" * 3, bytes(range(200))])
miniaudio.stream_memory = stream
def heard(data):
    try:
        sound = decoding.DecodedSound(data)
    except ToolError as error:
        return error.code
    try:
        return [sound.read(2).hex(), sound.read(1000).hex(), sound.read(1).hex()]
    finally:
        sound.close()
        sound.check()
print(json.dumps([heard(data) for data in (b"sound", b"endless", b"broken", b"memory", b"none", b"sound")]))
"""


@sounds
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the kernel keeps nothing from a decoder")
def test_a_decoder_reaches_no_files_no_network_and_no_process_and_breaks_alone(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("SECRET")
    command = [sys.executable, "-c", DECODER, str(tmp_path / "secret")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, *failures, last = json.loads(done.stdout)
    assert first == last == ["0" * 16, bytes(range(200)).hex(), ""]
    assert failures == ["player_crashed", "player_crashed", "player_crashed", "sound_unsupported"]
    assert (tmp_path / "secret").read_text() == "SECRET"


STALLING = """
import json, sys, time
import miniaudio
from rrext.errors import RrextError
from rrext.nodes.audio import decoding, player_worker
from rrext.nodes.audio.records import Play
def stream(data, **settings):
    yield bytes(4 * decoding.RATE // 20)
    time.sleep(60)
class Idle(miniaudio.PlaybackDevice):
    def start(self, source):
        source.send(1)
player_worker.STALLED = 0.5
if sys.argv[1] == "decoder":
    miniaudio.stream_memory = stream
else:
    miniaudio.PlaybackDevice = Idle
try:
    player_worker._play(Play(sys.stdin.buffer.read(), is_silent=True))
except RrextError as error:
    print(json.dumps([error.code, error.message, error.hint]))
"""


@sounds
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the kernel keeps nothing from a decoder")
@pytest.mark.parametrize(
    ("stalls", "code", "message", "hint"),
    [
        ("decoder", "player_crashed", "Decoding it took too long", "Try the sound in another form"),
        ("device", "unavailable", "The device that plays sounds takes no more", "Another program may hold the device"),
    ],
)
def test_what_stalls_in_a_sound_is_named_with_a_way_on(stalls: str, code: str, message: str, hint: str) -> None:
    done = subprocess.run([sys.executable, "-c", STALLING, stalls], input=TONE, capture_output=True, check=False)
    told = json.loads(done.stdout or done.stderr)
    assert [told[0], told[1][: len(message)], told[2][: len(hint)]] == [code, message, hint]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere descriptors have no list")
def test_a_decoder_that_does_not_start_leaves_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    def fork() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    def pipe() -> tuple[int, int]:
        ends = make()
        made.append(os.readlink(f"/proc/self/fd/{ends[0]}"))
        return ends

    make, made = os.pipe, list[str]()
    monkeypatch.setattr(os, "fork", fork)
    monkeypatch.setattr(os, "pipe", pipe)
    with pytest.raises(Unavailable, match="temporarily unavailable"):
        DecodedSound(TONE)
    gc.collect()  # it closes its other end
    assert made
    assert made[0] not in opened_pipes()


def opened_pipes() -> list[str]:
    """The pipes that this process has open."""
    found: list[str] = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found += [link for link in [os.readlink(f"/proc/self/fd/{number}")] if link.startswith("pipe:")]
    return found


@sounds
def test_without_a_device_the_node_says_so() -> None:
    if Path("/dev/snd").exists() or {"PULSE_SERVER", "XDG_RUNTIME_DIR"} & os.environ.keys():
        pytest.skip("this machine may have one")
    with pytest.raises(RrextError, match="no device that plays sounds"):
        played(TONE, silent=False)


@sounds
async def test_a_pipeline_of_the_network_plays_nothing() -> None:
    text = pipeline(component("in_1", "webhook"), component("player_1", "audio_player", "audio:in_1", silent=True))
    engine = LocalEngine()
    try:
        engine.load(text, token="t", owner="ada", remote=True)
        async with pair(engine, trusted=True) as client:
            with pytest.raises(Unavailable, match="came over a network"):
                await client.send(TONE, mimetype="audio/wav")
    finally:
        await engine.aclose()


@speech
@sounds
def test_a_text_file_is_read_spoken_and_played(tmp_path: Path) -> None:
    pytest.importorskip("kreuzberg", reason="the extra `docs` is not installed")
    text = pipeline(
        component("dropper_1", "dropper", hideForm=True, mode="Source", parameters={}, type="dropper"),
        component("parse_1", "parse", "tags:dropper_1"),
        component("audio_tts_1", "audio_tts", "text:parse_1", profile="kokoro", kokoro={"kokoro_voice": "am_fenrir"}),
        component("audio_player_1", "audio_player", "audio:audio_tts_1", silent=True),
        component("audio_1", "response_audio", "audio:audio_tts_1"),
    )
    body = run_pipeline(text, b"Hi.", mimetype="text/plain", objinfo={"name": "a.txt"})
    (piece,) = body["audio"]
    assert (piece["mimeType"], piece["aviAction"]) == ("audio/wav", "write")
    assert piece["size"] > 4000
