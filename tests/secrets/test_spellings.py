"""Each spelling of a secret is found, wherever it begins, wherever a stream is cut, and in time that grows with the text."""

from __future__ import annotations

import base64
import html
import io
import json
import re
import string
import sys
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rrext.connections import NO_CONNECTIONS
from rrext.engine.events.console import MAX_OUTPUT_LINE, Console
from rrext.pipefile.environment import Environment
from rrext.secrets import redaction
from rrext.secrets.redaction import RedactedStream, Redactor, ResultRedactor, folded
from rrext.tasks.task_engine import WorkerStderr

pytestmark = pytest.mark.promise("secrets:spellings")

SECRET = "w/Ord-7'+\"Zq%5&k=x"
LETTERS = string.ascii_lowercase + string.digits
PLAIN = "hunter2-Zq7Rk2Lm"
Spelt = Callable[[str], str]


def each(spelt: Spelt) -> Spelt:
    """Spells each character of a text."""
    return lambda text: "".join(map(spelt, text))


def nested(*layers: Spelt) -> Spelt:
    """Spells a text in layers, the inner one first."""

    def spelt(text: str) -> str:
        for layer in layers:
            text = layer(text)
        return text

    return spelt


def as_json(text: str) -> str:
    return json.dumps(text)[1:-1]


def slashed(text: str) -> str:
    """JSON as PHP and others write it."""
    return as_json(text).replace("/", "\\/")


def html_number(character: str) -> str:
    """HTML of a program that writes a number for all but letters and digits."""
    return character if character.isalnum() else f"&#{ord(character)};"


def re_escaped(text: str) -> str:
    """A text as a regular expression, a shell or Markdown has it."""
    return re.sub(r"([^\w\s])", r"\\\1", text)


CHARACTERS: dict[str, Spelt] = {
    "plain": lambda c: c,
    "\\u0077": lambda c: f"\\u{ord(c):04x}",
    "\\u0077 upper": lambda c: f"\\u{ord(c):04X}",
    "\\u{77}": lambda c: f"\\u{{{ord(c):x}}}",
    "\\x77": lambda c: f"\\x{ord(c):02x}",
    "%77": lambda c: f"%{ord(c):02X}",
    "&#119;": lambda c: f"&#{ord(c)};",
    "&#x77;": lambda c: f"&#x{ord(c):X};",
    "&#0119": lambda c: f"&#{ord(c):04};",
    "\\w": lambda c: c if c.isalnum() else f"\\{c}",
    "\\\\u0077": lambda c: f"\\\\u{ord(c):04x}",
    "%2577": lambda c: f"%25{ord(c):02x}",
    "&amp;#119;": lambda c: f"&amp;#{ord(c)};",
    "\\u002577": lambda c: f"\\u0025{ord(c):02x}",
}
TEXTS: dict[str, Spelt] = {
    "JSON": as_json,
    "JSON with \\/": slashed,
    "JSON in JSON": nested(as_json, as_json),
    "JSON in JSON in JSON": nested(as_json, as_json, as_json),
    "JSON with \\/ in JSON": nested(slashed, slashed),
    "URL": lambda text: quote(text, safe=""),
    "URL in JSON in HTML": nested(lambda text: quote(text, safe=""), each(CHARACTERS["\\u0077"]), html.escape),
    "HTML": html.escape,
    "HTML in JSON": nested(html.escape, slashed),
    "HTML in HTML": nested(html.escape, html.escape),
    "repr": lambda text: repr(text)[1:-1],
    "repr of bytes": lambda text: repr(text.encode())[2:-1],
    "hex": lambda text: text.encode().hex(),
    "HEX": lambda text: text.encode().hex().upper(),
    "base64 with \\/": lambda text: base64.b64encode(b"me:" + text.encode() + b"?>?>").decode().replace("/", "\\/"),
    "base64 in a URL": lambda text: quote(base64.b64encode(b"?>?" + text.encode()).decode(), safe=""),
    "base64 in JSON of .NET": lambda text: base64.b64encode(text.encode()).decode().replace("+", "\\u002B"),
    "base64 of JSON": lambda text: base64.b64encode(json.dumps({"key": text}).encode()).decode(),
    "base64 without padding": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    **{f"each {name}": each(spelt) for name, spelt in CHARACTERS.items()},
}


def knowing(*secrets: str) -> Redactor:
    redactor = Redactor()
    for secret in secrets:
        redactor.learn("K", secret)
    return redactor


def of_results(secret: str) -> ResultRedactor:
    redactor = ResultRedactor()
    redactor.learn("K", secret)
    return redactor


KNOWS = knowing(SECRET, PLAIN)


