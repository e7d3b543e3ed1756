"""Charsets that bytes show by themselves, in many languages; and what shows none is not guessed."""

from __future__ import annotations

import sys
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.charsets import codec_of, decoded
from rrext.errors import ToolError
from rrext.nodes.documents.detection import decode, detected, utf_16

TEXTS: Final = {
    "図書館は午前九時から午後五時まで開いています。本をなくした場合は、十ユーロを払います。": (
        "cp932",
        "euc_jp",
        "iso2022_jp",
    ),
    "도서관은 오전 아홉 시부터 오후 다섯 시까지 문을 엽니다. 책을 잃어버리면 십 유로를 내야 합니다.": ("cp949",),
    "图书馆从上午九点到下午五点开放。如果丢失了书，需要支付十欧元。详细情况请向服务台咨询。": ("gb18030",),
    "圖書館從上午九點到下午五點開放。如果遺失了書，需要支付十歐元。詳細情況請向服務台詢問。": ("cp950",),
    "Библиотека открыта с девяти утра до пяти вечера. За потерянную книгу нужно заплатить.": (
        *("cp1251", "koi8_r", "cp866", "iso8859_5"),
    ),
    "Бібліотека відкрита з дев'ятої ранку до п'ятої вечора. За втрачену книгу потрібно платити.": ("cp1251", "koi8_u"),
    "Η βιβλιοθήκη είναι ανοιχτή από τις εννέα έως τις πέντε. Ένα χαμένο βιβλίο κοστίζει δέκα.": ("cp1253", "iso8859_7"),
    "הספרייה פתוחה מתשע בבוקר עד חמש אחר הצהריים. ספר שאבד עולה עשרה יורו. שאלו בדלפק.": ("cp1255", "iso8859_8"),
    "المكتبة مفتوحة من التاسعة صباحا حتى الخامسة مساء. الكتاب المفقود يكلف عشرة يورو.": ("cp1256", "iso8859_6"),
    "ห้องสมุดเปิดตั้งแต่เก้าโมงเช้าถึงห้าโมงเย็น หนังสือที่หายต้องจ่ายสิบยูโร": ("cp874",),
    "La bibliothèque est ouverte de neuf heures à dix-sept heures. Un livre égaré coûte dix euros.": ("cp1252",),
    "Die Bücherei ist von neun bis siebzehn Uhr geöffnet. Näheres erfahren Sie an der Theke für größere Bände.": ("cp1252",),
    "La biblioteca está abierta de nueve a cinco. Un libro perdido cuesta diez euros. ¿Dónde está el niño?": ("cp1252",),
    "Jeśli zgubisz książkę, musisz zapłacić dziesięć euro. Proszę zwrócić ją w ciągu trzydziestu dni, wcześniej niż później.": (
        "cp1250",
        "iso8859_2",
    ),
    "Knihovna je otevřena od devíti do pěti. Když knihu ztratíte, zaplatíte deset eur. Příliš žluťoučký kůň úpěl ódy.": (
        "cp1250",
        "iso8859_2",
    ),
    "Kütüphane dokuzdan beşe kadar açıktır. Kaybolan bir kitap on avroya mal olur. Ayrıntıları sorunuz.": ("cp1254",),
    "“Quoted”, he said – and it’s “fine”…": ("cp1252",),
}
ROWS: Final = [(text, charset) for text, charsets in TEXTS.items() for charset in charsets]


@pytest.mark.parametrize(("text", "charset"), ROWS, ids=[f"{text[:9]}-{charset}" for text, charset in ROWS])
def test_bytes_of_a_language_show_their_charset(text: str, charset: str) -> None:
    shown = detected(text.encode(charset))
    assert shown is not None
    assert decoded(text.encode(charset), shown) == text


@pytest.mark.parametrize(("text", "charset"), ROWS, ids=[f"{text[:9]}-{charset}" for text, charset in ROWS])
def test_a_part_of_a_text_is_read_as_what_it_is_or_not_at_all(text: str, charset: str) -> None:
    for length in (*range(1, 12), 20, 30):
        for begin in range(0, len(text) - length, 9):
            part = text[begin : begin + length]
            shown = detected(part.encode(charset))
            assert shown is None or decoded(part.encode(charset), shown) == part


@pytest.mark.parametrize("order", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark_is_known_by_its_blanks(order: str) -> None:
    for text in ("hello, world.\n", "図書館、九時。\n", "один два\n"):
        assert utf_16(text.encode(order)) == order
    assert utf_16("hello".encode(order)) is None
    assert utf_16(bytes(range(256))) is None


@pytest.mark.parametrize("mark", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_mark_names_the_charset(mark: str) -> None:
    assert detected("é".encode(mark)) == mark


@pytest.mark.parametrize("data", [bytes(range(128, 256)), b"\x80", b"\x1b$B\xff", b""])
def test_what_is_no_text_shows_no_charset(data: bytes) -> None:
    assert detected(data) is None


@given(st.binary(max_size=300))
def test_no_character_stands_for_bytes_that_were_not_read(data: bytes) -> None:
    shown = detected(data)
    if shown is not None:
        try:
            text = decoded(data, shown)
        except UnicodeError:
            return
        assert "\ufffd" not in text or "\ufffd".encode(codec_of(shown)) in data


def test_without_the_detectors_a_text_fails_with_the_line_that_installs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "chardetng_py", None)
    assert decode("grün".encode()) == "grün"
    assert decode("grün".encode("utf-16")) == "grün"
    assert decode("grün".encode("cp1252"), "text/plain; charset=windows-1252") == "grün"
    with pytest.raises(ToolError, match=r'chardetng_py cannot be imported; install with: pip install "rrext\[docs\]"'):
        decode("Der Wald ist grün, und die Straße führt über die Höhe.".encode("cp1252"))