@pytest.mark.parametrize("spelt", TEXTS.values(), ids=TEXTS.keys())
@pytest.mark.parametrize("secret", [SECRET, PLAIN, "wörd-of-ünïcode/7"])
def test_each_spelling_is_found_in_texts_and_in_results(secret: str, spelt: Spelt) -> None:
    if not secret.isascii() and spelt not in (TEXTS["JSON"], TEXTS["URL"], TEXTS["HTML in JSON"], TEXTS["hex"]):
        return
    text = f"before {spelt(secret)} behind"
    if "base64" not in next(name for name, known in TEXTS.items() if known is spelt):
        assert knowing(secret).text(text) == "before ${K} behind"
        assert of_results(secret).value({"a": [text]}, folded({"a": [text]})) == {"a": ["before ${K} behind"]}
    else:
        assert "${K}" in knowing(secret).text(text)
        assert "${K}" in str(of_results(secret).value([text], folded([text])))


MIXED = st.lists(st.sampled_from([*CHARACTERS.values()]), min_size=len(PLAIN), max_size=len(PLAIN))


def mixed(spelt: list[Spelt]) -> str:
    return "".join(one(character) for one, character in zip(spelt, PLAIN, strict=True))


@given(MIXED, st.sampled_from(["", " ", "x", '{"a": "', "\n"]), st.sampled_from(["", " ", "y", '"}', "\n"]))
def test_a_secret_is_found_with_each_character_spelt_in_its_own_way(spelt: list[Spelt], before: str, behind: str) -> None:
    text = before + mixed(spelt) + behind
    assert KNOWS.text(text) == f"{before}${{K}}{behind}"
    assert of_results(PLAIN).value(text, folded(text)) == f"{before}${{K}}{behind}"


QUOTINGS = [as_json, slashed, lambda text: quote(text, safe=""), quote, html.escape, each(html_number), re_escaped]
SPELT = [each(CHARACTERS[name]) for name in ("plain", "\\u0077", "\\x77", "%77", "&#119;", "&#x77;")]
NOISE = "50% of <b>R&amp;D</b> say \"a\\n\" 'c:\\users' \\d+ /a%20b?x=1&y=%D0%BF hunter2 Zq7Rk2Lm " * 20


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from(QUOTINGS), max_size=1),
    st.sampled_from(SPELT),
    st.lists(st.sampled_from(QUOTINGS), max_size=2),
    st.sampled_from([SECRET, PLAIN, "a-b/c.d+e_f", "4815-162342"]),
    st.sampled_from([("", NOISE), (NOISE, ""), (NOISE, NOISE)]),
)
@example([], each(CHARACTERS["&#119;"]), [html.escape, html.escape], PLAIN, (NOISE, ""))
@example([], each(CHARACTERS["%77"]), [], "4815-162342", ("", ""))
@example([], each(CHARACTERS["plain"]), [each(html_number)], PLAIN, (NOISE, ""))
def test_a_secret_is_found_through_four_layers_wherever_in_a_long_text_it_stands(
    inner: list[Spelt], spelt: Spelt, outer: list[Spelt], secret: str, around: tuple[str, str]
) -> None:
    text = nested(*inner, spelt, *outer)(f"{around[0]} {secret} {around[1]}")
    assert knowing(secret).text(text).count("${K}") == 1
    assert str(of_results(secret).value([text], folded([text]))).count("${K}") == 1


def named(text: str) -> str:
    """HTML of a program that knows a name for each sign."""
    return text.translate({ord(sign): f"&{name};" for name, sign in redaction._ENTITIES.items() if sign in "&%#\\;"})


@pytest.mark.parametrize(
    "around", ["plain words of a letter ", NOISE[:60], "% & # ; \\ "], ids=["no signs", "signs", "only signs"]
)
@pytest.mark.parametrize(
    "outer", [str, as_json, named, html.escape, nested(named, html.escape), nested(named, re_escaped), nested(named, named)]
)
@pytest.mark.parametrize("name", [name for name in CHARACTERS if name not in ("plain", "\\w")])
def test_one_escape_of_a_letter_gives_a_secret_away_wherever_in_a_long_text_it_is(name: str, outer: Spelt, around: str) -> None:
    spelt = outer(PLAIN.replace("q", CHARACTERS[name]("q")))
    for times in (0, 60):
        text = f"{around * times} {spelt} {around * times}"
        assert KNOWS.text(text).count("${K}") == 1
        assert str(of_results(PLAIN).value([text], folded([text]))).count("${K}") == 1


@pytest.mark.parametrize("around", ["", NOISE], ids=["short", "long"])
@pytest.mark.parametrize("name", [name for name in CHARACTERS if name not in ("plain", "\\w")])
def test_each_letter_and_each_digit_gives_a_secret_away_if_it_alone_is_escaped(name: str, around: str) -> None:
    of_texts, of_results_ = knowing(LETTERS), of_results(LETTERS)
    for secret in (LETTERS, LETTERS.upper()):
        for character in secret:
            text = f"{around} {secret.replace(character, CHARACTERS[name](character))} {around}"
            assert of_texts.text(text) == f"{around} ${{K}} {around}"
            assert of_results_.value(text, folded(text)) == f"{around} ${{K}} {around}"


@pytest.mark.parametrize("secret", ["+/-_=+/-_=abc", "abc+/-_=+/-_=", "+/-_=abc+/-_="])
def test_a_secret_of_signs_is_found_from_its_letters_however_long_its_signs_are_spelt(secret: str) -> None:
    text = f"{NOISE} {html.escape(each(html_number)(secret))} {NOISE}"
    assert knowing(secret).text(text) == f"{NOISE} ${{K}} {NOISE}"
    assert of_results(secret).value(text, folded(text)) == f"{NOISE} ${{K}} {NOISE}"


@given(st.text(st.sampled_from('\\%&u0027x5;#amp"/ é…'), max_size=60))
@example("\\u0025" * 3 + "\\\\\\")
@example("&amp;amp;#37;32")
def test_a_text_without_secrets_stays_as_it_is_whatever_it_escapes(text: str) -> None:
    assert KNOWS.text(text) == text
    assert of_results(PLAIN).value([text], folded([text])) == [text]
    assert redaction.plain_of(redaction.plain_of(text)) == redaction.plain_of(text) or text.count("%") + text.count("&") > 3


@pytest.mark.parametrize(
    "text",
    [
        NOISE,
        'path = "C:\\\\Users\\\\me"; re.search(r"^\\s*(\\w+)\\.(\\d+)-\\[x\\]", text)\n',
        "<p>&copy; it&#39;s &lt;b&gt; &amp; &amp;nbsp;</p>",
        "https://example.com/?q=a%20b%2Fc%C3%A9%3D&rate=50%25&to=https%3A%2F%2Fx%3Fy%26z%3D1",
        '{"html": "\\u003cb\\u003e R \\u0026 D", "name": "\\u043f\\u0440"}',
        r"\alpha_{1} \times \mathbf{x}",
    ],
)
def test_a_text_full_of_escapes_is_not_decoded_if_they_hide_no_letter(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    of_texts, of_results_ = knowing(SECRET, PLAIN), of_results(PLAIN)
    of_texts.text("prepared")
    monkeypatch.setattr(redaction, "plain_of", lambda _: pytest.fail("decoded"))
    text = text.replace("hunter2", "").replace("Zq7Rk2Lm", "") * 20
    assert of_texts.text(text) == text
    assert of_results_.value([text], folded([text])) == [text]


@pytest.mark.parametrize("text", ["plain; words, #7\n", "https://example.com/?page=2&lang=en&rate=7\n"])
def test_a_text_whose_signs_begin_no_escape_is_searched_for_none(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    of_texts, of_results_ = knowing(SECRET, PLAIN), of_results(PLAIN)
    monkeypatch.setattr(redaction, "_telling", lambda *_: pytest.fail("searched"))
    for times in (1, 200):
        assert of_texts.text(text * times) == text * times
        assert of_results_.value([text * times], folded([text * times])) == [text * times]


class Kept(io.StringIO):
    """A stream whose text can be read."""


def streamed(pieces: list[str], redactor: Redactor) -> str:
    kept = Kept()
    stream = RedactedStream(kept, redactor)
    for piece in pieces:
        assert stream.write(piece) == len(piece)
        stream.flush()
    stream.end()
    return kept.getvalue()


@pytest.mark.parametrize("spelt", TEXTS.values(), ids=TEXTS.keys())
def test_a_secret_is_found_in_a_stream_that_is_cut_anywhere(spelt: Spelt) -> None:
    text = f"before {spelt(SECRET)} behind {spelt(SECRET)}\nend"
    whole = KNOWS.text(text)
    for at in range(len(text) + 1):
        assert streamed([text[:at], text[at:]], KNOWS) == whole, text[:at]
    assert streamed(list(text), KNOWS) == whole


@pytest.mark.parametrize("outer", ["\\u0077", "\\u{77}", "%77", "&#119;"])
@pytest.mark.parametrize("inner", ["\\u0077", "\\x77", "%77", "&#x77;"])
def test_a_secret_whose_escapes_are_escaped_is_found_in_a_stream_of_single_characters(inner: str, outer: str) -> None:
    spelt = nested(each(CHARACTERS[inner]), each(CHARACTERS[outer]))
    for secret in (PLAIN, "q}61LoHE"):
        assert streamed([*"x", *spelt(secret), *"y\n"], knowing(secret)) == "x${K}y\n"


@pytest.mark.parametrize("short", ["4711x", "4711x-7", "4711x-78"])
def test_a_short_secret_is_found_in_a_stream_beside_a_long_one(short: str) -> None:
    redactor = knowing(short, PLAIN * 20)
    text = f"the pin {short} opens the door " + "and all others " * 30
    assert streamed([text, "\n", *text], redactor) == f"{text}\n{text}".replace(short, "${K}")


def test_a_backslash_in_a_secret_makes_it_no_shorter_for_results() -> None:
    secret = "p>bY[D\\D"
    for spelt in ("\\x77", "%77", "&#119;", "\\\\u0077"):
        value = {"a": f'"{each(CHARACTERS[spelt])(secret)}"'}
        assert of_results(secret).value(value, folded(value)) == {"a": '"${K}"'}


@settings(max_examples=40)
@given(MIXED, st.lists(st.integers(0, 120), max_size=6), st.sampled_from(["", "\n", "x", "hunter", "%", "\\", "&am"]))
def test_a_stream_in_pieces_has_no_secret_that_the_whole_text_has_not(spelt: list[Spelt], cuts: list[int], before: str) -> None:
    text = f"{before}{mixed(spelt)} {PLAIN}"
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[start:end] for start, end in pairwise(places)]
    assert streamed(pieces, KNOWS) == KNOWS.text(text)


def test_a_line_that_cannot_begin_a_secret_goes_out_when_it_is_flushed() -> None:
    kept = Kept()
    stream = RedactedStream(kept, KNOWS)
    for text in ("Name: ", "50%\r", "a line\n", "100 of 200 "):
        stream.write(text)
        stream.flush()
        assert kept.getvalue().endswith(text)
    stream.write("hunt")
    assert not kept.getvalue().endswith("hunt")
    stream.write("ing\n")
    assert kept.getvalue().endswith("hunting\n")


def test_a_secret_across_the_border_of_a_line_that_is_too_long_is_in_no_event(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    hub = SimpleNamespace(redactor=KNOWS, wants=lambda _: True, post=lambda work: work(), pace=lambda work: work())
    hub.deliver = lambda event: told.append(event.text)
    hub.shown_text = lambda text, most: KNOWS.text(text[:most])
    head = dict.fromkeys(("token", "project_id", "source", "owner", "connection_id", "user_id", "pipe_id"))
    by = SimpleNamespace(event_origin=SimpleNamespace(events=hub, head=head))
    monkeypatch.setattr("rrext.engine.events.console.speaker", lambda: by)
    console = Console(cast(Any, hub))
    for at in range(1, len(PLAIN)):
        told.clear()
        console.printed("x" * (MAX_OUTPUT_LINE + 1 - at) + " " + PLAIN[:at])
        console.printed(PLAIN[at:] + "\n")
        assert PLAIN[at:] not in "".join(told)
        assert PLAIN not in "".join(told).replace("\n", "")


def test_a_secret_across_the_border_of_a_workers_line_is_in_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept()
    monkeypatch.setattr(sys, "stderr", kept)
    for at in range(1, len(PLAIN)):
        stderr = WorkerStderr(Environment({"ROCKETRIDE_K": PLAIN}), NO_CONNECTIONS, 64)
        stderr.write(1, b"y" * 64 + b" " + PLAIN[:at].encode())
        stderr.write(1, PLAIN[at:].encode() + b"\n")
        stderr.end(1)
    assert PLAIN not in kept.getvalue().replace("\n", "")
    assert kept.getvalue().count("${ROCKETRIDE_K}") == len(PLAIN) - 1


HARD = ["\\", "\\\\u", "%", "%25", "&", "&amp;", "&#0", "hunter2-", "...", "a", "\\u00", SECRET[:9], "0"]


@pytest.mark.parametrize("piece", HARD)
def test_the_time_for_a_text_grows_with_its_length_alone(piece: str) -> None:
    """Each regular expression reads a text of its hardest kind; the limit of the test is a hundred times what that takes."""
    text = (piece * (200_000 // len(piece)))[:200_000]
    assert KNOWS.text(text) == text or piece in (SECRET[:9], "hunter2-", "...")
    of_results(PLAIN).value([text], folded([text]))
    assert KNOWS.begun(text) <= len(text)
